"""The page Compare: its numbers are those of two runs, and its sentences give the right direction."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from torch import nn

import models
from models.analysis.comparison import POSITIONS, compare
from models.trace.edits import Edit, MaskChange, Where, for_kinds
from viz_app.drawing.payload import unpack
from viz_app.input_bar.examples import readable_examples
from viz_app.session.cache import changed_run
from viz_app.session.current_run import CurrentRun
from viz_app.session.focus import Focus
from viz_app.session.live import Pictures
from viz_app.session.pinned import Pinned
from viz_app.views.compare import text
from viz_app.views.compare.compared import compare_heads
from viz_app.views.compare.difference import difference
from viz_app.views.compare.page import GRID_VIEW
from viz_app.views.compare.payloads import (
    CompareChoices,
    compare_payloads,
    current_comparison,
    distance_table,
)

TEXT = "She is reading a book."
MODELS = [
    "eng-fra",
    "gpt",
    "bert",
    "xlnet",
    "dates",
    "eng-fra-bahdanau",
    "gpt-sentiment",
    "bert-where",
]
ALONE = CompareChoices(None, Focus(), None)
SITE = "decoder.layers.2.cross_attn"


@cache
def run_of(name: str, given: str = TEXT) -> CurrentRun:
    scope = models.load(name, device="cpu")
    return CurrentRun(scope, scope.run(given))


@cache
def example_of(name: str) -> CurrentRun:
    scope = models.load(name, device="cpu")
    return CurrentRun(scope, scope.run(*readable_examples(scope)[0]))


def pinned(name: str, texts: tuple[str, ...] | None = None, *edits: Edit) -> Pinned:
    run = run_of(name)
    spec = replace(run.spec, edits=edits) if edits else None
    return Pinned(
        run.scope,
        texts,
        (None,) * (len(run.scope.model.fields) - len(run.scope.model.text_fields)),
        spec,
    )


def with_pinned(
    name: str, *edits: Edit, focus: Focus | None = None, **more: object
) -> CompareChoices:
    return CompareChoices(pinned(name, None, *edits), focus or Focus(), None)


def failed(drawn: Pictures) -> list[str]:
    return [line for look, line in drawn["checks"]["rows"] if look == "failed"]


@pytest.mark.slow(except_one_in=3)
@pytest.mark.parametrize("name", MODELS)
def test_a_run_beside_itself_compares_its_heads_with_one(name: str) -> None:
    run = example_of(name)
    drawn = compare_payloads(run, ALONE)
    grid, (header, arrays) = drawn["distances"], unpack(drawn["difference"])
    assert failed(drawn) == []
    reference = grid["reference"]
    (kind,) = grid["kinds"]
    row = kind["sites"].index(reference["site"])
    assert kind["values"][row][reference["head"]] == 0.0
    site = run.trace.attention[header["site"]]
    other = run.trace.attention[reference["site"]]
    signed = site.weights(header["head"]) - other.weights(reference["head"])
    np.testing.assert_allclose(arrays["difference"], signed.numpy(), atol=1e-6)
    values = np.array(kind["values"])
    assert header["distance"] == pytest.approx(
        values[kind["sites"].index(header["site"]), header["head"]]
    )
    others = np.delete(values.flatten(), row * kind["heads"] + reference["head"])
    if len(others):
        assert header["distance"] == pytest.approx(others.min())
        assert "Nearest to" in grid["sentence"]
    assert header["answers"][0]["whose"] == text.PAGE.captions[0]


@pytest.mark.slow(except_one_in=3)
@pytest.mark.parametrize("name", MODELS)
def test_a_run_pinned_unchanged_differs_nowhere(name: str) -> None:
    run = example_of(name)
    texts = tuple(
        value or "" for value in run.trace.fields.values() if not isinstance(value, tuple)
    )
    n = len(run.scope.model.text_fields)
    chosen = tuple(list(run.trace.fields.values())[n:])
    drawn = compare_payloads(
        run, CompareChoices(Pinned(run.scope, texts[:n], chosen), Focus(), None)
    )
    for kind in drawn["distances"]["kinds"]:
        assert not np.any(kind["values"])
    header, arrays = unpack(drawn["difference"])
    assert not arrays["difference"].any()
    assert header["verdict"] == "The same answer."
    assert header["most"] == "No weight differs."
    assert "same in both runs" in drawn["distances"]["sentence"]
    assert failed(drawn) == []


def test_the_grid_of_two_runs_holds_the_distances_of_both() -> None:
    run, other = (
        run_of("eng-fra"),
        pinned("eng-fra", None, *for_kinds(cross=MaskChange(block=((0, 0),)))),
    )
    drawn = compare_payloads(run, CompareChoices(other, Focus(SITE, 4), None))
    found = compare(run.trace, other.beside(run).trace)
    assert [kind["title"] for kind in drawn["distances"]["kinds"]] == [
        "Encoder self-attention", "Decoder masked self-attention", "Cross-attention",
    ]  # fmt: skip
    for kind, pair in zip(drawn["distances"]["kinds"], found.kinds, strict=True):
        np.testing.assert_allclose(kind["values"], pair.distances.numpy())
        assert kind["layers"] == [site.layer + 1 for site in pair.first]
    header, arrays = unpack(drawn["difference"])
    assert (header["site"], header["head"]) == (SITE, 4)
    np.testing.assert_array_equal(arrays["difference"], arrays["first"] - arrays["second"])
    assert (arrays["blockedFirst"][0, 0], arrays["blockedSecond"][0, 0]) == (0, 1)


def test_each_map_is_hatched_by_the_mask_of_its_own_layer() -> None:
    edits = (MaskChange(Where(kind="cross", layers=(1,)), block=((0, 0),)),)
    edited = changed_run(run_of("eng-fra"), replace(run_of("eng-fra").spec, edits=edits))
    first, second = (f"decoder.layers.{layer}.cross_attn" for layer in (0, 1))
    for one, other in ((first, second), (second, first)):
        _, arrays = unpack(
            compare_payloads(edited, CompareChoices(None, Focus(one, 0), (other, 2)))["difference"]
        )
        blocked = [bool(arrays[name][0, 0]) for name in ("blockedFirst", "blockedSecond")]
        assert sorted(blocked) == [False, True]
        assert blocked == [float(arrays[name][0, 0]) == 0 for name in ("first", "second")]


def test_a_position_with_two_tokens_names_the_run_of_each() -> None:
    other = pinned("dates", ("4 May 1999", ""))
    focus = Focus("encoder.layers.0.self_attn", 0)
    drawn = compare_payloads(run_of("dates", "3 May 1999"), CompareChoices(other, focus, None))
    first = unpack(drawn["difference"])[0]["keys"][0]
    assert first == ["3 | 4", "3 in this run, 4 in the pinned run", False]


def test_the_colours_of_the_grid_end_at_the_largest_distance_of_all() -> None:
    drawn = compare_payloads(run_of("eng-fra"), with_pinned("eng-fra-bahdanau"))["distances"]
    values = [value for kind in drawn["kinds"] for row in kind["values"] for value in row]
    assert drawn["largest"] == max(values) > 0.01
    same = compare_payloads(run_of("eng-fra"), with_pinned("eng-fra"))["distances"]
    assert same["largest"] == 0.01  # rounding errors stay blank


def test_swapped_runs_keep_the_distances_and_negate_the_difference() -> None:
    """Their sentences are reversed, too."""
    edited = changed_run(
        run_of("eng-fra"),
        replace(run_of("eng-fra").spec, edits=for_kinds(cross=MaskChange(block=((1, 0),)))),
    )
    focus = Focus(SITE, 1)
    one = compare_payloads(
        run_of("eng-fra"), CompareChoices(pinned("eng-fra", None, *edited.spec.edits), focus, None)
    )
    other = compare_payloads(edited, CompareChoices(pinned("eng-fra"), focus, None))
    for kind, turned in zip(one["distances"]["kinds"], other["distances"]["kinds"], strict=True):
        assert kind["values"] == turned["values"]
    (header, arrays), (turned_header, turned_arrays) = (
        unpack(d["difference"]) for d in (one, other)
    )
    np.testing.assert_array_equal(arrays["difference"], -turned_arrays["difference"])
    assert header["scale"] == turned_header["scale"]
    both = header["most"], turned_header["most"]
    assert {(" more to " in s, " less to " in s) for s in both} == {(True, False), (False, True)}
    assert both[0].replace(" more ", " less ") == both[1].replace(" more ", " less ")


def test_the_cell_named_is_the_one_that_differs_most() -> None:
    header, arrays = unpack(compare_payloads(run_of("gpt"), with_pinned("gpt-char"))["difference"])
    row, column = np.unravel_index(
        np.abs(arrays["difference"]).argmax(), arrays["difference"].shape
    )
    value = arrays["difference"][row, column]
    assert f"{abs(value):.3f} {'more' if value > 0 else 'less'}" in header["most"]
    assert f"“{header['queries'][row][0]}”" in header["most"]


def test_each_map_has_the_tokens_of_its_own_run() -> None:
    """Where they differ, only the difference names both."""
    choices = CompareChoices(pinned("eng-fra", ("I like dogs.", "")), Focus(SITE, 0), None)
    header, _ = unpack(compare_payloads(run_of("eng-fra", "I like cats."), choices)["difference"])
    (_, ours), (_, theirs) = header["labels"]
    assert [label[0] for label in ours] == ["I", "·like", "·cats", ".", "[end]"]
    assert [label[0] for label in theirs] == ["I", "·like", "·dogs", ".", "[end]"]
    assert [label[0] for label in header["keys"]] == ["I", "·like", "·cats | ·dogs", ".", "[end]"]


def test_the_scale_of_the_difference_is_one_for_all_heads() -> None:
    scales, largest = set(), 0.0
    for head in range(6):
        drawn = compare_payloads(
            run_of("eng-fra"), with_pinned("eng-fra-bahdanau", focus=Focus(SITE, head))
        )
        header, arrays = unpack(drawn["difference"])
        scales.add(header["scale"])
        largest = max(largest, float(np.abs(arrays["difference"]).max()))
    assert len(scales) == 1
    assert largest <= scales.pop()


def test_two_translators_read_the_same_target() -> None:
    other = models.load("dates-bahdanau", device="cpu")
    run = run_of("dates", "Friday, the 31st of May, 2024")
    what = current_comparison(run, CompareChoices(Pinned(other, None, ()), Focus(), None))
    assert what.comparison.second.streams["target"].tokens == run.trace.streams["target"].tokens
    header, _ = unpack(
        compare_payloads(run, CompareChoices(Pinned(other, None, ()), Focus(), None))["difference"]
    )
    assert header["answers"][1]["words"] == [other.run("Friday, the 31st of May, 2024").output]


def test_another_tokenizer_is_said_to_be_compared_by_words() -> None:
    header, arrays = unpack(compare_payloads(run_of("gpt"), with_pinned("bert"))["difference"])
    assert "by words" in header["how"]
    assert [label[0] for label in header["queries"]] == TEXT.split()
    assert header["keys"][-1][0] == text.OTHER_TOKENS
    np.testing.assert_allclose(arrays["first"].sum(1), 1, atol=1e-5)
    assert header["verdict"] == text.OTHER_TASK


def test_answers_are_kept_apart_for_a_reason_that_is_known() -> None:
    run, other = run_of("gpt"), models.load("bert", device="cpu")
    choices = CompareChoices(Pinned(other, None, ()), Focus(), None)
    del other.training["task"]
    header, _ = unpack(compare_payloads(run, choices)["difference"])
    assert header["verdict"] == text.UNKNOWN_TASK
    assert text.tasks_apart("unknown", "mlm") == text.UNKNOWN_TASK
    assert text.tasks_apart("mlm", "language") == text.OTHER_TASK
    assert text.tasks_apart("mlm", "mlm") == text.tasks_apart("unknown", "unknown") == ""


def test_one_head_of_the_pinned_run() -> None:
    run, other = run_of("eng-fra"), (SITE, 3)
    drawn = compare_payloads(
        run, CompareChoices(pinned("eng-fra"), Focus("decoder.layers.0.cross_attn", 1), other)
    )
    (kind,) = drawn["distances"]["kinds"]
    assert kind["values"][2][3] == 0.0
    header, arrays = unpack(drawn["difference"])
    np.testing.assert_allclose(arrays["second"], run.trace.attention[SITE].weights(3), atol=1e-6)
    assert (header["site"], header["head"]) == ("decoder.layers.0.cross_attn", 1)
    assert "of the pinned run" in drawn["distances"]["title"]
    itself = text.compared_head_name(run.trace.attention[SITE], 3)
    assert drawn["distances"]["sentence"] == (
        f"Nearest to {itself} of the pinned run: {itself}, 0.000 bits away."
    )


@pytest.mark.parametrize(
    ("run", "other", "why"),
    [
        ("eng-fra-bahdanau", "gpt", "has no attention of this kind"),
        ("eng-fra", "eng-fra-rnn", "eng-fra-rnn has no attention"),
    ],
)
def test_runs_that_cannot_be_compared_give_a_reason_and_keep_the_picture(
    run: str, other: str, why: str
) -> None:
    drawn = compare_payloads(run_of(run), with_pinned(other))
    assert why in drawn["distances"]["why"]
    assert set(drawn) == {"distances"}


def test_a_text_that_is_too_long_says_so() -> None:
    scope = models.load("eng-fra", device="cpu")
    trace = scope.run("We like him and " * 90)
    drawn = compare_payloads(CurrentRun(scope, trace), ALONE)
    assert "at most" in drawn["distances"]["why"]


def test_a_head_that_the_run_lacks_is_not_looked_at() -> None:
    usual = unpack(
        compare_payloads(run_of("eng-fra"), with_pinned("eng-fra-bahdanau"))["difference"]
    )[0]
    for focus in (Focus("nosuch", 0), Focus(SITE, 99)):
        shown = unpack(
            compare_payloads(run_of("eng-fra"), with_pinned("eng-fra-bahdanau", focus=focus))[
                "difference"
            ]
        )[0]
        assert shown["site"] == usual["site"]
    for other in (("nosuch", 0), (SITE, 99)):
        drawn = compare_payloads(run_of("eng-fra"), CompareChoices(None, Focus(SITE, 0), other))
        assert drawn["distances"]["why"] == ""


def test_each_map_of_two_runs_is_named_by_its_run_and_its_head() -> None:
    choices = with_pinned("eng-fra-bahdanau")
    drawn = compare_payloads(run_of("eng-fra"), choices)["difference"]
    ours, theirs = unpack(drawn)[0]["names"]
    assert ours.startswith("This run: Cross")
    assert theirs.startswith("Pinned run: Alignment")


def test_the_first_difference_of_two_answers() -> None:
    assert text.first_difference(["a", "b"], ["a", "b"]) == -1
    assert text.first_difference(["a", "b"], ["a", "c"]) == 1
    assert text.first_difference(["a"], ["a", "b"]) == 1
    said = text.compared_answers(["a", "b"], ["a", "c"])
    assert "at word 2: “b” in this run" in said
    assert "“c” in the pinned run" in said
    assert "nothing in this run" in text.compared_answers(["a"], ["a", "b"])


def test_the_table_holds_every_distance_of_the_page() -> None:
    run, choices = run_of("eng-fra"), with_pinned("eng-fra-bahdanau")
    head, *lines = distance_table(run, choices)
    grid = compare_payloads(run, choices)["distances"]["kinds"]
    assert head[1:] == ["layer", "head", "distance in bits"]
    assert [line[1:3] for line in lines] == [
        [layer + 1, number + 1]
        for kind in grid
        for layer, values in enumerate(kind["values"])
        for number in range(len(values))
    ]
    assert [line[-1] for line in lines] == [
        v for kind in grid for layer in kind["values"] for v in layer
    ]


def test_heads_of_layers_that_only_this_run_has_are_chosen_beside_one_head() -> None:
    run, other = run_of("eng-fra"), ("decoder.alignment", 0)
    beside = pinned("eng-fra-bahdanau", (TEXT, ""))
    for layer, head in ((0, 1), (1, 3), (2, 5)):
        site = f"decoder.layers.{layer}.cross_attn"
        choices = CompareChoices(beside, Focus(site, head), other)
        what = current_comparison(run, choices)
        assert (what.site.name, what.chosen) == (site, (layer, head))


def test_rows_that_are_words_are_not_said_to_be_steps_of_writing() -> None:
    run = run_of("gpt", "The cat sat down.")
    beside = Pinned((scope := models.load("xlnet", device="cpu")), None, (None,) * 9)
    beside = replace(beside, chosen=(None,) * (len(scope.model.fields) - 1))
    header, _ = unpack(compare_payloads(run, CompareChoices(beside, Focus(), None))["difference"])
    assert "by words" in header["how"]
    assert header["queryAxis"] == "query (rows): the text"
    alone, _ = unpack(compare_payloads(run, ALONE)["difference"])
    assert "read → written" in alone["queryAxis"]


def test_the_files_of_two_runs_name_both_and_the_heads() -> None:
    run, focus = run_of("eng-fra"), Focus(SITE, 0)
    change = MaskChange(Where(kind="cross"), block=((1, 2),))
    choices = replace(with_pinned("eng-fra", change, focus=focus), other=(SITE, 3))
    drawn, (file,) = compare_payloads(run, choices), GRID_VIEW.files(run, choices)
    here, there = (
        "Cross, layer 3, head 1 (first)", "Cross, layer 3, head 4 (second)",
    )  # fmt: skip
    difference = facts_by_name(unpack(drawn["difference"])[0]["about"])
    assert difference["difference"] == f"{here} minus {there}"
    distances = facts_by_name(drawn["distances"]["about"])
    assert distances == file.about(run)
    assert distances["distance"] == f"in bits to {there.replace(' (second)', ' of the second run')}"
    for about in (difference, distances):
        assert about["source"] == TEXT
        assert "changed (first)" not in about
        assert about["changed (second)"].endswith("forbidden (query, key) (1, 2)")
    same_head = compare_payloads(run, replace(choices, other=None))["distances"]["about"]
    assert facts_by_name(same_head)["distance"] == "in bits to the same head of the second run"


def test_the_names_of_files_of_two_runs_name_both() -> None:
    run = run_of("eng-fra", "Tom is here.")
    choices = replace(
        CompareChoices(pinned("dates"), Focus("decoder.layers.1.cross_attn", 3), None),
        other=("decoder.layers.0.cross_attn", 1),
    )
    drawn, (file,) = compare_payloads(run, choices), GRID_VIEW.files(run, choices)
    steps = [run.trace.model.training["step"], run_of("dates").trace.model.training["step"]]
    ours, theirs = f"eng-fra.step{steps[0]}", f"dates.step{steps[1]}"
    assert file.name == f"{ours}.and.{theirs}.head-distances.csv"
    assert drawn["distances"]["file"] == f"{ours}.and.{theirs}.distances"
    heads = "decoder.layer2.cross_attn.head4", "decoder.layer1.cross_attn.head2"
    assert unpack(drawn["difference"])[0]["file"] == (
        f"{ours}.{heads[0]}.and.{theirs}.{heads[1]}.compared"
    )
    (alone,) = GRID_VIEW.files(run, ALONE)
    assert alone.name == f"{ours}.head-distances.csv"


def test_the_files_of_one_run_name_it_once() -> None:
    drawn = compare_payloads(run_of("eng-fra"), replace(ALONE, focus=Focus(SITE, 0)))
    about = facts_by_name(drawn["distances"]["about"])
    assert about["source"] == TEXT
    assert about["distance"] == "in bits to Cross, layer 3, head 1"
    assert not any("second" in line for line in (*about, *about.values()))


def facts_by_name(about: str) -> dict[str, str]:
    return dict(line.split(": ", 1) for line in about.split("\n"))


def test_no_file_of_distances_is_made_of_runs_that_cannot_be_compared() -> None:
    run = run_of("gpt", "The cat sat.")
    beside = CompareChoices(pinned("gpt", ("The black cat sat down.", "")), Focus(), None)
    assert compare_payloads(run, beside)["distances"]["why"]
    with pytest.raises(models.InputError, match="different texts"):
        distance_table(run, beside)


class Widening(nn.Module):
    """A stack whose layers have an increasing number of heads."""

    def __init__(self, *heads: int) -> None:
        super().__init__()
        self.embedding, self.out = nn.Embedding(128, 24), nn.Linear(24, 128)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(24, n, 31, batch_first=True) for n in heads
        )

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embedding(ids)
        for layer in self.layers:
            x = layer(x)
        return self.out(x)


def test_layers_with_different_numbers_of_heads_are_compared_in_full() -> None:
    torch.manual_seed(0)
    scope = models.watch(Widening(2, 4, 6).eval(), encode=lambda text: list(text.encode()))
    run = CurrentRun(scope, scope.run("hello"))
    sites = list(run.trace.attention.values())
    for layer, site in enumerate(sites):
        for head in range(site.n_heads):
            choices = CompareChoices(None, Focus(site.name, head), None)
            pictures = compare_payloads(run, choices)
            grid = pictures["distances"]
            values = grid["kinds"][0]["values"]
            shown = [[one is not None for one in row] for row in values]
            assert shown == [[h < n for h in range(6)] for n in (2, 4, 6)]
            assert values[layer][head] == pytest.approx(0, abs=1e-6)
            least, where = min(
                (value, (i + 1, h + 1))
                for i, row in enumerate(values)
                for h, value in enumerate(row)
                if value is not None and (i, h) != (layer, head)
            )
            assert "layer {}, head {}".format(*where) in grid["sentence"].split(": ", 1)[1]
            assert len(distance_table(run, choices)) == 1 + 2 + 4 + 6
            assert least > 0


def test_kinds_that_are_compared_in_different_ways_are_named() -> None:
    run = run_of("eng-fra")
    comparison = compare(run.trace, run.trace)
    *others, last = comparison.kinds
    by_position = replace(last, queries=replace(last.queries, how=POSITIONS))
    for kinds, is_named in ((comparison.kinds, False), ((*others, by_position), True)):
        what = compare_heads(replace(comparison, kinds=kinds), ("", 0))
        how = unpack(difference(what, {}))[0]["how"]
        assert ("Encoder self, Decoder self: compared token by token" in how) == is_named
        assert ("Cross: the texts differ" in how) == is_named
