"""Inputs of a model: fields encoded as streams of tokens, and errors by field."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import cast

from models.architectures.base import (
    IMAGE_FIELD,
    ORDER_FIELD,
    POSITIONS_FIELD,
    SOUND_FIELD,
    TEXT_FIELD,
    Field,
)
from models.errors import CheckpointError, InputError
from models.field_file import FieldFile
from models.images import ImageFile
from models.sounds import SoundFile
from models.tokenizers.base import Tokenizer
from models.tokenizers.encoding import Encoding, concatenate, with_special_tokens
from models.tokenizers.special_tokens import BERT_SPECIAL

FieldInput = (
    str | Encoding | Sequence[int] | None
)  # a text, an encoded text, or positions; None: absent
StreamLimit = Callable[[str], int]  # stream → its longest row, in tokens
Texts = Sequence[FieldInput]  # of the model's fields, in order; the last ones may be absent

MASK = BERT_SPECIAL["mask"]
# kind of a field whose value is a file → the file's class, and a function that makes one
_FILES = {
    IMAGE_FIELD: (ImageFile, "models.images.read"),
    SOUND_FIELD: (SoundFile, "models.sounds.read"),
}


def no_limit(stream: str) -> int:
    """Return a length that no row reaches."""
    return 10**9


def values_in_order(
    fields: Sequence[Field], values: Texts, by_name: Mapping[str, FieldInput], model: str
) -> Texts:
    """Return one value per field, from values in order and by name.

    Raises:
        TypeError: there are too many values, or the model has no such field.
    """
    names = [field.name for field in fields]
    if (
        len(values) > len(names)
        or by_name.keys() & set(names[: len(values)])
        or by_name.keys() - set(names)
    ):
        raise TypeError(
            f"{model} takes {', '.join(names)}, not {len(values)} texts and {', '.join(by_name) or 'no others'}"
        )
    return [*values, *(by_name.get(name) for name in names[len(values) :])]


def check_requests(requests: Sequence[Texts]) -> None:
    """Check that a batch holds inputs, each a list of values for the model's fields.

    Raises:
        ValueError: there is none, or one is a bare text.
    """
    if not requests:
        raise ValueError("a batch must hold at least one input")
    if bare := [texts for texts in requests if isinstance(texts, str)]:
        raise ValueError(f"each input of a batch must be a list of texts, got {bare[0]!r:.60}")


def check_complete(fields: Sequence[Field], values: Texts) -> None:
    """Check that all required fields are present.

    Raises:
        InputError: one is missing.
    """
    encoded = {
        field.stream
        for field, value in zip(fields, values, strict=False)
        if isinstance(value, Encoding)
    }
    needed = [field for field in fields if not field.optional and field.stream not in encoded]
    for field in needed:
        if values[fields.index(field)] is None:
            names = " and ".join(each.title for each in needed)
            raise InputError(f"the {field.title} is missing; this model needs {names}", field.name)


def encode_fields(
    fields: Sequence[Field], values: Texts, tokenizer: Tokenizer, limit: StreamLimit
) -> dict[str, Encoding]:
    """Return the tokens of each stream; one whose fields are all absent has none.

    Fields of one stream are concatenated. `limit` gives the longest row of each.

    Raises:
        InputError: a text is empty or too long, or a position holds no token.
    """
    streams: dict[str, Encoding] = {}
    for field, value in zip(fields, values, strict=False):
        # a separate text after another one
        follows = field.stream in streams and bool(field.segment or field.before)
        if value is None or (follows and field.optional and _is_blank(value)):
            continue
        if field.kind == POSITIONS_FIELD:
            positions = cast(Sequence[int], value)
            streams[field.stream] = _hide_positions(
                streams[field.stream], positions, tokenizer, field
            )
            continue
        if field.kind == ORDER_FIELD:
            streams[field.stream] = _with_order(
                streams[field.stream], cast(Sequence[int], value), field
            )
            continue
        make = _file_row if field.kind in _FILES else _row
        n_ctx = limit(field.stream)
        row = value if isinstance(value, Encoding) else make(value, field, tokenizer, n_ctx)
        streams[field.stream] = (
            concatenate(streams[field.stream], row, " " * follows)
            if field.stream in streams
            else row
        )
        _check_length(streams[field.stream], field, fields, n_ctx)
    for field in fields:
        if (
            field.closing
            and (row := streams.get(field.stream))
            and (mark := tokenizer.special(field.closing))
        ):
            streams[field.stream] = (
                row if _is_closed(row, mark[0]) else with_special_tokens(row, None, mark)
            )
            _check_length(streams[field.stream], field, fields, limit(field.stream))
    return streams


def _is_closed(row: Encoding, mark: int) -> bool:
    """Return True if a token is the last of a row, or among the special tokens at its end."""
    places = zip(reversed(row.ids), reversed(row.offsets), strict=True)
    return row.ids[-1] == mark or any(
        i == mark for i, _ in takewhile(lambda place: place[1] is None, places)
    )


def check_lengths(
    streams: Mapping[str, Encoding], fields: Sequence[Field], limit: StreamLimit
) -> None:
    """Check the length of each stream.

    Raises:
        InputError: a stream is longer than the model reads.
    """
    for name, row in streams.items():
        if len(row.ids) > (n_ctx := limit(name)):
            field = next((field.name for field in fields if field.stream == name), fields[0].name)
            raise InputError(
                f"the {name} has {len(row.ids)} tokens; this model reads at most {n_ctx}", field
            )


def field_warnings(fields: Sequence[Field], values: Texts, tokenizer: Tokenizer) -> dict[str, str]:
    """Return a note for each field whose text may not be read as intended."""
    if tokenizer.mask_id is not None:
        return {}
    texts = {
        f.name: value
        for f, value in zip(fields, values, strict=False)
        if f.kind == TEXT_FIELD and isinstance(value, str)
    }
    return {
        name: f"{MASK} is plain text here: this model has no such token"
        for name, text in texts.items()
        if MASK in text
    }


def _is_blank(value: FieldInput) -> bool:
    return isinstance(value, str) and not value.strip()


def _file_row(file: FieldInput, field: Field, tokenizer: Tokenizer, n_ctx: int) -> Encoding:
    file_class, read_function = _FILES[field.kind]
    if not isinstance(file, file_class):
        article = "an" if field.kind == IMAGE_FIELD else "a"
        raise InputError(
            f"the {field.title} must be {article} {field.kind} file, read by {read_function}",
            field.name,
        )
    encode = tokenizer.encode_image if field.kind == IMAGE_FIELD else tokenizer.encode_sound
    try:
        return encode(cast(str, file))
    except ValueError as error:
        raise InputError(f"the {field.title} cannot be read: {error}", field.name) from None


def _row(text: FieldInput, field: Field, tokenizer: Tokenizer, n_ctx: int) -> Encoding:
    if not isinstance(text, str) or isinstance(text, FieldFile):
        raise InputError(f"the {field.title} must be a text", field.name)
    if not text.strip():
        raise InputError(f"the {field.title} is empty; type some text", field.name)
    if len(text) > 20 * n_ctx:  # no need to tokenise what cannot fit
        message = f"the {field.title} has {len(text):,} characters; this model reads at most {n_ctx} tokens"
        raise InputError(message, field.name)
    try:
        row = tokenizer.encode(text, before=field.before, after=field.after)
    except CheckpointError:
        raise
    except ValueError as error:
        raise InputError(str(error), field.name) from None
    if not row.ids or (field.segment is not None and not any(row.offsets)):
        raise InputError(f"the {field.title} holds nothing that this model can read", field.name)
    return row if field.segment is None else replace(row, segments=(field.segment,) * len(row.ids))


def _hide_positions(
    row: Encoding, positions: Sequence[int], tokenizer: Tokenizer, field: Field
) -> Encoding:
    try:
        return tokenizer.hiding(row, positions)
    except ValueError as error:
        raise InputError(str(error), field.name) from None


def _with_order(row: Encoding, order: Sequence[int], field: Field) -> Encoding:
    n = len(row.ids)
    if sorted(order) != list(range(n)):
        raise InputError(
            f"the {field.title} must name each of the {n} tokens once, from 0 to {n - 1}",
            field.name,
        )
    return replace(row, order=tuple(order))


def _check_length(row: Encoding, field: Field, fields: Sequence[Field], n_ctx: int) -> None:
    n = len(row.ids)
    if n <= n_ctx:
        return
    texts = [
        each
        for each in fields[: fields.index(field) + 1]
        if each.stream == field.stream and each.kind == TEXT_FIELD
    ]
    if field.segment and len(texts) > 1:
        names = " and ".join(each.title for each in texts)
        raise InputError(
            f"{names} have {n} tokens together; this model reads at most {n_ctx}", field.name
        )
    raise InputError(
        f"the {field.stream} has {n} tokens; this model reads at most {n_ctx}", field.name
    )
