"""A module of one's own, watched: attention of torch's layers and of a script's, against the weights they hand out themselves."""

import ast
import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from checked import unchecked
from hub_models import own_module_of_readme
from torch import Tensor, nn

import models
from models.analysis.checks import check_site
from models.decoding import runs
from models.decoding.runs import Method
from models.hub.user_module.module import scope_of
from models.trace.edits import HeadOff, MaskChange, Patch, Where, for_kinds
from viz_app.drawing import export
from viz_app.drawing.provenance import file_name
from viz_app.drawing.stamp import facts
from viz_app.views.compare import state
from viz_app.views.decoding import files as decoding_files
from viz_app.views.decoding.decoding_runs import DecodingRuns
from viz_app.words import kind_title

ROOT = Path(__file__).parents[2]
LETTERS = "abcdefghijklmnop "


def ids(text: str) -> list[int]:
    return [LETTERS.index(letter) for letter in text]


def text(row: list[int]) -> str:
    return "".join(LETTERS[i] for i in row)


class Written(nn.Module):
    """A decoder as a script writes it."""

    def __init__(self, d: int = 22, n_heads: int = 2) -> None:
        super().__init__()
        self.embedding, self.places, self.n_heads = (
            nn.Embedding(17, d),
            nn.Embedding(31, d),
            n_heads,
        )
        self.qkv, self.out, self.head = (
            nn.Linear(d, 3 * d, bias=False),
            nn.Linear(d, d),
            nn.Linear(d, 17),
        )

    def forward(self, row: Tensor) -> tuple[Tensor, None]:
        x = self.embedding(row) + self.places(torch.arange(row.shape[1]))
        q, k, v = (
            t.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)
            for t in self.qkv(x).split(x.shape[-1], dim=2)
        )
        found = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.head(x + self.out(found.transpose(1, 2).flatten(2))), None


