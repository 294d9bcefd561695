"""All heads of 12 layers × 12 heads at 128 tokens in a real browser: time to paint, and bytes sent.

Each key typed requests the picture of another run of a random model. Its time is from the input event to the end of the
frame with the new picture, so it includes computing the weights, pooling them and sending them to the browser; the run itself
is ready before. The bytes are all that the server sends for it. A trivial page takes turns with it, for scale.
"""

from statistics import median

from playwright.sync_api import sync_playwright

from tests.benchmarks.repaint import TRIVIAL, View, edit, new_page, opened
from tests.benchmarks.serving import SCRIPTS, served
from tests.benchmarks.side_by_side import Result, print_table
from tests.served_app import CHROMIUM, FLAGS

OVERVIEW = View("the overview", "", (".overview",), TRIVIAL.text)
KEYS, WARMING = "seealltheheadsataglance", 3
HEADS, CELLS = 144, 64 * 64
COUNT = """
window.received = 0;
window.WebSocket = class extends WebSocket {
  constructor(...how) {
    super(...how);
    this.addEventListener("message", (event) => (window.received += event.data.byteLength ?? event.data.size ?? event.data.length));
  }
};
"""


def measure(short: bool = False) -> list[Result]:
    """Type into both pages in turns; the first keys warm up."""
    keys, warming = (KEYS[:2], 1) if short else (KEYS, WARMING)
    seconds: tuple[list[float], list[float]] = ([], [])
    sent = []
    with (
        served(SCRIPTS / "overview.py") as ours,
        served(SCRIPTS / "trivial.py") as theirs,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        pages = new_page(browser), new_page(browser)
        pages[0].add_init_script(COUNT)
        for page, address, view in zip(pages, (ours, theirs), (OVERVIEW, TRIVIAL), strict=True):
            opened(page, address, view)
        assert pages[0].locator(".overview .grid button").count() == HEADS
        for key in keys:
            before = pages[0].evaluate("received")
            for page, view, times in zip(pages, (OVERVIEW, TRIVIAL), seconds, strict=True):
                times.append(edit(page, view, key) / 1000)
            sent.append(pages[0].evaluate("received") - before)
            assert sent[-1] > HEADS * CELLS, f"{sent[-1]} bytes are no new picture of {HEADS} heads"
        browser.close()
    ours, theirs = (times[warming:] for times in seconds)
    return [
        Result("overview of 12 × 12 heads, 128 tokens: seconds to paint", tuple(ours), "≤ 0.2",
               f"a trivial page takes {1000 * median(theirs):.0f} ms"),
        Result("overview of 12 × 12 heads, 128 tokens: MB sent", tuple(n / 1e6 for n in sent[warming:]), "≤ 1"),
    ]  # fmt: skip


if __name__ == "__main__":
    print_table(measure())
