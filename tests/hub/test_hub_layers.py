"""The part that each sublayer adds in Hugging Face models: against the library's hidden states, hooks on its modules, and its own
output path."""

import copy
import csv
import importlib
import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from drawn import on_screen
from hub_models import BY_NAME, Case
from tiny_architectures import save

import models
from models import Scope, Trace
from models.analysis.direct_logits import logit_parts
from models.analysis.layer_parts import check_parts, logit_lens, sublayer_effects
from models.hub import layer_map, layouts, readers
from models.hub.layer_map import LayerMap
from models.layers.sublayers import FEED_FORWARD, Sublayer
from viz_app import words
from viz_app.drawing.payload import unpack
from viz_app.session.current_run import CurrentRun
from viz_app.views.layer import files, text
from viz_app.views.layer.payloads import firing_sentence, layer_payloads, recording_error
from viz_app.views.layer.token_view import LayerChoices, clicked_token, token_view

LONG, POSITION = "5 6 7 8 9 10 11 12 14 16 18", 4


def with_sizes(name: str, **sizes: Any) -> Case:
    return replace(BY_NAME[name], sizes=BY_NAME[name].sizes | sizes)


# name → the case, how its norm stands, what its norm is, its activation
KNOWN: dict[str, tuple[Case, str, str, str]] = {
    "GPT-2": (BY_NAME["GPT2LMHeadModel"], "pre", "LayerNorm", "gelu tanh"),
    "Llama": (BY_NAME["LlamaForCausalLM"], "pre", "RMSNorm", "silu"),
    "Mistral": (BY_NAME["MistralForCausalLM"], "pre", "RMSNorm", "silu"),
    "Qwen 2": (BY_NAME["Qwen2ForCausalLM"], "pre", "RMSNorm", "silu"),
    "Qwen 3": (BY_NAME["Qwen3ForCausalLM"], "pre", "RMSNorm", "silu"),
    "GPT-NeoX": (BY_NAME["GPTNeoXForCausalLM"], "pre", "LayerNorm", "gelu"),
    "GPT-NeoX one after the other": (
        with_sizes("GPTNeoXForCausalLM", use_parallel_residual=False),
        "pre",
        "LayerNorm",
        "gelu",
    ),
    "OPT": (BY_NAME["OPTForCausalLM"], "pre", "LayerNorm", "relu"),
    "OPT post-LN": (
        with_sizes("OPTForCausalLM", do_layer_norm_before=False),
        "post",
        "LayerNorm",
        "relu",
    ),
    "BERT": (BY_NAME["BertForMaskedLM"], "post", "LayerNorm", "gelu"),
    "BERT alone": (BY_NAME["BertModel"], "post", "LayerNorm", "gelu"),
    "RoBERTa": (BY_NAME["RobertaForMaskedLM"], "post", "LayerNorm", "gelu"),
    "DistilBERT": (BY_NAME["DistilBertForMaskedLM"], "post", "LayerNorm", "gelu"),
    "ELECTRA": (BY_NAME["ElectraForMaskedLM"], "post", "LayerNorm", "gelu"),
    "T5": (BY_NAME["T5ForConditionalGeneration"], "pre", "RMSNorm", "relu"),
    "T5 gated": (
        with_sizes("T5ForConditionalGeneration", feed_forward_proj="gated-gelu"),
        "pre",
        "RMSNorm",
        "gelu tanh",
    ),
    "Marian": (BY_NAME["MarianMTModel"], "post", "LayerNorm", "gelu"),
    "BART": (BY_NAME["BartForConditionalGeneration"], "post", "LayerNorm", "gelu"),
}
GATED = {"Llama", "Mistral", "Qwen 2", "Qwen 3", "T5 gated"}
WRITING = [
    name for name in KNOWN if not name.startswith(("BERT", "RoBERTa", "DistilBERT", "ELECTRA"))
]


@pytest.fixture(scope="module")
def opened(
    tmp_path_factory: pytest.TempPathFactory, hub_scope: Callable[[str], Scope]
) -> Callable[[str], Scope]:
    """A function that returns a model by name, saved and opened on first use."""
    root = tmp_path_factory.mktemp("layers")

    @cache
    def scope(name: str) -> Scope:
        case = KNOWN[name][0]
        if BY_NAME.get(case.model) is case:
            return hub_scope(case.model)
        case.save(root / name)
        return models.load(root / name, device="cpu")

    return scope


