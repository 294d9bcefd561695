"""The contract of a loaded checkpoint in a notebook, and its errors for text that it cannot read."""

import inspect
import threading
from dataclasses import asdict

import pytest
import torch
from small import forbidding

import models
from models.architectures.attention_only import AttentionOnlyConfig
from models.architectures.gpt import GPTConfig
from models.architectures.seq2seq import Seq2SeqConfig
from models.architectures.transformer import Transformer, TransformerConfig
from models.checkpoint import Checkpoint
from models.devices import default_device
from models.layers.masks import DRAWN, LOOK_AHEAD
from models.runs.scope import Scope
from models.tokenizers.base import END, START
from models.trace.edits import MaskChange, for_kinds


@pytest.fixture(scope="module")
def trace(scope):
    return scope.run("abc", "cba")


def test_the_notebook_snippet(trained_folder):
    scope = models.load(trained_folder, device="cpu")
    trace = scope.run("abc", "cba")  # teacher-forced
    site = trace.attention["decoder.layers.0.cross_attn"]
    weights = site.weights(head=2)  # (query, key), rows sum to 1
    assert weights.shape == (4, 4)
    torch.testing.assert_close(weights.sum(-1), torch.ones(4))
    assert site.query_tokens == ("<s>", "c", "b", "a")
    assert site.key_tokens == ("a", "b", "c", "</s>")
    assert trace.output == "cba"
    assert (site.layer, site.n_heads, site.d_head, site.kind) == (0, 3, 11, "cross")
    assert (scope.name, scope.task, scope.n_ctx) == ("reversal", "reversal", 13)
    assert scope.training["step"] == 199
    assert scope.config is scope.model.config
    assert not scope.model.training


def test_an_empty_record_is_no_error(scope):
    """The task and the examples come from the training record; without them there are none."""
    bare = Scope(Checkpoint(scope.path, scope.model, scope.tokenizer, {}), scope.device)
    assert (bare.task, bare.examples, bare.training) == ("unknown", [], {})
    told = Scope(
        Checkpoint(
            scope.path, scope.model, scope.tokenizer, {"task": "dates", "examples": ["1 May"]}
        ),
        scope.device,
    )
    assert (told.task, told.examples) == ("dates", ["1 May"])


def test_the_default_sizes():
    """The Transformer's are the paper's (Table 3), GPT's those of GPT-2 with GPT's context; the others are our own."""
    assert asdict(TransformerConfig(31)) == {
        "vocab_size": 31, "d_model": 512, "n_heads": 8, "n_encoder_layers": 6, "n_decoder_layers": 6, "d_ff": 2048, "dropout": 0.1,
        "n_ctx": 512, "norm": "post", "positions": "sinusoidal", "similarity": "scaled dot",
        "decoder_mask": "look-ahead", "init": "xavier", "pad_id": 0, "start_id": 1, "end_id": 2,
    }  # fmt: skip
    assert TransformerConfig.base() == TransformerConfig(37_000)
    big = {"d_model": 1024, "n_heads": 16, "d_ff": 4096, "dropout": 0.3}
    assert TransformerConfig.big() == TransformerConfig(37_000, **big)
    assert asdict(GPTConfig(31)) == {
        "vocab_size": 31, "d_model": 768, "n_heads": 12, "n_layers": 12, "n_ctx": 512, "d_ff": 3072, "dropout": 0.1, "norm": "pre",
        "positions": "learned", "activation": "gelu", "similarity": "scaled dot", "init": "scaled", "window": 0,
        "head": "pretraining", "classes": "", "n_texts": 1,
        "pad_id": 0, "start_id": 1, "end_id": 2,
    }  # fmt: skip
    assert asdict(Seq2SeqConfig(31)) == {
        "vocab_size": 31, "d_model": 256, "d_hidden": 320, "d_align": 320, "cell": "gru", "bidirectional": True,
        "attention": "bahdanau", "dropout": 0.1, "n_ctx": 512, "pad_id": 0, "start_id": 1, "end_id": 2,
    }  # fmt: skip
    assert (Seq2SeqConfig(31).d_memory, Seq2SeqConfig(31, bidirectional=False).d_memory) == (
        640,
        320,
    )
    assert asdict(AttentionOnlyConfig(31)) == {
        "vocab_size": 31, "d_model": 64, "n_heads": 1, "n_self_layers": 0, "similarity": "scaled dot", "n_ctx": 64,
        "positions": "sinusoidal", "residual": False, "pad_id": 0, "start_id": 1, "end_id": 2,
    }  # fmt: skip


