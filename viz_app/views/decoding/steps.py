"""Teacher-forced beside autoregressive, every step of both in one payload, so that stepping needs no server."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from models.analysis.multiply_adds import count_multiply_adds, is_counted
from models.decoding.runs import Run
from models.runs.scope import Scope
from models.tokenizers.base import Tokenizer
from viz_app import words
from viz_app.drawing.cells import block_of, in_blocks
from viz_app.drawing.difference import shared
from viz_app.drawing.labels import Label, labels, token_label, token_labels
from viz_app.drawing.payload import pack
from viz_app.drawing.provenance import file_name
from viz_app.drawing.stamp import facts, saving
from viz_app.views.decoding.shown_attention import ShownAttention, writing_sites
from viz_app.views.decoding.story import Story

CANDIDATES = 8  # bars at each step; the token taken is added if it is not among them
HOW = {"greedy": "greedy", "sample": "sampling", "beam": "beam search, its best"}


def stepper(
    story: Story,
    scope: Scope,
    reading: ShownAttention,
    terms: words.Terms,
    step: int,
    note: str = "",
) -> bytes:
    """The payload of the stepper component; `step` is the position shown first, from 0, `note` what there is to add."""
    trace, tokenizer, diverges = story.trace, scope.tokenizer, story.divergence
    block = keys_in_a_block(story, reading)
    header: dict[str, Any] = {
        **saving(file_name(trace, "decoding"), facts(trace)),
        "step": step,
        "steps": story.n_steps,
        "note": note,
        "source": _json(in_blocks(source_labels(story, reading), block)),
        "block": block,
        "blocks": _blocks(story, tokenizer, block),
        "prompt": _json(given_row(story, tokenizer)[: story.n_opening - 1]),
        "parallel": _parallel(story, tokenizer),
        "serial": _serial(story, tokenizer),
        "free": _free(story, tokenizer),
        "diverges": -1 if diverges is None else diverges,
        "forced": [i for i, _ in story.method.forced],
        "how": HOW[story.method.how],
        "sampling": story.method.how == "sample",
        "reading": reading.name,
        "cross": reading.cross_name,
        "own": bool(reading.own),
        "family": "recurrent" if story.serial.states else "attention",
        "vectors": _vectors(story),
        "sourceName": terms.of(trace.attention[reading.cross].key_stream).text
        if reading.cross
        else "",
        "targetName": terms.of(trace.next_token.stream).text,
        "ownText": story.writer,
        "box": terms.label(scope.model.fields[-1].name),
        "vocab": len(trace.next_token.logits[0]),
        "mostEntropy": math.log(len(trace.next_token.logits[0])),
        "work": _multiply_adds(story, scope),
        "unforceable": [scope.config.pad_id, scope.config.start_id],
    }
    return pack(header, **_arrays(story, reading, block))


def _arrays(story: Story, reading: ShownAttention, block: int) -> dict[str, np.ndarray]:
    """What each of the two runs says and reads at every position."""
    arrays = {}
    for name, run in (("parallel", story.parallel), ("serial", story.serial)):
        ids = candidates(run)
        arrays[f"{name}_ids"] = ids.numpy().astype(np.int32)
        arrays[f"{name}_p"] = run.log_probs.gather(1, ids).exp().numpy()
        arrays[f"{name}_rank"] = _rank(run).numpy().astype(np.int32)
        arrays[f"{name}_entropy"] = run.entropy.numpy()
        arrays |= {
            f"{name}_{part}": run.weights(site, reading.head, block).numpy()
            for part, site in (("cross", reading.cross), ("self", reading.own))
            if site
        }
        arrays |= {f"{name}_{part}": values.numpy() for part, values in run.states.items()}
    if story.method.how == "sample":
        arrays["drawn_p"] = drawn_from(story).gather(1, candidates(story.serial)).numpy()
    return arrays


def source_labels(story: Story, reading: ShownAttention) -> list[Label]:
    """The tokens that the attention beside the decoder's own reads; none where there is no such attention."""
    return (
        labels(story.trace.axes(story.trace.attention[reading.cross])[1]) if reading.cross else []
    )


def keys_in_a_block(story: Story, reading: ShownAttention) -> int:
    """How many keys have one place in what is drawn of a row; 1 unless the texts are long."""
    rows = [
        run.rows[site]
        for run in (story.parallel, story.serial)
        for site in (reading.cross, reading.own)
        if site
    ]
    longest = max((one.n_key for one in rows), default=1)
    return block_of(longest, longest)


def _blocks(story: Story, tokenizer: Tokenizer, block: int) -> dict[str, list]:
    """Labels of the blocks of what each run reads, where a row is drawn in blocks."""
    if block == 1:
        return {}
    opening, written = (
        given_row(story, tokenizer)[: story.n_opening],
        token_labels(tokenizer, story.serial.read[1:], story.n_text),
    )
    read = {"parallel": given_row(story, tokenizer)[:-1], "serial": [*opening, *written]}
    return {name: _json(in_blocks(row, block)) for name, row in read.items()}


