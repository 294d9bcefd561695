"""Random edits, alone and together, against a forward pass written by hand in numpy."""

from random import Random

import pytest
import torch
from checked import unchecked
from forward_by_hand import ByHand
from small import random_gpt, random_ids, random_model

from models.architectures import Model
from models.trace import Recording, record
from models.trace.edits import (
    Edit,
    HeadOff,
    HeadScale,
    Patch,
    SetWeights,
    Where,
    ZeroValue,
    editing,
)
from models.trace.edits.material import PositionVectors, RecordingEdit

MODELS = {
    "encoder-decoder": (lambda: random_model(norm="post"), (7, 5)),
    "encoder-decoder, pre-LN": (lambda: random_model(norm="pre"), (5, 7)),
    "gpt": (random_gpt, (7,)),
}
N_RUNS = 170  # of each model, of two edits each: 1,020 edits


def run(model: Model, ids: list[torch.Tensor], edits=()) -> tuple[torch.Tensor, Recording]:
    with torch.no_grad(), record() as recording, editing(edits):
        return model(*ids)[0], recording


def another_run(
    model: Model, ids: list[torch.Tensor]
) -> tuple[RecordingEdit, dict[str, PositionVectors]]:
    """Return the intermediates of a run on other ids, and its head outputs."""
    kept = RecordingEdit(wants_weights=True, wants_activations=True)
    _, recording = run(model, ids, [kept])
    return kept, {name: PositionVectors(site.out[0]) for name, site in recording.attention.items()}


def random_edit(
    rng: Random, recording: Recording, kept: RecordingEdit, outputs: dict[str, PositionVectors]
) -> Edit:
    site = rng.choice(list(recording.attention.values()))
    some = lambda n: tuple(rng.sample(range(n), rng.randint(1, n)))  # noqa: E731
    where = Where(
        site=site.name,
        heads=rng.choice([None, some(site.n_heads)]),
        queries=rng.choice([None, some(site.n_query)]),
    )
    if rng.random() < 0.3:
        where = Where(kind=site.kind, layers=rng.choice([None, (site.layer,)]), heads=where.heads)
    names = [
        n
        for n in kept.activations
        if n.endswith(("resid_mid", "resid_post", "ff_out", "resid_pre"))
    ]
    name = rng.choice(names)
    keys = some(min(3, site.n_key))
    shares = [rng.random() for _ in range(len(keys) + 1)]
    cells = tuple((key, share / sum(shares)) for key, share in zip(keys, shares, strict=False))
    weights = {name: PositionVectors(kept.weights_of(name)) for name in recording.attention}
    return rng.choice(
        [
            HeadOff(where),
            HeadOff(where, baseline="uniform"),
            HeadOff(where, baseline="offset", offset=rng.randint(-2, 2)),
            HeadOff(where, baseline="mean", material=outputs),
            HeadScale(where, factor=rng.uniform(-2, 2)),
            SetWeights(where, cells=cells),
            ZeroValue(where, token=rng.randrange(site.n_key)),
            Patch(where, fields=("x",), material=outputs),
            Patch(where, of="attention row", fields=("x",), material=weights),
            Patch(
                Where(activation=name, queries=rng.choice([None, some(5)])),
                fields=("x",),
                material={name: PositionVectors(kept.activations[name])},
            ),
        ]
    )


@pytest.mark.parametrize("name", MODELS)
def test_random_edits_against_a_forward_pass_by_hand(name):
    make, lengths = MODELS[name]
    model, rng = make().double(), Random(name)
    ids = [random_ids(1, n, i) for i, n in enumerate(lengths)]
    with unchecked():
        plain, recording = run(model, ids)
        others = [random_ids(1, n, i + 10) for i, n in enumerate(lengths)]
        kept, outputs = another_run(model, others)
        rows = [one[0].tolist() for one in ids]
        torch.testing.assert_close(torch.tensor(ByHand(model, rows).logits), plain)
        n_changed = 0
        for _ in range(N_RUNS):
            edits = [random_edit(rng, recording, kept, outputs) for _ in range(2)]
            logits, edited = run(model, ids, edits)
            hand = ByHand(model, rows, edits)
            apart = (torch.tensor(hand.logits) - logits).abs().max()
            assert apart < 1e-5, (apart, [str(edit) for edit in edits])
            for site, weights in hand.weights.items():
                derived = edited.attention[site].weights()
                assert (torch.tensor(weights) - derived).abs().max() < 1e-6
                out = torch.tensor(hand.head_out[site])
                assert (out - edited.attention[site].out[0]).abs().max() < 1e-5
            n_changed += not torch.allclose(logits, plain, atol=1e-6)
    assert n_changed > 0.9 * N_RUNS
