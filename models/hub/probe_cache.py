"""The cache that a third-party model generates with, chosen by reading short rows with it."""

import torch
from torch import Tensor, nn

from models.analysis.checks import rounding_in
from models.hub.model import HubModel
from models.hub.probe import short_text
from models.hub.writers import CausalLM
from models.layers.cache import Cache
from models.trace import record


def rotation_varies_with_length(model: HubModel) -> bool:
    """Return True if a longer row rotates the same queries and keys by different angles (LongRoPE).

    The angles change beyond a length that short runs do not reach, so these cannot show it.
    """
    text = model.module.config.get_text_config(decoder=True)
    settings = getattr(text, "rope_parameters", None) or {}
    kinds = [settings, *(kind for kind in settings.values() if isinstance(kind, dict))]
    return any(
        kind.get("rope_type") == "longrope"
        and kind.get("original_max_position_embeddings", 0) < model.config.n_ctx
        for kind in kinds
    )


@torch.no_grad()
def choose_cache(model: HubModel) -> None:
    """Choose the best exact cache to generate with: one that can be cut, one that grows, or none.

    Without a cache, every step reads the whole row again.
    """
    model.can_go_back, model.can_cache = (
        (False, False) if rotation_varies_with_length(model) else _exact_caches(model)
    )
    if not model.can_cache or _is_exact(model, model.can_go_back, with_fill=True):
        return
    if isinstance(model, CausalLM):
        model.uncounted = _find_uncounted(model)
    model.can_go_back, model.can_cache = _exact_caches(model, with_fill=True)


def _exact_caches(model: HubModel, with_fill: bool = False) -> tuple[bool, bool]:
    """Return whether a cache that can be cut works, and whether any cache works."""
    goes_back = _is_exact(model, True, with_fill)
    return goes_back, goes_back or _is_exact(model, False, with_fill)


def _find_uncounted(model: HubModel) -> int | None:
    """Return the token that a table of positions does not count (RoBERTa's padding), if any."""
    embedding = model.module.get_input_embeddings()
    tables = (
        m for m in model.module.modules() if isinstance(m, nn.Embedding) and m is not embedding
    )
    return next((m.padding_idx for m in tables if m.padding_idx is not None), None)


def _is_exact(model: HubModel, going_back: bool, with_fill: bool = False) -> bool:
    """Return True if a cache changes nothing for two short rows, which are swapped halfway.

    `with_fill` puts the token `fill_id` among them, as a model may generate it.
    """
    n_read = 3
    try:
        reading = _Reading(model, with_fill)
        same = [reading.answers_alike(0, n_read)]
        if going_back:  # two tokens ahead, the second of which is then replaced
            same += [reading.answers_alike(n_read, n_read + 2, last_differs=True)]
            reading.cache.cut(n_read := n_read + 1)
        same += [reading.answers_alike(n_read, n_read + 1)]
        reading.swap_rows()
        same += [reading.answers_alike(n_read + 1, n_read + 2)]
    except Exception:  # the library may raise anything where a model has no such cache
        return False
    return all(same)


class _Reading:
    """Two different rows, read in one pass and then again in parts from a cache."""

    def __init__(self, model: HubModel, with_fill: bool = False) -> None:
        self.model, self.cache = model, Cache()
        text = short_text(model.module, model.config, 6)
        self.row = self.inputs = torch.cat([text, text.flip(1)])
        if with_fill:
            self.row = self.inputs.clone()
            self.row[0, 1] = self.row[1, 2] = model.config.fill_id
            self.inputs = self.inputs if model.translates else self.row
        if model.translates:
            self.inputs = model.trial_inputs(self.inputs)
            self.row = torch.cat([model.opening(self.inputs), self.row], dim=1)
        no_tokens = self.row[:, :0]
        self.memory = model.encode(self.inputs, model.written_masks(self.inputs, no_tokens))
        self.whole, self.sites = self._read(self.row, None, 0)

    def answers_alike(self, start: int, stop: int, last_differs: bool = False) -> bool:
        """Return True if positions read from the cache answer and attend as in one pass.

        `start` and `stop` bound these positions. `last_differs` puts a different token in the last
        position, whose answer is then ignored.
        """
        part = self.row[:, start:stop].clone()
        if last_differs:
            part[:, -1] = self.row[:, 0]
            stop -= 1
        logits, sites = self._read(part, self.cache, start)
        expected = self.whole[:, start:stop]
        limit = rounding_in(self.model.module.dtype) * float(self.whole.abs().max())
        apart = float((logits[:, : stop - start] - expected).abs().max())
        return sites == self.sites and apart <= limit

    def swap_rows(self) -> None:
        """Put the second row first, as beam search does."""
        order = torch.tensor([1, 0], device=self.row.device)
        self.cache.reorder(order)
        self.row, self.inputs, self.whole = (t[order] for t in (self.row, self.inputs, self.whole))
        self.memory = None if self.memory is None else self.memory[order]

    def _read(self, part: Tensor, cache: Cache | None, start: int) -> tuple[Tensor, set[str]]:
        """Return the logits of these positions and the names of the recorded attentions."""
        masks = self.model.written_masks(self.inputs, self.row[:, : start + part.shape[1]], start)
        with record() as recording:
            logits = self.model.decode(part, self.memory, masks, cache, start)
        return logits.float(), set(recording.attention)
