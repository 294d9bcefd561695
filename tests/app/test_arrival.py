"""What comes from outside is made fit for use: any value of any parameter of the URL shows a page, and never an error."""

import functools
import random
import string
from pathlib import Path

import pytest
from app_parts import said
from streamlit.testing.v1 import AppTest
from streamlit.util import calc_hash

import viz_app
from viz_app.session import arrival
from viz_app.session.arrival import readable, whole

APP = Path(viz_app.__file__).with_name("app.py")
# Parameters that no widget is bound to; state.py, decoding_state.py, masks_state.py and the views read them.
OWN = {
    "site", "head", "lock", "step", "force", "node", "heads", "mask", "encoder-mask", "decoder-mask", "cross-mask", "similarity",
    "inside-view", "inside-convention", "inside-key", "inside-stage",
}  # fmt: skip
BOUND = arrival.TEXTS | arrival.SWITCHES | arrival.NUMBERS | arrival.CHOICES | arrival.SEVERAL
VIEWS = [
    ("", {"growth": "true"}), ("inside", {}), ("masks", {}), ("decoding", {"decoding-how": "sampling"}),
    ("decoding", {"decoding-how": "beam"}), ("positions", {}), ("positions", {"positions-section": "Curves"}),
    ("positions", {"positions-section": "Two misprints"}), ("positions", {"positions-section": "Added or concatenated"}),
    ("from-rnn", {}), ("from-rnn", {"from-rnn-section": "Parallel and cost"}),
    ("from-rnn", {"from-rnn-section": "Two alignments"}),
]  # fmt: skip
NASTY = [
    "", " ", "inf", "-inf", "nan", "1e400", "-1", "99999999999999999999", "9" * 5_000, "x", "\x00", "😀", "²", "٣", "<script>",
    "x" * 300, "None", "[]", "1_000", "0x10", "1.5", "true", "q99999", "99999:999999", "f0-9999.0-9999", "window0", "%",
]  # fmt: skip


def opened(page: str, **params: str | list[str]) -> AppTest:
    app = AppTest.from_file(str(APP), default_timeout=120)
    if page:
        app._page_hash = calc_hash(page)
    for name, value in {"checkpoint": "dates", "source": "3 May 1999", **params}.items():
        app.query_params[name] = value
    return app.run()


def widgets(app: AppTest) -> dict[str, object]:
    """What the widgets that are bound to the URL say, by their parameter."""
    kinds = "text_input selectbox number_input slider select_slider multiselect toggle button_group".split()
    found = [element for kind in kinds for element in app.get(kind) if element.proto.query_param_key]
    return {element.proto.query_param_key: element.value for element in found}


def hundreds() -> list[str]:
    """Texts of every sort, the same each time."""
    rng = random.Random(0)
    signs = string.printable + "àéß漢字مر😀\u202e\u200d\ud83d\udc00\x00\u0301²٣"
    drawn = ["".join(rng.choices(signs, k=rng.randrange(1, 40))) for _ in range(200)]
    ends = ("", ".0", ".5", "e9", "e400")
    return [*NASTY, *drawn, *(f"{sign}{n}{end}" for sign in "+- " for n in (0, 1, 7, 10**12, 10**400) for end in ends)]


@pytest.mark.parametrize("name", sorted(arrival.NUMBERS))
def test_a_number_is_read_only_if_it_is_one(name: str) -> None:
    for text in hundreds():
        if readable(name, [text]):
            assert float("-inf") < float(text) < float("inf")
            int(float(text))
    assert readable(name, ["3"])
    assert readable(name, ["0.25"])
    assert not readable(name, ["3", "4"])


@pytest.mark.parametrize("name", sorted(arrival.CHOICES | arrival.SWITCHES))
def test_a_choice_is_read_only_if_it_is_one(name: str) -> None:
    assert not readable(name, [""])
    assert not readable(name, ["one", "other"])
    assert all(readable(name, [text]) for text in hundreds() if text)


@pytest.mark.parametrize("name", sorted(arrival.TEXTS | arrival.SEVERAL | OWN | {"utm_source"}))
def test_any_text_is_a_text(name: str) -> None:
    assert all(readable(name, [text]) for text in hundreds())


def test_texts_have_whole_characters() -> None:
    assert whole("a\ud83d😀\udc00") == "a\ufffd😀\ufffd"
    for text in hundreds():
        assert whole(text).encode().decode() == whole(text)
        assert len(whole(text)) == len(text)
    assert whole("é漢\x00 \u202e") == "é漢\x00 \u202e"


