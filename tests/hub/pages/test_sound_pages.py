"""A speech model: every page and section opens on a sound, and the picture over the sound has the library's weights."""

import csv
import io
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from app_parts import heatmap, in_session, page_at, picker, picture, plotly, prose, said
from sound_models import (
    FRAMES,
    SPELLERS,
    WRITERS,
    save,
    save_reader,
    save_spectrogram_reader,
    save_speller,
    save_writer,
)
from streamlit.testing.v1 import AppTest

import models
from models.sounds import SOUND_EXAMPLES, SoundFile, Waveform, decoded_sound, example_sound
from viz_app.drawing.payload import unpack
from viz_app.navigation import PAGES
from viz_app.session import cache, own_files
from viz_app.session.current_run import CurrentRun
from viz_app.session.focus import Focus
from viz_app.session.pinned import Pinned
from viz_app.views.interventions import patch
from viz_app.views.task import controls
from viz_app.views.task.files import token_classes_csv
from viz_app.views.task.presentations import task_payloads
from viz_app.views.task.reading import TaskChoices

SOUND, TEXT = "sound-sound", "optional-transcript"  # of the URL
SELF, CROSS = "model.encoder.layers.1.self_attn", "model.decoder.layers.1.encoder_attn"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sounds") / "whisper"
    save(folder)
    return folder


def open_page(folder: Path, view: str, **address: str) -> AppTest:
    return page_at(view, checkpoint=str(folder), **address)


def places() -> list[tuple[str, dict[str, str]]]:
    return [
        (view, {page.section.name: name} if page.section else {})
        for view, page in PAGES.items()
        for name in (page.views if page.section else ("",))
    ]


@pytest.mark.parametrize(("view", "address"), places())
def test_every_page_and_section_opens(folder: Path, view: str, address: dict[str, str]) -> None:
    app = open_page(folder, view, **address)
    assert not app.exception
    assert picker(app)["value"] == str(folder)
    told = prose(app) + "".join(one.proto.json for one in app.get("bidi_component"))
    assert "sound is missing" not in told
    for wrong in ("the image", "the source sentence", "the translation so far"):
        assert wrong not in told or view in ("from-rnn", "lessons"), wrong


ENCODERS = (
    "Wav2Vec2ForCTC",
    "HubertForSequenceClassification",
    "SEWForCTC",
    "Wav2Vec2BertForSequenceClassification",
    "Speech2TextForConditionalGeneration",
)


@pytest.fixture(scope="module")
def encoders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("encoders")
    for name in ENCODERS:
        (save_writer if name in WRITERS else save_reader)(name, root / name)
    return {name: root / name for name in ENCODERS}


@pytest.mark.parametrize("view", list(PAGES))
@pytest.mark.parametrize("name", ENCODERS)
def test_every_page_opens_on_an_encoder(encoders: dict[str, Path], name: str, view: str) -> None:
    app = open_page(encoders[name], view)
    assert not app.exception
    assert picker(app)["value"] == str(encoders[name])
    told = prose(app) + "".join(one.proto.json for one in app.get("bidi_component"))
    assert "sound is missing" not in told
    assert "the image" not in told


@pytest.mark.parametrize(
    ("name", "view", "section"),
    [
        (
            "SEWForCTC",
            "interventions",
            "Is attention explanation?",
        ),  # requires a row for each answer
        (
            "ParakeetForCTC",
            "positions",
            "Added or concatenated",
        ),  # its layers have names like ours
    ],
)
def test_a_page_opens_on_a_section_that_the_run_has(
    name: str, view: str, section: str, tmp_path: Path
) -> None:
    assert section in PAGES[view].views
    (save_speller if name in SPELLERS else save_reader)(name, tmp_path)
    app = open_page(tmp_path, view, **{f"{view}-section": section})
    assert not app.exception
    assert picker(app)["value"] == str(tmp_path)


