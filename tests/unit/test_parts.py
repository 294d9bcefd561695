"""Small parts of the pages without a browser: checks, notes and downloads, and the state that a click leaves."""

import csv
import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from urllib.parse import parse_qs

import numpy as np
import pytest
from drawn import letters

import models
from models.analysis.checks import Check
from models.architectures.encoder_decoder import ENCODER_SELF, EncoderDecoder
from models.architectures.gpt import GPT_SELF
from models.runs.scope import Scope
from models.trace import Trace
from models.trace.edits import MaskChange, for_kinds
from viz_app import ui, words
from viz_app.drawing.labels import token_text
from viz_app.drawing.notes import check_summary
from viz_app.drawing.scale import Scale
from viz_app.input_bar import examples
from viz_app.session import (
    live,
    live_route,
    reference_models,
    remembered,
    respond,
    run_changes,
    url_state,
)
from viz_app.session.current_run import CurrentRun
from viz_app.session.downloads import Download
from viz_app.session.focus import FOCUS_SITE, Focus, pick_head
from viz_app.session.live import LiveSession
from viz_app.views.attention.files import attention_files
from viz_app.views.attention.payloads import AttentionChoices
from viz_app.views.decoding import state as decoding_state
from viz_app.views.decoding.payloads import DecodingPosition
from viz_app.views.frame.one_run import offer
from viz_app.views.masks import state as masks_state

TERMS = words.terms("translation", ("en", "fr"))
SOURCE, TARGET = map(url_state.parameter_of, EncoderDecoder.fields)


@pytest.fixture(scope="module")
def scope() -> Scope:
    return letters(n_ctx=13)


@pytest.fixture(scope="module")
def trace(scope: Scope) -> Trace:
    return scope.run("abc", "ed")


@dataclass
class Session:
    """A session without a browser; `url` holds the parameters of its address."""

    url: dict[str, list[str]] = field(default_factory=dict)
    session_state: dict[str, object] = field(default_factory=dict)

    @property
    def query_params(self) -> "Session":
        return self

    def __iter__(self) -> Iterator[str]:
        return iter(self.url)

    def get_all(self, name: str) -> list[str]:
        return self.url[name]

    def run(self, view: Callable[[], object], **asked: str) -> object:
        """Run `view` after following the URL, if it asks for anything; return its result."""
        if asked:
            self.session_state.pop("url", None)
            self.url = {name.replace("_", "-"): [text] for name, text in asked.items()}
        url_state.begin_page()
        seen = view()
        self.url = parse_qs(url_state.publish().query)
        return seen

    @property
    def says(self) -> dict[str, str]:
        return {name: text for name, (text,) in self.url.items()}


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Session:
    made = Session()
    for module in (remembered, url_state):
        monkeypatch.setattr(module, "st", made)
    return made


# texts


def test_a_check_is_shown_with_its_verdict_its_value_and_its_limit() -> None:
    shown = ui.check_rows(
        [Check("it holds", 1.25e-7, 1e-5, "Largest gap"), Check("it fails", 3.0, 2.0, "Cells")]
    )
    assert shown["look"] == "checks"
    (look, _), *lines = shown["rows"]
    assert look == "title"
    assert lines == [
        ["passed", "✓ it holds"], ["value", "Largest gap: 1.2e-07, allowed 1e-05."], ["failed", "✗ it fails"],
        ["value", "Cells: 3, allowed 2."],
    ]  # fmt: skip


def test_a_value_at_its_limit_passes_and_no_number_fails() -> None:
    limits = [Check("", value, 1.0, "") for value in (1.0, 1.0001, float("nan"))]
    assert [look for look, _ in ui.check_rows(limits)["rows"][1::2]] == [
        "passed",
        "failed",
        "failed",
    ]


def test_checks_that_failed_are_counted_among_all() -> None:
    checks = [Check("a", value, 1.0, "A") for value in (0.0, 2.0, 3.0)]
    for some, said, look in (
        (checks, "2 of 3 checks failed", "note bad"),
        (checks[:1], "1 of 1 check passed", "note"),
    ):
        summary = check_summary(ui.check_rows(some))
        assert (summary["rows"][0][1], summary["look"]) == (said, look)


def test_notes_and_errors() -> None:
    assert ui.small_print("a") == {"look": "note", "rows": [["line", "a"]]}
    assert ui.small_print("a", bad=True)["look"] == "note bad"


