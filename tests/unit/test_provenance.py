"""Downloaded files: no two models, steps or similarities share a name, and a file names the run of its numbers."""

import csv
import io
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest
from drawn import letters
from PIL import Image
from small_scopes import scope_of

from models.analysis.joined_words import join_words
from models.trace import Trace
from models.trace.edits import HeadOff, MaskChange, Patch, Where
from viz_app.drawing import export, provenance
from viz_app.drawing.stamp import (
    caption,
    facts,
    of_all_steps,
    of_model,
    of_step,
    of_two,
    saving,
    stamp_file,
    stamped_pieces,
)

CROSS = "decoder.layers.1.cross_attn"


@pytest.fixture(scope="module")
def trace() -> Trace:
    return letters().run("abcde", "edc")


def of(trace: Trace, name: str, **training: object) -> Trace:
    return replace(trace, model=replace(trace.model, name=name, training=training))


# names


@pytest.mark.parametrize(("path", "name"), [
    ("decoder.layers.1.cross_attn", "decoder.layer2.cross_attn"), ("1.layers.0.self_attn", "1.layer1.self_attn"),
    ("0.attn", "1.attn"), ("1.0.attn", "2.1.attn"), ("0", "1"), ("stages.1.blocks.0.attn", "stage2.blocks.0.attn"),
    ("block.0.layer.1.EncDecAttention", "block1.layer.1.EncDecAttention"), ("alignment", "alignment"), ("h2o.attn", "h2o.attn"),
])  # fmt: skip
def test_layers_count_from_one_wherever_their_number_appears(path: str, name: str) -> None:
    assert provenance.counted_from_one(path) == name


def test_a_name_holds_model_step_layer_and_head_as_on_the_screen(trace: Trace) -> None:
    run = of(trace, "eng-fra", step=4000)
    assert (
        provenance.head_name(run, run.attention[CROSS], 2)
        == "eng-fra.step4000.decoder.layer2.cross_attn.head3"
    )
    assert provenance.head_name(run, run.attention[CROSS], 0, "training") == (
        "eng-fra.step4000.decoder.layer2.cross_attn.head1.training"
    )
    assert provenance.file_name(run, "all-heads") == "eng-fra.step4000.all-heads"


def test_no_other_model_step_or_similarity_has_the_name() -> None:
    cosine, scaled = (
        letters(similarity=name).run("abcde", "edc") for name in ("cosine", "scaled dot")
    )
    runs = [
        of(run, name, step=step)
        for run in (cosine, scaled)
        for name in ("dates", "eng-fra")
        for step in (0, 200, 4000)
    ]
    names = [provenance.head_name(run, run.attention[CROSS], 1) for run in runs]
    assert len(set(names)) == 12
    assert names[0] == "dates.step0.cosine.decoder.layer2.cross_attn.head2"
    assert names[6] == "dates.step0.decoder.layer2.cross_attn.head2"


@pytest.mark.parametrize("similarity", ["", "cosine"])
def test_a_run_without_positions_says_so_in_name_and_facts(similarity: str) -> None:
    scope = letters()
    changed = scope.without_positions()
    if similarity:
        changed = changed.with_similarity(similarity)
    whole, bare = (one.run("abcde", "edc") for one in (scope, changed))
    name = (
        "letters.cosine.no-positions.all-heads" if similarity else "letters.no-positions.all-heads"
    )
    assert provenance.file_name(bare, "all-heads") == name
    assert facts(bare)["positions"] == of_model(bare)["positions"] == "left out"
    assert "positions: left out" in caption(facts(bare))
    assert provenance.file_name(whole, "all-heads") == "letters.all-heads"
    assert "positions" not in facts(whole)
    assert "positions" not in facts(letters(positions="none").run("abcde", "edc"))


