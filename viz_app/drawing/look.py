"""Page colours for pictures that depend on the theme, matching .streamlit/config.toml."""

from dataclasses import dataclass

from viz_app.drawing.colours import ramp

RAMP_STEPS = 16


@dataclass(frozen=True)
class Look:
    """The colours of a theme.

    0 is `paper`; positive values end in `accent`, negative in `opposite`.
    """

    paper: str
    accent: str
    opposite: str
    text: str
    quiet: str
    third: str  # beside accent and opposite, where lines are told apart

    def sequential(self) -> list[str]:
        """Return colours for 0 … 1, evenly spaced in OKLab."""
        return [ramp(i / RAMP_STEPS, self.paper, self.accent) for i in range(RAMP_STEPS + 1)]

    def diverging(self) -> list[str]:
        """Return colours for −1 … 0 … 1, with the paper at 0."""
        negative = [ramp(1 - i / RAMP_STEPS, self.paper, self.opposite) for i in range(RAMP_STEPS)]
        return [*negative, *self.sequential()]


LIGHT = Look("#ffffff", "#1b3fae", "#b3470b", "#1d2330", "#667089", "#00795c")
DARK = Look("#10141d", "#9dbcff", "#ffb07c", "#e8ecf5", "#97a1b8", "#5fd0a8")


def look(theme: str | None) -> Look:
    """Return the colours of Streamlit's theme type, "light" or "dark"."""
    return DARK if theme == "dark" else LIGHT
