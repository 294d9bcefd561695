"""Interventions: what happens if anything about a run is changed?

The page shows one section at a time.
"""

from viz_app.session import url_state
from viz_app.session.parameters import Choice
from viz_app.views import onward
from viz_app.views.interventions import (
    attribution,
    attribution_text,
    explanation,
    explanation_text,
    heads,
    many_texts,
    patch,
    patch_text,
    text,
)
from viz_app.views.page import Find, Page

INTERVENTIONS_SECTIONS: dict[str, Find] = {
    "Heads": heads.find_heads,
    "Patch": patch.find_patch,
    "Many texts": many_texts.find_sweep,
    "Attribution": attribution.find_attribution,
    "Is attention explanation?": explanation.find_explanation,
}
ANSWER_BY_SECTION = {  # of sections other than Heads and Attribution
    "Patch": patch_text.PATCH_ANSWER,
    "Many texts": many_texts.SWEEP_ANSWER,
    "Is attention explanation?": explanation_text.EXPLANATION_ANSWER,
}


def _answer() -> str:
    section = url_state.get(INTERVENTIONS_SECTION)
    if section == "Attribution":
        return attribution_text.attribution_answer(url_state.get(attribution.METHOD))
    return ANSWER_BY_SECTION.get(section, text.HEADS_ANSWER)


INTERVENTIONS_SECTION = Choice("interventions-section", "", options=tuple(INTERVENTIONS_SECTIONS))
INTERVENTIONS_PAGE = Page(
    "Interventions",
    text.INTERVENTIONS_QUESTION,
    lambda run: _answer(),
    INTERVENTIONS_SECTIONS,
    lambda run, choices: onward.how_it_writes(run),
    INTERVENTIONS_SECTION,
    names=dict.fromkeys(("Heads", "Patch", "Is attention explanation?"), ("edits",)),
)
