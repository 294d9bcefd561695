"""The cards of the page Models in a static edition: links to the models that have pages there."""

from dataclasses import replace

from viz_app.components.catalogue import CARDS
from viz_app.drawing.payload import pack, unpack
from viz_app.notebook.picture import Mounted
from viz_app.static_pages.links import Site
from viz_app.static_pages.still import Still
from viz_app.views.models.page import CARD_PAGE

CardLinks = dict[str, str]  # name of a model → the file of its page


def link_cards(site: Site) -> None:
    """Have the cards of all stills lead to the pages of this site."""
    links = {
        example.checkpoint: next(iter([*pages.of_tab(CARD_PAGE), *pages.stills])).file
        for example, pages in site.items()
    }
    for pages in site.values():
        for stills in pages.stills.values():
            stills.update({query: _linked(still, links) for query, still in stills.items()})


def _linked(still: Still, links: CardLinks) -> Still:
    parts = {
        key: Mounted(CARDS, linked_cards(part.payload, links))
        if part.component is CARDS and isinstance(part.payload, bytes)
        else part
        for key, part in still.parts.items()
    }
    return replace(still, parts=parts)


def linked_cards(payload: bytes, links: CardLinks) -> bytes:
    """Return the cards with links to these files; the others have none.

    The link to the reference is left out, since only the app serves it.
    """
    header, arrays = unpack(payload)
    for group in header["groups"]:
        for card in group["cards"]:
            if "href" in card:
                file = links.get(card["name"])
                card["href"] = f"../{file}" if file else ""
    left_out = {"arrays", "python"}
    return pack({name: value for name, value in header.items() if name not in left_out}, **arrays)
