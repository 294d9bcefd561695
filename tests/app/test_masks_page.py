"""The page Masks and its runs: a changed mask has the effect of the same mask by hand, in explicit attention with −∞."""

import csv
import io
import math
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from app_parts import assert_all_passed, page_at, picture, with_key
from drawn import saved
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some
from streamlit.testing.v1 import AppTest
from torch import Tensor

import models
from models import decoding
from models.analysis.checks import check_site
from models.architectures.transformer import Transformer
from models.layers.masks import DRAWN, LOOK_AHEAD, PADDING, Mask, SiteKind
from models.runs.masked_comparison import MaskedRun, run_masked
from models.runs.scope import Scope
from models.tokenizers.base import END, PAD, START
from models.trace.edits import READY_MADE, Edits, MaskChange, for_kinds, mask_change, ready_made
from viz_app import words
from viz_app.drawing.payload import unpack
from viz_app.input_bar.examples import examples
from viz_app.session import mask_notation as masks_notation
from viz_app.views.masks import files as masks_files
from viz_app.views.masks import mask_view, outcome_text, painter
from viz_app.views.masks import text as masks_text
from viz_app.views.masks.controls import default_second
from viz_app.views.masks.mask_view import MaskView

LONG, SHORT = "March 5, 2021", "24/07/69"
KIND = {kind.name: kind for kind in Transformer.kinds}
KINDS = tuple(KIND)
LIFTED = for_kinds(decoder_self=MaskChange(removed_layers=(LOOK_AHEAD,)))
PAINTED = for_kinds(
    encoder_self=MaskChange(block=((0, 1), (3, 3)), preset="window", k=5),
    decoder_self=MaskChange(block=((2, 0), (2, 1), (2, 2)), allow=((1, 4),)),
    cross=MaskChange(removed_layers=(PADDING,), block=((1, 0), (1, 1), (4, 2))),
)


@pytest.fixture(scope="module")
def dates() -> Scope:
    return models.load("dates", device="cpu")


@pytest.fixture(scope="module")
def own(dates: Scope) -> list[MaskedRun]:
    return run_masked(dates, [(LONG, None), (SHORT, None)])


def again(scope: Scope, own: list[MaskedRun], changes: Edits) -> list[MaskedRun]:
    return run_masked(
        scope,
        [(run.trace.streams["source"].text, run.trace.streams["target"]) for run in own],
        changes,
    )


# the independent route: the whole model written out, masks as 0 and −∞


def minus_infinity(allowed: Tensor) -> Tensor:
    return torch.where(allowed, 0.0, -math.inf)


class ByHand:
    """The paper's Transformer (post-LN, ReLU, one embedding) from its parameters alone, for one row of a batch."""

    def __init__(self, scope: Scope) -> None:
        self.p, self.config = scope.model.state_dict(), scope.config

    def attend(self, name: str, x: Tensor, memory: Tensor, added: Tensor) -> Tensor:
        heads, d_head = self.config.n_heads, self.config.d_model // self.config.n_heads
        inputs = zip("QKV", (x, memory, memory), strict=True)
        q, k, v = (self.linear(f"{name}.W_{w}", t).view(-1, heads, d_head) for w, t in inputs)
        mixed = []
        for head in range(heads):
            scores = q[:, head] @ k[:, head].T / d_head**0.5 + added
            weights = torch.nan_to_num(torch.exp(scores - scores.max(1, keepdim=True).values))
            total = weights.sum(1, keepdim=True)
            mixed.append(torch.where(total > 0, weights / total, 0.0) @ v[:, head])
        return self.linear(f"{name}.W_O", torch.cat(mixed, 1))

    def linear(self, name: str, x: Tensor) -> Tensor:
        return x @ self.p[f"{name}.weight"].T + self.p[f"{name}.bias"]

    def norm(self, name: str, x: Tensor) -> Tensor:
        centred = x - x.mean(-1, keepdim=True)
        scaled = centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt()
        return scaled * self.p[f"{name}.layer_norm.weight"] + self.p[f"{name}.layer_norm.bias"]

    def feed_forward(self, name: str, x: Tensor) -> Tensor:
        return self.linear(f"{name}.W_2", self.linear(f"{name}.W_1", x).clamp(min=0))

    def embed(self, ids: Tensor) -> Tensor:
        n, d = len(ids), self.config.d_model
        angle = torch.arange(n, dtype=torch.float64)[:, None] / 10000 ** (torch.arange(0, d, 2) / d)
        position = torch.stack([angle.sin(), angle.cos()], 2).flatten(1).float()
        return self.p["embedding.weight"][ids] * d**0.5 + position

    def log_probs(self, source: Tensor, target: Tensor, allowed: dict[str, Tensor]) -> Tensor:
        n, m = len(source), len(target)
        added = {kind: minus_infinity(allowed[kind]) for kind in KINDS}
        x = self.embed(source)
        for i in range(self.config.n_encoder_layers):
            at = f"encoder.layers.{i}"
            x = self.norm(
                f"{at}.add_norm_1",
                x + self.attend(f"{at}.self_attn", x, x, added["encoder_self"][:n, :n]),
            )
            x = self.norm(f"{at}.add_norm_2", x + self.feed_forward(f"{at}.ff", x))
        y = self.embed(target)
        for i in range(self.config.n_decoder_layers):
            at = f"decoder.layers.{i}"
            y = self.norm(
                f"{at}.add_norm_1",
                y + self.attend(f"{at}.self_attn", y, y, added["decoder_self"][:m, :m]),
            )
            y = self.norm(
                f"{at}.add_norm_2",
                y + self.attend(f"{at}.cross_attn", y, x, added["cross"][:m, :n]),
            )
            y = self.norm(f"{at}.add_norm_3", y + self.feed_forward(f"{at}.ff", y))
        return (y @ self.p["embedding.weight"].T).log_softmax(-1)


