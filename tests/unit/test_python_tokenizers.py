"""Tokenizers of transformers that are written in Python, against what they say themselves: ids, tokens, special tokens around
texts and decoded text; where each token lies in its text is worked out here by hand."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import transformers
from hub_models import _SEQ, _WIDE, BY_NAME, TEXT, Case

import models
from models import CheckpointError, Scope
from models.hub.python_tokenizer import PythonTokenizer, align_tokens

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
    """A vocabulary of letters, each also at the end of a word, and two merges."""
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
_NO_END = {"eos_token_id": None, "bos_token_id": None}  # those of _SPECIAL are other tokens here
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
    """Each model with its tokenizer and the library's own, saved and opened when first asked for."""

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
def test_ids_tokens_and_frames_are_the_librarys(opened: Opened, name: str) -> None:
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
def test_each_token_lies_where_its_letters_are(opened: Opened, name: str) -> None:
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
    """CTRL with 2,000 merges, of which a word of one letter that ends with a full stop takes one after the other."""
    ends = [".</w>", *(f"{'a' * n}.</w>" for n in range(1, 2001))]
    pieces = ["<unk>", *LETTERS, *(f"{c}@@" for c in LETTERS), *(end[:-4] for end in ends)]
    vocabulary = {piece: i for i, piece in enumerate(dict.fromkeys(pieces))}
    (folder / "v.json").write_text(json.dumps(vocabulary), "utf-8")
    merges = "".join(f"a {end}\n" for end in ends[:-1])
    (folder / "m.txt").write_text(f"#version: 0.2\n{merges}", "utf-8")
    return transformers.CTRLTokenizer(str(folder / "v.json"), str(folder / "m.txt"))


def test_a_tokenizer_that_takes_the_square_of_a_text_is_refused(tmp_path: Path) -> None:
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
