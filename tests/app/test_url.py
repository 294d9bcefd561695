"""Reading and writing the URL: any value of any parameter shows a page, never an error; choices are restored."""

import functools
import json
import random
import string
from pathlib import Path

import pytest
import streamlit
from app_parts import address_of, app_at, component, pick_model, picker, picture, said
from streamlit.testing.v1 import AppTest
from streamlit.util import calc_hash

import viz_app
import viz_app.navigation  # every page declares its parameters
from models.trace.edits import HeadOff, MaskChange, Where, to_text
from viz_app import bounds
from viz_app.session import url_state
from viz_app.session.focus import FOCUS_HEAD
from viz_app.session.parameters import (
    Choice,
    Number,
    Parameter,
    Several,
    Switch,
    Text,
    Whole,
    declared_parameters,
    replace_surrogates,
)
from viz_app.session.run_changes import MAX_PAIRS

APP = Path(viz_app.__file__).with_name("app.py")
PARAMETERS = list(declared_parameters().values())
VIEWS = [
    ("", {"growth": "true"}), ("inside", {}), ("inside", {"inside-view": "matrices"}), ("masks", {}), ("task", {}), ("layer", {}),
    ("decoding", {"decoding-how": "sampling"}), ("decoding", {"decoding-how": "beam"}), ("positions", {}),
    ("positions", {"positions-section": "Curves"}), ("positions", {"positions-section": "Two misprints"}),
    ("positions", {"positions-section": "Added or concatenated"}), ("from-rnn", {}),
    ("from-rnn", {"from-rnn-section": "Parallel and cost"}), ("from-rnn", {"from-rnn-section": "Two alignments"}),
]  # fmt: skip
NASTY = [
    "", " ", "inf", "-inf", "nan", "1e400", "-1", "99999999999999999999", "9" * 5_000, "x", "\x00", "😀", "²", "٣", "<script>",
    "x" * 300, "None", "[]", "1_000", "0x10", "1.5", "true", "q99999", "99999:999999", "f0-9999.0-9999", "window0", "%",
]  # fmt: skip


def open_page(page: str, **params: str | list[str]) -> AppTest:
    return app_at(page, **{"checkpoint": "dates", "source": "3 May 1999", **params})


def widgets(app: AppTest) -> dict[str, object]:
    """Return the values of the widgets that show a parameter, by its name."""
    kinds = "text_area selectbox number_input slider select_slider multiselect toggle button_group".split()
    found = {element.key: element.value for kind in kinds for element in app.get(kind)}
    return {name: value for name, value in found.items() if name in declared_parameters()}


def steps(app: AppTest) -> int:
    return json.loads(component(app, "live").json)["address"]["steps"]


def hundreds() -> list[str]:
    """Return texts of every sort, the same each time."""
    rng = random.Random(0)
    signs = string.printable + "àéß漢字مر😀\u202e\u200d\ud83d\udc00\x00\u0301²٣"
    drawn = ["".join(rng.choices(signs, k=rng.randrange(1, 40))) for _ in range(200)]
    ends = ("", ".0", ".5", "e9", "e400")
    return [
        *NASTY,
        *drawn,
        *(f"{sign}{n}{end}" for sign in "+- " for n in (0, 1, 7, 10**12, 10**400) for end in ends),
    ]


@pytest.mark.parametrize("parameter", PARAMETERS, ids=lambda one: one.name)
def test_a_value_from_the_url_is_one_of_its_type_or_the_default(parameter: Parameter) -> None:
    for text in hundreds():
        value = parameter.from_url([text])
        if value == parameter.default:
            continue
        if isinstance(parameter, Whole | Number):
            assert type(value) is (int if isinstance(parameter, Whole) else float)
            assert parameter.low <= value <= parameter.high
        elif isinstance(parameter, Choice):
            assert value in parameter.options or (not parameter.options and isinstance(value, str))
        elif isinstance(parameter, Several):
            assert all(type(number) is int and 0 <= number <= parameter.high for number in value)
        elif isinstance(parameter, Switch):
            assert value is True
        elif isinstance(parameter, Text):
            assert value.encode().decode() == value == replace_surrogates(text)


