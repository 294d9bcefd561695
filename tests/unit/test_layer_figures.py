"""The page "A layer, step by step": its component's data, its files and its sentences, against numpy and the run itself."""

import csv
import io
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from drawn import letters, on_screen
from small_runs import edited

from models.analysis.layer_parts import check_parts
from models.runs.scope import Scope
from models.trace.edits import Patch
from viz_app import words
from viz_app.drawing.payload import unpack
from viz_app.session.current_run import CurrentRun
from viz_app.views.layer import files, text
from viz_app.views.layer.payloads import (
    N_TOP_TOKENS,
    STRONGEST,
    layer_payload,
    layer_payloads,
    layer_quantities,
)
from viz_app.views.layer.token_view import LayerChoices, TokenView, clicked_token, token_view

TERMS = words.terms("letters")


def run_of(family: str = "transformer", *texts: str, **sizes: Any) -> CurrentRun:
    scope = letters(family, **sizes)
    return CurrentRun(scope, scope.run(*(texts or ("abcde", "edc"))))


def sent(run: CurrentRun, choices: LayerChoices) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    return unpack(on_screen(layer_payloads(run, choices))["layer"])


@pytest.fixture(scope="module")
def decoder() -> tuple[CurrentRun, LayerChoices, dict[str, Any], dict[str, np.ndarray]]:
    run, choices = run_of(), LayerChoices("target", 1, 2)
    return run, choices, *sent(run, choices)


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("name", ["resid_mid", "resid_post"])
def test_a_stream_that_an_edit_sets_is_not_said_to_be_the_sum(norm: str, name: str) -> None:
    plain = run_of("gpt", "abcde", norm=norm)
    other, place = plain.scope.run("edcba"), f"decoder.layers.1.{name}"
    run = edited(plain, (Patch(place, from_run=other, positions=[2]),))
    for position, is_set in ((2, True), (3, False)):
        choices = LayerChoices("text", 1, position)
        pictures = on_screen(layer_payloads(run, choices))
        header, arrays = unpack(pictures["layer"])
        rows = {row["name"]: arrays[row["array"]] for row in header["rows"]}
        assert (text.SET_STREAM in rows) == is_set
        assert "failed" not in [row[0] for row in pictures["checks"]["rows"]]
        names = [row["name"] for row in header["rows"]]
        kept = text.STREAM if norm == "pre" else "LayerNorm(sum) = stream"
        assert names.count(kept) == 2 - is_set
        if is_set:
            theirs = other.activations[place].value[0, position]
            np.testing.assert_allclose(rows[text.SET_STREAM], theirs, atol=1e-6)
    table = csv.DictReader(
        io.StringIO(files.layers_csv(token_view(run, LayerChoices("text", 1, 2))))
    )
    blank = [not row["mean after LayerNorm"] for row in table]
    assert sum(blank) == (norm == "post")


def test_a_stop_shows_what_was_added_and_the_length_of_the_stream(decoder) -> None:
    run, _, header, _ = decoder
    held = {
        name: a.value[0, 2].numpy()
        for name, a in run.trace.activations.items()
        if a.axes[1] == "target"
    }
    stops = header["stops"]
    assert [(s["layer"], s["name"]) for s in stops] == [
        ("", "before all layers"), ("1", "self-attention"), ("1", "cross-attention"), ("1", "feed-forward"),
        ("2", "self-attention"), ("2", "cross-attention"), ("2", "feed-forward"),
    ]  # fmt: skip
    streams = [
        f"decoder.layers.{n}.{name}"
        for n in (0, 1)
        for name in ("resid_pre", "resid_mid", "resid_mid_cross", "resid_post")
    ]
    outputs = [
        f"decoder.layers.{n}.{name}"
        for n in (0, 1)
        for name in ("self_attn.attn_out", "cross_attn.attn_out", "ff.ff_out")
    ]
    behind = [held[name] for name in (*streams[:4], *streams[5:])]
    before = [held[name] for name in (*streams[:3], *streams[4:7])]
    np.testing.assert_allclose(
        [s["length"] for s in stops], [np.linalg.norm(v) for v in behind], rtol=1e-5
    )
    added = [held[name] for name in outputs]
    np.testing.assert_allclose(
        [s["added"] for s in stops[1:]], [np.linalg.norm(v) for v in added], rtol=1e-5
    )
    cosines = [
        a @ b / np.linalg.norm(a) / np.linalg.norm(b) for a, b in zip(added, before, strict=True)
    ]
    np.testing.assert_allclose([s["direction"] for s in stops[1:]], cosines, rtol=1e-4, atol=1e-5)
    assert stops[0]["added"] is stops[0]["direction"] is None
    assert [s["chosen"] for s in stops] == [False] * 4 + [True] * 3
    assert [s["site"] for s in stops] == [
        "",
        *["decoder.layers.0.self_attn"] * 3,
        *["decoder.layers.1.self_attn"] * 3,
    ]


