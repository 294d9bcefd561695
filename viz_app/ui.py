"""Small pieces that several pages put on the screen. HTML here is the app's own words; text from outside is never in it."""

from collections.abc import Callable, Iterator

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from models.trace import AttentionSite, Trace
from viz_app import words
from viz_app.components.catalogue import PLAIN
from viz_app.components.mounting import show
from viz_app.drawing import export, provenance
from viz_app.drawing.cells import Tile, is_long
from viz_app.drawing.frame import Chart, larger
from viz_app.drawing.notes import check_rows, small_print, strip
from viz_app.drawing.npz import Arrays
from viz_app.drawing.scale import Scale
from viz_app.drawing.stamp import Facts, facts, pieces
from viz_app.session import downloads as sent
from viz_app.session import url_state
from viz_app.session.parameters import Switch

__all__ = [
    "camera",
    "check_rows",
    "checks_panel",
    "download",
    "downloads",
    "headline",
    "note",
    "nothing",
    "presented",
    "run_strip",
    "small_print",
    "strip",
]

PRESENT = Switch("present", on="1")  # larger type and no sidebar
FileContent = str | bytes | Iterator[str] | Arrays  # a whole file, the lines of a table, or arrays


def note(slot: DeltaGenerator, text: str, bad: bool = False, *, key: str) -> None:
    """A line of small print under a control, or the error that belongs to it."""
    with slot:
        show(PLAIN, small_print(text, bad), key=f"note {key}")


def headline(question: str, answer: str) -> None:
    """What a page asks, and in one sentence how its pictures answer; the field's own words say on hover what they mean."""
    asked, answered = words.annotate(question, answer)
    st.html(f'<div class="headline"><h1>{asked}</h1><p>{answered}</p></div>')


def run_strip(trace: Trace, terms: words.Terms, stale: bool) -> None:
    """What the model read and what it wrote, prominently, in a strip of fixed height."""
    show(PLAIN, strip(trace, terms, stale), key="written")


def nothing(is_opening: bool = False) -> None:
    """Before anything has run."""
    then = (
        "The model is being opened."
        if is_opening
        else "First correct what the note on the left says."
    )
    st.html(f'<p class="nothing">There is no picture yet. {then}</p>')


def checks_panel(checks: dict, trained: str) -> None:
    """The checks of what is on the screen, as `check_rows` puts them."""
    show(PLAIN, checks, key="checks")
    show(PLAIN, small_print(trained), key="trained")


def downloads(
    now: Callable[[], Trace],
    site: AttentionSite,
    head: int,
    terms: words.Terms,
    scale: Scale,
    tile: Tile = None,
) -> None:
    """The numbers of the pictures, and a drawing for print. Files are made when they are asked for, of what is shown `now`."""
    name, long = provenance.head_name(now(), site, head), is_long(site)
    title = words.head_title(site, head, terms)

    def of_head(
        make: Callable[..., FileContent], *rest: str | Scale | Tile
    ) -> Callable[[], FileContent]:
        return lambda: make(trace := now(), trace.attention[site.name], head, *rest)

    def drawn() -> Facts:
        return facts(trace := now(), scale=export.legend(trace, trace.attention[site.name], scale))

    def about() -> Facts:
        return facts(now())

    with st.container(horizontal=True, gap="small", key="downloads"):
        download("This head, CSV", of_head(export.head_csv), f"{name}.csv", "text/csv", about, long)
        if long:
            download(
                "This head, npz", of_head(export.head_npz), f"{name}.npz", about=about, long=long
            )
        download(
            "This head, SVG",
            of_head(export.head_svg, title, scale, tile),
            f"{name}.svg",
            "image/svg+xml",
            drawn,
        )
        whole = f"{provenance.file_name(now(), 'all-heads')}.npz"
        download("All heads, npz", lambda: export.heads_npz(now()), whole, about=about, long=long)
    if long:
        st.caption(export.of_long_text(site, tile))


def download(
    label: str,
    make: Callable[[], FileContent],
    name: str,
    mime: str = "application/octet-stream",
    about: Callable[[], Facts] = dict,
    long: bool = False,
) -> None:
    """A download whose file is made when it is asked for, and says what it is `about`. One of a `long` text is sent while it is
    made, where the app runs in its server."""

    def content() -> Iterator[bytes]:
        return pieces(make(), name, about())

    if long and (address := sent.address(label, name, content)):
        st.link_button(label, address, icon=":material/download:")
        return
    st.download_button(
        label,
        lambda: b"".join(content()),
        name,
        mime,
        key=f"download {label}",
        on_click="ignore",
        icon=":material/download:",
    )


def presented(chart: Chart) -> Chart:
    """The chart as it stands on the page: in a presentation with larger letters."""
    return larger(chart) if url_state.get(PRESENT) else chart


def camera(name: str) -> dict:
    """Settings of a plotly picture: its camera saves a drawing under this name."""
    return {"toImageButtonOptions": {"format": "svg", "filename": name}, "displaylogo": False}