@pytest.mark.parametrize("parameter", PARAMETERS, ids=lambda one: one.name)
def test_a_repeated_parameter_is_invalid_unless_it_takes_several_values(
    parameter: Parameter,
) -> None:
    assert parameter.from_url(["3", "4"]) == (
        (3, 4) if isinstance(parameter, Several) else parameter.default
    )


@pytest.mark.parametrize("parameter", PARAMETERS, ids=lambda one: one.name)
def test_values_in_the_url_are_read(parameter: Parameter) -> None:
    fitting = [
        "f1.2_a0.1",
        "2:4,3:6",
        '[{"type":"HeadOff","where":{"site":"a","heads":[1]}}]',
        '[{"type":"Patch","where":{"site":"a","heads":[1]},"fields":["We like him.",null]}]',
        "decoder.layers.1.cross_attn:2",
        "1.yes_3.0-2-1",
        "3",
        "17",
        "0.25",
        "true",
        "own-0123456789ab",
        parameter.name,
        *map(str, getattr(parameter, "options", ())),
    ]
    texts = [*fitting, *hundreds()]
    values = [parameter.from_url([text]) for text in texts]
    assert any(value != parameter.default for value in values) or isinstance(parameter, Switch)
    for value in values:
        said_in_url = parameter.in_url(value)
        assert (parameter.from_url(said_in_url) if said_in_url else parameter.default) == value
    assert parameter.in_url(parameter.default) == []


