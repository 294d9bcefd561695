"""The section Two alignments: a pair under Bahdanau's alignment and under a Transformer's head."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from models import Scope
from models.analysis.checks import Check
from models.analysis.divergence import jensen_shannon
from models.trace import AttentionSite, Trace
from viz_app import words
from viz_app.components.catalogue import MAPS
from viz_app.controls.which_head import head_row, pick_one
from viz_app.drawing.labels import labels, step_labels
from viz_app.drawing.notes import check_rows
from viz_app.drawing.provenance import name_of_two
from viz_app.drawing.stamp import Facts, of_two, saving
from viz_app.session import cache, reference_models, url_state
from viz_app.session.current_run import CurrentRun
from viz_app.session.live import Pictures
from viz_app.session.parameters import Choice
from viz_app.session.remembered import recall
from viz_app.views.from_rnn import files
from viz_app.views.from_rnn.maps import AlignmentMap, alignments
from viz_app.views.page import File, Foot, PageCell, ShownComponent, View

NEAREST = "nearest"  # the head, among those of all layers, that is closest to the alignment
PAIR_LAYER, PAIR_HEAD = Choice("from-rnn-layer", NEAREST), Choice("from-rnn-head", 1)
_HELP = "“Nearest head” is the one, among those of all layers, whose rows are on average closest to Bahdanau's."
DIFFERENT_ROWS = "The two models split this pair into different tokens, so their rows cannot be compared, and nothing is drawn."

JENSEN_SHANNON = (
    r"$\mathrm{JS}(p, q) = H\left(\frac{p + q}{2}\right) - \frac{H(p) + H(q)}{2}$ with $H(p) = -\sum p \log_2 p$, in "
    r"bits (Lin 1991). It is 0 where both rows are the same, 1 where no source token has weight in both. Both models "
    r"read the same target, token by token (teacher forcing), so the rows belong to the same step."
)


@dataclass(frozen=True)
class PairChoices:
    """The Transformer's layer, from 1, or NEAREST, and its head, from 1."""

    layer: str | int
    head: int


@dataclass(frozen=True)
class PairView:
    """One pair under both models: the run's own, and one that suits it."""

    run: CurrentRun
    choices: PairChoices = PairChoices(NEAREST, 1)

    @cached_property
    def scopes(self) -> list[Scope | None]:
        """The model with an alignment and the one with heads; None for a missing one."""
        return [
            reference_models.suitable_scope(self.run, suits) for suits in (has_alignment, has_heads)
        ]

    @cached_property
    def traces(self) -> list[Trace]:
        """The run's pair under each model, teacher-forced on the run's target."""
        return [_read(scope, self.run) for scope in self.scopes if scope is not None]

    @cached_property
    def sites(self) -> list[AttentionSite]:
        return cross(self.traces[1])

    @cached_property
    def head(self) -> tuple[AttentionSite, int]:
        """The chosen head, at first the one nearest to the alignment."""
        if self.choices.layer != NEAREST:
            return self.sites[self.choices.layer - 1], self.choices.head - 1
        site, head = nearest_site_head(cross(self.traces[0])[0].weights(0), self.sites)
        return self.sites[site], head

    @cached_property
    def maps(self) -> list[AlignmentMap]:
        site, head = self.head
        formulas = (
            "α(i) = softmax(v·tanh(W s(i−1) + U h(j)))",
            f"softmax({site.similarity.formula})",
        )
        notes = [provenance(*pair) for pair in zip(self.scopes, formulas, strict=True)]
        title = f"Cross-attention, layer {site.layer + 1}, head {head + 1}"
        return [
            AlignmentMap("Bahdanau's alignment", notes[0], cross(self.traces[0])[0].weights(0)),
            AlignmentMap(title, notes[1], site.weights(head)),
        ]

    @cached_property
    def apart(self) -> Tensor:
        """The divergence at every step."""
        return jensen_shannon(*(one.weights for one in self.maps))

    @property
    def file(self) -> str:
        site, head = self.head
        parts = f"layer{site.layer + 1}", f"head{head + 1}", "two-alignments"
        return name_of_two(*self.traces, *parts)

    @property
    def about(self) -> Facts:
        """Both runs and their models."""
        return of_two(*self.traces)


