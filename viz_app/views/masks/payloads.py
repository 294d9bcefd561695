"""What the page Masks shows of a run: every mask as its layers and their union, one of them to paint on, and one head
before, after, and their difference, with the log-probability of each given token; the notes and the checks beside it."""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from models.analysis.checks import Check, check_site
from models.analysis.masked_comparison import MaskedRun
from models.layers.masks import DRAWN, Mask, MaskLayer, SiteKind
from models.scope import Texts
from models.trace import AttentionSite, Trace
from models.trace.edits import Edits
from models.trace.outputs import NextToken
from viz_app import words
from viz_app.drawing.labels import Label, axes_labels, special_label, writes, written_labels
from viz_app.drawing.notes import checked, first_output, small_print, strip
from viz_app.drawing.payload import pack
from viz_app.drawing.provenance import head_name
from viz_app.drawing.sites import by_kind
from viz_app.session import cache
from viz_app.session.current_run import CurrentRun
from viz_app.session.live import Pictures
from viz_app.views.masks import text as masks_text
from viz_app.views.masks.notation import painted

LARGEST_SIDE = 64       # cells a side of a small matrix
MOST_WRITTEN = 40       # tokens that a model which goes on with a text writes to be compared
DIFFERENCE_SCALES = (0.1, 0.25, 0.5, 1.0)


@dataclass(frozen=True)
class Choices:
    """What is chosen on the page. `second` is the second text of the batch, "" where the first runs alone; `problem` says why
    a second text that stands there is not run. `shown` is 0 for the first text, 1 for the second."""

    second: str
    problem: str
    shown: int
    changes: Edits
    kind: str
    site: str
    head: int


@dataclass(frozen=True)
class MaskView:
    """What the page draws: one pair before and after the changes, the kind whose mask is painted, one head."""

    before: MaskedRun
    after: MaskedRun
    changes: Edits
    kind: str
    site: str
    head: int
    terms: words.Terms

    @property
    def sites(self) -> tuple[AttentionSite, AttentionSite]:
        """The chosen site before and after."""
        return self.before.trace.attention[self.site], self.after.trace.attention[self.site]

    @property
    def title(self) -> str:
        return words.head_title(self.sites[1], self.head, self.terms)


def payloads(run: CurrentRun, choices: Choices) -> Pictures:
    """All that the page's components show of a run."""
    own, view = views(run, choices)
    given = run.scope.model.fields[0].stream
    lengths = [len(one.trace.streams[given].ids) for one in own]
    filled = masks_text.batch(lengths, given) if choices.second else masks_text.ALONE
    return {
        "note masks": small_print(choices.problem or filled, bad=bool(choices.problem)),
        "written": strip(view.before.trace, run.terms, run.stale),
        "mask_painter": masks(view),
        "checks": checked([*check_site(view.sites[1]), *checks(view)]),
    }


def views(run: CurrentRun, choices: Choices) -> tuple[list[MaskedRun], MaskView]:
    """The batch under the model's own masks, and what is shown of it and of the batch under the changed ones."""
    own, changed = _runs(run, choices)
    before, after = own[choices.shown], changed[choices.shown]
    return own, MaskView(before, after, choices.changes, choices.kind, choices.site, choices.head, run.terms)


def _runs(run: CurrentRun, choices: Choices) -> tuple[list[MaskedRun], list[MaskedRun]]:
    """The batch of both texts under the model's own masks and under the changed ones; one run if nothing is changed."""
    trace, scope, texts = run.trace, run.scope, [choices.second] if choices.second else []
    asked = [_asked(run, trace, typed=True), *((text, *others(run)) for text in texts)]
    drafts, most = (), MOST_WRITTEN
    if scope.model.translates:
        drafts, most = (trace.streams[scope.model.writes].ids[1:], *(cache.written(scope, text) for text in texts)), None
    own = cache.masked_runs(scope, tuple(asked), Edits(), drafts, most)
    if choices.changes == Edits():
        return own, own
    return own, cache.masked_runs(scope, tuple(_asked(run, one.trace) for one in own), choices.changes, most=most)


