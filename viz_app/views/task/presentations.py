"""The picture, explanation and table of each type of output; others are described in words."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from models.layers.masks import LOOK_AHEAD
from models.number_text import decimal, percent
from models.sounds import PatchedSound, SoundRow
from models.trace import Trace
from models.trace.outputs import (
    ChoiceProbabilities,
    ClassProbabilities,
    MaskedToken,
    MultiLabelProbabilities,
    NextToken,
    Numbers,
    Output,
    RegressionValues,
    Similarity,
    Span,
    TokenClasses,
    TokenInOrder,
)
from viz_app.drawing.labels import labels, mask_token, quote
from viz_app.drawing.notes import check_rows, first_output, strip
from viz_app.session.current_run import CurrentRun
from viz_app.session.live import Pictures
from viz_app.views.task import files, text
from viz_app.views.task.classes import class_probabilities, token_classes
from viz_app.views.task.in_order import draw_in_order, follows_order
from viz_app.views.task.masked import draw_masked
from viz_app.views.task.next_token import next_token
from viz_app.views.task.pair import draw_choices, draw_labels, second_text_missing
from viz_app.views.task.reading import DrawnOutput, TaskChoices, has_row
from viz_app.views.task.span import draw_span
from viz_app.views.task.text import ROW_NOTE
from viz_app.words.allowed import (
    blocking,
    predicts_seen_tokens,
    reads_all_earlier,
    reads_earlier_only,
)

_MASK = (
    "**{opening}** hides a token; only its position is known. {reads}{trained}"
    "\n\n**The token that answers** is {mask} itself. From its last vector the model makes the logits, and softmax "
    f"makes them probabilities. {ROW_NOTE} Hiding goes by position: if you edit the text before it, another token is "
    "hidden."
)
_TRAINED = " The model was trained on guesses like these{}."
_PAIRS = " and on nothing else but whether one text follows another"
_ANSWERING = (
    "**The token that answers** is {token}, {place} of the row{special}. From its last vector the model makes a logit"
    f" for each {{answer}}{{softmax}}. {ROW_NOTE}"
)
_SEVERAL = (
    "**The {answer} is not known to be read from one token alone.** The model makes a logit for each {answer}{softmax}. "
    "No single attention row belongs to that answer{shown}."
)
_ROW_OVER_FILE = ". The row of one {unit} is shown; click another in the {file}"
_NO_ROW = ", so none is shown"
_SOFTMAX = ", and softmax makes them probabilities"
_TOKENS = (
    "**Every token answers** for itself. From its last vector the model makes a logit for each class, and softmax "
    f"makes them probabilities.{{names}} {ROW_NOTE}"
)
_PARTS = (
    "**Every token answers** for {n} parts of the sound, one after the other. From its last vector the model makes a "
    f"logit for each class and part, and softmax makes them probabilities. {ROW_NOTE}"
)
_BEGIN_INSIDE = (
    " By the usual convention, B- begins a name and I- continues it. O is outside all names."
)


_ALIKE = (
    "**How alike are text and image?** Each tower makes one vector; neither reads the other. The cosine of the two "
    "vectors is {cosine}. {logit} The page Attention shows what each tower attends to."
)
_AMONG_TEXTS = (
    "Times a learned factor, it is the logit {} (Radford et al. 2021). Among several texts for one image, softmax of "
    "their logits gives probabilities."
)
_EACH_PAIR = (
    "Times a learned factor, plus a learned bias, it is the logit {}. Its sigmoid, {}, is the probability that they "
    "belong together (Zhai et al. 2023)."
)


_JUDGED = (
    "**Each label is judged on its own**, so several may hold, or none. The probability of a label is $\\sigma(z)$ of its "
    "logit z. Their sum need not be 1.\n\n"
)
_GRADE = (
    "**This model grades its input.** Its answer is {}, as in a regression, not a probability or a class. "
    "The page Attention shows which tokens attend to which."
)


def _alike(output: Similarity) -> str:
    cosine, logit = (decimal(n, 3) for n in (output.cosine, output.logit))
    probability = output.probability
    is_of_logit = _AMONG_TEXTS.format(logit)
    if probability is not None:
        is_of_logit = _EACH_PAIR.format(logit, percent(probability))
    return _ALIKE.format(cosine=cosine, logit=is_of_logit)


def no_picture(trace: Trace, output: Output) -> str:
    """Explain, in Markdown, why there is no picture of an output."""
    if isinstance(output, Similarity):
        return _alike(output)
    if isinstance(output, RegressionValues):
        n = len(output.names)
        return _GRADE.format("a plain number" if n == 1 else f"{n} plain numbers")
    if not isinstance(output, Numbers):
        return (
            f"**There is no picture of this kind of answer** ({type(output).__name__}). The answer itself is above. "
            "The page Attention shows what the model's tokens attend to."
        )
    reads = _reads(trace)
    return (
        f"**This model does not generate text**, so no next token can be surprising. {reads} Its answer is above. The "
        "page Attention shows which tokens attend to which. To see a text token by token, open **gpt**; to see one "
        "generated, **eng-fra**."
    )


def explain_next_token(trace: Trace, output: NextToken, pair_output: str) -> str:
    given = text.ALL_BEFORE
    if predicts_seen_tokens(trace, output.stream):
        given = text.LATER_TOO
    elif not reads_all_earlier(trace, output.stream):
        given = text.SOME_BEFORE
    return text.SURPRISAL_NOTE.format(given=given)


def explain_order(trace: Trace, output: TokenInOrder, pair_output: str) -> str:
    note = text.ORDER_NOTE
    return note if follows_order(trace) else f"{note}\n{text.ORDER_CHANGED}"


def explain_masked(trace: Trace, output: MaskedToken, pair_output: str) -> str:
    is_decoder = any(site.stack == "decoder" for site in trace.attention.values())
    trained = "" if is_decoder else _TRAINED.format(_PAIRS if pair_output else "")
    name, reads = mask_token(trace), _reads(trace)
    opening, mask = name or "A mask", name or "the mask"
    return _MASK.format(opening=opening, mask=mask, reads=reads, trained=trained)


def explain_classes(trace: Trace, output: ClassProbabilities, pair_output: str) -> str:
    return _what_answers(trace, output, "class", _SOFTMAX)


def explain_choice(trace: Trace, output: ChoiceProbabilities, pair_output: str) -> str:
    return text.CHOICE_WITHOUT_ROW_NOTE if output.position is None else text.CHOICE_NOTE


def explain_judged(trace: Trace, output: MultiLabelProbabilities, pair_output: str) -> str:
    return _JUDGED + _what_answers(trace, output, "label", "")


def _what_answers(
    trace: Trace, output: ClassProbabilities | MultiLabelProbabilities, answer: str, softmax: str
) -> str:
    """Explain which token's vector the answer is read from, if it is a single one."""
    if not has_row(trace, output):
        return _SEVERAL.format(answer=answer, softmax=softmax, shown=_NO_ROW)
    if output.position is None:
        row = trace.streams[output.stream]
        is_sound = isinstance(row, SoundRow)
        unit = "frame" if is_sound and not isinstance(row, PatchedSound) else "patch"
        file = "sound" if is_sound else "image"
        shown = _ROW_OVER_FILE.format(unit=unit, file=file)
        return _SEVERAL.format(answer=answer, softmax=softmax, shown=shown)
    row = labels(trace.streams[output.stream])
    token, last = row[output.position], len(row) - 1
    place = {0: "the first token", last: "the last token"}.get(
        output.position, f"token {output.position + 1}"
    )
    special = ", which belongs to no word" if token.special else ""
    return _ANSWERING.format(
        token=quote(token), place=place, special=special, answer=answer, softmax=softmax
    )


