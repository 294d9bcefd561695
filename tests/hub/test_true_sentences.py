"""Sentences of the pages are compared with runs, over the shipped checkpoints and a transformers model of each kind."""

import re
from collections.abc import Callable
from functools import cache

import pytest
import torch
from drawn import letters
from small_runs import edited

import models
from models.analysis.joined_words import join_words
from models.layers.masks import LOOK_AHEAD, PADDING
from models.trace import AttentionSite, Trace
from models.trace.edits import MaskChange, for_kinds
from models.trace.outputs import ClassProbabilities, MaskedToken
from viz_app import words
from viz_app.drawing.labels import labels
from viz_app.drawing.weight_cell import WeightCell
from viz_app.input_bar.examples import example_choices
from viz_app.session.current_run import CurrentRun
from viz_app.views.decoding.text import does_not_write
from viz_app.views.inside import cell as inside_cell
from viz_app.views.inside.text import missing_parts
from viz_app.views.positions.distance import DistanceChoices, DistanceView, explain_distances
from viz_app.views.task.presentations import no_picture, presentation

TERMS = words.terms("")
HUB = [
    "GPT2LMHeadModel", "GPT2Model", "GPT2ForSequenceClassification", "LlamaForCausalLM", "MistralForCausalLM", "GPTNeoXForCausalLM",
    "Qwen2ForCausalLM", "OPTForCausalLM", "BertForMaskedLM", "BertForSequenceClassification", "RobertaForMaskedLM",
    "DistilBertForMaskedLM", "DistilBertForQuestionAnswering", "AlbertForMaskedLM", "ElectraForMaskedLM", "ModernBertForMaskedLM",
    "T5ForConditionalGeneration", "MarianMTModel", "BartForConditionalGeneration", "BloomForCausalLM", "DebertaV2ForMaskedLM",
    "XLNetForSequenceClassification",
]  # fmt: skip
SHIPPED = models.shipped()
IDS = "3 4 5 6 7 8 9 10 11 12 13 14"  # longer than any window of these models


Runs = Callable[[str], CurrentRun]


@pytest.fixture(scope="module")
def runs(hub_scope: Callable[[str], models.Scope]) -> Runs:
    @cache
    def run_of(name: str) -> CurrentRun:
        scope = hub_scope(name) if name in HUB else models.load(name, device="cpu")
        required = [field for field in scope.model.text_fields if not field.optional]
        asked = IDS if name in HUB else example_choices(scope)[0]
        if len(required) == 2:
            asked = scope.examples[0]
        return CurrentRun(scope, scope.run(*([asked] if isinstance(asked, str) else asked)))

    return run_of


def sites(trace: Trace) -> list[AttentionSite]:
    return list(trace.attention.values())


@pytest.mark.parametrize("name", [*SHIPPED, *HUB])
def test_the_sentence_on_what_may_be_read_matches_the_mask(runs: Runs, name: str) -> None:
    trace = runs(name).trace
    for site in sites(trace):
        said, allowed = words.where_from(site, TERMS), site.allowed(head=None)
        if not site.has_causes or site.query_stream != site.key_stream:
            continue
        others = [layer.allowed for layer in site.mask.layers if layer.name != PADDING]
        everything = all(bool(layer.all()) for layer in others)
        looks_back = any(layer.name == LOOK_AHEAD for layer in site.mask.layers)
        is_alone = site.n_query == 1  # for a translation that ends at once
        if not is_alone or looks_back:
            assert ("may attend to every other" in said) == (everything and not looks_back)
        assert ("comes after it (" in said) == (looks_back and site.stack == "decoder")
        if looks_back:
            assert not allowed.triu(1).any()
        if far := re.search(r"(?:up to|further back than) (\d+) tokens?", said):
            rows, keys = allowed.any(0).nonzero(as_tuple=True)
            assert int((rows - keys).abs().max()) == int(far[1])
        elif site.role == "self":
            n = site.n_query
            assert bool(allowed[:, n - 1, 0].all())  # nothing separates the ends


