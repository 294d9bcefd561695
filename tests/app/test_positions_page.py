"""The page Positions through the app's entry file, its figures and its files: each number against `models`."""

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from app_parts import PATIENCE, heatmap, picture, prose
from small import Reversal, random_model, random_seq2seq
from streamlit.testing.v1 import AppTest
from streamlit.util import calc_hash

import models
from models.analysis.position_measures import measure_formula, similarity_by_distance
from models.analysis.shuffle import ORDERS, new_order, shuffle_test, without_positions
from models.checkpoint import save_checkpoint
from models.decoding import greedy
from models.layers.masks import Mask, look_ahead
from models.layers.positions import FORMULAS, formula_table, wavelengths
from viz_app.drawing.look import DARK, LIGHT, look
from viz_app.views.positions import adding
from viz_app.views.positions import charts as draw
from viz_app.views.positions import claims as claims
from viz_app.views.positions import files as files
from viz_app.views.positions import misprints as measured
from viz_app.views.positions import text as say
from viz_app.views.positions.page import POSITIONS_SECTIONS, positions_answer

APP = Path(__file__).parents[2] / "viz_app" / "app.py"
TEXT = "abcde"
KINDS = ["sinusoidal", "learned", "none"]


def write(folder: Path, **changes) -> Path:
    """Save a checkpoint of a small model with random weights, to be looked at only."""
    model = random_model(vocab_size=9, n_encoder_layers=2, **changes)
    save_checkpoint(folder, model, Reversal().tokenizer, {"step": 0, "task": "reversal"})
    return folder


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A checkpoint for each kind of positions, and a pre-LN one."""
    root = tmp_path_factory.mktemp("positions")
    kinds = {kind: write(root / kind, positions=kind) for kind in KINDS}
    return {**kinds, "pre": write(root / "pre", norm="pre")}


def page(
    folder: Path | str, source: str = TEXT, at: AppTest | None = None, **params: str
) -> AppTest:
    """Open the page for a first run, with its controls set as a link would set them."""
    at = AppTest.from_file(str(APP), default_timeout=PATIENCE) if at is None else at
    at._page_hash = calc_hash("positions")
    at.query_params["checkpoint"], at.query_params["source"] = str(folder), source
    for name, value in params.items():
        at.query_params[f"positions-{name}"] = value
    at.run()
    assert not at.exception, at.exception
    return at


@pytest.mark.slow(except_one_in=5)
@pytest.mark.parametrize("section", POSITIONS_SECTIONS)
@pytest.mark.parametrize("kind", [*KINDS, "pre"])
def test_every_section_renders_for_every_kind_of_model(folders, kind, section):
    at = page(folders[kind], section=section)
    assert "✗" not in prose(at)
    has_nothing = section in ("Rotation", "Grid of patches")
    assert (prose(at).count("✓") >= 1) != has_nothing
    assert ("reads no image" in prose(at)) == (section == "Grid of patches")
    none = "has no rotary positions" if kind == "none" else "No rotary positions were found"
    assert (none in prose(at)) == (section in ("Rotation", "Score by distance"))


@pytest.mark.parametrize("how", ORDERS)
def test_the_shuffle_test_on_the_page_is_the_models(folders, how):
    at = page(folders["sinusoidal"], order=how, seed="5")
    scope = models.load(folders["sinusoidal"])
    ids = scope.encode(source=TEXT)["source"].ids
    order = new_order(len(ids), how, 5)
    positioned = shuffle_test(scope.model, ids, order)
    bare = shuffle_test(without_positions(scope.model), ids, order)
    header, arrays = picture(at, "positions-shuffle")
    assert header["order"] == list(order)
    assert [label[0] for label in header["tokens"]] == [*TEXT, "[end]"]
    np.testing.assert_allclose(arrays["map0"], positioned.change.T.numpy(), rtol=1e-6)
    np.testing.assert_allclose(arrays["map1"], bare.change.T.numpy(), rtol=1e-6)
    np.testing.assert_allclose(
        picture(at, "positions-stages")[1]["means"],
        np.stack([positioned.mean, bare.mean]),
        rtol=1e-6,
    )
    assert f"{100 * float(positioned.mean[-1]):.0f} % of its length" in prose(at)
    assert bare.largest.max() < 1e-4


def test_each_map_matches_its_title_when_positions_are_switched_off(folders):
    """Once, the map "With positions" was that of the run on the screen, which had none."""
    own = page(folders["sinusoidal"], order="reversed")
    off = AppTest.from_file(str(APP), default_timeout=PATIENCE)
    off.query_params["positions"] = "false"
    off = page(folders["sinusoidal"], at=off, order="reversed")
    assert "No position vectors" in str([button.label for button in off.button])
    header, arrays = picture(off, "positions-shuffle")
    expected, numbers = picture(own, "positions-shuffle")
    assert [part["title"] for part in header["parts"]] == [
        part["title"] for part in expected["parts"]
    ]
    for name in ("map0", "map1"):
        np.testing.assert_array_equal(arrays[name], numbers[name])
    assert "✗" not in prose(off)
    assert "This model has no position vectors. Its encoder" not in prose(off)


def test_a_model_without_positions_says_so(folders):
    assert "This model has no position vectors. Its encoder cannot know the order" in prose(
        page(folders["none"])
    )
    at = page(folders["none"], section="Map")
    assert "This model's own" not in at.segmented_control(key="positions-table").options
    assert "no position vectors at all" in prose(at)
    assert "which it does not use" in prose(page(folders["none"], section="Added or concatenated"))


def test_one_token_has_no_order(folders):
    assert "Nothing can be reordered" in prose(page(folders["sinusoidal"], source="a"))


def test_the_model_can_translate_the_reordered_tokens(folders):
    at = page(folders["sinusoidal"], write="true")
    told = [
        json.loads(p.proto.json) for p in at.get("bidi_component") if "positions" in p.proto.json
    ]
    rows = [data["rows"] for data in told if data.get("look") == "note"]
    scope = models.load(folders["sinusoidal"])
    ids = scope.encode(source=TEXT)["source"].ids
    order = new_order(len(ids), "shuffled", 0)
    written = scope.tokenizer.decode(
        [step.token for step in greedy(scope.model, [ids[i] for i in order])]
    )
    assert len(rows) == 4
    assert [["line", f"with positions, reordered: {written}"]] in rows


@pytest.mark.parametrize("formula", FORMULAS)
def test_a_picked_formula_is_the_one_drawn(folders, formula):
    at = page(
        folders["learned"], section="Map", table=say.TABLE_NAMES[formula], d_model="16", length="40"
    )
    table = formula_table(formula, 40, 16)
    np.testing.assert_allclose(heatmap(at, "positions-map"), table.float().numpy())
    np.testing.assert_allclose(heatmap(at, "positions-products"), (table @ table.T).float().numpy())


@pytest.mark.parametrize("kind", ["learned", "sinusoidal"])
def test_the_models_own_table_is_the_one_drawn(folders, kind):
    at = page(folders[kind], section="Map", table=say.TABLE_NAMES[say.OWN_TABLE])
    own = models.load(folders[kind]).model.positions.table.detach()
    np.testing.assert_array_equal(heatmap(at, "positions-map"), own)
    assert at.number_input[0].value == own.shape[1]
    assert at.number_input[0].disabled
    assert kind in prose(at).lower()


def test_learned_curves_have_no_wavelength(folders):
    at = page(folders["learned"], section="Curves", table=say.TABLE_NAMES[say.OWN_TABLE])
    assert "no wavelength" in prose(at)


def test_fewer_dimensions_than_are_drawn(folders, monkeypatch):
    """d_model is reduced while dimension 24 is drawn."""
    monkeypatch.setattr(
        "models.opening.shipped_folder", lambda: folders["sinusoidal"].parent
    )  # so that the page can be run again by its name
    at = page("sinusoidal", section="Curves")
    assert at.multiselect(key="positions-dims").value == [0, 1, 8, 16, 24]
    at.select_slider(key="positions-d_model").set_value(8).run()
    assert not at.exception
    assert all(dim < 8 for dim in at.multiselect(key="positions-dims").value)
    at.multiselect(key="positions-dims").set_value([]).run()
    assert not at.exception


@pytest.mark.slow
def test_smallest_and_largest_tables(folders):
    for d_model, length in (("2", "4"), ("512", "512")):
        at = page(folders["sinusoidal"], section="Two misprints", d_model=d_model, length=length)
        assert f"of {d_model}" in prose(at)


def test_the_comparison_says_what_was_measured(folders):
    text = prose(
        page(folders["sinusoidal"], section="Two misprints", d_model="32", length="60", shift="7")
    )
    for formula in FORMULAS:
        m = measure_formula(formula, 60, 32, 7)
        assert f"| {m.n_varying} of 32 |" in text
        assert f"| {measured.length_share(m.best_linear_miss)} |" in text
        assert (
            "{} and {}, ".format(*m.neighbours.closest_pair) + f"{m.neighbours.least:.3f} apart"
            in text
        )


@pytest.mark.parametrize("head", [0, 2])
def test_the_query_is_the_models_own(folders, head):
    at = AppTest.from_file(str(APP), default_timeout=PATIENCE)
    at.query_params["site"], at.query_params["head"] = "encoder.layers.0.self_attn", str(head)
    at = page(folders["learned"], section="Added or concatenated", token="2", at=at)
    trace = models.load(folders["learned"]).run(TEXT)
    site = trace.attention["encoder.layers.0.self_attn"]
    bias = site.projections["W_Q"][1].unflatten(0, (site.n_heads, -1))[head]
    q = site.q[0, head, 2] - bias
    for row in heatmap(at, "positions-product"):
        np.testing.assert_allclose(row, q.numpy(), atol=1e-5)
    x, p, total, folded = heatmap(at, "positions-sum")
    np.testing.assert_allclose(x + p, total, atol=1e-6)
    np.testing.assert_array_equal(total, folded)
    np.testing.assert_allclose(p, models.load(folders["learned"]).model.positions.table[2].detach())


def test_curves_hold_the_tables_values():
    table = formula_table("paper", 7, 6)
    data = draw.dimension_chart(table, [1, 4], ["one", "four"], "t").data
    assert data[data.dimension == "four"].value.tolist() == table[:, 4].tolist()


def test_wavelengths_beyond_every_text_are_not_drawn():
    waves = wavelengths("2^i", 64)
    data = draw.wavelength_chart(waves, [0, 63], 100, "t").layer[0].data
    assert data.wavelength.tolist() == [w for w in waves.tolist() if w < draw.NEVER]
    assert "are not drawn" in say.wavelengths_sentence(waves, 100)


def test_a_signed_map_is_centred_on_zero():
    figure = draw.heatmap(torch.tensor([[-3.0, 1.0]]), LIGHT, "t", ("row", "column"))
    assert (figure.data[0].zmin, figure.data[0].zmax) == (-3, 3)
    scale = dict(figure.data[0].colorscale)
    assert scale[0.5] == LIGHT.paper
    assert (scale[0.0], scale[1.0]) == (LIGHT.opposite, LIGHT.accent)


def test_looks_follow_the_themes():
    """Their colours are those of the app's settings."""
    from toml_files import tomllib

    themes = tomllib.loads((APP.parent / ".streamlit" / "config.toml").read_text())["theme"]
    for name, its in (("light", LIGHT), ("dark", DARK)):
        assert look(name) is its
        assert (its.paper, its.accent) == (
            themes[name]["backgroundColor"],
            themes[name]["primaryColor"],
        )


