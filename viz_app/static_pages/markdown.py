"""The app's texts and tables as HTML: CommonMark with formulas; HTML in them is shown as text."""

import re
from collections.abc import Iterable
from functools import cache
from html import escape

import pandas as pd
from markdown_it import MarkdownIt
from mdit_py_plugins.dollarmath import dollarmath_plugin

from viz_app.static_pages.tex import mathml
from viz_app.words import GLOSSARY, annotate

_ABBREVIATION = re.compile(r"<abbr>([^<]*)</abbr>")


def as_html(markdown: str) -> str:
    """Return a text as HTML, its formulas as MathML, which browsers draw without a script.

    A link becomes its label: the pages that it would lead to are not part of a static edition.
    """
    return _reader().render(markdown)


@cache
def _reader() -> MarkdownIt:
    reader = MarkdownIt("commonmark", {"html": False}).enable("table").disable("image")
    reader.use(dollarmath_plugin, renderer=_formula, double_inline=True)
    for part in ("link_open", "link_close"):
        reader.add_render_rule(part, lambda *_: "")
    return reader


def labelled_html(texts: Iterable[tuple[str, str]]) -> str:
    """Return a paragraph for each text, which begins with its label."""
    return "".join(
        f'<p class="labelled"><b>{escape(label)}</b><span>{escape(text)}</span></p>'
        for label, text in texts
    )


def table_html(table: pd.DataFrame) -> str:
    """Return a table as HTML, its texts escaped and its numbers with separators of thousands."""
    whole = {name: "{:,}".format for name in table.select_dtypes("integer").columns}
    plain = table.to_html(
        index=False, border=0, na_rep="–", float_format="{:,.5g}".format, formatters=whole
    )
    return plain.replace("<th>", '<th scope="col">')


def _formula(tex: str, options: dict[str, bool]) -> str:
    return mathml(tex, is_displayed=options["display_mode"])


def headline_html(question: str, answer: str) -> str:
    """Return a page's question and its answer, with the glossary's words explained on hover."""
    heading, sentence = (_explained(text) for text in annotate(question, answer))
    return f"<h1>{heading}</h1><p>{sentence}</p>"


def _explained(text: str) -> str:
    def titled(match: re.Match[str]) -> str:
        word = match[1]
        meaning = (
            GLOSSARY.get(word) or GLOSSARY.get(word.lower()) or GLOSSARY.get(word.lower()[:-1])
        )
        return f'<abbr title="{escape(meaning)}">{word}</abbr>' if meaning else word

    return _ABBREVIATION.sub(titled, text)
