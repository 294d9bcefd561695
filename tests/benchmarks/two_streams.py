"""The cost of XLNet's query stream: a pass of both streams over one of the content stream alone, whose numbers are the same.

Keys, values and the vectors of the distances are computed once for both, so two streams should cost at most 2.2 times one."""

import torch
from torch import Tensor

from models.architectures.xlnet import XLNET_CONTENT, XLNET_QUERY, XLNet, XLNetConfig
from tests.benchmarks.side_by_side import Result, in_turns, over, print_table

SIZES = {  # name → (sizes, texts, tokens each)
    "the shipped sizes, 16 tokens": (XLNetConfig(4000, 128, 4, 4, 128, dropout=0.0), 64, 16),
    "the shipped sizes, 128 tokens": (XLNetConfig(4000, 128, 4, 4, 128, dropout=0.0), 8, 128),
    "XLNet-Base, 2 layers, 128 tokens": (XLNetConfig(4000, n_layers=2, dropout=0.0), 2, 128),
}


def compare(what: str, rounds: int, passes: int = 2) -> Result:
    """Return the seconds of both streams over those of the content stream, forward, in random orders. Raises ValueError if the
    content stream differs when the query stream runs, too."""
    config, n_texts, n = SIZES[what]
    torch.manual_seed(1)
    model = XLNet(config).eval()
    ids = torch.randint(4, config.vocab_size, (n_texts, n))
    masks = model.masks(ids, torch.rand(n_texts, n).argsort())
    both = masks[XLNET_CONTENT.name], masks[XLNET_QUERY.name]
    h, segments = model.embedding(ids), torch.zeros_like(ids)
    g = model.placeholder.expand_as(h)

    def run(query: Tensor | None) -> Tensor:
        with torch.no_grad():
            for _ in range(passes):
                content, _ = model.encoder(h, query, segments, both)
        return content

    if not torch.allclose(run(g), run(None), atol=1e-5):
        raise ValueError("the content stream should not know of the query stream")
    two, one = in_turns(lambda: run(g), lambda: run(None), rounds)
    return Result(f"XLNet's two streams over its content stream: {what}", over(two, one), "≤ 2.2")


def measure(short: bool = False) -> list[Result]:
    """Measure all sizes, on one thread."""
    torch.set_num_threads(1)
    return [compare(what, 1 if short else 6) for what in SIZES]


if __name__ == "__main__":
    print_table(measure())
