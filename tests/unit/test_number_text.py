"""Numbers in sentences: no share is rounded to 0 or 100, and what is rounded to zero has no sign."""

import pytest

from models.number_text import decimal, how_many, percent


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


@pytest.mark.parametrize(
    ("value", "digits", "text", "with_sign"),
    [
        (0.0, 2, "0.00", "0.00"),
        (-0.0, 2, "0.00", "0.00"),
        (-0.004, 2, "0.00", "0.00"),
        (0.004, 2, "0.00", "0.00"),
        (-0.006, 2, "−0.01", "−0.01"),
        (0.25, 3, "0.250", "+0.250"),
        (-12.5, 0, "−12", "−12"),
        (1234.5678, 1, "1234.6", "+1234.6"),
        (float("-inf"), 1, "−inf", "−inf"),
    ],
)
def test_what_is_rounded_to_zero_has_no_sign(
    value: float, digits: int, text: str, with_sign: str
) -> None:
    assert (decimal(value, digits), decimal(value, digits, signed=True)) == (text, with_sign)


def test_one_thing_is_in_the_singular() -> None:
    assert [how_many(n, "pair") for n in (0, 1, 1200)] == ["0 pairs", "1 pair", "1,200 pairs"]
