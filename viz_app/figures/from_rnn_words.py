"""What the page "From RNN to attention" says; every number in it is computed by the caller's model or measurement."""

from collections.abc import Mapping, Sequence

from models import Scope
from models.checks import Check
from models.layer_timing import Timing, growth
from models.reach import BIDIRECTIONAL, CNN, D_NEW, KINDS, RNN, SELF_ATTENTION, Choice, Reach
from models.seq2seq import Seq2Seq

QUESTION = "From RNN to attention: what changed?"
ANSWER = "Four kinds of layer carry one token to another. What can each reach, what must wait for what, and what does it cost?"

# Vaswani et al. 2017, Table 1: complexity per layer, sequential operations, maximum path length
TABLE_1 = {
    RNN: ("O(n·d²)", "O(n)", "O(n)"),
    BIDIRECTIONAL: ("O(n·d²)", "O(n)", "O(n)"),
    CNN: ("O(k·n·d²)", "O(1)", "O(n/k); dilated O(log_k n)"),
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
    if isinstance(model, Seq2Seq):
        side = "forward direction" if choice.kind == RNN else "both directions"
        cell = "GRU" if config.cell == "gru" else "tanh"
        return f"{trained}, {side} ({cell}, {config.d_hidden} states each)"
    return f"{trained}, layer 1 ({config.n_heads} heads, without residual and LayerNorm)"


def explained(reaches: Sequence[Reach]) -> str:
    """What each picture shows, as a list in Markdown."""
    says = {RNN: _rnn, BIDIRECTIONAL: _bidirectional, CNN: _cnn, SELF_ATTENTION: _attention}
    return "\n".join(f"- **{reach.choice.kind}.** {says[reach.choice.kind](reach)}" for reach in reaches)


def _rnn(reach: Reach) -> str:
    return f"Lower-triangular: an output sees its own token and those before it; all to the right is exactly 0. {_fades(reach)}"


def _bidirectional(reach: Reach) -> str:
    return f"Full: one direction fills what the other leaves empty, and both fade. {_fades(reach)}"


def _cnn(reach: Reach) -> str:
    n, choice = len(reach.norms), reach.choice
    field = choice.depth * (choice.width - 1) + 1
    beyond = n * n - int(reach.reaches.sum())
    return (
        f"A band: {choice.depth} layer{'s' * (choice.depth > 1)} of width {choice.width} see depth·(width − 1) + 1 = {field} "
        f"tokens, centred on their own. The other {beyond} of {n * n} pairs are exactly 0: this stack cannot know of them."
    )


def _attention(reach: Reach) -> str:
    found = reach.by_distance()
    if len(found) < 2:
        return "Full."
    return (
        "Full: any distance takes one step, so how strongly one token moves another depends on what they are and not on how far "
        f"they stand apart. The mean is {found[1][1]:.2g} at distance 1 and {found[-1][1]:.2g} at distance {found[-1][0]}."
    )


def _fades(reach: Reach) -> str:
    found = [entry for entry in reach.by_distance() if entry[1] > 0]
    if len(found) < 3:
        return ""
    (near, first, _), (far, last, _) = found[1], found[-1]
    how = f"{_times(first / last)} weaker" if first >= last else f"{_times(last / first)} stronger"
    return f"From distance {near} to distance {far} the influence becomes {how}: it passes through every state between."


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
        counted = f"{sequential} (**{len(reach.schedule)}**)", f"{path} (**{int(reach.steps.max())}**)"
        rows.append([reach.choice.kind, cost, *counted, _slope(timings, reach.choice.kind)])
    name, cost, sequential, path = RESTRICTED
    rows.append([name, cost, sequential, path, "–"])
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _slope(timings: Sequence[Timing], kind: str) -> str:
    found = growth(timings, kind)
    return f"n^{found[2]:.2f}" if found else "–"


TABLE_NOTE = (
    "n tokens, d features, k the convolution's width, r the neighbourhood of restricted self-attention: Vaswani et al. 2017, "
    "Table 1, where “recurrent” is one line. In bold: counted on the graphs of this page's layers for this sentence, longest pair; "
    "the CNN is contiguous, and its path length is the number of layers that pair would need, whatever the depth above."
)


UNMEASURED = (
    "Press the button: each layer then reads random vectors of every length from 8 to 1,024 tokens, and the plot shows "
    "the median time. How a cost grows shows where the line is straight: its slope is the power of n. Short inputs cost what "
    "starting costs."
)


def grew(timings: Sequence[Timing]) -> str:
    """The slopes of the upper half in words."""
    found = {kind: slope for kind in KINDS if (slope := growth(timings, kind))}
    if not found:
        return "Two lengths in the upper half are needed before a slope can be fitted."
    said = "; ".join(f"{kind} n^{slope:.2f} ({shortest:,} to {longest:,})" for kind, (shortest, longest, slope) in found.items())
    lines = [f"Time grows in the upper half of the lengths as: {said}. 1 means twice the tokens, twice the time; 2 four times."]
    last = max(t.n for t in timings)
    there = {t.layer: t.median for t in timings if t.n == last}
    if RNN in there and SELF_ATTENTION in there:
        ratio = there[RNN] / there[SELF_ATTENTION]
        faster = f"{ratio:.3g} times as long as self-attention" if ratio >= 1 else f"{1 / ratio:.3g} times less than self-attention"
        lines.append(f"At {last:,} tokens the RNN takes {faster}.")
    return " ".join(lines)


def fell(records: Mapping[str, Sequence[dict]]) -> str:
    """How far each model falls from its best bucket to the longest, as a list in Markdown."""
    lines = []
    for name, buckets in records.items():
        best, longest = max(buckets, key=lambda b: b["score"]), max(buckets, key=lambda b: b["most"])
        where = f"{best['least']}–{best['most']} words", f"{longest['least']}–{longest['most']} words"
        if best is longest:
            lines.append(f"- **{name}** is best on its longest sentences, {where[1]}: {longest['score']:.1f}.")
        else:
            fall = round(best["score"], 1) - round(longest["score"], 1)      # of the numbers as they are shown
            lines.append(
                f"- **{name}** falls by {fall:.1f} BLEU, from {best['score']:.1f} ({where[0]}) to "
                f"{longest['score']:.1f} ({where[1]}, {longest['cases']} cases)."
            )
    return "\n".join(lines)


def unrecorded(names: Sequence[str]) -> str:
    """Which checkpoints carry no scores by length, and what writes them."""
    commands = "\n".join(f"    attnscope evaluate {name} --data tatoeba-eng-fra.tsv.gz --by-length --record" for name in names)
    return f"No scores by sentence length are recorded in {', '.join(names)}. This writes them into the checkpoint:\n\n{commands}"


FIGURE_2 = (
    "**What to look for.** Bahdanau, Cho and Bengio (2015, figure 2) saw the score of a model with one fixed vector fall with the "
    "length of the sentence, and that of a model with alignment hold: the vector h_m has the same size for three words as for "
    "thirty, while an alignment goes back to every word. Short buckets hold many cases and long ones few: point to see how many."
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


def divergence(mean: float, step: int, largest: float) -> str:
    """The divergence in words; the token of the step is in the picture, not in Markdown, because it is text from outside."""
    return (
        f"On average the two rows are **{mean:.2f} bits** apart. They differ most at step {step + 1}, by {largest:.2f} bits; "
        "the bars show which token that is."
    )
