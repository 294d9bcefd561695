"""Sub-words merged into words: the weights by a second route, A·W·B with both matrices written out, and the words by hand."""

import re
from copy import copy
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import tokenizers
import torch
from hub_models import BY_NAME, library_tokenizer
from small import random_gpt, random_model
from tokenizers import decoders, normalizers, pre_tokenizers
from tokenizers import models as algorithms
from torch import Tensor

import models
from models.analysis.checks import check_site
from models.analysis.joined_words import WordSite, is_joined, join_words, knows_words, word_starts
from models.checkpoint import Checkpoint
from models.layers.masks import Mask, MaskLayer
from models.runs.scope import Scope
from models.tokenizers import words
from models.tokenizers.base import Tokenizer
from models.trace import AttentionSite, Trace
from models.trace.edits import Edit, HeadOff, MaskChange, Patch, Where
from viz_app.drawing.labels import axes_labels, labels
from viz_app.drawing.overview import all_codes, overview
from viz_app.drawing.payload import unpack
from viz_app.drawing.pooling import pooled_weights
from viz_app.drawing.sites import blocked_bits, sharpest_head
from viz_app.drawing.stamp import facts
from viz_app.words import head_title, terms

SENTENCE, ANSWER = "the doggedness of unfathomable readers", "a reader of the unfathomable"


def scope_of(tokenizer: Tokenizer, *, writes: bool = True) -> Scope:
    make = random_gpt if writes else random_model
    model = make(vocab_size=tokenizer.vocab_size, n_ctx=101)
    return Scope(
        Checkpoint(Path("words"), model, tokenizer, {"task": "language"} if writes else {}),
        torch.device("cpu"),
    )


@pytest.fixture(scope="module")
def run() -> Trace:
    """A run of an encoder-decoder over sub-words."""
    trace = scope_of(Tokenizer.bpe(["the of a reader dog"] * 3, 140), writes=False).run(
        SENTENCE, ANSWER
    )
    assert any(
        len(row.pieces[i]) > 2 for row in join_words(trace).streams.values() for i in range(3)
    )
    return trace


def by_matrices(site: AttentionSite, rows: tuple[int, ...], columns: tuple[int, ...]) -> Tensor:
    """Return A·W·B in float64."""
    weights = site.weights().double()
    a, b = (
        torch.zeros(len(rows), site.n_query).double(),
        torch.zeros(site.n_key, len(columns)).double(),
    )
    for word, (first, end) in enumerate(pairwise([*rows, site.n_query])):
        a[word, first:end] = 1 / (end - first)
    for word, (first, end) in enumerate(pairwise([*columns, site.n_key])):
        b[first:end, word] = 1
    return a @ weights @ b


def test_the_weights_of_words_are_averages_of_rows_and_sums_of_columns(
    run: Trace,
) -> None:
    shown = join_words(run)
    assert list(shown.attention) == list(run.attention)
    for name, site in run.attention.items():
        found = shown.attention[name]
        rows, columns = (word_starts(row, run.model.tokenizer) for row in run.axes(site))
        assert (
            (found.n_query, found.n_key) == (len(rows), len(columns)) < (site.n_query, site.n_key)
        )
        assert (found.query_tokens, found.key_tokens) == tuple(
            row.tokens for row in shown.axes(site)
        )
        wanted = by_matrices(site, rows, columns)
        assert (found.weights() - wanted).abs().max() < 1e-6
        assert (found.weights().sum(-1) - 1).abs().max() < 1e-6
        assert (found.weights(2) - wanted[2]).abs().max() < 1e-6
        for part in (
            slice(1, 3),
            slice(2, 99),
            slice(None, None, 2),
            slice(1, None, 3),
            slice(0, 0),
        ):
            torch.testing.assert_close(
                found.weights(1, rows=part).double(), wanted[1, part], atol=1e-6, rtol=0
            )
            torch.testing.assert_close(
                found.weights(rows=part).double(), wanted[:, part], atol=1e-6, rtol=0
            )
        assert all(check.passed for check in check_site(found))


