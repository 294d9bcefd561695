"""The sections Rotation and Score by distance of the page Positions, for models with rotary positions and others."""

from __future__ import annotations

import csv
import io
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from app_parts import heatmap, page_at, picture, plotly, points, prose
from drawn import on_screen
from hub_models import BY_NAME
from streamlit.testing.v1 import AppTest
from test_live import answer, parts

import models
from models.analysis.scores_by_distance import rotated_pair, scores_by_distance
from models.trace import AttentionSite
from viz_app import checkpoints
from viz_app.drawing.labels import labels
from viz_app.drawing.payload import unpack
from viz_app.drawing.provenance import site_name
from viz_app.session.current_run import CurrentRun
from viz_app.views.positions import claims
from viz_app.views.positions import files as files
from viz_app.views.positions import rotation as say
from viz_app.views.positions.distance import (
    DISTANCES_VIEW,
    DistanceChoices,
    distance_payloads,
)

ROTARY = ("LlamaForCausalLM", "MistralForCausalLM", "GPTNeoXForCausalLM")
IDS = "7 11 5 23 41 3 19"


def page(name: str) -> None:
    from viz_app.navigation import _page

    _page(name, {})


def open_page(folder: Path, section: str, **params: str) -> AppTest:
    asked = {"checkpoint": str(folder), "text": IDS, "positions-section": section}
    return page_at("positions", **asked, **params)


def scores_of(site: AttentionSite, head: int) -> np.ndarray:
    """Return q·k/√d, (query, key)."""
    key_head = head * site.k.shape[1] // site.n_heads
    return (site.q[0, head] @ site.k[0, key_head].T / site.d_head**0.5).numpy()


