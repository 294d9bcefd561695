"""The section Three models: one text through three models, and the effect of a fixed vector."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import torch

from models import Scope, Trace
from models.analysis.fixed_vector import check_fixed_vector, fixed_vector
from models.architectures import Model
from models.layers.sublayers import FEED_FORWARD
from models.number_text import percent
from models.tokenizers.base import SPECIALS
from viz_app import words
from viz_app.components.catalogue import PLAIN, VERSIONS
from viz_app.drawing.extent import Scaled
from viz_app.drawing.labels import labels
from viz_app.drawing.notes import check_rows, small_print
from viz_app.drawing.provenance import file_name
from viz_app.drawing.stamp import Facts, facts, name_weights, saving
from viz_app.input_bar.examples import references
from viz_app.session import cache, reference_models
from viz_app.session.current_run import CurrentRun
from viz_app.session.live import Pictures
from viz_app.views.from_rnn.pair import cross, has_alignment
from viz_app.views.from_rnn.versions import N_OTHERS, Bottleneck, ModelText, versions
from viz_app.views.page import Foot, PageCell, ShownComponent, View

FIXED_VECTOR, WITH_ALIGNMENT, NO_RECURRENCE = (
    "RNN, one fixed vector",
    "RNN with Bahdanau's alignment",
    "Attention without recurrence",
)
TYPED, KNOWN = "your text", "correct"


def attends_without_recurrence(scope: Scope) -> bool:
    """Return True if its decoder attends to the source and nothing in it is recurrent."""
    return not scope.model.is_recurrent and any(k.role == "cross" for k in scope.model.kinds)


def has_fixed_vector(scope: Scope) -> bool:
    """Return True if it is recurrent and its decoder reads nothing of the source but one vector."""
    return scope.model.is_recurrent and not scope.model.kinds


ABILITIES: dict[str, Callable[[Scope], bool]] = {
    FIXED_VECTOR: has_fixed_vector,
    WITH_ALIGNMENT: has_alignment,
    NO_RECURRENCE: attends_without_recurrence,
}


@dataclass(frozen=True)
class ThreeModels:
    """The models of a run's data by their kind, and each with the run's source."""

    run: CurrentRun

    @cached_property
    def scopes(self) -> dict[str, Scope]:
        candidates = {
            kind: reference_models.of_same_data(self.run, ABILITIES[kind]) for kind in ABILITIES
        }
        return {kind: scope for kind, scope in candidates.items() if scope is not None}

    @property
    def source(self) -> str:
        return self.run.trace.streams["source"].text

    @property
    def fixed(self) -> Scope | None:
        """The model that writes from one vector."""
        return self.scopes.get(FIXED_VECTOR)

    def trace(self, kind: str) -> Trace:
        """Return the run of the model of this kind on the source."""
        return cache.trace(self.scopes[kind], (self.source, ""))

    @cached_property
    def bottleneck(self) -> Bottleneck | None:
        """The vector of the source, and how much each of its tokens changes it."""
        scope = self.fixed
        if scope is None:
            return None
        trace = self.trace(FIXED_VECTOR)
        row = trace.streams["source"]
        places = tuple(i for i, place in enumerate(row.offsets) if place is not None)
        others, names = other_tokens(scope), labels(row)
        change = cache.cached_vector_changes(scope, row.ids, places, others)
        least = places[int(change.argmin())]
        rewritten = cache.count_rewritten(scope, row.ids, least, others)
        tokens = [names[i] for i in places]
        return Bottleneck(scope.name, fixed_vector(scope.model, trace), tokens, change, rewritten)


def other_tokens(scope: Scope) -> tuple[int, ...]:
    """Return a fixed random selection of a model's tokens, none of them special."""
    n = scope.config.vocab_size - len(SPECIALS)
    permuted = torch.randperm(n, generator=torch.Generator().manual_seed(0))[:N_OTHERS]
    return tuple((permuted + len(SPECIALS)).tolist())


def _payloads(run: CurrentRun, choices: None) -> Pictures:
    three = ThreeModels(run)
    pictures: Pictures = {}
    if absent := [kind for kind in ABILITIES if kind not in three.scopes]:
        pictures["note from-rnn-three"] = small_print(missing_kinds(absent))
    texts = [
        ModelText(
            _title(kind, scope),
            words.training_brief(scope.name, scope.training),
            three.trace(kind).output,
        )
        for kind, scope in three.scopes.items()
    ]
    target = run.trace.streams["target"].text if run.trace.teacher_forced else ""
    correct = (target,) if target else references(three.source)
    reference_name = TYPED if target else KNOWN
    saved = saving(file_name(run.trace, "three-models"), _facts(three))
    pictures["from-rnn-versions"] = Scaled(
        partial(
            versions, three.source, texts, correct, reference_name, three.bottleneck, saved=saved
        )
    )
    if three.fixed is not None:
        checks = check_fixed_vector(three.fixed.model, three.trace(FIXED_VECTOR))
        pictures["checks"] = check_rows(checks)
    return pictures


