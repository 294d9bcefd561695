"""Files of a text too long to hold all its weights at once: written piece by piece, they hold the same numbers, and their drawings
show what the page shows."""

import asyncio
import csv
import io
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
import torch
from drawn import Drawing, letters, mixed, rgb, saved

from models.runs.scope import Scope
from models.trace import AttentionSite, Trace
from viz_app import ui, words
from viz_app.drawing import cells, export, pooling
from viz_app.drawing.npz import PIECE, RowwiseArray, npz
from viz_app.drawing.scale import Scale
from viz_app.drawing.stamp import stamped_pieces
from viz_app.session import downloads
from viz_app.session.current_run import CurrentRun
from viz_app.session.focus import Focus
from viz_app.views.attention import payloads as attention
from viz_app.views.attention.files import attention_files, incomplete_files_note
from viz_app.views.frame.one_run import offer
from viz_app.views.masks import files as masks_files
from viz_app.views.masks.payloads import MaskChoices, masked_views

TERMS = words.terms("language")
N, K = 601, 3  # 600 letters and <s>; in at most 256 blocks of 3
TEXT = ("abcdeabcddeabcabdcea" * 30)[: N - 1]
SLAB = 23 * N  # weights computed together
TILE = (300, 5)


@pytest.fixture(scope="module")
def scope() -> Scope:
    return letters("gpt", n_ctx=N)


@pytest.fixture(scope="module")
def trace(scope: Scope) -> Trace:
    return scope.run(TEXT, None)


@pytest.fixture(scope="module")
def site(trace: Trace) -> AttentionSite:
    return list(trace.attention.values())[1]


