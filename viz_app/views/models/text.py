"""The wording of the page Models, from the configuration and training record of each checkpoint."""

from typing import Any

from models.architectures import Config, architecture_name, family_of
from models.architectures.base import Family
from models.layers.masks import SiteKind
from models.printable import printable
from models.tasks.purpose import task_purpose as purpose_of
from viz_app import words
from viz_app.drawing.notes import rows

MODELS_QUESTION = "Models: pick one, and compare what each token may attend to"
MODELS_ANSWER = "Ordered by year. Each thumbnail is an attention mask: the row attends to the column; filled = allowed, hatched = blocked."
NO_THUMBNAIL = "No attention: a hidden state carries the text forward."
OPEN = "Open now"
MORE = "Training and size"
UNOPENED = "Open it to see its output and what can be shown."
PYTHON = "These models in Python: the reference"
LAYERS = ("n_encoder_layers", "n_decoder_layers", "n_layers")


def model_family(of: Family) -> str:
    """Return the family of a model, with its paper."""
    return words.as_sentence(of.name).removesuffix(".")


def model_group(config: Config) -> tuple[int, str]:
    """Return the group of a model: year and architecture."""
    return family_of(config).year, architecture_name(config)


def menu_purpose(training: dict[str, Any], config: Config) -> str:
    """Return what the model does, or the name of its task if that is not known."""
    return words.as_sentence(
        purpose_of(training, config) or f"task: {training.get('task') or 'unknown'}"
    )


def sizes(config: Config, n_parameters: int) -> str:
    """Return parameters, layers × heads, d_model and maximum length."""
    layers = [getattr(config, name) for name in LAYERS if hasattr(config, name)]
    parts = [f"{n_parameters:,} parameters"]
    kind, n_self_layers = "layer", getattr(config, "n_self_layers", None)
    if n_self_layers is not None:
        kind, layers = "self-attention layer", [n_self_layers]
    if layers:
        heads, n = config.n_heads, " + ".join(map(str, layers))
        parts.append(f"{n} {kind}{'s' * (layers != [1])} × {heads} head{'s' * (heads != 1)}")
    parts.append(f"d_model {config.d_model}")
    return ", ".join([*parts, f"at most {config.n_ctx} tokens"])


def opened_sizes(n_parameters: int, n_ctx: int) -> str:
    """Return parameters and maximum length; layers and heads are listed with what can be shown."""
    return f"{n_parameters:,} parameters, at most {n_ctx:,} tokens"


def scores(training: dict[str, Any]) -> str:
    """Return all scores with their number of cases, or that none was measured."""
    scores = training.get("scores")
    summary = words.score_summary(scores) if isinstance(scores, dict) else ""
    return f"{summary[:1].upper()}{summary[1:]}." if summary else "No score was measured."


def mask_title(kind: SiteKind, n_blocked: int, n_cells: int) -> str:
    """Return the title of a mask thumbnail."""
    reads = f"the {kind.key_stream}" if kind.between_streams else "itself"
    return f"The {kind.query_stream} attends to {reads}: {n_blocked} of {n_cells} cells are blocked"


def mask_name(kind: SiteKind) -> str:
    """Return the short title of a mask thumbnail."""
    return f"{kind.stack} self" if kind.role == "self" else kind.role


def missing_checkpoints(unreadable: list[tuple[str, str]], n_searched: int | None) -> dict:
    """Name the offered checkpoints that cannot be read, each with the reason.

    `n_searched` is the number of folders after which the search below --models ended early.
    """
    lines = [f"{printable(name)}: {reason}" for name, reason in unreadable]
    if lines:
        lines = ["These cannot be read.", *lines]
    if n_searched is not None:
        lines.append(f"Models after the first {n_searched:,} folders of --models are not offered.")
    return rows("note bad" if lines else "note", *(("line", line) for line in lines))
