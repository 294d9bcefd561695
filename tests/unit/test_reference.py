"""The reference of the library: every page, every link, and the names of a run compared with runs."""

import asyncio
import re
from html.parser import HTMLParser
from posixpath import dirname, join, normpath
from types import ModuleType

import pytest
from starlette.applications import Starlette

import models
from models.trace import Trace
from viz_app import notebook
from viz_app.reference import names, pages
from viz_app.views.models.page import REFERENCE

ARCHITECTURES = 7  # with and without attention in the RNN


class Links(HTMLParser):
    """A parser of a page's link targets, anchors, and anything that it would load or run."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.loads: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if "id" in given:
            self.anchors.add(given["id"] or "")
        if tag == "a" and given.get("href"):
            self.links.append(given["href"] or "")
        elif tag in ("script", "link", "img", "iframe", "object", "form", "base") or "src" in given:
            self.loads.append(tag)
        self.loads += [name for name in given if name.startswith("on")]


@pytest.fixture(scope="module")
def made() -> dict[str, str]:
    return pages.pages()


def run_of(name: str) -> Trace:
    scope = models.load(name)
    example = scope.examples[0] if scope.examples else "She is here."
    return scope.run(*([example] if isinstance(example, str) else example))


@pytest.mark.parametrize("model", [one.model for one in names.recorded_names()])
def test_the_golden_list_matches_a_run(model: str) -> None:
    (golden,) = (one for one in names.recorded_names() if one.model == model)
    assert names.names_of(run_of(model)) == golden


@pytest.mark.slow
def test_every_architecture_that_is_shipped_is_listed() -> None:
    listed = names.recorded_names()
    kinds = {type(models.load(one.model).model) for one in listed}
    assert kinds == {type(models.load(name).model) for name in models.shipped()}
    assert len(listed) == ARCHITECTURES


def test_the_parts_of_an_attention_have_the_listed_axes() -> None:
    run = models.load("eng-fra").run("She is reading a book on the table.", "Elle lit.")
    site = run.attention["decoder.layers.0.cross_attn"]
    sizes = {"batch": 1, "head": site.n_heads, "query": site.n_query, "key": site.n_key}
    sizes["d_head"] = site.d_head
    assert len(set(sizes.values())) == len(sizes)
    for one in names.SITE_NAMES:
        value = getattr(site, one.name.removesuffix("()"))
        value = value() if one.name.endswith("()") else value
        shape = [sizes[axis] for axis in one.axes.split()]
        assert list(value.expand(shape).shape) == shape, one.name


@pytest.mark.slow
def test_every_name_of_every_module_is_on_its_page(made: dict[str, str]) -> None:
    for name, module in (("models", models), ("viz_app.notebook", notebook)):
        anchors = Links(made[pages.path_of(name)]).anchors
        own = [one for one in module.__all__ if not isinstance(getattr(module, one), ModuleType)]
        assert len(own) > 5
        assert [one for one in own if one not in anchors] == []


@pytest.mark.slow
def test_every_formula_is_on_the_page_of_names(made: dict[str, str]) -> None:
    page = re.sub(r"&#39;", "'", made[pages.NAMES_PAGE])
    rows = [row for one in names.recorded_names() for row in (*one.activations, *one.attention)]
    assert len(rows) > 70
    for row in (*rows, *names.SITE_NAMES):
        assert f"<code>{row.name}</code></td><td>{row.axes}</td><td>{row.formula}</td>" in page


def test_every_link_leads_to_a_page_and_an_anchor_of_it(made: dict[str, str]) -> None:
    read = {path: Links(page) for path, page in made.items()}
    followed = 0
    for path, page in read.items():
        for link in page.links:
            target, _, anchor = link.partition("#")
            target = normpath(join(dirname(path), target)) if target else path
            assert target in made, (path, link)
            assert not anchor or anchor in read[target].anchors, (path, link)
            followed += 1
    assert followed > 500


def test_a_page_runs_and_loads_nothing(made: dict[str, str]) -> None:
    """The headers of the server allow no inline script."""
    assert {path: page.loads for path, text in made.items() if (page := Links(text)).loads} == {}
    assert not [
        path for path, text in made.items() if re.search(r"url\((?![\"']?data:)|@import", text)
    ]


def answered(path: str) -> tuple[int, dict[bytes, bytes]]:
    sent: list[dict] = []

    async def send(message: dict) -> None:
        sent.append(message)

    async def receive() -> dict:
        return {"type": "http.request", "body": b"", "more_body": False}

    scope = {
        "type": "http", "method": "GET", "path": path, "raw_path": path.encode(), "query_string": b"", "headers": [],
        "root_path": "", "http_version": "1.1", "server": ("localhost", 80), "client": ("localhost", 1), "scheme": "http",
    }  # fmt: skip
    asyncio.run(Starlette(routes=pages.reference_routes())(scope, receive, send))
    return sent[0]["status"], dict(sent[0]["headers"])


def test_the_app_serves_them(made: dict[str, str]) -> None:
    for path in made:
        status, headers = answered(f"/reference/{path}")
        assert (status, headers[b"content-type"]) == (200, b"text/html; charset=utf-8")
    assert answered(f"/{REFERENCE}")[0] == 200
    for path in ("/reference", "/reference/"):
        status, headers = answered(path)
        assert (status, headers[b"location"]) == (307, b"/reference/index.html")


@pytest.mark.parametrize(
    "path", ["x.html", "../server.py", "..%2fserver.py", "names.json", "models", "/etc/passwd", "models.html/"],
)  # fmt: skip
def test_nothing_else_is_served(path: str) -> None:
    assert answered(f"/reference/{path}")[0] == 404
