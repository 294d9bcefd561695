"""The page "From RNN to attention" through the app's entry file, its figures and its files: each number against `models`."""

import csv
import io
import json
import shutil
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from app_parts import PATIENCE, app_at, page_at, prose, said
from small import Reversal, random_model
from streamlit.testing.v1 import AppTest
from streamlit.util import calc_hash
from test_pinned_sections import pairs, pairs_of_columns, pictures, same_scales

import models
from models.analysis.divergence import jensen_shannon
from models.analysis.fixed_vector import vector_changes
from models.analysis.jacobian_reach import (
    BIDIRECTIONAL,
    CNN,
    LAYER_KINDS,
    RNN,
    SELF_ATTENTION,
    LayerChoice,
    Reach,
    layer_reach,
)
from models.analysis.layer_timing import TIMED_LENGTHS as LENGTHS_MEASURED
from models.analysis.layer_timing import Timing
from models.architectures.seq2seq import Seq2Seq, Seq2SeqConfig
from models.checkpoint import save_checkpoint
from viz_app.controls import measuring
from viz_app.controls.layer_choice import layer_text_too_long
from viz_app.drawing.look import LIGHT
from viz_app.drawing.payload import unpack
from viz_app.session import reference_models
from viz_app.session.cache import opened as opened_models
from viz_app.session.current_run import CurrentRun
from viz_app.views.from_rnn import charts, files
from viz_app.views.from_rnn import cost as cost_text
from viz_app.views.from_rnn import learning as say
from viz_app.views.from_rnn import maps as draw
from viz_app.views.from_rnn import pair as heads
from viz_app.views.from_rnn import reach as reach_text
from viz_app.views.from_rnn.page import FROM_RNN_ANSWERS, FROM_RNN_SECTIONS
from viz_app.views.from_rnn.three import other_tokens

APP = Path(__file__).parents[2] / "viz_app" / "app.py"
TEXT = "abcde"
LENGTHS = [
    {"least": 1, "most": 3, "cases": 71, "score": 40.0},
    {"least": 4, "most": 9, "cases": 13, "score": 31.5},
]


def write(folder: Path, model, **training) -> Path:
    """Save a checkpoint of a small model with random weights, to be looked at only."""
    save_checkpoint(
        folder,
        model,
        Reversal().tokenizer,
        {"step": 0, "task": "translation", "data": {"sha256": "5"}, **training},
    )
    return folder


def recurrent(**changes) -> Seq2Seq:
    torch.manual_seed(5)
    return Seq2Seq(
        Seq2SeqConfig(9, **{"d_model": 11, "d_hidden": 13, "d_align": 7, "n_ctx": 97} | changes)
    ).eval()


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Path:
    """Two checkpoints under the names that the page looks for, and others beside them."""
    root = tmp_path_factory.mktemp("shipped")
    write(
        root / "eng-fra",
        random_model(vocab_size=9, n_encoder_layers=2, n_ctx=97),
        step=17,
        by_length=LENGTHS,
    )
    write(root / "eng-fra-bahdanau", recurrent(), step=19)
    write(root / "eng-fra-rnn", recurrent(attention="none", bidirectional=False))
    return root


@pytest.fixture
def shipped(root, monkeypatch) -> Path:
    for module in (models.opening, opened_models):
        monkeypatch.setattr(module, "shipped_folder", lambda: root)
    return root


@pytest.fixture
def alone(root, tmp_path, monkeypatch) -> Path:
    """Nothing is shipped: only the folder that is opened."""
    for module in (models.opening, opened_models):
        monkeypatch.setattr(module, "shipped_folder", lambda: tmp_path)
    return root


def page(
    checkpoint: Path | str, section: str = "What reaches what", source: str = TEXT, **params: str
) -> AppTest:
    """Open the page for a first run, with its controls set as a link would set them."""
    asked = {
        name if name.startswith("pin.") else f"from-rnn-{name}": value
        for name, value in {"section": section, **params}.items()
    }
    return app_at("from-rnn", checkpoint=str(checkpoint), source=source, **asked)


def payload(at: AppTest, key: str) -> tuple[dict, dict]:
    part = next(c for c in at.get("bidi_component") if c.proto.id.endswith(key))
    return unpack(part.proto.bytes)


def notes(at: AppTest) -> str:
    return "\n".join(c.proto.json for c in at.get("bidi_component") if c.proto.json)


