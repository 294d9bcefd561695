"""The app's names for each kind of attention: titles, axes, positions counted from 1, and the sources of queries, keys and values."""

import re
from dataclasses import replace
from html import escape

import pytest
import torch
from drawn import letters

import models
from models.analysis.joined_words import join_words
from models.layers.masks import LOOK_AHEAD, Mask, MaskLayer, SiteKind
from models.layers.similarity import SIMILARITIES, LearnedSimilarity
from models.trace import AttentionSite
from models.trace.edits import (
    Edit,
    HeadOff,
    MaskChange,
    SetWeights,
    Where,
    ZeroValue,
    for_kinds,
)
from viz_app import words
from viz_app.drawing.labels import Label
from viz_app.views.inside.text import heads_title, token_names

TERMS = words.terms("translation", ("en", "fr"))
ENCODER, DECODER, CROSS = (
    "encoder.layers.0.self_attn",
    "decoder.layers.1.self_attn",
    "decoder.layers.1.cross_attn",
)
ENGLISH, FRENCH = "the English sentence", "the French so far"

# By hand: name of the site, title, short title, streams, its layer, its third head, query axis, key axis
TABLE = {
    ENCODER: (
        "Encoder self-attention", "Encoder self", "the English sentence → itself", "Encoder layer 1", "Encoder layer 1, head 3",
        "what each English token attends to in the English sentence", ENGLISH, ENGLISH, "English token", "English token",
    ),
    DECODER: (
        "Decoder masked self-attention", "Decoder self", "the French so far → itself", "Decoder layer 2",
        "Decoder layer 2, head 3", "what each French token attends to in the French so far", FRENCH, FRENCH, "French token",
        "French token",
    ),
    CROSS: (
        "Cross-attention", "Cross", "the French so far → the English sentence", "Decoder layer 2", "Decoder layer 2, head 3",
        "what each French token attends to in the English sentence", FRENCH, ENGLISH, "French token", "English token",
    ),
    "decoder.alignment": (
        "Alignment", "Alignment", "the French so far → the English sentence", "Decoder, alignment", "Decoder, alignment",
        "what each French token attends to in the English sentence", FRENCH, ENGLISH, "French token", "English token",
    ),
}  # fmt: skip


def test_the_first_use_of_each_technical_term_is_explained_on_hover() -> None:
    question, answer = words.annotate(
        "Inside a head: <b>?", "Heads & tokens: a token, two heads, a query, tokens."
    )
    assert question == "Inside a <abbr>head</abbr>: &lt;b&gt;?"
    assert (
        answer
        == "Heads &amp; <abbr>tokens</abbr>: a token, two heads, a <abbr>query</abbr>, tokens."
    )
    for name, meaning in words.GLOSSARY.items():
        assert f'<dt class="word">{name}</dt><dd>{escape(meaning)}</dd>' in words.glossary_html()


def test_a_model_without_snapshots_says_why_it_has_no_slider() -> None:
    assert words.no_snapshots([0, 500]) == ""
    assert words.no_snapshots([]).endswith("this model kept only its final weights.")


@pytest.fixture(scope="module")
def sites() -> dict[str, AttentionSite]:
    transformer, recurrent = (
        letters().run("abcde", "edc").attention,
        letters("recurrent").run("abcde", "edc").attention,
    )
    (alignment,) = recurrent.values()
    return {**transformer, "decoder.alignment": alignment}


@pytest.mark.parametrize("name", TABLE)
def test_each_kind_of_attention_by_its_own_words(
    sites: dict[str, AttentionSite], name: str
) -> None:
    site = sites[name]
    title, short, subtitle, layer, head, reads, query, key, reader, read = TABLE[name]
    assert words.kind_title(site) == title
    assert words.kind_short(site) == short
    assert words.kind_subtitle(site, TERMS) == subtitle
    assert words.layer_place(site) == layer
    assert words.head_place(site, 2) == head
    assert words.head_title(site, 2, TERMS) == f"{head}: {reads}"
    assert words.axes(site, TERMS) == (f"query (rows): {query}", f"key (columns): {key}")
    assert token_names(site, TERMS) == (reader, read)


def test_a_kind_without_a_title_of_its_own_is_named_by_stack_role_and_streams() -> None:
    named = {
        ("encoder", "content"): ("Content stream", "Content"),
        ("encoder", "query"): ("Query stream", "Query"),
        ("decoder", "memory"): ("Decoder memory attention: b → a", "Decoder memory"),
        ("encoder", "cross"): ("Encoder cross-attention: b → a", "Encoder cross"),
    }
    for (stack, role), titles in named.items():
        kind = SiteKind("x", stack, role, query_stream="b", key_stream="a")
        assert (kind.title, kind.short) == titles