class Torchs(nn.Module):
    """torch's own encoder, with its masks."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.embedding, self.encoder = (
            nn.Embedding(17, 22),
            nn.TransformerEncoder(layer, 2, enable_nested_tensor=False),
        )

    def forward(self, row: Tensor) -> Tensor:
        n = row.shape[1]
        return self.encoder(
            self.embedding(row),
            mask=nn.Transformer.generate_square_subsequent_mask(n),
            is_causal=True,
        )


def watched(module: nn.Module, **how: object) -> models.Scope:
    with torch.no_grad():
        for p in module.parameters():
            p.normal_(std=0.3)
    return models.watch(module.eval(), encode=ids, **how)


def test_a_scripts_decoder_is_shown_from_its_tokens_on_and_writes() -> None:
    scope = watched(Written(), decode=text)
    trace = scope.run("badge cafe")
    site, module = next(iter(trace.attention.values())), scope.model.module
    x = module.embedding(torch.tensor(ids("badge cafe"))) + module.places(torch.arange(10))
    q, k = (w.unflatten(0, (2, 11)) for w in module.qkv.weight.chunk(3)[:2])
    scores = (
        torch.einsum(
            "hid,hjd->hij", torch.einsum("ie,hde->hid", x, q), torch.einsum("je,hde->hjd", x, k)
        )
        / 11**0.5
    )
    wanted = scores.masked_fill(torch.ones(10, 10, dtype=torch.bool).triu(1), -torch.inf).softmax(
        -1
    )
    assert (site.weights() - wanted).abs().max() < 1e-5
    assert set(site.projections) == {"W_Q", "W_K", "W_V", "W_O"}
    assert site.projections["W_O"][0].equal(module.out.weight)
    assert [layer.name for layer in site.mask.layers] == ["look-ahead"]
    assert all(check.passed for check in check_site(site))
    row = ids("badge")
    for token in scope.write("badge", max_new=7).ids:
        assert token == int(module(torch.tensor([row]))[0][0, -1].argmax())
        row.append(token)


def test_a_name_with_slashes_stays_whole_and_is_one_part_of_a_files_name() -> None:
    scope = models.watch(Written().eval(), encode=ids, name="lab/run 3/\x1b[31mred")
    trace = scope.run("badge")
    assert trace.model.name == scope.name
    assert scope.name.startswith("lab/run 3/")
    assert "\x1b" not in scope.name
    assert re.fullmatch(r"[\w.-]+", file_name(trace, "map"))


def test_a_module_that_writes_is_not_called_masked_for_that() -> None:
    """Its owner may have forgotten the mask."""
    layer = nn.TransformerEncoderLayer(22, 2, 31, batch_first=True)
    net = nn.Sequential(nn.Embedding(17, 22), layer, nn.Linear(22, 17))
    (site,) = watched(net, decode=text).run("badge cafe").attention.values()
    assert site.mask.layers == ()
    assert (site.stack, site.role) == ("decoder", "self")
    assert "masked" not in kind_title(site)


@pytest.mark.parametrize("norm_first", [False, True])
def test_torchs_own_layers_are_seen(norm_first: bool) -> None:
    """Its multi-head attention, asked by hand for the weights that it hands out."""
    layer = nn.TransformerEncoderLayer(22, 2, 31, batch_first=True, norm_first=norm_first)
    scope = watched(Torchs(layer))
    trace = scope.run("badge cafe")
    module, sites = scope.model.module, list(trace.attention.values())
    assert [site.name for site in sites] == [
        "encoder.layers.0.self_attn",
        "encoder.layers.1.self_attn",
    ]
    mask = torch.ones(10, 10, dtype=torch.bool).triu(1)
    for site, block in zip(sites, module.encoder.layers, strict=True):
        out, wanted = block.self_attn(*[site.x] * 3, attn_mask=mask, average_attn_weights=False)
        assert (site.weights() - wanted[0]).abs().max() < 2e-6
        assert [layer.name for layer in site.mask.layers] == ["look-ahead"]
        assert all(check.passed for check in check_site(site))
        assert (trace.activations[f"{site.name}.attn_out"].value - out).abs().max() < 1e-5


def test_recording_torchs_layers_changes_no_digit_and_a_painted_mask_reaches_them() -> None:
    scope = watched(Torchs(nn.TransformerEncoderLayer(22, 2, 31, batch_first=True)))
    row = torch.tensor([ids("badge cafe")])
    with torch.no_grad():
        plain = scope.model.module(row)
        with models.record():
            assert scope.model(row)["numbers"].equal(plain)
    assert "unknown" in scope.model.answer_description  # logits, though nothing has declared them
    painted = scope.run_batch([["badge cafe"]], edits=for_kinds(self=MaskChange(block=((7, 2),))))[
        0
    ]
    own = scope.run("badge cafe")
    first, before = (list(trace.attention.values())[0] for trace in (painted, own))
    assert first.weights()[:, 7, 2].eq(0).all()
    assert before.weights()[:, 7, 2].gt(0).all()
    second = list(painted.attention.values())[1]
    assert not second.x[0, 7].equal(list(own.attention.values())[1].x[0, 7])
    assert second.x[0, 6].equal(list(own.attention.values())[1].x[0, 6])


def test_patches_of_a_picture_have_names_of_their_own() -> None:
    attention = nn.MultiheadAttention(22, 2, batch_first=True).eval()
    names = ("[class]", *(f"{i},{j}" for i in range(2) for j in range(3)))
    pixels = torch.randn(1, 7, 22)
    scope = models.watch(
        attention, encode=lambda _: models.Inputs((pixels,) * 3, names), fields=("text",)
    )
    site = next(iter(scope.run("a picture").attention.values()))
    _, wanted = attention(pixels, pixels, pixels, average_attn_weights=False)
    assert site.key_tokens == names
    assert (site.weights() - wanted[0]).abs().max() < 2e-6


class Silent(nn.Module):
    def forward(self, row: Tensor) -> Tensor:
        return row.float()[..., None]


def test_what_cannot_be_watched_is_said() -> None:
    with pytest.raises(ValueError, match="training mode"):
        models.watch(nn.Linear(2, 2).train(), encode=ids)
    for name in ("my sentence", "2nd", "edits"):
        with pytest.raises(ValueError, match=f"letters, digits and underscores .* not '{name}'"):
            models.watch(Silent().eval(), encode=ids, fields=(name,))
    with pytest.raises(ValueError, match="there is no attention to show"):
        models.watch(Silent().eval(), encode=ids).run("badge")
    with pytest.raises(models.InputError, match=r"encode cannot read this text \(ValueError"):
        models.watch(Silent().eval(), encode=ids).run("Z")
    for given in (None, "badge", [1.5], [[1, 2]], torch.tensor([[1, 2]])):
        said = f"^{re.escape(f'encode should return token ids or models.Inputs, got {given!r}')}$"
        with unchecked(), pytest.raises(models.InputError, match=said):
            models.watch(Silent().eval(), encode=lambda text, given=given: given).run("badge")
    scope = watched(Written(), decode=text, call=lambda module, row: module(row)[0][:, -1:])
    with pytest.raises(ValueError, match=r"logits \(1, 5, vocabulary\), not \(1, 1, 17\)"):
        scope.run("badge")


def test_readmes_lines_watch_a_model_of_ones_own(tmp_path: Path) -> None:
    block = own_module_of_readme()
    assert len([line for line in block.splitlines() if line.strip()]) <= 14
    file = tmp_path / "mine.py"
    file.write_text(block, "utf-8")
    scope = scope_of(f"{file}:make_scope")
    trace = scope.run("hello")
    assert [site.n_query for site in trace.attention.values()] == [5, 5]
    assert len(scope.write("hello", max_new=3).ids) == 3
    with pytest.raises(ValueError, match="expected path/to/file.py:function"):
        scope_of(str(file))
    with pytest.raises(ValueError, match="should return what models.watch returns, not NoneType"):
        scope_of(f"{file}:nothing")


@pytest.mark.slow
def test_transformers_is_imported_only_when_a_model_needs_it() -> None:
    for path in (*(ROOT / "models").rglob("*.py"), *(ROOT / "viz_app").rglob("*.py")):
        at_import = [
            node
            for node in ast.parse(path.read_text("utf-8")).body
            if isinstance(node, ast.Import | ast.ImportFrom)
        ]
        assert not [
            node
            for node in at_import
            if "transformers" in ast.unparse(node).split("#")[0].split()[1]
        ], path


class TwiceItself(nn.Module):
    """A module whose own forward attends, twice."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.qkv, self.head = (
            nn.Embedding(17, 22),
            nn.Linear(22, 66),
            nn.Linear(22, 17),
        )

    def forward(self, row: Tensor) -> Tensor:
        x = self.embedding(row)
        for _ in range(2):
            q, k, v = self.qkv(x).unflatten(-1, (3, 2, 11)).permute(2, 0, 3, 1, 4)
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + mixed.transpose(1, 2).flatten(2)
        return self.head(x)


