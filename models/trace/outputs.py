"""The typed answers of a run. A page picks its picture from the type."""

import math
from dataclasses import dataclass
from functools import cached_property

from jaxtyping import Float
from torch import Tensor


@dataclass(frozen=True)
class NextToken:
    """What the model expects after each token of a stream."""

    stream: str
    labels: tuple[int, ...]                 # the token after each position; of a text that goes on, all but the last's
    logits: Float[Tensor, "n vocab"]        # one row a position: of the token after it
    predicted: tuple[str, ...]              # the most probable token after each position

    @cached_property
    def log_probs(self) -> Float[Tensor, "n vocab"]:
        """log-softmax of the logits, in nats."""
        return self.logits.float().log_softmax(-1)

    @cached_property
    def surprisal(self) -> Float[Tensor, "label"]:
        """−log₂ p of each label after the tokens before it, in bits."""
        return -self.log_probs[range(len(self.labels)), list(self.labels)] / math.log(2)

    @property
    def is_closed(self) -> bool:
        """Whether the last label is the end of the text, as a decoder's is; a language model's text goes on."""
        return len(self.labels) == len(self.logits)


Output = NextToken