def explain_token_classes(trace: Trace, output: TokenClasses, pair_output: str) -> str:
    if output.parts:
        return _PARTS.format(n=Counter(output.sources)[0])
    marked = {"B-", "I-", "O"} <= {name[:2] for name in output.names}
    return _TOKENS.format(names=_BEGIN_INSIDE * marked)


def _reads(trace: Trace) -> str:
    """Return what tokens may read in self-attention, by the masks of all its layers."""
    sites = [site for site in trace.attention.values() if site.query_stream == site.key_stream]
    restricted = [site for site in sites if blocking(site)]
    if reads_earlier_only(trace):
        only_that = all(set(blocking(site)) <= {LOOK_AHEAD} for site in sites)
        return f"Every token attends {'' if only_that else 'at most '}to itself and to those before it."
    if not restricted:
        return "Every token attends to every other, so its vector holds both sides (Devlin et al. 2019, §3.1)."
    names = ", ".join(dict.fromkeys(name for site in restricted for name in blocking(site)))
    return (
        f"It is read from both sides. In {len(restricted)} of {len(sites)} layers a token cannot attend to all "
        f"others ({names})."
    )


Explain = Callable[[Trace, Output, str], str]


@dataclass(frozen=True)
class OutputPresentation:
    """The presentation of a type of output: picture and checks, explanation, and CSV table.

    The explanation is a function of the trace, the output, and the name of the model's output for
    two texts, "" without one.
    """

    picture: Callable[..., DrawnOutput]
    explanation: Explain
    table_label: str
    table: Callable[[CurrentRun, TaskChoices], str]


