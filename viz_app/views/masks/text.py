"""What the page Masks says: layers, reasons, ready-made masks, and what a change did, in words made from numbers."""

from collections.abc import Iterable, Mapping, Sequence

from models.analysis.masked_comparison import MaskedRun
from models.architectures import Model
from models.layers.masks import DRAWN, LOOK_AHEAD, ORDER, PADDING, SiteKind
from models.trace import AttentionSite, Trace
from models.trace.edits import Edits, MaskChange
from models.trace.outputs import MaskedToken, NextToken
from viz_app import words
from viz_app.drawing.notes import first_output
from viz_app.views.masks.mask_view import Told
from viz_app.views.masks.notation import hides_the_future

QUESTION = "Masks: who may see whom, and why?"
ANSWER = "Hatched cells may not be read. Click or drag cells: the model runs again at once."

_RULES = """
**Two forms of one mask.** Boolean: True where a query may read a key. Additive: 0 there and −∞ elsewhere, added to
the scores: softmax({formula} + M). Since e^−∞ = 0, a blocked cell gets the weight 0 exactly.

**Where a change applies.** {held}

**If you edit a text,** painted cells keep their positions. Those beyond the new size are clipped off and come back
if it grows again; new cells follow the other layers.

**If a whole row is blocked,** its query reads nothing: all its weights are 0 (not NaN), {then}
"""

GIVEN = (
    "**The masks of this model cannot be painted.** Its library hands out finished weights, worked out in a place that cannot be "
    "reached from here. The page Attention shows them."
)
NO_MASK = """
**A recurrence has no mask.** A mask says which tokens an attention may read; this model has no attention. What the
other masks do, it does by its order: its decoder makes the state s(i) from s(i−1) and the token before, so nothing later
can reach it, and no look-ahead mask is needed. Padding is no token to it either: reading simply stops at the end of a
text, and h(m), the state it stopped in, goes to the decoder.

To paint on a mask, choose a model with Bahdanau's alignment, which has one (padding), or a Transformer, which has three.
"""


def rules(site: AttentionSite, has_stream: bool = True, can_write: bool = True) -> str:
    """What a mask is and does at this kind of attention; `has_stream`: there is a residual stream round it; `can_write`: the
    model writes while the mask holds."""
    if words.is_alignment(site):
        held = "Both texts, by position: row i is the step that reads token i. A changed step changes the states after it."
        then = "the context is all zeros, and the step goes on with its token and its state alone."
    else:
        held = "Every layer and head of that kind of attention, and both texts, by position. "
        held += "" if not can_write else {
            ("encoder", "self"): f"The {site.key_stream} is read once, so writing meets the same mask at every step.",
            ("decoder", "self"): "While writing, a prefix of m tokens meets the top-left m × m part of the mask.",
            ("decoder", "cross"): "While writing, a prefix of m tokens meets the first m rows of the mask.",
        }[site.stack, site.role]
        bias = site.projections["W_O"][1] is not None
        left = [*(["its residual stream"] if has_stream else []), *(["the bias of W_O"] if bias else [])]
        then = f"the heads pass on zeros, and the token goes on with {' and '.join(left) or 'nothing'} alone."
    return _RULES.format(formula=words.formula(site), held=held, then=then)


ALONE = "No second text: the first runs alone, without padding."


def second_help(model: Model) -> str:
    """What a second text is there for."""
    filled = "The shorter of the two is filled up with padding."
    return filled if not model.translates else f"{filled} The {model.writes} of this one is what the model writes for it."


def batch(lengths: Sequence[int], stream: str) -> str:
    """Who is filled up with how much padding in a batch of two texts, which stand on this stream."""
    first, second = lengths
    if first == second:
        return f"Both have {first} tokens: no padding in the {stream}."
    short = "first" if first < second else "second"
    return f"{first} and {second} tokens: the {short} {stream} is filled up with {abs(first - second)} × padding."