@pytest.mark.parametrize("stale", [True, False])
def test_the_strip_with_the_input_and_the_output(trace: Trace, scope: Scope, stale: bool) -> None:
    found = ui.strip(trace, TERMS, stale)
    assert found["look"] == "written"
    rows = dict(found["rows"])
    assert list(rows) == ["label-in", "source", "arrow", "label-out", "output", "stale"]
    assert (rows["label-in"], rows["source"], rows["output"]) == (
        "English sentence",
        "abc",
        trace.output,
    )
    assert bool(rows["stale"]) == stale
    assert rows["label-out"] == "predicted after each given token"
    own = dict(ui.strip(scope.run("abc"), TERMS, stale)["rows"])
    assert own["label-out"] == "the model writes"


@pytest.mark.parametrize(("source", "output", "look"), [
    ("a" * 42, "", "written"), ("a" * 43, "", "written long"), ("", "b" * 43, "written long"),
])  # fmt: skip
def test_long_texts_are_set_smaller(trace: Trace, source: str, output: str, look: str) -> None:
    long = replace(trace, fields={"source": source, "target": None}, output=output)
    assert ui.strip(long, TERMS, False)["look"] == look


def test_a_text_to_continue_is_shown_with_the_next_prediction() -> None:
    gpt = letters("gpt")
    run = gpt.run("abc", " de")
    probabilities = run.next_token.logits[-1].double().softmax(-1)
    best = int(probabilities.argmax())
    strip = dict(ui.strip(run, words.terms("language"), False)["rows"])
    assert (strip["label-in"], strip["source"]) == ("Text", "abc de")
    assert strip["label-out"] == f"most likely next, {100 * float(probabilities[best]):.0f} %"
    assert strip["output"] == token_text(gpt.tokenizer.token(best))
    long = replace(run, fields={"text": "a" * 40, "continuation": "b" * 3})
    assert ui.strip(long, words.terms("language"), False)["look"] == "written long"


def test_downloads_of_a_head_are_made_from_what_is_shown_at_that_moment(
    trace: Trace, scope: Scope, monkeypatch
) -> None:
    offered: dict[str, Download] = {}
    monkeypatch.setattr(
        ui, "downloads", lambda files: offered.update({file.label: file for file in files})
    )
    site = trace.attention["decoder.layers.1.cross_attn"]
    now = [CurrentRun(scope, trace)]
    choices = AttentionChoices(Focus(site.name, 2), scale=Scale("root"))
    offer(attention_files(now[0], choices), lambda: now[0])
    assert {label: file.name for label, file in offered.items()} == {
        "This head, CSV": "letters.decoder.layer2.cross_attn.head3.csv",
        "This head, SVG": "letters.decoder.layer2.cross_attn.head3.svg",
        "All heads, npz": "letters.all-heads.npz",
    }
    now[0] = CurrentRun(scope, scope.run("cb", "d"))
    made = {label: b"".join(file.pieces()) for label, file in offered.items()}
    weights = now[0].trace.attention[site.name].weights(2).numpy()
    rows = list(csv.reader(io.StringIO(made["This head, CSV"].decode())))
    assert ["# model: letters"] in rows
    assert ["# source: cb"] in rows
    rows = [row for row in rows if not row[0].startswith("# ")]
    assert rows[0][1:] == ["0 c", "1 b", "2 [end]"]
    np.testing.assert_array_equal(np.float32([row[1:] for row in rows[1:]]), weights)
    svg = made["This head, SVG"].decode()
    assert words.head_title(site, 2, now[0].terms) in svg
    assert "by its square root" in svg
    assert "<title>" + str(weights[1, 0]) + "</title>" in svg
    assert "scale: 1  attention weight, by its square root".replace("  ", " ") in svg
    with np.load(io.BytesIO(made["All heads, npz"])) as held:
        assert "source: cb" in held["about"].tolist()
        np.testing.assert_allclose(
            held["decoder.layer2.cross_attn"][2], weights, rtol=1e-5
        )  # all heads at once are summed in another order


def test_a_plotly_picture_is_saved_as_a_drawing() -> None:
    assert ui.svg_export("a-name") == {
        "toImageButtonOptions": {"format": "svg", "filename": "a-name"},
        "displaylogo": False,
    }


# into the URL and out of it


CROSS, OTHER, OWN = (
    "decoder.layers.0.cross_attn",
    "decoder.layers.1.cross_attn",
    "decoder.layers.0.self_attn",
)


@pytest.mark.parametrize(
    ("lock", "held"), [("q2", "q2"), ("q3", ""), ("k3", "k3"), ("k4", ""), ("q0", "q0"), ("", "")]
)
def test_a_focus_is_kept_within_the_run(trace: Trace, lock: str, held: str) -> None:
    """The cross-attention of "ed" (<s>, two letters) to "abc" (three and </s>) has three queries, four keys and three heads."""
    assert Focus(CROSS, 2, lock).within(trace) == Focus(CROSS, 2, held)
    assert Focus(CROSS, 3, lock).within(trace) == Focus(CROSS, 2, held)