def ids(folder: Path, text: str = TEXT) -> tuple[int, ...]:
    return models.load(folder, device="cpu").encode(source=text)["source"].ids


# section → whether a scale in it depends on the numbers, and the names of its columns; the other sections are the same for every run
PINNED = {
    "Three models": (True, []),
    "What reaches what": (True, []),
    "Parallel and cost": (True, ["Schedule", "Path length"]),
    "Two alignments": (False, []),
}


@pytest.mark.slow
@pytest.mark.parametrize("section", PINNED)
def test_a_pinned_run_is_drawn_on_the_same_scales(shipped, section):
    pinned = {"pin.checkpoint": "eng-fra-rnn", "pin.source": "ba"}
    follows, columns = PINNED[section]
    both = pairs_of_columns(columns, partial(page, "eng-fra", section, **pinned))
    alone = [page("eng-fra", section), page("eng-fra-rnn", section, source="ba")]
    same_scales(alone, both, follows)


@pytest.mark.parametrize("section", [name for name in FROM_RNN_SECTIONS if name not in PINNED])
def test_sections_without_a_scale_or_independent_of_the_run_are_shown_beside_a_pinned_run(
    shipped, section
):
    pinned = {"pin.checkpoint": "eng-fra-rnn", "pin.source": "ba"}
    assert not pairs(page("eng-fra", section, **pinned))
    alone, other = (page(name, section) for name in ("eng-fra", "eng-fra-rnn"))
    assert pictures(alone) == pictures(other)


def test_a_pinned_text_too_long_for_jacobians_is_reported_beside_the_picture(shipped):
    pinned = {"pin.checkpoint": "eng-fra-rnn", "pin.source": "ab" * 40}
    at = page("eng-fra", "What reaches what", **pinned)
    assert layer_text_too_long(81) in prose(at)
    assert "from-rnn-maps" in pictures(at)


PICTURES = dict(
    zip(FROM_RNN_SECTIONS, (1, 1, 2, 1, 1, 0, 0), strict=True)
)  # on each section; there are no models of dates to draw


def drawn(at: AppTest) -> list:
    """Return the pictures on the page: maps, and charts of both libraries."""
    return [c for c in at.get("bidi_component") if c.proto.bytes] + [
        *at.get("plotly_chart"),
        *at.get("vega_lite_chart"),
    ]


@pytest.mark.slow(except_one_in=5)
@pytest.mark.parametrize("section", FROM_RNN_SECTIONS)
@pytest.mark.parametrize("name", ["eng-fra", "eng-fra-bahdanau", "eng-fra-rnn"])
def test_every_section_renders_for_every_model(shipped, name, section):
    at = page(name, section)
    ticks = {"Three models": 1, "What reaches what": 3, "Two alignments": 3}.get(section, 0)
    assert (prose(at).count("✗"), prose(at).count("✓")) == (0, ticks)
    assert len(drawn(at)) == PICTURES[section]


def test_the_section_on_reach_names_the_model_of_each_layer(shipped):
    header, _ = payload(page("eng-fra", width="5", seed="3"), "from-rnn-maps")
    about = dict(line.split(": ", 1) for line in header["about"].splitlines())
    assert about["source"] == TEXT
    for kind, name, weights in (
        (RNN, "eng-fra-bahdanau", "trained"),
        (BIDIRECTIONAL, "eng-fra-bahdanau", "trained"),
        (CNN, "eng-fra", "random weights, seed 3"),
        (SELF_ATTENTION, "eng-fra", "trained"),
    ):
        fingerprint = models.load(name, device="cpu").fingerprint[:12]
        assert about[kind].startswith(weights)
        assert f"; {name}, fingerprint {fingerprint}" in about[kind]
    assert about[CNN].endswith("; width 5, layers 3")
    assert set(about) == {"source", *LAYER_KINDS, "counting"}


@pytest.mark.parametrize("section", ["What reaches what", "Two alignments"])
def test_the_page_renders_with_a_single_model(alone, section):
    at = page(alone / "eng-fra", section)
    reaches = section == "What reaches what"
    assert (prose(at).count("✗"), prose(at).count("✓"), len(drawn(at))) == (
        0,
        3 if reaches else 0,
        1 if reaches else 0,
    )


def test_the_records_of_all_shipped_models_are_read_once(monkeypatch):
    scope = models.load("reverse-unmasked", device="cpu")
    run = CurrentRun(scope, scope.run("abcde", "edc"))
    assert reference_models.of_same_data(run, lambda scope: False) is None
    read, loads = [], json.loads
    monkeypatch.setattr(json, "loads", lambda text: (read.append(text), loads(text))[1])
    assert reference_models.of_same_data(run, lambda scope: False) is None
    assert read == []


