"""Malicious checkpoints: sizes that would take all memory, foreign tokenizers, panics, false records and states."""

import json
from contextlib import suppress
from dataclasses import fields
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from small import reversal_trainer

from models import checkpoint_files as files
from models import weights
from models.architectures.attention_only import AttentionOnlyConfig
from models.architectures.gpt import GPTConfig
from models.architectures.seq2seq import Seq2SeqConfig
from models.architectures.transformer import TransformerConfig
from models.checkpoint import CheckpointError, load_checkpoint
from models.tokenizers.base import Tokenizer
from models.training_record import check_record
from tests.robustness.damage import FOREIGN, VALUES


def rewritten(folder: Path, name: str, **changes) -> None:
    """Rewrite a file of the checkpoint with other entries, and drop the checksums from its record."""
    record = json.loads((folder / "training.json").read_text())
    record.pop("checksums", None)
    (folder / "training.json").write_text(json.dumps(record))
    content = json.loads((folder / name).read_text())
    (folder / name).write_text(json.dumps(content | changes))


@pytest.fixture
def on_meta(monkeypatch):
    """Fail if a model is built with memory for its numbers."""
    build = weights.build

    def watched(config):
        assert torch.empty(0).device.type == "meta", (
            "a model was built before its file had been looked at"
        )
        return build(config)

    monkeypatch.setattr(weights, "build", watched)


BOMBS = {
    "layers": (
        {"n_encoder_layers": 10**6},
        "config.json: n_encoder_layers must be at most 256, not 1,000,000",
    ),
    "d_ff": ({"d_ff": 10**9}, "config.json: d_ff must be at most 262,144, not 1,000,000,000"),
    "n_ctx": ({"n_ctx": 10**9}, "config.json: n_ctx must be at most 65,536, not 1,000,000,000"),
    "vocab_size": (
        {"vocab_size": 10**9},
        "config.json: vocab_size must be at most 1,048,576, not 1,000,000,000",
    ),
    "d_model": (
        {"d_model": 10**12},
        "config.json: d_model must be at most 65,536, not 1,000,000,000,000",
    ),
    "all within bounds": (
        {"d_model": 2**15, "d_ff": 2**15, "n_heads": 1},
        r"config.json: opening a model of these sizes takes [0-9]{3}\.[0-9] GB; the limit is 4.0 GB",
    ),
    "the position table alone": (
        {"n_encoder_layers": 0, "n_decoder_layers": 0, "d_model": 2**12, "n_ctx": 2**16},
        "config.json: opening a model of these sizes takes 7.0 GB; the limit is 4.0 GB",
    ),
    "more layers than the file": (
        {"n_encoder_layers": 200},
        "model.safetensors: .* parameters do not match the configuration",
    ),
    "wider than the file": ({"d_ff": 999}, r"W_1.\w+ must have shape \(999.*, got \(61"),
}


@pytest.mark.parametrize(("changes", "message"), BOMBS.values(), ids=BOMBS)
def test_a_configuration_is_checked_against_its_weights_before_anything_is_built(
    checkpoint, on_meta, changes, message
):
    rewritten(checkpoint, "config.json", **changes)
    with pytest.raises(CheckpointError, match=message):
        load_checkpoint(checkpoint)


@pytest.mark.parametrize("name", files.CHECKPOINT_FILES)
def test_no_more_is_read_of_a_file_than_it_may_have(checkpoint, monkeypatch, name):
    monkeypatch.setitem(files.MAX_FILE_BYTES, name, (checkpoint / name).stat().st_size)
    load_checkpoint(checkpoint)
    largest = files.MAX_FILE_BYTES[name] - 1
    monkeypatch.setitem(files.MAX_FILE_BYTES, name, largest)
    with pytest.raises(
        CheckpointError, match=f"{name}: larger than the limit of {largest:,} bytes"
    ):
        load_checkpoint(checkpoint)


