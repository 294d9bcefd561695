"""A Hugging Face folder on disk: tokenizer, shards, dtypes; and every way in which it can be unfit."""

import copy
import json
import os
import re
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import safetensors.torch
import tokenizers
import torch
import transformers
from hub_models import BY_NAME, library_tokenizer
from tokenizers import models as algorithms
from tokenizers import processors

import models
from models import CheckpointError, InputError, loading
from models.analysis.checks import check_site
from models.analysis.walk_checks import check_walk
from models.cli import main
from models.decoding import runs
from models.decoding.run_checks import check_runs
from models.hub import files
from models.hub import load as hub
from models.hub.describe import layers_and_heads
from models.hub.recording import watch as watch
from models.hub.recording.masks import explain_mask
from models.hub.tokenizer import OPENING, HubTokenizer
from models.tokenizers.base import Tokenizer
from models.trace import AttentionSite
from models.trace.lazy import LazyLinear
from viz_app.drawing.notes import answer_line, first_output, read_text
from viz_app.drawing.payload import unpack
from viz_app.session.cache.opened import opened_as
from viz_app.session.current_run import CurrentRun
from viz_app.session.focus import Focus
from viz_app.views.masks.outcome_text import nothing_hidden
from viz_app.views.task.presentations import explain_masked, task_payloads
from viz_app.views.task.reading import TaskChoices


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folders = {}
    for name in ("GPT2LMHeadModel", "BertModel"):
        folders[name] = tmp_path_factory.mktemp("hub") / name
        BY_NAME[name].save(folders[name])
    return folders


@pytest.fixture
def folder(made: dict[str, Path], tmp_path: Path) -> Path:
    """A copy of a GPT-2 folder without a tokenizer, to be damaged at will."""
    return Path(shutil.copytree(made["GPT2LMHeadModel"], tmp_path / "gpt2"))


def rewrite(folder: Path, **entries: object) -> None:
    config = json.loads((folder / "config.json").read_text()) | entries
    (folder / "config.json").write_text(
        json.dumps({k: v for k, v in config.items() if v is not None})
    )


def refused(folder: Path, sentence: str) -> None:
    with pytest.raises(CheckpointError, match=sentence) as error:
        models.load(folder, device="cpu")
    assert str(folder) in str(error.value)
    assert len(str(error.value).splitlines()) == 1


def test_weights_that_are_missing_or_cut_off(folder: Path) -> None:
    weights = folder / "model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[: len(whole) // 2])
    refused(
        folder,
        rf"model\.safetensors was cut off: {len(whole) // 2:,} bytes of the {len(whole):,} that its header",
    )
    weights.write_bytes(whole[:5])
    refused(folder, r"not a safetensors file, or was cut off")
    weights.unlink()
    refused(folder, "its weights are missing: neither")
    (folder / files.SHARD_INDEX).write_text(
        json.dumps({"weight_map": {"a": "model-00001-of-00002.safetensors"}})
    )
    refused(folder, r"weight files are missing, such as model-00001")
    (folder / files.SHARD_INDEX).write_text(
        json.dumps({"weight_map": {"a": "../elsewhere.safetensors"}})
    )
    refused(folder, "names no shards")


def test_a_missing_parameter_is_not_initialised_at_random(folder: Path) -> None:
    weights = safetensors.torch.load_file(folder / "model.safetensors")
    name = next(name for name in weights if "c_attn.weight" in name)
    safetensors.torch.save_file(
        {k: v for k, v in weights.items() if k != name},
        folder / "model.safetensors",
        {"format": "pt"},
    )
    refused(
        folder,
        r"1 parameter is missing from its weights, such as transformer\.h\.0\.attn\.c_attn\.weight; they are not replaced",
    )


def test_weights_that_are_not_finite_are_refused(folder: Path) -> None:
    weights = safetensors.torch.load_file(folder / "model.safetensors")
    next(value for name, value in weights.items() if "ln_f" in name)[3] = torch.nan
    safetensors.torch.save_file(weights, folder / "model.safetensors", {"format": "pt"})
    refused(folder, r"transformer\.ln_f\.\w+ holds values that are not finite")


