"""Hugging Face encoders that classify or spell a sound: weights and answers are the library's."""

import json
import re
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from time import process_time
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from sound_models import (
    LETTERS,
    NAMES,
    READERS,
    SPECTROGRAM,
    save_reader,
    save_spectrogram_reader,
    save_whisper_classifier,
)

import models
from models import cli
from models.analysis.checks import check_site
from models.analysis.comparison import compare
from models.analysis.layer_parts import check_parts, sublayer_effects
from models.errors import CheckpointError, InputError
from models.hub.describe import model_summary
from models.hub.sounds.columns import SpectrogramColumns, spectrogram_columns
from models.hub.sounds.layout import spectrogram_grid
from models.hub.sounds.processor import SoundProcessor
from models.runs.scope import Scope
from models.sounds import (
    PatchedSound,
    SoundFile,
    SoundRow,
    SpectrogramGrid,
    Waveform,
    decoded_sound,
    example_sound,
)
from models.trace.edits import HeadOff, MaskChange, Where, for_kinds
from models.trace.outputs import TokenClasses
from viz_app.session.current_run import CurrentRun
from viz_app.session.focus import Focus
from viz_app.session.pinned import Pinned
from viz_app.views.compare.payloads import CompareChoices, compare_payloads

WHISPER, AST = "WhisperForAudioClassification", "ASTForAudioClassification"
SPELLER = "Wav2Vec2ForCTC"
STEP = 320  # samples


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("readers")
    for name in READERS:
        save_reader(name, root / name)
    save_whisper_classifier(root / WHISPER)
    save_spectrogram_reader(root / AST)
    return {name: root / name for name in (*READERS, WHISPER, AST)}


@torch.no_grad()
def library(folder: Path, name: str, file: SoundFile) -> Any:
    module = getattr(transformers, name).from_pretrained(folder, attn_implementation="eager")
    extractor = transformers.AutoFeatureExtractor.from_pretrained(folder)
    sound = decoded_sound(file)
    given = extractor(sound.samples, sampling_rate=sound.rate, return_tensors="pt")
    return module.eval()(**given, output_attentions=True)


@pytest.mark.parametrize("name", [*READERS, WHISPER, AST])
def test_weights_and_answers_are_the_librarys(folders: dict[str, Path], name: str) -> None:
    scope = models.load(folders[name], device="cpu")
    for sound in ("four tones", "rising tone"):
        trace, made = (
            scope.run(example_sound(sound)),
            library(folders[name], name, example_sound(sound)),
        )
        output = trace.outputs["classes"]
        torch.testing.assert_close(output.logits, made.logits[0], atol=2e-5, rtol=1e-5)
        sites = list(trace.attention.values())
        assert len(sites) == len(made.attentions)
        assert trace.unrecorded == {}
        for site, wanted in zip(sites, made.attentions, strict=True):
            own = site.weights()
            mean = name.startswith("WavLM")  # for which torch returns the mean over heads
            apart = own.mean(0) - wanted[0, 0] if mean else own - wanted[0]
            assert apart.abs().max() < 2e-6
            assert site.has_causes
            assert [check for check in check_site(site) if not check.passed] == []
        if "CTC" in name:
            letters = {i: letter for letter, i in LETTERS.items()}
            best = [i for i, _ in groupby(made.logits[0].argmax(-1).tolist())]
            spelled = "".join(letters[i] for i in best if i).replace("|", " ").strip()
            assert trace.output == spelled
            assert spelled
        else:
            assert trace.output == NAMES["id2label"][int(made.logits[0].argmax())]


@pytest.mark.parametrize("name", [SPELLER, "HubertForSequenceClassification", WHISPER, AST])
def test_the_layers_add_up(folders: dict[str, Path], name: str) -> None:
    scope = models.load(folders[name], device="cpu")
    trace = scope.run(example_sound())
    assert len(scope.model.sublayers) == 2 * len(trace.attention)
    found = sublayer_effects(scope.model, trace, next(iter(trace.streams)), 2)
    checks = check_parts(scope.model, trace, found, 2)
    assert [check for check in checks if not check.passed] == []


