"""Tokenizers of transformers that are written in Python, against themselves: ids, tokens, special tokens around texts and decoded
text; the span of each token in its text is found by hand."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import torch
import transformers
from hub_models import _SEQ, _WIDE, BY_NAME, TEXT, Case

import models
from models import CheckpointError, Scope
from models.hub.python_tokenizer import PythonTokenizer, align_tokens
from viz_app.drawing.notes import first_output

SIZE = 400  # rows of each embedding
TYPED = "She is reading a book."
LETTERS = sorted({*TEXT.lower(), *TEXT, *"abcdefghijklmnopqrstuvwxyz"} - {" "})


def _spm(folder: Path, name: str) -> None:
    (folder / "texts").write_text(f"{TEXT}\n" * 50, "utf-8")
    sentencepiece.SentencePieceTrainer.train(
        input=str(folder / "texts"),
        model_prefix=str(folder / name),
        vocab_size=60,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    (folder / f"{name}.model").rename(folder / f"{name}.spm")
    (folder / f"{name}.vocab").unlink()
    (folder / "texts").unlink()


def marian(folder: Path) -> Any:
    for name in ("source", "target"):
        _spm(folder, name)
    model = sentencepiece.SentencePieceProcessor(model_file=str(folder / "source.spm"))
    pieces = [model.id_to_piece(i) for i in range(model.get_piece_size())]
    named = ["</s>", "<unk>", *[p for p in pieces if not p.startswith("<")], "<pad>"]
    (folder / "vocab.json").write_text(json.dumps({p: i for i, p in enumerate(named)}), "utf-8")
    files = [str(folder / name) for name in ("source.spm", "target.spm", "vocab.json")]
    return transformers.MarianTokenizer(*files)


def _bpe(folder: Path, end: str) -> tuple[str, str]:
    """Save a vocabulary of letters, each also at the end of a word, and two merges."""
    pieces = [*LETTERS, *(f"{letter}{end}" for letter in LETTERS), "th", f"the{end}"]
    special = ["<unk>", "<s>", "</s>", "<pad>", "<special0>", "<special1>", "<special2>"]
    vocabulary = {piece: i for i, piece in enumerate([*special, *pieces])}
    (folder / "v.json").write_text(json.dumps(vocabulary), "utf-8")
    (folder / "m.txt").write_text(f"#version: 0.2\nt h 9\nth e{end} 8\n", "utf-8")
    return str(folder / "v.json"), str(folder / "m.txt")


def xlm(folder: Path) -> Any:
    return transformers.XLMTokenizer(*_bpe(folder, "</w>"), do_lowercase_and_remove_accent=True)


def ctrl(folder: Path) -> Any:
    vocabulary = {t: i for i, t in enumerate(["<unk>", *LETTERS, *(f"{c}@@" for c in LETTERS)])}
    (folder / "v.json").write_text(json.dumps(vocabulary), "utf-8")
    (folder / "m.txt").write_text("#version: 0.2\n", "utf-8")
    return transformers.CTRLTokenizer(str(folder / "v.json"), str(folder / "m.txt"))


def prophetnet(folder: Path) -> Any:
    words = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]", "[X_SEP]", "she", "is", "read", "##ing"]
    (folder / "v.txt").write_text("\n".join([*words, "a", "book", "."]), "utf-8")
    return transformers.ProphetNetTokenizer(str(folder / "v.txt"))


def bertweet(folder: Path) -> Any:
    pieces = [*LETTERS, *(f"{letter}@@" for letter in LETTERS)]
    (folder / "v.txt").write_text("\n".join(f"{piece} 9" for piece in pieces), "utf-8")
    (folder / "m.txt").write_text("r e 9\n", "utf-8")
    return transformers.BertweetTokenizer(str(folder / "v.txt"), str(folder / "m.txt"))


def byt5(folder: Path) -> Any:
    return transformers.ByT5Tokenizer()


MAKERS: dict[str, Callable[[Path], Any]] = {
    "marian": marian, "xlm": xlm, "ctrl": ctrl, "prophetnet": prophetnet, "bertweet": bertweet, "byt5": byt5,
}  # fmt: skip
_NO_END = {"eos_token_id": None, "bos_token_id": None}  # the ids of _SPECIAL are other tokens here
MODELS = {
    "marian": Case("MarianMTModel", "MarianConfig", _SEQ | {"vocab_size": SIZE} | _NO_END),
    "byt5": Case(
        "T5ForConditionalGeneration",
        "T5Config",
        BY_NAME["T5ForConditionalGeneration"].sizes | {"vocab_size": SIZE},
    ),
}
OTHER = Case("BertForMaskedLM", "BertConfig", _WIDE | {"vocab_size": SIZE} | _NO_END)


class Opened(dict[str, tuple[Scope, Any]]):
    """Each model with its tokenizer and the library's own, saved and opened on first use."""

    def __init__(self, factory: pytest.TempPathFactory) -> None:
        super().__init__()
        self.factory = factory

    def __missing__(self, name: str) -> tuple[Scope, Any]:
        raw, folder = (self.factory.mktemp(name) for _ in range(2))
        MAKERS[name](raw).save_pretrained(folder)
        MODELS.get(name, OTHER).save(folder)
        library = transformers.AutoTokenizer.from_pretrained(folder)
        self[name] = models.load(folder, device="cpu"), library
        return self[name]


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Opened:
    return Opened(tmp_path_factory)


