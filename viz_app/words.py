"""What the app says about attention, in words: titles, axes, explanations. Layers and heads are counted from 1 here."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from models.layers.similarity import KINDS
from models.trace import AttentionSite

# (stack, role) → what this kind of attention is called, and where there is little room
_TITLES = {
    ("encoder", "self"): ("Encoder self-attention", "Encoder self"),
    ("decoder", "self"): ("Decoder masked self-attention", "Decoder self"),
    ("decoder", "cross"): ("Cross-attention", "Cross"),
    ("decoder", "alignment"): ("Alignment", "Alignment"),
}

ONE_TEXT = "Empty: one text alone. Type a second one to ask whether it follows the first."
STEP = "a row is read → written"      # how a row is named where the model writes


@dataclass(frozen=True)
class Stream:
    """What a text is called while a model reads or writes it, and one of its tokens."""

    text: str
    token: str


@dataclass(frozen=True)
class Terms:
    """What a task calls the texts that a model reads and writes (by stream), and the boxes they are typed into (by field)."""

    streams: Mapping[str, Stream]
    labels: Mapping[str, str]
    aligned: str = "eng-fra-bahdanau"      # a shipped checkpoint of this task with an alignment
    purpose: str = ""                      # what a model of this task does, as the end of a sentence; "" if nobody knows

    def of(self, stream: str) -> Stream:
        """The words for a stream; plain ones for one that the task says nothing of."""
        return self.streams.get(stream, Stream(f"the {stream}", "token"))

    def label(self, field: str) -> str:
        """What stands over the box of a field."""
        return self.labels.get(field, field.replace("_", " ").capitalize())

    @property
    def source(self) -> str:
        """The text the encoder reads."""
        return self.of("source").text

    @property
    def source_token(self) -> str:
        return self.of("source").token

    @property
    def target(self) -> str:
        """The text the decoder writes."""
        return self.of("target").text

    @property
    def target_token(self) -> str:
        return self.of("target").token



def _pair(source: Stream, target: Stream, labels: tuple[str, str], **others: str) -> Terms:
    return Terms({"source": source, "target": target}, dict(zip(("source", "target"), labels, strict=True)), **others)


_TRANSLATION = _pair(
    Stream("the source sentence", "source token"), Stream("the translation so far", "translated token"), ("Sentence", "Translation")
)
_DATES = _pair(
    Stream("the date as written", "character of the written date"), Stream("the ISO date so far", "character of the ISO date"),
    ("Date, in any format", "ISO date"), aligned="dates-bahdanau", purpose="writes a date, however people write it, as ISO",
)
_LANGUAGE = Terms(
    {"text": Stream("the text", "token")}, {"text": "Text", "continuation": "What follows"}, purpose="goes on with a text"
)
_MASKED = Terms(
    {"text": Stream("the text", "token")}, {"text": "Text, [MASK] for a word", "second_text": "Second text"},
    purpose="guesses hidden words from what stands on both sides, and whether one text follows another",
)
_SPAN = Terms(
    {"text": Stream("question and text", "token")}, {"question": "Question", "context": "Text that holds the answer"},
    purpose="finds the answer to a question in a text",
)
_PERMUTATION = Terms(
    {"text": Stream("the text", "token")}, {"text": "Text", "second_text": "Second text"},
    purpose="predicts the tokens of a text in any order, each from those before it in that order",
)
_CLASSIFY = Terms(
    {"text": Stream("the text", "token")}, {"text": "Text", "second_text": "Second text"},
    purpose="says which of its classes a text belongs to",
)
_OF_A_TASK = {
    "dates": _DATES, "language": _LANGUAGE, "mlm": _MASKED, "permutation": _PERMUTATION, "span": _SPAN, "classify": _CLASSIFY,
}
_LANGUAGES = {"eng": "English", "fra": "French", "cmn": "Chinese", "deu": "German", "spa": "Spanish", "ita": "Italian"}


# task → what its models are for, in a word or two, in the order in which they are offered
TASKS = {
    "translation": "translation", "dates": "dates", "language": "running text", "mlm": "hidden words", "span": "questions",
    "classify": "classes of texts", "permutation": "text in any order",
}


def terms(task: str, name: str = "") -> Terms:
    """The words for a task; a translation checkpoint named "eng-fra" is spoken of as English and French."""
    if task in _OF_A_TASK:
        return _OF_A_TASK[task]
    source, target = (_LANGUAGES.get(part) for part in (*name.split("-"), "", "")[:2])
    if not (source and target):
        return replace(_TRANSLATION, purpose="translates a sentence") if task == "translation" else _TRANSLATION
    return _pair(
        Stream(f"the {source} sentence", f"{source} token"), Stream(f"the {target} so far", f"{target} token"),
        (f"{source} sentence", f"{target} sentence"), purpose=f"translates {source} into {target}",
    )


def is_alignment(site: AttentionSite) -> bool:
    """Whether this is an RNN's alignment, which has no W_Q, W_K, W_V and W_O, and one head."""
    return site.role == "alignment"


