"""One text through three trained models of the same data: what a fixed vector loses, and the vector itself."""

from collections.abc import Callable

import streamlit as st
import torch

from models import Scope
from models.analysis.fixed_vector import check_fixed_vector, fixed_vector
from models.tokenizers.base import SPECIALS
from viz_app import ui, words
from viz_app.components.catalogue import VERSIONS
from viz_app.components.mounting import show
from viz_app.drawing.labels import labels
from viz_app.session import cache, reference_models
from viz_app.session.current_run import CurrentRun
from viz_app.sidebar.examples import references
from viz_app.views.from_rnn import versions as draw
from viz_app.views.from_rnn import versions_text as say
from viz_app.views.from_rnn.pair_maps import cross, has_alignment


def attends_without_recurrence(scope: Scope) -> bool:
    """Return True if its decoder attends to the source and nothing in it is recurrent."""
    return not scope.model.is_recurrent and any(k.role == "cross" for k in scope.model.kinds)


def has_fixed_vector(scope: Scope) -> bool:
    """Return True if it is recurrent and its decoder reads nothing of the source but one vector."""
    return scope.model.is_recurrent and not scope.model.kinds


ABILITIES: dict[str, Callable[[Scope], bool]] = {
    say.FIXED_VECTOR: has_fixed_vector,
    say.ALIGNMENT: has_alignment,
    say.NO_RECURRENCE: attends_without_recurrence,
}


def three(run: CurrentRun) -> None:
    """Draw the section."""
    source = run.trace.streams["source"]
    found = {title: reference_models.of_same_data(run, suits) for title, suits in ABILITIES.items()}
    there = {title: scope for title, scope in found.items() if scope is not None}
    if len(there) < len(found):
        ui.note(
            st.empty(),
            say.missing([title for title in found if title not in there]),
            key="from-rnn-three",
        )
    traces = {title: cache.trace(scope, (source.text, "")) for title, scope in there.items()}
    whose = {
        title: words.training_brief(scope.name, scope.training) for title, scope in there.items()
    }
    written = [
        draw.Version(_title(title, scope), whose[title], traces[title].output)
        for title, scope in there.items()
    ]
    typed = run.trace.streams["target"].text if run.trace.teacher_forced else ""
    reference = typed or draw.nearest(references(source.text), written)
    fixed = there.get(say.FIXED_VECTOR)
    neck = None if fixed is None else _bottleneck(fixed, run)
    show(
        VERSIONS,
        draw.versions(source.text, written, reference, say.TYPED if typed else say.KNOWN, neck),
        key="from-rnn-versions",
    )
    if neck is None:
        return
    left, right = st.columns(2, gap="medium")
    with left, st.container(key="explanation"):
        st.markdown(say.found(neck.change.tolist(), neck.rewritten))
        third = traces.get(say.NO_RECURRENCE)
        sites = [] if third is None else cross(third)
        heads = max((site.n_heads for site in sites), default=0)
        st.markdown(say.why(say.ALIGNMENT in there, heads, len(sites)))
    with right:
        checks = check_fixed_vector(fixed.model, cache.trace(fixed, (source.text, "")))
        ui.checks_panel(ui.check_rows(checks), words.training_summary(fixed.training))


def _title(kind: str, scope: Scope) -> str:
    return say.attention_title(scope.model) if kind == say.NO_RECURRENCE else kind


def _bottleneck(scope: Scope, run: CurrentRun) -> draw.Bottleneck:
    """The vector of the shown text, and what each of its tokens changes of it."""
    trace = cache.trace(scope, (run.trace.streams["source"].text, ""))
    row = trace.streams["source"]
    places = tuple(i for i, place in enumerate(row.offsets) if place is not None)
    others, named = other_tokens(scope), labels(row)
    change = cache.vector_changes(scope, row.ids, places, others)
    least = places[int(change.argmin())]
    return draw.Bottleneck(
        scope.name,
        fixed_vector(scope.model, trace),
        [named[i] for i in places],
        change,
        cache.rewritten(scope, row.ids, least, others),
    )


def other_tokens(scope: Scope) -> tuple[int, ...]:
    """The same few of a model's tokens whatever is typed, none of them a special one."""
    n = scope.config.vocab_size - len(SPECIALS)
    drawn = torch.randperm(n, generator=torch.Generator().manual_seed(0))[: say.N_OTHERS]
    return tuple((drawn + len(SPECIALS)).tolist())
