"""A head off in one row of a batch changes that row as it would alone, and no other, however many rows there are."""

from pathlib import Path

import hub_kinds
import pytest
import torch
from checked import unchecked
from hub_models import BY_NAME, NAMES

import models
from models.analysis.metrics import logits_of
from models.hub.recording.projections import Linears
from models.runs.scope import Scope
from models.trace.edits import HeadOff, MaskChange, Where

TEXTS = ("5 6 7 8 9 10 11", "12 5 9 14 7 6 8", "9 9 5 11 6 13 10", "7 12 6 5 10 8 14")
SECOND = "21 23 29"


@pytest.fixture(scope="module", params=[*NAMES, "BloomForCausalLM"])
def scope(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Scope:
    folder = tmp_path_factory.mktemp("hub")
    BY_NAME[request.param].save(folder)
    scope = models.load(folder, device="cpu")
    if not scope.model.can_edit_masks or not scope.model.pads:
        pytest.skip("its attention cannot be changed, or its rows cannot be padded")
    return scope


@pytest.mark.parametrize("same", [True, False], ids=["one text", "several"])
@unchecked()
def test_a_head_off_in_one_row_changes_that_row_as_it_would_alone(scope: Scope, same: bool) -> None:
    n_fields = len([field for field in scope.model.text_fields if not field.optional])
    texts = [[TEXTS[0] if same else text, SECOND][:n_fields] for text in TEXTS]
    runs = [scope.run(*text) for text in texts]
    try:
        logits_of(runs[0].outputs)
    except ValueError:
        pytest.skip("it answers with vectors")
    unchanged = [logits_of(scope.outputs_batch([run.streams], [])[0]) for run in runs]
    for site in runs[0].attention:
        for n in range(2, len(texts) + 1):  # as many rows as heads or key heads, too
            edit = HeadOff(Where(site=site, heads=(0,), rows=(n - 1,)))
            whole = scope.outputs_batch([run.streams for run in runs[:n]], [edit])
            alone = HeadOff(Where(site=site, heads=(0,)))
            changed = logits_of(scope.outputs_batch([runs[n - 1].streams], [alone])[0])
            expected = [*unchanged[: n - 1], changed]
            for outputs, logits in zip(whole, expected, strict=True):
                torch.testing.assert_close(logits_of(outputs), logits, atol=2e-5, rtol=1e-4)


def test_a_head_of_each_choice_is_changed_in_a_batch_as_alone(tmp_path: Path) -> None:
    """The attention of the second choice, read by the same module, is an attention of its own."""
    hub_kinds.save("BertForMultipleChoice", tmp_path)
    scope = models.load(tmp_path, device="cpu")
    choices = hub_kinds.texts("BertForMultipleChoice")[:3]
    run = scope.run(*choices)
    before = logits_of(run.outputs)
    assert len(run.attention) == 2 * len({name.partition(" (")[0] for name in run.attention})
    for name in run.attention:
        edit = HeadOff(Where(site=name, heads=(0,)))
        alone = logits_of(scope.run(*choices, edits=[edit]).outputs)
        (batched,) = scope.outputs_batch([run.streams], [edit])
        torch.testing.assert_close(logits_of(batched), alone, atol=2e-6, rtol=1e-5)
        changed = (alone - before).abs().flatten() > 1e-6
        assert changed.tolist() == [not name.endswith("(2)"), name.endswith("(2)")]


def test_an_attention_that_a_pass_does_not_come_to_is_an_error(tmp_path: Path) -> None:
    BY_NAME["GPT2LMHeadModel"].save(tmp_path)
    scope = models.load(tmp_path, device="cpu")
    run = scope.run(TEXTS[0])
    edit = HeadOff(Where(site="transformer.h.9.attn", heads=(0,)))
    with pytest.raises(
        ValueError, match=r"'transformer\.h\.9\.attn': the attentions are transformer"
    ):
        scope.outputs_batch([run.streams], [edit])


def test_where_texts_and_heads_cannot_be_told_apart_an_edit_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that names a kind of attention, which a pass that leaves it out does not miss."""
    BY_NAME["BloomForCausalLM"].save(tmp_path)
    scope = models.load(tmp_path, device="cpu")
    n_heads = scope.config.n_heads
    runs = [scope.run(text) for text in TEXTS[:n_heads]]
    monkeypatch.setattr(Linears, "scaled_copy", lambda linears, t: None)
    monkeypatch.setattr(Linears, "makes_rows", lambda linears, t: False)
    edit = MaskChange(Where(kind=scope.model.kinds[0].name), block=((3, 1),))
    rows = [run.streams for run in runs]
    with pytest.raises(ValueError, match=rf"cannot be edited in a batch of {n_heads}: the order"):
        scope.outputs_batch(rows, [edit])
    assert len(scope.outputs_batch(rows)) == n_heads
