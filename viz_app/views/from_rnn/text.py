"""What the page "From RNN to attention" says; every number in it is computed by the caller's model or measurement."""

from collections.abc import Mapping, Sequence

from models import Scope
from viz_app import words

QUESTION = "From RNN to attention: what changed?"
ANSWER = "Four kinds of layer carry one token to another. What can each reach, what must wait for what, and what does it cost?"

NO_SOURCE = (
    "**This section compares how an encoder reads a source.** The model that is open does not read one text to write "
    "another. Open **eng-fra**, **eng-fra-bahdanau** or one of the date models for it; the sections on sentence "
    "length, stages and similarities stand as they are."
)


def score_drop(records: Mapping[str, Sequence[dict]], steps: Mapping[str, int]) -> str:
    """How far each model falls from its best bucket to the longest, as a share and in points, as a list in Markdown; how many cases
    the buckets hold; and, from `steps`, whether the models were trained alike."""
    lines = []
    for name, buckets in records.items():
        best, longest = (
            max(buckets, key=lambda b: b["score"]),
            max(buckets, key=lambda b: b["most"]),
        )
        where = (
            f"{best['least']}–{best['most']} words",
            f"{longest['least']}–{longest['most']} words",
        )
        if best is longest:
            lines.append(
                f"- **{name}** is best on its longest sentences, {where[1]}: {longest['score']:.1f}."
            )
        else:
            fall = round(best["score"], 1) - round(
                longest["score"], 1
            )  # of the numbers as they are shown
            lines.append(
                f"- **{name}** loses {1 - longest['score'] / best['score']:.0%} of its best: {fall:.1f} BLEU, from "
                f"{best['score']:.1f} ({where[0]}) to {longest['score']:.1f} ({where[1]}, {longest['cases']:,} cases)."
            )
    counts = [bucket["cases"] for buckets in records.values() for bucket in buckets]
    sizes = f"Each point is a score over {min(counts):,} to {max(counts):,} cases; point at it to see how many."
    unequal = words.unequal_training({name: steps[name] for name in records})
    return "\n".join(lines) + "".join(f"\n\n{said}" for said in (sizes, unequal) if said)


def unrecorded(names: Sequence[str]) -> str:
    """Which checkpoints carry no scores by length, and what writes them."""
    commands = "\n".join(
        f"    attnscope evaluate {name} --data tatoeba-eng-fra.tsv.gz --by-length --record"
        for name in names
    )
    return f"No scores by sentence length are recorded in {', '.join(names)}. This writes them into the checkpoint:\n\n{commands}"


SCORED = (
    "Every figure here is a **score**, measured once by writing each held-out sentence greedily, and kept in the checkpoint's "
    "record. Nothing is timed: a GPU would write the same sentences sooner."
)

FIGURE_2 = (
    "**What to look for.** Bahdanau, Cho and Bengio (2015, figure 2) saw the score of models with one fixed vector drop as "
    "sentences grew longer; models with alignment held out better, and the one trained on sentences of up to 50 words did not drop "
    "even there. The vector h(m) has the same size for three words as for thirty, while an alignment goes back to every word."
)

DIFFERENT_ROWS = "The two models split this pair into different tokens, so their rows cannot be compared, and nothing is drawn."

JENSEN_SHANNON = (
    r"$\mathrm{JS}(p, q) = H\left(\frac{p + q}{2}\right) - \frac{H(p) + H(q)}{2}$ with $H(p) = -\sum p \log_2 p$, in bits "
    "(Lin 1991): 0 where both rows are the same, 1 "
    "where no source token has weight in both. Both models read the same target, token by token (teacher forcing), so the rows "
    "stand for the same step."
)


def no_pair(names: Sequence[str], has_alignment: bool, has_heads: bool) -> str:
    """Which of the two models is missing."""
    wanted = [
        text
        for text, there in (
            ("one with Bahdanau's alignment", has_alignment),
            ("a Transformer with cross-attention", has_heads),
        )
        if not there
    ]
    known = f" (looked for: {', '.join(names)})" if names else ""
    return f"Two trained models of this task are needed, with the same tokens. Missing: {' and '.join(wanted)}{known}."


def provenance(scope: Scope, formula: str) -> str:
    """Over a picture: the model, and how a row is made."""
    steps = words.steps(scope.training)
    trained = f"trained for {steps}" if steps else words.untrained(scope.training)
    return f"{scope.name}, {trained}: {formula}"


def divergence(mean: float, step: int, largest: float, unequal: str = "") -> str:
    """The divergence in words; the token of the step is in the picture, not in Markdown, because it is text from outside.
    `unequal` says, where it is so, that the two models were not trained alike."""
    return (
        f"On average the two rows are **{mean:.2f} bits** apart. They differ most at step {step + 1}, by {largest:.2f} bits; "
        f"the bars show which token that is.{f' {unequal}' if unequal else ''}"
    )
