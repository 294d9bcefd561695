"""Pages of a text too long to send every weight: a part around the chosen weight, or the largest of each block."""

import io
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from drawn import letters, on_screen
from torch.utils._python_dispatch import TorchDispatchMode

from models.analysis import slices
from models.decoding.runs import Method
from models.runs.masked_comparison import run_masked
from models.runs.scope import Scope
from models.trace import AttentionSite, Trace
from models.trace.edits import MaskChange, for_kinds
from viz_app import words
from viz_app.drawing import cells, pooling
from viz_app.drawing.payload import unpack
from viz_app.drawing.weight_cell import chosen_cell
from viz_app.session.current_run import CurrentRun
from viz_app.views.decoding import payloads as decoding
from viz_app.views.decoding.decoding_runs import decoder_attention
from viz_app.views.inside import matrices as inside_matrices
from viz_app.views.inside import payloads as inside
from viz_app.views.inside import several as several_heads
from viz_app.views.inside.files import matrices_npz
from viz_app.views.inside.several import HeadGroup, several_payload
from viz_app.views.masks import painter
from viz_app.views.masks import payloads as masks
from viz_app.views.masks.mask_view import MaskView
from viz_app.views.masks.mask_view import mask_checks as masks_checks

TERMS = words.terms("language")
TEXT = "abcdeabcddeabcabdceab"  # with <s> before them 22 tokens
N, TILE, K, HEAD = 22, 4, 5, 2
OWN = "decoder.layers.1.self_attn"


@pytest.fixture(autouse=True)
def _small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, limit in (("MAX_WHOLE_TOKENS", N - 1), ("MAX_POOLED_BLOCKS", 5), ("TILE_SIDE", TILE)):
        monkeypatch.setattr(cells, name, limit)
    monkeypatch.setattr(pooling, "SLAB", 7 * N)
    monkeypatch.setattr(several_heads, "MAX_STRAND_BLOCKS", 5)


@pytest.fixture(scope="module")
def scope() -> Scope:
    return letters("gpt")


@pytest.fixture(scope="module")
def trace(scope: Scope) -> Trace:
    return scope.run(TEXT, None)


@pytest.fixture(scope="module")
def site(trace: Trace) -> AttentionSite:
    return trace.attention[OWN]


def largest(weights: np.ndarray, side: int = 1) -> np.ndarray:
    """Return the largest weight of each block of K keys and `side` queries."""
    return np.array(
        [
            [weights[q : q + side, k : k + K].max() for k in range(0, weights.shape[1], K)]
            for q in range(0, len(weights), side)
        ]
    )


# several heads


def test_a_line_of_several_heads_is_the_largest_weight_of_its_block(
    trace: Trace, site: AttentionSite
) -> None:
    header, arrays = unpack(several_payload(HeadGroup(trace, "self", "first", (4, 5)), TERMS, 13))
    assert (header["block"], header["query"]) == (K, 2)
    assert [label[0] for label in header["queries"]] == ["0–4", "5–9", "10–14", "15–19", "20–21"]
    for drawn, head in zip(arrays["weights"], (1, 2), strict=True):
        np.testing.assert_allclose(drawn, largest(site.weights(head).numpy(), K), atol=1e-6)
    assert arrays["first"].tolist() == pytest.approx(
        [
            float(trace.attention[name].weights(h)[:, 0].mean())
            for name in ("decoder.layers.0.self_attn", OWN)
            for h in range(3)
        ]
    )


# matrices


