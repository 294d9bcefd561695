"""The field's own words in plain ones, for who points at them."""

import re
from html import escape

GLOSSARY = {
    "token": "A piece of text that the model takes as one: a word, part of a word, a character or a sign. “·” stands for a space.",
    "head": "One of several attentions that work side by side in a layer, each with weights of its own.",
    "layer": "One of several like parts of a model; what one makes, the next one reads.",
    "query": "The vector of the token that reads: what it looks for.",
    "key": "The vector of a token that may be read: what it is found by.",
    "vector": "A row of numbers: here, what the model knows of a token.",
    "weight": "The share of its attention that a token gives to another. All those of one token add up to 1.",
    "position": "The place of a token in its text.",
}
_WORD = re.compile(rf"\b({'|'.join(GLOSSARY)})s?\b")


def explained(*texts: str) -> list[str]:
    """Each of these texts as HTML, where the first of every word in GLOSSARY, over all of them, says on hover what it means."""
    known: set[str] = set()

    def mark(found: re.Match) -> str:
        name = found[1]
        if name in known:
            return found[0]
        known.add(name)
        return f'<abbr title="{escape(GLOSSARY[name])}">{found[0]}</abbr>'

    return [_WORD.sub(mark, escape(text)) for text in texts]