def test_the_public_names():
    for name in models.__all__:
        thing = getattr(models, name)
        assert inspect.getdoc(thing), name
    for error in (models.InputError, models.CheckpointError, models.DataError):
        assert issubclass(error, ValueError)


def test_a_teacher_forced_trace(scope, trace):
    assert trace.teacher_forced
    assert trace.streams["source"].tokens == ("a", "b", "c", "</s>")
    assert trace.streams["target"].tokens == ("<s>", "c", "b", "a")
    assert trace.next_token.logits.shape == (4, 9)
    assert trace.next_token.predicted == ("c", "b", "a", "</s>")
    with torch.no_grad():
        logits = scope.model(
            torch.tensor([trace.streams["source"].ids]), torch.tensor([trace.streams["target"].ids])
        )[0]
    assert torch.equal(trace.next_token.logits, logits)
    assert list(trace.attention) == [
        "encoder.layers.0.self_attn", "decoder.layers.0.self_attn", "decoder.layers.0.cross_attn",
    ]  # fmt: skip
    assert trace.activations["encoder.layers.0.resid_mid"].tokens == trace.streams["source"].tokens
    assert trace.activations["logits"].tokens == trace.streams["target"].tokens


def test_a_trace_holds_plain_data(trace):
    held = [a.value for a in trace.activations.values()]
    for site in trace.attention.values():
        held += [site.q, site.k, site.v, site.out, site.weights()]
    for tensor in [trace.next_token.logits, *held]:
        assert (tensor.device.type, tensor.dtype, tensor.requires_grad) == (
            "cpu",
            torch.float32,
            False,
        )


def test_the_tensors_of_a_trace_can_be_computed_with(scope, trace):
    x = trace.activations["encoder.layers.0.resid_pre"].value
    module = scope.model.encoder.layers[0].self_attn
    module.W_Q(x).sum().backward()  # no inference tensors, with which autograd fails
    scope.model.zero_grad()


def test_without_a_target_the_model_generates_one(scope):
    trace = scope.run("abc")
    written = scope.write("abc")
    assert not trace.teacher_forced
    assert trace.output == written.text == "cba"
    assert trace.streams["target"].ids == (START, *written.ids[:-1])
    assert written.ids[-1] == END
    assert trace.next_token.predicted == scope.tokenizer.tokens(
        written.ids
    )  # teacher-forced on its own text it predicts the same again
    for step, logits in zip(written.steps, trace.next_token.logits, strict=True):
        torch.testing.assert_close(step.log_probs, logits.log_softmax(-1), atol=1e-4, rtol=1e-4)


def test_a_draft_leaves_the_trace_as_it_is(scope):
    plain = scope.run("abc")
    for draft in (plain.streams["target"].ids[1:], plain.streams["target"].ids[1:4], (5, 6)):
        drafted = scope.run("abc", draft_tokens=[draft])
        assert (drafted.streams, drafted.output, drafted.teacher_forced) == (
            plain.streams,
            plain.output,
            False,
        )
        assert drafted.next_token.logits.equal(plain.next_token.logits)


def test_each_position_has_the_models_next_token(scope):
    trace = scope.run("abc", "cbe")
    assert trace.next_token.predicted[:3] == (
        "c",
        "b",
        "a",
    )  # though the given text continues with e
    assert trace.streams["target"].tokens == ("<s>", "c", "b", "e")


def test_each_decoding_method(scope):
    assert scope.write("abc", "beam").text == scope.write("abc", "beam", width=2).text == "cba"
    assert scope.write("abc", "sample", seed=3, top_k=1).text == "cba"
    assert scope.write("abc", max_new=2).text == "cb"
    with pytest.raises(ValueError, match="strategy must be greedy, sample or beam, not 'guess'"):
        scope.write("abc", "guess")


@pytest.mark.parametrize("field", ["source", "target"])
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the {} is empty; type some text"),
        ("   \n\t ", "the {} is empty; type some text"),
        ("a" * 20_000, "the {} has 20,000 characters; this model reads at most 13 tokens"),
        ("abcde" * 3, "the {} has 16 tokens; this model reads at most 13"),
        ("你" * 13, "the {} has 14 tokens; this model reads at most 13"),
    ],
)
def test_text_the_model_cannot_read(scope, field, text, message):
    texts = {"source": "abc", "target": "cba"} | {field: text}
    with pytest.raises(models.InputError) as error:
        scope.run(**texts)
    assert str(error.value) == message.format(field)
    assert error.value.field == field


