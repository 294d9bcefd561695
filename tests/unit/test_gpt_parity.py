"""GPT against Hugging Face's GPT-2 and GPT-1 with copied weights: logits and every head of every layer."""

import pytest
import torch
from small import BATCH, D_HEAD, N_CTX, N_HEADS, VOCAB, random_gpt, random_ids
from torch import Tensor, nn
from transformers import GPT2Config, GPT2LMHeadModel, OpenAIGPTConfig, OpenAIGPTLMHeadModel

from models import decoding
from models.architectures.gpt import GPT
from models.trace import record

N = 13
SIZES = {
    "vocab_size": VOCAB,
    "n_positions": N_CTX,
    "n_embd": N_HEADS * D_HEAD,
    "n_layer": 2,
    "n_head": N_HEADS,
}
PLAIN = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "attn_implementation": "eager"}


def ours(norm: str) -> GPT:
    return random_gpt(norm=norm, activation="gelu tanh", d_ff=4 * N_HEADS * D_HEAD)


def gpt2(model: GPT) -> nn.Module:
    theirs = GPT2LMHeadModel(GPT2Config(**SIZES, **PLAIN, bos_token_id=1, eos_token_id=2)).eval()
    body = theirs.transformer
    copied(model, body.wte, body.wpe, body.h)
    body.ln_f.load_state_dict(model.decoder.last_norm.state_dict())
    return theirs


def gpt1(model: GPT) -> nn.Module:
    theirs = OpenAIGPTLMHeadModel(OpenAIGPTConfig(**SIZES, **PLAIN)).eval()
    body = theirs.transformer
    copied(model, body.tokens_embed, body.positions_embed, body.h)
    return theirs


@torch.no_grad()
def copied(
    model: GPT, tokens: nn.Embedding, positions: nn.Embedding, blocks: nn.ModuleList
) -> None:
    """Copy the weights: their matrices are transposed, with W_Q, W_K and W_V side by side in one."""
    tokens.weight.copy_(model.embedding.weight)
    positions.weight.copy_(model.positions.table)
    for block, layer in zip(blocks, model.decoder.layers, strict=True):
        attention = layer.self_attn
        three = (attention.W_Q, attention.W_K, attention.W_V)
        block.attn.c_attn.weight.copy_(torch.cat([w.weight.T for w in three], 1))
        block.attn.c_attn.bias.copy_(torch.cat([w.bias for w in three]))
        alike = (
            (block.attn.c_proj, attention.W_O),
            (block.mlp.c_fc, layer.ff.W_1),
            (block.mlp.c_proj, layer.ff.W_2),
        )
        for theirs, linear in alike:
            theirs.weight.copy_(linear.weight.T)
            theirs.bias.copy_(linear.bias)
        block.ln_1.load_state_dict(layer.add_norm_1.layer_norm.state_dict())
        block.ln_2.load_state_dict(layer.add_norm_2.layer_norm.state_dict())


def ids() -> Tensor:
    return random_ids(BATCH, N)


@pytest.mark.parametrize(("norm", "make"), [("pre", gpt2), ("post", gpt1)], ids=["GPT-2", "GPT-1"])
@torch.no_grad()
def test_logits_and_every_head(norm, make):
    model = ours(norm)
    theirs = make(model)(ids(), output_attentions=True)
    with record() as recording:
        logits = model(ids())
    torch.testing.assert_close(logits, theirs.logits)
    assert len(theirs.attentions) == len(recording.attention) == 2
    for weights, site in zip(theirs.attentions, recording.attention.values(), strict=True):
        for row in range(BATCH):
            torch.testing.assert_close(site.weights(None, row), weights[row])


@torch.no_grad()
def test_gpt_2_cached():
    """Both decode with a cache from a prompt of three tokens: the distribution, and the new token's row of every head."""
    model = ours("pre")
    other, past = gpt2(model), None
    run = decoding.Incremental(model, ids()[:, :3])
    for m in range(3, N + 1):
        theirs = other(
            ids()[:, 0 if past is None else m - 1 : m],
            past_key_values=past,
            use_cache=True,
            output_attentions=True,
        )
        past = theirs.past_key_values
        with record() as recording:
            log_probs = run.next_log_probs(ids()[:, :m])
        torch.testing.assert_close(log_probs, theirs.logits[:, -1].log_softmax(-1))
        for weights, site in zip(theirs.attentions, recording.attention.values(), strict=True):
            torch.testing.assert_close(site.weights(None, 1)[:, -1], weights[1, :, -1])


@torch.no_grad()
def test_gpt_2_writes_the_same_greedily():
    model, prompt = ours("pre"), random_ids(1, 5, seed=3)
    how = {
        "attention_mask": torch.ones_like(prompt),
        "do_sample": False,
        "max_new_tokens": 17,
        "pad_token_id": 0,
    }
    theirs = gpt2(model).generate(prompt, **how)
    written = [step.token for step in decoding.greedy(model, prompt[0].tolist(), max_new=17)]
    assert theirs[0, 5:].tolist() == written