def _vectors(story: Story) -> list[dict[str, Any]]:
    """The vectors of a recurrent decoder at each step: their activation, what they are, and the scale both runs share."""
    titles = {
        "decoder.states": "State s(i) after this step",
        "decoder.contexts": "Context c(i), what it read",
    }
    return [
        {
            "name": name,
            "title": titles[name],
            "scale": max(
                float(run.states[name].abs().max()) for run in (story.parallel, story.serial)
            ),
        }
        for name in sorted(story.serial.states)
    ]


def candidates(run: Run) -> torch.Tensor:
    """(position, CANDIDATES + 1) token ids: the most probable first, then the token taken, if need be the next best."""
    k = min(CANDIDATES + 1, run.log_probs.shape[1])
    ids = run.log_probs.topk(k).indices.clone()
    taken = torch.tensor(run.taken)
    missing = ~(ids[:, : k - 1] == taken[:, None]).any(1)
    ids[missing, k - 1] = taken[missing]
    return ids


def drawn_from(story: Story) -> torch.Tensor:
    """(position, vocab): the probabilities the token was drawn from, after temperature, top-k and top-p."""
    return torch.stack([story.method.filtered(row) for row in story.serial.log_probs]).exp()


def _rank(run: Run) -> torch.Tensor:
    """How many tokens are more probable than the one taken, plus 1."""
    taken = run.log_probs.gather(1, torch.tensor(run.taken)[:, None])
    return (run.log_probs > taken).sum(1) + 1


def _json(names: Sequence[Label]) -> list:
    return [label.as_json() for label in names]


def _lane(run: Run, n_text: int, tokenizer: Tokenizer) -> dict[str, Any]:
    names = [
        _json([token_label(tokenizer, i, first=n == 0) for i in row])
        for n, row in enumerate(candidates(run).tolist(), start=n_text)
    ]
    return {"n": len(run), "taken": list(run.taken), "candidates": names, "ended": run.ended}


def _parallel(story: Story, tokenizer: Tokenizer) -> dict[str, Any]:
    """The teacher's lane: what is given, what is read (the same shifted right), what is predicted."""
    row = given_row(story, tokenizer)[story.n_opening - 1 :]
    best = story.parallel.log_probs.argmax(-1).tolist()
    return {
        **_lane(story.parallel, story.n_text, tokenizer),
        "read": _json(row[:-1]),
        "given": _json(row[1:]),
        "predicted": _json(token_labels(tokenizer, best, story.n_text)),
        "best": best,
    }


def given_row(story: Story, tokenizer: Tokenizer) -> list[Label]:
    """Labels of what the teacher-forced run reads, with its opening, and of the token it takes last."""
    typed, n_taken = labels(story.written_stream), len(story.parallel)
    beyond = story.parallel.taken[len(typed) - story.n_opening :]
    return [*typed, *token_labels(tokenizer, beyond, len(typed))][: story.n_opening + n_taken]


def _serial(story: Story, tokenizer: Tokenizer) -> dict[str, Any]:
    """The writer's lane: what was written, and what is read, which is the opening's last token and the same again."""
    written = token_labels(tokenizer, story.serial.taken, story.n_text)
    read = [given_row(story, tokenizer)[story.n_opening - 1], *written[:-1]]
    return {
        **_lane(story.serial, story.n_text, tokenizer),
        "read": _json(read),
        "written": _json(written),
        "cached": list(story.serial.cached),
    }


def _free(story: Story, tokenizer: Tokenizer) -> dict[str, Any] | None:
    """What is written with nothing forced, and which tokens of it and of the forced run stand in both."""
    if story.free is None:
        return None
    written = token_labels(tokenizer, story.free.taken, story.n_text)
    by_itself, by_force = shared(story.free.taken, story.serial.taken)
    return {
        "written": _json(written),
        "taken": list(story.free.taken),
        "shared": by_itself,
        "sharedByForced": by_force,
    }


def _multiply_adds(story: Story, scope: Scope) -> dict[str, Any] | None:
    """What is computed at each step; None of a model whose products are not known one by one."""
    if not is_counted(scope.config):
        return None
    given_stream = scope.model.fields[0].stream
    n_source = 0 if scope.model.continues else len(story.trace.streams[given_stream].ids)
    count = count_multiply_adds(scope.config, n_source, len(story.serial), story.n_opening)
    given = count_multiply_adds(scope.config, n_source, len(story.parallel), story.n_opening)
    return {
        "cached": list(count.cached),
        "uncached": list(count.uncached),
        "parallel": given.parallel,
        "layers": len({site.layer for site in writing_sites(story.trace) if site.role == "self"}),
        "source": n_source,
        "state": next(
            (
                values.shape[1]
                for name, values in story.serial.states.items()
                if name == "decoder.states"
            ),
            0,
        ),
    }
