"""A pinned run beside the current one: on every page, with the model and text of its address, on one scale."""

import gc
import shutil
from pathlib import Path
from weakref import ref

import numpy as np
import pytest
from app_parts import PATIENCE, address_of, app_at, component, in_session, picture, prose, said
from streamlit.testing.v1 import AppTest

import models
from models.trace.edits import MaskChange, for_kinds
from viz_app.drawing.extent import OWN_EXTENT, Scaled, on_one_scale, widen_scales
from viz_app.drawing.payload import pack, unpack
from viz_app.session import live, live_route, opening, pinned, url_state
from viz_app.session.byte_cache import ByteCache
from viz_app.session.cache import store

# pages whose pictures are of one run; From RNN and Models compare models themselves
OF_A_RUN = ["attention", "task", "inside", "layer", "masks", "decoding"]
PINNED = {"pin.checkpoint": "eng-fra", "pin.source": "I like dogs."}


def page(name: str) -> None:
    import streamlit as st

    from viz_app.navigation import _page
    from viz_app.session import live

    _page(name, {})
    st.session_state["of the test"] = live.live_session()


def open_page(name: str, **asked: str) -> AppTest:
    app = AppTest.from_function(page, args=(name,), default_timeout=PATIENCE)
    for parameter, value in ({"checkpoint": "eng-fra", "source": "I like cats."} | asked).items():
        app.query_params[parameter] = value
    app.run()
    assert not app.exception
    return app


def keys(app: AppTest) -> set[str]:
    """Return the key of every browser part."""
    return {element.proto.id.rpartition("-")[2] for element in app.get("bidi_component")}


@pytest.mark.slow(except_one_in=3)
@pytest.mark.parametrize("name", OF_A_RUN)
def test_every_page_opens_beside_a_run_of_another_family(name: str) -> None:
    for checkpoint in ("gpt", "eng-fra-rnn", "bert"):
        app = open_page(name, **{"pin.checkpoint": checkpoint})
        assert "pin written" in keys(app) or checkpoint in " ".join(t.value for t in app.text)


@pytest.mark.parametrize("heads", ["one", "mean"])
def test_a_pinned_decoder_of_fewer_heads_is_read_in_one_that_it_has(heads: str) -> None:
    pinned = {"pin.checkpoint": "dates", "pin.source": "3 May 2019"}
    site = {"site": "decoder.layers.1.cross_attn", "head": "5", "heads": heads}
    app = open_page("decoding", **pinned, **site)
    ours, theirs = (picture(app, key)[0]["reading"] for key in ("stepper", "pin stepper"))
    if heads == "mean":
        assert (ours[-11:], theirs[-11:]) == ("its 6 heads", "its 4 heads")
    else:
        assert ours.endswith("layer 2, head 6")
        assert theirs.endswith("layer 2, head 4")


@pytest.mark.parametrize("name", OF_A_RUN)
def test_a_run_pinned_beside_itself_has_the_same_pictures(name: str) -> None:
    app = open_page(name, **PINNED | {"pin.source": "I like cats."})
    of_both = [key for key in keys(app) if f"pin {key}" in keys(app)]
    assert {"written", "checks"} < set(of_both)
    for key in of_both:
        if component(app, key).json:
            assert said(app, key)["rows"] == said(app, f"pin {key}")["rows"]
        else:
            (header, arrays), (other, others) = (picture(app, one) for one in (key, f"pin {key}"))
            assert header == other
            assert arrays.keys() == others.keys()
            assert all(np.array_equal(arrays[n], others[n], equal_nan=True) for n in arrays)


def test_the_pinned_head_is_that_of_its_own_model_and_text() -> None:
    site = "decoder.layers.2.cross_attn"
    app = open_page("attention", **PINNED, site=site, head="3")
    scope = models.load("eng-fra", device="cpu")
    for key, text in (("head", "I like cats."), ("pin head", "I like dogs.")):
        weights = scope.run(text).attention[site].weights(3).numpy()
        np.testing.assert_allclose(picture(app, key)[1]["weights"], weights, atol=1e-5)
    assert [text.value for text in app.text] == ["This run: eng-fra", "Pinned run: eng-fra"]


