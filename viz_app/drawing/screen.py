"""The screen that charts are drawn for: its font sizes and the size of its window."""

from typing import Literal, NamedTuple, get_args

WindowSize = Literal["usual", "large", "phone"]  # as first_paint.js measures it
WINDOW_COOKIE = "attnscope_window"
LABEL_SIZE, TITLE_SIZE = 12, 14  # px, font sizes on a page that is not presented
TALLER = {"usual": 0, "large": 220, "phone": -80}  # px


class Screen(NamedTuple):
    """A screen: presented or not, and the size of its window."""

    is_presented: bool = False
    window: WindowSize = "usual"

    @property
    def label_size(self) -> int:
        """The font size of a chart's labels, in px."""
        if not self.is_presented:
            return LABEL_SIZE
        return 20 if self.window == "large" else 16

    @property
    def title_size(self) -> int:
        """The font size of the titles of axes and legends, in px."""
        return max(TITLE_SIZE, self.label_size)

    @property
    def taller(self) -> int:
        """The height added to a chart beside the usual window, in px; negative on a phone."""
        return TALLER[self.window]

    @property
    def growth(self) -> float:
        """The width of several plots beside each other, relative to the usual window."""
        return 1.5 if self.window == "large" else 1.0


USUAL_SCREEN = Screen()


def window_size(name: str) -> WindowSize:
    """Return the size of this name; the usual one for any other name."""
    return next((one for one in get_args(WindowSize) if one == name), "usual")
