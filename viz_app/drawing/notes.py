"""Lines of plain text for the component `plain`: notes, what was read and written, checks."""

from models.analysis.checks import Check
from models.trace import Trace
from viz_app import words
from viz_app.drawing.labels import token_text


def rows(look: str, *lines: tuple[str, str]) -> dict:
    """(look, text) lines in a box of a look that plain.css knows: "note", "note bad", "written", "written long",
    "checks", "explained"."""
    return {"look": look, "rows": [list(line) for line in lines]}


def small_print(text: str, bad: bool = False) -> dict:
    """A line under a control, or the error that belongs to it."""
    return rows("note bad" if bad else "note", ("line", text))


def strip(trace: Trace, terms: words.Terms, stale: bool, answer: tuple[str, str] | None = None) -> dict:
    """What the model read, and what it wrote or, where it wrote nothing, what it expects next; or another (label, text) for an
    answer, where the page shows that."""
    field, given = next((name, text) for name, text in trace.fields.items())
    label, output = answer or answered(trace)
    aside = "The last text that could be run: see the note at the left." if stale else ""
    text = "".join(filter(None, trace.fields.values())) if not trace.next_token.is_closed else given
    long = max(len(text), len(output)) > 42
    return rows(
        "written long" if long else "written",
        ("label-in", terms.label(field)), ("source", text), ("arrow", "→"),
        ("label-out", label), ("output", output), ("stale", aside),
    )


def answered(trace: Trace) -> tuple[str, str]:
    """What the model's answer is, in words, and the answer."""
    expected = trace.next_token
    if expected.is_closed:
        return "the model's own next token, position by position" if trace.teacher_forced else "the model writes", trace.output
    probability = float(expected.log_probs[-1].max().exp())
    return f"most likely next, {100 * probability:.0f} %", token_text(expected.predicted[-1])


def checked(checks: list[Check]) -> dict:
    """The checks, each with its value and its limit."""
    lines = []
    for c in checks:
        lines.append(("passed", f"✓ {c.name}") if c.passed else ("failed", f"✗ {c.name}"))
        lines.append(("value", f"{c.sentence}: {c.value:.2g}, allowed {c.limit:.2g}."))
    return rows("checks", ("title", "Checks of what is shown"), *lines)
