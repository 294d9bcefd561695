"""Type some fifteen hundred hostile texts and count what goes wrong.

    python -m tests.robustness.texts [--texts 1500] [--seed 1]

Each text is read as source and as target by shipped models of both kinds of vocabulary and sent through the live socket's own
functions; some are shown by the page and by a real browser, if there is one. A text may be refused with an InputError. Nothing
else may fail, and no markup in a text may become part of a page.
"""

import argparse
import json
import traceback
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random

from playwright.sync_api import Page, sync_playwright
from streamlit.testing.v1 import AppTest

import models
import viz_app
from models.printable import show_directions
from tests.benchmarks.serving import APP as SERVER
from tests.benchmarks.serving import served
from tests.served_app import CHROMIUM, FLAGS
from viz_app.drawing.payload import unpack
from viz_app.session import live_route, opening
from viz_app.session.parameters import replace_surrogates

APP = Path(viz_app.__file__).with_name("app.py")
CHECKPOINTS = ("dates", "eng-fra")
PLAIN = ("3 May 1999", "She is reading a book.")
MARK = "attnscope-injected"  # a tag that none of our pages has
PASTED = [
    f"<{MARK}>", f"<img src=x class={MARK} onerror=\"window.injected=1\">", "<script>window.injected=1</script>", "</style><b>",
    f"<svg><a class={MARK} onload=window.injected=1>", f"[link](javascript:window.injected=1 '{MARK}')", "![](x)", "</div></p>",
    "$\\def\\x{\\x\\x}\\x$", "$$\\frac{1}{", "\\href{javascript:1}{x}", ":material/home:", ":red[x]", ":streamlit:", "`**_~~#",
    "| a |\n|-|", "{{7*7}}", "${7*7}", "%s%n%x", "../../etc/passwd", "'; DROP TABLE x; --", "=1+1", "<s>", "</s>", "<pad>", "<unk>",
    "▁▁", "&lt;b&gt;", "\\u0000", "NaN", "null", "[]", "-0",
]  # fmt: skip
SIGNS = {
    "halves of characters": "\ud83d\udc00\ud800\udfff",
    "directions": "\u202e\u202d\u2066\u2069\u200f\u061c",
    "no width": "\u200b\u200c\u200d\u2060\ufeff\u00ad",
    "controls": "\x00\x01\x07\x08\x1b\x7f\x85\u2028\u2029",
    "spaces": " \t\n\r\x0b\x0c\u00a0\u3000",
    "marks": "\u0301\u0489\u20dd\u0e33\u3099",
    "joined": "👩‍👩‍👧‍👦🏳️‍🌈👍🏽🇫🇷",
    "beyond": "\U0010ffff\ufffe\ufdd0\ue000𒐫﷽",
    "scripts": "مرحباשלום漢字ไทย日本देवनागरी",
    "signs": "²½ⅷ①ﬁßİıſΣς∑×−₁",
    "letters": "abc XYZ 123.,'’-/",
}


def hostile(n: int, seed: int = 1) -> list[str]:
    """Return n texts of every unpleasant sort, the same for the same seed."""
    rng = Random(seed)
    makers = [_pasted, _of_one_sort, _mixed, _flood, _any_code_points, _decomposed]
    return [makers[i % len(makers)](rng) for i in range(n)]


def _pasted(rng: Random) -> str:
    """Markup, alone or in a sentence."""
    return rng.choice(["", *PLAIN]) + " ".join(rng.choices(PASTED, k=rng.randrange(1, 4)))


def _of_one_sort(rng: Random) -> str:
    return "".join(rng.choices(rng.choice([*SIGNS.values()]), k=rng.randrange(1, 30)))


def _mixed(rng: Random) -> str:
    return "".join(rng.choice(rng.choice([*SIGNS.values()])) for _ in range(rng.randrange(1, 40)))


def _flood(rng: Random) -> str:
    """Repeat one thing: up to a hundred thousand characters, or one letter with a thousand marks."""
    unit = rng.choice(["a", " ", "🙂", "\u0301", "\u200d", "\x00", "<b>", "1 ", "漢", "\ud83d"])
    return rng.choice(["", "e"]) + unit * rng.choice([63, 64, 65, 1_000, 100_000])


def _any_code_points(rng: Random) -> str:
    return "".join(chr(rng.randrange(0x110000)) for _ in range(rng.randrange(1, 20)))


def _decomposed(rng: Random) -> str:
    """Decompose a sentence into letters and marks, with signs put between."""
    letters = unicodedata.normalize(
        rng.choice(["NFD", "NFKD"]), rng.choice(["Où est l'élève naïf ?", *PLAIN])
    )
    between = ["", "", "", *SIGNS["no width"], *SIGNS["marks"]]
    return "".join(letter + rng.choice(between) for letter in letters)


