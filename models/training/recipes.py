"""Plans: sizes and recipes of the shipped checkpoints, and for less data.

`attnscope train` starts from them; flags override them.
"""

from dataclasses import replace

from models.architectures.attention_only import AttentionOnlyConfig
from models.architectures.bert import BERTConfig
from models.architectures.gpt import GPTConfig
from models.architectures.seq2seq import Seq2SeqConfig
from models.architectures.transformer import TransformerConfig
from models.architectures.xlnet import XLNetConfig
from models.training.plan import Plan
from models.training.recipe import Recipe
from models.training.small_recipes import SMALL_PLANS

_DATES = Recipe(steps=4000, warmup=1000, label_smoothing=0.0, validate_every=500, snapshots=True)
_DATES_DATA = {"batch_size": 128}
_TRANSLATION = Recipe(steps=8000, warmup=1500, validate_every=1000, patience=3)
_TRANSLATION_DATA = {"vocab_size": 6000, "max_tokens": 2048, "licence": None}
_SMALL = {"d_model": 64, "d_hidden": 96, "d_align": 96, "n_ctx": 64, "dropout": 0.0}
_LARGE = {"d_model": 256, "d_hidden": 320, "d_align": 320, "n_ctx": 512}

_LANGUAGE = Recipe(
    steps=6000,
    warmup=500,
    learning_rate=0.5,
    label_smoothing=0.0,
    validate_every=500,
    score_cases=0,
)
_LANGUAGE_DATA = {
    "documents": "paragraphs", "tokens": "byte pairs", "vocab_size": 4096, "max_tokens": 4096, "n_ctx": 128, "licence": None,
}  # fmt: skip

_CLASSIFY = Recipe(
    steps=160, warmup=40, learning_rate=0.2, label_smoothing=0.0, validate_every=40, score_cases=0
)
_CLASSIFY_DATA = {"vocab_size": 4000, "max_tokens": 1024, "n_ctx": 128, "fold": 0, "licence": None}

# task → model → plan
PLANS: dict[str, dict[str, Plan]] = {
    "dates": {
        "transformer": Plan(
            TransformerConfig,
            {
                "d_model": 64,
                "n_heads": 4,
                "d_ff": 256,
                "n_encoder_layers": 2,
                "n_decoder_layers": 2,
                "n_ctx": 64,
                "dropout": 0.0,
            },
            _DATES,
            _DATES_DATA,
        ),
        "rnn": Plan(Seq2SeqConfig, _SMALL | {"attention": "none"}, _DATES, _DATES_DATA),
        "bahdanau": Plan(Seq2SeqConfig, _SMALL | {"attention": "bahdanau"}, _DATES, _DATES_DATA),
        "attention": Plan(
            AttentionOnlyConfig,
            {"d_model": 64, "n_heads": 1, "n_self_layers": 0},
            _DATES,
            _DATES_DATA,
        ),
    },
    "translation": {
        "transformer": Plan(
            TransformerConfig,
            {
                "d_model": 192,
                "n_heads": 6,
                "d_ff": 768,
                "n_encoder_layers": 3,
                "n_decoder_layers": 3,
                "n_ctx": 512,
            },
            _TRANSLATION,
            _TRANSLATION_DATA,
        ),
        "rnn": Plan(Seq2SeqConfig, _LARGE | {"attention": "none"}, _TRANSLATION, _TRANSLATION_DATA),
        "bahdanau": Plan(
            Seq2SeqConfig, _LARGE | {"attention": "bahdanau"}, _TRANSLATION, _TRANSLATION_DATA
        ),
    },
    "language": {
        "gpt": Plan(
            GPTConfig,
            {"d_model": 128, "n_heads": 4, "n_layers": 4, "n_ctx": 128},
            _LANGUAGE,
            _LANGUAGE_DATA,
        ),
    },
    "mlm": {
        "bert": Plan(
            BERTConfig,
            {"d_model": 128, "n_heads": 4, "n_layers": 4, "n_ctx": 128, "dropout": 0.0},
            Recipe(
                steps=10_000,
                warmup=800,
                learning_rate=0.5,
                label_smoothing=0.0,
                validate_every=500,
                score_cases=0,
            ),
            {"vocab_size": 4096, "max_tokens": 4096, "n_ctx": 128, "licence": None},
        ),
    },
    "permutation": {
        "xlnet": Plan(
            XLNetConfig,
            {"d_model": 128, "n_heads": 4, "n_layers": 4, "n_ctx": 128, "dropout": 0.0},
            Recipe(
                steps=8000,
                warmup=800,
                learning_rate=0.5,
                label_smoothing=0.0,
                validate_every=500,
                score_cases=0,
            ),
            _LANGUAGE_DATA | {"max_tokens": 1024, "predict_last": 1, "order": "random"},
        ),
    },
    "span": {
        "bert": Plan(
            BERTConfig,
            {
                "d_model": 64,
                "n_heads": 2,
                "n_layers": 3,
                "n_ctx": 128,
                "dropout": 0.0,
                "init": "xavier",
                "head": "span",
            },
            Recipe(
                steps=30_000,
                warmup=2000,
                learning_rate=0.11,
                label_smoothing=0.0,
                validate_every=1000,
                snapshots=True,
                n_snapshots=6,
                snapshot_ratio=4,
            ),
            {
                "batch_size": 32,
                "vocab_size": 400,
                "max_tokens": 4096,
                "n_ctx": 128,
                "licence": None,
            },
        ),
    },
    "classify": {
        "gpt": Plan(
            GPTConfig,
            {"d_model": 120, "n_heads": 6, "n_layers": 4, "n_ctx": 128, "head": "classes"},
            _CLASSIFY,
            _CLASSIFY_DATA | {"tokens": "byte pairs", "lm_weight": 0.5},
        ),
        "bert": Plan(
            BERTConfig,
            {"d_model": 128, "n_heads": 4, "n_layers": 4, "n_ctx": 128, "head": "classes"},
            _CLASSIFY,
            _CLASSIFY_DATA | {"tokens": "word pieces"},
        ),
    },
} | SMALL_PLANS

