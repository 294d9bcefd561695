"""Text that a model writes, by each decoder, as the encoding of what it wrote."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jaxtyping import Float
from torch import Tensor

from models import decoding
from models.architectures import Model
from models.decoding.incremental import check_room_to_generate
from models.tokenizers.base import Encoding, Tokenizer


@dataclass(frozen=True)
class GeneratedText:
    """A generated text with its step records."""

    text: str
    ids: tuple[int, ...]
    steps: tuple[decoding.Step, ...]


def write_text(
    model: Model, tokenizer: Tokenizer, ids: tuple[int, ...], strategy: str, **settings: Any
) -> GeneratedText:
    """Generate from these tokens with "greedy", "sample" or "beam"; `settings` go to the decoder.

    Raises:
        ValueError: there is no such decoder, a setting is invalid, or the tokens leave no room.
    """
    check_room_to_generate(model, ids)
    if strategy == "beam":
        last = list(decoding.beam(model, ids, **settings))[-1]
        tokens, steps = last.hypotheses[0].tokens, ()
    elif strategy in ("greedy", "sample"):
        steps = tuple(getattr(decoding, strategy)(model, ids, **settings))
        tokens = tuple(s.token for s in steps)
    else:
        raise ValueError(f"strategy must be greedy, sample or beam, not {strategy!r}")
    return GeneratedText(tokenizer.decode(tokens), tokens, steps)


def generate_rows(
    model: Model,
    tokenizer: Tokenizer,
    inputs: Sequence[Sequence[int]],
    memory: Float[Tensor, "batch n d_memory"] | None,
    draft_tokens: Sequence[Sequence[int]],
) -> list[Encoding]:
    """Return a greedily generated text for each row; only a single row can use a draft."""
    if len(inputs) > 1:
        limits = [model.max_new_tokens(len(row)) for row in inputs]
        rows = decoding.greedy_batch(model, model.encoder_inputs(inputs), memory, limits)
        return [generated_encoding(model, tokenizer, ids) for ids in rows]
    steps = decoding.greedy(model, inputs[0], draft_tokens=draft_tokens, memory=memory)
    return [generated_encoding(model, tokenizer, [step.token for step in steps])]


def generated_encoding(model: Model, tokenizer: Tokenizer, ids: Sequence[int]) -> Encoding:
    """Return the encoding of generated tokens, which are not tokenised again."""
    return tokenizer.spell(ids[:-1] if ids and ids[-1] in model.end_ids else ids)
