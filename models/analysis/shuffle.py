"""Shuffle test: does the encoder's output change when its input tokens change places?

Self-attention alone is permutation equivariant (Vaswani et al. 2017, §3.5): without position
vectors, shuffled tokens give the same vectors, shuffled. With them each vector changes, by an
amount measured layer by layer. An RNN cannot do without order: h_t is computed from h_{t−1}.
"""

import copy
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor

from models.architectures import Model
from models.layers.blocks import Stack
from models.layers.positions import Positions
from models.tokenizers.encoding import Encoding
from models.trace import Activation, Trace, record
from models.trace.edits import Edit, editing

ORDERS = ("shuffled", "reversed", "two swapped")


def without_positions(model: Model) -> Model:
    """Return a model that shares every weight with the first but has zero position vectors.

    The first model is not modified: torch.func.functional_call would modify it while running,
    visibly to other threads.
    """
    config = replace(model.config, positions="none")
    bare = copy.copy(model)
    zero = Positions("none", config.n_ctx, config.d_model).to(model.embedding.weight)
    object.__setattr__(bare, "_modules", {**model._modules, "positions": zero})
    bare.config = config
    return bare


def new_order(
    n: int, how: str, seed: int = 0, groups: Sequence[Sequence[int]] | None = None
) -> tuple[int, ...]:
    """Return which of n tokens comes at each position.

    Tokens change places within each of `groups` of positions; by default all but the last, </s>.
    "shuffled" draws an order other than the original (if there is one), "two swapped" exchanges two
    neighbours in the middle of the longest group.

    Raises:
        ValueError: `how` is not one of ORDERS.
    """
    if how not in ORDERS:
        raise ValueError(f"the order must be one of {', '.join(ORDERS)}, not {how!r}")
    groups = [range(n - 1)] if groups is None else groups
    order, rng = list(range(n)), random.Random(seed)
    for group in [max(groups, key=len, default=())] if how == "two swapped" else groups:
        for place, token in zip(group, _moved_places(list(group), how, rng), strict=True):
            order[place] = token
    return tuple(order)


def _moved_places(places: list[int], how: str, rng: random.Random) -> list[int]:
    if len(places) < 2:
        return places
    if how == "reversed":
        return places[::-1]
    new_places = list(places)
    if how == "two swapped":
        middle = (len(places) - 1) // 2
        new_places[middle : middle + 2] = new_places[middle + 1], new_places[middle]
    while new_places == places:
        rng.shuffle(new_places)
    return new_places


def movable_positions(row: Encoding) -> list[list[int]]:
    """Return the positions of each text of a row, without special tokens."""
    segments = row.segments or (0,) * len(row.ids)
    places = [(segment, i) for i, segment in enumerate(segments) if row.offsets[i] is not None]
    return [[i for owner, i in places if owner == segment] for segment in sorted(set(segments))]


def reorder(row: Encoding, order: Sequence[int]) -> Encoding:
    """Return the row with token order[i] at position i, as a text with spaces between tokens.

    Segments keep their positions.
    """
    tokens, offsets, text = tuple(row.tokens[i] for i in order), [], ""
    for i, token in zip(order, tokens, strict=True):
        if row.offsets[i] is None:
            offsets.append(None)
            continue
        start = len(text) + bool(text)
        text = f"{text} {token}" if text else token
        offsets.append((start, len(text)))
    hidden = dict(row.hidden)
    hidden_places = tuple((place, hidden[i]) for place, i in enumerate(order) if i in hidden)
    return Encoding(
        text, tuple(row.ids[i] for i in order), tokens, tuple(offsets), row.segments, hidden_places,
        special=row.special,
    )  # fmt: skip


