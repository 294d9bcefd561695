"""A loaded checkpoint, ready to be looked through: `models.load(name).run(text)` gives a Trace."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from models import decoding
from models.architectures import Config, Model, build
from models.checkpoint import Checkpoint, CheckpointError, load_checkpoint, snapshots
from models.fingerprint import fingerprint, weights_digest
from models.layers import masks
from models.layers.masks import STREAMS, Masks
from models.tokenizers.base import END, PAD, SPECIALS, Encoding, Tokenizer
from models.trace import Recording, Trace, finish, record
from models.trace.edits import MaskChanges
from models.training.scores import of_weights, unmeasured

_PACKAGE = Path(__file__).parent
Drawn = Mapping[str, Bool[Tensor, "_ _"]]   # kind of attention → allowed cells (query, key)


class InputError(ValueError):
    """A text the model cannot read; `field` is "source" or "target"."""

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
        """ "translation" or "dates"."""
        return self.training.get("task", "unknown")

    @property
    def examples(self) -> list[str]:
        """Sources to try it on, held out of its training; empty if the checkpoint brings none."""
        return self.training.get("examples", [])

    @property
    def n_ctx(self) -> int:
        """The longest source or target, in tokens, </s> and <s> counted."""
        return self.config.n_ctx

    @property
    def snapshots(self) -> list[int]:
        """Training steps whose weights this checkpoint keeps."""
        return snapshots(self.path)

    def with_similarity(self, name: str) -> "Scope":
        """The same trained weights, scored by another similarity (models.layers.similarity.KINDS), for which they were not trained;
        what it learns besides begins as in a new model, seed 0, and nothing is measured of it. Raises ValueError for a model
        without self-attention."""
        if not hasattr(self.config, "similarity"):
            raise ValueError(f"{self.name} has one alignment model, learned with it; its similarity cannot be exchanged")
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            model = build(replace(self.config, similarity=name))
        model.load_state_dict(self.model.state_dict(), strict=False)
        return Scope(Checkpoint(self.path, model.eval(), self.tokenizer, unmeasured(self.training)), self.device)

    def encode_source(self, text: str) -> Encoding:
        """x₁ … xₙ </s>. Raises InputError for an empty or too long text."""
        return self._checked(self.tokenizer.encode_source, text, "source")

    def encode_target(self, text: str) -> Encoding:
        """<s> y₁ … yₘ, the decoder's input row. Raises InputError likewise."""
        return self._checked(self.tokenizer.encode_target, text, "target")

    def run(
        self, source: str, target: str | None = None, *, drawn: Drawn | None = None, drafts: Sequence[Sequence[int]] = ()
    ) -> Trace:
        """One recorded forward pass over source and target, teacher-forced; without a target the model writes one first.

        `drawn` adds hand-drawn masks (True = may attend), by kind of attention: encoder_self, decoder_self, cross.
        `drafts` of what the model will write save time (models.decoding.written). Raises InputError, and ValueError for a
        drawn mask of the wrong shape."""
        if drawn is None:
            return self.run_each([(source, target)], drafts)[0]
        return self.run_batch([(source, target)], drawn=drawn, drafts=drafts[-1:])[0]

    def run_batch(
        self,
        pairs: Sequence[tuple[str, str | Encoding | None]],
        *,
        drawn: Drawn | None = None,
        changes: MaskChanges | None = None,
        drafts: Sequence[Sequence[int]] = (),
    ) -> list[Trace]:
        """Several pairs through the model in one padded batch; one Trace each, its axes padded with <pad> to the longest.

        A target may be an encoded one, such as another run's `trace.target`. `drawn` masks are of the padded size;
        these and `changes` to the masks apply to every pair, but not to a target the model writes first. `drafts`, if
        there are any, are one for each pair. Raises what `run` raises."""
        sources = [self.encode_source(source) for source, _ in pairs]
        targets = [self._target(*each) for each in zip(sources, (t for _, t in pairs), drafts or [()] * len(pairs), strict=True)]
        source_ids, target_ids = self._padded(sources), self._padded(targets)
        n, m = source_ids.shape[1], target_ids.shape[1]
        with torch.no_grad(), record() as recording:   # not inference mode: what it makes cannot be computed with
            every = self._with_drawn(self.model.masks(source_ids, target_ids), drawn or {}, n, m)
            every = (changes or MaskChanges()).apply(every, n, m, self.device)
            logits = self.model(source_ids, target_ids, every)
        own = [target is None for _, target in pairs]
        return self._traces(recording, logits, sources, targets, own, wide={"source": n, "target": m})

    def run_each(self, pairs: Sequence[tuple[str, str | None]], drafts: Sequence[Sequence[int]] = ()) -> list[Trace]:
        """Several pairs at once, each with the trace that `run` would give it, up to rounding: what they share is one batch,
        in which a pass costs little more than for one, and its padding is cut off. `drafts` as in `run`, for one that is
        alone. Raises models.InputError."""
        sources = [self.encode_source(source) for source, _ in pairs]
        source_ids = self._padded(sources)
        with torch.no_grad(), record() as recording:
            memory = self.model.encode(source_ids, self.model.masks(source_ids, source_ids[:, :0]))
        own = self._own_words(source_ids, memory, drafts) if any(target is None for _, target in pairs) else [None] * len(pairs)
        targets = [mine if target is None else self.encode_target(target) for (_, target), mine in zip(pairs, own, strict=True)]
        target_ids = self._padded(targets)
        with torch.no_grad(), record(recording):
            logits = self.model.decode(target_ids, memory, self.model.masks(source_ids, target_ids))
        return self._traces(recording, logits, sources, targets, [target is None for _, target in pairs], wide={})

    def write(self, source: str, how: str = "greedy", **settings: Any) -> Written:
        """Decode with "greedy", "sample" (needs seed=) or "beam"; settings go to that decoder. Raises InputError."""
        src = self.encode_source(source)
        if how == "beam":
            last = list(decoding.beam(self.model, src.ids, **settings))[-1]
            ids, steps = last.kept[0].tokens, ()
        elif how in ("greedy", "sample"):
            steps = tuple(getattr(decoding, how)(self.model, src.ids, **settings))
            ids = tuple(s.token for s in steps)
        else:
            raise ValueError(f"how must be greedy, sample or beam, not {how!r}")
        return Written(self.tokenizer.decode(ids), ids, steps)

    def _traces(
        self,
        recording: Recording,
        logits: Float[Tensor, "batch m vocab"],
        sources: Sequence[Encoding],
        targets: Sequence[Encoding],
        written: Sequence[bool],
        wide: Mapping[str, int],
    ) -> list[Trace]:
        """The rows of a batch, padded as far as `wide` says; `written`: is the target the model's own?"""
        traces, logits = [], logits.float().cpu()
        for row, (src, tgt, own) in enumerate(zip(sources, targets, written, strict=True)):
            mine = logits[row, : len(tgt.ids)]
            best = mine.argmax(-1).tolist()
            output = tgt.text if own else self.tokenizer.decode(best)
            tokens = {name: padded(e.tokens, wide.get(name, 0)) for name, e in (("source", src), ("target", tgt))}
            activations, attention = finish(recording, tokens, row)
            traces.append(Trace(src, tgt, self.tokenizer.tokens(best), output, not own, mine, activations, attention))
        return traces

    def _target(self, src: Encoding, target: str | Encoding | None, draft: Sequence[int]) -> Encoding:
        if target is None:
            return self._spelled(self.write(src.text, drafts=[draft]).ids)
        return target if isinstance(target, Encoding) else self.encode_target(target)

    def _own_words(
        self, source: Int[Tensor, "batch n"], memory: Float[Tensor, "batch n d_memory"], drafts: Sequence[Sequence[int]]
    ) -> list[Encoding]:
        """What the model writes for each row, as the decoder's input rows. Only a row that is alone has use for a draft."""
        if len(source) > 1:
            lengths = (source != PAD).sum(1).tolist()
            rows = zip(decoding.greedy_batch(self.model, source, memory), lengths, strict=True)
            return [self._spelled(ids[: decoding.longest(self.model, n)]) for ids, n in rows]
        steps = decoding.greedy(self.model, source[0].tolist(), drafts=drafts, memory=memory)
        return [self._spelled([step.token for step in steps])]

    def _spelled(self, ids: Sequence[int]) -> Encoding:
        """The model's own tokens are kept, not tokenised again."""
        return self.tokenizer.spell(ids[:-1] if ids and ids[-1] == END else ids)

    def _checked(self, encode: Any, text: str, field: str) -> Encoding:
        if not text.strip():
            raise InputError(f"the {field} is empty; type some text", field)
        if len(text) > 20 * self.n_ctx:   # no need to tokenise what cannot fit
            message = f"the {field} has {len(text):,} characters; this model reads at most {self.n_ctx} tokens"
            raise InputError(message, field)
        encoding = encode(text)
        if len(encoding.ids) > self.n_ctx:
            raise InputError(f"the {field} has {len(encoding.ids)} tokens; this model reads at most {self.n_ctx}", field)
        return encoding

    def _padded(self, encodings: Sequence[Encoding]) -> Int[Tensor, "batch n"]:
        rows = [torch.tensor(e.ids) for e in encodings]
        return pad_sequence(rows, batch_first=True, padding_value=PAD).to(self.device)

    def _with_drawn(self, base: Masks, drawn: Drawn, n: int, m: int) -> Masks:
        size = {"source": n, "target": m}
        every = dict(base)
        for kind, allowed in drawn.items():
            if kind not in base:
                raise ValueError(f"drawn masks are for {', '.join(base) or 'models with attention'}, not {kind!r}")
            shape = tuple(size[stream] for stream in STREAMS[kind])
            if tuple(allowed.shape) != shape:
                raise ValueError(f"the drawn {kind} mask must have shape {shape}, not {tuple(allowed.shape)}")
            every[kind] = every[kind].with_layer(masks.drawn(allowed.to(self.device)))
        return every


def padded(tokens: tuple[str, ...], n: int) -> tuple[str, ...]:
    """The tokens with <pad> behind them, n in all."""
    return tokens + (SPECIALS[PAD],) * (n - len(tokens))
