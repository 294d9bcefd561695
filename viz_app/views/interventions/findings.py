"""Ready examples: pairs of texts to patch, and heads that a rule finds in the shown run."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from models import InputError
from models.analysis.head_measures import MEASURES, measures
from models.trace import AttentionSite, Trace
from models.trace.edits import HeadOff, Where
from viz_app import words
from viz_app.controls import pick
from viz_app.input_bar.examples import reads_text
from viz_app.session import cache, live, url_state
from viz_app.session.current_run import CurrentRun
from viz_app.session.parameters import declared_parameters
from viz_app.session.run_changes import EDITS
from viz_app.session.url_state import parameter_of
from viz_app.views.interventions import state
from viz_app.views.interventions.patch_runs import Two, two_runs

MIN_WEIGHT = 0.3  # mean weight from which a head is named after a measure
MAX_FINDING_TOKENS = 64  # tokens of a text whose heads are measured

FindingTexts = tuple[str, ...]


@dataclass(frozen=True)
class PairFinding:
    """Two texts for the typed fields; the label names their difference."""

    label: str
    first: FindingTexts
    second: FindingTexts


# by task
PAIR_FINDINGS: dict[str, tuple[PairFinding, ...]] = {
    "translation": (
        PairFinding("cat → dog: which heads carry the noun?", ("The cat is black.",), ("The dog is black.",)),
        PairFinding("him → her: where does gender go?", ("We saw him.",), ("We saw her.",)),
    ),
    "dates": (
        PairFinding("2024 → 2025: which heads carry the year?", ("15 May 2024",), ("15 May 2025",)),
        PairFinding("May → Mar: which heads carry the month?", ("15 May 2024",), ("15 Mar 2024",)),
    ),
    "language": (
        PairFinding("boy → girl: which heads carry gender?", ("The boy said that",), ("The girl said that",)),
        PairFinding("cup → glass: which heads carry the noun?", ("I drink a cup of",), ("I drink a glass of",)),
    ),
    "mlm": (
        PairFinding("He → She: which heads carry gender?", ("He forgot [MASK] umbrella.",), ("She forgot [MASK] umbrella.",)),
    ),
    "span": (
        PairFinding(
            "Mary → John: which heads carry the question?",
            ("Where is Mary?", "Mary went to the kitchen. John moved to the garden."),
            ("Where is John?", "Mary went to the kitchen. John moved to the garden."),
        ),
    ),
    "permutation": (
        PairFinding("He → She: which heads carry gender?", ("He forgot his umbrella.",), ("She forgot his umbrella.",)),
    ),
    "classify": (
        PairFinding("good → bad: which heads carry the verdict?", ("The food was good.",), ("The food was bad.",)),
    ),
}  # fmt: skip


@dataclass(frozen=True)
class HeadRule:
    """A measure by which a head stands out, and the label of the button that switches it off."""

    measure: str
    label: str
    of_one_text: bool


RULES = (
    HeadRule("previous", "Switch off the previous-token head", True),
    HeadRule("diagonal", "Switch off the diagonal head", False),
    HeadRule("first", "Switch off the first-token head", True),
)


@dataclass(frozen=True)
class FoundHead:
    """The head of a run with the largest value of a measure, and that value."""

    rule: HeadRule
    site: AttentionSite
    head: int
    value: float

    @property
    def about(self) -> str:
        """Say which head it is and why."""
        place = words.head_location(self.site, self.head)
        return (
            f"{place}: {MEASURES[self.rule.measure].name.lower()}, mean weight {self.value:.2f}, "
            "the largest of the heads compared on this text."
        )


def found_heads(trace: Trace) -> list[FoundHead]:
    """Return the head of each rule in a run, where one stands out."""
    if max(len(row.ids) for row in trace.streams.values()) > MAX_FINDING_TOKENS:
        return []
    values = {
        site.name: measures(site, *trace.axes(site))
        for site in trace.attention.values()
        if site.has_causes and min(site.n_query, site.n_key) > 2
    }
    return [one for rule in RULES if (one := _strongest_head(trace, rule, values))]


def _strongest_head(trace: Trace, rule: HeadRule, values: dict) -> FoundHead | None:
    candidates = [
        (float(value), trace.attention[name], head)
        for name, of_site in values.items()
        if of_site[rule.measure] is not None
        and (not rule.of_one_text or _is_self(trace.attention[name]))
        for head, value in enumerate(of_site[rule.measure])
    ]
    value, site, head = max(candidates, key=lambda one: one[0], default=(0.0, None, 0))
    return FoundHead(rule, site, head, value) if site is not None and value >= MIN_WEIGHT else None


def _is_self(site: AttentionSite) -> bool:
    return site.query_stream == site.key_stream


def pairs(run: CurrentRun) -> Iterator[PairFinding]:
    """Yield the task's pairs that are equally long for the model and get different answers."""
    scope = run.unchanged.scope
    for one in PAIR_FINDINGS.get(scope.task, ()):
        if len(one.first) > len(scope.model.text_fields) or not all(
            reads_text(scope, *texts) for texts in (one.first, one.second)
        ):
            continue
        try:
            first, second = (_run(run, texts) for texts in (one.first, one.second))
            two = two_runs(CurrentRun(scope, first), one.second, None)
        except InputError:
            continue
        stream = scope.model.fields[0].stream
        is_as_long = len(first.streams[stream].ids) == len(second.streams[stream].ids)
        if is_as_long and isinstance(two, Two) and two.rival is not None:
            yield one


def _run(run: CurrentRun, texts: FindingTexts) -> Trace:
    scope = run.unchanged.scope
    rest = ("",) * (len(scope.model.text_fields) - len(texts))
    return cache.trace(scope, (*texts, *rest))


def show_pair(run: CurrentRun, one: PairFinding) -> None:
    """Put both texts in their boxes, without edits."""
    for field, value in zip(run.scope.model.text_fields, one.first, strict=False):
        url_state.set_value(parameter_of(field), value)
    for field in run.scope.model.text_fields[len(one.first) :]:
        url_state.set_value(parameter_of(field), "")
    for parameter, value in zip(state.PATCH_TEXTS, one.second, strict=False):
        url_state.set_value(parameter, value)
    url_state.reset_untyped()
    url_state.set_value(EDITS, ())
    url_state.set_value(state.OTHER_EDITS, ())
    url_state.set_value(state.FOLLOWED_POSITION, None)
    url_state.set_value(declared_parameters()["interventions-section"], "Patch")


def switch_off(rule: HeadRule) -> None:
    """Switch off the head that the rule finds in the shown run without edits."""
    trace = live.live_session().shown.unchanged.trace
    for one in found_heads(trace):
        if one.rule == rule:
            where = Where(site=one.site.name, heads=(one.head,))
            state.replace_head(where, partial(HeadOff, where))
    url_state.set_value(declared_parameters()["interventions-section"], "Heads")


def finding_buttons(run: CurrentRun) -> None:
    """Draw a button for each finding of this run."""
    listed: list[tuple[str, str, Callable[[], None]]] = [
        (one.label, " / ".join((*one.first[:1], *one.second[:1])), partial(show_pair, run, one))
        for one in pairs(run)
    ]
    listed += [
        (one.rule.label, one.about, partial(switch_off, one.rule))
        for one in found_heads(run.unchanged.trace)[:2]
    ]
    if not listed:
        return
    with pick.control_row("findings", "small"):
        for i, (label, about, action) in enumerate(listed):
            pick.button(label, f"finding-{i}", action, type="tertiary", help=about)
