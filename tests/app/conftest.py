"""A page that AppTest runs once has its model: it waits for it as long as it takes. What a page shows meanwhile has tests of its
own (test_opening.py)."""

import functools
from collections.abc import Iterator

import pytest
from streamlit.components.v2 import manifest_scanner

from viz_app.session import opening


@pytest.fixture(autouse=True, scope="session")
def _installed_components() -> Iterator[None]:
    """Which installed packages bring components is found out once, not at the first run of every AppTest."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            manifest_scanner,
            "scan_component_manifests",
            functools.cache(manifest_scanner.scan_component_manifests),
        )
        yield


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "BAR_DELAY", 600)
