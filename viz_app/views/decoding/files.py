"""The numbers of the Decoding page to take away: both runs as a table, every tensor as npz."""

from collections.abc import Iterator
from functools import partial

import numpy as np

from models.decoding.run_rows import PassRows, StepRows
from models.decoding.runs import Run
from models.runs.scope import Scope
from viz_app.drawing.csv_file import csv_table
from viz_app.drawing.export import texts
from viz_app.drawing.labels import labels, token_label, token_labels
from viz_app.drawing.npz import Arrays, Rows
from viz_app.drawing.provenance import counted
from viz_app.views.decoding.steps import CANDIDATES, HOW
from viz_app.views.decoding.story import Story

_COLUMNS = [
    "run",
    "position",
    "reads",
    "takes",
    "probability",
    "rank",
    "entropy (nats)",
    "forced",
    "from the cache",
]


def table(story: Story, scope: Scope) -> str:
    """A row a position of each run, positions from 1; probabilities are float32, every digit kept."""
    places = range(1, CANDIDATES + 1)
    head = [*_COLUMNS, *(f"choice {n}" for n in places), *(f"p of choice {n}" for n in places)]
    forced = dict(story.method.forced)
    named = [
        ("teacher-forced", story.parallel, {}),
        (f"autoregressive, {HOW[story.method.how]}", story.serial, forced),
    ]
    if story.free:
        named.append(("autoregressive, nothing forced", story.free, {}))
    rows = (
        [name, i + 1, *_row(run, i, story.n_text, by_force, scope)]
        for name, run, by_force in named
        for i in range(len(run))
    )
    return csv_table(head, rows)


def _row(run: Run, i: int, n_text: int, forced: dict[int, int], scope: Scope) -> list:
    """Tokens as on the screen; `n_text` of them stood in the text before the run's first."""
    p, taken = run.log_probs[i].exp(), run.taken[i]
    best = p.topk(min(CANDIDATES, len(p)))
    tokens = [
        token_label(scope.tokenizer, one, first=n_text + i == 0).text
        for one in best.indices.tolist()
    ]
    read, took = token_labels(scope.tokenizer, (run.read[i], taken), n_text + i - 1)
    numbers = [str(p[taken].numpy()), int((p > p[taken]).sum()) + 1, str(run.entropy[i].numpy())]
    return [
        read.text, took.text, *numbers, int(forced.get(i) == taken), run.cached[i],
        *tokens, *[""] * (CANDIDATES - len(tokens)), *(str(v) for v in best.values.numpy()),
    ]  # fmt: skip


def arrays(story: Story, scope: Scope) -> Arrays:
    """What was given and both runs, "parallel" and "serial": ids of tokens read and taken, log-probabilities (position, vocab),
    entropies, and of every decoder site the weights (head, position, key), where the self-attention to later keys is 0; of a
    recurrent decoder its states and contexts (position, number)."""
    given = scope.model.fields[0]
    n_given = story.n_opening if scope.model.continues else None
    yield f"{given.name}_tokens", texts(labels(story.trace.streams[given.stream])[:n_given])
    yield "vocabulary", texts(token_labels(scope.tokenizer, range(scope.config.vocab_size), 1))
    for name, run in (("parallel", story.parallel), ("serial", story.serial)):
        yield f"{name}.read", np.array(run.read)
        yield f"{name}.taken", np.array(run.taken)
        yield f"{name}.log_probs", run.log_probs.numpy()
        yield f"{name}.entropy", run.entropy.numpy()
        for site, rows in run.rows.items():
            shape = (rows.n_heads, len(rows), rows.n_key)
            yield f"{name}.{counted(site)}", Rows(shape, np.float32, partial(_heads, rows))
        for part, values in run.states.items():
            yield f"{name}.{part}", values.numpy()


def _heads(rows: StepRows | PassRows) -> Iterator[np.ndarray]:
    """The weights (position, key) of one head after the other."""
    return (rows.weights(head).numpy() for head in range(rows.n_heads))