@pytest.mark.parametrize(("page", "section"), VIEWS)
def test_every_bound_parameter_is_known(page: str, section: dict[str, str]) -> None:
    """A widget that is new to the URL has to say here what it can read."""
    assert fresh(page, **section).keys() <= BOUND
    assert len(fresh(page, **section)) > 2


@pytest.mark.parametrize(("page", "section"), VIEWS)
@pytest.mark.parametrize("value", ["", "inf", "9" * 5_000])
def test_a_page_of_which_everything_is_asked_wrongly_stands_as_for_a_newcomer(
    page: str, section: dict[str, str], value: str
) -> None:
    asked = dict.fromkeys(BOUND | OWN, value) | {"checkpoint": "dates", "source": "3 May 1999", "target": ""} | section
    app = opened(page, **asked)
    assert not app.exception
    assert {**widgets(app), **free(app)} == {**fresh(page, **section), **free(app)}


def free(app: AppTest) -> dict[str, object]:
    """What may be any text, and none."""
    return {name: value for name, value in widgets(app).items() if name in ("masks-second", "positions-dims")}


@functools.cache
def fresh(page: str, **section: str) -> dict[str, object]:
    """The widgets of a newcomer's page."""
    app = opened(page, **section)
    assert not app.exception
    return widgets(app)


NAMED = [
    ("positions", "positions-section", ""), ("positions", "positions-order", ""), ("from-rnn", "from-rnn-section", ""),
    ("from-rnn", "from-rnn-width", ""), ("from-rnn", "from-rnn-depth", ""), ("from-rnn", "from-rnn-scale", ""),
    ("positions", "positions-seed", "inf"), ("from-rnn", "from-rnn-seed", "inf"), ("decoding", "decoding-how", ""),
    ("masks", "masks-shown", ""), ("positions", "positions-section", ["Map", "Curves"]),
]  # fmt: skip
BEHIND = [
    ("positions", "positions-table", "", {"positions-section": "Curves"}),
    ("from-rnn", "from-rnn-layer", "", {"from-rnn-section": "Two alignments"}),
    ("decoding", "decoding-seed", "inf", {"decoding-how": "sampling"}),
    ("decoding", "decoding-top-k", "-inf", {"decoding-how": "sampling"}),
    ("decoding", "decoding-temperature", "nan", {"decoding-how": "sampling"}),
    ("decoding", "decoding-width", "inf", {"decoding-how": "beam"}),
]


@pytest.mark.parametrize(("page", "name", "value", "section"), [(*named, {}) for named in NAMED] + BEHIND)
def test_what_a_widget_cannot_read_gives_the_default_and_leaves_the_url(
    page: str, name: str, value: str | list[str], section: dict[str, str]
) -> None:
    app = opened(page, **{name: value}, **section)
    assert not app.exception
    assert name not in app.query_params
    assert widgets(app)[name] == fresh(page, **section)[name]


def test_what_a_widget_can_read_is_read() -> None:
    app = opened("positions", **{"positions-section": "Curves", "positions-length": "7", "positions-dims": ["2", "5"]})
    assert widgets(app)["positions-length"] == 7
    assert widgets(app)["positions-dims"] == [2, 5]
    app = opened("decoding", **{"decoding-how": "sampling", "decoding-seed": "12", "decoding-temperature": "0.5"})
    assert (widgets(app)["decoding-seed"], widgets(app)["decoding-temperature"]) == (12, 0.5)


def test_a_widget_that_comes_later_reads_the_url_no_worse() -> None:
    app = opened("decoding", **{"decoding-seed": "inf", "decoding-width": "", "decoding-alpha": "1e400"})
    for how in ("sampling", "beam"):
        app.button_group(key="decoding-how").set_value(how).run()
        assert not app.exception
    assert (widgets(app)["decoding-width"], widgets(app)["decoding-alpha"]) == (4, 0.6)


@pytest.mark.parametrize("value", ["~nosuchuser", "\x00", "a" * 300, "a/" * 3_000, "\x00/dates", ""])
def test_a_checkpoint_that_cannot_be_named_is_named_as_such(value: str) -> None:
    app = opened("", checkpoint=value)
    assert not app.exception
    if value:
        assert "neither a folder nor a shipped checkpoint" in said(app, "note checkpoint")["rows"][0][1]