def test_a_frame_is_at_the_time_of_its_samples(folders: dict[str, Path]) -> None:
    """Two routes agree: the strides of the convolutions, and a click that is moved through the sound."""
    scope = models.load(
        folders["Data2VecAudioForCTC"], device="cpu"
    )  # does not normalise over the whole sound
    module = scope.model.module
    assert int(np.prod(module.config.conv_stride)) == STEP
    noise = 0.05 * np.random.default_rng(1).standard_normal(32_000).astype(np.float32)
    row = scope.encode(SoundFile("x", Waveform(noise, 16_000).as_wav()))["frames"]
    assert row.tokens[:3] == ("0.00 s", "0.02 s", "0.04 s")
    assert len(row.ids) == int(module._get_feat_extract_output_lengths(32_000))
    plain = frames(module, noise)
    for frame in (7, 50, 90):
        clicked = noise.copy()
        clicked[frame * STEP + 200] += 0.9
        moved = (frames(module, clicked) - plain).abs().amax(-1)
        assert abs(int(moved.argmax()) - frame) <= 1
        assert moved[frame] > 10 * moved[[k for k in range(99) if abs(k - frame) > 3]].max()


@torch.no_grad()
def frames(module: Any, samples: np.ndarray) -> torch.Tensor:
    """Return the output vectors of the convolutions, before any frame sees another."""
    return module.base_model.feature_extractor(torch.tensor(samples)[None])[0].T


@pytest.mark.parametrize(("seconds", "n"), [(0.1, 4), (0.5, 24), (2.0, 99)])
def test_the_number_of_frames_follows_the_length_of_the_sound(
    folders: dict[str, Path], seconds: float, n: int
) -> None:
    scope = models.load(folders[SPELLER], device="cpu")
    rng = np.random.default_rng(3)
    samples = rng.uniform(-0.5, 0.5, int(seconds * 16_000)).astype(np.float32)
    trace = scope.run(SoundFile("x", Waveform(samples, 16_000).as_wav()))
    assert len(trace.streams["frames"].ids) == n
    assert all(site.n_query == site.n_key == n for site in trace.attention.values())
    short = SoundFile("x", Waveform(samples[:800], 16_000).as_wav())
    one, _ = scope.run_each([[short], [example_sound()]])
    (mine,), (alone,) = one.outputs.values(), scope.run(short).outputs.values()
    assert torch.equal(mine.logits, alone.logits)


def test_a_sound_too_short_for_one_frame_is_refused_at_its_field(folders: dict[str, Path]) -> None:
    """Two routes agree: the library's lengths, and the sounds that its convolutions run on."""
    scope = models.load(folders[SPELLER], device="cpu")
    module, wave = scope.model.module, np.full(800, 0.3, np.float32)
    shortest = next(n for n in range(320, 800) if reads_a_frame(module, n))
    row = scope.encode(SoundFile("x", Waveform(wave[:shortest], 16_000).as_wav()))["frames"]
    assert len(row.ids) == 1
    for n in (320, shortest - 1):
        with pytest.raises(InputError, match="0.02[0-9]* s long, too short for a frame") as error:
            scope.run(SoundFile("x", Waveform(wave[:n], 16_000).as_wav()))
        assert error.value.field == "sound"


def reads_a_frame(module: Any, n: int) -> bool:
    try:
        return frames(module, np.zeros(n, np.float32)).shape[0] == 1
    except RuntimeError:  # a kernel is longer than what it reads
        return False


def test_a_sound_of_another_rate_is_drawn_as_the_same_sound(folders: dict[str, Path]) -> None:
    scope = models.load(folders[SPELLER], device="cpu")
    slow = decoded_sound(example_sound()).at(8_000)
    drawn = [
        scope.encode(SoundFile("x", one.as_wav()))["frames"].spectrogram
        for one in (slow, decoded_sound(SoundFile("x", slow.as_wav())).at(16_000))
    ]
    assert drawn[0].shape == drawn[1].shape
    assert (drawn[0] - drawn[1]).abs().mean() < 0.05


