"""What the page Task shows of a run: the places of the text with what was expected there, one distribution, and the row of
attention of the token that answers. The picture follows from the type of the run's output."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from models.analysis.checks import Check
from models.analysis.expectations import Expectations, check_expectations, expectations
from models.tokenizers.base import Tokenizer
from models.trace import AttentionSite, Trace
from models.trace.outputs import NextToken
from viz_app.drawing.labels import Label, labels
from viz_app.drawing.notes import checked, first_output, strip
from viz_app.drawing.payload import pack
from viz_app.session.current_run import CurrentRun
from viz_app.session.live import Pictures
from viz_app.session.url_state import Focus
from viz_app.views.decoding.steps import token_label, token_labels
from viz_app.views.task import text

LISTED = 10         # tokens of the distribution at the chosen place
ALTERNATIVES = 3    # at every place of a text that the model wrote


@dataclass(frozen=True)
class Choices:
    """What is chosen on the page: a position of the output's stream, from 0, None for a telling one; the head whose row is
    shown."""

    position: int | None
    focus: Focus


@dataclass(frozen=True)
class Answer:
    """What is shown of one run: an output, what it says along its stream, and the position that answers."""

    run: CurrentRun
    output: NextToken
    expected: Expectations
    position: int

    @property
    def tokenizer(self) -> Tokenizer:
        return self.run.scope.tokenizer

    @property
    def read(self) -> list[Label]:
        """The token at each position."""
        return labels(self.run.trace.streams[self.output.stream])

    @property
    def following(self) -> list[Label]:
        """The token after each position that has one."""
        end = token_labels(self.tokenizer, self.output.labels[-1:]) if self.output.is_closed else []
        return [*self.read[1:], *end]

    @property
    def mark(self) -> str:
        """What the token that stands there is called."""
        if not self.output.is_closed:
            return "follows"
        return "given" if self.run.trace.teacher_forced else "written"


def payloads(run: CurrentRun, choices: Choices) -> Pictures:
    """All that the page's components show of a run."""
    output = first_output(run.trace)
    return {"written": strip(run.trace, run.terms, run.stale), **PICTURES[type(output)](run, output, choices)}


def answer(run: CurrentRun, choices: Choices) -> Answer:
    """The answer at the chosen position of this run; where there is none, at the last of a text that goes on, and at the most
    surprising of a text that was written."""
    output = first_output(run.trace)
    expected, n = expectations(output), len(output.logits)
    position = choices.position
    if position is None or position >= n:
        position = int(expected.surprisal.argmax()) if output.is_closed else n - 1
    return Answer(run, output, expected, position)


def kept(output: NextToken, position: int) -> int | None:
    """What a click on this place chooses: what comes next after a text that goes on stays that while the text grows."""
    is_open_end = not output.is_closed and position == len(output.labels)
    return None if is_open_end else position


def next_token(run: CurrentRun, output: NextToken, choices: Choices) -> Pictures:
    """The pictures of an output that says what follows each token."""
    shown = answer(run, choices)
    site, head = answering(run.trace, output.stream, choices.focus)
    checks = check_expectations(output) + ([] if site is None else [check_row(site, head, shown.position)])
    return {
        "answers": answers(shown, site, head),
        "checks": checked(checks),
    }


PICTURES: dict[type, Callable[..., Pictures]] = {NextToken: next_token}


def has_picture(trace: Trace) -> bool:
    """Whether there is a picture of what the model answers."""
    return type(first_output(trace)) in PICTURES


def answering_sites(trace: Trace, stream: str) -> dict[str, AttentionSite]:
    """The attentions in which the tokens of this stream read, by name."""
    return {name: site for name, site in trace.attention.items() if site.query_stream == stream}


def answering(trace: Trace, stream: str, focus: Focus) -> tuple[AttentionSite | None, int]:
    """The site and head in focus if the tokens of this stream read there; else, of the same layer, the site where they read
    another stream, or themselves. None where they read nowhere."""
    sites = answering_sites(trace, stream)
    if not sites:
        return None, 0
    found = focus.within(trace)
    if found.site not in sites:
        others = {name: s for name, s in sites.items() if s.key_stream != stream} or sites
        layer = min(trace.attention[found.site].layer, max(s.layer for s in others.values()))
        found = Focus(next(name for name, s in others.items() if s.layer == layer), found.head)
    site = sites[found.site]
    return site, min(found.head, site.n_heads - 1)


