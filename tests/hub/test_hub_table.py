"""Hugging Face models, family by family, against the library's own results with the same weights."""

import copy
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hub_models import WRITERS as ALL_WRITERS
from torch.overrides import TorchFunctionMode

import models
from models import Scope
from models.analysis.checks import check_site
from models.decoding import runs
from models.hub.recording.watch import watching
from models.hub.writers import CausalLM
from models.trace import AttentionSite, Trace
from models.trace.edits import Edits, MaskChange, for_kinds
from viz_app import notebook
from viz_app.drawing.payload import unpack

# one of each make; tests/long/test_architectures.py tries every other
WRITTEN_OUT = [  # run with attention written out by their library
    "DebertaV2ForMaskedLM",
    "XLNetForSequenceClassification",
    "MvpForConditionalGeneration",
]
NAMES = [
    "GPT2LMHeadModel",
    "MistralForCausalLM",  # rotation, shared keys, a window
    "OPTForCausalLM",
    "BertForMaskedLM",
    "DistilBertForQuestionAnswering",
    "T5ForConditionalGeneration",
    "MarianMTModel",
    *WRITTEN_OUT,
]
WRITERS = [name for name in NAMES if name in ALL_WRITERS]
SHORT, LONG = "7 11 13 17 19", "5 6 7 8 9 10 11 12 14 16 18"
ROUNDING = 2e-6  # of float32 weights, by another order of the same sums


Opened = Callable[[str], Scope]


def run(scope: Scope, *texts: str) -> Trace:
    """Run these ids for the first fields; a required second text gets ids, too."""
    needed = [field for field in scope.model.text_fields if not field.optional]
    return scope.run(*texts, *["21 23 29"] * (len(needed) - len(texts)))


def eager(scope: Scope) -> Any:
    """Return the same weights under the library's eager attention, which returns its maps."""
    module = (
        type(scope.model.module)
        ._from_config(copy.deepcopy(scope.model.module.config), attn_implementation="eager")
        .eval()
    )
    module.load_state_dict(scope.model.module.state_dict())
    return module


@torch.no_grad()
def maps(scope: Scope, trace: Trace) -> list[torch.Tensor]:
    """Return the library's maps of this run, in the order of the sites, (head, query, key)."""
    rows = [torch.tensor([trace.streams[stream].ids]) for stream in scope.model.streams]
    names = ("input_ids", "decoder_input_ids")
    made = eager(scope)(**dict(zip(names, rows, strict=False)), output_attentions=True)
    if len(rows) == 1:
        return [m[0] for m in made.attentions]
    decoder = [
        m[0]
        for pair in zip(made.decoder_attentions, made.cross_attentions, strict=True)
        for m in pair
    ]
    return [*(m[0] for m in made.encoder_attentions), *decoder]


def ordered(trace: Trace) -> list[AttentionSite]:
    return list(trace.attention.values())


@pytest.mark.parametrize("name", NAMES)
def test_weights_are_the_librarys_own(hub_scope: Opened, name: str) -> None:
    scope = hub_scope(name)
    trace = run(scope, LONG)
    expected, sites = maps(scope, trace), ordered(trace)
    assert (
        len(sites)
        == len(expected)
        == scope.config.n_layers * (3 if len(scope.model.streams) == 2 else 1)
    )
    for site, wanted in zip(sites, expected, strict=True):
        assert site.weights().shape == wanted.shape, site.name
        assert (site.weights() - wanted).abs().max() < ROUNDING, site.name
        assert site.allowed(head=None).equal(wanted > 0), (
            f"{site.name}: {[layer.name for layer in site.mask.layers]}"
        )
        assert all(check.passed for check in check_site(site))
    kinds = {
        kind.name: [site.layer for site in sites if site.kind == kind.name]
        for kind in scope.model.kinds
    }
    assert all(layers == [0, 1] for layers in kinds.values())


@pytest.mark.parametrize("name", NAMES)
def test_recording_changes_no_digit(hub_scope: Opened, name: str) -> None:
    scope = hub_scope(name)
    streams = run(scope, LONG).streams
    with torch.no_grad():
        plain = scope.model(*scope.model.inputs([streams]))
        with models.record() as recording:
            recorded = scope.model(*scope.model.inputs([streams]))
    pairs = (
        [(plain, recorded)]
        if isinstance(plain, torch.Tensor)
        else [(plain[key], recorded[key]) for key in plain]
    )
    assert recording.attention
    assert all(torch.equal(a, b) for a, b in pairs)


