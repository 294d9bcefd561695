"""Models whose input is as long as its sound: the time that a frame covers, and the answers, are the library's."""

from itertools import groupby
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from sound_models import BANDS, LETTERS, SPELLERS, WRITERS, save_reader, save_speller, save_writer

import models
from models import Scope, cli
from models.analysis.checks import check_site
from models.errors import CheckpointError, InputError
from models.hub.sounds.rows import spectrogram_rows
from models.hub.sounds.steps import EqualSteps, token_steps
from models.runs.attention_row import query_of
from models.sounds import SOUND_EXAMPLES, SoundFile, Waveform, decoded_sound, example_sound
from models.trace.edits import HeadOff, Where

SEW, BERT, TEXT = "SEWForCTC", "Wav2Vec2BertForCTC", "The little dog"
# class → seconds between two frames
STEPS = {
    SEW: 0.04,
    BERT: 0.02,
    "Speech2TextForConditionalGeneration": 0.04,
    "MoonshineForConditionalGeneration": 0.024,
    "SpeechT5ForSpeechToText": 0.02,
    "ParakeetForCTC": 0.08,
    "LasrForCTC": 0.04,
}


def save(name: str, folder: Path) -> Any:
    if name in SPELLERS:
        return save_speller(name, folder)
    return (save_writer if name in WRITERS else save_reader)(name, folder)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("lengths")
    for name in STEPS:
        save(name, root / name)
    return {name: root / name for name in STEPS}


@pytest.fixture(scope="module")
def scopes(folders: dict[str, Path]) -> dict[str, Scope]:
    return {name: models.load(folder, device="cpu") for name, folder in folders.items()}


def wav(samples: np.ndarray) -> SoundFile:
    return SoundFile("x", Waveform(samples.astype(np.float32), 16_000).as_wav())


def noise(n: int) -> np.ndarray:
    return 0.05 * np.random.default_rng(1).standard_normal(n)


def library_features(folder: Path, file: SoundFile) -> dict[str, torch.Tensor]:
    """Return the features and the mask of a sound from the library's own extractor."""
    extractor = transformers.AutoFeatureExtractor.from_pretrained(folder)
    sound = decoded_sound(file)
    return dict(extractor(sound.samples, sampling_rate=sound.rate, return_tensors="pt"))


def eager(folder: Path, name: str) -> Any:
    made = getattr(transformers, name)
    return made.from_pretrained(folder, attn_implementation="eager").eval()