@pytest.mark.parametrize("strides", [(5, 8, 8), (5, 8, 7)])
def test_a_burst_is_drawn_at_its_time_over_the_frames(
    strides: tuple[int, ...], tmp_path: Path
) -> None:
    """Sounds continue after their last frame; a column's window reaches 12.5 ms from its middle."""
    save_reader(SPELLER, tmp_path, conv_stride=strides)
    scope, step = models.load(tmp_path, device="cpu"), int(np.prod(strides)) / 16_000
    for seconds, begin in ((0.1, 0.06), (0.13, 0.02), (0.5, 0.4), (1.0, 0.71)):
        times = np.arange(round(seconds * 16_000)) / 16_000
        wave = np.where(times < begin, 0, 0.5 * np.sin(4_000 * np.pi * times))
        file = SoundFile("x", Waveform(wave.astype(np.float32), 16_000).as_wav())
        row = scope.encode(file)["frames"]
        assert row.step == step
        loud, ends = row.spectrogram.mean(0), len(row.ids) * step
        first = int((loud > 0).nonzero()[0])
        assert begin - 0.0125 <= (first + 0.5) / len(loud) * ends <= begin


def test_a_rising_tone_rises_in_its_drawing(folders: dict[str, Path]) -> None:
    """There are 80 bands of 100 Hz from low to high, and a tone of 200 · 16^(t / 2 s) Hz."""
    scope = models.load(folders[SPELLER], device="cpu")
    drawn = scope.encode(example_sound("rising tone"))["frames"].spectrogram
    loudest, n = drawn.argmax(0), drawn.shape[1]
    for share in (0.25, 0.5, 0.75, 0.9):
        band = 200 * 16**share / 100
        assert abs(float(loudest[round(share * n)]) + 0.5 - band) < 1.5


def test_frames_of_a_slower_model_are_further_apart(tmp_path: Path) -> None:
    save_reader(SPELLER, tmp_path)
    transformers.Wav2Vec2FeatureExtractor(sampling_rate=8_000).save_pretrained(tmp_path)
    row = models.load(tmp_path, device="cpu").encode(example_sound())["frames"]
    assert row.tokens[:3] == ("0.00 s", "0.04 s", "0.08 s")
    assert row.tokens[-1] == f"{STEP / 8_000 * (len(row.ids) - 1):.2f} s"
    assert row.n_heard * STEP / 8_000 == pytest.approx(row.seconds, abs=2 * STEP / 8_000)


def test_a_frame_of_a_spectrogram_is_as_long_as_its_columns(folders: dict[str, Path]) -> None:
    """Whisper's convolutions make a frame from two columns of 10 ms."""
    row = models.load(folders[WHISPER], device="cpu").encode(example_sound())["frames"]
    assert row.tokens[:3] == ("0.00 s", "0.02 s", "0.04 s")
    assert len(row.ids) * 0.02 == pytest.approx(row.seconds)


def test_painted_cells_have_no_weight(folders: dict[str, Path]) -> None:
    scope = models.load(folders[SPELLER], device="cpu")
    cells = ((3, 1), (3, 77), (98, 0))
    painted = scope.run(example_sound(), edits=for_kinds(self=MaskChange(block=cells)))
    for site in painted.attention.values():
        weights = site.weights()
        assert all(weights[:, query, key].eq(0).all() for query, key in cells)
        assert (weights.sum(-1) - 1).abs().max() < 1e-5
    plain = scope.run(example_sound()).outputs["classes"].logits
    assert (painted.outputs["classes"].logits - plain).abs().max() > 1e-5


def test_names_of_letters_come_from_the_folder_or_are_numbers(tmp_path: Path) -> None:
    save_reader(SPELLER, tmp_path)
    for content in ('{"a": 2, "<script>": 3, "x": 10, "y": "z", "\\u202e": 4}', "[1, 2]"):
        (tmp_path / "vocab.json").write_text(content, "utf-8")
        names = models.load(tmp_path, device="cpu").model.names
        wanted = ("0", "1", "a", "<script>", "U+202E", "5") if "a" in content else tuple("012345")
        assert names == wanted