@pytest.mark.parametrize("name", WRITERS)
def test_greedy_text_equals_that_of_generate(hub_scope: Opened, name: str) -> None:
    scope = hub_scope(name)
    given = scope.input_ids(LONG)
    own = [step.token for step in models.decoding.greedy(scope.model, given, max_new=13)]
    with torch.no_grad():
        row = scope.model.module.generate(
            torch.tensor([given]),
            do_sample=False,
            num_beams=1,
            max_new_tokens=13,
            pad_token_id=scope.config.fill_id,
        )[0].tolist()
    assert own == row[len(given) if isinstance(scope.model, CausalLM) else 1 :][:13]


@pytest.mark.parametrize("name", WRITERS)
def test_the_cache_gives_the_same_as_one_pass(hub_scope: Opened, name: str) -> None:
    scope = hub_scope(name)
    given = scope.input_ids(SHORT)
    written = runs.autoregressive(scope.model, given, runs.Method(max_new=7)).run
    whole = runs.uncached_run(scope.model, given, written.taken)
    assert (written.log_probs - whole.log_probs).abs().max() < 1e-4
    assert (max(written.cached) > 0) is scope.model.can_cache
    assert written.kernel_error < 1e-5


def painted(scope: Scope) -> tuple[Edits, str]:
    """Return edits that forbid one cell of the last row in every layer and head."""
    kind = scope.model.kinds[0].name
    return for_kinds(**{kind: MaskChange(block=((4, 1), (4, 3)))}), kind


# OPT counts positions from the mask that it is given, and takes no full one
TAKE_NO_MASK = [*WRITTEN_OUT, "OPTForCausalLM"]


@pytest.mark.parametrize("name", [name for name in NAMES if name not in TAKE_NO_MASK])
def test_a_painted_mask_is_the_same_mask_passed_by_hand(hub_scope: Opened, name: str) -> None:
    """The library gets the whole mask, 0 or −∞, (batch, 1, query, key), in place of the one that it makes."""
    scope = hub_scope(name)
    asked = run(scope, SHORT)
    edits, kind = painted(scope)
    changed = run_under(scope, asked, edits)
    site = next(site for site in ordered(changed) if site.kind == kind)
    assert {"drawn by hand"} <= {layer.name for layer in site.mask.layers}
    allowed = site.allowed()
    assert not allowed[4, 1]
    assert not allowed[4, 3]
    ids = [torch.tensor([asked.streams[stream].ids]) for stream in scope.model.streams]
    by_hand = torch.zeros(1, 1, *allowed.shape).masked_fill(~allowed, -torch.inf)
    inner = scope.model.module.get_encoder() if len(ids) == 2 else scope.model.module
    with torch.no_grad():
        made = inner(input_ids=ids[0], attention_mask=by_hand, output_hidden_states=True)
        plain = inner(input_ids=ids[0], output_hidden_states=True)
        with (
            models.trace.edits.editing(edits),
            models.hub.recording.watch.watching(_places(scope, ids[0])),
        ):
            own = inner(input_ids=ids[0], output_hidden_states=True)
    assert (own.hidden_states[-1] - made.hidden_states[-1]).abs().max() < 1e-5
    assert (own.hidden_states[-1] - plain.hidden_states[-1]).abs().max() > 1e-3


