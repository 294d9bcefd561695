"""Masks and Decoding: the controls and the whole picture fit one viewport, on a small projector, a large one, and presented."""

import image_models
import pytest
import sound_models
from playwright.sync_api import Page
from served_app import boxes, go, open_details, resize, visit, wait_until_idle

MASKS = [
    ".st-key-input-bar", ".st-key-which", ".st-key-masks-batch", ".masks .story", ".masks .strip", ".masks .stage.paintable",
    ".masks .painting .foot", ".masks .panel.after .stage", ".masks .panel.difference .stage", ".masks .panel.tokens", ".masks .effect .foot",
]  # fmt: skip
DECODING = [
    ".st-key-input-bar", ".st-key-which", ".stepper .controls", ".stepper .lanes", ".stepper .notes", ".stepper .panel.parallel",
    ".stepper .panel.serial",
]  # fmt: skip
# cut text: longer than its element, which does not scroll
CUT = """(names) => names.filter((name) => {
  const e = [document, ...[...document.querySelectorAll("*")].map((one) => one.shadowRoot).filter(Boolean)]
    .map((root) => root.querySelector(name)).find(Boolean);
  return e && e.scrollWidth > e.clientWidth + 1;
})"""


SMALL, LARGE, PRESENTED = (1280, 720, ""), (1920, 1080, ""), (1280, 720, "1")
ON_A_WALL = (1920, 1080, "1")
# every picture on the small screen, and each model and each page on the others
SCREENS = [
    *(("masks", model, SMALL) for model in ("eng-fra", "gpt", "xlnet", "eng-fra-bahdanau")),
    *(("decoding", model, SMALL) for model in ("eng-fra", "gpt", "eng-fra-bahdanau")),
    *(("masks", model, LARGE) for model in ("eng-fra", "xlnet")),
    *(("decoding", model, LARGE) for model in ("gpt", "eng-fra-bahdanau")),
    *(("masks", model, PRESENTED) for model in ("gpt", "eng-fra-bahdanau")),
    *(("decoding", model, PRESENTED) for model in ("eng-fra",)),
    *((page, "eng-fra", ON_A_WALL) for page in ("masks", "decoding")),
]


@pytest.mark.parametrize(("path", "checkpoint", "screen"), SCREENS)
def test_the_picture_and_its_controls_end_within_the_viewport(
    shared_page: Page, path: str, checkpoint: str, screen: tuple[int, int, str]
) -> None:
    width, height, present = screen
    parts = {"masks": MASKS, "decoding": DECODING}[path]
    resize(shared_page, width, height)
    link = {"checkpoint": checkpoint} | ({"present": present} if present else {})
    go(shared_page, path, parts[-1], **link)
    found = dict(zip(parts, boxes(shared_page, *parts), strict=True))
    ends = {part: (round(box["top"]), round(box["bottom"])) for part, box in found.items()}
    assert {part: at for part, at in ends.items() if at[0] < 0 or at[1] > height} == {}
    assert all(box["right"] <= width for box in found.values()), found
    titles = [".masks .painting .title", ".masks .effect .title", ".masks .panel.tokens figcaption"]
    assert shared_page.evaluate(CUT, titles) == []
    assert shared_page.evaluate("document.documentElement.scrollWidth") <= width


# elements that scroll within themselves
SCROLLS = CUT.replace("Width", "Height")


def test_the_whole_effect_of_a_mask_is_read_without_scrolling(shared_page: Page) -> None:
    resize(shared_page, 1280, 720)
    go(shared_page, "masks", ".masks .story", checkpoint="eng-fra", **{"decoder-mask": "a0.3"})
    texts = [".masks .story", ".masks .painting .legend", ".masks .effect .legend"]
    assert shared_page.evaluate(SCROLLS, texts) == []
    parts = boxes(shared_page, ".masks .effect .foot", ".st-key-details")
    assert all(box["bottom"] <= 720 for box in parts)


def test_the_explanation_of_a_measure_is_complete_when_presented(shared_page: Page) -> None:
    resize(shared_page, 1280, 720)
    go(shared_page, "inside", ".several .measure", **{"inside-view": "several", "present": "1"})
    assert shared_page.evaluate(SCROLLS, [".several .measure"]) == []
    assert shared_page.evaluate(CUT, [".several th.name"]) == []