RECURRENT = {way: random_seq2seq(vocab_size=9, bidirectional=way) for way in (True, False)}


@pytest.mark.parametrize(("model", "said", "unsaid"), [
    (random_model(positions="sinusoidal"), "So a position vector is added", "no position vectors"),
    (random_model(positions="none"), "This model has no position vectors.", "So every place"),
    (RECURRENT[True], "the order is in its states", "Attention"),
])  # fmt: skip
def test_the_page_says_how_this_model_knows_the_order(model, said, unsaid):
    text = positions_answer(model)
    assert said in text
    assert unsaid not in text


def test_only_attention_without_a_mask_is_blind_to_order():
    """As the page says of attention alone, reordered tokens give reordered vectors, but not under look-ahead."""
    assert "Attention alone ignores order." in positions_answer(random_model())
    layer = random_model(positions="none").encoder.layers[0].self_attn
    x, order = (
        torch.randn(1, 7, layer.d_model if hasattr(layer, "d_model") else 15),
        torch.tensor([3, 0, 6, 1, 5, 2, 4]),
    )
    free, ahead = Mask(), Mask([look_ahead(7, 7)])
    assert torch.allclose(
        layer(x, x, free)[:, order], layer(x[:, order], x[:, order], free), atol=1e-5
    )
    assert not torch.allclose(
        layer(x, x, ahead)[:, order], layer(x[:, order], x[:, order], ahead), atol=1e-2
    )