class _PaintedSoftmaxes(TorchFunctionMode):
    """Block cells of every softmax over n queries and keys, and otherwise compute it as the library does."""

    def __init__(self, n: int, cells: Sequence[tuple[int, int]]) -> None:
        super().__init__()
        self.blocked = torch.zeros(n, n, dtype=torch.bool)
        for cell in cells:
            self.blocked[cell] = True

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in (F.softmax, torch.softmax, torch.Tensor.softmax):
            z, n = args[0], len(self.blocked)
            if z.shape[-2:] == (n, n):
                args = (z.masked_fill(self.blocked, -torch.inf), *args[1:])
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("name", WRITTEN_OUT)
def test_a_mask_painted_on_written_out_attention_reaches_its_softmax(
    hub_scope: Opened, name: str
) -> None:
    """With one cell of the first kind painted, the numbers are those of the library's own softmax with that cell at −∞."""
    scope = hub_scope(name)
    asked = run(scope, SHORT)
    kind = scope.model.kinds[0]
    edits = for_kinds(**{kind.name: MaskChange(block=((4, 1),))})
    row = torch.tensor([asked.streams[kind.query_stream].ids])
    inner = (
        scope.model.module.get_encoder() if len(scope.model.streams) == 2 else scope.model.module
    )
    with torch.no_grad():
        plain = inner(input_ids=row, output_hidden_states=True).hidden_states[-1]
        with _PaintedSoftmaxes(row.shape[1], [(4, 1)]):
            wanted = inner(input_ids=row, output_hidden_states=True).hidden_states[-1]
        with (
            models.trace.edits.editing(edits),
            models.hub.recording.watch.watching(_places(scope, row)),
        ):
            own = inner(input_ids=row, output_hidden_states=True).hidden_states[-1]
    assert (own - wanted).abs().max() < 1e-5
    assert (own - plain).abs().max() > 1e-3
    changed = run_under(scope, asked, edits)
    for site in ordered(changed):
        assert site.has_causes
        if site.kind == kind.name:
            assert site.weights()[:, 4, 1].eq(0).all()


def run_under(scope: Scope, asked: Trace, edits: Edits) -> Trace:
    """Repeat the run under edits."""
    rows = [
        asked.streams[field.stream]
        if i == 0 or field.stream != scope.model.fields[0].stream
        else None
        for i, field in enumerate(scope.model.fields)
    ]
    return scope.run_batch([rows], edits=edits)[0]


def _places(scope: Scope, ids: torch.Tensor) -> Any:
    kind = scope.model.kinds[0]
    return models.hub.recording.context.PassContext(
        lambda frame: kind, ids.shape[1], groups=scope.model.groups
    )


@pytest.mark.parametrize("name", ["DebertaV2ForMaskedLM", "XLNetForSequenceClassification"])
def test_finished_weights_are_drawn_in_a_notebook(hub_scope: Opened, name: str) -> None:
    trace = run(hub_scope(name), LONG)
    site = ordered(trace)[1]
    header, arrays = unpack(notebook.head(trace, layer=2, head=1).parts[0].payload)
    assert (header["site"], header["masks"]) == (site.name, [])
    assert (
        arrays["weights"].reshape(11, 11).tolist()
        == maps(hub_scope(name), trace)[1][0].numpy().tolist()
    )
    glance, _ = unpack(notebook.heads(trace).parts[0].payload)
    assert [(b["sites"], b["heads"]) for b in glance["blocks"]] == [
        ([one.name for one in ordered(trace)], 2)
    ]
    for picture in (notebook.lines(trace, [(1, 1), (2, 2)]), notebook.mask(trace)):
        assert "<html" in picture.html


CROSSING = ["T5ForConditionalGeneration", "MarianMTModel", "BartForConditionalGeneration"]
CELLS = ((3, 1), (4, 0))