@dataclass(frozen=True)
class ShuffleTest:
    """Encoder states of a text and of its reordered tokens, the latter put back into order.

    Stages: the encoder's input, each layer's output, and under pre-LN the output of the last
    LayerNorm; for an RNN the states of each direction.
    """

    order: tuple[int, ...]
    stages: tuple[str, ...]
    original: Float[Tensor, "stage n d"]
    restored: Float[Tensor, "stage n d"]

    @property
    def change(self) -> Float[Tensor, "stage n"]:
        """Change of each token's vector, relative to its length.

        √2 is a right angle at equal lengths.
        """
        return (self.restored - self.original).norm(dim=-1) / self.original.norm(dim=-1)

    @property
    def largest(self) -> Float[Tensor, "stage"]:
        """Largest change at each stage."""
        return self.change.amax(1)

    @property
    def mean(self) -> Float[Tensor, "stage"]:
        """Mean change over the tokens at each stage."""
        return self.change.mean(1)


def edits_positions(trace: Trace, stream: str, *, as_keys: bool = False) -> bool:
    """Return True if an edit of a stream's own vectors depends on positions of its tokens.

    Such an edit means nothing once tokens are reordered. With `as_keys`, edits of whatever attends
    to the stream count instead.
    """
    edited = {
        edit
        for site in trace.attention.values()
        if stream == (site.key_stream if as_keys else site.query_stream)
        for edit in site.edits
    }
    if not as_keys:
        streams = {name: one.axes[1] for name, one in trace.activations.items()}
        edited |= {
            edit
            for edit in trace.edits
            if edit.changes("activation")
            and streams.get(edit.where.activation or "", stream) == stream
        }
    return any(edit.depends_on_positions for edit in edited)


@torch.inference_mode()
def shuffle_test(
    model: Model,
    source: Sequence[int],
    order: Sequence[int],
    segments: Sequence[int] = (),
    edits: Sequence[Edit] = (),
) -> ShuffleTest:
    """Encode `source` (token ids, </s> last) as it is and with token order[i] at position i.

    To test without positions, pass `without_positions(model)`. `segments` is the text each position
    belongs to, in a model that marks it. `edits` apply to both orders (see `edits_positions`).

    Raises:
        ValueError: `order` is not a permutation of the positions.
    """
    if sorted(order) != list(range(len(source))):
        raise ValueError(
            f"the order must name each of the {len(source)} positions once, not {tuple(order)}"
        )
    ids = torch.tensor(
        [list(source), [source[i] for i in order]], device=model.embedding.weight.device
    )
    with record() as recording, editing(edits):
        masks = model.masks(ids, *[ids[:, :0]] * (len(model.streams) - 1))
        output = model.encode(
            ids, masks, *[torch.tensor([segments] * 2, device=ids.device)] * bool(segments)
        )
    stages = encoder_stages(model, recording.activations)
    if getattr(model.config, "norm", "post") == "pre" and output is not None:
        stages["last LayerNorm"] = output
    states = torch.stack(list(stages.values())).float().cpu()  # (stage, 2, n, d)
    back = torch.tensor(order).argsort()
    return ShuffleTest(tuple(order), tuple(stages), states[:, 0], states[:, 1][:, back])


def encoder_stages(
    model: Model, activations: Mapping[str, Activation]
) -> dict[str, Float[Tensor, "batch n d"]]:
    """Return the stages of an encoder's run by name, except the last LayerNorm."""
    if model.is_recurrent:
        names = ("forwards", "backwards") if model.config.bidirectional else ("states",)
        return dict(
            zip(
                names,
                activations["encoder.states"].value.split(model.config.d_hidden, dim=-1),
                strict=True,
            )
        )
    output_name = (
        "resid_post" if "encoder.layers.0.resid_post" in activations else "self_attn.attn_out"
    )
    layers = {
        f"layer {i + 1}": activations[f"encoder.layers.{i}.{output_name}"].value
        for i in range(len(cast(Stack, model.encoder).layers))
    }
    if "encoder.embedded" in activations:  # LayerNorm comes between the sum and the first layer
        return {"input": activations["encoder.embedded"].value, **layers}
    return {
        "input": activations["encoder.embedding"].value + activations["encoder.position"].value,
        **layers,
    }