def layer(kind: SiteKind, name: str) -> str:
    """A mask layer by its name on this page: padding is told apart by whose it is, and j ≤ i between two texts by what it is."""
    if name == PADDING:
        return "cross padding" if _is_between_texts(kind) else f"{kind.key_stream} padding"
    between = {LOOK_AHEAD: "places up to its own", "only the previous": "only the place before"}
    return between.get(name, name) if _is_between_texts(kind) else name


def _is_between_texts(kind: SiteKind) -> bool:
    return kind.query_stream != kind.key_stream


def reason(kind: SiteKind, name: str) -> str:
    """Why this layer blocks a cell of this kind of attention, to follow the layer's name."""
    if _is_between_texts(kind) and (explanation := _between_texts(kind, name)):
        return explanation
    if name.startswith("window"):
        return "the key is further away than that"
    if name.startswith("blocks"):
        return "the key lies in another block"
    return {
        PADDING: "the key only fills the shorter text up; there is nothing to read",
        LOOK_AHEAD: "the key comes after the query" + "; while writing, it does not exist yet" * hides_the_future(kind),
        "only the previous": "the key is not the one just before the query",
        ORDER: "the key does not come before the query in the order" + "; its own token does not either" * (kind.role == "query"),
        DRAWN: "you forbade it",
    }.get(name, "")


def _between_texts(kind: SiteKind, name: str) -> str:
    """The same where query and key stand in two texts, whose places are only counted alike; empty where nothing differs."""
    key, query = kind.key_stream, kind.query_stream
    if name.startswith("window"):
        return f"its place in the {key} is further than that from the query's place in the {query}"
    if name.startswith("blocks"):
        return f"its place in the {key} lies in another block than the query's in the {query}"
    return {
        LOOK_AHEAD: f"its place in the {key} is after the query's in the {query}",
        "only the previous": f"its place in the {key} is not the one before the query's in the {query}",
    }.get(name, "")


def ready_label(kind: SiteKind, name: str, own: str) -> str:
    """A ready-made mask, in the list to choose from. Between two texts there is no before and after, only places."""
    if _is_between_texts(kind):
        key = kind.key_stream
        label = {
            "none": "none: read everything", "causal": f"{key} places up to its own",
            "window": f"{key} places at most k from its own", "previous": f"only the {key} place before its own",
            "block-diagonal": f"own block of k {key} places",
        }[name]
    else:
        label = {
            "none": "none: read everything", "causal": "causal: itself and before",
            "window": "window: at most k back" if hides_the_future(kind) else "window: at most k away",
            "previous": "only the previous token", "block-diagonal": "block-diagonal: own k tokens",
        }[name]
        label += ", none ahead" * (hides_the_future(kind) and name == "block-diagonal")
    return f"{label} (own)" if name == own else label


def site_label(site: AttentionSite) -> str:
    """An attention site in a list."""
    if words.is_alignment(site):
        return "Alignment"
    return f"{site.stack.capitalize()} {site.layer + 1}, {site.role}"


def changed(changes: Edits, names: Mapping[SiteKind, str]) -> str:
    """What has been changed, in one line; `names` are those of the kinds there are."""
    parts = [f"{name}: {said}" for kind, name in names.items() if (said := _change(kind, changes.of(kind.name)))]
    return "Changed. " + "; ".join(parts) + "." if parts else "Nothing is changed yet: before and after are the same."


def _change(kind: SiteKind, change: MaskChange) -> str:
    parts = [f"{layer(kind, name)} lifted" for name in change.lifted]
    parts += [layer(kind, change.ready_name)] if change.ready != "none" else []
    for cells, what in ((change.forbidden, "forbidden"), (change.opened, "allowed")):
        parts += [f"{len(cells)} cell{'s' * (len(cells) != 1)} {what}"] if cells else []
    return ", ".join(parts)


def outside(name: str, change: MaskChange, n_query: int, n_key: int) -> str:
    """How many painted cells the present texts clip off; empty if none."""
    n = sum(q >= n_query or k >= n_key for q, k in (*change.forbidden, *change.opened))
    said = "1 painted cell lies" if n == 1 else f"{n} painted cells lie"
    return f"{name}: {said} beyond these texts, clipped off until they grow." if n else ""


