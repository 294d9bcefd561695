"""Pictures for a notebook: a page carries what the app would send, its numbers are the run's, and no text of a user or a
model is in it as HTML."""

import base64
import gzip
import os
import re
import subprocess
import sys
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from drawn import letters
from small_scopes import scope_of
from test_own_image import watched

import models
import viz_app
from models.analysis.joined_words import join_words
from models.sounds import SoundRow
from models.trace import Trace
from models.trace.edits import Edit, HeadOff, MaskChange, Where, for_kinds
from viz_app import notebook, words
from viz_app.components import stamp_payload
from viz_app.drawing import overview
from viz_app.drawing.head import head_payload
from viz_app.drawing.payload import pack, unpack
from viz_app.notebook import compare, head, heads, lines, mask
from viz_app.notebook.picture import Answer, Picture

TEXT, TARGET = "abcdeab", "edcb"
DRAWN = re.compile(r'<script type="application/json" id="drawn">"([A-Za-z0-9+/=]+)"</script>')


@pytest.fixture(scope="module")
def run() -> Trace:
    """A run of an encoder-decoder: 1 encoder layer, 2 decoder layers, 3 heads."""
    return letters().run(TEXT, TARGET)


def carried(picture: Picture) -> dict[str, Any]:
    """Return the data in a picture's page: the header, with payloads in place of their names."""
    (packed,) = DRAWN.findall(picture.html)
    header, arrays = unpack(gzip.decompress(base64.b64decode(packed)))
    for part in (*header["parts"], *header["answers"]):
        part["payload"] = arrays[part["payload"]].tobytes() if part["payload"] else b""
    return header