def test_unknown_kinds_are_refused(folder: Path) -> None:
    rewrite(folder, model_type="elsewhere")
    refused(folder, "'elsewhere' is not a kind of model that this version of transformers knows")
    rewrite(folder, auto_map={"AutoModel": "modeling.Elsewhere"})
    refused(
        folder,
        r"'elsewhere' needs its own code \(trust_remote_code\), which Attnscope does not run",
    )
    rewrite(folder, model_type="gpt2", architectures=["GPT2DoubleHeadsModel"])
    refused(folder, "GPT2DoubleHeadsModel cannot be opened")
    rewrite(folder, architectures=None)
    refused(folder, "names no architectures")
    (folder / "config.json").write_text("{")
    with pytest.raises(CheckpointError):
        models.load(folder, device="cpu")


def test_a_model_larger_than_the_memory_is_refused_beforehand(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "free_memory", lambda device: 2**20 // 64)
    monkeypatch.setattr(hub, "open_module", lambda *_: pytest.fail("it was built"))
    refused(folder, r"its weights take 0\.0 GB, and 0\.0 GB of memory are free on cpu")
    weights = folder / "model.safetensors"
    sizes = [files._bytes_in_memory(weights, dtype) for dtype in (None, torch.float16)]
    assert (
        sizes[0]
        == 2 * sizes[1]
        == sum(p.numel() * 4 for p in safetensors.torch.load_file(weights).values())
    )


def test_without_transformers_one_sentence_says_what_to_install(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "transformers", None)
    with pytest.raises(CheckpointError, match=r'pip install "attnscope\[hub\]"'):
        models.load(folder, device="cpu")


def test_the_same_weights_under_another_setting_are_another_model(
    folder: Path, tmp_path: Path
) -> None:
    """Pages cache runs by this: a run of the one would be shown for the other."""
    first, copied = models.load(folder), Path(shutil.copytree(folder, tmp_path / "copied"))
    assert models.load(copied).fingerprint == first.fingerprint
    rewrite(copied, activation_function="relu")
    changed = models.load(copied)
    assert changed.weights_digest == first.weights_digest
    ours, theirs = (one.run("3 5 7").outputs["next token"].logits for one in (changed, first))
    assert not torch.equal(ours, theirs)
    assert changed.fingerprint != first.fingerprint


def test_the_same_tokens_with_another_special_one_are_another_tokenizer(folder: Path) -> None:
    library_tokenizer(folder, 53)
    read = hub.library_tokenizer(folder)
    usual = HubTokenizer(read, {"mask": 5}, 53).to_json()
    assert HubTokenizer(read, {"mask": 5}, 53).to_json() == usual
    assert HubTokenizer(read, {"mask": 7}, 53).to_json() != usual


@pytest.mark.parametrize(
    "changed", ["model.safetensors", "model-00002-of-00002.safetensors", "generation_config.json"]
)
def test_any_file_that_changes_is_noticed(folder: Path, changed: str) -> None:
    (folder / changed).touch()
    before = opened_as(str(folder))
    assert opened_as(str(folder)) == before
    (folder / "train.log").write_text("a line more")
    assert opened_as(str(folder)) == before
    os.utime(folder / changed, ns=(5, 7))
    assert opened_as(str(folder)) != before


def test_ids_are_typed_where_there_is_no_tokenizer(folder: Path) -> None:
    scope = models.load(folder, device="cpu")
    trace = scope.run("7, 11 13")
    assert trace.streams["text"].ids == (7, 11, 13)
    assert trace.streams["text"].offsets == ((0, 1), (3, 5), (6, 8))
    with pytest.raises(
        InputError, match="came without a tokenizer: type token ids from 0 to 52, not 'hello'"
    ):
        scope.run("hello")
    for word in ("53", "00000000053"):
        with pytest.raises(InputError, match=f"not '{word}'"):
            scope.run(word)
    with pytest.raises(InputError, match="the text has 62 tokens; this model reads at most 61"):
        scope.run(" ".join(["7"] * 62))
    with pytest.raises(
        InputError, match="the text has 79,999 characters; this model reads at most 61 tokens"
    ):
        scope.run(" ".join(["7"] * 40_000))


def test_a_tokenizer_that_does_not_fit_the_embedding(folder: Path) -> None:
    library = library_tokenizer(folder, 71)
    refused(
        folder, rf"its tokenizer has {len(library)} tokens, but the model's embedding has 53 rows"
    )


def test_texts_are_tokenised_and_framed_as_by_the_library(tmp_path: Path) -> None:
    folder, case = tmp_path / "bert", BY_NAME["BertForMaskedLM"]
    folder.mkdir()
    library = library_tokenizer(folder, 53)
    replace(case, sizes=case.sizes | {"vocab_size": len(library) + 3}).save(folder)
    scope = models.load(folder, device="cpu")
    for texts in (("The dog was hungry.",), ("The dog was [MASK].", "She had a [MASK] book")):
        row, wanted = scope.encode(*texts)["text"], library.backend_tokenizer.encode(*texts)
        assert list(row.ids) == wanted.ids
        assert list(row.segments) == wanted.type_ids
    own = scope.encode("The dog was [MASK].")["text"]
    assert [own.text[o[0] : o[1]] for o in own.offsets[1:-1]][-2:] == ["[MASK]", "."]
    trace = scope.run("The dog was [MASK].")
    with torch.no_grad():
        logits = scope.model.module(torch.tensor([trace.streams["text"].ids])).logits[0]
    place = trace.outputs["masked token"].positions[0]
    assert trace.outputs["masked token"].logits[0].equal(logits[place])
    assert trace.streams["text"].tokens[place] == "[MASK]"


def roberta(folder: Path) -> Any:
    """Save a masked language model whose mask is <mask>, and return its tokenizer."""
    size = len(library_tokenizer(folder, 89))
    case = BY_NAME["RobertaForMaskedLM"]
    replace(case, sizes=case.sizes | {"vocab_size": size}).save(folder)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        file = folder / name
        file.write_text(file.read_text("utf-8").replace("[MASK]", "<mask>"), "utf-8")
    return transformers.AutoTokenizer.from_pretrained(folder)


@pytest.mark.slow
@pytest.mark.parametrize("typed", ["<mask>", "[MASK]"])
def test_a_mask_token_with_another_spelling_is_typed_either_way_and_shown_as_it_is(
    typed: str, tmp_path: Path
) -> None:
    library, scope = roberta(tmp_path), models.load(tmp_path, device="cpu")
    text = f"{typed} little dog was very {typed}. {typed}"
    run = CurrentRun(scope, scope.run(text, "She is."))
    row = run.trace.streams["text"]
    assert list(row.ids) == library(text.replace(typed, "<mask>"), "She is.")["input_ids"]
    spans = [row.text[slice(*place)] for place in row.offsets if place is not None]
    assert spans.count(typed) == 3
    assert [one.replace(typed, "") for one in spans if typed in one] == [""] * 3
    assert "".join(spans) == f"{text}She is.".replace(" ", "")
    header, _ = unpack(task_payloads(run, TaskChoices(None, Focus()))["guesses"])
    assert header["mask"] == "<mask>"
    assert header["note"] == "3 masked tokens, typed above."
    assert {mask["fact"].split(",")[0] for mask in header["masks"]} == {"You typed this mask"}
    assert header["masks"][0]["title"] == "1 of 3: prediction for <mask>"
    assert answer_line(run.trace)[0] == "best guess for <mask>"
    hidden = scope.run("A dog.", None, (2,))
    assert hidden.streams["text"].tokens[2] == "<mask>"
    assert read_text(hidden).startswith("A <mask>")
    plain = CurrentRun(scope, scope.run("A dog."))
    header, _ = unpack(task_payloads(plain, TaskChoices(None, Focus()))["guesses"])
    assert header["note"].endswith("or type <mask> in the text above.")
    assert answer_line(plain.trace)[1] == "type <mask> to hide one"
    explained = explain_masked(plain.trace, first_output(plain.trace), "")
    assert explained.startswith("**<mask>** hides a token")
    assert "**The token that answers** is <mask> itself." in explained


def test_without_a_known_mask_nothing_is_said_to_be_hidden_by_one(tmp_path: Path) -> None:
    BY_NAME["RobertaForMaskedLM"].save(tmp_path)
    scope = models.load(tmp_path, device="cpu")
    run = CurrentRun(scope, scope.run("5 6 7"))
    header, _ = unpack(task_payloads(run, TaskChoices(None, Focus()))["guesses"])
    assert set(header["states"]) == {"fixed"}
    said = [header["title"], header["note"], *answer_line(run.trace), nothing_hidden("")]
    assert not [line for line in said if "Click" in line or "ype" in line or "MASK" in line]
    explained = explain_masked(run.trace, first_output(run.trace), "")
    assert explained.startswith("**A mask** hides a token")
    assert "**The token that answers** is the mask itself." in explained


def test_a_special_token_typed_beside_a_mask_is_plain_text(tmp_path: Path) -> None:
    library = library_tokenizer(tmp_path, 53)
    tokenizer = HubTokenizer(library, {"pad": library.pad_token_id}, len(library))
    plain = {"add_special_tokens": False, "split_special_tokens": True}
    parts = [library(part, **plain)["input_ids"] for part in ("the", "[SEP] dog [CLS]")]
    row = tokenizer.encode("the [MASK] [SEP] dog [CLS]")
    assert list(row.ids) == [*parts[0], library.mask_token_id, *parts[1]]
    assert not {library.sep_token_id, library.cls_token_id} & set(row.ids)
    assert [row.text[slice(*o)] for o in row.offsets if o is not None][-2:] == ["S", "]"]


def of_library(backend: tokenizers.Tokenizer) -> HubTokenizer:
    library = transformers.PreTrainedTokenizerFast(tokenizer_object=backend)
    return HubTokenizer(library, {"pad": len(library)}, len(library))


def test_a_token_added_to_a_vocabulary_of_bytes_is_shown_as_its_text() -> None:
    """Its letters have codes below 256, which could stand for bytes."""
    backend = Tokenizer.byte_level(["a dog"] * 2, 270).backend
    backend.add_tokens(["über"])
    assert of_library(backend).encode("a über Ü").tokens == (
        "a",
        "▁",
        "über",
        "▁",
        "<0xC3>",
        "<0x9C>",
    )


def test_a_tokenizer_without_letters_opens() -> None:
    """It drops what its vocabulary lacks."""
    vocabulary = {token: i for i, token in enumerate(["<s>", *"0123456789+="])}
    backend = tokenizers.Tokenizer(algorithms.BPE(vocabulary, []))
    backend.post_processor = processors.TemplateProcessing("<s> $A", None, [("<s>", 0)])
    row = of_library(backend).encode("1+a2", before=OPENING)
    assert row.tokens == ("<s>", "1", "+", "2")
    with pytest.raises(CheckpointError, match="drops every text"):
        of_library(tokenizers.Tokenizer(algorithms.BPE()))


def test_half_precision_runs_unchanged_and_is_shown_in_float32(folder: Path) -> None:
    scope = models.load(folder, device="cpu", dtype="bfloat16")
    trace = scope.run("7 11 13 17 19")
    site = next(iter(trace.attention.values()))
    assert scope.model.module.dtype == site.dtype == torch.bfloat16
    assert site.q.dtype == site.weights().dtype == trace.next_token.logits.dtype == torch.float32
    assert site.q.equal(site.q.bfloat16().float())  # the inputs of the kernel
    assert all(check.passed for check in check_site(site))
    with pytest.raises(
        CheckpointError, match="dtype must be float32, float16 or bfloat16, not 'int8'"
    ):
        models.load(folder, device="cpu", dtype="int8")


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_the_command_line_sets_the_dtype_of_a_model(
    folder: Path, capsys: pytest.CaptureFixture[str], dtype: str
) -> None:
    assert main(["inspect", str(folder), "--dtype", dtype]) == 0
    assert re.search(rf"^  dtype +{dtype}$", capsys.readouterr().out, re.MULTILINE)
    assert main(["decode", str(folder), "7 11 13", "--device", "cpu", "--dtype", dtype]) == 0
    written = models.load(folder, device="cpu", dtype=dtype).write("7 11 13").text
    assert capsys.readouterr().out.strip() == written


@pytest.mark.slow(except_one_in=3)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize(
    "name", ["GPT2LMHeadModel", "T5ForConditionalGeneration", "LlamaForCausalLM"]
)
def test_half_precision_is_shown_from_float32_arithmetic(
    tmp_path: Path, name: str, dtype: str
) -> None:
    """This covers each step of generation and of a head's walk; T5 adds a table to its scores, Llama shares key heads."""
    BY_NAME[name].save(tmp_path / name)
    scope = models.load(tmp_path / name, device="cpu", dtype=dtype)
    trace = scope.run("7 11 13 17 19 23")
    given = scope.input_ids("7 11 13 17 19 23")
    serial = runs.autoregressive(scope.model, given, runs.Method(max_new=5)).run
    uncached = runs.uncached_run(scope.model, given, serial.taken)
    assert serial.dtype == uncached.dtype == getattr(torch, dtype)
    for run in (serial, uncached):
        assert {row.dtype for rows in run.rows.values() for row in rows} == {torch.float32}
    parallel = runs.of_trace(trace, 0)
    for check in (
        *check_runs(uncached, serial, uncached),
        *check_runs(parallel, parallel, parallel),
    ):
        assert check.passed, check
    site = next(iter(trace.attention.values()))
    if site.projections:
        for check in check_walk(trace, site, 3, 1):
            assert check.passed, check


def test_a_wrong_number_fails_the_checks_of_half_precision(folder: Path) -> None:
    trace = models.load(folder, device="cpu", dtype="bfloat16").run("7 11 13 17 19")
    site = next(iter(trace.attention.values()))
    wrong = replace(site, lazy_v=site.v.flip(-1))
    failed = [
        check.name
        for check in check_walk(replace(trace, attention={site.name: wrong}), wrong, 3, 1)
        if not check.passed
    ]
    assert failed == ["projections give q, k and v", "the heads add up", "b is what the model used"]


def test_a_model_stored_in_bfloat16_runs_in_bfloat16(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    models.load(folder, device="cpu").model.module.bfloat16().save_pretrained(folder)
    scope = models.load(folder, device="cpu")
    assert scope.model.module.dtype == torch.bfloat16
    assert scope.run("7 11 13").next_token.logits.dtype == torch.float32
    assert main(["inspect", str(folder)]) == 0
    assert re.search(r"^  dtype +bfloat16$", capsys.readouterr().out, re.MULTILINE)


def test_no_dtype_can_be_chosen_for_a_model_of_ours(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["decode", "dates", "3 May 1999", "--device", "cpu", "--dtype", "bfloat16"]) == 1
    assert (
        capsys.readouterr().err
        == "attnscope: --dtype applies to Hugging Face models only; dates runs in float32\n"
    )
    assert main(["decode", "dates", "3 May 1999", "--device", "cpu", "--dtype", "float32"]) == 0
    assert capsys.readouterr().out == "1999-05-03\n"


def test_shards_open_as_one(made: dict[str, Path], tmp_path: Path) -> None:
    scope = models.load(made["GPT2LMHeadModel"], device="cpu")
    scope.model.module.save_pretrained(tmp_path / "sharded", max_shard_size="20KB")
    assert len(list((tmp_path / "sharded").glob("*.safetensors"))) > 1
    again = models.load(tmp_path / "sharded", device="cpu")
    assert again.weights_digest == scope.weights_digest


def test_a_folder_reports_its_progress_and_loading_can_be_stopped(
    made: dict[str, Path],
) -> None:
    told: list[tuple[str, int, int]] = []
    with loading.report_loading(lambda *reached: told.append(reached)):
        scope = models.load(made["BertModel"], device="cpu")
    tensors = len(scope.model.state_dict())
    parts = {
        what: [(done, total) for said, done, total in told if said == what] for what, *_ in told
    }
    assert list(parts) == [loading.TRIED, loading.PLACED, loading.CHECKED, loading.HASHED]
    tried = set(parts.pop(loading.TRIED))  # reported repeatedly while it waits, if it has to
    assert (1, 1) in tried <= {(0, 1), (1, 1)}
    for each in parts.values():
        n = each[-1][1]
        assert each == [(i, n) for i in range(n + 1)]
    assert len(parts[loading.HASHED]) == tensors + 1
    assert (
        len(parts[loading.PLACED])
        == len(safetensors.torch.load_file(made["BertModel"] / "model.safetensors")) + 1
    )

    def stop(what: str, done: int, total: int) -> None:
        if done == 5:
            raise loading.Cancelled("enough")

    with loading.report_loading(stop), pytest.raises(loading.Cancelled, match="^enough$"):
        models.load(made["BertModel"], device="cpu")
    assert (
        models.load(made["BertModel"], device="cpu").weights_digest == scope.weights_digest
    )  # without anyone watching


def test_threads_never_see_each_others_tensors(made: dict[str, Path]) -> None:
    """32 threads use two models: each run's q equals that of the same text alone."""
    scopes = [models.load(made[name], device="cpu") for name in ("GPT2LMHeadModel", "BertModel")]
    texts = [" ".join(str(3 + (i * j) % 47) for j in range(1, 4 + i % 5)) for i in range(32)]
    alone = [scopes[i % 2].run(text) for i, text in enumerate(texts)]
    barrier = threading.Barrier(32)

    def work(i: int) -> models.Trace:
        barrier.wait()
        return scopes[i % 2].run(texts[i])

    with ThreadPoolExecutor(32) as pool:
        together = list(pool.map(work, range(32)))
    for one, other in zip(alone, together, strict=True):
        assert list(one.attention) == list(other.attention)
        assert list(one.activations) == list(other.activations)
        for name, site in one.attention.items():
            assert site.q.equal(other.attention[name].q)
            assert site.out.equal(other.attention[name].out)


def test_a_long_texts_q_k_and_v_are_kept_by_their_cause(made: dict[str, Path]) -> None:
    """One vector per token and three products are kept, not three tensors; they give what the kernel received."""
    scope = models.load(made["BertModel"], device="cpu")
    ids, given = torch.full((1, 3001), 7), []
    module = scope.model.module.encoder.layer[0].attention.self
    with (
        torch.no_grad(),
        models.record() as recording,
        watch.watching(scope.model.pass_context(ids)),
    ):
        given.append(module(torch.randn(1, 3001, 22)))
    site = recording.attention["encoder.layer.0.attention.self"]
    kept = [site.lazy_q, site.lazy_k, site.lazy_v]
    assert all(isinstance(part, LazyLinear) for part in kept)
    assert len({part.x.untyped_storage().data_ptr() for part in kept}) == 1
    row = slice(2990, 3001)
    assert (site.head_out(1, rows=row) - given[0][0][0, row, 11:]).abs().max() < 1e-5


def test_padding_of_a_batch_is_a_separate_mask_layer(made: dict[str, Path]) -> None:
    scope = models.load(made["GPT2LMHeadModel"], device="cpu")
    short, long = scope.run_batch([["7 11 13"], ["5 6 7 8 9"]])
    site = next(iter(short.attention.values()))
    assert [layer.name for layer in site.mask.layers] == ["padding", "look-ahead"]
    assert site.blocked_by(4, 3) == ["padding"]
    assert site.blocked_by(0, 1) == ["look-ahead"]
    assert site.blocked_by(0, 4) == ["padding", "look-ahead"]
    assert next(iter(long.attention.values())).blocked_by(4, 3) == []
    assert (
        site.weights()[:, :3, :3] - next(iter(scope.run("7 11 13").attention.values())).weights()
    ).abs().max() < 1e-6


def test_inspect_says_what_can_be_shown(
    made: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["inspect", str(made["GPT2LMHeadModel"])]) == 0
    printed = capsys.readouterr().out
    for line in (
        "GPT2LMHeadModel, ",
        "transformer.wte.weight",
        "53 × 22",
        "IdTokenizer: 53 tokens",
        "from the tokens through W_Q, W_K, W_V and W_O",
        "output: the next token",
        "masks can be painted",
        "position vectors",
    ):
        assert line in printed
    assert main(["decode", str(made["BertModel"]), "5 6 7"]) == 0
    assert capsys.readouterr().out.strip() == "3 × 22 numbers"


def test_layers_and_heads_are_counted_kind_by_kind() -> None:
    sites = [Mock(spec=AttentionSite, stack=stack, role=role, n_heads=n) for stack, role, n in (
        ("encoder", "self", 5), ("decoder", "self", 1), ("decoder", "cross", 1), ("decoder", "self", 1),
    )]  # fmt: skip
    assert layers_and_heads(sites) == (
        "1 layer × 5 heads of encoder self-attention, 2 layers × 1 head of decoder self-attention, "
        "1 layer × 1 head of decoder cross-attention"
    )


# The layers of a mask


def test_the_layers_of_a_mask_are_those_it_consists_of() -> None:
    """Each layer is compared with cells written out by hand, 1 = may attend."""
    causal = torch.tensor([[1, 0, 0], [1, 1, 0], [1, 1, 1]], dtype=torch.bool)
    window = torch.tensor([[1, 1, 0], [1, 1, 1], [0, 1, 1]], dtype=torch.bool)
    real = torch.tensor([[True, True, False]])
    cases = [
        (causal, None, {"look-ahead": causal}),
        (window, None, {"window of 1": window}),
        (causal & window, None, {"look-ahead": causal, "window of 1": window}),
        (causal & real, real, {"padding": real.expand(3, 3), "look-ahead": causal}),
        (
            torch.eye(3, dtype=torch.bool).flip(0),
            None,
            {"the model's own mask": torch.eye(3, dtype=torch.bool).flip(0)},
        ),
        (torch.ones(3, 3, dtype=torch.bool), None, {}),
    ]
    for allowed, padding, layers in cases:
        for given in (
            allowed[None, None],
            torch.zeros(3, 3).masked_fill(~allowed, torch.finfo(torch.float32).min),
        ):
            found = explain_mask(given, False, 3, 3, padding, torch.device("cpu"))
            assert {
                layer.name: layer.allowed.expand(1, 1, 3, 3)[0, 0].tolist()
                for layer in found.mask.layers
            } == {name: cells.tolist() for name, cells in layers.items()}
            assert found.terms == ()


def test_a_bias_is_kept_as_a_table_by_distance_if_it_is_one() -> None:
    distance = torch.arange(5)[None] - torch.arange(5)[:, None]
    table = torch.randn(3, 9)
    toeplitz, other = table[:, distance + 4][None], torch.randn(1, 3, 5, 5)
    for given, kind in ((toeplitz, "DistanceTerm"), (other, "BiasTerm")):
        (term,) = explain_mask(given, False, 5, 5, None, torch.device("cpu")).terms
        assert type(term).__name__ == kind
        assert term.scores(None, torch.arange(1, 4), 5).equal(given[0, :, 1:4])
        assert term.scores(2, torch.arange(5), 5).equal(given[0, 2])


def test_an_eager_copy_leaves_the_model_as_it_is(made: dict[str, Path]) -> None:
    scope = models.load(made["BertModel"], device="cpu")
    config = copy.deepcopy(scope.model.module.config)
    scope.run("5 6 7")
    assert scope.model.module.config.to_dict() == config.to_dict()
