"""BERT and its heads: rows of one text or two, hidden tokens, spans, classes, and input that it refuses."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from small import BATCH, N_CTX, random_bert, random_ids, words_of

from models.analysis import layer_parts
from models.architectures.bert import BERT, BERT_FIELDS, BERTConfig
from models.checkpoint import Checkpoint, CheckpointError, load_checkpoint, save_checkpoint
from models.errors import InputError
from models.runs.scope import Scope
from models.trace import record
from models.trace.edits import MaskChange, for_kinds
from models.trace.outputs import ClassProbabilities, MaskedToken, Span, best_span

FIRST, SECOND = "Mary went to the garden.", "John took the milk."
TOKENIZER = words_of(FIRST, SECOND, "Where is")


def scope(head: str = "pretraining", seed: int = 1, **changes: object) -> Scope:
    model = random_bert(seed, vocab_size=TOKENIZER.vocab_size, head=head, **changes)
    return Scope(Checkpoint(Path("random"), model, TOKENIZER, {}), torch.device("cpu"))


def test_one_text_and_two_as_one_row():
    one, two = scope().run(FIRST), scope().run(FIRST, SECOND)
    assert one.streams["text"].tokens == (
        "[CLS]",
        "mary",
        "went",
        "to",
        "the",
        "garden",
        ".",
        "[SEP]",
    )
    assert two.streams["text"].tokens == (
        *one.streams["text"].tokens,
        "john",
        "took",
        "the",
        "milk",
        ".",
        "[SEP]",
    )
    assert one.streams["text"].segments == (0,) * 8
    assert two.streams["text"].segments == (0,) * 8 + (1,) * 6
    row = two.streams["text"]
    assert row.text == f"{FIRST} {SECOND}"
    assert [
        row.text[slice(*place)] for place in row.offsets if place
    ] == "Mary went to the garden . John took the milk .".split()
    assert list(one.outputs) == ["masked token"]
    assert list(two.outputs) == ["masked token", "next sentence"]
    assert scope().run(FIRST, " ").streams == one.streams  # an empty second text is none


def test_the_streams_run_is_the_models_forward_pass():
    """Ids and segments go through the layers by hand; the two segments must give different vectors."""
    opened = scope()
    trace = opened.run(FIRST, SECOND)
    ids = (
        torch.tensor([TOKENIZER.encode_many([FIRST])[0]]),
        torch.tensor([TOKENIZER.encode_many([SECOND])[0]]),
    )
    cls, sep = (torch.tensor([[i]]) for i in (TOKENIZER.cls_id, TOKENIZER.sep_id))
    row = torch.cat([cls, ids[0], sep, ids[1], sep], 1)
    segments = torch.tensor([[0] * 8 + [1] * 6])
    made = opened.model(row, segments)
    torch.testing.assert_close(
        trace.outputs["next sentence"].logits, made["next sentence"][0].detach()
    )
    assert not torch.allclose(opened.model(row)["next sentence"], made["next sentence"])
    last = trace.activations["encoder.layers.1.resid_post"].value[0]
    pooled = (opened.model.heads["pooler"](last[0])).tanh()  # [CLS]'s own
    torch.testing.assert_close(
        trace.outputs["next sentence"].logits, opened.model.heads["next"](pooled).detach()
    )
    embedded = trace.activations["encoder.embedded"].value
    parts = sum(
        trace.activations[f"encoder.{name}"].value for name in ("embedding", "position", "segment")
    )
    torch.testing.assert_close(embedded, opened.model.embedding_norm(parts).detach())
    torch.testing.assert_close(trace.activations["encoder.layers.0.resid_pre"].value, embedded)


def test_a_typed_mask_is_the_mask_token_of_a_model_with_one():
    opened = scope()
    trace = opened.run("Mary [MASK] to the garden.")
    output, row = trace.outputs["masked token"], trace.streams["text"]
    assert (row.ids[2], row.offsets[2], row.text[slice(*row.offsets[2])]) == (
        TOKENIZER.mask_id,
        (5, 11),
        "[MASK]",
    )
    assert isinstance(output, MaskedToken)
    assert (output.positions, output.labels) == ((2,), (None,))
    whole = opened.model(torch.tensor([row.ids]))["masked token"][0, 2].detach()
    torch.testing.assert_close(output.logits[0], whole)
    torch.testing.assert_close(output.log_probs[0], whole.log_softmax(0))
    assert output.predicted == (TOKENIZER.token(int(whole.argmax())),)
    guess = output.predicted[0].removeprefix("##")
    assert trace.output == f"Mary {guess} to the garden." or output.predicted[0].startswith("##")
    assert opened.warnings("Mary [MASK] to the garden.") == {}


def test_masks_are_filled_in_place_and_a_piece_joins_its_word():
    output = MaskedToken("text", (1, 3), (None, None), torch.zeros(2, 3), ("anna", "##s"))
    row = TOKENIZER.encode("[MASK] took[MASK] the milk", before="cls")
    assert (
        BERT.answer(random_bert(), {"masked token": output}, {"text": row}, TOKENIZER)
        == "anna tooks the milk"
    )


def test_tokens_are_hidden_by_their_position():
    opened = scope()
    trace, typed = opened.run(FIRST, masked=[2, 5]), opened.run("Mary [MASK] to the [MASK].")
    row = trace.streams["text"]
    assert (row.ids, row.text) == (typed.streams["text"].ids, FIRST)
    told = TOKENIZER.encode(FIRST, before="cls").ids
    assert row.hidden == ((2, told[2]), (5, told[5]))
    assert trace.outputs["masked token"].labels == (told[2], told[5])
    torch.testing.assert_close(
        trace.outputs["masked token"].logits, typed.outputs["masked token"].logits
    )
    for position in (0, 7, 8, -1):
        with pytest.raises(
            InputError, match=f"position {position} is not a token of the text, which has 8 tokens"
        ) as error:
            opened.run(FIRST, masked=[position])
        assert error.value.field == "masked"
    again = opened.run_batch([(row,)], edits=for_kinds(self=MaskChange(block=((2, 0),))))[0]
    assert again.outputs["masked token"].labels == (told[2], told[5])


def test_the_answer_for_the_next_sentence_has_a_name():
    opened = scope()
    output = opened.run(FIRST, SECOND).outputs["next sentence"]
    assert isinstance(output, ClassProbabilities)
    assert (output.names, output.position) == (("next", "not next"), 0)
    torch.testing.assert_close(
        output.probabilities, output.logits.exp() / output.logits.exp().sum()
    )
    for logits, name in (([2.0, 1.0], "next"), ([1.0, 2.0], "not next")):
        assert replace(output, logits=torch.tensor(logits)).predicted == name


def test_an_answer_is_the_best_span_of_the_context():
    opened = scope("span")
    trace = opened.run(question="Where is Mary?", context=f"{FIRST} {SECOND}")
    row, span = trace.streams["text"], trace.outputs["span"]
    assert isinstance(span, Span)
    with torch.no_grad():
        made = opened.model(torch.tensor([row.ids]), torch.tensor([row.segments]))
    inside = [i for i, place in enumerate(row.offsets) if place and row.segments[i] == 1]
    assert row.tokens[: inside[0]] == ("[CLS]", "where", "is", "mary", "?", "[SEP]")
    assert inside == list(range(6, 17))
    sums = {
        (i, j): float(made["start"][0, i] + made["end"][0, j])
        for i in inside
        for j in inside
        if i <= j
    }
    first, last = max(sums, key=sums.get)
    assert (span.start, span.end) == (first, last)
    assert trace.output == span.text == row.text[row.offsets[first][0] : row.offsets[last][1]]
    for logits, name in ((span.start_logits, "start"), (span.end_logits, "end")):
        torch.testing.assert_close(logits[inside], made[name][0, inside].detach())
        assert (logits[[i for i in range(len(row.ids)) if i not in inside]] == -torch.inf).all()
    p = span.start_logits.softmax(0)[first] * span.end_logits.softmax(0)[last]
    assert float(span.log_probs[first, last].exp()) == pytest.approx(float(p))
    assert float(span.log_probs[last, first]) == (
        -float("inf") if first < last else float(span.log_probs[first, last])
    )
    assert float(span.log_probs.max()) == float(span.log_probs[first, last])


def test_an_end_never_comes_before_its_start():
    start, end = torch.tensor([0.0, 1.0, 5.0]), torch.tensor([9.0, 2.0, 1.0])
    assert best_span(start, end) == (0, 0)
    assert best_span(start, torch.tensor([3.0, 2.0, 1.0])) == (2, 2)
    assert best_span(torch.tensor([4.0, 1.0, 0.0]), torch.tensor([0.0, 2.0, 1.0])) == (0, 1)


def test_classes_have_their_names():
    opened = scope("classes", classes="bad, good,neither")
    output = opened.run(FIRST).outputs["classes"]
    assert output.names == ("bad", "good", "neither")
    assert opened.run(FIRST).output == output.names[int(output.logits.argmax())]
    for head, classes in (("classes", "one"), ("classes", ""), ("span", "a,b")):
        with pytest.raises(
            ValueError,
            match="classes must be two names or more for the head classes, and none for other heads",
        ):
            BERTConfig(31, head=head, classes=classes)
    with pytest.raises(
        ValueError, match="head must be one of pretraining, span, classes, not 'next'"
    ):
        BERTConfig(31, head="next")


@torch.no_grad()
def test_padding_does_not_matter_and_everything_else_does():
    """No token reads padding, and every real token is read by every other."""
    model, ids = random_bert(), random_ids(BATCH, 11)
    segments = (torch.arange(11) >= 5).long().expand(BATCH, 11)
    alone = model(ids, segments)
    longer = (
        torch.nn.functional.pad(ids, (0, 6)),
        torch.nn.functional.pad(segments, (0, 6), value=1),
    )
    padded = model(*longer)
    torch.testing.assert_close(padded["masked token"][:, :11], alone["masked token"])
    torch.testing.assert_close(padded["next sentence"], alone["next sentence"])
    for place in (0, 4, 10):
        changed = ids.clone()
        changed[:, place] = (ids[:, place] - 3) % 27 + 4
        moved = (model(changed, segments)["masked token"] - alone["masked token"]).abs().amax(-1)
        assert (moved > 1e-4).all()


@torch.no_grad()
def test_only_the_asked_positions_are_guessed():
    model, ids = random_bert(), random_ids(BATCH, 11)
    positions = torch.tensor([[3, 7, 1], [0, 10, 10]])
    whole = model(ids)["masked token"]
    asked = model(ids, None, positions)["masked token"]
    for row in range(BATCH):
        torch.testing.assert_close(asked[row], whole[row, positions[row]])


def test_recording_changes_nothing_and_names_each_intermediate():
    model, ids = random_bert(), random_ids(BATCH, 7)
    plain = model(ids)
    with record() as recording:
        recorded = model(ids)
    assert all(torch.equal(plain[name], recorded[name]) for name in plain)
    assert list(recording.attention) == ["encoder.layers.0.self_attn", "encoder.layers.1.self_attn"]
    assert torch.equal(recording.activations["logits"].value, plain["masked token"])
    for site in recording.attention.values():
        assert (site.role, site.stack, site.query_stream, site.key_stream) == (
            "self",
            "encoder",
            "text",
            "text",
        )


def test_every_parameter_gets_a_gradient():
    for head, changes in (("pretraining", {}), ("span", {}), ("classes", {"classes": "a,b"})):
        model, ids = random_bert(head=head, **changes), random_ids(BATCH, N_CTX)
        sum(
            (logits**2).sum()
            for logits in model(ids, torch.arange(N_CTX).remainder(2).expand(BATCH, -1)).values()
        ).backward()
        assert [
            name
            for name, p in model.named_parameters()
            if p.grad is None or not p.grad.abs().sum() > 0
        ] == []


def test_its_capabilities_are_those_that_it_declares():
    model = random_bert()
    assert (model.can_write, model.continues, model.translates, model.first_reads_sum) == (
        False,
        False,
        False,
        False,
    )
    assert [field.name for field in model.text_fields] == ["text", "second_text"]
    assert [field.name for field in random_bert(head="span").fields] == ["question", "context"]
    assert {field.name for field in BERT.possible_fields()} == {
        "text",
        "second_text",
        "masked",
        "question",
        "context",
    }
    with pytest.raises(ValueError, match="random does not generate text; use `run`"):
        scope().write(FIRST)
    with pytest.raises(
        ValueError, match=f"{N_CTX + 1} tokens, but this model reads at most {N_CTX}"
    ):
        model(random_ids(1, N_CTX + 1))


LONG = " ".join([SECOND] * 7)


@pytest.mark.parametrize(
    ("head", "asked", "message", "field"),
    [
        (
            "span",
            {"question": "Where is Mary?"},
            "the context is missing; this model needs question and context",
            "context",
        ),
        (
            "span",
            {"context": FIRST},
            "the question is missing; this model needs question and context",
            "question",
        ),
        (
            "span",
            {"question": "Where is Mary?", "context": " "},
            "the context is empty; type some text",
            "context",
        ),
        (
            "span",
            {"question": "Where is Mary?", "context": LONG},
            f"question and context have 42 tokens together; this model reads at most {N_CTX}",
            "context",
        ),
        (
            "span",
            {"question": "Where?", "context": "\u200d"},
            "the context holds nothing that this model can read",
            "context",
        ),
        (
            "pretraining",
            {"text": LONG + LONG},
            f"the text has 72 tokens; this model reads at most {N_CTX}",
            "text",
        ),
        (
            "pretraining",
            {"text": FIRST, "second_text": LONG},
            f"text and second text have 44 tokens together; this model reads at most {N_CTX}",
            "second_text",
        ),
        (
            "pretraining",
            {"text": FIRST, "second_text": "x" * 800},
            f"the second text has 800 characters; this model reads at most {N_CTX} tokens",
            "second_text",
        ),
    ],
)
def test_unreadable_input_is_reported_at_its_field(head, asked, message, field):
    with pytest.raises(InputError, match=f"^{message}$") as error:
        scope(head).run(**asked)
    assert error.value.field == field


def test_a_checkpoint_restores_the_model_and_its_special_tokens(tmp_path):
    model = scope("span").model
    save_checkpoint(
        tmp_path, model, TOKENIZER, {"step": 0, "examples": [["Where is Mary?", FIRST]]}
    )
    opened = load_checkpoint(tmp_path)
    assert opened.tokenizer.special_ids == {"pad": 0, "unknown": 1, "cls": 2, "sep": 3, "mask": 4}
    assert opened.model.config == model.config
    assert opened.model.fields == BERT_FIELDS["span"]
    config = (tmp_path / "config.json").read_text().replace('"pad_id": 0', '"pad_id": 3')
    (tmp_path / "config.json").write_text(config)
    (tmp_path / "training.json").write_text("{}")
    with pytest.raises(
        CheckpointError, match=r"config.json: pad_id must be 0, the tokenizer's \[PAD\], not 3"
    ):
        load_checkpoint(tmp_path)


def test_the_input_is_part_of_the_trace():
    trace = scope("span").run("Where is Mary?", context=FIRST)
    assert trace.fields == {"question": "Where is Mary?", "context": FIRST}
    assert scope().run(FIRST, masked=(2,)).fields == {
        "text": FIRST,
        "second_text": None,
        "masked": (2,),
    }
    assert not trace.teacher_forced


def test_every_part_of_a_layer_is_shown():
    """At every token, what each part adds and the LayerNorm after it are the run's own; no prediction is read from inner layers."""
    asked = scope()
    run, model = asked.run("the cat sat", "a dog ran"), asked.model
    assert {sublayer.stream for sublayer in model.sublayers} == {"text"}
    for position in range(len(run.streams["text"].ids)):
        found = layer_parts.sublayer_effects(model, run, "text", position)
        assert [part.sublayer.role for part in found] == [
            "self",
            "feed-forward",
        ] * model.config.n_layers
        checks = layer_parts.check_parts(model, run, found, position)
        assert [check.name for check in checks] == [
            "the parts add up to the stream",
            "LayerNorm by hand is the recorded one",
        ]
        assert all(check.value <= check.limit for check in checks)
