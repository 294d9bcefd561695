"""The section Added or concatenated: a token's and its position's vector, with the first W_Q."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from models.analysis.position_measures import Concatenated, add_or_concatenate
from models.architectures import Model
from models.architectures.base import BY_SCORES
from models.layers.positions import sinusoidal
from models.trace import AttentionSite
from viz_app import ui, words
from viz_app.controls import pick
from viz_app.controls.which_head import head_row, which_head
from viz_app.drawing.extent import Scaled
from viz_app.drawing.labels import Label, labels, number_labels
from viz_app.drawing.notes import check_rows
from viz_app.drawing.provenance import file_name
from viz_app.drawing.stamp import caption, of_model
from viz_app.session import url_state
from viz_app.session.current_run import CurrentRun
from viz_app.session.focus import chosen_focus
from viz_app.session.live import Pictures
from viz_app.session.parameters import Whole
from viz_app.views.page import Columns, File, Foot, PageCell, Plot, View
from viz_app.views.positions import charts, claims, files
from viz_app.views.positions.text import NO_TABLE_REASONS, RECURRENT
from viz_app.views.run_difference import LEARNED_APART, Quantity

ADDED_TOKEN = Whole("positions-token", 0)


POSITIONS_NOT_ADDED = RECURRENT + (
    "So there is nothing to add and nothing to concatenate. Open **eng-fra** or **bert** to see how a position vector "
    "is added to a token's."
)
RELATIVE_ONLY = (
    "**This model adds no position vector to a token.** The distance between two tokens is a term of their score; the page"
    " **Inside a head** shows it. Open **eng-fra** or **bert** to see how a position vector is added."
)
_UNKNOWN = (
    "**This section is not shown for this model**: {}. Open **eng-fra** or **bert** to see how a position vector is "
    "added to a token's."
)
_NO_SUM = "it is not known that its first W reads only the sum of token and position"
NOT_ATTENDED = (
    "**In this model the tokens of the text do not attend to each other**, so no W_Q reads both. "
    "Open **eng-fra** or **bert**."
)


@dataclass(frozen=True)
class AddingChoices:
    """The head whose queries are drawn, and the position of the token, from 0."""

    head: int
    token: int


@dataclass(frozen=True)
class Sum:
    """Token vectors x and position vectors p of a run, with W_Q and its bias.

    They are joined in both ways: (x + p)·W beside [x; p]·[W; W].
    """

    x: Tensor
    p: Tensor
    weight: Tensor
    bias: Tensor
    both: Concatenated


def find_adding(run: CurrentRun) -> View[AddingChoices] | str:
    """Return the view of a model whose first attention reads the sum, or why there is none."""
    model, trace = run.scope.model, run.trace
    summed = {f"{model.stack}.{name}" for name in ("embedding", "position")}
    are_added = _first(run) in trace.attention and summed <= set(trace.activations)
    if not model.is_recurrent and are_added:
        return ADDING_VIEW
    reads = model.fields[0].stream
    attends = any(s.query_stream == s.key_stream == reads for s in trace.attention.values())
    return not_added(model, attends or bool(trace.unrecorded))


def _first(run: CurrentRun) -> str:
    return f"{run.scope.model.stack}.layers.0.self_attn"


def _site(run: CurrentRun) -> AttentionSite:
    return run.trace.attention[_first(run)]


def _tokens(run: CurrentRun) -> list[str]:
    return [label.text for label in labels(run.trace.streams[run.scope.model.fields[0].stream])]


def _choose(run: CurrentRun) -> AddingChoices:
    tokens, site = _tokens(run), _site(run)
    head = min(chosen_focus(run.trace)[1].head, site.n_heads - 1)
    chosen, names = min(url_state.get(ADDED_TOKEN), len(tokens) - 1), number_labels(tokens)
    with head_row():
        which_head({site.kind: [site]}, site, head)
        places = range(len(tokens))
        token = pick.one_of_many("Token", ADDED_TOKEN, places, chosen, names.__getitem__, width=320)
    return AddingChoices(head, token)


def _within(choices: AddingChoices, run: CurrentRun, other: CurrentRun) -> AddingChoices:
    head, token = _site(other).n_heads - 1, len(_tokens(other)) - 1
    return replace(choices, head=min(choices.head, head), token=min(choices.token, token))


def _sum(run: CurrentRun) -> Sum:
    """Return the embeddings and positions of the text, as the model adds them.

    A model without positions gets the paper's.
    """
    stack = run.scope.model.stack
    x, p = (run.trace.activations[f"{stack}.{name}"].value[0] for name in ("embedding", "position"))
    p = p if run.scope.config.positions != "none" else sinusoidal(*x.shape)
    weight, bias = _site(run).projections["W_Q"]
    return Sum(x, p, weight, bias, add_or_concatenate(x, p, weight.T))


def _payloads(run: CurrentRun, choices: AddingChoices) -> Pictures:
    """Make the pictures of one token's vectors: the sum, and what W_Q makes of it for one head."""
    config, look, token = run.scope.config, ui.page_look(), choices.token
    parts, site, text = _sum(run), _site(run), _tokens(run)[token]
    sums = {
        "token x": parts.x,
        f"position p({token})": parts.p,
        "x + p": parts.x + parts.p,
        "[x; p]·[I; I]": parts.both.folded,
    }
    # the columns of W_Q that make this head's queries
    columns = slice(choices.head * site.d_head, (choices.head + 1) * site.d_head)
    products = {
        "(x + p)·W": parts.both.added[:, columns],
        "[x; p]·[W; W]": parts.both.concatenated[:, columns],
    }
    title_of_products = products_title(config, words.head_place(site, choices.head))
    title = f"“{text}” at position {token}: its vector, the position's, and their sum"
    note = caption(of_model(run.trace, run.scope.model.fields[0].name))

    def strips(rows: dict[str, Tensor], title: str, axis: str) -> Scaled:
        rows = {name: vectors[token] for name, vectors in rows.items()}
        return charts.scaled_strips(rows, look, title, axis, note)

    checks = claims.adding(parts.both, parts.x + parts.p)
    if config.positions != "none" and run.scope.model.first_reads_sum:
        checks.append(claims.queries(parts.both, parts.bias, site.q[0]))
    return {
        "positions-sum": strips(sums, title, "dimension"),
        "positions-product": strips(products, title_of_products, "dimension of the query"),
        "checks": check_rows(checks),
    }


