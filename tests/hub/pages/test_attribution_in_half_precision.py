"""The attribution of a library's model in half precision is near that in float32, and is not said to be exact."""

from pathlib import Path

import pytest
import torch
from hub_models import BY_NAME

import models
from viz_app.session.current_run import CurrentRun
from viz_app.views.interventions import attribution
from viz_app.views.interventions import attribution_text as text


@pytest.mark.parametrize(
    ("made", "dtype"),
    [
        ("GPT2LMHeadModel", "float16"),
        ("LlamaForCausalLM", "bfloat16"),
        ("BartForConditionalGeneration", "bfloat16"),
        ("BertForSequenceClassification", "bfloat16"),
    ],
)
def test_a_model_in_half_precision_is_attributed_as_in_float32(
    made: str, dtype: str, tmp_path: Path
) -> None:
    BY_NAME[made].make().to(getattr(torch, dtype)).save_pretrained(tmp_path)
    scopes = [models.load(tmp_path, device="cpu", dtype=one) for one in (dtype, "float32")]
    given = ("5 6 7 8 9", "5 9 11")[: 1 + scopes[0].model.translates]
    half, full = (CurrentRun(scope, scope.run(*given)) for scope in scopes)
    methods = attribution.methods_of(half)
    assert methods == attribution.methods_of(full)
    assert {text.GRADIENT_METHOD, text.INTEGRATED_METHOD} <= set(methods)
    for method in set(methods) - {text.FLOW_METHOD}:
        (site, *_), *_ = attribution.kinds_of(full.trace, method).values()
        choices = attribution.AttributionChoices(method, None, site.name, 1)
        pictures = attribution.attribution_payloads(half, choices)
        numbers = [attribution.attribution_numbers(one, choices) for one in (half, full)]
        assert all(check.passed for one in numbers for check in one.checks)
        ours, exact = (one.values.detach() for one in numbers)
        assert float((ours - exact).abs().max()) < 0.15 * float(exact.abs().max()), method
        is_checked = method != text.GRADIENT_METHOD
        assert ("checks" in pictures) == is_checked
        assert (dtype in str(pictures["attribution note"])) != is_checked