FIELDS = {
    "pad_id of another token": ({"pad_id": 1}, "pad_id must be 0, the tokenizer's <pad>, not 1"),
    "pad_id out of range": (
        {"pad_id": 9},
        "pad_id must be a token of the vocabulary, 0 to 8, not 9",
    ),
    "negative pad_id": ({"pad_id": -1}, "pad_id must be a token of the vocabulary, 0 to 8, not -1"),
    "a float": ({"n_heads": 3.0}, "n_heads must be a whole number, not 3.0"),
    "a boolean": ({"n_encoder_layers": True}, "n_encoder_layers must be a whole number, not True"),
    "nothing": ({"n_ctx": None}, "n_ctx must be a whole number, not None"),
    "a text": ({"d_model": "33"}, "d_model must be a whole number, not '33'"),
    "a number": ({"norm": 1}, "norm must be a text, not 1"),
    "a list": ({"similarity": []}, r"similarity must be a text, not \[\]"),
    "dropout of all": ({"dropout": 1.0}, "dropout must be at least 0 and below 1, not 1.0"),
    "dropout beyond": ({"dropout": 1.5}, "dropout must be at least 0 and below 1, not 1.5"),
    "negative dropout": ({"dropout": -0.1}, "dropout must be at least 0 and below 1, not -0.1"),
    "no dropout": (
        {"dropout": float("nan")},
        "config.json: not readable as JSON .NaN is not a finite number",
    ),
    "boolean dropout": ({"dropout": False}, "dropout must be a number, not False"),
    "a list of architectures": (
        {"architecture": ["transformer"]},
        r"architecture \['transformer'\] is not one of",
    ),
    "an empty architecture": ({"architecture": []}, r"architecture \[\] is not one of transformer"),
}


@pytest.mark.parametrize(("changes", "message"), FIELDS.values(), ids=FIELDS)
def test_every_field_has_its_type_and_its_range(checkpoint, changes, message):
    rewritten(checkpoint, "config.json", **changes)
    with pytest.raises(CheckpointError, match=message):
        load_checkpoint(checkpoint)


@pytest.mark.parametrize(
    "config", [TransformerConfig, Seq2SeqConfig, AttentionOnlyConfig, GPTConfig]
)
def test_a_configuration_made_in_code_is_checked_too(config):
    for changes in ({"n_ctx": 1}, {"pad_id": 31}, {"vocab_size": 0}):
        with pytest.raises(ValueError, match=f"{next(iter(changes))} must be"):
            config(**{"vocab_size": 31} | changes)


RANGES = {
    "vocab_size": (1, 1_048_576), "d_model": (1, 65_536), "d_ff": (1, 262_144), "d_hidden": (1, 65_536), "d_align": (1, 65_536),
    "n_encoder_layers": (0, 256), "n_decoder_layers": (0, 256), "n_self_layers": (0, 256), "n_layers": (0, 256),
    "n_ctx": (2, 65_536), "window": (0, 65_536), "n_texts": (1, 2),
}  # fmt: skip


@pytest.mark.parametrize(
    "config", [TransformerConfig, Seq2SeqConfig, AttentionOnlyConfig, GPTConfig]
)
def test_a_size_may_be_its_least_and_its_largest_and_nothing_beyond(config):
    for field in fields(config):
        if field.name not in RANGES:
            assert (
                field.name in ("n_heads", "pad_id", "start_id", "end_id") or field.type is not int
            )
            continue
        least, largest = RANGES[field.name]
        for value in (least, largest):
            if (field.name, value) != ("vocab_size", 1):
                asked = config(**{"vocab_size": 31, field.name: value})
                assert getattr(asked, field.name) == value
        if config is not GPTConfig or field.name != "d_ff":  # where 0 stands for 4·d_model
            with pytest.raises(
                ValueError, match=f"^{field.name} must be at least {least}, not {least - 1}$"
            ):
                config(**{"vocab_size": 31, field.name: least - 1})
        with pytest.raises(
            ValueError, match=f"^{field.name} must be at most {largest:,}, not {largest + 1:,}$"
        ):
            config(**{"vocab_size": 31, field.name: largest + 1})


@pytest.mark.parametrize("changes", FOREIGN.values(), ids=FOREIGN)
def test_a_tokenizer_with_features_that_ours_never_have_is_refused(checkpoint, changes):
    rewritten(checkpoint, "tokenizer.json", **changes)
    with pytest.raises(CheckpointError, match=r"tokenizer.json: not a tokenizer"):
        load_checkpoint(checkpoint)


BPE = Tokenizer.bpe(["the cat sat on the mat, the other cat too"] * 2, 130)


BYTES = Tokenizer.byte_level(["the cat sat on the mat, the other cat too"] * 2, 275)


@pytest.mark.parametrize("changes", FOREIGN.values(), ids=FOREIGN)
@pytest.mark.parametrize("tokenizer", [BPE, BYTES], ids=["pieces", "bytes"])
def test_nor_is_one_of_pieces_or_bytes(tokenizer, changes):
    with pytest.raises(ValueError, match="not a tokenizer"):
        Tokenizer.from_json(json.dumps(json.loads(tokenizer.to_json()) | changes))


