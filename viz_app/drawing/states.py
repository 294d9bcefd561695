"""The encoder's states of an RNN: a row a token, a column a number, with the part the decoder starts from framed."""

import io

import numpy as np

from models.architectures.seq2seq import Seq2SeqConfig
from models.trace import Trace
from viz_app import words
from viz_app.drawing.csv_file import csv_table
from viz_app.drawing.export import stream_tokens
from viz_app.drawing.labels import labels, numbered
from viz_app.drawing.payload import pack
from viz_app.drawing.provenance import file_name
from viz_app.drawing.stamp import facts, saving


def encoder_states(trace: Trace, config: Seq2SeqConfig, title: str) -> bytes:
    """The payload of the component `states`: h_1 … h_n, signed, on a scale of ±limit, their largest size. Where the encoder reads
    in both directions, forward stands left."""
    values = trace.activations["encoder.states"].value[0].numpy()
    n, d = values.shape
    ends = [(n - 1, 0), (0, config.d_hidden)] if config.bidirectional else [(n - 1, 0)]
    header = {
        "title": title,
        **saving(file_name(trace, "encoder-states"), facts(trace)),
        "axis": "which number of the state",
        "columns": d,
        "rows": [label.as_json() for label in labels(trace.streams["source"])],
        "limit": float(np.abs(values).max()),
        "frames": [{"row": row, "first": first, "count": config.d_hidden} for row, first in ends],
        "ways": ["forwards →", "← backwards"] if config.bidirectional else [],
    }
    return pack(header, states=values)


def explanation(config: Seq2SeqConfig, terms: words.Terms) -> str:
    """Why there is no attention to show, what there is instead, and what it means."""
    d, half = config.d_memory, config.d_hidden
    if config.bidirectional:
        reads = f"reads {terms.source} token by token in both directions"
        ways = (
            f"where its forward reading ended ({half} numbers, at the last token) and where its backward reading did ({half}, at "
            "the first)"
        )
        rows = (
            "A row of the picture holds both states at that token: on the left h→(t) = f(token t, h→(t−1)), which has read from "
            "the first token up to it; at the right h←(t) = f(token t, h←(t+1)), which has read from the last token back to it."
        )
    else:
        reads, ways = (
            f"reads {terms.source} token by token",
            f"the {d} numbers its reading ended with, at the last token",
        )
        rows = "A row of the picture is the state after that token: h(t) = f(token t, h(t−1))."
    return (
        f"**This model has no attention.** Its encoder {reads}; its decoder is given only where that ended, **h(m)**: {ways}, "
        f"framed in the picture. From it the decoder makes its first state, s(0) = tanh(W h(m) + b), {config.d_hidden} numbers. "
        f"All that it knows of {terms.source} is in those **{d} numbers**, as many however long it is, and it never looks "
        f"back at a single token; what it reads besides is its own text.\n\n{rows} An attention would let the decoder read every "
        "row, with weights that add up to 1. To see that, choose a model with Bahdanau's alignment (such as "
        f"**{terms.aligned}**) or a Transformer on the left."
    )


def states_csv(trace: Trace) -> str:
    """A row a token, a column a number of its state; each the shortest exact float32."""
    values = trace.activations["encoder.states"].value[0].numpy()
    names = numbered([label.text for label in labels(trace.streams["source"])])
    rows = ([name, *map(str, row)] for name, row in zip(names, values, strict=True))
    return csv_table(["token \\ number", *range(1, values.shape[1] + 1)], rows)


def states_npz(trace: Trace) -> bytes:
    """Every state of both halves under its name (encoder.states, decoder.states), a token a row, with the tokens."""
    kept = {
        name: trace.activations[name].value[0].numpy()
        for name in ("encoder.states", "decoder.states")
    }
    out = io.BytesIO()
    np.savez_compressed(out, **stream_tokens(trace), **kept)
    return out.getvalue()
