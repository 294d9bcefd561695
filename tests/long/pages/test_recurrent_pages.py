"""Every page in the real browser with a recurrent model, with alignment and without attention: no part fails to draw."""

import re

import pytest
from playwright.sync_api import Page, expect
from served_app import go

from viz_app.navigation import PAGES


@pytest.mark.parametrize("checkpoint", ["dates-bahdanau", "dates-rnn"])
def test_no_part_of_any_page_fails(shared_page: Page, checkpoint: str) -> None:
    for path in PAGES:
        go(shared_page, path, ".headline", checkpoint=checkpoint, source="5 March 2021")
        expect(shared_page.get_by_text(re.compile("BidiComponent Error|Traceback"))).to_have_count(
            0
        )
        expect(shared_page.locator("[data-testid=stException]")).to_have_count(0)
