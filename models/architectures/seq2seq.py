"""The recurrent encoder-decoder before the Transformer, without attention or with Bahdanau's.

Without attention the decoder knows the source by one vector, h_m, the encoder's last state
(Sutskever et al. 2014; Cho et al. 2014). With attention, each step aligns first and then moves on
(Bahdanau et al. 2015, eqs. 4-6 and A.2.2):

    e_ij = v·tanh(W s_{i−1} + U h_j)      α_i = softmax(e_i)      c_i = Σ_j α_ij h_j
    s_i = f(s_{i−1}, [y_{i−1}; c_i])      p(y_i) from [s_i; y_{i−1}; c_i]

(Luong et al. 2015 align with s_i after the step; that is another model.) One embedding matrix
serves the source, the target and the logits, as in our Transformer, so that the two differ only in
what lies between.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from models.architectures.base import Family
from models.architectures.config_checks import check_fields
from models.architectures.encoder_decoder import EncoderDecoder
from models.layers import masks
from models.layers.cache import Cache
from models.layers.dropout import Dropout
from models.layers.masks import Mask, Masks, SiteKind
from models.layers.similarity import LearnedSimilarity, masked_softmax
from models.trace import TracedModule, current, tap
from models.trace.attend import Attending
from models.trace.recorder import TokenEditor, token_editor

ALIGNMENT = SiteKind("cross", "decoder", "alignment", "target", "source")
RNN_CELLS = {"tanh": (nn.RNN, nn.RNNCell), "gru": (nn.GRU, nn.GRUCell)}
STEPS = {"tanh": torch.rnn_tanh_cell, "gru": torch.gru_cell}  # of RNN_CELLS, for one token
CELL_FORMULAS = {"tanh": "tanh(W x_t + U h_{t−1} + b)", "gru": "(1 − z)∘n + z∘h_{t−1}"}


@dataclass(frozen=True)
class Seq2SeqConfig:
    """The sizes of one recurrent encoder-decoder."""

    vocab_size: int
    d_model: int = 256  # of an embedding, and of the input of the logits
    d_hidden: int = 320  # of a state h_t or s_i, in each direction
    d_align: int = 320  # hidden units of the alignment model
    cell: str = "gru"  # or "tanh": Elman's
    bidirectional: bool = True  # the encoder reads backwards too
    attention: str = "bahdanau"  # or "none": h_m is the decoder's only link to the source
    dropout: float = 0.1  # on embeddings and on the input of the logits
    n_ctx: int = 512  # longest source or target, in tokens; our limit, not the model's
    pad_id: int = 0
    start_id: int = 1
    end_id: int = 2

    def __post_init__(self) -> None:
        check_fields(self)
        if self.cell not in RNN_CELLS:
            raise ValueError(f"cell must be {' or '.join(RNN_CELLS)}, not {self.cell!r}")
        if self.attention not in ("bahdanau", "none"):
            raise ValueError(f"attention must be bahdanau or none, not {self.attention!r}")

    @property
    def family(self) -> Family:
        if self.attention == "none":
            return Family("RNN, one fixed vector (Cho et al. 2014)", 2014)
        return Family("RNN with alignment (Bahdanau et al. 2015)", 2015)

    @property
    def d_memory(self) -> int:
        """Features of h_j, of both directions together."""
        return self.d_hidden * (2 if self.bidirectional else 1)


def _stepped_states(
    s: Float[Tensor, "batch d_hidden"],
    unedited: Float[Tensor, "batch n d_hidden"],
    step: Callable[[Tensor, int], Tensor],
    edit: TokenEditor,
    order: Iterable[int],
) -> Float[Tensor, "batch n d_hidden"]:
    """Return the states of one direction, each edited before the next step starts from it.

    `step` returns the state after a token from the one before. Where no edit has changed the state
    before, the next is the unedited one bit for bit, unless it may be differentiated.
    """
    states = {}
    differs = torch.full((len(s), 1), torch.is_grad_enabled(), device=s.device)
    for t in order:
        s = states[t] = edit(torch.where(differs, step(s, t), unedited[:, t]), t)
        if not torch.is_grad_enabled():
            differs = (s != unedited[:, t]).any(-1, keepdim=True)
    return torch.stack([states[t] for t in range(len(states))], dim=1)


class Encoder(nn.Module):
    """h_1 … h_n by torch's own recurrence, [forward; backward] in each position."""

    def __init__(self, config: Seq2SeqConfig) -> None:
        super().__init__()
        self.d_hidden, self.cell = config.d_hidden, config.cell
        sequence, _ = RNN_CELLS[config.cell]
        self.recurrence = sequence(
            config.d_model, config.d_hidden, batch_first=True, bidirectional=config.bidirectional
        )

    def forward(
        self, x: Float[Tensor, "batch n d_model"], real: Bool[Tensor, "batch n"]
    ) -> Float[Tensor, "batch n d_memory"]:
        """Return h_1 … h_n.

        A padded step leaves a state unchanged: h_m is the forward state at the last position and
        the backward state at the first.
        """
        h, edit = self._states(x, real), token_editor("encoder", "states", "source")
        if edit is not None:
            h = self._edited_states(x, real, h, edit)
        formula = f"h_t = {CELL_FORMULAS[self.cell]}, in each direction"
        is_edited = edit is not None
        return tap("encoder", "states", h, "source", "d_memory", formula, is_edited=is_edited)

    def _states(self, x: Tensor, real: Tensor) -> Tensor:
        lengths = real.sum(1)
        packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
        h, _ = pad_packed_sequence(
            self.recurrence(packed)[0], batch_first=True, total_length=x.shape[1]
        )
        last = h[
            torch.arange(len(h), device=h.device), lengths - 1, None, : self.d_hidden
        ]  # (batch, 1, d_hidden)
        forward = torch.where(real[:, :, None], h[..., : self.d_hidden], last)
        return torch.cat([forward, h[..., self.d_hidden :]], dim=-1)

    def _edited_states(
        self, x: Tensor, real: Tensor, unedited: Tensor, edit: TokenEditor
    ) -> Tensor:
        """Return the states, each edited before its direction continues from it.

        The edit is offered this direction's half beside the other direction's `unedited` half: if
        it changes several states, each direction's edited states would otherwise need the other's
        first. No padded step is edited.
        """
        n, d = x.shape[1], self.d_hidden
        halves = list(unedited.split(d, dim=-1))
        for direction, weights in enumerate(self.recurrence.all_weights):

            def step(s: Tensor, t: int, weights=weights) -> Tensor:
                return torch.where(real[:, t, None], STEPS[self.cell](x[:, t], s, *weights), s)

            def edit_half(s: Tensor, t: int, direction=direction) -> Tensor:
                offered = list(unedited[:, t].split(d, dim=-1))
                offered[direction] = s
                edited = edit(torch.cat(offered, dim=-1), t).split(d, dim=-1)[direction]
                return torch.where(real[:, t, None], edited, s)

            order = reversed(range(n)) if direction else range(n)
            start = unedited.new_zeros(len(x), d)
            halves[direction] = _stepped_states(start, halves[direction], step, edit_half, order)
        return torch.cat(halves, dim=-1)

    def last_state(
        self, memory: Float[Tensor, "batch n d_memory"]
    ) -> Float[Tensor, "batch d_memory"]:
        """Return h_m, the last states of both directions."""
        return torch.cat([memory[:, -1, : self.d_hidden], memory[:, 0, self.d_hidden :]], dim=-1)