def test_three_models_of_the_same_data_translate_side_by_side(shipped, tmp_path):
    """They are found by task and training data: none of other data, and the longest trained of several."""
    write(shipped / "younger", random_model(vocab_size=9, n_encoder_layers=1, n_ctx=97), step=5)
    write(shipped / "elsewhere", recurrent(attention="none"), step=99, data={"sha256": "7"})
    try:
        header, arrays = payload(page("eng-fra-bahdanau", "Three models"), "from-rnn-versions")
    finally:
        for name in ("younger", "elsewhere"):
            shutil.rmtree(shipped / name)
    names = [card["whose"].split(",")[0] for card in header["cards"]]
    assert names == ["eng-fra-rnn", "eng-fra-bahdanau", "eng-fra"]
    for name, card in zip(names, header["cards"], strict=True):
        assert (
            card["gap"].join(word for word, _ in card["words"])
            == models.load(name, device="cpu").run(TEXT).output
        )
    rnn = models.load("eng-fra-rnn", device="cpu")
    np.testing.assert_allclose(
        arrays["vector"], rnn.run(TEXT).activations["encoder.states"].value[0, -1], atol=1e-6
    )
    facts = header["about"].splitlines()
    assert not any(fact.startswith(("model:", "fingerprint:")) for fact in facts)
    for name, card in zip(names, header["cards"], strict=True):
        kind = "Attention without recurrence" if name == "eng-fra" else card["title"]
        fingerprint = models.load(name, device="cpu").fingerprint[:12]
        assert f"{kind}: {name}, fingerprint {fingerprint}" in facts
    others = other_tokens(rnn)
    assert len(set(others)) == 5  # all except the special ones
    np.testing.assert_allclose(
        arrays["change"],
        vector_changes(rnn.model, ids(shipped / "eng-fra"), range(5), others),
        atol=1e-6,
    )
    assert header["reference"] is None


def test_a_typed_target_is_the_reference_and_missing_models_are_named(shipped):
    at = AppTest.from_file(str(APP), default_timeout=PATIENCE)
    at._page_hash = calc_hash("from-rnn")
    at.query_params.update({"checkpoint": "eng-fra", "source": TEXT, "target": "edc"})
    at.run()
    header, _ = payload(at, "from-rnn-versions")
    assert header["reference"] == {"name": "your text", "text": "edc"}


def test_a_single_model_is_shown_alone_and_missing_models_are_named(alone):
    at = page(alone / "eng-fra", "Three models")
    assert len(payload(at, "from-rnn-versions")[0]["cards"]) == 1
    assert (
        "there is no trained model of this kind: RNN, one fixed vector, RNN with Bahdanau's alignment."
        in notes(at)
    )


def test_the_maps_are_the_models_norms_and_name_the_model(shipped):
    header, arrays = payload(page("eng-fra", width="5", depth="2", seed="3"), "from-rnn-maps")
    own, other = models.load("eng-fra", device="cpu"), models.load("eng-fra-bahdanau", device="cpu")
    tokens = ids(shipped / "eng-fra")
    wanted = [
        (other, LayerChoice(RNN)), (other, LayerChoice(BIDIRECTIONAL)), (own, LayerChoice(CNN, 3, 5, 2)), (own, LayerChoice(SELF_ATTENTION)),
    ]  # fmt: skip
    for i, (scope, choice) in enumerate(wanted):
        np.testing.assert_array_equal(
            arrays[f"map{i}"], layer_reach(scope.model, tokens, choice).norms.numpy()
        )
    said = [one["note"] for one in header["maps"]]
    assert said[0].startswith("trained, eng-fra-bahdanau encoder, forward direction")
    assert said[1].startswith("trained, eng-fra-bahdanau encoder, both directions")
    assert said[2].startswith("random weights, seed 3: untrained as any CNN here")
    assert said[3].startswith("trained, eng-fra encoder, layer 1")
    assert header["maps"][2]["title"] == "CNN, width 5, 2 layers"
    assert [token for token, *_ in header["rows"]] == [*TEXT, "[end]"]


