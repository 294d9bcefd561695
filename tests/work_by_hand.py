"""Multiply-adds of a `decode` call by formula, term by term, to test the counted ones against."""

from models.architectures import Config
from models.architectures.attention_only import AttentionOnlyConfig
from models.architectures.gpt import GPTConfig
from models.architectures.seq2seq import Seq2SeqConfig

GATES = {"tanh": 1, "gru": 3}  # matrices of a cell, each for its input and for its state


def decoder_pass(
    config: Config, new: int, keys: int, source: int, *, memory_cached: bool = False
) -> int:
    """Return the work of `new` positions out of `keys`, over a source whose projections may be cached."""
    if isinstance(config, Seq2SeqConfig):
        return _recurrent(config, new, source, memory_cached)
    logits = new * config.d_model * config.vocab_size
    own = _attention(config, new, keys, projected=new)
    if isinstance(config, GPTConfig):
        return config.n_layers * (own + _feed_forward(config, new)) + logits
    cross = _attention(config, new, source, projected=0 if memory_cached else source)
    if isinstance(config, AttentionOnlyConfig):
        return config.n_self_layers * own + cross + logits
    return config.n_decoder_layers * (own + cross + _feed_forward(config, new)) + logits


def _feed_forward(config: Config, new: int) -> int:
    return 2 * new * config.d_model * config.d_ff


def _attention(config: Config, new: int, keys: int, projected: int) -> int:
    """W_Q and W_O, W_K and W_V of the projected tokens; q·M, or W q and U k; scores; weights·v."""
    d, d_head = config.d_model, config.d_model // config.n_heads
    before = {"general": new, "additive": new + keys}.get(config.similarity, 0) * d * d_head
    return 2 * new * d * d + 2 * projected * d * d + before + 2 * new * keys * d


def _recurrent(config: Seq2SeqConfig, new: int, source: int, memory_cached: bool) -> int:
    h, aligned = config.d_hidden, config.attention != "none"
    context = config.d_memory if aligned else 0
    begin = config.d_memory * h + aligned * source * config.d_memory * config.d_align  # W_s; U h
    alignment = h * config.d_align + source * (config.d_align + config.d_memory) if aligned else 0
    cell = GATES[config.cell] * h * (config.d_model + context + h)
    readout = (h + config.d_model + context + config.vocab_size) * config.d_model
    return (0 if memory_cached else begin) + new * (alignment + cell + readout)