def test_an_alignment_has_no_layer_and_no_similarity_to_choose() -> None:
    run = letters("recurrent").run("abcde", "edc")
    (site,) = run.attention.values()
    assert provenance.similarity(run) == ""
    assert (
        provenance.head_name(of(run, "dates-rnn", step=7), site, 0)
        == f"dates-rnn.step7.{site.name}.head1"
    )


@pytest.mark.parametrize(("text", "name"), [
    ("q·k / √d", "q-k-sqrt-d"), ("read → written", "read-to-written"),
    ("PE·PEᵀ", "PE-PE^T"), ("10⁻³", "10^-3"), ("x²", "x^2"), ("h₁", "h_1"),
    ("my model/../x", "my-model-..-x"), ("../..", ""), ("école", "école"),
])  # fmt: skip
def test_signs_stay_readable_and_a_name_is_no_path(text: str, name: str) -> None:
    assert provenance.file_name_part(text) == name


# content


def test_the_facts_of_a_run_are_its_input_and_output(trace: Trace) -> None:
    own = letters().run("abcde")
    found = facts(
        replace(of(own, "eng-fra", step=4000), output="=x\ny"), scale="1 attention weight"
    )
    assert found.pop("counting") == (
        "layers and heads from 1, in the names of arrays too; "
        "tokens and the axes of arrays from 0. File names and titles count tokens from 1"
    )
    assert found == {
        "model": "eng-fra", "fingerprint": own.model.fingerprint[:12], "training step": "4000", "similarity": "scaled dot",
        "source": "abcde", "the model writes": "=x↵y", "scale": "1 attention weight",
    }  # fmt: skip
    assert len(found["fingerprint"]) == 12
    assert facts(of(own, "m", step=0))["training step"] == "0"
    assert "training step" not in facts(of(own, "m"))
    assert facts(trace)["target"] == "edc"


def test_hidden_tokens_are_in_the_facts() -> None:
    run = scope_of("bert").run("ab cd ef ga", None, (1, 3))
    of_words = join_words(run)
    assert facts(run)["text"] == "ab cd ef ga"
    assert facts(run)["read as"] == facts(of_words)["read as"] == "[MASK] cd [MASK] ga"
    assert of_words.streams["text"].hidden == run.streams["text"].hidden
    assert "read as" not in facts(scope_of("bert").run("ab cd ef ga"))


def test_an_order_of_prediction_is_whole_and_counts_from_0_as_the_facts_say() -> None:
    scope = scope_of("xlnet")
    text = "ab cd ef ga ba dc fe ab cd ef ga ba dc"
    order = tuple(reversed(range(len(scope.encode(text)["text"].ids))))
    run = scope.run(text, None, order)
    listed = ", ".join(map(str, order))
    assert (facts(run)["order"], len(order)) == (listed, 13)
    assert facts(run)["surprise"].endswith(" bits per token")
    assert not any("→" in name for name in facts(run))
    assert "surprise" not in of_step(run, 3)
    assert facts(join_words(run))["order"] == f"{listed} (counted in tokens, not words)"
    assert "surprise, read from left to right" in facts(scope.run(text))


def test_under_a_picture_of_any_text_only_the_model_is_named(trace: Trace) -> None:
    run = of(trace, "eng-fra", step=4000)
    assert set(facts(run)) >= {"source", "target", "counting"}
    assert list(of_model(run)) == ["model", "fingerprint", "training step", "similarity"]
    assert of_model(run, "source")["source"] == "abcde"


def test_files_of_all_training_steps_name_no_single_step() -> None:
    own = of(letters().run("abcde"), "eng-fra", step=4000)
    found = of_all_steps(own, (0, 250, 4000))
    assert found["steps"] == "0, 250, 4000"
    assert found["source"] == "abcde"
    assert not found.keys() & {"fingerprint", "training step", "the model writes"}


