"""The trace of training: a snapshot's run, the loss curve, the animated picture, and the slider on the page."""

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from streamlit.testing.v1 import AppTest

import models
import viz_app
from viz_app.figures import growth
from viz_app.figures.colours import ramp
from viz_app.figures.labels import Label
from viz_app.figures.payload import unpack

APP = Path(viz_app.__file__).with_name("app.py")


def frames(n: int, rows: int, columns: int) -> list[growth.Frame]:
    rng = np.random.default_rng(0)
    return [growth.Frame(3**i, rng.random((rows, columns), dtype=np.float32)) for i in range(n)]


def test_every_cell_of_every_frame_of_the_gif_has_the_colour_of_its_weight() -> None:
    shown, blocked = frames(4, 3, 5), np.zeros((3, 5), np.uint8)
    gif = growth.head_gif(shown, [Label("q")] * 3, [Label("k")] * 5, blocked, "a head")
    picture = Image.open(io.BytesIO(gif))
    assert picture.n_frames == 4
    for i, frame in enumerate(shown):
        picture.seek(i)
        pixels = picture.convert("RGB")
        for (q, k), weight in np.ndenumerate(frame.weights):
            came = pixels.getpixel((growth._LEFT + k * growth._CELL + 12, growth._TOP + q * growth._CELL + 12))
            wanted = bytes.fromhex(ramp(float(weight))[1:])
            assert max(abs(a - b) for a, b in zip(came, wanted, strict=True)) <= 12   # a GIF has 256 colours


def test_a_long_text_still_gives_a_picture_of_modest_size() -> None:
    label = [Label("x")] * 211
    gif = growth.head_gif(frames(2, 211, 211), label, label, np.zeros((211, 211), np.uint8), "a head")
    assert max(Image.open(io.BytesIO(gif)).size) < 1500


def test_the_curve_holds_the_recorded_losses() -> None:
    curve = [{"step": 20, "loss": 4.25}, {"step": 40, "loss": 1.5, "validation loss": 1.75}]
    layers = growth.loss_curve(curve, 40, "#000000", "#888888").to_dict()["layer"]
    values = [layer["data"]["values"] for layer in layers]
    assert [(row["step"], row["loss"]) for row in values[0]] == [(20, 4.25), (40, 1.5)]
    assert [(row["step"], row["loss"]) for row in values[1]] == [(40, 1.75)]
    assert values[2] == [{"step": 40}]


def test_the_last_snapshot_is_the_shipped_checkpoint_and_the_first_has_learned_nothing() -> None:
    scope = models.load("dates")
    last = models.load("dates", snapshot=scope.snapshots[-1])
    assert all((a == b).all() for a, b in zip(scope.model.parameters(), last.model.parameters(), strict=True))
    first = models.load("dates", snapshot=0)
    assert first.training["step"] == 0
    assert first.run("3 May 2019").output != "2019-05-03"
    assert scope.run("3 May 2019").output == "2019-05-03"


@pytest.fixture
def page() -> AppTest:
    app = AppTest.from_file(APP, default_timeout=60)
    app.query_params["checkpoint"] = "dates"
    app.query_params["source"] = "3 May 2019"
    app.query_params["growth"] = "true"
    return app


def head_payload(app: AppTest) -> tuple[dict, np.ndarray]:
    """Header and weights that the head component was given."""
    content = next(c.proto.bytes for c in app.get("bidi_component") if b'"queryAxis"' in c.proto.bytes)
    header, arrays = unpack(content)
    return header, arrays["weights"]


def test_the_slider_shows_the_same_text_under_the_weights_of_that_step(page: AppTest) -> None:
    page.run()
    assert not page.exception
    page.select_slider(key="growth-step").set_value(125).run()
    assert not page.exception
    header, weights = head_payload(page)
    now = models.load("dates").run("3 May 2019")
    then = models.load("dates", snapshot=125).run_batch([("3 May 2019", now.target)])[0]
    np.testing.assert_array_equal(weights, then.attention[header["site"]].weights(header["head"]).numpy())
    assert not np.allclose(weights, now.attention[header["site"]].weights(header["head"]).numpy())
