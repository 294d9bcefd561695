"""Special tokens that a vocabulary begins with, by name.

Models and pages look them up by name, never by id.
"""

from collections.abc import Iterable

PLAIN_SPECIAL = {"pad": "<pad>", "start": "<s>", "end": "</s>", "unknown": "<unk>"}
BERT_SPECIAL = {
    "pad": "[PAD]",
    "unknown": "[UNK]",
    "cls": "[CLS]",
    "sep": "[SEP]",
    "mask": "[MASK]",
}  # Devlin et al. 2019, §3
SPECIAL_SETS = (PLAIN_SPECIAL, BERT_SPECIAL)
# at the end of a PLAIN_SPECIAL vocabulary: between two texts to classify, and after the last
# (Radford et al. 2018, §3.3)
CLASSIFIER_SPECIAL = {"delimiter": "<$>", "extract": "<e>"}

UNKNOWN_TOKENS = frozenset(names["unknown"] for names in SPECIAL_SETS)


def special_ids(vocabulary: Iterable[str]) -> dict[str, int]:
    """Return the ids, by name, of the special tokens in a vocabulary ordered by id.

    They are those it begins with, and CLASSIFIER_SPECIAL if a plain vocabulary ends with them.

    Raises:
        ValueError: It begins with none of SPECIAL_SETS.
    """
    tokens = list(vocabulary)
    for names in SPECIAL_SETS:
        if tokens[: len(names)] == list(names.values()):
            leading = {name: i for i, name in enumerate(names)}
            added = names is PLAIN_SPECIAL and tokens[-len(CLASSIFIER_SPECIAL) :] == list(
                CLASSIFIER_SPECIAL.values()
            )
            return leading | {
                name: len(tokens) - len(CLASSIFIER_SPECIAL) + i
                for i, name in enumerate(CLASSIFIER_SPECIAL)
                if added
            }
    raise ValueError(
        f"its first tokens must be {' or '.join(' '.join(names.values()) for names in SPECIAL_SETS)}"
    )