_CTC = {
    "tokenizer_class": "Wav2Vec2CTCTokenizer", "pad_token": "[PAD]", "unk_token": "[UNK]", "bos_token": None,
    "eos_token": None,
}  # fmt: skip
_ABC = {"[PAD]": 0, "_": 1, "A": 2, "B": 3, "[UNK]": 4}
_NESTED = {"eng": _ABC | {"C": 5}, "deu": {"[PAD]": 0, "_": 1, "X": 2, "Y": 3, "[UNK]": 4, "Z": 5}}
# letters, settings of the tokenizer, and added letters
SPELLINGS = {
    "another mark between words": (_ABC, {"word_delimiter_token": "_"}, {}),
    "lower case": (_ABC, {"word_delimiter_token": "_", "do_lower_case": True}, {}),
    "one language of several": (_NESTED, {"target_lang": "deu", "word_delimiter_token": "_"}, {}),
    "added letters": (
        {"[PAD]": 0, "|": 1, "A": 2, "[UNK]": 3}, {"bos_token": "<s>", "eos_token": "</s>"}, {"<s>": 4, "</s>": 5},
    ),
    "phonemes": (
        {"[PAD]": 0, "aɪ": 1, "a": 2, "ɪ": 3, "[UNK]": 4},
        {"tokenizer_class": "Wav2Vec2PhonemeCTCTokenizer"}, {},
    ),
}  # fmt: skip


@pytest.mark.parametrize("how", SPELLINGS)
def test_a_text_is_spelled_as_by_the_tokenizer_of_the_folder(how: str, tmp_path: Path) -> None:
    letters, settings, added = SPELLINGS[how]
    n = 6 if added or how.startswith("one") else 5
    save_reader(SPELLER, tmp_path, vocab_size=n)
    files = {"vocab": letters, "tokenizer_config": _CTC | settings, "added_tokens": added}
    for name, content in files.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(content), "utf-8")
    scope = models.load(tmp_path, device="cpu")
    trace = scope.run(example_sound())
    best = trace.outputs["classes"].logits.argmax(-1).tolist()
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    assert trace.output == tokenizer.decode(best)
    assert len(set(trace.output)) > 1
    assert list(scope.model.names) == tokenizer.convert_ids_to_tokens(list(range(n)))


def test_letters_without_a_name_are_separate_numbers(tmp_path: Path) -> None:
    save_reader(SPELLER, tmp_path)
    (tmp_path / "vocab.json").write_text(json.dumps({"[PAD]": 0, "|": 1, "a": 2, "b": 3}), "utf-8")
    scope = models.load(tmp_path, device="cpu")
    logits = torch.eye(6)[[5, 5, 0, 5, 4, 2, 3, 1, 3, 0, 4]]
    outputs = {"classes": TokenClasses("frames", scope.model.names, logits)}
    assert scope.model.answer(outputs, {}, scope.tokenizer) == "5 5 4 ab b 4"


def test_a_tokenizer_with_excessive_output_spells_nothing(tmp_path: Path) -> None:
    save_reader(SPELLER, tmp_path, vocab_size=5)
    settings = _CTC | {"word_delimiter_token": "_", "replace_word_delimiter_char": "x" * 10_000}
    (tmp_path / "vocab.json").write_text(json.dumps(_ABC), "utf-8")
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings), "utf-8")
    trace = models.load(tmp_path, device="cpu").run(example_sound())
    assert trace.output
    assert "xxx" not in trace.output


@pytest.mark.parametrize("name", ["Wav2Vec2ForCTC", "Wav2Vec2BertForCTC"])
def test_answers_of_several_frames_are_refused_with_their_numbers(
    name: str, tmp_path: Path
) -> None:
    """An adapter makes one answer of three neighbouring frames."""
    save_reader(name, tmp_path, add_adapter=True, num_adapter_layers=1, output_hidden_size=24)
    with pytest.raises(CheckpointError, match="makes 50 answers from 99 frames") as error:
        models.load(tmp_path, device="cpu")
    assert "object has no attribute" not in str(error.value)


def test_a_text_is_no_sound(folders: dict[str, Path]) -> None:
    with pytest.raises(InputError, match="must be a sound file"):
        models.load(folders[SPELLER], device="cpu").run("four tones")


def shortened(file: SoundFile, seconds: float) -> SoundFile:
    sound = decoded_sound(file)
    samples = sound.samples[: round(seconds * sound.rate)]
    return SoundFile("short", Waveform(samples, sound.rate).as_wav())


