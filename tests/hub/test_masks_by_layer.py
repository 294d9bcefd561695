"""The page Masks for models whose layers have different masks, such as ModernBERT's local windows."""

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from drawn import Drawing, letters
from small_runs import edited
from torch import Tensor, nn

import models
from models.trace import AttentionSite
from models.trace.edits import MaskChange, for_kinds
from viz_app.drawing.payload import unpack
from viz_app.session.current_run import CurrentRun
from viz_app.views.masks import files, mask_view, painter, payloads
from viz_app.views.masks import text as masks_text
from viz_app.views.masks.mask_view import MaskView
from viz_app.views.masks.payloads import MaskChoices

IDS = "3 4 5 6 7 8 9 10 11 12 13 14"  # longer than the window of six tokens
Open = Callable[[str], CurrentRun]


@pytest.fixture(scope="module")
def opened(hub_scope: Callable[[str], models.Scope]) -> Open:
    @cache
    def run_of(name: str) -> CurrentRun:
        return CurrentRun(hub_scope(name), hub_scope(name).run(IDS))

    return run_of


def sites(run: CurrentRun) -> list[AttentionSite]:
    return list(run.trace.attention.values())


def viewed(run: CurrentRun, site: AttentionSite, change: MaskChange | None = None) -> MaskView:
    changed = edited(run, for_kinds(**{site.kind: change})) if change else run
    return payloads.masked_views(changed, MaskChoices("", "", 0, site.kind, site.name, 0))[1]


def union(header: dict, arrays: dict) -> np.ndarray:
    """Return the last small matrix of the strip: all layers of the mask together."""
    block = header["strip"][0]
    start, n = block["pictures"][-1]["offset"], block["rows"] * block["cols"]
    return arrays["strip"][start : start + n].reshape(block["rows"], block["cols"]).astype(bool)


def test_the_mask_drawn_is_that_of_the_chosen_layer(opened: Open) -> None:
    run = opened("ModernBertForMaskedLM")
    drawn = []
    for site in sites(run):
        header, arrays = unpack(painter.masks(viewed(run, site)))
        own = site.allowed().numpy()
        assert ((arrays["base"] == 0) == own).all()
        assert (union(header, arrays) == own).all()
        assert header["title"] == f"Encoder self-attention, layer {site.layer + 1}"
        assert header["strip"][0]["title"] == f"Encoder self-attention, layer {site.layer + 1}"
        assert [x["name"].startswith("window") for x in header["layers"] if "padding" not in x["name"]] == (
            [True] * (not own.all())
        )  # fmt: skip
        drawn.append(own.all())
    assert sorted(set(drawn)) == [False, True]  # its layers include a window and the whole text


def test_a_head_of_another_kind_shows_the_mask_of_its_own_layer() -> None:
    trace = letters(n_ctx=13).run("abc", "cb")
    layers = {"encoder_self": [0], "decoder_self": [0, 1], "cross": [0, 1]}
    for chosen in trace.attention.values():
        for kind, own in layers.items():
            found = mask_view.site_of(trace, kind, chosen)
            assert (found.kind, found.layer) == (kind, min(chosen.layer, own[-1]))


def test_the_files_hold_the_masks_of_each_layer(opened: Open) -> None:
    run = opened("ModernBertForMaskedLM")
    held = dict(files.everything_npz(viewed(run, sites(run)[1])))
    names = [name for name in held if name.endswith("before.allowed")]
    assert len(names) == len(sites(run))
    for name, site in zip(names, sites(run), strict=True):
        rows = np.concatenate(list(held[name].parts()))
        assert (rows == site.allowed().numpy()).all()
    drawing = files.masks_svg(viewed(run, sites(run)[1]))
    assert "Mask, encoder self, layer 2 (hatched" in drawing


def test_the_text_names_the_layer_that_is_drawn(opened: Open) -> None:
    run = opened("ModernBertForMaskedLM")
    view = viewed(run, sites(run)[2])
    said = masks_text.rules(view.sites[1], mask_note=view.mask_note(view.kind))
    assert "the mask drawn is that of layer 3" in said


