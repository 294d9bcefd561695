"""BERT against Hugging Face's with copied weights: logits of each head and every head of every layer."""

import pytest
import torch
from small import BATCH, D_FF, D_HEAD, N_CTX, N_HEADS, VOCAB, random_bert, random_ids
from torch import Tensor, nn
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertForPreTraining,
    BertForQuestionAnswering,
    BertForSequenceClassification,
)

from models.architectures.bert import BERT, MASKED_OUTPUT, NEXT_SENTENCE, BERTConfig
from models.trace import record

N, FIRST = 13, 7  # tokens of a row, and of its first text
ACTIVATIONS = {"gelu": "gelu", "gelu tanh": "gelu_new"}


def theirs_of(make: type[nn.Module], activation: str = "gelu", **more: object) -> nn.Module:
    return make(BertConfig(
        vocab_size=VOCAB, hidden_size=N_HEADS * D_HEAD, num_hidden_layers=2, num_attention_heads=N_HEADS, intermediate_size=D_FF,
        max_position_embeddings=N_CTX, type_vocab_size=2, hidden_act=ACTIVATIONS[activation], hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0, layer_norm_eps=1e-5, attn_implementation="eager", **more,
    )).eval()  # fmt: skip


@torch.no_grad()
def copied(model: BERT, theirs: nn.Module) -> None:
    """Copy the weights of the encoder, which is the same for all heads."""
    body = theirs.bert
    body.embeddings.word_embeddings.weight.copy_(model.embedding.weight)
    body.embeddings.position_embeddings.weight.copy_(model.positions.table)
    body.embeddings.token_type_embeddings.weight.copy_(model.segments.weight)
    body.embeddings.LayerNorm.load_state_dict(model.embedding_norm.state_dict())
    for block, layer in zip(body.encoder.layer, model.encoder.layers, strict=True):
        own = layer.self_attn
        alike = (
            (block.attention.self.query, own.W_Q), (block.attention.self.key, own.W_K), (block.attention.self.value, own.W_V),
            (block.attention.output.dense, own.W_O), (block.attention.output.LayerNorm, layer.add_norm_1.layer_norm),
            (block.intermediate.dense, layer.ff.W_1), (block.output.dense, layer.ff.W_2),
            (block.output.LayerNorm, layer.add_norm_2.layer_norm),
        )  # fmt: skip
        for their, our in alike:
            their.load_state_dict(our.state_dict())
    if body.pooler is not None:
        body.pooler.dense.load_state_dict(model.heads["pooler"].state_dict())


@torch.no_grad()
def copied_guesses(model: BERT, predictions: nn.Module) -> None:
    masked = model.heads["masked"]
    predictions.transform.dense.load_state_dict(masked.transform.state_dict())
    predictions.transform.LayerNorm.load_state_dict(masked.layer_norm.state_dict())
    predictions.decoder.weight.copy_(model.embedding.weight)
    for bias in (predictions.bias, predictions.decoder.bias):
        bias.copy_(masked.bias)


def rows() -> tuple[Tensor, Tensor, Tensor]:
    """Return ids, segments, and which positions are not padding: the second row is shorter."""
    ids = random_ids(BATCH, N)
    ids[1, 11:] = 0
    segments = (torch.arange(N) >= FIRST).long().expand(BATCH, N)
    return ids, segments, ids != 0


def run(model: BERT, theirs: nn.Module) -> tuple[dict[str, Tensor], object, object]:
    ids, segments, real = rows()
    with record() as recording:
        ours = model(ids, segments)
    return (
        ours,
        theirs(ids, token_type_ids=segments, attention_mask=real.long(), output_attentions=True),
        recording,
    )


@pytest.mark.parametrize("activation", ACTIVATIONS)
@torch.no_grad()
def test_masked_tokens_next_sentence_and_every_head(activation):
    model, theirs = random_bert(activation=activation), theirs_of(BertForPreTraining, activation)
    copied(model, theirs)
    copied_guesses(model, theirs.cls.predictions)
    theirs.cls.seq_relationship.load_state_dict(model.heads["next"].state_dict())
    ours, made, recording = run(model, theirs)
    real = rows()[2]
    torch.testing.assert_close(ours[MASKED_OUTPUT][real], made.prediction_logits[real])
    torch.testing.assert_close(ours[NEXT_SENTENCE], made.seq_relationship_logits)
    assert len(made.attentions) == len(recording.attention) == 2
    for weights, site in zip(made.attentions, recording.attention.values(), strict=True):
        for row in range(BATCH):
            torch.testing.assert_close(
                site.weights(None, row)[:, real[row]], weights[row][:, real[row]]
            )


@torch.no_grad()
def test_masked_tokens_without_the_pooler():
    model, theirs = random_bert(), theirs_of(BertForMaskedLM)
    copied(model, theirs)
    copied_guesses(model, theirs.cls.predictions)
    ours, made, _ = run(model, theirs)
    real = rows()[2]
    torch.testing.assert_close(ours[MASKED_OUTPUT][real], made.logits[real])


@torch.no_grad()
def test_the_start_and_the_end_of_an_answer():
    model, theirs = random_bert(head="span"), theirs_of(BertForQuestionAnswering)
    copied(model, theirs)
    theirs.qa_outputs.load_state_dict(model.heads["span"].state_dict())
    ours, made, _ = run(model, theirs)
    real = rows()[2]
    torch.testing.assert_close(ours["start"][real], made.start_logits[real])
    torch.testing.assert_close(ours["end"][real], made.end_logits[real])


@torch.no_grad()
def test_classes():
    model = random_bert(head="classes", classes="bad, good, neither")
    theirs = theirs_of(BertForSequenceClassification, num_labels=3)
    copied(model, theirs)
    theirs.classifier.load_state_dict(model.heads["classes"].state_dict())
    ours, made, _ = run(model, theirs)
    torch.testing.assert_close(ours["classes"], made.logits)


def test_bert_base_has_as_many_parameters():
    """110 M (Devlin et al. 2019, §3), counted without allocating them."""
    with torch.device("meta"):
        ours, theirs = BERT(BERTConfig.base()), BertForPreTraining(BertConfig())
    count = sum(p.numel() for p in ours.parameters())
    assert count == sum(p.numel() for p in theirs.parameters()) == 110_106_428