def masks_by_hand(source: Tensor, size: int, changes: Edits) -> dict[str, Tensor]:
    """Write out PAINTED and LIFTED as matrices that are large enough for any prefix, without target padding."""
    n = len(source)
    real = (source != PAD)[None].expand(size, n)
    causal = torch.ones(size, size).tril().bool()
    allowed = {"encoder_self": real[:n].clone(), "decoder_self": causal, "cross": real.clone()}
    if changes == LIFTED:
        allowed["decoder_self"][:] = True
    if changes == PAINTED:
        for i in range(n):
            for j in range(n):
                allowed["encoder_self"][i, j] &= abs(i - j) <= 5
        allowed["encoder_self"][0, 1] = allowed["encoder_self"][3, 3] = False
        allowed["decoder_self"][2, :3] = False
        allowed["decoder_self"][1, 4] = True
        allowed["cross"][:] = True
        allowed["cross"][1, :2] = allowed["cross"][4, 2] = False
    return allowed


@pytest.mark.slow(except_one_in=3)
@pytest.mark.parametrize("changes", [(), LIFTED, PAINTED], ids=["own", "lifted", "painted"])
@pytest.mark.parametrize("row", [0, 1])
def test_a_changed_run_is_the_run_with_that_mask_by_hand(
    dates: Scope, own: list[MaskedRun], changes: Edits, row: int
) -> None:
    run, hand = again(dates, own, changes)[row], ByHand(dates)
    n = max(len(r.trace.streams["source"].ids) for r in own)
    source = torch.tensor(
        [*run.trace.streams["source"].ids, *[PAD] * (n - len(run.trace.streams["source"].ids))]
    )
    allowed = masks_by_hand(source, 40, changes)
    by_hand = hand.log_probs(source, torch.tensor(run.trace.streams["target"].ids), allowed)
    torch.testing.assert_close(
        torch.tensor(run.log_probs), by_hand[range(11), run.labels], atol=2e-4, rtol=1e-4
    )
    assert run.log_prob == pytest.approx(float(by_hand[range(11), run.labels].sum()), abs=2e-3)
    written = [START]
    while written[-1] != END and len(written) < 40:
        written.append(int(hand.log_probs(source, torch.tensor(written), allowed)[-1].argmax()))
    limit = dates.model.max_new_tokens(len(run.trace.streams["source"].ids))
    assert list(run.output_ids) == written[1 : limit + 1]
    assert run.output == dates.tokenizer.decode(written[1:])


def test_removing_look_ahead_changes_the_loss_and_the_page_gives_the_direction(
    dates: Scope, own: list[MaskedRun]
) -> None:
    after = again(dates, own, LIFTED)[0]
    said = outcome_text.look_ahead_effect(own[0], after, LIFTED, Transformer.kinds)
    assert ("rises" in said) == (after.log_prob < own[0].log_prob)
    assert ("falls" in said) == (after.log_prob > own[0].log_prob)
    assert f"{-after.log_prob / 11:.3f} nats" in said
    assert outcome_text.look_ahead_effect(own[0], own[0], (), Transformer.kinds) == ""


