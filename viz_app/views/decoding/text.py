"""What the page Decoding says of training and inference, by what the decoder is made of."""

from models.architectures.seq2seq import Seq2SeqConfig
from models.trace import Trace

QUESTION = "Decoding: what does it do, one token at a time?"
_ANSWER = (
    "Training gives it the right text and asks at all positions in one pass. "
    "In use it writes one token, reads it back, writes the next."
)
_ANSWER_RECURRENT = (
    "Training gives it the right text, yet each state waits for the one before. "
    "In use it writes one token, reads it back, writes the next."
)
_WHY = (
    "**Why training can do all positions at once.** The right text is known beforehand. Shifted right by one it is the decoder's "
    "input, and {hidden}. **Why inference cannot.** What stands at position i+1 is only known when position i has been "
    "answered.\n\n**What the cache keeps.** {kept} Kept, each step computes one new position; recomputed, step t computes t of "
    "them, so that the rows a whole text sends through the weight matrices grow with the square of its length."
)
_READS_ITSELF = (
    "the look-ahead mask (hatched) hides what a position should predict",
    "Keys and values of earlier positions never change, because a position never reads what comes after it; those of the source "
    "are the same at every step.",
)
_READS_THE_SOURCE_ALONE = (
    "each position reads its own token and the source and no other position, so there is nothing to hide",
    "Keys and values of the source, which are the same at every step. This decoder reads nothing of its own text but the last "
    "token, so of that nothing is kept.",
)
_WHY_RECURRENT = (
    "**Why even training goes step by step.** The right text is known beforehand and stands, shifted right, at the decoder's "
    "input. But the state s(i) is made from s(i−1){align}, so no step can begin before the one before it has ended. Only what "
    "needs no state of the decoder, or comes after all of them, is done for all steps at once: the embeddings{before}, and then "
    "the readout and the logits. The Transformer does away with that waiting.\n\n"
    "**What is kept from step to step.** The state alone, always the same {n} numbers, however long the text{kept}. "
    "That makes each step cost the same; and what the state has forgotten of {gone} is gone."
)


def answer(recurrent: bool) -> str:
    """What training and inference do, in two sentences."""
    return _ANSWER_RECURRENT if recurrent else _ANSWER


def why(config: object, trace: Trace) -> str:
    """Why training and inference go as they do, and what is kept between steps, in Markdown."""
    if not isinstance(config, Seq2SeqConfig):
        own = any(site.kind == "decoder_self" for site in trace.attention.values())
        hidden, kept = _READS_ITSELF if own else _READS_THE_SOURCE_ALONE
        return _WHY.format(hidden=hidden, kept=kept)
    if config.attention == "none":
        return _WHY_RECURRENT.format(
            align="", before="", n=config.d_hidden, gone="either text",
            kept="; at the start it was made of h(m), where the encoder's reading ended",
        )
    return _WHY_RECURRENT.format(
        align=" and the context c(i), which s(i−1) has chosen", before=" and U h(j)", n=config.d_hidden, gone="its own text",
        kept=", and beside it U h(j), which no step changes. The alignment reads all states h(j) of the source at every step",
    )
