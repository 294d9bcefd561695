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
from viz_app.views.from_rnn.pair_maps import has_alignment, has_heads


def has_fixed_vector(scope: Scope) -> bool:
    """Whether it is recurrent and its decoder reads nothing of the source but one vector."""
    return scope.model.is_recurrent and not scope.model.kinds


ABILITIES: dict[str, Callable[[Scope], bool]] = dict(
    zip(say.TITLES, (has_fixed_vector, has_alignment, has_heads), strict=True)
)


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
    texts = {title: cache.trace(scope, (source.text, "")).output for title, scope in there.items()}
    whose = {
        title: words.training_brief(scope.name, scope.training) for title, scope in there.items()
    }
    written = [draw.Version(title, whose[title], texts[title]) for title in there]
    typed = run.trace.streams["target"].text if run.trace.teacher_forced else ""
    reference = typed or draw.nearest(references(source.text), written)
    fixed = there.get(say.TITLES[0])
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
        st.markdown(say.WHY)
    with right:
        checks = check_fixed_vector(fixed.model, cache.trace(fixed, (source.text, "")))
        ui.checks_panel(ui.check_rows(checks), words.training_summary(fixed.training))


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
