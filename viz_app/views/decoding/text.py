"""The wording of the page Decoding, by the decoder's architecture."""

from collections.abc import Sequence

from models.architectures import Model
from models.architectures.base import ORDER_FIELD
from models.decoding.incremental import sees_ahead
from models.trace.edits import Edit

FORCED_CONTINUATION = "with your forced token, the model writes"
DECODING_QUESTION = "Decoding: how is text generated token by token?"
_ANSWER = "Training predicts all positions in parallel; generation feeds each new token back in."
_ANSWER_RECURRENT = (
    "In training each state waits for the one before; generation also feeds each new token back in."
)
_NO_ANSWER = "This model generates no text: it reads a finished input in a single pass."
_WHY = (
    "**Why training can do all positions at once.** {known}. {hidden}. **Why inference cannot.** "
    "The token at position i+1 is only known once the model has predicted from position i.\n\n{cache}"
)
_KEPT = (
    "**What the cache keeps.** {kept} With the cache, {step}. Without it, the rows sent through the weight matrices "
    "grow with the square of the text's length."
)
_NOTHING_KEPT = (
    "**No cache is used here.** {because} So every step reads the whole row again. The rows sent through the weight "
    "matrices grow with the square of the text's length."
)
_NO_CACHE = "No cache of this model is known to give the same answers as one full pass."
_SHIFTED = "The target is known beforehand. Shifted right by one it is the decoder's input"
_GOES_ON = "The whole text is known beforehand. Each of its tokens is what the position before it should predict"
_FROM_START = "each step computes one new position, not all t of step t"
_FROM_PROMPT = (
    "the first step computes the whole prompt and each later one a single position, not all"
)
_READS_ITSELF = (
    "The look-ahead mask (hatched) hides what a position should predict",
    "Keys and values of earlier positions never change, because a position never attends to what comes after it.{source}",
)
_SEES_AHEAD = (
    "But {}, a position may attend to the very token that it should predict",
    "{}, a new token changes the vectors of earlier positions.",
)
_READS_THE_SOURCE_ALONE = (
    "Each position reads its own token and the source, so there is nothing to hide",
    "Keys and values of the source, which are the same at every step. This decoder reads only the last token of its "
    "own text, so nothing of that text is kept.",
)
_WHY_RECURRENT = (
    "**Why even training goes step by step.** The target is known beforehand and is, shifted right, the decoder's "
    "input. But the state s(i) is made from s(i−1){align}. So no step can begin before the previous one has ended. "
    "The embeddings{before} need no state of the decoder. The readout and the logits come after all states. These"
    " alone are computed for all steps at once. The Transformer removes that wait.\n\n**What is kept from step to "
    "step.** Only the state: {n} numbers, however long the text.{kept} So each step costs the same, "
    "but the model may forget {gone}."
)


_PREDICTS_IN_ORDER = (
    "**This page follows a text as it is generated, and this model reads a finished one.** It predicts every token of"
    " it in one pass, each from those before it in an order that you choose. The page **Task** shows that order and "
    "changes it. To see a text generated token by token, open another model:"
)
_DOES_NOT_WRITE = (
    "**This model does not generate text.** {} Its answer is above and on the page Task. To see a text generated "
    "token by token, open another model:"
)
_BOTH_WAYS = (
    "It reads its whole input at once, in both directions, and predicts in one pass. There is no next token, so "
    "nothing is decoded."
)
_BACKWARDS = (
    "It reads the whole text in one pass, each token after those before it. It predicts no next token, so "
    "nothing is decoded."
)
_CLOSED = (
    "Its text is closed by a special token, and the answer is read from the vector of that token. It never learned "
    "what might follow, so nothing is decoded."
)


def does_not_write(model: Model) -> str:
    """Return why nothing is decoded, and what to open instead."""
    if any(field.kind == ORDER_FIELD for field in model.fields):
        return _PREDICTS_IN_ORDER
    if model.continues:
        return _DOES_NOT_WRITE.format(_CLOSED)
    return _DOES_NOT_WRITE.format(_BACKWARDS if model.stack == "decoder" else _BOTH_WAYS)


NO_LAYERS = "This model's decoder has no layers, so there is no decoding to show."


def decoding_answer(model: Model) -> str:
    """Return the page's answer: training and inference in a sentence."""
    if not model.can_write:
        return _NO_ANSWER
    return _ANSWER_RECURRENT if model.is_recurrent else _ANSWER


def not_applied(names: Sequence[str]) -> str:
    """Return which settings of a model's folder its text is written without; "" if none are."""
    if not names:
        return ""
    listed_names = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
    return f"The model's generation settings include {listed_names}. The app does not apply {'it' if len(names) == 1 else 'them'}."


_MAX_NAMED = 4  # positions in a sentence


def passed_over(positions: Sequence[int]) -> str:
    """Say where the settings of a model's folder passed over the most probable token."""
    numbers = [str(position + 1) for position in positions[:_MAX_NAMED]]
    more = len(positions) - len(numbers)
    last = f"{more} more" if more else numbers.pop() if numbers[1:] else ""
    places = ", ".join(numbers) + (f" and {last}" if last else "")
    noun = "position" if len(positions) == 1 else "positions"
    return (
        f"At {noun} {places} the model's generation settings passed over the most probable token."
    )


def no_room(n_ctx: int) -> str:
    """Return the message for a prompt as long as the model's context."""
    return f"The prompt fills all {n_ctx} tokens that this model can read, so it cannot write more. Shorten it to see the model write."


def explain_decoding(model: Model, edits: Sequence[Edit] = ()) -> str:
    """Explain, in Markdown, the order of training and inference under edits, and what is cached."""
    read_streams = {kind.key_stream for kind in model.kinds if kind.query_stream == model.writes}
    crosses = bool(read_streams - {model.writes})
    if model.is_recurrent:
        return _explain_recurrent(model.config.d_hidden, crosses)
    hidden, kept = _READS_ITSELF if model.writes in read_streams else _READS_THE_SOURCE_ALONE
    kept = kept.format(source=" Those of the source are the same at every step." if crosses else "")
    known, step = (_GOES_ON, _FROM_PROMPT) if model.continues else (_SHIFTED, _FROM_START)
    because = "" if model.can_cache else _NO_CACHE
    if sees_ahead(model, edits):
        cause = "without a look-ahead mask"
        if not model.sees_ahead:
            cause = "with this run's changed mask"
        hidden, because = (part.format(cause) for part in _SEES_AHEAD)
        because = because[0].upper() + because[1:]
    cache = _NOTHING_KEPT.format(because=because) if because else _KEPT.format(kept=kept, step=step)
    return _WHY.format(known=known, hidden=hidden, cache=cache)


def _explain_recurrent(n_numbers: int, crosses: bool) -> str:
    """Explain the order in which a recurrent decoder works, and the state that it keeps."""
    if not crosses:
        return _WHY_RECURRENT.format(
            align="",
            before="",
            n=n_numbers,
            gone="either text",
            kept=" It starts from h(m), where the encoder's reading ended.",
        )
    return _WHY_RECURRENT.format(
        align=" and the context c(i)",
        before=" and U h(j)",
        n=n_numbers,
        gone="its own text",
        kept=(
            " U h(j) is kept too: no step changes it. The alignment attends to the states h(j) of the source at every "
            "step."
        ),
    )