@pytest.mark.parametrize(("query", "key", "rows", "columns"), [
    (13, 3, (11, 15), (1, 5)), (9, 9, (7, 11), (7, 11)), (21, 0, (18, 22), (0, 4)),
])  # fmt: skip
def test_matrices_are_shown_around_the_chosen_weight(
    trace: Trace,
    site: AttentionSite,
    query: int,
    key: int,
    rows: tuple[int, int],
    columns: tuple[int, int],
) -> None:
    cell = chosen_cell(trace, site, HEAD, query, key)
    header, arrays = unpack(inside_matrices.matrices(trace, cell, TERMS))
    queries, keys = slice(*rows), slice(*columns)
    whole = {"scores": site.scores(HEAD), "weights": site.weights(HEAD)}
    for name, numbers in whole.items():
        np.testing.assert_allclose(arrays[name], numbers[queries, keys], atol=1e-6)
    for name, numbers in {"q": site.q[0, HEAD], "x": site.x[0], "b": site.head_out(HEAD)}.items():
        np.testing.assert_allclose(arrays[name], numbers[queries], atol=1e-6)
    for name, numbers in {"k": site.k[0, HEAD], "v": site.v[0, HEAD]}.items():
        np.testing.assert_allclose(arrays[name], numbers[keys], atol=1e-6)
    np.testing.assert_array_equal(arrays["blocked"] == 0, site.allowed()[queries, keys])
    assert (header["first"], header["query"], header["key"]) == (
        [rows[0], columns[0]],
        query - rows[0],
        key - columns[0],
    )
    assert header["part"] == (
        f"Around the chosen weight: queries {rows[0]} to {rows[1] - 1} of 22 and keys {columns[0]} to {columns[1] - 1} of 22. "
        "The softmax and the mixture of the values are over all keys."
    )
    named = [label[0].split(" → ")[0] for label in header["tokens"]["query"]]
    assert named == ["[start]", *TEXT][queries]
    assert [label[0] for label in header["tokens"]["key"]] == ["[start]", *TEXT][keys]
    read = header["equations"][1]["terms"][0][
        "matrix"
    ]  # the input of the keys is shown with its own rows
    assert read == ("x" if rows == columns else "memory")
    np.testing.assert_allclose(arrays[read], site.x[0, keys], atol=1e-6)
    with np.load(io.BytesIO(matrices_npz(cell))) as file:
        np.testing.assert_array_equal(file["weights"], arrays["weights"])
        assert file["first"].tolist() == [rows[0], columns[0]]


# masks


CHANGE = MaskChange(block=((9, 3), (21, 21)), allow=((2, 19),))


@pytest.fixture(scope="module")
def views(scope: Scope) -> dict[tuple[int, int] | None, MaskView]:
    changes = for_kinds(self=CHANGE)
    before, after = (
        run_masked(scope, [(TEXT, None)], edits, max_new=2)[0] for edits in ((), changes)
    )
    return {
        tile: MaskView(before, after, changes, "self", OWN, HEAD, TERMS, tile)
        for tile in (None, (9, 3))
    }


def test_a_block_of_a_mask_is_open_where_any_cell_is_and_has_the_largest_weights(
    views: dict,
) -> None:
    view = views[None]
    header, arrays = unpack(painter.masks(view))
    effect = header["effect"]
    for told in (header, effect):
        assert (told["block"], told["first"], told["size"]) == (K, [0, 0], [N, N])
        assert [label[0] for label in told["keys"]] == ["0–4", "5–9", "10–14", "15–19", "20–21"]
    own, changed = (site.allowed().numpy() for site in view.sites)
    np.testing.assert_array_equal(arrays["base"] == 0, largest(own, K))
    assert set(arrays["base"][arrays["base"] > 0]) == {
        1 << [x.name for x in view.sites[0].mask.layers].index("look-ahead")
    }
    before, after = (site.weights(HEAD).numpy() for site in view.sites)
    for name, weights, may in (("before", before, own), ("after", after, changed)):
        np.testing.assert_allclose(arrays[name], largest(weights, K), atol=1e-6)
        np.testing.assert_array_equal(arrays[f"blocked{name.title()}"], ~largest(may, K))
    change = after - before
    up, down = largest(change, K), largest(-change, K)
    np.testing.assert_allclose(arrays["difference"], np.where(up >= down, up, -down), atol=1e-6)
    assert arrays["difference"].min() < 0 < arrays["difference"].max()
    whole = header["strip"][0]["pictures"][-1]
    assert (whole["blocked"], whole["cells"]) == (int((~changed).sum()), N * N)


def test_a_part_of_a_mask_has_every_cell_around_its_position(views: dict) -> None:
    view = views[9, 3]
    header, arrays = unpack(painter.masks(view))
    rows, columns = slice(7, 11), slice(1, 5)
    assert (header["block"], header["first"], header["size"]) == (1, [7, 1], [N, N])
    assert [label[0] for label in header["keys"]] == [*TEXT][:4]
    before, after = (
        (site.weights(HEAD)[rows, columns], site.allowed()[rows, columns]) for site in view.sites
    )
    np.testing.assert_array_equal(arrays["base"] == 0, before[1])
    for name, (weights, may) in (("before", before), ("after", after)):
        np.testing.assert_allclose(arrays[name], weights, atol=1e-6)
        np.testing.assert_array_equal(arrays[f"blocked{name.title()}"], ~may)
    assert not after[1][2, 2]
    np.testing.assert_allclose(arrays["difference"], after[0] - before[0], atol=1e-6)


