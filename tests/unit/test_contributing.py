"""The examples of CONTRIBUTING.md do what the page says."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from app_parts import said
from drawn import letters
from small import random_gpt, randomised
from streamlit.testing.v1 import AppTest

import models
from models.analysis.head_measures import MEASURES, measures
from models.architectures import ARCHITECTURES
from models.checkpoint import save_checkpoint
from models.tokenizers.base import Tokenizer
from models.trace.edits.base import TYPES
from models.trace.edits.stored import from_json, to_json
from viz_app import components
from viz_app.controls.lesson_panel import LESSON_PAGE_NAMES as LESSON_PAGES
from viz_app.lessons.reader import parse_lesson
from viz_app.lessons.readings import finder
from viz_app.navigation import PAGES
from viz_app.session.current_run import CurrentRun
from viz_app.session.parameters import declared_parameters

PAGE = Path(models.__file__).parents[1] / ".github" / "CONTRIBUTING.md"
TOPICS = ["An architecture", "A page", "A measure of a head", "An edit", "A browser part"]


def example(topic: str, language: str = "python") -> str:
    """Return the first block of code of this language under a heading."""
    section = PAGE.read_text("utf-8").partition(f"\n## {topic}\n")[2]
    return re.search(rf"```{language}\n(.*?)```", section, re.DOTALL)[1]


def execute(topic: str) -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "example"}
    exec(compile(example(topic), str(PAGE), "exec"), names)
    return names


def test_each_example_is_short() -> None:
    prose = re.sub(r"```.*?```", "", PAGE.read_text("utf-8"), flags=re.DOTALL)
    headings = re.findall(r"^## (.+)$", prose, re.MULTILINE)
    assert headings == [*TOPICS, "A lesson", "Where things are"]
    assert all(len(example(topic).splitlines()) <= 20 for topic in TOPICS)


def test_the_lesson_is_read_and_tells_of_a_run() -> None:
    lesson = parse_lesson(
        example("A lesson", "md"), Path("names.md"), LESSON_PAGES, declared_parameters()
    )
    scope = models.load("eng-fra")
    run = CurrentRun(scope, scope.run("Tom hit Mary."))
    (step,) = lesson.steps
    words = " ".join(sentence.words(finder(run, None)) for sentence in step.reveal)
    site = run.trace.attention["decoder.layers.1.cross_attn"]
    read = site.key_tokens[int(site.weights(1)[1].argmax())].removeprefix("▁")
    assert f"It reads “{read}” with" in words
    assert "It is sure of its sentence." in words


def test_the_architecture_is_saved_opened_recorded_and_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ARCHITECTURES, "strided gpt", None)
    names, tokenizer = execute("An architecture"), Tokenizer.characters("abcdefgh")
    sizes = {"d_model": 15, "n_heads": 3, "n_layers": 2, "n_ctx": 37}
    config = names["StridedConfig"](vocab_size=tokenizer.vocab_size, stride=3, **sizes)
    folder = tmp_path / "strided"
    save_checkpoint(folder, randomised(names["StridedGPT"](config)), tokenizer, {"step": 0})
    scope = models.load(folder, device="cpu")
    assert (type(scope.model), scope.config.stride) == (names["StridedGPT"], 3)
    site = scope.run("abcabcd").attention["decoder.layers.1.self_attn"]
    query, key = torch.arange(site.n_query)[:, None], torch.arange(site.n_key)
    assert torch.equal(site.allowed(), ((query - key) % 3 == 0) & (key <= query))
    assert site.blocked_by(2, 1) == ["stride"]
    greedy = scope.write("abc", max_new=5).ids  # with a cache; the run below has none
    first = scope.run("abc").next_token.logits[-1].argmax()
    assert greedy[0] == int(first)


def test_a_plain_gpt_is_still_a_gpt_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ARCHITECTURES, "strided gpt", None)
    names = execute("An architecture")
    assert models.architectures.architecture_name(random_gpt().config) == "gpt"
    assert (
        models.architectures.architecture_name(names["StridedConfig"](vocab_size=31))
        == "strided gpt"
    )


def test_the_page_counts_the_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    def drawn(page, run) -> None:
        from viz_app.session import live
        from viz_app.views.frame import show_page

        live.live_session().scope = run.scope
        live.live_session().show(run)
        show_page(page, live.live_session(), run)

    monkeypatch.setitem(PAGES, "tokens", None)
    execute("A page")
    page, scope = PAGES["tokens"], letters()
    run = CurrentRun(scope, scope.run("abcd", "ba"))
    app = AppTest.from_function(drawn, args=(page, run)).run()
    assert not app.exception
    assert page.title == "Tokens"
    lines = said(app, "tokens")["rows"]
    assert [text for _, text in lines] == ["source: 5 tokens", "target: 3 tokens"]


def test_the_measure_is_computed_for_every_head(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MEASURES, "strongest", None)
    execute("A measure of a head")
    trace = letters().run("abcab", "dc")
    site = trace.attention["decoder.layers.1.cross_attn"]
    strongest = measures(site, *trace.axes(site))["strongest"]
    torch.testing.assert_close(strongest, site.weights().amax(-1).mean(-1))


def test_the_edit_scales_one_head_and_survives_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TYPES, "HeadScaled", None)
    scope, name = letters(), "decoder.layers.0.cross_attn"
    edit = execute("An edit")["HeadScaled"](name, head=1, factor=0.25)
    before = scope.run("abcab", "dc").attention[name].head_out()
    after = scope.run("abcab", "dc", edits=[edit]).attention[name].head_out()
    torch.testing.assert_close(after[1], before[1] * 0.25)
    assert torch.equal(after[[0, 2]], before[[0, 2]])
    assert from_json(to_json(edit)) == edit


def test_the_browser_part_is_sent_with_its_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "common").symlink_to(Path(components.__file__).with_name("common"))
    (tmp_path / "tally").mkdir()
    script = example("A browser part", "js")
    for ending, text in {"html": '<p class="tally"></p>', "css": "", "js": script}.items():
        (tmp_path / "tally" / f"tally.{ending}").write_text(text, "utf-8")
    monkeypatch.setattr(components, "_HERE", tmp_path)
    files = execute("A browser part")["TALLY"].files
    assert files["html"] == '<p class="tally"></p>'
    assert script in files["js"]
    assert files["js"].endswith(components.EXPORT)
