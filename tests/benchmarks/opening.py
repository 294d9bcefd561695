"""The page Attention on a third-party model, 12 layers × 12 heads at 1,024 tokens: the time from a new text to the painted page, in
a real browser, over the plain forward pass of the library on as many threads.

The model is a GPT-2 of the smallest released size with random weights, in a folder without a tokenizer, so that its ids are typed.
It is open before the clock starts, and every text is new, so that each is a new run. The clock of the page is the browser's own,
from the input event to the end of the frame in which all heads and the one head are redrawn (repaint.py). Page and pass take turns;
the page needs a second core for the browser, the pass does not, so a busy machine puts the page at a disadvantage.

In processor time the recorded run takes as long as the plain pass (2.5 s of one core), all heads in blocks 0.7 s, the checks 0.2 s,
the one head 0.05 s, and, if no head has been chosen yet, finding the sharpest 0.5 s."""

import tempfile
import time
from pathlib import Path
from random import Random
from statistics import median

import torch
import transformers
from playwright.sync_api import sync_playwright

from tests.benchmarks.repaint import View, edit, new_page, opened
from tests.benchmarks.serving import APP, served
from tests.benchmarks.side_by_side import Result, over, print_table
from tests.served_app import CHROMIUM, FLAGS
from viz_app.session import process

SIZES = transformers.GPT2Config(), 1024, 3  # of the model, tokens of a text, texts
SHORT = transformers.GPT2Config(n_embd=96, n_layer=2), 32, 2
WARMING = 1  # texts


def measure(short: bool = False) -> list[Result]:
    """Give the page a text and run the library's own pass, in turns; the first text warms up."""
    config, n, rounds = SHORT if short else SIZES
    torch.set_num_threads(process.prepare())
    torch.manual_seed(0)
    module = transformers.GPT2LMHeadModel(config).eval()
    seconds: tuple[list[float], list[float]] = ([], [])
    with (
        tempfile.TemporaryDirectory() as folder,
        served(APP) as address,
        sync_playwright() as playwright,
    ):
        module.save_pretrained(Path(folder, "gpt2"))
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        view = View("Attention", f"?checkpoint={folder}/gpt2", (".overview", ".head"), box="text")
        page = opened(new_page(browser), address, view)
        for turn in range(rounds):
            ids = [Random(turn).randrange(config.vocab_size) for _ in range(n)]
            page.locator(".st-key-text :is(input, textarea)").first.press("Control+a")
            seconds[0].append(edit(page, view, " ".join(map(str, ids))) / 1000)
            assert page.evaluate("found('.head').view.picture.size") == [n, n]
            page.evaluate("() => rest()")
            seconds[1].append(_forward(module, ids))
        browser.close()
    page_s, pass_s = (times[WARMING:] for times in seconds)
    return [Result(
        f"Attention of {config.n_layer} × 12 heads, {n:,} tokens: painted over the forward pass", over(page_s, pass_s), "≤ 2",
        f"{median(page_s):.2f} against {median(pass_s):.2f} s",
    )]  # fmt: skip


@torch.inference_mode()
def _forward(module: torch.nn.Module, ids: list[int]) -> float:
    start = time.perf_counter()
    module(torch.tensor([ids]), use_cache=False)
    return time.perf_counter() - start


if __name__ == "__main__":
    print_table(measure())
