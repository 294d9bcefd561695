"""Small models and a small task for the tests. Sizes that can meet on one axis are different primes, so that a swapped
axis fails."""

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import torch
from torch import Tensor

from models.architectures import Config, Model
from models.architectures.attention_only import AttentionOnly, AttentionOnlyConfig
from models.architectures.bert import BERT, BERTConfig
from models.architectures.gpt import GPT, GPTConfig
from models.architectures.seq2seq import Seq2Seq, Seq2SeqConfig
from models.architectures.transformer import Transformer, TransformerConfig
from models.architectures.xlnet import XLNet, XLNetConfig
from models.tokenizers.base import END, Encoding, Tokenizer
from models.trace import Recording, RunModel, Trace, finish
from models.trace.edits import Edits, MaskChange, for_kinds
from models.trace.outputs import NextToken
from models.training.batches import Batch, collate
from models.training.evaluation import TextCases
from models.training.objectives import next_tokens
from models.training.recipe import Recipe
from models.training.task import Case, Evaluation, Progress, no_progress
from models.training.trainer import Trainer

N_HEADS, D_HEAD, D_FF, VOCAB, N_CTX = 3, 5, 23, 31, 37
BATCH, N_SOURCE, N_TARGET = 2, 11, 13
ONE_STACK = {
    "vocab_size": VOCAB,
    "d_model": N_HEADS * D_HEAD,
    "n_heads": N_HEADS,
    "n_layers": 2,
    "d_ff": D_FF,
    "n_ctx": N_CTX,
}


def forbidding(allowed: dict[str, Tensor]) -> Edits:
    """Return edits that forbid the cells that are False, by kind of attention."""
    return for_kinds(
        **{
            kind: MaskChange(block=tuple(map(tuple, (~cells).nonzero().tolist())))
            for kind, cells in allowed.items()
        }
    )


def trace_of(recording: Recording, streams: dict[str, Encoding], logits: Tensor) -> Trace:
    """Return the trace of a model that is in no checkpoint; logits (n, vocab) over the last stream."""
    stream, row = list(streams.items())[-1]
    output = NextToken(stream, (*row.ids[1:], END), logits, ())
    fields, tokens = (
        {name: e.text for name, e in streams.items()},
        {name: e.tokens for name, e in streams.items()},
    )
    model = RunModel("a test's", "transformer", "", {})
    return Trace(
        model, fields, streams, {"next token": output}, "", True, *finish(recording, tokens)
    )


def random_model(seed: int = 1, **changes: Any) -> Transformer:
    """A Transformer in evaluation mode with random weights."""
    sizes = {
        "vocab_size": VOCAB, "d_model": N_HEADS * D_HEAD, "n_heads": N_HEADS, "n_encoder_layers": 1,
        "n_decoder_layers": 2, "d_ff": D_FF, "n_ctx": N_CTX,
    }  # fmt: skip
    return randomised(Transformer(TransformerConfig(**sizes | changes)), seed)


def random_seq2seq(seed: int = 1, **changes: Any) -> Seq2Seq:
    """A recurrent encoder-decoder in evaluation mode with random weights."""
    sizes = {"vocab_size": VOCAB, "d_model": 17, "d_hidden": 7, "d_align": 5, "n_ctx": N_CTX}
    return randomised(Seq2Seq(Seq2SeqConfig(**sizes | changes)), seed)


def random_attention_only(seed: int = 1, **changes: Any) -> AttentionOnly:
    """An attention-only model in evaluation mode with random weights."""
    sizes = {
        "vocab_size": VOCAB,
        "d_model": N_HEADS * D_HEAD,
        "n_heads": N_HEADS,
        "n_self_layers": 2,
        "n_ctx": N_CTX,
    }
    return randomised(AttentionOnly(AttentionOnlyConfig(**sizes | changes)), seed)


def random_gpt(seed: int = 1, **changes: Any) -> GPT:
    """A decoder-only model in evaluation mode with random weights."""
    return randomised(GPT(GPTConfig(**ONE_STACK | changes)), seed)


def random_bert(seed: int = 1, **changes: Any) -> BERT:
    """An encoder with its heads in evaluation mode with random weights."""
    return randomised(BERT(BERTConfig(**ONE_STACK | changes)), seed)