class Alignment(TracedModule):
    """c_i = Σ_j α_ij h_j with α_i = softmax(v·tanh(W s_{i−1} + U h_j)) (Bahdanau et al. 2015).

    Attention with one head, whose keys and values are both the h_j.
    """

    path, kind, n_heads = "alignment", ALIGNMENT, 1

    def __init__(self, config: Seq2SeqConfig) -> None:
        super().__init__()
        # none: W and U belong to the similarity
        self.projections: dict[str, tuple[Tensor, Tensor | None]] = {}
        self.similarity = LearnedSimilarity(
            "additive", config.d_hidden, config.d_memory, config.d_align
        )

    def forward(
        self,
        s: Float[Tensor, "batch d_hidden"],
        uh: Float[Tensor, "batch n d_align"],
        memory: Float[Tensor, "batch n d_memory"],
        attending: Attending,
        step: int,
    ) -> Float[Tensor, "batch d_memory"]:
        """Return the context of one step; `uh` is U h, the same at every step."""
        similarity = self.similarity
        energies = (F.linear(s, similarity.W)[:, None] + uh).tanh() @ similarity.v  # (batch, n)
        allowed = attending.mask.blocking  # (batch, 1, query or 1, n)
        if allowed is not None:
            allowed = allowed[:, 0, min(step, allowed.shape[2] - 1), None]  # (batch, 1, n)
        weights = masked_softmax(energies[:, None], allowed)
        c = weights @ memory  # (batch, 1, d_memory)
        if attending.edits:
            query = slice(step, step + 1)
            c = attending.edited(
                c[:, None], lambda: weights[:, None], lambda: memory[:, None], query
            )[:, 0]
        return c[:, 0]


