"""Contents of a static edition: the models, and the pages of each."""

import re
from dataclasses import dataclass
from functools import cached_property

import models
from models import Scope
from viz_app import words
from viz_app.input_bar.examples import readable_examples
from viz_app.navigation import PAGES

STATIC_MODELS = ("eng-fra", "eng-fra-bahdanau", "gpt", "bert", "xlnet")  # the first is shown first
TABS = (
    *("attention", "task", "inside", "layer", "positions", "masks", "interventions"),
    *("decoding", "compare", "from-rnn", "models"),
)
# the answer of a page, or of one of its sections, if the app's answer is about changing the run
STATIC_ANSWERS = {
    ("masks", ""): "Hatched cells are blocked. In the app you paint cells, and the model runs again.",
    ("interventions", "Heads"): "Click a head to switch it off. In the app you scale heads, too, and switch off several.",
    ("interventions", "Patch"): "Each cell is one run with that part of a second text. In the app you type both texts.",
    ("interventions", "Is attention explanation?"): "Do other weights give the same answer? In the app you set your own.",
    ("models", ""): "Ordered by year. A card with a link has its pages here; in the app every model opens.",
}  # fmt: skip
OVER_TEXTS = "The app measures this over many texts, which takes minutes."
# why a section has no static page
ONLY_IN_APP = {("interventions", "Many texts"): OVER_TEXTS, ("compare", "Many texts"): OVER_TEXTS}
CONTROLS_SHOWN = ("interventions",)  # pages that show their choices, and the texts in their boxes
# pages on which the choices of other pages change nothing, as long as the run is the same
CHOICES_OF_OWN = ("decoding", "from-rnn", "models")


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
    """A static page: a page of the app for one model, or one of its sections.

    A comparison has a `pair`, the name of what the run is compared with, and begins at the address
    `begins` of the app, which pins that run.
    """

    checkpoint: str
    tab: str
    section: str = ""
    pair: str = ""
    begins: str = ""

    @property
    def file(self) -> str:
        """The path of its file."""
        name = re.sub(r"[^a-z]+", "-", self.label.lower()).strip("-")
        return f"{self.checkpoint}/{'-'.join(filter(None, (self.tab, name)))}.html"

    @property
    def label(self) -> str:
        """Its name among the pages of the same tab."""
        return self.pair or self.section

    @property
    def title(self) -> str:
        """The name of the page in the navigation."""
        return PAGES[self.tab].title
