"""What the page "From RNN to attention" says about how its models learned the dates."""

from collections.abc import Sequence

from viz_app import words
from viz_app.views.from_rnn.learners import ENOUGH, Learner

STAGES = (
    "The same task, dates as people write them → ISO, at every step of the way: one fixed vector; an alignment over all states; "
    "attention with the recurrence taken away, alone, after self-attention, with several heads, stacked, stacked with residual "
    "connections and LayerNorm; and the Transformer, whose layers each have a feed-forward part, and the decoder's each a "
    "cross-attention. Stacked on nothing but itself, attention averages the source's positions until they are all but alike, so "
    "that the decoder's queries get next to no gradient; later the decoder's states grow from layer to layer until softmax picks "
    "a single key. Every row is a trained checkpoint of this app: pick it under *Model* to look inside."
)
NOT_SHIPPED = "No checkpoints of these models are installed."


def stage_text(text: str, own: bool) -> str:
    """Which date the rows answer, and where it comes from."""
    return (
        f"Every model reads: {text}"
        if own
        else f"Every model reads the example: {text} (pick a dates model to type your own)"
    )


def similarities(learners: Sequence[Learner]) -> str:
    """What the similarities have in common and what not, with the numbers of their records."""
    steps, sizes = sorted({one.steps for one in learners}), [one.parameters for one in learners]
    trained = (
        f"for {steps[0]:,} steps each"
        if len(steps) == 1
        else f"for {steps[0]:,} to {steps[-1]:,} steps"
        if steps
        else ""
    )
    size = f" (in all {min(sizes):,} to {max(sizes):,} parameters)" if len(set(sizes)) > 1 else ""
    return (
        f"The Transformer of the dates task, trained {trained} by one recipe, on the same batches in the same order, under each "
        "similarity: dot $q \\cdot k$, scaled dot $q \\cdot k / \\sqrt{d}$, cosine $t \\cos(q, k)$, general $q M \\cdot k$, "
        "additive $v \\cdot \\tanh(W q + U k)$. What differs is "
        f"the similarity and what it learns besides: nothing, t, M, or W, U and v{size}. The weights begin from one seed, but W, "
        "U and v are drawn from it too, so the additive model's other weights begin elsewhere. Each row is a checkpoint of this "
        "app. On *Inside a head* the similarity can be swapped on a model that was trained with another."
    )


def fastest(learners: Sequence[Learner]) -> str:
    """Which of the models learned first and which last, from their records, and whether they were trained alike."""
    learned = sorted((one for one in learners if one.learned_at), key=lambda one: one.learned_at)
    never = [f"**{one.what}** ({one.steps:,} steps)" for one in learners if not one.learned_at]
    said = []
    first = [one.what for one in learned if one.learned_at == learned[0].learned_at]
    last = [one.what for one in learned if one.learned_at == learned[-1].learned_at]
    if first and first == last:
        said.append(
            f"All that were right on {ENOUGH:.0f} % of the validation dates were first found so at the same validated "
            f"step, {learned[0].learned_at:,}; the curves tell them apart."
        )
    elif first:
        said.append(
            f"First found right on {ENOUGH:.0f} % of the validation dates: {_bold(first)}, at step "
            f"{learned[0].learned_at:,}; last: {_bold(last)}, at step {learned[-1].learned_at:,}."
        )
    if never:
        said.append(f"Not reached within their training: {', '.join(never)}.")
    unequal = words.unequal_training({f"**{one.what}**": one.steps for one in learners})
    return " ".join([*said, unequal] if unequal else said)


def _bold(models: Sequence[str]) -> str:
    return ", ".join(f"**{what}**" for what in models)
