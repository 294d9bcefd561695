"""Both runs, every step of each in one payload, so that stepping needs no server."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from models.decoding.multiply_adds import count_multiply_adds
from models.decoding.runs import Run
from models.runs.scope import Scope
from models.tokenizers.base import Tokenizer
from viz_app import words
from viz_app.drawing.cells import block_of, in_blocks
from viz_app.drawing.difference import common_items
from viz_app.drawing.extent import OWN_EXTENT, Extent, widen_scales
from viz_app.drawing.labels import Label, labels, token_label, token_labels
from viz_app.drawing.payload import pack
from viz_app.drawing.provenance import file_name
from viz_app.drawing.stamp import saving
from viz_app.views.decoding.decoding_facts import METHOD_NAMES, decoding_facts
from viz_app.views.decoding.decoding_runs import DecodingRuns, ShownAttention, writing_sites

CANDIDATES = 8  # bars at each step, besides the taken token if it is not among them


def stepper(
    runs: DecodingRuns,
    scope: Scope,
    reading: ShownAttention,
    terms: words.Terms,
    step: int,
    note: str = "",
    extent: Extent = OWN_EXTENT,
) -> bytes:
    """Return the payload of the component `stepper`, whose scales cover `extent`.

    `step` is the initial position from 0, `note` an additional sentence.
    """
    trace, tokenizer = runs.trace, scope.tokenizer
    block, work = keys_in_a_block(runs, reading), _multiply_adds(runs, scope)
    scales = widen_scales(extents := _extent(runs, work), extent)
    header: dict[str, Any] = {
        **saving(file_name(trace, "decoding"), decoding_facts(runs, tokenizer)),
        "step": step,
        "steps": runs.n_steps,
        "note": note,
        "source": _json(in_blocks(source_labels(runs, reading), block)),
        "block": block,
        "blocks": _blocks(runs, tokenizer, block),
        "prompt": _json(given_row(runs, tokenizer)[: runs.n_opening - 1]),
        **_lanes(runs, tokenizer),
        "seesAhead": runs.sees_ahead,
        "forced": [i for i, _ in runs.method.forced],
        "how": METHOD_NAMES[runs.method.strategy],
        "sampling": runs.method.strategy == "sample",
        "reading": reading.name,
        "cross": reading.cross_name,
        "own": bool(reading.self_attention),
        "family": "recurrent" if runs.autoregressive.states else "attention",
        "vectors": _vectors(runs, scales),
        "extent": extents,
        "most": scales.get("multiply-adds", 0),
        **_text_names(runs, scope, reading, terms),
        "vocab": len(trace.next_token.logits[0]),
        "mostEntropy": math.log2(len(trace.next_token.logits[0])),
        "work": work,
        "unforceable": unforceable(scope),
    }
    return pack(header, **_arrays(runs, reading, block))


def _lanes(runs: DecodingRuns, tokenizer: Tokenizer) -> dict[str, Any]:
    """Return the lanes of both runs, and the first positions in which they differ."""
    diverges, disagrees = runs.divergence, runs.disagreement
    return {
        "parallel": _parallel(runs, tokenizer),
        "serial": _serial(runs, tokenizer),
        "free": _free(runs, tokenizer),
        "diverges": -1 if diverges is None else diverges,
        "disagrees": -1 if disagrees is None else disagrees,
    }


def _text_names(
    runs: DecodingRuns, scope: Scope, reading: ShownAttention, terms: words.Terms
) -> dict[str, str]:
    """Return what the source and the generated text are called."""
    attention, cross = runs.trace.attention, reading.cross
    return {
        "sourceName": terms.of(attention[cross].key_stream).text if cross else "",
        "targetName": terms.of(runs.trace.next_token.stream).text,
        "ownText": runs.writer,
        "box": terms.label(scope.model.fields[-1].name),
    }


def unforceable(scope: Scope) -> list[int]:
    """Return the tokens that may not be forced: padding and the start, unless one ends a text."""
    return sorted({scope.config.pad_id, scope.config.start_id} - set(scope.model.end_ids))


def _arrays(runs: DecodingRuns, reading: ShownAttention, block: int) -> dict[str, np.ndarray]:
    """Return the predictions and the attention of both runs at every position."""
    arrays = {}
    for name, run in (("parallel", runs.teacher_forced), ("serial", runs.autoregressive)):
        ids = candidate_tokens(run)
        arrays[f"{name}_ids"] = ids.numpy().astype(np.int32)
        arrays[f"{name}_p"] = run.log_probs.gather(1, ids).exp().numpy()
        arrays[f"{name}_rank"] = _rank(run).numpy().astype(np.int32)
        arrays[f"{name}_entropy"] = run.entropy_bits.numpy()
        arrays |= {
            f"{name}_{part}": run.weights(site, reading.head, block).numpy()
            for part, site in (("cross", reading.cross), ("self", reading.self_attention))
            if site
        }
        arrays |= {f"{name}_{part}": values.numpy() for part, values in run.states.items()}
    if runs.method.strategy == "sample":
        arrays["drawn_p"] = (
            drawn_from(runs).gather(1, candidate_tokens(runs.autoregressive)).numpy()
        )
    return arrays


def source_labels(runs: DecodingRuns, reading: ShownAttention) -> list[Label]:
    """Return the labels of the keys of the cross-attention; empty without one."""
    return labels(runs.trace.axes(runs.trace.attention[reading.cross])[1]) if reading.cross else []


def keys_in_a_block(runs: DecodingRuns, reading: ShownAttention) -> int:
    """Return the number of keys drawn as one cell; 1 unless the texts are long."""
    rows = [
        run.rows[site]
        for run in (runs.teacher_forced, runs.autoregressive)
        for site in (reading.cross, reading.self_attention)
        if site
    ]
    longest = max((row.n_key for row in rows), default=1)
    return block_of(longest, longest)


def _blocks(runs: DecodingRuns, tokenizer: Tokenizer, block: int) -> dict[str, list]:
    """Return the labels of the key blocks of each run; empty without blocks."""
    if block == 1:
        return {}
    opening, outputs = (
        given_row(runs, tokenizer)[: runs.n_opening],
        token_labels(tokenizer, runs.autoregressive.read[1:], runs.n_text),
    )
    inputs = {"parallel": given_row(runs, tokenizer)[:-1], "serial": [*opening, *outputs]}
    return {name: _json(in_blocks(row, block)) for name, row in inputs.items()}


def _extent(runs: DecodingRuns, work: dict[str, Any] | None) -> dict[str, float]:
    """Return each activation's largest magnitude in both runs, and the most work of a step.

    Work is in multiply-adds.
    """
    vectors = {
        name: max(
            float(run.states[name].abs().max())
            for run in (runs.teacher_forced, runs.autoregressive)
        )
        for name in runs.autoregressive.states
    }
    return vectors | ({"multiply-adds": max(work["uncached"])} if work else {})


def _vectors(runs: DecodingRuns, scales: Extent) -> list[dict[str, Any]]:
    """Return name, title and shared scale of the vectors of a recurrent decoder."""
    titles = {
        "decoder.states": "State s(i) after this step",
        "decoder.contexts": "Context c(i), what it read",
    }
    return [
        {
            "name": name,
            "title": titles[name],
            "scale": scales[name],
        }
        for name in sorted(runs.autoregressive.states)
    ]


def candidate_tokens(run: Run) -> torch.Tensor:
    """Return (position, CANDIDATES + 1) token ids: the most probable, the taken one among them."""
    k = min(CANDIDATES + 1, run.log_probs.shape[1])
    ids = run.log_probs.topk(k).indices.clone()
    tokens = torch.tensor(run.taken)
    missing = ~(ids[:, : k - 1] == tokens[:, None]).any(1)
    ids[missing, k - 1] = tokens[missing]
    return ids


def drawn_from(runs: DecodingRuns) -> torch.Tensor:
    """Return (position, vocab): the sampled distribution, after temperature, top-k and top-p.

    The settings of the model's folder come before these.
    """
    return torch.stack([runs.method.filtered(row) for row in runs.autoregressive.choices]).exp()


def _rank(run: Run) -> torch.Tensor:
    """Return the rank of the taken token at each position, from 1."""
    log_p = run.log_probs.gather(1, torch.tensor(run.taken)[:, None])
    return (run.log_probs > log_p).sum(1) + 1


def _json(names: Sequence[Label]) -> list:
    return [label.as_json() for label in names]


def _lane(run: Run, n_text: int, tokenizer: Tokenizer) -> dict[str, Any]:
    names = [
        _json([token_label(tokenizer, i, first=n == 0) for i in row])
        for n, row in enumerate(candidate_tokens(run).tolist(), start=n_text)
    ]
    return {"n": len(run), "taken": list(run.taken), "candidates": names, "ended": run.ended}


def _parallel(runs: DecodingRuns, tokenizer: Tokenizer) -> dict[str, Any]:
    """Return the teacher-forced lane: the tokens given, read (shifted right) and predicted."""
    row = given_row(runs, tokenizer)[runs.n_opening - 1 :]
    best = runs.teacher_forced.log_probs.argmax(-1).tolist()
    return {
        **_lane(runs.teacher_forced, runs.n_text, tokenizer),
        "read": _json(row[:-1]),
        "given": _json(row[1:]),
        "predicted": _json(token_labels(tokenizer, best, runs.n_text)),
        "best": best,
    }


def given_row(runs: DecodingRuns, tokenizer: Tokenizer) -> list[Label]:
    """Return the labels of the teacher-forced run: its opening, what it reads, its last token."""
    text_labels, n_taken = labels(runs.written_stream), len(runs.teacher_forced)
    beyond = runs.teacher_forced.taken[len(text_labels) - runs.n_opening :]
    return [*text_labels, *token_labels(tokenizer, beyond, len(text_labels))][
        : runs.n_opening + n_taken
    ]


def _serial(runs: DecodingRuns, tokenizer: Tokenizer) -> dict[str, Any]:
    """Return the autoregressive lane: the tokens generated, and read (shifted right)."""
    outputs = token_labels(tokenizer, runs.autoregressive.taken, runs.n_text)
    inputs = [given_row(runs, tokenizer)[runs.n_opening - 1], *outputs[:-1]]
    return {
        **_lane(runs.autoregressive, runs.n_text, tokenizer),
        "read": _json(inputs),
        "written": _json(outputs),
        "cached": list(runs.autoregressive.cached),
    }


def _free(runs: DecodingRuns, tokenizer: Tokenizer) -> dict[str, Any] | None:
    """Return the run without forced tokens, and which tokens it shares with the forced run."""
    if runs.unforced is None:
        return None
    outputs = token_labels(tokenizer, runs.unforced.taken, runs.n_text)
    shared_free, shared_forced = common_items(runs.unforced.taken, runs.autoregressive.taken)
    return {
        "written": _json(outputs),
        "taken": list(runs.unforced.taken),
        "shared": shared_free,
        "sharedByForced": shared_forced,
    }


def _multiply_adds(runs: DecodingRuns, scope: Scope) -> dict[str, Any] | None:
    """Return the work of each step; None if nothing is cached, or the work cannot be counted."""
    if runs.sees_ahead or not scope.model.can_cache:
        return None
    given_stream = scope.model.fields[0].stream
    n_source = 0 if scope.model.continues else len(runs.trace.streams[given_stream].ids)
    count = count_multiply_adds(scope.model, n_source, len(runs.autoregressive), runs.n_opening)
    work = count_multiply_adds(scope.model, n_source, len(runs.teacher_forced), runs.n_opening)
    if count is None or work is None:
        return None
    return {
        "cached": list(count.cached),
        "uncached": list(count.uncached),
        "parallel": work.parallel,
        "layers": len({site.layer for site in writing_sites(runs.trace) if site.role == "self"}),
        "source": n_source,
        "state": next(
            (
                values.shape[1]
                for name, values in runs.autoregressive.states.items()
                if name == "decoder.states"
            ),
            0,
        ),
    }
