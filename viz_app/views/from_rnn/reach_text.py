"""What the page "From RNN to attention" says about what each layer reaches; every number is the caller's measurement."""

from collections.abc import Sequence

from models import Scope
from models.analysis.checks import Check
from models.analysis.jacobian_reach import (
    BIDIRECTIONAL,
    CNN,
    D_NEW,
    RNN,
    SELF_ATTENTION,
    LayerChoice,
    Reach,
)
from viz_app import words


def weights(scope: Scope, choice: LayerChoice) -> str:
    """Whose weights a layer has, for over its picture."""
    if choice.seed is not None:
        sizes = {
            RNN: f"tanh, {D_NEW} states",
            BIDIRECTIONAL: f"tanh, {D_NEW} states each way",
            CNN: f"tanh, {D_NEW} channels",
        }
        what = f" ({sizes[choice.kind]})" if choice.kind in sizes else ""
        always = " as any CNN here" if choice.kind == CNN else ""
        return f"random weights, seed {choice.seed}: untrained{always}{what}, on the embeddings of {scope.name}"
    model, config = scope.model, scope.config
    trained = (
        f"trained, {scope.name} encoder"
        if scope.training.get("step")
        else f"{scope.name} encoder, {words.untrained(scope.training)}"
    )
    if model.is_recurrent:
        side = "forward direction" if choice.kind == RNN else "both directions"
        cell = "GRU" if config.cell == "gru" else "tanh"
        return f"{trained}, {side} ({cell}, {config.d_hidden} states each)"
    return f"{trained}, layer 1 ({config.n_heads} heads, without residual and LayerNorm)"


def explanation(reaches: Sequence[Reach]) -> str:
    """What each picture shows, as a list in Markdown."""
    says = {RNN: _rnn, BIDIRECTIONAL: _bidirectional, CNN: _cnn, SELF_ATTENTION: _attention}
    return "\n".join(
        f"- **{reach.choice.kind}.** {says[reach.choice.kind](reach)}" for reach in reaches
    )


def _rnn(reach: Reach) -> str:
    return (
        "Lower-triangular: an output sees its own token and those before it; all to the right is exactly 0. "
        f"{_along(reach, -1, 'Backwards from an output')}"
    )


def _bidirectional(reach: Reach) -> str:
    """Left of the diagonal stands what the forward direction carries, right of it the backward one."""
    sides = (
        _along(reach, -1, "Left of the diagonal, read forwards"),
        _along(reach, 1, "Right of it, read backwards"),
    )
    return " ".join(
        [
            "Full: one direction fills what the other leaves empty.",
            *(side for side in sides if side),
        ]
    )


def _cnn(reach: Reach) -> str:
    n, choice = len(reach.norms), reach.choice
    field = choice.depth * (choice.width - 1) + 1
    beyond = n * n - int(reach.reaches.sum())
    sees = (
        f"{choice.depth} layers of width {choice.width} see"
        if choice.depth > 1
        else f"1 layer of width {choice.width} sees"
    )
    outside = (
        f"The other {beyond} of {n * n} pairs are exactly 0: this stack cannot see them."
        if beyond
        else f"That covers all {n * n} pairs of this sentence."
    )
    return f"A band: {sees} depth·(width − 1) + 1 = {field} token{'s' * (field > 1)}, centred on the output's own. {outside}"


def _attention(reach: Reach) -> str:
    """Full and one step everywhere; what differs with the distance is measured, the tokens before and after apart."""
    others = [entry for entry in reach.by_offset() if entry[0]]
    if not others:
        return "Full."
    least, most = min(others, key=lambda entry: entry[1]), max(others, key=lambda entry: entry[1])
    source = (
        "Distance may still count, because the inputs x hold the position vectors."
        if reach.positioned
        else "It is not told where tokens stand, so what differs with the distance comes from these tokens alone."
    )
    said = f"On average an output responds most to {_where(most[0])} ({_mean(most)})"
    said += f" and least to {_where(least[0])} ({_mean(least)})." if most != least else "."
    return f"Full: every pair is one step apart, and nothing has to pass through the tokens between. {source} {said}"


def _where(offset: int) -> str:
    """A token by how far it stands before or after the output's own."""
    side = "before" if offset < 0 else "after"
    return (
        f"the token just {side} its own"
        if abs(offset) == 1
        else f"the token {abs(offset)} places {side} its own"
    )


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
    r"$\lVert \partial y_i / \partial x_j \rVert$ is the Frobenius norm of a block of the layer's Jacobian: how strongly the "
    "output at one place, all its numbers together, responds to a small change of the input at another. Every cell is a true "
    "derivative, taken at this sentence. "
    "Norms depend on the scale of the weights, so compare shapes between layers rather than heights."
)


def too_long(n: int, most: int) -> str:
    return f"This sentence has {n} tokens; the Jacobian is worked out for at most {most}."


def checks(reaches: Sequence[Reach]) -> list[Check]:
    """What must hold of the pictures.

    Float32: a chain of matrix products differs from autograd's order of summation by some 1e-6 of the values."""
    leak = max(reach.leak for reach in reaches)
    output, autograd = (
        max(reach.output_gap for reach in reaches),
        max(reach.autograd_gap for reach in reaches),
    )
    return [
        Check(
            "what cannot be reached is 0",
            leak,
            0.0,
            "Largest ‖∂y_i/∂x_j‖ where a layer's graph has no way from x_j to y_i",
        ),
        Check(
            "the layers are the models' own",
            output,
            1e-5,
            "Largest difference of any y from the models' own pass, relative",
        ),
        Check(
            "the norms are autograd's",
            autograd,
            1e-4,
            "First tokens through plain autograd; largest difference, relative",
        ),
    ]
