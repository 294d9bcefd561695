"""The picker of models: search results, the choice of Enter, keys, and screen readers."""

import pytest
from playwright.sync_api import Locator
from stage import Stage

MENU = {
    "value": "dates",
    "takesPaths": True,
    "groups": [
        {
            "title": "Transformer (Vaswani et al. 2017)",
            "options": [
                {"name": "eng-fra", "label": "eng-fra", "detail": "translates English to French · 4.3 M"},
                {"name": "dates-cosine", "label": "dates-cosine", "detail": "writes a date · 240 k"},
                {"name": "dates", "label": "dates", "detail": "writes a date · 240 k"},
            ],
        },
        {
            "title": "GPT (Radford et al. 2018)",
            "options": [
                {"name": "gpt", "label": "gpt", "detail": "tells a sentiment or continues · 1.2 M"},
                {"name": "gpt-sentiment", "label": "gpt-sentiment", "detail": "classifies text · 1.2 M"},
            ],
        },
        {
            "title": "Folder shelf",
            "options": [{"name": "shelf/<b>x", "label": "shelf/<b>x", "detail": "cannot be read"}],
        },
    ],
}  # fmt: skip


@pytest.fixture
def box(stage: Stage) -> Locator:
    stage.mount("picker")
    stage.show(MENU)
    return stage.page.get_by_role("combobox", name="Model")


def names(stage: Stage) -> list[str]:
    return stage.page.get_by_role("option").locator("b").all_text_contents()


def picked_names(stage: Stage) -> list[str]:
    """Return the names that were sent to Python."""
    return [message["name"] for trigger, message in stage.sent if trigger == "pick"]


def test_all_models_are_offered_in_their_groups_and_the_chosen_one_is_marked(
    stage: Stage, box: Locator
) -> None:
    assert box.input_value() == "dates"
    assert box.get_attribute("aria-expanded") == "false"
    box.click()
    assert box.get_attribute("aria-expanded") == "true"
    groups = stage.page.get_by_role("group")
    assert [group.locator("> b").text_content() for group in groups.all()] == [
        one["title"] for one in MENU["groups"]
    ]
    in_group = stage.page.get_by_role("group", name="GPT (Radford et al. 2018)")
    assert in_group.get_by_role("option").count() == 2
    chosen = stage.page.get_by_role("option", selected=True)
    assert chosen.locator("b").text_content() == "dates"
    assert box.get_attribute("aria-activedescendant") == chosen.get_attribute("id")


@pytest.mark.parametrize(("searched", "found"), [
    ("sentiment", ["gpt", "gpt-sentiment"]), ("ENGLISH", ["eng-fra"]), ("date 240", ["dates-cosine", "dates"]),
    ("radford", ["gpt", "gpt-sentiment"]), ("<b>x", ["shelf/<b>x"]), ("tells french", []),
])  # fmt: skip
def test_names_descriptions_and_groups_are_searched(
    stage: Stage, box: Locator, searched: str, found: list[str]
) -> None:
    box.fill(searched)
    assert names(stage) == found


@pytest.mark.parametrize(("typed", "taken"), [
    ("sentiment", "gpt-sentiment"),  # a name that holds it, before a description that does
    ("gpt", "gpt"), ("dates-cosine", "dates-cosine"), ("french", "eng-fra"), ("shelf/<b>x", "shelf/<b>x"),
    ("/home/me/my model", "/home/me/my model"), ("~/runs", "~/runs"), ("../gpt", "../gpt"),
])  # fmt: skip
def test_enter_takes_the_name_or_the_match_or_the_path(
    stage: Stage, box: Locator, typed: str, taken: str
) -> None:
    box.fill(typed)
    box.press("Enter")
    assert picked_names(stage) == [taken]
    assert box.get_attribute("aria-expanded") == "false"


@pytest.mark.parametrize("typed", ["nosuch", "dates"])
def test_enter_ignores_missing_and_already_chosen_models(
    stage: Stage, box: Locator, typed: str
) -> None:
    box.fill(typed)
    box.press("Enter")
    assert picked_names(stage) == []
    missing = stage.page.get_by_role("status").filter(has_text="No model called “nosuch”")
    assert missing.is_visible() == (typed == "nosuch")


def test_a_shared_app_takes_no_path(stage: Stage, box: Locator) -> None:
    stage.show(MENU | {"takesPaths": False})
    box.fill("/etc")
    assert "folder" not in stage.page.get_by_role("status").text_content()
    box.press("Enter")
    assert picked_names(stage) == []


def test_arrows_choose_and_escape_restores_the_name(stage: Stage, box: Locator) -> None:
    box.fill("dates")
    for key in ("ArrowUp", "ArrowDown", "ArrowUp"):
        box.press(key)
    box.press("Enter")
    assert picked_names(stage) == ["dates-cosine"]
    box.fill("gpt")
    box.press("Escape")
    assert box.input_value() == "dates"
    assert box.get_attribute("aria-expanded") == "false"
    assert box.get_attribute("aria-activedescendant") is None


def test_a_click_chooses_and_leaving_the_box_chooses_nothing(stage: Stage, box: Locator) -> None:
    box.click()
    stage.page.get_by_role("option", name="gpt-sentiment").click()
    assert picked_names(stage) == ["gpt-sentiment"]
    box.fill("eng")
    box.evaluate("(box) => box.blur()")
    assert picked_names(stage) == ["gpt-sentiment"]
    assert not stage.page.get_by_role("listbox").is_visible()


def test_another_choice_of_the_page_is_shown_and_typing_continues(
    stage: Stage, box: Locator
) -> None:
    box.fill("gp")
    stage.show(MENU)  # a rerun while typing
    assert box.input_value() == "gp"
    assert names(stage) == ["gpt", "gpt-sentiment"]
    stage.show(MENU | {"value": "gpt"})
    assert box.input_value() == "gpt"
    stage.show(MENU | {"value": "/a/long/way/to/my-bert/"})  # its end identifies it
    assert box.input_value() == "my-bert"
    assert box.get_attribute("title") == "/a/long/way/to/my-bert/"
