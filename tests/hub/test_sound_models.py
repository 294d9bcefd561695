"""Hugging Face speech models: frames are a stream, and features, weights, logits and texts are the library's."""

import copy
import json
import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from sound_models import FRAMES, LANGUAGES, MELS, PROMPT, START, save

import models
from models import Scope, cli, decoding
from models.analysis.checks import check_site
from models.analysis.layer_parts import check_parts, sublayer_effects
from models.errors import CheckpointError, InputError
from models.hub.files import PREPROCESSOR
from models.hub.generation import GenerationSettings, SuppressedTokens
from models.hub.sounds.layout import sound_frames
from models.hub.sounds.prompt import Prompt
from models.sounds import (
    SOUND_EXAMPLES,
    SoundFile,
    SoundRow,
    Waveform,
    decoded_sound,
    example_sound,
)
from models.trace.edits import HeadOff, MaskChange, Where, for_kinds
from viz_app.drawing import sound_map
from viz_app.drawing.payload import unpack

WHISPER = "WhisperForConditionalGeneration"
SELF, CROSS = "model.encoder.layers.{}.self_attn", "model.decoder.layers.{}.encoder_attn"
TYPED = "The little dog"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whisper")
    save(folder)
    return folder


@pytest.fixture(scope="module")
def scope(folder: Path) -> Scope:
    return models.load(folder, device="cpu")


@pytest.fixture(scope="module")
def library(folder: Path) -> Any:
    made = transformers.WhisperForConditionalGeneration
    return made.from_pretrained(folder, attn_implementation="eager").eval()


def features(folder: Path, file: SoundFile | None = None) -> torch.Tensor:
    """Return the features of a sound from the library's own extractor."""
    extractor = transformers.WhisperFeatureExtractor.from_pretrained(folder)
    sound = decoded_sound(file or example_sound())
    made = extractor(sound.samples, sampling_rate=sound.rate, return_tensors="pt")
    return made["input_features"]


@torch.no_grad()
def library_output(library: Any, given: torch.Tensor, ids: tuple[int, ...]) -> Any:
    how = {"output_attentions": True, "output_hidden_states": True, "use_cache": False}
    return library(input_features=given, decoder_input_ids=torch.tensor([ids]), **how)


@pytest.mark.parametrize("name", SOUND_EXAMPLES)
def test_features_weights_states_and_logits_are_the_librarys(
    folder: Path, scope: Scope, library: Any, name: str
) -> None:
    trace, given = scope.run(example_sound(name)), features(folder, example_sound(name))
    assert torch.equal(trace.streams["frames"].ids.features, given[0])
    made = library_output(library, given, trace.streams["transcript"].ids)
    pairs = [
        (SELF, made.encoder_attentions),
        ("model.decoder.layers.{}.self_attn", made.decoder_attentions),
        (CROSS, made.cross_attentions),
    ]
    assert len(trace.attention) == sum(len(wanted) for _, wanted in pairs) == 7
    for path, wanted in pairs:
        for layer, weights in enumerate(wanted):
            site = trace.attention[path.format(layer)]
            assert (site.weights() - weights[0]).abs().max() < 2e-6
            assert [check for check in check_site(site) if not check.passed] == []
    for layer, state in enumerate(made.encoder_hidden_states[:-1]):
        before = trace.activations[f"model.encoder.layers.{layer}.resid_pre"].value
        torch.testing.assert_close(before, state, atol=2e-5, rtol=1e-5)
    logits = made.logits[0].log_softmax(-1)
    torch.testing.assert_close(trace.next_token.log_probs, logits, atol=2e-5, rtol=1e-5)