def run(scope: Scope) -> Trace:
    return scope.run(*(LONG, "3 4 9 7 20 21")[: len(scope.model.streams)])


@torch.no_grad()
def library(scope: Scope, trace: Trace) -> Any:
    rows = (torch.tensor([trace.streams[stream].ids]) for stream in scope.model.streams)
    names = ("input_ids", "decoder_input_ids")
    return scope.model.module(**dict(zip(names, rows, strict=False)), output_hidden_states=True)


def hidden(made: Any, stream: str) -> list[torch.Tensor]:
    name = {
        "text": "hidden_states",
        "source": "encoder_hidden_states",
        "target": "decoder_hidden_states",
    }[stream]
    return [state[0] for state in made[name]]


def test_a_generating_model_whose_head_is_more_than_a_matrix_shows_its_stream(
    tmp_path: Path,
) -> None:
    sizes = BY_NAME["ElectraForMaskedLM"].sizes | {"is_decoder": True}
    Case("ElectraForCausalLM", "ElectraConfig", sizes).save(tmp_path)
    scope = models.load(tmp_path, device="cpu")
    trace = run(scope)
    made = library(scope, trace)
    states = [trace.activations[part.after].value[0] for part in scope.model.sublayers]
    torch.testing.assert_close(states[1::2], hidden(made, "text")[1:])
    lens = logit_lens(scope.model, list(states[-1]))
    torch.testing.assert_close(lens, made.logits[0].log_softmax(-1), atol=2e-5, rtol=1e-5)
    with pytest.raises(ValueError, match="not a linear reading"):
        logit_parts(scope.model, trace, 5, 6, POSITION)


@pytest.mark.parametrize("name", KNOWN)
def test_the_stream_between_layers_is_the_librarys_hidden_states(opened, name: str) -> None:
    scope = opened(name)
    trace = run(scope)
    made = library(scope, trace)
    assert tuple(dict.fromkeys(s.stream for s in scope.model.sublayers)) == scope.model.streams
    for stream in scope.model.streams:
        states = hidden(made, stream)
        found = sublayer_effects(scope.model, trace, stream, POSITION)
        per_layer = len(found) // scope.config.n_layers
        assert [p.sublayer.layer for p in found] == [
            n for n in range(scope.config.n_layers) for _ in range(per_layer)
        ]
        assert [p.sublayer.role for p in found[:per_layer]] == [
            "self",
            *["cross"] * (stream == "target"),
            "feed-forward",
        ]
        for layer in range(scope.config.n_layers):
            first, last = found[layer * per_layer], found[(layer + 1) * per_layer - 1]
            torch.testing.assert_close(first.before, states[layer][POSITION])
            behind = (
                last.after
                if layer + 1 < scope.config.n_layers or scope.model.layer_map.last_norm() is None
                else None
            )
            if behind is not None and not (
                stream == "source" and name.startswith("T5") and layer + 1 == scope.config.n_layers
            ):
                torch.testing.assert_close(behind, states[layer + 1][POSITION])


@pytest.mark.parametrize("name", KNOWN)
def test_the_numbers_of_a_part_are_the_inputs_and_outputs_of_its_modules(opened, name: str) -> None:
    """Hooks in an unrecorded pass give W₁'s product, the input of the product after the activation, and the norm."""
    scope = opened(name)
    trace, seen = run(scope), {}
    _, norm, norm_name, activation = KNOWN[name]
    modules = dict(scope.model.module.named_modules())

    def note(path: str) -> Callable:
        def hook(module: torch.nn.Module, given: tuple, out: torch.Tensor) -> None:
            seen.setdefault(path, (given, out))

        return hook

    hooks = [
        m.register_forward_hook(note(path)) for path, m in modules.items() if not list(m.children())
    ]
    made = library(scope, trace)
    for hook in hooks:
        hook.remove()
    assert made is not None
    for placed, sublayer in zip(scope.model.layer_map.parts, scope.model.sublayers, strict=True):
        assert (sublayer.norm, sublayer.norm_name) == (norm, norm_name)
        part = next(
            p
            for p in sublayer_effects(scope.model, trace, sublayer.stream, POSITION)
            if p.sublayer.path == sublayer.path
        )
        given, out = seen[placed.norm]
        torch.testing.assert_close(
            part.norm_input, given[0].reshape(-1, part.before.shape[0])[POSITION]
        )
        torch.testing.assert_close(part.normed, out.reshape(-1, part.before.shape[0])[POSITION])
        if sublayer.role == "feed-forward":
            assert (sublayer.activation, sublayer.gated) == (activation, name in GATED)
            first = seen[placed.within(placed.part.first)][1]
            assert sublayer.biased == (
                modules[placed.within(placed.part.first)].bias is not None
                if hasattr(modules[placed.within(placed.part.first)], "bias")
                else False
            )
            d_ff = first.shape[-1]
            torch.testing.assert_close(part.firing.pre, first.reshape(-1, d_ff)[POSITION])
            assert torch.equal(part.firing.fires, first.reshape(-1, d_ff)[POSITION] > 0)
            inner = next(
                given[0]
                for path, (given, _) in seen.items()
                if path.startswith(placed.layer + ".")
                and path.endswith(
                    ("c_proj", "down_proj", "dense_4h_to_h", "fc2", "output.dense", "lin2", "wo")
                )
                and given[0].shape[-1] == d_ff
            )
            torch.testing.assert_close(part.firing.post, inner.reshape(-1, d_ff)[POSITION])


