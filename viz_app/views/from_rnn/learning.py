"""The sections of training records: scores by sentence length, and learning curves on dates."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import models
from models import Scope
from viz_app import ui, words
from viz_app.components.catalogue import PLAIN
from viz_app.controls import pick, which_head
from viz_app.drawing.notes import rows
from viz_app.drawing.stamp import Facts, caption
from viz_app.input_bar.examples import examples
from viz_app.session import cache
from viz_app.session.current_run import CurrentRun
from viz_app.session.live import Pictures
from viz_app.session.parameters import Choice
from viz_app.views.from_rnn import charts, files, learners
from viz_app.views.from_rnn.families import family
from viz_app.views.from_rnn.learners import LEARNED_PERCENT, Learner
from viz_app.views.page import File, Foot, PageCell, Plot, Prose, ShownComponent, Table, View

LEARNING_TASK = "dates"
COUNT_COLUMNS = ("Steps", "Parameters")
LEARNING_TABLE, LEARNING_CURVES = "The models", "How fast each learns"
LEARNING_PICTURE = Choice(
    "from-rnn-learning", LEARNING_TABLE, options=(LEARNING_TABLE, LEARNING_CURVES)
)
STAGES = (
    "The same task, dates as people write them → ISO, at every step from RNN to Transformer. First one fixed vector, "
    "then an alignment over all states. Then attention without recurrence: alone, after self-attention, with several "
    "heads, stacked, and stacked with residual connections and LayerNorm. The Transformer adds a feed-forward part to"
    " each layer and a cross-attention to each decoder layer. Stacked alone, attention averages the source's "
    "positions until they are nearly alike. The decoder's queries then get almost no gradient. Later the decoder's "
    "states grow from layer to layer until softmax picks a single key. Every row is a trained checkpoint of this app:"
    " pick it in the bar to look inside."
)
NOT_SHIPPED = "No checkpoints of these models are installed."
SCORED_NOTE = (
    "Every figure here is a **score**, measured once by writing each held-out sentence greedily, and kept in the "
    "checkpoint's record. Nothing is timed: a GPU would write the same sentences sooner."
)

FIGURE_2 = (
    "**What to look for.** In Bahdanau, Cho and Bengio (2015, figure 2), the score of models with one fixed vector "
    "drops as sentences grow. Models with alignment lose less. The one trained on sentences of up to 50 words does "
    "not drop even there. The vector h(m) has the same size for three words as for thirty. An alignment goes back to "
    "every word."
)


# sentence length


def _scopes() -> list[Scope]:
    return [
        scope for name in models.shipped() if (scope := cache.scope(name)).task == "translation"
    ]


def _records() -> dict[str, list[dict]]:
    """Return the scores by length of the shipped models that have them."""
    return {
        scope.name: scores for scope in _scopes() if (scores := scope.training.get("by_length"))
    }


def _lengths(run: CurrentRun, choices: None) -> Pictures:
    records = _records()
    title = "BLEU by sentence length"
    families = {scope.name: family(scope.model) for scope in _scopes()}
    return {"from-rnn-lengths": charts.length_chart(records, title, families)} if records else {}


def _lay_out_lengths(run: CurrentRun, choices: None, pictures: Pictures) -> Sequence[PageCell]:
    return [
        *([Plot("from-rnn-lengths")] if pictures else [Prose(unscored_note(_missing()))]),
        Foot(),
    ]


def _missing() -> list[str]:
    """Return the shipped translators without scores by length."""
    records = _records()
    return [scope.name for scope in _scopes() if scope.name not in records]


def _text_of_lengths(run: CurrentRun, choices: None) -> str:
    if not (records := _records()):
        return ""
    missing = _missing()
    steps = {scope.name: int(scope.training.get("step", 0)) for scope in _scopes()}
    unknown = unscored_note(missing) if missing else ""
    return "\n\n".join(filter(None, [score_drop(records, steps), SCORED_NOTE, FIGURE_2, unknown]))


def _files_of_lengths(run: CurrentRun, choices: None) -> Sequence[File]:
    if not (records := _records()):
        return []
    name = f"{'.'.join(records)}.score-by-length.csv"
    csv = lambda now: files.lengths_csv(_records())  # noqa: E731
    return [File("These scores, CSV", csv, name, lambda now: {})]


LENGTH_VIEW = View(
    _lengths,
    _lay_out_lengths,
    text=_text_of_lengths,
    files=_files_of_lengths,
    is_live=lambda choices: False,
    has_strip=False,
    is_of_run=False,
)


def score_drop(records: Mapping[str, Sequence[dict]], steps: Mapping[str, int]) -> str:
    """Say how far each model falls from its best bucket to the longest, as a Markdown list.

    The fall is a share and in points. It adds how many cases the buckets hold and, from `steps`,
    whether the models were trained alike.
    """
    lines = []
    for name, buckets in records.items():
        best, longest = (
            max(buckets, key=lambda b: b["score"]),
            max(buckets, key=lambda b: b["most"]),
        )
        where = (
            f"{best['least']}–{best['most']} words",
            f"{longest['least']}–{longest['most']} words",
        )
        if not best["score"]:
            lines.append(f"- **{name}** scores 0 at every length.")
        elif best is longest:
            lines.append(
                f"- **{name}** is best on its longest sentences, {where[1]}: {longest['score']:.1f}."
            )
        else:
            fall = round(best["score"], 1) - round(
                longest["score"], 1
            )  # of the numbers as they are shown
            lines.append(
                f"- **{name}** loses {1 - longest['score'] / best['score']:.0%} of its best: {fall:.1f} BLEU, from "
                f"{best['score']:.1f} ({where[0]}) to {longest['score']:.1f} ({where[1]}, {longest['cases']:,} cases)."
            )
    counts = [bucket["cases"] for buckets in records.values() for bucket in buckets]
    sizes = f"Each point is a score over {min(counts):,} to {max(counts):,} cases; point at it to see how many."
    unequal = words.unequal_training({name: steps[name] for name in records})
    return "\n".join(lines) + "".join(
        f"\n\n{sentence}" for sentence in (sizes, unequal) if sentence
    )


def unscored_note(names: Sequence[str]) -> str:
    """Name the checkpoints without scores by length, and the commands that write them."""
    commands = "\n".join(
        f"    attnscope evaluate {name} --data tatoeba-eng-fra.tsv.gz --by-length --record"
        for name in names
    )
    return f"No scores by sentence length are recorded in {', '.join(names)}. This writes them into the checkpoint:\n\n{commands}"


# dates


def _shipped() -> list[Scope]:
    return [
        scope for name in models.shipped() if (scope := cache.scope(name)).task == LEARNING_TASK
    ]


def _choose(run: CurrentRun) -> str:
    with which_head.head_row():
        return pick.pick_few("Show", LEARNING_PICTURE, LEARNING_PICTURE.options)


def _stages(run: CurrentRun, picture: str) -> Pictures:
    """Make the table of one date through every stage, or the chart of how each learned."""
    entries, text = learners.stage_learners(_shipped()), _date(run)
    line = ("line", stage_text(text, run.scope.task == LEARNING_TASK))
    note = {"note from-rnn-stages": rows("explained", line)} if picture == LEARNING_TABLE else {}
    return {**note, **_drawn(entries, "stages", picture, text)}


def _date(run: CurrentRun) -> str:
    return (
        run.trace.streams["source"].text
        if run.scope.task == LEARNING_TASK
        else examples(LEARNING_TASK)[0]
    )


def _similarities(run: CurrentRun, picture: str) -> Pictures:
    return _drawn(learners.similarity_learners(_shipped()), "similarities", picture)


def _drawn(entries: Sequence[Learner], name: str, picture: str, text: str = "") -> Pictures:
    """Make the chosen picture of the models; their table has what each writes for a `text`."""
    if not entries:
        return {}
    if picture == LEARNING_CURVES:
        look, note = ui.page_look(), caption(_about(entries))
        return {f"from-rnn-{name}": learners.chart(entries, look, LEARNING_CURVES, note)}
    scopes = [cache.scope(one.checkpoint) for one in entries] if text else []
    outputs = [cache.trace(scope, (text, "")).output for scope in scopes]
    return {f"from-rnn-{name}-table": learners.learner_table(entries, outputs)}


def _lay_out_stages(run: CurrentRun, picture: str, pictures: Pictures) -> Sequence[PageCell]:
    return [
        ShownComponent(PLAIN, "note from-rnn-stages"),
        *_learned(learners.stage_learners(_shipped()), "stages"),
    ]


def _lay_out_similarities(run: CurrentRun, picture: str, pictures: Pictures) -> Sequence[PageCell]:
    return _learned(learners.similarity_learners(_shipped()), "similarities")


def _learned(entries: Sequence[Learner], name: str) -> list[PageCell]:
    if not entries:
        return [Prose(NOT_SHIPPED), Foot()]
    table = Table(f"from-rnn-{name}-table", COUNT_COLUMNS)
    chart = Plot(f"from-rnn-{name}", f"{LEARNING_TASK}.learning-{name}")
    return [table, chart, Foot((1.6, 1))]


def _text_of_stages(run: CurrentRun, picture: str) -> str:
    entries = learners.stage_learners(_shipped())
    return "\n\n".join([STAGES, *[fastest(entries)] * bool(entries)])


def _text_of_similarities(run: CurrentRun, picture: str) -> str:
    entries = learners.similarity_learners(_shipped())
    return f"{compare_similarities(entries)}\n\n{fastest(entries)}" if entries else ""


def _files_of(
    find: Callable[[Sequence[Scope]], list[Learner]], subject: str, run: CurrentRun, picture: str
) -> Sequence[File]:
    entries = find(_shipped())
    if not entries:
        return []
    csv = lambda now: learners.learning_csv(entries)  # noqa: E731
    name = f"{LEARNING_TASK}.learning-{subject}.csv"
    return [File("These curves, CSV", csv, name, lambda now: _about(entries))]


def _about(entries: Sequence[Learner]) -> Facts:
    return {"task": LEARNING_TASK, "checkpoints": ", ".join(one.checkpoint for one in entries)}


STAGES_ON_DATES = View(
    _stages,
    _lay_out_stages,
    choose=_choose,
    text=_text_of_stages,
    files=partial(_files_of, learners.stage_learners, "stages"),
    is_live=lambda choices: False,
    has_strip=False,
)
SIMILARITIES_VIEW = View(
    _similarities,
    _lay_out_similarities,
    choose=_choose,
    text=_text_of_similarities,
    files=partial(_files_of, learners.similarity_learners, "similarities"),
    is_live=lambda choices: False,
    has_strip=False,
    is_of_run=False,
)


def stage_text(text: str, is_typed: bool) -> str:
    """Say which date the rows answer, and where it comes from."""
    return (
        f"Every model reads: {text}"
        if is_typed
        else f"Every model reads the example: {text}. With a dates model open, all of them read your text."
    )


def compare_similarities(entries: Sequence[Learner]) -> str:
    """Compare the similarities, with the numbers of their records."""
    steps, sizes = sorted({one.steps for one in entries}), [one.parameters for one in entries]
    trained = (
        f"for {steps[0]:,} steps each"
        if len(steps) == 1
        else f"for {steps[0]:,} to {steps[-1]:,} steps"
        if steps
        else ""
    )
    size = f" (in all {min(sizes):,} to {max(sizes):,} parameters)" if len(set(sizes)) > 1 else ""
    return (
        f"The Transformer of the dates task, trained {trained} under each similarity. Recipe, batches and their order are "
        r"the same. The similarities are dot $q \cdot k$, scaled dot $q \cdot k / \sqrt{d}$, cosine $t \cos(q, k)$, "
        r"general $q M \cdot k$ and additive $v \cdot \tanh(W q + U k)$. Only the similarity differs, and what it "
        f"learns: nothing, t, M, or W, U and v{size}. The weights begin from one seed. W, U and v are "
        "drawn from it too, so the additive model's other weights begin elsewhere. Each row is a checkpoint of this "
        "app. On *Inside a head* the similarity can be swapped on a model that was trained with another."
    )


def fastest(entries: Sequence[Learner]) -> str:
    """Say which models learned first and last, as recorded, and if they were trained alike."""
    by_step = sorted((one for one in entries if one.learned_at), key=lambda one: one.learned_at)
    never = [f"**{one.what}** ({one.steps:,} steps)" for one in entries if not one.learned_at]
    sentences = []
    first = [one.what for one in by_step if one.learned_at == by_step[0].learned_at]
    last = [one.what for one in by_step if one.learned_at == by_step[-1].learned_at]
    if first and first == last:
        sentences.append(
            f"All that were right on {LEARNED_PERCENT:.0f} % of the validation dates reached that at the same validated step, "
            f"{by_step[0].learned_at:,}. The curves tell them apart."
        )
    elif first:
        sentences.append(
            f"First right on {LEARNED_PERCENT:.0f} % of the validation dates: {_bold(first)}, at step {by_step[0].learned_at:,}; "
            f"last: {_bold(last)}, at step {by_step[-1].learned_at:,}."
        )
    if never:
        sentences.append(f"Not reached within their training: {', '.join(never)}.")
    unequal = words.unequal_training({f"**{one.what}**": one.steps for one in entries})
    return " ".join([*sentences, unequal] if unequal else sentences)


def _bold(entries: Sequence[str]) -> str:
    return ", ".join(f"**{what}**" for what in entries)