def test_the_reason_why_a_sound_cannot_be_compared(
    folders: dict[str, Path], tmp_path: Path
) -> None:
    whole = example_sound()
    short = shortened(whole, 1)
    scope = models.load(folders[SPELLER], device="cpu")
    save_reader(SPELLER, tmp_path / "slow", conv_stride=(5, 8, 16))
    slow = models.load(tmp_path / "slow", device="cpu").run(whole)
    first, second = scope.run(whole), scope.run(short)
    lengths = [len(trace.streams["frames"].ids) for trace in (first, second)]
    frames = f"different sounds, of {lengths[0]} and {lengths[1]} frames"
    text = models.load("gpt", device="cpu").run("One two.")
    for other, why in (
        (second, frames),
        (slow, "into frames of 20 and 40 ms"),
        (text, "one run reads a sound and the other a text"),
    ):
        with pytest.raises(ValueError, match=why):
            compare(first, other)
    assert compare(second, scope.run(short)).largest_difference == 0


def test_two_cuts_of_one_sound_are_not_called_different_sounds(folders: dict[str, Path]) -> None:
    trace = models.load(folders[SPELLER], device="cpu").run(example_sound())
    row = trace.streams["frames"]
    n = len(row.ids)
    shorter = SoundRow.of(
        row.text, n - 1, row.ids.features, row.spectrogram, row.digest, row.step, row.seconds
    )
    other = replace(trace, streams={"frames": shorter})
    with pytest.raises(ValueError, match=f"cut the sound into {n} and {n - 1} frames"):
        compare(trace, other)


def test_the_vocabulary_of_a_reader_names_its_tokens(folders: dict[str, Path]) -> None:
    for name, first in ((AST, "[CLS]"), ("HubertForSequenceClassification", "0.00 s")):
        scope = models.load(folders[name], device="cpu")
        trace = scope.run(example_sound())
        tokens = next(iter(trace.streams.values())).tokens
        vocabulary = trace.model.tokenizer.vocabulary
        assert vocabulary[: len(tokens)] == tokens
        assert vocabulary[0] == first


def test_no_missing_button_is_mentioned_for_a_sound(folders: dict[str, Path]) -> None:
    scope = models.load(folders[SPELLER], device="cpu")
    run = CurrentRun(scope, scope.run(example_sound()))
    pinned = Pinned(scope, None, (shortened(example_sound(), 1),))
    why = compare_payloads(run, CompareChoices(pinned, Focus(), None))["distances"]["why"]
    assert "different sounds" in why
    assert "Same text" not in why


