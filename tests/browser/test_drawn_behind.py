"""The table behind a canvas: every value with its row and its column, for people who cannot see the picture."""

import numpy as np
from stage import SAVED, Stage, pack

N_WIDE = 47  # tokens, more than anyone would walk across in a table


def maps(values: np.ndarray) -> bytes:
    rows, columns = values.shape
    names = [[f"t{i}", "", False] for i in range(max(rows, columns))]
    one = {
        "title": "Reach", "note": "of each output", "array": "m", "scale": "linear", "least": 0.0,
        "largest": float(np.abs(values).max()), "says": "norm", "none": "",
    }  # fmt: skip
    header = {
        "title": "t", "file": "f", **SAVED, "rowAxis": "output", "colAxis": "input",
        "rows": names[:rows], "cols": names[:columns], "maps": [one], "bars": None,
    }  # fmt: skip
    return pack(header, m=values.astype(np.float32).ravel())


def behind(stage: Stage) -> list[list[str]]:
    """Return the cells of the one table on the stage, line by line, once it exists."""
    stage.page.wait_for_selector(".behind table", state="attached")
    return stage.js(
        "(root) => [...root.querySelectorAll('.behind tr')].map((line) => [...line.cells].map((cell) => cell.textContent))"
    )


def test_each_value_is_at_its_row_and_column(stage: Stage) -> None:
    values = np.arange(15).reshape(3, 5) / 7
    stage.mount("maps")
    stage.show(maps(values))
    head, *lines = behind(stage)
    assert head == ["", "1 t0", "2 t1", "3 t2", "4 t3", "5 t4"]
    assert [line[0] for line in lines] == ["1 t0", "2 t1", "3 t2"]
    read = np.array([[float(cell) for cell in line[1:]] for line in lines])
    np.testing.assert_allclose(read, values, atol=0.006)
    assert stage.js("(root) => root.querySelector('.behind caption').textContent").startswith(
        "Reach"
    )
    scopes = stage.js("(root) => [...root.querySelectorAll('.behind th')].map((one) => one.scope)")
    assert scopes == ["col"] * 5 + ["row"] * 3


def test_it_follows_the_picture_and_is_invisible(stage: Stage) -> None:
    stage.mount("maps")
    stage.show(maps(np.eye(3)))
    behind(stage)
    stage.show(maps(2 * np.eye(3)))
    stage.page.locator(".behind td").get_by_text("2", exact=True).first.wait_for(state="attached")
    box = stage.page.locator(".behind").bounding_box()
    assert (box["width"], box["height"]) == (1, 1)
    assert stage.page.locator(".behind").count() == 1


def test_for_a_wide_matrix_the_values_furthest_from_zero_are_listed(stage: Stage) -> None:
    values = np.zeros((2, N_WIDE))
    values[0, [3, 11, 46]] = [0.5, 2, 1]
    stage.mount("maps")
    stage.show(maps(values))
    _, first, second = behind(stage)
    assert first[:4] == ["1 t0", "12 t11: 2", "47 t46: 1", "4 t3: 0.500"]
    assert len(first) == len(second) == 1 + 5
    said = stage.js("(root) => root.querySelector('.behind caption').textContent")
    assert said.endswith("For each row, the 5 values furthest from 0.")


def test_the_canvas_has_a_role_and_a_name_and_its_marks_are_hidden(stage: Stage) -> None:
    stage.mount("maps")
    stage.show(maps(np.eye(3)))
    drawn = stage.page.get_by_role("img", name="Reach. of each output")
    assert drawn.count() == 1
    assert stage.page.locator("canvas.marks").get_attribute("aria-hidden") == "true"
