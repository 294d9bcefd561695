"""Families of layers and models on the page: each has one colour and one dash in every chart."""

from collections.abc import Sequence

from models.analysis.jacobian_reach import BIDIRECTIONAL, CNN, RNN, SELF_ATTENTION
from models.architectures import Model
from viz_app.drawing.frame import LINE_COLOURS, LINE_STYLES

ALIGNED = "RNN with alignment"
LineStyle = tuple[str, list[int]]  # colour, dashes and gaps
_STYLES: list[LineStyle] = list(zip(LINE_COLOURS, LINE_STYLES, strict=True))
FAMILY_STYLES = dict(zip((RNN, BIDIRECTIONAL, CNN, SELF_ATTENTION, ALIGNED), _STYLES, strict=False))


def family(model: Model) -> str:
    """Return the family of a model that translates."""
    if model.is_recurrent:
        return ALIGNED if model.kinds else RNN
    return SELF_ATTENTION


def line_styles(families: Sequence[str]) -> list[LineStyle]:
    """Return the colour and dash of each line of a chart, given its family; "" for none.

    Several lines of one family have its colour and different dashes. No two lines without a family
    are alike up to as many as there are pairs of a colour and a dash.
    """
    taken = [FAMILY_STYLES[name] for name in dict.fromkeys(families) if name]
    avoided = FAMILY_STYLES.values() if taken else ()  # as long as there are others
    free = sorted((s for s in _STYLES if s not in taken), key=lambda s: s in avoided) or _STYLES
    styles: list[LineStyle] = []
    others = 0
    for i, name in enumerate(families):
        if name and name not in families[:i]:
            styles.append(FAMILY_STYLES[name])
            continue
        round_number, at = divmod(others, len(free))
        colour, dashes = free[at][0], free[(at + round_number) % len(free)][1]
        styles.append((FAMILY_STYLES[name][0] if name else colour, dashes))
        others += 1
    return styles