@pytest.mark.parametrize("language", [None, *LANGUAGES])
def test_the_text_equals_that_of_generate(
    tmp_path: Path, folder: Path, scope: Scope, language: str | None
) -> None:
    """The language is detected or set, then come the task, no timestamps, and suppressed tokens."""
    if language is not None:
        save(tmp_path, prompt=PROMPT | {"language": language})
        folder, scope = tmp_path, models.load(tmp_path, device="cpu")
    library = transformers.WhisperForConditionalGeneration.from_pretrained(folder)
    library.generation_config.return_timestamps = False
    ends = set()
    for name in SOUND_EXAMPLES:
        given = features(folder, example_sound(name))
        written = [step.token for step in scope.write(example_sound(name)).steps]
        prompt = library._retrieve_init_tokens(
            given, 1, library.generation_config, library.config, 2 * FRAMES, {}
        )[0].tolist()
        assert [START, *written[: len(prompt) - 1]] == prompt
        text = written[len(prompt) - 1 :]
        wanted = library.generate(given, max_new_tokens=len(text))[0].tolist()
        assert text == wanted
        ends.add(tuple(text))
        assert not set(text) & set(PROMPT["suppress_tokens"])
        assert text[0] not in PROMPT["begin_suppress_tokens"]
        uncached = decoding.greedy(
            scope.model, scope.input_ids(example_sound(name)), use_cache=False
        )
        assert [step.token for step in uncached] == written
    assert len(ends) == len(SOUND_EXAMPLES)


def test_older_settings_force_the_same_tokens(tmp_path: Path) -> None:
    plain = {"forced_decoder_ids": [[1, LANGUAGES["<|de|>"]], [2, 94]]}
    for prompt, wanted in ((plain, [93, 94]), ({}, [])):
        save(tmp_path, prompt=prompt)
        scope = models.load(tmp_path, device="cpu")
        assert list(scope.model.prompt.tokens) == wanted
        library = transformers.WhisperForConditionalGeneration.from_pretrained(tmp_path)
        written = list(scope.write(example_sound(), max_new=9).ids)
        rest = library.generate(features(tmp_path), max_new_tokens=9 - len(wanted))[0].tolist()
        assert written == [*wanted, *rest]


HOSTILE_PROMPTS = (
    {"lang_to_id": {"<|en|>": 10**9, "x": -1, "y": "z"}, "suppress_tokens": [-1, 10**12, None]},
    {"lang_to_id": [1, 2], "task_to_id": "x", "no_timestamps_token_id": [3], "language": ["en"]},
    {"forced_decoder_ids": [[1], 2, "x"], "begin_suppress_tokens": {"a": 1}, "task": 7},
)


@pytest.mark.parametrize("prompt", HOSTILE_PROMPTS)
def test_settings_that_name_no_token_are_ignored(prompt: dict, tmp_path: Path) -> None:
    save(tmp_path)
    path = tmp_path / "generation_config.json"
    kept = {k: v for k, v in json.loads(path.read_text()).items() if k not in PROMPT}
    path.write_text(json.dumps(kept | prompt))
    try:
        scope = models.load(tmp_path, device="cpu")
    except CheckpointError:  # the library refuses it
        return
    assert scope.model.prompt.tokens == ()
    assert scope.run(example_sound()).output


def test_sampling_and_beams_use_allowed_tokens_only(scope: Scope) -> None:
    for how, settings in (("sample", {"seed": 3, "temperature": 9.0}), ("beam", {"width": 5})):
        ids = scope.write(example_sound(), how, **settings).ids
        assert ids[0] in LANGUAGES.values()
        assert ids[1] == 96
        assert not set(ids[2:]) & set(PROMPT["suppress_tokens"])


def test_a_typed_text_is_read_after_the_models_prompt(
    scope: Scope, library: Any, folder: Path
) -> None:
    trace = scope.run(example_sound(), TYPED)
    ids = trace.streams["transcript"].ids
    assert ids[:3] == scope.run(example_sound()).streams["transcript"].ids[:3]
    assert ids[3:] == scope.tokenizer.encode(TYPED).ids
    made = library_output(library, features(folder), ids)
    torch.testing.assert_close(
        trace.next_token.log_probs, made.logits[0].log_softmax(-1), atol=2e-5, rtol=1e-5
    )
    again = scope.run_batch([[trace.streams["frames"], trace.streams["transcript"]]])[0]
    assert again.streams["transcript"].ids == ids
    with pytest.raises(InputError, match="reads at most 61") as error:
        scope.run(example_sound(), TYPED * 20)
    assert error.value.field == "transcript"


