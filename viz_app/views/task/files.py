"""The numbers of the page Task to take away, with what they were computed by."""

import csv
import io

from viz_app.views.task.payloads import Answer

COLUMNS = (
    "position", "token", "next token", "probability", "surprisal (bits)", "rank", "entropy (bits)", "model", "fingerprint",
)  # fmt: skip


def table_csv(shown: Answer) -> str:
    """A row a position, from 0: its token and the one that follows, both numbered ("3 cat"); probability and surprisal are
    float32, every digit kept. What follows the last token of a text that goes on is left empty."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(COLUMNS)
    expected, model = shown.expected, shown.run.trace.model
    entropies = expected.entropy.numpy()
    numbers = expected.probability.numpy(), expected.surprisal.numpy(), expected.rank.tolist()
    named = list(zip(shown.following, *numbers, strict=True))
    for i, token in enumerate(shown.read):
        following = [""] * 4
        if i < len(named):
            label, probability, surprisal, rank = named[i]
            following = [f"{i + 1} {label.text}", str(probability), str(surprisal), str(rank)]
        writer.writerow([i, f"{i} {token.text}", *following, str(entropies[i]), model.name, model.fingerprint])
    return out.getvalue()