def shown(picture: Picture, part: int = 0) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return the payload that a part shows at first."""
    return unpack(carried(picture)["parts"][part]["payload"])


def answers(picture: Picture, event: str) -> list[dict[str, Any]]:
    return [answer for answer in carried(picture)["answers"] if answer["event"] == event]


def test_the_readmes_example_draws_without_streamlit(tmp_path: Path) -> None:
    root = Path(viz_app.__file__).parents[1]
    opened, drawn = re.findall(
        r"```python\n(.*?)```", (root / "README.md").read_text("utf-8"), re.DOTALL
    )[:2]
    assert "from viz_app.notebook import" in drawn
    script = (
        f"{opened}\n{drawn}\n"
        "from viz_app.notebook import compare\n"
        "pictures = heads(trace), lines(trace, [(1, 2), (3, 4)]), mask(trace), compare(trace, trace)\n"
        "pages = [picture._repr_html_() for picture in pictures]\n"
        "assert all(len(page) > 10_000 for page in pages)\n"
        "import sys\n"
        "print([name for name in sys.modules if name.partition('.')[0] in ('streamlit', 'starlette', 'plotly', 'altair')])"
    )
    paths = os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=250, check=False, cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert (done.stdout.strip(), done.returncode) == ("[]", 0), done.stderr
    (packed,) = DRAWN.findall((tmp_path / "head.html").read_text("utf-8"))
    header, _ = unpack(gzip.decompress(base64.b64decode(packed)))
    assert header["title"].startswith("Decoder layer 2, head 3: ")


@pytest.mark.parametrize(("layer", "number"), [(1, 1), (1, 3), (2, 2)])
def test_a_head_has_the_apps_payload_and_counts_from_1(run: Trace, layer: int, number: int) -> None:
    picture = head(run, layer, number, kind="decoder_self")
    site = run.attention[f"decoder.layers.{layer - 1}.self_attn"]
    header, arrays = shown(picture)
    np.testing.assert_array_equal(arrays["weights"], site.weights(number - 1).numpy())
    expected = head_payload(run, site, number - 1, words.terms("letters"))
    assert carried(picture)["parts"][0]["payload"] == stamp_payload(expected, "head", (0, 0))
    assert (header["site"], header["head"]) == (site.name, number - 1)
    assert header["title"] == picture.title
    assert f"layer {layer}, head {number}:" in picture.title


def test_the_title_of_masks_names_the_head_under_them(run: Trace) -> None:
    assert mask(run).title.endswith(", over decoder layer 1, head 1")
    picture = mask(run, layer=2, head=3, kind="decoder_self")
    assert picture.title.endswith(", over decoder layer 2, head 3")


def test_the_cross_attention_is_the_default_kind(run: Trace) -> None:
    assert shown(head(run, 2, 1))[0]["site"] == "decoder.layers.1.cross_attn"
    assert shown(lines(run))[0]["kind"] == shown(mask(run))[0]["kind"] == "cross"
    assert shown(heads(run))[0]["chosen"]["site"].endswith("cross_attn")
    assert (
        shown(heads(run, kind="encoder_self"))[0]["chosen"]["site"] == "encoder.layers.0.self_attn"
    )
    text = letters("gpt").run(TEXT)
    assert shown(head(text))[0]["site"] == next(iter(text.attention))
    aligned = letters("recurrent").run(TEXT, TARGET)
    np.testing.assert_array_equal(
        shown(head(aligned))[1]["weights"],
        next(iter(aligned.attention.values())).weights(0).numpy(),
    )


def test_options_set_how_a_head_is_drawn(run: Trace) -> None:
    header, _ = shown(head(run, strength="root", hide_sinks=True, lock="q3"))
    assert (header["scale"], header["hides"], header["lock"]) == ("root", True, "q3")
    header, _ = shown(head(run))
    assert (header["scale"], header["hides"], header["lock"]) == ("weight", False, "")


def test_the_picture_of_all_heads_carries_every_head_for_a_click(run: Trace) -> None:
    picture = heads(run)
    page = carried(picture)
    assert [part["name"] for part in page["parts"]] == ["overview", "head"]
    header, arrays = shown(picture)
    codes = np.concatenate([codes.ravel() for _, codes, _ in overview.all_codes(run)])
    np.testing.assert_array_equal(arrays["codes"], codes)
    chosen, arrays = shown(picture, 1)
    assert {"site": chosen["site"], "head": chosen["head"]} == header["chosen"]
    expected = {
        (name, n): site.weights(n).numpy()
        for name, site in run.attention.items()
        for n in range(site.n_heads)
    }
    found = {(a["values"]["site"], a["values"]["head"]): a for a in page["answers"]}
    assert found.keys() == expected.keys()
    for place, weights in expected.items():
        assert (
            found[place]["event"],
            found[place]["part"],
            found[place]["shows"],
            found[place]["code"],
        ) == ("pick", 0, 1, "")
        np.testing.assert_array_equal(unpack(found[place]["payload"])[1]["weights"], weights)


def test_pictures_of_words(run: Trace) -> None:
    of_words = models.load("gpt", device="cpu").run("The unbelievably hungry doggy was there")
    shown_as = join_words(of_words)
    site = list(shown_as.attention.values())[1]
    header, arrays = shown(head(of_words, 2, 3, words=True))
    np.testing.assert_array_equal(arrays["weights"], site.weights(2).numpy())
    assert [text for text, *_ in header["keys"]] == [
        "[start]",
        "The",
        "·unbelievably",
        "·hungry",
        "·doggy",
        "·was",
        "·there",
    ]
    picture = heads(of_words, words=True)
    header, arrays = shown(picture)
    np.testing.assert_array_equal(
        arrays["codes"],
        np.concatenate([codes.ravel() for _, codes, _ in overview.all_codes(shown_as)]),
    )
    assert (header["joined"], header["switches"]) == (True, False)
    assert "sub-words merged into words" in picture.about
    drawn = lines(of_words, [(2, 3)], words=True)
    header, arrays = shown(drawn)
    np.testing.assert_array_equal(arrays["weights"][0], site.weights(2).numpy())
    assert len(header["keys"]) == 7
    last = answers(drawn, "news")[-2]["code"]
    assert last.endswith(", words=True)")
    assert len(shown(eval(last, {"lines": lines, "run": of_words}))[0]["keys"]) == 7
    with pytest.raises(
        ValueError, match="^letters: its tokenizer does not say which tokens belong to one word$"
    ):
        heads(run, words=True)


def test_if_there_are_too_many_weights_the_call_for_them_is_named(
    run: Trace, monkeypatch: pytest.MonkeyPatch
) -> None:
    n = sum(site.weights().numel() for site in run.attention.values())
    monkeypatch.setattr(notebook, "MAX_EMBEDDED", n)
    assert len(carried(heads(run))["parts"]) == 2
    monkeypatch.setattr(notebook, "MAX_EMBEDDED", n - 1)
    picture = heads(run)
    assert [part["name"] for part in carried(picture)["parts"]] == ["overview"]
    for answer in answers(picture, "pick"):
        header, _ = shown(eval(answer["code"], {"head": head, "run": run}))
        assert {"site": header["site"], "head": header["head"]} == answer["values"]
        assert answer["payload"] == b""
        assert answer["says"]


def test_a_picture_of_12_by_12_heads_at_128_tokens_is_under_a_megabyte() -> None:
    scope = letters("gpt", n_layers=12, n_heads=12, d_model=24, n_ctx=128)
    text = "".join("abcde"[j * j % 5] for j in range(128))
    trace = scope.run(text[: 128 - (len(scope.encode(text[:100])["text"].ids) - 100)])
    assert next(iter(trace.attention.values())).n_key == 128
    picture = heads(trace)
    assert len(answers(picture, "pick")) == 144
    header, arrays = shown(picture)
    del header["arrays"]
    noise = np.random.default_rng(1).integers(
        0, 256, arrays["codes"].shape, np.uint8
    )  # nothing can be less compressible
    worst = replace(picture, parts=[replace(picture.parts[0], payload=pack(header, codes=noise))])
    assert 144 * 64 * 64 == noise.size < len(worst._repr_html_()) < 1_000_000


# --- long texts


@pytest.fixture(scope="module")
def long() -> Trace:
    return letters("gpt", n_ctx=700).run("abcde" * 120)


def test_a_long_text_is_shown_in_blocks_and_says_how_its_parts_are_drawn(long: Trace) -> None:
    picture, site = head(long, 2, 3), list(long.attention.values())[1]
    header, arrays = shown(picture)
    k, weights = header["block"], site.weights(2).numpy()
    assert k == 3
    assert arrays["weights"][5, 2] == weights[15:18, 6:9].max()
    open_, hidden = (unpack(answer["payload"]) for answer in answers(picture, "look"))
    assert [answer["values"] for answer in answers(picture, "look")] == [
        {"hides": False},
        {"hides": True},
    ]
    assert (open_[0]["hides"], hidden[0]["hides"]) == (False, True)
    (sink,) = open_[0]["sinks"]
    assert sink == 0
    assert hidden[1]["weights"][5, 0] == weights[15:18, 1:3].max()
    near, whole = answers(picture, "tile")
    part = eval(near["code"].format(query=100, key=90), {"head": head, "run": long})
    header, arrays = shown(part)
    assert header["first"] == [68, 58]
    np.testing.assert_array_equal(arrays["weights"], weights[68:132, 58:122])
    assert shown(eval(whole["code"], {"head": head, "run": long}))[0] == shown(picture)[0]


def test_pictures_without_blocks_refuse_a_long_text(long: Trace) -> None:
    n = next(iter(long.attention.values())).n_query
    with pytest.raises(
        ValueError,
        match=rf"^lines: at most 512 tokens, not {n}; head\(run\) shows a long text in blocks$",
    ):
        lines(long)
    with pytest.raises(ValueError, match=rf"^masks: at most 512 tokens, not {n}; "):
        mask(long)
    with pytest.raises(
        ValueError, match=rf"^around must be a query below {n} and a key below {n}, not \({n}, 0\)$"
    ):
        head(long, around=(n, 0))


# --- lines of several heads


def test_lines_of_named_heads(run: Trace) -> None:
    header, arrays = shown(lines(run, [(2, 3), (1, 2)], kind="decoder_self"))
    assert header["chosen"] == [1, 5]
    for n, (layer, number) in enumerate([(0, 1), (1, 2)]):
        site = run.attention[f"decoder.layers.{layer}.self_attn"]
        np.testing.assert_array_equal(arrays["weights"][n], site.weights(number).numpy())
    assert shown(lines(run, []))[0]["chosen"] == []
    assert len(shown(lines(run))[0]["chosen"]) == 3


def test_a_heading_sorts_a_click_pins_and_a_tick_names_its_call(run: Trace) -> None:
    picture = lines(run, [(1, 2)], kind="decoder_self")
    orders = {
        a["values"]["measure"]: a["fields"]
        for a in answers(picture, "news")
        if "measure" in a["values"]
    }
    for measure, fields in orders.items():
        again = shown(lines(run, [(1, 2)], kind="decoder_self", measure=measure))[0]
        assert fields == {"measure": again["measure"], "order": again["order"]}
    assert len({tuple(fields["order"]) for fields in orders.values()}) > 1
    calls = {
        a["values"]["head"]: a["code"] for a in answers(picture, "news") if "head" in a["values"]
    }
    chosen = {
        n: shown(eval(code, {"lines": lines, "run": run}))[0]["chosen"] for n, code in calls.items()
    }
    assert chosen == {0: [0, 1], 1: [], **{n: [1, n] for n in range(2, 6)}}
    last = answers(picture, "news")[-1]
    assert (last["values"], last["takes"], last["code"]) == ({}, ["query"], "")


# --- masks

FORBIDDEN = for_kinds(cross=MaskChange(block=((2, 3), (4, 1))))


def test_masks_before_and_after_a_change() -> None:
    scope = letters()
    before, after = scope.run(TEXT, TARGET), scope.run(TEXT, TARGET, edits=FORBIDDEN)
    header, arrays = shown(mask(after, before, layer=2, head=3))
    site = "decoder.layers.1.cross_attn"
    assert (header["fixed"], header["painted"], header["effect"]["site"]) == (
        True,
        [[2, 3, 0], [4, 1, 0]],
        site,
    )
    np.testing.assert_array_equal(arrays["before"], before.attention[site].weights(2).numpy())
    np.testing.assert_array_equal(arrays["after"], after.attention[site].weights(2).numpy())
    assert arrays["after"][2, 3] == arrays["after"][4, 1] == 0
    logits, labels = after.next_token.logits, list(after.next_token.labels)
    expected = logits.log_softmax(-1).gather(1, torch.tensor(labels)[:, None])[:, 0]
    np.testing.assert_allclose(arrays["logAfter"], expected.numpy(), rtol=1e-6)
    assert header["story"][0].startswith("Changed. Cross: 2 cells forbidden")
    assert not any("writes" in line for line in header["story"])


def test_every_kind_of_mask_is_carried(run: Trace) -> None:
    picture = mask(run, layer=2, head=3)
    kinds = {a["values"]["kind"]: unpack(a["payload"])[0] for a in answers(picture, "kind")}
    assert {kind: header["kind"] for kind, header in kinds.items()} == {
        k: k for k in ("encoder_self", "decoder_self", "cross")
    }
    sites = {kind: header["effect"]["site"] for kind, header in kinds.items()}
    assert sites == {
        "encoder_self": "encoder.layers.0.self_attn", "decoder_self": "decoder.layers.1.self_attn",
        "cross": "decoder.layers.1.cross_attn",
    }  # fmt: skip
    assert {header["effect"]["head"] for header in kinds.values()} == {2}


def test_a_model_that_does_not_generate_has_masks_too() -> None:
    alone = letters("attention only").run(TEXT, TARGET)
    assert shown(mask(alone))[0]["fixed"] is True


def test_runs_that_cannot_be_compared(run: Trace) -> None:
    scope = letters()
    changed = scope.run(TEXT, TARGET, edits=FORBIDDEN)
    with pytest.raises(
        ValueError,
        match="^the masks of this run were changed: before= must be the same run without changes$",
    ):
        mask(changed)
    with pytest.raises(
        ValueError,
        match="^before= must be a run without changes, and this one has some$",
    ):
        mask(changed, changed)
    for other in (
        scope.run(TEXT, TARGET[:2]),
        replace(run, model=replace(run.model, fingerprint="another")),
    ):
        with pytest.raises(
            ValueError, match="^before= must be a run of the same model on the same input$"
        ):
            mask(changed, other)


@pytest.mark.parametrize(
    "edits",
    [
        [MaskChange(Where("decoder.layers.1.cross_attn"), block=((2, 3),))],
        [MaskChange(Where(kind="cross"), head=1, block=((2, 3),))],
        [MaskChange(block=((2, 3),))],
        [*FORBIDDEN, MaskChange(Where(kind="cross"), block=((1, 3),))],
        [*FORBIDDEN, HeadOff(Where("decoder.layers.1.cross_attn"), head=1)],
    ],
)
def test_a_change_that_the_picture_would_not_show_is_refused(run: Trace, edits: list[Edit]) -> None:
    changed = letters().run(TEXT, TARGET, edits=edits)
    said = re.escape(str(edits[-1]))
    with pytest.raises(ValueError, match=rf"^{said}: a mask is drawn with one MaskChange for a "):
        mask(changed, run)
    assert compare(run, changed)


def test_another_order_of_prediction_is_not_the_same_run_before_a_change() -> None:
    scope, edits = scope_of("xlnet"), for_kinds(query=MaskChange(block=((0, 1),)))
    forwards = list(range(len(scope.run("ab ba cd").streams["text"].ids)))
    backwards = forwards[::-1]
    assert len(forwards) > 1
    changed = scope.run("ab ba cd", order=backwards, edits=edits)
    assert mask(changed, before=scope.run("ab ba cd", order=backwards))
    for before in (scope.run("ab ba cd"), scope.run("ab ba cd", order=forwards)):
        with pytest.raises(ValueError, match="a run of the same model on the same input"):
            mask(changed, before=before)
    assert mask(scope.run("ab ba cd", order=forwards, edits=edits), before=scope.run("ab ba cd"))


def test_another_image_or_sound_is_not_the_same_run_before_a_change(run: Trace) -> None:
    """The ids of patches and of frames are only their positions."""
    scope, edit = watched(), for_kinds(self=MaskChange(block=((0, 1),)))
    one, other = (scope.run(models.images.example(name)) for name in models.images.EXAMPLES[:2])
    after = scope.run(models.images.example(), edits=edit)
    assert mask(after, before=one)
    blank = torch.zeros(2, 8)
    sounds = (
        replace(run, streams={"sound": SoundRow.of("x", 4, blank, blank, digest, 0.02, 0.08)})
        for digest in ("one", "other")
    )
    for changed, before in ((after, other), sounds):
        with pytest.raises(ValueError, match="a run of the same model on the same input"):
            mask(changed, before=before)


# --- missing parts


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"layer": 3}, "layer must be 1 or 2 of 'cross', not 3"),
        ({"layer": 0}, "layer must be 1 or 2 of 'cross', not 0"),
        ({"layer": 2, "kind": "encoder_self"}, "layer must be 1 of 'encoder_self', not 2"),
        ({"head": 4}, "head must be 1 to 3, not 4"),
        ({"head": 0}, "head must be 1 to 3, not 0"),
        ({"kind": "self"}, "kind must be 'encoder_self', 'decoder_self' or 'cross', not 'self'"),
        ({"strength": "log"}, "strength must be 'weight', 'row' or 'root', not 'log'"),
        (
            {"theme": "pink"},
            'theme must be "light", "dark" or "" for that of the page around, not \'pink\'',
        ),
        *(
            (
                {"lock": lock},
                f'lock must be "q" and a query below 5, or "k" and a key below 8, not {lock!r}',
            )
            for lock in ("q5", "k8", "3", "q")
        ),
        ({"around": (0, -1)}, "around must be a query below 5 and a key below 8, not (0, -1)"),
    ],
)
def test_a_missing_part_is_named_with_the_available_ones(
    run: Trace, asked: dict, sentence: str
) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        head(run, **asked)


class TwoAttentions(torch.nn.Module):
    """A layer with two attentions of one kind."""

    def __init__(self) -> None:
        super().__init__()
        self.near = torch.nn.MultiheadAttention(14, 2, batch_first=True)
        self.far = torch.nn.MultiheadAttention(14, 2, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.near(x, x, x, need_weights=False)[0]
        return x + self.far(x, x, x, need_weights=False)[0]


class TwoLayers(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(128, 14)
        self.layers = torch.nn.ModuleList(TwoAttentions() for _ in range(2))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embedding(ids)
        for layer in self.layers:
            x = layer(x)
        return x


def test_each_of_two_attentions_of_a_layer_is_drawn_by_its_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scope = models.watch(TwoLayers().eval(), encode=lambda text: list(text.encode()))
    run = scope.run("abcde")
    for draw in (
        head,
        mask,
        lambda run: lines(run, [(1, 1)]),
        lambda run: compare(run, run, layer=1),
    ):
        with pytest.raises(ValueError, match="must be 'layers.0.near' or 'layers.0.far' of 'self'"):
            draw(run)
    monkeypatch.setattr(notebook, "MAX_EMBEDDED", 10)
    monkeypatch.setattr("viz_app.notebook.comparison.MAX_EMBEDDED_EACH", 10)
    named = {"head": head, "compare": compare, "run": run, "run_a": run, "run_b": run}
    for picture, part in ((heads(run), 0), (compare(run, run), 1)):
        places = answers(picture, "pick")
        assert len(places) == 2 * 2 * 2
        for answer in places:
            drawn = shown(eval(answer["code"], named), part)[0]
            assert answer["values"] == {name: drawn[name] for name in ("site", "head")}
    chosen = shown(lines(run, [("layers.1.near", 2), ("layers.1.far", 1)]))[0]["chosen"]
    painted = {mask(run, layer=site, head=2).parts[0].payload for site in run.attention}
    assert (len(chosen), len(painted)) == (2, 4)


def test_lines_of_missing_heads(run: Trace) -> None:
    with pytest.raises(ValueError, match="^head must be 1 to 3, not 4$"):
        lines(run, [(1, 1), (1, 4)])
    with pytest.raises(ValueError, match="^lines of at most 4 heads can be told apart, not of 5$"):
        lines(run, [(1, 1), (1, 2), (1, 3), (2, 1), (2, 2)])
    with pytest.raises(ValueError, match="^measure must be 'entropy', .* or '.*', not 'beauty'$"):
        lines(run, measure="beauty")


def test_a_model_without_attention_has_no_heads() -> None:
    none = letters("recurrent", attention="none").run(TEXT, TARGET)
    for draw in (heads, head, lines, mask):
        with pytest.raises(
            ValueError, match="^letters has no attention: there are no heads to draw$"
        ):
            draw(none)


# --- the page


HOSTILE = "</script><img src=x onerror=alert(1)>\"'&{{7*7}}${css}"


def test_no_foreign_text_is_in_the_page_as_html(run: Trace) -> None:
    hostile = replace(
        run, model=replace(run.model, name=HOSTILE), fields={"source": HOSTILE, "target": "x"}
    )
    for draw in (heads, head, lines, mask):
        picture = draw(hostile)
        assert "onerror" not in picture.html
        assert "onerror" not in unescape(picture._repr_html_())
        assert HOSTILE in carried(picture)["about"]


def test_a_page_requests_nothing_outside_itself(run: Trace) -> None:
    html = heads(run).html
    assert not re.search(
        r"""(?:src|href)\s*=|@import|url\(|\bfetch\(|\bimport\b""", html.replace("srcdoc=", "")
    )
    assert set(re.findall(r"https?://[^\s\"'`]+", html)) == set()


def test_in_a_notebook_the_page_is_in_its_own_frame(run: Trace) -> None:
    picture = head(run)
    elements: list[tuple[str, dict[str, str | None]]] = []
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, attributes: elements.append((tag, dict(attributes)))
    parser.feed(picture._repr_html_())
    ((tag, attributes),) = elements
    assert (tag, attributes["srcdoc"], attributes["height"]) == ("iframe", picture.html, "620")
    assert repr(picture) == f"<{picture.title}>"


def test_the_page_names_the_run_of_its_numbers(run: Trace) -> None:
    page = carried(head(run, theme="dark"))
    assert page["about"].startswith(f"model: letters; fingerprint: {run.model.fingerprint[:12]}; ")
    assert f"source: {TEXT}; target: {TARGET}" in page["about"]
    assert page["theme"] == "dark"


def test_a_saved_page_is_whole_or_missing(
    run: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, picture = tmp_path / "a head.html", head(run)
    picture.save(path)
    assert path.read_text("utf-8") == picture.html
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError("no space left")))
    with pytest.raises(OSError, match="no space left"):
        heads(run).save(str(path))
    assert path.read_text("utf-8") == picture.html
    assert list(tmp_path.iterdir()) == [path]


def test_equal_payloads_are_carried_once() -> None:
    scope = letters()
    trace = scope.run(TEXT, TARGET)
    picture = heads(trace)
    twice = replace(picture, answers=[*picture.answers, *picture.answers])
    assert len(twice.html) < 1.2 * len(picture.html)
    assert Answer("pick") == Answer("pick", {}, 0, 0, b"", {}, (), "", "")


def test_the_page_has_the_apps_colours() -> None:
    from toml_files import tomllib

    folder = Path(viz_app.__file__).parent
    themes = tomllib.loads((folder / ".streamlit" / "config.toml").read_text("utf-8"))["theme"]
    light, dark = (folder / "notebook" / "colours.css").read_text("utf-8").split("}")[:2]
    for css, name in ((light, "light"), (dark, "dark")):
        found = dict(re.findall(r"--st-([a-z-]+-color): (#\w{6});", css))
        expected = {
            re.sub("[A-Z]", lambda c: f"-{c[0].lower()}", key): v
            for key, v in themes[name].items()
            if isinstance(v, str)
        }
        assert found == expected
