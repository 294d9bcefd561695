"""The page Masks of a language model: painted and preset masks of its one kind of attention, against plain forward passes
under masks made by hand."""

import csv
import io
from itertools import pairwise

import numpy as np
import pytest
import torch
from drawn import letters, saved
from small_runs import edited

from models.architectures.gpt import GPT_SELF
from models.architectures.transformer import Transformer
from models.hub.recording.masks import MODEL_MASK
from models.layers.masks import LOOK_AHEAD, ORDER_MASK, PADDING, Mask, MaskLayer
from models.runs.masked_comparison import run_masked
from models.runs.scope import Scope
from models.trace.edits import READY_MADE, MaskChange, for_kinds
from viz_app.drawing.payload import unpack
from viz_app.session import mask_notation as masks_notation
from viz_app.session.current_run import CurrentRun
from viz_app.views.masks import files as masks_files
from viz_app.views.masks import mask_view, painter
from viz_app.views.masks import payloads as masks_payloads
from viz_app.views.masks import text as masks_text
from viz_app.views.masks.mask_view import MaskView
from viz_app.views.masks.payloads import MaskChoices

NAMES = ["[padding]", "[start]", "[end]", "[unknown]", *"abcde=@"]  # of the vocabulary, by id
FIRST, FOLLOWS, SECOND = "abcab", "edc", "bad"
IDS = {
    text: [1, *(NAMES.index(letter) for letter in text)]
    for text in (FIRST, FIRST + FOLLOWS, SECOND)
}
OWN, HEAD, N_CTX = "decoder.layers.1.self_attn", 2, 17
WINDOW, PAINTED = (
    MaskChange(preset="window", k=2),
    MaskChange(block=((3, 0), (3, 1)), allow=((1, 2),)),
)
LIFTED = MaskChange(removed_layers=(LOOK_AHEAD,))


@pytest.fixture(scope="module")
def scope() -> Scope:
    return letters("gpt", n_ctx=N_CTX)


def viewed(
    scope: Scope, change: MaskChange, shown: int = 0, continuation: str | None = FOLLOWS
) -> MaskView:
    run = CurrentRun(scope, scope.run(FIRST, continuation))
    changed = edited(run, for_kinds(self=change))
    return masks_payloads.masked_views(changed, MaskChoices(SECOND, "", shown, "self", OWN, HEAD))[
        1
    ]


def by_hand(n: int, change: MaskChange) -> torch.Tensor:
    """Return (n, n) bool: the cells that may be read, one by one."""
    allowed = torch.zeros(n, n, dtype=torch.bool)
    for q in range(n):
        for k in range(n):
            allowed[q, k] = (k <= q or change == LIFTED) and (change != WINDOW or abs(q - k) <= 2)
            if change == PAINTED:
                allowed[q, k] = ((k <= q) or (q, k) == (1, 2)) and not (q == 3 and k < 2)
    return allowed


def log_probs(scope: Scope, ids: list[int], change: MaskChange) -> torch.Tensor:
    """Return log-probabilities (n, vocab) of the token after each position, with that mask given to the model as its own."""
    mask = Mask([MaskLayer("by hand", by_hand(len(ids), change)[None, None])])
    with torch.no_grad():
        return scope.model(torch.tensor([ids]), {"self": mask})[0].log_softmax(-1)


def test_above_the_masks_is_the_prediction_under_the_models_own_mask(scope: Scope) -> None:
    run = edited(CurrentRun(scope, scope.run(FIRST, FOLLOWS)), for_kinds(self=WINDOW))
    chosen = MaskChoices("", "", 0, "self", OWN, HEAD)
    written = dict(masks_payloads.mask_strip(run, chosen)["rows"])
    own, changed = (
        log_probs(scope, IDS[FIRST + FOLLOWS], change)[-1].exp()
        for change in (MaskChange(), WINDOW)
    )
    assert written["label-out"] == f"most likely next, {100 * float(own.max()):.0f} %"
    assert written["source"] == FIRST + FOLLOWS
    assert written["output"] == NAMES[int(own.argmax())]
    assert f"{100 * float(own.max()):.0f}" != f"{100 * float(changed.max()):.0f}"