@pytest.mark.parametrize("name", list(MAKERS))
def test_ids_tokens_and_special_tokens_are_the_librarys(opened: Opened, name: str) -> None:
    scope, library = opened[name]
    assert isinstance(scope.tokenizer, PythonTokenizer)
    assert not library.is_fast
    row = scope.encode(TYPED)[scope.model.fields[0].stream]
    assert list(row.ids) == library(TYPED)["input_ids"]
    inside = [token for token, offset in zip(row.tokens, row.offsets, strict=True) if offset]
    assert inside == library.tokenize(TYPED)
    assert scope.tokenizer.decode(row.ids) == library.decode(row.ids, skip_special_tokens=True)
    if len(scope.model.text_fields) > 1 and scope.model.text_fields[1].segment == 1:
        both = scope.encode(TYPED, "a book")["text"]
        assert list(both.ids) == library(TYPED, "a book")["input_ids"]


@pytest.mark.parametrize("name", list(MAKERS))
def test_the_span_of_each_token_holds_its_letters(opened: Opened, name: str) -> None:
    scope, _ = opened[name]
    row = scope.encode(TYPED)[scope.model.fields[0].stream]
    spans = [offset for offset in row.offsets if offset is not None]
    assert "".join(TYPED[start:end] for start, end in spans).replace(" ", "") == TYPED.replace(
        " ", ""
    )
    assert spans == sorted(spans)


def test_a_target_of_marian_is_read_by_its_own_pieces(
    opened: Opened,
) -> None:
    scope, library = opened["marian"]
    target = scope.run(TYPED, "a book").streams["target"]
    wanted = library(text_target="a book", add_special_tokens=False)["input_ids"]
    assert target.ids == (scope.config.start_id, *wanted)


@pytest.mark.parametrize(
    ("text", "tokens", "spans"),
    [
        ("The dog", ["▁The", "▁d", "og"], [(0, 3), (4, 5), (5, 7)]),
        ("Été, là", ["ete</w>", ",</w>", "la</w>"], [(0, 3), (3, 4), (5, 7)]),
        ("a 日本 b", ["a", "<unk>", "b"], [(0, 1), (2, 4), (5, 6)]),
        ("a 日本", ["a", "<unk>", "<unk>"], [(0, 1), (2, 4), (4, 4)]),
        ("é!", ["Ã", "©", "!"], [(0, 1), (0, 1), (1, 2)]),
        ("it's", ["it", "&apos;s</w>"], [(0, 2), (2, 4)]),
        ("read@@ing", ["read", "@@", "ing"], [(0, 4), (4, 6), (6, 9)]),
        ("e\u0301a", ["e", "a"], [(0, 2), (2, 3)]),
        ("", [], []),
    ],
)
def test_alignment(text: str, tokens: list[str], spans: list[tuple[int, int]]) -> None:
    assert align_tokens(text, tokens) == spans


def slow(folder: Path) -> Any:
    """Save a CTRL tokenizer with 2,000 merges, all of which a word of one repeated letter applies one after another."""
    ends = [".</w>", *(f"{'a' * n}.</w>" for n in range(1, 2001))]
    pieces = ["<unk>", *LETTERS, *(f"{c}@@" for c in LETTERS), *(end[:-4] for end in ends)]
    vocabulary = {piece: i for i, piece in enumerate(dict.fromkeys(pieces))}
    (folder / "v.json").write_text(json.dumps(vocabulary), "utf-8")
    merges = "".join(f"a {end}\n" for end in ends[:-1])
    (folder / "m.txt").write_text(f"#version: 0.2\n{merges}", "utf-8")
    return transformers.CTRLTokenizer(str(folder / "v.json"), str(folder / "m.txt"))


def test_a_tokenizer_with_quadratic_time_is_refused(tmp_path: Path) -> None:
    raw, folder = tmp_path / "raw", tmp_path / "model"
    raw.mkdir()
    slow(raw).save_pretrained(folder)
    sizes = _WIDE | {"vocab_size": 2100} | _NO_END
    Case("BertForMaskedLM", "BertConfig", sizes).save(folder)
    sentence = "its tokenizer takes .* s for 4,096 characters, 'a{20}', more than 0.25 s"
    with pytest.raises(CheckpointError, match=sentence):
        models.load(folder, device="cpu")


def test_a_special_token_typed_in_a_text_is_plain_text(
    opened: Opened,
) -> None:
    scope, library = opened["marian"]
    ids = scope.encode("a </s> b")["source"].ids
    assert library.eos_token_id not in ids[:-1]
    assert ids[-1] == library.eos_token_id


# --- a source and a target with separate vocabularies

SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]
PIECES = [*LETTERS, *(f"{letter}</w>" for letter in LETTERS), "the</w>"]
TARGET_PIECES = [*reversed(PIECES), "<one>", "<more>"]


