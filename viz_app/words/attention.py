"""Titles, axis names and explanations of attention, with layers and heads counted from 1."""

import re
from collections.abc import Mapping

from torch import Tensor

from models.analysis.joined_words import WordSite
from models.layers.masks import ORDER_MASK
from models.layers.similarity import CAPPED, DOT_TIMES
from models.trace import AttentionSite
from viz_app.words.allowed import add_up, has_own_mask, may_read
from viz_app.words.terms import Terms

STEP_AXIS = "read → written"  # the naming of rows on a stream that the model writes
WORD_STEP = "word read → token written after it"
# the caption of pictures and files that join sub-words to words
JOINED = "sub-words merged into words: a row is the mean over the word's tokens, a column the sum over them"


def is_alignment(site: AttentionSite) -> bool:
    """Return True if this is an RNN's alignment: one head, without W_Q, W_K, W_V and W_O."""
    return site.role == "alignment"


def kind_title(site: AttentionSite) -> str:
    """Return the title of this kind of attention, as its model declares it."""
    return site.site_kind.title


def kind_short(site: AttentionSite) -> str:
    """Return the short title of this kind of attention, for narrow places."""
    return site.site_kind.short


def kind_subtitle(site: AttentionSite, t: Terms) -> str:
    """Return the streams of queries and keys: "the translation so far → itself"."""
    query, key = t.of(site.query_stream), t.of(site.key_stream)
    return f"{query.text} → {'itself' if site.query_stream == site.key_stream else key.text}"


def layer_place(site: AttentionSite) -> str:
    """Return the stack and layer of a site for display, counted from 1: "Decoder layer 2".

    A role of the model's own replaces the stack: "Query stream, layer 2".
    """
    side = site.site_kind.side
    if is_alignment(site):
        return f"{side}, alignment"
    numbered = any(part.isdigit() for part in site.name.split("."))
    if site.role not in ("self", "cross"):
        return layer_location(site) if numbered else kind_title(site)
    return f"{side} layer {site.layer + 1}" if numbered else f"{side}, {kind_title(site).lower()}"


def call_number(site: AttentionSite) -> str:
    """Return " (2)" for the second attention that one module computes; "" for the first."""
    numbered = re.search(r" \(\d+\)$", site.name)
    return numbered[0] if numbered else ""


def head_place(site: AttentionSite, head: int) -> str:
    """Return the stack, layer and head for display, counted from 1: "Decoder layer 2, head 3"."""
    return layer_place(site) if is_alignment(site) else f"{layer_place(site)}, head {head + 1}"


def layer_location(site: AttentionSite) -> str:
    """Return the kind of attention and the layer, counted from 1: "Cross-attention, layer 3"."""
    return f"{kind_title(site)}, layer {site.layer + 1}"


def head_location(site: AttentionSite, head: int) -> str:
    """Return the kind of attention, the layer and the head, counted from 1."""
    layer = layer_location(site)
    return layer if site.n_heads == 1 else f"{layer}, head {head + 1}"


def head_title(site: AttentionSite, head: int, t: Terms) -> str:
    """Return the title of one head's picture."""
    query, key = t.of(site.query_stream), t.of(site.key_stream)
    query_token = (
        query.token.replace("token", "word") if isinstance(site, WordSite) else query.token
    )
    return f"{head_place(site, head)}: what each {query_token} attends to in {key.text}"


def axes(site: AttentionSite, t: Terms, writes: bool = False) -> tuple[str, str]:
    """Return the titles of the query axis and of the key axis.

    `writes` is True if each row is named by the token it reads and the token it writes.
    """
    query, key = t.of(site.query_stream), t.of(site.key_stream)
    return (
        f"query (rows): {query.text}{f', {_step(site)}' * writes}",
        f"key (columns): {key.text}",
    )


def axis_names(site: AttentionSite, writes: bool) -> str:
    """Return a short description of rows and columns, for places too narrow for the axis titles."""
    return f"Rows: query{f' ({_step(site)})' * writes}, columns: key"


def _step(site: AttentionSite) -> str:
    return WORD_STEP if isinstance(site, WordSite) else STEP_AXIS


_ALIGNMENT = (
    "Queries are the decoder's state **s(i−1)** before a step. Keys and values are both the encoder's states **h(j)**, "
    "one for each {}. The step then reads their mixture, the context c(i). The row of a token is the step that reads it "
    "and predicts the next. Its query is made before that token is read, from the tokens above it alone."
)


def where_from(site: AttentionSite, t: Terms) -> str:
    """Return, in Markdown, where this kind's queries, keys and values come from."""
    if isinstance(site, WordSite):
        return where_from(site.of, t)
    if not site.has_causes:
        return (
            "Only the weights of this attention are known, not the queries, keys and values that they come from: "
            f"{site.why_given}."
        )
    query, key = t.of(site.query_stream), t.of(site.key_stream)
    if is_alignment(site):
        return _ALIGNMENT.format(key.token)
    if (site.stack, site.role) == ("decoder", "cross"):
        return (
            f"Queries **Q** come from {query.text} (the decoder). The keys **K** and values **V** come from {key.text}"
            " (as it leaves the encoder). This is where the two texts meet."
        )
    if site.role == "query":
        return _of_query_stream(site, query.token, key.text)
    if site.site_kind.between_streams:
        return f"Queries **Q** come from {query.text}. The keys **K** and values **V** come from {key.text}."
    all_from_query = f"Queries **Q**, keys **K** and values **V** all come from {query.text}"
    follows_order = any(layer.name == ORDER_MASK for layer in site.mask.layers)
    if site.role == "content" and follows_order and has_own_mask(site):
        return (
            f"{all_from_query}, its content stream. Each {query.token} may attend to itself and to what comes "
            "before it in the order."
        )
    return all_from_query + may_read(site, query.token)