@pytest.mark.parametrize(
    "change", [MaskChange(), WINDOW, PAINTED, LIFTED], ids=["own", "window", "painted", "lifted"]
)
@pytest.mark.parametrize(("shown", "text"), [(0, FIRST + FOLLOWS), (1, SECOND)])
def test_a_changed_run_is_the_run_with_that_mask_by_hand(
    scope: Scope, change: MaskChange, shown: int, text: str
) -> None:
    view, ids = viewed(scope, change, shown), IDS[text]
    for run, mask in ((view.before, MaskChange()), (view.after, change)):
        expected = log_probs(scope, ids, mask)[range(len(ids) - 1), ids[1:]]
        assert run.labels == tuple(ids[1:])
        torch.testing.assert_close(torch.tensor(run.log_probs), expected, atol=1e-4, rtol=1e-4)
        assert run.log_prob == pytest.approx(float(expected.sum()), abs=1e-4)
        written = list(ids)
        while len(written) < N_CTX and written[-1] != 2:
            written.append(int(log_probs(scope, written, mask)[-1].argmax()))
        assert list(run.output_ids) == written[len(ids) :]
    header, arrays = unpack(painter.masks(view))
    n = len(IDS[FIRST + FOLLOWS])
    allowed = by_hand(n, change)
    allowed[:, len(ids) :] = False
    np.testing.assert_array_equal(arrays["blockedAfter"].reshape(n, n), ~allowed.numpy())
    assert header["effect"]["sums"] == [
        pytest.approx(view.before.log_prob),
        pytest.approx(view.after.log_prob),
    ]


def test_the_data_of_the_painter(scope: Scope) -> None:
    header, _ = unpack(painter.masks(viewed(scope, WINDOW, shown=1)))
    row = ["[start]", *SECOND, *["[padding]"] * 5]
    read = row[: len(SECOND) + 1]
    steps = [*(f"{one} → {other}" for one, other in pairwise(read)), read[-1], *["[padding]"] * 5]
    assert [
        label[0] for label in header["queries"]
    ] == steps  # nothing follows the last token of the text
    assert [label[0] for label in header["keys"]] == row
    assert (header["kind"], header["title"]) == ("self", "Decoder masked self-attention")
    assert header["subtitle"] == "the text → itself"
    assert (header["queryAxis"], header["keyAxis"]) == (
        "query (rows): the text, read → written",
        "key (columns): the text",
    )
    assert header["layers"] == [
        {
            "name": "text padding",
            "reason": "this key only pads the shorter text; there is nothing to attend to",
        },
        {
            "name": "look-ahead",
            "reason": "the key comes after the query; while a decoder writes, it does not exist yet",
        },
        {"name": "window of 2", "reason": "the key is further away than the window"},
    ]
    (block,) = header["strip"]
    assert (block["kind"], block["rows"], block["cols"]) == ("self", 9, 9)
    blocked = {picture["name"]: picture["blocked"] for picture in block["pictures"]}
    assert blocked == {
        "text padding": 45,
        "look-ahead": 36,
        "window of 2": 42,
        "combined": 81 - (1 + 2 + 3 + 3 + 2 + 1),
    }
    assert (header["effect"]["kind"], header["effect"]["given"]) == ("self", "Text")
    assert [label[0] for label in header["effect"]["labels"]] == [
        *SECOND
    ]  # no [end]: the text continues


def test_the_story_covers_the_text_and_its_continuation(scope: Scope) -> None:
    view = viewed(scope, LIFTED)
    changed, wrote, effect, cheat = painter.painted_outcome(view)
    assert changed.startswith("Changed. ")
    assert changed.endswith("look-ahead removed.")
    assert wrote.startswith(f"Under these masks the model continues with: {view.after.output}")
    assert effect.startswith(f"Log-probability of the text “{FIRST}{FOLLOWS}”: ")
    old, new = (-run.log_prob / 8 for run in (view.before, view.after))
    assert f"{old:.3f} → {new:.3f} nats per token" in cheat
    assert ("falls" in cheat, "rises" in cheat) == (new < old, new > old)
    assert "loss on the given text" in cheat
    for line in (changed, wrote, effect, cheat):
        assert "target" not in line
        assert "source" not in line
    assert len(painter.painted_outcome(viewed(scope, WINDOW))) == 3


def test_the_checks_pass_and_would_not_if_a_painted_cell_had_weight(scope: Scope) -> None:
    view = viewed(scope, PAINTED)
    assert [check.passed for check in mask_view.mask_checks(view)] == [True, True]
    unpainted = MaskView(view.before, view.before, view.changes, "self", OWN, HEAD, view.terms)
    assert [check.passed for check in mask_view.mask_checks(unpainted)] == [True, False]


