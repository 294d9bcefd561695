"""What short runs show of how a model writes: whether its tokens read only what comes before them, and whether a cache leaves
its answers as they are."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from models.analysis.checks import rounding_in
from models.hub.config import HubConfig
from models.hub.model import HubModel
from models.layers.cache import Cache
from models.trace import record


def short_text(module: nn.Module, sizes: HubConfig, n: int = 3) -> Tensor:
    """Return a row of n token ids, none of which fills rows up or ends a text."""
    some = [
        i for i in range(min(sizes.vocab_size, n + 3)) if i not in (sizes.fill_id, sizes.end_id)
    ]
    return torch.tensor([(some * n)[:n]], device=next(module.parameters()).device)


def looks_back_only(module: nn.Module, sizes: HubConfig) -> bool:
    """Return whether no gradient of the earlier logits reaches the embedding of the last token.

    The gradient through a masked cell is exactly 0, in any dtype and however small the weights are. Comparing logits is less
    sharp: a mixture of experts batches tokens by their route, so that another last token moves the earlier logits by rounding."""
    embedded: list[Tensor] = []

    def keep(table: nn.Module, args: tuple, vectors: Tensor) -> Tensor:
        embedded.append(vectors.detach().requires_grad_())
        return embedded[-1].clone()  # which the model may change in place

    hook = module.get_input_embeddings().register_forward_hook(keep)
    try:
        with torch.enable_grad():
            logits = module(input_ids=short_text(module, sizes), use_cache=False).logits
            found = torch.autograd.grad(
                logits[0, :-1].float().square().sum(), embedded, allow_unused=True
            )
    except Exception:  # some of the library's models allow no gradient outside training
        return False
    finally:
        hook.remove()
    gradients = [gradient for gradient in found if gradient is not None]
    return any(bool(gradient[..., :-1, :].any()) for gradient in gradients) and not any(
        bool(gradient[..., -1, :].any()) for gradient in gradients
    )


@torch.no_grad()
def choose_cache(model: HubModel) -> None:
    """Let a model that writes use the best cache that bears out: one that goes back, one that only goes on, or none.

    Without a cache every step reads the whole row again."""
    model.can_go_back = _keeps(model, going_back=True)
    model.can_cache = model.can_go_back or _keeps(model, going_back=False)


def _keeps(model: HubModel, going_back: bool) -> bool:
    """Return whether a cache changes nothing in two short rows, which change places on the way."""
    n_read = 3
    try:
        reading = _Reading(model)
        same = [reading.answers_alike(0, n_read)]
        if going_back:  # two tokens ahead, of which the second is then another
            same += [reading.answers_alike(n_read, n_read + 2, last_differs=True)]
            reading.cache.cut(n_read := n_read + 1)
        same += [reading.answers_alike(n_read, n_read + 1)]
        reading.change_places()
        same += [reading.answers_alike(n_read + 1, n_read + 2)]
    except Exception:  # the library raises what it likes where a model has no such cache
        return False
    return all(same)


class _Reading:
    """Two rows that differ, read at once and then again in parts from a cache."""

    def __init__(self, model: HubModel) -> None:
        self.model, self.cache = model, Cache()
        text = short_text(model.module, model.config, 6)
        self.row = self.given = torch.cat([text, text.flip(1)])
        if model.translates:
            self.row = torch.cat([model.opening(self.given), self.row], dim=1)
        nothing = self.row[:, :0]
        self.memory = model.encode(self.given, model.written_masks(self.given, nothing))
        self.whole, self.sites = self._read(self.row, None, 0)

    def answers_alike(self, start: int, stop: int, last_differs: bool = False) -> bool:
        """Return whether the positions from `start` to `stop`, read from the cache, answer and attend as in one pass.

        `last_differs` puts another token in the last position, whose answer is then of no account."""
        part = self.row[:, start:stop].clone()
        if last_differs:
            part[:, -1] = self.row[:, 0]
            stop -= 1
        logits, sites = self._read(part, self.cache, start)
        wanted = self.whole[:, start:stop]
        limit = rounding_in(self.model.module.dtype) * float(self.whole.abs().max())
        apart = float((logits[:, : stop - start] - wanted).abs().max())
        return sites == self.sites and apart <= limit

    def change_places(self) -> None:
        """Put the second row first, as a beam does."""
        order = torch.tensor([1, 0], device=self.row.device)
        self.cache.reorder(order)
        self.row, self.given, self.whole = (t[order] for t in (self.row, self.given, self.whole))
        self.memory = None if self.memory is None else self.memory[order]

    def _read(self, part: Tensor, cache: Cache | None, start: int) -> tuple[Tensor, set[str]]:
        """Return the logits of these positions and the names of the attentions that were recorded."""
        masks = self.model.written_masks(self.given, self.row[:, : start + part.shape[1]], start)
        with record() as recording:
            logits = self.model.decode(part, self.memory, masks, cache, start)
        return logits.float(), set(recording.attention)
