"""All browser components. To add one, create its folder and an entry here."""

from collections.abc import Callable
from typing import Any

from viz_app.components import Component, Event

Arguments = Callable[[Any], tuple[Any, ...]]

SIGNED, TABLE = "../walk/signed.js", "../walk/table.js"
BARS, READING = "../stepper/bars.js", "../answers/reading.js"
BOARDS = "../mask_painter/board.js", "../mask_painter/beside.js"
OVER_FILE = "../head/scale.js", "../image_map/patches.js", "../image_map/over_file.js"
OVER_FILE_STYLE = "../image_map/over_file.css"
STEPPER_STYLE, READING_STYLE = "../stepper/parts.css", "../answers/reading.css"


def _whole(*names: str) -> Arguments:
    """Return a converter to the integers under these names."""
    return lambda message: tuple(int(message[name]) for name in names)


def _text(name: str) -> Arguments:
    return lambda message: (str(message[name]),)


def _several(name: str) -> Arguments:
    """Return a converter to one argument: the list of integers under this name."""
    return lambda message: ([int(value) for value in message[name]],)


def _flag(value: object) -> tuple[bool]:
    return (bool(value),)


def _tile(message: dict) -> tuple[tuple[int, int] | None]:
    """Convert to the (query, key) at the centre of a long text's part; None for the whole text."""
    return ((int(message["query"]), int(message["key"])) if "query" in message else None,)


def _cells(message: dict) -> tuple[str, list[tuple[int, int, int]]]:
    """Convert to a kind of attention and its painted cells (query, key, 0 blocked or 1 allowed)."""
    cells = [(int(query), int(key), int(allowed)) for query, key, allowed in message["cells"]]
    return str(message["kind"]), cells


_HOLD_AND_PICK = {
    "on_lock": Event("lock", _text("token")),
    "on_pick": Event("pick", lambda pick: (str(pick["site"]), int(pick["head"]))),
}
PICKED = {"on_choose": Event("pick", _whole("query", "key"))}

# Lines of text from users, files and models, set as text and never as HTML.
PLAIN = Component("plain", ("plain.js",), common="live")

# Links to files, each made on request (viz_app/session/downloads.py).
FILES = Component("files", ("files.js",))

# The question that a page ends with; `on_go()` opens the page that answers it.
NEXT_LINK = Component(
    "next", ("next.js",), events={"on_go": Event("go", lambda _: ())}, common="live"
)

# Invisible: listens to the text boxes, requests pictures at every key, writes the URL; see
# viz_app/session/live.py.
LIVE = Component("live", ("boxes.js", "live.js"))

# The choice of a model: a search box and the models in groups; `on_pick(name or path)`.
PICKER = Component("picker", ("picker.js",), events={"on_pick": Event("pick", _text("name"))})

# The progress of a model that is being opened; `on_ready()` when it has ended.
OPENING_BAR = Component(
    "opening", ("opening.js",), events={"on_ready": Event("ready", lambda _: ())}, common="live"
)

# The buttons beside the navigation, the glossary's tooltips, and the link past the controls.
TOOLS = Component(
    "tools",
    ("link.js", "glossary.js", "skip.js", "tools.js"),
    events={
        "on_present": Event("present", _flag),
        "on_pin": Event("pin", _flag),
        "on_window": Event("window", _text("size")),
    },
)

# All heads at a glance; `on_pick(site, head)`, `on_join(sub-words are merged)`.
OVERVIEW = Component(
    "overview",
    ("grid.js", "overview.js"),
    events={
        "on_pick": Event("pick", lambda pick: (str(pick["site"]), int(pick["head"]))),
        "on_join": Event("join", lambda join: (bool(join["on"]),)),
    },
)

# One head as heatmap and as lines; `on_lock("q3" | "k0" | "")`, `on_look(scale, hides sinks)`,
# `on_tile((query, key) | None)`.
HEAD = Component(
    "head",
    ("scale.js", "heatmap.js", "lines.js", "head.js"),
    events={
        "on_lock": Event("lock", _text("token")),
        "on_look": Event("look", lambda look: (str(look["scale"]), bool(look["hides"]))),
        "on_tile": Event("tile", _tile),
    },
)

# What one edit of each head does to the answer; `on_switch(site, head, off)`,
# `on_scale(site, head, factor)`.
BOARD = Component(
    "board",
    (SIGNED, "head_tables.js", "board.js"),
    events={
        "on_switch": Event(
            "pick", lambda pick: (str(pick["site"]), int(pick["head"]), bool(pick["off"])), "off"
        ),
        "on_scale": Event(
            "pick",
            lambda pick: (str(pick["site"]), int(pick["head"]), float(pick["factor"])),
            "factor",
        ),
    },
)

# What each part of one run does in another, both ways;
# `on_take(side, "cell" or "head", name, number)`.
PATCH = Component(
    "patch",
    (SIGNED, "../board/head_tables.js", "patch.js"),
    events={
        "on_take": Event(
            "pick",
            lambda part: (
                str(part["side"]),
                str(part["what"]),
                str(part["name"]),
                int(part["number"]),
            ),
        )
    },
)