def _always(sentences: str) -> Explain:
    return lambda trace, output, pair_output: sentences


PRESENTATIONS: dict[type, OutputPresentation] = {
    NextToken: OutputPresentation(next_token, explain_next_token, "All positions, CSV", files.next_token_csv),
    MaskedToken: OutputPresentation(draw_masked, explain_masked, "All guesses, CSV", files.masked_csv),
    ClassProbabilities: OutputPresentation(class_probabilities, explain_classes, "All classes, CSV", files.classes_csv),
    ChoiceProbabilities: OutputPresentation(draw_choices, explain_choice, "All choices, CSV", files.classes_csv),
    MultiLabelProbabilities: OutputPresentation(draw_labels, explain_judged, "All labels, CSV", files.labels_csv),
    TokenClasses: OutputPresentation(token_classes, explain_token_classes, "All classes, CSV", files.token_classes_csv),
    Span: OutputPresentation(draw_span, _always(text.SPAN_NOTE), "The spans, CSV", files.span_csv),
    TokenInOrder: OutputPresentation(draw_in_order, explain_order, "The predictions, CSV", files.in_order_csv),
}  # fmt: skip


def presentation(output: Output) -> OutputPresentation | None:
    """Return the presentation of an output; None for a type without a picture."""
    return PRESENTATIONS.get(type(output))


def outputs_with_picture(run: CurrentRun) -> list[str]:
    """Return the names of the outputs that have a picture, one of which is shown.

    The answer about two texts is left out, since it is shown with any other.
    """
    return [
        name
        for name, output in run.trace.outputs.items()
        if name != run.scope.model.pair_output and presentation(output)
    ]


def shown_output(trace: Trace, choices: TaskChoices) -> Output:
    """Return the chosen output, or the first if the trace lacks it."""
    return trace.outputs.get(choices.output) or first_output(trace)


def has_picture(trace: Trace) -> bool:
    """Return True if there is a picture of the model's first output."""
    return presentation(first_output(trace)) is not None


def task_payloads(run: CurrentRun, choices: TaskChoices) -> Pictures:
    """Return the payloads of all components of the page."""
    pictures, checks = {"written": strip(run.trace, run.terms, run.stale)}, []
    main_output, pair_output = (
        shown_output(run.trace, choices),
        run.trace.outputs.get(run.scope.model.pair_output),
    )
    for output in (
        [main_output]
        if pair_output is None or pair_output is main_output
        else [main_output, pair_output]
    ):
        picture, picture_checks = presentation(output).picture(run, output, choices)
        pictures |= picture
        checks += picture_checks
    if run.scope.model.pair_output and pair_output is None:
        pictures["pair"] = second_text_missing()
    return {**pictures, "checks": check_rows(checks)}
