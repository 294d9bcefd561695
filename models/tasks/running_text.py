"""Running text for tasks that predict its tokens: split documents and their vocabulary."""

import hashlib
import random
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

from models.number_text import how_many
from models.tasks.pair_files import file_record, names
from models.tasks.text_files import licence_of, paragraphs_of, split_documents
from models.tokenizers.base import Tokenizer
from models.training.task import DataError

RUNNING_TEXT_TOKENS = ("byte pairs", "characters")


class TextFiles:
    """Texts of any files; `max_tokens` padded positions per batch, rows of up to `n_ctx` tokens."""

    def __init__(
        self,
        files: Sequence[str | Path] | str | Path,
        *,
        vocab_size: int = 4096,
        max_tokens: int = 4096,
        n_ctx: int = 128,
        tokenizer: Tokenizer | None = None,
        licence: str | None = None,
    ) -> None:
        self.paths = (Path(files),) if isinstance(files, str | Path) else tuple(map(Path, files))
        self.max_tokens, self.n_ctx = max_tokens, n_ctx
        self._vocab_size, self._tokenizer = vocab_size, tokenizer
        self.licence = licence or licence_of(self.paths)


class RunningText(TextFiles):
    """Texts that are cut if they are longer than a row."""

    model_settings = ("tokenizer", "n_ctx", "documents")

    def __init__(
        self, files: Sequence[str | Path] | str | Path, *, documents: str = "paragraphs", tokens: str = "byte pairs",
        **settings: Any,
    ) -> None:  # fmt: skip
        if tokens not in RUNNING_TEXT_TOKENS:
            raise DataError(f"tokens must be {' or '.join(RUNNING_TEXT_TOKENS)}, not {tokens!r}")
        super().__init__(files, **settings)
        self._documents, self._tokens = documents, tokens
        self._split, self._n_left_out = split_documents(self.paths, documents)

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The given vocabulary, or one learned on the training documents."""
        if self._tokenizer is not None:
            return self._tokenizer
        texts = self._of("train")
        if self._tokens == "characters":
            return Tokenizer.characters(sorted({character for text in texts for character in text}))
        return Tokenizer.byte_level(texts, self._vocab_size)

    def _of(self, split: str) -> list[str]:
        if not self._split[split]:
            texts = [text for part in self._split.values() for text in part]
            size = (
                how_many(sum(map(len, texts)), "character")
                if self._documents == "whole"
                else how_many(len(texts), "document")
            )
            raise DataError(f"{names(self.paths)}: {size}, too few for a {split} split")
        return self._split[split]

    def _as_read(self, split: str) -> list[str]:
        """Return the documents without outer spaces, in the order of their hash.

        A whole text is returned as its paragraphs.
        """
        documents = [document.strip() for document in self._of(split)]
        if self._documents == "whole":
            documents = [part for text in documents for part in paragraphs_of(text)]
        return by_hash(documents)

    def data(self) -> dict[str, Any]:
        counts = {name: len(documents) for name, documents in self._split.items()}
        sizes = {name: sum(map(len, documents)) for name, documents in self._split.items()}
        description = {
            "documents": counts,
            "characters": sizes,
            "left out": self._n_left_out,
            "documents are": self._documents,
        }
        return file_record(self.paths) | description


def document_pieces(
    ids: Sequence[int], n_ctx: int, rng: random.Random | None = None
) -> Iterator[list[int]]:
    """Yield a document in pieces of at most `n_ctx` tokens.

    With `rng`, the first piece of a long document has a random length.
    """
    first = rng.randint(1, n_ctx) if rng is not None and len(ids) > n_ctx else n_ctx
    for start, end in pairwise([0, *range(first, len(ids), n_ctx), len(ids)]):
        yield list(ids[start:end])


def by_hash(documents: Sequence[str]) -> list[str]:
    return sorted(documents, key=lambda document: hashlib.blake2b(document.encode()).digest())
