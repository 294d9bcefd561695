"""The section Attribution of Interventions: its numbers are those of the analysis, and its sentences follow from them."""

import numpy as np
import pytest
from app_parts import app_at, picture, said
from streamlit.testing.v1 import AppTest

import models
from models.analysis import attention_gradients, flow, integrated_gradients, rollout
from models.analysis.metrics import LogProbability
from viz_app.views.interventions import attribution_text as text
from viz_app.views.interventions.attribution import LONGEST

CROSS, SELF = "decoder.layers.2.cross_attn", "encoder.layers.1.self_attn"
SOURCE = "I like cats."


def opened(method: str, **more: str) -> AppTest:
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


def shown(method: str, **more: str) -> np.ndarray:
    return picture(opened(method, **more), "attribution")[1]["states"]


@pytest.mark.parametrize("checkpoint", ["eng-fra", "gpt", "bert", "xlnet", "dates-bahdanau"])
@pytest.mark.parametrize("method", [text.GRADIENT, text.INTEGRATED, text.ROLLOUT])
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


def test_the_gradients_are_those_of_the_analysis() -> None:
    scope = models.load("eng-fra", device="cpu")
    run = scope.run(SOURCE)
    metric = LogProbability(run.next_token.labels[3], 3)
    values = attention_gradients(scope, run, metric)[CROSS][3]
    np.testing.assert_allclose(shown(text.GRADIENT), values, atol=1e-5)
    parts = integrated_gradients(scope, run, metric, [CROSS]).parts[CROSS][3]
    np.testing.assert_allclose(shown(text.INTEGRATED), parts, atol=1e-4)


def test_rollout_and_flow_are_of_all_layers_and_no_decision() -> None:
    run = models.load("eng-fra", device="cpu").run(SOURCE)
    kind = run.attention[SELF].kind
    np.testing.assert_allclose(
        shown(text.ROLLOUT, site=SELF, head="0"), rollout(run, kind)[-1], atol=1e-5
    )
    np.testing.assert_allclose(shown(text.FLOW, site=SELF, head="0"), flow(run, kind), atol=1e-5)


def test_the_sentence_turns_with_the_sign() -> None:
    more = text.sentence(text.GRADIENT, "“a”", "“b”", 0.5, "cat")
    less = text.sentence(text.GRADIENT, "“a”", "“b”", -0.5, "cat")
    assert "0.5 nats towards" in more
    assert "0.5 nats away from" in less
    assert text.sentence(text.GRADIENT, "“a”", "“b”", 0.0, "cat") == "No cell counts here."


def test_the_sentence_is_of_the_strongest_cell() -> None:
    app = opened(text.GRADIENT)
    header, arrays = picture(app, "attribution")
    values = arrays["states"]
    row, column = divmod(int(np.abs(values).argmax()), values.shape[1])
    ((_, line),) = said(app, "attribution note")["rows"]
    assert header["names"][column][0].strip("·") in line
    assert ("towards" in line) == (values[row, column] > 0)
    assert f"{abs(values[row, column]):.2g} nats" in line


def test_a_text_too_long_for_flow_says_so() -> None:
    app = app_at(
        "interventions",
        **{
            "checkpoint": "eng-fra", "source": "I like cats. " * 12, "site": SELF,
            "interventions-section": "Attribution", "if-attribution": text.FLOW,
        },
    )  # fmt: skip
    assert not app.exception
    ((_, line),) = said(app, "attribution note")["rows"]
    assert f"at most {LONGEST[text.FLOW]}" in line