# The effect of each head as a gradient estimates it, against the measured one;
# `on_take(side, "head", name, number)`.
SCATTER = Component(
    "scatter",
    (SIGNED, "../by_distance/ticks.js", "scatter.js"),
    events={
        "on_take": Event(
            "pick",
            lambda head: (str(head["side"]), "head", str(head["name"]), int(head["number"])),
        )
    },
)

# The answer before and after a change; `on_choose(decision)`.
OUTCOME = Component(
    "outcome",
    (SIGNED, BARS, "answer_lines.js", "outcome.js"),
    events={"on_choose": Event("pick", _whole("position"))},
)

# A row of weights beside other weights for it; `on_set(weights; none: the model's)`, `on_search()`,
# `on_choose(decision)`.
ROW_TESTS = Component(
    "row_tests",
    (SIGNED, BARS, "../outcome/answer_lines.js", "row_tests.js"),
    ("../outcome/outcome.css",),
    events={
        "on_set": Event("pick", lambda pick: ([float(w) for w in pick["weights"]],), "weights"),
        "on_search": Event("pick", lambda _: (), "search"),
        "on_choose": Event("pick", _whole("position"), "position"),
    },
)

# How far heads are from others, a cell for each head; `on_pick(site, head)`.
DISTANCES = Component(
    "distances",
    ("../board/head_tables.js", "distances.js"),
    events={"on_pick": Event("pick", lambda pick: (str(pick["site"]), int(pick["head"])))},
)

# Two maps over the same tokens with their signed difference, and two answers.
DIFFERENCE = Component("difference", (SIGNED, *BOARDS, "difference.js"))

# The states of an RNN, a row for each token; the part passed on is framed.
STATES = Component("states", (SIGNED, "states.js"))

# Play and pause beside a slider over training steps; `on_step(step)`.
PLAYER = Component(
    "player", ("player.js",), events={"on_step": Event("step", lambda step: (int(step),))}
)

# The next token at each position: positions to click, one distribution, the tokens it attended to;
# `on_choose(position)`.
ANSWERS = Component(
    "answers",
    (BARS, "reading.js", "strip.js", "answers.js"),
    (STEPPER_STYLE, "reading.css"),
    {"on_choose": Event("pick", _whole("position"))},
)

# Class probabilities of runs that differ in λ alone; `on_choose(checkpoint)`.
CLASS_PROBABILITIES = Component(
    "classes",
    (BARS, "classes.js"),
    (STEPPER_STYLE,),
    {"on_choose": Event("pick", _text("name"))},
)

# Tokens to mask by a click and the guesses for each [MASK]; `on_hide(all masked positions)`.
GUESSES = Component(
    "guesses",
    (BARS, READING, "guesses.js"),
    (STEPPER_STYLE, READING_STYLE),
    {"on_hide": Event("pick", _several("hidden"))},
)

# Tokens in the order in which they are predicted; `on_order(the whole new order)`,
# `on_choose(position)`.
ORDER = Component(
    "order",
    (BARS, READING, "visibility.js", "order.js"),
    (STEPPER_STYLE, READING_STYLE),
    {
        "on_order": Event("pick", _several("order"), field="order"),
        "on_choose": Event("pick", _whole("position"), field="position"),
    },
)

# Class probabilities of a text or of two texts, and the attention of the token they are read from.
PAIR = Component("pair", (BARS, READING, "pair.js"), (STEPPER_STYLE, READING_STYLE))

# Start × end of an answer: a map of all spans, the most probable ones, the answer in its context.
SPAN = Component("span", (BARS, READING, "map.js", "span.js"), (STEPPER_STYLE, READING_STYLE))

# Query and key tokens to click, shaded by the query's weights; key −1 asks for the strongest.
CHOICE = Component("choice", ("choice.js",), events=PICKED)

# The walk inside one head, a slider over its stages; `on_choose(query, key)`, `on_stage(stage)`.
WALK = Component(
    "walk",
    ("signed.js", "table.js", "walk.js"),
    events={
        "on_stage": Event("news", _whole("stage"), field="stage"),
        "on_choose": Event("news", _whole("query", "key"), field="key"),
    },
)

# One head as matrix products; a click in the scores or in the output chooses a weight.
MATRICES = Component("matrices", (SIGNED, TABLE, "matrices.js"), events=PICKED)

# What each head adds to the residual stream at one token; `on_pick(head)`.
HEADS = Component(
    "heads", (SIGNED, TABLE, "heads.js"), events={"on_pick": Event("pick", _whole("head"))}
)

# Lines of several heads, and all heads ranked by a measure; `on_head(number)`, `on_measure(name)`,
# `on_query(query or −1)`.
SEVERAL = Component(
    "several",
    (SIGNED, TABLE, "ranking.js", "strands.js", "several.js"),
    events={
        "on_head": Event("news", _whole("head"), field="head"),
        "on_measure": Event("news", _text("measure"), field="measure"),
        "on_query": Event("news", _whole("query"), field="query"),
    },
)