def _quantities(run: CurrentRun, choices: AddingChoices) -> list[Quantity]:
    """Return a token's vector and, if the model adds them, its position's vector and their sum."""
    parts, at = _sum(run), choices.token
    name, vectors = f"the vectors at position {at}", {"token x": parts.x[at]}
    if run.scope.config.positions == "none":
        name = f"the token vector at position {at}, to which no position is added"
    else:
        vectors |= {"position p": parts.p[at], "x + p": (parts.x + parts.p)[at]}
    return [
        Quantity(
            name,
            "value",
            torch.stack(list(vectors.values())),
            [Label(name) for name in vectors],
            "vector",
            weights=run.unchanged.scope.fingerprint,
            note=LEARNED_APART,
            file=f"added.token{at + 1}",
            about=of_model(run.trace, run.scope.model.fields[0].name),
        )
    ]


def _layout(run: CurrentRun, choices: AddingChoices, pictures: Pictures) -> Sequence[PageCell]:
    file = file_name(run.trace, "added")
    sums, products = (Plot(f"positions-{key}", f"{file}.{key}") for key in ("sum", "product"))
    return [Columns((1, 1), ([sums], [products]), ("Vectors", "Products")), Foot((1, 1))]


def _text(run: CurrentRun, choices: AddingChoices) -> str:
    parts = _sum(run)
    return explain_adding(parts.x, parts.p, run.scope.config.positions)


def products_title(config: object, head: str) -> str:
    """Title the products of both with W_Q of this head, and say if they are the model's own."""
    of_head = words.lower_first(head)
    title = f"Both through W_Q of {of_head}, without its bias: the same numbers"
    if config.positions == "none":
        return f"{title} (this model itself adds no p)"
    return (
        f"{title} (in this model LayerNorm comes between)"
        if getattr(config, "norm", "post") == "pre"
        else title
    )


def explain_adding(x: Tensor, p: Tensor, kind: str) -> str:
    """Explain adding as a projection of concatenating, for vectors of these sizes."""
    d = x.shape[1]
    lent = (
        " This model adds no positions; p here is the paper's table, which it does not use."
        if kind == "none"
        else ""
    )
    return (
        f"**Adding is concatenating, then projecting.** Write x and p one after the other, {2 * d} numbers. "
        f"Multiply them by [I; I], two unit matrices one above the other: that gives x + p, {d} numbers. So whatever W "
        "follows,\n\n"
        r"$$\begin{bmatrix}x & p\end{bmatrix}\begin{bmatrix}W\\W\end{bmatrix}=(x+p)\,W.$$"
        "\n\nConcatenating could do a little more, with a matrix of its own for p below W. That costs "
        f"{d} × {d} more weights in each projection. Adding shares one matrix; keeping the two apart is left to "
        f"training. Here token vectors have a length of {float(x.norm(dim=1).mean()):.2f} on average and position vectors "
        f"{float(p.norm(dim=1).mean()):.2f}.{lent}"
    )


def not_added(model: Model, attends: bool) -> str:
    """Explain why no sum of token and position is shown.

    `attends` is True where tokens of the text may attend to each other.
    """
    if model.is_recurrent:
        return POSITIONS_NOT_ADDED
    if model.order_source == BY_SCORES:
        return RELATIVE_ONLY
    if not attends:
        return NOT_ATTENDED
    has_table = model.positions is not None
    return _UNKNOWN.format(_NO_SUM if has_table else f"it {NO_TABLE_REASONS[model.order_source]}")


def _files(run: CurrentRun, choices: AddingChoices) -> Sequence[File]:
    def numbers(now: CurrentRun) -> bytes:
        parts = _sum(now)
        added = {"added": parts.both.added, "concatenated": parts.both.concatenated}
        return files.tensors_npz({"x": parts.x, "p": parts.p, "W": parts.weight.T, **added})

    return [File("x, p, W and both products, npz", numbers, f"{file_name(run.trace, 'added')}.npz")]


ADDING_VIEW = View(
    _payloads,
    _layout,
    choose=_choose,
    within=_within,
    text=_text,
    files=_files,
    is_live=lambda choices: False,
    quantities=_quantities,
)
