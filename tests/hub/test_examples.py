"""The modules in assets/examples: each opens by the command in its first line, shows every attention, and gives its own output."""

import re
from pathlib import Path

import pytest
import torch

import models
from models.analysis.checks import check_site
from models.hub.user_module.module import scope_of
from models.trace.edits import HeadOff, MaskChange, Where, for_kinds

ROOT = Path(models.__file__).parents[1]
FILES = sorted((ROOT / "assets/examples").glob("*.py"))
SITES = {  # by kind of attention: layers and heads
    "decoder_by_hand": {"self": (3, 4)},
    "one_head_per_module": {"self": (2, 4)},
    "encoder_decoder_by_hand": {"encoder_self": (2, 4), "decoder_self": (2, 4), "cross": (2, 4)},
    "vision_transformer": {"self": (2, 4)},
    "torch_transformer": {"encoder_self": (2, 4), "decoder_self": (2, 4), "cross": (2, 4)},
}
IMAGES = ("vision_transformer",)
WRITERS = [file for file in FILES if file.stem not in IMAGES]


def scope_and_trace(file: Path) -> tuple[models.Scope, models.Trace]:
    first = file.read_text("utf-8").splitlines()[0]
    named = re.fullmatch(r"# attnscope --module (\S+)", first)[1]
    assert named == f"{file.relative_to(ROOT)}:make_scope"
    scope = scope_of(f"{file}:make_scope")
    example = scope.examples[0]
    return scope, scope.run(*([example] if isinstance(example, str) else example))


def test_there_is_a_case_for_each_file() -> None:
    assert {file.stem for file in FILES} == set(SITES)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_attention_of_an_example_is_shown_from_its_tokens_on(file: Path) -> None:
    scope, trace = scope_and_trace(file)
    assert "untrained" in scope.name
    assert "Untrained" in scope.config.family.name
    assert trace.unrecorded == {}
    sizes = {
        kind: (len(of_kind), of_kind[0].n_heads)
        for kind in {site.kind for site in trace.attention.values()}
        if (of_kind := [site for site in trace.attention.values() if site.kind == kind])
    }
    assert sizes == SITES[file.stem]
    for site in trace.attention.values():
        assert set(site.projections) == {"W_Q", "W_K", "W_V", "W_O"}
        assert [check for check in check_site(site) if not check.passed] == []
        looks_ahead = site.kind in ("self", "decoder_self") and file.stem not in IMAGES
        assert ([layer.name for layer in site.mask.layers] == ["look-ahead"]) is looks_ahead


@pytest.mark.parametrize("file", WRITERS, ids=lambda file: file.stem)
@torch.no_grad()
def test_an_example_writes_what_its_module_would_alone_and_a_mask_reaches_it(file: Path) -> None:
    scope, trace = scope_and_trace(file)
    kind = next(iter(trace.attention.values()))
    edits = for_kinds(**{kind.kind: MaskChange(block=((5, 1),))})
    texts = list(trace.streams.values())
    changed = scope.run_batch([texts], edits=edits)[0]
    for site in changed.attention.values():
        if site.kind == kind.kind:
            assert site.weights()[:, 5, 1].eq(0).all()
    assert not torch.equal(changed.next_token.logits, trace.next_token.logits)
    module = scope.model.module
    rows = [torch.tensor([stream.ids]) for stream in texts]
    alone = module(*rows)[0]
    if (
        file.stem == "torch_transformer"
    ):  # run alone, its encoder takes a fused path, which sums in another order
        assert (alone - trace.next_token.logits).abs().max() < 1e-5
    else:
        assert torch.equal(alone, trace.next_token.logits)


@torch.no_grad()
def test_heads_of_their_own_modules_can_be_switched_off_after_a_pass_that_records_nothing() -> None:
    (file,) = (file for file in FILES if file.stem == "one_head_per_module")
    scope, trace = scope_and_trace(file)
    scope.outputs_batch([trace.streams])
    off = HeadOff(Where(site="layers.0.heads", heads=(2,)))
    edited = scope.run(scope.examples[0], edits=[off]).next_token.logits
    head = scope.model.module.layers[0].heads[2].value
    head.weight.zero_()  # its outputs are zeros, as for a head that is switched off
    ids = torch.tensor([trace.streams["text"].ids])
    assert torch.allclose(scope.model.module(ids)[0], edited, atol=1e-6)
    assert not torch.allclose(trace.next_token.logits, edited, atol=1e-3)


@torch.no_grad()
def test_the_example_of_images_answers_what_its_module_would_alone_and_a_mask_reaches_it() -> None:
    (file,) = (file for file in FILES if file.stem in IMAGES)
    scope, trace = scope_and_trace(file)
    alone = scope.model.module(trace.streams["patches"].pixels[None])[0]
    assert torch.equal(alone, trace.outputs["classes"].logits)
    assert trace.output == trace.outputs["classes"].names[int(alone.argmax())]
    changed = scope.run(scope.examples[0], edits=for_kinds(self=MaskChange(block=((5, 1),))))
    assert all(site.weights()[:, 5, 1].eq(0).all() for site in changed.attention.values())
    assert not torch.equal(changed.outputs["classes"].logits, alone)
