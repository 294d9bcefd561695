"""Weights replaced while the app runs, at the same step, in the same folder, with files of the same size and time: every page
then shows the numbers of the new weights, recomputed here with `models` alone."""

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from app_parts import app_at, picture, said
from safetensors import safe_open
from safetensors.torch import save_file
from streamlit.testing.v1 import AppTest

import models
import viz_app
from models import decoding
from models.analysis import attention_gradients, jacobian_reach, shuffle
from models.analysis.metrics import LogProbability
from models.checkpoint import add_to_record, load_checkpoint, save_checkpoint, seal
from models.checkpoint_files import snapshot_path
from models.layers.similarity import SIMILARITIES
from models.opening import shipped_folder
from models.runs.masked_comparison import run_masked
from models.trace.edits import HeadOff
from viz_app.drawing.payload import unpack
from viz_app.navigation import PAGES
from viz_app.session import cache
from viz_app.session.cache import opened as opened_models
from viz_app.session.current_run import CurrentRun

APP = Path(viz_app.__file__).with_name("app.py")
SOURCE, TARGET, STEP = "3 May 2019", "2019-0", 500
CROSS, SELF = "decoder.layers.1.cross_attn", "decoder.layers.0.self_attn"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of "dates", to be replaced; only it and an RNN with Bahdanau's alignment are shipped. Its record has no
    checksums, so that no other file has to change with the weights."""
    for name in ("dates", "dates-bahdanau"):
        shutil.copytree(shipped_folder() / name, tmp_path / name)
    record = json.loads((tmp_path / "dates" / "training.json").read_text())
    assert record.pop("checksums")
    (tmp_path / "dates" / "training.json").write_text(json.dumps(record))
    for module in (models.opening, opened_models):
        monkeypatch.setattr(module, "shipped_folder", lambda: tmp_path)
    return tmp_path / "dates"


def replace_weights(path: Path) -> None:
    """Replace a file by other weights of the same step, with the same size and modification time."""
    before = path.stat()
    with safe_open(path, "pt") as file:
        state, metadata = {name: file.get_tensor(name) for name in file.keys()}, file.metadata()  # noqa: SIM118 (not a dict)
    rng = torch.Generator().manual_seed(7)
    for tensor in state.values():
        tensor += (0.2 * torch.randn(tensor.shape, generator=rng)).to(tensor.dtype)
    other = path.with_suffix(".other")
    save_file(state, other, metadata)
    os.replace(other, path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = path.stat()
    assert (after.st_size, after.st_mtime_ns) == (before.st_size, before.st_mtime_ns)


def opened(address: str, **params: str) -> AppTest:
    texts, head = {"source": SOURCE, "target": TARGET}, {"site": CROSS, "head": "1"}
    return app_at(address, **{"checkpoint": "dates", **texts, **head, **params})


# What each page shows, read from the data sent to it, and the same computed with models alone.


def shown_head(app: AppTest) -> np.ndarray:
    return picture(app, "head")[1]["weights"]


def heads(scope: models.Scope, site: str = CROSS) -> np.ndarray:
    return scope.run(SOURCE, TARGET).attention[site].weights(1).numpy()


def shown_walk(app: AppTest) -> np.ndarray:
    return picture(app, "walk")[1]["weights"]


def first_row(scope: models.Scope) -> np.ndarray:
    return heads(scope)[0]


def snapshot_heads(scope: models.Scope) -> np.ndarray:
    then = models.load(scope.path, device="cpu", snapshot=STEP)
    return heads(then)


def swapped_heads(scope: models.Scope) -> np.ndarray:
    return heads(scope.with_similarity("cosine"), SELF)


def shown_shuffle(app: AppTest) -> np.ndarray:
    return picture(app, "positions-shuffle")[1]["map0"]


def shuffled(scope: models.Scope) -> np.ndarray:
    ids = scope.encode(source=SOURCE)["source"].ids
    return shuffle.shuffle_test(
        scope.model, ids, shuffle.new_order(len(ids), "reversed")
    ).change.T.numpy()


def shown_masks(app: AppTest) -> np.ndarray:
    return picture(app, "mask_painter")[1]["before"]


def masked(scope: models.Scope) -> np.ndarray:
    (run,) = run_masked(scope, [(SOURCE, TARGET)], ())
    return run.trace.attention[CROSS].weights(1).numpy()


def shown_effects(app: AppTest) -> np.ndarray:
    return np.array(said(app, "board")["kinds"][0]["effects"][0])


def effects(scope: models.Scope) -> np.ndarray:
    def log_prob(*edits: HeadOff) -> float:
        output = scope.run(SOURCE, TARGET, edits=edits).next_token
        return float(output.log_probs[1, output.labels[1]])

    site = "encoder.layers.0.self_attn"
    n_heads = scope.run(SOURCE, TARGET).attention[site].n_heads
    return np.array([log_prob(HeadOff(site, head=h)) - log_prob() for h in range(n_heads)])


def shown_gradients(app: AppTest) -> np.ndarray:
    return picture(app, "attribution")[1]["states"]


def gradients(scope: models.Scope) -> np.ndarray:
    run = scope.run(SOURCE, TARGET)
    metric = LogProbability(run.next_token.labels[1], 1)
    return attention_gradients(scope, run, metric)[CROSS][1].numpy()


def shown_decoding(app: AppTest) -> np.ndarray:
    return picture(app, "stepper")[1]["serial_p"]


def decoded(scope: models.Scope) -> np.ndarray:
    steps = list(
        decoding.greedy(scope.model, scope.encode(source=SOURCE)["source"].ids, use_cache=False)
    )
    return np.array([[p for _, p in step.top(9)] for step in steps])


def shown_task(app: AppTest) -> np.ndarray:
    return picture(app, "answers")[1]["probability"]


def shown_difference(app: AppTest) -> np.ndarray:
    return picture(app, "difference")[1]["difference"]


def differences(scope: models.Scope) -> np.ndarray:
    site = scope.run(SOURCE, TARGET).attention[SELF]
    return (site.weights(0) - site.weights(1)).numpy()


def expected_tokens(scope: models.Scope) -> np.ndarray:
    trace = scope.run(SOURCE, TARGET)
    following = [*trace.streams["target"].ids[1:], scope.config.end_id]
    return trace.next_token.logits.softmax(-1)[range(len(following)), following].numpy()


def shown_layer(app: AppTest) -> np.ndarray:
    return np.array([stop["length"] for stop in picture(app, "layer")[0]["stops"]][1:])


def streams(scope: models.Scope) -> np.ndarray:
    held = scope.run(SOURCE, TARGET).activations
    names = [
        f"decoder.layers.{n}.{name}"
        for n in (0, 1)
        for name in ("resid_mid", "resid_mid_cross", "resid_post")
    ]
    return np.array([float(held[name].value[0, 1].norm()) for name in names])


def shown_reach(app: AppTest) -> np.ndarray:
    return picture(app, "from-rnn-maps")[1]["map3"]


def reached(scope: models.Scope) -> np.ndarray:
    return jacobian_reach.layer_reach(
        scope.model,
        scope.encode(source=SOURCE)["source"].ids,
        jacobian_reach.LayerChoice(jacobian_reach.SELF_ATTENTION),
    ).norms.numpy()


def shown_pair(app: AppTest) -> np.ndarray:
    return picture(app, "from-rnn-pair")[1]["map1"]


def paired(scope: models.Scope) -> np.ndarray:
    return scope.run(SOURCE, TARGET).attention["decoder.layers.0.cross_attn"].weights(1).numpy()


def shown_answers(app: AppTest) -> np.ndarray:
    return app.dataframe[0].value["Writes"].to_numpy()[-1:]


def answers(scope: models.Scope) -> np.ndarray:
    return np.array([scope.write(SOURCE).text])


@dataclass(frozen=True)
class View:
    """A page, its parameters, what it shows, and what it should show by `models`."""

    address: str
    params: dict[str, str]
    shown: Callable[[AppTest], np.ndarray]
    expected: Callable[[models.Scope], np.ndarray]


VIEWS = {
    "attention": View("", {}, shown_head, heads),
    "training": View("", {"growth": "true", "growth-step": str(STEP)}, shown_head, snapshot_heads),
    "another similarity": View("", {"similarity": "cosine", "site": SELF}, shown_head, swapped_heads),
    "inside": View("inside", {"lock": "q0", "inside-key": "0"}, shown_walk, first_row),
    "positions": View("positions", {"positions-order": "reversed"}, shown_shuffle, shuffled),
    "masks": View("masks", {"mask": "cross", "masks-second": ""}, shown_masks, masked),
    "interventions": View("interventions", {"if-position": "1"}, shown_effects, effects),
    "attribution": View(
        "interventions", {"if-position": "1", "interventions-section": "Attribution"}, shown_gradients, gradients,
    ),
    "compare": View("compare", {"site": SELF, "head": "1", "compare-head": f"{SELF}:0"}, shown_difference, differences),
    "decoding": View("decoding", {}, shown_decoding, decoded),
    "task": View("task", {}, shown_task, expected_tokens),
    "layer": View("layer", {}, shown_layer, streams),
    "reach": View("from-rnn", {"from-rnn-section": "What reaches what"}, shown_reach, reached),
    "stages": View("from-rnn", {"from-rnn-section": "Stages, on dates"}, shown_answers, answers),
    "pair": View(
        "from-rnn", {"from-rnn-section": "Two alignments", "from-rnn-layer": "1", "from-rnn-head": "2"}, shown_pair, paired,
    ),
}  # fmt: skip


def same(shown: np.ndarray, expected: np.ndarray) -> None:
    """Return whether both are the same: numbers up to rounding, texts to the letter."""
    if expected.dtype.kind == "U":
        np.testing.assert_array_equal(shown, expected)
    else:
        np.testing.assert_allclose(shown, expected, atol=1e-5)


@pytest.mark.parametrize("name", VIEWS)
def test_a_page_shows_the_numbers_of_the_current_weights(folder: Path, name: str) -> None:
    view = VIEWS[name]
    app, other = opened(view.address, **view.params), opened(view.address, **view.params)
    before = view.expected(models.load(folder, device="cpu"))
    same(view.shown(app), before)
    for weights in (folder / "model.safetensors", snapshot_path(folder, STEP)):
        replace_weights(weights)
    now = view.expected(models.load(folder, device="cpu"))
    with pytest.raises(AssertionError):
        same(now, before)
    for session in (app, other, opened(view.address, **view.params)):
        session.run()
        assert not session.exception
        same(view.shown(session), now)


def test_every_page_is_among_them() -> None:
    addresses = {view.address or "attention" for view in VIEWS.values()}
    # which show no number computed from weights
    assert addresses | {"models", "lessons", "train"} == set(PAGES)


def test_only_the_snapshot_may_be_replaced(folder: Path) -> None:
    view = VIEWS["training"]
    app = opened(view.address, **view.params)
    replace_weights(snapshot_path(folder, STEP))
    app.run()
    np.testing.assert_allclose(
        shown_head(app), snapshot_heads(models.load(folder, device="cpu")), atol=1e-5
    )


def test_a_run_saves_into_the_checkpoint_that_is_watched(folder: Path) -> None:
    """It saves as after a validation: every page then shows the new weights, and a sealed checkpoint stays valid."""
    seal(folder)
    app = opened("")
    for step in (4001, 4002):
        saved = load_checkpoint(folder)
        with torch.no_grad():
            saved.model.embedding.weight.mul_(1.1)
        save_checkpoint(folder, saved.model, saved.tokenizer, saved.training | {"step": step})
        before = shown_head(app)
        app.run()
        assert not app.exception
        assert said(app, "note checkpoint")["look"] == "note"
        now = models.load(folder, device="cpu")
        assert now.training["step"] == step
        same(shown_head(app), heads(now))
        with pytest.raises(AssertionError):
            same(shown_head(app), before)


def test_weights_replaced_in_a_sealed_checkpoint_are_not_shown_until_it_is_sealed_again(
    folder: Path,
) -> None:
    seal(folder)
    app = opened("")
    stood = shown_head(app)
    replace_weights(folder / "model.safetensors")
    app.run()
    assert not app.exception
    note = said(app, "note checkpoint")
    assert note["look"] == "note bad"
    assert "model.safetensors: changed since the checkpoint was saved" in note["rows"][0][1]
    np.testing.assert_array_equal(shown_head(app), stood)
    seal(folder)
    app.run()
    assert said(app, "note checkpoint")["look"] == "note"
    same(shown_head(app), heads(models.load(folder, device="cpu")))


def test_a_file_written_in_place_is_noticed_though_its_time_is_set_back(folder: Path) -> None:
    path, before = folder / "model.safetensors", cache.scope("dates")
    content, was = path.read_bytes(), path.stat()
    assert cache.scope("dates") is before
    with path.open("r+b") as file:
        file.write(content[:-2] + bytes(2))
    os.utime(path, ns=(was.st_atime_ns, was.st_mtime_ns))
    now = path.stat()
    assert (now.st_ino, now.st_size, now.st_mtime_ns) == (was.st_ino, was.st_size, was.st_mtime_ns)
    assert cache.scope("dates").fingerprint != before.fingerprint


def test_a_rewritten_record_is_read_again(folder: Path) -> None:
    before = cache.scope(str(folder))
    add_to_record(folder, licence="mine")
    now = cache.scope(str(folder))
    assert now.training["licence"] == "mine"
    assert now.fingerprint == before.fingerprint
    assert cache.trace(now, (SOURCE, TARGET)) is cache.trace(before, (SOURCE, TARGET))


def changed(scope: models.Scope, trace: models.Trace, **changes: object) -> models.Trace:
    run = CurrentRun(scope, trace)
    spec = replace(run.spec, model=replace(run.spec.model, **changes))
    return cache.changed_run(run, spec).trace


def test_two_folders_with_the_same_weights_share_their_results(
    folder: Path, tmp_path: Path
) -> None:
    one, two = (
        cache.scope(str(folder)),
        cache.scope(str(shutil.copytree(folder, tmp_path / "copy"))),
    )
    assert one is not two
    trace = cache.trace(one, (SOURCE, TARGET))
    assert cache.trace(two, (SOURCE, TARGET)) is trace
    assert changed(two, trace, step=STEP) is changed(one, trace, step=STEP)
    others = [kind for kind in SIMILARITIES if kind != one.config.similarity]
    swapped = {kind: changed(two, trace, similarity=kind) for kind in others}
    assert len(
        {id(run) for run in (trace, changed(one, trace, step=STEP), *swapped.values())}
    ) == 2 + len(swapped)
    for kind, run in swapped.items():
        (alone,) = one.with_similarity(kind).run_batch([(SOURCE, trace.streams["target"])])
        torch.testing.assert_close(run.attention[SELF].weights(1), alone.attention[SELF].weights(1))
    assert changed(two, trace, similarity="dot") is changed(one, trace, similarity="dot")


def test_old_weights_do_not_answer_while_typing(folder: Path) -> None:
    app = opened("", target="")
    session = app.session_state["live session"]
    assert unpack(session.edit("4 May 2019", ""))[1]
    replace_weights(folder / "model.safetensors")
    header, arrays = unpack(session.edit("5 May 2019", ""))
    assert (header["plain"], arrays) == (
        {},
        {},
    )  # until Streamlit's rerun, which follows, has opened the new ones
    app.run()
    content = unpack(session.edit("6 May 2019", ""))[1]["head"].tobytes()
    expected = (
        models.load(folder, device="cpu").run("6 May 2019").attention[CROSS].weights(1).numpy()
    )
    np.testing.assert_allclose(unpack(content)[1]["weights"], expected, atol=1e-5)
    (folder / "model.safetensors").unlink()
    assert unpack(session.edit("7 May 2019", ""))[0]["plain"] == {}


def test_a_sentence_too_long_for_the_jacobians_brings_back_no_other_models(folder: Path) -> None:
    view = VIEWS["reach"]
    app = opened(view.address, **view.params)
    config = json.loads((folder / "config.json").read_text()) | {"n_ctx": 512}
    (folder / "config.json").write_text(json.dumps(config))
    app.run()
    stood = shown_reach(app)
    app.text_area(key="source").set_value("x" * 70).run()
    np.testing.assert_array_equal(shown_reach(app), stood)  # the last good ones, with a note
    replace_weights(folder / "model.safetensors")
    app.run()
    assert not app.exception
    assert not [
        part for part in app.get("bidi_component") if part.proto.id.endswith("-from-rnn-maps")
    ]
