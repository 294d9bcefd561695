"""The wording of the page Inside a head, except the walk's stages (stages.py, named_terms.py)."""

from models.analysis.head_sum import HeadSum
from models.number_text import decimal
from models.trace import AttentionSite, Trace
from viz_app import words
from viz_app.drawing.labels import Label, quote

CONVENTIONS = {"rows": "A = Q·Kᵀ (a token is a row)", "columns": "A = Kᵀ·Q (a token is a column)"}
_ROWS_OR_COLUMNS = {"rows": "a token is a row", "columns": "a token is a column"}
VIEWS = {
    "walk": "Walk",
    "matrices": "Matrices",
    "scaling": "√dₖ",
    "heads": "Sum of heads",
    "several": "Several heads",
}


FINISHED_WEIGHTS_ONLY = (
    "**Only the finished weights are known here**, not the queries, keys, values or scores behind them: {}. "
    "The page Attention shows the weights; how one of them was computed cannot be shown."
)


def not_walked(trace: Trace) -> str:
    """Return why no head of this run can be explained; "" if one can."""
    sites = list(trace.attention.values())
    if any(site.has_causes for site in sites):
        return ""
    return FINISHED_WEIGHTS_ONLY.format(sites[0].why_given if sites else "there is no attention")


def views_of_site(site: AttentionSite, n_heads: int) -> dict[str, str]:
    """Return the views that this attention has.

    Without a division there is nothing to scale, without W_O nothing to sum, without W_Q, W_K and
    W_V no path from a token to the score, and with a single head nothing to compare.
    """
    walked = words.is_alignment(site) or bool(site.projections)
    lacks = {
        "walk": not walked,
        "matrices": not walked,
        "scaling": site.similarity.name != "scaled dot",
        "heads": words.is_alignment(site) or not walked,
        "several": n_heads == 1 and walked,
    }
    return {view: name for view, name in VIEWS.items() if not lacks.get(view)}


def missing_parts(site: AttentionSite) -> str:
    """Return which parts of this attention cannot be shown, and why; "" if all can."""
    if words.is_alignment(site) or site.projections:
        return ""
    shared = site.n_heads // site.lazy_k.shape[1]
    shares = f" {shared} heads read one key head." if shared > 1 else ""
    return (
        "**No walk from the tokens here.** The query and key were not recognised as x·W + b with a matrix of the "
        f"model. The model may rotate them by position, normalise them, or compute them in an unknown way.{shares} q, k and "
        "v are kept as its attention received them."
    )


def conventions(site: AttentionSite) -> dict[str, str]:
    """Return the two notations of the matrices.

    A is a product of Q and K alone only under the (scaled) dot product.
    """
    return CONVENTIONS if site.similarity.name in ("dot", "scaled dot") else _ROWS_OR_COLUMNS


def token_names(site: AttentionSite, t: words.Terms) -> tuple[str, str]:
    """Return the names of query tokens and key tokens: ("French token", "English token")."""
    return t.of(site.query_stream).token, t.of(site.key_stream).token


def walk_title(
    site: AttentionSite, head: int, t: words.Terms, query: Label, key: Label, weight: float
) -> str:
    """Return the title of the walk: one weight of one head."""
    reader, read = token_names(site, t)
    who, whom = f"the {reader} {quote(query)}", f"the {read} {quote(key)}"
    return (
        f"{words.head_place(site, head)}: how {who} comes to give {weight_share(weight) if weight else 'none'} of its attention"
        f" to {whom}"
    )


def heads_title(site: AttentionSite, t: words.Terms, query: Label) -> str:
    """Return the title of the sum of the heads: one token at one layer."""
    reader, _ = token_names(site, t)
    place, kind = words.layer_place(site), words.kind_title(site).lower()
    return f"{place}{'' if kind in place.lower() else f', {kind}'}: what each head adds to the {reader} {quote(query)}"


def weight_share(weight: float) -> str:
    """Format a weight as a share of the attention: "62 %", "0.3 %", "nothing"."""
    return words.percent(weight) if weight else "nothing"


def explain_view(view: str, site: AttentionSite, t: words.Terms) -> str:
    """Return the explanation of a view in Markdown, in words and then in symbols."""
    return _edited(view, site) + _explained(view, site, t)


def _edited(view: str, site: AttentionSite) -> str:
    """Return what the run's edits change in the attention of a view; "" if nothing."""
    parts = {"weights": "weights", "value_weights": "values", "head_out": "head outputs"}
    changed = [
        name for what, name in parts.items() if any(edit.changes(what) for edit in site.edits)
    ]
    if view == "scaling" and "weights" in changed:
        return "**An edit sets weights of this attention.** Here is the softmax that it replaces. "
    if view == "matrices" and changed:
        return f"**An edit changes {words.join_names(changed)} of this attention**, after the steps written here. "
    return ""


