"""Interventions: what happens if anything about a run is changed?

One section of the page at a time.
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

SECTIONS: dict[str, Find] = {
    "Heads": heads.find,
    "Patch": patch.find,
    "Many texts": many_texts.find,
    "Attribution": attribution.find,
    "Is attention explanation?": explanation.find,
}
ANSWERS = {  # of sections other than Heads and Attribution
    "Patch": patch_text.ANSWER,
    "Many texts": many_texts.ANSWER,
    "Is attention explanation?": explanation_text.ANSWER,
}


def _answer() -> str:
    section = url_state.get(SECTION)
    if section == "Attribution":
        return attribution_text.answer(url_state.get(attribution.METHOD))
    return ANSWERS.get(section, text.ANSWER)


SECTION = Choice("interventions-section", "", options=tuple(SECTIONS))
INTERVENTIONS = Page(
    "Interventions",
    text.QUESTION,
    lambda run: _answer(),
    SECTIONS,
    lambda run, choices: onward.how_it_writes(run),
    SECTION,
    names=("edits",),
)
