"""The page that a browser loads first: the paths it is served under, and the server's address in it."""

import asyncio
import subprocess
import sys

import pytest

from viz_app import checkpoints, navigation
from viz_app.entry_page import EntryPage, entry_page
from viz_app.input_bar.examples import readable_examples
from viz_app.session import cache


def answered(path: str, method: str = "GET", kind: str = "http") -> str:
    """Return who answers a request: "page", or the app behind it."""
    sent: list[dict] = []

    async def app(scope: dict, receive: object, send) -> None:
        sent.append({"body": b"app"})

    async def send(message: dict) -> None:
        sent.append(message)

    scope = {"type": kind, "path": path, "method": method, "headers": []}
    asyncio.run(EntryPage(app)(scope, None, send))
    return "app" if sent[-1].get("body") == b"app" else "page"


@pytest.mark.parametrize(
    "path", ["/", "/task", "/from-rnn", "/from-rnn/", "/nosuch", "/references"]
)
def test_a_page_is_served_under_its_own_path(path: str) -> None:
    assert answered(path) == answered(path, "HEAD") == "page"


@pytest.mark.parametrize("path", [
    "/favicon.png", "/_stcore/health", "/task/_stcore/health", "/static/js/index.js", "/media/x.png", "/Task",
    "/reference", "/reference/", "/reference/models.html",
])  # fmt: skip
def test_everything_else_is_the_apps(path: str) -> None:
    assert answered(path) == "app"


def test_sockets_and_other_methods_are_the_apps() -> None:
    assert answered("/task", kind="websocket") == answered("/task", "POST") == "app"


def test_the_page_is_streamlits_with_the_servers_address_first() -> None:
    page = entry_page()
    first, module = page.index("BACKEND_BASE_URL"), page.index('type="module"')
    assert 'new URL("/", location.origin)' in page
    assert first < module


def test_below_a_base_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamlit.get_option", lambda name: "/see/it/")
    assert 'new URL("/see/it", location.origin)' in entry_page()
    assert [answered(path) for path in ("/see/it/task", "/task")] == ["page", "app"]


def test_its_end_is_the_apps_style_and_what_shows_the_app() -> None:
    page = entry_page()
    end = page[page.index('id="root"') :]
    assert '[data-testid="stMainBlockContainer"]' in end
    assert 'dataset.shown = ""' in end
    assert end.rstrip().endswith("</html>")


def test_the_first_pictures_are_drawn_before_anyone_visits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    navigation.draw_landing_page()
    scope = cache.scope(checkpoints.LANDING_CHECKPOINT)
    texts = (*readable_examples(scope)[0], "")  # as the two boxes have them
    monkeypatch.setattr(type(scope), "run", lambda *_, **__: pytest.fail("it runs again"))
    assert cache.trace(scope, texts).fields["source"] == texts[0]


@pytest.mark.slow
def test_modules_that_only_one_page_needs_are_not_loaded_at_the_start() -> None:
    code = "import sys, viz_app.navigation; print(*(name for name in sys.modules if name.startswith('scipy')))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == []
