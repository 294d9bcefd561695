"""The section Attribution of Interventions: its numbers are those of the analysis, and its sentences follow from them."""

import csv
import io
import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from app_parts import app_at, picture, said
from drawn import on_screen
from streamlit.testing.v1 import AppTest

import models
from models.analysis import attention_gradients, flow, integrated_gradients, rollout
from models.analysis.metrics import LogProbability
from models.trace.edits import HeadScale, Patch, Where, to_text
from viz_app.drawing.payload import unpack
from viz_app.session.cache import changed_run
from viz_app.session.current_run import CurrentRun
from viz_app.views.interventions import attribution
from viz_app.views.interventions import attribution_text as text
from viz_app.views.interventions.attribution import MAX_ATTRIBUTED_TOKENS
from viz_app.views.interventions.attribution_parts import AttributionChoices

CROSS, SELF = "decoder.layers.2.cross_attn", "encoder.layers.1.self_attn"
SOURCE = "I like cats."
DIRECT = {"interventions-section": "Attribution", "if-attribution": text.DIRECT_METHOD}


def open_page(method: str, **more: str) -> AppTest:
    asked = {
        "checkpoint": "eng-fra",
        "source": SOURCE,
        "if-position": "3",
        "site": CROSS,
        "head": "3",
    }
    section = {"interventions-section": "Attribution", "if-attribution": method}
    app = app_at("interventions", **(asked | section | more))
    assert not app.exception
    return app


def shown_values(method: str, **more: str) -> np.ndarray:
    return picture(open_page(method, **more), "attribution")[1]["states"]


def test_the_picture_names_the_decision_unless_the_method_has_none() -> None:
    about = picture(open_page(text.GRADIENT_METHOD), "attribution")[0]["about"]
    assert "\ndecision: 3, " in about
    assert "decision" not in picture(open_page(text.ROLLOUT_METHOD), "attribution")[0]["about"]


@pytest.mark.slow(except_one_in=3)
@pytest.mark.parametrize("checkpoint", ["eng-fra", "gpt", "bert", "xlnet", "dates-bahdanau"])
@pytest.mark.parametrize(
    "method", [text.GRADIENT_METHOD, text.INTEGRATED_METHOD, text.ROLLOUT_METHOD]
)
def test_every_family_is_attributed_and_its_identity_holds(checkpoint: str, method: str) -> None:
    app = app_at(
        "interventions",
        **{
            "checkpoint": checkpoint,
            "interventions-section": "Attribution",
            "if-attribution": method,
        },
    )
    assert not app.exception
    assert np.isfinite(picture(app, "attribution")[1]["states"]).all()
    assert not [line for look, line in said(app, "checks")["rows"] if look == "failed"]


def test_the_table_distinguishes_equal_tokens_and_a_mix_of_heads_has_no_head_name() -> None:
    scope = models.load("gpt", device="cpu")
    run = CurrentRun(scope, scope.run("the cat and the cat"))
    site = "decoder.layers.0.self_attn"
    gradient, rollout = (
        attribution.ATTRIBUTION.files(run, AttributionChoices(method, 1, site, 2))[0]
        for method in (text.GRADIENT_METHOD, text.ROLLOUT_METHOD)
    )
    assert "head3" in gradient.name
    assert "head" not in rollout.name
    for file in (gradient, rollout):
        columns, *rows = csv.reader(io.StringIO(file.make(run)))
        assert len(set(columns)) == len(columns) == len(rows) + 1
        assert columns[1:] == [row[0].split(" → ")[0] for row in rows]


@pytest.mark.slow
def test_the_gradients_are_those_of_the_analysis() -> None:
    scope = models.load("eng-fra", device="cpu")
    run = scope.run(SOURCE)
    metric = LogProbability(run.next_token.labels[3], 3)
    values = attention_gradients(scope, run, metric)[CROSS][3]
    np.testing.assert_allclose(shown_values(text.GRADIENT_METHOD), values, atol=1e-5)
    parts = integrated_gradients(scope, run, metric, [CROSS]).parts[CROSS][3]
    np.testing.assert_allclose(shown_values(text.INTEGRATED_METHOD), parts, atol=1e-4)


