"""What the page "From RNN to attention" says; every number in it is computed by the caller's model or measurement."""

from collections.abc import Mapping, Sequence

from models import Scope
from models.analysis.checks import Check
from models.analysis.layer_timing import LENGTHS, Timing, growth
from models.analysis.reach import BIDIRECTIONAL, CNN, D_NEW, KINDS, RNN, SELF_ATTENTION, Choice, Reach
from viz_app import words

QUESTION = "From RNN to attention: what changed?"
ANSWER = "Four kinds of layer carry one token to another. What can each reach, what must wait for what, and what does it cost?"

NO_SOURCE = (
    "**This section compares how an encoder reads a source.** The model that is open does not read one text to write "
    "another. Open **eng-fra**, **eng-fra-bahdanau** or one of the date models for it; the sections on sentence "
    "length, stages and similarities stand as they are."
)

# Vaswani et al. 2017, Table 1: complexity per layer, sequential operations, maximum path length
TABLE_1 = {
    RNN: ("O(n·d²)", "O(n)", "O(n)"),
    BIDIRECTIONAL: ("O(n·d²)", "O(n)", "O(n)"),
    CNN: ("O(k·n·d²)", "O(1)", "O(log_k n); contiguous O(n/k)"),
    SELF_ATTENTION: ("O(n²·d)", "O(1)", "O(1)"),
}
RESTRICTED = ("self-attention (restricted)", "O(r·n·d)", "O(1)", "O(n/r)")


def weights(scope: Scope, choice: Choice) -> str:
    """Whose weights a layer has, for over its picture."""
    if choice.seed is not None:
        sizes = {RNN: f"tanh, {D_NEW} states", BIDIRECTIONAL: f"tanh, {D_NEW} states each way", CNN: f"tanh, {D_NEW} channels"}
        what = f" ({sizes[choice.kind]})" if choice.kind in sizes else ""
        always = " as any CNN here" if choice.kind == CNN else ""
        return f"random weights, seed {choice.seed}: untrained{always}{what}, on the embeddings of {scope.name}"
    model, config = scope.model, scope.config
    trained = f"trained, {scope.name} encoder" if scope.training.get("step") else f"{scope.name} encoder, not trained"
    if model.is_recurrent:
        side = "forward direction" if choice.kind == RNN else "both directions"
        cell = "GRU" if config.cell == "gru" else "tanh"
        return f"{trained}, {side} ({cell}, {config.d_hidden} states each)"
    return f"{trained}, layer 1 ({config.n_heads} heads, without residual and LayerNorm)"


def explained(reaches: Sequence[Reach]) -> str:
    """What each picture shows, as a list in Markdown."""
    says = {RNN: _rnn, BIDIRECTIONAL: _bidirectional, CNN: _cnn, SELF_ATTENTION: _attention}
    return "\n".join(f"- **{reach.choice.kind}.** {says[reach.choice.kind](reach)}" for reach in reaches)


def _rnn(reach: Reach) -> str:
    return (
        "Lower-triangular: an output sees its own token and those before it; all to the right is exactly 0. "
        f"{_along(reach, -1, 'Backwards from an output')}"
    )


def _bidirectional(reach: Reach) -> str:
    """Left of the diagonal stands what the forward direction carries, right of it the backward one."""
    sides = _along(reach, -1, "Left of the diagonal, read forwards"), _along(reach, 1, "Right of it, read backwards")
    return " ".join(["Full: one direction fills what the other leaves empty.", *(side for side in sides if side)])


def _cnn(reach: Reach) -> str:
    n, choice = len(reach.norms), reach.choice
    field = choice.depth * (choice.width - 1) + 1
    beyond = n * n - int(reach.reaches.sum())
    sees = f"{choice.depth} layers of width {choice.width} see" if choice.depth > 1 else f"1 layer of width {choice.width} sees"
    outside = (
        f"The other {beyond} of {n * n} pairs are exactly 0: this stack cannot know of them." if beyond
        else f"That covers all {n * n} pairs of this sentence."
    )
    return (
        f"A band: {sees} depth·(width − 1) + 1 = {field} token{'s' * (field > 1)}, centred on the output's own. {outside}"
    )