def test_the_first_head_of_the_first_layer_is_called_1(sites: dict[str, AttentionSite]) -> None:
    assert words.head_place(sites["decoder.layers.0.cross_attn"], 0) == "Decoder layer 1, head 1"
    assert words.head_place(sites[ENCODER], 1) == "Encoder layer 1, head 2"


def test_two_streams_of_one_layer_have_names_of_their_own() -> None:
    sites = models.load("xlnet", device="cpu").run("Two.").attention.values()
    places = {words.head_place(site, 2) for site in sites}
    assert len(places) == len(sites)
    assert {"Content stream, layer 1, head 3", "Query stream, layer 1, head 3"} <= places
    (query,) = (site for site in sites if (site.role, site.layer) == ("query", 1))
    assert heads_title(query, TERMS, Label("Two")).startswith("Query stream, layer 2: what")


def test_a_cross_attention_without_layers_has_its_own_name() -> None:
    for site in letters("attention only").run("abcde", "edc").attention.values():
        if not any(part.isdigit() for part in site.name.split(".")):
            assert words.layer_place(site) == {"cross": "Decoder, cross-attention"}[site.kind]


@pytest.mark.parametrize("name", [ENCODER, DECODER, CROSS])
def test_queries_keys_and_values_come_from_the_texts_that_the_streams_name(
    sites: dict[str, AttentionSite], name: str
) -> None:
    """In the order they are named, each term for Q, K and V is followed by the text it is made from."""
    text = {"source": ENGLISH, "target": FRENCH}
    query, key = (text[stream] for stream in (sites[name].query_stream, sites[name].key_stream))
    said = words.where_from(sites[name], TERMS)
    parts = (
        re.split(r"(?=Queries \*\*Q|keys \*\*K)", " ".join(said.split(". ")[:2]))
        if query != key
        else [said, said, said]
    )
    assert query in parts[1]
    assert key in parts[2]
    if query != key:
        assert key not in parts[1]
        assert query not in parts[2]
        assert "**V** come" in parts[2]
        assert "(the decoder)" in parts[1]
    for letter, word in (("Q", "Queries"), ("K", "keys"), ("V", "values")):
        assert f"{word} **{letter}**" in said


def test_only_the_decoders_self_attention_is_said_to_be_hatched(
    sites: dict[str, AttentionSite],
) -> None:
    said = {name: words.where_from(sites[name], TERMS) for name in TABLE}
    assert [name for name in said if "hatched" in said[name]] == [DECODER]
    assert [name for name in said if "both directions" in said[name]] == [ENCODER]
    assert "s(i−1)" in said["decoder.alignment"]
    assert said["decoder.alignment"].index("s(i−1)") < said["decoder.alignment"].index("h(j)")
    assert "one for each English token" in said["decoder.alignment"]


@pytest.mark.parametrize(
    ("edit", "sets_weights", "changes_mixture"),
    [
        (None, False, False),
        (HeadOff(Where(site=CROSS, heads=(0,))), False, True),
        (ZeroValue(Where(site=CROSS), token=0), False, True),
        (SetWeights(Where(site=CROSS, heads=(0,)), cells=((0, 1.0),)), True, False),
    ],
)
def test_an_edit_of_weights_or_of_their_mixture_is_named(
    edit: Edit | None, sets_weights: bool, changes_mixture: bool
) -> None:
    run = letters().run("abc", "edc", edits=[edit] if edit else [])
    told = words.how_to_read(run.attention[CROSS])
    assert (", unless an edit sets them." in told) == sets_weights
    assert (", unless an edit changes it." in told) == changes_mixture


def test_an_edit_of_weights_is_named_beside_joined_words() -> None:
    gpt, name = models.load("gpt", device="cpu"), "decoder.layers.0.self_attn"
    edits = [SetWeights(Where(site=name), cells=((0, 1.0),))]
    for one, is_named in ((edits, True), ([], False)):
        site = join_words(gpt.run("unbelievable stories", edits=one)).attention[name]
        assert (", unless an edit sets them." in words.how_to_read(site)) == is_named


def test_a_window_of_one_token_is_counted_as_one() -> None:
    gpt, window = letters("gpt"), MaskChange(preset="window", k=1)
    for change, width in (
        (window, "further back than 1 token."),
        (replace(window, removed_layers=(LOOK_AHEAD,)), "up to 1 token away"),
    ):
        run = gpt.run("abcde", edits=for_kinds(self=change))
        assert width in words.where_from(next(iter(run.attention.values())), TERMS)


