"""A user's module that reads two texts: every attention is on the texts that its queries and keys come from, and one whose texts
are unknown is named and not shown."""

import copy
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import models
from models import InputError
from models.hub.describe import model_summary
from models.trace import Trace
from models.trace.edits import MaskChange, for_kinds

LETTERS = "abcdefghijklmnop "


def ids(*texts: str) -> list[list[int]]:
    return [[LETTERS.index(letter) for letter in text] for text in texts]


class Translator(nn.Module):
    """torch's own encoder-decoder."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(19, 22)
        self.net = nn.Transformer(22, 2, 2, 2, 31, batch_first=True)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(target.shape[1])
        return self.net(self.embedding(source), self.embedding(target), tgt_mask=mask)


def watched(module: nn.Module, **how: Any) -> models.Scope:
    torch.manual_seed(1)
    with torch.no_grad():
        for p in module.parameters():
            p.normal_(std=0.3)
    how = {"encode": ids, "fields": ("source", "target")} | how
    return models.watch(module.eval(), **how)


def streams(trace: Trace) -> dict[str, tuple[str, str, str]]:
    return {
        name: (site.role, site.query_stream, site.key_stream)
        for name, site in trace.attention.items()
    }


@pytest.mark.parametrize("target", ["fig node", "cabin"])
def test_an_encoder_decoder_is_shown_on_both_its_texts(target: str) -> None:
    """There are as many target tokens as source tokens, or fewer."""
    scope = watched(Translator())
    trace = scope.run("bad cafe", target)
    first, second = "first text", "second text"
    assert streams(trace) == {
        **{f"net.encoder.layers.{i}.self_attn": ("self", first, first) for i in range(2)},
        **{f"net.decoder.layers.{i}.self_attn": ("self", second, second) for i in range(2)},
        **{f"net.decoder.layers.{i}.multihead_attn": ("cross", second, first) for i in range(2)},
    }
    assert trace.unrecorded == {}
    module, rows = scope.model.module, [torch.tensor([row]) for row in ids("bad cafe", target)]
    with torch.no_grad():
        memory = module.net.encoder(module.embedding(rows[0]))
    for name, site in trace.attention.items():
        n_query, n_key = ("bad cafe" if "encoder" in name else target), ("bad cafe", target)
        part = module.get_submodule(name)
        mask = torch.ones(len(target), len(target), dtype=torch.bool).triu(1)
        causal = mask if site.role == "self" and "decoder" in name else None
        read = memory if site.role == "cross" else site.x
        with torch.no_grad():
            _, wanted = part(site.x, read, read, attn_mask=causal, average_attn_weights=False)
        assert (site.weights() - wanted[0]).abs().max() < 2e-6
        assert site.n_query == len(n_query)
        assert site.n_key == len(n_key[0] if site.key_stream == first else n_key[1])
    assert [stream.text for stream in trace.streams.values()] == ["bad cafe", target]


def test_the_output_is_the_modules_own_and_a_mask_reaches_the_cross_attention() -> None:
    scope = watched(Translator())
    with torch.no_grad():
        plain = copy.deepcopy(scope.model.module)(
            *map(torch.tensor, ([r] for r in ids("bad", "fig")))
        )
    edits = for_kinds(cross=MaskChange(block=((1, 2),)))
    given = scope.model.inputs([scope.run("bad", "fig").streams])
    with torch.no_grad(), models.record():
        torch.testing.assert_close(scope.model(*given)["numbers"], plain, atol=1e-5, rtol=1e-5)
    changed = scope.run_batch([["bad", "fig"]], edits=edits)[0]
    cross = [site for site in changed.attention.values() if site.role == "cross"]
    assert all(site.weights()[:, 1, 2].eq(0).all() for site in cross)
    assert all(site.weights()[:, 0, 2].gt(0).all() for site in cross)


class Mixed(nn.Module):
    """An attention over both texts in one row, one with learned queries, one whose queries contain the other text's mean."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.learned = nn.Embedding(17, 22), nn.Parameter(torch.randn(1, 3, 22))
        self.joined, self.latent, self.own, self.blind = (
            nn.MultiheadAttention(22, 2, batch_first=True) for _ in range(4)
        )

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        x, y = self.embedding(source), self.embedding(target)
        both = torch.cat([x, y], 1)
        copied = torch.zeros_like(y)
        copied[:, :] = y
        self.joined(both, both, both)
        self.latent(self.learned, x, x)
        self.blind(y + x.mean(1, keepdim=True), y, y)
        return self.own(copied, x, x)[0]