def _attention(reach: Reach) -> str:
    """Full and one step everywhere; what differs with the distance is measured, the tokens before and after apart."""
    others = [entry for entry in reach.by_offset() if entry[0]]
    if not others:
        return "Full."
    least, most = min(others, key=lambda entry: entry[1]), max(others, key=lambda entry: entry[1])
    source = (
        "Distance may still count, because the inputs x hold the position vectors." if reach.positioned
        else "It is not told where tokens stand, so what differs with the distance comes from these tokens alone."
    )
    said = f"On average an output answers most to {_where(most[0])} ({_mean(most)})"
    said += f" and least to {_where(least[0])} ({_mean(least)})." if most != least else "."
    return f"Full: every pair is one step apart, and nothing has to pass through the tokens between. {source} {said}"


def _where(offset: int) -> str:
    """A token by how far it stands before or after the output's own."""
    side = "before" if offset < 0 else "after"
    return f"the token just {side} its own" if abs(offset) == 1 else f"the token {abs(offset)} places {side} its own"


def _mean(entry: tuple[int, float, int]) -> str:
    _, mean, pairs = entry
    return f"{mean:.2g}, {'one pair' if pairs == 1 else f'mean of {pairs} pairs'}"


def _along(reach: Reach, side: int, where: str) -> str:
    """How influence changes from the nearest to the furthest token of one side, −1 before and 1 after; empty for too few."""
    found = [entry for entry in reach.by_offset() if entry[0] * side > 0 and entry[1] > 0]
    if len(found) < 2:
        return ""
    near, far = sorted(found, key=lambda entry: abs(entry[0]))[:: len(found) - 1]
    ratio = near[1] / far[1]
    how = f"{_times(ratio)} weaker" if ratio >= 1 else f"{_times(1 / ratio)} stronger"
    return (
        f"{where}, the influence at distance {abs(far[0])} ({_mean(far)}) is {how} than at distance {abs(near[0])} "
        f"({_mean(near)}); it passes through every state between."
    )


def _times(ratio: float) -> str:
    return f"{ratio:,.0f} times" if ratio >= 100 else f"{ratio:.3g} times"


HOW = (
    "‖∂y_i/∂x_j‖ is the Frobenius norm of a block of the layer's Jacobian: how much the output at one place answers, all its "
    "numbers together, to a small change of the input at another. Not a drawing: every cell is differentiated at this sentence. "
    "Norms depend on the scale of the weights, so compare shapes between layers rather than heights."
)


def too_long(n: int, most: int) -> str:
    return f"This sentence has {n} tokens; the Jacobian is worked out for at most {most}."


def checks(reaches: Sequence[Reach]) -> list[Check]:
    """What must hold of the pictures.

    Float32: a chain of matrix products differs from autograd's order of summation by some 1e-6 of the values."""
    leak = max(reach.leak for reach in reaches)
    output, autograd = max(reach.output_gap for reach in reaches), max(reach.autograd_gap for reach in reaches)
    return [
        Check("what cannot be reached is 0", leak, 0.0, "Largest ‖∂y_i/∂x_j‖ where a layer's graph has no way from x_j to y_i"),
        Check("the layers are the models' own", output, 1e-5, "Largest difference of any y from the models' own pass, relative"),
        Check("the norms are autograd's", autograd, 1e-4, "First tokens through plain autograd; largest difference, relative"),
    ]


