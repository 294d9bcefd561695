"""A head switched off in one row of a batch changes that row as it would alone, and no other, however many rows there are."""

from pathlib import Path

import hub_kinds
import pytest
import torch
from checked import unchecked
from hub_models import BY_NAME, NAMES

import models
from models.analysis.metrics import logits_of
from models.errors import IndistinctRowsError
from models.hub.recording.projections import Linears
from models.runs.attention_row import AttentionRow
from models.runs.scope import Scope
from models.runs.sweep import Sweep
from models.trace.edits import HeadOff, MaskChange, Where, editing
from models.trace.edits.selection import of_row

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
    n_fields = len(scope.model.text_fields)  # a target, too, which would be generated otherwise
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
    """The second choice passes through the same module, but its attention is a separate one."""
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


def test_editing_an_attention_that_a_pass_does_not_reach_is_an_error(tmp_path: Path) -> None:
    BY_NAME["GPT2LMHeadModel"].save(tmp_path)
    scope = models.load(tmp_path, device="cpu")
    run = scope.run(TEXTS[0])
    edit = HeadOff(Where(site="transformer.h.9.attn", heads=(0,)))
    with pytest.raises(
        ValueError, match=r"'transformer\.h\.9\.attn': the attentions are transformer"
    ):
        scope.outputs_batch([run.streams], [edit])


@pytest.fixture
def unclear(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scope:
    """A model in which only the sizes distinguish texts from heads."""
    BY_NAME["BloomForCausalLM"].save(tmp_path)
    monkeypatch.setattr(Linears, "scaled_copy", lambda linears, t: None)
    monkeypatch.setattr(Linears, "makes_rows", lambda linears, t: False)
    return models.load(tmp_path, device="cpu")


def test_where_texts_and_heads_cannot_be_told_apart_an_edit_is_an_error(unclear: Scope) -> None:
    """So is an edit that names a kind of attention, though a pass that skips that kind does not report it missing."""
    n_heads = unclear.config.n_heads
    rows = [unclear.run(text).streams for text in TEXTS[:n_heads]]
    edit = MaskChange(Where(kind=unclear.model.kinds[0].name), block=((3, 1),))
    message = rf"cannot be edited in a batch of {n_heads}: the order"
    with editing([edit]), pytest.raises(IndistinctRowsError, match=message):
        unclear.model(*unclear.model.inputs(rows))
    assert len(unclear.outputs_batch(rows)) == n_heads


def test_a_batch_of_as_many_texts_as_heads_is_changed_as_each_text_alone(unclear: Scope) -> None:
    texts = TEXTS[: unclear.config.n_heads]
    edits = (
        MaskChange(Where(kind=unclear.model.kinds[0].name), block=((3, 1),)),
        HeadOff(Where(site="transformer.h.1.self_attention", heads=(0,), rows=(1,))),
    )
    alone = [unclear.run(text, edits=of_row(edits, row)) for row, text in enumerate(texts)]
    traces = unclear.run_batch([[text] for text in texts], edits=edits)
    outputs = unclear.outputs_batch([run.streams for run in alone], edits)
    assert len(traces) == len(outputs) == len(texts)
    for expected, trace, output in zip(alone, traces, outputs, strict=True):
        logits = logits_of(expected.outputs)
        torch.testing.assert_close(logits_of(trace.outputs), logits, atol=2e-5, rtol=1e-4)
        torch.testing.assert_close(logits_of(output), logits, atol=2e-5, rtol=1e-4)
        for name, site in expected.attention.items():
            weights = trace.attention[name].weights()
            torch.testing.assert_close(weights, site.weights(), atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("n_rows", [2, 3])
def test_each_row_of_weights_is_its_own_in_as_many_texts_as_heads(
    unclear: Scope, n_rows: int
) -> None:
    """Gradients included."""
    run = unclear.run(TEXTS[0])
    row = AttentionRow(unclear, run, "transformer.h.1.self_attention", 1, 4)
    rows = torch.rand(n_rows, 7, generator=torch.Generator().manual_seed(3)).double()
    rows = (rows * row.allowed).requires_grad_()
    together = row.answers(rows, gradients=True)
    (slopes,) = torch.autograd.grad(together[:, 5].sum(), rows)
    for i in range(n_rows):
        alone = row.answers(rows[i : i + 1], gradients=True)
        torch.testing.assert_close(together[i], alone[0], atol=2e-5, rtol=1e-4)
        (slope,) = torch.autograd.grad(alone[0, 5], rows)
        torch.testing.assert_close(slopes[i], slope[i], atol=2e-5, rtol=1e-3)


def test_the_importance_of_a_head_is_the_same_from_as_many_texts_as_heads(unclear: Scope) -> None:
    """The refused pass leaves nothing in the sums."""
    texts = [unclear.streams(text) for text in TEXTS]
    assert len(texts[::2]) == unclear.config.n_heads
    together = Sweep(unclear, texts, n_orders=0)._importance()
    one_by_one = Sweep(unclear, texts, n_orders=0, batch=1)._importance()
    assert together == pytest.approx(one_by_one, rel=1e-3)