@pytest.mark.parametrize("name", [*SHIPPED, *HUB])
def test_the_stated_sum_of_a_row_is_that_of_its_weights(runs: Runs, name: str) -> None:
    for site in sites(runs(name).trace):
        sums = site.weights().sum(-1)
        empty = (sums == 0).all(0)
        torch.testing.assert_close(sums[:, ~empty], torch.ones_like(sums[:, ~empty]))
        said, n = words.how_to_read(site), int(empty.sum())
        whose = "its" if n == 1 else "their"
        assert (f"may attend to nothing. All {whose} weights are 0" in said) == (n > 0)
        if n:
            assert (
                f"except in the {'one row' if n == 1 else f'{n} rows'} that may attend to nothing"
                in said
            )


@pytest.mark.parametrize("name", [*SHIPPED, *HUB])
def test_the_axis_of_the_scores_names_their_formula(runs: Runs, name: str) -> None:
    """q·k is recomputed and multiplied as the axis says; if anything else is added, the axis names it."""
    run = runs(name)
    for site in sites(run.trace):
        if not site.has_causes or site.query_stream != site.key_stream or site.role == "alignment":
            continue
        axis = DistanceView(run, DistanceChoices(site.name, 0)).axes[1]
        assert all(term.name in axis for term in site.terms)
        group = site.n_heads // site.k.shape[1]
        q, k = site.q[0, 0].float(), site.k[0, 0 // group].float()
        rows = torch.arange(site.n_query)
        bare = site.scores(0) - sum(term.scores(0, rows, site.n_key) for term in site.terms)
        if root := re.search(r"q·k / √(\d+)", axis):
            made = q @ k.T / int(root[1]) ** 0.5
        elif cosine := re.search(r"([\d.]+) · cos\(q, k\)", axis):
            made = float(cosine[1]) * torch.nn.functional.cosine_similarity(
                q[:, None], k[None], dim=-1
            )
        elif times := re.search(r"([\d.]+) · q·k", axis):
            made = float(times[1]) * q @ k.T
        elif re.match(r"score q·k(,| \+)", axis):
            made = q @ k.T
        else:
            assert site.similarity.name in ("general", "additive")
            assert site.similarity.formula in axis
            continue
        torch.testing.assert_close(made, bare, rtol=5e-3, atol=1e-4)


@pytest.mark.parametrize("name", [*SHIPPED, *HUB])
def test_the_look_ahead_mask_is_said_to_hide_keys_only_if_there_are_some(
    runs: Runs, name: str
) -> None:
    run = runs(name)
    for site in sites(run.trace):
        if site.has_causes and site.query_stream == site.key_stream:
            view = DistanceView(run, DistanceChoices(site.name, 0))
            said = str(explain_distances(view.all_pairs, False, view.hidden))
            later = view.all_pairs.distance < 0
            if "look-ahead mask hides those" in said:
                assert not later.any()
                assert not site.allowed().triu(1).any()
                assert site.n_query > 1


def test_a_key_that_a_painted_mask_opens_is_not_said_to_be_hidden() -> None:
    scope = letters("gpt")
    run = edited(CurrentRun(scope, scope.run("abcde")), for_kinds(self=MaskChange(allow=((0, 4),))))
    name, n = "decoder.layers.0.self_attn", 6
    view = DistanceView(run, DistanceChoices(name, 0))
    lead, line = explain_distances(view.all_pairs, False, view.hidden)
    assert "look-ahead" not in line[1]
    assert f"all {n * n} pairs" in lead[1]
    assert view.all_pairs.distance.tolist() == list(range(1 - n, n))
    hidden = {}
    for query in (0, 2):
        cell = WeightCell(run.trace.attention[name], 0, query, 0)
        hidden[query] = inside_cell.cell_stages(run.trace, cell, run.terms)[0].sentence
    assert "a mask will hide 4 tokens" in hidden[0]
    assert "a mask will hide what comes after it" in hidden[2]


def test_one_token_of_xlnet_has_nothing_hidden_and_an_empty_row() -> None:
    scope = models.load("xlnet", device="cpu")
    trace = scope.run("a")
    n = len(trace.streams["text"].ids)
    for site in sites(trace):
        view = DistanceView(CurrentRun(scope, trace), DistanceChoices(site.name, 0))
        assert "look-ahead" not in str(explain_distances(view.all_pairs, False, view.hidden))
        if site.role == "query":
            assert int((site.weights(0).sum(-1) == 0).sum()) >= 1
            assert "the one row that may attend to nothing" in words.how_to_read(site)
    assert n >= 1


@pytest.mark.parametrize("name", [*SHIPPED, *HUB])
def test_the_answering_token_is_the_one_whose_vector_is_read(runs: Runs, name: str) -> None:
    run = runs(name)
    for output in run.trace.outputs.values():
        presented = presentation(output)
        if presented is None:
            said = no_picture(run.trace, output)
        else:
            said = presented.explanation(run.trace, output, run.scope.model.pair_output)
        if isinstance(output, ClassProbabilities):
            row = labels(run.trace.streams[output.stream])
            token = row[output.position]
            assert f"**The token that answers** is {token.text if token.special else '“'}" in said
            assert ("belongs to no word" in said) == token.special
            assert ("the last token" in said) == (output.position == len(row) - 1)
        if isinstance(output, MaskedToken):
            assert ("whether one text follows another" in said) == bool(run.scope.model.pair_output)
        if isinstance(output, MaskedToken) or presented is None:
            weights = [site.weights() for site in sites(run.trace)]
            everything = all(bool((w > 0).all()) for w in weights)
            assert ("attends to every other" in said) == everything
            assert ("both sides" in said) == any(bool(w.triu(1).any()) for w in weights)


def test_words_of_a_joined_row_come_from_the_tokens_queries_and_keys() -> None:
    """Merged words have weights only; that is not because their model's library withholds the rest."""
    trace = join_words(models.load("gpt", device="cpu").run("unbelievable stories"))
    for site in sites(trace):
        assert not site.has_causes
        assert "library" not in words.where_from(site, TERMS)


@pytest.mark.parametrize("name", ["LlamaForCausalLM", "OPTForCausalLM"])
def test_heads_that_share_a_key_are_counted(runs: Runs, name: str) -> None:
    for site in sites(runs(name).trace):
        shared, said = site.n_heads // site.k.shape[1], missing_parts(site)
        assert (f"{shared} heads read one key head" in said) == (shared > 1)


def test_a_product_with_a_bare_parameter_is_not_said_to_be_anything_else() -> None:
    """q = x @ W is x·W: the page may only say that this was not recognised."""

    class Attention(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = torch.nn.Embedding(128, 12)
            self.w = torch.nn.Parameter(torch.randn(3, 12, 12))

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            x = self.table(ids)
            q, k, v = ((x @ w).unflatten(-1, (2, 6)).transpose(1, 2) for w in self.w)
            return torch.nn.functional.scaled_dot_product_attention(q, k, v)

    scope = models.watch(Attention().eval(), encode=lambda typed: list(typed.encode("ascii")))
    (site,) = sites(scope.run("abc"))
    assert not site.projections
    assert "not recognised" in missing_parts(site)
    assert "are not x·W" not in missing_parts(site)


@pytest.mark.parametrize("name", [*SHIPPED, *HUB])
def test_a_model_that_does_not_write_reads_both_ways_only_if_a_weight_does(
    runs: Runs, name: str
) -> None:
    run = runs(name)
    if not run.scope.model.can_write:
        ahead = any(bool(site.weights().triu(1).any()) for site in sites(run.trace))
        assert ("both directions" in does_not_write(run.scope.model)) <= ahead