@pytest.mark.parametrize("both", [True, False], ids=["both ways", "one way"])
def test_an_rnn_says_which_states_moved(both):
    ids, order = (4, 5, 6, 7, 8, 2), (0, 2, 1, 3, 4, 5)
    model = RECURRENT[both]
    text = say.explain_recurrent_shuffle(shuffle_test(model, ids, order))
    with torch.no_grad():
        run = [model.encoder.recurrence(model.embedding(torch.tensor([[ids[i] for i in way]])) * 17**0.5)[0][0].numpy()
               for way in (range(6), order)]  # fmt: skip
    change = np.argsort(order)
    for name, half in (
        ("forwards" if both else "states", slice(0, 7)),
        ("backwards", slice(7, 14)),
    )[: 1 + both]:
        apart = np.linalg.norm((run[1][change] - run[0])[:, half], axis=1) / np.linalg.norm(
            run[0][:, half], axis=1
        )
        assert f"{name} {100 * apart.mean():.0f} %" in text
        assert f"{name} {int((apart < 1e-6).sum())}" in text.partition("same as before: ")[2]
    assert ("Reading backwards, it can change only up to the last one" in text) == both
    assert "each state comes out different" not in text


def test_a_rotation_is_there_for_the_paper_and_no_matrix_at_all_for_two_sines():
    """PE(0), which is zeros, is not the only reason: without it the best matrix misses by nearly as much."""
    table = formula_table("sin-sin", 261, 64).numpy()
    missed = []
    for start in (0, 1):
        here, there = table[start:256], table[start + 5 :]
        missed.append(
            np.linalg.norm(here @ np.linalg.lstsq(here, there, rcond=None)[0] - there)
            / np.linalg.norm(there)
        )
    text = measured.explain_misprint(measure_formula("sin-sin", 100, 64, 5))
    assert (
        f"Over 256 positions together the best matrix misses by {100 * missed[0]:.1f} % of the vectors' length"
        in text
    )
    assert not table[0].any()
    assert missed[1] > 0.9 * missed[0]