def others(run: CurrentRun) -> Texts:
    """What a second text of the batch is read with: the other texts that this model cannot do without, as they stand."""
    return tuple(run.trace.fields[field.name] for field in run.scope.model.text_fields[1:] if not field.optional)


def _asked(run: CurrentRun, trace: Trace, typed: bool = False) -> Texts:
    """What this run read, for the model's fields: each stream in its first field. `typed`: without what the model wrote itself."""
    model, asked = run.scope.model, []
    for i, field in enumerate(model.fields):
        again = field.stream in (earlier.stream for earlier in model.fields[:i])
        own = typed and field.stream == model.writes and not trace.teacher_forced and model.translates
        asked.append(None if again or own else trace.streams[field.stream])
    return tuple(asked)


def first_site(trace: Trace, kind: str) -> AttentionSite:
    """The first site of a kind; the mask is the same at all of them."""
    return next(site for site in trace.attention.values() if site.kind == kind)


def kinds(trace: Trace) -> dict[SiteKind, str]:
    """The kinds of attention there are, each with its short name."""
    return {sites[0].site_kind: words.kind_short(sites[0]) for _, sites in by_kind(trace)}


def given_labels(trace: Trace) -> list[Label]:
    """Of the tokens whose log-probabilities are told: the given text from its second token on, and its end if it has one; none
    of a model that does not write."""
    if not isinstance(first_output(trace), NextToken):
        return []
    return written_labels(trace.streams[trace.next_token.stream], trace.next_token.is_closed)


def token_labels(trace: Trace, kind: str) -> tuple[list[Label], list[Label]]:
    """Labels of the query and the key axis, padding included."""
    site = first_site(trace, kind)
    both = []
    for mine, tokens in zip(axes_labels(trace, site), (site.query_tokens, site.key_tokens), strict=True):
        both.append(mine + [special_label(token) for token in tokens[len(mine):]])
    return both[0], both[1]


def masks(shown: MaskView) -> bytes:
    """The payload of the mask painter."""
    site = first_site(shown.after.trace, shown.kind)
    change = shown.changes.of(shown.kind)
    n_query, n_key = site.n_query, site.n_key
    own = first_site(shown.before.trace, shown.kind).mask
    base = replace(change, forbidden=(), opened=()).apply(own, n_query, n_key)
    queries, keys = token_labels(shown.after.trace, shown.kind)
    axes = words.axes(site, shown.terms, writes(shown.after.trace, site))
    strip, cells = _strip(shown.after.trace)
    effect, effect_arrays = _effect(shown)
    header = {
        "kind": shown.kind, "painted": painted(change),
        "title": f"{words.kind_title(site)}: {words.kind_subtitle(site, shown.terms)}",
        "queries": [label.as_json() for label in queries], "keys": [label.as_json() for label in keys],
        "queryAxis": axes[0], "keyAxis": axes[1],
        "layers": [_named(site.site_kind, x.name) for x in base.layers], "drawn": _named(site.site_kind, DRAWN),
        "strip": strip, "effect": effect, "story": story(shown),
    }
    return pack(header, base=_bits(base, n_query, n_key), strip=cells, **effect_arrays)


def _named(kind: SiteKind, layer: str) -> dict[str, str]:
    return {"name": masks_text.layer(kind, layer), "reason": masks_text.reason(kind, layer)}


def story(shown: MaskView) -> list[str]:
    """What was changed and what came of it, in sentences."""
    notes = []
    names = kinds(shown.after.trace)
    for kind, name in names.items():
        site, change = first_site(shown.after.trace, kind.name), shown.changes.of(kind.name)
        notes.append(masks_text.outside(name, change, site.n_query, site.n_key))
        queries, _ = axes_labels(shown.after.trace, site)
        notes.append(masks_text.empty_rows(site, name, [label.text for label in queries]))
    return masks_text.story(shown.before, shown.after, shown.changes, names, [note for note in notes if note])