def answers(shown: Answer, site: AttentionSite | None, head: int) -> bytes:
    """The payload of the component `answers`."""
    run, output, expected = shown.run, shown.output, shown.expected
    following, field = shown.following, _field(run, output.stream)
    header: dict[str, Any] = {
        "kind": "alternatives" if output.is_closed else "surprisal",
        "title": text.title(run.terms, output, field, run.trace.teacher_forced),
        "opening": None if output.is_closed else shown.read[0].as_json(),
        "places": [label.as_json() for label in following] + [None] * (not output.is_closed),
        "position": shown.position, "most": math.log2(output.logits.shape[1]), "scale": text.scale(output),
        "alternatives": [], "summary": text.summary(expected),
    }
    arrays = {
        "surprisal": expected.surprisal.numpy(), "probability": expected.probability.numpy(),
        "rank": expected.rank.numpy().astype(np.int32),
    }
    if output.is_closed:
        header["alternatives"], arrays["others"] = alternatives(shown)
    header["answer"], parts = distribution(shown)
    header["reading"], row = reading(shown, site, head)
    return pack(header, **arrays, **parts, **row)


def _field(run: CurrentRun, stream: str) -> str:
    return next(field.name for field in run.scope.model.fields if field.stream == stream)


def alternatives(shown: Answer) -> tuple[list[list[list]], np.ndarray]:
    """At each place the most probable tokens other than the one that stands there, and their probabilities."""
    n = min(ALTERNATIVES, shown.output.logits.shape[1] - 1)
    best = shown.output.log_probs.topk(n + 1)
    named, probabilities = [], []
    for place, (label, log_probs) in enumerate(zip(shown.output.labels, best.values, strict=True)):
        kept = [(i, p) for i, p in zip(best.indices[place].tolist(), log_probs.exp().tolist(), strict=True) if i != label][:n]
        named.append([token_label(shown.tokenizer, i, first=place == 0).as_json() for i, _ in kept])
        probabilities.append([p for _, p in kept])
    return named, np.array(probabilities, np.float32)


def distribution(shown: Answer) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The most probable tokens at the chosen position, and among or behind them the one that stands there."""
    output, expected, i = shown.output, shown.expected, shown.position
    best = output.log_probs[i].topk(min(LISTED, output.logits.shape[1]))
    ids, mine = best.indices.tolist(), output.labels[i] if i < len(output.labels) else None
    listed = ids if mine is None or mine in ids else [*ids, mine]
    p = output.log_probs[i, listed].exp()
    named = [token_label(shown.tokenizer, one, first=output.is_closed and i == 0).as_json() for one in listed]
    header = {
        "title": text.answer_title(shown.read[i].text, shown.read[i].special),
        "rows": [[one, label, shown.mark * (one == mine)] for one, label in zip(listed, named, strict=True)],
        "fact": text.UNKNOWN if mine is None else text.fact(
            shown.following[i].text, float(expected.probability[i]), float(expected.surprisal[i]), int(expected.rank[i]),
            output.logits.shape[1], shown.mark,
        ),
        "rest": text.rest(len(ids), float(best.values.exp().sum()), float(expected.entropy[i])),
    }  # fmt: skip
    ranks = 1 + (output.log_probs[i][None] > output.log_probs[i, listed][:, None]).sum(-1)
    return header, {"p": p.numpy(), "ranks": ranks.numpy().astype(np.int32)}


def reading(shown: Answer, site: AttentionSite | None, head: int) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The attention row of the token that answers."""
    if site is None:
        empty = {"title": "", "note": text.NO_ATTENTION, "keys": [], "blocked": [], "own": -1}
        return empty, {"weights": np.zeros(0, np.float32), "allowed": np.zeros(0, np.uint8)}
    i, token = shown.position, shown.read[shown.position]
    row = slice(i, i + 1)
    allowed = site.allowed(0, head, row)[0]
    keys = labels(shown.run.trace.streams[site.key_stream])
    own = site.key_stream == site.query_stream
    header = {
        "title": text.reading_title(site, head, shown.run.terms, token.text, token.special),
        "note": text.READING, "keys": [label.as_json() for label in keys], "own": i if own else -1,
        "blocked": [[] if is_open else site.blocked_by(i, k, head=head) for k, is_open in enumerate(allowed.tolist())],
    }
    return header, {"weights": site.weights(head, rows=row)[0].numpy(), "allowed": allowed.numpy().astype(np.uint8)}


def check_row(site: AttentionSite, head: int, position: int) -> Check:
    """The attention row that is shown divides 1 among its keys."""
    row = slice(position, position + 1)
    total = float(site.weights(head, rows=row).sum()) - float(site.allowed(0, head, row).any())
    return Check("the attention row sums to 1", abs(total), 1e-5, "Difference of the row's weights from 1")
