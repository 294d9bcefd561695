"""What the page Decoding tells: a given text and what the model writes, as two runs through the same decoder."""

from dataclasses import dataclass

from models.decoding.runs import Method, Run, first_divergence
from models.tokenizers.base import Encoding
from models.trace import Trace


@dataclass(frozen=True)
class Story:
    """Everything the page tells of one source or prompt: both runs, and the run without forced tokens if some were forced.
    Before the first step the decoder has been given `n_opening` tokens: <s>, or the prompt. `own` is the run of the unchanged
    model, whose text a changed one was given; None if this is it."""

    trace: Trace
    parallel: Run
    serial: Run
    method: Method
    free: Run | None = None
    n_opening: int = 1
    own: Trace | None = None

    @property
    def written_stream(self) -> Encoding:
        """The typed text on the stream that the model writes; without one what it wrote itself, or a prompt alone."""
        return self.trace.streams[self.trace.next_token.stream]

    @property
    def writer(self) -> str:
        """The model that wrote the given text, in the possessive; empty if the text was typed."""
        typed = (self.own or self.trace).teacher_forced
        if typed and len(self.written_stream.ids) > self.n_opening:
            return ""
        return "the unchanged model's" if self.own else "the model's own"

    @property
    def n_text(self) -> int:
        """How many tokens of text stand before the first that is written."""
        return sum(place is not None for place in self.written_stream.offsets[: self.n_opening])

    @property
    def n_steps(self) -> int:
        return max(len(self.parallel), len(self.serial))

    @property
    def divergence(self) -> int | None:
        return first_divergence(self.parallel, self.serial)