def test_files_hold_the_text(scope: Scope) -> None:
    view = viewed(scope, WINDOW)
    table = list(csv.reader(io.StringIO(masks_files.log_probs_csv(view))))
    assert [row[0] for row in table] == ["token", *FIRST, *FOLLOWS, "sum"]
    held = saved(masks_files.everything_npz(view))
    assert held["text_tokens"].tolist() == ["[start]", *FIRST, *FOLLOWS]
    assert {name for name in held if name.endswith("_tokens")} == {"text_tokens"}
    np.testing.assert_array_equal(held["self.after.allowed"], by_hand(9, WINDOW).numpy())
    assert "Mask, decoder self" in masks_files.masks_svg(view)


def test_a_text_that_fills_the_context_is_not_continued(scope: Scope) -> None:
    for most in (3, None):
        (full,) = run_masked(scope, [("a" * (N_CTX - 1),)], max_new=most)
        assert (full.output, full.output_ids) == ("", ())
    short, whole = (run_masked(scope, [(FIRST,)], max_new=n)[0].output_ids for n in (3, None))
    assert len(short) == min(3, len(whole))
    assert short == whole[:3]


# words


def test_a_second_text_is_padded_under_the_name_of_its_stream(scope: Scope) -> None:
    assert (
        masks_text.batch((5, 3), "text")
        == "Text 1 has 5 tokens, text 2 has 3: the second text gets 2 padding tokens."
    )
    assert masks_text.batch((5, 5), "text") == "Both have 5 tokens: no padding in the text."
    filled = "The shorter of the two is padded to the length of the longer."
    assert masks_text.second_help(scope.model) == filled
    assert masks_text.second_help(letters().model) == f"{filled} The model writes its target."


def test_rules_and_names_of_its_one_kind(scope: Scope) -> None:
    site = scope.run(FIRST).attention[OWN]
    assert (
        "both texts, by position. While writing, the top-left m × m part of the mask applies"
        in masks_text.rules(site)
    )
    assert masks_text.mask_layer_name(GPT_SELF, PADDING) == "text padding"
    assert {name: masks_text.ready_label(GPT_SELF, name, "causal") for name in READY_MADE} == {
        "none": "none: attends to everything", "causal": "causal: itself and earlier tokens (this model's)",
        "window": "window: at most k back",
        "previous": "only the previous token", "block-diagonal": "block-diagonal: own k tokens, none ahead",
    }  # fmt: skip
    assert mask_view.kind_names(scope.run(FIRST)) == {GPT_SELF: "Decoder self"}


def test_only_a_decoder_that_reads_its_own_stream_hides_the_future() -> None:
    assert GPT_SELF.is_causal
    assert [kind.is_causal for kind in Transformer.kinds] == [
        False,
        True,
        False,
    ]


# a model with a window of its own


def test_a_link_keeps_whatever_layer_is_removed() -> None:
    for name in (
        LOOK_AHEAD,
        PADDING,
        ORDER_MASK,
        MODEL_MASK,
        "window of 7",
        "stride",
        "blocks of 3",
        "a_b, 50 %",
    ):
        change = MaskChange(removed_layers=(name,))
        assert masks_notation.parse_mask(masks_notation.mask_to_text(change)) == change


def test_a_link_keeps_a_window_of_the_token_itself() -> None:
    alone = masks_notation.with_preset(GPT_SELF, MaskChange(), "window", 0)
    assert alone == MaskChange(preset="window", k=0)
    assert masks_notation.parse_mask(masks_notation.mask_to_text(alone)) == alone
    blocks = masks_notation.with_preset(GPT_SELF, alone, "block-diagonal", 0)
    assert blocks == MaskChange(preset="block-diagonal", k=1)
    assert masks_notation.parse_mask("blocks0") == blocks


def test_reading_everything_removes_the_models_own_window_too() -> None:
    windowed = letters("gpt", n_ctx=N_CTX, window=3)
    own = [layer.name for layer in windowed.run(FIRST).attention[OWN].mask.layers]
    everything = masks_notation.with_preset(
        GPT_SELF, MaskChange(removed_layers=(PADDING,)), "none", 2, own
    )
    assert everything == MaskChange(removed_layers=(LOOK_AHEAD, PADDING, "window of 3"))
    (run,) = run_masked(windowed, [(FIRST,)], for_kinds(self=everything))
    assert run.trace.attention[OWN].allowed().all()
    assert masks_notation.mask_to_text(everything) == "nolook_nopad_nowindow3"
    assert masks_notation.parse_mask("nolook_nopad_nowindow3") == everything
    assert masks_notation.preset_of(GPT_SELF, everything) == "none"
    assert masks_notation.with_preset(GPT_SELF, everything, "causal", 2, own) == MaskChange(
        removed_layers=(PADDING,)
    )
    assert masks_notation.with_preset(GPT_SELF, everything, "window", 1, own) == MaskChange(
        removed_layers=(PADDING,), preset="window", k=1
    )
