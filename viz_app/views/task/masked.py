"""The picture of masked tokens: the row, the guesses at each [MASK], and its attention."""

from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from models.analysis.checks import Check
from models.analysis.distributions import Expectation, check_softmax, entropy_bits, expectation
from models.tokenizers.encoding import Encoding, positions_to_hide
from models.trace import AttentionSite
from models.trace.outputs import MaskedToken
from viz_app.drawing.labels import Label, labels, mask_token, token_label
from viz_app.drawing.payload import pack
from viz_app.drawing.provenance import file_name
from viz_app.drawing.stamp import facts, saving
from viz_app.session.current_run import CurrentRun
from viz_app.views.task import text
from viz_app.views.task.reading import (
    DrawnOutput,
    TaskChoices,
    attention_row_payload,
    check_row,
    reading_site,
)
from viz_app.words.allowed import reads_earlier_only

# tokens listed at the only [MASK] of a single text; at each of several, or for two texts
N_MASKED_TOKENS, N_TOKENS_EACH = 10, 5
MAX_SHOWN_MASKS = 8  # masks whose distributions are shown


@dataclass(frozen=True)
class Guess:
    """The prediction at one [MASK], and the token hidden there, if any."""

    position: int
    hidden: int | None
    ids: tuple[int, ...]  # listed tokens: the most probable ones, then the hidden one if missing
    each: tuple[Expectation, ...]  # of the listed tokens
    of_hidden: Expectation | None
    n_best: int  # number of most probable tokens among the listed
    mass: float  # total probability of the n_best
    entropy: float  # bits


def guesses(output: MaskedToken, row: Encoding, max_guesses: int | None = None) -> list[Guess]:
    """Return the predictions at all [MASK] tokens of the row, or at the first `max_guesses`."""
    n = N_MASKED_TOKENS if len(output.positions) == 1 and 1 not in row.segments else N_TOKENS_EACH
    predictions = []
    masks = zip(output.positions, output.labels, output.log_probs, strict=True)
    for position, hidden, log_probs in islice(masks, max_guesses):
        best = log_probs.topk(min(n, len(log_probs)))
        ids = best.indices.tolist()
        listed = ids if hidden is None or hidden in ids else [*ids, hidden]
        each = tuple(expectation(log_probs, token) for token in listed)
        of_hidden = None if hidden is None else expectation(log_probs, hidden)
        mass = float(best.values.exp().sum())
        predictions.append(
            Guess(
                position,
                hidden,
                tuple(listed),
                each,
                of_hidden,
                len(ids),
                mass,
                entropy_bits(log_probs),
            )
        )
    return predictions


def draw_masked(run: CurrentRun, output: MaskedToken, choices: TaskChoices) -> DrawnOutput:
    """Draw the predictions at each [MASK], and return their checks."""
    site, head = reading_site(run.trace, output.stream, choices.focus)
    predictions = guesses(output, run.trace.streams[output.stream], MAX_SHOWN_MASKS)
    checks = check_softmax(output.logits, output.log_probs)
    if output.positions:
        checks.append(check_hidden(run, output))
    if predictions and site is not None:
        checks.append(check_row(site, head, *(guess.position for guess in predictions)))
    return {"guesses": _payload(run, output, predictions, site, head)}, checks


def check_hidden(run: CurrentRun, output: MaskedToken) -> Check:
    """Check that the model read [MASK] in place of each hidden token."""
    row, mask = run.trace.streams[output.stream], run.scope.tokenizer.mask_id
    wrong = sum(row.ids[position] != mask for position in output.positions)
    return Check(
        f"the model read {mask_token(run.trace)} there",
        float(wrong),
        0.0,
        "Positions of a guess at which it read anything else",
    )


def own_labels(run: CurrentRun, output: MaskedToken) -> list[Label]:
    """Return one label for each token, hidden ones under their own names."""
    row = run.trace.streams[output.stream]
    hidden = {position: token_label(run.scope.tokenizer, token) for position, token in row.hidden}
    return [hidden.get(i, label) for i, label in enumerate(labels(row))]


def _payload(
    run: CurrentRun,
    output: MaskedToken,
    predictions: list[Guess],
    site: AttentionSite | None,
    head: int,
) -> bytes:
    row, tokenizer = run.trace.streams[output.stream], run.scope.tokenizer
    token_labels, hidden = own_labels(run, output), dict(row.hidden)
    mask, typed = mask_token(run.trace), set(output.positions) - set(hidden)
    title = text.MASKED_TITLE if mask else text.NO_MASK_TITLE
    open_places = positions_to_hide(row, tokenizer.mask_id)
    masks, arrays, rows = [], {}, []
    for i, guess in enumerate(predictions):
        name = "" if guess.hidden is None else token_labels[guess.position].text
        header, row_arrays = attention_row_payload(run, site, head, guess.position, prefix=f"{i} ")
        masks.append({
            "position": guess.position, "title": text.guess_title(name, i, len(output.positions), mask),
            "rows": [[token, token_label(tokenizer, token).as_json(), "hidden" * (token == guess.hidden)] for token in guess.ids],
            "fact": text.TYPED_MASK if guess.of_hidden is None else _known(name, guess.of_hidden, tokenizer.vocab_size),
            "rest": text.unlisted_tokens(guess.n_best, guess.mass, guess.entropy),
            "reading": header,
        })  # fmt: skip
        arrays |= row_arrays
        rows += [(expected.probability, expected.rank) for expected in guess.each]
    header: dict[str, Any] = {
        "mask": mask,
        "title": title.format(text.BEFORE_IT if reads_earlier_only(run.trace) else text.BOTH_SIDES),
        "note": text.masks_note(len(output.positions), len(typed), len(predictions), mask),
        **saving(file_name(run.trace, "masked-tokens"), facts(run.trace)),
        "tokens": [label.as_json() for label in token_labels], "segments": list(row.segments),
        "states": [
            "hidden" if i in hidden else "mask" if i in output.positions else "open" if i in open_places else "fixed"
            for i in range(len(row.ids))
        ],
        "masks": masks,
    }  # fmt: skip
    p, ranks = np.array(rows, np.float64).reshape(-1, 2).T
    return pack(header, p=p.astype(np.float32), ranks=ranks.astype(np.int32), **arrays)


def _known(name: str, expected: Expectation, n_vocabulary: int) -> str:
    return text.actual_token(
        name, expected.probability, expected.surprisal, expected.rank, n_vocabulary, "hidden"
    )