def test_task_shows_every_letter_and_the_row_of_the_frame_that_it_is_read_from(
    encoders: dict[str, Path],
) -> None:
    site, name = "sew.encoder.layers.1.attention", "SEWForCTC"
    app = open_page(encoders[name], "task", site=site, head="2", **{"task-position": "35"})
    run = app.session_state["live session"].run.trace
    module = transformers.SEWForCTC.from_pretrained(encoders[name], attn_implementation="eager")
    given = run.streams["frames"].ids.features[None]
    with torch.no_grad():
        made = module.eval()(input_values=given, output_attentions=True)
    header, arrays = picture(app, "answers")
    assert len(header["places"]) == len(made.logits[0]) == 99
    assert header["places"][35][0] == "0.70 s"  # of 20 ms each
    assert header["summary"].startswith("99 parts: ")
    p = made.logits[0].softmax(-1)
    np.testing.assert_allclose(arrays["probability"], p.max(-1).values, atol=2e-6)
    np.testing.assert_allclose(arrays["p"], p[35].sort(descending=True).values, atol=2e-6)
    np.testing.assert_allclose(arrays["weights"], made.attentions[1][0, 2, 17], atol=2e-6)
    assert "failed" not in [look for look, _ in said(app, "checks")["rows"]]
    assert "answers** for 2 parts of the sound" in prose(app)
    last = open_page(encoders[name], "task", site=site, **{"task-position": "98"})
    header, arrays = picture(last, "answers")
    assert (header["reading"]["keys"], len(arrays["weights"])) == ([], 0)
    assert (
        header["reading"]["note"]
        == "This part comes after the last token, so it is read from none."
    )


@pytest.mark.parametrize("name", ["SEWForCTC", "Wav2Vec2ForCTC"])
def test_for_a_sound_the_first_letter_of_the_rarest_class_is_shown(
    encoders: dict[str, Path], name: str
) -> None:
    scope = cache.scope(str(encoders[name]))
    run = CurrentRun(scope, scope.run(example_sound()))
    header, _ = unpack(task_payloads(run, TaskChoices(None, Focus()))["answers"])
    classes, position = header["classes"], header["position"]
    counts = sorted(map(classes.count, set(classes)))
    assert counts[0] == classes.count(classes[position]) < classes.count(classes[0])
    rarest = {one for one in classes if classes.count(one) == counts[0]}
    assert not rarest & set(classes[:position])


@pytest.mark.parametrize(("name", "unit"), [("SEWForCTC", "part"), ("Wav2Vec2ForCTC", "token")])
def test_the_table_of_letters_names_them(encoders: dict[str, Path], name: str, unit: str) -> None:
    scope = cache.scope(str(encoders[name]))
    run = CurrentRun(scope, scope.run(example_sound()))
    choices = TaskChoices(None, Focus())
    header, _ = unpack(task_payloads(run, choices)["answers"])
    columns, *rows = csv.reader(io.StringIO(token_classes_csv(run, choices)))
    assert columns[:3] == ["position", unit, "class"]
    assert header["summary"].startswith(f"{len(rows)} {unit}s: ")
    assert [row[1] for row in rows] == [
        f"{i} {place[0]}" for i, place in enumerate(header["places"])
    ]


def test_task_of_a_classifier_of_sounds_shows_classes_and_the_sound(
    encoders: dict[str, Path],
) -> None:
    app = open_page(encoders["HubertForSequenceClassification"], "task")
    made = transformers.HubertForSequenceClassification
    module = made.from_pretrained(encoders["HubertForSequenceClassification"]).eval()
    run = app.session_state["live session"].run.trace
    with torch.no_grad():
        given = run.streams["frames"].ids.features[None]
        p = module(input_values=given).logits[0].softmax(-1)
    header, arrays = picture(app, "pair")
    np.testing.assert_allclose(arrays["p"], p, atol=2e-6)
    assert [row[1][0] for row in header["rows"]] == ["tone", "noise", "speech"]
    assert picture(app, "sound_map")[0]["readsItself"]
    assert not picture(app, "sound_map")[0]["isInput"]  # it reads the waveform
    assert "The row of one frame is shown; click another in the sound." in prose(app)
    assert "failed" not in [look for look, _ in said(app, "checks")["rows"]]


