"""The page Decoding of a model of the library whose end token is also its start."""

from dataclasses import replace
from pathlib import Path

import pytest
from hub_models import BY_NAME

import models
from models.decoding.runs import Method
from viz_app.drawing.extent import OWN_EXTENT
from viz_app.drawing.payload import unpack
from viz_app.session.current_run import CurrentRun
from viz_app.views.decoding.decoding_runs import decoder_attention
from viz_app.views.decoding.payloads import DecodingChoices, DecodingPosition
from viz_app.views.decoding.payloads import decoding_payloads as page_payloads


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("GPT2LMHeadModel", {"bos_token_id": 2}),
        ("BartForConditionalGeneration", {"decoder_start_token_id": 2}),
    ],
)
def test_an_end_token_that_is_also_the_start_can_be_forced(
    tmp_path: Path, name: str, start: dict
) -> None:
    case = BY_NAME[name]
    replace(case, sizes=case.sizes | start | {"eos_token_id": 2}).save(tmp_path)
    scope = models.load(tmp_path, device="cpu")
    assert (scope.config.start_id, scope.model.end_ids) == (2, (2,))
    kept = DecodingPosition(forced=((1, 5), (2, 2))).within(scope)
    assert kept.forced == ((1, 5), (2, 2))
    run = CurrentRun(scope, scope.run("7 8 9"))
    inputs = run.trace.streams[scope.model.streams[0]].ids
    method = Method(forced=((0, 6), *kept.forced))
    choices = DecodingChoices(method, decoder_attention(run.trace), kept, inputs)
    header, _ = unpack(page_payloads(run, choices)["stepper"].draw(OWN_EXTENT))
    assert header["serial"]["taken"] == [6, 5, 2]
    assert header["serial"]["ended"]
    assert 2 not in header["unforceable"]