SETTINGS = {
    "beam": ({"decoding-how": "beam"}, [".st-key-which", ".beam .tree-scroll", ".beam .detail", ".st-key-details"]),
    "beam, step by step": (
        {"decoding-how": "beam", "decoding-picture": "step by step"},
        [".st-key-which", ".stepper .lanes", ".stepper .panel.serial"],
    ),
    "sampling": ({"decoding-how": "sampling", "decoding-temperature": "2", "step": "3"}, DECODING),
    "forced": ({"force": "2:30", "step": "2"}, [".stepper .fork", ".stepper .lanes", ".stepper .panel.serial .bars", ".st-key-details"]),
}  # fmt: skip


@pytest.mark.parametrize("presented", [False, True])
@pytest.mark.parametrize("setting", SETTINGS)
def test_other_ways_of_decoding_have_room_on_a_small_projector(
    shared_page: Page, setting: str, presented: bool
) -> None:
    more, parts = SETTINGS[setting]
    resize(shared_page, 1280, 720)
    link = {"checkpoint": "eng-fra", **more} | ({"present": "1"} if presented else {})
    go(shared_page, "decoding", parts[-1], **link)
    found = dict(zip(parts, boxes(shared_page, *parts), strict=True))
    ends = {part: (round(box["top"]), round(box["bottom"])) for part, box in found.items()}
    assert {part: at for part, at in ends.items() if at[0] < 0 or at[1] > 720} == {}


RUN_SECTION = "interventions-section"
BESIDE = {"pin.checkpoint": "eng-fra", "pin.source": "I like dogs.", "source": "I like cats."}
SUBTRACTED = BESIDE | {"difference": "true"}
# pages that change and compare runs → page, the other parameters of its address, and the picture
WHOLE_PAGES = {
    "heads": ("interventions", {}, ".board"),
    "patch": ("interventions", {RUN_SECTION: "Patch"}, ".patch"),
    "patch of two streams": (
        "interventions",
        {RUN_SECTION: "Patch", "checkpoint": "xlnet"},
        ".patch",
    ),
    "patch by gradient": (
        "interventions",
        {RUN_SECTION: "Patch", "patch-part": "gradient"},
        ".scatter",
    ),
    "many texts": ("interventions", {RUN_SECTION: "Many texts"}, ".board"),
    "attribution": ("interventions", {RUN_SECTION: "Attribution"}, ".states"),
    "explanation": ("interventions", {RUN_SECTION: "Is attention explanation?"}, ".rowtests"),
    "compare": ("compare", BESIDE, ".difference"),
    "difference, layer": ("layer", SUBTRACTED, ".states"),
    "difference, positions": ("positions", SUBTRACTED, ".states"),
    "difference, masks": ("masks", SUBTRACTED, ".states"),
    "difference, decoding": ("decoding", SUBTRACTED, ".states"),
}


ON_A_LOW_WALL = ["heads", "patch", "patch of two streams", "patch by gradient", "many texts", "compare"]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "present"),
    [*((name, "") for name in WHOLE_PAGES), *((name, "1") for name in ON_A_LOW_WALL)],
)
def test_pages_that_change_and_compare_runs_do_not_scroll(
    shared_page: Page, name: str, present: str
) -> None:
    path, more, picture = WHOLE_PAGES[name]
    resize(shared_page, 1280, 720)
    link = {"checkpoint": "eng-fra"} | more | ({"present": present} if present else {})
    go(shared_page, path, picture, **link)
    wait_until_idle(shared_page)
    if present:
        box, sections = boxes(
            shared_page, ".st-key-bar-source, .st-key-bar-text", f".st-key-{path}-section"
        )
        assert box["bottom"] < sections["top"]
    scrolls = """() => {
      const main = document.querySelector("[data-testid=stMain]");
      return main.scrollHeight - main.clientHeight;
    }"""
    assert shared_page.evaluate(scrolls) <= 0
    assert shared_page.evaluate("document.documentElement.scrollWidth") <= 1280


