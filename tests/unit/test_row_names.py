"""Names of the rows of a picture: the token read and the token written there, where the model generates."""

from dataclasses import replace

import pytest
import torch
from drawn import letters

from models.tokenizers.encoding import Encoding, concatenate, with_special_tokens
from models.trace import Trace
from viz_app import words
from viz_app.drawing.labels import (
    axes_labels,
    labels,
    queries_are_written,
    shorten,
    step_labels,
    written_labels,
)

TERMS = words.terms("translation", ("en", "fr"))


@pytest.fixture(scope="module")
def traces() -> dict[str, Trace]:
    """For each family, a run whose texts have all-different letters."""
    return {
        "transformer": letters().run("abcde", "edc"), "attention only": letters("attention only").run("abcde", "edc"),
        "recurrent": letters("recurrent").run("abcde", "edc"), "gpt": letters("gpt").run("badce", None),
    }  # fmt: skip


def text(row: list) -> list[str]:
    return [label.text for label in row]


@pytest.mark.parametrize("family", ["transformer", "attention only", "recurrent"])
def test_a_decoders_rows_name_the_token_read_and_then_the_token_written(
    traces: dict[str, Trace], family: str
) -> None:
    """The token written is the one that the row's logits predict."""
    trace = traces[family]
    for site in trace.attention.values():
        rows, columns = axes_labels(trace, site)
        own = ["[start]", *"edc"] if site.key_stream == "target" else [*"abcde", "[end]"]
        assert text(columns) == own
        if site.query_stream == "source":
            assert rows == columns
            assert not queries_are_written(trace, site)
            continue
        assert queries_are_written(trace, site)
        assert text(rows) == ["[start] → e", "e → d", "d → c", "c → [end]"]
        assert len(rows) == site.n_query == len(trace.next_token.labels)
        tokenizer = letters().tokenizer
        for row, label in zip(rows, trace.next_token.labels, strict=True):
            (written,) = tokenizer.tokens([label])
            assert row.text.split(" → ")[1] == {"</s>": "[end]"}.get(written, written)


def test_the_last_row_of_a_text_to_continue_has_nothing_to_write(traces: dict[str, Trace]) -> None:
    trace = traces["gpt"]
    (first, *_) = trace.attention.values()
    rows, columns = axes_labels(trace, first)
    assert text(columns) == ["[start]", *"badce"]
    assert text(rows) == ["[start] → b", "b → a", "a → d", "d → c", "c → e", "e"]
    assert rows[-1] == columns[-1]


def test_rows_of_a_stream_that_does_not_generate_are_named_by_their_token(
    traces: dict[str, Trace],
) -> None:
    trace = replace(traces["gpt"], outputs={})
    for site in trace.attention.values():
        assert not queries_are_written(trace, site)
        assert axes_labels(trace, site)[0] == labels(trace.streams["text"])


def test_a_row_has_more_details_on_hover() -> None:
    row = Encoding("a漢", (1, 4, 3), ("<s>", "▁a", "<unk>"), (None, (0, 1), (1, 2)))
    unknown = "not in this model's vocabulary, read as <unk>"
    assert [label.as_json() for label in step_labels(row, is_closed=True)] == [
        ["[start] → a", "reading [start], writing a; [start]: special token <s>", False],
        ["a → 漢", f"reading a, writing 漢; 漢: {unknown}", False],
        ["漢 → [end]", f"reading 漢, writing [end]; 漢: {unknown}; [end]: special token </s>", False],
    ]  # fmt: skip
    empty = Encoding("", (1,), ("<s>",), (None,))
    assert [label.special for label in step_labels(empty, is_closed=True)] == [True]
    assert step_labels(empty, is_closed=False) == labels(empty)
    assert text(written_labels(row, is_closed=True)) == ["a", "漢", "[end]"]
    assert text(written_labels(row, is_closed=False)) == ["a", "漢"]


@pytest.mark.parametrize(("whole", "limit", "short"), [
    ("abcdefghijkl", 12, "abcdefghijkl"), ("abcdefghijklm", 12, "abcdef…ijklm"), ("a → b", 3, "a → b"),
    ("abcdefghij → k", 10, "abc…ij → k"), ("a → bcdefghijk", 10, "a → bcd…jk"), ("abcdef → ghijkl", 11, "ab…f → gh…l"),
])  # fmt: skip
def test_a_long_name_is_cut_so_that_both_its_tokens_stay(
    whole: str, limit: int, short: str
) -> None:
    assert shorten(whole, limit) == short


def test_the_text_beside_the_picture_explains_the_names_of_rows(traces: dict[str, Trace]) -> None:
    site = traces["transformer"].attention["decoder.layers.1.cross_attn"]
    assert (
        words.axes(site, TERMS, writes=True)[0] == "query (rows): the French so far, read → written"
    )
    assert words.axes(site, TERMS)[0] == "query (rows): the French so far"
    assert (
        words.axes(site, TERMS, writes=True)[1]
        == words.axes(site, TERMS)[1]
        == "key (columns): the English sentence"
    )
    assert "A → B" in words.how_to_read(site, writes=True)
    assert "→" not in words.how_to_read(site)
    assert words.axis_names(site, False) == "Rows: query, columns: key"
    assert words.axis_names(site, True) == "Rows: query (read → written), columns: key"


def test_the_name_of_a_row_belongs_to_its_weights(traces: dict[str, Trace]) -> None:
    """The weights of the row that writes d are those of a run that ends before d."""
    shorter = letters().run("abcde", "e")
    name = "decoder.layers.1.cross_attn"
    whole, cut = traces["transformer"].attention[name], shorter.attention[name]
    at = text(axes_labels(traces["transformer"], whole)[0]).index("e → d")
    torch.testing.assert_close(whole.weights(1)[at], cut.weights(1)[-1], rtol=1e-4, atol=1e-6)


def test_special_tokens_outside_the_known_list_are_named_as_such() -> None:
    word = Encoding("<|sep|> a", (3, 4), ("<|sep|>", "a"), ((0, 7), (8, 9)))
    row = with_special_tokens(word, (1, "<|startoftext|>"), (2, "<|im_end|>"))
    both = concatenate(row, row)
    assert [label.text for label in labels(row)] == ["[startoftext]", "<|sep|>", "a", "[im_end]"]
    assert [label.special for label in labels(both)] == [True, False, False, True] * 2
