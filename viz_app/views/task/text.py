"""The wording of the page Task, with its numbers."""

import math
from collections.abc import Sequence
from typing import Any

from models.analysis.expectations import Expectations
from models.architectures import Config
from models.tasks.purpose import task_purpose as purpose_of
from models.trace import AttentionSite
from models.trace.outputs import (
    ChoiceProbabilities,
    ClassProbabilities,
    MultiLabelProbabilities,
    NextToken,
    Output,
    TokenInOrder,
)
from viz_app import words
from viz_app.drawing.notes import arrows

TRANSCRIPT = "transcript"  # the stream of a model that writes what it hears
TASK_QUESTION = "Task: what is this model trained to do, and what does it predict?"
TEXT_ENDS = "The text ends here: nothing follows yet."
READING_SCALE = "Shaded by weight, 0 to 1; hatched = masked."
NO_ATTENTION_ROW = "This model has no attention, so no row of weights belongs to its answer."
CONTINUES, WRITES = (
    "predicts the probability of every possible next token",
    "reads one text and writes another",
)
WRITES_SOUND = "transcribes speech"
ONE_STEP_PREDICTION = "reads its input whole and predicts in one step"
ROW_NOTE = "Its attention row shows what one head attended to."
# what a token is predicted from
ALL_BEFORE, SOME_BEFORE, LATER_TOO = (
    "all tokens before it",
    "tokens before it that the masks allow",
    "later tokens too, as the mask allows",
)
SURPRISAL_NOTE = f"""
**Surprisal** of a token is $-\\log_2 p$, where p is its probability, predicted from {{given}}.
It is 0 bits for a certain token, and 1 bit more each time p halves. **Entropy**, $-\\sum p \\log_2 p$, is the surprisal
expected before the token is known. **Perplexity** is 2 to the mean surprisal.

**The token that answers** is the one before. From its last vector the model makes the logits of what follows, and softmax
makes them probabilities. {ROW_NOTE}
"""
CHOICE_NOTE = f"""
**Each choice** is read in a row of its own, after the question. From the last vector of one token of that row the model makes a
single logit. Softmax over the choices makes them probabilities. The attention shown is that of the best choice's row. {ROW_NOTE}
"""
CHOICE_WITHOUT_ROW_NOTE = """
**Each choice** is read in a row of its own, after the question. The model makes a single logit for each row; it is not known to be
read from one token alone. Softmax over the choices makes them probabilities. No single attention row belongs to them, so none is
shown.
"""
SPAN_NOTE = """
**Start and end** are two distributions over the tokens of the text. Each token's last vector gives one logit for "the answer begins
here" and one for "it ends here". A span is as probable as p(start) · p(end). No span ends before its start. The most probable one
is the answer (Devlin et al. 2019, §4.2).

**The tokens that answer** are those of the span. Their attention rows show what one head attended to.
"""
ORDER_NOTE = """
**The order** sets when each token is predicted, not its position. Every token keeps its position, and is predicted from those
whose turn came before (Yang et al. 2019, §2.2). The product of these probabilities is the probability of the text, in every order. A model
that has learned well gives nearly the same in all of them.

**Two streams.** The content stream of a position knows its token, and attends to itself and what came before. The query stream knows
only the position. It may not see its own token, or there would be nothing to predict. Both have the same weights, and both attend to
the content stream (fig. 1 there).

**The token that answers** is the one that is predicted. From the last vector of its query stream the model makes the logits. Its
attention row says what one head of that stream read for it.
"""
ORDER_CHANGED = (
    "**This run's masks are changed**, so a token may be predicted from others than the order says."
)
GIVEN_BEFORE, GIVEN_LATER = "given those before it", "with later ones in view"
MASKED_TITLE = "Click a token to mask it; the model guesses it from {}"
NO_MASK_TITLE = "The model guesses masked tokens from {}"
BOTH_SIDES, BEFORE_IT = "both sides", "the tokens before it"
TYPED_MASK = "You typed this mask, so there is no true token to compare with."
PAIR_TITLE, CLASS_TITLE = (
    "Does the second text follow the first?",
    "Predicted class",
)
ONE_TEXT_NOTE = (
    "One text alone. Type a second one above, and the model predicts whether it follows the first."
)
TEXT_TITLES = ("First text", "Second text")
CHOICE_TITLE, CHOICE_BLOCKS = "Which choice fits the question best?", ("Question", "Choice")
_TOKEN_NATS, _TOKEN_BITS = "nats per token", "bits per token"  # scores
SPAN_AXES = ("where the answer begins", "where it ends")
RULED_OUT = "Hatched: the end would come before the start"


