"""Drawings for print: SVG on white with texts, rectangles and heat maps."""

import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from html import escape

from viz_app.drawing.colours import HATCH_COLOUR, PAPER_COLOUR, TEXT_COLOUR

MASKED_FILL = "url(#masked)"  # the fill of a cell that may not be read: hatched
LINE_COLOUR = "#d3d9e6"  # between cells
LETTER = 0.62  # a generous width of a letter, relative to the font size
CellFill = Callable[[int, int], tuple[str, str]]  # row and column → fill and tooltip


def svg_document(width: float, height: float, parts: Iterable[str], size: float = 12) -> str:
    """Return a drawing of these parts, in pixels; `size` is the font size."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}" '
        f'font-family="sans-serif" font-size="{size:g}" fill="{TEXT_COLOUR}">'
        '<defs><pattern id="masked" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
        f'<rect width="5" height="5" fill="{PAPER_COLOUR}"/><rect width="1.2" height="5" fill="{HATCH_COLOUR}"/></pattern></defs>'
        f"{rectangle(0, 0, width, height, PAPER_COLOUR)}{''.join(parts)}</svg>"
    )


def svg_text(x: float, y: float, content: str, anchor: str = "start", **look: object) -> str:
    """Return a line of text.

    `anchor` says which point of it is at x; `look` holds other attributes such as font_size.
    """
    return (
        f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}"{_attributes(look)} style="unicode-bidi:plaintext">'
        f"{escape(content)}</text>"
    )


def rectangle(
    x: float, y: float, wide: float, tall: float, fill: str = "none", tip: str = "", **look: object
) -> str:
    """Return a rectangle, with a tooltip if `tip` is not empty."""
    inside = f"<title>{escape(tip)}</title>" if tip else ""
    return f'<rect x="{x:g}" y="{y:g}" width="{wide:g}" height="{tall:g}" fill="{fill}"{_attributes(look)}>{inside}</rect>'


def heat_map(
    x: float, y: float, size: float, queries: Sequence[str], keys: Sequence[str], cell: CellFill
) -> Iterator[str]:
    """Yield squares of this size from (x, y) on, with labels.

    There is a row for each query and a column for each key.
    """
    for q in range(len(queries)):
        for k in range(len(keys)):
            fill, tip = cell(q, k)
            at = x + k * size, y + q * size
            yield rectangle(*at, size, size, fill, tip, stroke=LINE_COLOUR, stroke_width=0.5)
    for q, name in enumerate(queries):
        yield svg_text(x - 6, y + (q + 0.65) * size, name, "end")
    for k, name in enumerate(keys):
        place = f"translate({x + (k + 0.6) * size:g} {y - 8:g}) rotate(-45)"
        yield svg_text(0, 0, name, transform=place)


def width_of(content: str, size: float = 12, bold: bool = False) -> float:
    """Return the width of a line of sans-serif text in pixels, estimated for the widest font."""
    full = sum(unicodedata.east_asian_width(letter) in "WF" for letter in content)
    return size * ((0.68 if bold else LETTER) * (len(content) - full) + full)


def _attributes(look: dict[str, object]) -> str:
    return "".join(f' {name.replace("_", "-")}="{value}"' for name, value in look.items())
