"""The page Decoding: its payloads and files hold what `models` computes, and no input makes it fail."""

import csv
import io
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from app_parts import app_at, assert_all_passed, page_at, said, with_key
from drawn import saved
from streamlit.testing.v1 import AppTest
from streamlit.util import calc_hash

import models
from models.decoding import runs as decoding_runs
from models.decoding.runs import Method
from models.runs.scope import Scope
from models.tokenizers.base import END, PAD, START
from viz_app import words
from viz_app.drawing.labels import token_label
from viz_app.drawing.payload import unpack
from viz_app.views.decoding import beam as decoding_beam
from viz_app.views.decoding import files as decoding_files
from viz_app.views.decoding import steps as decoding_payloads
from viz_app.views.decoding.decoding_runs import DecodingRuns, decoder_attention
from viz_app.views.decoding.payloads import DecodingPosition
from viz_app.views.decoding.state import DECODING_STEP, FORCED_CHANGE, MEAN_OF_HEADS, NODE

SOURCE = "March 5, 2021"
TERMS = words.terms("dates")


@pytest.fixture(scope="module")
def dates() -> Scope:
    return models.load("dates", device="cpu")


def story(
    scope: Scope, target: str | None = None, method: Method | None = None, source: str = SOURCE
) -> DecodingRuns:
    trace, method = scope.run(source, target), method or Method()
    run = decoding_runs.autoregressive(scope.model, trace.streams["source"].ids, method).run
    free = (
        decoding_runs.autoregressive(scope.model, trace.streams["source"].ids, Method()).run
        if method.forced
        else None
    )
    return DecodingRuns(trace, decoding_runs.of_trace(trace), run, method, free)


def digit(scope: Scope, text: str) -> int:
    return scope.tokenizer.encode(text).ids[0]


# the data of the stepper


def test_the_payload_holds_both_runs(dates: Scope) -> None:
    told = story(dates, "2020-03-05", Method(forced=((5, digit(dates, "1")),)))
    header, arrays = unpack(
        decoding_payloads.stepper(told, dates, decoder_attention(told.trace, 1, 2), TERMS, 3)
    )
    assert header["step"] == 3
    assert header["steps"] == 11
    assert [label[0] for label in header["parallel"]["read"]] == ["[start]", *"2020-03-05"]
    assert [label[0] for label in header["parallel"]["given"]] == [*"2020-03-05", "[end]"]
    assert [label[0] for label in header["serial"]["read"]][:6] == ["[start]", *"2021-"]
    assert [label[0] for label in header["serial"]["written"]][:6] == [*"2021-1"]
    assert [label[0] for label in header["free"]["written"]] == [*"2021-03-05", "[end]"]
    assert header["diverges"] == 3
    assert header["forced"] == [5]
    for name, run in (("parallel", told.teacher_forced), ("serial", told.autoregressive)):
        ids = torch.from_numpy(arrays[f"{name}_ids"].astype(np.int64))
        np.testing.assert_array_equal(
            arrays[f"{name}_p"], run.log_probs.gather(1, ids).exp().numpy()
        )
        np.testing.assert_array_equal(arrays[f"{name}_entropy"], run.entropy_bits.numpy())
        np.testing.assert_array_equal(
            arrays[f"{name}_cross"], run.weights("decoder.layers.1.cross_attn", 2).numpy()
        )
        np.testing.assert_array_equal(
            arrays[f"{name}_self"], run.weights("decoder.layers.1.self_attn", 2).numpy()
        )


def test_the_mean_over_heads(dates: Scope) -> None:
    told = story(dates)
    header, arrays = unpack(
        decoding_payloads.stepper(told, dates, decoder_attention(told.trace), TERMS, 0)
    )
    assert header["reading"] == "decoder layer 1, mean over its 4 heads"
    by_hand = told.trace.attention["decoder.layers.0.cross_attn"].weights().mean(0)
    np.testing.assert_allclose(arrays["parallel_cross"], by_hand.numpy(), atol=1e-6)