def test_without_a_trained_layer_it_is_new_and_says_so(alone):
    header, arrays = payload(page(alone / "eng-fra", seed="7"), "from-rnn-maps")
    scope = models.load(alone / "eng-fra", device="cpu")
    for i, kind in enumerate((RNN, BIDIRECTIONAL)):
        np.testing.assert_array_equal(
            arrays[f"map{i}"],
            layer_reach(scope.model, ids(scope.path), LayerChoice(kind, 7)).norms.numpy(),
        )
        assert header["maps"][i]["note"].startswith("random weights, seed 7: untrained")
    one_way, _ = payload(page(alone / "eng-fra-rnn"), "from-rnn-maps")
    assert one_way["maps"][0]["note"].startswith(
        "eng-fra-rnn encoder, not trained, forward direction"
    )
    assert [one["note"].startswith("random weights") for one in one_way["maps"]] == [
        False,
        True,
        True,
        True,
    ]


@pytest.mark.parametrize("scale", draw.MAP_SCALES)
def test_the_colour_scale_is_stated_and_right(shipped, scale):
    header, arrays = payload(page("eng-fra", scale=scale), "from-rnn-maps")
    tops = [float(arrays[f"map{i}"].max()) for i in range(4)]
    for one, own in zip(header["maps"], tops, strict=True):
        assert one["largest"] == pytest.approx(max(tops) if scale == "one" else own)
        assert one["scale"] == {"root": "root", "linear": "linear"}.get(scale, "log")
        assert one["least"] == pytest.approx(one["largest"] / 1000)
    assert draw.MAP_SCALES[scale][0][1:] in header["title"]


def test_an_unknown_scale_is_refused(shipped):
    scope = models.load("eng-fra", device="cpu")
    with pytest.raises(ValueError, match="scale must be one of"):
        draw.influence([], scope.encode(source=TEXT)["source"], "cubic", {})


def test_a_long_sentence_keeps_the_last_picture_with_a_reason(shipped):
    at = page("eng-fra")
    before = payload(at, "from-rnn-maps")[1]["map0"]
    at.text_area(key="source").set_value("ab" * 40).run()
    assert layer_text_too_long(81) in notes(at)
    np.testing.assert_array_equal(payload(at, "from-rnn-maps")[1]["map0"], before)
    at.text_area(key="source").set_value("ba").run()
    assert payload(at, "from-rnn-maps")[1]["map0"].shape == (3, 3)
    alone = page("eng-fra", source="ab" * 40)
    assert layer_text_too_long(81) in notes(alone)
    assert not [c for c in alone.get("bidi_component") if c.proto.id.endswith("from-rnn-maps")]


def test_the_curve_is_the_mean_by_distance(shipped):
    scope = models.load("eng-fra", device="cpu")
    reaches = [
        layer_reach(scope.model, ids(scope.path), LayerChoice(kind, 1)) for kind in LAYER_KINDS
    ]
    lines = {
        line.name: dict(zip(line.x, line.y, strict=True))
        for line in charts.influence_chart(reaches, LIGHT, "t").data
    }
    norms = reaches[1].norms
    mean = (float(norms.diagonal(2).sum()) + float(norms.diagonal(-2).sum())) / (
        2 * (len(norms) - 2)
    )
    assert lines[BIDIRECTIONAL][2] == pytest.approx(mean, rel=1e-6)
    assert max(lines[CNN]) == 3  # three layers of width three
    paths = next(iter(charts.path_lengths(reaches, "t").to_dict()["datasets"].values()))
    assert [r["steps"] for r in paths if r["layer"] == RNN] == [1, 2, 3, 4, 5, 6]
    assert {r["steps"] for r in paths if r["layer"] == SELF_ATTENTION} == {1}


def test_the_text_states_the_numbers(shipped):
    scope = models.load("eng-fra", device="cpu")
    reaches = [
        layer_reach(scope.model, ids(scope.path), LayerChoice(kind, 1)) for kind in LAYER_KINDS
    ]
    outside = 36 - int(reaches[2].reaches.sum())
    said = reach_text.explain_reach(reaches)
    assert (
        f"= 7 tokens, centred on the output's own. The other {outside} of 36 pairs are exactly 0"
        in said
    )


def by_hand(
    kind: str,
    norms: list[list[float]],
    *,
    seed: int | None = 1,
    positioned: bool = False,
    **choice: int,
) -> Reach:
    """Return a Reach with these norms; a pair is reached if its norm is not 0."""
    made = torch.tensor(norms, dtype=torch.float32)
    steps = torch.ones(made.shape, dtype=torch.int64)
    return Reach(
        LayerChoice(kind, seed, **choice), made, made > 0, steps, [[0]], 1, 1, 0.0, 0.0, positioned
    )


