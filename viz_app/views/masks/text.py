"""The wording of the page Masks: layers, reasons, ready-made masks, and changes."""

from collections.abc import Mapping, Sequence

from models.architectures import Model
from models.layers.masks import DRAWN, LOOK_AHEAD, ORDER_MASK, PADDING, SiteKind
from models.trace import AttentionSite
from models.trace.edits import Edits, MaskChange, mask_change
from viz_app import words

MASKS_QUESTION = "Masks: which tokens may attend to which, and what if we change that?"
MASKS_ANSWER = "Hatched cells are blocked. Click or drag cells, and the model runs again at once."

_RULES = """
**Two forms of one mask.** Boolean: True where a query may attend to a key. Additive: 0 there and −∞ elsewhere, added to
the scores: $\\mathrm{{softmax}}({formula} + M)$. Since $e^{{-\\infty}} = 0$, a blocked cell gets the weight 0 exactly.

**Where a change applies.** {held}

**If you {edit},** painted cells keep their positions. Those beyond the new size are clipped off and come back
if it grows again. New cells follow the other layers.

**If a whole row is blocked,** its query attends to nothing. All its weights are 0 (not NaN). {then}
"""

MASKS_FIXED = (
    "**The masks of this model cannot be changed.** For some of its attentions only finished weights are known, computed where "
    "this app cannot intervene. The page Attention shows them."
)
LONG_TEXT = (
    "A text this long is not drawn, because that would need a cell for every weight. The files hold the weights of the "
    "head shown."
)
RECURRENCE_HAS_NO_MASK = """
**A recurrence has no mask.** A mask defines which tokens may attend to which; this model has no attention. Its order
does what masks do elsewhere. Its decoder makes the state s(i) from s(i−1) and the token before. So nothing later
can reach it, and no look-ahead mask is needed. Padding does not reach it either. Reading stops at the end of a
text, and the last state h(m) goes to the decoder.

To paint on a mask, choose a model with Bahdanau's alignment (one mask, padding) or a Transformer (three masks).
"""


def rules(
    site: AttentionSite,
    has_stream: bool | None = True,
    can_write: bool = True,
    mask_note: str = "",
    file: str = "",
) -> str:
    """Explain masks for this kind of attention, in Markdown.

    `has_stream` is True if there is a residual stream around it, None if unknown; `can_write` if
    the model generates under the mask; `mask_note` names the layer and the head that are drawn
    where masks differ by them; `file` is what the model reads alone, such as "image", "" if it
    reads a text.
    """
    if words.is_alignment(site):
        scope = "Both texts, by position: row i is the step that reads token i. A changed step changes the states after it."
        consequence = (
            "The context is all zeros, and the step continues with its token and its state alone."
        )
    else:
        both = "" if file else ", and both texts"
        scope = f"Every layer and head of that kind of attention{both}, by position. "
        scope += _while_writing(site) if can_write else ""
        unknown = "W_O" not in site.projections  # of a model whose heads are not walked
        bias = (
            ["the bias of W_O, if it has one,"]
            if unknown
            else ["the bias of W_O"] * (site.projections["W_O"][1] is not None)
        )
        stream = {
            True: ["its residual stream"],
            False: [],
            None: ["its residual stream, if it has one,"],
        }
        remaining = [*stream[has_stream], *bias]
        consequence = f"The heads pass on zeros, and the token continues with {' and '.join(remaining) or 'nothing'} alone."
    if mask_note:
        by = " and ".join(part.split()[0] for part in mask_note.split(", "))
        scope += f" The model's own masks differ by {by}: the mask drawn is that of {mask_note}."
    edit = f"choose another {file}" if file else "edit a text"
    return _RULES.format(formula=words.formula_tex(site), held=scope, edit=edit, then=consequence)


def _while_writing(site: AttentionSite) -> str:
    """Return which part of the mask applies while writing; "" for other kinds of attention."""
    if site.stack == "encoder":
        return f"The {site.key_stream} is read once, so the same mask applies at every step of writing."
    return {
        "self": "While writing, the top-left m × m part of the mask applies to a prefix of m tokens.",
        "cross": "While writing, the first m rows of the mask apply to a prefix of m tokens.",
    }.get(site.role, "")


NO_SECOND_TEXT = "No second text: the first runs alone, without padding."
FILE_ALONE = "The {} runs alone, without padding."
PADDED_SOUND = "The sound runs alone. The model also attends to the padding after it."


def second_help(model: Model) -> str:
    """Return the help text of the second text box."""
    filled = "The shorter of the two is padded to the length of the longer."
    return filled if not model.translates else f"{filled} The model writes its {model.writes}."


def batch(lengths: Sequence[int], stream: str) -> str:
    """Describe the padding in a batch of two texts; `stream` is what their tokens are."""
    first, second = lengths
    if first == second:
        return f"Both have {first} tokens: no padding in the {stream}."
    short = "first" if first < second else "second"
    n = abs(first - second)
    return (
        f"Text 1 has {first} tokens, text 2 has {second}: the {short} {stream} gets {n} padding token"
        f"{'s' * (n != 1)}."
    )


