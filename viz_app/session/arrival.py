"""What comes from outside is made fit for use here, before anything reads it: the texts people type and the URL's parameters.

Streamlit turns a parameter into its widget's value when the widget is first drawn. What it cannot turn, such as no choice at
all where one is required, or an infinite whole number, would end that run with an error on the screen; here it is taken out
of the URL, and the widget starts as it does for a newcomer. A value that is not among a widget's options or between its
limits Streamlit leaves out itself. Parameters without a widget are read by url_state.py and the state.py of the pages Decoding
and Masks.
"""

import math
import re

from streamlit.runtime.state.session_state_proxy import get_session_state

LONGEST_NUMBER = 18     # characters; more digits than any number here has
TEXTS = {"checkpoint", "source", "target", "masks-second"}
SWITCHES = {"growth", "positions-write"}
NUMBERS = {
    "decoding-alpha", "decoding-seed", "decoding-temperature", "decoding-top-k", "decoding-top-p", "decoding-width",
    "from-rnn-repetitions", "from-rnn-seed", "positions-length", "positions-seed", "positions-shift",
}  # fmt: skip
CHOICES = {
    "decoding-how", "from-rnn-d", "from-rnn-depth", "from-rnn-head", "from-rnn-layer", "from-rnn-scale", "from-rnn-section",
    "from-rnn-width", "growth-step", "masks-shown", "positions-d_model", "positions-order", "positions-pair",
    "positions-section", "positions-table", "positions-token",
}  # fmt: skip
SEVERAL = {"positions-dims"}


def whole(text: str) -> str:
    """The text without halves of characters (lone surrogates), such as a browser may send of an emoji while one types, and
    which no file, message or tokenizer takes: U+FFFD in their place."""
    return re.sub("[\ud800-\udfff]", "\ufffd", text)


def readable(name: str, values: list[str]) -> bool:
    """Whether a widget can make something of what the URL says under its name."""
    if name in NUMBERS:
        return len(values) == 1 and len(values[0]) <= LONGEST_NUMBER and _finite(values[0])
    if name in CHOICES | SWITCHES:
        return len(values) == 1 and values[0] != ""
    if name in TEXTS:
        return len(values) == 1
    return True


def _finite(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def tidy() -> None:
    """Take out of this session's URL what no widget can read, before there is a widget."""
    with get_session_state().query_params() as asked:
        for name in [name for name, values in asked._initial_query_params.items() if not readable(name, values)]:
            del asked._initial_query_params[name]
            asked.remove_param(name)