def purpose_and_score(
    output: Output, training: dict[str, Any], config: Config | None = None
) -> str:
    """Return what the model does and, if recorded, its first score."""
    writes = isinstance(output, NextToken)
    purpose = purpose_of(training, config) or (
        ONE_STEP_PREDICTION
        if not writes
        else WRITES_SOUND
        if output.stream == TRANSCRIPT
        else WRITES
        if output.is_closed
        else CONTINUES
    )
    scores = recorded if isinstance(recorded := training.get("scores"), dict) else {}
    first = next((name for name in scores if name != "cases"), "")
    named = {name: scores[name] for name in (first, "cases") if name in scores}
    if first.endswith(_TOKEN_NATS) and _TOKEN_BITS in scores:  # in the unit of the pictures below
        named = {first.replace(_TOKEN_NATS, _TOKEN_BITS): scores[_TOKEN_BITS]} | {
            k: v for k, v in named.items() if k != first
        }
    measured = words.score_summary(named)
    return f"This model {purpose}.{f' {measured[:1].upper()}{measured[1:]}.' if measured else ''}"


def predictions_title(
    terms: words.Terms,
    output: NextToken,
    field: str,
    teacher_forced: bool,
    *,
    given: str = GIVEN_BEFORE,
) -> str:
    """Return the title of the text's predictions; `given` says what each is predicted from."""
    if not output.is_closed:
        return f"How surprising each token of {terms.of(output.stream).text} is, {given}"
    label = terms.label(field)
    if teacher_forced:
        return f"{label}, as given: the probability of each token and the most probable others"
    return f"{label}, as the model writes it: the probability of each token and the most probable others"


def colour_scale_labels(output: NextToken) -> list[str]:
    """Return both ends of the colour scale, and how to use it."""
    if output.is_closed:
        return ["0", "1  probability", "Click a token to see what was predicted there."]
    n = output.logits.shape[1]
    most = (
        f"{format_bits(math.log2(n))} bits = pure guessing among {n:,} tokens (the scale ends here)"
    )
    return ["0", most, "Click a token to see what was predicted there."]


def difficulty_summary(expected: Expectations) -> str:
    """Return how hard the text was to predict, in a sentence."""
    n = len(expected.surprisal)
    if not n:
        return "Nothing follows yet, so no token can be surprising."
    return (
        f"{n} token{'s' * (n != 1)}, {format_bits(expected.mean_surprisal)} bits each on average: perplexity "
        f"{choices(expected.perplexity)}, as hard to guess as {choices(expected.perplexity)} equally likely tokens."
    )


def prediction_title(before: str, special: bool) -> str:
    """Return the title of one position's prediction."""
    return f"Predicted after {before if special else f'“{before}”'}"


def actual_token(
    token: str, probability: float, surprisal: float, rank: int, n_vocabulary: int, mark: str
) -> str:
    """Return the actual token with its probability, rank and surprisal."""
    return (
        f"{mark.capitalize()}: “{token}”, probability {words.percent(probability, 1)}, rank {rank:,} of {n_vocabulary:,}, "
        f"{format_bits(surprisal)} bits."
    )


def unlisted_tokens(n_shown: int, mass: float, entropy: float) -> str:
    """Return the share of the listed tokens in the probability, and the entropy."""
    return (
        f"These {n_shown} tokens have {words.percent(mass, 1)} of the probability. Entropy {format_bits(entropy)} bits, "
        f"equivalent to {choices(2**entropy)} equally likely tokens."
    )


def masks_note(n: int, n_typed: int, n_shown: int, mask: str) -> str:
    """Return the number of hidden tokens, `n_typed` of them typed, and how to change them."""
    if not mask:
        return "Nothing can be hidden: the files of this model name no mask token."
    if not n:
        return f"Nothing is hidden. Click a token, or type {mask} in the text above."
    more = f" Only the first {n_shown} are shown below." * (n > n_shown)
    count = f"{n} masked token{'s' * (n != 1)}"
    if n_typed == n:
        return f"{count}, typed above.{more}"
    above = f", {n_typed} of them typed above" if n_typed else ""
    return f"{count}{above}. Click {'it' if n == 1 else 'one'} again to unmask it.{more}"


def guess_title(name: str, i: int, n: int, mask: str = "") -> str:
    """Return the title of the i-th of n `mask` tokens; `name` is its hidden token, or ""."""
    title = f"Prediction for {f'“{name}”' if name else mask}"
    return f"{i + 1} of {n}: {words.lower_first(title)}" if n > 1 else title


