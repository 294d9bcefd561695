"""Format numbers for sentences: shares, decimals with a true minus sign, and counts of things."""

MAX_DECIMALS = 2  # decimals, after which a share is only bounded


def percent(share: float, digits: int = 0) -> str:
    """Format a share between 0 and 1 as "62 %", "0.3 %", "99.97 %", "<0.01 %" or ">99.99 %".

    "0 %" and "100 %" are used for exactly 0 and 1 only: a value that would round to them gets more
    digits, and finally a bound.
    """
    if share in (0, 1):
        return f"{100 * share:.0f} %"
    for more in range(digits, MAX_DECIMALS + 1):
        text = f"{100 * share:.{more}f}"
        if float(text) not in (0, 100):
            return f"{text} %"
    end = 0.1**MAX_DECIMALS
    return f"<{end:.{MAX_DECIMALS}f} %" if share < 0.5 else f">{100 - end:.{MAX_DECIMALS}f} %"


def decimal(value: float, digits: int, *, signed: bool = False) -> str:
    """Format a number with `digits` decimals: "−0.25", or "+0.25" if it is to be signed.

    What rounds to zero has no sign.
    """
    rounded = round(value, digits)
    sign = "+" if signed and rounded else ""
    return f"{rounded + 0.0:{sign}.{digits}f}".replace("-", "−")  # + 0.0 turns −0 into 0


def how_many(n: int, noun: str) -> str:
    """Return "1 pair" or "1,200 pairs": a count, with the noun in the plural unless it is 1."""
    return f"{n:,} {noun}{'' if n == 1 else 's'}"