class Decoder(TracedModule):
    """s_1 … s_m from h_m; with an alignment one step at a time."""

    path = "decoder"

    def __init__(self, config: Seq2SeqConfig) -> None:
        super().__init__()
        self.cell = config.cell
        sequence, cell = RNN_CELLS[config.cell]
        self.W_s = nn.Linear(config.d_memory, config.d_hidden)  # s_0 = tanh(W_s h_m + b)
        if config.attention == "none":
            self.alignment = None
            self.recurrence = sequence(config.d_model, config.d_hidden, batch_first=True)
        else:
            self.alignment = Alignment(config)
            self.recurrence = cell(config.d_model + config.d_memory, config.d_hidden)
        d_read = config.d_hidden + config.d_model + (config.d_memory if self.alignment else 0)
        self.W_r = nn.Linear(d_read, config.d_model)  # makes the input of the logits
        self.dropout = Dropout(config.dropout)

    def forward(
        self,
        y: Float[Tensor, "batch m d_model"],
        memory: Float[Tensor, "batch n d_memory"],
        h_m: Float[Tensor, "batch d_memory"],
        mask: Mask,
        cache: Cache | None,
    ) -> Float[Tensor, "batch m d_model"]:
        """Return the input of the logits after each position, tanh(W_r [s_i; y_{i−1}; c_i])."""
        # the state and, with an alignment, U h
        cached = cache.get(self.path) if cache is not None and self.path in cache else ()
        s = cached[0] if cached else self.W_s(h_m).tanh()
        unchanged: tuple[Tensor, ...] = ()
        edit_state = token_editor(self.path, "states", "target")
        if self.alignment is None:
            states = self._run_unaligned(y, s, edit_state)
            parts, contexts = "s_i; y_{i−1}", None
        else:
            uh = cached[1] if cached else F.linear(memory, self.alignment.similarity.U)
            unchanged = (uh,)  # (batch, n, d_align)
            edit_context = token_editor(self.path, "contexts", "target")
            states, contexts = self._run_aligned(
                self.alignment, y, uh, memory, s, mask, edit_state, edit_context
            )
            contexts = tap(
                self.path, "contexts", contexts, "target", "d_memory", "c_i = Σ_j α_ij h_j",
                is_edited=edit_context is not None,
            )  # fmt: skip
            parts = "s_i; y_{i−1}; c_i"
        formula = f"s_i = {CELL_FORMULAS[self.cell]} of s_{{i−1}}"
        is_edited = edit_state is not None
        hidden = tap(
            self.path, "states", states, "target", "d_hidden", formula, is_edited=is_edited
        )
        inputs = torch.cat([hidden, y] if contexts is None else [hidden, y, contexts], dim=-1)
        if cache is not None:
            cache.put(self.path, states[:, -1], *unchanged)
        readout = self.dropout(self.W_r(inputs).tanh())
        return tap(self.path, "readout", readout, "target", "d_model", f"tanh(W_r [{parts}] + b)")

    def _run_unaligned(self, y: Tensor, s: Tensor, edit: TokenEditor | None) -> Tensor:
        """Return the states, (batch, m, d_hidden), each edited before the next step."""
        states, _ = self.recurrence(y, s[None])
        if edit is None:
            return states
        (weights,) = self.recurrence.all_weights

        def step(s: Tensor, i: int) -> Tensor:
            return STEPS[self.cell](y[:, i], s, *weights)

        return _stepped_states(s, states, step, edit, range(y.shape[1]))

    def _run_aligned(
        self,
        alignment: Alignment,
        y: Tensor,
        uh: Tensor,
        memory: Tensor,
        s: Tensor,
        mask: Mask,
        edit_state: TokenEditor | None,
        edit_context: TokenEditor | None,
    ) -> tuple[Tensor, Tensor]:
        """Return states and contexts, (batch, m, d), each edited before it is read.

        All steps are recorded as one site.
        """
        size = (len(y), 1, y.shape[1], memory.shape[1])
        attending = Attending(ALIGNMENT, alignment.path, mask, size, y.device)
        before, head_out, states, contexts = [], [], [], []
        for i in range(y.shape[1]):
            before.append(s)
            c = alignment(s, uh, memory, attending, i)
            head_out.append(c)
            c = c if edit_context is None else edit_context(c, i)
            s = self.recurrence(torch.cat([y[:, i], c], dim=-1), s)
            s = s if edit_state is None else edit_state(s, i)
            states.append(s)
            contexts.append(c)
        if (recording := current()) is not None:
            q = torch.stack(before, dim=1)  # (batch, m, d_hidden)
            h = memory[:, None]  # (batch, 1, n, d_memory)
            out = torch.stack(head_out, dim=1)[:, None]  # (batch, 1, m, d_memory)
            recording.site(
                alignment, q, memory, q[:, None], h, h, out, attending.mask,
                edits=attending.edits,
            )  # fmt: skip
        return torch.stack(states, dim=1), torch.stack(contexts, dim=1)


