"""What Attnscope asks of a model that it did not make: its sizes, and the numbers of its special tokens."""

from dataclasses import dataclass

from models.architectures.base import Family


@dataclass(frozen=True)
class HubConfig:
    """The sizes of somebody else's model, as its own configuration gives them."""

    architecture: str  # the name of its class
    vocab_size: int  # rows of its embedding; 0 where it has none
    d_model: int
    n_heads: int
    n_layers: int
    n_ctx: int  # longest text that is read here, in tokens
    n_key_heads: int  # heads of k and v; fewer than n_heads where a group of heads shares one
    dtype: str  # in which it runs; shown is float32
    pad_id: int  # no token: what fills short rows up
    start_id: int = -1  # −1: it has none
    end_id: int = -1
    end_ids: tuple[int, ...] = ()  # all that end a text, where there are several
    first_id: int = -1  # the token that every text it writes begins with
    last_id: int = -1  # the one that ends a text which is stopped for its length
    fill_id: int = 0  # the token that stands in the place of pad_id when the model is asked
    source: str = "Hugging Face"  # or "own module"
    positions: str = (
        "none"  # "learned" or "fixed": vectors of places that were seen to be looked up
    )
    gives_weights: bool = (
        False  # its library returns finished weights, and calls no attention that can be recorded
    )

    @property
    def family(self) -> Family:
        return Family(f"{self.architecture} ({self.source})", 9999)
