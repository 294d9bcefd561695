"""What a person gives a model, field by field, as the rows of tokens that it reads; what cannot be read, and in which field."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from models.architectures.base import ORDER, POSITIONS, TEXT, Field
from models.errors import CheckpointError, InputError
from models.tokenizers.base import Tokenizer
from models.tokenizers.encoding import Encoding, concatenate, framed
from models.tokenizers.special_tokens import BERT

Value = (
    str | Encoding | Sequence[int] | None
)  # of a field: a text, an encoded one, or positions; None where it is left out
Texts = Sequence[Value]  # of the model's fields, in their order; the last ones may be left out

MASK = BERT["mask"]


def in_order(
    fields: Sequence[Field], values: Texts, named: Mapping[str, Value], model: str
) -> Texts:
    """One value for each field, of those in their order and those by name. Raises TypeError for what is no field."""
    names = [field.name for field in fields]
    if (
        len(values) > len(names)
        or named.keys() & set(names[: len(values)])
        or named.keys() - set(names)
    ):
        raise TypeError(
            f"{model} takes {', '.join(names)}, not {len(values)} texts and {', '.join(named) or 'no others'}"
        )
    return [*values, *(named.get(name) for name in names[len(values) :])]


def check_complete(fields: Sequence[Field], values: Texts) -> None:
    """Raises InputError where a field that is not optional was left out."""
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


def encoded(
    fields: Sequence[Field], values: Texts, tokenizer: Tokenizer, n_ctx: int
) -> dict[str, Encoding]:
    """The tokens of each stream; a stream whose fields are all left out has none. Fields of one stream follow each other.

    Raises InputError for an empty or too long text, or for a position that holds no token."""
    streams: dict[str, Encoding] = {}
    for field, value in zip(fields, values, strict=False):
        follows = field.stream in streams and bool(
            field.segment or field.before
        )  # a text of its own behind another
        if value is None or (follows and field.optional and _is_blank(value)):
            continue
        if field.kind == POSITIONS:
            streams[field.stream] = _hiding(streams[field.stream], value, tokenizer, field)
            continue
        if field.kind == ORDER:
            streams[field.stream] = _ordered(streams[field.stream], value, field)
            continue
        row = value if isinstance(value, Encoding) else _row(value, field, tokenizer, n_ctx)
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
                row if row.ids[-1] == mark[0] else framed(row, None, mark)
            )  # an encoded one has it
            _check_length(streams[field.stream], field, fields, n_ctx)
    return streams


def check_lengths(streams: Mapping[str, Encoding], fields: Sequence[Field], n_ctx: int) -> None:
    """Raise InputError for a stream, typed or made of typed ones, that is longer than the model reads."""
    for name, row in streams.items():
        if len(row.ids) > n_ctx:
            field = next((field.name for field in fields if field.stream == name), fields[0].name)
            raise InputError(
                f"the {name} has {len(row.ids)} tokens; this model reads at most {n_ctx}", field
            )


def warnings(fields: Sequence[Field], values: Texts, tokenizer: Tokenizer) -> dict[str, str]:
    """Field → what a person should know of the text there that can be read, but perhaps not as it is meant."""
    if tokenizer.mask_id is not None:
        return {}
    texts = {
        f.name: value
        for f, value in zip(fields, values, strict=False)
        if f.kind == TEXT and isinstance(value, str)
    }
    return {
        name: f"{MASK} is plain text here: this model has no such token"
        for name, text in texts.items()
        if MASK in text
    }


def _is_blank(value: Value) -> bool:
    return isinstance(value, str) and not value.strip()


def _row(text: str, field: Field, tokenizer: Tokenizer, n_ctx: int) -> Encoding:
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
    if field.segment is not None and not any(row.offsets):
        raise InputError(f"the {field.title} holds nothing that this model can read", field.name)
    return row if field.segment is None else replace(row, segments=(field.segment,) * len(row.ids))


def _hiding(
    row: Encoding, positions: Sequence[int], tokenizer: Tokenizer, field: Field
) -> Encoding:
    try:
        return tokenizer.hiding(row, positions)
    except ValueError as error:
        raise InputError(str(error), field.name) from None


def _ordered(row: Encoding, order: Sequence[int], field: Field) -> Encoding:
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
        if each.stream == field.stream and each.kind == TEXT
    ]
    if field.segment and len(texts) > 1:
        names = " and ".join(each.title for each in texts)
        raise InputError(
            f"{names} have {n} tokens together; this model reads at most {n_ctx}", field.name
        )
    raise InputError(
        f"the {field.stream} has {n} tokens; this model reads at most {n_ctx}", field.name
    )