@pytest.mark.parametrize("kind", ["decoder_self", "cross", "encoder_self"])
@pytest.mark.parametrize("name", CROSSING)
def test_a_painted_mask_of_an_encoder_decoder_equals_the_same_mask_by_hand(
    hub_scope: Opened, monkeypatch: pytest.MonkeyPatch, name: str, kind: str
) -> None:
    """The library calls a softmax written out here, which forbids the cells in attentions of one kind, without Attnscope.
    A pass calls the encoder's attentions, then self- and cross-attention of each layer of the decoder."""
    scope = hub_scope(name)
    asked = scope.run(LONG, "21 23 29 31 7")
    rows = [asked.streams["source"], asked.streams["target"]]
    changed = scope.run_batch([rows], edits=for_kinds(**{kind: MaskChange(block=CELLS)}))[0]
    order = ["encoder_self"] * scope.config.n_layers + [
        "decoder_self",
        "cross",
    ] * scope.config.n_layers
    calls, by_hand = iter(order), []

    def written_out(
        q, k, v, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, **_: Any
    ) -> torch.Tensor:
        scores = q @ k.transpose(-2, -1) * (q.shape[-1] ** -0.5 if scale is None else scale)
        if is_causal:
            scores = scores.masked_fill(
                ~torch.ones(scores.shape[-2:], dtype=torch.bool).tril(), -torch.inf
            )
        if attn_mask is not None:
            scores = (
                scores.masked_fill(~attn_mask, -torch.inf)
                if attn_mask.dtype == torch.bool
                else scores + attn_mask
            )
        if next(calls) == kind:
            for query, key in CELLS:
                scores[..., query, key] = -torch.inf
            by_hand.append(scores.softmax(-1))
        return scores.softmax(-1) @ v

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", written_out)
    with torch.no_grad():
        ids = [torch.tensor([row.ids]) for row in rows]
        logits = scope.model.module(
            input_ids=ids[0], decoder_input_ids=ids[1], use_cache=False
        ).logits[0]
    assert next(calls, None) is None
    torch.testing.assert_close(changed.next_token.logits, logits, atol=2e-5, rtol=1e-4)
    assert (changed.next_token.logits - asked.next_token.logits).abs().max() > 1e-3
    sites = [site for site in ordered(changed) if site.kind == kind]
    for site, weights in zip(sites, by_hand, strict=True):
        assert (site.weights() - weights[0]).abs().max() < ROUNDING
        assert "drawn by hand" in [layer.name for layer in site.mask.layers]
        assert all(site.blocked_by(*cell) == ["drawn by hand"] for cell in CELLS)
    for site in ordered(changed):
        assert site.kind == kind or "drawn by hand" not in [
            layer.name for layer in site.mask.layers
        ]


@pytest.mark.parametrize("name", ["GPT2LMHeadModel", "OPTForCausalLM"])
def test_a_step_from_the_cache_looks_up_the_vectors_of_its_own_positions(
    hub_scope: Opened, name: str
) -> None:
    """OPT's table begins two rows before the first position of a text."""
    scope, ids = hub_scope(name), torch.tensor([[5, 6, 7, 8, 9, 11, 13]])
    past = {}
    for start, end in ((0, 4), (4, 7)):
        row = ids[:, start:end]
        with (
            torch.no_grad(),
            models.record() as seen,
            watching(scope.model.pass_context(row, start)) as step,
        ):
            made = scope.model.module(input_ids=row, use_cache=True, **past)
        past = {"past_key_values": made.past_key_values}
        assert step.intermediates.position_table[:37].equal(scope.model.positions.table[:37])
        (looked_up,) = (tap for key, tap in seen.activations.items() if key.endswith(".position"))
        assert looked_up.value[0].equal(scope.model.positions.table[start:end])


# Residual streams of known families


@pytest.mark.parametrize(
    "name",
    [
        "GPT2LMHeadModel",
        "LlamaForCausalLM",
        "BertForMaskedLM",
        "DistilBertForMaskedLM",
        "BertModel",
    ],
)
def test_the_residual_stream_is_the_librarys_hidden_states(hub_scope: Opened, name: str) -> None:
    scope = hub_scope(name)
    trace = run(scope, LONG)
    with torch.no_grad():
        made = scope.model.module(
            torch.tensor([trace.streams["text"].ids]), output_hidden_states=True
        ).hidden_states
    for layer, site in enumerate(trace.attention.values()):
        beside = site.name.rpartition(".")[0]
        assert trace.activations[f"{beside}.resid_pre"].value.equal(made[layer])
        if (
            layer + 1 < scope.config.n_layers
        ):  # after the last layer some models return the normed stream
            assert trace.activations[f"{beside}.resid_post"].value.equal(made[layer + 1])


def test_no_stream_is_invented_for_an_unknown_family(hub_scope: Opened) -> None:
    for name in (
        "AlbertForMaskedLM",
        "XLNetForSequenceClassification",
        "XLNetForSequenceClassification",
    ):
        assert hub_scope(name).model.sublayers == ()
        assert not [
            found
            for found in run(hub_scope(name), SHORT).activations
            if "resid" in found or "ff_" in found
        ]
