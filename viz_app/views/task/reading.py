"""The choices on the page Task, and the attention row of the answering token beside an answer."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from models.analysis.checks import Check, check_sums
from models.analysis.distributions import check_softmax
from models.trace import AttentionSite, Trace
from models.trace.outputs import ClassProbabilities, MultiLabelProbabilities, Output
from viz_app.drawing.labels import labels
from viz_app.drawing.over_file import reads_file
from viz_app.session.current_run import CurrentRun
from viz_app.session.focus import Focus
from viz_app.session.live import Pictures
from viz_app.views.task import text


@dataclass(frozen=True)
class TaskChoices:
    """A position (from 0) in the output's stream, None for a default one, and the shown head.

    `output` is the name of the shown output, or of one that this run lacks: its first is shown.
    """

    position: int | None
    focus: Focus
    output: str = ""


def task_choices_within(choices: TaskChoices, run: CurrentRun, other: CurrentRun) -> TaskChoices:
    """Return the nearest choices that exist in another run."""
    if not other.trace.attention:
        return replace(choices, focus=Focus())
    return replace(choices, focus=choices.focus.within(other.trace))


DrawnOutput = tuple[Pictures, list[Check]]  # the payloads of one output, and its checks


def answering_sites(trace: Trace, stream: str) -> dict[str, AttentionSite]:
    """Return the sites whose queries are on this stream, by name.

    In a model with two streams of states, only those of the query stream, which makes the
    predictions.
    """
    sites = {name: site for name, site in trace.attention.items() if site.query_stream == stream}
    return {name: site for name, site in sites.items() if site.role == "query"} or sites


def has_row(trace: Trace, output: Output) -> bool:
    """Return False if an answer is read from several tokens, none of them a part of a file."""
    return getattr(output, "position", 0) is not None or reads_file(trace, output.stream)


def reading_site(trace: Trace, stream: str, focus: Focus) -> tuple[AttentionSite | None, int]:
    """Return the focus if its queries are on this stream, else a site of the same layer.

    That is the cross-attention if there is one, otherwise the self-attention. (None, 0) if there is
    none.
    """
    sites = answering_sites(trace, stream)
    if not sites:
        return None, 0
    target = focus.within(trace)
    if target.site not in sites:
        preferred = {
            name: candidate for name, candidate in sites.items() if candidate.key_stream != stream
        } or sites
        layer = min(
            trace.attention[target.site].layer,
            max(candidate.layer for candidate in preferred.values()),
        )
        target = Focus(
            next(name for name, candidate in preferred.items() if candidate.layer == layer),
            target.head,
        )
    site = sites[target.site]
    return site, min(target.head, site.n_heads - 1)


def attention_row_payload(
    run: CurrentRun, site: AttentionSite | None, head: int, position: int, prefix: str = ""
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return the attention row of a token: its header, and arrays named by `prefix`."""
    if site is None:
        return no_row(text.NO_ATTENTION_ROW, prefix)
    row = slice(position, position + 1)
    allowed = site.allowed(0, head, row)[0]
    keys = labels(run.trace.streams[site.key_stream])
    is_self_attention = site.key_stream == site.query_stream
    token = labels(run.trace.streams[site.query_stream])[position]
    header = {
        "title": text.reading_title(site, head, run.terms, token.text, token.special),
        "note": text.READING_SCALE,
        "keys": [label.as_json() for label in keys],
        "own": position if is_self_attention else -1,
        "blocked": [
            [] if is_open else site.blocked_by(position, k, head=head)
            for k, is_open in enumerate(allowed.tolist())
        ],
    }
    arrays = {
        "weights": site.weights(head, rows=row)[0].numpy(),
        "allowed": allowed.numpy().astype(np.uint8),
    }
    return header, {f"{prefix}{name}": array for name, array in arrays.items()}


def no_row(note: str = "", prefix: str = "") -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return a header and arrays as `attention_row_payload` does, for no row."""
    header = {"title": "", "note": note, "keys": [], "blocked": [], "own": -1}
    arrays = {"weights": np.zeros(0, np.float32), "allowed": np.zeros(0, np.uint8)}
    return header, {f"{prefix}{name}": array for name, array in arrays.items()}


@dataclass(frozen=True)
class AnswerBars:
    """The bars of an answer: a row of the header each, with the arrays `p` and `ranks`."""

    rows: list[list[Any]]
    arrays: dict[str, np.ndarray]


def answer_bars(output: ClassProbabilities | MultiLabelProbabilities) -> AnswerBars:
    """Return the bars of an answer: in the model's order, or the most probable of many names."""
    p = output.probabilities
    listed = list(range(len(p)))
    if len(p) > text.N_NAMED_CLASSES:
        listed = p.argsort(descending=True, stable=True)[: text.N_NAMED_CLASSES].tolist()
    if isinstance(output, MultiLabelProbabilities):
        marked, mark = set((output.values > 0).nonzero().flatten().tolist()), text.HOLDS
        ranks = torch.ones(len(listed))  # labels are not ranked against each other
    else:
        marked, mark = {int(output.logits.argmax())}, text.MOST_PROBABLE
        ranks = 1 + (p[None] > p[listed, None]).sum(-1)
    rows = [[i, [output.names[i], "", False], mark * (i in marked)] for i in listed]
    return AnswerBars(rows, {"p": p[listed].numpy(), "ranks": ranks.numpy().astype(np.int32)})


def check_answer(output: ClassProbabilities | MultiLabelProbabilities) -> list[Check]:
    """Check an answer's probabilities against its logits."""
    if isinstance(output, ClassProbabilities):
        logits = output.logits[None]
        return check_softmax(logits, logits.float().log_softmax(-1))
    by_hand = 1 / (1 + np.exp(-output.values.double().numpy()))
    worst = float(np.abs(by_hand - output.probabilities.numpy()).max())
    return [Check(text.JUDGED_CHECK, worst, 1e-6, "Largest difference, worked out by hand")]


def check_row(site: AttentionSite, head: int, *positions: int) -> Check:
    """Check that each shown attention row sums to 1, or to 0 if it is fully masked.

    A row of finished weights may sum to less, as `check_sums` says.
    """
    sums = []
    for position in positions:
        row = slice(position, position + 1)
        is_empty = not site.allowed(0, head, row).any()
        sums.append(float(site.weights(head, rows=row).sum()) + is_empty)
    what, of = (
        ("row sums", "Difference of the row's")
        if len(positions) == 1
        else (
            "rows sum",
            "Largest difference of a row's",
        )
    )
    return check_sums(
        f"the attention {what} to {{}}",
        torch.tensor(sums, dtype=torch.float64),
        f"{of} weights from 1",
        site.dtype,
        site.has_causes,
    )