def model_of(tokenizer: Tokenizer = BPE, **changes) -> str:
    content = json.loads(tokenizer.to_json())
    return json.dumps(content | {"model": content["model"] | changes})


def test_a_byte_level_vocabulary_holds_every_byte_and_nothing_that_is_none():
    vocabulary = json.loads(BYTES.to_json())["model"]["vocab"]
    assert Tokenizer.from_json(BYTES.to_json()).to_json() == BYTES.to_json()
    last = max(vocabulary, key=vocabulary.get)
    for changed in ({last: "日"}, {last: "a b"}, {"z": "zz"}, {"Ġ": "ĠĠĠ"}):
        other = {changed.get(token, token): i for token, i in vocabulary.items()}
        assert len(other) == len(vocabulary)
        with pytest.raises(
            ValueError, match="a byte-level vocabulary must hold every byte, and only bytes"
        ):
            Tokenizer.from_json(model_of(BYTES, vocab=other, merges=[]))
    for odd in (
        {"add_prefix_space": True},
        {"use_regex": False},
        {"trim_offsets": False},
        {"type": "Whitespace"},
    ):
        splits = json.loads(BYTES.to_json())["pre_tokenizer"] | odd
        with pytest.raises(ValueError, match="not a tokenizer"):
            Tokenizer.from_json(json.dumps(json.loads(BYTES.to_json()) | {"pre_tokenizer": splits}))
    for splits in (None, 7, ["ByteLevel"], {"type": ["ByteLevel"]}):
        with pytest.raises(ValueError, match="not a tokenizer"):
            Tokenizer.from_json(json.dumps(json.loads(BYTES.to_json()) | {"pre_tokenizer": splits}))


def test_a_tokenizer_is_read_with_its_own_vocabulary_and_merges():
    again = Tokenizer.from_json(BPE.to_json())
    assert again.to_json() == BPE.to_json()
    for text in ("the cat", "another Mat", "<s> the"):
        assert again.encode(text) == BPE.encode(text)


def test_a_vocabulary_has_every_id_once_and_merges_stay_in_it():
    vocabulary = json.loads(BPE.to_json())["model"]["vocab"]
    last = max(vocabulary, key=vocabulary.get)
    for odd in (10**9, -1, True, 1.0, "7", None, 4):
        with pytest.raises(ValueError, match="not a tokenizer"):
            Tokenizer.from_json(model_of(vocab=vocabulary | {last: odd}))
    for merges in ([["the", "zebra"]], [["t"]], ["t h"], [None], None, {}):
        with pytest.raises(ValueError, match="not a tokenizer"):
            Tokenizer.from_json(model_of(merges=merges))
    long = {("x" * 1001 if token == last else token): i for token, i in vocabulary.items()}
    with pytest.raises(ValueError, match="a token must have 1 to 1000 characters"):
        Tokenizer.from_json(model_of(vocab=long, merges=[]))
    with pytest.raises(ValueError, match="its model is not what this program writes"):
        Tokenizer.from_json(model_of(dropout=0.5))


def test_a_panic_of_the_library_is_a_checkpoint_error(checkpoint, capfd):
    prefix = model_of(continuing_subword_prefix="é#########")  # panics in Rust when it is read
    with pytest.raises(
        CheckpointError, match="the tokenizer of this checkpoint cannot be used: range end index"
    ):
        Tokenizer.from_json(prefix)
    (checkpoint / "tokenizer.json").write_text(prefix)
    rewritten(checkpoint, "training.json")
    with pytest.raises(CheckpointError, match=r"tokenizer.json: .* cannot be used"):
        load_checkpoint(checkpoint)
    panicking = Tokenizer.from_json(BPE.to_json())
    panicking.backend = type(panicking.backend).from_str(
        json.dumps(json.loads(BPE.to_json()) | FOREIGN["panics when it truncates"])
    )
    for call in (
        lambda: panicking.encode("the cat sat on it"),
        lambda: panicking.encode_many(["the cat sat on it"]),
    ):
        with pytest.raises(
            CheckpointError, match="cannot be used: `stride` must be strictly less than"
        ):
            call()


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_other_errors_than_panics_pass_through(stop):
    tokenizer = Tokenizer.characters("abc")

    class Backend:
        def decode(self, ids):
            raise stop

    tokenizer.backend = Backend()
    with pytest.raises(stop):
        tokenizer.decode([4, 5])