# row i is output y_i, column j input x_j: inputs before y_i are left of the diagonal
FADING = [[9.0, 0, 0], [4.0, 9.0, 0], [1.0, 2.0, 9.0]]
UNEVEN = [[9.0, 8.0, 2.0], [4.0, 9.0, 6.0], [0.5, 2.0, 9.0]]


def test_an_rnn_that_fades_is_distinguished_from_one_that_does_not():
    text = reach_text.explain_reach([by_hand(RNN, FADING)])
    assert (
        "at distance 1 is 3, mean of 2 pairs. At distance 2 it is 3 times weaker: 1, one pair."
        in text
    )
    grown = [[9.0, 0, 0], [4.0, 9.0, 0], [15.0, 2.0, 9.0]]
    assert "At distance 2 it is 5 times stronger: 15, one pair." in reach_text.explain_reach(
        [by_hand(RNN, grown)]
    )
    assert "times" not in reach_text.explain_reach([by_hand(RNN, [[9.0, 0], [4.0, 9.0]])])


def test_each_direction_of_a_bidirectional_rnn_is_measured_by_itself():
    text = reach_text.explain_reach([by_hand(BIDIRECTIONAL, UNEVEN)])
    assert (
        "Left of the diagonal, read forwards, the influence at distance 1 is 3, mean of 2 pairs. "
        "At distance 2 it is 6 times weaker: 0.5, one pair." in text
    )
    assert (
        "Right of it, read backwards, the influence at distance 1 is 7, mean of 2 pairs. "
        "At distance 2 it is 3.5 times weaker: 2, one pair." in text
    )


@pytest.mark.parametrize(("norms", "most", "least"), [
    (UNEVEN, "the token just after its own (7, mean of 2 pairs)", "the token 2 positions before its own (0.5, one pair)"),
    (np.transpose(UNEVEN).tolist(), "the token just before its own (7, mean of 2 pairs)",
     "the token 2 positions after its own (0.5, one pair)"),
])  # fmt: skip
def test_attention_is_measured_before_and_after_a_token_apart(norms, most, least):
    text = reach_text.explain_reach([by_hand(SELF_ATTENTION, norms, seed=None, positioned=True)])
    assert f"responds most to {most}. It responds least to {least}." in text
    assert "x hold the position vectors" in text
    assert "It has no positions" in reach_text.explain_reach([by_hand(SELF_ATTENTION, norms)])
    assert (
        reach_text.explain_reach([by_hand(SELF_ATTENTION, [[9.0]])])
        == "- **self-attention.** Full."
    )


@pytest.mark.parametrize("positions", ["sinusoidal", "none"])
def test_the_positions_given_to_attention_are_the_models(positions):
    model = random_model(vocab_size=9, n_encoder_layers=1, n_ctx=97, positions=positions)
    own, new = (
        layer_reach(model, (4, 5, 6, 2), LayerChoice(SELF_ATTENTION, seed)) for seed in (None, 1)
    )
    assert (own.positioned, new.positioned) == (positions != "none", False)
    turned = layer_reach(model, (6, 5, 4, 2), LayerChoice(SELF_ATTENTION)).norms[[2, 1, 0, 3]][
        :, [2, 1, 0, 3]
    ]
    assert torch.allclose(own.norms, turned, atol=1e-5) == (
        not own.positioned
    )  # order matters only if positions are given
    by_offset = {offset: mean for offset, mean, _ in own.by_offset()}
    norms = own.norms.numpy()
    for offset in range(-3, 4):
        by_hand = np.mean([norms[i, i + offset] for i in range(4) if 0 <= i + offset < 4])
        assert by_offset[offset] == pytest.approx(by_hand, rel=1e-5)


