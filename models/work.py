"""How much a decoding step computes, counted from the sizes of the model: multiply–adds of its matrix products.

The count follows `Transformer.decode` line by line; LayerNorm, softmax and additions are left out, as is usual.
"""

from dataclasses import dataclass

from models.transformer import TransformerConfig


@dataclass(frozen=True)
class Work:
    """Multiply–adds of the decoder at each step of a run, with a cache and without, and of one pass over all of it."""

    cached: tuple[int, ...]
    uncached: tuple[int, ...]
    parallel: int


def decoder_pass(config: TransformerConfig, new: int, keys: int, source: int, *, memory_cached: bool = False) -> int:
    """Multiply–adds of one `decode` call: `new` positions, which attend to `keys` positions of the target and to
    `source` positions of the memory; its keys and values are computed unless `memory_cached`."""
    d = config.d_model
    self_attention = 4 * new * d * d + 2 * new * keys * d  # W_Q W_K W_V W_O; scores and weighted sum
    cross_attention = 2 * new * d * d + 2 * new * source * d  # W_Q W_O; scores and weighted sum
    memory = 0 if memory_cached else 2 * source * d * d  # W_K W_V
    feed_forward = 2 * new * d * config.d_ff
    logits = new * d * config.vocab_size
    return config.n_decoder_layers * (self_attention + cross_attention + memory + feed_forward) + logits


def work(config: TransformerConfig, source: int, steps: int) -> Work:
    """The work of a run of `steps` steps over a source of `source` tokens."""
    every = range(1, steps + 1)
    return Work(
        cached=tuple(decoder_pass(config, 1, t, source, memory_cached=t > 1) for t in every),
        uncached=tuple(decoder_pass(config, t, t, source) for t in every),
        parallel=decoder_pass(config, steps, steps, source),
    )
