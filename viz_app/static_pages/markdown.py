"""The app's texts as HTML: the Markdown that they use, everything else escaped."""

import re
from html import escape

from viz_app.static_pages.tex import mathml
from viz_app.words import GLOSSARY, annotate

_INLINE = re.compile(
    r"\\(?P<literal>[^\w\s])|\$(?P<math>[^$]+)\$|\*\*(?P<strong>.+?)\*\*|\*(?P<em>[^*\s][^*]*)\*"
    r"|`(?P<code>[^`]+)`|\[(?P<label>[^\]]+)\]\([^)\s]*\)",
    re.DOTALL,
)
_ABBREVIATION = re.compile(r"<abbr>([^<]*)</abbr>")


def as_html(markdown: str) -> str:
    """Return paragraphs, lists, tables and displayed formulas as HTML.

    A link becomes its label: the pages that it would lead to are not part of a static edition.
    """
    blocks = re.split(r"\n\s*\n", markdown.strip())
    return "".join(_block(block.strip()) for block in blocks if block.strip())


def headline(question: str, answer: str) -> str:
    """Return a page's question and its answer, with the glossary's words explained on hover."""
    heading, sentence = (_explained(text) for text in annotate(question, answer))
    return f"<h1>{heading}</h1><p>{sentence}</p>"


def _explained(text: str) -> str:
    def titled(match: re.Match[str]) -> str:
        word = match[1]
        known = GLOSSARY.get(word) or GLOSSARY.get(word.lower()) or GLOSSARY.get(word.lower()[:-1])
        return f'<abbr title="{escape(known)}">{word}</abbr>' if known else word

    return _ABBREVIATION.sub(titled, text)


def _block(block: str) -> str:
    lines = block.splitlines()
    if block.startswith("$$") and block.endswith("$$") and len(block) > 4:
        return f"<p>{mathml(block[2:-2], is_displayed=True)}</p>"
    if all(line.lstrip().startswith("- ") for line in lines):
        items = "".join(f"<li>{_inline(line.lstrip()[2:])}</li>" for line in lines)
        return f"<ul>{items}</ul>"
    if all(line.lstrip().startswith("|") for line in lines) and len(lines) > 2:
        return _table(lines)
    return f"<p>{_inline(block)}</p>"


def _table(lines: list[str]) -> str:
    head, _, *rows = (re.split(r"(?<!\\)\|", line.strip().strip("|")) for line in lines)
    heading = "".join(f'<th scope="col">{_inline(cell.strip())}</th>' for cell in head)
    body = "".join(
        f"<tr>{''.join(f'<td>{_inline(cell.strip())}</td>' for cell in row)}</tr>" for row in rows
    )
    return f"<table><thead><tr>{heading}</tr></thead><tbody>{body}</tbody></table>"


def _inline(text: str) -> str:
    """Return a line of text; what is not one of the constructs is escaped."""
    parts, end = [], 0
    for match in _INLINE.finditer(text):
        parts.append(escape(text[end : match.start()]))
        kind, inner = match.lastgroup or "", match[match.lastgroup or 0]
        if kind == "math":
            parts.append(mathml(inner))
        elif kind == "literal":
            parts.append(escape(inner))
        elif kind == "code":
            parts.append(f"<code>{escape(inner)}</code>")
        elif kind == "label":
            parts.append(_inline(inner))
        else:
            parts.append(f"<{kind}>{_inline(inner)}</{kind}>")
        end = match.end()
    return "".join([*parts, escape(text[end:])])