def kind_title(site: AttentionSite) -> str:
    """What this kind of attention is called."""
    return _TITLES[site.stack, site.role][0]


def kind_short(site: AttentionSite) -> str:
    """The same where there is little room."""
    return _TITLES[site.stack, site.role][1]


def kind_subtitle(site: AttentionSite, t: Terms) -> str:
    """Who reads what in this kind of attention."""
    query, key = t.of(site.query_stream), t.of(site.key_stream)
    return f"{query.text} reads {'itself' if site.query_stream == site.key_stream else key.text}"


def layer_place(site: AttentionSite) -> str:
    """Which layer this is, for people: counted from 1."""
    side = site.stack.capitalize()
    if is_alignment(site):
        return f"{side}, alignment"
    numbered = any(part.isdigit() for part in site.name.split("."))
    return f"{side} layer {site.layer + 1}" if numbered else f"{side}, {kind_title(site).lower()}"


def place(site: AttentionSite, head: int) -> str:
    """Where this head is, for people: counted from 1."""
    return layer_place(site) if is_alignment(site) else f"{layer_place(site)}, head {head + 1}"


def head_title(site: AttentionSite, head: int, t: Terms) -> str:
    """What one head's picture is, in one sentence."""
    query, key = t.of(site.query_stream), t.of(site.key_stream)
    return f"{place(site, head)}: what each {query.token} reads from {key.text}"


def axes(site: AttentionSite, t: Terms, writes: bool = False) -> tuple[str, str]:
    """(query axis, key axis): who reads, and what is read; `writes` if a row is named by what it reads and what it writes."""
    query, key = t.of(site.query_stream), t.of(site.key_stream)
    return f"who reads (query): {query.text}{f', {STEP}' * writes}", f"what is read (key): {key.text}"


def sides(writes: bool) -> str:
    """What rows and columns are, where there is no room for their names."""
    return f"Rows read{f' ({STEP})' * writes}, columns are read"


def where_from(site: AttentionSite, t: Terms) -> str:
    """Where the queries, keys and values of this kind of attention come from."""
    query, key = t.of(site.query_stream), t.of(site.key_stream)
    if is_alignment(site):
        return (
            "Queries are the decoder's state **s(i−1)** before a step; keys and values are both the encoder's states "
            f"**h(j)**, one for each {key.token}. Their mixture, the context c(i), is what the step then reads. A row "
            "stands for the step that reads its token and writes the next: it chooses before it has read that token, knowing "
            "of its own text only what stands above."
        )
    if site.role == "cross":
        return (
            f"Queries **Q** come from {query.text} (the decoder); keys **K** and values **V** come from {key.text} "
            "(as it leaves the encoder). This is where the two texts meet."
        )
    all_ = f"Queries **Q**, keys **K** and values **V** all come from {query.text}"
    if site.stack == "encoder":
        return f"{all_}: each {query.token} may read every other, in both directions."
    return (
        f"{all_}. Nothing may read what comes after it, because while the model writes, that does not exist yet: these cells "
        "are hatched and their weight is exactly 0."
    )


def formula(site: AttentionSite) -> str:
    """The similarity as a formula, with its numbers where it is short."""
    if is_alignment(site):
        return "v·tanh(W s(i−1) + U h(j))"
    learned = site.similarity.learned
    return {
        "scaled dot": f"q·k / √{site.d_head}",
        "cosine": f"{float(learned['log_t'].exp()):.3g} · cos(q, k)" if "log_t" in learned else "",
    }.get(site.similarity.name) or site.similarity.formula


def how_to_read(site: AttentionSite, writes: bool = False) -> str:
    """How one row of the picture is made, in words and then in symbols; `writes` as in `axes`."""
    named = " It is named by the token just read and the one to be written: **read → written**." if writes else ""
    passes_on = (
        "the context is that mixture of the states, Σ weight · h(j)." if is_alignment(site)
        else "the head then passes on that mixture of the values, weights · V."
    )
    return (
        f"Each row is one reader.{named} Its weights say how it divides its attention: none is negative and together they make 1. "
        f"They are softmax({formula(site)}) over the keys the row may read; {passes_on}"
    )