def _strip(trace: Trace) -> tuple[list[dict[str, Any]], np.ndarray]:
    """Each kind's layers and their union as small matrices; their cells (1 = allowed) one after the other. Of a long text
    k × k cells become one, open if any of them is."""
    blocks, parts, offset = [], [], 0
    for kind in kinds(trace):
        site = first_site(trace, kind.name)
        n_query, n_key = site.n_query, site.n_key
        k = math.ceil(max(n_query, n_key) / LARGEST_SIDE)
        matrices = [(masks_text.layer(kind, x.name), alone(x, n_query, n_key)) for x in site.mask.layers]
        matrices.append(("all together", site.allowed()))
        pictures = []
        for name, allowed in matrices:
            small = F.max_pool2d(allowed[None].float(), k, ceil_mode=True)[0].numpy().astype(np.uint8)
            rows, cols = small.shape
            pictures.append({"name": name, "offset": offset, "blocked": int((~allowed).sum()), "cells": allowed.numel()})
            parts.append(small.ravel())
            offset += small.size
        blocks.append({
            "kind": kind.name, "title": words.kind_title(site), "rows": rows, "cols": cols, "pictures": pictures,
        })
    return blocks, np.concatenate(parts)


def _effect(shown: MaskView) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    before, after = shown.sites
    queries, keys = token_labels(shown.after.trace, after.kind)
    axes = words.axes(after, shown.terms, writes(shown.after.trace, after))
    difference = after.weights(shown.head) - before.weights(shown.head)
    header = {
        "title": shown.title, "site": shown.site, "head": shown.head, "kind": after.kind,
        "file": head_name(shown.after.trace, after, shown.head),
        "queries": [label.as_json() for label in queries], "keys": [label.as_json() for label in keys],
        "queryAxis": axes[0], "keyAxis": axes[1],
        "scale": next(s for s in DIFFERENCE_SCALES if float(difference.abs().max()) <= s or s == 1.0),
        "given": first_output(shown.after.trace).stream.capitalize(),
        "labels": [label.as_json() for label in given_labels(shown.after.trace)],
        "outputs": [shown.before.output, shown.after.output],
        "sums": [shown.before.log_prob, shown.after.log_prob],
    }
    arrays = {
        "before": before.weights(shown.head).numpy(), "after": after.weights(shown.head).numpy(),
        "difference": difference.numpy(),
        "blockedBefore": (~before.allowed()).numpy().astype(np.uint8),
        "blockedAfter": (~after.allowed()).numpy().astype(np.uint8),
        "logBefore": np.array(shown.before.log_probs, np.float32),
        "logAfter": np.array(shown.after.log_probs, np.float32),
    }
    return header, arrays


def alone(layer: MaskLayer, n_query: int, n_key: int, batch: int = 0) -> Tensor:
    """One layer as a whole (query, key) matrix; True = may attend."""
    return layer.allowed[min(batch, len(layer.allowed) - 1), 0].expand(n_query, n_key)


def additive(allowed: Tensor) -> Tensor:
    """The additive form of a mask: 0 where it allows, −∞ where it blocks."""
    return torch.zeros(allowed.shape).masked_fill(~allowed, -torch.inf)


def _bits(mask: Mask, n_query: int, n_key: int) -> np.ndarray:
    """(query, key) uint8: bit i set where the i-th layer (of at most 8) blocks the cell; 0 = open."""
    bits = np.zeros((n_query, n_key), np.uint8)
    for i, x in enumerate(mask.layers[:8]):
        bits |= (~alone(x, n_query, n_key)).numpy().astype(np.uint8) << i
    return bits


def checks(shown: MaskView) -> list[Check]:
    """What must hold for the masks on the screen, over every layer and head of the changed run."""
    apart, touched = 0, 0.0
    for site in shown.after.trace.attention.values():
        n_query, n_key = site.n_query, site.n_key
        together = np.ones((n_query, n_key), bool)
        for x in site.mask.layers:
            together &= alone(x, n_query, n_key).numpy()
        apart += int((together != site.allowed().numpy()).sum())
        weights = site.weights()
        for query, key in shown.changes.of(site.kind).forbidden:
            if query < n_query and key < n_key:
                touched = max(touched, float(weights[:, query, key].max()))
    return [
        Check("the mask is all its layers together", float(apart), 0.0, "Cells that differ from the AND of the layers"),
        Check("forbidden cells are 0", touched, 0.0, "Largest weight on a cell you forbade, over all layers and heads"),
    ]
