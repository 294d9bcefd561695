"""Control characters of names and tokens are shown, not obeyed."""

import pytest

from models.printable import printable, show_directions
from viz_app.components import stamp_payload
from viz_app.drawing.labels import token_text
from viz_app.drawing.payload import pack, unpack

DIRECTIONS = [0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)]


@pytest.mark.parametrize("code", DIRECTIONS)
def test_a_character_that_reverses_text_is_written_out_in_every_picture(
    code: int,
) -> None:
    text, shown = f"a{chr(code)}b", f"aU+{code:04X}b"
    assert show_directions(text) == printable(text) == token_text(text) == shown
    header, _ = unpack(pack({"tokens": [[text, "", False]], text: 1}))
    assert header == {"tokens": [[shown, "", False]], shown: 1, "arrays": {}}
    assert stamp_payload({"rows": [["line", text]]}, "key", (1, 2))["rows"] == [["line", shown]]


def test_other_text_stays_as_it_is() -> None:
    text = "שלום, café — naïve 日本 👩‍👩‍👧\nأهلا\t<b>"
    assert show_directions(text) == text
    assert unpack(pack({"text": text}))[0]["text"] == text
    assert printable("résumé <b>") == "résumé <b>"


def test_a_name_is_one_line_of_characters_that_can_be_seen_and_sent() -> None:
    shown = printable("a\nb\x1b[31m\x00\udc80")
    assert shown == "aU+000AbU+001B[31mU+0000U+DC80"
    assert shown.encode()