def test_a_dimension_stands_still_over_the_positions_shown():
    text = measured.explain_misprint(measure_formula("paper", 4, 64, 1))
    still = int((np.ptp(formula_table("paper", 4, 64).numpy(), axis=0) < 0.01).sum())
    products = formula_table("paper", 4, 64).numpy()
    alike = (products @ products.T).min() / 32
    assert f"{still} of 64 dimensions hardly change over these 4 positions" in text
    assert f"at least {100 * alike:.0f} % alike" in text


def test_the_doubled_exponent_leaves_every_text_from_the_pair_that_is_named():
    assert (
        "From pair log₂ d on (counted from 0), no wavelength is under 60,000 positions"
        in say.WHAT["2^i"]
    )
    for d in (2, 8, 64, 512):
        waves = wavelengths("2^i", d).numpy()[::2]
        first = int(np.log2(d))
        assert (waves[first:] > 60_000).all()
        assert waves[first - 1] < 60_000


@pytest.mark.parametrize(("changes", "said"), [
    ({}, "the same numbers"), ({"norm": "pre"}, "LayerNorm comes between"), ({"positions": "none"}, "this model itself adds no p"),
])  # fmt: skip
def test_the_model_of_the_products_is_named(changes, said):
    found = adding.products_title(random_model(**changes).config, "Encoder layer 1, head 1")
    assert found.startswith("Both through W_Q of encoder layer 1, head 1, without its bias")
    assert found.endswith((said, f"{said})", f"(in this model {said})"))


