"""The layout of a page's pictures and texts, as nodes that static.js builds."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from viz_app.components.catalogue import PLAIN
from viz_app.drawing.notes import small_print
from viz_app.static_pages.markdown import as_html, labelled_html, table_html
from viz_app.static_pages.still import Node
from viz_app.views.frame.one_run import NEXT_QUESTION_KEY, SUMMARY
from viz_app.views.page import (
    Checks,
    Columns,
    Explanation,
    Foot,
    PageCell,
    Plot,
    Prose,
    Row,
    ShownComponent,
    Table,
    Widget,
)

STATIC_DETAILS = "Details: how to read this, and the checks"


class CellLayout:
    """The nodes of a page's cells, with the texts and the plain rows that they name.

    `plots` are the charts by the keys of their pictures.
    """

    def __init__(self, drawn: Mapping[str, Any], explanation: str, trained: str) -> None:
        self.drawn = drawn
        self.texts = {"explanation": explanation}
        self.plain: dict[str, dict] = {"trained": small_print(trained)}
        self.plots: dict[str, Plot] = {}

    def whole(
        self,
        about: Mapping[str, str],
        choices: Sequence[str],
        above: Sequence[str],
        cells: Sequence[PageCell],
    ) -> list[Node]:
        """Return the nodes of the whole page.

        These are texts `about` the runs by label, the rows `above`, the choices of these keys, the
        cells, and the question at the end.
        """
        self.plain |= {key: self.drawn[key] for key in above}
        nodes = [
            *[self._html(labelled_html(about.items())) | {"small": True}] * bool(about),
            *({"part": key} for key in above),
            *[{"choices": list(choices)}] * bool(choices),
            *self._nodes(cells),
        ]
        names = [name for node in _all(nodes) for name in node]
        if "details" in names:
            return nodes
        has_text = "explanation" in [node.get("text") for node in _all(nodes)]
        return [*nodes, {"end": [NEXT_QUESTION_KEY]}] if has_text else [*nodes, *self._foot(Foot())]

    def _nodes(self, cells: Iterable[PageCell]) -> list[Node]:
        return [node for cell in cells for node in self._node(cell)]

    def _node(self, cell: PageCell) -> list[Node]:
        if isinstance(cell, Columns):
            columns = [self._nodes(column) for column in cell.columns]
            return [{"columns": columns, "widths": list(cell.widths)}]
        if isinstance(cell, Row):
            return [{"row": self._nodes(cell.cells)}]
        if isinstance(cell, Foot):
            return self._foot(cell)
        if isinstance(cell, Explanation):
            return [{"text": "explanation"}] * bool(self.texts["explanation"])
        if isinstance(cell, Checks):
            return self._checks(cell)
        if isinstance(cell, Prose):
            return [self._text(cell.text, cell.is_small)]
        if isinstance(cell, Widget) or cell.picture not in self.drawn:
            return []
        if isinstance(cell, Table):
            return [{"scroll": [self._html(table_html(self.drawn[cell.picture]))]}]
        if isinstance(cell, ShownComponent) and _is_empty_note(cell, self.drawn):
            return []  # the app keeps its place for a later text
        caption = [self._text(cell.caption, True)] * bool(cell.caption)
        if isinstance(cell, Plot):
            self.plots[cell.picture] = cell
            return [{"chart": cell.picture}, *caption]
        return [{"part": cell.picture}, *caption]

    def _text(self, markdown: str, is_small: bool) -> Node:
        return self._html(as_html(markdown)) | {"small": is_small}

    def _html(self, html: str) -> Node:
        name = f"prose {len(self.texts)}"
        self.texts[name] = html
        return {"text": name}

    def _checks(self, cell: Checks) -> list[Node]:
        keys = [*([] if cell.is_counted else [SUMMARY]), "checks"]
        keys = [key for key in keys if key in self.drawn]
        self.plain |= {key: self.drawn[key] for key in keys}
        return [{"part": key} for key in [*keys, "trained"] if keys]

    def _foot(self, foot: Foot) -> list[Node]:
        lead = [SUMMARY] * (SUMMARY in self.drawn)
        self.plain |= {key: self.drawn[key] for key in lead}
        below = Columns(foot.widths, ([Explanation()], [Checks(is_counted=True)]))
        inner = self._nodes([*foot.cells, below])
        return [
            {"details": STATIC_DETAILS, "lead": lead, "cells": inner, "end": [NEXT_QUESTION_KEY]}
        ]


def shown_in(cells: Iterable[PageCell]) -> Iterator[ShownComponent]:
    """Yield the components among the cells and in their columns and rows."""
    for cell in cells:
        if isinstance(cell, ShownComponent):
            yield cell
        elif isinstance(cell, Columns):
            for column in cell.columns:
                yield from shown_in(column)
        elif isinstance(cell, Row | Foot):
            yield from shown_in(cell.cells)


def _is_empty_note(cell: ShownComponent, drawn: Mapping[str, Any]) -> bool:
    return cell.component is PLAIN and not drawn[cell.picture]["rows"]


def _all(nodes: Iterable[Node]) -> Iterator[Node]:
    for node in nodes:
        yield node
        for inner in (*node.get("columns", []), node.get("row", [])):
            yield from _all(inner)