def _explained(view: str, site: AttentionSite, t: words.Terms) -> str:
    explanations = {
        "walk": lambda: f"{words.where_from(site, t)}\n\n{words.how_to_read(site)}",
        "matrices": lambda: _explain_matrices(site),
        "scaling": lambda: _explain_scaling(site.d_head),
        "several": lambda: _SEVERAL,
        "heads": lambda: f"{_added_up(site)} {_HEAD_MEASURES}",
    }
    return explanations[view]()


_SEVERAL = (
    "The number of a head does not tell what it does, but that can be measured. Each column is one "
    "measure of the weights on this text, a mean over its queries. On another text a head may measure "
    "differently. A head that is first on many texts is named after it: a previous-token head, for example. See Clark et al. "
    "(2019) and Voita et al. (2019)."
)
_HEAD_MEASURES = (
    "**Length** tells how much a head adds. The **cosine** with the output tells whether it points the same way as the "
    "sum. The cosine with the stream, if there is one, is above 0 where the head strengthens what is already there."
)


def _explain_matrices(site: AttentionSite) -> str:
    if site.similarity.name != "scaled dot":
        return (
            f"All steps of the walk for all tokens at once: {words.formula(site)} for every pair, softmax, mixture. "
            + (
                "Here every state s(i−1) is shown beside the others. The model had to make them one after the other, "
                "because each needs the context of the step before. "
                if words.is_alignment(site)
                else ""
            )
            + "Rows and columns are two ways to write the same numbers; one is the other transposed."
        )
    and_terms = (
        f" Further terms of each score: {words.join_names([term.name for term in site.terms])}."
        if site.terms
        else ""
    )
    return (
        "All steps of the walk for all tokens at once. One product, $Q K^\\top$, compares every query with every key."
        f"{and_terms} No query has to wait for another, so attention runs in parallel. Papers mostly write a token as a "
        "row, $A = Q K^\\top$ with softmax over each row. Many lecture notes write it as a column, $A = K^\\top Q$ with "
        "softmax over each column. The numbers are the same, transposed."
    )


def _explain_scaling(d: int) -> str:
    return (
        "If the numbers of q and k are independent, with mean 0 and variance 1, $q\\cdot k$ has the "
        f"variance $d_k = {d}$. Dividing by $\\sqrt{{{d}}}$ brings it back to 1 (Vaswani et al. 2017, §3.2.1). **Entropy**, "
        "$-\\sum_j p_j \\ln p_j$, measures how evenly a query spreads its attention, in nats. The **gradient** of softmax is "
        "$\\mathrm{diag}(p) - p\\,p^\\top$. Its size, the Frobenius norm $\\lVert\\cdot\\rVert$, tells how far the weights move "
        "when the scores do. Divided by the divisor, it tells how far they move when $q\\cdot k$ does: that reaches q and k. "
        "The curves take any divisor; the dashed lines mark the model's and 1."
    )


def _added_up(site: AttentionSite) -> str:
    """Explain that concatenating and multiplying is a sum over heads."""
    n_heads = site.n_heads
    has_bias = bool(site.projections) and site.projections["W_O"][1] is not None
    bias = r" + \text{bias}" * has_bias
    if n_heads == 1:
        return (
            f"$b\\,W_O{bias}$: with one head there is one part{', and the bias' if bias else ''}."
        )
    return (
        f"$\\mathrm{{Concat}}(b^1 \\dots b^{{{n_heads}}})\\,W_O{bias} = \\sum_h b^h\\,W_O^h{bias}$: joining "
        f"the {n_heads} results and multiplying by W_O is the same as adding up one part from each head."
    )


def heads_sentence(head_sums: HeadSum, query: Label) -> str:
    """Return which head adds most at this token, and the length of the sum beside the stream's."""
    best = int(head_sums.norms.argmax())
    stream = (
        ""
        if head_sums.residual is None
        else (
            f" It is added to the token's own vector, of length {float(head_sums.residual.norm()):.2f}."
        )
    )
    is_single, has_bias = len(head_sums.norms) == 1, head_sums.bias is not None
    who, total = (
        ("the one head adds", f"{'With the bias that' if has_bias else 'That'} makes")
        if is_single
        else (f"head {best + 1} adds most:", f"All heads{' and the bias' * has_bias} together make")
    )
    return (
        f"At {quote(query)}, {who} a vector of length {float(head_sums.norms[best]):.2f}. {total} one of length "
        f"{float(head_sums.total.norm()):.2f}.{stream}"
    )


def format_number(value: float) -> str:
    """Format a number for a sentence, with a true minus sign."""
    return decimal(float(value), 2)


def hidden_keys_note(n_shown: int, n_keys: int, rest: float) -> str:
    """Note that only some keys are shown; "" if all are."""
    if n_shown == n_keys:
        return ""
    return (
        f"{n_shown} of {n_keys} keys: the strongest, and the chosen one. The others hold "
        f"{weight_share(rest) if rest else 'none'} of the weight. Every sum is over all {n_keys}."
    )
