"""The numbers of the Decoding page to take away: both runs as a table, every tensor as npz."""

import csv
import io

import numpy as np

from models.decoding.runs import Run
from models.scope import Scope
from viz_app.views.decoding.steps import CANDIDATES, HOW, Story

_COLUMNS = ["run", "position", "reads", "takes", "probability", "rank", "entropy (nats)", "forced", "from the cache"]


def table(story: Story, scope: Scope) -> str:
    """A row a position of each run, positions from 1; probabilities are float32, every digit kept."""
    out = io.StringIO()
    writer = csv.writer(out)
    places = range(1, CANDIDATES + 1)
    writer.writerow([*_COLUMNS, *(f"choice {n}" for n in places), *(f"p of choice {n}" for n in places)])
    forced = dict(story.method.forced)
    named = [("teacher-forced", story.parallel, {}), (f"autoregressive, {HOW[story.method.how]}", story.serial, forced)]
    if story.free:
        named.append(("autoregressive, nothing forced", story.free, {}))
    for name, run, by_force in named:
        for i in range(len(run)):
            writer.writerow([name, i + 1, *_row(run, i, by_force, scope)])
    return out.getvalue()


def _row(run: Run, i: int, forced: dict[int, int], scope: Scope) -> list:
    p, taken = run.log_probs[i].exp(), run.taken[i]
    best = p.topk(min(CANDIDATES, len(p)))
    tokens = scope.tokenizer.tokens(best.indices.tolist())
    token = scope.tokenizer.token
    numbers = [str(p[taken].numpy()), int((p > p[taken]).sum()) + 1, str(run.entropy[i].numpy())]
    return [
        token(run.read[i]), token(taken), *numbers, int(forced.get(i) == taken), run.cached[i],
        *tokens, *[""] * (CANDIDATES - len(tokens)), *(str(v) for v in best.values.numpy()),
    ]  # fmt: skip


def arrays(story: Story, scope: Scope) -> bytes:
    """What was given and both runs, "parallel" and "serial": tokens read and taken, log-probabilities (position, vocab),
    entropies, and of every decoder site the weights (head, position, key), where the self-attention to later keys is 0; of a
    recurrent decoder its states and contexts (position, number)."""
    given = scope.model.fields[0]
    n_given = story.n_opening if scope.model.continues else None
    kept: dict[str, np.ndarray] = {
        f"{given.name}_tokens": np.array(story.trace.streams[given.stream].tokens[:n_given]),
        "vocabulary": np.array(scope.tokenizer.tokens(range(scope.config.vocab_size))),
    }
    for name, run in (("parallel", story.parallel), ("serial", story.serial)):
        kept[f"{name}.read"], kept[f"{name}.taken"] = np.array(run.read), np.array(run.taken)
        kept[f"{name}.log_probs"], kept[f"{name}.entropy"] = run.log_probs.numpy(), run.entropy.numpy()
        for site, rows in run.rows.items():
            kept[f"{name}.{site}"] = np.stack([run.weights(site, head).numpy() for head in range(len(rows[0]))])
        kept |= {f"{name}.{part}": values.numpy() for part, values in run.states.items()}
    out = io.BytesIO()
    np.savez_compressed(out, **kept)
    return out.getvalue()