def test_verdicts_follow_the_numbers():
    at_64 = {
        formula: measured.explain_misprint(measure_formula(formula, 100, 64, 5))
        for formula in FORMULAS
    }
    assert "is the same rotation at every position" in at_64["paper"]
    assert "hardly change" not in at_64["paper"]
    assert "52 of 64 dimensions hardly change" in at_64["2^i"]
    assert "No matrix" in at_64["sin-sin"]
    moving = int((np.ptp(formula_table("paper", 100, 64).numpy(), axis=0) >= 0.01).sum())
    assert f"{moving} of 64 dimensions change." in at_64["paper"]
    assert "dimensions change." not in at_64["2^i"] + at_64["sin-sin"]
    assert "positions are more like a distant one" in measured.explain_misprint(
        measure_formula("paper", 100, 2, 5)
    )
    assert "rounding" in measured.length_share(1e-9)


def test_a_false_claim_fails():
    table = formula_table("paper", 9, 6)
    assert all(c.passed for c in claims.table_checks("paper", table, similarity_by_distance(table)))
    broken = table.clone()
    broken[3, 2] += 0.5
    assert not any(
        c.passed for c in claims.table_checks("paper", broken, similarity_by_distance(broken))
    )
    assert not claims.own_table_checks(broken[:4], table, "sinusoidal", table)[0].passed
    positioned = shuffle_test(random_model(), [4, 5, 6, 2], (1, 0, 2, 3))
    assert not claims.shuffle_checks(positioned, positioned, positioned.original[-1])[0].passed


def test_files_hold_the_same_numbers():
    table = formula_table("paper", 7, 6)
    rows = list(csv.reader(io.StringIO(files.table_csv(table))))
    assert [[float(v) for v in row[1:]] for row in rows[1:]] == table.tolist()
    with np.load(
        io.BytesIO(files.table_npz(table, wavelengths("paper", 6), similarity_by_distance(table)))
    ) as kept:
        assert kept["table"].tolist() == table.tolist()
        assert kept["similarity_mean"].tolist() == similarity_by_distance(table).mean.tolist()
    measures = [measure_formula(formula, 9, 6, 2) for formula in FORMULAS]
    rows = list(csv.DictReader(io.StringIO(files.formula_measures_csv(measures))))
    assert [float(row["best matrix misses by"]) for row in rows] == [
        m.best_linear_miss for m in measures
    ]
    with np.load(io.BytesIO(files.measures_npz(measures))) as kept:
        once, twice = kept["2^i.table"][:-2], kept["2^i.table"][2:]
        np.testing.assert_allclose(once @ kept["2^i.rotation"].T, twice, atol=1e-12)
    model = random_model()
    order = (1, 0, 2)
    tests = (
        shuffle_test(model, [4, 5, 2], order),
        shuffle_test(without_positions(model), [4, 5, 2], order),
    )
    rows = list(csv.DictReader(io.StringIO(files.shuffle_csv(["a", "b", "[end]"], *tests))))
    assert [int(row["new position"]) for row in rows] == [1, 0, 2]
    assert [float(row["layer 1, with positions"]) for row in rows] == tests[0].change[1].tolist()
