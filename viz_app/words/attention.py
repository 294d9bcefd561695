"""Titles, axis names and explanations of attention, with layers and heads counted from 1."""

import re
from collections.abc import Mapping

from torch import Tensor

from models.analysis.joined_words import WordSite
from models.layers.masks import ORDER
from models.layers.similarity import CAPPED, TIMES
from models.trace import AttentionSite
from viz_app.words.allowed import add_up, may_read
from viz_app.words.terms import Terms

STEP = "a row is read → written"  # the naming of rows on a stream that the model writes
WORD_STEP = "a row is word read → token written after it"
# the caption of pictures and files that join sub-words to words
JOINED = "sub-words joined to words: a word's row is the mean of its tokens' rows, its column the sum of their columns"


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
    """Return a sentence that names who reads and what is read: "the translation reads itself"."""
    query, key = t.of(site.query_stream), t.of(site.key_stream)
    return f"{query.text} reads {'itself' if site.query_stream == site.key_stream else key.text}"


def layer_place(site: AttentionSite) -> str:
    """Return the stack and layer of a site for display, counted from 1: "Decoder layer 2"."""
    side = site.stack.capitalize()
    if is_alignment(site):
        return f"{side}, alignment"
    numbered = any(part.isdigit() for part in site.name.split("."))
    return f"{side} layer {site.layer + 1}" if numbered else f"{side}, {kind_title(site).lower()}"


def place(site: AttentionSite, head: int) -> str:
    """Return the stack, layer and head for display, counted from 1: "Decoder layer 2, head 3"."""
    return layer_place(site) if is_alignment(site) else f"{layer_place(site)}, head {head + 1}"


def head_title(site: AttentionSite, head: int, t: Terms) -> str:
    """Return the title of one head's picture."""
    query, key = t.of(site.query_stream), t.of(site.key_stream)
    query_token = (
        query.token.replace("token", "word") if isinstance(site, WordSite) else query.token
    )
    return f"{place(site, head)}: what each {query_token} reads from {key.text}"


def axes(site: AttentionSite, t: Terms, writes: bool = False) -> tuple[str, str]:
    """Return the titles of the query axis and of the key axis.

    `writes` is True if each row is named by the token it reads and the token it writes.
    """
    query, key = t.of(site.query_stream), t.of(site.key_stream)
    return (
        f"who reads (query): {query.text}{f', {_step(site)}' * writes}",
        f"what is read (key): {key.text}",
    )


def sides(site: AttentionSite, writes: bool) -> str:
    """Return a short description of rows and columns, for places too narrow for the axis titles."""
    return f"Rows read{f' ({_step(site)})' * writes}, columns are read"


def _step(site: AttentionSite) -> str:
    return WORD_STEP if isinstance(site, WordSite) else STEP


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
        return (
            "Queries are the decoder's state **s(i−1)** before a step; keys and values are both the encoder's states "
            f"**h(j)**, one for each {key.token}. Their mixture, the context c(i), is what the step then reads. A row "
            "stands for the step that reads its token and writes the next: it chooses before it has read that token, when all it "
            "knows of its own text is what stands above."
        )
    if (site.stack, site.role) == ("decoder", "cross"):
        return (
            f"Queries **Q** come from {query.text} (the decoder); keys **K** and values **V** come from {key.text} "
            "(as it leaves the encoder). This is where the two texts meet."
        )
    if site.role == "query":
        return (
            "Queries **Q** come from the query stream, which knows where it stands and not which token stands there; keys **K** "
            f"and values **V** come from the content stream of {key.text}. It may read what comes before it in the order, and "
            "its last state says which token it expects in its own place."
        )
    if site.site_kind.between_streams:
        return f"Queries **Q** come from {query.text}; keys **K** and values **V** come from {key.text}."
    all_from_query = f"Queries **Q**, keys **K** and values **V** all come from {query.text}"
    if site.role == "content" and any(layer.name == ORDER for layer in site.mask.layers):
        return f"{all_from_query}, its content stream: each {query.token} may read itself and what comes before it in the order."
    return all_from_query + may_read(site, query.token)


def formula(site: AttentionSite) -> str:
    """Return the score as a formula: similarity, its learned numbers, and added terms."""
    if is_alignment(site):
        return "v·tanh(W s(i−1) + U h(j))"
    learned = site.similarity.learned
    content = {
        "scaled dot": f"q·k / √{site.d_head}",
        "cosine": f"{float(learned['log_t'].exp()):.3g} · cos(q, k)" if "log_t" in learned else "",
        TIMES: f"{float(learned['s']):.3g} · q·k" if "s" in learned else "",
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


def how_to_read(site: AttentionSite, writes: bool = False) -> str:
    """Return, in Markdown, how one row of the picture is computed; `writes` as in `axes`."""
    row_names = (
        " It is named by the token just read and the one to be written: **read → written**."
        if writes
        else ""
    )
    if isinstance(site, WordSite):
        return _how_to_read_words(site, writes)
    shares = (
        f"Each row is one reader.{row_names} Its weights say how it divides its attention: none is negative and together they add "
        f"{add_up(site)}"
    )
    if not site.has_causes:
        return f"{shares}."
    output = (
        r"the context is that mixture of the states, $\sum_j \text{weight}_j\, h_j$."
        if is_alignment(site)
        else r"the head then passes on that mixture of the values, $\text{weights}\cdot V$."
    )
    return (
        rf"{shares}. They are $\mathrm{{softmax}}\left({formula_tex(site)}\right)$ over the keys the row may read; "
        f"{output}"
    )


def _how_to_read_words(site: WordSite, writes: bool) -> str:
    row_names = (
        " A row is named by the word read and by what the row of its last token writes, the first token behind the word: "
        "**read → written**."
        if writes
        else ""
    )
    softmax = (
        rf" The tokens' weights are $\mathrm{{softmax}}\left({formula_tex(site)}\right)$ over the keys that a token may read."
        if site.of.has_causes
        else ""
    )
    return (
        f"Each row is one word that reads, the mean of its tokens' rows; each column one word that is read, the sum of its tokens' "
        f"columns.{row_names} So none is negative and each row still adds {add_up(site)}. Which tokens are of one word the tokenizer says; "
        f"special tokens stand alone.{softmax}"
    )


def departures(config: object) -> str:
    """Return how our RNN with alignment departs from its paper, in Markdown; "" for others."""
    if getattr(config, "attention", "") != "bahdanau":
        return ""
    start = (
        r"both of the encoder's ends, $s_0 = \tanh(W[\overrightarrow{h}_m; \overleftarrow{h}_1] + b)$; the paper takes "
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
        f"**Where this model is not the paper's** (Bahdanau et al. 2015, A.2.2). It starts from {start}. It reads the next token "
        r"from $\tanh(W[s_i; y_{i-1}; c_i] + b)$; the paper from a maxout layer of $s_{i-1}$, $y_{i-1}$ and $c_i$. "
        f"{cell}. One matrix embeds source and target and gives the logits; the paper has a matrix for each."
    )