# the back end


TABLES = {
    "none": "..... ..... .....", "causal": ".xxxx ..xxx ...xx", "window": "..xxx ...xx x...x",
    "previous": "xxxxx .xxxx x.xxx", "block-diagonal": ".xxxx x.xxx xx.xx",
}  # fmt: skip


@pytest.mark.parametrize("name", READY_MADE)
def test_preset_masks_against_truth_tables(name: str) -> None:
    table = torch.tensor([[sign == "." for sign in row] for row in TABLES[name].split()])
    assert torch.equal(ready_made(name, 1, 3, 5), table)


def test_blocks_of_two() -> None:
    assert ready_made("block-diagonal", 2, 3, 5).int().tolist() == [
        [1, 1, 0, 0, 0],
        [1, 1, 0, 0, 0],
        [0, 0, 1, 1, 0],
    ]


@pytest.mark.parametrize(("name", "k"), [("diagonal", 1), ("window", -1), ("block-diagonal", 0)])
def test_an_invalid_preset_mask_is_refused(name: str, k: int) -> None:
    with pytest.raises(ValueError, match=r"must be at least|is one of"):
        ready_made(name, k, 3, 3)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", READY_MADE)
def test_a_preset_mask_is_named_by_its_effect(kind: str, name: str) -> None:
    """Between two texts nothing comes before or after, so the name speaks of positions; in the decoder, look-ahead stays on."""
    label = masks_text.ready_label(KIND[kind], name, "")
    layer = MaskChange(preset=name, k=2).preset_name
    why = masks_text.reason(KIND[kind], layer, True)
    if kind == "cross":
        assert not {"causal", "before and", "previous", "back", "itself"} & set(
            label.replace(":", "").split()
        )
        assert name == "none" or "position" in label
        assert name == "none" or ("in the source" in why and "in the target" in why)
        assert "look-ahead" not in masks_text.mask_layer_name(KIND[kind], layer)
    else:
        assert "source" not in label
        assert ("does not exist yet" in why) == (kind == "decoder_self" and name == "causal")
    allowed = ready_made(name, 2, 5, 5) & (
        ready_made("causal", 1, 5, 5) if kind == "decoder_self" and name != "none" else True
    )
    ahead = bool(allowed.triu(1).any())
    assert ("back" in label or "ahead" in label) == (
        kind == "decoder_self" and not ahead and name in ("window", "block-diagonal")
    )
    if name == "causal" and kind == "cross":
        assert (label, masks_text.mask_layer_name(KIND[kind], layer)) == (
            "source positions up to its own",
            "positions up to its own",
        )
        assert why == "its position in the source is after the query's in the target"
        assert not ready_made(name, 2, 5, 5)[
            1, 2
        ]  # row 1 may not read column 2: the source position after the query's


def test_a_prefix_uses_the_part_of_the_mask_that_is_stated(
    dates: Scope, own: list[MaskedRun]
) -> None:
    change = MaskChange(preset="previous")
    for kind, said, shape in (
        ("decoder_self", "top-left m × m part", (3, 3)),
        ("cross", "first m rows", (3, 9)),
    ):
        site = next(s for s in own[0].trace.attention.values() if s.kind == kind)
        assert said in masks_text.rules(site)
        whole = ready_made("previous", 1, 9, 9)
        part = change.apply(Mask(), *shape).expanded(0, 0, *shape)
        assert torch.equal(part, whole[: shape[0], : shape[1]])
    assert "with the bias of W_O alone" in masks_text.rules(site, False)
    assert "with its residual stream and the bias of W_O alone" in masks_text.rules(site)


def test_no_change_is_exactly_the_models_own_run(dates: Scope, own: list[MaskedRun]) -> None:
    for run, trace in zip(own, dates.run_batch([(LONG, None), (SHORT, None)]), strict=True):
        assert torch.equal(run.trace.next_token.logits, trace.next_token.logits)
        assert run.trace.streams["target"].ids == trace.streams["target"].ids
        assert run.output == trace.output