def test_a_batch_takes_lists_of_texts_with_at_least_one_text(scope):
    for run in (scope.run_batch, scope.run_each):
        with pytest.raises(ValueError, match="^a batch must hold at least one input$"):
            run([])
        with pytest.raises(
            ValueError, match="^each input of a batch must be a list of texts, got 'ab'$"
        ):
            run([["ab"], "ab"])


def test_an_empty_prompt_is_reported(scope):
    for ask in (scope.write, scope.input_ids):
        with pytest.raises(
            models.InputError, match="^the source is missing; this model needs source$"
        ):
            ask(None)


def test_the_longest_text_that_fits(scope):
    assert len(scope.run("abcde" * 2 + "ab", "cba").streams["source"].ids) == scope.n_ctx
    assert len(scope.run("abc", "abcde" * 2 + "ab").streams["target"].ids) == scope.n_ctx
    assert len(scope.run("abcde" * 2 + "ab").streams["target"].ids) <= scope.n_ctx


@pytest.mark.parametrize(
    "text",
    ["👍🏽 a", "你好", "שלום", "e\u0301", "<script>", "</style>", "<s> </s>", "\ud83d", "\x00"],
)
def test_unknown_characters_are_run_and_named(scope, text):
    trace = scope.run(text, text)
    assert trace.streams["source"].text == text
    assert trace.next_token.logits.isfinite().all()
    assert set(trace.streams["source"].unknown) == set(text) - set("abcde")
    assert scope.run(text).next_token.logits.isfinite().all()


def test_a_drawn_mask_blocks_what_it_says(scope, trace):
    allowed = torch.ones(4, 4, dtype=torch.bool)
    allowed[1, 0] = allowed[2] = False
    drawn = scope.run("abc", "cba", edits=forbidding({"cross": allowed, "decoder_self": allowed}))
    cross, own = (drawn.attention[f"decoder.layers.0.{n}_attn"] for n in ("cross", "self"))
    assert torch.equal(cross.allowed(), allowed)
    assert (cross.weights()[:, ~allowed] == 0).all()
    assert cross.weights()[:, 2].sum() == 0
    torch.testing.assert_close(cross.weights().sum(-1)[:, [0, 1, 3]], torch.ones(3, 3))
    assert cross.blocked_by(1, 0) == [DRAWN]
    assert own.blocked_by(1, 0) == [DRAWN]
    assert own.blocked_by(2, 3) == [LOOK_AHEAD, DRAWN]
    assert own.blocked_by(1, 3) == [LOOK_AHEAD]
    assert drawn.next_token.logits.isfinite().all()
    assert not torch.equal(drawn.next_token.logits, trace.next_token.logits)
    assert torch.equal(
        scope.run("abc", "cba").next_token.logits, trace.next_token.logits
    )  # nothing stays behind


def test_drawing_nothing_changes_nothing(scope, trace):
    everything = torch.ones(4, 4, dtype=torch.bool)
    drawn = scope.run("abc", "cba", edits=forbidding({"encoder_self": everything}))
    assert torch.equal(drawn.next_token.logits, trace.next_token.logits)


def test_an_edit_of_a_kind_that_the_model_lacks(scope):
    with pytest.raises(
        ValueError, match="edits are for encoder_self, decoder_self, cross, got 'sideways'"
    ):
        scope.run("ab", "cba", edits=for_kinds(sideways=MaskChange(preset="causal")))


def test_pairs_in_one_batch_have_the_results_they_have_alone(scope):
    pairs = [("abcde", "e"), ("a", "abc"), ("cb", None)]
    for (source, target), together in zip(pairs, scope.run_batch(pairs), strict=True):
        alone = scope.run(source, target)
        n, m = len(alone.streams["source"].ids), len(alone.streams["target"].ids)
        assert (together.streams, together.output) == (alone.streams, alone.output)
        torch.testing.assert_close(
            together.next_token.logits, alone.next_token.logits, atol=1e-4, rtol=1e-4
        )
        for name, site in alone.attention.items():
            wide = together.attention[name]
            torch.testing.assert_close(
                wide.weights()[:, : site.q.shape[2], : site.k.shape[2]], site.weights()
            )
        cross = together.attention["decoder.layers.0.cross_attn"]
        assert cross.key_tokens == (*alone.streams["source"].tokens, *["<pad>"] * (6 - n))
        assert cross.query_tokens[:m] == alone.streams["target"].tokens