def _read(scope: Scope, run: CurrentRun) -> Trace:
    if scope is run.scope:
        return run.trace
    return cache.given_trace(scope, run.trace.streams["source"].text, run.trace.streams["target"])


def find_pair(run: CurrentRun) -> View[PairChoices] | str:
    """Return the view of a pair that both models read as the same tokens, or why there is none."""
    view = PairView(run)
    if None in view.scopes:
        exist = [scope is not None for scope in view.scopes]
        return no_pair(reference_models.reference_names(run.scope.task), *exist)
    return PAIR_VIEW if same_rows(*view.traces) else DIFFERENT_ROWS


def _choose(run: CurrentRun) -> PairChoices:
    sites = PairView(run).sites
    layers, heads = [NEAREST, *range(1, len(sites) + 1)], list(range(1, sites[0].n_heads + 1))
    layer = url_state.chosen_option(PAIR_LAYER, layers, NEAREST)
    head = url_state.chosen_option(PAIR_HEAD, heads, 1)
    with head_row():
        pick_one(
            "Transformer's layer",
            PAIR_LAYER.name,
            layers,
            layer,
            lambda: url_state.set_value(PAIR_LAYER, recall(PAIR_LAYER.name)),
            lambda o: "nearest head" if o == NEAREST else str(o),
            help=_HELP,
        )
        is_nearest = layer == NEAREST
        pick_one(
            "Head",
            PAIR_HEAD.name,
            heads,
            head,
            lambda: url_state.set_value(PAIR_HEAD, recall(PAIR_HEAD.name)),
            disabled=is_nearest,
        )
    return PairChoices(layer, head)


def _within(choices: PairChoices, run: CurrentRun, other: CurrentRun) -> PairChoices:
    sites = PairView(other).sites
    if choices.layer == NEAREST or choices.layer > len(sites):
        return replace(choices, layer=NEAREST)
    return replace(choices, head=min(choices.head, sites[0].n_heads))


def _payloads(run: CurrentRun, choices: PairChoices) -> Pictures:
    view = PairView(run, choices)
    streams = view.traces[0].streams
    source, target = streams["source"], streams["target"]
    picture = alignments(view.maps, source, target, saving(view.file, view.about))
    return {
        "from-rnn-pair": picture,
        "checks": check_rows(pair_checks(view.traces, view.maps, view.apart)),
    }


def _layout(run: CurrentRun, choices: PairChoices, pictures: Pictures) -> Sequence[PageCell]:
    return [ShownComponent(MAPS, "from-rnn-pair"), Foot((1, 1))]


def _text(run: CurrentRun, choices: PairChoices) -> str:
    view = PairView(run, choices)
    steps = {scope.name: int(scope.training.get("step", 0)) for scope in view.scopes}
    unequal, apart = words.unequal_training(steps), view.apart
    difference = divergence_sentence(
        float(apart.mean()), int(apart.argmax()), float(apart.max()), unequal
    )
    return f"{difference}\n\n{JENSEN_SHANNON}"


def _files(run: CurrentRun, choices: PairChoices) -> Sequence[File]:
    def numbers(now: CurrentRun) -> str:
        view = PairView(now, choices)
        streams = view.traces[0].streams
        tokens = [label.text for label in labels(streams["source"])]
        steps = [label.text for label in step_labels(streams["target"], is_closed=True)]
        return files.alignments_csv(view.maps, tokens, steps, view.apart)

    def about(now: CurrentRun) -> Facts:
        return PairView(now, choices).about

    name = f"{PairView(run, choices).file}.csv"
    return [File("Both alignments, CSV", numbers, name, about)]


def has_alignment(scope: Scope) -> bool:
    """Return True if it is recurrent with Bahdanau's alignment."""
    return any(kind.role == "alignment" for kind in scope.model.kinds)