class Seq2Seq(EncoderDecoder):
    """Recurrent encoder and decoder around one embedding matrix."""

    is_recurrent, can_go_back = True, False

    def __init__(self, config: Seq2SeqConfig) -> None:
        super().__init__(config, positions=False, dropout=config.dropout)
        self.kinds = () if config.attention == "none" else (ALIGNMENT,)
        self.encoder = Encoder(config)
        self.decoder = Decoder(config)

    def masks(
        self, source: Int[Tensor, "batch n"], target: Int[Tensor, "batch m"], start: int = 0
    ) -> Masks:
        """Return padding for the alignment, if there is one.

        A recurrence sees no later token and needs no look-ahead mask.
        """
        return (
            {"cross": Mask([masks.padding(source, self.config.pad_id)], start)}
            if self.config.attention != "none"
            else {}
        )

    def encode(
        self, source: Int[Tensor, "batch n"], masks: Masks
    ) -> Float[Tensor, "batch n d_memory"]:
        """Return the encoder's states; padding ends a recurrence, and no mask is needed."""
        x = self._embed_scaled(source, "source")
        return self.encoder(x, source != self.config.pad_id)

    def decode(
        self,
        target: Int[Tensor, "batch m"],
        memory: Float[Tensor, "batch n d_memory"],
        masks: Masks,
        cache: Cache | None = None,
        start: int = 0,
    ) -> Float[Tensor, "batch m vocab"]:
        """Return the logits after each position of `target`, which begins at position `start`."""
        y = self._embed_scaled(target, "target", start)
        readout = self.decoder(
            y, memory, self.encoder.last_state(memory), masks.get("cross", Mask()), cache
        )
        return self._logits(readout, "readout · embeddingᵀ")