N_NAMED_CLASSES = 10  # classes that are named
MOST_PROBABLE, HOLDS = "most probable", "holds"
LABELS_TITLE = "Labels, each judged on its own"
JUDGED_CHECK = "each label's probability is the sigmoid of its logit"


def labels_fact(output: MultiLabelProbabilities) -> str:
    """Return how many labels hold and, if there are many, how many are listed."""
    n, n_holding = len(output.names), len(output.holding)
    of = f"{n_holding} of {n:,} labels hold{'s' * (n_holding == 1)}: probability above 50 %."
    listed = f" The {N_NAMED_CLASSES} most probable are listed." * (n > N_NAMED_CLASSES)
    return of + listed


def class_fact(output: ClassProbabilities) -> str:
    """Return the probability of every class, and the most probable one.

    If there are many classes, return the total probability of the listed ones.
    """
    n, p = len(output.names), output.probabilities
    if n > N_NAMED_CLASSES:
        share = words.percent(float(p.topk(N_NAMED_CLASSES).values.sum()), 1)
        return (
            f"Most probable is “{output.predicted}”. The {N_NAMED_CLASSES} most probable of {n:,} classes hold "
            f"{share} of the probability."
        )
    each = ", ".join(
        f"P({name}) = {words.percent(float(one), 1)}"
        for name, one in zip(output.names, p, strict=True)
    )
    return f"{each}: most probable is “{output.predicted}”."


def choice_fact(output: ChoiceProbabilities) -> str:
    """Return the best choice and its probability."""
    return f"Best: “{output.predicted}”, {words.percent(float(output.probabilities.max()), 1)}."


def text_share(name: str, share: float | None) -> list[str]:
    """Return the name of a text in the row, and its share of the attention."""
    return [name, "" if share is None else f"{share:.2f} of the attention"]


def span_title(question: str) -> str:
    """Return the title of the map of spans."""
    return f"Where does the answer to “{question}” begin, and where does it end?"


def span_fact(answer: str, start: float, end: float) -> str:
    """Return the probability of the answer, from ln p(start) and ln p(end)."""
    p, q = math.exp(start), math.exp(end)
    return f"“{answer}”: p(start) {words.percent(p, 1)} · p(end) {words.percent(q, 1)} = {words.percent(p * q, 1)}."


def span_scale(least: float) -> list[str]:
    """Return both ends of the map's colour scale, and its unit."""
    return [f"−{-least:g} or less", "0", "ln p(start) + ln p(end), in nats"]


def span_note(start: int, end: int) -> str:
    """Return the token positions of a span, counted from 0."""
    return f"token {start}" if start == end else f"tokens {start} to {end}"


def more_rows(n: int, n_shown: int) -> str:
    """Note that only the first rows of an answer are shown; "" if all are."""
    return f"The rows of the first {n_shown} of its {n} tokens are shown." if n > n_shown else ""


def order_title(output: TokenInOrder) -> str:
    """Return the title of the row of tokens."""
    return f"Predicted in the order {arrows(output.order)}: drag a token, or move it with the arrow keys"


def order_summary(output: TokenInOrder) -> str:
    """Return the bits that the text takes in this order."""
    total, n = float(output.surprisal.sum()), len(output.order)
    return f"In this order the text takes {format_bits(total)} bits, {format_bits(total / n)} for each of its {n} token{'s' * (n != 1)}."


def predicted_from(tokens: Sequence[str], is_first: bool) -> str:
    """Return the tokens a prediction is made from, in prediction order."""
    if not tokens:
        first = "The first in the order: p" if is_first else "P"
        return f"{first}redicted from nothing but its position."
    return f"Predicted from {words.join_names([f'“{token}”' for token in tokens])}, and from their positions and its own."


def reading_title(
    site: AttentionSite, head: int, terms: words.Terms, token: str, special: bool
) -> str:
    """Return the title of the shown attention row."""
    name = token if special else f"“{token}”"
    return f"{words.head_place(site, head)}: what {name} attends to in {terms.of(site.key_stream).text}"


def format_bits(value: float) -> str:
    """Format a number of bits."""
    return "∞" if math.isinf(value) else f"{value:.2f}"


def choices(value: float) -> str:
    """Format a number of equally likely tokens."""
    return (
        "∞"
        if math.isinf(value)
        else f"{value:,.0f}"
        if value >= 100
        else f"{value:.2f}"
        if value < 10
        else f"{value:.1f}"
    )