def test_cached_decoding_under_changes_is_uncached_decoding(dates: Scope) -> None:
    source = dates.encode(source=LONG)["source"].ids
    for decoder in (
        MaskChange(block=((2, 0), (3, 1), (5, 5))),
        MaskChange(preset="window", k=2),
    ):
        changes = for_kinds(
            decoder_self=decoder, cross=MaskChange(block=((4, 2), (1, 1)), preset="causal")
        )
        runs = [
            list(decoding.greedy(dates.model, source, edits=changes, use_cache=use))
            for use in (True, False)
        ]
        assert [step.token for step in runs[0]] == [step.token for step in runs[1]]
        for cached, plain in zip(*runs, strict=True):
            torch.testing.assert_close(cached.log_probs, plain.log_probs, atol=1e-4, rtol=1e-4)


def test_nothing_is_cached_if_a_token_may_see_ahead(dates: Scope) -> None:
    source = torch.tensor([dates.encode(source=LONG)["source"].ids])
    lifted = (LOOK_AHEAD,)
    ahead = (
        MaskChange(allow=((2, 3),)),
        MaskChange(removed_layers=lifted),
        MaskChange(removed_layers=lifted, preset="window"),
    )
    behind = (
        MaskChange(),
        MaskChange(allow=((3, 0),)),
        MaskChange(removed_layers=lifted, preset="causal"),
        MaskChange(removed_layers=(), preset="window"),
    )
    with torch.inference_mode():
        runs = [
            decoding.Incremental(dates.model, source, edits=for_kinds(decoder_self=c))
            for c in (*ahead, *behind)
        ]
    assert [run.cache is None for run in runs] == [True] * len(ahead) + [False] * len(behind)


def test_a_row_with_nothing_to_read_has_zeros_and_no_nan(
    dates: Scope, own: list[MaskedRun]
) -> None:
    row = tuple((3, key) for key in range(11))
    changes = for_kinds(decoder_self=MaskChange(block=row), cross=MaskChange(preset="previous"))
    run = again(dates, own, changes)[0]
    assert run.trace.next_token.logits.isfinite().all()
    for site in run.trace.attention.values():
        if site.kind != "encoder_self":
            blocked = 3 if site.kind == "decoder_self" else 0
            assert site.weights()[:, blocked].eq(0).all()
            assert site.out[0, :, blocked].eq(0).all()
        assert all(check.passed for check in check_site(site))
    view = MaskView(
        own[0], run, changes, "decoder_self", "decoder.layers.0.self_attn", 1, words.terms("dates")
    )
    assert any("“2 → " in line for line in painter.painted_outcome(view))


def test_cells_beyond_the_mask_do_nothing(dates: Scope, own: list[MaskedRun]) -> None:
    changes = for_kinds(decoder_self=MaskChange(block=((50, 1), (1, 50)), allow=((70, 70),)))
    assert again(dates, own, changes)[0].output_ids == own[0].output_ids
    assert again(dates, own, changes)[0].log_probs == pytest.approx(own[0].log_probs, abs=1e-6)


# the text in the URL

CELLS = some.lists(
    some.tuples(some.integers(0, 12), some.integers(0, 12), some.integers(0, 1)), max_size=60
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # a busy machine is slow
@given(
    CELLS,
    some.sampled_from(KINDS),
    some.sampled_from(READY_MADE),
    some.integers(1, 40),
    some.booleans(),
)
def test_a_change_goes_through_the_url_unharmed(
    cells: list, kind: str, ready: str, k: int, padded: bool
) -> None:
    drawn = masks_notation.with_painted(MaskChange(), cells)
    change = masks_notation.with_padding_masked(
        masks_notation.with_preset(KIND[kind], drawn, ready, k), padded
    )
    found = masks_notation.parse_mask(masks_notation.mask_to_text(change))
    assert (found.removed_layers, found.preset, found.block, found.allow) == (
        change.removed_layers, change.preset, change.block, change.allow,
    )  # fmt: skip
    assert found.preset_name == change.preset_name
    assert masks_notation.preset_of(KIND[kind], found) == ready


def test_painted_cells_make_a_short_text() -> None:
    cells = [(q, k, 0) for q in range(3, 9) for k in range(2, 20)] + [(0, 5, 1)]
    assert (
        masks_notation.mask_to_text(masks_notation.with_painted(MaskChange(), cells))
        == "f3-8.2-19_a0.5"
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "f",
        "f1",
        "f1.",
        "x3.4",
        "f99999.1",
        "f9-3.1",
        "window",
        "window0x",
        "f0-4095.0-4095",
        "__",
        "f1.1-",
    ],
)
def test_an_unreadable_text_paints_nothing(text: str) -> None:
    assert masks_notation.parse_mask(text) == MaskChange()


