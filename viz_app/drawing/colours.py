"""Colours of the pictures drawn in Python; the browser components use the same colour map.

A weight goes from the paper (0) to the accent (1) along a straight line in OKLab, which is
perceptually even.
"""

PAPER_COLOUR, ACCENT_COLOUR, TEXT_COLOUR, HATCH_COLOUR = "#ffffff", "#1b3fae", "#1d2330", "#8f96a3"

_TO_LMS = (
    (0.4122214708, 0.5363325363, 0.0514459929),
    (0.2119034982, 0.6806995451, 0.1073969566),
    (0.0883024619, 0.2817188376, 0.6299787005),
)
_TO_LAB = (
    (0.2104542553, 0.7936177850, -0.0040720468),
    (1.9779984951, -2.4285922050, 0.4505937099),
    (0.0259040371, 0.7827717662, -0.8086757660),
)
_FROM_LAB = (
    (1.0, 0.3963377774, 0.2158037573),
    (1.0, -0.1055613458, -0.0638541728),
    (1.0, -0.0894841775, -1.2914855480),
)
_FROM_LMS = (
    (4.0767416621, -3.3077115913, 0.2309699292),
    (-1.2684380046, 2.6097574011, -0.3413193965),
    (-0.0041960863, -0.7034186147, 1.7076147010),
)


def ramp(weight: float, paper: str = PAPER_COLOUR, accent: str = ACCENT_COLOUR) -> str:
    """Return the colour of a weight between 0 and 1."""
    low, high = _oklab(paper), _oklab(accent)
    lab = [a + (b - a) * min(1.0, max(0.0, weight)) for a, b in zip(low, high, strict=True)]
    rgb = _times(_FROM_LMS, [v**3 for v in _times(_FROM_LAB, lab)])
    return "#" + "".join(f"{round(255 * _encoded(v)):02x}" for v in rgb)


def _oklab(colour: str) -> list[float]:
    rgb = [_linear(int(colour[i : i + 2], 16) / 255) for i in (1, 3, 5)]
    return _times(_TO_LAB, [v ** (1 / 3) for v in _times(_TO_LMS, rgb)])


def _times(matrix: tuple, vector: list[float]) -> list[float]:
    return [sum(m * v for m, v in zip(row, vector, strict=True)) for row in matrix]


def _linear(v: float) -> float:
    return v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4


def _encoded(v: float) -> float:
    return min(1.0, max(0.0, 12.92 * v if v <= 0.0031308 else 1.055 * v ** (1 / 2.4) - 0.055))
