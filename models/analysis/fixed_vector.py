"""The fixed vector that is all a decoder without attention gets from its source.

Sutskever et al. 2014; Cho et al. 2014.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from models.analysis.checks import Check
from models.architectures.seq2seq import Seq2Seq
from models.trace import Trace


def fixed_vector(model: Seq2Seq, trace: Trace) -> Float[Tensor, "d_memory"]:
    """Return h_m of this run: the last state of each direction of the encoder."""
    return model.encoder.last_state(trace.activations["encoder.states"].value)[0]


@torch.inference_mode()
def check_fixed_vector(model: Seq2Seq, trace: Trace) -> list[Check]:
    """Check that only h_m reaches the decoder.

    With all other encoder states set to 0, the logits for the same target are the same. In float32,
    sums in another order differ by some 1e-7 of their size.
    """
    states, d = trace.activations["encoder.states"].value, model.config.d_hidden
    alone = torch.zeros_like(states)
    alone[:, -1, :d], alone[:, 0, d:] = states[:, -1, :d], states[:, 0, d:]
    device = model.embedding.weight.device
    target = torch.tensor([list(trace.streams["target"].ids)], device=device)
    logits = model.decode(target, alone.to(device), model.masks(target, target))[0].float().cpu()
    return [
        Check(
            "only h(m) reaches the decoder",
            float((logits - trace.next_token.logits).abs().max()),
            1e-5 * max(1.0, float(trace.next_token.logits.abs().max())),
            "Largest difference of any logit when every other state of the encoder is replaced by zeros",
        )
    ]


@torch.inference_mode()
def vector_changes(
    model: Seq2Seq, source: Sequence[int], places: Sequence[int], others: Sequence[int]
) -> Float[Tensor, "place"]:
    """Return how much of h_m one token can change: the mean of ‖h_m′ − h_m‖ / ‖h_m‖.

    The token at each of these positions of the source is replaced by each of the `others` that
    differs from it.
    """
    rows = torch.tensor([list(source)]).repeat(1 + len(places) * len(others), 1)
    for n, place in enumerate(places):
        rows[1 + n * len(others) : 1 + (n + 1) * len(others), place] = torch.tensor(list(others))
    rows = rows.to(model.device)
    vectors = (
        model.encoder.last_state(model.encode(rows, model.masks(rows, rows[:, :0]))).float().cpu()
    )
    share = ((vectors[1:] - vectors[0]).norm(dim=-1) / vectors[0].norm()).view(
        len(places), len(others)
    )
    is_other = torch.tensor([[token != source[place] for token in others] for place in places])
    return (share * is_other).sum(-1) / is_other.sum(-1)
