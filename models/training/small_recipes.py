"""Plans of the small generated tasks, short enough to train while one watches.

tests/recipes/test_small_recipes.py trains each from five seeds and holds its score and its time.
"""

from typing import Any

from models.architectures.bert import BERTConfig
from models.architectures.gpt import GPTConfig
from models.architectures.seq2seq import Seq2SeqConfig
from models.architectures.transformer import TransformerConfig
from models.architectures.xlnet import XLNetConfig
from models.training.plan import Plan
from models.training.recipe import Recipe

MAX_LETTERS = 8  # of the longest string
_N_CTX = {"n_ctx": 32, "dropout": 0.0}
_ENCODER_DECODER = _N_CTX | {
    "d_model": 64, "n_heads": 4, "d_ff": 128, "n_encoder_layers": 1, "n_decoder_layers": 1,
}  # fmt: skip
_RECURRENT = _N_CTX | {"d_model": 64, "d_align": 96}
_STACK = _N_CTX | {"d_model": 64, "n_heads": 4, "d_ff": 128, "n_layers": 2}


def _recipe(steps: int, **settings: Any) -> Recipe:
    defaults = {"warmup": 200, "learning_rate": 0.8, "validate_every": 200}
    return Recipe(steps, label_smoothing=0.0, snapshots=True, **defaults | settings)


def _data(form: str = "source and target", **settings: Any) -> dict[str, Any]:
    return {"batch_size": 64, "form": form} | settings


def _transformer(steps: int, **settings: Any) -> Plan:
    return Plan(TransformerConfig, _ENCODER_DECODER, _recipe(steps), _data(**settings))


def _recurrent(steps: int, **settings: Any) -> Plan:
    """Return the plan of an RNN with Bahdanau's alignment."""
    sizes = _RECURRENT | {"d_hidden": 96, "attention": "bahdanau"}
    return Plan(Seq2SeqConfig, sizes, _recipe(steps), _data(**settings))


def _one_vector(steps: int, **settings: Any) -> Plan:
    """Return the plan of an RNN without alignment, which learns more slowly."""
    sizes = _RECURRENT | {"d_hidden": 128, "attention": "none"}
    return Plan(Seq2SeqConfig, sizes, _recipe(steps, learning_rate=0.6), _data(**settings))


def _gpt(steps: int, sizes: dict[str, int] | None = None, **settings: Any) -> Plan:
    return Plan(GPTConfig, _STACK | (sizes or {}), _recipe(steps), _data("one text", **settings))


def _bert(steps: int, **settings: Any) -> Plan:
    return Plan(BERTConfig, _STACK, _recipe(steps), _data("masked letters", **settings))


def _xlnet(steps: int, **settings: Any) -> Plan:
    return Plan(XLNetConfig, _STACK, _recipe(steps), _data("letters in an order", **settings))


def _written(one_vector_letters: int = MAX_LETTERS) -> dict[str, Plan]:
    """Return the plans of letters that an encoder-decoder writes.

    One vector must keep all letters and their order: `one_vector_letters` is the longest string
    of the RNN without alignment.
    """
    return {
        "transformer": _transformer(800, max_letters=MAX_LETTERS),
        "bahdanau": _recurrent(600, max_letters=MAX_LETTERS),
        "rnn": _one_vector(1500, max_letters=one_vector_letters),
    }


SMALL_PLANS: dict[str, dict[str, Plan]] = {
    "copy": _written(one_vector_letters=6),
    "reverse": _written(one_vector_letters=6),
    "sort": _written()
    | {
        "gpt": _gpt(800, max_letters=MAX_LETTERS),
        "bert": _bert(1000, max_letters=MAX_LETTERS),
        "xlnet": _xlnet(1200, max_letters=MAX_LETTERS),
    },
    "english-dates": {"transformer": _transformer(800), "bahdanau": _recurrent(500)},
    "addition": {
        "gpt": _gpt(1000, digits="reversed"),
        "bahdanau": _recurrent(1600, digits="reversed"),
    },
    "repeat": {
        "gpt": _gpt(1000, {"n_ctx": 31}, period="varied"),  # <s> and 30 letters
    },
    "markov": {"gpt": _gpt(1000, {"d_model": 32, "n_heads": 2, "d_ff": 64})},
}
