"""The recorded effects of single heads, recomputed by plain passes over the same held-out texts."""

import json

import pytest
import torch
from test_held_out import FILES
from test_shipped import DATA, wants

import models
from models.held_out_texts import held_out
from models.opening import shipped_folder
from models.runs.sweep import SweepResult
from models.runs.text_loss import with_hidden
from models.trace.edits import HeadOff, Where
from models.trace.outputs import Output, Span

BATCH = 40


def swept_checkpoints() -> list[str]:
    folders = sorted(shipped_folder().iterdir())
    return [f.name for f in folders if "ablation" in json.loads((f / "training.json").read_text())]


def rows(output: Output) -> torch.Tensor:
    """Return the rows of an answer's logits: one for a class, two for a span."""
    if isinstance(output, Span):
        return torch.stack([output.start_logits, output.end_logits]).double()
    return output.logits.double().reshape(-1, output.logits.shape[-1])


def losses(scope: models.Scope, texts: list, edits: tuple = ()) -> torch.Tensor:
    """Return the mean negative log-probability of each text's own tokens, or of the model's answer without edits."""
    found = []
    for start in range(0, len(texts), BATCH):
        part = texts[start : start + BATCH]
        own = scope.outputs_batch(part)
        for outputs, before in zip(scope.outputs_batch(part, edits), own, strict=True):
            output = next(iter(outputs.values()))
            p = rows(output).softmax(-1)
            labels = getattr(output, "labels", None)
            if labels is None:
                labels = rows(next(iter(before.values()))).argmax(-1).tolist()
            chosen = [p[i, label] for i, label in enumerate(labels) if label is not None]
            found.append(-torch.stack(chosen).log().mean())
    return torch.stack(found)


def test_every_task_with_heads_is_covered():
    """Left out are the other seeds of dates, and the third of three classifiers that differ in λ alone."""
    assert len(swept_checkpoints()) == 21


@pytest.mark.parametrize("name", swept_checkpoints())
def test_the_effects_of_the_strongest_and_the_weakest_head_are_those_recorded(name):
    scope = models.load(name, device="cpu")
    swept = SweepResult.of_record(scope.training["ablation"])
    file = scope.training["data"].get("file")
    if file:
        wants(DATA, "the held-out texts'")
    paths = [FILES[one] for one in file.split(" + ")] if file else None
    texts = held_out(scope, paths, 400)
    if scope.tokenizer.mask_id is not None and scope.task == "mlm":
        texts = with_hidden(scope, texts)
    assert len(texts) == swept.n_texts
    reported = texts[1::2]
    own = losses(scope, reported)
    sites = scope.run_batch([[row for row in texts[0].values()][: len(scope.model.text_fields)]])
    for one in {swept.heads[0], swept.heads[-1]}:
        site = next(
            site.name
            for site in sites[0].attention.values()
            if (site.kind, site.layer) == (one.kind, one.layer)
        )
        off = (HeadOff(Where(site=site, heads=(one.head,)), baseline=swept.baseline),)
        change = float((losses(scope, reported, off) - own).mean())
        assert change == pytest.approx(one.effect.mean, abs=1e-4)
        assert one.effect.low <= one.effect.mean <= one.effect.high