def test_changes_of_the_pinned_run_compose_and_leave_the_current_run_alone() -> None:
    changed = {"pin.growth": "true", "pin.growth-step": "500", "pin.similarity": "cosine"}
    text = {"checkpoint": "dates", "pin.checkpoint": "dates", "pin.source": "3 May 2019"}
    app = open_page(
        "attention", **text, **changed, **{"pin.cross-mask": "f0.1"}, source="4 May 2020"
    )
    run = app.session_state["of the test"].shown
    assert run.spec.is_unchanged
    names = [text.value for text in app.text]
    assert names[0] == "This run: dates"
    assert "Training step 500" in names[1]
    assert "cosine" in names[1]
    assert "Mask changed: Cross" in names[1]
    scope = models.load("dates", snapshot=500, device="cpu").with_similarity("cosine")
    own = models.load("dates", device="cpu").run("3 May 2019")
    edits = for_kinds(cross=MaskChange(block=((0, 1),)))
    fields = tuple(own.streams[field.stream] for field in scope.model.fields)
    expected = scope.run_batch([fields], edits=edits)[0]
    header, arrays = picture(app, "pin head")
    weights = expected.attention[header["site"]].weights(header["head"]).numpy()
    np.testing.assert_allclose(arrays["weights"], weights, atol=1e-5)


def test_pin_and_unpin_change_the_address() -> None:
    app = open_page("attention", similarity="cosine")
    session = app.session_state["of the test"]
    assert not any(key.startswith("pin ") for key in keys(app))

    def pin() -> None:
        from viz_app.controls import pin_bar
        from viz_app.navigation import _page
        from viz_app.session import live

        pin_bar.toggle_pin(live.live_session(), True)
        _page("attention", {})

    address = address_of(app)
    assert not any(name.startswith("pin.") for name in address)
    again = AppTest.from_function(pin, default_timeout=PATIENCE)
    for parameter, value in {"checkpoint": "eng-fra", "similarity": "cosine"}.items():
        again.query_params[parameter] = value
    again.run()  # nothing to pin before the first run
    again.run()
    assert not again.exception
    address = address_of(again)
    assert address["pin.checkpoint"] == ["eng-fra"]
    assert address["pin.similarity"] == ["cosine"]
    assert address["pin.source"] == [again.text_area(key="source").value]
    assert session is not None


def test_nothing_of_a_pinned_run_is_left_for_the_next() -> None:
    app = app_at("compare", checkpoint="gpt", text="The boy slept.")
    before = {"checkpoint": ["bert"], "text": ["The dog was happy."], "masked": ["2"]}
    with in_session(app):
        pinned.pin_address(before)
        pinned.unpin()
    app.button(key="compare-model-bert").click().run()
    assert not app.exception
    named = {name: value for name, value in address_of(app).items() if name.startswith("pin.")}
    assert named == {"pin.checkpoint": ["bert"]}


def test_swap_exchanges_both_runs() -> None:
    text = {"checkpoint": "dates", "pin.checkpoint": "dates", "pin.source": "3 May 2019"}
    step = {"pin.growth": "true", "pin.growth-step": "500"}
    app = open_page("attention", **text, **step, source="4 May 2020")
    app.button(key="pin-swap").click().run()
    assert not app.exception
    assert app.text_area(key="source").value == "3 May 2019"
    assert [text.value for text in app.text] == [
        "This run: dates, Training step 500",
        "Pinned run: dates",
    ]
    assert dict(said(app, "pin written")["rows"])["source"] == "4 May 2020"


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"pin.checkpoint": "nothing-there"}, "nothing-there"),
        ({"pin.checkpoint": "dates", "pin.source": "日本語のテキスト" * 300}, "token"),
    ],
)
def test_a_pinned_run_that_cannot_be_shown_is_reported_and_the_page_stays(asked, why) -> None:
    app = open_page("attention", **asked)
    note = said(app, "note pin")
    assert note["look"] == "note bad"
    assert why in note["rows"][0][1]
    assert "head" in keys(app)
    assert "pin head" not in keys(app)