@pytest.mark.parametrize("name", KNOWN)
def test_every_check_passes_and_one_number_moved_fails_it(opened, name: str) -> None:
    scope = opened(name)
    trace = run(scope)
    for stream in scope.model.streams:
        for position in range(len(trace.streams[stream].ids)):
            checks = check_parts(
                scope.model, trace, sublayer_effects(scope.model, trace, stream, position), position
            )
            assert [check.name for check in checks if not check.passed] == []
            assert [check.name for check in checks][:2] == [
                "the parts add up to the stream", f"{KNOWN[name][2]} by hand is the recorded one",
            ]  # fmt: skip
            assert (
                "stopping after the last layer is the model's answer"
                in [check.name for check in checks]
            ) == (stream == scope.model.writes)
    for sublayer in scope.model.sublayers:
        held = trace.activations[sublayer.out]
        value = held.value.clone()
        value[0, POSITION, 3] += 0.5
        forged = replace(
            trace, activations={**trace.activations, sublayer.out: replace(held, lazy_value=value)}
        )
        checks = check_parts(
            scope.model,
            forged,
            sublayer_effects(scope.model, forged, sublayer.stream, POSITION),
            POSITION,
        )
        assert not checks[0].passed


@pytest.mark.parametrize("name", WRITING)
def test_the_lens_reads_a_state_as_the_librarys_output_path_does(opened, name: str) -> None:
    """The library stops there itself: its later layers are removed from a copy."""
    scope = opened(name)
    trace = run(scope)
    stream = scope.model.writes
    found = sublayer_effects(scope.model, trace, stream, POSITION)
    behind_first = found[len(found) // scope.config.n_layers - 1].after
    short = copy.deepcopy(scope.model.module)
    place = scope.model.layer_map.stacks[-1].layers.removesuffix(".{}")
    owner, _, last = place.rpartition(".")
    for module in short.modules():  # hooks of the other one
        module._forward_hooks.clear()
        module._forward_pre_hooks.clear()
    setattr(short.get_submodule(owner), last, short.get_submodule(place)[:1])
    with torch.no_grad():
        rows = [torch.tensor([trace.streams[one].ids]) for one in scope.model.streams]
        made = short(
            **dict(zip(("input_ids", "decoder_input_ids"), rows, strict=False)), use_cache=False
        ).logits[0, POSITION]
    early, final = logit_lens(scope.model, [behind_first, found[-1].after])
    torch.testing.assert_close(early, made.log_softmax(-1), atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(final, trace.next_token.log_probs[POSITION], atol=1e-4, rtol=1e-4)


CLASSIFIERS = {
    "GPT2ForSequenceClassification": -1, "BertForSequenceClassification": 0, "RobertaForSequenceClassification": 0,
    "ElectraForSequenceClassification": 0, "DistilBertForSequenceClassification": 0, "LlamaForSequenceClassification": -1,
}  # fmt: skip


def classifier(name: str) -> Case:
    """Return a classifier of a family that is in the table with another head."""
    family = name.removesuffix("ForSequenceClassification")
    case = next(case for each, case in BY_NAME.items() if each.startswith(family))
    return replace(case, model=name, sizes=case.sizes | {"num_labels": 3})


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_the_lens_of_a_classifier_reads_its_classes_at_the_token_that_answers(
    tmp_path: Path, name: str
) -> None:
    """The library's own model classifies with its last layers removed and the stream put in their place."""
    library = classifier(name).save(tmp_path)
    scope = models.load(tmp_path, device="cpu")
    run = CurrentRun(scope, scope.run(LONG))
    found = token_view(run, LayerChoices("text", 0, None))
    n, place = (
        len(run.trace.streams["text"].ids),
        CLASSIFIERS[name] % len(run.trace.streams["text"].ids),
    )
    assert (found.position, found.output, found.answering) == (
        place,
        "classes",
        [found.tokens[place]],
    )
    answer = run.trace.outputs["classes"]
    torch.testing.assert_close(
        found.log_probs[-1], answer.logits.log_softmax(-1), atol=1e-5, rtol=1e-4
    )
    last = [m for path, m in library.named_modules() if re.search(r"(layers?|\.h)\.1$", path)]
    states = [found.parts[0].before, *(part.after for part in found.parts)]
    for state, said in ((states[0], found.log_probs[0]), (states[2], found.log_probs[2])):
        handle = last[0].register_forward_hook(
            lambda _, given, made, state=state: _in_place_of(made, state, place)
        )
        with torch.no_grad():
            logits = library(torch.tensor([run.trace.streams["text"].ids])).logits[0]
        handle.remove()
        torch.testing.assert_close(said, logits.log_softmax(-1), atol=1e-5, rtol=1e-4)
    assert not torch.allclose(found.log_probs[0], found.log_probs[-1], atol=1e-3)
    checks = check_parts(scope.model, run.trace, found.parts, place)
    assert [check.passed for check in checks] == [True, True, True]
    assert "probabilities of the classes" in checks[-1].sentence
    said = text.explain_stream(
        [part.sublayer for part in found.parts], found.output, scope.model.can_write
    )
    assert "output path to its classes, predicted from this token, with no later layer" in said
    header, _ = unpack(on_screen(layer_payloads(run, LayerChoices("text", 0, None)))["layer"])
    best = int(answer.logits.argmax())
    assert header["answer"][0] == answer.names[best]
    assert header["stops"][-1]["best"][0][0][0] == answer.names[best]
    assert header["title"].endswith(f"to the class, “{answer.names[best]}”")
    other = (place + 2) % n
    header, _ = unpack(on_screen(layer_payloads(run, LayerChoices("text", 0, other)))["layer"])
    assert header["answer"] is None
    assert "best" not in header["stops"][-1]
    assert header["without"].startswith(
        f"The prediction is read only from the vector of the token “{found.tokens[place].text}”"
    )
    assert clicked_token(run, LayerChoices("text", 0, other), place) is None
    assert clicked_token(run, LayerChoices("text", 0, None), other) == other


def _in_place_of(made: Any, state: torch.Tensor, place: int) -> Any:
    """Return the output of a layer with another vector at this position."""
    stream = (made[0] if isinstance(made, tuple) else made).clone()
    stream[0, place] = state
    return (stream, *made[1:]) if isinstance(made, tuple) else stream


@pytest.mark.parametrize("name", [*CLASSIFIERS, "BertModel", "GPT2Model"])
def test_a_stack_is_named_by_its_mask_and_not_by_its_task(tmp_path: Path, name: str) -> None:
    looks_back = name.startswith(("GPT2", "Llama"))
    case = (
        BY_NAME["GPT2LMHeadModel"] if name == "GPT2Model" else BY_NAME.get(name) or classifier(name)
    )
    replace(case, model=name).save(tmp_path)
    scope = models.load(tmp_path, device="cpu")
    trace, stack = scope.run(LONG), "decoder" if looks_back else "encoder"
    assert (
        {part.stack for part in scope.model.sublayers}
        == {site.stack for site in trace.attention.values()}
        == {stack}
    )
    assert (scope.model.stack, scope.model.can_write) == (stack, False)
    assert f"{stack}.embedding" in trace.activations
    for site in trace.attention.values():
        assert bool(site.projections) != name.startswith("Llama")  # whose queries are turned
        assert bool(site.weights().triu(1).any()) != looks_back
        assert ("both directions" in words.where_from(site, words.terms(""))) != looks_back
    made = on_screen(layer_payloads(CurrentRun(scope, trace), LayerChoices("text", 0, 2)))["layer"]
    assert unpack(made)[0]["oneTitle"] == f"{stack.capitalize()} layer 1, in full"


def test_a_head_that_a_run_does_not_confirm_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    classifier("GPT2ForSequenceClassification").save(tmp_path)
    monkeypatch.setattr(
        readers,
        "class_heads",
        lambda module: [lambda x: 2 * module.score(x), lambda x: module.nothing(x)],
    )
    scope = models.load(tmp_path, device="cpu")
    found = token_view(CurrentRun(scope, scope.run(LONG)), LayerChoices("text", 0, None))
    assert (scope.model.head, found.output, found.answering, found.position) == (None, "", [], 1)
    with pytest.raises(ValueError, match="'classes' is not read"):
        scope.model.readout(torch.zeros(1, 22), "classes")


def test_layers_that_do_not_add_up_are_not_claimed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The layout is declared wrongly: a layout that a short run does not confirm is dropped, and nothing of it is recorded."""
    wrong = replace(layouts.LAYOUTS[0][0], norm="post", last_norm="")
    monkeypatch.setattr(layouts, "LAYOUTS", ((wrong,),))
    BY_NAME["GPT2LMHeadModel"].save(tmp_path)
    scope = models.load(tmp_path, device="cpu")
    assert scope.model.sublayers == ()
    assert not [name for name in run(scope).activations if "resid" in name or "ff_" in name]


def test_an_activation_is_recognised_by_its_values() -> None:
    assert layer_map.activation_of(torch.nn.ReLU()) == "relu"
    assert layer_map.activation_of(torch.nn.GELU("tanh")) == "gelu tanh"
    assert layer_map.activation_of(torch.nn.Hardswish()) == ""


def test_the_page_says_that_a_text_is_too_long_for_it(
    opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layer_map, "MAX_INNER_NUMBERS", 22 * 10)
    scope = opened("GPT-2")
    scope.model.record_layers(LayerMap(scope.model.module, scope.model.layer_map.stacks))
    monkeypatch.setattr("viz_app.views.layer.payloads.MAX_INNER_NUMBERS", 22 * 10)
    long = CurrentRun(scope, run(scope))
    assert recording_error(long) == text.recording_too_long(11, 10)
    with pytest.raises(models.InputError, match="up to 10 tokens; this run has 11"):
        on_screen(layer_payloads(long, LayerChoices("text", 0, 0)))
    short = CurrentRun(scope, scope.run("5 6 7"))
    assert recording_error(short) == ""
    monkeypatch.undo()
    scope.model.record_layers(LayerMap(scope.model.module, scope.model.layer_map.stacks))


@pytest.mark.parametrize(
    ("name", "rows", "says"),
    [
        (
            "GPT-2",
            [
                "stream before",
                "LayerNorm(stream), read",
                "+ self-attention",
                "= stream",
                "LayerNorm(stream), read",
                "GELU(x·W₁ + b₁)",
                "+ feed-forward",
                "= stream",
            ],
            "(x − mean) / spread · gain + bias. The stream itself",
        ),
        (
            "Llama",
            [
                "stream before",
                "RMSNorm(stream), read",
                "+ self-attention",
                "= stream",
                "RMSNorm(stream), read",
                "SiLU(x·W_gate) ⊙ (x·W_up)",
                "+ feed-forward",
                "= stream",
            ],
            "read x / √(mean of x²) · gain",
        ),
        (
            "GPT-NeoX",
            [
                "stream before",
                "LayerNorm(stream), read",
                "+ self-attention",
                "= stream",
                "LayerNorm(before), read",
                "GELU(x·W₁ + b₁)",
                "+ feed-forward",
                "= stream",
            ],
            "Both are added to it at once",
        ),
        (
            "BERT",
            [
                "stream before",
                "+ self-attention",
                "= sum",
                "LayerNorm(sum) = stream",
                "GELU(x·W₁ + b₁)",
                "+ feed-forward",
                "= sum",
                "LayerNorm(sum) = stream",
            ],
            "comes after each sum",
        ),
        (
            "T5",
            [
                "stream before",
                "RMSNorm(stream), read",
                "+ self-attention",
                "= stream",
                "RMSNorm(stream), read",
                "ReLU(x·W₁)",
                "+ feed-forward",
                "= stream",
            ],
            "RMSNorm",
        ),
    ],
)
def test_the_page_names_what_this_family_does(
    opened, name: str, rows: list[str], says: str
) -> None:
    from viz_app.drawing.payload import unpack

    scope = opened(name)
    current = CurrentRun(scope, run(scope))
    choices = LayerChoices(scope.model.streams[0], 1, POSITION)
    header, _ = unpack(on_screen(layer_payloads(current, choices))["layer"])
    assert [row["name"] for row in header["rows"]] == rows
    found = token_view(current, choices)
    assert says in text.explain_stream([part.sublayer for part in found.parts], found.output)
    assert ("gates are open" in header["firing"]) == (name in GATED)
    columns = files.layers_csv(found).splitlines()[0]
    assert f"{KNOWN[name][2]} of" in columns
    assert ("LayerNorm" in columns) == (KNOWN[name][2] == "LayerNorm")


def test_parallel_parts_point_to_the_stream_that_both_read(opened) -> None:
    """So does the table, whose mean and spread before the norm are those of that stream."""
    scope = opened("GPT-NeoX")
    trace = run(scope)
    view = token_view(CurrentRun(scope, trace), LayerChoices(scope.model.streams[0], 1, POSITION))
    table = list(csv.DictReader(files.layers_csv(view).splitlines()))
    norms = [row["LayerNorm of"] for row in table]
    assert norms == ["before", "stream before the layer"] * (len(norms) // 2)
    for i, (row, part) in enumerate(zip(table, view.parts, strict=True)):
        stream = view.parts[i - i % 2].before  # from the layer's first part
        cosine = torch.cosine_similarity(part.added, stream, dim=0)
        assert float(row["cosine with stream"]) == pytest.approx(float(cosine), abs=1e-5)
        assert float(row["mean before LayerNorm"]) == pytest.approx(float(stream.mean()), abs=1e-5)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", ["GPT-NeoX", "Llama", "BERT"])
def test_in_half_precision_the_parts_add_up_to_the_rounded_sum(
    tmp_path: Path, name: str, dtype: str
) -> None:
    KNOWN[name][0].save(tmp_path)
    scope = models.load(tmp_path, device="cpu", dtype=dtype)
    trace = run(scope)
    checks = check_parts(
        scope.model, trace, sublayer_effects(scope.model, trace, "text", POSITION), POSITION
    )
    assert [check.name for check in checks if not check.passed] == []
    assert all(check.limit < 0.35 for check in checks)


@pytest.mark.parametrize("kind", ["gemma", "llama", "t5", "cohere", "olmo"])
def test_a_norm_by_its_formula_equals_the_modules_output(kind: str) -> None:
    """This includes norms whose gain is 1 + the weight, that subtract the mean, and that have no weight."""
    norms = {
        "gemma": lambda d: modeling("gemma").GemmaRMSNorm(d),
        "llama": lambda d: modeling("llama").LlamaRMSNorm(d),
        "t5": lambda d: modeling("t5").T5LayerNorm(d),
        "cohere": lambda d: modeling("cohere").CohereLayerNorm(d),
        "olmo": lambda d: torch.nn.LayerNorm(d, elementwise_affine=False),
    }
    norm = norms[kind](23)
    for parameter in norm.parameters():
        torch.nn.init.normal_(parameter, mean=1.0)
    part = Sublayer("ff", FEED_FORWARD, "text", "a", "b", "c", "pre", norm)
    assert part.norm_name == ("LayerNorm" if kind in ("cohere", "olmo") else "RMSNorm")
    x = 3 * torch.randn(5, 23) + 1
    torch.testing.assert_close(part.normalised(x).float(), norm(x), atol=1e-5, rtol=1e-5)


def modeling(kind: str) -> Any:
    return importlib.import_module(f"transformers.models.{kind}.modeling_{kind}")


def test_a_mixture_of_experts_shows_its_sum_and_no_inner_units(
    tmp_path: Path,
) -> None:
    save("mixtral", tmp_path)
    scope = models.load(tmp_path, device="cpu")
    trace = scope.run("She is reading")
    states = hidden(library(scope, trace), "text")
    found = sublayer_effects(scope.model, trace, "text", POSITION - 1)
    assert [part.sublayer.role for part in found] == ["self", "feed-forward"] * 2
    torch.testing.assert_close(found[2].before, states[1][POSITION - 1])
    assert all(check.passed for check in check_parts(scope.model, trace, found, POSITION - 1))
    assert [part.firing for part in found] == [None] * 4
    view = token_view(CurrentRun(scope, trace), LayerChoices("text", 0, None))
    assert firing_sentence(view) == ""  # its experts are named instead
