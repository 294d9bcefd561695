"""Two runs beside each other: how far apart their heads are, and two maps with their difference."""

from models.analysis import comparison
from models.trace import Trace
from viz_app.components.catalogue import DIFFERENCE, DISTANCES
from viz_app.drawing.notes import answer_line
from viz_app.drawing.stamp import caption, facts
from viz_app.notebook.picture import Answer, Mounted, Picture
from viz_app.notebook.places import layer_text, place_of, range_text
from viz_app.views.compare.compared import Compared, ComparedHead, check_size, compare_heads
from viz_app.views.compare.difference import difference, of_both
from viz_app.views.compare.grid import distances
from viz_app.views.compare.text import NOTEBOOK, tasks_apart, vectors_apart

MAX_EMBEDDED_EACH = 2**17  # weights of each run embedded in a picture so that a click opens a head
COMPARISON_HEIGHT = 560  # of a wide frame in CSS pixels
NOWHERE: ComparedHead = ("", 0)  # the default: the head that is furthest apart


def compare(
    run_a: Trace,
    run_b: Trace,
    *,
    kind: str = "",
    layer: int | str | None = None,
    head: int | None = None,
    theme: str = "",
) -> Picture:
    """Draw how far each head of one run is from the same head of another.

    The grid holds the Jensen-Shannon divergence of each head in bits, from 0 (equal) to 1. Beside
    it are the two maps of one head and their signed difference, the weight in the first run minus
    that in the second, and both answers with the first word that differs. The head is the one
    furthest apart, or that of `kind`, `layer` and `head`; a click shows another, and for long
    texts the call that draws it.

    Runs over the same text cut into other tokens are compared by words. Two translations of one
    sentence can be compared in the decoder if they have the same target: `scope.run(text, target)`.

    Raises:
        ValueError: the two runs cannot be compared, or have no such kind, layer or head.
    """
    for run in (run_a, run_b):
        check_size(run)
    compared = comparison.compare(run_a, run_b)
    focus = NOWHERE
    if kind or layer is not None or head is not None:
        layer, head = 1 if layer is None else layer, 1 if head is None else head
        site, number = place_of(run_a, layer, head, kind)
        focus = site.name, number
        _check_compared(compared, focus)
    at_head = _at(compared, focus)
    picture = Mounted(DIFFERENCE, _drawn(at_head, run_a, run_b))
    names = [f"{run.model.name}{' (changed)' if run.edits else ''}" for run in (run_a, run_b)]
    about = f"First run: {caption(facts(run_a))} Second run: {caption(facts(run_b))}"
    title = f"Heads of {names[0]} and {names[1]} compared"
    return Picture(
        title,
        about,
        [Mounted(DISTANCES, distances(at_head)), picture],
        _answers(compared, run_a, run_b),
        theme,
        COMPARISON_HEIGHT,
    )


def _answers(compared: comparison.Comparison, run_a: Trace, run_b: Trace) -> list[Answer]:
    """Return the answers to a click on each head: its maps or, for long texts, the call."""
    places = [
        (site.name, number)
        for pair in compared.kinds
        for site in pair.first[: pair.n_layers]
        for number in range(pair.n_heads)
    ]
    n_weights = sum(
        pair.n_layers * pair.n_heads * pair.maps(0, 0, 0).numel() for pair in compared.kinds
    )
    answers = []
    for name, number in places:
        pick = {"site": name, "head": number}
        if n_weights <= MAX_EMBEDDED_EACH:
            payload = _drawn(_at(compared, (name, number)), run_a, run_b)
            answers.append(Answer("pick", pick, shows=1, payload=payload))
        else:
            code = _call(run_a, name, number)
            answers.append(Answer("pick", pick, says="These maps are drawn by", code=code))
    return answers


def _at(compared: comparison.Comparison, focus: ComparedHead) -> Compared:
    return compare_heads(compared, focus, sides=NOTEBOOK)


def _drawn(what: Compared, run_a: Trace, run_b: Trace) -> bytes:
    first, second = (answer_line(run)[1].split(" ") for run in (run_a, run_b))
    apart = tasks_apart(*(run.model.training.get("task", "unknown") for run in (run_a, run_b)))
    apart = apart or vectors_apart(run_a, run_b)
    return difference(what, of_both(first, second, NOTEBOOK, apart))


def _check_compared(compared: comparison.Comparison, focus: ComparedHead) -> None:
    """Check that a head of the first run has its counterpart in the second.

    Raises:
        ValueError: it has none; the message says why.
    """
    name, head = focus
    site, place = compared.first.attention[name], compared.of(name)
    if place is None:
        why = compared.reasons.get(site.kind, f"{compared.second.model.name} has fewer layers")
        raise ValueError(f"layer {site.layer + 1} of {site.kind!r} cannot be compared: {why}")
    if head >= place[0].n_heads:
        heads = range_text([str(n + 1) for n in range(place[0].n_heads)])
        raise ValueError(f"head must be {heads}, which both runs have, not {head + 1}")


def _call(run: Trace, name: str, head: int) -> str:
    site = run.attention[name]
    layer = layer_text(run, site)
    return f'compare(run_a, run_b, kind="{site.kind}", layer={layer}, head={head + 1})'