def by_formula(site: AttentionSite, head: int, query: int, key: int) -> torch.Tensor:
    """Return the score of one query and key at each distance: the angle of each pair by the formula, as complex numbers."""
    pairs = 2 if site.d_head == 16 else 5
    q, k = (
        site.q[0, head, query].double(),
        site.k[0, head * site.k.shape[1] // site.n_heads, key].double(),
    )
    theta = 10000 ** (-torch.arange(pairs).double() / pairs)
    product = (
        torch.complex(q[:pairs], q[pairs : 2 * pairs])
        * torch.complex(k[:pairs], k[pairs : 2 * pairs]).conj()
    )
    turn = torch.arange(7).double()[:, None] - (query - key)
    expected = (product * torch.polar(torch.ones(7, pairs).double(), turn * theta)).real.sum(
        -1
    ) + q[2 * pairs :] @ k[2 * pairs :]
    return expected / site.d_head**0.5


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    found = {}
    for name in (*ROTARY, "GPT2LMHeadModel"):
        found[name] = tmp_path_factory.mktemp("rotary") / name
        case = BY_NAME[name]
        wide = {"hidden_size": 32, "num_attention_heads": 2} if name.startswith("GPTNeoX") else {}
        replace(case, sizes=case.sizes | wide).save(found[name])
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", ROTARY)
def test_the_rotation_is_shown_and_confirmed(folders: dict[str, Path], name: str) -> None:
    said = prose(open_page(folders[name], "Rotation"))
    assert "✗" not in said
    assert "the model rotates by these angles" in said
    pairs, part = (
        (2, "the first 4 of its 16 numbers, in 2 pairs")
        if "NeoX" in name
        else (5, "all of its 10 numbers, in 5 pairs")
    )
    assert part in said
    assert f"Pair i is dimensions i and i + {pairs}." in said
    assert ("The other 12 are left as they are" in said) == ("NeoX" in name)
    slowest = 2 * math.pi * 10000 ** ((pairs - 1) / pairs)
    assert f"completes a turn in 6.3 positions, the slowest in {slowest:,.0f}" in said


@pytest.mark.parametrize("name", ROTARY)
def test_the_map_and_the_wavelengths_that_are_drawn_are_those_of_the_formula(
    folders: dict[str, Path], name: str
) -> None:
    app, pairs = (
        open_page(folders[name], "Rotation", **{"positions-length": "24"}),
        2 if "NeoX" in name else 5,
    )
    frequencies = 10000.0 ** (-np.arange(pairs) / pairs)
    turns = heatmap(app, "positions-rotation")  # (position, pair)
    assert turns.shape == (24, pairs)
    assert np.abs(turns).max() <= 0.5
    expected = np.exp(1j * np.arange(24)[:, None] * frequencies)
    np.testing.assert_allclose(np.exp(2j * np.pi * turns.astype(float)), expected, atol=1e-4)
    layout = plotly(app, "positions-rotation")["layout"]
    assert layout["yaxis"]["title"]["text"] == "position"
    assert layout["xaxis"]["title"]["text"] == "pair of dimensions"
    dots, rule, *_ = points(app, "How many positions one full turn takes")
    assert dots["dimension"] == list(range(pairs))
    np.testing.assert_allclose(dots["wavelength"], 2 * np.pi / frequencies, rtol=1e-5)
    assert rule["n"] == [24]


@pytest.mark.parametrize("name", ROTARY)
def test_scores_by_distance_that_are_drawn_are_those_of_the_head(
    folders: dict[str, Path], name: str
) -> None:
    site = list(models.load(folders[name]).run(IDS).attention.values())[1]
    app = open_page(
        folders[name],
        "Score by distance",
        site=site.name,
        head="1",
        **{"positions-query": "5", "positions-key": "2"},
    )
    told = prose(app)
    assert "✗" not in told
    assert "only the distance counts" in told
    assert "By distance: all 28 pairs" in told
    header, arrays = picture(app, "positions-distance")
    scores = scores_of(site, 1)
    pairs = [[scores[key + distance, key] for key in range(7 - distance)] for distance in range(7)]
    assert arrays["distance"].tolist() == list(range(7))
    assert arrays["pairs"].tolist() == [7, 6, 5, 4, 3, 2, 1]
    for of, array in ((np.mean, "value"), (min, "least"), (max, "largest")):
        np.testing.assert_allclose(
            arrays[array], [of(each) for each in pairs], rtol=1e-5, atol=1e-5
        )
    assert header["title"].endswith("head 2: score by distance")
    assert header["file"].endswith(f".score-by-distance.{site_name(site)}.head2")
    turned, values = picture(app, "positions-carried")
    assert values["distance"].tolist() == list(range(7))
    np.testing.assert_allclose(values["value"], by_formula(site, 1, 5, 2), rtol=1e-4, atol=1e-5)
    assert values["value"][3] == pytest.approx(scores[5, 2], abs=1e-4)
    assert (turned["marked"], header["marked"]) == (3, None)
    assert turned["title"] == "5 3 → 2 5: the score by rotation alone"
    assert turned["domain"] == header["domain"]
    assert header["domain"][0] == pytest.approx(
        min(0, *(min(each) for each in pairs), *values["value"]), abs=1e-5
    )
    assert header["domain"][1] == pytest.approx(
        max(*(max(each) for each in pairs), *values["value"]), abs=1e-5
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["LlamaForCausalLM", "GPT2LMHeadModel"])
def test_typing_draws_the_scores_of_the_new_text_over_the_socket(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    folder = folders[name]
    monkeypatch.setenv(checkpoints.MODELS_VARIABLE, str(folder.parent))
    app = open_page(
        Path(folder.parent.name, folder.name),
        "Score by distance",
        **{"positions-query": "5", "positions-key": "2"},
    )
    for text in ("7 11 5 23 41 3 19 2 2", "7 11 5", "9"):
        before = parts(app)
        message = answer(app.session_state["live session"], text)
        app.text_area(key="text").set_value(text).run()
        assert not app.exception
        after = parts(app)
        assert message == {key: after[key] for key in message}
        changed = {key for key in after if after[key] != before.get(key)} - {"live"}
        turned = {"positions-carried", "choice"} if name.startswith("Llama") else set()
        assert {"positions-distance", "positions-explained", *turned} <= changed <= set(message)
        assert picture(app, "positions-distance")[1]["distance"].tolist() == list(
            range(len(text.split()))
        )


def test_a_click_on_a_token_chooses_another_pair(folders: dict[str, Path]) -> None:
    site = list(models.load(folders["LlamaForCausalLM"]).run(IDS).attention.values())[1]
    app = open_page(folders["LlamaForCausalLM"], "Score by distance", site=site.name, head="4")
    header, arrays = picture(app, "choice")
    assert (header["query"], header["key"], len(header["keys"]), len(header["queries"])) == (
        6,
        0,
        7,
        7,
    )
    np.testing.assert_allclose(arrays["weights"], site.weights(4)[6], atol=1e-6)
    app = open_page(
        folders["LlamaForCausalLM"],
        "Score by distance",
        **{"positions-query": "3", "positions-key": "5"},
    )
    header, _ = picture(app, "choice")
    assert (header["query"], header["key"], len(header["keys"])) == (
        3,
        3,
        4,
    )  # no key behind its query
    assert picture(app, "positions-carried")[0]["marked"] == 0


def test_a_model_without_rotation_says_so_and_has_scores_by_distance(
    folders: dict[str, Path],
) -> None:
    assert "No rotary positions were found" in prose(
        open_page(folders["GPT2LMHeadModel"], "Rotation")
    )
    said = prose(open_page(folders["GPT2LMHeadModel"], "Score by distance"))
    assert "By distance: all 28 pairs" in said
    assert "No rotary positions were found" in said
    assert "✗" not in said


@pytest.mark.parametrize("back_only", [True, False])
def test_every_pair_is_counted_at_its_distance(folders: dict[str, Path], back_only: bool) -> None:
    site = next(iter(models.load(folders["MistralForCausalLM"]).run(IDS).attention.values()))
    q, k = site.q[0, 4], site.k[0, 1]  # three heads read one key head
    scores = (q @ k.T / 10**0.5).numpy()
    found = scores_by_distance(site, 4, back_only=back_only)
    assert found.distance.tolist() == list(range(0 if back_only else -6, 7))
    for at, distance in enumerate(found.distance.tolist()):
        own = [scores[i, i - distance] for i in range(7) if 0 <= i - distance < 7]
        assert int(found.pairs[at]) == len(own)
        np.testing.assert_allclose(
            [found.mean[at], found.least[at], found.largest[at]],
            [np.mean(own), min(own), max(own)],
            rtol=1e-5,
            atol=1e-5,
        )


@pytest.mark.parametrize("name", ROTARY)
def test_one_query_and_key_at_each_distance(folders: dict[str, Path], name: str) -> None:
    scope = models.load(folders[name])
    site = list(scope.run(IDS).attention.values())[1]
    rotation, head, query, key = scope.model.rotation(7), site.n_heads - 1, 5, 2
    alone = rotated_pair(site, rotation, head, query, key)
    torch.testing.assert_close(
        alone.scores().double(), by_formula(site, head, query, key), rtol=1e-4, atol=1e-5
    )
    assert all(check.passed for check in claims.rotated_pair_checks(alone, site, head, query - key))
    wrong = replace(alone, places=(4, 2))
    assert [
        check.passed for check in claims.rotated_pair_checks(wrong, site, head, query - key)
    ] == [
        True,
        False,
        True,
    ]


def test_files_hold_the_numbers_of_the_pictures(folders: dict[str, Path]) -> None:
    scope = models.load(folders["GPTNeoXForCausalLM"])
    rotation = scope.model.rotation(7)
    rows = list(csv.reader(io.StringIO(files.angles_csv(rotation))))
    assert rows[0] == ["position \\ pair", "0", "1"]
    assert rows[4] == ["3", *map(str, rotation.angles[3].tolist())]
    site = next(iter(scope.run(IDS).attention.values()))
    found, alone = (
        scores_by_distance(site, 1, back_only=False),
        rotated_pair(site, rotation, 1, 5, 2),
    )
    rows = list(csv.reader(io.StringIO(files.distances_csv(found, alone))))
    assert rows[0] == [
        "distance",
        "pairs",
        "mean",
        "least",
        "largest",
        "one query and key, rotated",
    ]
    assert rows[5] == [
        "-2",
        "5",
        *(str(t[4].item()) for t in (found.mean, found.least, found.largest)),
        "",
    ]
    assert [float(row[5]) for row in rows[7:]] == alone.scores().tolist()
    assert rows[7][0] == "0"
    assert len(next(csv.reader(io.StringIO(files.distances_csv(found, None))))) == 5


def test_the_scores_of_one_pair_name_the_pair(folders: dict[str, Path]) -> None:
    scope = models.load(folders["GPTNeoXForCausalLM"])
    run = CurrentRun(scope, scope.run(IDS))
    site, tokens = next(iter(run.trace.attention)), labels(run.trace.streams["text"])
    for query, key in ((3, 0), (4, 2)):
        choices = DistanceChoices(site, 1, query, key)
        wanted = f"query {query} {tokens[query].text}, key {key} {tokens[key].text}"
        (file,) = DISTANCES_VIEW.files(run, choices)
        assert file.about(run)["rotated"] == wanted
        drawn = on_screen(distance_payloads(run, choices))
        assert f"rotated: {wanted}\n" in unpack(drawn["positions-carried"])[0]["about"]
        assert "rotated: " not in unpack(drawn["positions-distance"])[0]["about"]


def test_angles_are_in_turns_from_minus_a_half_to_a_half() -> None:
    angles = torch.tensor(
        [[0.0, math.pi / 2, 3 * math.pi / 2, 2 * math.pi, 9 * math.pi / 2]], dtype=torch.float64
    )
    torch.testing.assert_close(
        say.within_half_a_turn(angles),
        torch.tensor([[0, 0.25, -0.25, 0, 0.25]], dtype=torch.float64),
    )
