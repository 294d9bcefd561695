"""The encoder states of an RNN: a row for each token, a column for each number of the state."""

import numpy as np

from models.architectures.seq2seq import Seq2SeqConfig
from models.trace import Trace
from viz_app import words
from viz_app.drawing.csv_file import csv_table
from viz_app.drawing.export import npz_file, stream_tokens
from viz_app.drawing.extent import OWN_EXTENT, Extent, widen_scales
from viz_app.drawing.labels import labels, number_labels
from viz_app.drawing.payload import pack
from viz_app.drawing.provenance import file_name
from viz_app.drawing.stamp import facts, saving


def encoder_states(
    trace: Trace, config: Seq2SeqConfig, title: str, extent: Extent = OWN_EXTENT
) -> bytes:
    """Return the payload of the component `states`: signed states h_1 … h_n on a scale of ±limit.

    The scale covers `extent`. In a bidirectional encoder the forward states are on the left. The
    state that the decoder starts from is framed.
    """
    values = trace.activations["encoder.states"].value[0].numpy()
    n, d = values.shape
    largest = {"state": float(np.abs(values).max())}
    final_states = [(n - 1, 0), (0, config.d_hidden)] if config.bidirectional else [(n - 1, 0)]
    header = {
        "title": title,
        **saving(file_name(trace, "encoder-states"), facts(trace)),
        "axis": "state dimension",
        "columns": d,
        "rows": [label.as_json() for label in labels(trace.streams["source"])],
        "extent": largest,
        "limit": widen_scales(largest, extent)["state"],
        "frames": [
            {"row": row, "first": first, "count": config.d_hidden} for row, first in final_states
        ],
        "ways": ["forwards →", "← backwards"] if config.bidirectional else [],
    }
    return pack(header, states=values)


def explain_states(config: Seq2SeqConfig, terms: words.Terms) -> str:
    """Explain, in Markdown, an RNN without attention: what the decoder gets instead."""
    d, half = config.d_memory, config.d_hidden
    if config.bidirectional:
        reads = f"reads {terms.source} token by token in both directions"
        final_states = f"the end of its forward reading ({half} numbers, last token) and of its backward reading ({half}, first token)"
        rows = (
            "A row of the picture holds both states at that token. On the left is h→(t) = f(token t, h→(t−1)), which has read "
            "from the first token up to it. On the right is h←(t) = f(token t, h←(t+1)), which has read from the last token "
            "back to it."
        )
    else:
        reads, final_states = (
            f"reads {terms.source} token by token",
            f"the {d} numbers its reading ended with, at the last token",
        )
        rows = "A row of the picture is the state after that token: h(t) = f(token t, h(t−1))."
    return (
        f"**This model has no attention.** Its encoder {reads}. Its decoder receives only the end of that reading, **h(m)**, framed in the "
        f"picture. It is {final_states}. From it the decoder makes its first state, s(0) = tanh(W h(m) + b), {config.d_hidden} numbers. "
        f"All that it knows of {terms.source} is in those **{d} numbers**, however long the text is. It never looks back at a "
        f"single token; otherwise it reads only its own text.\n\n{rows} Attention would let the decoder read every row, with "
        "weights that add up to 1. To see that, choose a model with Bahdanau's alignment (such as "
        f"**{terms.aligned}**) or a Transformer above."
    )


def states_csv(trace: Trace) -> str:
    """Return a CSV with a row for each token and a column for each number, in exact float32."""
    values = trace.activations["encoder.states"].value[0].numpy()
    names = number_labels([label.text for label in labels(trace.streams["source"])])
    rows = ([name, *map(str, row)] for name, row in zip(names, values, strict=True))
    return csv_table(["token \\ number", *range(1, values.shape[1] + 1)], rows)


def states_npz(trace: Trace) -> bytes:
    """Return an npz of the encoder's and the decoder's states (token, number), with the tokens."""
    states = {
        name: trace.activations[name].value[0].numpy()
        for name in ("encoder.states", "decoder.states")
    }
    return npz_file({**stream_tokens(trace), **states})
