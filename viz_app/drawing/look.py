"""The page's own colours for drawings that are told whether it is light or dark; as in .streamlit/config.toml."""

from dataclasses import dataclass

from viz_app.drawing.colours import ramp

STEPS = 16


@dataclass(frozen=True)
class Look:
    """Paper is 0; a weight or a positive value goes to the accent, a negative one to the opposite."""

    paper: str
    accent: str
    opposite: str
    text: str
    quiet: str

    def sequential(self) -> list[str]:
        """0 … 1, evenly in OKLab."""
        return [ramp(i / STEPS, self.paper, self.accent) for i in range(STEPS + 1)]

    def diverging(self) -> list[str]:
        """−1 … 0 … 1, the paper in the middle."""
        negative = [ramp(1 - i / STEPS, self.paper, self.opposite) for i in range(STEPS)]
        return [*negative, *self.sequential()]


LIGHT = Look("#ffffff", "#1b3fae", "#b3470b", "#1d2330", "#667089")
DARK = Look("#10141d", "#9dbcff", "#ffb07c", "#e8ecf5", "#97a1b8")


def look(theme: str | None) -> Look:
    """The look of Streamlit's theme type, "light" or "dark"."""
    return DARK if theme == "dark" else LIGHT