def test_an_attention_outside_all_parts_has_a_name_in_files_facts_and_addresses() -> None:
    scope = watched(TwiceItself(), decode=text)
    plain = scope.run("badge")
    assert [*plain.attention] == ["", " (2)"]
    names = ["the module itself", "the module itself (2)"]
    arrays = {name for name, _ in export.heads_npz(plain)}
    assert arrays >= {*names, *(f"{name}.allowed" for name in names)}
    for site, name in zip(plain.attention, names, strict=True):
        run = scope.run("badge", edits=[HeadOff(Where(site=site), head=1)])
        assert facts(run)["changed"] == f"{name}: head output set to 0, in head 2"
        value = state.url_of_head((site, 1))
        assert state.REFERENCE_HEAD.from_url([value]) == value
        assert state.head_from_url(value) == (site, 1)
    off = replace(HeadOff(head=1), where=Where(heads=(1,)))
    assert str(off) == "every attention: head output set to 0, in head 1"


class TwiceProjected(TwiceItself):
    """The same with an output matrix."""

    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(22, 22)

    def forward(self, row: Tensor) -> Tensor:
        x = self.embedding(row)
        for _ in range(2):
            q, k, v = self.qkv(x).unflatten(-1, (3, 2, 11)).permute(2, 0, 3, 1, 4)
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(mixed.transpose(1, 2).flatten(2))
        return self.head(x)


def test_every_output_of_an_attention_outside_all_parts_is_patched() -> None:
    torch.manual_seed(1)
    scope = watched(TwiceProjected(), decode=text)
    run, other = scope.run("badge"), scope.run("fadge")
    names = [name for name in run.activations if name.endswith("attn_out")]
    assert names == ["attn_out", " (2).attn_out"]
    for name in names:
        patch = Patch(Where(activation=name), from_run=other)
        now = scope.run("badge", edits=[patch]).activations[name].value
        torch.testing.assert_close(now, other.activations[name].value)


def test_the_arrays_of_decoding_name_every_token_of_a_module_that_has_no_table_of_them() -> None:
    scope = watched(Written(), decode=text)
    run = runs.of_trace(scope.run("badge"))
    both = DecodingRuns(scope.run("badge"), run, run, Method(), n_opening=1)
    held = dict(decoding_files.arrays(both, scope))
    assert held["vocabulary"].tolist()[:3] == ["a", "b", "c"]
    assert len(held["vocabulary"]) == held["parallel.log_probs"].shape[1] == 17