def test_changed_masks_are_listed_cell_by_cell(trace: Trace) -> None:
    change = MaskChange(
        removed_layers=("padding",), preset="window", k=3, block=((2, 1), (0, 4)), allow=((1, 3),)
    )
    edits = tuple(
        (
            replace(change, where=Where(kind="decoder_self", layers=(1,), heads=(0, 2))),
            MaskChange(Where(kind="cross"), block=((5, 6),)),
        )
    )
    assert facts(replace(trace, edits=edits))["changed"] == (
        "decoder self: padding removed, window of 3, forbidden (query, key) (2, 1) (0, 4), opened (query, key) (1, 3), "
        "in layer 2, in heads 1, 3; cross: forbidden (query, key) (5, 6)"
    )


def test_the_place_of_a_change_is_named_as_its_arrays_are(trace: Trace) -> None:
    site = trace.attention[CROSS]
    edits = (HeadOff(CROSS, head=1), Patch("decoder.layers.0.resid_mid", fields=("a", None), positions=(2,)))  # fmt: skip
    head, cell = facts(replace(trace, edits=edits))["changed"].split("; ")
    assert head.startswith(f"{provenance.site_name(site)}: ")
    assert head.endswith("in head 2")
    assert cell.startswith("decoder.layer1.resid_mid: ")


def test_a_csv_begins_with_the_facts_and_no_cell_becomes_a_formula(trace: Trace) -> None:
    table, about = (
        "".join(export.weights_csv(trace, trace.attention[CROSS], 1)),
        {"model": "m", "source": 'a,=1+1,"b"'},
    )
    made = stamp_file(table, "a.head2.csv", about)
    assert made.encode() == b"".join(
        stamped_pieces(export.weights_csv(trace, trace.attention[CROSS], 1), "a.head2.csv", about)
    )
    assert made.endswith(table)
    rows = list(csv.reader(io.StringIO(made)))
    assert rows[:2] == [["# model: m"], ["# source: a", "'=1+1", '\'"b"']]
    assert rows[2][0] == "query \\ key"


def test_a_table_is_read_back_without_its_facts(trace: Trace) -> None:
    site, about = trace.attention[CROSS], facts(trace) | {"source": 'She said, "hello", -1'}
    made = stamp_file("".join(export.weights_csv(trace, site, 1)), "x.csv", about)
    read = np.genfromtxt(
        io.StringIO(made), delimiter=",", skip_header=len(about) + 1, usecols=range(1, site.n_key + 1)
    )  # fmt: skip
    np.testing.assert_array_equal(read.astype(np.float32), site.weights(1).numpy())
    lines = made.splitlines()
    assert [line.startswith("# ") for line in lines] == [True] * len(about) + [False] * (
        site.n_query + 1
    )
    assert '# source: She said, "hello", -1' in lines


def test_a_text_is_recorded_as_it_was_read(trace: Trace) -> None:
    text = "He  said \x01a\tb\nc\ufffe d\u2028e "
    about = facts(replace(trace, fields={"source": text}))
    assert about["source"] == "He  said U+0001aU+0009b↵cU+FFFE dU+2028e "
    svg = export.head_svg(trace, trace.attention[CROSS], 1, "What it is")
    root = ElementTree.fromstring(stamp_file(svg, "x.svg", about))
    assert f"source: {about['source']}" in root.find(
        "{http://www.w3.org/2000/svg}metadata"
    ).text.split("\n")


def test_an_npz_keeps_its_arrays_and_has_one_more(trace: Trace) -> None:
    with np.load(
        io.BytesIO(b"".join(stamped_pieces(export.heads_npz(trace), "x.npz", facts(trace)))),
        allow_pickle=False,
    ) as held:
        assert set(held) >= {"about", "source_tokens", "decoder.layer2.cross_attn.allowed"}
        assert len(held) == 3 + 2 * len(trace.attention)
        for head, weights in enumerate(held["decoder.layer2.cross_attn"]):
            np.testing.assert_array_equal(weights, trace.attention[CROSS].weights(head).numpy())
        assert held["about"].tolist() == [f"{name}: {said}" for name, said in facts(trace).items()]