def _of_query_stream(site: AttentionSite, query_token: str, content: str) -> str:
    """Return where queries, keys and values of a query stream come from."""
    origin = (
        "Queries **Q** come from the query stream, which knows its position but not the token there. The keys "
        f"**K** and values **V** come from the content stream of {content}"
    )
    read = ". The query stream attends to what comes before it in the order."
    if not has_own_mask(site):
        read = may_read(site, query_token)
    return origin + read + " Its last state predicts the token at its own position."


def formula(site: AttentionSite) -> str:
    """Return the score as a formula: similarity, its learned numbers, and added terms."""
    if is_alignment(site):
        return "v·tanh(W s(i−1) + U h(j))"
    learned = site.similarity.learned
    content = {
        "scaled dot": f"q·k / √{site.d_head}",
        "cosine": f"{float(learned['log_t'].exp()):.3g} · cos(q, k)" if "log_t" in learned else "",
        DOT_TIMES: f"{float(learned['s']):.3g} · q·k" if "s" in learned else "",
        CAPPED: _capped(learned) if "c" in learned else "",
    }.get(site.similarity.name) or site.similarity.formula
    return " + ".join([content, *(term.name for term in site.terms)])


def _capped(learned: Mapping[str, Tensor]) -> str:
    scale, cap = float(learned["s"]), float(learned["c"])
    return f"{cap:.3g} · tanh({scale:.3g} · q·k / {cap:.3g})"


_SIGNS = {"·": r"\cdot ", "tanh": r"\tanh", "cos": r"\cos", "s(i−1)": "s_{i-1}", "h(j)": "h_j"}


def formula_tex(site: AttentionSite) -> str:
    """Return `formula` as TeX for KaTeX."""
    plain, *terms = formula(site).rsplit(" + ", len(site.terms)) if site.terms else [formula(site)]
    for sign, tex in _SIGNS.items():
        plain = plain.replace(sign, tex)
    if fraction := re.fullmatch(r"(.+) / √(\d+)", plain):
        plain = rf"\frac{{{fraction[1]}}}{{\sqrt{{{fraction[2]}}}}}"
    return " + ".join([plain, *(rf"\text{{{name}}}" for name in terms)])


_MIXTURE_PARTS = ("value_weights", "head_out")


def edits_mixture(site: AttentionSite) -> bool:
    """Return True if an edit may change what a head makes of its weights and values."""
    return any(edit.changes(part) for edit in site.edits for part in _MIXTURE_PARTS)


def how_to_read(site: AttentionSite, writes: bool = False) -> str:
    """Return, in Markdown, how one row of the picture is computed; `writes` as in `axes`."""
    row_names = ' "A → B": the model has just read A and is about to predict B.' if writes else ""
    if isinstance(site, WordSite):
        return _how_to_read_words(site, writes)
    shares = (
        f"Each row is a query.{row_names} Its weights are the shares of its attention. None is negative, and together "
        f"they add {add_up(site)}"
    )
    if not site.has_causes:
        return f"{shares}."
    output = (
        r"The context is that mixture of the states, $\sum_j \text{weight}_j\, h_j$"
        if is_alignment(site)
        else r"The head then passes on that mixture of the values, $\text{weights}\cdot V$"
    )
    output += ", unless an edit changes it" * edits_mixture(site)
    edited = ", unless an edit sets them" if site.edits_weights else ""
    return (
        rf"{shares}. They are $\mathrm{{softmax}}\left({formula_tex(site)}\right)$ over the keys that the row may "
        rf"attend to{edited}. {output}."
    )


def _how_to_read_words(site: WordSite, writes: bool) -> str:
    row_names = (
        ' "A → B": the model has read the word A and predicts the first token B after it.'
        if writes
        else ""
    )
    edited = ", unless an edit sets them" * site.of.edits_weights
    softmax = (
        rf" The tokens' weights are $\mathrm{{softmax}}\left({formula_tex(site)}\right)$ over the keys that a token may "
        f"read{edited}."
        if site.of.has_causes
        else ""
    )
    return (
        "Each row is a word, the mean of its tokens' rows. Each column is a word, the sum of its tokens' columns."
        f"{row_names} So none is negative, and each row still adds {add_up(site)}. The tokenizer decides which tokens "
        f"form a word; special tokens remain alone.{softmax}"
    )


def departures(config: object) -> str:
    """Return how our RNN with alignment departs from its paper, in Markdown; "" for others."""
    if getattr(config, "attention", "") != "bahdanau":
        return ""
    start = (
        r"both ends of the encoder, $s_0 = \tanh(W[\overrightarrow{h}_m; \overleftarrow{h}_1] + b)$; the paper takes "
        r"$\overleftarrow{h}_1$ alone"
        if config.bidirectional
        else r"the end of its one reading, $s_0 = \tanh(W h_m + b)$; the paper reads backwards too and takes $\overleftarrow{h}_1$"
    )
    cell = (
        "Its GRU lets the reset gate act on $U s_{i-1}$; the paper's on $s_{i-1}$"
        if config.cell == "gru"
        else "Its cell is a plain tanh; the paper's has gates"
    )
    return (
        f"**Where this model differs from the paper** (Bahdanau et al. 2015, A.2.2). It starts from {start}. It "
        r"predicts the next token from $\tanh(W[s_i; y_{i-1}; c_i] + b)$; the paper from a maxout layer of $s_{i-1}$, $y_{i-1}$ "
        f"and $c_i$. {cell}. One matrix embeds source and target and gives the logits; the paper has a matrix for each."
    )
