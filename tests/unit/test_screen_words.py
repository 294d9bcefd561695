"""Text on the screen: no phrase that was once replaced is in any string of the app, its browser parts or its lessons."""

import ast
import functools
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
from sentences import sentences, too_long

import viz_app
from viz_app import navigation

APP = Path(viz_app.__file__).parent
# phrase → its replacement
BANNED = {
    r"\b(stands?|stood|standing)\b(?! in for)": "is, comes, or the position itself",
    r"\btold\b(?! apart)": "the fact itself",
    r"\bof which\b": "two sentences",
    r"\b(lets?|letting) (it )?go\b": "Reset, remove or release",
    r"(?<!soon )\bas there (is|are)\b": "since",
    r"\bwho (reads|may)\b|\bwhat is read\b(?! before)|\breads (whom|itself)\b(?! and)": "query, key, attends to",
    r"(?<!in )(?<![{.])\bplaces?\b(?! the)": "position",
    r"\bthe model (says|answers)\b": "predicts",
    r"\bleft alone\b": "original",
    r"\bready-made\b": "preset",
    r"\bcome about\b": "is computed",
    r"\bnobody\b|\bsomebody\b": "no token, others",
    r"\bis asked of\b": "is read from",
}
PLAIN = re.compile(r"[a-z]+ [a-z]|[a-z]{3}", re.IGNORECASE)  # words, not a symbol or a name


def python_strings(path: Path) -> Iterator[str]:
    """Yield each string of a module that is no docstring; for an f-string its fixed text."""
    tree = ast.parse(path.read_text("utf-8"))
    fixed = {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr)
        for part in node.values
    }
    docs = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(
                part.value if isinstance(part, ast.Constant) else "{}" for part in node.values
            )
        elif (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in docs | fixed
            and " " in node.value
            and "CREATE TABLE" not in node.value
        ):
            yield node.value


def browser_strings(path: Path) -> Iterator[str]:
    """Yield each string of several words in a browser part; for a template its fixed text."""
    code = re.sub(r"(?<![:\"'`])//[^\n]*", "", path.read_text("utf-8"))
    code = re.sub(r'(put\([\w.]+, "\w+", )"[^"]*"', r'\1""', code)  # the names of classes
    for quoted in re.findall(r'"(?:[^"\\\n]|\\.)*"|`(?:[^`\\\n]|\\.)*`', code):
        text = re.sub(r"\$\{[^{}]*\}", "{}", quoted[1:-1])
        if " " in text.strip():
            yield text


class Texts(HTMLParser):
    """A parser of the text and the names in the HTML of a browser part."""

    def __init__(self) -> None:
        super().__init__()
        self.all: list[str] = []

    def handle_data(self, data: str) -> None:
        self.all.append(data)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.all += [
            value or "" for name, value in attrs if name in ("title", "aria-label", "placeholder")
        ]


def html_strings(path: Path) -> Iterator[str]:
    parser = Texts()
    parser.feed(path.read_text("utf-8"))
    yield from parser.all


def lesson_strings(path: Path) -> Iterator[str]:
    """Yield the paragraphs and options of a lesson that a reader sees: not its addresses, readings and keys.

    Each wording of a choice between two is a sentence.
    """
    text = re.sub(
        r"^(open|then|predict|look|happened|minutes):.*", "", path.read_text("utf-8"), flags=re.M
    )
    text = re.sub(r"^(#+ .*|- \w+:|reveal:)", r"\1\n\n", text, flags=re.M)
    text = re.sub(
        r"\{[^{}?]*\?([^{}|]*)\|([^{}]*)\}", r"\1\n\n\2", re.sub(r"\{[^{}?]*\}", "{}", text)
    )
    for paragraph in re.split(r"\n\s*\n", text):
        if not re.fullmatch(r"- \w+:|reveal:|\s*", paragraph):
            yield paragraph.strip().replace("\n", " ")


READERS = {
    ".py": python_strings,
    ".js": browser_strings,
    ".html": html_strings,
    ".md": lesson_strings,
}
FILES = sorted(path for path in APP.rglob("*") if path.suffix in READERS)


@functools.cache
def strings(path: Path) -> tuple[str, ...]:
    return tuple(READERS[path.suffix](path))


def test_the_strings_of_every_kind_of_file_are_read() -> None:
    """A reader that finds nothing would let everything pass."""
    for suffix in READERS:
        found = [text for path in FILES if path.suffix == suffix for text in strings(path)]
        assert sum(bool(PLAIN.search(text)) for text in found) > 20, suffix
    assert navigation.INVALID in python_strings(APP / "navigation.py")


@pytest.mark.parametrize("phrase", BANNED)
def test_no_string_on_the_screen_has_a_replaced_phrase(phrase: str) -> None:
    pattern = re.compile(phrase, re.IGNORECASE)
    found = [
        f"{path.relative_to(APP)}: {text.strip()[:120]}"
        for path in FILES
        for text in strings(path)
        if pattern.search(text) and "<" not in text
    ]
    assert found == [], f"write {BANNED[phrase]}"


def test_a_sentence_has_at_most_twenty_words() -> None:
    """Sentences that are put together from several strings are checked in test_every_page.py."""
    mixed = "One two. **Three** $a + b$ {} four!\n\nFive “six seven”.\n- eight"
    assert [len(one.split()) for one in sentences(mixed)] == [2, 4, 2, 1]
    assert (too_long("a " * 20), len(too_long("a " * 21))) == ([], 1)
    longer = [
        f"{path.relative_to(APP)}: {one}"
        for path in FILES
        for text in strings(path)
        if "<" not in text
        for one in too_long(text)
    ]
    assert longer == []
