"""A share in percent is never rounded to 0 or to 100, in Python and in the browser's parts."""

import pytest

from models.percent import percent


@pytest.mark.parametrize(
    ("share", "digits", "text"),
    [
        (0, 0, "0 %"),
        (1, 0, "100 %"),
        (1, 1, "100 %"),
        (0.625, 0, "62 %"),
        (0.132, 1, "13.2 %"),
        (1 / 4000, 0, "0.03 %"),  # a flat distribution over 4,000 tokens
        (0.00001, 0, "<0.01 %"),
        (0.9964, 0, "99.6 %"),
        (0.9999956, 0, ">99.99 %"),
        (0.9999956, 1, ">99.99 %"),
        (1.304, 0, "130 %"),  # the relative change of a vector
    ],
)
def test_only_0_and_1_are_0_and_100_percent(share: float, digits: int, text: str) -> None:
    assert percent(share, digits) == text


@pytest.mark.parametrize("digits", [0, 1, 2])
def test_the_percentage_is_close_to_the_share(digits: int) -> None:
    for n in range(1, 10_000):
        text = percent(n / 10_000, digits)
        assert float(text.strip("<> %")) == pytest.approx(n / 100, abs=0.5 * 0.1**digits + 1e-9)
        assert text not in ("0 %", "100 %")
