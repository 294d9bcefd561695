"""A recorded pass over several inputs, and the trace of each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from models.architectures import Model
from models.architectures.base import ORDER_FIELD, POSITIONS_FIELD, Answers
from models.runs.inputs import Texts
from models.tokenizers.base import Encoding, Tokenizer
from models.trace import Recording, RunModel, Trace, finish
from models.trace.edits import Edits, of_row


@dataclass(frozen=True)
class RecordedBatch:
    """Inputs, one a row, with the logits and the recording of their pass."""

    model: Model
    tokenizer: Tokenizer
    requests: Sequence[Texts]
    rows: Sequence[Mapping[str, Encoding]]
    answers: Answers
    recording: Recording
    edits: Edits = ()

    def traces(self, of: RunModel, *, padded: bool = False) -> list[Trace]:
        """Return a trace for each row, cut to its own tokens or `padded` to the longest row."""
        answers = {name: logits.float().cpu() for name, logits in self.answers.items()}
        return [
            self._trace(of, row, {name: logits[row] for name, logits in answers.items()}, padded)
            for row in range(len(self.rows))
        ]

    def _trace(self, of: RunModel, row: int, answers: Answers, padded: bool) -> Trace:
        model, streams = self.model, self.rows[row]
        values = self.requests[row]
        fields = self._fields(values)
        target_fields = [field.name for field in model.fields if field.stream == model.writes]
        is_given = any(fields[name] is not None for name in target_fields)
        outputs = model.outputs(answers, streams, self.tokenizer)
        edits = of_row(self.edits, row)
        # the text was generated without the edits, so it is not an answer of this run
        is_generated = model.can_write and not is_given and not edits
        output = (
            streams[model.writes].text
            if is_generated
            else model.answer(outputs, streams, self.tokenizer)
        )
        tokens = {
            name: self._tokens(name, e) if padded else e.tokens for name, e in streams.items()
        }
        activations, attention = finish(self.recording, tokens, row)
        return Trace(
            of,
            fields,
            dict(streams),
            outputs,
            output,
            is_given,
            activations,
            attention,
            edits,
            dict(self.recording.unrecorded),
        )

    def _fields(self, values: Texts) -> dict[str, Any]:
        """Return the values by field, with the hidden positions or order of an encoded text."""
        plain = [value.text if isinstance(value, Encoding) else value for value in values]
        fields = dict(zip_longest((field.name for field in self.model.fields), plain))
        for field, value in zip(self.model.fields, values, strict=False):
            if not isinstance(value, Encoding):
                continue
            chosen = {POSITIONS_FIELD: tuple(i for i, _ in value.hidden), ORDER_FIELD: value.order}
            for other in self.model.fields:
                if other.stream == field.stream and fields[other.name] is None:
                    fields[other.name] = chosen.get(other.kind) or None
        return fields

    def _tokens(self, stream: str, encoding: Encoding) -> tuple[str, ...]:
        """Return the tokens of a row, padded at the end to the longest of the batch."""
        n = max(len(row[stream].ids) for row in self.rows)
        fill = self.tokenizer.token(self.tokenizer.pad_id)
        return encoding.tokens + (fill,) * (n - len(encoding.tokens))