def test_kinds_of_parameters_enforce_their_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Parameter, "_declared", {})
    number, some, mean = (
        Whole("a-number"),
        Several("some-numbers", (1,), max_items=2),
        Switch("a-switch", on="mean"),
    )
    assert [number.from_url([text]) for text in ("0", "9999", "10000", "-1", "3.0", "٣", " 3")] == [
        0,
        9999,
        *[None] * 5,
    ]
    dims = ["7", "2"], ["2", "2"], [""], ["1", "2", "3"], ["x"]
    assert [some.from_url(texts) for texts in dims] == [(2, 7), (2,), (), (1,), (1,)]
    assert [some.from_url([text]) for text in ("9999", "10000")] == [(9999,), (1,)]
    assert some.in_url(()) == [""]
    assert [mean.from_url([text]) for text in ("mean", "true", "false", "Mean")] == [
        True,
        False,
        False,
        False,
    ]
    wide = Number("a-share", 1.0, low=0.05, high=1.0)
    assert [wide.from_url([text]) for text in ("0.05", "0.04", "1.01", "1e-1", ".5", "nan")] == [
        0.05,
        *[1.0] * 5,
    ]
    assert wide.in_url(0.1 + 0.2) == ["0.3"]
    small = Number("a-small-number", 0.5, high=200.0)
    for value in (0.0, 1e-9, 0.00001, 0.25, 30.0, 200.0):
        assert small.from_url(small.in_url(value)) == value
    for one, texts, message in (
        (number, ["x"], "a-number must be a whole number from 0 to 9999"), (number, ["1", "2"], "a-number is one value, not 2"),
        (some, ["x"], "some-numbers must be at most 2 whole numbers from 0 to 9999"),
        (mean, ["x"], "a-switch must be mean or false"),
        (wide, ["x"], "a-share must be a number from 0.05 to 1"),
        (Choice("a-choice", "b", options=("b", "c")), ["x"], "a-choice must be one of b, c"),
        (Text("a-text", pattern="[qk]", form="q or k"), ["x"], "a-text must be q or k"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=f"^{message}$"):
            one.parse(texts)


def test_a_name_belongs_to_one_parameter() -> None:
    with pytest.raises(ValueError, match="'head' is declared twice"):
        Text("head")
    assert declared_parameters()["head"] is FOCUS_HEAD


def test_a_text_of_a_pattern_says_its_form_in_words() -> None:
    texts = [one for one in declared_parameters().values() if isinstance(one, Text)]
    patterned = [one for one in texts if one.why_invalid(["\n"])]
    assert {"lock", "tile", "class"} <= {one.name for one in patterned}
    for one in patterned:
        assert one.form
        assert one.pattern not in one.why_invalid(["\n"])


def test_texts_have_whole_characters() -> None:
    assert replace_surrogates("a\ud83d😀\udc00") == "a\ufffd😀\ufffd"
    for text in hundreds():
        assert replace_surrogates(text).encode().decode() == replace_surrogates(text)
        assert len(replace_surrogates(text)) == len(text)
    assert replace_surrogates("é漢\x00 \u202e") == "é漢\x00 \u202e"


@pytest.mark.slow(except_one_in=5)
@pytest.mark.parametrize(("page", "section"), VIEWS)
@pytest.mark.parametrize(
    (
        "value",
        "first",
        "step",
    ),  # half of the long ones at a time, since Streamlit reads no longer address
    [("", 0, 1), ("inf", 0, 1), *(("9" * 5_000, n, 2) for n in range(2))],
)
def test_a_page_with_only_invalid_parameters_looks_as_for_a_newcomer(
    page: str, section: dict[str, str], value: str, first: int, step: int
) -> None:
    names = list(declared_parameters())[first::step]
    asked = (
        dict.fromkeys(names, value)
        | {"checkpoint": "dates", "source": "3 May 1999", "target": ""}
        | section
    )
    app = open_page(page, **asked)
    assert {**widgets(app), **free(app)} == {**fresh(page, **section), **free(app)}
    refused = [
        name
        for name in widgets(app)
        if name in names
        and name not in section
        and declared_parameters()[name].why_invalid([value])
    ]
    sentence = said(app, "note address")["rows"][0][1] if refused or step == 1 else ""
    assert [name for name in refused if f"{name} must" not in sentence] == []
    assert len(fresh(page, **section)) > 1


def free(app: AppTest) -> dict[str, object]:
    """Return the parameters that accept any text."""
    return {
        name: value
        for name, value in widgets(app).items()
        if name in ("masks-second", "positions-dims")
    }


@functools.cache
def fresh(page: str, **section: str) -> dict[str, object]:
    """The widgets of a newcomer's page."""
    app = open_page(page, **section)
    return widgets(app)


NAMED = [
    ("positions", "positions-section", ""), ("positions", "positions-order", ""), ("from-rnn", "from-rnn-section", ""),
    ("positions", "positions-seed", "inf"), ("decoding", "decoding-how", ""), ("masks", "masks-shown", ""),
    ("positions", "positions-section", ["Map", "Curves"]),
]  # fmt: skip
REACH = {"from-rnn-section": "What reaches what"}
BEHIND = [
    ("from-rnn", "from-rnn-width", "", REACH),
    ("from-rnn", "from-rnn-depth", "", REACH),
    ("from-rnn", "from-rnn-scale", "", REACH),
    ("from-rnn", "from-rnn-seed", "inf", REACH),
    ("positions", "positions-table", "", {"positions-section": "Curves"}),
    ("from-rnn", "from-rnn-layer", "", {"from-rnn-section": "Two alignments"}),
    ("decoding", "decoding-seed", "inf", {"decoding-how": "sampling"}),
    ("decoding", "decoding-top-k", "-inf", {"decoding-how": "sampling"}),
    ("decoding", "decoding-temperature", "nan", {"decoding-how": "sampling"}),
    ("decoding", "decoding-width", "inf", {"decoding-how": "beam"}),
]


@pytest.mark.slow(except_one_in=3)
@pytest.mark.parametrize(
    ("page", "name", "value", "section"), [(*named, {}) for named in NAMED] + BEHIND
)
def test_a_value_that_a_widget_cannot_read_gives_the_default_and_leaves_the_url(
    page: str, name: str, value: str | list[str], section: dict[str, str]
) -> None:
    app = open_page(page, **{name: value}, **section)
    assert name not in address_of(app)
    assert widgets(app)[name] == fresh(page, **section)[name]


def test_a_value_that_a_widget_can_read_is_read() -> None:
    app = open_page(
        "positions",
        **{"positions-section": "Curves", "positions-length": "7", "positions-dims": ["2", "5"]},
    )
    assert widgets(app)["positions-length"] == 7
    assert widgets(app)["positions-dims"] == [2, 5]
    app = open_page(
        "decoding",
        **{"decoding-how": "sampling", "decoding-seed": "12", "decoding-temperature": "0.5"},
    )
    assert (widgets(app)["decoding-seed"], widgets(app)["decoding-temperature"]) == (12, 0.5)


def test_a_widget_that_appears_later_ignores_invalid_values_too() -> None:
    app = open_page(
        "decoding", **{"decoding-seed": "inf", "decoding-width": "", "decoding-alpha": "1e400"}
    )
    for how in ("sampling", "beam"):
        app.button_group(key="decoding-how").set_value(how).run()
        assert not app.exception
    assert (widgets(app)["decoding-width"], widgets(app)["decoding-alpha"]) == (4, 0.6)


@pytest.mark.parametrize(
    "value", ["~nosuchuser", "\x00", "a" * 300, "a/" * 3_000, "\x00/dates", ""]
)
def test_an_impossible_name_of_a_checkpoint_is_reported(value: str) -> None:
    app = open_page("", checkpoint=value)
    assert picker(app)["value"] == "eng-fra"
    assert picture(app, "head")[1]["weights"].any()
    if value:
        assert "No model called" in said(app, "note address")["rows"][0][1]
        pick_model(app, "dates")
        assert address_of(app)["checkpoint"] == ["dates"]
        assert "-note address" not in str(app.get("bidi_component"))


@pytest.mark.slow(except_one_in=3)
@pytest.mark.parametrize(("page", "asked", "why"), [
    ("", {"site": "decoder.layers.9.self_attn"}, "site must be an attention of this model, not decoder.layers.9.self_attn"),
    ("", {"site": "decoder.layers.0.self_attn", "head": "99"}, "head must be below 4 here"),
    ("", {"site": "decoder.layers.0.self_attn", "lock": "k99"}, "lock names a token beyond the last one"),
    ("", {"lock": "x3"}, "lock must be like q3 (query) or k0 (key)"),
    ("", {"growth": "true", "growth-step": "3"}, "growth-step must be one of 0,"),
    ("inside", {"inside-view": "dance"}, "inside-view must be one of walk,"),
    ("decoding", {"step": "many"}, "step must be a whole number from 1 to 99999"),
    ("decoding", {"force": "x"}, "force could not be read"),
    ("masks", {"decoder-mask": "painted"}, "decoder-mask could not be read"),
    ("", {"edits": r'[{"type":"HeadOff","where":{"site":"\ud800"}}]'}, "edits could not be read"),
    ("", {"edits": '[{"type":"HeadOff","where":{"site":"no.such"}}]'}, "edits names a part that cannot be edited here"),
    ("masks", {"decoder-mask": "no:stride"}, "decoder-mask removes a layer that this mask lacks"),
    ("", {"edits": '[{"type":"HeadScale","factor":1%s}]' % ("0" * 400)}, "edits could not be read"),
])  # fmt: skip
def test_invalid_parameters_are_mentioned_until_something_is_chosen(
    page: str, asked: dict, why: str
) -> None:
    app = open_page(page, **asked)
    said_of = said(app, "note address")
    assert said_of["look"] == "note bad"
    assert said_of["rows"][0][1].startswith(f"Part of this link could not be restored: {why}")
    app.text_area(key="source").set_value("4 May 1999").run()
    assert why in said(app, "note address")["rows"][0][1]
    pick_model(app, "dates-stacked")
    assert not app.exception


def test_a_mask_change_among_the_edits_is_reported() -> None:
    edits = [HeadOff(Where(kind="cross")), MaskChange(Where(kind="decoder_self"), preset="none")]
    app = open_page("", edits=to_text(edits))
    assert app.session_state["live session"].shown.spec.edits == (edits[0],)
    assert (
        "no mask changes, which have parameters such as cross-mask"
        in said(app, "note address")["rows"][0][1]
    )


def test_a_text_too_long_for_a_link_that_opens_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    app = open_page("")
    assert "note long-address" not in str(app.get("bidi_component"))
    monkeypatch.setattr(bounds, "MAX_ADDRESS", 79)
    app.text_area(key="source").set_value("11 November 1999").run()
    told = said(app, "note long-address")
    assert told["look"] == "note bad"
    assert "80 characters" in told["rows"][0][1]


@pytest.mark.parametrize(
    ("force", "part"), [("0:5,2:14", "0:5"), ("2:14,3:x", "3:x"), ("2:14,3:" + "9" * 90, "3:999")]
)
def test_forced_tokens_that_are_left_out_are_named(force: str, part: str) -> None:
    app = open_page("decoding", force=force)
    assert app.session_state["live session"].shown.spec.forced == ((1, 14),)
    told = said(app, "note address")["rows"][0][1]
    assert f"force must be position:token parts, positions from 1, not {part}" in told
    assert len(told) < 250
    many = said(open_page("decoding", force=",".join(["2:14"] * 201)), "note address")
    assert "force must have at most 200 parts" in many["rows"][0][1]
    whole = open_page("decoding", force="2:14,")
    assert not [p for p in whole.get("bidi_component") if p.proto.id.endswith("-note address")]


def test_for_too_many_forced_tokens_the_limit_is_named() -> None:
    app = open_page("decoding", force=",".join(["2:14"] * (MAX_PAIRS + 1)))
    told = said(app, "note address")["rows"][0][1]
    assert f"force must have at most {MAX_PAIRS} parts" in told


def test_a_valid_address_is_not_mentioned() -> None:
    app = open_page(
        "",
        site="decoder.layers.0.self_attn",
        head="1",
        lock="k2",
        growth="true",
        **{"growth-step": "0"},
    )
    assert not [
        part for part in app.get("bidi_component") if part.proto.id.endswith("-note address")
    ]
    pick_model(app, "dates-bahdanau")  # which has no such site, but no link asked for it
    assert not [
        part for part in app.get("bidi_component") if part.proto.id.endswith("-note address")
    ]


# --- from one session to another


CHOSEN = [
    ("", {"growth": "true", "growth-step": "0", "site": "decoder.layers.0.self_attn", "head": "1", "lock": "q2"}),
    ("inside", {"inside-view": "matrices", "inside-convention": "columns", "inside-key": "3", "similarity": "dot"}),
    ("masks", {"masks-second": "", "decoder-mask": "f5.0-4_a0.2", "mask": "decoder_self", "site": "encoder.layers.0.self_attn"}),
    ("decoding", {"decoding-how": "sampling", "decoding-temperature": "0.5", "step": "3", "force": "2:12", "heads": "mean"}),
    ("positions", {"positions-section": "Curves", "positions-d_model": "16", "positions-dims": ["2", "5"]}),
    ("from-rnn", {"from-rnn-section": "What reaches what", "from-rnn-width": "5", "from-rnn-scale": "own"}),
]  # fmt: skip


@pytest.mark.slow(except_one_in=3)
@pytest.mark.parametrize(("page", "asked"), CHOSEN, ids=[page for page, _ in CHOSEN])
def test_choices_are_in_the_url_and_show_the_same_again(
    page: str, asked: dict[str, str | list[str]]
) -> None:
    app = open_page(page, **asked)
    own = {name: declared_parameters()[name].default for name in asked}
    written = address_of(app)
    for name, value in asked.items():
        if str(own[name]) != value:
            assert written[name] == ([value] if isinstance(value, str) else value)
    again = open_page(page, **written)
    assert address_of(again) == written
    assert widgets(again) == widgets(app)


def test_the_choices_of_a_page_outlive_a_visit_to_another() -> None:
    app = open_page("positions", **{"positions-section": "Curves"})
    app.slider(key="positions-length").set_value(8).run()
    app._page_hash = calc_hash("decoding")
    app.run()
    assert not {"positions-section", "positions-length"} & address_of(app).keys()
    app._page_hash = calc_hash("positions")
    app.run()
    assert address_of(app)["positions-length"] == ["8"]
    assert widgets(app)["positions-length"] == 8


# --- Back


@pytest.mark.slow
def test_a_deliberate_step_is_counted_once_and_typing_and_sliding_are_none() -> None:
    app = open_page("")
    assert steps(app) == 0
    app.text_area(key="source").set_value("4 May 1999").run()
    assert steps(app) == 0
    pick_model(app, "dates-bahdanau")  # it brings another site, and another text
    assert steps(app) == 1
    pick_model(app, "dates")
    assert steps(app) == 2
    app._page_hash = calc_hash("positions")  # Streamlit makes an entry of this by itself
    app.run()
    assert steps(app) == 2
    app.button_group(key="positions-section").set_value("Curves").run()
    assert steps(app) == 3
    app.slider(key="positions-length").set_value(8).run()
    app.multiselect(key="positions-dims").set_value([1, 2]).run()
    app.run()
    assert steps(app) == 3


def test_a_correction_in_a_preview_is_undone_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streamlit, "session_state", {})
    url_state.begin_page("attention")
    url_state.set_value(FOCUS_HEAD, 3)
    url_state.publish()
    before = url_state._session().last_published
    assert before[1][FOCUS_HEAD.name] == ["3"]
    with url_state.preview_choices():
        url_state.correct_value(FOCUS_HEAD, 1)
        assert FOCUS_HEAD.name not in url_state._session().last_published[1]
    assert url_state._session().last_published[1][FOCUS_HEAD.name] == ["3"]
    assert url_state.get(FOCUS_HEAD) == 3


