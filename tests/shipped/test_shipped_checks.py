"""Every check on the pages of every shipped checkpoint passes for its first examples, in whatever order a machine's kernel adds."""

import functools

import pytest
import torch
from drawn import on_screen
from small_runs import edited

import models
from models import Scope
from models.analysis.checks import ROUNDING, check_site, check_used
from models.analysis.walk_checks import check_walk
from models.decoding.runs import Method, autoregressive
from models.layers import similarity
from models.trace.edits import MaskChange, for_kinds
from viz_app.input_bar.examples import readable_examples
from viz_app.session.current_run import CurrentRun
from viz_app.session.focus import Focus
from viz_app.session.live import Pictures
from viz_app.views.attention import payloads as attention
from viz_app.views.decoding import payloads as decoding
from viz_app.views.decoding.decoding_runs import decoder_attention
from viz_app.views.masks import payloads as masks
from viz_app.views.task import presentations as task

MOST_WRITTEN = 12  # tokens, if a text does not end by itself


@pytest.fixture(scope="module", params=models.shipped())
def scope(request) -> Scope:
    return models.load(request.param, device="cpu")


def pages(run: CurrentRun) -> dict[str, Pictures]:
    """Yield the payloads of the pages for a run as they open; Decoding with all three methods if the model generates, Masks also with
    a blocked cell."""
    trace, model = run.trace, run.scope.model
    drawn = {"task": on_screen(task.task_payloads(run, task.TaskChoices(None, Focus())))}
    most = MOST_WRITTEN if model.continues else None
    for how in ("greedy", "sample", "beam") if model.can_write else ():
        choices = decoding.DecodingChoices(
            Method(how, max_new=most),
            decoder_attention(trace),
            decoding.DecodingPosition(),
            run.input_ids,
        )
        drawn[f"decoding, {how}"] = on_screen(decoding.decoding_payloads(run, choices))
    for site in list(trace.attention.values())[-1:]:
        drawn["attention"] = on_screen(
            attention.attention_payloads(run, attention.AttentionChoices(Focus(site.name)))
        )
        for edits in ((), for_kinds(**{site.kind: MaskChange(block=((1, 0),))})):
            choices = masks.MaskChoices("", "", 0, site.kind, site.name, 0)
            drawn[f"masks, {len(edits)}"] = on_screen(
                masks.mask_payloads(edited(run, edits), choices)
            )
    return drawn


def test_every_check_of_every_page_passes(scope):
    run = CurrentRun(scope, scope.run(*readable_examples(scope)[0]))
    looks = {
        page: [look for look, _ in drawn["checks"]["rows"]] for page, drawn in pages(run).items()
    }
    assert [
        page for page, found in looks.items() if "failed" in found or "passed" not in found
    ] == []


def test_every_check_of_every_head_passes_for_the_next_examples(scope):
    for texts in readable_examples(scope)[1:3]:
        trace = scope.run(*texts)
        assert [
            check
            for site in trace.attention.values()
            for check in check_site(site)
            if not check.passed
        ] == []
        for site in trace.attention.values():
            for head in range(site.n_heads):
                checks = check_walk(trace, site, (3 * head) % site.n_query, head)
                assert [(site.name, head, check) for check in checks if not check.passed] == []


def test_the_checks_pass_if_a_machine_adds_in_another_order(scope, monkeypatch):
    """The sums over the features of q and k are taken in three other orders, which in float32 changes the last digits of scores."""
    kernel = similarity.F.scaled_dot_product_attention
    texts = readable_examples(scope)[0]

    def reordered(q, k, v, *, order, **how):
        features = torch.randperm(q.shape[-1], generator=torch.Generator().manual_seed(order))
        return kernel(q[..., features], k[..., features], v, **how)

    for order in range(3):
        monkeypatch.setattr(
            similarity.F, "scaled_dot_product_attention", functools.partial(reordered, order=order)
        )
        assert [
            site.name
            for site in scope.run(*texts).attention.values()
            if not check_used(site).passed
        ] == []
        if scope.model.can_write:
            written = autoregressive(
                scope.model, scope.input_ids(texts[0]), Method(max_new=MOST_WRITTEN)
            ).run
            assert (written.kernel_error is None) == (not written.rows)
            assert (written.kernel_error or 0.0) <= ROUNDING