BOTH_HEADS = {"pin.checkpoint": "eng-fra", "pin.source": "I like dogs.", "source": "I like cats."}
WITH_CONTROLS = {  # the page Attention with more than one head: the parameters of its address, and the elements that must be in sight
    "pinned": (BOTH_HEADS, [".overview", ".head .map .stage", ".st-key-pin-head .map .stage", ".st-key-details"]),
    "training steps": (
        {"checkpoint": "dates", "growth": "true"},
        ["[data-testid=stVegaLiteChart]", ".overview", ".head .map .stage", ".head .lines .stage", ".st-key-details"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("screen", [SMALL, LARGE, PRESENTED, ON_A_WALL])
@pytest.mark.parametrize("name", WITH_CONTROLS)
def test_two_heads_and_the_training_steps_have_room_beside_the_head(
    shared_page: Page, name: str, screen: tuple[int, int, str]
) -> None:
    (more, parts), (width, height, present) = WITH_CONTROLS[name], screen
    resize(shared_page, width, height)
    link = {"checkpoint": "eng-fra"} | more | ({"present": present} if present else {})
    go(shared_page, "", parts[-2], **link)
    found = dict(zip(parts, boxes(shared_page, *parts), strict=True))
    ends = {part: (round(box["top"]), round(box["bottom"])) for part, box in found.items()}
    assert {part: at for part, at in ends.items() if at[0] < 0 or at[1] > height} == {}
    # no block of heads covers the chosen head, as a canvas that is too wide would
    canvases = boxes(shared_page, *shared_page.locator(".st-key-overview canvas").all())
    (head,) = boxes(shared_page, ".st-key-head")
    assert max(canvas["right"] for canvas in canvases if canvas["width"]) <= head["left"]
    assert min(found[part]["height"] for part in parts if "stage" in part) >= 180


PAGES = (
    "", "task", "inside", "layer", "positions", "masks", "interventions", "decoding", "compare", "from-rnn",
)  # fmt: skip


@pytest.mark.parametrize("screen", [SMALL, PRESENTED, ON_A_WALL])
@pytest.mark.parametrize("checkpoint", ["eng-fra", "gpt", "bert", "xlnet"])
def test_each_page_ends_within_the_viewport(
    shared_page: Page, checkpoint: str, screen: tuple[int, int, str]
) -> None:
    width, height, present = screen
    resize(shared_page, width, height)
    ends = {}
    for path in PAGES:
        link = {"checkpoint": checkpoint} | ({"present": present} if present else {})
        go(shared_page, path, ".headline", **link)
        drawer = shared_page.locator(".st-key-details")
        if drawer.count():  # a model that does not generate has no pictures on Decoding
            ends[path] = boxes(shared_page, drawer)[0]["bottom"]
    assert len(ends) >= len(PAGES) - 1
    assert {path: end for path, end in ends.items() if end > height} == {}


HIDDEN = """() => {
  const main = document.querySelector("[data-testid=stMain]");
  return main.scrollHeight - main.clientHeight;
}"""
CHANGED = {"decoder-mask": "a0.3", "positions": "false"}


@pytest.mark.parametrize("screen", [PRESENTED, ON_A_WALL])
def test_the_changes_of_a_presented_run_are_beside_its_texts(
    shared_page: Page, screen: tuple[int, int, str]
) -> None:
    width, height, _ = screen
    resize(shared_page, width, height)
    hidden = {}
    for path in (
        "",
        "task",
        "inside",
        "layer",
        "positions",
        "interventions",
        "decoding",
        "compare",
    ):
        link = {"checkpoint": "eng-fra", "present": "1", **CHANGED}
        go(shared_page, path, ".st-key-changes", **link)
        hidden[path] = shared_page.evaluate(HIDDEN)
        text, changes, question, *each = boxes(
            shared_page,
            ".st-key-bar-target",
            ".st-key-changes",
            ".headline",
            *shared_page.locator(".st-key-changes button:visible").all(),
        )
        assert text["right"] <= changes["left"] < changes["right"] <= question["left"]
        assert len(each) == len(CHANGED)
        assert max(one["bottom"] for one in each) <= text["bottom"] + 1
    assert {path: below for path, below in hidden.items() if below > 0} == {}
    own = {"checkpoint": "gpt", "present": "1", "similarity": "additive"}
    go(shared_page, "", ".st-key-similarity-choice", **own)
    assert shared_page.evaluate(HIDDEN) <= 0


# a step of a lesson, its page, and the text that its reader typed instead
DEPARTED = [
    ("7-three-families", "1", "", {"checkpoint": "gpt", "text": "Tom is here."}),
    ("7-three-families", "4", "", {"checkpoint": "xlnet", "text": "Tom is here."}),
    ("5-one-wrong-word", "4", "decoding", {"checkpoint": "eng-fra", "source": "Tom is here."}),
]


@pytest.mark.parametrize(("lesson", "step", "path", "more"), DEPARTED)
def test_a_presented_page_beside_a_lesson_on_another_text_ends_within_the_viewport(
    shared_page: Page, lesson: str, step: str, path: str, more: dict[str, str]
) -> None:
    resize(shared_page, 1280, 720)
    link = {"lesson": lesson, "lesson-step": step, "present": "1", **more}
    go(shared_page, path, ".lesson", **link)
    shared_page.get_by_text("brings the run of the step back").wait_for()
    assert shared_page.evaluate(HIDDEN) <= 0


# a step of a lesson, its page, and parts of the picture; the last one is waited for
BESIDE_A_LESSON = [
    ("3-heads", "1", "interventions", [".board td button", ".outcome"]),
    (
        "4-masks",
        "2",
        "masks",
        [".masks .effect .switch", ".masks .paintable", ".masks .effect .foot"],
    ),
]


@pytest.mark.parametrize("screen", [SMALL, PRESENTED, ON_A_WALL])
@pytest.mark.parametrize(("lesson", "step", "path", "parts"), BESIDE_A_LESSON)
def test_a_page_beside_a_lesson_ends_within_the_viewport(
    shared_page: Page, lesson: str, step: str, path: str, parts: list[str], screen: tuple
) -> None:
    width, height, present = screen
    resize(shared_page, width, height)
    link = {"lesson": lesson, "lesson-step": step, "checkpoint": "eng-fra"}
    link |= {"present": present} if present else {}
    go(shared_page, path, parts[-1], **link, source="I am cold.")
    wait_until_idle(shared_page)
    assert shared_page.evaluate(HIDDEN) <= 0
    lesson_box, *found = boxes(shared_page, ".lesson", *parts)
    assert all(box["left"] >= lesson_box["right"] for box in found)
    if path == "masks" and present:
        switch, painted, foot = found
        assert painted["right"] <= switch["left"] == foot["left"]
        shared_page.locator(".masks .switch").get_by_text("Tokens").click()
        (tokens,) = boxes(shared_page, ".masks .tokens .scroll")
        assert switch["bottom"] <= tokens["top"]
        assert tokens["bottom"] <= height


# path, its model, whether it is presented, and the picture
WITH_DETAILS = [
    ("inside", "eng-fra", "", ".walk .stage"), ("inside", "eng-fra", "1", ".walk .stage"),
    ("task", "bert", "", ".guesses .row"), ("task", "xlnet", "", ".order .seen"),
    ("task", "bert-where", "1", ".span canvas"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "model", "present", "picture"), WITH_DETAILS)
def test_the_details_drawer_is_in_sight_on_a_small_projector(
    shared_page: Page, path: str, model: str, present: str, picture: str
) -> None:
    resize(shared_page, 1280, 720)
    go(shared_page, path, picture, checkpoint=model, **({"present": present} if present else {}))
    drawer, drawn = boxes(shared_page, ".st-key-details", picture)
    assert drawn["bottom"] <= drawer["top"]
    assert drawer["bottom"] <= 720


def test_no_setting_of_a_run_is_alone_on_a_line(shared_page: Page) -> None:
    resize(shared_page, 1280, 720)
    go(shared_page, "train", ".st-key-train-settings", present="1")
    cells = shared_page.locator(".st-key-train-settings > *")
    tops = [round(box["top"]) for box in boxes(shared_page, *cells.all())]
    assert [tops.count(top) > 4 for top in set(tops)] == [True, True]


@pytest.mark.parametrize(("screen", "least"), [(PRESENTED, 150), (ON_A_WALL, 320)])
@pytest.mark.parametrize("model", ["eng-fra", "eng-fra-bahdanau"])
def test_the_curves_of_positions_use_the_height_of_a_presentation(
    shared_page: Page, model: str, screen: tuple[int, int, str], least: int
) -> None:
    width, height, present = screen
    resize(shared_page, width, height)
    link = {"checkpoint": model, "present": present, "positions-section": "Curves"}
    go(shared_page, "positions", "[data-testid=stVegaLiteChart] svg", **link)
    plots = shared_page.locator(
        "[data-testid=stVegaLiteChart] .role-frame.root > g > path.background"
    )
    drawer, *drawn = boxes(shared_page, ".st-key-details", *plots.all())
    assert [plot["height"] >= least for plot in drawn] == [True, True]
    assert drawer["bottom"] <= height


# the smallest font size on the page, in canvases, too; powers and indices are smaller
LEAST_LETTERS = """() => {
  const all = (root) => [...root.querySelectorAll("*")].flatMap((e) => [e, ...(e.shadowRoot ? all(e.shadowRoot) : [])]);
  const sizes = all(document.querySelector("[data-testid=stMain]")).map((e) => {
    const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    if (!own || !e.checkVisibility() || e.closest("sub, sup, textarea, .behind") || e.getBoundingClientRect().width < 2) return Infinity;
    const drawing = e.ownerSVGElement, box = drawing?.viewBox.baseVal;
    const scale = box?.width ? drawing.getBoundingClientRect().width / box.width : 1;
    return parseFloat(getComputedStyle(e).fontSize) * scale;
  });
  return Math.min(...sizes);
}"""


# elements lower than their letters that hide the rest
CUT_DOWN = """() => {
  const all = (root) => [...root.querySelectorAll("*")].flatMap((e) => [e, ...(e.shadowRoot ? all(e.shadowRoot) : [])]);
  return all(document.querySelector("[data-testid=stMain]")).filter((e) => {
    const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    const hides = ["hidden", "clip"].includes(getComputedStyle(e).overflowY) && e.clientHeight > 4;
    return own && hides && e.checkVisibility() && e.scrollHeight > e.clientHeight + 2;
  }).map((e) => e.textContent.trim());
}"""


@pytest.mark.parametrize(("size", "least"), [((1280, 720), 16), ((1920, 1080), 20)])
@pytest.mark.parametrize("path", ["", "task", "inside", "layer", "positions", "masks", "decoding"])
def test_letters_grow_with_the_screen(
    shared_page: Page, path: str, size: tuple[int, int], least: int
) -> None:
    resize(shared_page, *size)
    go(shared_page, path, "h1", checkpoint="eng-fra", present="1")
    wait_until_idle(shared_page)
    assert shared_page.evaluate(LEAST_LETTERS) >= least - 0.1
    assert shared_page.evaluate(CUT_DOWN) == []


@pytest.mark.parametrize("model", ["eng-fra", "gpt"])
def test_the_walk_of_many_tokens_ends_within_the_viewport_with_its_key_in_sight(
    shared_page: Page, model: str
) -> None:
    text = "The little dog that I saw was hungry and the man who lives in the house gave it some milk because it was cold"
    field = "source" if model == "eng-fra" else "text"
    resize(shared_page, 1280, 720)
    go(shared_page, "inside", ".walk .stage", checkpoint=model, present="1", **{field: text})
    drawer, stage = boxes(shared_page, ".st-key-details", ".walk .stage")
    assert stage["bottom"] <= drawer["top"]
    assert drawer["bottom"] <= 720
    hidden = shared_page.locator(".walk .stage").evaluate("(e) => e.scrollHeight - e.clientHeight")
    assert hidden > 20  # the keys further down


@pytest.mark.parametrize(
    ("width", "height", "present"), [(1280, 720, ""), (1920, 1080, ""), (1920, 1080, "1")]
)
@pytest.mark.parametrize("kind", ["image", "sound"])
def test_a_picture_over_a_file_leaves_the_drawer_in_sight(
    page: Page,
    tmp_path_factory: pytest.TempPathFactory,
    kind: str,
    width: int,
    height: int,
    present: str,
) -> None:
    folder, name = tmp_path_factory.mktemp(kind), f".{kind}-map"
    if kind == "image":
        image_models.save("ViTForImageClassification", folder)
    else:
        sound_models.save(folder)
    resize(page, width, height)
    shown = {"checkpoint": str(folder)} | ({"present": present} if present else {})
    visit(page, "attention", f"{name}[data-painted]", **shown)
    drawer, picture = boxes(page, ".st-key-details", name)
    assert picture["bottom"] <= drawer["top"]
    assert drawer["bottom"] <= height
    open_details(page)
    page.wait_for_selector(".st-key-details .head[data-painted]")


@pytest.mark.parametrize("screen", [SMALL, PRESENTED, ON_A_WALL])
def test_the_transcript_and_the_attention_of_a_speech_model_are_in_one_viewport(
    page: Page, tmp_path_factory: pytest.TempPathFactory, screen: tuple[int, int, str]
) -> None:
    width, height, present = screen
    folder = tmp_path_factory.mktemp("sound")
    sound_models.save(folder)
    resize(page, width, height)
    shown = {"checkpoint": str(folder)} | ({"present": present} if present else {})
    visit(page, "task", ".sound-map[data-painted]", **shown)
    parts = [".answers .strip", ".answers .list", ".sound-map .small", ".st-key-details"]
    assert max(box["bottom"] for box in boxes(page, *parts)) <= height