def test_the_direct_parts_are_those_of_hooks_on_the_output_projection() -> None:
    """The second route leads the last layer's heads through W_O, the norm's own scale and the output matrix."""
    scope = models.load("gpt", device="cpu")
    app = app_at("interventions", checkpoint="gpt", **DIRECT, **{"if-position": "1"})
    header, arrays = picture(app, "attribution")
    text_read = app.text_area(key="text").value
    run = scope.run(text_read)
    row = 1
    token = run.next_token.labels[row]
    than = next(
        i for i in run.next_token.logits[row].argsort(descending=True).tolist() if i != token
    )
    x = run.activations["decoder.layers.3.resid_post"].value[0, row]
    with torch.no_grad():
        deviation = float((x.var(correction=0) + scope.model.last_norm.eps).sqrt())
        output = scope.model.embedding.weight[token] - scope.model.embedding.weight[than]
        scaled = scope.model.last_norm.weight * output / deviation
        site = run.attention["decoder.layers.3.self_attn"]
        w_o = site.projections["W_O"][0]
        width = site.out.shape[-1]
        for head in range(site.n_heads):
            added = torch.zeros(w_o.shape[0])
            added += w_o[:, head * width : (head + 1) * width] @ site.out[0, head, row]
            part = float((added - added.mean()) @ scaled)
            assert arrays["states"].reshape(4, -1)[3, head] == pytest.approx(part, abs=1e-4)
    assert header["unit"] == "logits"
    assert [label[0] for label in header["rows"]] == [
        f"Decoder self {layer}" for layer in range(1, 5)
    ]


def test_the_strongest_head_is_for_one_token_and_against_the_other() -> None:
    said = text.direct("head 3", 0.5, 1.0, -0.25, "cat", "dog")
    assert "head 3, 0.5 for “cat” against “dog”" in said
    assert "heads together add +1.00, everything else −0.25: +0.75 in all" in said
    said = text.direct("head 3", -0.5, 1.0, -0.25, "cat", "dog")
    assert "head 3, 0.5 for “dog” against “cat”" in said


@pytest.mark.parametrize("checkpoint", ["eng-fra", "gpt", "dates"])
def test_heads_and_the_rest_add_up_to_the_difference_of_two_logits(checkpoint: str) -> None:
    app = app_at("interventions", checkpoint=checkpoint, **DIRECT)
    assert not app.exception
    assert not [line for look, line in said(app, "checks")["rows"] if look == "failed"]
    ((_, line),) = said(app, "attribution note")["rows"]
    sums = re.findall(r"(?:add|else|:) ([+−]?\d+\.\d\d)", line)
    heads, rest, whole = (float(number.replace("−", "-")) for number in sums)
    assert heads + rest == pytest.approx(whole, abs=0.011)
    drawn = picture(app, "attribution")[1]["states"]
    assert np.nansum(drawn) == pytest.approx(heads, abs=0.006)


@pytest.mark.parametrize("checkpoint", ["bert", "xlnet", "dates-bahdanau", "gpt-sentiment"])
def test_logits_that_are_no_sum_have_no_direct_parts(checkpoint: str) -> None:
    app = app_at("interventions", checkpoint=checkpoint, **DIRECT)
    assert not app.exception
    assert text.DIRECT_METHOD not in app.session_state["url"].values.values()


@pytest.mark.parametrize("patched", [0, 2, 4])
def test_direct_parts_beside_a_patched_cell(patched: int) -> None:
    """They are refused only at the token whose residual stream is no longer the sum of what was added."""
    where = Where(activation="decoder.layers.1.resid_post", queries=(patched,))
    edits = to_text((Patch(where, fields=("He drank a cup of tea.",)),))
    given = {"checkpoint": "gpt", "text": "She drank a cup of tea.", "edits": edits}
    app = app_at("interventions", **given, **DIRECT, **{"if-position": "2"})
    assert not app.exception
    ((_, line),) = said(app, "attribution note")["rows"]
    assert (line == text.NO_SUM) == (patched == 2)
    looks = [look for look, _ in said(app, "checks")["rows"]] if patched != 2 else []
    assert "failed" not in looks


def test_the_sentence_on_the_direct_parts_follows_the_sign() -> None:
    more = text.direct("self 1, head 2", 0.5, 1.0, -0.25, "cat", "dog")
    less = text.direct("self 1, head 2", -0.5, 1.0, -0.25, "cat", "dog")
    assert "0.5 for “cat” against “dog”" in more
    assert "0.5 for “dog” against “cat”" in less
    assert "+1.00, everything else −0.25: +0.75" in more
    none = text.direct("self 1, head 2", 0.0, 0.0, -0.25, "cat", "dog")
    assert "“dog”" not in none
    assert "head 2" not in none
    assert "everything else −0.25" in none


