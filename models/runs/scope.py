"""A loaded checkpoint, ready for inspection: `models.load(name).run(text)` returns a Trace."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from models.analysis.shuffle import without_positions
from models.architectures import Config, Model, architecture_name, build
from models.architectures.base import Answers
from models.checkpoint import Checkpoint, fingerprint
from models.checkpoint_files import downloaded_name, snapshots
from models.printable import printable
from models.runs import inputs
from models.runs.batch import RecordedBatch
from models.runs.edit_checks import (
    check_edited_rows,
    check_model,
    check_sites,
)
from models.runs.edited_answers import Rows, answers_by_output, edited_answers, run_in_one_batch
from models.runs.held_out import HeldOut
from models.runs.inputs import FieldInput, InputError, Texts, check_requests
from models.runs.materials import needs_material, with_material
from models.runs.writing import GeneratedText, generate_rows, generated_encoding, write_text
from models.scores import of_weights, without_scores
from models.tokenizers.base import Encoding, Tokenizer
from models.trace import Recording, RunModel, Trace, record
from models.trace.edits import Edit, Edits, effective, of_row
from models.trace.outputs import Output
from models.weights import weights_digest

MAX_HELD_OUT = 256  # texts read from a record
HELD_OUT_BATCH = 16  # of them in one recorded pass

__all__ = ["GeneratedText", "InputError", "Scope", "Texts"]


class Scope:
    """A loaded checkpoint.

    Runs in several threads do not see each other's recordings or edits, and none changes weights.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        device: torch.device,
        *,
        name: str = "",
        positions_removed: bool = False,
    ) -> None:
        """Open a checkpoint under its folder's name, or under this one."""
        self.path: Path = checkpoint.path
        folder = checkpoint.path.resolve()
        self.name: str = printable(name or Path(downloaded_name(folder) or folder).name)
        self.model: Model = checkpoint.model.to(device)
        self.tokenizer: Tokenizer = checkpoint.tokenizer
        self.weights_digest: str = weights_digest(checkpoint.model)
        self.fingerprint: str = fingerprint(
            checkpoint.model, checkpoint.tokenizer, self.weights_digest
        )
        self.training: dict[str, Any] = of_weights(checkpoint.training, self.weights_digest)
        self.device = device
        self.positions_removed = positions_removed
        self._held_out: dict[tuple[tuple[str | None, ...], ...], HeldOut] = {}

    @property
    def config(self) -> Config:
        return self.model.config

    @property
    def task(self) -> str:
        """Name of the task it was trained on (models.tasks.TASK_NAMES), or "unknown"."""
        return self.training.get("task", "unknown")

    @property
    def examples(self) -> list[str | list[str]]:
        """Example inputs held out of its training, empty if the checkpoint has none.

        An input of several texts is a list.
        """
        return self.training.get("examples", [])

    @property
    def held_out(self) -> list[list[str]]:
        """Texts held out of its training, field by field, empty if the checkpoint has none."""
        return self.training.get("held_out", [])[:MAX_HELD_OUT]

    @property
    def n_ctx(self) -> int:
        """Length of the longest stream, in tokens, with </s> and <s>."""
        return self.config.n_ctx

    @property
    def snapshots(self) -> list[int]:
        """Training steps whose weights the checkpoint stores."""
        return snapshots(self.path)

    def with_similarity(self, name: str) -> "Scope":
        """Return the same weights under another similarity, for which they were not trained.

        Its additional parameters are initialised as in a new model, seed 0, and it has no scores.
        `name` is one of models.layers.similarity.SIMILARITIES.

        Raises:
            ValueError: the model's similarity cannot be replaced.
        """
        if not self.model.similarity:
            raise ValueError(
                f"{self.name} learned its own alignment; its similarity cannot be replaced"
            )
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            model = build(replace(self.config, similarity=name))
        model.load_state_dict(self.model.state_dict(), strict=False)
        return Scope(
            Checkpoint(self.path, model.eval(), self.tokenizer, without_scores(self.training)),
            self.device,
            positions_removed=self.positions_removed,
        )

    @property
    def has_removable_positions(self) -> bool:
        """True if the model adds position vectors that can be set to zero."""
        return self.model.can_drop_positions and hasattr(self.config, "positions")

    def without_positions(self) -> "Scope":
        """Return the same weights with zero position vectors and without scores.

        Raises:
            ValueError: the model adds no position vectors.
        """
        if not self.has_removable_positions:
            raise ValueError(f"{self.name} adds no position vectors that could be left out")
        model = without_positions(self.model)
        checkpoint = Checkpoint(self.path, model, self.tokenizer, without_scores(self.training))
        return Scope(checkpoint, self.device, positions_removed=True)

    def encode(self, *values: FieldInput, **named: FieldInput) -> dict[str, Encoding]:
        """Return the tokens of each stream for these fields, given in order or by name.

        A stream whose fields are all absent has none.

        Raises:
            InputError: a field cannot be read.
            TypeError: the model has no such field.
        """
        return self._encoded(self._in_order(values, named))

    def streams(self, *values: FieldInput) -> dict[str, Encoding]:
        """Return the rows that the model reads: those of `encode`, completed by the model.

        Raises:
            InputError: a field is missing or cannot be read, or a row is too long.
        """
        fields = self._in_order(values, {})
        inputs.check_complete(self.model.fields, fields)
        streams = self.model.completed(self._encoded(fields), self.tokenizer)
        inputs.check_lengths(streams, self.model.fields, self.model.stream_limit)
        return streams

    def warnings(self, *values: FieldInput) -> dict[str, str]:
        """Return a note for each field whose text may not be read as intended."""
        return inputs.field_warnings(self.model.fields, values, self.tokenizer)

    def run(
        self,
        *values: FieldInput,
        edits: Sequence[Edit] = (),
        draft_tokens: Sequence[Sequence[int]] = (),
        **named: FieldInput,
    ) -> Trace:
        """Return one recorded forward pass over the model's fields, given in order or by name.

        `run(source, target)` suits an encoder-decoder, `run(text)` a language model,
        `run(question=…, context=…)` a model that answers questions. Without a target an
        encoder-decoder generates one first. `edits` apply to the pass, not to that generation.
        `draft_tokens` of the generated text save time (models.decoding.generate).

        Raises:
            InputError: a field cannot be read.
            TypeError: the model has no such field.
        """
        request = self._in_order(values, named)
        if not edits:
            return self.run_each([request], draft_tokens)[0]
        return self.run_batch([request], edits=edits, draft_by_row=draft_tokens[-1:])[0]

    def run_batch(
        self,
        requests: Sequence[Texts],
        *,
        edits: Sequence[Edit] = (),
        draft_by_row: Sequence[Sequence[int]] = (),
        generated_tokens: Sequence[Sequence[int]] = (),
    ) -> list[Trace]:
        """Run several inputs in one padded batch; return one Trace each, padded to the longest.

        A field may hold an encoded text, such as another run's `trace.streams["target"]`. `edits`
        apply to every row, or to the rows they name, but not to the text that the model generates
        first. `draft_by_row` and `generated_tokens` have one entry per row; a row with tokens in
        `generated_tokens` is not generated again.

        Raises:
            InputError: a field cannot be read.
            TypeError: the model has no such field.
            ValueError: there is no input, one is no list, or the model cannot carry out an edit.
        """
        check_requests(requests)
        edits = effective(edits)
        check_model(edits, self.model, self.name)
        check_edited_rows(edits, len(requests))
        rows = [
            self._with_own_words(texts, draft, ids)
            for texts, draft, ids in zip(
                requests,
                draft_by_row or [()] * len(requests),
                generated_tokens or [None] * len(requests),
                strict=True,
            )
        ]
        edits = with_material(self, edits, rows)

        def recorded(rows: Rows) -> tuple[Answers, Recording]:
            # no inference mode: its tensors cannot take part in later computations
            with torch.no_grad(), record() as recording:
                return edited_answers(self.model, rows, edits), recording

        if (finished := run_in_one_batch(recorded, rows, edits)) is None:
            return [
                self.run_batch(
                    [request],
                    edits=of_row(edits, i),
                    draft_by_row=draft_by_row[i : i + 1],
                    generated_tokens=generated_tokens[i : i + 1],
                )[0]
                for i, request in enumerate(requests)
            ]
        answers, recording = finished
        check_sites(edits, recording.attention)
        return self._traces(requests, rows, answers, recording, edits, padded=True)

    def outputs_batch(
        self,
        rows: Rows,
        edits: Sequence[Edit] = (),
        *,
        gradients: bool = False,
        layers: AbstractContextManager | None = None,
    ) -> list[dict[str, Output]]:
        """Return only the answers of several inputs, given as streams, from one padded batch.

        `edits` apply to every row, or to the rows they name. With `gradients`, the answers can be
        differentiated (models.trace.edits.gradients). `layers` is entered for the pass
        (models.trace.reuse).

        Raises:
            ValueError: the model cannot carry out an edit.
        """
        edits = effective(edits)
        check_model(edits, self.model, self.name)
        check_edited_rows(edits, len(rows))
        edits = with_material(self, edits, rows)

        def answered(batch: Rows) -> Answers:
            with (layers if batch is rows else None) or nullcontext():  # they are of these rows
                return edited_answers(self.model, batch, edits)

        with torch.set_grad_enabled(gradients):
            answers = run_in_one_batch(answered, rows, edits)
        if answers is None:
            return [
                self.outputs_batch([row], of_row(edits, i), gradients=gradients)[0]
                for i, row in enumerate(rows)
            ]
        answers = {name: logits.float().cpu() for name, logits in answers.items()}
        return [
            self.model.outputs(
                {name: logits[row] for name, logits in answers.items()}, streams, self.tokenizer
            )
            for row, streams in enumerate(rows)
        ]

    def with_material(self, edits: Sequence[Edit], streams: Mapping[str, Encoding]) -> Edits:
        """Return edits ready for generating from these streams (models.decoding).

        Edits that take numbers from other runs get them; those runs are made. `streams` are those
        of the run without edits.

        Raises:
            InputError: the fields of another run cannot be read.
            ValueError: the model cannot carry out an edit.
        """
        edits = effective(edits)
        check_model(edits, self.model, self.name)
        return with_material(self, edits, [streams], generating=True)

    def held_out_outputs(self, texts: tuple[tuple[str | None, ...], ...] = ()) -> HeldOut:
        """Return the head outputs on these texts, or on those that the checkpoint holds out.

        The most recent outputs are kept.

        Raises:
            InputError: a text cannot be read.
            ValueError: there is no held-out text.
        """
        texts = texts or tuple(map(tuple, self.held_out))
        if not texts:
            raise ValueError(f"too little held-out text: {self.name} comes with none")
        if too_many := [text for text in texts if len(text) > len(self.model.fields)]:
            raise ValueError(
                f"a held-out text of {self.name} has at most {len(self.model.fields)} fields, got "
                f"{len(too_many[0])}"
            )
        if (outputs := self._held_out.get(texts)) is None:
            n = HELD_OUT_BATCH if self.model.pads else 1
            batches = [texts[first : first + n] for first in range(0, len(texts), n)]
            outputs = HeldOut.of([trace for batch in batches for trace in self.run_batch(batch)])
            self._held_out = {texts: outputs}  # replaced, not changed: threads share it
        return outputs

    def run_each(
        self, requests: Sequence[Texts], draft_tokens: Sequence[Sequence[int]] = ()
    ) -> list[Trace]:
        """Run several inputs at once; return the traces that `run` would, up to rounding.

        They share one batch, which costs little more than one input; its padding is cut off. Inputs
        of different lengths run one by one if the model cannot tell padding.
        `draft_tokens` as in `run`, for a single input.

        Raises:
            InputError: a field cannot be read.
            ValueError: there is no input, or one is no list.
        """
        check_requests(requests)
        rows = [self.streams(*texts) for texts in requests]
        lengths = {tuple(len(part.ids) for part in row.values()) for row in rows}
        if len(lengths) > 1 and not self.model.pads:
            return [self.run_each([texts])[0] for texts in requests]
        if not self.model.can_write:
            with torch.no_grad(), record() as recording:
                answers = answers_by_output(self.model(*self.model.inputs(rows)))
            return self._traces(requests, rows, answers, recording)
        (stream, *_), target_stream, pad_id = (
            self.model.streams,
            self.model.writes,
            self.config.pad_id,
        )
        given_rows = [row[stream].ids for row in rows]
        inputs = self.model.encoder_inputs(given_rows)
        nothing = torch.empty(len(rows), 0, dtype=torch.long, device=self.model.device)
        with torch.no_grad(), record() as recording:
            memory = self.model.encode(inputs, self.model.written_masks(inputs, nothing))
        if not all(target_stream in row for row in rows):
            generated = generate_rows(self.model, self.tokenizer, given_rows, memory, draft_tokens)
            rows = [
                row if target_stream in row else row | {target_stream: mine}
                for row, mine in zip(rows, generated, strict=True)
            ]
        row_ids = self.model.padded([row[target_stream].ids for row in rows], pad_id)
        with torch.no_grad(), record(recording):
            answers = answers_by_output(
                self.model.decode(row_ids, memory, self.model.written_masks(inputs, row_ids))
            )
        return self._traces(requests, rows, answers, recording)

    def write(self, value: FieldInput, strategy: str = "greedy", **settings: Any) -> GeneratedText:
        """Generate from a source or a prompt with "greedy", "sample" (needs seed=) or "beam".

        `settings` go to that decoder.

        Raises:
            InputError: the input cannot be read.
            ValueError: the model does not generate text, or a setting or an edit is invalid.
        """
        if not self.model.can_write:
            raise ValueError(f"{self.name} does not generate text; use `run`")
        ids = self.input_ids(value)
        if any(needs_material(edit) for edit in settings.get("edits", ())):
            streams = self._with_own_words([value], (), None)
            settings["edits"] = self.with_material(settings["edits"], streams)
        return write_text(self.model, self.tokenizer, ids, strategy, **settings)

    def input_ids(self, value: FieldInput) -> tuple[int, ...]:
        """Return the tokens of the model's first field, from which generation continues.

        Raises:
            InputError: the field cannot be read.
        """
        inputs.check_complete(self.model.fields[:1], [value])
        return self.encode(value)[self.model.fields[0].stream].ids

    def _in_order(self, values: Texts, by_name: Mapping[str, FieldInput]) -> Texts:
        return inputs.values_in_order(self.model.fields, values, by_name, self.name)

    def _encoded(self, values: Texts) -> dict[str, Encoding]:
        return inputs.encode_fields(
            self.model.fields, values, self.tokenizer, self.model.stream_limit
        )

    def _traces(
        self,
        requests: Sequence[Texts],
        rows: Rows,
        answers: Answers,
        recording: Recording,
        edits: Edits = (),
        *,
        padded: bool = False,
    ) -> list[Trace]:
        of = RunModel(
            self.name,
            architecture_name(self.config),
            self.fingerprint,
            self.training,
            self.tokenizer,
            self.positions_removed,
        )
        batch = RecordedBatch(self.model, self.tokenizer, requests, rows, answers, recording, edits)
        return batch.traces(of, padded=padded)

    def _with_own_words(
        self, texts: Texts, draft: Sequence[int], ids: Sequence[int] | None
    ) -> dict[str, Encoding]:
        """Return the streams of these fields, generating the one that is absent."""
        streams = self.streams(*texts)
        if self.model.can_write and self.model.writes not in streams:
            generated = self.write(texts[0], draft_tokens=[draft]).ids if ids is None else ids
            streams[self.model.writes] = generated_encoding(self.model, self.tokenizer, generated)
        return streams
