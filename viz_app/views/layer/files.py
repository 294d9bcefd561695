"""Files to take away from "A layer, step by step". The numbers are the model's own, every digit kept."""

import numpy as np

from models.analysis.layer_parts import mean_and_spread
from viz_app.drawing.csv_file import csv_table
from viz_app.drawing.export import npz_file
from viz_app.drawing.provenance import counted, file_name
from viz_app.views.layer import text
from viz_app.views.layer.payloads import LISTED
from viz_app.views.layer.token_view import TokenView

COLUMNS = (
    "layer", "part", "length before", "length added", "cosine with stream", "length behind", "LayerNorm of",
    "mean before LayerNorm", "spread before LayerNorm", "mean behind LayerNorm", "spread behind LayerNorm", "fire", "of d_ff",
)  # fmt: skip


def name(view: TokenView, ending: str) -> str:
    """A file name that says whose numbers these are."""
    whose = file_name(
        view.run.trace, view.parts[0].sublayer.stack, "layers", f"token{view.position + 1}"
    )
    return f"{whose}.{ending}"


def layers_csv(view: TokenView) -> str:
    """A row a part of every layer, at the chosen token; what the model would say behind it, where it can be asked; and which model
    it is."""
    n = min(LISTED, view.log_probs.shape[1]) if view.log_probs is not None else 0
    one = "class" if text.is_class(view.output) else "token"
    said = [f"{what} {i}" for i in range(1, n + 1) for what in (one, "probability")]
    columns = [name.replace("LayerNorm", view.parts[0].sublayer.norm_name) for name in COLUMNS]
    rows, model, token = [], view.run.trace.model, view.token.text
    for i, part in enumerate(view.parts):
        of = {"post": "before + added", "pre": "before", "none": ""}[part.sublayer.norm]
        norm = (
            [""] * 4
            if part.normed is None
            else [*mean_and_spread(part.norm_input), *mean_and_spread(part.normed)]
        )
        fires = (
            ["", ""]
            if part.firing is None
            else [int(part.firing.fires.sum()), len(part.firing.pre)]
        )
        lengths = [
            float(part.before.norm()),
            float(part.added.norm()),
            part.direction,
            float(part.after.norm()),
        ]
        best = []
        if view.log_probs is not None:
            top = view.log_probs[i + 1].topk(n)
            for index, p in zip(top.indices.tolist(), top.values.exp().tolist(), strict=True):
                best += [view.label(index).text, _exact(p)]
        rows.append([
            text.layer_name(part.sublayer), text.role(part.sublayer), *map(_exact, lengths), of, *map(_exact, norm), *fires, *best,
            token, view.position + 1, model.name, model.fingerprint,
        ])  # fmt: skip
    return csv_table([*columns, *said, "token", "position", "model", "fingerprint"], rows)


def layers_npz(view: TokenView) -> bytes:
    """Every vector at the chosen token under its part's path, layers from 1: before, added, after, and where there are such,
    normed, ff_pre and ff_post; and as `log_probs`, the first row before all layers, log p behind each part of the next token,
    the token in place of a mask, or the classes."""
    arrays: dict[str, np.ndarray] = {}
    for part in view.parts:
        vectors = {
            "before": part.before,
            "added": part.added,
            "after": part.after,
            "normed": part.normed,
        }
        if part.firing is not None:
            vectors |= {"ff_pre": part.firing.pre, "ff_post": part.firing.post}
        arrays |= {
            f"{counted(part.sublayer.path)}.{name}": v.numpy()
            for name, v in vectors.items()
            if v is not None
        }
    if view.log_probs is not None:
        arrays["log_probs"] = view.log_probs.numpy()
    model = view.run.trace.model
    about = {
        "token": view.token.text,
        "position": view.position + 1,
        "model": model.name,
        "fingerprint": model.fingerprint,
    }
    return npz_file(arrays | {key: np.array(value) for key, value in about.items()})


def _exact(value: float | str) -> str:
    """The shortest decimal that names exactly this float32; what is no number stays."""
    return value if isinstance(value, str) else str(np.float32(value))