def test_formulas_of_the_similarities() -> None:
    assert (
        words.formula(letters("recurrent").run("ab", "b").attention["decoder.alignment"])
        == "v·tanh(W s(i−1) + U h(j))"
    )
    own = letters()
    site = own.run("ab", "b").attention[CROSS]
    assert words.formula(site) == "q·k / √5"
    for name in ("dot", "general", "additive"):
        swapped = own.with_similarity(name).run("ab", "b").attention[CROSS]
        assert words.formula(swapped) == swapped.similarity.formula
        assert "√" not in words.formula(swapped)
    cosine = letters(similarity="cosine").run("ab", "b").attention[CROSS]
    t = float(torch.exp(cosine.similarity.learned["log_t"]))
    assert words.formula(cosine) == f"{t:.3g} · cos(q, k)"


def test_only_a_row_that_is_empty_in_every_head_is_called_empty(
    sites: dict[str, AttentionSite],
) -> None:
    site = sites[ENCODER]
    allowed = torch.zeros(1, site.n_heads, site.n_query, site.n_key, dtype=torch.bool)
    for head in range(site.n_heads):
        allowed[0, head, :, head] = True  # no key is open to two heads
    for closed, said in (
        (0, ""),
        (1, ", except in the one row that"),
        (2, ", except in the 2 rows that"),
    ):
        allowed[0, :, :closed] = False
        masked = replace(site, mask=Mask([MaskLayer("own", allowed)]))
        explained = words.how_to_read(masked)
        assert f"they add up to 1{said}" in explained
        assert ("except" in explained) == bool(closed)


def test_a_row_is_described_as_the_softmax_of_its_formula(sites: dict[str, AttentionSite]) -> None:
    assert r"$\mathrm{softmax}\left(\frac{q\cdot k}{\sqrt{5}}\right)$ over" in words.how_to_read(
        sites[CROSS]
    )
    assert r"$\text{weights}\cdot V$" in words.how_to_read(sites[CROSS])
    assert r"\left(v\cdot \tanh(W s_{i-1} + U h_j)\right)$" in words.how_to_read(
        sites["decoder.alignment"]
    )
    assert r"$\sum_j \text{weight}_j\, h_j$" in words.how_to_read(sites["decoder.alignment"])


# terms of a task


def test_terms_of_each_task() -> None:
    assert {name: (stream.text, stream.token) for name, stream in TERMS.streams.items()} == {
        "source": (ENGLISH, "English token"), "target": (FRENCH, "French token"),
    }  # fmt: skip
    assert (TERMS.source, TERMS.of("source").token) == (ENGLISH, "English token")
    assert (TERMS.target, TERMS.of("target").token) == (FRENCH, "French token")
    assert TERMS.labels == {"source": "English sentence", "target": "French sentence"}
    dates = words.terms("dates", ("en", "fr"))
    assert (dates.of("source").text, dates.of("source").token) == (
        "the date as written",
        "character of the written date",
    )
    assert (dates.of("target").text, dates.of("target").token) == (
        "the ISO date so far",
        "character of the ISO date",
    )
    assert (dates.label("source"), dates.label("target"), dates.aligned) == (
        "Date, in any format",
        "ISO date",
        "dates-bahdanau",
    )
    plain = words.terms("translation", ("en",))
    assert (plain.source, plain.of("source").token) == ("the source sentence", "source token")
    assert (plain.target, plain.of("target").token) == (
        "the translation so far",
        "translated token",
    )
    assert (plain.label("source"), plain.label("target"), plain.aligned) == (
        "Sentence",
        "Translation",
        "eng-fra-bahdanau",
    )
    language = words.terms("language")
    assert (language.of("text").text, language.of("text").token) == ("the text", "token")
    assert (language.label("text"), language.label("continuation")) == ("Text", "What follows")
    assert (plain.of("text").text, plain.of("text").token, plain.label("text")) == (
        "the text",
        "token",
        "Text",
    )


@pytest.mark.parametrize(("codes", "source", "target"), [
    ("fr en", "French", "English"), ("de es", "German", "Spanish"), ("it xyz", "Italian", "xyz"),
])  # fmt: skip
def test_languages_are_named_in_the_order_of_the_record(
    codes: str, source: str, target: str
) -> None:
    terms = words.terms("translation", codes.split())
    assert (terms.source, terms.target) == (f"the {source} sentence", f"the {target} so far")
    assert (terms.of("source").token, terms.of("target").token) == (
        f"{source} token",
        f"{target} token",
    )
    assert (terms.label("source"), terms.label("target")) == (
        f"{source} sentence",
        f"{target} sentence",
    )


# numbers in sentences


