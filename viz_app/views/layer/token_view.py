"""One token of a run and its way through every sublayer of a stream."""

from dataclasses import dataclass, replace
from functools import cached_property

from torch import Tensor

from models.analysis.layer_parts import (
    SublayerEffect,
    answering_positions,
    logit_lens,
    output_read,
    sublayer_effects,
)
from models.analysis.routing import TokenRouting, routings, token_routing
from models.architectures.base import MASKED_OUTPUT, NEXT_TOKEN
from viz_app.drawing.labels import Label, labels, token_label
from viz_app.session.current_run import CurrentRun


@dataclass(frozen=True)
class LayerChoices:
    """The choices on the page.

    They are the stream; the layer by its number from 0, None for an unnumbered one after the
    others; the token's position, None for a default one; and a row of states if the stream has
    several.
    """

    stream: str
    layer: int | None
    position: int | None
    states: str = ""


@dataclass(frozen=True)
class TokenView:
    """One token of a run, and what every sublayer along its stream does to it."""

    run: CurrentRun
    choices: LayerChoices
    position: int

    @cached_property
    def parts(self) -> list[SublayerEffect]:
        return sublayer_effects(
            self.run.scope.model,
            self.run.trace,
            self.choices.stream,
            self.position,
            self.choices.states,
        )

    @cached_property
    def layer(self) -> list[SublayerEffect]:
        """The parts of the chosen layer."""
        return [part for part in self.parts if part.sublayer.layer == self.choices.layer]

    @cached_property
    def routed(self) -> dict[str, TokenRouting]:
        """Path of a mixture of experts in the chosen layer → where it sends this token."""
        experts = routings(self.run.scope.model)
        by_path = {
            p.sublayer.path: token_routing(
                self.run.trace,
                experts[p.sublayer.path],
                p.sublayer.made or p.sublayer.out,
                self.position,
            )
            for p in self.layer
            if p.sublayer.path in experts
        }
        return {path: one for path, one in by_path.items() if one is not None}

    @property
    def output(self) -> str:
        """The output that the model reads from this token's stream; "" if none."""
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
        """The tokens that the model reads its outputs from, where these are not all tokens."""
        by_output = answering_positions(self.run.scope.model, self.run.trace, self.choices.stream)
        return [self.tokens[position] for positions in by_output.values() for position in positions]

    @property
    def guesses_masks(self) -> bool:
        """True if the model reads its outputs from the masks of this stream."""
        model = self.run.scope.model
        return self.choices.stream == model.read_stream and MASKED_OUTPUT in model.read_outputs

    @cached_property
    def log_probs(self) -> Tensor | None:
        """The output's log p at each stop: before the first sublayer, and after each."""
        stops = [self.parts[0].before, *(part.after for part in self.parts)]
        return logit_lens(self.run.scope.model, stops, self.output) if self.output else None

    @property
    def tokens(self) -> list[Label]:
        return labels(self.run.trace.streams[self.choices.stream])

    @property
    def token(self) -> Label:
        return self.tokens[self.position]

    def label(self, token: int) -> Label:
        """Return the label of a class, or of a token predicted at the chosen position."""
        if self.output not in (NEXT_TOKEN, MASKED_OUTPUT):
            return Label(self.run.trace.outputs[self.output].names[token])
        return token_label(
            self.run.scope.tokenizer,
            token,
            first=self.position == 0
            and self.output == NEXT_TOKEN
            and not self.run.scope.model.continues,
        )


def layer_choices_within(choices: LayerChoices, run: CurrentRun, other: CurrentRun) -> LayerChoices:
    """Return the nearest choices that exist in another run.

    They are the same layer of the same row of states, or its last layer, and the same position.
    """
    sublayers = other.scope.model.sublayers
    rows = [s for s in sublayers if (s.stream, s.states) == (choices.stream, choices.states)]
    rows = rows or [s for s in sublayers if s.row == sublayers[-1].row]
    same = [s for s in rows if s.layer == choices.layer] or rows[-1:]
    position = token_view(run, choices).position if same[0].stream == choices.stream else None
    location = {"stream": same[0].stream, "states": same[0].states, "layer": same[0].layer}
    return replace(choices, position=position, **location)


def token_view(run: CurrentRun, choices: LayerChoices) -> TokenView:
    """Return the view of the chosen token.

    By default it is the token that the answer is read from, else the first one after the start.
    """
    n = len(run.trace.streams[choices.stream].ids)
    position = choices.position
    if position is None or position >= n:
        answering = _answering(run, choices.stream)
        position = min(1, n - 1) if answering is None else answering
    return TokenView(run, choices, position)


def clicked_token(run: CurrentRun, choices: LayerChoices, position: int) -> int | None:
    """Return the choice for a click on this token.

    It is None for the answering token, so that the view follows it while the text grows.
    """
    return None if position == _answering(run, choices.stream) else position


def _answering(run: CurrentRun, stream: str) -> int | None:
    """Return the first position that the model's answer is read from; None if there is none.

    It is the last token of an unfinished text, the token of the classifier, or a mask.
    """
    model, trace = run.scope.model, run.trace
    if model.continues:
        return len(trace.streams[stream].ids) - 1
    by_output = answering_positions(model, trace, stream).values()
    return next((position for positions in by_output for position in positions), None)