def test_a_drawing_has_its_caption_below_and_every_fact_inside(trace: Trace) -> None:
    svg, name = (
        export.head_svg(trace, trace.attention[CROSS], 1, "What it is"),
        "{http://www.w3.org/2000/svg}",
    )
    about = facts(trace) | {"source": "<b> & " + "long " * 300}
    plain, root = (
        ElementTree.fromstring(svg),
        ElementTree.fromstring(stamp_file(svg, "x.svg", about)),
    )
    assert root.find(f"{name}metadata").text == "\n".join(
        f"{key}: {said}" for key, said in about.items()
    )
    assert ElementTree.tostring(root.find(f"{name}svg")) == ElementTree.tostring(plain)
    wide, tall, lines = (
        float(plain.get("width")),
        float(plain.get("height")),
        root.findall(f"{name}text"),
    )
    assert " ".join(line.text for line in lines) == " ".join(caption(about).split())
    assert len(lines) > 2
    assert (root.get("width"), root.get("viewBox")) == (
        f"{wide:g}",
        f"0 0 {wide:g} {root.get('height')}",
    )
    assert all(tall < float(line.get("y")) < float(root.get("height")) for line in lines)
    assert all(len(line.text) * 7.4 <= wide - 20 for line in lines)
    assert len({line.get("y") for line in lines}) == len(lines)


def test_an_animation_has_the_facts_as_its_comment_and_keeps_its_frames() -> None:
    out, about = io.BytesIO(), {"model": "m", "source": "é" * 300}
    frames = [Image.new("RGB", (7, 5), colour) for colour in ("red", "blue")]
    frames[0].save(
        out, "GIF", save_all=True, append_images=frames[1:], duration=[700, 2500], loop=0
    )
    made = Image.open(io.BytesIO(stamp_file(out.getvalue(), "x.gif", about)))
    assert made.info["comment"].decode() == f"model: m\nsource: {'é' * 300}"
    assert made.n_frames == 2
    for n, (colour, duration) in enumerate((((255, 0, 0), 700), ((0, 0, 255), 2500))):
        made.seek(n)
        assert (made.convert("RGB").getpixel((3, 2)), made.info["duration"]) == (colour, duration)


def test_a_picture_in_the_browser_gets_its_name_caption_and_facts() -> None:
    about = {"model": "m", "source": "a" * 900, "counting": "from 1"}
    assert saving("m.all-heads", about) == {
        "file": "m.all-heads",
        "caption": caption(about),
        "about": f"model: m\nsource: {'a' * 900}\ncounting: from 1",
    }


def test_a_caption_shortens_a_very_long_text_in_the_middle() -> None:
    assert caption({"model": "m", "source": "a", "counting": "from 1"}) == "model: m; source: a"
    long = caption({"model": "m", "source": "a" * 900, "scale": "row"})
    assert len(long) == 603
    assert long.startswith("model: m; source: aaa")
    assert long.endswith("aaa; scale: row")


def test_other_kinds_of_files_and_files_without_facts_stay_unchanged() -> None:
    assert stamp_file(b"PNG", "x.png", {"model": "m"}) == b"PNG"
    assert stamp_file("a,b", "x.csv", {}) == "a,b"


def test_for_two_runs_only_the_differences_are_listed_for_each(trace: Trace) -> None:
    first, second = of(trace, "a", step=3), of(letters().run("abcde", "ed"), "b", step=3)
    found = of_two(first, replace(second, edits=(HeadOff(CROSS, head=1),)), distance="in bits")
    assert (found["model (first)"], found["model (second)"]) == ("a", "b")
    assert (found["target (first)"], found["target (second)"]) == ("edc", "ed")
    assert (found["source"], found["training step"], found["distance"]) == ("abcde", "3", "in bits")
    assert "changed (first)" not in found
    assert found["changed (second)"].startswith("decoder.layer2.cross_attn: ")
    assert found["counting"] == facts(first)["counting"]
