"""The special tokens a vocabulary begins with, by name. Models and pages ask a tokenizer for them, never for a number."""

from collections.abc import Iterable

PLAIN = {"pad": "<pad>", "start": "<s>", "end": "</s>", "unknown": "<unk>"}
BERT = {"pad": "[PAD]", "unknown": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}    # Devlin et al. 2019, §3
SETS = (PLAIN, BERT)

UNKNOWN_TOKENS = frozenset(names["unknown"] for names in SETS)


def special_ids(vocabulary: Iterable[str]) -> dict[str, int]:
    """Name → id of the special tokens that these tokens, in the order of their ids, begin with. Raises ValueError if they begin
    with none of SETS."""
    tokens = list(vocabulary)
    for names in SETS:
        if tokens[: len(names)] == list(names.values()):
            return {name: i for i, name in enumerate(names)}
    raise ValueError(f"its first tokens must be {' or '.join(' '.join(names.values()) for names in SETS)}")