def test_a_frame_is_named_by_its_time_and_covers_the_sound_there(
    folder: Path, scope: Scope
) -> None:
    """Two routes agree: the formula k · 2 · hop / rate, and a click that is moved through the sound."""
    extractor = json.loads((folder / PREPROCESSOR).read_text())
    step = 2 * extractor["hop_length"] / extractor["sampling_rate"]
    row = scope.run(example_sound()).streams["frames"]
    assert isinstance(row, SoundRow)
    assert row.tokens == tuple(f"{k * step:.2f} s" for k in range(FRAMES))
    assert (row.n_heard, row.seconds) == (100, 2)
    rng = np.random.default_rng(1)
    noise = 0.01 * rng.standard_normal(32_000).astype(np.float32)
    plain = first_keys(scope, noise)
    for frame in (5, 42, 71):
        clicked = noise.copy()
        clicked[round(frame * step * 16_000)] += 0.9
        moved = (first_keys(scope, clicked) - plain).abs().amax(-1)
        assert abs(int(moved.argmax()) - frame) <= 1
        assert moved[frame] > 10 * moved[[k for k in range(FRAMES) if abs(k - frame) > 3]].max()


def first_keys(scope: Scope, samples: np.ndarray) -> torch.Tensor:
    """Return the first layer's stream without the positions: the frames' part that depends on the sound."""
    file = SoundFile("x", Waveform(samples, 16_000).as_wav())
    trace = scope.run(file)
    return trace.activations["model.encoder.layers.0.resid_pre"].value[0]


def test_tokens_that_may_not_begin_a_text_are_suppressed_only_after_the_prompt(
    scope: Scope,
) -> None:
    model = copy.copy(scope.model)
    model.prompt = Prompt((7, None), (5, 9))
    model.generation = GenerationSettings(SuppressedTokens(11, always=(3,), not_first=(5,)))
    process = model.logits_processor(torch.zeros(1, 2, 4), 1)
    barred = []
    for position in range(5):
        scores = process(torch.zeros(1, 1 + position, dtype=torch.long), torch.zeros(1, 11))
        barred.append((scores[0] == -torch.inf).nonzero().flatten().tolist())
    assert barred == [[], [i for i in range(11) if i not in (5, 9)], [3, 5], [3], [3]]


@pytest.mark.parametrize(
    "says",
    [{"no_repeat_ngram_size": 1}, {"repetition_penalty": 4.0}, {"encoder_no_repeat_ngram_size": 1}],
)
def test_settings_that_depend_on_the_text_are_those_of_generate(
    tmp_path: Path, scope: Scope, says: dict
) -> None:
    """The library ignores settings on the encoder's tokens, which a sound does not have."""
    save(tmp_path, prompt=PROMPT | says)
    changed = models.load(tmp_path, device="cpu")
    assert changed.model.not_applied == ()
    library = transformers.WhisperForConditionalGeneration.from_pretrained(tmp_path)
    library.generation_config.return_timestamps = False
    written = [step.token for step in changed.write(example_sound()).steps]
    n_prompt = len(changed.model.prompt.tokens)
    wanted = library.generate(features(tmp_path), max_new_tokens=len(written) - n_prompt)[
        0
    ].tolist()
    assert written[n_prompt:] == wanted
    free = [step.token for step in scope.write(example_sound()).steps]
    assert (written == free) == ("encoder_no_repeat_ngram_size" in says)


@pytest.mark.parametrize("columns", [0, 6])
def test_frames_that_read_another_part_of_the_sound_are_refused(columns: int) -> None:
    """An encoder is used whose frame i reads column 2 i of the spectrogram, or one some columns later."""

    def encoder(input_features: torch.Tensor, **how: Any) -> Any:
        first = input_features.roll(columns, -1)[..., ::2].transpose(1, 2)
        return SimpleNamespace(hidden_states=(first,))

    features = torch.rand(1, 5, 60)
    if not columns:
        assert sound_frames(encoder, features) == (30, 2.0)
    else:
        with pytest.raises(CheckpointError, match="frame 7 reads another part of it"):
            sound_frames(encoder, features)


@pytest.mark.parametrize(("seconds", "heard"), [(0.02, 1), (0.5, 25), (0.501, 26), (2, 100)])
def test_silence_is_put_after_a_short_sound(scope: Scope, seconds: float, heard: int) -> None:
    samples = np.full(int(seconds * 16_000), 0.1, np.float32)
    row = scope.run(SoundFile("x", Waveform(samples, 16_000).as_wav())).streams["frames"]
    assert (row.n_heard, len(row.ids)) == (heard, FRAMES)


