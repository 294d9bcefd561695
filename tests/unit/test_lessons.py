"""Lesson files: parsing, errors with their lines, and the numbers in their sentences."""

import itertools
import math
import os
import time
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import torch
from small_runs import edited

import models
import viz_app.navigation  # noqa: F401  # declares every URL parameter
from models.runs.surveys import SHARE_DIFFERENCE
from models.trace.edits import HeadOff, MaskChange, SetWeights, Where, from_text
from viz_app.controls import lesson_panel
from viz_app.controls.lesson_panel import LESSON_PAGE_NAMES, offered_lessons
from viz_app.lessons import library
from viz_app.lessons.form import with_unit
from viz_app.lessons.lesson import Lesson
from viz_app.lessons.picture import comparable, lesson_picture
from viz_app.lessons.reader import MAX_LESSON_BYTES, LessonError, parse_lesson, read_lesson
from viz_app.lessons.readings import READINGS, finder
from viz_app.lessons.readings.registry import share_value, value_in_unit
from viz_app.lessons.sentence import Reading, ReadingValue, read_sentence
from viz_app.navigation import PAGES as ALL_PAGES
from viz_app.session.current_run import CurrentRun
from viz_app.session.lesson_state import PREDICTED
from viz_app.session.parameters import declared_parameters

STEP = """## Does it change?
open: attention?checkpoint=eng-fra&source=We+like+him.
It reads the words.

predict: choose
- yes: Yes
- no: No
then: pin ?source=We+like+tea.
happened: {run.output = pinned.output ? no | yes}
reveal: It wrote “{run.output}”
from “{run.read}”.

And {run.tokens(source)} tokens.
"""
LESSON = f"# A title\nWhat it is about.\nminutes: 5\n\n{STEP}"


def parse(text: str) -> Lesson:
    return parse_lesson(text, Path("mine.md"), LESSON_PAGE_NAMES, declared_parameters())


@cache
def run_of(name: str, *texts: str) -> CurrentRun:
    scope = models.load(name)
    return CurrentRun(scope, scope.run(*texts))


def reading_words(expression: str, run: CurrentRun, pinned: CurrentRun | None = None) -> str:
    return read_sentence(f"{{{expression}}}").words(finder(run, pinned))


def test_a_lesson_is_read() -> None:
    lesson = parse(LESSON)
    (step,) = lesson.steps
    assert (lesson.name, lesson.title, lesson.about, lesson.minutes) == (
        "mine", "A title", "What it is about.", 5,
    )  # fmt: skip
    assert (step.question, step.text, step.page) == (
        "Does it change?",
        "It reads the words.",
        "attention",
    )
    assert step.query == {"checkpoint": ["eng-fra"], "source": ["We like him."]}
    assert step.then == {"source": ["We like tea."]}
    assert step.pins
    assert step.prediction.options == {"yes": "Yes", "no": "No"}
    first, second = run_of("eng-fra", "We like him."), run_of("eng-fra", "We like tea.")
    find = finder(second, first)
    assert [paragraph.words(find) for paragraph in step.reveal] == [
        f"It wrote “{second.trace.output}” from “We like tea.”.",
        f"And {len(second.trace.streams['source'].tokens)} tokens.",
    ]
    assert step.happened.words(find) == "yes"
    assert step.happened.words(finder(first, first)) == "no"


def predicting(prediction: str, happened: str) -> str:
    """Return a lesson of one step with this prediction."""
    return (
        "# A title\nminutes: 5\n\n## Which one?\nopen: attention?checkpoint=eng-fra&source=We+like+him.\n"
        f"It reads the words.\n\n\npredict: {prediction}\nhappened: {{{happened}}}\nreveal: So.\n"
    )


