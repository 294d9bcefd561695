"""Special tokens that a vocabulary begins with, by name.

Models and pages look them up by name, never by id.
"""

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
# at the end of a PLAIN vocabulary: between two texts to classify, and after the last
# (Radford et al. 2018, §3.3)
CLASSIFIED = {"delimiter": "<$>", "extract": "<e>"}

UNKNOWN_TOKENS = frozenset(names["unknown"] for names in SETS)


def special_ids(vocabulary: Iterable[str]) -> dict[str, int]:
    """Return name → id of the special tokens in a vocabulary given in the order of its ids.

    They are those it begins with, and CLASSIFIED if a plain vocabulary ends with them.

    Raises:
        ValueError: It begins with none of SETS.
    """
    tokens = list(vocabulary)
    for names in SETS:
        if tokens[: len(names)] == list(names.values()):
            leading = {name: i for i, name in enumerate(names)}
            added = names is PLAIN and tokens[-len(CLASSIFIED) :] == list(CLASSIFIED.values())
            return leading | {
                name: len(tokens) - len(CLASSIFIED) + i
                for i, name in enumerate(CLASSIFIED)
                if added
            }
    raise ValueError(
        f"its first tokens must be {' or '.join(' '.join(names.values()) for names in SETS)}"
    )
