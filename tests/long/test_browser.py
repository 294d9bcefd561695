"""The app in a real browser: type, click, pin, share, download; every number is compared with what `models` computes."""

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, Locator, Page, WebSocket, expect
from served_app import (
    boxes,
    cell_of,
    go,
    in_url,
    open_details,
    resize,
    visit,
    wait_for_layout,
    wait_until_idle,
)

import models
from models.trace import AttentionSite
from viz_app.drawing.payload import unpack

DATE, OTHER = "24/07/69", "le dimanche 1er mai 1994"
SITE, HEAD = "decoder.layers.1.cross_attn", ".head[data-painted]"


@pytest.fixture(scope="module")
def dates() -> models.Scope:
    return models.load("dates", device="cpu")


def see(page: Page, **params: str) -> None:
    """Open the page Attention on the model dates."""
    go(
        page,
        "",
        HEAD,
        **{"checkpoint": "dates", "source": DATE, "site": SITE, "head": "2", **params},
    )


def source(page: Page) -> Locator:
    return page.get_by_role("textbox", name="Date, in any format (type here)")


def target(page: Page) -> Locator:
    return page.get_by_role("textbox", name="ISO date")


def weight_at(page: Page, query: int, key: int) -> np.float32:
    """Return the weight that the page shows when the pointer is on a cell."""
    cells = page.locator(".head canvas.cells")
    cells.hover(position=cell_of(cells, query, key))
    tip = page.locator(".head .tip")
    expect(tip).to_have_attribute("data-query", str(query))
    expect(tip).to_have_attribute("data-key", str(key))
    return np.float32(tip.get_attribute("data-weight"))


