"""The position vectors of patches, compared as a grid: against torch's cosine, and with a table whose rows and columns are known."""

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from torch import Tensor

from models.analysis.grid_similarity import GridSimilarity, grid_similarity
from models.images import PatchGrid
from viz_app.drawing.look import LIGHT
from viz_app.drawing.payload import unpack
from viz_app.views.positions import grid as section
from viz_app.views.run_difference import DIFFERENCE_NOTE, KEYS, differences

GRID = PatchGrid(3, 5, ("[CLS]",), ("[REG]",))


def smooth(sign: float = 1.0) -> Tensor:
    """Return vectors whose cosine falls with the distance in rows and columns, or rises for the other sign."""
    place = torch.arange(15)
    apart = (place[:, None] // 5 - place // 5).abs() + (place[:, None] % 5 - place % 5).abs()
    gram = torch.exp(-0.5 * apart.double()) if sign > 0 else torch.eye(15) + 0.05 * apart.double()
    if sign < 0:
        gram += 2 * torch.eye(15)
    return torch.linalg.cholesky(gram)


def table(vectors: Tensor) -> Tensor:
    """Return a table with vectors of special tokens around those of the patches, which would shift every mean."""
    special = 100 * torch.ones(1, vectors.shape[1], dtype=vectors.dtype)
    return torch.cat([special, vectors, -special]).float()


def test_a_tile_has_the_cosines_of_its_patch_and_no_special_token() -> None:
    vectors = torch.randn(15, 23)
    similarity = grid_similarity(table(vectors), GRID)
    for row, column in ((0, 0), (2, 3)):
        own = vectors[5 * row + column]
        wanted = torch.stack([torch.cosine_similarity(own, other, dim=0) for other in vectors])
        tile = similarity.of(row, column)
        torch.testing.assert_close(tile, wanted.reshape(3, 5).double(), atol=1e-6, rtol=0)
        assert float(tile[row, column]) == pytest.approx(1)


def test_means_are_taken_over_the_pairs_that_they_name() -> None:
    similarity = grid_similarity(table(torch.randn(15, 23)), GRID)
    pairs: dict[str, list[float]] = {"beside": [], "in_line": [], "elsewhere": []}
    for one in range(15):
        for other in range(15):
            down, across = abs(one // 5 - other // 5), abs(one % 5 - other % 5)
            if down + across:
                near = "beside" if down + across == 1 else "in_line"
                pairs["elsewhere" if down and across else near].append(
                    float(similarity.cosine[one, other])
                )
    for name, values in pairs.items():
        assert getattr(similarity, name) == pytest.approx(np.mean(values))


@pytest.mark.parametrize(("sign", "word", "other"), [(1.0, "more", "less"), (-1.0, "less", "more")])
def test_the_sentence_follows_the_numbers(sign: float, word: str, other: str) -> None:
    similarity = grid_similarity(table(smooth(sign)), GRID)
    assert (similarity.beside > similarity.elsewhere) == (word == "more")
    told = section.explain_grid(similarity, ("[CLS]",))
    assert f"beside each other are **{word} alike**" in told
    assert f"**{other} alike**" not in told
    assert "[CLS] is left out" in told
    assert f"share an edge {similarity.beside:.2f}".replace("-", "−") in told


@pytest.mark.parametrize(("in_line", "word"), [(0.5, "more"), (0.1, "less")])
def test_patches_in_line_are_compared_with_those_of_other_rows_and_columns(
    in_line: float, word: str
) -> None:
    place = torch.arange(15)
    down = (place[:, None] // 5 - place // 5).abs()
    across = (place[:, None] % 5 - place % 5).abs()
    cosine = torch.where((down > 0) & (across > 0), 0.3, in_line).masked_fill(
        down + across == 1, 0.9
    )
    told = section.explain_grid(GridSimilarity(3, 5, cosine), ())
    assert f"Those of one row or column are {word} alike than the rest." in told


def test_with_a_single_row_other_rows_are_not_mentioned() -> None:
    similarity = grid_similarity(torch.randn(4, 7), PatchGrid(1, 4))
    told = section.explain_grid(similarity, ())
    assert "nan" not in told
    assert "alike" not in told
    assert "left out" not in told


def test_a_table_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match="expected 17 position vectors, got 16"):
        grid_similarity(torch.randn(16, 7), GRID)


def test_grids_of_other_sides_with_as_many_patches_have_no_difference(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(section, "similarity_of", lambda grid: grid_similarity(torch.eye(12), grid))
    monkeypatch.setattr(section, "_about", lambda grid: {})
    quantities = section.PATCH_GRID_VIEW.quantities
    upright, flat = (quantities(PatchGrid(*sides), None) for sides in ((4, 3), (3, 4)))
    assert list(differences(upright, flat)) == [DIFFERENCE_NOTE]
    (key, picture), _ = differences(flat, flat).items()
    header, _ = unpack(picture)
    assert (key, header["numbered"], header["axis"]) == (KEYS[0], True, "patch, from 1")


def cells_of(similarity: GridSimilarity) -> tuple[np.ndarray, Sequence[str], Sequence[str]]:
    trace = section.mosaic(similarity, LIGHT, "title", "").data[0]
    return np.array(trace.z, dtype=float), trace.x, trace.y


def test_the_picture_has_each_cosine_in_its_cell_and_names_it() -> None:
    similarity = grid_similarity(table(torch.randn(15, 23)), GRID)
    cells, x, y = cells_of(similarity)
    assert cells.shape == (len(y), len(x)) == (3 * 4, 5 * 6)
    assert len(set(x)) == len(x)
    for (row, column), (to_row, to_column) in (((1, 2), (0, 4)), ((2, 0), (2, 3))):
        line = y.index(f"row {row + 1} with row {to_row + 1}")
        place = x.index(f"column {column + 1} with column {to_column + 1}")
        wanted = float(similarity.of(row, column)[to_row, to_column])
        assert cells[line, place] == pytest.approx(wanted, abs=1e-5)
    assert np.isnan(cells[3]).all()
    assert np.isnan(cells[:, 5]).all()


def test_in_a_large_grid_patches_without_a_tile_are_mentioned() -> None:
    similarity = grid_similarity(torch.randn(30 * 30, 7), PatchGrid(30, 30))
    assert section.tile_indices(30) == list(range(0, 30, 3))
    assert cells_of(similarity)[0].shape == (10 * 31, 10 * 31)
    assert "100 of 900 patches have a tile" in section.explain_grid(similarity, ())
    assert section.tile_indices(14) == list(range(14))
