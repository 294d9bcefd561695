"""The picture of masked tokens: the row with every token to hide by a click, what the model expects in the place of each [MASK],
and the row of attention of that place."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from models.analysis.checks import Check
from models.analysis.distributions import Expectation, check_softmax, entropy, expectation
from models.tokenizers.encoding import Encoding, hidable
from models.trace import AttentionSite
from models.trace.outputs import MaskedToken
from viz_app.drawing.labels import Label, labels, token_label
from viz_app.drawing.payload import pack
from viz_app.session.current_run import CurrentRun
from viz_app.views.task import text
from viz_app.views.task.choices import Choices
from viz_app.views.task.reading import Drawn, answering, check_row, reading

LISTED, LISTED_EACH = (
    10,
    5,
)  # tokens listed at the only [MASK] of one text; at each of several, or where a picture follows
MOST = 8  # masks whose distributions are shown


@dataclass(frozen=True)
class Guess:
    """What is expected in the place of one [MASK], and the token that was hidden there, if one was."""

    position: int
    hidden: int | None
    ids: tuple[
        int, ...
    ]  # listed, the most probable first; a hidden one that is not among them last
    each: tuple[Expectation, ...]  # of the listed
    of_hidden: Expectation | None
    n_best: int  # how many of the listed are the most probable ones
    mass: float  # of those
    entropy: float  # bits


def guesses(output: MaskedToken, row: Encoding) -> list[Guess]:
    """What is expected at each [MASK] of the row, of the first MOST."""
    n = LISTED if len(output.positions) == 1 and 1 not in row.segments else LISTED_EACH
    found = []
    for position, hidden, log_probs in zip(
        output.positions, output.labels, output.log_probs, strict=True
    ):
        best = log_probs.topk(min(n, len(log_probs)))
        ids = best.indices.tolist()
        listed = ids if hidden is None or hidden in ids else [*ids, hidden]
        each = tuple(expectation(log_probs, one) for one in listed)
        of_hidden = None if hidden is None else expectation(log_probs, hidden)
        mass = float(best.values.exp().sum())
        found.append(
            Guess(
                position, hidden, tuple(listed), each, of_hidden, len(ids), mass, entropy(log_probs)
            )
        )
        if len(found) == MOST:
            break
    return found


def masked(run: CurrentRun, output: MaskedToken, choices: Choices) -> Drawn:
    """The picture of an output that says what stood in the place of each [MASK], and what must hold of it."""
    site, head = answering(run.trace, output.stream, choices.focus)
    found = guesses(output, run.trace.streams[output.stream])
    checks = check_softmax(output.logits, output.log_probs)
    if output.positions:
        checks.append(check_hidden(run, output))
    if found and site is not None:
        checks.append(check_row(site, head, *(guess.position for guess in found)))
    return {"guesses": _payload(run, output, found, site, head)}, checks


def check_hidden(run: CurrentRun, output: MaskedToken) -> Check:
    """What was hidden was not read."""
    row, mask = run.trace.streams[output.stream], run.scope.tokenizer.mask_id
    wrong = sum(row.ids[position] != mask for position in output.positions)
    return Check(
        "the model read [MASK] there",
        float(wrong),
        0.0,
        "Places of a guess at which it read anything else",
    )


def own_labels(run: CurrentRun, output: MaskedToken) -> list[Label]:
    """One label a token, a hidden one under its own name."""
    row = run.trace.streams[output.stream]
    hidden = {position: token_label(run.scope.tokenizer, token) for position, token in row.hidden}
    return [hidden.get(i, label) for i, label in enumerate(labels(row))]


def _payload(
    run: CurrentRun, output: MaskedToken, found: list[Guess], site: AttentionSite | None, head: int
) -> bytes:
    row, tokenizer = run.trace.streams[output.stream], run.scope.tokenizer
    own, hidden = own_labels(run, output), dict(row.hidden)
    open_places = hidable(row, tokenizer.mask_id)
    masks, arrays, rows = [], {}, []
    for i, guess in enumerate(found):
        name = "" if guess.hidden is None else own[guess.position].text
        header, row_arrays = reading(run, site, head, guess.position, prefix=f"{i} ")
        masks.append({
            "position": guess.position, "title": text.guess_title(name, i, len(output.positions)),
            "rows": [[one, token_label(tokenizer, one).as_json(), "hidden" * (one == guess.hidden)] for one in guess.ids],
            "fact": text.TYPED_MASK if guess.of_hidden is None else _known(name, guess.of_hidden, tokenizer.vocab_size),
            "rest": text.rest(guess.n_best, guess.mass, guess.entropy),
            "reading": header,
        })  # fmt: skip
        arrays |= row_arrays
        rows += [(one.probability, one.rank) for one in guess.each]
    header: dict[str, Any] = {
        "title": text.MASKED_TITLE, "note": text.hidden(len(output.positions), len(found)),
        "tokens": [label.as_json() for label in own], "segments": list(row.segments),
        "states": [
            "hidden" if i in hidden else "mask" if i in output.positions else "open" if i in open_places else "fixed"
            for i in range(len(row.ids))
        ],
        "masks": masks,
    }  # fmt: skip
    p, ranks = np.array(rows, np.float64).reshape(-1, 2).T
    return pack(header, p=p.astype(np.float32), ranks=ranks.astype(np.int32), **arrays)


def _known(name: str, said: Expectation, n_vocabulary: int) -> str:
    return text.fact(name, said.probability, said.surprisal, said.rank, n_vocabulary, "hidden")