def test_an_attention_on_unknown_texts_is_named_with_the_reason() -> None:
    trace = watched(Mixed()).run("bad", "fig")
    assert streams(trace) == {"own": ("cross", "second text", "first text")}
    assert trace.unrecorded == {
        "joined": "its queries come from first text and second text together",
        "latent": "it is not known which text its queries come from",
        "blind": "its queries come from first text and second text together",
    }
    printed = "\n".join(model_summary(watched(Mixed(), example=("bad", "fig"))))
    assert "not recorded: latent: it is not known which text its queries come from" in printed


class Nested(nn.Module):
    """A text, and an attention over pairs of its tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(17, 22)
        self.own, self.pooled = (nn.MultiheadAttention(22, 2, batch_first=True) for _ in range(2))

    def forward(self, row: Tensor) -> Tensor:
        x = self.embedding(row)
        x = self.own(x, x, x)[0]
        pairs = x.unflatten(1, (-1, 2)).mean(2)
        return self.pooled(pairs, pairs, pairs)[0]


def test_an_attention_over_other_lengths_is_named() -> None:
    scope = watched(Nested(), encode=lambda text: ids(text)[0], fields=("text",))
    trace = scope.run("badged")
    assert list(trace.attention) == ["own"]
    assert trace.unrecorded == {"pooled": "it asks for 3 × 3 cells, where the run has 6 × 6 tokens"}


class ByHand(nn.Module):
    """An attention that can be recorded, and one written out with a softmax; and a router, which is none."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.gate = nn.Embedding(17, 22), nn.Linear(22, 2)
        self.seen = nn.MultiheadAttention(22, 2, batch_first=True)
        self.script, self.softmax = nn.Identity(), nn.Softmax(-1)

    def forward(self, row: Tensor) -> Tensor:
        x = self.embedding(row)
        x = self.seen(x, x, x)[0]
        weights = self.softmax(x @ x.transpose(1, 2)).half().float()
        gates = self.gate(x).softmax(-1)
        return (weights @ x) * gates[..., :1]


def test_weights_that_are_rounded_before_they_weigh_values_are_named() -> None:
    """The values are no product with the tokens, so nothing shows that the weights are over tokens."""
    trace = watched(ByHand(), encode=lambda text: ids(text)[0], fields=("text",)).run("badge")
    assert list(trace.attention) == ["seen"]
    assert trace.unrecorded == {
        "the module itself": "its weights are changed between the softmax and the values, so "
        "it is unknown whether it weighs tokens"
    }


def test_for_a_text_with_another_input_only_the_texts_own_attention_is_shown() -> None:
    """An encoder-decoder is watched as if it read one text; a target of the same length is a second tensor."""

    def encode(text: str) -> models.Inputs:
        row = ids(text)[0]
        return models.Inputs((torch.tensor([row]), torch.tensor([row[::-1]])), tuple(text))

    trace = watched(Translator(), encode=encode, fields=("text",)).run("badge")
    assert list(trace.attention) == [f"net.encoder.layers.{i}.self_attn" for i in range(2)]
    assert set(trace.unrecorded.values()) == {
        "its queries do not come from the tokens that are shown"
    }
    assert len(trace.unrecorded) == 4


class ReadsBeside(nn.Module):
    """An attention among the tokens of a text, and one from them to another input of the same length."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(19, 22)
        self.own, self.beside = (nn.MultiheadAttention(22, 2, batch_first=True) for _ in range(2))

    def forward(self, text: Tensor, other: Tensor) -> Tensor:
        x, y = self.embedding(text), self.embedding(other)
        x = x + self.own(x, x, x)[0]
        return self.beside(x, y, y)[0]


def test_keys_of_another_input_are_not_shown_as_the_texts_own() -> None:
    def encode(text: str) -> models.Inputs:
        row = ids(text)[0]
        return models.Inputs((torch.tensor([row]), torch.tensor([row[::-1]])), tuple(text))

    trace = watched(ReadsBeside(), encode=encode, fields=("text",)).run("badge")
    assert list(trace.attention) == ["own"]
    assert trace.unrecorded == {"beside": "its keys do not come from the tokens that are shown"}


class Sdpa(nn.Module):
    """Cross-attention as in a script, with a mask made from the source."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.q, self.kv = nn.Embedding(17, 22), nn.Linear(22, 22), nn.Linear(22, 44)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        q = self.q(self.embedding(target)).unflatten(-1, (2, 11)).transpose(1, 2)
        kv = self.kv(self.embedding(source)).chunk(2, -1)
        k, v = (t.unflatten(-1, (2, 11)).transpose(1, 2) for t in kv)
        return F.scaled_dot_product_attention(
            q, key=k, value=v, attn_mask=(source > 0)[:, None, None]
        )