BAD = {
    "no title": ("minutes: 5\n", 1, "its title"),
    "no minutes": (f"# A\n{STEP}", 1, "minutes is missing"),
    "minutes of words": (f"# A\nminutes: five\n{STEP}", 2, "whole number"),
    "minutes beyond the limit": (f"# A\nminutes: 61\n{STEP}", 2, "whole number"),
    "minutes with a zero before them": (f"# A\nminutes: 0605\n{STEP}", 2, "whole number"),
    "minutes in other digits": (f"# A\nminutes: ٥\n{STEP}", 2, "whole number"),
    "no step": ("# A\nminutes: 5\n", 1, "steps"),
    "a page that is not there": (LESSON.replace("open: attention", "open: atention"), 6, "atention"),
    "another site": (LESSON.replace("open: attention", "open: https://x.org/attention"), 6, "begins with"),
    "a parameter that is not there": (LESSON.replace("source=", "sauce="), 6, "sauce"),
    "a value out of range": (LESSON.replace("source=We+like+him.", "head=-1"), 6, "head"),
    "a prediction in the address": (LESSON.replace("source=We+like+him.", "predicted=1.yes"), 6, "not part of a step"),
    "no prediction": (LESSON.replace("predict: choose\n- yes: Yes\n- no: No\n", ""), 5, "predict is missing"),
    "an unknown prediction": (LESSON.replace("choose", "guess"), 9, "choose, token"),
    "one option": (LESSON.replace("- no: No\n", ""), 9, "2 to 6 options"),
    "an option twice": (LESSON.replace("- no: No", "- yes: No"), 11, "its own key"),
    "a choice that is no option": (LESSON.replace("? no |", "? never |"), 13, "never is not one"),
    "an unknown reading": (LESSON.replace("run.read", "run.sauce"), 14, "sauce"),
    "an unknown run": (LESSON.replace("{run.read}", "{other.read}"), 14, "other"),
    "a reading without its argument": (LESSON.replace("tokens(source)", "tokens"), 17, "tokens(stream)"),
    "code": (LESSON.replace("{run.read}", "{__import__('os').getcwd()}"), 14, "not a reading"),
    "an attribute": (LESSON.replace("{run.read}", "{run.scope.path}"), 14, "not a reading"),
    "an open brace": (LESSON.replace("{run.read}", "{run.read"), 14, "no counterpart"),
    "a field twice": (LESSON.replace("then:", "open: attention\nthen:"), 12, "appears twice"),
    "a field of the head": (LESSON.replace("then:", "minutes: 3\nthen:"), 12, "does not belong"),
    "a pin without a name": (LESSON.replace("checkpoint=eng-fra&", ""), 6, "names its checkpoint"),
    "control characters": (LESSON.replace("words", "wo\x1brds"), 1, "control characters"),
    "a token's text for its place": (predicting("token target", "run.choice(1)"), 10, "most_surprising or most_read"),
    "an order for a token": (predicting("token target", "run.surprise"), 10, "most_surprising or most_read"),
    "a comparison for a token": (predicting("token target", "run.loss < 1 ? a | b"), 10, "most_surprising or most_read"),
    "a token for an order": (predicting("order target", "run.most_surprising"), 10, "happened is surprise"),
    "a number for cells": (predicting("cells decoder.layers.0.self_attn", "run.loss"), 10, "happened is allowed"),
    "the cells of another attention": (predicting("cells decoder.layers.0.self_attn", "run.allowed(encoder)"), 10, "another attention"),
    "words for happened": (LESSON.replace("happened: {", "happened: so {"), 13, "one reading"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_a_broken_file_is_refused_with_line_and_reason(case: str) -> None:
    text, line, reason = BAD[case]
    with pytest.raises(LessonError) as error:
        parse(text)
    assert str(error.value).startswith(f"mine.md, line {line}: "), error.value
    assert reason in str(error.value)


ATTACKS = {
    "ten thousand steps": LESSON + STEP * 10_000,
    "braces in braces": LESSON.replace("{run.read}", "{" * 10_000 + "run.read" + "}" * 10_000),
    "a place of many signs": LESSON.replace(
        "{run.read}", "{" + "run.read - " * 3_000 + "run.read}"
    ),
    "a choice of many": LESSON.replace("? no | yes", "? " + "no | " * 3_000 + "yes"),
    "an address to another site": LESSON.replace(
        "?source=We+like+tea.", "//evil.example/attention"
    ),
    "a script for an address": LESSON.replace("open: attention", "open: javascript:alert(1)"),
    "many parameters": LESSON.replace("&source=", "&source=x" * 3_000 + "&source="),
    "a reading of a reading": LESSON.replace("run.read", "run.token({run.read}, 0)"),
    "a number without end": LESSON.replace("tokens(source)", f"token(source, {'9' * 5_000})"),
}


@pytest.mark.parametrize("case", ATTACKS)
def test_a_hostile_file_is_refused_at_once(case: str, tmp_path: Path) -> None:
    """The error names a line and a reason, or the size; none takes more than a moment."""
    path = tmp_path / "mine.md"
    path.write_text(ATTACKS[case])
    start = time.process_time()
    with pytest.raises(LessonError) as error:
        read_lesson(path, LESSON_PAGE_NAMES, declared_parameters())
    assert time.process_time() - start < 1
    assert "mine.md" in str(error.value)
    assert len(str(error.value)) < 500


def test_markup_in_an_option_stays_text() -> None:
    evil = "<script>alert(1)</script><img src=x onerror=alert(1)>"
    lesson = parse(LESSON.replace("- yes: Yes", f"- yes: {evil}"))
    run = run_of("eng-fra", "We like him.")
    asked = lesson_picture(lesson, 1, {}, run, run, True)["form"]
    assert asked["options"][0] == ["yes", evil]  # lesson.js sets it with textContent


def test_a_file_is_read_with_a_bound(tmp_path: Path) -> None:
    large, pipe, latin = tmp_path / "large.md", tmp_path / "pipe.md", tmp_path / "latin.md"
    large.write_text("# A\n" + "x" * MAX_LESSON_BYTES)
    os.mkfifo(pipe)
    latin.write_bytes(b"# \xe9t\xe9\n")
    for path in (large, pipe, latin):
        with pytest.raises(LessonError):
            read_lesson(path, LESSON_PAGE_NAMES, declared_parameters())


def test_a_users_lessons_are_offered_and_reread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(library.LESSONS_VARIABLE, str(tmp_path))
    shipped = [lesson.name for lesson in offered_lessons().lessons]
    (tmp_path / "mine.md").write_text(LESSON)
    (tmp_path / "broken.md").write_text("# A\n")
    both = offered_lessons()
    assert [lesson.name for lesson in both.lessons] == ["mine", *shipped]
    assert [error.partition(",")[0] for error in both.errors] == ["broken.md"]
    (tmp_path / "mine.md").write_text(LESSON.replace("A title", "Another title"))
    assert offered_lessons().named("mine").title == "Another title"


def test_steps_open_every_page_of_a_run() -> None:
    assert {*LESSON_PAGE_NAMES, "lessons", "train"} == set(ALL_PAGES)


@pytest.mark.parametrize("name", [lesson.name for lesson in offered_lessons().lessons])
def test_a_shipped_lesson_asks_before_it_reveals(name: str) -> None:
    lesson = offered_lessons().named(name)
    assert not offered_lessons().errors
    assert 3 <= len(lesson.steps) <= 8
    assert lesson.minutes <= 8
    for step in lesson.steps:
        assert step.question.endswith("?")
        assert any(sentence.readings for sentence in step.reveal), step.question
        assert step.happened.readings


FIND = {
    "run.a": ReadingValue(2.0, "2.0", "{:.1f}".format),
    "run.b": ReadingValue(0.5, "0.5", "{:.1f}".format),
    "run.c": ReadingValue("x", "x"),
}


def find(reading: Reading) -> ReadingValue:
    return FIND[f"{reading.whose}.{reading.name}"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{run.a}", "2.0"),
        ("{run.a - run.b}", "1.5"),
        ("{run.b - run.a}", "-1.5"),
        ("{run.a > run.b ? more | less}", "more"),
        ("{run.b > run.a ? more | less}", "less"),
        ("{run.b < 0.5 ? more | less}", "less"),
        ("{run.c = 'x' ? so | not so}", "so"),
        ("{run.c = 'y' ? so | not so}", "not so"),
        ("It is {run.a}, not {run.b}.", "It is 2.0, not 0.5."),
    ],
)
def test_a_sentence_is_filled_in(text: str, words: str) -> None:
    assert read_sentence(text).words(find) == words


def test_a_text_equals_the_words_of_a_token_or_number() -> None:
    """A most-read token has the value of its position, and the output of a sum is a text."""
    run = run_of("eng-fra", "We like him.")
    site = "decoder.layers.1.cross_attn, 2, 1"
    token = reading_words(f"run.most_read({site})", run)
    place = finder(run, None)(Reading("run", "most_read", tuple(site.split(", ")))).value
    for other, expected in (
        (f"'{token}'", "yes"),
        (f"run.token(source, {place})", "yes"),
        (f"run.token(source, {place - 1})", "no"),
        (place, "yes"),
    ):
        assert reading_words(f"run.most_read({site}) = {other} ? yes | no", run) == expected
    for text in ("{'1234567' = 1234567 ? yes | no}", "{run.tokens(source) = '5' ? yes | no}"):
        assert read_sentence(text).words(finder(run, None)) == "yes"


@pytest.mark.parametrize("text", ["{run.c - run.c}", "{run.c < 'y' ? a | b}"])
def test_texts_are_not_subtracted_nor_ordered(text: str) -> None:
    with pytest.raises(ValueError, match="only numbers"):
        read_sentence(text).words(find)


def test_readings_match_the_library() -> None:
    run = run_of("eng-fra", "We like him.")
    site = run.trace.attention["decoder.layers.1.cross_attn"]
    weights = site.weights(2)
    q = f"run.most_read({site.name}, 2, 1)"
    assert reading_words(q, run) == site.key_tokens[int(weights[1].argmax())].removeprefix("▁")
    largest = reading_words(f"run.largest_weight({site.name}, 2, 1)", run)
    assert largest == f"{100 * float(weights[1].max()):.0f} %"
    assert reading_words(f"run.weight({site.name}, 2, 1, 0)", run).endswith("%")
    answer = run.trace.next_token
    chosen = answer.log_probs[range(len(answer.labels)), list(answer.labels)]
    assert float(reading_words("run.loss", run)) == pytest.approx(-float(chosen.mean()), abs=0.006)
    assert reading_words("run.probability(0)", run) == f"{100 * math.exp(float(chosen[0])):.0f} %"
    assert reading_words("run.tokens(source)", run) == str(len(run.trace.streams["source"].tokens))
    assert reading_words("run.output", run) == run.trace.output
    assert reading_words("run.heads", run) == "54"
    assert reading_words("run.heads_off", run) == "0"
    mask = run.trace.attention["decoder.layers.0.self_attn"]
    n = mask.n_query
    open_cells = reading_words(f"run.allowed({mask.name})", run)
    assert open_cells == f"{n * (n + 1) // 2} of {n * n} cells"


def test_readings_of_a_changed_run() -> None:
    scope = models.load("eng-fra")
    original = CurrentRun(scope, scope.run("We like him."))
    name, head, query = "decoder.layers.1.cross_attn", 2, 1
    own = original.trace.attention[name].weights(head)[query].double()
    edits = [
        HeadOff("decoder.layers.0.cross_attn", head=3),
        SetWeights(Where(site=name, heads=(head,), queries=(query,)), cells=((0, 1.0),)),
    ]
    run = CurrentRun(scope, scope.run("We like him.", edits=edits), original=original)
    assert reading_words("run.heads_off", run) == "1"
    change = reading_words(
        f"run.weight({name}, {head}, {query}, 0) - unchanged.weight({name}, {head}, {query}, 0)",
        run,
    )
    assert change == f"{100 * (1 - float(own[0])):.0f} points"
    new = torch.zeros_like(own)
    new[0] = 1
    middle = (own + new) / 2
    kl = [float((p[p > 0] * (p / middle)[p > 0].log()).sum()) for p in (own, new)]
    js = float(reading_words(f"run.divergence({name}, {head}, {query})", run))
    assert js == pytest.approx(sum(kl) / 2, abs=0.03)  # head 3 above has changed the row, too


def test_a_whole_attention_that_is_off_counts_with_all_its_heads() -> None:
    scope, name = models.load("eng-fra"), "decoder.layers.0.cross_attn"
    edits = [HeadOff(name), HeadOff("decoder.layers.1.cross_attn", head=2), HeadOff(name, head=1)]
    run = CurrentRun(scope, scope.run("We like him.", edits=edits))
    assert reading_words("run.heads_off", run) == str(run.trace.attention[name].n_heads + 1)


def test_changed_words_are_counted_in_its_own_text() -> None:
    original = run_of("eng-fra", "We like him.")
    whole = reading_words("run.writes", original).split()
    spec = replace(original.spec, forced=((1, original.scope.config.end_id),))
    run = CurrentRun(original.scope, original.trace, spec=spec, original=original)
    words = reading_words("run.writes", run).split()
    assert 0 < len(words) < len(whole)
    others = sum(word not in whole for word in words)
    assert reading_words("run.changed_words", run) == str(others)
    assert len(whole) - (len(words) - others) > others  # missing words do not count


def test_a_text_read_backwards_changes_vectors_only_with_positions() -> None:
    run = run_of("eng-fra", "We like him.")
    model, ids = run.scope.model, run.trace.streams["source"].ids
    order = [*range(len(ids) - 2, -1, -1), len(ids) - 1]
    both = torch.tensor([ids, [ids[i] for i in order]])
    with torch.no_grad():
        own, backwards = model.encode(both, model.masks(both, both[:, :0]))
    change = (backwards[torch.tensor(order).argsort()] - own).norm(dim=1) / own.norm(dim=1)
    assert reading_words("run.change_backwards(with)", run) == f"{float(change.max()):.2f}"
    assert float(reading_words("run.change_backwards(without)", run)) < 1e-4 < float(change.max())


def test_a_text_read_backwards_is_read_under_the_edits_of_the_run() -> None:
    plain = run_of("eng-fra", "We like him.")
    off = edited(plain, (HeadOff("encoder.layers.1.self_attn"),))
    both = [reading_words("run.change_backwards(with)", run) for run in (plain, off)]
    assert both[0] != both[1]
    painted = edited(plain, (MaskChange(Where(kind="encoder_self"), block=((0, 1),)),))
    with pytest.raises(ValueError, match="depends on positions of the source"):
        reading_words("run.change_backwards(with)", painted)


def test_a_token_of_a_text_has_the_bits_of_its_own_prediction() -> None:
    run = run_of("gpt", "Once upon a time")
    tokens, bits = run.trace.streams["text"].tokens, run.trace.next_token.surprisal.tolist()
    for position in range(1, len(tokens)):
        assert reading_words(f"run.bits({position})", run) == f"{bits[position - 1]:.1f}"
    place = finder(run, None)(Reading("run", "most_surprising"))
    assert (place.value, place.words) == (
        1 + bits.index(max(bits)),
        tokens[place.value].removeprefix("▁"),
    )


def test_a_hidden_token_is_named_by_its_position_in_the_text() -> None:
    scope = models.load("bert", device="cpu")
    row = scope.encode("The cat drank milk.")["text"]
    hidden = [i for i, offset in enumerate(row.offsets) if offset is not None][2]
    run = CurrentRun(scope, scope.run("The cat drank milk.", masked=(hidden,)))
    place = finder(run, None)(Reading("run", "most_surprising"))
    assert place.value == hidden
    assert place.words == row.tokens[hidden]


@pytest.mark.parametrize(
    ("number", "unit", "written"),
    [("1", "words", "1 word"), ("2", "words", "2 words"), ("1", "ms", "1 ms"), ("1", "loss", "1 loss"), ("1", "%", "1 %"),
     ("62 %", "%", "62 %"), ("1.00", "nats", "1.00 nats")],
)  # fmt: skip
def test_a_number_has_its_unit_once_and_after_1_in_the_singular(
    number: str, unit: str, written: str
) -> None:
    assert with_unit(number, unit) == written


def test_missing_parts_are_reported() -> None:
    run = run_of("eng-fra-rnn", "We like him.")
    for expression in ("run.weight(decoder.layers.1.cross_attn, 0, 0, 0)", "run.allowed(x)"):
        with pytest.raises(ValueError, match="no attention"):
            reading_words(expression, run)
    with pytest.raises(ValueError, match="no run is pinned"):
        reading_words("pinned.output", run)
    for path in ("scores/there is none", "curve/00000099999/loss"):
        with pytest.raises(ValueError, match="no number"):
            reading_words(f"run.stored({path})", run)


def test_surprise_sorts_tokens() -> None:
    run = run_of("gpt", "Once upon a time")
    answer = run.trace.next_token
    bits = answer.surprisal.tolist()
    value = finder(run, None)(Reading("run", "surprise"))
    assert value.value == tuple(sorted(range(len(bits)), key=lambda i: -bits[i]))
    assert f"{max(bits):.1f} bits" in value.words.split(",")[0]


@pytest.mark.parametrize(
    ("model", "text", "stream"),
    [("eng-fra", "We like him.", "target"), ("gpt", "We drank tea.", "text"), ("xlnet", "We drank tea.", "text")],
)  # fmt: skip
def test_the_order_of_surprise_can_be_predicted(model: str, text: str, stream: str) -> None:
    run = run_of(model, text)
    answer = next(iter(run.trace.outputs.values()))
    order = answer.surprisal.argsort(descending=True).tolist()
    lesson = parse(predicting(f"order {stream}", "run.surprise"))
    tokens = lesson_picture(lesson, 1, {}, run, None, True)["form"]["tokens"]
    told = lesson_picture(lesson, 1, {1: "-".join(map(str, order))}, run, None, True)["reveal"]
    assert told["agrees"] is True
    assert told["prediction"] == ", ".join(tokens[place] for place in order)
    assert ("[end]" in tokens) == (model == "eng-fra")


def test_equal_tokens_are_distinguished_by_their_position() -> None:
    run = run_of("gpt", "The dog and the dog and the cat.")
    lesson = parse(predicting("token text", "run.most_surprising"))
    tokens = lesson_picture(lesson, 1, {}, run, None, True)["form"]["tokens"]
    assert len(set(tokens)) == len(tokens)
    assert tokens[1] == "The"
    place = finder(run, None)(Reading("run", "most_surprising")).value
    name, is_numbered, _ = tokens[place].partition(" (token ")
    assert is_numbered
    (other,) = (i for i, one in enumerate(tokens) if one.startswith(f"{name} (") and i != place)
    told = lesson_picture(lesson, 1, {1: str(other)}, run, None, True)["reveal"]
    assert (told["prediction"], told["happened"]) == (tokens[other], tokens[place])
    assert told["prediction"] == f"{name} (token {other + 1})"
    assert reading_words("run.surprise", run).count(f"{name} (token ") == 2
    assert f"{tokens[place]} " in reading_words("run.surprise", run)


def test_a_tiny_number_is_compared_unrounded() -> None:
    lesson = parse(predicting("number nats", "run.loss"))
    run = run_of("reverse-unmasked", "ffjdf", "fdjff")
    assert "e-" in reading_words("run.loss", run)
    value = comparable(lesson.steps[0], run, None)
    exact = finder(run, None)(Reading("run", "loss")).value
    assert value == pytest.approx(exact, rel=0.5)
    told = lesson_picture(lesson, 1, {1: "1234567"}, run, None, True)["reveal"]
    assert told["prediction"] == "1,234,567 nats"


def test_a_number_of_what_happened_is_the_key_of_an_option() -> None:
    run = run_of("eng-fra", "We like him.")
    n = len(run.trace.streams["source"].tokens)
    options = f"choose\n- {n}: As many\n- {n + 1}: One more"
    lesson = parse(predicting(options, "run.tokens(source)"))
    told = lesson_picture(lesson, 1, {1: f"{n}"}, run, None, True)["reveal"]
    assert (told["agrees"], told["happened"]) == (True, "As many")
    assert comparable(lesson.steps[0], run, None) == f"{n}"
    told = lesson_picture(lesson, 1, {1: f"{n + 1}"}, run, None, True)["reveal"]
    assert told["agrees"] is False


@pytest.mark.parametrize(
    ("prediction", "happened", "reason"),
    [
        ("token source", "run.most_read(decoder.layers.0.self_attn, 0, 1)", "token of the target"),
        ("token source", "run.most_surprising", "token of the target"),
        ("number words", "run.output", "no number"),
        ("number tokens", "run.most_read(decoder.layers.0.cross_attn, 0, 1)", "no number"),
    ],
)
def test_a_prediction_is_not_compared_with_something_else(
    prediction: str, happened: str, reason: str
) -> None:
    run, lesson = run_of("eng-fra", "We like him."), parse(predicting(prediction, happened))
    picture = lesson_picture(lesson, 1, {1: "1"}, run, None, True)
    assert picture["reveal"] is None
    assert reason in picture["error"]


@pytest.mark.parametrize(
    ("change", "written"),
    [
        (-0.0031, "-0.3 points"),
        (0.0002, "0.02 points"),
        (-0.0, "0 points"),
        (-0.124, "-12 points"),
        (-0.0099, "-1 point"),
        (0.11, "11 points"),
    ],
)
def test_a_change_of_a_share_is_not_rounded_to_none(change: float, written: str) -> None:
    assert share_value(0.5).write(change) == written
    signed = written if change < 0 else f"+{written}"
    if change:
        assert value_in_unit(change, SHARE_DIFFERENCE).words == signed


def test_no_order_is_requested_of_tokens_that_are_not_predicted() -> None:
    lesson = parse(predicting("order source", "run.surprise"))
    picture = lesson_picture(lesson, 1, {}, run_of("eng-fra", "We like him."), None, True)
    assert picture["form"] is None
    assert "no probability to the tokens of the source" in picture["error"]


def test_the_head_that_a_question_names_is_first_in_the_record() -> None:
    """Lesson 8 says of layer 3, head 3 that it raises the loss most."""
    first = models.load("eng-fra").training["ablation"]["heads"][0]
    assert (first["kind"], first["layer"], first["head"]) == ("cross", 2, 2)
    text = (library.SHIPPED_LESSONS / "8-explanation.md").read_text("utf-8")
    assert "Layer 3, head 3: of all heads" in text
    run = run_of("eng-fra", "We like him.")
    record = run.scope.training["ablation"]
    assert reading_words("run.costliest_kind", run) == "cross"
    needed = [h for h in record["heads"] if h["is_marked"] and h["effect"]["mean"] > 0]
    assert reading_words("run.marked_heads", run) == str(len(needed))


def test_a_head_whose_loss_falls_is_not_counted_as_raising_it() -> None:
    run = run_of("xlnet", "The cat is here.")
    heads = run.scope.training["ablation"]["heads"]
    needed = sum(h["is_marked"] and h["effect"]["mean"] > 0 for h in heads)
    assert needed < sum(h["is_marked"] for h in heads)
    assert reading_words("run.marked_heads", run) == str(needed)


# lesson, what its question takes for granted, the run, a reading, and its value
GRANTED = [
    ("1-one-vector", "on 2 or 3 words?", "eng-fra-rnn", "run.stored(by_length/0/least)", "2"),
    ("1-one-vector", "on 2 or 3 words?", "eng-fra-rnn", "run.stored(by_length/0/most)", "3"),
    ("1-one-vector", "of 12 words or more", "eng-fra-rnn", "run.stored(by_length/5/least)", "12"),
    ("1-one-vector", "long sentences keep", "eng-fra-bahdanau", "run.stored(by_length/5/least)", "12"),
    ("2-alignment", "Before “noir” the model wrote “chat”.", "eng-fra-bahdanau", "run.decision(1)", "chat"),
    ("2-alignment", "The model writes “Le”", "eng-fra-bahdanau", "run.decision(0)", "Le"),
    ("3-heads", "The model has 54 heads.", "eng-fra", "run.heads", "54"),
    ("5-one-wrong-word", "“Le” is replaced by", "eng-fra", "run.decision(0)", "Le"),
    ("8-explanation", "A Transformer has 54 heads.", "eng-fra", "run.heads", "54"),
    ("8-explanation", "the row that writes “noir”", "eng-fra-bahdanau", "run.decision(2)", "noir"),
]  # fmt: skip


@pytest.mark.parametrize(("lesson", "words", "model", "reading", "value"), GRANTED)
def test_the_assumptions_of_questions_hold(
    lesson: str, words: str, model: str, reading: str, value: str
) -> None:
    assert words in (library.SHIPPED_LESSONS / f"{lesson}.md").read_text("utf-8")
    assert reading_words(reading, run_of(model, "The black cat is here.")) == value


@pytest.mark.parametrize("number", [3, 4])
def test_the_number_of_heads_of_a_kind_is_that_in_the_question(number: int) -> None:
    step = offered_lessons().named("3-heads").steps[number - 1]
    scope = models.load("eng-fra")
    text = step.query["source"][0]
    edits = from_text(step.then["edits"][0])
    run = CurrentRun(scope, scope.run(text, edits=edits), original=run_of("eng-fra", text))
    assert f"ll {reading_words('run.heads_off', run)} heads of " in step.question
    kinds = {(name.split(".")[0], name.split(".")[-1]) for name in run.trace.attention}
    off = {edit.where.site for edit in edits}
    assert off in [
        {name for name in run.trace.attention if (name.split(".")[0], name.split(".")[-1]) == kind}
        for kind in kinds
    ]


@pytest.mark.parametrize(("number", "word"), [(1, "Un"), (2, "Nous"), (3, "Nous")])
def test_the_forced_word_is_the_one_in_the_question(number: int, word: str) -> None:
    step = offered_lessons().named("5-one-wrong-word").steps[number - 1]
    assert f"“{word}”" in step.question
    token = int(step.then["force"][0].partition(":")[2])
    assert models.load("eng-fra").tokenizer.tokens([token]) == (f"▁{word}",)


def test_where_a_forced_word_is_counted_the_question_does_not_ask_for_the_others() -> None:
    """A continuation that changes nothing else counts one word, the forced one."""
    step = offered_lessons().named("5-one-wrong-word").steps[0]
    assert step.happened.readings == (Reading("run", "changed_words"),)
    original = run_of("eng-fra", step.query["source"][0])
    forced = replace(original.spec, forced=((0, int(step.then["force"][0].partition(":")[2])),))
    run = CurrentRun(original.scope, original.trace, spec=forced, original=original)
    assert reading_words("run.changed_words", run) == "1"
    assert "other" not in step.question


@pytest.mark.parametrize(
    ("source", "option"),
    [("The black cat is here.", "Three words or more"), ("We are here.", "Fewer than three words")],
)
def test_the_correct_option_is_the_number_of_changed_words(source: str, option: str) -> None:
    """These are the words after a forced first one; the options quote no word that the model may not write."""
    step = offered_lessons().named("5-one-wrong-word").steps[1]
    original = run_of("eng-fra", source)
    forced = replace(original.spec, forced=((0, int(step.then["force"][0].partition(":")[2])),))
    run = CurrentRun(original.scope, original.trace, spec=forced, original=original)
    new = Counter(reading_words("run.writes", run).split()) - Counter(
        reading_words("run.writes", original).split()
    )
    assert step.prediction.options[step.happened.words(finder(run, None))] == option
    assert (new.total() < 3) == (option == "Fewer than three words")


def revealed(lesson: str, step: int, run: CurrentRun, pinned: CurrentRun | None = None) -> str:
    """Return everything that a shipped step reveals about these runs."""
    one = read_lesson(
        library.SHIPPED_LESSONS / f"{lesson}.md", LESSON_PAGE_NAMES, declared_parameters()
    ).steps[step - 1]
    return " ".join(paragraph.words(finder(run, pinned)) for paragraph in one.reveal)


def test_the_stated_reading_order_is_that_of_the_weights() -> None:
    """English puts “black” before “cat”; the row of “chat”, the first of the two, reads the later word."""
    for source, crossed in (("The black cat is here.", True), ("My black cat is old.", None)):
        run = run_of("eng-fra-bahdanau", source)
        read = run.trace.attention["decoder.alignment"].weights(0).argmax(-1)
        turned = bool(read[2] < read[1])
        assert crossed in (None, turned)
        assert ("the order of the French" in revealed("2-alignment", 1, run)) == turned
    plain = run_of("eng-fra-bahdanau", "The cat is here.")
    read = plain.trace.attention["decoder.alignment"].weights(0).argmax(-1)
    assert read[2] > read[1]
    assert "in the order of the English" in revealed("2-alignment", 1, plain)


def test_two_rows_that_read_the_same_token_have_no_reading_order() -> None:
    run = run_of("eng-fra-bahdanau", "We like big dogs.")
    read = run.trace.attention["decoder.alignment"].weights(0).argmax(-1)
    assert read[1] == read[2]
    said = revealed("2-alignment", 1, run)
    assert "in the order of" not in said
    assert "The row before it reads the same token most. No training example" in said


@pytest.mark.slow
@pytest.mark.parametrize("source", ["The white horse is here.", "The cat is here.", "The dog is here."])  # fmt: skip
def test_the_chosen_word_is_the_models_own(source: str) -> None:
    lesson = offered_lessons().named("5-one-wrong-word")
    run = run_of("eng-fra", source, "Le chien noir est ici.")
    (chosen,) = run.scope.tokenizer.tokens([int(run.trace.next_token.log_probs[1].argmax())])
    told = lesson_picture(lesson, 6, {6: "chat"}, run, None, True)["reveal"]
    assert told["happened"].split()[0] == chosen.removeprefix("▁")
    assert f"its choice is “{told['happened'].split()[0]}”" in told["paragraphs"][0]
    assert told["agrees"] is (chosen == "▁chat")


def test_tokens_before_a_token_are_not_called_words() -> None:
    run = run_of("gpt", "Unbelievable elephants breakfasted yesterday.")
    tokens = [token.removeprefix("▁") for token in run.trace.streams["text"].tokens]
    said = revealed("7-three-families", 1, run)
    assert f"“{tokens[2]}” has one token before it, “{tokens[6]}” has five." in said


def test_the_sentence_on_seeing_the_answer_follows_the_mask() -> None:
    scope, source = models.load("eng-fra"), "I am cold."
    plain = run_of("eng-fra", source)
    site = plain.trace.attention["decoder.layers.0.self_attn"]
    lift = MaskChange(Where(kind=site.kind), removed_layers=("look-ahead",))
    lifted = CurrentRun(scope, scope.run(source, edits=[lift]), original=plain)
    n = site.n_query
    for run, n_ahead in ((plain, 0), (lifted, n * (n - 1) // 2)):
        assert reading_words(f"run.cells_ahead({site.name})", run) == str(n_ahead)
        said = revealed("4-masks", 1, run)
        assert ("No token may attend to a later one" in said) == (n_ahead == 0)
        assert ("Some tokens may attend to later ones" in said) == (n_ahead > 0)


@pytest.mark.parametrize("target", ["fdjff", "abcde"])
def test_without_a_mask_a_given_letter_is_copied_and_a_missing_one_is_not(target: str) -> None:
    """Its loss is just as low on letters that are no answer: the source plays no part."""
    run = run_of("reverse-unmasked", "ffjdf", target)
    assert (
        -float(run.trace.next_token.log_probs[range(5), run.trace.next_token.labels[:5]].mean())
        < 0.1
    )
    assert "perfect pupil" in revealed("4-masks", 3, run)
    assert run.scope.write("ffjdf").text == ""
    assert "That is nothing" in revealed("4-masks", 4, run)
    masked = run_of("dates", "5 March 2021", "2021-04-06")
    assert "has not learnt to copy" in revealed("4-masks", 3, masked)
    assert "That is what it writes" in revealed("4-masks", 4, masked)


@pytest.mark.parametrize("text", ["She drank a cup of tea.", "We went to the zoo yesterday."])
def test_the_easier_guess_is_the_one_with_fewer_bits(text: str) -> None:
    run = run_of("gpt", text)
    answer = run.trace.next_token
    bits = answer.surprisal.tolist()
    said = revealed("7-three-families", 1, run)
    assert ("the easier one" in said) == (bits[5] < bits[1])
    assert ("do not make the guess easier" in said) == (bits[5] >= bits[1])


def surveyed_run(name: str, survey: str, unit: str, **means: float) -> CurrentRun:
    """Return a run of a shipped model whose record has these means, with intervals of ± 0.05."""
    scope = models.load(name)
    record = {
        key.replace("_", " "): {
            "unit": unit,
            "mean": mean,
            "low": mean - 0.05,
            "high": mean + 0.05,
            "n_texts": 83,
        }
        for key, mean in means.items()
    }
    scope.training = scope.training | {"surveys": {survey: {"means": record}}}
    return CurrentRun(scope, scope.run("The black cat is here."))


def test_a_survey_is_read_from_the_record_of_the_weights_on_the_screen() -> None:
    run = run_of("eng-fra", "The black cat is here.")
    recorded = run.scope.training["surveys"]["recovery"]["means"]["first unmoved"]
    shares = [f"{100 * recorded[name]:.0f} %" for name in ("mean", "low", "high")]
    assert reading_words("run.surveyed(recovery, first unmoved)", run) == shares[0]
    assert (
        reading_words("run.interval(recovery, first unmoved)", run) == f"{shares[1]} to {shares[2]}"
    )
    assert reading_words("run.surveyed_texts(recovery, first unmoved)", run) == str(
        recorded["n_texts"]
    )
    aligned = run_of("eng-fra-bahdanau", "The black cat is here.")
    nats = aligned.scope.training["surveys"]["weights"]["means"]["adversary"]
    assert reading_words("run.surveyed(weights, adversary)", aligned) == f"{nats['mean']:.2f}"
    assert (
        reading_words("run.interval(weights, adversary)", aligned)
        == f"{nats['low']:.2f} to {nats['high']:.2f}"
    )
    with pytest.raises(
        ValueError, match="these weights of eng-fra have no record of a survey named weights"
    ):
        reading_words("run.surveyed(weights, adversary)", run)
    with pytest.raises(ValueError, match="it has no last recovered"):
        reading_words("run.interval(recovery, last recovered)", run)


@pytest.mark.slow
def test_sentences_on_recovery_follow_the_survey() -> None:
    for first, middle in ((0.62, 0.81), (0.31, 0.22), (0.52, 0.57)):
        means = {"first_recovered": first, "first_unmoved": 0.11, "middle_recovered": middle}
        run = surveyed_run("eng-fra", "recovery", "share", **means)
        said = revealed("5-one-wrong-word", 4, run)
        assert f"{100 * first:.0f} % of 83 translations recover" in said
        assert ("So most find their way back" in said) == (
            first == 0.62
        )  # its interval is above a half
        assert ("do not show that most find" in said) == (first != 0.62)
        said = revealed("5-one-wrong-word", 5, run)
        assert f"{100 * middle:.0f} % recover" in said
        assert ("do not overlap" in said) == (middle == 0.81)
        assert ("do not settle the question" in said) == (middle != 0.81)
        step = read_lesson(
            library.SHIPPED_LESSONS / "5-one-wrong-word.md",
            LESSON_PAGE_NAMES,
            declared_parameters(),
        ).steps[4]
        assert step.happened.words(finder(run, None)) == ("more" if middle > first else "fewer")


@pytest.mark.slow
def test_sentences_on_other_weights_follow_the_survey() -> None:
    for kept, reached in ((0.71, 0.52), (0.35, 0.12)):
        shares = surveyed_run("eng-fra-bahdanau", "weights", "share", uniform=kept, permuted=0.4)
        said = revealed("8-explanation", 3, shares)
        assert f"{100 * kept:.0f} % stay (95 % interval {100 * kept - 5:.0f} % to" in said
        assert ("So most tokens do not need" in said) == (kept > 0.5)
        assert ("do not show that most tokens" in said) == (kept < 0.5)
        run = surveyed_run("eng-fra-bahdanau", "weights", "nats", adversary=reached)
        said = revealed("8-explanation", 4, run)
        assert f"it reaches {reached} nats" in said
        assert ("Very different weights keep" in said) == (reached > 0.35)
        assert ("only part of the way" in said) == (reached < 0.35)


@pytest.mark.slow
def test_sentences_on_frozen_weights_follow_the_survey() -> None:
    for over_learned, over_diagonal in ((0.2, 0.3), (0.2, 0.01), (0.03, 0.1), (-0.2, -0.3)):
        means = {"imposed": 0.61, "learned": 0.47, "uniform": 0.34, "diagonal": 0.29}
        gains = {
            "imposed_over_learned": over_learned,
            "imposed_over_diagonal": over_diagonal,
        }
        run = surveyed_run("eng-fra-bahdanau", "frozen", "share", **means, **gains)
        for name in ("imposed over learned", "imposed over diagonal"):
            run.scope.training["surveys"]["frozen"]["means"][name]["unit"] = "difference"
        run.scope.training["surveys"]["frozen"]["steps"] = 2357
        said = revealed("8-explanation", 5, run)
        assert "After 2,357 steps it predicts 61 % of the tokens with the frozen weights" in said
        assert "With its own it predicts 47 %, with uniform ones 34 %" in said
        assert f"The gain over its own is {100 * over_learned:+.0f} points (95 % interval" in said
        ends = [f"{100 * (over_learned + end):+.0f}" for end in (-0.05, 0.05)]
        assert f"{' to '.join(ends)} points" in said
        assert ("So the frozen weights help the small model more" in said) == (over_learned > 0.05)
        assert ("do not show that the frozen weights help" in said) == (over_learned < 0.05)
        assert ("They carry more than the order of the words. With" in said) == (
            over_diagonal > 0.05
        )
        assert ("They may carry no more than the order of the words. With" in said) == (
            over_diagonal < 0.05
        )
        step = read_lesson(
            library.SHIPPED_LESSONS / "8-explanation.md",
            LESSON_PAGE_NAMES,
            declared_parameters(),
        ).steps[4]
        assert step.happened.words(finder(run, None)) == (
            "more" if over_learned > 0.05 else "no-more"
        )


ARGUMENTS = {
    "site": ["decoder.layers.1.cross_attn", "decoder.alignment", "encoder.layers.0.self_attn", "no.such.site"],
    "stream": ["source", "target", "text", "no such stream"],
    "survey": ["recovery", "weights", "frozen", "no such survey"],
    "measure": ["first recovered", "adversary", "imposed over uniform", "no such measure"],
    "path": ["scores/cases", "by_length/0/score", "curve", "notes/0", "ablation/heads/99/effect"],
    "positions": ["with", "without"],
}  # fmt: skip
MODELS = {
    "eng-fra": ("We like him.",),
    "eng-fra-rnn": ("We like him.",),
    "eng-fra-bahdanau": ("We like him.",),
    "dates": ("15 May 2024",),
    "gpt": ("Once upon",),
    "bert": ("I am [MASK] years old.",),
    "xlnet": ("We drank tea.",),
    "gpt-sentiment": ("The food was good.",),
    "bert-where": ("Where is Mary?", "Mary went to the garden."),
}


@pytest.mark.parametrize("model", MODELS)
def test_a_reading_has_a_value_or_a_reason_for_its_absence(model: str) -> None:
    """This holds for every kind of model, whatever a teacher's own lesson asks for."""
    run = run_of(model, *MODELS[model])
    n_found = 0
    for name, named in READINGS.items():
        choices = [ARGUMENTS.get(one, ["0", "2", "999"]) for one in named.kinds]
        for arguments in itertools.product(*choices):
            with suppress(ValueError):
                value = finder(run, None)(Reading("run", name, arguments))
                n_found += 1
                assert value.words or name in ("output", "surprise")
    assert n_found >= 8


def test_each_reading_has_a_description() -> None:
    for named in READINGS.values():
        assert named.read.__doc__
        assert all(kind in (int, str) for kind in named.kinds.values())


def test_the_button_after_the_last_step_names_the_next_lesson() -> None:
    lessons = offered_lessons().lessons
    after = {"next": "Lesson 3 →", "nextTitle": lessons[2].title}
    assert lesson_panel._next_button(lessons[1]) == after
    assert lesson_panel._next_button(lessons[-1])["next"] == "All lessons"


def test_nothing_is_revealed_before_a_prediction() -> None:
    lesson = parse(LESSON)
    first, second = run_of("eng-fra", "We like him."), run_of("eng-fra", "We like tea.")
    before = lesson_picture(lesson, 1, {}, second, first, True)
    assert before["reveal"] is None
    assert second.trace.output not in str(before)
    after = lesson_picture(lesson, 1, {1: "no"}, second, first, True)
    assert after["form"] is None
    assert after["reveal"]["prediction"] == "No"
    assert after["reveal"]["happened"] == "Yes"
    assert after["reveal"]["agrees"] is False
    assert lesson_picture(lesson, 1, {1: "yes"}, second, first, True)["reveal"]["agrees"] is True


def test_a_prediction_for_another_step_is_reported() -> None:
    lesson = parse(LESSON)
    run = run_of("eng-fra", "We like him.")
    assert "a different run" in lesson_picture(lesson, 1, {1: "perhaps"}, run, run, True)["error"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1.yes_3.0-2-1", ((1, "yes"), (3, "0-2-1"))),
        ("2.40.5", ((2, "40.5"),)),
        ("1.<b>_99.a_0.b", ()),
        ("", ()),
    ],
)
def test_predictions_in_an_address(text: str, value: tuple) -> None:
    assert PREDICTED.read(text) == value
    assert PREDICTED.read(PREDICTED.write(value)) == value
