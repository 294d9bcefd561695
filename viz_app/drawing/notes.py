"""Rows of plain text for the component `plain`: notes, what was read and written, checks."""

from collections.abc import Callable, Sequence

from models.analysis.checks import Check
from models.tokenizers.encoding import with_masks
from models.trace import Trace
from models.trace.outputs import (
    ChoiceProbabilities,
    ClassProbabilities,
    MaskedToken,
    MultiLabelProbabilities,
    NextToken,
    Numbers,
    Output,
    RegressionValues,
    Span,
    TokenClasses,
    TokenInOrder,
    first_choices,
)
from viz_app import words
from viz_app.drawing.labels import mask_token, token_label, token_text

MAX_LISTED_ORDER = 12  # positions listed in one line
MAX_LISTED_LABELS = 10  # labels, the most probable ones


BAD_NOTE = "note bad"  # the look of an error message


def rows(look: str, *lines: tuple[str, str]) -> dict:
    """Return (style, text) lines in a box whose `look` is one of the classes in plain.css.

    These are "note", "note bad", "written", "written long", "checks" and "explained".
    """
    return {"look": look, "rows": [list(line) for line in lines]}


def small_print(text: str, bad: bool = False) -> dict:
    """Return a line of small print below a control, or the control's error message."""
    return rows(BAD_NOTE if bad else "note", ("line", text))


def refusal(text: str) -> dict:
    """Return the error message of an input that cannot be run; the last picture stays, dimmed."""
    return small_print(text, bad=True) | {"stale": True}


def plain_sentence(markdown: str, max_length: int = 170) -> str:
    """Return the first sentence of a text without its marks.

    Further sentences follow as long as they are short together.
    """
    first, *others = markdown.partition("\n\n")[0].replace("*", "").split(". ")
    for sentence in others:
        if len(first) + len(sentence) > max_length:
            break
        first = f"{first}. {sentence}"
    return f"{first.rstrip('.')}."


def strip(
    trace: Trace, terms: words.Terms, stale: bool, answer: tuple[str, str] | None = None
) -> dict:
    """Return the line above the page: what the model read and its answer.

    `answer` is a (label, text) to show instead of the model's first output; `stale` says that the
    text in the boxes could not be run.
    """
    field, value = next((name, text) for name, text in trace.fields.items())
    label, output = answer or answer_line(trace)
    stale_note = "Last text that could be read:" if stale else ""
    text = read_text(trace) or value
    long = max(len(text), len(output)) > 42
    return rows(
        "written long" if long else "written",
        ("label-in", terms.label(field)),
        ("source", text),
        ("arrow", "→"),
        ("label-out", label),
        ("output", output),
        ("stale", stale_note),
    )


def read_text(trace: Trace) -> str:
    """Return the texts that were read as one, with the mask for each hidden token.

    A second text or a continuation is joined to the first. "" where only the first text counts.
    """
    output, texts = (
        first_output(trace),
        [text for text in trace.fields.values() if isinstance(text, str) and text],
    )
    if isinstance(output, Span | ChoiceProbabilities) or (
        isinstance(output, NextToken) and output.is_closed
    ):
        return ""
    if (row := trace.streams[output.stream]).hidden:
        return with_masks(row, mask_token(trace))
    return ("" if isinstance(output, NextToken) else " ").join(texts)


def answer_line(trace: Trace) -> tuple[str, str]:
    """Return the kind of answer that the model gives, in words, and the answer.

    Both depend on the type of its first output.
    """
    output = first_output(trace)
    return _ANSWERS.get(type(output), _other)(trace, output)


def quoted_answer_line(trace: Trace) -> tuple[str, str]:
    """Return `answer_line` for the middle of a sentence: guesses for masks are in quotes."""
    label, answer = answer_line(trace)
    output = first_output(trace)
    is_guess = isinstance(output, MaskedToken) and output.positions
    return label, _guesses(output, "“{}”") if is_guess else answer


def first_output(trace: Trace) -> Output:
    """Return the model's first output, which is its main answer."""
    return next(iter(trace.outputs.values()))


def _expected(trace: Trace, output: NextToken) -> tuple[str, str]:
    if output.is_closed:
        return (
            "predicted after each given token"
            if trace.teacher_forced or trace.edits
            else "the model writes",
            trace.output,
        )
    (best,) = first_choices(output.logits[-1:])
    likeliest = token_label(trace.model.tokenizer, best).text
    return f"most likely next, {words.percent(float(output.last.max().exp()))}", likeliest


