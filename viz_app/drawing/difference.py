"""Where two rows of tokens or words differ."""

from collections.abc import Hashable, Sequence
from difflib import SequenceMatcher


def shared(first: Sequence[Hashable], second: Sequence[Hashable]) -> tuple[list[bool], list[bool]]:
    """Of each row, which items stand in the other too, in the same order (Ratcliff and Obershelp's matching blocks); what is left
    is the difference."""
    in_first, in_second = [False] * len(first), [False] * len(second)
    for block in SequenceMatcher(None, first, second, autojunk=False).get_matching_blocks():
        in_first[block.a : block.a + block.size] = [True] * block.size
        in_second[block.b : block.b + block.size] = [True] * block.size
    return in_first, in_second