def compared(reaches: Sequence[Reach], timings: Sequence[Timing]) -> str:
    """Table 1 of the paper, with what is counted on this sentence and what was measured, as Markdown."""
    n = len(reaches[0].steps)
    head = ["layer", "complexity per layer", f"sequential operations (here, n = {n})", f"maximum path length (here, n = {n})",
            "measured growth"]
    rows = []
    for reach in reaches:
        cost, sequential, path = TABLE_1[reach.choice.kind]
        counted = f"{sequential} (**{len(reach.schedule)}**)", f"{path} (**{_longest(reach)}**)"
        rows.append([reach.choice.kind, cost, *counted, _slope(timings, reach.choice.kind)])
    name, cost, sequential, path = RESTRICTED
    rows.append([name, cost, sequential, path, "–"])
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _longest(reach: Reach) -> str:
    """The most steps between any two tokens that a path joins; of convolutions of width 1 no stack joins two."""
    alone = len(reach.steps) > 1 and reach.choice.kind == CNN and reach.choice.width == 1
    return "no path" if alone else str(int(reach.steps.max()))


def _slope(timings: Sequence[Timing], kind: str) -> str:
    found = growth(timings, kind)
    return f"n^{found[2]:.2f}" if found else "–"


def counted_and_timed(device: str, threads: int) -> str:
    """Which figures of the section are counted and which are timed, what this device can do at once, and what another would
    change; in Markdown."""
    counted = (
        "**Counted**, on each layer's own graph: the timetable, the path lengths and the bold figures of the table. **Timed**, on "
        "this machine: the plot of times and the measured growth, nothing else. "
    )
    gpu = (
        "the positions of one sequential step run at once, so the CNN's and self-attention's times stay nearly flat until the "
        "device is full, while the RNN still takes its n steps one after the other"
    )
    if device != "cpu":
        return f"{counted}This is a GPU ({device}): {gpu}."
    if threads == 1:
        here = "One CPU thread does one thing at a time: **nothing below runs in parallel**, and a layer that waits for nothing"
        return f"{counted}{here} gains nothing by that. Its time is its work and what each call costs. On a GPU {gpu}."
    here = f"The {threads} CPU threads share the large products inside a step; positions do not each get one."
    return f"{counted}{here} On a GPU {gpu}."


TABLE_NOTE = (
    "n tokens, d features, k the convolution's width, r the neighbourhood of restricted self-attention: Vaswani et al. 2017, "
    "Table 1, where “recurrent” is one line. Its O(log_k n) is the path length of dilated convolutions; that contiguous ones "
    "need a stack of O(n/k) layers stands in §4. In bold: counted on this page's layers for this sentence, for the longest pair. "
    "The CNN is contiguous: its sequential operations are its layers, and its path length is the number of layers that pair would "
    "need, however many are stacked above."
)


UNMEASURED = (
    f"Press the button: each layer then reads random vectors at {len(LENGTHS)} lengths, each twice the one before, from "
    f"{LENGTHS[0]} to {LENGTHS[-1]:,} tokens, and the plot shows the median time. Both axes are logarithmic: where a line is "
    "straight, time grows as a power of n, and the steeper the line, the higher the power. Where it is flat, what a call costs at "
    "any length outweighs the rest."
)


def grew(timings: Sequence[Timing]) -> str:
    """The slopes of the upper half in words."""
    found = {kind: slope for kind in KINDS if (slope := growth(timings, kind))}
    if not found:
        return "Two lengths in the upper half are needed before a slope can be fitted."
    said = "; ".join(f"{kind} n^{slope:.2f} ({shortest:,} to {longest:,})" for kind, (shortest, longest, slope) in found.items())
    lines = [
        f"In the upper half of the lengths time grows as: {said}. With n^1, twice the tokens take twice the time; with n^2, four "
        "times."
    ]
    last = max(t.n for t in timings)
    there = {t.layer: t.median for t in timings if t.n == last}
    if RNN in there and SELF_ATTENTION in there:
        lines.append(f"At {last:,} tokens {_slower(there[RNN], there[SELF_ATTENTION])}.")
    return " ".join(lines)


def _slower(rnn: float, attention: float) -> str:
    """Which of two times is the longer, and how many times."""
    if max(rnn, attention) / min(rnn, attention) < 1.005:
        return "the RNN and self-attention take the same time"
    if rnn > attention:
        return f"the RNN takes {rnn / attention:.3g} times as long as self-attention"
    return f"self-attention takes {attention / rnn:.3g} times as long as the RNN"