def assert_shows(page: Page, site: AttentionSite, head: int) -> None:
    """Assert that the picture has the site's size and, in a few cells, exactly its weights."""
    weights = site.weights(head)
    rows, cols = weights.shape
    picture = page.locator(".head")
    for name, value in (("site", site.name), ("head", head), ("rows", rows), ("cols", cols)):
        expect(picture).to_have_attribute(f"data-{name}", str(value))
    strongest = divmod(int(weights.argmax()), cols)
    for query, key in (strongest, (0, 0), (rows - 1, cols // 2)):
        np.testing.assert_allclose(
            weight_at(page, query, key), float(weights[query, key]), atol=1e-6
        )


# --- typing


def test_the_picture_changes_while_typing(shared_page: Page, dates: models.Scope) -> None:
    see(shared_page)
    assert_shows(shared_page, dates.run(DATE).attention[SITE], 2)
    source(shared_page).press_sequentially(
        "!", delay=20
    )  # without pressing Enter or leaving the box
    typed = source(shared_page).input_value()
    expect(shared_page.locator(".written .source")).to_have_text(typed)
    expect(shared_page.locator(".written .output")).to_have_text(dates.run(typed).output)
    assert_shows(shared_page, dates.run(typed).attention[SITE], 2)
    expect(source(shared_page)).to_be_focused()


def test_every_key_is_answered_over_the_socket(page: Page, dates: models.Scope) -> None:
    sent, received = [], []

    def listen(socket: WebSocket) -> None:
        if socket.url.endswith("/live"):
            socket.on("framesent", lambda frame: sent.append(json.loads(frame)))
            socket.on("framereceived", lambda frame: received.append(frame))

    page.on("websocket", listen)
    see(page)
    wait_until_idle(page)
    source(page).press("End")
    for key in "!?":
        source(page).press(key)
        expect(page.locator(".written .source")).to_have_text(source(page).input_value())
    in_url(page, "source", DATE + "!?")  # Streamlit has it, too
    assert [asked["texts"] for asked in sent] == [[DATE + "!", ""], [DATE + "!?", ""]]
    header, arrays = unpack(received[-1])
    assert dict(header["plain"]["written"]["rows"])["output"] == dates.run(DATE + "!?").output
    shown, _ = unpack(arrays["head"].tobytes())
    assert [label[0] for label in shown["keys"]] == [*DATE, "!", "?", "[end]"]


def test_without_the_socket_the_picture_follows_when_typing_pauses(
    page: Page, dates: models.Scope
) -> None:
    page.route_web_socket("**/live", lambda socket: socket.close())
    see(page)
    source(page).press("End")
    source(page).press("!")
    expect(page.locator(".written .source")).to_have_text(DATE + "!")
    source(page).press("?")
    expect(page.locator(".written .source")).to_have_text(DATE + "!?")
    assert_shows(page, dates.run(DATE + "!?").attention[SITE], 2)


def test_fast_typing_loses_no_letter_and_ends_on_the_last(
    shared_page: Page, dates: models.Scope
) -> None:
    see(shared_page)
    source(shared_page).fill("")
    source(shared_page).press_sequentially(OTHER, delay=15)
    expect(source(shared_page)).to_have_value(OTHER)
    expect(shared_page.locator(".written .source")).to_have_text(OTHER)
    expect(shared_page.locator(".head")).to_have_attribute("data-cols", str(len(OTHER) + 1))
    assert_shows(shared_page, dates.run(OTHER).attention[SITE], 2)


def test_a_text_of_several_lines_is_read_as_it_is_typed(shared_page: Page) -> None:
    go(
        shared_page,
        "",
        HEAD,
        checkpoint="gpt-char",
        text="ROMEO:",
        site="decoder.layers.0.self_attn",
        head="0",
    )
    box = shared_page.get_by_role("textbox", name="Text (type here)")
    before = boxes(shared_page, box)
    box.press("End")
    box.press("Enter")
    box.press_sequentially("But soft\nwhat\nlight")
    expect(shared_page.locator(".head")).to_have_attribute(
        "data-rows", str(1 + len("ROMEO:\nBut soft\nwhat\nlight"))
    )
    in_url(shared_page, "text", "ROMEO:\nBut soft\nwhat\nlight")
    assert boxes(shared_page, box) == before  # longer text scrolls in it
    assert box.evaluate("e => e.scrollHeight > e.clientHeight")


def test_the_page_does_not_jump_while_typing(shared_page: Page) -> None:
    see(shared_page)
    parts = (".overview", ".head .pictures", ".head canvas.cells", ".written")
    before = boxes(shared_page, *parts)
    source(shared_page).press_sequentially(" and much more text, as long as it fits", delay=5)
    expect(shared_page.locator(".written .source")).to_have_text(source(shared_page).input_value())
    assert boxes(shared_page, *parts) == before


def test_a_typed_target_is_read_as_given(shared_page: Page, dates: models.Scope) -> None:
    see(shared_page)
    target(shared_page).fill("1970")
    expect(shared_page.locator(".head")).to_have_attribute("data-rows", "5")
    assert_shows(shared_page, dates.run(DATE, "1970").attention[SITE], 2)
    shared_page.get_by_role("button", name="Clear", exact=True).click()
    assert_shows(shared_page, dates.run(DATE).attention[SITE], 2)


# --- choosing


def test_a_click_on_a_head_shows_it_and_the_arrows_continue_from_it(
    shared_page: Page, dates: models.Scope
) -> None:
    see(shared_page)
    trace = dates.run(DATE)
    button, zoom = (
        shared_page.locator(
            '.overview button[data-site="decoder.layers.0.self_attn"][data-head="1"]'
        ),
        shared_page.locator(".zoom"),
    )
    button.click()
    assert_shows(shared_page, trace.attention["decoder.layers.0.self_attn"], 1)
    expect(shared_page.locator(".head .title")).to_contain_text(
        "Decoder layer 1, head 2: what each character of the ISO date attends to"
    )
    wait_for_layout(shared_page)  # in a picture that Python sends again no head is enlarged
    button.hover()
    expect(zoom).to_be_visible()
    box, large = boxes(shared_page, zoom, ".head")
    assert box["right"] <= large["x"]  # beside the chosen head
    shared_page.keyboard.press("ArrowRight")
    shared_page.keyboard.press("ArrowDown")
    shared_page.keyboard.press("ArrowDown")
    expect(zoom).to_be_hidden()
    assert_shows(shared_page, trace.attention["decoder.layers.0.cross_attn"], 2)
    in_url(shared_page, "site", "decoder.layers.0.cross_attn")
    in_url(shared_page, "head", "2")
    expect(shared_page.get_by_text("This is where the two texts meet")).not_to_have_count(0)


def test_a_masked_cell_says_why(shared_page: Page) -> None:
    see(shared_page, site="decoder.layers.0.self_attn", head="0")
    assert weight_at(shared_page, 2, 7) == 0
    expect(shared_page.locator(".head .tip .why")).to_have_text("masked (look-ahead)")


def test_a_pinned_token_stays_while_typing(shared_page: Page) -> None:
    see(shared_page)
    shared_page.locator('.head svg rect[data-side="query"][data-index="4"]').click()
    shared_page.mouse.move(5, 5)
    expect(shared_page.locator(".head")).to_have_attribute("data-lock", "q4")
    in_url(shared_page, "lock", "q4")
    source(shared_page).fill(DATE + "0")
    expect(shared_page.locator(".written .source")).to_have_text(DATE + "0")
    expect(shared_page.locator(".head")).to_have_attribute("data-lock", "q4")


# --- sharing


def test_the_first_page_has_an_address_of_its_own_too(page: Page, dates: models.Scope) -> None:
    visit(page, "attention", checkpoint="dates", source=OTHER, site=SITE, head="3", lock="q4")
    assert_shows(page, dates.run(OTHER).attention[SITE], 3)
    expect(page.locator(".head")).to_have_attribute("data-lock", "q4")
    expect(page.get_by_text("Page not found")).to_have_count(0)


def test_a_shared_link_shows_the_same_view_in_another_browser(
    shared_page: Page, browser: Browser, dates: models.Scope
) -> None:
    see(shared_page)
    source(shared_page).fill(OTHER)
    target(shared_page).fill("1994-0")
    shared_page.locator(
        '.overview button[data-site="encoder.layers.1.self_attn"][data-head="3"]'
    ).click()
    expect(shared_page.locator(".head")).to_have_attribute(
        "data-site", "encoder.layers.1.self_attn"
    )
    expect(shared_page.locator(".head")).to_have_attribute("data-cols", str(len(OTHER) + 1))
    wait_until_idle(shared_page)  # a token of the previous head would be pinned in that one
    shared_page.locator('.head svg rect[data-side="key"][data-index="5"]').click()
    in_url(shared_page, "lock", "k5")
    other = browser.new_context(bypass_csp=True).new_page()
    other.goto(shared_page.url)
    other.wait_for_selector(HEAD)
    assert_shows(other, dates.run(OTHER, "1994-0").attention["encoder.layers.1.self_attn"], 3)
    expect(other.locator(".head")).to_have_attribute("data-lock", "k5")
    expect(source(other)).to_have_value(OTHER)
    expect(target(other)).to_have_value("1994-0")
    other.context.close()


def test_back_returns_to_the_previous_head(shared_page: Page) -> None:
    see(shared_page)
    shared_page.locator(
        '.overview button[data-site="encoder.layers.0.self_attn"][data-head="0"]'
    ).click()
    in_url(shared_page, "site", "encoder.layers.0.self_attn")
    shared_page.go_back()
    expect(shared_page.locator(".head")).to_have_attribute("data-site", SITE)
    expect(shared_page.locator('.overview button[aria-pressed="true"]')).to_have_attribute(
        "data-site", SITE
    )
    expect(source(shared_page)).to_have_value(DATE)


def test_the_view_outlives_a_visit_to_another_page(shared_page: Page) -> None:
    see(shared_page)
    source(shared_page).fill(OTHER)
    expect(shared_page.locator(".written .source")).to_have_text(OTHER)
    shared_page.get_by_role("link", name="Masks").click()
    expect(source(shared_page)).to_have_value(OTHER)
    shared_page.get_by_role("link", name="Attention", exact=True).click()
    expect(
        shared_page.locator(".overview")
    ).to_be_visible()  # Masks shows two texts under `.written` until it has left
    expect(shared_page.locator(".written")).to_have_count(1)
    # a row of the table of Masks is a `.head`, too, and may still be there
    expect(shared_page.locator("div.head")).to_have_attribute("data-site", SITE)
    expect(shared_page.locator(".written .source")).to_have_text(OTHER)


# --- bad input


def test_bad_input_leaves_the_picture(shared_page: Page, dates: models.Scope) -> None:
    see(shared_page)
    for text, complaint in (
        ("", "empty"),
        ("   ", "empty"),
        ("x" * 20_000, "20,000 characters"),
        ("1 " * 40, "at most 64"),
    ):
        source(shared_page).fill(text)
        expect(shared_page.get_by_role("alert")).to_contain_text(complaint)
        expect(shared_page.locator(".st-key-note-source").get_by_role("alert")).to_be_visible()
        expect(shared_page.locator(".written .stale")).not_to_have_text("")
        expect(shared_page.locator(".written .source")).to_have_text(DATE)
        source(shared_page).fill(DATE)
        expect(shared_page.get_by_role("alert")).to_have_count(0)
    source(shared_page).fill("")
    expect(shared_page.get_by_role("alert")).to_have_count(1)
    assert_shows(shared_page, dates.run(DATE).attention[SITE], 2)


def test_any_text_is_read_as_far_as_the_vocabulary_allows_and_is_only_text(
    shared_page: Page, dates: models.Scope
) -> None:
    see(shared_page)
    hostile = (
        "<script>document.title='hit'</script></style><img src=x onerror=\"document.title='hit'\">"[
            :60
        ]
    )
    for text in ("漢字", "مرحبا ١٩٦٩", "😀 1969", "<script>alert(1)</script>", "</style>", hostile):
        source(shared_page).fill(text)
        expect(shared_page.locator(".written .source")).to_have_text(text)
        expect(shared_page.locator(".head")).to_have_attribute(
            "data-cols", str(len(dates.encode(source=text)["source"].ids))
        )
        assert shared_page.get_by_role("alert").count() == 0
    assert_shows(shared_page, dates.run(hostile).attention[SITE], 2)
    assert (
        shared_page.locator('.head svg text.token[data-side="key"]').all_text_contents()[0] == "<"
    )
    assert shared_page.title() != "hit"
    assert shared_page.locator(".stApp script, .stApp img").count() == 0


def test_a_folder_that_does_not_open_is_named_and_the_picture_stays(
    shared_page: Page, dates: models.Scope, checkpoint: Path
) -> None:
    see(shared_page)
    box = shared_page.get_by_role("combobox", name="Model")
    weights, config = checkpoint / "model.safetensors", checkpoint / "config.json"
    whole, sizes = weights.read_bytes(), config.read_text("utf-8")

    def refused(folder: Path, complaint: str) -> None:
        box.fill(str(folder))
        box.press("Enter")
        note = shared_page.locator(".st-key-note-checkpoint").get_by_role("alert")
        expect(note).to_contain_text(str(folder))
        expect(note).to_contain_text(complaint)
        expect(shared_page.locator(".written .source")).to_have_text(DATE)
        expect(shared_page.locator(".written .stale")).not_to_have_text("")

    refused(checkpoint.with_name("nowhere"), "No model called")
    weights.write_bytes(whole[: len(whole) // 2])
    refused(checkpoint, "changed since the checkpoint was saved")
    record = (
        checkpoint / "training.json"
    )  # from here on a checkpoint without checksums, like an older one
    told = json.loads(record.read_text("utf-8"))
    del told["checksums"]
    record.write_text(json.dumps(told), "utf-8")
    checkpoint = checkpoint.rename(checkpoint.with_name("older"))
    refused(checkpoint, "not readable as safetensors")
    weights = checkpoint / "model.safetensors"
    weights.rename(checkpoint / "weights.safetensors")
    refused(checkpoint.rename(checkpoint.with_name("renamed")), "model.safetensors is missing")
    folder = checkpoint.with_name("renamed")
    (folder / "model.safetensors").write_bytes(whole)
    (folder / "config.json").write_text(sizes.replace('"d_ff": 61', '"d_ff": 59'), "utf-8")
    refused(folder.rename(checkpoint.with_name("misshapen")), "must have shape")
    assert_shows(shared_page, dates.run(DATE).attention[SITE], 2)
    box.fill("dates")
    box.press("Enter")
    expect(shared_page.get_by_role("alert")).to_have_count(0)
    expect(shared_page.locator(".written .stale")).to_have_text("")


@pytest.mark.parametrize("width", [1280, 420])
def test_a_long_sentence_and_its_translation_do_not_overlap(shared_page: Page, width: int) -> None:
    resize(shared_page, width, 900)
    go(shared_page, "", HEAD, source="She told us that the old man reads a book " * 5)
    rows = [f".written .{row}" for row in ("label-out", "output")]
    found = boxes(shared_page, *rows, ".overview")
    for i, a in enumerate(found):
        for b in found[i + 1 :]:
            beside = a["right"] <= b["x"] + 1 or b["right"] <= a["x"] + 1
            assert beside or a["bottom"] <= b["y"] + 1
    resize(shared_page, 1280)


# --- downloads


def test_the_csv_holds_the_models_weights(shared_page: Page, dates: models.Scope) -> None:
    see(shared_page)
    open_details(shared_page)
    with shared_page.expect_download() as saved:
        shared_page.get_by_role("link", name="This head, CSV").click()
    rows = [
        row
        for row in csv.reader(io.StringIO(saved.value.path().read_text("utf-8")))
        if not row[0].startswith("# ")
    ]
    weights = np.array([row[1:] for row in rows[1:]], np.float32)
    np.testing.assert_allclose(
        weights, dates.run(DATE).attention[SITE].weights(2).numpy(), atol=1e-6
    )
    assert (
        saved.value.suggested_filename
        == f"dates.step{dates.training['step']}.decoder.layer2.cross_attn.head3.csv"
    )


def test_a_file_arrives_even_if_its_links_are_renewed_meanwhile(shared_page: Page) -> None:
    see(shared_page)
    open_details(shared_page)
    link = shared_page.get_by_role("link", name="This head, CSV")
    with shared_page.expect_download() as saved:
        link.evaluate("(link) => { link.click(); link.closest('.downloads').remove(); }")
    assert saved.value.suggested_filename.endswith(".head3.csv")
    visit(shared_page, "", HEAD)


def test_a_file_holds_the_text_typed_a_moment_ago(shared_page: Page, dates: models.Scope) -> None:
    see(shared_page)
    source(shared_page).fill(OTHER)
    expect(shared_page.locator(".written .source")).to_have_text(OTHER)
    open_details(shared_page)
    with shared_page.expect_download() as saved:
        shared_page.get_by_role("link", name="This head, CSV").click()
    rows = [
        row
        for row in csv.reader(io.StringIO(saved.value.path().read_text("utf-8")))
        if not row[0].startswith("# ")
    ]
    weights = np.array([row[1:] for row in rows[1:]], np.float32)
    np.testing.assert_allclose(
        weights, dates.run(OTHER).attention[SITE].weights(2).numpy(), atol=1e-6
    )


def test_a_file_arrives_whatever_reruns_meanwhile(shared_page: Page) -> None:
    """The address on the page stays valid when the page reruns."""
    see(shared_page)
    open_details(shared_page)
    link = shared_page.get_by_role("link", name="This head, CSV")
    address = link.get_attribute("href")
    for head in (1, 3):
        go(shared_page, "", HEAD, checkpoint="dates", source=DATE, site=SITE, head=str(head))
        assert link.get_attribute("href") == address
        with shared_page.expect_download() as saved:
            link.click()
        assert saved.value.suggested_filename.endswith(f"cross_attn.head{head + 1}.csv")


def test_the_servers_message_instead_of_a_file_is_shown(shared_page: Page) -> None:
    see(shared_page)
    open_details(shared_page)
    link = shared_page.get_by_role("link", name="This head, CSV")
    before = shared_page.evaluate("history.length")
    link.evaluate("(a) => (a.href += 'unknown')")
    link.click()
    note = shared_page.locator(".st-key-files [role=status]")
    expect(note).to_have_text(
        "This file is no longer offered; open its page again and download it there."
    )
    assert shared_page.evaluate("history.length") == before


def test_the_npz_holds_all_heads(shared_page: Page, dates: models.Scope) -> None:
    see(shared_page)
    open_details(shared_page)
    with shared_page.expect_download() as saved:
        shared_page.get_by_role("link", name="All heads, npz").click()
    with np.load(saved.value.path()) as held:
        for name, site in dates.run(DATE).attention.items():
            counted = name.replace("layers.0", "layer1").replace("layers.1", "layer2")
            np.testing.assert_allclose(held[counted], site.weights().numpy(), atol=1e-6)


# --- landing


def test_a_newcomer_sees_a_sentence_translated_without_scrolling(page: Page) -> None:
    visit(page)
    expect(page.locator(".written .source")).to_have_text("She is reading a book.")
    expect(page.locator(".head .title")).to_contain_text(
        "what each French token attends to in the English sentence"
    )
    wait_until_idle(page)
    found = boxes(page, ".overview", ".head .pictures", ".written")
    assert max(box["bottom"] for box in found) <= 720, found
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280


@pytest.mark.parametrize("schemes", [("light", "dark"), ("dark", "light")])
def test_the_pictures_follow_the_browsers_theme(browser: Browser, schemes: tuple[str, str]) -> None:
    """They do so from the first picture on, and when the theme changes while the page is open, as at sunset."""
    context = browser.new_context(color_scheme=schemes[0], bypass_csp=True)
    page = context.new_page()
    see(page)
    for scheme in schemes:
        page.emulate_media(color_scheme=scheme)
        paper = {"light": "255,255,255", "dark": "16,20,29"}[scheme]
        page.wait_for_function(
            """([paper, component]) => {
              const find = (root) => root.querySelector(component) ??
                [...root.querySelectorAll("*")].map((e) => e.shadowRoot && find(e.shadowRoot)).find(Boolean);
              const canvas = find(document)?.querySelector("canvas.cells");
              return canvas?.getContext("2d").getImageData(2, 30, 1, 1).data.slice(0, 3).join() === paper;
            }""",
            arg=[paper, ".head"],
        )
    context.close()


def test_a_narrow_window_stacks_everything(browser: Browser) -> None:
    context = browser.new_context(viewport={"width": 420, "height": 900}, bypass_csp=True)
    page = context.new_page()
    see(page)
    heads, head = boxes(page, ".overview", ".head")
    assert heads["y"] >= head["bottom"]  # the enlarged head first
    assert page.evaluate("document.documentElement.scrollWidth") <= 420
    context.close()


def test_a_name_that_begins_with_the_current_one_can_be_typed(shared_page: Page) -> None:
    go(shared_page, "", ".overview[data-painted]", checkpoint="dates", source="5 March 2021")
    shared_page.get_by_role("combobox", name="Model").fill("dates-cosine")
    shared_page.keyboard.press("Enter")
    in_url(shared_page, "checkpoint", "dates-cosine")
    expect(shared_page.get_by_text("Trained for 1,500 steps")).not_to_have_count(0)