RECORDS = {
    "step": [-1, 1.5, True, "5", None, 2**60], "averaged_steps": ["x"], "processes": [0.5], "task": [None, 5, []],
    "command": [[]], "licence": [{}], "device": [1], "torch": [2.1], "training_seconds": [-1, "1", True],
    "recipe": [[], "x"], "data": [[], {"file": 5}], "examples": ["abc", [1], {}], "held_out": ["abc", ["abc"], [[1]], {}],
    "scores": [[], {"held-out BLEU": "99"}, {"held-out BLEU": 101}, {"BLEU": -1}, {"cases": 1.5}, {"cases": -1}],
    "by_length": [
        {}, [1], [{}], [{"least": 3, "most": 2, "cases": 1, "score": 5}], [{"least": 1, "most": 2, "cases": 1, "score": 500}],
    ],
    "start": ["gpt", {}, {"name": "gpt"}, {"name": "gpt", "weights": "x"}, {"name": 3, "weights": "0" * 64}],
    "runs": [{}, [1], [{}], [{"name": "a", "command": "b"}], [{"name": "a", "command": "b", "accuracy": [101]}],
             [{"name": 1, "command": "b", "accuracy": []}]],
    "curve": [{}, [1], [{}], [{"loss": 1}], [{"step": "1"}], [{"step": 1, "loss": "x"}], [{"step": 1, "loss": None}]],
    "surveys": [[], {"recovery": 1}, {"recovery": {}}, {"recovery": {"measured_on": "0" * 64, "seed": 0, "means": []}},
                {"recovery": {"measured_on": "0" * 64, "seed": 0, "means": {"first recovered": {"unit": "share"}}}},
                {"recovery": {"measured_on": 5, "seed": 0, "means": {}}}],
    "checksums": [[], {"config.json": "abc"}, {"config.json": None}, {"config.json": "A" * 64}],
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in RECORDS.items() for value in values]
)
def test_a_malformed_record_is_named(checkpoint, name, value):
    record = json.loads((checkpoint / "training.json").read_text())
    (checkpoint / "training.json").write_text(json.dumps(record | {name: value}))
    with pytest.raises(CheckpointError, match=f"training.json: {name} must be"):
        load_checkpoint(checkpoint)


@pytest.mark.parametrize(
    "text",
    ["1e400", "-1e400", "NaN", "Infinity", "1" + "0" * 400, '"\\ud800"', "[" * 12 + "]" * 12],
)
def test_no_entry_holds_values_that_cannot_be_shown(checkpoint, text):
    whole = (checkpoint / "training.json").read_text()
    for entry in (f'"remark": {text}', f'"remark": {{"deep": [{text}]}}'):
        (checkpoint / "training.json").write_text(whole.replace("{", f"{{{entry},", 1))
        with pytest.raises(CheckpointError, match=r"training.json: "):
            load_checkpoint(checkpoint)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "training.json"])
@pytest.mark.parametrize("depth", [500, 950, 970, 100_000])
def test_no_depth_of_nesting_raises_another_error(checkpoint, name, depth):
    whole = (checkpoint / name).read_text()
    for key in ("remark", "architecture", "model", "checksums"):
        deep = f'"{key}": {"[" * depth}{"]" * depth}'
        (checkpoint / name).write_text(f"{whole.rstrip()[:-1]}, {deep}}}")
        with pytest.raises(CheckpointError):
            load_checkpoint(checkpoint)


def test_a_record_may_be_nested_eight_deep():
    deep = {"remark": [[[[[[[3]]]]]]]}
    check_record(deep)
    with pytest.raises(ValueError, match="remark is nested too deeply"):
        check_record({"remark": [deep["remark"]]})


@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(name=st.sampled_from([*RECORDS, "remark"]), value=st.sampled_from(VALUES))
def test_a_record_is_taken_or_refused_with_a_value_error(name, value):
    with suppress(ValueError):
        check_record({name: value})


def test_any_flipped_bit_of_a_training_state_is_found(tmp_path):
    trainer = reversal_trainer(tmp_path, steps=2)
    list(trainer.train())
    whole = (tmp_path / "state.pt").read_bytes()
    for place in [*range(0, len(whole), len(whole) // 150), *range(len(whole) - 75, len(whole))]:
        flipped = bytearray(whole)
        flipped[place] ^= 1 << place % 8
        (tmp_path / "state.pt").write_bytes(flipped)
        with pytest.raises(
            CheckpointError, match=r"state.pt: not readable as a training state .damaged"
        ):
            trainer.resume()
    (tmp_path / "state.pt").write_bytes(whole)
    assert trainer.resume() == 2
