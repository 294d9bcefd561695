"""Files to take away: no two models, steps or similarities share a name, and a file says whose numbers it holds."""

from dataclasses import replace

import pytest
from drawn import letters

from models.trace import Trace
from viz_app.drawing import provenance

CROSS = "decoder.layers.1.cross_attn"


@pytest.fixture(scope="module")
def trace() -> Trace:
    return letters().run("abcde", "edc")


def of(trace: Trace, name: str, **training: object) -> Trace:
    return replace(trace, model=replace(trace.model, name=name, training=training))


# names


def test_a_name_says_model_step_layer_and_head_as_on_the_screen(trace: Trace) -> None:
    run = of(trace, "eng-fra", step=4000)
    assert provenance.head_name(run, run.attention[CROSS], 2) == "eng-fra.step4000.decoder.layer2.cross_attn.head3"
    assert provenance.head_name(run, run.attention[CROSS], 0, "training") == (
        "eng-fra.step4000.decoder.layer2.cross_attn.head1.training"
    )
    assert provenance.file_name(run, "all-heads") == "eng-fra.step4000.all-heads"


def test_no_other_model_step_or_similarity_has_the_name() -> None:
    cosine, scaled = (letters(similarity=name).run("abcde", "edc") for name in ("cosine", "scaled dot"))
    runs = [of(run, name, step=step) for run in (cosine, scaled) for name in ("dates", "eng-fra") for step in (0, 200, 4000)]
    names = [provenance.head_name(run, run.attention[CROSS], 1) for run in runs]
    assert len(set(names)) == 12
    assert names[0] == "dates.step0.cosine.decoder.layer2.cross_attn.head2"
    assert names[6] == "dates.step0.decoder.layer2.cross_attn.head2"


def test_an_alignment_has_no_layer_and_no_similarity_to_choose() -> None:
    run = letters("recurrent").run("abcde", "edc")
    (site,) = run.attention.values()
    assert provenance.similarity(run) == ""
    assert provenance.head_name(of(run, "dates-rnn", step=7), site, 0) == f"dates-rnn.step7.{site.name}.head1"


@pytest.mark.parametrize(("text", "name"), [
    ("q·k / √d", "q-k-sqrt-d"), ("read → written", "read-to-written"),
    ("PE·PEᵀ", "PE-PE^T"), ("10⁻³", "10^-3"), ("x²", "x^2"), ("h₁", "h_1"),
    ("my model/../x", "my-model-..-x"), ("../..", ""), ("école", "école"),
])  # fmt: skip
def test_signs_stay_readable_and_a_name_is_no_path(text: str, name: str) -> None:
    assert provenance.readable(text) == name