@contextmanager
def counted(found: Counter, kind: str, text: str) -> Iterator[None]:
    """Count the operation on a text in this block, and print its failure."""
    found[kind] += 1
    try:
        yield
    except models.InputError:
        found[f"{kind}: refused"] += 1
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        found["failed"] += 1
        print(
            f"{kind}: {text[:60]!a} ({len(text)} characters)\n{''.join(traceback.format_exception(error))}"
        )


def through_models(texts: Sequence[str], found: Counter) -> None:
    """Run each text as source and as target of a model; every resulting row of attention sums to 1."""
    for name in CHECKPOINTS:
        scope = models.load(name, device="cpu")
        for text in texts:
            for pair in ((text, "1"), ("1", text)):
                with counted(found, f"run by {name}", text):
                    trace = scope.run(*pair)
                    sums = [site.weights(0).sum(-1) for site in trace.attention.values()]
                    assert all(((total - 1).abs() < 1e-4).all() for total in sums)


def through_live_answers(texts: Sequence[str], found: Counter) -> None:
    """Answer each text as the socket does, in the form in which a browser sends it: the answer quotes the whole text and nothing else."""
    session = _opened(PLAIN[0]).session_state["live session"]
    for text in texts:
        with counted(found, "answered live", text):
            sent = json.dumps(
                {"texts": [text, ""]}, ensure_ascii=len(text) < 10_000
            )  # a browser escapes only unpaired halves
            header, _ = unpack(
                session.edit(*live_route._texts({"type": "websocket.receive", "text": sent}))
            )
            rows, note = dict(header["plain"]["written"]["rows"]), header["plain"]["note source"]
            assert bool(rows["stale"]) == (note["look"] == "note bad")
            read = replace_surrogates(json.loads(sent)["texts"][0])  # JSON joins two halves
            assert rows["stale"] or rows["source"] == show_directions(read)


def through_pages(texts: Sequence[str], found: Counter) -> None:
    """Type each text into the box of a page, by Streamlit's own reruns: it appears in no HTML and in no Markdown."""
    app = _opened(PLAIN[0])
    for text in map(replace_surrogates, texts):
        with counted(found, "shown by a page", text):
            app.text_area(key="source").set_value(text).run()
            assert not app.exception, app.exception[0].message
            written = [element.proto.body for element in app.get("html")] + [
                part.value for part in (*app.markdown, *app.caption)
            ]
            assert not any(MARK in part or "window.injected" in part for part in written)


def through_a_browser(texts: Sequence[str], found: Counter) -> None:
    """Put each text into the box of a page in Chromium, some with a rerun: none of its tags is on the page, no script has run."""
    with served(SERVER) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = browser.new_page()
        page.set_default_timeout(120_000)
        page.goto(f"http://{address}/?checkpoint=dates")
        page.wait_for_selector(".head[data-painted]")
        for i, text in enumerate(texts):
            with counted(found, "shown by a browser", text):
                box = page.locator(".st-key-source textarea")
                box.fill(replace_surrogates(text))
                if i % 10 == 0:
                    box.press("Enter")
                    page.wait_for_selector("[data-testid=stApp][data-test-script-state=notRunning]")
                page.wait_for_timeout(100)
                found["injected nodes"] += injected(page)
                assert page.locator("[data-testid=stException]").count() == 0
        browser.close()


def injected(page: Page) -> int:
    """Count nodes on the page, components included, that only a text could have brought, and scripts that have run."""
    ran = page.evaluate("() => Number(window.injected === 1)")
    return (
        ran
        + page.locator(
            f"{MARK}, .{MARK}, [onerror], [onload], [href^='javascript:'], img[src='x']"
        ).count()
    )


def _opened(source: str) -> AppTest:
    opening.BAR_DELAY = 600  # one run of the page waits for its model
    app = AppTest.from_file(str(APP), default_timeout=120)
    app.query_params["checkpoint"], app.query_params["source"] = "dates", source
    app.run()
    assert not app.exception
    return app


def count(texts: Sequence[str], pages: int, shown: int) -> Counter:
    """Count the outcomes of these texts; the first ones are also shown by a page and by a browser."""
    found: Counter = Counter({"failed": 0, "injected nodes": 0})
    steps: list[tuple[Callable, Sequence[str]]] = [
        (through_models, texts), (through_live_answers, texts), (through_pages, texts[:pages]),
    ]  # fmt: skip
    if CHROMIUM and shown:
        steps.append((through_a_browser, texts[:shown]))
    for through, some in steps:
        through(some, found)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--texts", type=int, default=1_500)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    texts = hostile(options.texts, options.seed)
    for what, n in sorted(count(texts, pages=len(texts) // 5, shown=len(texts) // 5).items()):
        print(f"{n:8,}  {what}")


if __name__ == "__main__":
    main()
