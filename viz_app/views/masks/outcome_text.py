"""Sentences on the effect of changed masks: the output, the likelihood, and looking ahead."""

from collections.abc import Iterable, Mapping

from models.layers.masks import SiteKind
from models.number_text import decimal
from models.runs.masked_comparison import MaskedRun
from models.trace import Trace
from models.trace.edits import Edits, opens_ahead
from models.trace.outputs import MaskedToken, NextToken, Numbers, TokenInOrder
from viz_app.drawing.labels import mask_token
from viz_app.drawing.notes import first_output
from viz_app.views.masks.mask_view import LogProbChange
from viz_app.views.masks.text import changes_line
from viz_app.words.allowed import reads_later

ONLY_SIZE_SHOWN = "Only the size of an answer in vectors is shown, so it is not compared."


def outcome_sentences(
    before: MaskedRun,
    after: MaskedRun,
    changes: Edits,
    names: Mapping[SiteKind, str],
    effect: str,
    notes: list[str],
) -> list[str]:
    """Return the sentences on what was changed and its effect."""
    output, same = (
        first_output(before.trace),
        (after.output, after.output_ids) == (before.output, before.output_ids),
    )
    writes = "predicts"
    if isinstance(output, NextToken):
        writes = "writes" if output.is_closed else "continues with"
    outcome = f"Under these masks the model {writes}: {after.output or 'nothing'}"
    outcome += " (unchanged)." if same else f" (before: {before.output or 'nothing'})."
    comparison = (
        [outcome, look_ahead_effect(before, after, changes, names)]
        if after.output is not None and not isinstance(output, TokenInOrder)
        else ["", ""]  # guesses of single tokens, each given the others, make no text
    )
    if isinstance(output, Numbers):
        comparison = [ONLY_SIZE_SHOWN, ""]
    lines = [changes_line(changes, names), comparison[0], effect, comparison[1], *notes]
    return [line for line in lines if line]


def nothing_hidden(mask: str) -> str:
    """Return why no probability can change, and what to do if the model's `mask` is known."""
    why = "No token is hidden and there is no second text, so no probability can change."
    return why + f" Hide a token on the page Task, or type {mask}." * bool(mask)


def effect(log_probs: LogProbChange, trace: Trace) -> str:
    """Return the change of the log-probabilities in a sentence, in nats.

    `trace` is the run before. Without log-probabilities, the result tells how to get some, or is
    "".
    """
    if not log_probs.labels:
        return (
            nothing_hidden(mask_token(trace))
            if any(isinstance(output, MaskedToken) for output in trace.outputs.values())
            else ""
        )
    before, after = log_probs.sums
    change = after - before
    difference = f"{nats(abs(change))} {'higher' if change > 0 else 'lower'}"
    if abs(change) < 0.0005:
        difference = "as before" if change == 0 else "less than 0.001 apart"
    what, names = log_probs.what, ", ".join(label.text for label in log_probs.labels)
    text = trace.streams[what].text if what in trace.streams else names
    plural = "s" * (what in ("hidden token", "label") and len(log_probs.labels) > 1)
    return f"Log-probability of the {what}{plural} “{_short(text)}”: {nats(before)} → {nats(after)} nats, {difference}."


def look_ahead_effect(
    before: MaskedRun, after: MaskedRun, changes: Edits, kinds: Iterable[SiteKind]
) -> str:
    """Return the effect of letting the decoder see ahead; "" if it may not, within its text."""
    opened = {kind for kind in kinds if kind.is_causal and opens_ahead(changes, kind.name)}
    sites = after.trace.attention.values() if opened else ()
    ahead = [s.query_stream for s in sites if s.site_kind in opened and reads_later(s)]
    if not ahead or not before.labels:
        return ""
    given_text = f"given {ahead[0]}"
    old, new = (-run.log_prob / len(run.labels) for run in (before, after))
    loss = f"{old:.3f} → {new:.3f} nats per token"
    if abs(new - old) < 0.0005:
        loss_sentence = f"That makes no difference to the loss on the {given_text} ({loss})."
    elif new < old:
        loss_sentence = f"The loss on the {given_text} falls ({loss}): seeing what comes next helps this model to guess it."
    else:
        loss_sentence = (
            f"One might expect a lower loss on the {given_text}, but it rises ({loss}). Trained with the mask, this "
            "model has not learned to use later tokens."
        )
    outcome = (
        "stays the same here" if after.output_ids == before.output_ids else "comes out differently"
    )
    return (
        f"The decoder may look ahead. {loss_sentence} While writing there is nothing ahead, yet each new token changes"
        f" what earlier ones see: the text {outcome}."
    )


def nats(value: float) -> str:
    """Format a number of nats with a true minus sign, three decimals below 1."""
    return decimal(value, 3 if abs(value) < 1 else 2)


def _short(text: str, limit: int = 60) -> str:
    return text if len(text) <= limit else f"{text[: limit // 2]} … {text[-limit // 2 :]}"