def departures(config: object) -> str:
    """Where our model with an alignment is not the one of its paper; empty for another model."""
    if getattr(config, "attention", "") != "bahdanau":
        return ""
    start = (
        "both of the encoder's ends, s(0) = tanh(W [h→(m); h←(1)] + b); the paper takes h←(1) alone" if config.bidirectional else
        "the end of its one reading, s(0) = tanh(W h(m) + b); the paper reads backwards too and takes h←(1)"
    )
    cell = (
        "Its GRU lets the reset gate act on U s(i−1); the paper's on s(i−1)" if config.cell == "gru" else
        "Its cell is a plain tanh; the paper's has gates"
    )
    return (
        f"**Where this model is not the paper's** (Bahdanau et al. 2015, A.2.2). It starts from {start}. It reads the next token "
        "from tanh(W [s(i); y(i−1); c(i)] + b); the paper from a maxout layer of s(i−1), y(i−1) and c(i). "
        f"{cell}. One matrix embeds source and target and gives the logits; the paper has a matrix for each."
    )


def length(tokens: Sequence[str], n_ctx: int, unknown: Sequence[str]) -> str:
    """How long a text is, and which pieces of it the model has no token for."""
    missing = f" Not in the vocabulary: {' '.join(unknown)[:40]}" if unknown else ""
    return f"{len(tokens)} of at most {n_ctx} tokens.{missing}"


def warned(note: str, warning: str) -> str:
    """A note on a text, with what a person should know of it."""
    return f"{note} {warning}.".strip()


def after_steps(step: int) -> str:
    """Whose answer stands in the headline while the page stands at an earlier step of training."""
    return f"the weights after {step:,} step{'s' * (step != 1)}"


def at_step(step: int, scores: dict) -> str:
    """What the page shows while it stands at an earlier step of training, and how good those weights were."""
    return (
        f"The line above and all pictures below are of {after_steps(step)}, reading the same text as the finished model. "
        f"Of these weights: {measured(scores) or 'no score was measured'}."
    )


def score(metric: str, value: float) -> str:
    """A score to at most two decimals, with its unit if its name does not say it."""
    return f"{round(value, 2):g}{' %' if metric.endswith(('exact match', 'accuracy')) else ''}"


def unequal(steps: Mapping[str, int]) -> str:
    """That models which are compared were trained for different numbers of steps, and for how many each, longest first; empty
    where they were trained alike."""
    if len(set(steps.values())) < 2:
        return ""
    said = [
        f"{listed([name for name, own in steps.items() if own == n])} for {n:,} step{'s' * (n != 1)}"
        for n in sorted(set(steps.values()), reverse=True)
    ]
    return f"Not trained alike: {'; '.join(said)}. What differs may come from that too."


def sentence(text: str) -> str:
    """The text with a capital letter and a full stop."""
    return f"{text[:1].upper()}{text[1:]}."


def listed(names: Sequence[str]) -> str:
    """Names in a sentence: a, b and c."""
    return " and ".join(part for part in (", ".join(names[:-1]), names[-1]) if part)


def measured(scores: dict) -> str:
    """Scores, and over how many cases; empty if there is none."""
    said = [f"{name} {score(name, v)}" for name, v in scores.items() if name != "cases" and isinstance(v, int | float)]
    over = f" over {scores['cases']:,} cases" if isinstance(scores.get("cases"), int) else ""
    return "; ".join(said) + over if said else ""


def made(training: dict) -> str:
    """How these weights came about, in one sentence; empty if their record does not say."""
    if not training.get("step"):
        return ""
    data = part if isinstance(part := training.get("data"), dict) else {}
    on = f" on {data['file']}" if "file" in data else " on generated examples" if "generator" in data else ""
    return f"Trained for {training['step']:,} steps{on}."


def trained(training: dict) -> str:
    """How these weights came about and how good they are, in one line; empty if their record does not say."""
    said = measured(scores) if isinstance(scores := training.get("scores"), dict) else ""
    return " ".join(filter(None, [made(training), said and f"{said[:1].upper()}{said[1:]}."]))


def trained_briefly(name: str, training: dict) -> str:
    """Whose weights these are and their score, where there is little room."""
    said = measured(scores) if isinstance(scores := training.get("scores"), dict) else ""
    return ", ".join(filter(None, [name, f"{training['step']:,} steps" if training.get("step") else "not trained", said]))


def trained_otherwise(training: dict, own: str, name: str) -> str:
    """The same of weights that are scored by another similarity than they were trained with."""
    said = f"{made(training)} That was with the {own} similarity: scored by {name}, as here, nothing was measured."
    return f"{said}{_untrained(name)}"


def _untrained(name: str) -> str:
    """That a similarity which was swapped in has numbers of its own that nobody trained; empty where it has none."""
    begins = KINDS[name].begins
    return f" What {name} learns besides was never trained with these weights and is as in a new model: {begins}." if begins else ""