@pytest.mark.parametrize("name", ["none", "window", "causal"])
def test_only_the_preset_none_removes_the_models_own_layers_and_padding_always_stays(
    name: str,
) -> None:
    kind = SiteKind("self", "decoder", "self", "text", "text")
    own = (PADDING, LOOK_AHEAD, "window of 3")
    change = masks_notation.with_preset(kind, MaskChange(), name, 2, own)
    assert change.removed_layers == (own[1:] if name == "none" else ())


def test_a_missing_preset_mask_is_refused() -> None:
    with pytest.raises(ValueError, match="is one of"):
        masks_notation.with_preset(KIND["cross"], MaskChange(), "diagonal", 1)


# the data of the browser, and files


@pytest.fixture(scope="module")
def painted(dates: Scope, own: list[MaskedRun]) -> MaskView:
    after = again(dates, own, PAINTED)
    return MaskView(
        own[1], after[1], PAINTED, "cross", "decoder.layers.1.cross_attn", 2, words.terms("dates")
    )


def test_the_payload_holds_the_models_numbers(painted: MaskView) -> None:
    header, arrays = unpack(painter.masks(painted))
    before, after = painted.sites
    np.testing.assert_array_equal(arrays["before"], before.weights(2).numpy())
    np.testing.assert_array_equal(arrays["after"], after.weights(2).numpy())
    np.testing.assert_array_equal(
        arrays["difference"], (after.weights(2) - before.weights(2)).numpy()
    )
    np.testing.assert_array_equal(arrays["blockedAfter"], (~after.allowed()).numpy())
    np.testing.assert_array_equal(arrays["logAfter"], np.float32(painted.after.log_probs))
    assert header["effect"]["sums"] == [painted.before.log_prob, painted.after.log_prob]
    assert [[q, k] for q, k, _ in header["painted"]] == [
        list(cell) for cell in mask_change(PAINTED, "cross").block
    ]
    assert arrays["base"].any() == False  # noqa: E712 (padding is lifted; what is painted is told apart)
    assert [label[0] for label in header["keys"]][-1] == "[padding]"
    for block in header["strip"]:
        size = block["rows"] * block["cols"]
        cells = [arrays["strip"][p["offset"] : p["offset"] + size] for p in block["pictures"]]
        np.testing.assert_array_equal(
            np.logical_and.reduce(cells[:-1]) if cells[:-1] else cells[-1] == 1, cells[-1]
        )
    names = {block["kind"]: [p["name"] for p in block["pictures"]] for block in header["strip"]}
    assert names["encoder_self"] == ["source padding", "window of 5", DRAWN, "combined"]
    assert names["decoder_self"] == ["target padding", LOOK_AHEAD, DRAWN, "combined"]
    assert names["cross"] == [DRAWN, "combined"]


def test_the_checks_pass_and_would_not_if_a_painted_cell_had_weight(painted: MaskView) -> None:
    assert all(check.passed for check in mask_view.mask_checks(painted))
    unpainted = MaskView(
        painted.before, painted.before, PAINTED, "cross", painted.site, 2, painted.terms
    )
    assert [check.passed for check in mask_view.mask_checks(unpainted)] == [True, False]


def test_files(painted: MaskView) -> None:
    table = list(csv.reader(io.StringIO(masks_files.log_probs_csv(painted))))
    assert [float(row[2]) for row in table[1:]] == [
        *painted.after.log_probs,
        painted.after.log_prob,
    ]
    table = list(csv.DictReader(masks_files.masked_head_csv(painted)))
    after = painted.sites[1]
    weights = [np.float32(row["weight after"]) for row in table]
    np.testing.assert_array_equal(weights, after.weights(2).flatten().numpy())
    assert [row["allowed after"] for row in table] == [
        str(bool(x)) for x in after.allowed().flatten()
    ]
    files = saved(masks_files.everything_npz(painted))
    np.testing.assert_array_equal(files["decoder.layer2.cross_attn.after"], after.weights().numpy())
    np.testing.assert_array_equal(files["cross.after.additive"] == 0, files["cross.after.allowed"])
    np.testing.assert_array_equal(files[f"cross.after.layer.{DRAWN}"], files["cross.after.allowed"])
    drawing = masks_files.masks_svg(painted)
    rectangles = ElementTree.fromstring(drawing).findall(".//{*}rect")
    assert sum(r.get("width") == "22" for r in rectangles) == 4 * after.allowed().numel()


