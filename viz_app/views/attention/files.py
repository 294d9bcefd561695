"""The downloads of the page Attention: one head, all heads, and a GIF of its training."""

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from models.trace import AttentionSite, Trace
from viz_app import words
from viz_app.drawing import export, provenance
from viz_app.drawing.cells import Tile, cells, has_many_cells, strengths
from viz_app.drawing.colours import HATCH_COLOUR, PAPER_COLOUR, TEXT_COLOUR, ramp
from viz_app.drawing.export import legend, what_is_drawn
from viz_app.drawing.labels import Label, shorten
from viz_app.drawing.scale import Scale, sinks
from viz_app.drawing.stamp import Facts, FileContent, facts, of_all_steps
from viz_app.session import cache
from viz_app.session.current_run import CurrentRun
from viz_app.views.attention.payloads import AttentionChoices, words_joined
from viz_app.views.page import File


def drawn_site(run: CurrentRun, choices: AttentionChoices) -> tuple[Trace, AttentionSite]:
    """Return the trace and the chosen site as drawn, in tokens or in words."""
    trace = words_joined(run.trace, choices.joins_words)
    return trace, trace.attention[choices.focus.within(run.trace).site]


def attention_files(run: CurrentRun, choices: AttentionChoices) -> Sequence[File]:
    """Return the downloads."""
    (trace, site), head, scale = drawn_site(run, choices), choices.focus.head, choices.scale
    name = provenance.head_name(trace, site, head)
    title = words.head_title(site, head, run.terms)

    def for_head(make: Callable[..., FileContent], *rest: object) -> Callable[..., FileContent]:
        return lambda now: make(*drawn_site(now, choices), head, *rest)

    def about(now: CurrentRun) -> Facts:
        return facts(drawn_site(now, choices)[0])

    def drawn(now: CurrentRun) -> Facts:
        trace, site = drawn_site(now, choices)
        return facts(trace, scale=" ".join(export.legend(trace, site, scale).split()))

    file = partial(File, about=about)
    drawing = for_head(export.head_svg, title, scale, choices.tile)
    all_heads = f"{provenance.file_name(trace, 'all-heads')}.npz"
    return [
        file("This head, CSV", for_head(export.weights_csv), f"{name}.csv"),
        *(
            [file("This head, npz", for_head(export.head_npz), f"{name}.npz")]
            if has_many_cells(site)
            else []
        ),
        File("This head, SVG", drawing, f"{name}.svg", drawn),
        file(
            "All heads, npz", lambda now: export.heads_npz(drawn_site(now, choices)[0]), all_heads
        ),
        *_training(run, choices),
    ]


def _training(run: CurrentRun, choices: AttentionChoices) -> list[File]:
    """Return the animation of this head over all snapshots, if there are any."""
    if not run.scope.snapshots:
        return []
    by_words = partial(words_joined, joins=choices.joins_words)
    (trace, site), head = drawn_site(run, choices), choices.focus.head

    def make(now: CurrentRun) -> bytes:
        return animation(now, site.name, head, choices.scale, by_words, choices.tile)

    def about(now: CurrentRun) -> Facts:
        return of_all_steps(by_words(now.trace), now.scope.snapshots)

    model = replace(trace.model, training={**trace.model.training, "step": None})
    of_no_step = replace(trace, model=model)
    name = f"{provenance.head_name(of_no_step, site, head, 'training')}.gif"
    return [File("This head through training, animated GIF", make, name, about)]


def incomplete_files_note(run: CurrentRun, choices: AttentionChoices) -> str:
    """Return which downloads of a long text are incomplete; "" for a shorter text."""
    site = drawn_site(run, choices)[1]
    return export.of_long_text(site, choices.tile) if has_many_cells(site) else ""


FRAME_MS, LAST_FRAME_MS = 700, 2500
_CELL, _LEFT, _TOP, _FONT = 24, 120, 110, 13
_MAX_LABEL_LENGTH = 15  # characters
_MAX_PICTURE_TOKENS = 48  # tokens a side; cells of larger pictures shrink


@dataclass(frozen=True)
class StrengthFrame:
    """One head at one training step: the colour strength of each weight, float (query, key)."""

    step: int
    strengths: np.ndarray