def has_heads(scope: Scope) -> bool:
    """Return True if it is a Transformer with cross-attention."""
    roles = [(kind.stack, kind.role) for kind in scope.model.kinds]
    return not scope.model.is_recurrent and {("decoder", "self"), ("decoder", "cross")} <= set(
        roles
    )


def cross(trace: Trace) -> list[AttentionSite]:
    """Return the cross-attentions, first layer first."""
    return sorted(
        (site for site in trace.attention.values() if site.role != "self"),
        key=lambda site: site.layer,
    )


def same_rows(first: Trace, second: Trace) -> bool:
    """Return True if both runs have the same tokens, source and target."""
    return all(
        first.streams[name].tokens == second.streams[name].tokens for name in ("source", "target")
    )


def nearest_site_head(alignment: Tensor, sites: Sequence[AttentionSite]) -> tuple[int, int]:
    """Return (place in sites, head) of the least mean divergence from the alignment."""
    each = [
        [jensen_shannon(site.weights(head), alignment).mean() for head in range(site.n_heads)]
        for site in sites
    ]
    apart = torch.tensor(each)  # (site, head)
    return tuple(divmod(int(apart.argmin()), apart.shape[1]))


def pair_checks(
    traces: Sequence[Trace], pair: Sequence[AlignmentMap], divergence: Tensor
) -> list[Check]:
    """Check that rows sum to 1, and the divergence by its Kullback–Leibler definition.

    Float32: log-ratios of small weights cost some digits.
    """
    rows = max(float((one.weights.sum(-1) - 1).abs().max()) for one in pair)
    p, q = (one.weights.double() for one in pair)
    half = (p + q) / 2
    by_kl = (
        sum((torch.xlogy(one, one) - torch.xlogy(one, half)).sum(-1) for one in (p, q))
        / 2
        / torch.log(torch.tensor(2.0))
    )
    gap = float((divergence - by_kl).abs().max())
    n_differing = sum(
        a != b
        for a, b in zip(
            traces[0].streams["target"].ids, traces[1].streams["target"].ids, strict=True
        )
    )
    return [
        Check(
            "rows sum to 1",
            rows,
            1e-5,
            "Each row of weights sums to 1; largest difference in both pictures",
        ),
        Check(
            "both read the same target",
            float(n_differing),
            0.0,
            "Target tokens that differ between the two runs",
        ),
        Check(
            "the divergence, by its other definition",
            gap,
            1e-5,
            "½·KL(p‖m) + ½·KL(q‖m), m = (p + q)/2; largest gap in bits",
        ),
    ]


def no_pair(names: Sequence[str], has_alignment: bool, has_heads: bool) -> str:
    """Name the missing one of the two models."""
    missing = [
        text
        for text, exists in (
            ("one with Bahdanau's alignment", has_alignment),
            ("a Transformer with cross-attention", has_heads),
        )
        if not exists
    ]
    searched = f" (looked for: {', '.join(names)})" if names else ""
    return f"Two trained models of this task are needed, with the same tokens. Missing: {' and '.join(missing)}{searched}."


def provenance(scope: Scope, formula: str) -> str:
    """Name the model and the formula of a row, above a picture."""
    steps = words.trained_steps(scope.training)
    trained = f"trained for {steps}" if steps else words.training_state(scope.training)
    return f"{scope.name}, {trained}: {formula}"


def divergence_sentence(mean: float, step: int, largest: float, unequal: str = "") -> str:
    """Put the divergence into words.

    The token of the step is in the picture, not in Markdown, because it is text from outside.
    `unequal` notes that the two models were not trained alike; "" if they were.
    """
    return (
        f"On average the two rows are **{mean:.2f} bits** apart. They differ most at step {step + 1}, by {largest:.2f} bits; "
        f"the bars show which token that is.{f' {unequal}' if unequal else ''}"
    )


PAIR_VIEW = View(
    _payloads,
    _layout,
    choose=_choose,
    within=_within,
    text=_text,
    files=_files,
    trained=lambda run: "",
    is_live=lambda choices: False,
)