@pytest.fixture
def together(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of scores or weights computed together, one for each time."""
    monkeypatch.setattr(pooling, "SLAB", SLAB)
    found = []

    def counted(name: str) -> Callable[..., torch.Tensor]:
        own = getattr(AttentionSite, name)

        def made(self: AttentionSite, *given: object, **named: object) -> torch.Tensor:
            values = own(self, *given, **named)
            found.append(values.numel())
            return values

        return made

    for name in ("scores", "weights"):
        monkeypatch.setattr(AttentionSite, name, counted(name))
    return found


def size_and_memory(file: Iterator[bytes]) -> tuple[int, int]:
    """Return the size of a file, and the most bytes held while its pieces are made and released."""
    tracemalloc.start()
    try:
        return sum(map(len, file)), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_table_of_a_long_text_holds_every_weight(
    trace: Trace, site: AttentionSite, together: list[int]
) -> None:
    heading, *rows = csv.reader(export.weights_csv(trace, site, 2))
    assert max(together) == SLAB
    assert len(rows) == N
    assert heading[:4] == ["query \\ key", "0 [start]", "1 a", "2 b"]
    assert [row[0].split(" → ")[0] for row in rows[:3]] == ["0 [start]", "1 a", "2 b"]
    np.testing.assert_allclose(
        np.float32([row[1:] for row in rows]), site.weights(2).numpy(), atol=1e-6
    )


def test_arrays_of_a_long_text_have_every_weight(
    trace: Trace, site: AttentionSite, together: list[int]
) -> None:
    with saved(export.head_npz(trace, site, 2)) as held:
        assert max(together) == SLAB
        assert set(held) == {"query_tokens", "key_tokens", "weights", "allowed"}
        assert held["weights"].dtype == np.float32
        assert held["allowed"].dtype == bool
        np.testing.assert_allclose(held["weights"], site.weights(2).numpy(), atol=1e-6)
        np.testing.assert_array_equal(held["allowed"], np.tril(np.ones((N, N), bool)))
        assert held["key_tokens"].tolist() == ["[start]", *TEXT]


def test_the_files_of_a_short_text_hold_the_numbers_of_its_site() -> None:
    run = letters("gpt").run("abcde", None)
    for name, one in run.attention.items():
        with saved(export.head_npz(run, one, 1)) as held:
            np.testing.assert_array_equal(held["weights"], one.weights(1).numpy(), name)


def test_all_heads_of_a_long_text_are_the_cells_of_their_pictures(
    trace: Trace, site: AttentionSite, together: list[int]
) -> None:
    name = "decoder.layer2.self_attn"
    with saved(export.heads_npz(trace)) as held:
        assert max(together) <= SLAB
        names = [
            f"decoder.layer{n}.self_attn{part}"
            for n in (1, 2)
            for part in ("", ".allowed", ".block")
        ]
        assert set(held) == {"text_tokens", *names}
        assert int(held[f"{name}.block"]) == K
        weights = np.zeros((site.n_heads, 603, 603), np.float32)
        weights[:, :N, :N] = site.weights().numpy()
        np.testing.assert_allclose(
            held[name], weights.reshape(-1, 201, K, 201, K).max((2, 4)), atol=1e-6
        )
        np.testing.assert_array_equal(
            held[f"{name}.allowed"], np.tril(np.ones((201, 201), bool))[None].repeat(3, 0)
        )


@pytest.mark.slow
def test_a_file_is_never_in_memory_as_a_whole(
    trace: Trace, site: AttentionSite, together: list[int]
) -> None:
    """Neither its n² weights nor its text are held: memory grows with the length of a row, not with their number."""
    for make, name, least in (
        (export.weights_csv, "a.csv", 4 * N * N),
        (export.head_npz, "a.npz", N * N),
    ):
        size, held = size_and_memory(stamped_pieces(make(trace, site, 0), name, {"model": "m"}))
        assert size > least
        assert (
            held < 2 * N * N
        )  # bytes, labels among them; in float32 the weights alone take 4 × N × N


def test_under_a_changed_mask_no_more_is_computed_at_once(
    scope: Scope, trace: Trace, together: list[int]
) -> None:
    choices = MaskChoices("", "", 0, "self", "decoder.layers.1.self_attn", 2)
    view = masked_views(CurrentRun(scope, trace), choices)[1]
    own = view.after.trace.attention[view.site]
    together.clear()
    with saved(masks_files.everything_npz(view)) as held:
        assert max(together) == SLAB
        of_heads = {name for name in held if "attn" in name}
        assert of_heads == {
            f"decoder.layer2.self_attn.head3.{when}" for when in ("before", "after")
        }
        np.testing.assert_allclose(
            held["decoder.layer2.self_attn.head3.after"], own.weights(2).numpy(), atol=1e-6
        )
        np.testing.assert_array_equal(
            held["self.after.additive"] == 0, np.tril(np.ones((N, N), bool))
        )
        assert held["self.after.additive"].dtype == np.float32
    together.clear()
    heading, *rows = islice(csv.reader(masks_files.masked_head_csv(view)), 1 + 30 * N)
    assert heading == [
        "query",
        "key",
        "allowed before",
        "weight before",
        "allowed after",
        "weight after",
    ]
    assert max(together) == SLAB
    query, key, may, before, _, after = zip(*rows, strict=True)
    assert [name.split()[0] for name in query] == [str(q) for q in range(30) for _ in range(N)]
    assert [name.split()[0] for name in key] == [str(k) for k in range(N)] * 30
    assert may == tuple(str(k <= q) for q in range(30) for k in range(N))
    for written in (before, after):
        np.testing.assert_allclose(
            np.float32(written).reshape(30, N), own.weights(2, rows=slice(30)).numpy(), atol=1e-6
        )


# the drawing


@pytest.mark.slow
def test_the_drawing_of_a_long_text_has_the_blocks_of_the_page(
    trace: Trace, site: AttentionSite
) -> None:
    drawing = Drawing(export.head_svg(trace, site, 1, "What it is", Scale("root")))
    shown = drawing.titled()
    assert len(shown) == 201**2
    weights = site.weights(1).numpy()
    for q, k in ((0, 0), (5, 2), (200, 200), (17, 16), (3, 9)):
        box, said = shown[q * 201 + k]
        largest = weights[q * K : q * K + K, k * K : k * K + K].max()
        if k > q:
            assert (said, box.get("fill")) == ("masked", "url(#masked)")
            continue
        assert float(said.removeprefix("largest ")) == pytest.approx(largest, abs=1e-6)
        assert said.startswith("largest ")
        assert (
            np.abs(rgb(box.get("fill")) - mixed(float(largest) ** 0.5, "#ffffff", "#1b3fae")).max()
            <= 1
        )
    assert (
        drawing.said(
            "Each cell is the largest of 3 × 3 weights. The other 8 are hidden, and so are the tokens of the largest one."
        )
        is not None
    )
    assert [text.text for text in drawing.texts if text.get("text-anchor") == "end"][1] == "3–5"


@pytest.mark.parametrize("scale", [Scale(), Scale("row"), Scale("row", hides_sinks=True)])
def test_the_drawing_of_a_part_has_its_exact_weights(
    trace: Trace, site: AttentionSite, scale: Scale
) -> None:
    drawing = Drawing(export.head_svg(trace, site, 1, "What it is", scale, TILE))
    shown, weights = drawing.titled(), site.weights(1).numpy()
    assert len(shown) == cells.TILE_SIDE**2
    assert (
        drawing.said("A part: queries 268–331 of 0–600, keys 0–63 of 0–600. All others are hidden.")
        is not None
    )
    for q, k in ((0, 0), (1, 40), (63, 63), (33, 2)):
        box, said = shown[q * cells.TILE_SIDE + k]
        assert np.float32(said) == pytest.approx(weights[268 + q, k], abs=1e-6)
        if scale.hides_sinks and k == 0:
            assert box.get("fill") == "#d3d9e6"
            continue
        row = weights[268 + q, 1 if scale.hides_sinks else 0 :]
        strength = weights[268 + q, k] / (row.max() if scale.name == "row" else 1)
        assert (
            np.abs(rgb(box.get("fill")) - mixed(float(strength), "#ffffff", "#1b3fae")).max() <= 1
        )


def test_a_short_text_has_no_note_on_hidden_weights() -> None:
    run = letters("gpt").run("abcde", None)
    drawn = cells.cells(run, next(iter(run.attention.values())), 0)
    assert export.what_is_drawn(drawn, next(iter(run.attention.values()))) == ""


def test_weights_that_were_handed_out_stay_as_they_are(trace: Trace, site: AttentionSite) -> None:
    given = site.weights()[None].clone()
    handed = replace(site, given_weights=given.clone())
    first = pooling.pooled_weights(handed, 1, K, hidden=[0])
    torch.testing.assert_close(handed.given_weights, given, rtol=0, atol=0)
    torch.testing.assert_close(first, pooling.pooled_weights(site, 1, K, hidden=[0]))


# piece by piece


def test_arrays_are_read_back_as_they_were() -> None:
    given = {
        "a": np.arange(24, dtype=np.int16).reshape(2, 3, 4),
        "none": np.zeros((0, 3), np.float32),
        "one": np.array(7),
        "turned": np.arange(6.0).reshape(2, 3).T,
        "repeated": np.broadcast_to(np.float32([1, 2]), (PIECE // 4, 2)),
        "words": np.array(["é", "漢字", ""]),
    }
    rows = RowwiseArray((5, 2), np.float32, lambda: (np.full((n, 2), n) for n in (2, 3)))
    with saved([*given.items(), ("rows", rows)]) as held:
        for name, array in given.items():
            assert held[name].dtype == array.dtype
            np.testing.assert_array_equal(held[name], array)
        assert held["rows"].dtype == np.float32
        assert held["rows"].tolist() == [[2, 2]] * 2 + [[3, 3]] * 3


def test_rows_that_are_missing_are_named() -> None:
    short = RowwiseArray((5, 2), np.float32, lambda: iter([np.zeros((3, 2))]))
    with pytest.raises(
        ValueError, match=r"^rows: 4 of the numbers in its shape \(5, 2\) are missing$"
    ):
        list(npz([("rows", short)]))


# the buttons


def test_files_of_a_long_text_are_sent_while_they_are_made_and_the_page_lists_their_content(
    scope: Scope, trace: Trace, site: AttentionSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    links: dict[str, str] = {}
    monkeypatch.setattr(ui, "show", lambda component, data: links.update(named(data)))
    run, choices = CurrentRun(scope, trace), attention.AttentionChoices(Focus(site.name, 2), TILE)
    offer(attention_files(run, choices), lambda: run)
    assert list(links) == ["This head, CSV", "This head, npz", "This head, SVG", "All heads, npz"]
    assert incomplete_files_note(run, choices) == (
        "For this head, the CSV and the npz have all 361,201 weights (up to 5 and 2 MB). The SVG has the exact weights of the part "
        "that is shown. For all heads, the npz has the largest of each block of 3 × 3 weights."
    )
    status, headers, body = fetched(links["This head, npz"])
    assert status == 200
    assert (
        headers["content-disposition"]
        == "attachment; filename*=UTF-8''letters.decoder.layer2.self_attn.head3.npz"
    )
    assert headers["cache-control"] == "no-store"
    with np.load(io.BytesIO(body)) as held:
        assert f"text: {TEXT}" in held["about"].tolist()
        np.testing.assert_allclose(held["weights"], site.weights(2).numpy(), atol=1e-6)
    table = fetched(links["This head, CSV"])[2].decode()
    assert table.startswith("# model: letters\r\n")
    assert len(table) < 5.1e6
    again = dict(links)
    whole = attention.AttentionChoices(Focus(site.name, 1))
    offer(attention_files(run, whole), lambda: run)
    assert links == again  # a link on the page stays good
    assert "head2" in fetched(links["This head, CSV"])[1]["content-disposition"]
    assert "The SVG has the largest of each block of 3 × 3 weights" in incomplete_files_note(
        run, whole
    )


def named(data: dict) -> dict[str, str]:
    """Return the address of each file, by its label."""
    return {file["label"]: file["url"] for file in data["files"]}


def test_a_file_that_is_not_offered_is_not_found() -> None:
    status, _, body = fetched("/file/x")
    assert (status, body) == (
        404,
        b"This file is no longer offered; open its page again and download it there.",
    )


def fetched(url: str) -> tuple[int, dict[str, str], bytes]:
    """Return the server's answer: status, headers, body."""
    sent: list[dict] = []

    async def send(message: dict) -> None:
        sent.append(message)

    async def receive() -> dict:
        await asyncio.Event().wait()

    (route,) = downloads.download_routes()
    scope = {
        "type": "http",
        "method": "GET",
        "path": url,
        "headers": [],
        "query_string": b"",
        "root_path": "",
    }
    scope |= route.matches(scope)[1]
    asyncio.run(route.handle(scope, receive, send))
    headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], headers, b"".join(part.get("body", b"") for part in sent[1:])