@pytest.mark.parametrize("name", ["dates", "dates-bahdanau", "dates-rnn", "dates-self-attn"])
def test_pairs_run_together_have_the_traces_they_have_alone(name):
    scope = models.load(name, device="cpu")
    pairs = [
        ("3 May 1999", None),
        ("Tuesday, 22 October 2024", None),
        ("1.2.03", "2003"),
        ("5/6/07", None),
    ]
    for (source, target), together in zip(pairs, scope.run_each(pairs), strict=True):
        alone = scope.run(source, target)
        assert (together.streams, together.output) == (alone.streams, alone.output)
        assert (together.next_token.predicted, together.teacher_forced) == (
            alone.next_token.predicted,
            target is not None,
        )
        torch.testing.assert_close(
            together.next_token.logits, alone.next_token.logits, atol=1e-4, rtol=1e-4
        )
        assert list(together.activations) == list(alone.activations)
        for key, activation in alone.activations.items():
            assert together.activations[key].tokens == activation.tokens
            torch.testing.assert_close(
                together.activations[key].value, activation.value, atol=1e-4, rtol=1e-4
            )
        for key, site in alone.attention.items():
            mine = together.attention[key]
            assert (mine.query_tokens, mine.key_tokens) == (site.query_tokens, site.key_tokens)
            assert torch.equal(mine.allowed(head=None), site.allowed(head=None))
            torch.testing.assert_close(mine.weights(), site.weights(), atol=1e-5, rtol=1e-4)
            torch.testing.assert_close(mine.out, mine.head_out()[None], atol=1e-5, rtol=1e-4)


def test_pairs_run_together_stop_where_they_would_alone(scope, monkeypatch):
    monkeypatch.setattr(Transformer, "max_new_tokens", lambda model, n: n)
    pairs = [("abc", None), ("abcde", None)]
    assert [t.streams for t in scope.run_each(pairs)] == [
        scope.run(*pair).streams for pair in pairs
    ]


def test_sessions_in_many_threads_get_their_own_numbers(scope):
    texts = [("abcde"[i % 5] * (1 + i % 4), "edcba"[i % 3] * (1 + i % 5)) for i in range(17)]
    alone, together = [scope.run(*pair) for pair in texts], [None] * 17

    def session(i: int) -> None:
        together[i] = scope.run(*texts[i])

    threads = [threading.Thread(target=session, args=(i,)) for i in range(17)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for a, b in zip(alone, together, strict=True):
        assert a.streams == b.streams
        assert torch.equal(a.next_token.logits, b.next_token.logits)
        for name, site in a.attention.items():
            assert torch.equal(site.weights(), b.attention[name].weights())


def test_devices(trained_folder, monkeypatch):
    with pytest.raises(ValueError, match="device 'abacus' cannot be used: "):
        models.load(trained_folder, device="abacus")
    monkeypatch.setenv("ATTNSCOPE_DEVICE", "abacus")
    with pytest.raises(ValueError, match="device 'abacus' cannot be used: "):
        models.load(trained_folder)
    monkeypatch.setenv("ATTNSCOPE_DEVICE", "cpu")
    assert default_device() == models.load(trained_folder).device == torch.device("cpu")


@pytest.mark.parametrize(
    ("there", "first"), [((True, True), "cuda"), ((False, True), "mps"), ((False, False), "cpu")]
)
def test_the_first_available_device(monkeypatch, there, first):
    monkeypatch.delenv("ATTNSCOPE_DEVICE", raising=False)
    for backend, is_there in zip((torch.cuda, torch.backends.mps), there, strict=True):
        monkeypatch.setattr(backend, "is_available", lambda is_there=is_there: is_there)
    assert default_device() == torch.device(first)


@pytest.mark.skipif(
    torch.cuda.is_available(), reason="this machine has what the test wants missing"
)
def test_a_missing_device_is_an_error(trained_folder):
    with pytest.raises(ValueError, match="device 'cuda' cannot be used: "):
        models.load(trained_folder, device="cuda")