def animation(
    run: CurrentRun,
    site: str,
    head: int,
    scale: Scale,
    shown_as: Callable[[Trace], Trace],
    tile: Tile = None,
) -> bytes:
    """Draw this head of a run under the weights of every snapshot as a GIF.

    `shown_as` converts a trace to the tokens or words to draw.
    """
    frames, trace = [], shown_as(run.trace)
    final = trace.attention[site]
    scale = scale.of(final.n_key)
    sink_keys = sinks(trace.axes(final)[1])
    for step in run.scope.snapshots:
        spec = replace(run.spec, model=replace(run.spec.model, step=step))
        snapshot = shown_as(cache.changed_run(run.unchanged, spec).trace)
        grid = cells(
            snapshot, snapshot.attention[site], head, tile, sink_keys if scale.hides_sinks else ()
        )
        frames.append(StrengthFrame(step, strengths(grid, scale, sink_keys)))
    title = words.head_title(final, head, run.terms)
    unit = "; ".join(filter(None, (legend(trace, final, scale), what_is_drawn(grid, final))))
    return head_gif(frames, grid.queries, grid.keys, grid.blocked, title, unit)


def head_gif(
    frames: Sequence[StrengthFrame],
    queries: Sequence[Label],
    keys: Sequence[Label],
    blocked: np.ndarray,
    title: str,
    unit: str,
) -> bytes:
    """Return one head through training as an animated GIF, with a frame for each snapshot.

    Tokens label both axes, masked cells are hatched; `unit` is the meaning of the strongest colour.
    """
    cell = max(4, min(_CELL, _CELL * _MAX_PICTURE_TOKENS // max(len(queries), len(keys))))
    pictures = [_picture(frame, queries, keys, blocked, title, cell, unit) for frame in frames]
    out = io.BytesIO()
    durations = [FRAME_MS] * (len(pictures) - 1) + [LAST_FRAME_MS]
    pictures[0].save(
        out, "GIF", save_all=True, append_images=pictures[1:], duration=durations, loop=0
    )
    return out.getvalue()


def _picture(
    frame: StrengthFrame,
    queries: Sequence[Label],
    keys: Sequence[Label],
    blocked: np.ndarray,
    title: str,
    cell: int,
    unit: str,
) -> Image.Image:
    rows, columns = frame.strengths.shape
    font, bold = _font(_FONT), _font(_FONT + 3)
    wide = max(_LEFT + columns * cell + 60, 30 + int(font.getlength(title)), 520)
    picture = Image.new("RGB", (wide, _TOP + rows * cell + 50), PAPER_COLOUR)
    pen = ImageDraw.Draw(picture)
    pen.text((12, 10), f"Training step {frame.step:,}", TEXT_COLOUR, bold)
    pen.text((12, 34), title, TEXT_COLOUR, font)
    for q in range(rows):
        for k in range(columns):
            _draw_cell(
                pen,
                _LEFT + k * cell,
                _TOP + q * cell,
                cell,
                frame.strengths[q, k],
                bool(blocked[q, k]),
            )
    if cell >= 10:
        for q, label in enumerate(queries):
            pen.text(
                (_LEFT - 6, _TOP + (q + 0.5) * cell),
                shorten(label.text, _MAX_LABEL_LENGTH),
                TEXT_COLOUR,
                font,
                anchor="rm",
            )
        for k, label in enumerate(keys):
            _slanted(
                picture,
                shorten(label.text, _MAX_LABEL_LENGTH),
                (_LEFT + int((k + 0.5) * cell), _TOP - 4),
                font,
            )
    _draw_scale(pen, _LEFT, _TOP + rows * cell + 16, font, unit)
    return picture


def _draw_cell(
    pen: ImageDraw.ImageDraw, x: int, y: int, size: int, strength: float, masked: bool
) -> None:
    box = (x, y, x + size - 1, y + size - 1)
    pen.rectangle(box, fill=PAPER_COLOUR if masked else ramp(float(strength)), outline="#d3d9e6")
    if masked:
        pen.line((x + 2, y + size - 3, x + size - 3, y + 2), fill=HATCH_COLOUR)


def _draw_scale(pen: ImageDraw.ImageDraw, x: int, y: int, font: Any, unit: str) -> None:
    for i in range(100):
        pen.line((x + i, y, x + i, y + 10), fill=ramp(i / 99))
    pen.text((x - 6, y + 5), "0", TEXT_COLOUR, font, anchor="rm")
    pen.text((x + 106, y + 5), f"{unit}; rows: query, columns: key", TEXT_COLOUR, font, anchor="lm")


def _slanted(picture: Image.Image, text: str, foot: tuple[int, int], font: Any) -> None:
    strip = Image.new("L", (int(font.getlength(text)) + 4, _FONT + 6))
    ImageDraw.Draw(strip).text((0, 0), text, 255, font)
    turned = strip.rotate(55, expand=True)
    picture.paste(TEXT_COLOUR, (foot[0] - 6, foot[1] - turned.height), turned)


def _font(size: int) -> Any:
    try:
        return ImageFont.truetype("DejaVuSans.ttf", size)
    except OSError:
        return ImageFont.load_default(size)
