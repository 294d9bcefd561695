"""Links among static pages; a label without a page has the reason on hover."""

from collections.abc import Mapping, Sequence
from html import escape

from viz_app.navigation import GROUPS
from viz_app.static_pages.contents import ModelTexts, StaticPage
from viz_app.static_pages.crawl import Pages
from viz_app.views.compare.text import BESIDE_ITSELF

Site = Mapping[ModelTexts, Pages]


def page_link(
    label: str, places: Sequence[StaticPage], pages: Pages, is_here: bool, root: str
) -> str:
    """Return a link to the first of these places with a page, or the label and why none has one."""
    if same_page := [place for place in places if pages.stills.get(place)]:
        current = ' aria-current="page"' if is_here else ""
        return f'<a href="{root}{same_page[0].file}"{current}>{escape(label)}</a>'
    reason = pages.missing.get(places[0], "")
    return (
        f'<span class="lacks" role="link" aria-disabled="true" title="{escape(reason)}">'
        f"{escape(label)}</span>"
    )


def tabs(pages: Pages, here: StaticPage | None, root: str) -> str:
    """Return links to the pages of a model, with the labels of their groups."""
    links = []
    for tab in dict.fromkeys(place.tab for place in pages.stills):
        if label := GROUPS.get(tab):
            links.append(f'<span class="group">{escape(label)}</span>')
        ours = pages.of_tab(tab)
        links.append(
            page_link(ours[0].title, ours, pages, here is not None and here.tab == tab, root)
        )
    return "".join(links)


def models(site: Site, here: StaticPage) -> str:
    """Return links to the same page of each model, or to its nearest one."""
    links = []
    for example, pages in site.items():
        of_tab = pages.of_tab(here.tab)
        same = [one for one in of_tab if one.label == here.label]
        is_here = example.checkpoint == here.checkpoint
        best = [*same, *of_tab, *pages.stills]
        links.append(page_link(example.checkpoint, best, pages, is_here, "../"))
    return "".join(links)


def section_links(pages: Pages, here: StaticPage) -> str:
    """Return links to the sections of a page; "" if it has only one."""
    ours = pages.of_tab(here.tab)
    if len(ours) < 2:
        return ""
    links = "".join(page_link(one.label, [one], pages, one == here, "../") for one in ours)
    if any(one.pair for one in ours):
        links = f'<span class="group">{escape(BESIDE_ITSELF)}</span>{links}'
    return f'<nav class="headline" aria-label="Sections">{links}</nav>'


def tabs_of_first(site: Site, root: str) -> str:
    """Return links to the pages of the first model, for a page that belongs to no model."""
    return tabs(next(iter(site.values())), None, root)