def test_the_command_writes_the_spelled_text_before_its_letters(
    folders: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    file = tmp_path / "x.wav"
    file.write_bytes(example_sound().content)
    trace = models.load(folders[SPELLER], device="cpu").run(example_sound())
    assert cli.main(["decode", str(folders[SPELLER]), str(file), "--device", "cpu"]) == 0
    text, *letters = capsys.readouterr().out.splitlines()
    assert text == trace.output
    assert len(letters) == len(trace.streams["frames"].ids)


@pytest.fixture(scope="module")
def patches(folders: dict[str, Path]) -> Scope:
    return models.load(folders[AST], device="cpu")


def wav(samples: np.ndarray) -> SoundFile:
    return SoundFile("x", Waveform(samples.astype(np.float32), 16_000).as_wav())


@torch.no_grad()
def embedded(scope: Scope, features: torch.Tensor) -> torch.Tensor:
    """Return the input vectors of the first layer, from the library's module."""
    return scope.model.module.audio_spectrogram_transformer.embeddings(features[None])[0]


def labelled_extent(row: PatchedSound, token: int) -> tuple[float, float, int, int]:
    """Return the times and the bands in the label of a token."""
    said = re.fullmatch(r"([\d.]+) to ([\d.]+) s, bands (\d+) to (\d+)", row.grid.described(token))
    assert said, row.tokens[token]
    begin, end, low, high = said.groups()
    return float(begin), float(end), int(low), int(high)


def test_its_summary_names_the_special_tokens(patches: Scope) -> None:
    about = next(line for line in model_summary(patches) if "FrameTokenizer" in line)
    assert about.endswith("; [CLS] 0, [distillation] 1")


def test_a_patch_reads_the_bands_and_columns_in_its_label(patches: Scope) -> None:
    """Each column and each band of the extractor's features is changed in turn."""
    row = patches.encode(example_sound())["spectrogram"]
    features, n_columns, n_bands = row.ids.features, *SPECTROGRAM.values()
    plain = embedded(patches, features)
    reads: dict[str, list[list[int]]] = {}
    for axis, n in enumerate((n_columns, n_bands)):
        moved = []
        for i in range(n):
            other = features.clone()
            other.select(axis, i).add_(1)
            moved.append((embedded(patches, other) - plain).abs().amax(-1) > 0)
        cells = torch.stack(moved)
        reads["bands" if axis else "columns"] = [
            cells[:, token].nonzero().flatten().tolist() for token in range(len(row.ids))
        ]
    assert row.tokens[:4] == ("[CLS]", "[distillation]", "0.0 s b1", "0.1 s b1")
    assert row.tokens[-1] == "0.4 s b11"
    for token in (0, 1):
        assert reads["columns"][token] == reads["bands"][token] == []
        assert row.grid.described(token) == ""
    for token in range(2, len(row.ids)):
        begin, end, low, high = labelled_extent(row, token)
        assert reads["columns"][token] == list(range(round(100 * begin), round(100 * end)))
        assert reads["bands"][token] == list(range(low - 1, high))
        assert row.tokens[token] == f"{begin:.1f} s b{low}"


def test_a_click_changes_the_patches_of_its_time(patches: Scope) -> None:
    """The window of a column is 25 ms long, and the next column begins after 10 ms."""
    noise = 0.05 * np.random.default_rng(1).standard_normal(10_400)
    rows = [patches.encode(wav(noise))["spectrogram"]]
    for second in (0.005, 0.195, 0.305, 0.5):
        clicked = noise.copy()
        clicked[round(second * 16_000)] += 0.9
        rows.append(patches.encode(wav(clicked))["spectrogram"])
        both = (embedded(patches, row.ids.features) for row in (rows[0], rows[-1]))
        moved = torch.sub(*both).abs().amax(-1) > 0
        for token in range(2, len(moved)):
            begin, end, *_ = labelled_extent(rows[0], token)
            assert bool(moved[token]) or not begin <= second < end
            assert not moved[token] or begin <= second < end + 0.015


@pytest.mark.parametrize("n", [400, 2_000, 2_079, 2_080, 5_000, 8_239, 8_240, 10_479, 32_000])
def test_the_patches_after_a_sound_are_padding(patches: Scope, n: int) -> None:
    """The extractor pads with the normalised value of 0, and cuts a sound that is too long."""
    row = patches.encode(wav(0.3 * np.random.default_rng(2).standard_normal(n).clip(-3, 3)))
    row, extractor = row["spectrogram"], transformers.ASTFeatureExtractor(num_mel_bins=32)
    padding = -extractor.mean / (2 * extractor.std)
    holds = (row.ids.features - padding).abs().amax(1) > 1e-6
    assert int(holds.sum()) == min(64, 1 + (n - 400) // 160)
    for token in range(2, len(row.ids)):
        begin = round(100 * labelled_extent(row, token)[0])
        column = row.grid.patch(token)[1]
        assert bool(holds[begin : begin + 16].any()) == (column < row.n_heard)


def test_a_sound_too_short_for_one_column_is_refused_at_its_field(patches: Scope) -> None:
    with pytest.raises(InputError, match="too short for a patch of this model") as error:
        patches.run(wav(np.full(399, 0.1)))
    assert error.value.field == "sound"


def test_the_drawing_shows_what_the_patches_read(patches: Scope) -> None:
    row = patches.encode(example_sound("rising tone"))["spectrogram"]
    read = row.ids.features[:56, :26].T  # no patch reads the last 8 columns and 6 bands
    wanted = (read - read.min()) / (read.max() - read.min())
    torch.testing.assert_close(row.spectrogram, wanted)


def test_positions_of_patches_are_the_vectors_that_are_added(patches: Scope) -> None:
    model = patches.model
    added = model.module.audio_spectrogram_transformer.embeddings.position_embeddings[0]
    assert model.config.positions == "learned"
    assert torch.equal(model.positions.table, added)


def test_masking_patches_and_switching_heads_off_match_hooks(patches: Scope) -> None:
    site, module = "audio_spectrogram_transformer.layers.1.attention", patches.model.module
    row = patches.encode(example_sound())["spectrogram"]
    cells = ((0, 3), (7, 0), (11, 11))
    painted = patches.run(example_sound(), edits=for_kinds(self=MaskChange(block=cells)))
    for attention in painted.attention.values():
        weights = attention.weights()
        assert all(weights[:, query, key].eq(0).all() for query, key in cells)
        assert (weights.sum(-1) - 1).abs().max() < 1e-5
    allowed = torch.ones(1, 1, 12, 12, dtype=torch.bool)
    for cell in cells:
        allowed[0, 0][cell] = False
    with torch.no_grad():
        by_hand = module(row.ids.features[None], attention_mask=allowed).logits[0]
    torch.testing.assert_close(painted.outputs["classes"].logits, by_hand, atol=2e-5, rtol=1e-5)

    def without_head(_: Any, inputs: tuple[torch.Tensor]) -> tuple[torch.Tensor]:
        kept = inputs[0].clone()
        kept[..., 8:16] = 0  # of three heads with 8 numbers each
        return (kept,)

    off = patches.run(example_sound(), edits=[HeadOff(Where(site=site, heads=(1,)))])
    hook = module.get_submodule(site).o_proj.register_forward_pre_hook(without_head)
    with torch.no_grad():
        by_hand = module(row.ids.features[None]).logits[0]
    hook.remove()
    torch.testing.assert_close(off.outputs["classes"].logits, by_hand, atol=2e-5, rtol=1e-5)


class Patched(torch.nn.Module):
    """Patches of 3 bands × 5 columns, one every 2 × 5, between special tokens; or in another order."""

    def __init__(self, *, by_time: bool = False) -> None:
        super().__init__()
        self.projection = torch.nn.Conv2d(1, 7, (3, 5), (2, 5))
        self.cls_token = torch.nn.Parameter(torch.randn(1, 1, 7))
        self.end_token = torch.nn.Parameter(torch.randn(1, 1, 7))
        self.by_time = by_time

    def forward(self, spectrum: torch.Tensor, output_hidden_states: bool) -> Any:
        grid = self.projection(spectrum[:, None])
        vectors = (grid.mT if self.by_time else grid).flatten(2).mT
        first = torch.cat([self.cls_token, vectors, self.end_token], 1)
        return SimpleNamespace(hidden_states=(first,))


def test_a_spectrogram_too_large_to_be_measured_is_refused(tmp_path: Path) -> None:
    transformers.ASTFeatureExtractor(num_mel_bins=32, max_length=62_501).save_pretrained(tmp_path)
    processor = SoundProcessor(tmp_path, transformers)
    with pytest.raises(CheckpointError, match="has 2,000,032 cells; at most 2,000,000"):
        spectrogram_columns(processor, (62_501, 32))


def test_a_grid_is_measured_whatever_the_class_of_the_module_is() -> None:
    columns = SpectrogramColumns(1, 23, 160, 400)
    grid = spectrogram_grid(Patched(), "spectrum", torch.randn(1, 10, 23), columns, 8_000)
    wanted = SpectrogramGrid(4, 4, ("[CLS]",), ("[end]",), (3, 5), (2, 5), 0.02)
    assert grid == wanted
    assert grid.described(7) == "0.20 to 0.30 s, bands 3 to 5"
    begin = process_time()
    wide = SpectrogramGrid(1, 10**7, size=(3, 5), stride=(2, 5), seconds=0.02)
    assert wide.described(9_999_999) == "999999.90 to 1000000.00 s, bands 1 to 3"
    assert process_time() - begin < 1  # without listing the names of the patches before it
    with pytest.raises(CheckpointError, match="not the patches of one grid"):
        spectrogram_grid(Patched(by_time=True), "spectrum", torch.randn(1, 10, 23), columns, 8_000)
