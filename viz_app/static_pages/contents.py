"""Contents of a static edition: the models, and the pages of each."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import models
from models import Scope
from viz_app import words
from viz_app.input_bar.examples import readable_examples
from viz_app.navigation import PAGES

STATIC_MODELS = ("eng-fra", "eng-fra-bahdanau", "gpt", "bert", "xlnet")  # the first is shown first
TABS = ("attention", "task", "inside", "layer", "positions", "masks", "decoding", "from-rnn")


# the answer of a page if the app's answer is about changing the run
STATIC_ANSWERS = {
    "masks": "Hatched cells are blocked. In the app you paint cells, and the model runs again."
}


@dataclass(frozen=True)
class ModelTexts:
    """A shipped model and the texts that its pages show."""

    checkpoint: str

    @cached_property
    def scope(self) -> Scope:
        """The opened checkpoint."""
        return models.load(self.checkpoint)

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """The first ready example, with an empty text for each further field."""
        texts = readable_examples(self.scope)[0]
        return (*texts, *[""] * (len(self.scope.model.text_fields) - len(texts)))

    @property
    def inputs(self) -> list[tuple[str, str]]:
        """The label and the text of each field that is filled in."""
        scope = self.scope
        terms = words.terms(scope.task, scope.training.get("languages", ()))
        pairs = zip(scope.model.text_fields, self.texts, strict=True)
        # the part of a label in brackets is about typing
        return [(terms.label(field.name).partition(" (")[0], text) for field, text in pairs if text]


@dataclass(frozen=True)
class StaticPage:
    """A static page: a page of the app for one model, or one of its sections."""

    checkpoint: str
    tab: str
    section: str = ""

    @property
    def file(self) -> str:
        """The path of its file."""
        section = re.sub(r"[^a-z]+", "-", self.section.lower()).strip("-")
        return f"{self.checkpoint}/{'-'.join(filter(None, (self.tab, section)))}.html"

    @property
    def title(self) -> str:
        """The name of the page in the navigation."""
        return PAGES[self.tab].title


def places(example: ModelTexts, tabs: Sequence[str]) -> list[StaticPage]:
    """Return the pages of a model, including those that show nothing of it."""
    return [
        StaticPage(example.checkpoint, tab, section) for tab in tabs for section in PAGES[tab].views
    ]