def test_a_stop_shows_the_next_token_predicted_there(decoder) -> None:
    run, _, header, _ = decoder
    scope, table = run.scope, run.scope.model.embedding.weight.detach().numpy().astype(np.float64)
    names = [
        "decoder.layers.0.resid_pre",
        "decoder.layers.0.resid_mid",
        "decoder.layers.1.resid_post",
    ]
    answer = int(run.trace.next_token.logits[2].argmax())
    assert header["answer"][0] == scope.tokenizer.token(answer)
    for name, stop in zip(
        names, (header["stops"][0], header["stops"][1], header["stops"][-1]), strict=True
    ):
        p = np.exp(table @ run.trace.activations[name].value[0, 2].numpy())
        p /= p.sum()
        best = np.argsort(-p)[:N_TOP_TOKENS]
        special = {"<s>": "[start]", "</s>": "[end]", "<pad>": "[padding]", "<unk>": "[unknown]"}
        assert [label[0] for label, _ in stop["best"]] == [
            special.get(t, t) for t in scope.tokenizer.tokens(best.tolist())
        ]
        np.testing.assert_allclose([share for _, share in stop["best"]], p[best], rtol=1e-4)
        assert stop["answer"] == pytest.approx(p[answer], rel=1e-4)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_at_the_answering_token_of_a_classifier_a_stop_shows_the_class(norm: str) -> None:
    run = run_of("gpt", "abcab", head="classes", classes="praise,complaint", norm=norm)
    model, n = run.scope.model, len(run.trace.streams["text"].ids)
    header, _ = sent(run, LayerChoices("text", 1, None))
    names = [
        "decoder.layers.0.resid_pre",
        "decoder.layers.0.resid_mid",
        "decoder.layers.1.resid_post",
    ]
    weight = model.heads["classes"].weight.detach().numpy().astype(np.float64)  # W_y
    for name, stop in zip(
        names, (header["stops"][0], header["stops"][1], header["stops"][-1]), strict=True
    ):
        h = run.trace.activations[name].value[0, n - 1].numpy().astype(np.float64)
        if norm == "pre":
            last = model.decoder.last_norm
            h = (h - h.mean()) / np.sqrt(
                h.var() + last.eps
            ) * last.weight.detach().numpy() + last.bias.detach().numpy()
        p = np.exp(weight @ h)
        p = dict(zip(("praise", "complaint"), p / p.sum(), strict=True))
        assert [label[0] for label, _ in stop["best"]] == sorted(p, key=p.get, reverse=True)
        np.testing.assert_allclose(
            [share for _, share in stop["best"]], sorted(p.values(), reverse=True), rtol=1e-4
        )
    answer = run.trace.outputs["classes"]
    assert header["answer"][0] == answer.predicted == run.trace.output
    assert header["stops"][-1]["answer"] == pytest.approx(
        float(answer.probabilities.max()), rel=1e-4
    )
    found = token_view(run, LayerChoices("text", 1, None))
    assert found.position == answer.position == n - 1
    assert header["title"].endswith(f"token “b” to the class, “{answer.predicted}”")
    assert header["allTitle"] == "Logit lens: the class by “b” after each part"
    assert "read by the model's own output path to its classes" in text.explain_stream(
        [part.sublayer for part in found.parts], found.output
    )
    heading, *rows = csv.reader(io.StringIO(files.layers_csv(found)))
    told = dict(zip(heading, rows[-1], strict=True))
    assert (told["class 1"], told["token"]) == (answer.predicted, "b")
    assert float(told["probability 1"]) == pytest.approx(
        float(answer.probabilities.max()), rel=1e-4
    )
    assert "class 3" not in told
    checks = check_parts(model, run.trace, found.parts, n - 1)
    assert (
        checks[-1].sentence
        == "Largest difference of a log-probability from the run's own probabilities of the classes"
    )
    assert all(check.passed for check in checks)