@pytest.mark.parametrize(("width", "depth", "said"), [
    (1, 2, "2 layers of width 1 see depth·(width − 1) + 1 = 1 token, centred on the output's own. The other 30 of 36 pairs"),
    (3, 1, "1 layer of width 3 sees depth·(width − 1) + 1 = 3 tokens, centred on the output's own. The other 20 of 36 pairs"),
    (7, 6, "= 37 tokens, centred on the output's own. That covers all 36 pairs"),
])  # fmt: skip
def test_a_convolution_states_what_it_covers(shipped, width, depth, said):
    scope = models.load("eng-fra", device="cpu")
    found = layer_reach(scope.model, ids(scope.path), LayerChoice(CNN, 1, width, depth))
    assert said in reach_text.explain_reach([found])
    longest = "no path" if width == 1 else str(-(-5 // (width // 2)))
    table = cost_text.comparison_table([found], [])
    assert (
        f"| CNN | O(k·n·d²) | O(1) (**{depth}**) | O(log_k n); contiguous O(n/k) (**{longest}**)"
        in table
    )
    drawn = next(iter(charts.path_lengths([found], "t").to_dict()["datasets"].values()))
    assert all(row["steps"] for row in drawn)
    assert len(drawn) == (1 if width == 1 else 6)


def test_table_1_counts_on_the_graphs(shipped):
    scope = models.load("eng-fra", device="cpu")
    reaches = [
        layer_reach(scope.model, ids(scope.path), LayerChoice(kind, 1)) for kind in LAYER_KINDS
    ]
    table = cost_text.comparison_table(reaches, [])
    assert "| RNN | O(n·d²) | O(n) (**6**) | O(n) (**6**) | – |" in table
    assert "| CNN | O(k·n·d²) | O(1) (**3**) | O(log_k n); contiguous O(n/k) (**5**) | – |" in table
    assert "| self-attention | O(n²·d) | O(1) (**1**) | O(1) (**1**) | – |" in table


def test_the_stated_lengths_are_those_measured():
    assert (
        f"{len(LENGTHS_MEASURED)} lengths, doubling from 8 to 1,024 tokens." in cost_text.UNMEASURED
    )
    assert all(b == 2 * a for a, b in pairwise(LENGTHS_MEASURED))


@pytest.mark.parametrize(("rnn", "attention", "said"), [
    (4.0, 2.0, "At 64 tokens the RNN takes 2 times as long as self-attention."),
    (2.0, 5.0, "At 64 tokens self-attention takes 2.5 times as long as the RNN."),
    (2.0, 2.001, "At 64 tokens the RNN and self-attention take the same time."),
])  # fmt: skip
def test_the_slower_of_two_layers_is_named(rnn, attention, said):
    kinds = {RNN: (1, rnn), SELF_ATTENTION: (2, attention)}
    timings = [
        Timing(kind, n, (last * (n / 64) ** power,))
        for n in (8, 16, 32, 64)
        for kind, (power, last) in kinds.items()
    ]
    text = cost_text.growth_text(timings)
    assert said in text
    assert "RNN n^1.00 (32 to 64); self-attention n^2.00 (32 to 64)" in text
    assert "With n^1, twice the tokens take twice the time" in text


def test_nothing_is_measured_before_it_is_requested_and_results_stay(shipped, monkeypatch):
    def few(*args, **more):
        yield from (
            Timing(kind, n, (n * 1e-3,) * 3) for n in (8, 16, 32, 64) for kind in LAYER_KINDS
        )

    monkeypatch.setattr(measuring, "time_layers", few)
    at = page("eng-fra", "Parallel and cost", cost="Times")
    assert "Nothing is measured before" in at.get("progress")[0].proto.text
    at.button(key="from-rnn-measure").click().run()
    assert not at.exception
    assert "RNN n^1.00 (32 to 64)" in prose(at)
    assert "16 of 32: stopped" in at.get("progress")[0].proto.text
    specs = [json.loads(c.proto.spec) for c in at.get("vega_lite_chart")]
    titles = [" ".join(spec["title"]["text"]) for spec in specs if "layer" in spec]
    assert titles == ["Forward time of one layer against length, both logarithmic"]


@pytest.mark.slow
def test_stopping_keeps_what_was_measured(shipped, monkeypatch):
    def endless(*args, **more):
        while True:
            yield Timing(RNN, 8, (1e-3,) * 3)

    monkeypatch.setattr(measuring, "time_layers", endless)
    monkeypatch.setattr(measuring, "TIMED_LENGTHS", range(10**9))
    monkeypatch.setattr(measuring, "TIMING_SLICE", 0.001)
    at = page("eng-fra", "Parallel and cost", cost="Times")
    at.button(key="from-rnn-measure").click().run()
    assert ": measuring." in at.get("progress")[0].proto.text
    at.button(key="from-rnn-stop").click().run()
    text = at.get("progress")[0].proto.text
    assert "stopped; its times remain" in text
    assert int(text.split()[0]) > 0


def test_the_lengths_are_those_of_the_records_and_the_missing_ones_are_named(shipped):
    at = page("eng-fra", "Sentence length")
    assert (
        "**eng-fra** loses 21% of its best: 8.5 BLEU, from 40.0 (1–3 words) to 31.5 (4–9 words, 13 cases)"
        in prose(at)
    )
    assert "attnscope evaluate eng-fra-bahdanau" in prose(at)
    assert say.SCORED_NOTE in prose(at)
    assert "nothing here runs in parallel" in prose(page("eng-fra", "Parallel and cost"))
    assert "attnscope evaluate eng-fra --data" not in prose(at)
    assert "Each point is a score over 13 to 71 cases" in prose(at)
    assert "best on its longest" in say.score_drop({"x": [LENGTHS[0]]}, {"x": 1})
    zero = [bucket | {"score": 0.0} for bucket in LENGTHS]
    assert "scores 0 at every length" in say.score_drop({"x": zero}, {"x": 1})
    rows = files.lengths_csv({"x": zero}).splitlines()[1:]
    assert [row.split(",")[-2:] for row in rows] == [["0.0", "0.0"]] * len(zero)
    chart = charts.length_chart({"a": LENGTHS}, "t").to_dict()
    assert [r["words"] for r in next(iter(chart["datasets"].values()))] == [2.0, 6.5]


def test_in_a_presentation_a_chart_has_larger_letters(shipped):
    specs = []
    for present in ("", "1"):
        at = AppTest.from_file(str(APP), default_timeout=PATIENCE)
        at._page_hash = calc_hash("from-rnn")
        at.query_params.update(
            {
                "checkpoint": "eng-fra",
                "source": TEXT,
                "from-rnn-section": "Sentence length",
                "present": present,
            }
        )
        at.run()
        assert not at.exception
        specs.append(json.loads(at.get("vega_lite_chart")[0].proto.spec))
    titles = [spec["title"]["fontSize"] for spec in specs]
    labels = [spec.get("config", {}).get("axis", {}).get("labelFontSize") for spec in specs]
    assert (titles, labels) == ([14, 18], [12, 16])


def test_unequal_training_is_mentioned_where_models_are_compared(shipped):
    records = {"a": LENGTHS, "b": LENGTHS}
    assert "Caution: training length differs (b for 1,200 steps; a for 1 step)" in say.score_drop(
        records, {"a": 1, "b": 1200, "c": 7}
    )
    assert "Caution" not in say.score_drop(records, {"a": 12, "b": 12, "c": 7})
    assert (
        "Caution: training length differs (eng-fra-bahdanau for 19 steps; eng-fra for 17 steps)"
        in prose(page("eng-fra", "Two alignments"))
    )


@pytest.mark.parametrize("name", ["eng-fra", "eng-fra-bahdanau"])
def test_two_alignments_of_one_pair(shipped, name):
    at = page(name, "Two alignments")
    header, arrays = payload(at, "from-rnn-pair")
    shown = models.load(name, device="cpu").run(TEXT)
    names, texts = ("eng-fra-bahdanau", "eng-fra"), (TEXT, shown.streams["target"])
    first, second = (models.load(n, device="cpu").run_batch([texts])[0] for n in names)
    alignment = heads.cross(first)[0].weights(0)
    means = {
        (i, head): float(jensen_shannon(site.weights(head), alignment).mean())
        for i, site in enumerate(heads.cross(second))
        for head in range(site.n_heads)
    }
    place, head = min(means, key=means.get)
    np.testing.assert_allclose(arrays["map0"], alignment.numpy(), atol=1e-6)
    np.testing.assert_allclose(
        arrays["map1"], heads.cross(second)[place].weights(head).numpy(), atol=1e-6
    )
    assert arrays["bars"].mean() == pytest.approx(means[place, head], abs=1e-6)
    assert header["maps"][1]["title"] == f"Cross-attention, layer {place + 1}, head {head + 1}"
    for name, drawn, formula in zip(names, header["maps"], ("v·tanh(", "q·k"), strict=True):
        assert drawn["note"].startswith(f"{name}, trained for ")
        assert formula in drawn["note"]
    assert len(header["rows"]) == len(shown.streams["target"].ids) == len(arrays["bars"])
    assert f"**{means[place, head]:.2f} bits**" in prose(at)


def test_a_link_names_a_head_and_a_target_is_forced_on_both(shipped):
    at = AppTest.from_file(str(APP), default_timeout=PATIENCE)
    at._page_hash = calc_hash("from-rnn")
    link = {"checkpoint": "eng-fra", "source": TEXT, "target": "edc", "from-rnn-section": "Two alignments",
            "from-rnn-layer": "2", "from-rnn-head": "3"}  # fmt: skip
    for key, value in link.items():
        at.query_params[key] = value
    at.run()
    header, arrays = payload(at, "from-rnn-pair")
    weights = (
        models.load("eng-fra", device="cpu")
        .run(TEXT, "edc")
        .attention["decoder.layers.1.cross_attn"]
        .weights(2)
    )
    np.testing.assert_allclose(arrays["map1"], weights.numpy(), atol=1e-6)
    assert [token for token, *_ in header["rows"]] == ["[start] → e", "e → d", "d → c", "c → [end]"]


def test_a_missing_partner_and_different_tokens_are_reported(alone):
    at = page(alone / "eng-fra", "Two alignments")
    assert (
        "Missing: one with Bahdanau's alignment (looked for: eng-fra-bahdanau, eng-fra)"
        in prose(at)
    )
    first, second = (
        models.load(alone / n, device="cpu").run(TEXT, t)
        for n, t in (("eng-fra", "ed"), ("eng-fra-bahdanau", "de"))
    )
    assert not heads.same_rows(first, second)
    assert heads.same_rows(first, first)


def test_files_hold_every_number(shipped):
    scope = models.load("eng-fra", device="cpu")
    found = layer_reach(scope.model, ids(scope.path), LayerChoice(CNN, 1))
    named = [draw.LayerReach(found, "random")]
    rows = list(csv.DictReader(io.StringIO(files.influence_csv(named, [*TEXT, "[end]"]))))
    assert len(rows) == 36
    assert [np.float32(row["norm"]) for row in rows] == found.norms.flatten().tolist()
    assert [row["reached"] == "True" for row in rows] == found.reaches.flatten().tolist()
    held = np.load(io.BytesIO(files.influence_npz(named, [*TEXT, "[end]"])))
    np.testing.assert_array_equal(held["CNN.norms"], found.norms.numpy())
    assert len(files.distance_csv(named).splitlines()) == 1 + len(found.norms_by_distance())
    times = files.timings_csv([Timing(RNN, 8, (0.5, 0.25))], "here")
    assert times.splitlines()[1:] == ["RNN,8,0,0.5,here", "RNN,8,1,0.25,here"]
    assert files.lengths_csv({"a": LENGTHS}).splitlines()[1:] == [
        "a,1,3,71,40.0,1.0",
        "a,4,9,13,31.5,0.7875",
    ]
    p, q = torch.tensor([[0.25, 0.75]]), torch.tensor([[1.0, 0.0]])
    two = [draw.AlignmentMap("one", "", p), draw.AlignmentMap("other", "", q)]
    table = list(
        csv.reader(io.StringIO(files.alignments_csv(two, ["a", "b"], ["c"], jensen_shannon(p, q))))
    )
    assert table[1][:6] == ["0", "c", "0", "a", "0.25", "1.0"]


def test_every_section_has_its_own_question() -> None:
    assert list(FROM_RNN_ANSWERS) == list(FROM_RNN_SECTIONS)
    assert len({*FROM_RNN_ANSWERS.values()}) == len(FROM_RNN_ANSWERS)
    for asked, section in (
        ({"section": "Similarities"}, "Similarities"),
        ({"section": ""}, "Three models"),
    ):
        shown = [html.proto.body for html in page("eng-fra", **asked).get("html")]
        assert any(FROM_RNN_ANSWERS[section][-14:] in body for body in shown)


@pytest.mark.parametrize(
    ("checkpoint", "text", "is_read"),
    [("eng-fra", "I am cold.", False), ("dates", "2 May 1999", True)],
)
def test_the_stages_read_the_text_of_a_dates_model_alone(
    checkpoint: str, text: str, is_read: bool
) -> None:
    section = {"from-rnn-section": "Stages, on dates"}
    app = page_at("from-rnn", checkpoint=checkpoint, source=text, **section)
    ((_, line),) = said(app, "note from-rnn-stages")["rows"]
    assert (text in line, "example" in line) == (is_read, not is_read)
    read = text if is_read else line.partition("example: ")[2].partition(". ")[0]
    table = app.dataframe[0].value.set_index("Checkpoint")
    for name in ("dates", "dates-rnn", "dates-attn"):
        assert table.loc[name, "Writes"] == models.load(name).run(read).output