def mask_layer_name(kind: SiteKind, name: str) -> str:
    """Return the display name of a mask layer, by the kind of attention.

    Padding is named by its stream, j ≤ i between two texts by positions.
    """
    if name == PADDING:
        return "cross padding" if kind.between_streams else f"{kind.key_stream} padding"
    between = {
        LOOK_AHEAD: "positions up to its own",
        "only the previous": "only the position before",
    }
    return between.get(name, name) if kind.between_streams else name


def reason(kind: SiteKind, name: str, is_written: bool) -> str:
    """Return why this layer blocks a cell, to follow the layer's name.

    `is_written` is True if the model generates the stream of the queries.
    """
    if kind.between_streams and (explanation := _between_texts(kind, name)):
        return explanation
    if name.startswith("window"):
        return "the key is further away than the window"
    if name.startswith("blocks"):
        return "the key lies in another block"
    return {
        PADDING: "this key only pads the shorter text; there is nothing to attend to",
        LOOK_AHEAD: "the key comes after the query"
        + "; while a decoder writes, it does not exist yet" * (kind.is_causal and is_written),
        "only the previous": "the key is not the one just before the query",
        ORDER_MASK: "the key does not come before the query in the order"
        + "; its own token does not either" * (kind.role == "query"),
        DRAWN: "you blocked it",
    }.get(name, "")


def _between_texts(kind: SiteKind, name: str) -> str:
    """Return the reason where query and key are in different texts; "" if it is the usual one."""
    key, query = kind.key_stream, kind.query_stream
    if name.startswith("window"):
        return f"its position in the {key} is further than that from the query's position in the {query}"
    if name.startswith("blocks"):
        return f"its position in the {key} is in another block than the query's in the {query}"
    return {
        LOOK_AHEAD: f"its position in the {key} is after the query's in the {query}",
        "only the previous": f"its position in the {key} is not the one before the query's in the {query}",
    }.get(name, "")


def ready_label(kind: SiteKind, name: str, model_preset: str, layers: Sequence[str] = ()) -> str:
    """Return the menu label of a ready-made mask.

    `model_preset` is the name of the model's own mask, which consists of these `layers`. Between
    two texts, positions replace before and after.
    """
    if kind.between_streams:
        key = kind.key_stream
        label = {
            "none": "none: attends to everything",
            "causal": f"{key} positions up to its own",
            "window": f"{key} positions at most k from its own",
            "previous": f"only the {key} position before its own",
            "block-diagonal": f"own block of k {key} positions",
        }[name]
    else:
        label = {
            "none": "none: attends to everything",
            "causal": "causal: itself and earlier tokens",
            "window": "window: at most k back" if kind.is_causal else "window: at most k away",
            "previous": "only the previous token",
            "block-diagonal": "block-diagonal: own k tokens",
        }[name]
        label += ", none ahead" * (kind.is_causal and name == "block-diagonal")
    if name != model_preset:
        return label
    usual = {"none": (PADDING,), "causal": (PADDING, LOOK_AHEAD)}.get(name, (PADDING,))
    more = " and ".join(layer for layer in layers if layer not in usual)
    if name == "none" and more:
        return f"only the {more} (this model's)"
    return f"{label}{f', and {more}' * bool(more)} (this model's)"


def changes_line(changes: Edits, names: Mapping[SiteKind, str]) -> str:
    """Return what has been changed, in one line; `names` maps kinds to their names."""
    parts = [
        f"{name}: {description}"
        for kind, name in names.items()
        if (description := _change(kind, mask_change(changes, kind.name)))
    ]
    return (
        "Changed. " + "; ".join(parts) + "."
        if parts
        else "No mask is changed yet: before and after are the same."
    )


def _change(kind: SiteKind, change: MaskChange) -> str:
    parts = [f"{mask_layer_name(kind, name)} removed" for name in change.removed_layers]
    parts += [mask_layer_name(kind, change.preset_name)] if change.preset != "none" else []
    for cells, what in ((change.block, "forbidden"), (change.allow, "allowed")):
        parts += [f"{len(cells)} cell{'s' * (len(cells) != 1)} {what}"] if cells else []
    return ", ".join(parts)


def painted_outside(name: str, change: MaskChange, n_query: int, n_key: int) -> str:
    """Return how many painted cells lie outside the current texts; "" if none."""
    n = sum(q >= n_query or k >= n_key for q, k in (*change.block, *change.allow))
    lie, apply = (
        ("1 painted cell lies", "applies") if n == 1 else (f"{n} painted cells lie", "apply")
    )
    return f"{name}: {lie} beyond these texts and {apply} once they are long enough." if n else ""


def empty_rows_note(site: AttentionSite, name: str, tokens: Sequence[str], head: int = 0) -> str:
    """Return which query tokens of a head may read nothing, and the effect; "" if none."""
    open_rows = site.allowed(head=head).any(-1).tolist()
    blocked = [token for token, is_open in zip(tokens, open_rows, strict=False) if not is_open]
    if not blocked:
        return ""
    more = f" and {len(blocked) - 1} more" if len(blocked) > 1 else ""
    output = "the context is" if words.is_alignment(site) else "the heads pass on"
    return f"{name}: “{blocked[0]}”{more} may attend to nothing here: all its weights are 0; {output} zeros."