def test_the_checks_of_masks_find_a_cell_in_any_slab(views: dict) -> None:
    assert [check.value for check in masks_checks(views[None])] == [0.0, 0.0]
    view = views[None]
    forged = replace(view, changes=for_kinds(self=MaskChange(block=((20, 1),))))
    found = masks_checks(forged)[1].value
    assert found == pytest.approx(
        max(float(s.weights()[:, 20, 1].max()) for s in view.after.trace.attention.values()),
        abs=1e-7,
    )


# decoding


def test_the_rows_of_a_step_hold_the_largest_of_each_block(
    scope: Scope, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cells, "MAX_WHOLE_TOKENS", 12)
    run = CurrentRun(scope, scope.run(TEXT[:6], TEXT[6:]))
    shown = decoder_attention(run.trace, 1, HEAD)
    drawn = on_screen(
        decoding.decoding_payloads(
            run,
            decoding.DecodingChoices(
                Method(max_new=3), shown, decoding.DecodingPosition(), run.input_ids
            ),
        )
    )
    header, arrays = unpack(drawn["stepper"])
    weights = run.trace.attention[OWN].weights(HEAD)[6 : N - 1, : N - 1]
    assert header["block"] == K
    np.testing.assert_allclose(
        arrays["parallel_self"], largest(torch.tril(weights, 6).numpy()), atol=1e-6
    )
    assert arrays["serial_self"].shape == (3, 2)
    assert [label[0] for label in header["blocks"]["parallel"]] == [
        "0–4",
        "5–9",
        "10–14",
        "15–19",
        "20–20",
    ]
    assert header["blocks"]["parallel"][1][1] == "from e to d"
    assert [label[0] for label in header["blocks"]["serial"]] == ["0–4", "5–8"]


# never all of it


class Largest(TorchDispatchMode):
    """Measure the number of elements of the largest floating-point tensor made inside the block."""

    def __init__(self) -> None:
        super().__init__()
        self.n = 0

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        made = function(*args, **(kwargs or {}))
        for one in made if isinstance(made, tuple | list) else [made]:
            if isinstance(one, torch.Tensor) and one.is_floating_point():
                self.n = max(self.n, one.untyped_storage().nbytes() // one.element_size())
        return made


@pytest.mark.slow(except_one_in=3)
@pytest.mark.parametrize(
    "view", ["walk", "matrices", "heads", "several", "decoding", "masks", "a part of masks"]
)
def test_no_page_holds_all_weights_of_a_head(view: str, monkeypatch: pytest.MonkeyPatch) -> None:
    n = 200
    for module, name, limit in (
        (cells, "MAX_WHOLE_TOKENS", 50),
        (cells, "MAX_POOLED_BLOCKS", 20),
        (slices, "WEIGHTS_PER_SLICE", 12 * n),
        (pooling, "SLAB", 12 * n),
    ):
        monkeypatch.setattr(module, name, limit)
    scope = letters("gpt", n_ctx=n)
    run = CurrentRun(scope, scope.run("abcde", ("abcde" * n)[: n - 6]))

    def pictures() -> dict:
        if view == "decoding":
            shown = decoder_attention(run.trace, 1, HEAD)
            return on_screen(
                decoding.decoding_payloads(
                    run,
                    decoding.DecodingChoices(
                        Method(max_new=3), shown, decoding.DecodingPosition(), run.input_ids
                    ),
                )
            )
        if "masks" in view:
            return on_screen(
                masks.mask_payloads(
                    run,
                    masks.MaskChoices(
                        "", "", 0, "self", OWN, HEAD, (9, 3) if view != "masks" else None
                    ),
                )
            )
        return on_screen(
            inside.walk_payloads(
                run, inside.HeadWalkChoices(view, "rows", OWN, HEAD, None, None, 0)
            )
        )

    first = pictures()  # new runs of the model are cached
    with Largest() as largest_tensor:
        again = pictures()
    assert again == first
    assert 12 * n <= largest_tensor.n < n * n / 2
    sent = [
        array
        for picture in first.values()
        if isinstance(picture, bytes)
        for array in unpack(picture)[1].values()
    ]
    assert sum(array.nbytes for array in sent) < 4 * n * n / 2
