"""The facts in files of the page Decoding: how tokens were chosen, and the text."""

from models.decoding.runs import Method
from models.tokenizers.base import Tokenizer
from viz_app.drawing.labels import token_label
from viz_app.drawing.notes import answer_line
from viz_app.drawing.stamp import Facts, facts
from viz_app.views.decoding.decoding_runs import DecodingRuns

METHOD_NAMES = {"greedy": "greedy", "sample": "sampling", "beam": "beam search, its best"}


def decoding_facts(runs: DecodingRuns, tokenizer: Tokenizer) -> Facts:
    """Return the facts of a run and of the text that is generated from its input.

    The text is left out where it is the run's own answer.
    """
    text = tokenizer.decode(runs.autoregressive.taken).strip()
    more = {
        "decoding": ", ".join([METHOD_NAMES[runs.method.strategy], *_settings(runs.method)]),
        "forced": "; ".join(_forced(runs, tokenizer)),
        "inference writes": text if text != answer_line(runs.trace)[1] else "",
    }
    return facts(runs.trace, **more)


def _settings(method: Method) -> list[str]:
    """List the settings that the method uses."""
    settings: dict[str, float | None] = {}
    if method.strategy == "sample":
        settings = {
            "temperature": method.temperature,
            "top-k": method.top_k,
            "top-p": method.top_p,
            "seed": method.seed,
        }
    elif method.strategy == "beam":
        settings = {"width": method.width, "α": method.alpha}
    settings["tokens at most"] = method.max_new
    return [f"{name} {value}" for name, value in settings.items() if value is not None]


def _forced(runs: DecodingRuns, tokenizer: Tokenizer) -> list[str]:
    """List the forced tokens that the run reached, with their positions from 0."""
    return [
        f"position {i}: {token_label(tokenizer, token, first=i + runs.n_text == 0).text}"
        for i, token in runs.method.forced
        if i < len(runs.autoregressive)
    ]