# One token through all layers of a stack, and one layer in full; `on_layer(site)`,
# `on_token(position)`.
LAYER = Component(
    "layer",
    (SIGNED, TABLE, "rows.js", "stops.js", "experts.js", "vectors.js", "layer.js"),
    events={
        "on_layer": Event("news", _text("site"), field="site"),
        "on_token": Event("news", _whole("token"), field="token"),
    },
)

# The shuffle test: tokens change places, their vectors move.
SHUFFLE = Component("shuffle", ("shuffle.js",))

# A quantity by distance: the mean as a line, the range as a band.
BY_DISTANCE = Component("by_distance", ("ticks.js", "by_distance.js"))

# All masks of a run, one to paint on, and the effect; `on_paint(kind, cells)`, `on_kind(kind)`,
# `on_tile((query, key) | None)`.
MASK_PAINTER = Component(
    "mask_painter",
    (SIGNED, *BOARDS, "strip.js", "brush.js", "effect.js", "mask_painter.js"),
    events={
        "on_paint": Event("paint", _cells),
        "on_kind": Event("kind", _text("kind")),
        "on_tile": Event("tile", _tile),
    },
)

# Two decoding runs side by side; `on_step(position)`, `on_force(position, token id)`, `on_free()`.
STEPPER = Component(
    "stepper",
    (
        *("wording.js", SIGNED, "chips.js", "vectors.js", "bars.js", "fork.js", "lanes.js"),
        *("cost.js", "panel.js", "stepper.js"),
    ),
    ("parts.css",),
    {
        "on_step": Event("step", _whole("position")),
        "on_force": Event("force", _whole("position", "id")),
        "on_free": Event("free", lambda _: ()),
    },
)

# The beam as a tree; `on_node(step, rank)`.
BEAM_TREE = Component(
    "beam_tree",
    ("../stepper/chips.js", BARS, "tree.js", "beam_tree.js"),
    (STEPPER_STYLE,),
    {"on_node": Event("node", _whole("step", "rank"))},
)

# Heatmaps side by side over the same two rows of tokens, with bars beside the rows.
MAPS = Component("maps", ("maps.js",))

# The outputs of several models for one text, differences marked; below them the fixed vector.
VERSIONS = Component("versions", (SIGNED, "../stepper/vectors.js", "versions.js"), (STEPPER_STYLE,))

# Invisible: disables the sections of a page that the model lacks, each with the reason on hover.
SECTIONS = Component("sections", ("sections.js",), common="live")

# A card for each checkpoint, with a link that opens it.
CARDS = Component("cards", ("cards.js",))

# A step of a lesson; `on_predict(what)`, `on_step(number)`, `on_leave()`, and `on_next()` after the
# last step.
LESSON = Component(
    "lesson",
    ("lesson.js",),
    events={
        "on_predict": Event("predict", lambda prediction: (str(prediction),)),
        "on_step": Event("step", lambda number: (int(number),)),
        "on_leave": Event("leave", lambda _: ()),
        "on_next": Event("next", lambda _: ()),
    },
)

# A class: its code, its pupils and what they predict; `on_release()`, `on_next()`, `on_end()`, and
# `on_moved()` when the page is behind.
CLASSROOM = Component(
    "classroom",
    ("classroom.js",),
    events={
        f"on_{name}": Event(name, lambda _: ()) for name in ("release", "next", "end", "moved")
    },
)

# The available lessons; `on_begin(name)`.
LESSON_LIST = Component(
    "lesson_list",
    ("lesson_list.js",),
    events={"on_begin": Event("begin", lambda name: (str(name),))},
)

# A box for the user's own data: pasted, dropped or chosen; `on_kept()` once the server has them.
OWN_DATA = Component(
    "own_data",
    ("own_data.js",),
    events={"on_kept": Event("kept", lambda _: ())},
    common="live",
)

# A box for the user's own file, an image or a sound, chosen or dropped; `on_kept(reference)` once
# the server has it.
OWN_FILE = Component(
    "own_file",
    ("own_file.js",),
    events={"on_kept": Event("kept", _text("reference"))},
    common="live",
)

# What a patch of an image reads, over the image: one head large, all heads of its layer small;
# `on_lock("q3")`, `on_pick(site, head)`.
IMAGE_MAP = Component(
    "image_map",
    (*OVER_FILE, "image_map.js"),
    (OVER_FILE_STYLE,),
    events=_HOLD_AND_PICK,
)

# What a frame, or a token of a text, reads of a sound, over its spectrogram: one head large, all
# heads of its layer small; `on_lock("q3")`, `on_pick(site, head)`.
SOUND_MAP = Component(
    "sound_map",
    (*OVER_FILE, "sound_map.js"),
    (OVER_FILE_STYLE,),
    events=_HOLD_AND_PICK,
)

COMPONENTS = {
    component.name: component
    for component in list(globals().values())
    if isinstance(component, Component)
}