def test_at_other_tokens_of_a_classifier_a_stop_shows_the_next_token() -> None:
    run = run_of("gpt", "abcab", head="classes", classes="praise,complaint")
    found = token_view(run, LayerChoices("text", 1, 2))
    torch.testing.assert_close(
        found.log_probs[-1], run.trace.next_token.log_probs[2], rtol=1e-4, atol=1e-5
    )
    assert "to the next token, with no later layer" in text.explain_stream(
        [part.sublayer for part in found.parts], found.output
    )
    assert "what follows it" in sent(run, LayerChoices("text", 1, 2))[0]["title"]
    with pytest.raises(ValueError, match="^'span' is not read from the stream 'text'$"):
        run.scope.model.readout(found.parts[0].after, "span")


def test_under_post_ln_the_layer_is_sums_and_norms_in_order(decoder) -> None:
    run, _, header, arrays = decoder
    place = "decoder.layers.1."
    held = {
        name.removeprefix(place): a.value[0, 2].numpy()
        for name, a in run.trace.activations.items()
        if name.startswith(place)
    }
    names = {
        "self_attn.attn_out": "resid_mid",
        "cross_attn.attn_out": "resid_mid_cross",
        "ff.ff_out": "resid_post",
    }
    wanted, stream = [held["resid_pre"]], held["resid_pre"]
    for added, behind in names.items():
        wanted += [held["ff.ff_post"]] * (added == "ff.ff_out")
        wanted += [held[added], stream + held[added], held[behind]]
        stream = held[behind]
    kinds = ["stream", *["added", "total", "normed"] * 2, "firing", "added", "total", "normed"]
    assert [row["kind"] for row in header["rows"]] == kinds
    for row, vector in zip(header["rows"], wanted, strict=True):
        np.testing.assert_allclose(arrays[row["array"]], vector, rtol=1e-5, atol=1e-6)
        numbers = np.linalg.norm(vector), vector.mean(), vector.std(), np.abs(vector).max()
        np.testing.assert_allclose(
            [row[n] for n in ("length", "mean", "spread", "peak")], numbers, rtol=1e-4, atol=1e-6
        )
    assert [row["name"] for row in header["rows"]][:4] == [
        "stream before",
        "+ self-attention",
        "= sum",
        "LayerNorm(sum) = stream",
    ]
    assert header["rows"][7]["name"] == "ReLU(x·W₁ + b₁)"


def test_under_pre_ln_each_part_reads_the_norm_and_the_stream_is_only_added_to() -> None:
    run, choices = run_of("gpt", "abcab"), LayerChoices("text", 0, 3)
    header, arrays = sent(run, choices)
    assert [row["kind"] for row in header["rows"]] == [
        "stream",
        "normed",
        "added",
        "stream",
        "normed",
        "firing",
        "added",
        "stream",
    ]
    names = [
        "resid_pre",
        "add_norm_1.normed",
        "self_attn.attn_out",
        "resid_mid",
        "add_norm_2.normed",
        "ff.ff_post",
        "ff.ff_out",
        "resid_post",
    ]
    for row, name in zip(header["rows"], names, strict=True):
        recorded = run.trace.activations[f"decoder.layers.0.{name}"].value[0, 3]
        np.testing.assert_array_equal(arrays[row["array"]], recorded.numpy())
    assert header["rows"][5]["name"] == "GELU(x·W₁ + b₁)"