def fell(records: Mapping[str, Sequence[dict]], steps: Mapping[str, int]) -> str:
    """How far each model falls from its best bucket to the longest, as a share and in points, as a list in Markdown; how many cases
    the buckets hold; and, from `steps`, whether the models were trained alike."""
    lines = []
    for name, buckets in records.items():
        best, longest = max(buckets, key=lambda b: b["score"]), max(buckets, key=lambda b: b["most"])
        where = f"{best['least']}–{best['most']} words", f"{longest['least']}–{longest['most']} words"
        if best is longest:
            lines.append(f"- **{name}** is best on its longest sentences, {where[1]}: {longest['score']:.1f}.")
        else:
            fall = round(best["score"], 1) - round(longest["score"], 1)      # of the numbers as they are shown
            lines.append(
                f"- **{name}** loses {1 - longest['score'] / best['score']:.0%} of its best: {fall:.1f} BLEU, from "
                f"{best['score']:.1f} ({where[0]}) to {longest['score']:.1f} ({where[1]}, {longest['cases']:,} cases)."
            )
    counts = [bucket["cases"] for buckets in records.values() for bucket in buckets]
    sizes = f"Each point is a score over {min(counts):,} to {max(counts):,} cases; point at it to see how many."
    unequal = words.unequal({name: steps[name] for name in records})
    return "\n".join(lines) + "".join(f"\n\n{said}" for said in (sizes, unequal) if said)


def unrecorded(names: Sequence[str]) -> str:
    """Which checkpoints carry no scores by length, and what writes them."""
    commands = "\n".join(f"    attnscope evaluate {name} --data tatoeba-eng-fra.tsv.gz --by-length --record" for name in names)
    return f"No scores by sentence length are recorded in {', '.join(names)}. This writes them into the checkpoint:\n\n{commands}"


SCORED = (
    "Every figure here is a **score**, measured once by writing each held-out sentence greedily, and kept in the checkpoint's "
    "record. Nothing is timed: a GPU would write the same sentences sooner."
)

FIGURE_2 = (
    "**What to look for.** Bahdanau, Cho and Bengio (2015, figure 2) saw the score of models with one fixed vector drop as "
    "sentences grew longer; models with alignment held out better, and the one trained on sentences of up to 50 words did not drop "
    "even there. The vector h_m has the same size for three words as for thirty, while an alignment goes back to every word."
)

DIFFERENT_ROWS = "The two models split this pair into different tokens, so their rows cannot be compared, and nothing is drawn."

JENSEN_SHANNON = (
    "JS(p, q) = H((p + q)/2) − (H(p) + H(q))/2 with H(p) = −Σ p·log₂ p, in bits (Lin 1991): 0 where both rows are the same, 1 "
    "where no source token has weight in both. Both models read the same target, token by token (teacher forcing), so the rows "
    "stand for the same step."
)


def no_pair(names: Sequence[str], has_alignment: bool, has_heads: bool) -> str:
    """Which of the two models is missing."""
    wanted = [text for text, there in (
        ("one with Bahdanau's alignment", has_alignment), ("a Transformer with cross-attention", has_heads)) if not there]
    known = f" (looked for: {', '.join(names)})" if names else ""
    return f"Two trained models of this task are needed, with the same tokens. Missing: {' and '.join(wanted)}{known}."


def whose(scope: Scope, formula: str) -> str:
    """Over a picture: the model, and how a row is made."""
    trained = f"trained for {scope.training['step']:,} steps" if scope.training.get("step") else "not trained"
    return f"{scope.name}, {trained}: {formula}"


def divergence(mean: float, step: int, largest: float, unequal: str = "") -> str:
    """The divergence in words; the token of the step is in the picture, not in Markdown, because it is text from outside.
    `unequal` says, where it is so, that the two models were not trained alike."""
    return (
        f"On average the two rows are **{mean:.2f} bits** apart. They differ most at step {step + 1}, by {largest:.2f} bits; "
        f"the bars show which token that is.{f' {unequal}' if unequal else ''}"
    )
