"""A model that takes long to open, in a real browser: its progress, the old one that answers meanwhile, Stop, Back."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hub_models import own_module_of_readme
from playwright.sync_api import Page, expect
from served_app import in_url

from tests.benchmarks.serving import APP, served
from viz_app import checkpoints

SLOW = """
import time
from pathlib import Path
import torch
from models import loading

make_at_once = make_scope

def make_scope():
    torch.manual_seed(0)        # which head is the sharpest
    while Path({gate!r}).exists():
        loading.report_progress(loading.PLACED, 3, 12)
        time.sleep(0.05)
    return make_at_once()
"""


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    """While this file exists, the user's module does not open."""
    gate = tmp_path / "gate"
    gate.touch()
    return gate


@pytest.fixture
def module(tmp_path: Path, gate: Path) -> str:
    file = tmp_path / "mine.py"
    file.write_text(own_module_of_readme() + SLOW.format(gate=str(gate)), "utf-8")
    return f"{file}:make_scope"


@pytest.fixture
def address(module: str) -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(checkpoints.MODULE_VARIABLE, module)
        with served(APP) as address:
            yield address


def pick(page: Page, name: str) -> None:
    box = page.get_by_role("combobox", name="Model")
    box.fill(name)
    box.press("Enter")


def alone(page: Page, site: str) -> None:
    """Wait until this head is shown and the previous one, which stays during a rerun, is gone."""
    expect(page.locator(f'.head[data-site="{site}"]')).to_be_visible()
    expect(page.locator(".head")).to_have_count(1)


def test_the_old_model_stays_and_answers_until_the_new_one_is_open(
    page: Page, address: str, module: str, gate: Path
) -> None:
    page.goto(f"http://{address}/?checkpoint=dates&source=3+May+1999")
    page.wait_for_selector(".head[data-painted]")
    site = page.locator(".head").get_attribute("data-site")
    pick(page, module)
    bar = page.locator(".st-key-input-bar")
    expect(bar.get_by_text("3 of 12 tensors placed")).to_be_visible()
    in_url(page, "checkpoint", "dates")
    page.get_by_role("textbox", name="Date, in any format").fill("4 June 2001")
    expect(page.locator(".written .source")).to_have_text("4 June 2001")
    expect(page.locator(".head")).to_have_attribute("data-site", site)
    bar.get_by_role("button", name="Cancel").click()
    expect(bar.get_by_text("tensors placed")).to_have_count(0)
    expect(page.locator(".picker #detail")).to_have_attribute("title", re.compile("Transformer"))
    in_url(page, "checkpoint", "dates")
    pick(page, module)
    expect(bar.get_by_text("3 of 12 tensors placed")).to_be_visible()
    gate.unlink()
    alone(page, "1.layers.0.self_attn")
    expect(bar.get_by_text("tensors placed")).to_have_count(0)
    in_url(page, "checkpoint", module)
    page.go_back()
    in_url(page, "checkpoint", "dates")
    alone(page, site)
