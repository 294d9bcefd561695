"""One token of a run, and what every sublayer along its stream does to it: what the page "A layer, step by step" is drawn of."""

from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from models.analysis.layer_parts import Part, answering_positions, lens, output_read, parts
from models.architectures.base import MASKED, NEXT_TOKEN
from viz_app.drawing.labels import Label, labels, token_label
from viz_app.session.current_run import CurrentRun


@dataclass(frozen=True)
class Choices:
    """What is chosen on the page: a stream, a layer of it by its number from 0 (None: what stands behind the numbered ones), a
    token by its position, None where a telling one is to be found, and, where the stream has several, a row of states."""

    stream: str
    layer: int | None
    position: int | None
    states: str = ""


@dataclass(frozen=True)
class TokenView:
    """One token of a run, and what every sublayer along its stream does to it."""

    run: CurrentRun
    choices: Choices
    position: int

    @cached_property
    def parts(self) -> list[Part]:
        return parts(
            self.run.scope.model,
            self.run.trace,
            self.choices.stream,
            self.position,
            self.choices.states,
        )

    @cached_property
    def layer(self) -> list[Part]:
        """Those of the chosen layer."""
        return [part for part in self.parts if part.sublayer.layer == self.choices.layer]

    @property
    def output(self) -> str:
        """The output that the model reads from this token's stream, so that it can be asked what it would say; "" if none."""
        return output_read(self.run.scope.model, self.run.trace, self.choices.stream, self.position)

    @property
    def reader(self) -> str:
        """The stack that reads this stream besides its own; "" if none does."""
        stream, sites = self.choices.stream, self.run.trace.attention.values()
        return next(
            (site.stack for site in sites if site.key_stream == stream != site.query_stream), ""
        )

    @property
    def answering(self) -> list[Label]:
        """The tokens that the model can be asked at, where it is not asked at every token of the stream."""
        places = answering_positions(self.run.scope.model, self.run.trace, self.choices.stream)
        return [self.tokens[place] for own in places.values() for place in own]

    @property
    def guesses_masks(self) -> bool:
        """Return True if the model can be asked at the masks of this stream."""
        model = self.run.scope.model
        return self.choices.stream == model.read_stream and MASKED in model.read_outputs

    @cached_property
    def log_probs(self) -> Tensor | None:
        """log p of what the output may say, at each stop: before the first sublayer, and behind each."""
        stops = [self.parts[0].before, *(part.after for part in self.parts)]
        return lens(self.run.scope.model, stops, self.output) if self.output else None

    @property
    def tokens(self) -> list[Label]:
        return labels(self.run.trace.streams[self.choices.stream])

    @property
    def token(self) -> Label:
        return self.tokens[self.position]

    def label(self, token: int) -> Label:
        """One of the classes, or a token that could follow the chosen one or be in its place."""
        if self.output not in (NEXT_TOKEN, MASKED):
            return Label(self.run.trace.outputs[self.output].names[token])
        return token_label(
            self.run.scope.tokenizer,
            token,
            first=self.position == 0
            and self.output == NEXT_TOKEN
            and not self.run.scope.model.continues,
        )


def token_view(run: CurrentRun, choices: Choices) -> TokenView:
    """The chosen token; where none is chosen or it is no longer there, the one that answers, else the first behind the start."""
    n = len(run.trace.streams[choices.stream].ids)
    position = choices.position
    if position is None or position >= n:
        found = _answering(run, choices.stream)
        position = min(1, n - 1) if found is None else found
    return TokenView(run, choices, position)


def chosen_position(run: CurrentRun, choices: Choices, position: int) -> int | None:
    """What a click on this token chooses: the one that answers stays the one while the text grows."""
    return None if position == _answering(run, choices.stream) else position


def _answering(run: CurrentRun, stream: str) -> int | None:
    """The first token that the model's answer is read from: the last of a text that goes on, the one by which a text is
    classified, a mask."""
    model, trace = run.scope.model, run.trace
    if model.continues:
        return len(trace.streams[stream].ids) - 1
    places = answering_positions(model, trace, stream).values()
    return next((position for own in places for position in own), None)