def test_without_a_stream_the_output_of_attention_replaces_it() -> None:
    run = run_of("attention only")
    header, arrays = sent(run, LayerChoices("target", None, 1))
    assert header["adds"] is False
    assert [row["name"] for row in header["rows"]] == ["stream before", "cross-attention makes"]
    site = run.trace.attention["decoder.cross_attn"]
    np.testing.assert_array_equal(arrays["row0"], site.x[0, 1].numpy())
    np.testing.assert_array_equal(
        arrays["row1"], run.trace.activations["decoder.cross_attn.attn_out"].value[0, 1].numpy()
    )
    assert header["firing"] == ""
    assert [s["layer"] for s in header["stops"]] == ["", "1", "2", "cross"]
    assert header["oneTitle"] == "Decoder cross-attention, in full"


@pytest.mark.parametrize(
    ("activation", "name"),
    [
        ("relu", "ReLU sets the others to 0"),
        ("gelu", "GELU leaves the others between −0.1700 and 0"),
    ],
)
def test_the_number_of_firing_units_and_the_strongest_ones(activation: str, name: str) -> None:
    run = run_of("gpt", "abcab", activation=activation)
    header, _ = sent(run, LayerChoices("text", 1, 2))
    pre = run.trace.activations["decoder.layers.1.ff.ff_pre"].value[0, 2].double()
    post = pre.clamp(min=0) if activation == "relu" else pre * (1 + torch.erf(pre / 2**0.5)) / 2
    strongest = sorted(range(len(post)), key=lambda i: -float(post[i]))[:STRONGEST]
    named = ", ".join(f"{i + 1} ({float(post[i]):.2f})" for i in strongest)
    n = sum(float(x) > 0 for x in pre)
    assert 0 < n < len(pre)
    assert (
        header["firing"]
        == f"{n} of {len(pre)} neurons are active (above 0; {name}). Strongest: {named}."
    )


@pytest.mark.parametrize("activation", ["gelu", "gelu tanh", "silu"])
def test_an_activation_has_the_lower_bound_that_is_stated(activation: str) -> None:
    """The bound is compared with a ternary search for the minimum; the tanh form of GELU goes below −0.17, the other does not."""
    sublayer = replace(run_of("gpt", "a").scope.model.sublayers[1], activation=activation)
    said = text.firing_units(sublayer, 3, 7, [(1, 0.5)])
    bound = float(re.search(r"between −([\d.]+) and 0", said)[1])
    function = {
        "gelu": torch.nn.functional.gelu,
        "gelu tanh": lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
        "silu": torch.nn.functional.silu,
    }[activation]
    low, high = -3.0, 0.0
    for _ in range(200):
        left, right = low + (high - low) / 3, high - (high - low) / 3
        values = [float(function(torch.tensor(x, dtype=torch.float64))) for x in (left, right)]
        low, high = (low, right) if values[0] < values[1] else (left, high)
    least = float(function(torch.tensor(low, dtype=torch.float64)))
    assert 0 <= bound + least < 1e-4
    assert (bound > 0.17) == (activation != "gelu")


@pytest.mark.parametrize(
    ("family", "feeds", "adds"),
    [("transformer", True, True), ("gpt", True, True), ("attention only", False, False)],
)
def test_parts_of_a_layer_are_described_from_their_modules(
    family: str, feeds: bool, adds: bool
) -> None:
    run = run_of("gpt", "abc") if family == "gpt" else run_of(family)
    sublayers = run.scope.model.sublayers
    for said in (text.layer_answer(sublayers), text.explain_stream(sublayers, "").split("\n\n")[0]):
        assert ("feed-forward" in said) == feeds
        assert (" add" in said) == adds or "nothing is added" in said
        assert ("replace" in said or "in its place" in said) != adds
    bare = [replace(sublayer, adds=False) for sublayer in sublayers]
    assert ("feed-forward each replace the token's" in text.layer_answer(bare)) == feeds
    assert ("Attention replaces the token's" in text.layer_answer(bare)) != feeds
    assert "In a Transformer" in text.layer_answer(())