class TwoMasks(nn.Module):
    """One head reads all earlier tokens, the other its neighbours."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.qkv, self.out = (
            nn.Embedding(128, 10),
            nn.Linear(10, 30),
            nn.Linear(10, 128),
        )

    def forward(self, ids: Tensor) -> Tensor:
        x, i = self.embedding(ids), torch.arange(ids.shape[1])
        q, k, v = self.qkv(x).unflatten(-1, (3, 2, 5)).permute(2, 0, 3, 1, 4)
        apart = i[:, None] - i
        masks = torch.stack([apart >= 0, apart.abs() <= 1])[None]
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=masks)
        return self.out(x + mixed.transpose(1, 2).flatten(2))


def test_a_mask_of_its_own_is_drawn_with_each_head() -> None:
    torch.manual_seed(1)
    scope = models.watch(
        TwoMasks().eval(),
        encode=lambda text: list(text.encode()),
        decode=lambda ids: bytes(ids).decode(),
    )
    run = CurrentRun(scope, scope.run("abcdefg"))
    (site,) = sites(run)
    assert not torch.equal(site.allowed(head=0), site.allowed(head=1))
    for head in (0, 1):
        choices = MaskChoices("", "", 0, site.kind, site.name, head)
        view = payloads.masked_views(run, choices)[1]
        header, arrays = unpack(painter.masks(view))
        own = site.allowed(head=head).numpy()
        assert ((arrays["base"] == 0) == own).all()
        assert (union(header, arrays) == own).all()
        assert header["title"] == f"Decoder self-attention, head {head + 1}"
        said = masks_text.rules(site, mask_note=view.mask_note(site.kind))
        assert f"differ by head: the mask drawn is that of head {head + 1}" in said
    held = dict(files.everything_npz(view))
    rows = np.concatenate(list(held[f"{site.kind}.before.allowed"].parts()))
    assert (rows.reshape(2, 7, 7) == site.allowed(head=None).numpy()).all()
    assert held[f"{site.kind}.before.allowed"].shape == (2, 7, 7)
    (layer,) = site.mask.layers
    assert (held[f"{site.kind}.before.layer.{layer.name}"] == layer.allowed[0].numpy()).all()
    masked = Drawing(files.masks_svg(view)).titled()[: 7 * 7]
    assert [said == "blocked, −∞" for _, said in masked] == (~own).ravel().tolist()


def test_a_row_that_only_a_window_leaves_empty_is_named_with_its_layer(opened: Open) -> None:
    """Row 0 may then read only the last token, which is outside the window."""
    run = opened("ModernBertForMaskedLM")
    n = sites(run)[0].n_query
    change = MaskChange(block=tuple((0, k) for k in range(n - 1)))
    view = viewed(run, sites(run)[0], change)
    notes = [line for line in painter.painted_outcome(view) if "may attend to nothing here" in line]
    windows = [site for site in sites(run) if not site.allowed().all()]
    assert len(notes) == 1
    assert f"layer {windows[0].layer + 1}: “" in notes[0]


@pytest.mark.parametrize(
    "name", ["BertForMaskedLM", "GPT2LMHeadModel", "T5ForConditionalGeneration"]
)
def test_if_all_layers_share_a_mask_no_layer_is_named(opened: Open, name: str) -> None:
    run = opened(name)
    for site in sites(run):
        view = viewed(run, site)
        header, _ = unpack(painter.masks(view))
        assert "layer" not in header["title"]
        assert view.mask_note(site.kind) == ""
        assert f"{site.kind}.before.allowed" in dict(files.everything_npz(view))


@pytest.mark.parametrize(
    ("name", "writes"),
    [("GPT2LMHeadModel", True), ("GPT2ForSequenceClassification", False), ("GPT2Model", False)],
)
def test_only_for_a_generating_model_later_tokens_do_not_exist_yet(
    opened: Open, name: str, writes: bool
) -> None:
    run = opened(name)
    header, _ = unpack(painter.masks(viewed(run, sites(run)[0])))
    reasons = [x["reason"] for x in header["layers"] if x["name"] == "look-ahead"]
    assert len(reasons) == 1
    assert ("does not exist yet" in reasons[0]) is writes is run.scope.model.can_write
