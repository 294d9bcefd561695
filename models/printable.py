"""Text from outside, such as the name of a folder or a token, made safe to print: its control characters are shown, not obeyed."""

# characters that turn the direction of the text around them (Unicode Standard Annex 9, section 2)
_DIRECTIONS = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
_SHOWN = {ord(character): f"U+{ord(character):04X}" for character in _DIRECTIONS}


def printable(text: str) -> str:
    """Return the text with every character that has no glyph as its code, "U+000A" for a line feed."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else f"U+{ord(c):04X}" for c in text)


def show_directions(text: str) -> str:
    """Return the text with every bidirectional control as its code; line breaks and all else stay."""
    return text.translate(_SHOWN)