def test_an_encoder_shows_no_prediction_and_says_why() -> None:
    run = run_of()
    header, _ = sent(run, LayerChoices("source", 0, 4))
    assert header["without"] == (
        "No prediction is read from the encoder. Its stream ends in vectors for the decoder, and no next token is written "
        "from it."
    )
    bare = text.no_lens(token_view(run, LayerChoices("source", 0, 4)).parts[0].sublayer, "")
    assert bare == text.NO_LENS_OF_ANSWER
    assert header["answer"] is None
    assert all("best" not in stop for stop in header["stops"])
    assert header["title"] == "The source token “e” through the encoder"
    assert len(header["tokens"]) == len(run.trace.streams["source"].ids)
    assert "stopped there" not in header["allTitle"]


def test_the_token_shown_if_none_is_chosen() -> None:
    run = run_of()
    positions = [
        token_view(run, LayerChoices("target", 0, position)).position
        for position in (None, 0, 3, 99)
    ]
    assert positions == [1, 0, 3, 1]
    goes_on = run_of("gpt", "abcab")
    last = len(goes_on.trace.streams["text"].ids) - 1
    assert [
        token_view(goes_on, LayerChoices("text", 0, position)).position
        for position in (None, 2, 99)
    ] == [last, 2, last]
    assert clicked_token(goes_on, LayerChoices("text", 0, None), last) is None
    judge = run_of("gpt", "abcab", head="classes", classes="a,b")
    answers = judge.trace.outputs["classes"].position
    assert [
        token_view(judge, LayerChoices("text", 0, position)).position for position in (None, 2, 99)
    ] == [answers, 2, answers]
    assert clicked_token(judge, LayerChoices("text", 0, None), answers) is None
    assert clicked_token(goes_on, LayerChoices("text", 0, None), 2) == 2
    assert clicked_token(run, LayerChoices("target", 0, None), 3) == 3


def found(family: str, stream: str) -> tuple[Scope, TokenView]:
    run = run_of(family)
    return run.scope, token_view(run, LayerChoices(stream, 0, 2))


@pytest.mark.parametrize(
    ("family", "stream"),
    [
        ("transformer", "target"),
        ("transformer", "source"),
        ("gpt", "text"),
        ("attention only", "source"),
    ],
)
def test_the_table_read_back(family: str, stream: str) -> None:
    scope, at = found(family, stream)
    heading, *rows = csv.reader(io.StringIO(files.layers_csv(at)))
    said = [
        f"{what} {i}" for i in range(1, N_TOP_TOKENS + 1) for what in ("token", "probability")
    ] * (stream == scope.model.writes)
    assert heading == [
        *files.SUBLAYER_COLUMNS,
        *said,
        "token",
        "position",
        "model",
        "fingerprint",
    ]
    assert len(rows) == len(at.parts)
    for i, (row, part) in enumerate(zip(rows, at.parts, strict=True)):
        told = dict(zip(heading, row, strict=True))
        lengths = [np.linalg.norm(v) for v in (part.before, part.added, part.after)]
        shown_lengths = [
            float(told[name]) for name in ("length before", "length added", "length after")
        ]
        np.testing.assert_allclose(shown_lengths, lengths, rtol=1e-5)
        assert float(told["cosine with stream"]) == pytest.approx(part.direction)
        assert (
            told["LayerNorm of"]
            == {"post": "before + added", "pre": "before", "none": ""}[part.sublayer.norm]
        )
        if part.normed is not None:
            given = (
                part.before + part.added if part.sublayer.norm == "post" else part.before
            ).numpy()
            numbers = [given.mean(), given.std(), part.normed.mean(), part.normed.std(correction=0)]
            columns = [
                f"{what} {where} LayerNorm"
                for where in ("before", "after")
                for what in ("mean", "spread")
            ]
            np.testing.assert_allclose(
                [float(told[name]) for name in columns], numbers, rtol=1e-4, atol=1e-6
            )
        fires = (
            ["", ""]
            if part.firing is None
            else [str(int((part.firing.pre > 0).sum())), str(len(part.firing.pre))]
        )
        assert [told["fire"], told["of d_ff"]] == fires
        if said:
            assert float(told["probability 1"]) == pytest.approx(
                float(at.log_probs[i + 1].max().exp())
            )
        assert row[-4:] == [
            at.token.text,
            "2",
            at.run.trace.model.name,
            at.run.trace.model.fingerprint,
        ]