def test_if_the_site_is_missing_the_sharpest_head_is_shown(trace: Trace) -> None:
    sites = {
        name: site.weights() for name, site in trace.attention.items() if site.kind == "cross"
    }  # (head, query, key)
    _, name, head = max(
        (float(w.amax(-1).mean()), name, h)
        for name, all_ in sites.items()
        for h, w in enumerate(all_)
    )
    assert Focus("nowhere", 1, "q1").within(trace) == Focus(name, head, "")


def test_a_picked_head_is_followed_to_the_same_layer_of_another_model(trace: Trace) -> None:
    def follow(site: str, head: int) -> Focus | None:
        return Focus(site, head, "q1").followed(trace)

    assert follow("elsewhere.layers.1.cross_attn", 2) == Focus(OTHER, 2)
    assert follow("elsewhere.layers.0.self_attn", 1).site.endswith(".layers.0.self_attn")
    assert follow("elsewhere.layers.0.query_attn", 1).site.split(".")[2] == "0"
    assert follow("elsewhere.layers.1.cross_attn", 3) is None  # of three heads
    assert follow("elsewhere.layers.9.cross_attn", 0) is None
    assert follow("alignment", 0) is None


def test_a_pinned_token_stays_if_another_head_reads_the_same_tokens(session: Session) -> None:
    def picked(site: str, head: int) -> dict[str, str]:
        session.run(lambda: pick_head(site, head), checkpoint="x", site=CROSS, head="1", lock="k2")
        return session.says

    assert picked(CROSS, 2) == {"site": CROSS, "head": "2", "lock": "k2"}
    assert picked(OTHER, 0) == {"site": OTHER, "head": "0", "lock": "k2"}
    assert picked(OWN, 1) == {"site": OWN, "head": "1"}