def random_xlnet(seed: int = 1, **changes: Any) -> XLNet:
    """An XLNet of two layers in evaluation mode with random weights; d_head is even: half sines, half cosines."""
    sizes = ONE_STACK | {"d_model": N_HEADS * (D_HEAD + 1)}
    return randomised(XLNet(XLNetConfig(**sizes | changes)), seed)


def words_of(*texts: str) -> Tokenizer:
    """Return a WordPiece vocabulary in which every word of these texts is one token."""
    return Tokenizer.wordpiece(texts * 5, 300)


def randomised(model: Model, seed: int = 1) -> Model:
    """Draw every parameter at random, biases and norms too: a zero would hide a forgotten one."""
    rng = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.normal_(float("norm.weight" in name), 0.4, generator=rng)
    return model.eval()


def random_ids(n_batch: int, n: int, seed: int = 1) -> torch.Tensor:
    """Return token ids without special tokens, so without padding."""
    return torch.randint(4, VOCAB, (n_batch, n), generator=torch.Generator().manual_seed(seed))


def padded_ids() -> tuple[torch.Tensor, torch.Tensor]:
    """Return a batch of sources and targets whose second row is shorter in both."""
    source, target = random_ids(BATCH, N_SOURCE, 2), random_ids(BATCH, N_TARGET, 3)
    source[1, 7:] = 0
    target[1, 5:] = 0
    return source, target


class Reversal:
    """Words of one to three of the letters a to e, to be written backwards. A fifth of the words is held out."""

    name, metric, licence = "reversal", "exact match", "Generated by the tests"
    purpose, pipeline_tag = "writes words backwards", "text2text-generation"
    objective = staticmethod(next_tokens)
    model_settings = ()

    def __init__(self, batch_size: int = 67) -> None:
        self.batch_size = batch_size
        self.tokenizer = Tokenizer.characters("abcde")
        self.held_out_words = [w for w in self.words() if Random(w).random() < 0.2]

    @staticmethod
    def words() -> list[str]:
        words = [""]
        for word in words:
            if len(word) < 3:
                words += [word + letter for letter in "abcde"]
        return words[1:]

    def pair(self, word: str) -> tuple[list[int], list[int]]:
        return tuple(self.tokenizer.encode_many([word, word[::-1]]))

    def batches(self, seed: int) -> Iterator[list[tuple[list[int], list[int]]]]:
        words = sorted(set(self.words()) - set(self.held_out_words))
        step = 0
        while True:
            yield [self.pair(w) for w in Random(f"{seed}/{step}").choices(words, k=self.batch_size)]
            step += 1

    def collate(self, examples: list[tuple[list[int], list[int]]]) -> Batch:
        return collate(examples, self.tokenizer)

    def validation(self) -> list[tuple[list[int], list[int]]]:
        return [self.pair(w) for w in self.held_out_words[::2]]

    def held_out(self, n: int | None = None, *, validation: bool = False) -> list[Case]:
        return [
            Case(w, (w[::-1],), (w, w[::-1]))
            for w in self.held_out_words[0 if validation else 1 :: 2][:n]
        ]

    def evaluate(
        self,
        model: Any,
        n: int | None = None,
        *,
        validation: bool = False,
        progress: Progress = no_progress,
    ) -> Evaluation:
        cases = self.held_out(n, validation=validation)
        return TextCases(cases, self.tokenizer, self.metric).evaluate(model, progress=progress)

    def data(self) -> dict[str, Any]:
        return {"words": len(self.words())}


def reversal_trainer(
    folder: Path,
    task: Reversal | None = None,
    config: Config | None = None,
    device: str = "cpu",
    **changes: Any,
) -> Trainer:
    """Return a trainer of the small task in `folder`; `changes` go to the Transformer's sizes or to the recipe."""
    task = task or Reversal()
    sizes = {
        "d_model": 33, "n_heads": 3, "d_ff": 61, "n_encoder_layers": 1, "n_decoder_layers": 1, "n_ctx": 13, "dropout": 0.0,
    }  # fmt: skip
    recipe = {
        "steps": 7,
        "warmup": 53,
        "learning_rate": 0.5,
        "label_smoothing": 0.0,
        "score_cases": 0,
        "save_every": 1000,
        "validate_every": 1000,
    }
    for name, value in changes.items():
        (sizes if name in sizes or name in ("norm", "positions") else recipe)[name] = value
    config = config or TransformerConfig(task.tokenizer.vocab_size, **sizes)
    return Trainer(
        task, config, Recipe(**recipe), folder, torch.device(device), "made by the tests"
    )