def test_back_is_followed_and_is_no_step(monkeypatch: pytest.MonkeyPatch) -> None:
    app = open_page("", site="decoder.layers.0.self_attn", head="1")
    pick_model(app, "dates-stacked")
    app.text_area(key="target").set_value("1999").run()
    count = steps(app)
    monkeypatch.setattr(url_state, "_is_history_navigation", lambda: True)
    app.query_params.clear()
    app.query_params.update(
        {
            "checkpoint": "dates",
            "source": "3 May 1999",
            "site": "decoder.layers.1.cross_attn",
            "head": "2",
        }
    )
    app.run()
    assert not app.exception
    written = address_of(app)
    assert (written["site"], written["head"], written["source"]) == (
        ["decoder.layers.1.cross_attn"],
        ["2"],
        ["3 May 1999"],
    )
    assert "target" not in written
    assert app.text_area(key="target").value == ""
    assert steps(app) == count


def test_a_rerun_with_an_older_url_does_not_go_back_to_it() -> None:
    app = open_page("", site="decoder.layers.0.self_attn", head="1")
    for source in ("4 May 1999", "5 May 1999"):
        # as sent by a browser that asked before it got the new one
        app.query_params["source"] = "3 May 1999"
        app.text_area(key="source").set_value(source).run()
        assert address_of(app)["source"] == [source]
