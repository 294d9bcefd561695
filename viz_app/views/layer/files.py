"""The downloads of the page A layer, at full float32 precision."""

import numpy as np

from models.analysis.layer_parts import mean_and_spread
from models.layers.sublayers import norm_name_of
from viz_app.drawing.csv_file import csv_table
from viz_app.drawing.export import npz_file
from viz_app.drawing.provenance import counted_from_one, file_name
from viz_app.views.layer import text
from viz_app.views.layer.payloads import N_TOP_TOKENS
from viz_app.views.layer.token_view import TokenView

SUBLAYER_COLUMNS = (
    "layer", "part", "length before", "length added", "cosine with stream", "length after", "LayerNorm of",
    "mean before LayerNorm", "spread before LayerNorm", "mean after LayerNorm", "spread after LayerNorm", "fire", "of d_ff",
)  # fmt: skip


def layer_file_name(view: TokenView, extension: str) -> str:
    """Return a file name that identifies the run and the token."""
    stem = file_name(
        view.run.trace, view.parts[0].sublayer.stack, "layers", f"token{view.position + 1}"
    )
    return f"{stem}.{extension}"


def layers_csv(view: TokenView) -> str:
    """Return a row for each part of every layer at the chosen token, with the model's identity.

    If a prediction is read here, each row has the most probable answers after that part.
    """
    n = min(N_TOP_TOKENS, view.log_probs.shape[1]) if view.log_probs is not None else 0
    unit = "class" if text.is_class(view.output) else "token"
    answers = [f"{what} {i}" for i in range(1, n + 1) for what in (unit, "probability")]
    norm_name = norm_name_of([part.sublayer for part in view.parts])
    columns = [name.replace("LayerNorm", norm_name) for name in SUBLAYER_COLUMNS]
    rows, model, token = [], view.run.trace.model, view.token.text
    for i, part in enumerate(view.parts):
        read = "before" if part.read is None else "stream before the layer"
        norm_input = {"post": "before + added", "pre": read, "none": ""}[part.sublayer.norm]
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
            text.layer_name(part.sublayer), text.role(part.sublayer), *map(_exact, lengths), norm_input, *map(_exact, norm), *fires, *best,
            token, view.position, model.name, model.fingerprint,
        ])  # fmt: skip
    return csv_table([*columns, *answers, "token", "position", "model", "fingerprint"], rows)


def layers_npz(view: TokenView) -> bytes:
    """Return every vector at the chosen token under its part's path, with layers from 1.

    They are before, added and after, and where they exist normed, made (the output before a norm of
    its own), ff_pre and ff_post. `log_probs` has a row before all layers and one after each part:
    log p of the next token, of the token at a mask, or of the classes.
    """
    arrays: dict[str, np.ndarray] = {}
    for part in view.parts:
        vectors = {
            "before": part.before,
            "added": part.added,
            "after": part.after,
            "normed": part.normed,
            "made": part.made,
        }
        if part.firing is not None:
            vectors |= {"ff_pre": part.firing.pre, "ff_post": part.firing.post}
        arrays |= {
            f"{counted_from_one(part.sublayer.path)}.{name}": vector.numpy()
            for name, vector in vectors.items()
            if vector is not None
        }
    if view.log_probs is not None:
        arrays["log_probs"] = view.log_probs.numpy()
    model = view.run.trace.model
    identity = {
        "token": view.token.text,
        "position": view.position,
        "model": model.name,
        "fingerprint": model.fingerprint,
    }
    return npz_file(arrays | {key: np.array(value) for key, value in identity.items()})


def _exact(value: float | str) -> str:
    """Return the shortest decimal that names exactly this float32; text is unchanged."""
    return value if isinstance(value, str) else str(np.float32(value))