def test_words_get_the_same_number_if_all_their_tokens_are_the_same_in_both_texts() -> None:
    trace = scope_of(Tokenizer.bpe(["ab abc"] * 3, 140), writes=False).run(
        "the abxy ab abx", "a abxy abx"
    )
    rows = join_words(trace).streams.values()
    words = [(i, pieces) for row in rows for i, pieces in zip(row.ids, row.pieces, strict=True)]
    assert len({id(row) for row in rows}) == 2
    assert any(
        one[0] == other[0] and one != other for _, one in words for _, other in words
    )  # begin alike
    assert all((i == j) == (one == other) for i, one in words for j, other in words)
    shared = [set(row.ids) for row in rows]
    assert len(shared[0] & shared[1]) == 2


def test_a_word_belongs_to_the_text_of_its_tokens() -> None:
    trace = models.load("bert", device="cpu").run("She was unbelievably hungry.", "He was there.")
    (before, after) = trace.streams["text"], join_words(trace).streams["text"]
    starts = word_starts(before, trace.model.tokenizer)
    assert len(starts) < len(before.ids)
    assert after.segments == tuple(before.segments[i] for i in starts)
    assert set(after.segments) == {0, 1}


def test_only_the_requested_rows_are_computed(run: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    site, asked = next(iter(run.attention.values())), []
    found, own = join_words(run).attention[site.name], AttentionSite.weights
    monkeypatch.setattr(
        AttentionSite, "weights", lambda s, *given: asked.append(given) or own(s, *given)
    )
    found.weights(1, rows=slice(1, 3))
    starts = word_starts(run.streams["source"], run.model.tokenizer)
    assert asked == [(1, 0, slice(starts[1], starts[3]))]


def test_a_row_with_nothing_to_read_does_not_count_in_its_words_mean(run: Trace) -> None:
    site = run.attention["encoder.layers.0.self_attn"]
    first, second = word_starts(run.streams["source"], run.model.tokenizer)[1:3]
    assert second - first > 1
    allowed = torch.ones(1, 1, site.n_query, site.n_key, dtype=torch.bool)
    allowed[..., first, :] = False
    blind = replace(run, attention={site.name: replace(
        site, mask=Mask([MaskLayer("no row", allowed)])
    )})  # fmt: skip
    found = join_words(blind).attention[site.name]
    assert blind.attention[site.name].weights(0)[first].sum() == 0
    assert (found.weights().sum(-1) - 1).abs().max() < 1e-6
    own = blind.attention[site.name].weights(0, rows=slice(first + 1, second)).mean(0)
    assert (found.weights(0)[1, -1] - own[-1]).abs() < 1e-6


def test_a_word_may_read_another_where_any_of_its_tokens_may(run: Trace) -> None:
    for name, site in join_words(run).attention.items():
        tokens = run.attention[name]
        for q, (a, b) in enumerate(pairwise([*site.rows, tokens.n_query])):
            for k, (c, d) in enumerate(pairwise([*site.columns, tokens.n_key])):
                assert bool(site.allowed()[q, k]) == bool(tokens.allowed()[a:b, c:d].any())
                reasons = {
                    layer
                    for i in range(a, b)
                    for j in range(c, d)
                    for layer in tokens.blocked_by(i, j)
                }
                assert set(site.blocked_by(q, k)) == (set() if site.allowed()[q, k] else reasons)
    upper = join_words(run).attention["decoder.layers.0.self_attn"]
    assert (~upper.allowed()).sum() == upper.n_query * (upper.n_query - 1) // 2
    assert (blocked_bits(upper).numpy() > 0).sum() == upper.n_query * (upper.n_query - 1) // 2


def test_a_word_of_two_tokens_or_more_counts_and_names_them(run: Trace) -> None:
    counts = set()
    for row in join_words(run).streams.values():
        for label, pieces in zip(labels(row), row.pieces, strict=True):
            counts.add(len(pieces))
            named = re.fullmatch(r"(\d+) tokens: (.*)", label.note)
            assert bool(named) == (len(pieces) > 1)
            if named:
                assert int(named[1]) == len(named[2].split(", ")) == len(pieces)
                assert named[2].replace(", ", "").strip("·␣") == label.text.strip("·␣")
    assert {1, 2, 8} <= counts


def test_two_mask_layers_that_block_a_word_together_are_both_named() -> None:
    trace = scope_of(Tokenizer.bpe(["ab ab cd"] * 3, 140)).run("ab xy")
    site = next(iter(trace.attention.values()))
    starts = word_starts(trace.streams["text"], trace.model.tokenizer)
    first, n = starts[-1], site.n_query
    assert n - first > 1  # the tokens of "xy"
    layers = []
    for name, column in (("one", first), ("other", slice(first + 1, n))):
        allowed = torch.ones(1, 1, n, n, dtype=torch.bool)
        allowed[..., 0, column] = False
        layers.append(MaskLayer(name, allowed))
    masked = replace(site, mask=Mask(layers))
    found = join_words(replace(trace, attention={site.name: masked})).attention[site.name]
    assert found.blocked_by(0, found.n_key - 1) == ["one", "other"]
    assert found.blocked_by(1, found.n_key - 1) == []
    assert found.weights(0)[0, -1] == 0


def test_between_words_there_are_no_scores(run: Trace) -> None:
    site = next(iter(join_words(run).attention.values()))
    assert isinstance(site, WordSite)
    assert not site.has_causes
    with pytest.raises(ValueError, match="between words has no scores: they belong to tokens"):
        site.scores(0)
    with pytest.raises(ValueError, match="no head_out"):
        site.head_out(0)


# The words of each tokenizer


def spelled(tokenizer: Tokenizer, text: str) -> list[str] | None:
    found = tokenizer.words(text)
    return None if found is None else [text[slice(*place)].strip() for place in found]


def marked(pre_tokenizer: pre_tokenizers.PreTokenizer | None) -> tokenizers.Tokenizer:
    """Return a tokenizer like Llama's: ▁ for each space, from the normaliser or from a Metaspace that does not split."""
    pieces = ["<unk>", "▁", "▁a", "a", "b", "c", "▁ab", ".", "▁b", "\n"]
    backend = tokenizers.Tokenizer(
        algorithms.BPE({p: i for i, p in enumerate(pieces)}, [("▁", "a"), ("▁", "b"), ("▁a", "b")])
    )
    if pre_tokenizer is None:
        backend.normalizer = normalizers.Sequence(
            [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
        )
    else:
        backend.pre_tokenizer = pre_tokenizer
    backend.decoder = decoders.Metaspace()
    return backend


def test_each_tokenizer_defines_its_words() -> None:
    text = "Isn't unfathomable l'œuf 12?"
    assert spelled(Tokenizer.bpe(["a b"], 140), text) == [
        "Isn'",
        "t",
        "unfathomable",
        "l'",
        "œuf",
        "1",
        "2",
        "?",
    ]
    assert spelled(Tokenizer.byte_level(["a b"], 300), text) == [
        "Isn",
        "'t",
        "unfathomable",
        "l",
        "'",
        "œuf",
        "12",
        "?",
    ]
    assert spelled(Tokenizer.wordpiece(["a b'?12"], 200), text) == [
        "Isn",
        "'",
        "t",
        "unfathomable",
        "l",
        "'",
        "œuf",
        "12",
        "?",
    ]
    assert spelled(Tokenizer.characters("abnt"), text) is None
    for cut in (None, pre_tokenizers.Metaspace(split=False), pre_tokenizers.Metaspace(split=True)):
        assert [
            ("abc.  ab\nc a")[slice(*place)].strip()
            for place in words.word_spans(marked(cut), "abc.  ab\nc a")
        ] in (
            ["abc.", "ab", "c", "a"],
            ["abc.", "", "ab\nc", "a"],
        )


def test_a_tokenizer_without_words_or_signs_for_spaces_has_no_words() -> None:
    silent = tokenizers.Tokenizer(algorithms.BPE({"<unk>": 0, "a": 1, "b": 2, " ": 3}, []))
    assert words.word_spans(silent, "ab ab") is None
    alone = tokenizers.Tokenizer(algorithms.WordLevel({"<unk>": 0}, unk_token="<unk>"))
    alone.pre_tokenizer = pre_tokenizers.Split(tokenizers.Regex(r"[\s\S]"), behavior="isolated")
    assert words.word_spans(alone, "ab") is None


def test_special_and_hidden_tokens_stand_alone() -> None:
    scope = models.load("bert", device="cpu")
    row = scope.encode("She was [MASK] unbelievably hungry.")["text"]
    starts = word_starts(row, scope.tokenizer)
    parts = [row.tokens[a:b] for a, b in pairwise([*starts, len(row.ids)])]
    assert parts == [
        ("[CLS]",),
        ("she",),
        ("was",),
        ("[MASK]",),
        ("unb", "##el", "##ie", "##v", "##ably"),
        ("hungry",),
        (".",),
        ("[SEP]",),
    ]
    inside = scope.tokenizer.hiding(row, [row.tokens.index("##ie")])
    parts = [
        inside.tokens[a:b]
        for a, b in pairwise([*word_starts(inside, scope.tokenizer), len(row.ids)])
    ]
    assert parts[4:7] == [("unb", "##el"), ("[MASK]",), ("##v", "##ably")]


def test_a_typed_mask_stands_alone_even_where_a_sign_follows_it() -> None:
    scope = models.load("bert", device="cpu")
    tokenizer = copy(scope.tokenizer)
    tokenizer.words = lambda text: [
        found.span() for found in re.finditer(r"\S+", text)
    ]  # of Llama's kind
    row = scope.encode("She was [MASK].")["text"]
    assert [row.tokens[i] for i in word_starts(row, tokenizer)] == [
        "[CLS]",
        "she",
        "was",
        "[MASK]",
        ".",
        "[SEP]",
    ]
    row = scope.encode("She was hungry.")["text"]
    assert [row.tokens[i] for i in word_starts(row, tokenizer)] == [
        "[CLS]",
        "she",
        "was",
        "hungry",
        "[SEP]",
    ]


def test_the_words_of_two_texts_never_join() -> None:
    scope = models.load("bert", device="cpu")
    row = scope.encode("hungry", "hungry")["text"]
    bare = replace(
        row,
        **{
            name: tuple(v for v, o in zip(getattr(row, name), row.offsets, strict=True) if o)
            for name in ("ids", "tokens", "offsets", "segments")
        },
        text="hungryhungry",
    )
    bare = replace(bare, offsets=tuple((a - (a > 5), b - (a > 5)) for a, b in bare.offsets))
    starts = word_starts(bare, scope.tokenizer)
    assert [bare.segments[i] for i in starts] == [0, 1]


def test_a_folder_of_hugging_face_joins_by_its_own_tokenizer(tmp_path: Path) -> None:
    folder, case = tmp_path / "bert", BY_NAME["BertForMaskedLM"]
    folder.mkdir()
    library = library_tokenizer(folder, 53)
    replace(case, sizes=case.sizes | {"vocab_size": len(library) + 3}).save(folder)
    trace = models.load(folder, device="cpu").run("The doggy was [MASK] by the sea.")
    raw = library.backend_tokenizer.encode("The doggy was [MASK] by the sea.")
    own = [n for i, n in enumerate(raw.word_ids) if i == 0 or n is None or n != raw.word_ids[i - 1]]
    shown = join_words(trace)
    assert len(shown.streams["text"].tokens) == len(own) < len(raw.ids)
    assert [token.lower() for token in shown.streams["text"].tokens] == [
        "[cls]",
        "the",
        "doggy",
        "was",
        "[mask]",
        "by",
        "the",
        "sea",
        ".",
        "[sep]",
    ]
    ids = join_words(trace).streams["text"].ids
    assert ids[1] == ids[6]
    assert len(set(ids)) == len(ids) - 1
    BY_NAME["GPT2LMHeadModel"].save(tmp_path / "no tokenizer")
    numbers = models.load(tmp_path / "no tokenizer", device="cpu").run("7 11 13")
    assert not knows_words(numbers)
    with pytest.raises(
        ValueError, match="its tokenizer does not say which tokens belong to one word"
    ):
        join_words(numbers)


# Their labels and sentences


def test_a_word_is_labelled_by_its_text_and_on_hover_by_its_tokens() -> None:
    trace = models.load("gpt", device="cpu").run("The unbelievably hungry doggy")
    found = labels(join_words(trace).streams["text"])
    assert [label.text for label in found] == [
        "[start]",
        "The",
        "·unbelievably",
        "·hungry",
        "·doggy",
    ]
    assert found[2].note == "6 tokens: ·un, b, el, ie, v, ably"
    assert found[3].note == ""


def test_a_row_that_generates_is_named_by_the_word_read_and_the_next_token(
    run: Trace,
) -> None:
    trace = models.load("gpt", device="cpu").run("The unbelievably hungry doggy")
    shown = join_words(trace)
    site = next(iter(shown.attention.values()))
    queries, keys = axes_labels(shown, site)
    assert [label.text for label in queries] == [
        "[start] → The",
        "The → ·un",
        "·unbelievably → ·hungry",
        "·hungry → ·dog",
        "·doggy",
    ]
    assert [label.text for label in keys] == [
        "[start]",
        "The",
        "·unbelievably",
        "·hungry",
        "·doggy",
    ]
    assert (
        queries[2].note
        == "reading ·unbelievably, writing ·hungry; ·unbelievably: 6 tokens: ·un, b, el, ie, v, ably"
    )
    # the last row of the word is the one that generates the token in the label
    tokens = trace.streams["text"].tokens
    last = tokens.index("ably")
    assert axes_labels(trace, trace.attention[site.name])[0][last].text == "ably → ·hungry"
    closed = join_words(run)
    rows = axes_labels(closed, closed.attention["decoder.layers.0.cross_attn"])[0]
    assert rows[-1].text.endswith("→ [end]")
    assert len(rows) == len(closed.streams["target"].tokens)


def test_files_of_words_note_that_changes_are_counted_in_tokens(run: Trace) -> None:
    def changed(trace: Trace, edit: Edit) -> str:
        return facts(replace(trace, edits=(edit,)))["changed"]

    forbidden, off = (
        MaskChange(Where(kind="self"), block=((2, 0),)),
        HeadOff([*run.attention][0], 1),
    )
    cell = "self: forbidden (query, key) (2, 0)"
    assert changed(run, forbidden) == cell
    assert changed(join_words(run), forbidden) == f"{cell} (counted in tokens, not words)"
    at_position = replace(off, where=replace(off.where, queries=(1,)))
    name = changed(run, at_position)
    assert changed(join_words(run), at_position) == f"{name} (counted in tokens, not words)"
    fields = tuple(run.fields.values())
    whole_heads = (
        off,
        replace(off, baseline="mean"),
        Patch(off.where, of="head output", fields=fields),
    )
    for edit in whole_heads:  # whose names hold no token number
        assert changed(join_words(run), edit) == changed(run, edit)
    aligned = replace(whole_heads[-1], alignment=((1, 2),))
    assert "counted in tokens" in changed(join_words(run), aligned)


def test_pictures_and_files_note_that_sub_words_were_merged(run: Trace) -> None:
    shown, plain = join_words(run), terms("language")
    said = "sub-words merged into words: a row is the mean over the word's tokens, a column the sum over them"
    assert facts(shown)["words"] == said
    assert "words" not in facts(run)
    header, _ = unpack(overview(shown, plain, switches=True))
    assert (header["joined"], header["switches"], header["cannot"]) == (True, True, "")
    assert header["joins"] == f"S{said[1:]}."
    assert said in header["caption"]
    assert header["file"] == "words.words.all-heads"
    header, _ = unpack(overview(run, plain))
    assert (header["joined"], header["switches"]) == (False, False)
    assert header["file"] == "words.all-heads"
    site = next(iter(shown.attention.values()))
    assert is_joined(shown)
    assert not is_joined(run)
    assert "what each source word attends to" in head_title(site, 0, terms("translation"))


def test_the_small_pictures_are_those_of_the_weights(
    run: Trace, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = join_words(run)
    whole = all_codes(shown)
    first = next(iter(shown.attention.values()))
    codes = (1 + (first.weights() * 254).round()).masked_fill(~first.allowed(head=None), 0)
    np.testing.assert_array_equal(whole[0].codes[0], codes.numpy().astype(np.uint8))
    monkeypatch.setattr("viz_app.drawing.overview.MAX_WEIGHTS_AT_ONCE", 3)
    for one, other in zip(whole, all_codes(shown), strict=True):
        np.testing.assert_array_equal(one.codes, other.codes)
        np.testing.assert_allclose(one.largest, other.largest, rtol=1e-5)
    two = pooled_weights(first, 1, 2)
    assert two[0, 0] == first.weights(1)[:2, :2].max()
    name, head = sharpest_head(shown)
    best = max(
        (float(s.weights(h).amax(-1).mean()), s.name, h)
        for s in shown.attention.values()
        if s.kind == "cross"
        for h in range(s.n_heads)
    )
    assert (name, head) == best[1:]