def empty_rows(site: AttentionSite, name: str, tokens: Sequence[str]) -> str:
    """Which of these query tokens may read nothing, and what the model does then; empty if none."""
    open_rows = site.allowed().any(-1).tolist()
    blocked = [token for token, is_open in zip(tokens, open_rows, strict=False) if not is_open]
    if not blocked:
        return ""
    others = f" and {len(blocked) - 1} more" if len(blocked) > 1 else ""
    passes_on = "the context is" if words.is_alignment(site) else "the heads pass on"
    return (
        f"{name}: the whole row of “{blocked[0]}”{others} is blocked. The model then reads nothing there: "
        f"weights 0, not NaN; {passes_on} zeros."
    )


def story(
    before: MaskedRun, after: MaskedRun, changes: Edits, names: Mapping[SiteKind, str], effect: str, notes: list[str]
) -> list[str]:
    """What was changed and what came of it: what is written, what is said of the given text, what else to know."""
    output, same = first_output(before.trace), (after.output, after.output_ids) == (before.output, before.output_ids)
    writes = "answers"
    if isinstance(output, NextToken):
        writes = "writes" if output.is_closed else "goes on with"
    wrote = f"Under these masks the model {writes}: {after.output or 'nothing'}"
    wrote += " (as before)." if same else f" (before: {before.output or 'nothing'})."
    compared = [wrote, cheat(before, after, changes, names)] if after.output is not None else ["", ""]
    lines = [changed(changes, names), compared[0], effect, compared[1], *notes]
    return [line for line in lines if line]


NOTHING_HIDDEN = (
    "No token is hidden, and there is no second text: nothing can be likelier or less likely. Hide a token on the page Task, or "
    "type [MASK]."
)


def effect(given: Told, trace: Trace) -> str:
    """What the change did to what is told of both runs, of which `trace` is the first, in nats; where that is nothing, how to have
    something."""
    if not given.labels:
        return NOTHING_HIDDEN if any(isinstance(output, MaskedToken) for output in trace.outputs.values()) else ""
    before, after = given.sums
    change = after - before
    said = f"{nats(abs(change))} nats {'more likely' if change > 0 else 'less likely'}"
    if abs(change) < 0.0005:
        said = "as before" if change == 0 else "less than 0.001 apart"
    text = trace.streams[given.what].text if given.what in trace.streams else ", ".join(label.text for label in given.labels)
    plural = "s" * (given.what == "hidden token" and len(given.labels) > 1)
    return f"Log-probability of the {given.what}{plural} “{_short(text)}”: {nats(before)} → {nats(after)} nats, {said}."


def cheat(before: MaskedRun, after: MaskedRun, changes: Edits, kinds: Iterable[SiteKind]) -> str:
    """When the decoder may see ahead: did that help with the given text, and what does it write; else empty."""
    ahead = [kind.query_stream for kind in kinds if hides_the_future(kind) and changes.opens_ahead(kind.name)]
    if not ahead:
        return ""
    given = f"given {ahead[0]}"
    old, new = (-run.log_prob / len(run.labels) for run in (before, after))
    loss = f"{old:.3f} → {new:.3f} nats a token"
    if abs(new - old) < 0.0005:
        found = f"That makes no difference to the loss on the {given} ({loss})."
    elif new < old:
        found = f"The loss on the {given} falls ({loss}): what lies ahead helps this model with what it should guess."
    else:
        found = (
            f"One might expect a lower loss on the {given}; it rises ({loss}): trained with the mask, this model has "
            "not learned to use what lies ahead."
        )
    comes_out = "stays the same here" if after.output_ids == before.output_ids else "comes out differently"
    return (
        f"The decoder may look ahead. {found} Writing, there is nothing ahead to read, yet each new token changes what "
        f"earlier ones see: the text {comes_out}."
    )


def nats(value: float) -> str:
    """A number of nats with a true minus sign, three decimals below 1."""
    return "0.000" if abs(value) < 0.0005 else f"{value:.{3 if abs(value) < 1 else 2}f}".replace("-", "−")


def _short(text: str, limit: int = 60) -> str:
    return text if len(text) <= limit else f"{text[: limit // 2]} … {text[-limit // 2 :]}"
