"""What the page Task explains of an output: from which token's vector it is read, and what that token could read, both of the run."""

from models.trace import Trace
from models.trace.outputs import (
    ClassProbabilities,
    MaskedToken,
    Numbers,
    Output,
    TokenClasses,
)
from viz_app.drawing.labels import labels, quoted
from viz_app.views.task.text import ROW
from viz_app.words.allowed import blocking

_MASK = (
    "**[MASK]** stands in the place of a token and says nothing but where it stands. {reads} The model was trained on guesses like "
    "these{pairs}.\n\n"
    "**The token that answers** is [MASK] itself: from its last vector the model makes the logits, and softmax makes them "
    f"probabilities. {ROW} Hiding goes by place: if you edit the text before it, another token is hidden."
)
_PAIRS = " and on nothing else but whether one text follows another"
_CLASSES = (
    "**The token that answers** is {token}, {place} of the row{special}. From its last vector the model makes a logit for each "
    f"answer, and softmax makes them probabilities. {ROW}"
)
_TOKENS = (
    "**Every token answers** for itself: from its last vector the model makes a logit for each class, and softmax makes them "
    f"probabilities.{{names}} {ROW}"
)
_BEGIN_INSIDE = " B- marks the first token of a name, I- the tokens that continue it, O what is outside all names."


def no_picture(trace: Trace, output: Output) -> str:
    """Explain why there is no picture of an answer."""
    if not isinstance(output, Numbers):
        return (
            f"**There is no picture of this kind of answer** ({type(output).__name__}). The answer itself is above. What the "
            "model's tokens read is on the page Attention."
        )
    reads = _reads(trace)
    return (
        f"**This model does not write**, so there is no next token to be surprised by: {reads[:1].lower()}{reads[1:]} "
        "What it makes of the text is above. What its tokens read of each other is on the page Attention. To see a text token by "
        "token, open **gpt**; to see one written, **eng-fra**."
    )


def masked(trace: Trace, output: MaskedToken, of_two: str) -> str:
    return _MASK.format(reads=_reads(trace), pairs=_PAIRS if of_two else "")


def classes(trace: Trace, output: ClassProbabilities, of_two: str) -> str:
    row = labels(trace.streams[output.stream])
    token, last = row[output.position], len(row) - 1
    place = {0: "the first token", last: "the last token"}.get(
        output.position, f"token {output.position + 1}"
    )
    special = ", which belongs to no word" if token.special else ""
    return _CLASSES.format(token=quoted(token), place=place, special=special)


def token_classes(trace: Trace, output: TokenClasses, of_two: str) -> str:
    marked = any(name.startswith(("B-", "I-")) for name in output.names)
    return _TOKENS.format(names=_BEGIN_INSIDE * marked)


def _reads(trace: Trace) -> str:
    """What the tokens of a text that attends to itself read, by the masks of all its attentions."""
    sites = [site for site in trace.attention.values() if site.query_stream == site.key_stream]
    narrow = [site for site in sites if blocking(site)]
    if any(site.stack == "decoder" for site in sites):
        return "Every token reads those before it and itself."
    if not narrow:
        return "Every token reads every other, so what is made of it comes from both sides (Devlin et al. 2019, §3.1)."
    names = ", ".join(dict.fromkeys(name for site in narrow for name in blocking(site)))
    return f"It is read from both sides; in {len(narrow)} of {len(sites)} layers a token cannot read all others ({names})."