def _guesses(output: MaskedToken, quotes: str) -> str:
    best = zip(output.predicted, output.log_probs.amax(-1).exp(), strict=True)
    return ", ".join(
        f"{quotes.format(token_text(token))} ({words.percent(float(p))})" for token, p in best
    )


def _masked(trace: Trace, output: MaskedToken) -> tuple[str, str]:
    classes = [other for other in trace.outputs.values() if isinstance(other, ClassProbabilities)]
    mask = mask_token(trace)
    if output.positions:
        return f"best guess for {mask}", _guesses(output, "{}")
    if classes:
        return _classed(trace, classes[0])
    how = f"type {mask} to hide one" if mask else "none: no mask token is known"
    return "the model guesses hidden words", how


def _classed(trace: Trace, output: ClassProbabilities) -> tuple[str, str]:
    name = next(name for name, each in trace.outputs.items() if each is output)
    return f"{name}, {words.percent(float(output.probabilities.max()))}", output.predicted


def _choice(trace: Trace, output: ChoiceProbabilities) -> tuple[str, str]:
    return f"the best choice, {words.percent(float(output.probabilities.max()))}", output.predicted


def _token_classes(trace: Trace, output: TokenClasses) -> tuple[str, str]:
    return f"the class of each {'part' if output.parts else 'token'}", trace.output


def _span(trace: Trace, output: Span) -> tuple[str, str]:
    return (
        f"the answer in the text, {words.percent(float(output.log_probs[output.start, output.end].exp()))}",
        output.text,
    )


def _in_order(trace: Trace, output: TokenInOrder) -> tuple[str, str]:
    n = len(output.order)
    description = (
        "from left to right"
        if output.order == tuple(range(n))
        else f"in the order {arrows(output.order)}"
    )
    return f"surprise, read {description}", f"{float(output.surprisal.mean()):.2f} bits per token"


def arrows(order: Sequence[int]) -> str:
    """Return an order for display, "3 → 1 → 2", with positions from 1, shortened if long."""
    numbers = [str(position + 1) for position in order]
    return " → ".join(
        numbers if len(numbers) <= MAX_LISTED_ORDER else [*numbers[:MAX_LISTED_ORDER], "…"]
    )


def _numbers(trace: Trace, output: Numbers) -> tuple[str, str]:
    return "the model outputs", f"{' × '.join(f'{n:,}' for n in output.shape)} numbers"


def _label_values(trace: Trace, output: RegressionValues) -> tuple[str, str]:
    return f"the model's number{'s' * (len(output.values) > 1)}", output.in_words


def _judged(trace: Trace, output: MultiLabelProbabilities) -> tuple[str, str]:
    p = output.probabilities
    best = p.argsort(descending=True, stable=True)[:MAX_LISTED_LABELS].tolist()
    listed = ", ".join(f"{output.names[i]} {words.percent(float(p[i]))}" for i in best)
    which = (
        f"the {len(best)} most probable of {len(p):,} labels" if len(p) > len(best) else "labels"
    )
    return f"{which}, each judged on its own", listed


def _other(trace: Trace, output: Output) -> tuple[str, str]:
    return "the model predicts", trace.output


_ANSWERS: dict[type, Callable[..., tuple[str, str]]] = {
    NextToken: _expected, MaskedToken: _masked, ClassProbabilities: _classed, Span: _span,
    TokenInOrder: _in_order, Numbers: _numbers, ChoiceProbabilities: _choice, TokenClasses: _token_classes,
    MultiLabelProbabilities: _judged, RegressionValues: _label_values,
}  # fmt: skip


def check_summary(checks: dict) -> dict:
    """Return one line that counts the checks of `check_rows`; an error if one failed."""
    styles = [style for style, _ in checks["rows"]]
    n, n_failed = styles.count("passed") + styles.count("failed"), styles.count("failed")
    noun = "check" if n == 1 else "checks"
    if n_failed:
        return small_print(f"{n_failed} of {n} {noun} failed", bad=True)
    return small_print(f"{n} of {n} {noun} passed")


def check_rows(checks: list[Check]) -> dict:
    """Return the checks as lines, each with its value and its limit."""
    lines = []
    for c in checks:
        lines.append(("passed", f"✓ {c.name}") if c.passed else ("failed", f"✗ {c.name}"))
        lines.append(("value", f"{c.sentence}: {c.value:.2g}, allowed {c.limit:.2g}."))
    return rows("checks", ("title", "Checks of what is shown"), *lines)