def test_the_chosen_token_is_always_among_the_candidates(dates: Scope) -> None:
    told = story(dates, method=Method(forced=((2, digit(dates, "z")),)))
    ids = decoding_payloads.candidate_tokens(told.autoregressive)
    assert ids.shape[1] == decoding_payloads.CANDIDATES + 1
    for row, token, log_probs in zip(
        ids.tolist(), told.autoregressive.taken, told.autoregressive.log_probs, strict=True
    ):
        assert token in row
        assert len(set(row)) == len(row)
        assert (
            row[: decoding_payloads.CANDIDATES]
            == log_probs.topk(decoding_payloads.CANDIDATES).indices.tolist()
        )


def test_the_distribution_that_a_sampled_token_was_drawn_from(dates: Scope) -> None:
    method = Method("sample", temperature=2.0, top_k=3, seed=1)
    told = story(dates, method=method)
    drawn = decoding_payloads.drawn_from(told)
    torch.testing.assert_close(drawn.sum(-1), torch.ones(len(drawn)))
    assert ((drawn > 0).sum(-1) == 3).all()
    header, arrays = unpack(
        decoding_payloads.stepper(told, dates, decoder_attention(told.trace, 0, 0), TERMS, 0)
    )
    assert header["sampling"]
    ids = torch.from_numpy(arrays["serial_ids"].astype(np.int64))
    np.testing.assert_array_equal(arrays["drawn_p"], drawn.gather(1, ids).numpy())


def test_a_token_looks_like_its_text(dates: Scope) -> None:
    assert token_label(dates.tokenizer, END).as_json() == ["[end]", "special token </s>", True]
    assert token_label(dates.tokenizer, digit(dates, " ")).text == "␣"


def test_a_word_at_the_start_of_a_text_has_no_space_before_it() -> None:
    tokenizer = models.load("eng-fra", device="cpu").tokenizer
    (elle,) = tokenizer.encode("Elle").ids
    assert token_label(tokenizer, elle, first=True).text == "Elle"
    assert token_label(tokenizer, elle).text == "·Elle"


# the beam


def test_the_beam_payload_holds_every_hypothesis_and_the_node(dates: Scope) -> None:
    trace = dates.run(SOURCE)
    steps = decoding_runs.autoregressive(
        dates.model, trace.streams["source"].ids, Method("beam", width=3)
    ).beam
    node = (4, 1)
    tokens = steps[4].hypotheses[1].tokens
    run = decoding_runs.uncached_run(dates.model, trace.streams["source"].ids, tokens)
    payload = decoding_beam.beam_tree(
        steps,
        node,
        run,
        DecodingRuns(trace, run, run, Method()),
        dates,
        decoder_attention(trace, 1, 0),
        TERMS,
        0.6,
    )
    header, arrays = unpack(payload)
    assert [[n["score"] for n in column] for column in header["steps"]] == [
        [h.score for h in s.hypotheses] for s in steps
    ]
    assert header["steps"][4][1]["text"] == dates.tokenizer.decode(tokens)
    by_hand = dates.run(SOURCE, dates.tokenizer.decode(tokens[:-1])).attention[
        "decoder.layers.1.cross_attn"
    ]
    np.testing.assert_allclose(arrays["cross"], by_hand.weights(0)[-1].numpy(), atol=1e-6)


def test_the_best_path_leads_from_the_first_step_to_the_best(dates: Scope) -> None:
    source = dates.encode(source=SOURCE)["source"].ids
    steps = decoding_runs.autoregressive(dates.model, source, Method("beam", width=5)).beam
    path = sorted(decoding_beam.best_path(steps))
    assert [step for step, _ in path] == list(range(len(steps)))
    best = steps[-1].hypotheses[0].tokens
    assert all(steps[s].hypotheses[r].tokens == best[: s + 1] for s, r in path)


def test_a_missing_node_is_replaced_by_the_best(dates: Scope) -> None:
    source = dates.encode(source=SOURCE)["source"].ids
    steps = decoding_runs.autoregressive(dates.model, source, Method("beam", width=2)).beam
    step, rank = decoding_beam.nearest_node(steps, (99, 0))
    assert steps[step].hypotheses[rank].tokens == steps[-1].hypotheses[0].tokens
    assert len(steps[step].hypotheses[rank].tokens) == step + 1
    assert decoding_beam.nearest_node(steps, (1, 1)) == (1, 1)