@pytest.mark.parametrize("most", [2, 512])
def test_the_picture_of_a_long_sound_holds_the_row_of_its_query(
    scope: Scope, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(sound_map, "MAX_WHOLE_TOKENS", most)
    site = scope.run(example_sound()).attention[SELF.format(0)]
    trace = scope.run(example_sound())
    header, arrays = unpack(sound_map.sound_map(trace, site, 1, "q41"))
    rows = slice(41, 42) if most == 2 else slice(0, FRAMES)
    assert (header["query"], header["first"]) == (41, rows.start)
    torch.testing.assert_close(torch.tensor(arrays["weights"]), site.weights(1)[rows])
    torch.testing.assert_close(torch.tensor(arrays["heads"]), site.weights()[:, 41])


def test_a_sound_of_another_rate_is_the_same_sound(scope: Scope) -> None:
    sound = decoded_sound(example_sound("rising tone"))
    slow = Waveform(sound.samples, 16_000).at(44_100)
    ours, other = (
        scope.encode(SoundFile("x", one.as_wav()))["frames"].ids.features for one in (sound, slow)
    )
    assert (ours - other).abs().median() < 0.02


def test_position_vectors_are_the_encoders_sinusoids(
    scope: Scope, library: Any, folder: Path
) -> None:
    """Routes other than the look-up: Whisper's formula, and the input of the first layer without them."""
    table = scope.model.positions.table
    k, i = torch.arange(FRAMES)[:, None], torch.arange(11)
    angles = k * torch.exp(-np.log(10_000) / 10 * i)
    torch.testing.assert_close(table, torch.cat([angles.sin(), angles.cos()], 1), atol=1e-5, rtol=0)
    assert (scope.config.positions, scope.model.order_source) == ("fixed", "vectors")
    given, encoder = features(folder), library.get_encoder()
    with torch.no_grad():
        before = encoder(given, output_hidden_states=True).hidden_states[0]
        kept = encoder.embed_positions.weight.clone()
        encoder.embed_positions.weight.zero_()
        without = encoder(given, output_hidden_states=True).hidden_states[0]
        encoder.embed_positions.weight.copy_(kept)
    torch.testing.assert_close(before - without, table[None], atol=1e-5, rtol=0)


def test_learned_positions_are_distinguished_from_sinusoids(tmp_path: Path) -> None:
    module = save(tmp_path)
    with torch.no_grad():
        module.model.encoder.embed_positions.weight.normal_()
    module.save_pretrained(tmp_path)
    assert models.load(tmp_path, device="cpu").config.positions == "learned"


def test_the_layers_add_up(scope: Scope) -> None:
    trace = scope.run(example_sound())
    assert len(scope.model.sublayers) == 3 * 2 + 2 * 3
    for stream in scope.model.streams:
        found = sublayer_effects(scope.model, trace, stream, 2)
        checks = check_parts(scope.model, trace, found, 2)
        assert checks
        assert [check for check in checks if not check.passed] == []


def test_painted_cells_have_no_weight_and_a_head_can_be_switched_off(scope: Scope) -> None:
    plain = scope.run(example_sound(), TYPED)
    cells = ((3, 1), (3, 77), (5, 99))
    painted = scope.run(example_sound(), TYPED, edits=for_kinds(cross=MaskChange(block=cells)))
    for layer in range(2):
        weights = painted.attention[CROSS.format(layer)].weights()
        assert all(weights[:, query, key].eq(0).all() for query, key in cells)
        assert (weights.sum(-1) - 1).abs().max() < 1e-5
    off = scope.run(
        example_sound(), TYPED, edits=[HeadOff(Where(site=CROSS.format(0), heads=(1,)))]
    )
    for other in (painted, off):
        apart = (other.next_token.log_probs - plain.next_token.log_probs).abs()
        assert apart.max() > 1e-4
    assert (painted.next_token.log_probs - plain.next_token.log_probs)[1].abs().max() < 1e-5


def test_several_sounds_run_as_one_batch(scope: Scope) -> None:
    together = scope.run_each([[example_sound(name), None] for name in SOUND_EXAMPLES])
    for name, trace in zip(SOUND_EXAMPLES, together, strict=True):
        alone = scope.run(example_sound(name))
        assert trace.streams["transcript"].ids == alone.streams["transcript"].ids
        torch.testing.assert_close(
            trace.next_token.log_probs, alone.next_token.log_probs, atol=2e-5, rtol=1e-5
        )


def test_queries_are_unscaled_products_with_the_librarys_matrices(
    scope: Scope,
) -> None:
    """Whisper multiplies q before it calls attention: that factor is the scale, and q is x·W_Q + b."""
    trace, parts = scope.run(example_sound()), dict(scope.model.module.named_modules())
    for name, site in trace.attention.items():
        module = parts[name]
        assert torch.equal(site.projections["W_Q"][0], module.q_proj.weight)
        assert site.projections["W_K"][1] is None
        q = torch.nn.functional.linear(site.x, module.q_proj.weight, module.q_proj.bias)
        heads = q.unflatten(-1, (2, -1)).transpose(1, 2)
        torch.testing.assert_close(site.q, heads, atol=1e-6, rtol=1e-5)
        wanted = heads @ site.k.transpose(-1, -2) * module.scaling
        torch.testing.assert_close(site.scores(), wanted[0], atol=1e-5, rtol=1e-5)


def test_the_command_prints_the_transcript(
    folder: Path, scope: Scope, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    (tmp_path / "x.wav").write_bytes(example_sound("rising tone").content)
    assert cli.main(["decode", str(folder), str(tmp_path / "x.wav")]) == 0
    assert capsys.readouterr().out.strip() == scope.write(example_sound("rising tone")).text.strip()
    (tmp_path / "bad.wav").write_bytes(b"<svg>")
    os.mkfifo(tmp_path / "pipe.wav")
    for name, wanted in (
        ("bad.wav", "not a WAV file"),
        ("pipe.wav", "not a regular file"),
        ("none.wav", "cannot be read"),
    ):
        assert cli.main(["decode", str(folder), str(tmp_path / name)]) != 0
        assert wanted in capsys.readouterr().err


def test_recording_does_not_change_a_bit_of_the_answer(scope: Scope) -> None:
    trace = scope.run(example_sound(), TYPED)
    given, text = scope.model.inputs([trace.streams])
    with torch.no_grad():
        memory = scope.model.module.get_encoder()(given)
        alone = scope.model.module(encoder_outputs=memory, decoder_input_ids=text, use_cache=False)
    assert torch.equal(alone.logits[0].float(), trace.next_token.logits)


@pytest.mark.parametrize(
    "value", ["four tones", "/etc/passwd", [1, 2], None, models.images.example()]
)
def test_only_a_sound_file_is_read(scope: Scope, value: Any) -> None:
    with pytest.raises(InputError, match="sound") as error:
        scope.run(value)
    assert error.value.field == "sound"


def test_a_sound_that_cannot_be_read_is_refused_at_its_field(scope: Scope) -> None:
    for file, wanted in (
        (SoundFile("x", b"RIFF"), "the sound cannot be read: the file is not a WAV file"),
        (
            SoundFile("x", Waveform(np.zeros(40_000, np.float32), 16_000).as_wav()),
            "reads at most 2 s",
        ),
    ):
        with pytest.raises(InputError, match=wanted) as error:
            scope.run(file)
        assert error.value.field == "sound"


def test_a_model_of_texts_does_not_read_the_name_of_a_sound() -> None:
    with pytest.raises(InputError, match="must be a text"):
        models.load("dates", device="cpu").run(example_sound())


HOSTILE = {
    "a huge window": ({"n_fft": 10**9}, "n_fft must be a number from 16 to 8,192"),
    "no window": ({"n_fft": 0}, "n_fft must be"),
    "a huge chunk": ({"chunk_length": 10**9}, "chunk_length must be"),
    "an endless chunk": ({"chunk_length": float("inf")}, "chunk_length must be|not JSON|Infinity"),
    "many bands": ({"feature_size": 10**6}, "feature_size must be"),
    "no hop": ({"hop_length": 0}, "hop_length must be"),
    "a hop back": ({"hop_length": -160}, "hop_length must be"),
    "no rate": ({"sampling_rate": 0}, "sampling_rate must be"),
    "a rate in words": ({"sampling_rate": "16000"}, "sampling_rate must be"),
    "a yes for a rate": ({"sampling_rate": True}, "sampling_rate must be"),
    "noise": ({"dither": 1.0}, "dither must be"),
    "another number": ({"surprise": {"deep": [10**9]}}, "surprise has the number"),
    "other bands": ({"feature_size": MELS + 1}, "does not run on a sound"),
    "another length": ({"chunk_length": 3}, "does not run on a sound"),
    "a list": ({"hop_length": [160]}, "hop_length must be"),
    "another extractor": ({"feature_extractor_type": "NoSuchExtractor"}, "."),
    "code of its own": ({"auto_map": {"AutoFeatureExtractor": "x.Y"}, "feature_extractor_type": "Y"}, "."),
    "a path": ({"name_or_path": "/etc/passwd", "mel_filters": [[1e9] * 9] * 9}, None),
}  # fmt: skip


@pytest.mark.parametrize("how", HOSTILE)
def test_a_hostile_preprocessor_is_refused(how: str, tmp_path: Path) -> None:
    changes, wanted = HOSTILE[how]
    save(tmp_path)
    path = tmp_path / PREPROCESSOR
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | changes), "utf-8")
    if wanted is None:
        assert models.load(tmp_path, device="cpu").run(example_sound()).output
        return
    with pytest.raises(CheckpointError, match=wanted) as error:
        models.load(tmp_path, device="cpu")
    assert "object has no attribute" not in str(error.value)
    assert not isinstance(error.value.__cause__, MemoryError)


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        (
            {"max_source_positions": 10**9},
            "max_source_positions|numbers|missing from its weights|memory",
        ),
        ({"max_source_positions": 99}, "."),
        ({"num_mel_bins": 10**9}, "."),
    ],
)
def test_a_hostile_configuration_is_refused(changes: dict, wanted: str, tmp_path: Path) -> None:
    save(tmp_path, prompt={})
    for name in ("config.json", "generation_config.json"):
        path = tmp_path / name
        path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | changes), "utf-8")
    with pytest.raises(CheckpointError, match=wanted) as error:
        models.load(tmp_path, device="cpu")
    assert "object has no attribute" not in str(error.value)