def test_a_mask_made_from_one_text_is_not_taken_for_its_rows() -> None:
    site = next(iter(watched(Sdpa()).run("bacd", "fig").attention.values()))
    assert (site.query_stream, site.key_stream) == ("second text", "first text")
    assert site.weights()[:, :, 1].eq(0).all()  # "a" is 0


def test_wrong_arguments_of_the_owner_are_reported() -> None:
    with pytest.raises(ValueError, match="names of one text or two"):
        watched(Translator(), fields=("a", "b", "c"))
    with pytest.raises(ValueError, match="decode came without end"):
        watched(Translator(), decode=str)
    with pytest.raises(ValueError, match="end came without decode"):
        watched(Translator(), end=1)
    with pytest.raises(InputError, match="a row for each of source and target, not 1"):
        watched(Translator(), encode=lambda *texts: ids(*texts)[:1]).run("bad", "fig")
    with pytest.raises(InputError, match="encode cannot read these texts"):
        watched(Translator()).run("bad", "Z")
    with pytest.raises(InputError, match="the target is missing"):
        watched(Translator()).run("bad")


START, END = 17, 18


class Writer(Translator):
    """An encoder-decoder with a head over the letters and two special tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(19, 22), nn.Linear(22, 19)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        return self.head(super().forward(source, target))


def both(source: str, target: str) -> list[list[int]]:
    (first, second) = ids(source, target)
    return [first, [START, *second]]


def spelled(row: list[int]) -> str:
    return "".join(LETTERS[i] for i in row)


def writer(module: nn.Module | None = None, **how: Any) -> models.Scope:
    how = {"encode": both, "decode": spelled, "end": END, "n_ctx": 61, "example": "bad"} | how
    return watched(module or Writer(), **how)


@torch.no_grad()
def greedy(module: nn.Module, source: str, most: int) -> list[int]:
    """Return the most probable tokens, one after the other, from the module alone."""
    row = [START]
    while row[-1] != END and len(row) <= most:
        logits = module(torch.tensor(ids(source)), torch.tensor([row]))
        row.append(int(logits[0, -1].argmax()))
    return row[1:]


@pytest.mark.slow
def test_a_module_of_two_texts_generates_the_second() -> None:
    scope, source = writer(), "bad cafe"
    wanted = greedy(copy.deepcopy(scope.model.module), source, 2 * len(source) + 20)
    assert len(wanted) > 3
    assert scope.write(source).ids == tuple(wanted)
    trace = scope.run(source)
    own = [i for i in wanted if i != END]
    assert not trace.teacher_forced
    assert trace.streams["second text"].ids == (START, *own)
    assert trace.streams["second text"].tokens[0] == "<s>"
    assert trace.output == spelled([i for i in own if i != START])
    assert {site.role for site in trace.attention.values()} == {"self", "cross"}
    cross = trace.attention["net.decoder.layers.1.multihead_attn"]
    assert (cross.n_query, cross.n_key) == (len(own) + 1, len(source))
    assert list(scope.write(source, "beam", width=3, max_new=4).ids)


def test_a_typed_second_text_is_read_and_predicted_token_by_token() -> None:
    scope = writer()
    trace = scope.run("bad", "fig")
    assert trace.teacher_forced
    assert trace.streams["second text"].ids == (START, *ids("fig")[0])
    assert trace.streams["second text"].offsets == (None, (0, 1), (1, 2), (2, 3))
    output = next(iter(trace.outputs.values()))
    assert output.labels == (*ids("fig")[0], END)
    with torch.no_grad():
        rows = [torch.tensor([row]) for row in both("bad", "fig")]
        wanted = copy.deepcopy(scope.model.module)(*rows)
    torch.testing.assert_close(output.logits, wanted[0], atol=1e-5, rtol=1e-5)


def test_an_answer_that_is_not_over_the_second_text_is_refused() -> None:
    with pytest.raises(InputError, match=r"expected logits \(1, 1, vocabulary\), not \(1, 3, 22\)"):
        writer(Swapped()).run("bad")


class Swapped(Translator):
    """A module that answers at the source's positions."""

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        return super().forward(target, source)
