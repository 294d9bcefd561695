"""What the page Task says of classes, and of runs that differ in λ."""

TITLE = "How probable each class is, by the same model fine-tuned with another λ each"
MOST = "most probable"
NOTE = (
    "Each was fine-tuned from the same weights on the same texts, to make L3 = L2 + λ·L1 small (Radford et al. 2018): L2 is the "
    "loss of the class, L1 that of every token after those before it. Click a name to open that run."
)


def score(measured: str, perplexity: object) -> str:
    """How good the run is, and how well it still tells the next token of the same texts, if its record says so."""
    if not measured:
        return "No score was measured."
    told = (
        f"; perplexity of their text {perplexity:,.0f}"
        if isinstance(perplexity, int | float)
        else ""
    )
    return f"{measured[:1].upper()}{measured[1:]}{told}."