def test_the_length_of_a_text_in_words() -> None:
    assert words.length_note(["a", "b", "c"], 37, []) == "3 of at most 37 tokens."
    assert (
        words.length_note(["a"], 37, ["漢", "字"])
        == "1 of at most 37 tokens. Not in the vocabulary: 漢 字"
    )
    assert (
        words.length_note([], 5, ["x" * 99])
        == f"0 of at most 5 tokens. Not in the vocabulary: {'x' * 40}"
    )


@pytest.mark.parametrize(("metric", "value", "said"), [
    ("held-out exact match", 99.456, "99.46 %"), ("held-out BLEU", 45.2712, "45.27"), ("exact match", 0.0, "0 %"),
    ("exact match", 0.7, "0.7 %"), ("accuracy on other periods", 99.4, "99.4 %"), ("share of the exact gain", 87.254, "87.25 %"),
    ("accuracy", 100.0, "100 %"), ("accuracy", 99.998, ">99.99 %"), ("accuracy", 0.001, "<0.01 %"),
    ("text perplexity", 1955.124, "1955.12"), ("left to right nats per token", 4.7337, "4.73"), ("bits per token", 5.9909, "5.99"),
    ("nats per letter", 0.00213, "0.0021"), ("induction score", 0.0, "0"),
])  # fmt: skip
def test_a_score_has_the_unit_of_its_metric(metric: str, value: float, said: str) -> None:
    assert words.format_score(metric, value) == said


@pytest.mark.parametrize("languages", [["en"], [], ["en", "fr", "de"]])
def test_languages_are_named_only_for_two(languages: list[str]) -> None:
    assert words.terms("translation", languages) == words.terms("translation")


def test_the_place_of_training_is_mentioned_once() -> None:
    data = {"file": "pairs.tsv", "documents": {"train": 4321}}
    said = words.training_summary({"step": 4000, "data": data})
    assert "Trained for 4,000 steps on 4,321 documents." in said
    one = words.training_summary({"step": 1, "data": {"documents": {"train": 1}}})
    assert "Trained for 1 step on 1 document." in one
    assert "pairs.tsv" not in said
    assert "Trained for 7 steps." in words.training_summary({"step": 7, "data": {}})


def test_models_that_were_trained_for_longer_are_named_first() -> None:
    assert words.unequal_training({"a": 5, "b": 7, "c": 7, "d": 1}) == (
        "Caution: training length differs (b and c for 7 steps; a for 5 steps; d for 1 step). "
        "This may explain part of the gap."
    )
    assert words.unequal_training({"a": 5, "b": 5}) == ""


def test_an_untrained_model_is_distinguished_from_one_without_a_record() -> None:
    assert words.training_brief("x", {"step": 0}) == "x, not trained"
    assert words.training_brief("x", {}) == "x, training not recorded"
    assert words.training_brief("x", {"step": 1, "scores": {"BLEU": 3.0}}) == "x, 1 step, BLEU 3"


# another similarity on the same weights


@pytest.mark.parametrize("name", SIMILARITIES)
def test_initial_values_of_an_untrained_similarity_are_stated_and_correct(name):
    torch.manual_seed(3)
    first, second = (dict(LearnedSimilarity(name, 7, 7, 5).named_parameters()) for _ in range(2))
    said = words.training_of_swapped({"step": 1500}, "scaled dot", name)
    measured = f"Trained for 1,500 steps. That was with the scaled dot similarity. No score was measured with {name}, which is used here."
    if not first:
        assert said == measured
        return
    never = f" The {name} similarity's own parameters are untrained: "
    assert said.startswith(measured + never)
    begun = said.removeprefix(measured + never)
    assert re.findall(r"\bt\b|[MWUv]\b", begun)[: len(first)] == [
        {"log_t": "t"}.get(own, own) for own in first
    ]
    drawn = any(not torch.equal(first[own], second[own]) for own in first)
    assert ("drawn at random" in begun) == drawn
    if name == "cosine":
        assert float(first["log_t"].detach().exp()) == pytest.approx(
            float(begun[:-1].split(" is ")[1])
        )
    if name == "general":
        assert begun == "M is I/√d, which gives the scaled dot product."
        torch.testing.assert_close(first["M"].detach(), torch.eye(7) / 7**0.5)


def test_a_short_sound_is_not_said_to_last_0_seconds() -> None:
    assert words.frames_note(0.03, 1, 1, 0.02) == "0.03 s: 1 frame of 20 ms."
    assert words.frames_note(0.5, 25, 100, 0.02) == "0.5 s: 25 frames of 20 ms, then 75 of silence."
    assert [words.duration(seconds) for seconds in (0.0204, 0.4, 2.0)] == [
        "0.02 s",
        "0.4 s",
        "2.0 s",
    ]