def test_without_its_own_text_the_pinned_run_reads_the_typed_one() -> None:
    app = open_page("attention", **{"pin.checkpoint": "eng-fra-bahdanau"})
    answers = {}
    for text in ("I like cats.", "She is ill."):
        app.text_area(key="source").set_value(text).run()
        shown = dict(said(app, "pin written")["rows"])
        assert shown["source"] == text
        answers[text] = shown["output"]
        typed = app.session_state["of the test"].answer(text, "")
        assert dict(typed["pin written"]["rows"])["output"] == shown["output"]
    scope = models.load("eng-fra-bahdanau", device="cpu")
    assert answers == {text: scope.run(text).output for text in answers}
    app.button(key="pin-keep").click().run()
    app.text_area(key="source").set_value("I like cats.").run()
    assert dict(said(app, "pin written")["rows"])["source"] == "She is ill."
    app.button(key="pin-follow").click().run()
    assert dict(said(app, "pin written")["rows"])["source"] == "I like cats."


def test_a_pinned_model_that_takes_long_shows_its_progress_beside_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = shutil.copytree(models.opening.shipped_folder() / "dates", tmp_path / "slow")
    ready, looks = opening.Opening.ready, iter([False])

    def slow(self: opening.Opening, seconds: float) -> bool:
        return (
            next(looks, True) and ready(self, 60) if self.name == str(folder) else ready(self, 60)
        )

    monkeypatch.setattr(opening.Opening, "ready", slow)
    app = open_page("attention", **{"pin.checkpoint": str(folder), "pin.source": "3 May 2019"})
    assert {"head", "opening-pinned progress"} <= keys_of(app)
    app.run()
    assert "pin head" in keys(app)
    assert "opening-pinned progress" not in keys_of(app)


def test_back_to_a_slow_pinned_model_leaves_nothing_of_the_previous_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = shutil.copytree(models.opening.shipped_folder() / "dates", tmp_path / "slow")
    app = open_page("attention", **PINNED, **{"pin.similarity": "cosine"})
    assert address_of(app)["pin.similarity"] == ["cosine"]
    ready, looks = opening.Opening.ready, iter([False])
    monkeypatch.setattr(
        opening.Opening, "ready", lambda self, seconds: next(looks, True) and ready(self, 60)
    )
    monkeypatch.setattr(url_state, "_is_history_navigation", lambda: True)
    app.query_params.clear()
    app.query_params.update({"checkpoint": "eng-fra", "source": "I like cats."})
    app.query_params["pin.checkpoint"] = str(folder)
    app.run()
    assert "opening-pinned progress" in keys_of(app)
    monkeypatch.setattr(url_state, "_is_history_navigation", lambda: False)
    app.run()
    address = address_of(app)
    assert address["pin.checkpoint"] == [str(folder)]
    assert not address.keys() & {"pin.similarity", "pin.source"}


def keys_of(app: AppTest) -> set[str]:
    """Return the keys, those with a hyphen in full."""
    ids = [element.proto.id for element in app.get("bidi_component")]
    return keys(app) | {
        "opening-pinned progress" for one in ids if one.endswith("opening-pinned progress")
    }


def test_a_key_typed_sends_both_runs_on_one_scale() -> None:
    app = open_page("layer", **PINNED)
    session: live.LiveSession = app.session_state["of the test"]
    drawn = session.answer("I really like cats very much.", "")
    mine, beside = (unpack(drawn[key])[0] for key in ("layer", "pin layer"))
    assert mine["extent"] != beside["extent"]
    names = mine["extent"].keys() & beside["extent"].keys()
    assert names
    for name in names:
        widest = max(mine["extent"][name], beside["extent"][name])
        assert mine["scales"][name] == beside["scales"][name] == pytest.approx(widest)


@pytest.mark.parametrize("name", ["attention", "layer", "masks"])
def test_a_fixed_pinned_text_is_not_run_or_drawn_again_at_a_key(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = open_page(name, **PINNED)
    session: live.LiveSession = app.session_state["of the test"]
    drawn = {text: session.answer(text, "") for text in ("I like.", "I like cats very much.")}
    session.pinned_pictures = None  # as if the page had been left
    again = {text: session.answer(text, "") for text in drawn}
    assert drawn == again  # drawn once or again
    assert any(key.startswith("pin ") for key in drawn["I like."])

    def beside(*arguments: object) -> None:
        raise AssertionError("the pinned text was run again")

    monkeypatch.setattr(pinned.Pinned, "beside", beside)
    assert session.answer("I like.", "") == drawn["I like."]


@pytest.mark.slow
def test_a_closed_page_holds_no_pinned_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "cache_store", ByteCache(1))  # caches nothing
    traces = []
    beside = pinned.Pinned.beside

    def noted(*arguments):
        run = beside(*arguments)
        traces.append(ref(run.trace))
        return run

    monkeypatch.setattr(pinned.Pinned, "beside", noted)
    app = open_page("layer", **PINNED)
    session: live.LiveSession = app.session_state["of the test"]
    session.answer("I like.", "")
    gc.collect()
    assert any(trace() for trace in traces)
    live_route._leave(session.token)
    gc.collect()
    assert not any(trace() for trace in traces)
    assert "pin layer" in session.answer("I like.", "")