# files


def test_the_table_holds_the_numbers_of_the_runs(dates: Scope) -> None:
    told = story(dates, method=Method(forced=((3, digit(dates, "0")),)))
    rows = list(csv.DictReader(io.StringIO(decoding_files.decoding_table(told, dates))))
    assert len(rows) == len(told.teacher_forced) + len(told.autoregressive) + len(told.unforced)
    forced = next(r for r in rows if r["run"] == "autoregressive, greedy" and r["position"] == "3")
    assert (forced["takes"], forced["forced"], forced["from the cache"]) == ("0", "1", "3")
    assert (
        np.float32(forced["probability"])
        == told.autoregressive.log_probs[3].exp()[digit(dates, "0")].numpy()
    )


def test_the_arrays_are_those_of_the_runs(dates: Scope) -> None:
    told = story(dates)
    kept = saved(decoding_files.arrays(told, dates))
    given = dates.run(SOURCE, "2021-03-05").next_token.logits.log_softmax(
        -1
    )  # all at once, and token by token in the run
    np.testing.assert_allclose(kept["serial.log_probs"], given.numpy(), atol=1e-4)
    site = "decoder.layers.1.cross_attn"
    held = kept["parallel.decoder.layer2.cross_attn"][3]
    np.testing.assert_allclose(held, told.trace.attention[site].weights(3).numpy(), atol=1e-6)


def test_the_drawing_is_well_formed_and_shows_inference_only_so_far(dates: Scope) -> None:
    told = story(dates, "20<&>0")
    svg = ElementTree.fromstring(
        decoding_files.drawing(told, dates, decoder_attention(told.trace), 2, "a <title> & more")
    )
    texts = [t.text for t in svg.iter("{http://www.w3.org/2000/svg}text")]
    assert "a <title> & more" in texts
    y = next(
        t.get("y") for t in svg.iter("{http://www.w3.org/2000/svg}text") if t.text == "and writes"
    )
    assert sum(t.get("y") == y for t in svg.iter("{http://www.w3.org/2000/svg}text")) == 1 + 3


# the position in the URL


def test_a_position_counts_from_1_in_the_url() -> None:
    place = DecodingPosition(4, ((1, 7), (3, 2)), (2, 1), True)
    values = {
        DECODING_STEP: place.step + 1,
        FORCED_CHANGE: place.forced,
        NODE: place.node,
        MEAN_OF_HEADS: place.mean,
    }
    written = {parameter.name: parameter.in_url(value) for parameter, value in values.items()}
    assert written == {"step": ["5"], "force": ["2:7,4:2"], "node": ["3:2"], "heads": ["mean"]}
    assert {
        parameter: parameter.from_url(written[parameter.name]) for parameter in values
    } == values


@pytest.mark.parametrize(
    "junk", ["-1", "x", "1e9", "0", "99999999999", "1:", ":", "1:2:3", "<b>", ""]
)
def test_junk_in_the_url_is_left_out(junk: str) -> None:
    assert [
        parameter.from_url([junk])
        for parameter in (DECODING_STEP, FORCED_CHANGE, NODE, MEAN_OF_HEADS)
    ] == [
        1,
        (),
        None,
        False,
    ]


def test_only_tokens_that_can_be_generated_are_forced(dates: Scope) -> None:
    wild = DecodingPosition(forced=((0, PAD), (1, START), (2, END), (3, 10**6), (10**4, 5)))
    assert wild.within(dates).forced == ((2, END),)


# the page itself


def open_page(**params: str) -> AppTest:
    return page_at("decoding", **{"checkpoint": "dates", "source": SOURCE, **params})


def stepper(app: AppTest) -> tuple[dict, dict]:
    return unpack(
        next(
            p.proto.bytes
            for p in app.get("bidi_component")
            if p.proto.component_name.endswith("stepper")
        )
    )


def checked(app: AppTest) -> None:
    assert_all_passed(app, 5)


