"""What the page "From RNN to attention" says about how its models learned the dates."""

from collections.abc import Sequence

from viz_app.figures.learning import ENOUGH, Learner

STAGES = (
    "The same task, dates as people write them → ISO, at every step of the way: one fixed vector; an alignment over all states; "
    "attention with the recurrence taken away, alone, after self-attention, with several heads, stacked; and the Transformer, "
    "which adds residual connections, LayerNorm and a feed-forward layer. Every row is a trained checkpoint of this app: pick it "
    "under *Model* to look inside."
)
SIMILARITIES = (
    "The Transformer of the dates task, trained from the same seed on the same batches under each similarity: dot q·k, scaled dot "
    "q·k/√d, cosine t·cos(q, k) with a learned t, general q·M·k, additive v·tanh(W q + U k). Everything else is the same. Each row "
    "is a checkpoint of this app. On *Inside a head* the similarity can be swapped on a model that was not trained so."
)
NOT_SHIPPED = "No checkpoints of these models are installed."


def stage_text(text: str, own: bool) -> str:
    """Which date the rows answer, and where it comes from."""
    return f"Every model reads: {text}" if own else f"Every model reads the example: {text} (pick a dates model to type your own)"


def fastest(found: Sequence[Learner]) -> str:
    """Which of the models learned first and which learned best, from their records."""
    learned = sorted((one for one in found if one.learned_at), key=lambda one: one.learned_at)
    never = [one.what for one in found if not one.learned_at]
    said = []
    first = [one.what for one in learned if one.learned_at == learned[0].learned_at]
    last = [one.what for one in learned if one.learned_at == learned[-1].learned_at]
    if first and first == last:
        said.append(f"All that were right on {ENOUGH:.0f} % of the validation dates were so at the same validated step, "
                    f"{learned[0].learned_at:,}; the curves tell them apart.")
    elif first:
        said.append(f"First to be right on {ENOUGH:.0f} % of the validation dates: {_bold(first)}, at step "
                    f"{learned[0].learned_at:,}; last: {_bold(last)}, at step {learned[-1].learned_at:,}.")
    if never:
        said.append(f"Never there: {_bold(never)}.")
    return " ".join(said)


def _bold(models: Sequence[str]) -> str:
    return ", ".join(f"**{what}**" for what in models)