def fsmt(folder: Path) -> tuple[Any, Case]:
    for name, pieces in (("source", PIECES), ("target", TARGET_PIECES)):
        vocabulary = {piece: i for i, piece in enumerate([*SPECIAL, *pieces])}
        (folder / name).write_text(json.dumps(vocabulary), "utf-8")
    (folder / "merges").write_text("t h 9\nth e</w> 8\n", "utf-8")
    files = [str(folder / name) for name in ("source", "target", "merges")]
    sizes = {name: size for name, size in _SEQ.items() if name != "vocab_size"} | {
        "src_vocab_size": 4 + len(PIECES), "tgt_vocab_size": 4 + len(TARGET_PIECES), "langs": ["en", "ru"],
        "bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2,
    }  # fmt: skip
    case = Case("FSMTForConditionalGeneration", "FSMTConfig", sizes)
    return transformers.FSMTTokenizer(["en", "ru"], *files), case


def separate_marian(folder: Path) -> tuple[Any, Case]:
    marian(folder)
    source = json.loads((folder / "vocab.json").read_text("utf-8"))
    inside = [piece for piece in source if piece not in ("</s>", "<unk>", "<pad>")]
    target = ["</s>", "<unk>", *reversed(inside), "<one>", "<more>", "<pad>"]
    (folder / "target_vocab.json").write_text(
        json.dumps({piece: i for i, piece in enumerate(target)}), "utf-8"
    )
    names = ("source.spm", "target.spm", "vocab.json", "target_vocab.json")
    sizes = _SEQ | _NO_END | {
        "vocab_size": len(source), "decoder_vocab_size": len(target), "share_encoder_decoder_embeddings": False,
        "tie_word_embeddings": False, "pad_token_id": source["<pad>"], "decoder_start_token_id": len(target) - 1,
    }  # fmt: skip
    files = [str(folder / name) for name in names]
    tokenizer = transformers.MarianTokenizer(*files, separate_vocabs=True)
    return tokenizer, Case("MarianMTModel", "MarianConfig", sizes)


@pytest.mark.parametrize(
    ("make", "files"),
    [(fsmt, ("source", "target")), (separate_marian, ("vocab.json", "target_vocab.json"))],
)
@torch.no_grad()
def test_a_target_uses_its_own_vocabulary(
    tmp_path: Path, make: Callable[[Path], tuple[Any, Case]], files: tuple[str, str]
) -> None:
    raw, folder = tmp_path / "raw", tmp_path / "folder"
    raw.mkdir()
    tokenizer, case = make(raw)
    tokenizer.save_pretrained(folder)
    case.save(folder)
    module = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    scope = models.load(folder, device="cpu")
    trace = scope.run("the dog", "the cat")
    for stream, file, letters in zip(scope.model.streams, files, ("thedog", "thecat"), strict=True):
        row, vocabulary = trace.streams[stream], json.loads((raw / file).read_text("utf-8"))
        typed = [i for i, offset in enumerate(row.offsets) if offset is not None]
        assert [row.ids[i] for i in typed] == [vocabulary[row.tokens[i]] for i in typed]
        assert "".join(row.tokens[i].removesuffix("</w>").strip("▁") for i in typed) == letters
    n_target = module.get_output_embeddings().weight.shape[0]
    assert n_target > module.get_input_embeddings().weight.shape[0]
    target = trace.streams["target"]
    for last in (
        target.ids[-1],
        n_target - 1,
    ):  # a token beyond the source's vocabulary, no padding
        row = replace(target, ids=(*target.ids[:-1], last))
        ours = first_output(scope.run("the dog", row)).logits
        ids = [torch.tensor([one.ids]) for one in (trace.streams["source"], row)]
        expected = module(input_ids=ids[0], decoder_input_ids=ids[1], use_cache=False).logits[0]
        assert torch.allclose(ours, expected, atol=1e-5)


def test_a_vocabulary_larger_than_the_table_that_reads_it_is_refused(tmp_path: Path) -> None:
    raw, folder = tmp_path / "raw", tmp_path / "folder"
    raw.mkdir()
    tokenizer, case = fsmt(raw)
    tokenizer.save_pretrained(folder)
    n = len(TARGET_PIECES) + len(SPECIAL)
    replace(case, sizes=case.sizes | {"tgt_vocab_size": n - 1}).save(folder)
    with pytest.raises(
        CheckpointError, match=f"{n} tokens, but the model's embedding has {n - 1} rows"
    ):
        models.load(folder, device="cpu")


def test_a_mask_of_another_spelling_may_be_typed_as_that_of_bert(tmp_path: Path) -> None:
    library = bertweet(tmp_path)
    tokenizer = PythonTokenizer(library, {"pad": library.pad_token_id}, len(library))
    row = tokenizer.encode("we [MASK] are[MASK]")
    wanted = library("we <mask> are <mask>", add_special_tokens=False)["input_ids"]
    assert list(row.ids) == wanted
    spans = [row.text[slice(*place)] for place in row.offsets if place is not None]
    assert [span for span in spans if "[" in span] == ["[MASK]", "[MASK]"]