def test_rollout_and_flow_cover_all_layers_and_no_decision() -> None:
    run = models.load("eng-fra", device="cpu").run(SOURCE)
    kind = run.attention[SELF].kind
    np.testing.assert_allclose(
        shown_values(text.ROLLOUT_METHOD, site=SELF, head="0"), rollout(run, kind)[-1], atol=1e-5
    )
    np.testing.assert_allclose(
        shown_values(text.FLOW_METHOD, site=SELF, head="0"), flow(run, kind), atol=1e-5
    )


@pytest.mark.parametrize("method", text.METHOD_TITLES)
def test_the_answer_speaks_of_a_chosen_token_only_where_one_is_followed(method: str) -> None:
    """A title names the token of a method that follows one."""
    follows = "“cat”" in text.attribution_title(method, "here", "cat", "dog")
    assert ("the chosen answer" in text.attribution_answer(method)) == follows


def test_the_sentence_follows_the_sign() -> None:
    more = text.strongest_cell_sentence(text.GRADIENT_METHOD, "“a”", "“b”", 0.5, "cat")
    less = text.strongest_cell_sentence(text.GRADIENT_METHOD, "“a”", "“b”", -0.5, "cat")
    assert "0.5 nats towards" in more
    assert "0.5 nats away from" in less
    assert (
        text.strongest_cell_sentence(text.GRADIENT_METHOD, "“a”", "“b”", 0.0, "cat")
        == "No cell counts here."
    )


def test_a_single_token_mixes_with_no_other() -> None:
    run = CurrentRun(scope := models.load("xlnet", device="cpu"), scope.run("a"))
    kind = attribution.kinds_of(run.trace, text.ROLLOUT_METHOD)
    choices = attribution.AttributionChoices(
        text.ROLLOUT_METHOD, None, next(iter(kind.values()))[0].name, 0
    )
    pictures = attribution.attribution_payloads(run, choices)
    assert "between two tokens" not in str(pictures["attribution note"])


def test_a_gradient_beside_a_kink_of_the_model_is_not_called_wrong() -> None:
    run = CurrentRun(scope := models.load("eng-fra", device="cpu"), scope.run("We like him."))
    edit = HeadScale(Where(site=CROSS, heads=(5,)), factor=-1.0)
    edited = changed_run(run, replace(run.spec, edits=(edit,)))
    site = "decoder.layers.2.self_attn"
    choices = attribution.AttributionChoices(text.GRADIENT_METHOD, None, site, 5)
    found = attribution.attribution_numbers(edited, choices)
    assert float(found.values.abs().max()) > 0.02
    (check,) = found.checks
    assert check.passed
    assert "0.2 % larger and smaller" in check.sentence


def test_the_sentence_names_the_strongest_cell() -> None:
    app = open_page(text.GRADIENT_METHOD)
    header, arrays = picture(app, "attribution")
    values = arrays["states"]
    row, column = divmod(int(np.abs(values).argmax()), values.shape[1])
    ((_, line),) = said(app, "attribution note")["rows"]
    assert header["names"][column][0].strip("·") in line
    assert ("towards" in line) == (values[row, column] > 0)
    assert f"{abs(values[row, column]):.2g} nats" in line


@pytest.mark.parametrize("sign", [1, -1])
def test_the_scale_reaches_to_the_strongest_cell_of_either_sign(
    monkeypatch: pytest.MonkeyPatch, sign: int
) -> None:
    scope = models.load("eng-fra", device="cpu")
    run = CurrentRun(scope, scope.run(SOURCE))
    choices = attribution.AttributionChoices(text.GRADIENT_METHOD, 3, CROSS, 3)
    found = attribution.attribution_numbers(run, choices)
    turned = replace(found, values=sign * found.values)
    monkeypatch.setattr(attribution, "attribution_numbers", lambda *asked: turned)
    pictures = on_screen(attribution.attribution_payloads(run, choices))
    header, arrays = unpack(pictures["attribution"])
    assert header["limit"] == pytest.approx(float(np.abs(arrays["states"]).max()))


def test_a_text_too_long_for_flow_says_so() -> None:
    app = app_at(
        "interventions",
        **{
            "checkpoint": "eng-fra", "source": "I like cats. " * 12, "site": SELF,
            "interventions-section": "Attribution", "if-attribution": text.FLOW_METHOD,
        },
    )  # fmt: skip
    assert not app.exception
    ((_, line),) = said(app, "attribution note")["rows"]
    assert f"at most {MAX_ATTRIBUTED_TOKENS[text.FLOW_METHOD]}" in line