# the page


def open_page(**params: str) -> AppTest:
    return page_at("masks", **{"checkpoint": "dates", "source": LONG, **params})


def shown(app: AppTest) -> tuple[dict, dict]:
    assert_all_passed(app, 5)
    return picture(app, "mask_painter")


def test_a_painted_link_shows_that_mask(dates: Scope) -> None:
    app = open_page(
        masks_second=SHORT, masks_shown="second", decoder_mask="f2.0-1_a0.3", mask="decoder_self"
    )
    header, _ = shown(app)
    changes = for_kinds(decoder_self=MaskChange(block=((2, 0), (2, 1)), allow=((0, 3),)))
    run = again(dates, run_masked(dates, [(LONG, None), (SHORT, None)]), changes)[1]
    assert header["effect"]["sums"][1] == pytest.approx(run.log_prob, abs=1e-4)
    assert header["effect"]["outputs"][1] == run.output
    assert header["painted"] == [[2, 0, 0], [2, 1, 0], [0, 3, 1]]
    assert any("2 cells forbidden, 1 cell allowed" in line for line in header["story"])


def test_preset_masks_padding_and_undo() -> None:
    app = open_page()
    header, _ = shown(app)
    assert header["kind"] == "decoder_self"
    assert header["effect"]["kind"] == "decoder_self"
    with_key(app.selectbox, "masks-ready-decoder_self").set_value("previous").run()
    header, arrays = shown(app)
    assert app.query_params["decoder-mask"] in ("previous", ["previous"])
    assert arrays["blockedAfter"].reshape(11, 11)[0].all()
    with_key(app.selectbox, "masks-ready-decoder_self").set_value("none").run()
    with_key(app.toggle, "masks-padding-decoder_self").set_value(False).run()
    header, arrays = shown(app)
    assert not arrays["blockedAfter"].any()
    assert header["effect"]["sums"][0] != header["effect"]["sums"][1]
    with_key(app.button, "masks-undo").click().run()
    header, _ = shown(app)
    assert header["effect"]["sums"][0] == header["effect"]["sums"][1]
    assert "decoder-mask" not in app.query_params


def test_painted_cells_are_clipped_when_the_sentence_shrinks_and_return() -> None:
    app = open_page(encoder_mask="f0.12", mask="encoder_self", masks_second="")
    header, _ = shown(app)
    assert not any("beyond" in line for line in header["story"])
    with_key(app.text_area, "source").set_value("2021-3-5").run()
    header, _ = shown(app)
    assert any("1 painted cell lies beyond these texts" in line for line in header["story"])
    assert header["effect"]["sums"][0] == pytest.approx(header["effect"]["sums"][1], abs=1e-6)
    with_key(app.text_area, "source").set_value(LONG).run()
    header, arrays = shown(app)
    assert arrays["blockedAfter"].reshape(14, 14)[0, 12] == 1
    assert header["painted"] == [[0, 12, 0]]


@pytest.mark.parametrize("second", ["", "   ", "x" * 200, "5", "<b>&</b>"])
def test_no_second_text_breaks_the_page(second: str) -> None:
    app = open_page(masks_shown="second")
    with_key(app.text_area, "masks-second").set_value(second).run()
    shown(app)
    note = next(p.proto.json for p in app.get("bidi_component") if "note masks" in p.proto.id)
    assert ("reads at most 64" in note) == (len(second) > 100)


def test_everything_blocked_everywhere_still_runs() -> None:
    every = "f0-40.0-40"
    header, _ = shown(open_page(encoder_mask=every, decoder_mask=every, cross_mask=every))
    assert all(math.isfinite(x) for x in header["effect"]["sums"])
    assert sum("may attend to nothing here" in line for line in header["story"]) == 3


@pytest.mark.slow
def test_the_second_text_is_longer_than_the_first_example(dates: Scope, scope: Scope) -> None:
    for model, offered in (
        (dates, examples("dates")),
        (scope, scope.examples),
    ):  # its own held-out texts, if it has any
        second = default_second(model)
        assert second in offered
        assert len(model.encode(source=second)["source"].ids) > len(
            model.encode(source=offered[0])["source"].ids
        )