def test_a_click_during_the_run_that_follows_back_is_kept(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.run(
        lambda: (pick_head("a", 3), url_state.set_value(TARGET, "x")),
        source="abc",
        target="d",
    )
    assert session.says == {"site": "a", "head": "3", "target": "x"}
    monkeypatch.setattr(url_state, "_is_history_navigation", lambda: True)
    session.url = {"source": ["abc"]}
    url_state.begin_page()
    assert url_state.get(TARGET) == ""
    monkeypatch.undo()
    monkeypatch.setattr(url_state, "st", session)
    url_state.set_value(TARGET, "y")  # the run was overtaken, and has not published anything
    parameters = (SOURCE, TARGET, FOCUS_SITE)
    asked = session.run(lambda: [url_state.get(one) for one in parameters])
    assert asked == ["abc", "y", ""]
    assert session.says == {"source": "abc", "target": "y"}


# the Decoding page


def place_on(scope: Scope, trace: Trace) -> DecodingPosition:
    """Return the place of a session with this run, as the page Decoding reads it."""
    run = CurrentRun(scope, trace)
    run_changes.clear_forced(run)
    return decoding_state.current_state(scope, run.input_ids)


def test_forcing_a_token_clears_those_forced_after_it(
    session: Session, scope: Scope, trace: Trace
) -> None:
    place = partial(place_on, scope, trace)
    session.run(place)
    for position, token in ((1, 4), (3, 5), (2, 6)):
        decoding_state.force_token(position, token)
    assert session.run(place) == DecodingPosition(step=2, forced=((1, 4), (2, 6)))
    assert session.says == {"step": "3", "force": "2:4,3:6"}
    decoding_state.force_token(2, 6)  # the same again
    assert session.run(place).forced == ((1, 4),)
    decoding_state.discard_forced()
    assert session.run(place).forced == ()
    assert not run_changes.forced_were_cleared()


def test_another_source_clears_forced_tokens_with_a_note(
    session: Session, scope: Scope, trace: Trace
) -> None:
    place = partial(place_on, scope, trace)
    assert session.run(place, step="4", force="2:4", node="3:1", heads="mean") == DecodingPosition(
        3, ((1, 4),), (2, 0), True
    )
    assert not run_changes.forced_were_cleared()
    assert session.run(lambda: place_on(scope, scope.run("cb"))) == DecodingPosition(mean=True)
    assert run_changes.forced_were_cleared()
    assert session.says == {"heads": "mean"}
    session.run(lambda: decoding_state.force_token(0, 5))
    assert not run_changes.forced_were_cleared()


def test_a_node_a_step_and_the_mean(session: Session, scope: Scope, trace: Trace) -> None:
    place = partial(decoding_state.current_state, scope, trace.streams["source"].ids)
    session.run(place)
    decoding_state.choose_node(4, 2)
    decoding_state.choose_mean(True)
    decoding_state.go_to_position(-3)
    assert session.run(place) == DecodingPosition(0, (), (4, 2), True)
    decoding_state.go_to_position(7)
    assert session.run(place).step == 7
    assert session.says == {"step": "8", "node": "5:3", "heads": "mean"}


# the Masks page


def test_changes_of_masks_go_to_the_address_of_their_kind(session: Session, trace: Trace) -> None:
    changes = partial(run_changes.mask_edits, trace)
    session.run(changes)
    masks_state.paint_cells("cross", [(1, 2, 0), (0, 1, 1)])
    masks_state.choose_preset(ENCODER_SELF, "window", 3)
    masks_state.choose_padding("decoder_self", False)
    assert session.run(changes) == for_kinds(
        encoder_self=MaskChange(preset="window", k=3), decoder_self=MaskChange(removed_layers=("padding",)),
        cross=MaskChange(block=((1, 2),), allow=((0, 1),)),
    )  # fmt: skip
    assert session.says == {
        "cross-mask": "f1.2_a0.1",
        "encoder-mask": "window3",
        "decoder-mask": "nopad",
    }
    pasted = session.run(changes, encoder_mask="blocks4", decoder_mask="nopad")
    assert pasted == for_kinds(
        encoder_self=MaskChange(preset="block-diagonal", k=4),
        decoder_self=MaskChange(removed_layers=("padding",)),
    )
    run_changes.undo_change("masks")
    assert session.run(changes) == ()
    assert session.says == {}


def test_only_existing_kinds_can_be_changed(session: Session) -> None:
    trace = letters("recurrent", n_ctx=13).run("ab", "b")
    found = session.run(
        lambda: run_changes.mask_edits(trace), encoder_mask="causal", cross_mask="f0.1"
    )
    assert found == for_kinds(cross=MaskChange(block=((0, 1),)))


def test_a_language_models_one_mask_has_an_address_of_its_own(session: Session) -> None:
    trace = letters("gpt", n_ctx=13, window=5).run("abc")
    changes = partial(run_changes.mask_edits, trace)
    found = session.run(changes, self_mask="window2", decoder_mask="nolook")
    assert found == for_kinds(self=MaskChange(preset="window", k=2))
    masks_state.paint_cells("self", [(2, 1, 0)])
    masks_state.choose_preset(GPT_SELF, "none", 2, ["padding", "look-ahead", "window of 5"])
    assert session.run(changes) == for_kinds(
        self=MaskChange(removed_layers=("look-ahead", "window of 5"), block=((2, 1),))
    )
    assert session.says == {"self-mask": "nolook_nowindow5_f2.1"}
    elsewhere = partial(run_changes.mask_edits, letters("gpt", n_ctx=13).run("abc"))
    assert session.run(elsewhere) == for_kinds(
        self=MaskChange(removed_layers=("look-ahead",), block=((2, 1),))
    )
    run_changes.undo_change("masks", ("self",))
    assert session.run(changes) == ()


def test_a_kind_of_attention_to_come_has_the_address_of_its_name(session: Session) -> None:
    assert run_changes.mask_parameter("two_stream").name == "two-stream-mask"
    assert run_changes.mask_parameter("two_stream") is run_changes.mask_parameter("two_stream")


@pytest.mark.parametrize(("family", "asked", "kind"), [
    ("gpt", "", "self"), ("gpt", "cross", "self"), ("gpt", "self", "self"), ("transformer", "", "decoder_self"),
    ("transformer", "cross", "cross"), ("transformer", "self", "decoder_self"), ("recurrent", "", "cross"),
])  # fmt: skip
def test_the_painted_kind_is_one_that_the_model_has(
    session: Session, family: str, asked: str, kind: str
) -> None:
    scope = letters(family, n_ctx=13)
    trace = scope.run("abc") if family == "gpt" else scope.run("ab", "b")
    painted, site, _ = session.run(lambda: masks_state.view(trace), mask=asked)
    assert (painted, site.kind) == (kind, kind)


# reference models and examples


def test_the_shown_model_is_used_if_it_suits_and_otherwise_the_first_that_does(
    monkeypatch, scope: Scope, trace: Trace
) -> None:
    others = {name: letters("recurrent") for name in ("eng-fra-bahdanau", "eng-fra")}
    monkeypatch.setattr(models, "shipped", lambda: list(others))
    monkeypatch.setattr(reference_models.cache, "scope", others.get)
    monkeypatch.setattr(Scope, "task", property(lambda self: "translation"))
    shown = CurrentRun(scope, trace)
    assert reference_models.suitable_scope(shown, lambda found: True) is scope
    assert (
        reference_models.suitable_scope(shown, lambda found: found is not scope)
        is others["eng-fra-bahdanau"]
    )
    assert (
        reference_models.suitable_scope(shown, lambda found: found is others["eng-fra"])
        is others["eng-fra"]
    )
    assert reference_models.suitable_scope(shown, lambda found: False) is None
    assert reference_models.reference_names("translation") == ("eng-fra-bahdanau", "eng-fra")
    assert reference_models.reference_names("dates") == ("dates-bahdanau", "dates")
    assert reference_models.reference_names("letters") == ()
    other = replace(
        trace,
        streams=trace.streams | {"source": replace(trace.streams["source"], ids=(9, 9, 9, 2))},
    )
    assert (
        reference_models.suitable_scope(CurrentRun(scope, other), lambda found: found is not scope)
        is None
    )


def test_examples_are_texts_that_the_model_can_read(monkeypatch, scope: Scope) -> None:
    assert examples.examples("translation")[0] == "She is reading a book."
    assert examples.examples("anything") == examples.examples("translation")
    assert examples.examples("dates") != examples.examples("translation")
    monkeypatch.setattr(Scope, "examples", property(lambda self: ["abcde" * 9, "abc", "de"]))
    assert examples.example_choices(scope) == ["abc", "de"]
    monkeypatch.setattr(Scope, "examples", property(lambda self: ["abc\ned\n", " \n", "de"]))
    assert examples.example_choices(scope) == ["ed", "de"]  # a box takes one line: the last
    monkeypatch.setattr(Scope, "examples", property(lambda self: ["abcde" * 9]))
    assert examples.example_choices(scope) == [
        ("abcde" * 9)[:12]
    ]  # with its end token 13 tokens, as many as it reads
    monkeypatch.setattr(Scope, "examples", property(lambda self: []))
    assert examples.example_choices(letters(n_ctx=64))[0] == "She is reading a book."


# the state of a live session


def test_a_desk_keeps_generated_texts_as_drafts(scope: Scope) -> None:
    session = LiveSession()
    session.scope = scope
    own, given = scope.run("abc"), scope.run("abc", "ed")
    session.show(CurrentRun(scope, given))
    assert session.draft_tokens(scope) == ()  # a given text is not one that it generated
    session.show(CurrentRun(scope, own))
    session.show(CurrentRun(scope, own))
    assert session.draft_tokens(scope) == (own.streams["target"].ids[1:],)
    other = letters(n_ctx=13)
    assert session.draft_tokens(other) == ()
    session.scope = other
    session.show(CurrentRun(other, given))
    assert session.draft_tokens(other) == session.draft_tokens(scope) == ()


@pytest.mark.parametrize(("family", "texts", "under"), [
    ("transformer", ("abc", "ed"), ("4 of at most 13 tokens.", "3 of at most 13 tokens.")),
    ("gpt", ("abc", "ed"), ("6 of at most 13 tokens.", "")),      # one row of tokens, described once, under its first box
    ("gpt", (" ", "ed"), ("The text is empty; type some text.", "")),
    ("transformer", ("abc", "abcde" * 3), ("", "The target has 16 tokens; this model reads at most 13.")),
])  # fmt: skip
def test_under_each_box_is_the_length_of_its_row_or_the_error(
    family: str, texts: tuple, under: tuple
) -> None:
    session = LiveSession()
    session.scope = letters(family, n_ctx=13)
    trace, notes = respond.run_texts(session, *texts)
    assert tuple("".join(text for _, text in note["rows"]) for note in notes.values()) == under
    assert list(notes) == [field.name for field in session.scope.model.fields]
    refused = any("type some text" in text or "reads at most" in text for text in under)
    assert (trace is None) == (session.run is None) == refused


@pytest.mark.parametrize(("base", "path"), [("", "/live"), ("a/b/", "/a/b/live")])
def test_the_address_of_the_socket(monkeypatch, base: str, path: str) -> None:
    monkeypatch.setattr(live.st, "get_option", lambda name: base)
    assert live_route.socket_path() == path


def test_a_message_is_parsed_as_it_is_sent() -> None:
    for sent in ('{"texts": ["a", "b"]}', '{"more": 1, "texts": ["a", "b"]}'):
        assert live_route._texts({"type": "websocket.receive", "text": sent}) == ("a", "b")
