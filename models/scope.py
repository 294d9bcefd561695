"""A loaded checkpoint, ready to be looked through: `models.load(name).run(text)` gives a Trace."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from models import decoding
from models.architectures import Config, Model, build, name_of
from models.architectures.base import Field
from models.checkpoint import Checkpoint, CheckpointError, load_checkpoint, snapshots
from models.fingerprint import fingerprint, weights_digest
from models.tokenizers.base import PAD, SPECIALS, Encoding, Tokenizer, joined
from models.trace import Recording, RunModel, Trace, finish, record
from models.trace.edits import Edits, editing
from models.trace.outputs import NextToken
from models.training.scores import of_weights, unmeasured

_PACKAGE = Path(__file__).parent
Texts = Sequence[str | Encoding | None]     # the model's fields, in their order; the last ones may be left out


class InputError(ValueError):
    """A text the model cannot read, and in which of its fields."""

    def __init__(self, message: str, field: str) -> None:
        super().__init__(message)
        self.field = field


def shipped_folder() -> Path:
    """Where the shipped checkpoints lie: inside an installed package, or in assets/ of a source tree."""
    installed = _PACKAGE / "shipped"
    return installed if installed.is_dir() else _PACKAGE.parent / "assets" / "checkpoints"


def shipped() -> list[str]:
    """Names of the shipped checkpoints."""
    return sorted(p.parent.name for p in shipped_folder().glob("*/config.json"))


def default_device() -> torch.device:
    """What the environment variable ATTNSCOPE_DEVICE says, else CUDA, then MPS, then the CPU."""
    if named := os.environ.get("ATTNSCOPE_DEVICE"):
        return named_device(named)
    if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("mps" if torch.backends.mps.is_available() else "cpu")


def chosen_device(name: str | torch.device | None) -> torch.device:
    """The named device, else the default one."""
    return named_device(name) if name else default_device()


def named_device(name: str | torch.device) -> torch.device:
    """Raises ValueError for a device that there is not."""
    try:
        torch.empty(0, device=name)
        return torch.device(name)
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"device {str(name)!r} cannot be used: {str(error).splitlines()[0]}") from None


def load(name: str | Path, *, device: str | torch.device | None = None, snapshot: int | None = None) -> "Scope":
    """A shipped checkpoint by its name, or any checkpoint folder; at an earlier training step if `snapshot` says so.

    Raises CheckpointError, saying what is wrong with which file."""
    return Scope(load_checkpoint(folder_of(name), snapshot), chosen_device(device))


def folder_of(name: str | Path) -> Path:
    """The folder of a shipped checkpoint, or the one named. Raises CheckpointError if it is none."""
    folder = shipped_folder() / name if str(name) in shipped() else Path(name).expanduser()
    if not folder.is_dir():
        raise CheckpointError(f"{name}: neither a folder nor a shipped checkpoint ({', '.join(shipped()) or 'none'})")
    return folder


@dataclass(frozen=True)
class Written:
    """What one of the decoders wrote, with its step records."""

    text: str
    ids: tuple[int, ...]
    steps: tuple[decoding.Step, ...]


class Scope:
    """One checkpoint. Every method may be called from many threads at once; nothing is written onto the model."""

    def __init__(self, checkpoint: Checkpoint, device: torch.device) -> None:
        self.path: Path = checkpoint.path
        self.name: str = checkpoint.path.resolve().name
        self.model: Model = checkpoint.model.to(device)
        self.tokenizer: Tokenizer = checkpoint.tokenizer
        self.weights_digest: str = weights_digest(checkpoint.model)
        self.fingerprint: str = fingerprint(checkpoint.model, checkpoint.tokenizer, self.weights_digest)
        self.training: dict[str, Any] = of_weights(checkpoint.training, self.weights_digest)
        self.device = device

    @property
    def config(self) -> Config:
        return self.model.config

    @property
    def task(self) -> str:
        """ "translation", "dates" or "language"."""
        return self.training.get("task", "unknown")

    @property
    def examples(self) -> list[str]:
        """Sources to try it on, held out of its training; empty if the checkpoint brings none."""
        return self.training.get("examples", [])

    @property
    def n_ctx(self) -> int:
        """The longest stream, in tokens, </s> and <s> counted."""
        return self.config.n_ctx

    @property
    def snapshots(self) -> list[int]:
        """Training steps whose weights this checkpoint keeps."""
        return snapshots(self.path)

    def with_similarity(self, name: str) -> "Scope":
        """The same trained weights, scored by another similarity (models.layers.similarity.KINDS), for which they were not trained;
        what it learns besides begins as in a new model, seed 0, and nothing is measured of it. Raises ValueError for a model
        without self-attention."""
        if not self.model.similarity:
            raise ValueError(f"{self.name} has one alignment model, learned with it; its similarity cannot be exchanged")
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            model = build(replace(self.config, similarity=name))
        model.load_state_dict(self.model.state_dict(), strict=False)
        return Scope(Checkpoint(self.path, model.eval(), self.tokenizer, unmeasured(self.training)), self.device)

    def encode(self, *texts: str | Encoding | None, **named: str | Encoding | None) -> dict[str, Encoding]:
        """The tokens of each stream for these fields (`model.fields`), in their order or by name; a stream whose fields are all
        absent has none. Fields of one stream follow each other. Raises InputError for an empty or too long text, TypeError
        for a field that the model has not."""
        streams: dict[str, Encoding] = {}
        for field, text in zip(self.model.fields, self._in_order(texts, named), strict=False):
            if text is not None:
                encoding = text if isinstance(text, Encoding) else self._checked(text, field)
                streams[field.stream] = joined(streams[field.stream], encoding) if field.stream in streams else encoding
                self._check_length(streams[field.stream], field)
        return streams

    def run(
        self, *texts: str | None, edits: Edits | None = None, drafts: Sequence[Sequence[int]] = (), **named: str | None
    ) -> Trace:
        """One recorded forward pass over the model's fields, in their order or by name: `run(source, target)` of an
        encoder-decoder, `run(text)` of a language model.

        Without a target an encoder-decoder writes one first. `edits` hold in the pass, not in what is written before.
        `drafts` of what the model will write save time (models.decoding.written). Raises InputError, TypeError for a field that
        the model has not."""
        asked = self._in_order(texts, named)
        if not edits:
            return self.run_each([asked], drafts)[0]
        return self.run_batch([asked], edits=edits, drafts=drafts[-1:])[0]

    def run_batch(
        self,
        asked: Sequence[Texts],
        *,
        edits: Edits | None = None,
        drafts: Sequence[Sequence[int]] = (),
    ) -> list[Trace]:
        """Several inputs through the model in one padded batch; one Trace each, its axes padded with <pad> to the longest.

        A field may hold an encoded text, such as another run's `trace.streams["target"]`. `edits` apply to every row, but not
        to what the model writes first. `drafts`, if there are any, are one for each row. Raises what `run` raises."""
        kinds = [kind.name for kind in self.model.kinds]
        for edit in (edits or Edits()).edits:
            if edit.kind not in kinds:
                raise ValueError(f"edits are for {', '.join(kinds) or 'models with attention'}, not {edit.kind!r}")
        rows = [self._with_own_words(texts, draft) for texts, draft in zip(asked, drafts or [()] * len(asked), strict=True)]
        ids = {stream: self._padded([row[stream] for row in rows]) for stream in self.model.streams}
        # not inference mode: what it makes cannot be computed with
        with torch.no_grad(), record() as recording, editing(edits or Edits()):
            logits = self.model(*ids.values())
        wide = {stream: padded.shape[1] for stream, padded in ids.items()}
        return self._traces(recording, logits, asked, rows, wide, edits or Edits())

    def run_each(self, asked: Sequence[Texts], drafts: Sequence[Sequence[int]] = ()) -> list[Trace]:
        """Several inputs at once, each with the trace that `run` would give it, up to rounding: what they share is one batch,
        in which a pass costs little more than for one, and its padding is cut off. `drafts` as in `run`, for one that is
        alone. Raises models.InputError."""
        rows = [self.encode(*texts) for texts in asked]
        (given, *_), written = self.model.streams, self.model.writes
        given_ids = self._padded([row[given] for row in rows])
        with torch.no_grad(), record() as recording:
            memory = self.model.encode(given_ids, self.model.written_masks(given_ids, given_ids[:, :0]))
        if not all(written in row for row in rows):
            own = self._own_words(given_ids, memory, drafts)
            rows = [row if written in row else row | {written: mine} for row, mine in zip(rows, own, strict=True)]
        row_ids = self._padded([row[written] for row in rows])
        with torch.no_grad(), record(recording):
            logits = self.model.decode(row_ids, memory, self.model.written_masks(given_ids, row_ids))
        return self._traces(recording, logits, asked, rows, {}, Edits())

    def write(self, given: str | Encoding, how: str = "greedy", **settings: Any) -> Written:
        """Go on from what is given (a source, a text) with "greedy", "sample" (needs seed=) or "beam"; settings go to that decoder.
        Raises InputError."""
        ids = self.given_ids(given)
        if how == "beam":
            last = list(decoding.beam(self.model, ids, **settings))[-1]
            written, steps = last.kept[0].tokens, ()
        elif how in ("greedy", "sample"):
            steps = tuple(getattr(decoding, how)(self.model, ids, **settings))
            written = tuple(s.token for s in steps)
        else:
            raise ValueError(f"how must be greedy, sample or beam, not {how!r}")
        return Written(self.tokenizer.decode(written), written, steps)

    def given_ids(self, given: str | Encoding) -> tuple[int, ...]:
        """The tokens that writing goes on from: those of the model's first field. Raises InputError."""
        return self.encode(given)[self.model.fields[0].stream].ids

    def _in_order(self, texts: Texts, named: Mapping[str, str | Encoding | None]) -> Texts:
        names = [field.name for field in self.model.fields]
        if len(texts) > len(names) or named.keys() & set(names[: len(texts)]) or named.keys() - set(names):
            raise TypeError(f"{self.name} takes {', '.join(names)}, not {len(texts)} texts and {', '.join(named) or 'no others'}")
        return [*texts, *(named.get(name) for name in names[len(texts) :])]

    def _traces(
        self,
        recording: Recording,
        logits: Float[Tensor, "batch m vocab"],
        asked: Sequence[Texts],
        rows: Sequence[Mapping[str, Encoding]],
        wide: Mapping[str, int],
        edits: Edits,
    ) -> list[Trace]:
        """The rows of a batch, padded as far as `wide` says."""
        traces, logits, writes = [], logits.float().cpu(), self.model.writes
        of = RunModel(self.name, name_of(self.config), self.fingerprint, self.training)
        for row, (texts, streams) in enumerate(zip(asked, rows, strict=True)):
            plain = [text.text if isinstance(text, Encoding) else text for text in texts]
            fields = dict(zip_longest((field.name for field in self.model.fields), plain))
            mine = logits[row, : len(streams[writes].ids)]
            best = mine.argmax(-1).tolist()
            given = any(fields[field.name] is not None for field in self.model.fields if field.stream == writes)
            output = self.tokenizer.decode(best) if given else streams[writes].text
            tokens = {name: padded(e.tokens, wide.get(name, 0)) for name, e in streams.items()}
            activations, attention = finish(recording, tokens, row)
            end = () if self.model.continues else (self.config.end_id,)
            expected = NextToken(writes, (*streams[writes].ids[1:], *end), mine, self.tokenizer.tokens(best))
            traces.append(
                Trace(of, fields, dict(streams), {"next token": expected}, output, given, activations, attention, edits)
            )
        return traces

    def _with_own_words(self, texts: Texts, draft: Sequence[int]) -> dict[str, Encoding]:
        """The streams of these fields; the one that the model writes, where it was not given, in its own words."""
        streams = self.encode(*texts)
        if self.model.writes not in streams:
            streams[self.model.writes] = self._spelled(self.write(texts[0], drafts=[draft]).ids)
        return streams

    def _own_words(
        self, given: Int[Tensor, "batch n"], memory: Float[Tensor, "batch n d_memory"] | None, drafts: Sequence[Sequence[int]]
    ) -> list[Encoding]:
        """What the model writes for each row, as the decoder's input rows. Only a row that is alone has use for a draft."""
        if len(given) > 1:
            lengths = (given != self.config.pad_id).sum(1).tolist()
            rows = zip(decoding.greedy_batch(self.model, given, memory), lengths, strict=True)
            return [self._spelled(ids[: self.model.longest(n)]) for ids, n in rows]
        steps = decoding.greedy(self.model, given[0].tolist(), drafts=drafts, memory=memory)
        return [self._spelled([step.token for step in steps])]

    def _spelled(self, ids: Sequence[int]) -> Encoding:
        """The model's own tokens are kept, not tokenised again."""
        return self.tokenizer.spell(ids[:-1] if ids and ids[-1] == self.config.end_id else ids)

    def _checked(self, text: str, field: Field) -> Encoding:
        if not text.strip():
            raise InputError(f"the {field.name} is empty; type some text", field.name)
        if len(text) > 20 * self.n_ctx:   # no need to tokenise what cannot fit
            message = f"the {field.name} has {len(text):,} characters; this model reads at most {self.n_ctx} tokens"
            raise InputError(message, field.name)
        return self.tokenizer.encode(text, begins=field.begins, ends=field.ends)

    def _check_length(self, encoding: Encoding, field: Field) -> None:
        if len(encoding.ids) > self.n_ctx:
            raise InputError(
                f"the {field.stream} has {len(encoding.ids)} tokens; this model reads at most {self.n_ctx}", field.name
            )

    def _padded(self, encodings: Sequence[Encoding]) -> Int[Tensor, "batch n"]:
        rows = [torch.tensor(e.ids) for e in encodings]
        return pad_sequence(rows, batch_first=True, padding_value=self.config.pad_id).to(self.device)


def padded(tokens: tuple[str, ...], n: int) -> tuple[str, ...]:
    """The tokens with <pad> behind them, n in all."""
    return tokens + (SPECIALS[PAD],) * (n - len(tokens))
