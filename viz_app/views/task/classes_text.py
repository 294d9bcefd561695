"""What the page Task says of classes, and of runs that differ in λ."""

TITLE = "How probable each class is, by the same model fine-tuned with another λ each"
MOST = "most probable"
NOTE = (
    "Each was fine-tuned from the same weights on the same texts, to make L3 = L2 + λ·L1 small (Radford et al. 2018): L2 is the "
    "loss of the class, L1 that of every token after those before it. Click a name to open that run."
)


def score(measured: str) -> str:
    """How good the run is, as a sentence."""
    return f"{measured[:1].upper()}{measured[1:]}." if measured else "No score was measured."