@pytest.mark.parametrize("name", STEPS)
def test_a_frame_covers_the_sound_at_its_time(scopes: dict[str, Scope], name: str) -> None:
    """A burst that is moved through noise changes the first layer's vector at its time most."""
    scope, step = scopes[name], STEPS[name]
    row = scope.encode(wav(noise(32_000)))["frames"]
    assert float(row.tokens[10].removesuffix(" s")) == pytest.approx(10 * step)
    assert row.n_heard == len(row.ids)
    assert len(row.ids) * step == pytest.approx(row.seconds, abs=3.1 * step)
    plain = first_vectors(scope, noise(32_000))
    assert len(plain) == len(row.ids)
    for frame in (len(plain) // 4, len(plain) // 2, len(plain) * 3 // 4):
        struck = noise(32_000)
        begin = round((frame + 0.25) * step * 16_000)
        struck[begin : begin + 100] *= 9
        moved = (first_vectors(scope, struck) - plain).norm(dim=-1)
        assert abs(int(moved.argmax()) - frame) <= 1


def first_vectors(scope: Scope, samples: np.ndarray) -> torch.Tensor:
    """Return the library's states before its first layer."""
    row, module = scope.encode(wav(samples))["frames"], scope.model.module
    encoder = module.get_encoder() if name_of(scope) in WRITERS else module
    inputs = {encoder.main_input_name: row.ids.features[None]}
    with torch.no_grad():
        return encoder(**inputs, output_hidden_states=True).hidden_states[0][0]


def name_of(scope: Scope) -> str:
    return type(scope.model.module).__name__


@pytest.mark.parametrize("n", [8_000, 8_160, 12_345, 16_639])
@pytest.mark.parametrize("name", [SEW, BERT, *SPELLERS])
def test_letters_of_any_length_are_the_librarys(
    folders: dict[str, Path], scopes: dict[str, Scope], name: str, n: int
) -> None:
    """This holds even if the extractor pads to an even number of columns and masks the last frame."""
    file = wav(noise(n))
    inputs = library_features(folders[name], file)
    with torch.no_grad():
        made = eager(folders[name], name)(**inputs, output_attentions=True)
    trace = scopes[name].run(file)
    output, n = trace.outputs["classes"], len(trace.streams["frames"].ids)
    theirs = made.logits[0]
    if name == BERT:  # a letter for each masked column too
        theirs = theirs[inputs["attention_mask"][0].bool()]
    torch.testing.assert_close(output.logits, theirs, atol=2e-5, rtol=1e-5)
    for site, wanted in zip(trace.attention.values(), made.attentions, strict=True):
        assert (site.weights() - wanted[0, :, :n, :n]).abs().max() < 2e-6
        assert wanted[0, :, :n, n:].abs().sum() == 0  # of padding
        assert [check for check in check_site(site) if not check.passed] == []
    names = [piece.replace("b", "▁b" if name in SPELLERS else "b") for piece in LETTERS]
    letters = [names[i] for i, _ in groupby(theirs.argmax(-1).tolist()) if i]
    assert trace.output == "".join(letters).replace("|", " ").replace("▁", " ").strip()


def test_several_letters_are_read_from_one_frame(
    folders: dict[str, Path],
    scopes: dict[str, Scope],
    tmp_path: Path,
    capsys: pytest.CaptureFixture,
) -> None:
    """Shown by changing the last vector of one frame at a time, and by the time of each letter."""
    scope = scopes[SEW]
    trace, module = scope.run(example_sound()), scope.model.module
    output, n = trace.outputs["classes"], len(trace.streams["frames"].ids)
    assert (n, len(output.logits), output.parts[:3]) == (49, 99, ("0.00 s", "0.02 s", "0.04 s"))
    assert output.parts[-1] == "1.96 s"
    vectors = torch.randn(1, n, 24)
    with torch.no_grad():
        plain = module.sew.encoder.upsample(vectors)[0]
        for frame in (0, 17, n - 1):
            other = vectors.clone()
            other[0, frame] += 1
            moved = (module.sew.encoder.upsample(other)[0] - plain).abs().amax(-1) > 0
            rows = [i for i in range(len(output.logits)) if output.source(i) == frame]
            assert moved.nonzero().flatten().tolist() == rows
    site = next(iter(trace.attention.values()))
    assert [query_of(trace, site, i) for i in (0, 1, 2, 97)] == [0, 0, 1, 48]
    with pytest.raises(ValueError, match="read from no token"):
        query_of(trace, site, 98)
    file = tmp_path / "x.wav"
    file.write_bytes(example_sound().content)
    assert cli.main(["decode", str(folders[SEW]), str(file), "--device", "cpu"]) == 0
    text, *letters = capsys.readouterr().out.splitlines()
    assert text == trace.output
    assert [line.split()[:2] for line in (letters[2], letters[98])] == [
        ["0.04", "s"],
        ["1.96", "s"],
    ]


def test_a_row_of_two_columns_is_drawn_as_two(
    folders: dict[str, Path], scopes: dict[str, Scope]
) -> None:
    file = example_sound("rising tone")
    row = scopes[BERT].encode(file)["frames"]
    extractor = transformers.AutoFeatureExtractor.from_pretrained(folders[BERT])
    assert row.ids.features.shape == (99, 2 * BANDS)
    columns = row.ids.features.unflatten(-1, (2, BANDS)).flatten(0, 1).T  # (band, 10 ms)
    least, most = columns.min(), columns.max()
    torch.testing.assert_close(row.spectrogram, (columns - least) / (most - least))
    logs = torch.tensor(extractor._extract_fbank_features(decoded_sound(file).samples)).T
    same = [
        torch.corrcoef(torch.stack(pair))[0, 1] for pair in zip(logs, row.spectrogram, strict=True)
    ]
    assert min(same) > 0.999  # normalised by band


@pytest.mark.parametrize("name", WRITERS)
def test_a_generating_model_gets_the_librarys_features(
    folders: dict[str, Path], scopes: dict[str, Scope], name: str
) -> None:
    library, scope = eager(folders[name], name), scopes[name]
    for file in (example_sound(), wav(noise(13_579))):
        trace = scope.run(file, TEXT)
        ids = torch.tensor([trace.streams["transcript"].ids])
        inputs = library_features(folders[name], file)
        with torch.no_grad():
            made = library(**inputs, decoder_input_ids=ids, output_attentions=True, use_cache=False)
        by_kind = {"encoder_self": made.encoder_attentions, "decoder_self": made.decoder_attentions}
        by_kind["cross"] = made.cross_attentions
        for kind, wanted in by_kind.items():
            sites = [site for site in trace.attention.values() if site.kind == kind]
            assert len(sites) == len(wanted) > 1
            for site, weights in zip(sites, wanted, strict=True):
                assert site.has_causes
                assert (site.weights() - weights[0]).abs().max() < 2e-6
        torch.testing.assert_close(
            trace.next_token.log_probs, made.logits[0].log_softmax(-1), atol=2e-5, rtol=1e-5
        )


@pytest.mark.parametrize("name", WRITERS)
def test_the_text_equals_that_of_generate(
    folders: dict[str, Path], scopes: dict[str, Scope], name: str
) -> None:
    library = getattr(transformers, name).from_pretrained(folders[name]).eval()
    for sound in SOUND_EXAMPLES[:2]:
        inputs = library_features(folders[name], example_sound(sound))
        written = list(scopes[name].write(example_sound(sound), max_new=9).ids)
        row = library.generate(**inputs, max_new_tokens=9, do_sample=False, num_beams=1)[0].tolist()
        assert written[: len(row) - 1] == row[1:]


@pytest.mark.parametrize(
    ("name", "path", "product"),
    [
        (SEW, "sew.encoder.layers.1.attention", "out_proj"),
        (BERT, "wav2vec2_bert.encoder.layers.1.self_attn", "linear_out"),
        ("Speech2TextForConditionalGeneration", "model.encoder.layers.1.self_attn", "out_proj"),
        ("MoonshineForConditionalGeneration", "model.decoder.layers.1.encoder_attn", "o_proj"),
    ],
)
def test_switching_a_head_off_equals_a_hook(
    scopes: dict[str, Scope], name: str, path: str, product: str
) -> None:
    scope, module = scopes[name], scopes[name].model.module
    values = (example_sound(), TEXT) if name in WRITERS else (example_sound(),)
    plain = scope.run(*values)
    site = plain.attention[path]
    width = site.out.shape[-1]

    def without_head(_: Any, inputs: tuple[torch.Tensor]) -> tuple[torch.Tensor]:
        kept = inputs[0].clone()
        kept[..., width : 2 * width] = 0
        return (kept,)

    off = scope.run(*values, edits=[HeadOff(Where(site=path, heads=(1,)))])
    hook = module.get_submodule(f"{path}.{product}").register_forward_pre_hook(without_head)
    inputs = {module.main_input_name: plain.streams["frames"].ids.features[None]}
    if name in WRITERS:
        ids = torch.tensor([plain.streams["transcript"].ids])
        inputs |= {"decoder_input_ids": ids, "use_cache": False}
    with torch.no_grad():
        by_hand = module(**inputs).logits[0]
    hook.remove()
    own, before = (next(iter(one.outputs.values())).logits for one in (off, plain))
    torch.testing.assert_close(own[: len(by_hand)], by_hand[: len(own)], atol=2e-5, rtol=1e-5)
    assert (own - before).abs().max() > 1e-4


class Framed(torch.nn.Module):
    """Frames of 7 samples every 5, with one attention; each reads the sound `late` frames after its position."""

    device, dtype = torch.device("cpu"), torch.float32

    def __init__(self, late: int = 0) -> None:
        super().__init__()
        self.projection, self.late = torch.nn.Conv1d(1, 6, 7, 5), late

    def forward(self, sound: torch.Tensor, output_hidden_states: bool = False) -> Any:
        first = self.projection(sound[:, None]).mT.roll(-self.late, 1)
        torch.nn.functional.scaled_dot_product_attention(first, first, first)
        return SimpleNamespace(hidden_states=(first,))


def test_steps_are_measured_whatever_the_class_of_the_module_is() -> None:
    steps = token_steps(Framed(), "sound", torch.randn(203))
    assert steps == EqualSteps(5, 7)
    assert [steps.count(n) for n in (6, 7, 11, 12, 203)] == [0, 1, 1, 2, 40]
    with pytest.raises(CheckpointError, match="they read other parts of it"):
        token_steps(Framed(late=1), "sound", torch.randn(203))
    with pytest.raises(CheckpointError, match="it makes 7 frames; 8 to [0-9,]+ can be shown"):
        token_steps(Framed(), "sound", torch.randn(37))


def test_columns_in_another_order_than_their_times_are_refused() -> None:
    def extract(samples: np.ndarray) -> torch.Tensor:
        windows = torch.from_numpy(samples).unfold(0, 8, 4)[: len(samples) // 8 * 2 - 2]
        return windows.abs().sort().values.reshape(-1, 16)

    assert spectrogram_rows(extract, extract, 400, 8).steps == EqualSteps(8, 16)

    def swapped(samples: np.ndarray) -> torch.Tensor:
        return extract(samples).roll(8, 1)

    with pytest.raises(CheckpointError, match="columns of its spectrogram are not equal steps"):
        spectrogram_rows(swapped, swapped, 400, 8)


def test_a_generating_model_uses_its_cache_if_it_can_be_confirmed(scopes: dict[str, Scope]) -> None:
    model = scopes["MoonshineForConditionalGeneration"].model
    assert model.can_cache
    ids = torch.tensor([[1, 2, 3]] * 3)
    assert model.trial_inputs(ids).shape == model.repeated(ids)[0].shape


@pytest.mark.parametrize("level", [0.0, 0.5])
def test_a_sound_that_cannot_be_normalised_is_refused_for_that(
    scopes: dict[str, Scope], level: float
) -> None:
    with pytest.raises(InputError, match="silent, constant or too short"):
        scopes["Speech2TextForConditionalGeneration"].run(wav(np.full(16_000, level)))