FEW_PAIRS = 60_000
# Transformer-Tiny, best on 29,000 caption pairs in Wu et al. 2021
# ("Good for Misconceived Reasons", ACL)
_FEW_PAIRS = Plan(
    TransformerConfig,
    {"d_model": 128, "n_heads": 4, "d_ff": 256, "n_encoder_layers": 4, "n_decoder_layers": 4, "n_ctx": 512, "dropout": 0.3,
     "init": "normal"},
    Recipe(steps=10_000, warmup=2000, learning_rate=1.5, validate_every=500, patience=5),
    {"vocab_size": 4000, "max_tokens": 4096, "licence": None},
)  # fmt: skip


def plan_for(task: str, model: str, n_pairs: int | None = None) -> Plan:
    """Return the plan of a model on a task, chosen by the number of sentence pairs.

    Raises:
        ValueError: The task has no plan for this model.
    """
    if model not in PLANS[task]:
        raise ValueError(
            f"model {model} is not available for the task {task}; choose {' or '.join(PLANS[task])}"
        )
    if (
        task == "translation"
        and model == "transformer"
        and n_pairs is not None
        and n_pairs < FEW_PAIRS
    ):
        return _FEW_PAIRS
    return PLANS[task][model]


SMALL_FILE = 300_000  # characters
_SMALL_FILE_LIMITS = {
    "d_model": 64, "n_heads": 4, "d_ff": 128, "n_layers": 2, "n_encoder_layers": 2, "n_decoder_layers": 2,
    "d_hidden": 96, "d_align": 96, "vocab_size": 1000, "max_tokens": 2048,
}  # fmt: skip


def for_small_file(plan: Plan, n_characters: int) -> Plan:
    """Return the plan, smaller and a quarter as long if there are few characters."""
    if n_characters >= SMALL_FILE:
        return plan
    sizes, data = (
        {
            name: min(value, _SMALL_FILE_LIMITS[name]) if name in _SMALL_FILE_LIMITS else value
            for name, value in values.items()
        }
        for values in (plan.sizes, plan.data)
    )
    shorter = {
        name: -(-getattr(plan.recipe, name) // 4) for name in ("steps", "warmup", "validate_every")
    }
    return replace(plan, sizes=sizes, data=data, recipe=replace(plan.recipe, **shorter))


def settings_line(plan: Plan) -> str:
    """Return sizes and settings under the names of their flags."""
    recipe = {
        name: getattr(plan.recipe, name)
        for name in ("steps", "warmup", "learning_rate", "patience")
    }
    data = {name: value for name, value in plan.data.items() if isinstance(value, int)}
    return ", ".join(
        f"{name} {value:,}" if isinstance(value, int) else f"{name} {value}"
        for name, value in (plan.sizes | data | recipe).items()
    )