def test_without_a_preprocessor_the_reason_is_given(tmp_path: Path) -> None:
    save(tmp_path)
    (tmp_path / PREPROCESSOR).unlink()
    with pytest.raises(
        CheckpointError, match="preprocessor_config.json is missing, which says how a sound"
    ):
        models.load(tmp_path, device="cpu")


def test_without_a_tokenizer_its_tokens_are_numbers(tmp_path: Path) -> None:
    save(tmp_path, tokenizer=False)
    scope = models.load(tmp_path, device="cpu")
    trace = scope.run(example_sound())
    assert trace.output.split()[0].isdigit()
    assert scope.run(example_sound(), "7 8 9").streams["transcript"].ids[-3:] == (7, 8, 9)


def test_the_settings_of_the_extractor_distinguish_two_folders(
    scope: Scope, tmp_path: Path
) -> None:
    save(tmp_path)
    path = tmp_path / PREPROCESSOR
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | {"n_fft": 512}), "utf-8")
    other = models.load(tmp_path, device="cpu")
    assert other.fingerprint != scope.fingerprint
    assert other.weights_digest == scope.weights_digest


def test_two_sounds_of_one_length_are_never_mixed_up(scope: Scope) -> None:
    ids = [scope.input_ids(example_sound(name)) for name in SOUND_EXAMPLES]
    assert len(set(ids)) == len(SOUND_EXAMPLES)
    rows = [scope.encode(example_sound(name))["frames"] for name in SOUND_EXAMPLES]
    assert len({hash(row) for row in rows}) == len(SOUND_EXAMPLES)
    assert replace(rows[0]) == rows[0] != rows[1]
    same_name = SoundFile(str(example_sound()), example_sound(SOUND_EXAMPLES[1]).content)
    assert scope.input_ids(same_name) == ids[1] != ids[0]
