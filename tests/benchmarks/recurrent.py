"""Training tokens per second: our recurrent encoder-decoders against torch's own modules combined in the usual way.

The rival is nn.GRU or nn.RNN for both sides, stepped one token at a time where each step must align first, with the same
attention written with nn.Linear. It starts from the same weights and gives the same logits, which is checked before
anything is timed.
"""

from dataclasses import replace
from functools import partial
from statistics import median

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from models.architectures.seq2seq import Seq2Seq, Seq2SeqConfig
from models.tokenizers.base import PAD
from models.training.batches import NO_LABEL
from models.training.recipes import PLANS
from tests.benchmarks.side_by_side import Result, in_turns, over, print_table
from tests.benchmarks.training import Learner, largest_difference, random_batches

MAX_TOKENS, N_BATCHES = 2048, 4


class Rival(nn.Module):
    """The model of one configuration, built from torch's modules with our weights."""

    def __init__(self, ours: Seq2Seq) -> None:
        super().__init__()
        c = self.config = ours.config
        module = {"gru": nn.GRU, "tanh": nn.RNN}[c.cell]
        d_context = c.d_memory if c.attention == "bahdanau" else 0
        self.embedding, self.dropout = nn.Embedding(c.vocab_size, c.d_model), nn.Dropout(c.dropout)
        self.encoder = module(
            c.d_model, c.d_hidden, batch_first=True, bidirectional=c.bidirectional
        )
        self.decoder = module(c.d_model + d_context, c.d_hidden, batch_first=True)
        self.first = nn.Linear(c.d_memory, c.d_hidden)
        self.readout = nn.Linear(c.d_hidden + c.d_model + d_context, c.d_model)
        if d_context:
            self.W, self.U = (
                nn.Linear(c.d_hidden, c.d_align, bias=False),
                nn.Linear(c.d_memory, c.d_align, bias=False),
            )
            self.v = nn.Linear(c.d_align, 1, bias=False)
        self._like(ours)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        real = source != PAD
        packed = pack_padded_sequence(
            self._embed(source), real.sum(1), batch_first=True, enforce_sorted=False
        )
        h, last = self.encoder(packed)
        memory, _ = pad_packed_sequence(h, batch_first=True)
        s = self.first(torch.cat(list(last), -1)).tanh()[None]
        y = self._embed(target)
        if self.config.attention == "none":
            states, _ = self.decoder(y, s)
            read = torch.cat([states, y], -1)
        else:
            read = self._attended(y, memory, s, real)
        return nn.functional.linear(self.dropout(self.readout(read).tanh()), self.embedding.weight)

    def _attended(self, y: Tensor, memory: Tensor, s: Tensor, real: Tensor) -> Tensor:
        uh, rows = self.U(memory), []
        for i in range(y.shape[1]):
            energies = (
                self.v((self.W(s[0])[:, None] + uh).tanh())
                .squeeze(-1)
                .masked_fill(~real, -torch.inf)
            )
            context = torch.bmm(energies.softmax(-1)[:, None], memory)
            out, s = self.decoder(torch.cat([y[:, i : i + 1], context], -1), s)
            rows.append(torch.cat([out, y[:, i : i + 1], context], -1))
        return torch.cat(rows, 1)

    def _embed(self, ids: Tensor) -> Tensor:
        return self.dropout(self.embedding(ids) * self.config.d_model**0.5)

    def _like(self, ours: Seq2Seq) -> None:
        self.embedding.load_state_dict(ours.embedding.state_dict())
        self.encoder.load_state_dict(ours.encoder.recurrence.state_dict())
        own = ours.decoder.recurrence.state_dict()
        self.decoder.load_state_dict(
            {name.removesuffix("_l0") + "_l0": p for name, p in own.items()}
        )
        self.first.load_state_dict(ours.decoder.W_s.state_dict())
        self.readout.load_state_dict(ours.decoder.W_r.state_dict())
        if ours.decoder.alignment is not None:
            learned = ours.decoder.alignment.similarity
            for layer, weight in (
                (self.W, learned.W),
                (self.U, learned.U),
                (self.v, learned.v[None]),
            ):
                layer.load_state_dict({"weight": weight})


def compare(what: str, config: Seq2SeqConfig, *, short: bool) -> Result:
    """Return our target tokens per second over the rival's; a round is one pass over the batches by each."""
    rounds, n_batches = (1, 1) if short else (8, N_BATCHES)
    batches = random_batches(config.vocab_size, MAX_TOKENS, n_batches)
    torch.manual_seed(1)
    ours = Seq2Seq(config)
    rival = Rival(ours)
    if (gap := largest_difference(ours, rival, batches[0])) > 1e-4:
        raise ValueError(
            f"the two models should compute the same, but their logits differ by {gap:.2g}"
        )
    theirs, our = in_turns(
        *(partial(Learner(model, batches).steps, n_batches) for model in (rival, ours)), rounds
    )
    tokens = sum(int((b.labels != NO_LABEL).sum()) for b in batches)
    detail = f"{tokens / median(our):,.0f} against {tokens / median(theirs):,.0f} target tokens/s"
    return Result(
        f"training tokens/s over torch's modules: {what}", over(theirs, our), "≥ 0.83", detail
    )


def measure(short: bool = False) -> list[Result]:
    """Measure the recipes of eng-fra-rnn and eng-fra-bahdanau, and these with Elman's cell, on one thread."""
    torch.set_num_threads(1)
    results = []
    for model in ("rnn", "bahdanau"):
        config = Seq2SeqConfig(6000, **PLANS["translation"][model].sizes)
        results += [
            compare(f"{model}, {cell}", replace(config, cell=cell), short=short)
            for cell in ("gru", "tanh")
        ]
    return results


if __name__ == "__main__":
    print_table(measure())
