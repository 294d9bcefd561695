"""Work of a decoding step: multiply–adds of its matrix products, from the sizes of the model.

The counts follow `decode` of each architecture line by line. LayerNorm, softmax, the gates of an
RNN's cell and additions are left out, as usual. A step with a cache computes one new position and
keeps the rest: keys and values, or in an RNN the state and U h.
"""

from collections.abc import Callable
from dataclasses import dataclass

from models.architectures import Config
from models.architectures.attention_only import AttentionOnlyConfig
from models.architectures.gpt import GPTConfig
from models.architectures.seq2seq import Seq2SeqConfig
from models.architectures.transformer import TransformerConfig

GATES = {"tanh": 1, "gru": 3}  # matrices of an RNN's cell, each for its input and for its state


@dataclass(frozen=True)
class MultiplyAdds:
    """Multiply–adds of the decoder at each step of a run, with a cache and without.

    `parallel` is one `decode` call over all positions.
    """

    cached: tuple[int, ...]
    uncached: tuple[int, ...]
    parallel: int


def decoder_pass(
    config: Config, new: int, keys: int, source: int, *, memory_cached: bool = False
) -> int:
    """Return the multiply–adds of one `decode` call.

    It computes `new` positions out of `keys` so far, over `source` tokens, whose projections are
    reused if `memory_cached`.
    """
    return _PASSES[type(config)](config, new, keys, source, memory_cached)


def is_counted(config: Config) -> bool:
    """Return True if the decoder's products are known here."""
    return type(config) in _PASSES


def count_multiply_adds(config: Config, source: int, steps: int, opening: int = 1) -> MultiplyAdds:
    """Return the work of a run of `steps` steps over a source of `source` tokens.

    The first step reads `opening` tokens: <s>, or a prompt.
    """
    whole = opening + steps - 1  # positions at the last step
    every = range(opening, whole + 1)  # and at each
    return MultiplyAdds(
        cached=tuple(
            decoder_pass(config, t if t == opening else 1, t, source, memory_cached=t > opening)
            for t in every
        ),
        uncached=tuple(decoder_pass(config, t, t, source) for t in every),
        parallel=decoder_pass(config, whole, whole, source),
    )


def _transformer(
    config: TransformerConfig, new: int, keys: int, source: int, memory_cached: bool
) -> int:
    d = config.d_model
    attention = _self_attention(config, new, keys) + _cross_attention(
        config, new, source, memory_cached
    )
    return (
        config.n_decoder_layers * (attention + 2 * new * d * config.d_ff)
        + new * d * config.vocab_size
    )


def _attention_only(
    config: AttentionOnlyConfig, new: int, keys: int, source: int, memory_cached: bool
) -> int:
    attention = config.n_self_layers * _self_attention(config, new, keys)
    return (
        attention
        + _cross_attention(config, new, source, memory_cached)
        + new * config.d_model * config.vocab_size
    )


def _gpt(config: GPTConfig, new: int, keys: int, source: int, memory_cached: bool) -> int:
    d = config.d_model
    return (
        config.n_layers * (_self_attention(config, new, keys) + 2 * new * d * config.d_ff)
        + new * d * config.vocab_size
    )


def _self_attention(
    config: TransformerConfig | AttentionOnlyConfig | GPTConfig, new: int, keys: int
) -> int:
    d = config.d_model
    # W_Q W_K W_V W_O; scores; weighted sum
    return 4 * new * d * d + _scores(config, new, keys) + new * keys * d


def _cross_attention(
    config: TransformerConfig | AttentionOnlyConfig, new: int, source: int, memory_cached: bool
) -> int:
    d = config.d_model
    memory = 0 if memory_cached else 2 * source * d * d  # W_K W_V
    # W_Q W_O; scores; weighted sum
    return 2 * new * d * d + memory + _scores(config, new, source) + new * source * d


def _scores(
    config: TransformerConfig | AttentionOnlyConfig | GPTConfig, new: int, keys: int
) -> int:
    """Return the work of q·k or v·tanh, with the projection before it.

    That is q·M, or W q of the new and U k of all keys, which no cache keeps.
    """
    d, d_head = config.d_model, config.d_model // config.n_heads
    before = {"general": new, "additive": new + keys}.get(config.similarity, 0) * d * d_head
    return before + new * keys * d


def _seq2seq(config: Seq2SeqConfig, new: int, keys: int, source: int, memory_cached: bool) -> int:
    h, aligned = config.d_hidden, config.attention != "none"
    context = config.d_memory if aligned else 0
    begin = config.d_memory * h  # W_s h_m
    alignment = 0
    if aligned:
        begin += source * config.d_memory * config.d_align  # U h
        alignment = (
            h * config.d_align + source * config.d_align + source * config.d_memory
        )  # W s; v·tanh; weighted sum
    cell = GATES[config.cell] * h * (config.d_model + context + h)
    readout = (
        h + config.d_model + context
    ) * config.d_model + config.d_model * config.vocab_size  # W_r; logits
    return (0 if memory_cached else begin) + new * (alignment + cell + readout)


_PASSES: dict[type, Callable[..., int]] = {
    TransformerConfig: _transformer, AttentionOnlyConfig: _attention_only, Seq2SeqConfig: _seq2seq, GPTConfig: _gpt,
}  # fmt: skip
