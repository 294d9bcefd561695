"""The first page of a static edition: what it is, and its pages by question and model."""

from collections.abc import Sequence
from html import escape

from models.architectures import family_of
from viz_app import words
from viz_app.lessons.lesson import Lesson
from viz_app.navigation import GROUPS, PAGES
from viz_app.static_pages.contents import ModelTexts
from viz_app.static_pages.lessons import lesson_file
from viz_app.static_pages.links import Site, page_link, tabs_of_first
from viz_app.static_pages.page import EDITION, INSTALL_COMMAND, frame

SITE_TITLE = "See attention work"
SITE_SUMMARY = (
    "A look inside trained models: every number here was computed by the model named beside it."
)
ONLY_IN_APP_HTML = '<span class="quiet">Only in the app</span>'
LESSONS_KEY = "lessons"  # the page of the app that lists them


def index(site: Site, lessons: Sequence[Lesson]) -> bytes:
    """Return the index page: a row for each page of the app, a column for each model."""
    head = "".join(map(_model, site))
    rows = "".join(_row(tab, site, lessons) for tab in PAGES)
    body = (
        f"<article><h1>{SITE_TITLE}</h1><p>{escape(SITE_SUMMARY)}</p>"
        f"<p>{escape(EDITION)}<br><code>{escape(INSTALL_COMMAND)}</code></p>"
        f'<div class="scroll" tabindex="0"><table><thead><tr><th scope="col">Question</th>{head}'
        f"</tr></thead><tbody>{rows}</tbody></table></div></article>"
    )
    title = f"Attnscope: {SITE_TITLE.lower()}"
    return frame(
        title=title, description=SITE_SUMMARY, pages=tabs_of_first(site, ""), body=body, root=""
    )


def _model(example: ModelTexts) -> str:
    family = words.as_sentence(family_of(example.scope.config).name)
    return (
        f'<th scope="col">{escape(example.checkpoint)}'
        f'<div class="quiet">{escape(family)}<br>“{escape(example.texts[0])}”</div></th>'
    )


def _row(tab: str, site: Site, lessons: Sequence[Lesson]) -> str:
    """Return a row; the row of the lessons has a link to each lesson."""
    page = PAGES[tab]
    otherwise = ONLY_IN_APP_HTML
    if tab == LESSONS_KEY and lessons:
        links = (
            f'<li><a href="{lesson_file(one)}">{escape(one.title)}</a></li>' for one in lessons
        )
        otherwise = f"<ol>{''.join(links)}</ol>"
    label = f'<div class="group">{escape(GROUPS[tab])}</div>' if GROUPS.get(tab) else ""
    cells = [
        f"<td>{page_link(page.title, pages.of_tab(tab), pages, False, '')}</td>"
        for pages in site.values()
        if pages.of_tab(tab)
    ] or [f'<td colspan="{len(site)}">{otherwise}</td>']
    return f'<tr><th scope="row">{label}{escape(page.question)}</th>{"".join(cells)}</tr>'
