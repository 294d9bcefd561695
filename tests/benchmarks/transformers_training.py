"""Training tokens per second of GPT and of BERT beside the same models in Hugging Face's transformers. Needs the extra "dev".

Theirs run on torch's fused attention and without attention dropout, which ours do not have. Both sides of a pair have as many
parameters and the same activation, batches and optimiser. GPT is measured with GPT-2's own GELU, the tanh form, which theirs
computes step by step, and with the erf form, which is one call of torch on both sides. Each side uses its own loss; for BERT,
ours computes logits at the masked positions only, theirs at all.
"""

import random
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import cycle
from statistics import median

import torch
from torch import Tensor, nn

from models.architectures.bert import BERT, BERTConfig
from models.architectures.gpt import GPT, GPTConfig
from models.training.batches import Batch, Masked, collate_masked, collate_windows
from models.training.objectives import CLASS_BATCH, LABEL_BATCH, masked_tokens, next_tokens
from tests.benchmarks.side_by_side import Result, in_turns, over, print_table

VOCAB = 4000
GPT_SIZES = GPTConfig(VOCAB, d_model=120, n_heads=6, n_layers=4, n_ctx=128, dropout=0.1)
BERT_SIZES = BERTConfig(VOCAB, d_model=128, n_heads=4, n_layers=4, n_ctx=128, dropout=0.1)
THEIR_NAMES = {"gelu tanh": "gelu_new", "gelu": "gelu"}
N_BATCHES, ROWS = 4, 16
SHARE = 0.15  # share of a row's tokens that BERT predicts

Loss = Callable[[nn.Module, Batch], Tensor]


def gpt2(c: GPTConfig) -> nn.Module:
    """Return GPT-2 with a language model's head and our activation under their name."""
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(GPT2Config(
        vocab_size=c.vocab_size, n_positions=c.n_ctx, n_embd=c.d_model, n_layer=c.n_layers, n_head=c.n_heads, n_inner=c.d_ff,
        resid_pdrop=c.dropout, embd_pdrop=c.dropout, attn_pdrop=0.0, activation_function=THEIR_NAMES[c.activation],
        attn_implementation="sdpa", use_cache=False, bos_token_id=c.start_id, eos_token_id=c.end_id, pad_token_id=c.pad_id,
    ))  # fmt: skip


def bert(c: BERTConfig) -> nn.Module:
    """Return BERT with the heads of its pre-training."""
    from transformers import BertConfig, BertForPreTraining

    return BertForPreTraining(BertConfig(
        vocab_size=c.vocab_size, hidden_size=c.d_model, num_hidden_layers=c.n_layers, num_attention_heads=c.n_heads,
        intermediate_size=c.d_ff, hidden_dropout_prob=c.dropout, attention_probs_dropout_prob=0.0, hidden_act="gelu",
        max_position_embeddings=c.n_ctx, pad_token_id=c.pad_id, layer_norm_eps=1e-5, attn_implementation="sdpa",
    ))  # fmt: skip


def text_batches() -> list[Batch]:
    """Return rows of one length, in which every token is to be predicted."""
    rng = random.Random(1)
    rows = [
        [rng.randrange(4, VOCAB) for _ in range(GPT_SIZES.n_ctx + 1)]
        for _ in range(ROWS * N_BATCHES)
    ]
    return [
        collate_windows([(row[:-1], row[1:]) for row in rows[i::N_BATCHES]], 0)
        for i in range(N_BATCHES)
    ]


def masked_batches() -> list[Batch]:
    """Return rows of two texts, in which some tokens are to be predicted."""
    rng = random.Random(2)

    def row() -> Masked:
        n = BERT_SIZES.n_ctx
        places = sorted(rng.sample(range(1, n), round(SHARE * n)))
        ids, labels = ([rng.randrange(5, VOCAB) for _ in range(k)] for k in (n, len(places)))
        return ids, [int(i >= n // 2) for i in range(n)], places, labels, (rng.randrange(2),)

    return [collate_masked([row() for _ in range(ROWS)], 0) for _ in range(N_BATCHES)]


def our_loss(objective: Callable[..., dict[str, Tensor]], model: nn.Module, batch: Batch) -> Tensor:
    """Return the loss as models.training.trainer.Trainer adds it up."""
    losses = objective(model(*batch.inputs), batch, 0.0)
    return losses[LABEL_BATCH] / batch.n_labels + (
        losses[CLASS_BATCH] / batch.n_classes if CLASS_BATCH in losses else 0.0
    )


def gpt2_loss(model: nn.Module, batch: Batch) -> Tensor:
    """Return their loss, which leaves out the first token of a row; ours leaves out none."""
    (ids,) = batch.inputs
    return model(input_ids=ids, labels=ids).loss


def bert_loss(model: nn.Module, batch: Batch) -> Tensor:
    """Return their own loss of the masked tokens and of the pair, with logits at every position."""
    ids, segments, positions = batch.inputs
    labels = torch.full_like(ids, -100).scatter(1, positions, batch.labels)
    return model(
        input_ids=ids, token_type_ids=segments, labels=labels, next_sentence_label=batch.classes
    ).loss


class Learner:
    """A model and its optimiser, one gradient step at a time, as models.training.trainer.Trainer does it."""

    def __init__(self, model: nn.Module, loss: Loss, batches: list[Batch]) -> None:
        self.model, self.loss, self.batches = model.train(), loss, cycle(batches)
        self.optimizer = torch.optim.Adam(
            model.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9, fused=True
        )

    def steps(self, n: int) -> None:
        for _ in range(n):
            loss = self.loss(self.model, next(self.batches))
            self.optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
            float(loss.detach())


def compare(
    what: str,
    ours: nn.Module,
    theirs: nn.Module,
    our: Loss,
    their: Loss,
    batches: list[Batch],
    rounds: int,
) -> Result:
    """Return our tokens per second over theirs; a round is one pass over the batches by each. Raises ValueError if their sizes
    differ."""
    sizes = [sum(p.numel() for p in model.parameters()) for model in (ours, theirs)]
    if sizes[0] != sizes[1]:
        raise ValueError(
            f"the two models should be of one size, but have {sizes[0]:,} and {sizes[1]:,} parameters"
        )
    learners = [
        partial(Learner(*each, batches).steps, len(batches))
        for each in ((theirs, their), (ours, our))
    ]
    slow, quick = in_turns(*learners, rounds)
    n = sum(batch.inputs[0].numel() for batch in batches)
    detail = f"{n / median(quick):,.0f} against {n / median(slow):,.0f} tokens/s"
    return Result(
        f"training tokens/s over transformers with sdpa: {what}", over(slow, quick), "≥ 1.1", detail
    )


def measure(short: bool = False) -> list[Result]:
    """Measure GPT and BERT, on one thread."""
    torch.set_num_threads(1)
    torch.manual_seed(1)
    rounds, n_batches = (1, 1) if short else (8, N_BATCHES)
    of_gpt = [(f"GPT, {name}", replace(GPT_SIZES, activation=name)) for name in THEIR_NAMES]
    return [
        *(
            compare(
                what,
                GPT(c),
                gpt2(c),
                partial(our_loss, next_tokens),
                gpt2_loss,
                text_batches()[:n_batches],
                rounds,
            )
            for what, c in of_gpt
        ),
        compare(
            "BERT",
            BERT(BERT_SIZES),
            bert(BERT_SIZES),
            partial(our_loss, masked_tokens),
            bert_loss,
            masked_batches()[:n_batches],
            rounds,
        ),
    ]


if __name__ == "__main__":
    print_table(measure())