@pytest.fixture(scope="module")
def spectrogram(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("patches") / "spectrogram"
    save_spectrogram_reader(folder, max_length=256)
    return folder


@pytest.mark.parametrize(("view", "address"), places())
def test_for_patches_of_a_sound_no_page_makes_a_false_statement(
    spectrogram: Path, view: str, address: dict[str, str]
) -> None:
    app = open_page(spectrogram, view, **address)
    assert not app.exception
    assert picker(app)["value"] == str(spectrogram)
    told = prose(app)
    for wrong in ("the image", "pixel", "frame", "silence", "without padding"):
        assert wrong not in told or view in ("from-rnn", "lessons"), wrong
    assert "sound is missing" not in told


@pytest.mark.parametrize(
    ("section", "limit"),
    [
        ("Heads", "payloads.MAX_HEADS_WORK"),
        ("Attribution", "attribution.MAX_ATTRIBUTED_TOKENS"),
        ("Is attention explanation?", "explanation.MAX_EXPLAINED_TOKENS"),
    ],
)
def test_a_sound_with_many_tokens_is_not_answered_by_asking_for_a_shorter_text(
    spectrogram: Path, section: str, limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    n = defaultdict(lambda: 9) if section == "Attribution" else 9
    monkeypatch.setattr(f"viz_app.views.interventions.{limit}", n)
    app = open_page(spectrogram, "interventions", **{"interventions-section": section})
    assert not app.exception
    told = prose(app) + "".join(one.proto.json for one in app.get("bidi_component"))
    assert "This sound has too many tokens" in told
    assert "too long" not in told
    assert "horter text" not in told


def test_over_the_spectrogram_are_the_librarys_weights(spectrogram: Path) -> None:
    site = "audio_spectrogram_transformer.layers.1.attention"
    app = open_page(spectrogram, "attention", site=site, head="2", lock="q30")
    header, arrays = picture(app, "sound_map")
    module = transformers.ASTForAudioClassification.from_pretrained(
        spectrogram, attn_implementation="eager"
    ).eval()
    sound = decoded_sound(example_sound())
    given = transformers.ASTFeatureExtractor.from_pretrained(spectrogram)(
        sound.samples, sampling_rate=sound.rate, return_tensors="pt"
    )
    with torch.no_grad():
        made = module(**given, output_attentions=True)
    n = 2 + 2 * 25
    assert header["seconds"] == pytest.approx(2.0)  # after which the 20 columns continue
    np.testing.assert_allclose(arrays["weights"].reshape(n, n), made.attentions[1][0, 2], atol=2e-6)
    np.testing.assert_allclose(arrays["heads"], made.attentions[1][0, :, 30], atol=2e-6)
    assert (header["rows"], header["columns"], header["before"], header["heard"]) == (2, 25, 2, 20)
    assert header["queries"][30] == ["0.3 s b11", "0.30 to 0.46 s, bands 11 to 26", False]
    assert header["queries"][1][2]  # special
    read = given["input_values"][0, :256, :26].T.flip(0).numpy()
    wanted = (read - read.min()) / (read.max() - read.min())
    np.testing.assert_allclose(arrays["spectrogram"], 255 * wanted, atol=0.51)
    note = str(said(app, f"note {SOUND}"))
    assert "2.0 s: 2 × 20 patches, then 2 × 5 of padding; 52 tokens." in note
    task = open_page(spectrogram, "task")
    assert "The row of one patch is shown; click another in the sound." in prose(task)
    header, arrays = picture(task, "pair")
    np.testing.assert_allclose(arrays["p"], made.logits[0].softmax(-1), atol=2e-6)
    assert picture(task, "sound_map")[0]["query"] == 2 + 25 + 10  # in the middle of the sound


def test_for_a_sound_that_is_cut_the_length_read_is_stated(tmp_path: Path) -> None:
    save_spectrogram_reader(tmp_path)
    app = open_page(tmp_path, "masks")
    note = str(said(app, f"note {SOUND}"))
    assert "The first 0.56 s of 2 s are read: 2 × 5 patches; 12 tokens." in note
    assert "The sound runs alone, without padding." in prose(app)


def test_the_positions_of_a_spectrogram_rise_with_the_bands(spectrogram: Path) -> None:
    app = open_page(spectrogram, "positions", **{"positions-section": "Grid of patches"})
    figure = plotly(app, "positions-grid")
    assert figure["layout"]["yaxis"]["autorange"] is True  # not reversed: row 1 is at the bottom
    module = transformers.ASTForAudioClassification.from_pretrained(spectrogram)
    table = module.audio_spectrogram_transformer.embeddings.position_embeddings[0, 2:].detach()
    wanted = torch.cosine_similarity(table[25 + 2], table[24], dim=0)
    cells = figure["data"][0]
    y, x = cells["y"].index("row 2 with row 1"), cells["x"].index("column 3 with column 25")
    assert heatmap(app, "positions-grid")[y, x] == pytest.approx(float(wanted), abs=1e-4)
    assert "like the spectrogram, with the lowest bands in row 1" in prose(app)


def library(folder: Path, file: SoundFile, ids: tuple[int, ...]) -> Any:
    """Return the library's output for a sound and the tokens generated from it."""
    made = transformers.WhisperForConditionalGeneration
    module = made.from_pretrained(folder, attn_implementation="eager").eval()
    extractor = transformers.WhisperFeatureExtractor.from_pretrained(folder)
    given = extractor(decoded_sound(file).samples, sampling_rate=16_000, return_tensors="pt")
    with torch.no_grad():
        return module(**given, decoder_input_ids=torch.tensor([ids]), output_attentions=True)


def ids_of(app: AppTest) -> tuple[int, ...]:
    return app.session_state["live session"].run.trace.streams["transcript"].ids


def test_the_picture_over_the_sound_has_the_librarys_weights(folder: Path) -> None:
    app = open_page(folder, "attention", site=CROSS, head="1", lock="q4")
    header, arrays = picture(app, "sound_map")
    wanted = library(folder, example_sound(), ids_of(app)).cross_attentions[1][0]
    assert (header["query"], header["head"], header["readsItself"]) == (4, 1, False)
    np.testing.assert_allclose(arrays["weights"], wanted[1], atol=2e-6)
    np.testing.assert_allclose(arrays["heads"], wanted[:, 4], atol=2e-6)
    assert not arrays["blocked"].any()
    assert (header["keys"][42], header["heard"], len(header["keys"])) == ("0.84 s", 100, FRAMES)
    assert [label for label, *_ in header["queries"]][0].startswith("[startoftranscript] → [")
    assert (header["scale"], header["isInput"]) == ("row", True)


def test_task_of_a_generating_model_shows_what_the_chosen_token_attends_to_over_the_sound(
    folder: Path,
) -> None:
    app = open_page(folder, "task", site=CROSS, head="1", **{"task-position": "4"})
    header, arrays = picture(app, "sound_map")
    wanted = library(folder, example_sound(), ids_of(app))
    np.testing.assert_allclose(arrays["weights"], wanted.cross_attentions[1][0][1], atol=2e-6)
    assert (header["query"], header["lock"], header["readsItself"]) == (4, "q4", False)
    answers, numbers = picture(app, "answers")
    assert (answers["position"], answers["reading"]["title"], answers["reading"]["keys"]) == (
        4,
        "",
        [],
    )
    p = wanted.logits[0, 4].softmax(-1)
    np.testing.assert_allclose(numbers["probability"][4], p[ids_of(app)[5]], rtol=1e-4)
    assert "failed" not in [look for look, _ in said(app, "checks")["rows"]]
    own = open_page(
        folder, "task", site="model.decoder.layers.1.self_attn", **{"task-position": "4"}
    )
    assert len(picture(own, "answers")[0]["reading"]["keys"]) == len(ids_of(own))
    keys = [element.proto.id for element in own.get("bidi_component")]
    assert not [key for key in keys if key.endswith("sound_map")]


def test_only_a_query_chooses_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen: list[int] = []
    monkeypatch.setattr(controls, "choose_position", chosen.append)
    for token in ("q5", "", "k5", "q", "qx", "q-1", "q1.5", "q" + "9" * 99):
        controls.choose_query(token)
    assert chosen == [5]


def test_frames_read_frames_and_the_loud_part_of_the_picture_is_the_sound(folder: Path) -> None:
    app = open_page(folder, "attention", site=SELF, head="0")
    header, arrays = picture(app, "sound_map")
    wanted = library(folder, example_sound(), ids_of(app)).encoder_attentions[1][0]
    assert (header["query"], header["readsItself"]) == (50, True)
    np.testing.assert_allclose(arrays["weights"], wanted[0], atol=2e-6)
    levels = arrays["spectrogram"]
    assert levels.shape == (header["bands"], 200)
    seconds = decoded_sound(example_sound()).samples.reshape(200, -1)
    silent = np.abs(seconds).max(1) < 1e-4  # the rests between the tones
    inner = [i for i in range(3, 197) if silent[i - 3 : i + 4].all()]
    assert inner
    assert levels[:, inner].max() < levels[:, ~silent].max() / 2
    assert levels[10:].max() > levels[:10].max()  # low tones are low in the picture


def test_only_a_sound_site_has_the_picture(folder: Path) -> None:
    app = open_page(folder, "attention", site="model.decoder.layers.0.self_attn", head="0")
    keys = [element.proto.id for element in app.get("bidi_component")]
    assert not [key for key in keys if key.endswith("sound_map")]


def test_another_sound_and_a_typed_text_are_another_run(folder: Path) -> None:
    first, other = (open_page(folder, "task", **{SOUND: name}) for name in SOUND_EXAMPLES[:2])
    assert ids_of(first) != ids_of(other)
    assert other.selectbox(key=SOUND).value == SOUND_EXAMPLES[1]
    typed = open_page(folder, "task", **{SOUND: SOUND_EXAMPLES[1], TEXT: "the dog"})
    assert ids_of(typed)[:3] == ids_of(other)[:3]
    assert "failed" not in [look for look, _ in said(typed, "checks")["rows"]]
    wanted = (
        library(folder, example_sound(SOUND_EXAMPLES[1]), ids_of(typed)).logits[0].log_softmax(-1)
    )
    run = typed.session_state["live session"].run.trace.next_token
    torch.testing.assert_close(run.log_probs, wanted, atol=2e-5, rtol=1e-5)


def test_a_pinned_run_follows_a_typed_transcript_but_no_other_text(folder: Path) -> None:
    scope, gpt, file = models.load(folder), models.load("gpt"), example_sound()
    pinned = Pinned(scope, None, (file,))
    typed, heard = scope.run(file, "the dog"), scope.run(file)
    for run, wanted in (
        (CurrentRun(scope, typed), typed),
        (CurrentRun(scope, heard), heard),
        (CurrentRun(gpt, gpt.run("the dog")), heard),
    ):
        ids = pinned.beside(run).trace.streams["transcript"].ids
        assert ids == wanted.streams["transcript"].ids
    assert typed.streams["transcript"].ids != heard.streams["transcript"].ids


def test_the_note_counts_the_frames_that_are_read(folder: Path) -> None:
    app = open_page(folder, "attention")
    session = app.session_state["live session"]
    short = Waveform(np.full(8000, 0.2, np.float32), 16_000).as_wav()
    kind = own_files.FILE_KINDS["sound"]
    reference, size = own_files.keep_file(session, short, "<b>mine</b>.wav", kind)
    assert size == "0.5 s at 16,000 Hz"
    app.run().selectbox(key=SOUND).set_value(reference).run()
    assert not app.exception
    assert "0.5 s: 25 frames of 20 ms, then 75 of silence." in str(said(app, f"note {SOUND}"))
    header, _ = picture(app, "sound_map")
    assert (header["heard"], len(header["keys"])) == (25, FRAMES)
    assert "<b>mine" in app.selectbox(key=SOUND).options[-1]
    elsewhere = open_page(folder, "task", **{SOUND: reference})
    assert "a link cannot hold a sound file" in prose(elsewhere)
    assert elsewhere.selectbox(key=SOUND).value == SOUND_EXAMPLES[0]


@pytest.mark.parametrize("value", ["own-zzz", "/etc/passwd", "<script>", "own-" + "0" * 12, ""])
def test_a_link_with_an_invalid_sound_opens_the_example(folder: Path, value: str) -> None:
    app = open_page(folder, "task", **{SOUND: value})
    assert not app.exception
    assert app.selectbox(key=SOUND).value == SOUND_EXAMPLES[0]


@pytest.mark.parametrize("view", ["interventions", "compare"])
def test_parts_that_need_a_text_say_that_there_is_none(folder: Path, view: str) -> None:
    for section in PAGES[view].views:
        told = prose(open_page(folder, view, **{f"{view}-section": section}))
        assert ("**This model reads no text**" in told) is (section == "Many texts")
        assert "the sound that is shown" in told or section != "Many texts"


def test_a_head_is_taken_from_a_second_sound(folder: Path) -> None:
    app = open_page(folder, "interventions", **{"interventions-section": "Patch"})
    assert app.selectbox(key="patch-sound").value == SOUND_EXAMPLES[1]
    with in_session(app):
        patch.toggle_part("needed", "head", CROSS, 1)
    app.run()
    assert not app.exception
    run = app.session_state["live session"].shown
    other = models.load(folder, device="cpu").run(
        example_sound(SOUND_EXAMPLES[1]), run.trace.streams["transcript"]
    )
    taken, own = (one.attention[CROSS].out[0] for one in (run.trace, other))
    torch.testing.assert_close(taken[1], own[1])
    assert not torch.allclose(taken[0], own[0], atol=1e-3)


def test_masks_speak_of_a_sound_and_positions_show_its_sinusoids(folder: Path) -> None:
    told = prose(open_page(folder, "masks"))
    assert "The sound runs alone" in told
    app = open_page(folder, "positions", **{"positions-section": "Grid of patches"})
    assert "reads no image" in prose(app)