def test_a_pinned_model_with_another_kind_of_picture_is_mentioned() -> None:
    app = open_page("attention", **{"pin.checkpoint": "eng-fra-rnn", "pin.source": "I like dogs."})
    assert "cannot be compared" in prose(app)
    assert "head" in keys(app)


def test_the_pinned_run_takes_no_changes() -> None:
    app = open_page("masks", **PINNED)
    sent = {e.proto.id.rpartition("-")[2] for e in app.get("bidi_component")}
    assert {"mask_painter", "pin mask_painter"} <= sent
    from viz_app.views.masks.page import ALL_MASKS
    from viz_app.views.masks.payloads import MaskChoices

    session = app.session_state["of the test"]
    shown = next(
        cell
        for cell in ALL_MASKS.layout(session.shown, MaskChoices("", "", 0, "cross", "", 0), {})
        if getattr(cell, "picture", "") == "mask_painter"
    )
    assert set(shown.change) == {"on_paint"}


# scales


def drawn_to(value: float):
    def draw(extent=OWN_EXTENT) -> bytes:
        own = {"size": value}
        return pack({"extent": own, "scale": widen_scales(own, extent)["size"]}, values=np.ones(3))

    return Scaled(draw)


def test_pictures_with_one_key_share_a_scale_and_others_keep_theirs() -> None:
    first, second = on_one_scale(
        {"a": drawn_to(2.0), "b": drawn_to(1.0), "c": b"as it is"}, {"a": drawn_to(5.0)}
    )
    assert unpack(first["a"])[0]["scale"] == unpack(second["a"])[0]["scale"] == 5.0
    assert unpack(first["b"])[0]["scale"] == 1.0
    assert first["c"] == b"as it is"
    (alone,) = on_one_scale({"a": drawn_to(2.0)})
    assert unpack(alone["a"])[0]["scale"] == 2.0


def test_each_parameter_of_a_run_has_one_of_the_pinned_run() -> None:
    one = pinned.of_pinned(pinned.CHECKPOINT)
    assert one.name == "pin.checkpoint"
    assert one is pinned.of_pinned(pinned.CHECKPOINT)


def test_tokens_forced_on_the_pinned_run_are_cleared_when_it_follows_another_text() -> None:
    app = open_page("decoding", source="The black cat is here.", **{"pin.checkpoint": "eng-fra", "pin.force": "1:1182"})  # fmt: skip
    assert picture(app, "pin stepper")[0]["forced"] == [0]
    live = app.session_state["of the test"]
    typed = live.edit("We like him.", "")
    assert unpack(unpack(typed)[1]["pin stepper"].tobytes())[0]["forced"] == []
    app.text_area(key="source").set_value("We like him very much.").run()
    header = picture(app, "pin stepper")[0]
    written = [label[0] for label in header["serial"]["written"]]
    assert (header["forced"], written) == (
        [],
        [label[0] for label in picture(app, "stepper")[0]["serial"]["written"]],
    )


def test_swapped_runs_keep_the_tokens_that_each_was_forced_to_take() -> None:
    forced = {"force": "1:1182", "pin.force": "1:363"}
    pinned_text = {"pin.checkpoint": "eng-fra", "pin.source": "We like him."}
    app = open_page("decoding", source="The black cat is here.", **forced, **pinned_text)
    app.button(key="pin-swap").click().run()
    spec = app.session_state["of the test"].shown.spec
    assert (spec.fields[0], spec.forced) == ("We like him.", ((0, 363),))
    assert app.session_state["of the test"].beside(
        app.session_state["of the test"].run
    ).spec.forced == ((0, 1182),)
