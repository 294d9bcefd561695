"""A loaded checkpoint, ready to be looked through: `models.load(name).run(text)` gives a Trace."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from models import decoding
from models.analysis.shuffle import without_positions
from models.architectures import Config, Model, build, name_of
from models.architectures.base import NEXT_TOKEN, Answers
from models.checkpoint import Checkpoint
from models.checkpoint_files import snapshots
from models.fingerprint import fingerprint, weights_digest
from models.printable import printable
from models.runs import inputs
from models.runs.edit_checks import check_model, check_sites
from models.runs.inputs import InputError, Texts, Value
from models.scores import of_weights, unmeasured
from models.tokenizers.base import Encoding, Tokenizer
from models.trace import Recording, RunModel, Trace, finish, record
from models.trace.edits import Edit, Edits, editing, effective, of_row

__all__ = ["InputError", "Scope", "Texts", "Written"]


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
        self.name: str = printable(checkpoint.path.resolve().name)
        self.model: Model = checkpoint.model.to(device)
        self.tokenizer: Tokenizer = checkpoint.tokenizer
        self.weights_digest: str = weights_digest(checkpoint.model)
        self.fingerprint: str = fingerprint(
            checkpoint.model, checkpoint.tokenizer, self.weights_digest
        )
        self.training: dict[str, Any] = of_weights(checkpoint.training, self.weights_digest)
        self.device = device

    @property
    def config(self) -> Config:
        return self.model.config

    @property
    def task(self) -> str:
        """The name of the task it was trained on (models.tasks.NAMES), or "unknown"."""
        return self.training.get("task", "unknown")

    @property
    def examples(self) -> list[str | list[str]]:
        """Sources to try it on, held out of its training; of a model that is asked several texts lists of them. Empty if the
        checkpoint brings none."""
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
        """The same trained weights, scored by another similarity (models.layers.similarity.SIMILARITIES), for which they were not
        trained; what it learns besides begins as in a new model, seed 0, and nothing is measured of it. Raises ValueError for a
        model without self-attention."""
        if not self.model.similarity:
            raise ValueError(
                f"{self.name} has one alignment model, learned with it; its similarity cannot be exchanged"
            )
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            model = build(replace(self.config, similarity=name))
        model.load_state_dict(self.model.state_dict(), strict=False)
        return Scope(
            Checkpoint(self.path, model.eval(), self.tokenizer, unmeasured(self.training)),
            self.device,
        )

    @property
    def has_removable_positions(self) -> bool:
        """True if this model adds position vectors that can be left out."""
        return self.model.positions_can_go and hasattr(self.config, "positions")

    def without_positions(self) -> "Scope":
        """Return the same weights with zero position vectors, of which nothing was measured. Raises ValueError for a model that
        adds none."""
        if not self.has_removable_positions:
            raise ValueError(f"{self.name} has no position vectors that can be left out")
        model = without_positions(self.model)
        checkpoint = Checkpoint(self.path, model, self.tokenizer, unmeasured(self.training))
        return Scope(checkpoint, self.device)

    def encode(self, *values: Value, **named: Value) -> dict[str, Encoding]:
        """The tokens of each stream for these fields (`model.fields`), in their order or by name; a stream whose fields are all
        absent has none. Fields of one stream follow each other. Raises InputError for what cannot be read, TypeError for a
        field that the model has not."""
        return self._encoded(self._in_order(values, named))

    def warnings(self, *values: Value) -> dict[str, str]:
        """Field → what a person should know of a text that can be read, but perhaps not as it is meant."""
        return inputs.warnings(self.model.fields, values, self.tokenizer)

    def run(
        self,
        *values: Value,
        edits: Sequence[Edit] = (),
        drafts: Sequence[Sequence[int]] = (),
        **named: Value,
    ) -> Trace:
        """One recorded forward pass over the model's fields, in their order or by name: `run(source, target)` of an
        encoder-decoder, `run(text)` of a language model, `run(question=…, context=…)` of one that answers questions.

        Without a target an encoder-decoder writes one first. `edits` (models.edits) hold in the pass, not in what is written before.
        `drafts` of what the model will write save time (models.decoding.written). Raises InputError, TypeError for a field that
        the model has not."""
        request = self._in_order(values, named)
        if not edits:
            return self.run_each([request], drafts)[0]
        return self.run_batch([request], edits=edits, drafts=drafts[-1:])[0]

    def run_batch(
        self,
        requests: Sequence[Texts],
        *,
        edits: Sequence[Edit] = (),
        drafts: Sequence[Sequence[int]] = (),
        written: Sequence[Sequence[int]] = (),
    ) -> list[Trace]:
        """Several inputs through the model in one padded batch; one Trace each, its axes padded to the longest.

        A field may hold an encoded text, such as another run's `trace.streams["target"]`. `edits` apply to every row, or to the
        rows that they name, but not to what the model writes first. `drafts`, if there are any, are one for each row, and so are
        the tokens that it is known to write, which are not written again. Raises what `run` raises, and ValueError for an edit
        that the model cannot carry out."""
        edits = effective(edits)
        check_model(edits, self.model, self.name)
        rows = [
            self._with_own_words(texts, draft, known)
            for texts, draft, known in zip(
                requests,
                drafts or [()] * len(requests),
                written or [None] * len(requests),
                strict=True,
            )
        ]
        # not inference mode: what it makes cannot be computed with
        with torch.no_grad(), record() as recording, editing(edits):
            answers = self._answers(self.model(*self.model.inputs(rows)))
        check_sites(edits, recording.attention, len(rows))
        wide = {stream: max(len(row[stream].ids) for row in rows) for stream in rows[0]}
        return self._traces(recording, answers, requests, rows, wide, edits)

    def run_each(
        self, requests: Sequence[Texts], drafts: Sequence[Sequence[int]] = ()
    ) -> list[Trace]:
        """Several inputs at once, each with the trace that `run` would give it, up to rounding: what they share is one batch,
        in which a pass costs little more than for one, and its padding is cut off. `drafts` as in `run`, for one that is
        alone. Raises models.InputError."""
        rows = [self._complete(texts) for texts in requests]
        if not self.model.can_write:
            with torch.no_grad(), record() as recording:
                answers = self._answers(self.model(*self.model.inputs(rows)))
            return self._traces(recording, answers, requests, rows, {}, ())
        (given, *_), written, pad_id = self.model.streams, self.model.writes, self.config.pad_id
        given_ids = self.model.padded([row[given].ids for row in rows], pad_id)
        with torch.no_grad(), record() as recording:
            memory = self.model.encode(
                given_ids, self.model.written_masks(given_ids, given_ids[:, :0])
            )
        if not all(written in row for row in rows):
            own = self._own_words(given_ids, memory, drafts)
            rows = [
                row if written in row else row | {written: mine}
                for row, mine in zip(rows, own, strict=True)
            ]
        row_ids = self.model.padded([row[written].ids for row in rows], pad_id)
        with torch.no_grad(), record(recording):
            answers = self._answers(
                self.model.decode(row_ids, memory, self.model.written_masks(given_ids, row_ids))
            )
        return self._traces(recording, answers, requests, rows, {}, ())

    def write(self, given: str | Encoding, how: str = "greedy", **settings: Any) -> Written:
        """Go on from what is given (a source, a text) with "greedy", "sample" (needs seed=) or "beam"; settings go to that decoder.
        Raises InputError, ValueError of a model that does not write."""
        if not self.model.can_write:
            raise ValueError(f"{self.name} does not write; `run` says what it answers")
        ids = self.given_ids(given)
        if how == "beam":
            last = list(decoding.beam(self.model, ids, **settings))[-1]
            written, steps = last.hypotheses[0].tokens, ()
        elif how in ("greedy", "sample"):
            steps = tuple(getattr(decoding, how)(self.model, ids, **settings))
            written = tuple(s.token for s in steps)
        else:
            raise ValueError(f"how must be greedy, sample or beam, not {how!r}")
        return Written(self.tokenizer.decode(written), written, steps)

    def given_ids(self, given: str | Encoding) -> tuple[int, ...]:
        """The tokens of the model's first field alone, which writing goes on from. Raises InputError."""
        return self.encode(given)[self.model.fields[0].stream].ids

    def _in_order(self, values: Texts, named: Mapping[str, Value]) -> Texts:
        return inputs.in_order(self.model.fields, values, named, self.name)

    def _encoded(self, values: Texts) -> dict[str, Encoding]:
        return inputs.encoded(self.model.fields, values, self.tokenizer, self.n_ctx)

    def _complete(self, values: Texts) -> dict[str, Encoding]:
        """The streams of these fields, of which none is missing that the model needs."""
        values = self._in_order(values, {})
        inputs.check_complete(self.model.fields, values)
        streams = self.model.completed(self._encoded(values), self.tokenizer)
        inputs.check_lengths(streams, self.model.fields, self.n_ctx)
        return streams

    @staticmethod
    def _answers(answers: Tensor | Answers) -> Answers:
        """The logits of each output, of a forward pass."""
        return {NEXT_TOKEN: answers} if isinstance(answers, Tensor) else answers

    def _traces(
        self,
        recording: Recording,
        answers: Answers,
        requests: Sequence[Texts],
        rows: Sequence[Mapping[str, Encoding]],
        wide: Mapping[str, int],
        edits: Edits,
    ) -> list[Trace]:
        """The rows of a batch, padded as far as `wide` says."""
        model, traces, fill = self.model, [], self.tokenizer.token(self.tokenizer.pad_id)
        answers = {name: logits.float().cpu() for name, logits in answers.items()}
        of = RunModel(
            self.name, name_of(self.config), self.fingerprint, self.training, self.tokenizer
        )
        for row, (values, streams) in enumerate(zip(requests, rows, strict=True)):
            plain = [value.text if isinstance(value, Encoding) else value for value in values]
            fields = dict(zip_longest((field.name for field in model.fields), plain))
            written = [field.name for field in model.fields if field.stream == model.writes]
            given = any(fields[name] is not None for name in written)
            outputs = model.outputs(
                {name: logits[row] for name, logits in answers.items()}, streams, self.tokenizer
            )
            own = model.can_write and not given
            output = (
                streams[model.writes].text
                if own
                else model.answer(outputs, streams, self.tokenizer)
            )
            tokens = {
                name: padded(e.tokens, wide.get(name, 0), fill) for name, e in streams.items()
            }
            activations, attention = finish(recording, tokens, row)
            traces.append(
                Trace(
                    of,
                    fields,
                    dict(streams),
                    outputs,
                    output,
                    given,
                    activations,
                    attention,
                    of_row(edits, row),
                    dict(recording.unrecorded),
                )
            )
        return traces

    def _with_own_words(
        self, texts: Texts, draft: Sequence[int], known: Sequence[int] | None
    ) -> dict[str, Encoding]:
        """The streams of these fields; the one that the model writes, where it was not given, in its own words."""
        streams = self._complete(texts)
        if self.model.can_write and self.model.writes not in streams:
            own = self.write(texts[0], drafts=[draft]).ids if known is None else known
            streams[self.model.writes] = self._spelled(own)
        return streams

    def _own_words(
        self,
        given: Int[Tensor, "batch n"],
        memory: Float[Tensor, "batch n d_memory"] | None,
        drafts: Sequence[Sequence[int]],
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
        return self.tokenizer.spell(ids[:-1] if ids and ids[-1] in self.model.end_ids else ids)


def padded(tokens: tuple[str, ...], n: int, fill: str) -> tuple[str, ...]:
    """The tokens with padding behind them, n in all."""
    return tokens + (fill,) * (n - len(tokens))