def _facts(three: ThreeModels) -> Facts:
    """Return the facts about the texts of all models: the weights of each, not the run's."""
    of_models = {kind: name_weights(scope) for kind, scope in three.scopes.items()}
    names = {"source", "target", *of_models, "counting"}
    all_facts = facts(three.run.trace, **of_models)
    return {name: value for name, value in all_facts.items() if name in names}


def _title(kind: str, scope: Scope) -> str:
    return attention_title(scope.model) if kind == NO_RECURRENCE else kind


def _layout(run: CurrentRun, choices: None, pictures: Pictures) -> Sequence[PageCell]:
    return [
        ShownComponent(PLAIN, "note from-rnn-three"),
        ShownComponent(VERSIONS, "from-rnn-versions"),
        Foot((1, 1)),
    ]


def _text(run: CurrentRun, choices: None) -> str:
    three = ThreeModels(run)
    if (neck := three.bottleneck) is None:
        return ""
    sites = cross(three.trace(NO_RECURRENCE)) if NO_RECURRENCE in three.scopes else []
    heads = max((site.n_heads for site in sites), default=0)
    reason = explain_lack(WITH_ALIGNMENT in three.scopes, heads, len(sites))
    return f"{vector_change_text(neck.change.tolist(), neck.rewritten)}\n\n{reason}"


def _trained(run: CurrentRun) -> str:
    fixed = ThreeModels(run).fixed
    return "" if fixed is None else words.training_summary(fixed.training)


def vector_change_text(changes: Sequence[float], rewritten: tuple[int, int]) -> str:
    """Compare, in Markdown, how much three tokens change the vector.

    They are the first, the last, and the one with the least effect. It adds in how many trials
    replacing that one changed the text.
    """
    first, last, least = changes[0], changes[-1], min(changes)
    place = list(changes).index(least) + 1
    return (
        f"Changing the **first** token changes h(m) by {percent(first)} of its length, the **last** by {percent(last)}"
        f". Token {place} of {len(changes)} changes it least: by {percent(least)}. With that one replaced, the model "
        f"wrote another text in **{rewritten[0]} of {rewritten[1]}** trials."
    )


def attention_title(model: Model) -> str:
    """Name a model that attends without recurrence, by the parts its layers have."""
    if not any(kind.role == "self" for kind in model.kinds):
        return "Cross-attention alone, without recurrence"
    if any(sublayer.role == FEED_FORWARD for sublayer in model.sublayers):
        return "Self-attention, as in the Transformer"
    if not model.sublayers:  # the parts of its layers are not known
        return "Self-attention, without recurrence"
    added = all(sublayer.adds for sublayer in model.sublayers)
    return f"Self-attention, without {'' if added else 'residual connections or '}feed-forward"


_WHY = (
    "**Why it loses.** The decoder of the first model never sees the source again. With every other number of the "
    "encoder set to 0 it writes the same (see the check)."
)


def explain_lack(aligns: bool, heads: int, layers: int) -> str:
    """Explain what the first model lacks and the others have.

    `aligns` is True if the second has an alignment; the third attends to the source in
    `heads` heads of each of `layers` layers, 0 if there is no third model.
    """
    parts = []
    if aligns:
        parts.append("The second keeps all states h(j) and chooses among them anew at every step")
    if heads:
        name = "third" if aligns else "model without recurrence"
        third = f"The {name} chooses among the vectors of all tokens"
        where = f"{heads} head{'s' * (heads != 1)}"
        where += f" of each of {layers} layers" if layers != 1 else " of one layer"
        parts.append(f"{third}, in {where}")
    return " ".join([_WHY, *(f"{part}." for part in parts)])


def missing_kinds(names: Sequence[str]) -> str:
    """Name the kinds of model that are missing."""
    return f"For this task, on the same data and tokens, there is no trained model of this kind: {', '.join(names)}."


THREE = View(
    _payloads,
    _layout,
    text=_text,
    trained=_trained,
    is_live=lambda choices: False,
    has_strip=False,
)
