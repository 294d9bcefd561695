"""The recorded effects of single heads, measured again by a plain pass over the same held-out texts."""

import json

import pytest
import torch
from test_held_out import FILES
from test_shipped import DATA, wants

import models
from models.ablate_command import held_out
from models.opening import shipped_folder
from models.runs.sweep import Swept
from models.trace.edits import HeadOff, Where

BATCH = 40


def swept_checkpoints() -> list[str]:
    folders = sorted(shipped_folder().iterdir())
    return [f.name for f in folders if "ablation" in json.loads((f / "training.json").read_text())]


def losses(scope: models.Scope, texts: list, edits: tuple = ()) -> torch.Tensor:
    """Mean negative log-probability of each text's own tokens."""
    found = []
    for start in range(0, len(texts), BATCH):
        for outputs in scope.outputs_batch(texts[start : start + BATCH], edits):
            output = next(iter(outputs.values()))
            p = output.logits.double().softmax(-1)
            chosen = torch.stack([p[i, label] for i, label in enumerate(output.labels)])
            found.append(-chosen.log().mean())
    return torch.stack(found)


def test_all_that_predict_tokens_with_heads_are_there():
    assert len(swept_checkpoints()) == 17


@pytest.mark.parametrize("name", swept_checkpoints())
def test_the_strongest_and_the_weakest_head_again(name):
    scope = models.load(name, device="cpu")
    swept = Swept.of_record(scope.training["ablation"])
    file = scope.training["data"].get("file")
    if file:
        wants(DATA, "the held-out texts'")
    paths = [FILES[one] for one in file.split(" + ")] if file else None
    texts = held_out(scope, paths, 400)
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
