"""A comparison of two rows of tokens or words."""

from collections.abc import Hashable, Sequence
from difflib import SequenceMatcher


def common_items(
    first: Sequence[Hashable], second: Sequence[Hashable]
) -> tuple[list[bool], list[bool]]:
    """Return, for each item of both rows, whether it belongs to a matching block of the two.

    Blocks keep their order (Ratcliff and Obershelp); all other items are the difference.
    """
    in_first, in_second = [False] * len(first), [False] * len(second)
    for block in SequenceMatcher(None, first, second, autojunk=False).get_matching_blocks():
        in_first[block.a : block.a + block.size] = [True] * block.size
        in_second[block.b : block.b + block.size] = [True] * block.size
    return in_first, in_second
