"""The special tokens a vocabulary begins with, by name. Models and pages ask a tokenizer for them, never for a number."""

from collections.abc import Iterable

PLAIN = {"pad": "<pad>", "start": "<s>", "end": "</s>", "unknown": "<unk>"}
BERT = {
    "pad": "[PAD]",
    "unknown": "[UNK]",
    "cls": "[CLS]",
    "sep": "[SEP]",
    "mask": "[MASK]",
}  # Devlin et al. 2019, §3
SETS = (PLAIN, BERT)
# behind a vocabulary of PLAIN: between two texts that are classified, and behind the last (Radford et al. 2018, §3.3)
CLASSIFIED = {"delimiter": "<$>", "extract": "<e>"}

UNKNOWN_TOKENS = frozenset(names["unknown"] for names in SETS)


def special_ids(vocabulary: Iterable[str]) -> dict[str, int]:
    """Name → id of the special tokens that these tokens, in the order of their ids, begin with, and of CLASSIFIED where a plain
    vocabulary ends with these. Raises ValueError if they begin with none of SETS."""
    tokens = list(vocabulary)
    for names in SETS:
        if tokens[: len(names)] == list(names.values()):
            own = {name: i for i, name in enumerate(names)}
            added = names is PLAIN and tokens[-len(CLASSIFIED) :] == list(CLASSIFIED.values())
            return own | {
                name: len(tokens) - len(CLASSIFIED) + i
                for i, name in enumerate(CLASSIFIED)
                if added
            }
    raise ValueError(
        f"its first tokens must be {' or '.join(' '.join(names.values()) for names in SETS)}"
    )