def test_the_vectors_read_back() -> None:
    scope, at = found("gpt", "text")
    with np.load(io.BytesIO(files.layers_npz(at))) as held:
        of_all = ["before", "added", "after", "normed"]
        per_part = {"self_attn": of_all, "ff": [*of_all, "ff_pre", "ff_post"]}
        names = {
            f"decoder.layer{n}.{part}.{name}"
            for n in (1, 2)
            for part, names in per_part.items()
            for name in names
        }
        last = at.run.trace.activations["decoder.layers.1.resid_post"].value[0, 2]
        assert set(held) == names | {
            "log_probs",
            "token",
            "position",
            "model",
            "fingerprint",
        }
        np.testing.assert_array_equal(held["decoder.layer2.ff.after"], last)
        np.testing.assert_allclose(
            held["log_probs"][-1], at.run.trace.next_token.log_probs[2], rtol=1e-4, atol=1e-5
        )
        assert held["log_probs"].shape == (5, scope.config.vocab_size)
        assert (held["position"], str(held["fingerprint"])) == (2, scope.fingerprint)
    assert files.layer_file_name(at, "npz") == "letters.decoder.layers.token3.npz"


def test_pictures_and_differences_count_the_token_from_one(decoder) -> None:
    run, choices, header, _ = decoder
    assert header["file"] == "letters.decoder.token3"
    own, everything = layer_quantities(run, choices)
    assert own.name == "the residual stream at token 3 of the target"
    assert own.file == "decoder.token3.residual-stream"
    view = token_view(run, choices)
    np.testing.assert_allclose(own.values[-1], view.parts[-1].after)
    assert everything.name == "the residual stream of all target tokens after layer 2"
    stream = run.trace.activations["decoder.layers.1.resid_post"].value[0]
    np.testing.assert_allclose(everything.values, stream)


def test_the_payload_is_the_same_for_the_same_run(decoder) -> None:
    run, choices, *_ = decoder
    assert (
        layer_payload(token_view(run, choices)) == on_screen(layer_payloads(run, choices))["layer"]
    )
    assert {look for look, _ in on_screen(layer_payloads(run, choices))["checks"]["rows"]} == {
        "title",
        "passed",
        "value",
    }


def test_each_norm_is_described_in_its_own_words() -> None:
    said = {}
    for name, run in {
        "post": run_of(),
        "pre": run_of("gpt", "abc"),
        "none": run_of("attention only"),
    }.items():
        said[name] = text.explain_stream(
            run.scope.model.sublayers[:2], "next token" * (name == "pre")
        )
    assert "post-LN" in said["post"]
    assert "pre-LN" in said["pre"]
    assert "no residual connections and no LayerNorm" in said["none"]
    assert ["Logit lens" in words_ for words_ in said.values()] == [
        False,
        True,
        False,
    ]
    assert text.no_layers(True, "dates").endswith(
        "added to a stream. Open **dates**, a model of the same task that has them."
    )
    assert text.no_layers(True, "").startswith(
        "This model has no layers of this kind. One recurrent step after the other"
    )
    assert text.no_layers(False, "") == (
        "This model does not reveal what its layers add to a stream. The app could not tell which modules its residual stream passes through."
    )