def test_the_page_renders_and_every_check_passes() -> None:
    app = open_page(step="4", force="4:12", heads="mean")
    checked(app)
    header, _ = stepper(app)
    assert header["step"] == 3
    assert header["ownText"]
    assert header["reading"].endswith("mean over its 4 heads")
    assert "Forced at position 4: 0." in header["note"]


@pytest.mark.slow(except_one_in=3)
@pytest.mark.parametrize(
    "params",
    [
        {"decoding_how": "sampling", "decoding_temperature": "2.5", "decoding_top_k": "5", "decoding_seed": "3"},
        {"decoding_how": "sampling", "decoding_top_p": "0.5"},
        {"decoding_how": "beam", "decoding_width": "3", "decoding_alpha": "0", "node": "2:2"},
        {"decoding_how": "beam", "decoding_width": "1", "force": "2:14"},
        {"decoding_how": "luck", "decoding_temperature": "-3", "step": "999", "node": "7:7", "force": "2:99999"},
        {"force": "2:2", "step": "9"},                                # the end of the text, forced
        {"source": "5", "target": "2021-03-05 and on and on and on and on and on"},   # longer than its source
        {"source": "5", "decoding_how": "beam"},
        {"target": "☃", "step": "2"},
        {"checkpoint": "eng-fra", "source": "We like him.", "target": "Nous l'aimons bien. " * 25, "step": "110"},
        {"source": "5" * 63, "target": "1" * 63, "step": "63"},       # all that fits
    ],
    ids=lambda p: "&".join(f"{k}={v[:12]}" for k, v in p.items()),
)  # fmt: skip
def test_no_input_makes_it_fail(params: dict[str, str]) -> None:
    checked(open_page(**params))


def test_the_headline_says_where_a_forced_token_leads(dates: Scope) -> None:
    header, _ = stepper(app := open_page(force="3:12"))
    forced, free = (
        dates.tokenizer.decode(ids) for ids in (header["serial"]["taken"], header["free"]["taken"])
    )
    headline = dict(said(app, "written")["rows"])
    assert (headline["label-out"], headline["output"]) == (
        "with your forced token, the model writes",
        forced,
    )
    assert forced != free
    headline = dict(said(open_page(), "written")["rows"])
    assert (headline["label-out"], headline["output"]) == ("the model writes", free)


def test_a_forced_end_ends_the_text() -> None:
    header, _ = stepper(open_page(force="3:2"))
    assert header["serial"]["n"] == 3
    assert "which ends the text" in header["note"]


def test_editing_the_source_clears_forced_tokens_with_a_note() -> None:
    app = open_page(force="3:12")
    app.text_area(key="source").set_value("5 May 1990").run()
    header, _ = stepper(app)
    assert header["forced"] == []
    assert header["free"] is None
    assert "were removed" in header["note"]
    assert "force" not in app.query_params


def test_editing_the_source_on_another_page_clears_forced_tokens_too() -> None:
    app = app_at("", checkpoint="dates", source=SOURCE, force="3:12")
    app.text_area(key="source").set_value("5 May 1990").run()
    assert app.session_state["live session"].shown.spec.forced == ()
    app._page_hash = calc_hash("decoding")
    header, _ = stepper(app.run())
    assert header["forced"] == []
    assert header["note"] == "The forced tokens belonged to another source and were removed."


def test_tokens_forced_by_a_link_stay_on_another_page() -> None:
    app = app_at("", checkpoint="dates", source=SOURCE, force="3:12")
    app._page_hash = calc_hash("decoding")
    assert stepper(app.run())[0]["forced"] == [2]


def test_the_layer_and_the_head_are_those_of_the_other_pages() -> None:
    app = open_page(site="decoder.layers.0.self_attn", head="3")
    assert stepper(app)[0]["reading"] == "decoder layer 1, head 4"
    with_key(app.button_group, "which-layer").set_value(2).run()
    assert stepper(app)[0]["reading"] == "decoder layer 2, head 4"
    assert app.query_params["site"] == "decoder.layers.1.self_attn"
    with_key(app.button_group, "which-head").set_value("mean").run()
    assert stepper(app)[0]["reading"] == "decoder layer 2, mean over its 4 heads"
    assert app.query_params["heads"] == "mean"
