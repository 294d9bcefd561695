"""The controls of the page Decoding: the decoding method, and the shown attention."""

from dataclasses import replace

from models.architectures import Model
from models.decoding.runs import Method
from models.trace import Trace
from viz_app import words
from viz_app.controls import pick, which_head
from viz_app.session import run_changes, url_state
from viz_app.session.current_run import CurrentRun
from viz_app.session.focus import FOCUS_HEAD, chosen_focus, pick_head
from viz_app.session.parameters import Choice, Number, Whole
from viz_app.views.decoding import state
from viz_app.views.decoding.decoding_runs import ShownAttention, decoder_attention, writing_sites
from viz_app.views.decoding.payloads import DecodingChoices, compare_decoding

_HOW = {"greedy": "greedy", "sampling": "sample", "beam": "beam"}
DECODING_METHOD = Choice("decoding-how", "greedy", options=tuple(_HOW))
TEMPERATURE = Number("decoding-temperature", 1.0, low=0.1, high=5.0)
TOP_K, TOP_P = (
    Whole("decoding-top-k", 0, high=100_000),
    Number("decoding-top-p", 1.0, low=0.05, high=1.0),
)
DECODING_SEED, BEAM_WIDTH = (
    Whole("decoding-seed", 0, high=1_000_000),
    Whole("decoding-width", 4, low=1, high=12),
)
TREE = "tree"
DECODING_PICTURE = Choice("decoding-picture", TREE, options=(TREE, "step by step"))
ALPHA = Number("decoding-alpha", 0.6, low=0.0, high=2.0)
MAX_NEW = Whole("decoding-tokens", 40, low=1, high=10_000)
_SLIM = 70  # px, the smallest width of a number box


def choose_decoding(run: CurrentRun) -> DecodingChoices:
    """Draw the row of controls and return the choices, with the session's place in the text."""
    inputs = run.input_ids
    place = state.current_state(run.scope, inputs)
    with which_head.head_row():
        attention = _reading(run.trace, place.mean)
        how = _HOW[pick.pick_few("Decoding strategy", DECODING_METHOD, list(_HOW))]
        settings = {"sample": _sampling, "beam": _beam}.get(how, dict)() | _length(run.scope.model)
        is_tree = (
            how == "beam"
            and pick.pick_few("Picture", DECODING_PICTURE, DECODING_PICTURE.options) == TREE
        )
    method = Method(how, **settings, forced=place.forced)
    choices = DecodingChoices(
        method, attention, place, inputs, run_changes.forced_were_cleared(), is_tree
    )
    step = min(place.step, compare_decoding(run, choices)[1].n_steps - 1)
    state.go_to_position(step)
    return replace(choices, place=replace(place, step=step))


def _number(label: str, parameter: Whole | Number, step: float, explanation: str) -> float:
    width = max(_SLIM, 8 * len(label) + 30)
    return pick.pick_typed(label, parameter, step=step, help=explanation, width=width)


def _sampling() -> dict:
    temperature = _number(
        "Temperature",
        TEMPERATURE,
        0.1,
        "Log-probabilities are divided by it. Below 1: sharper; above 1: flatter.",
    )
    top_k = _number("Top-k", TOP_K, 1, "Draw from the k most probable tokens only; 0 means all.")
    top_p = _number(
        "Top-p",
        TOP_P,
        0.05,
        "Draw from the smallest set whose probabilities reach p (nucleus sampling).",
    )
    seed = _number("Seed", DECODING_SEED, 1, "The same seed draws the same text.")
    return {
        "temperature": temperature,
        "top_k": top_k or None,
        "top_p": top_p if top_p < 1 else None,
        "seed": seed,
    }


def _beam() -> dict:
    width = _number("Width", BEAM_WIDTH, 1, "How many texts are kept at each step.")
    alpha = _number(
        "Length α",
        ALPHA,
        0.1,
        r"Score $= \text{log-probability} / ((5 + \text{length}) / 6)^\alpha$. 0 favours short texts.",
    )
    return {"width": width, "alpha": alpha}


def _length(model: Model) -> dict:
    """Draw the limit of new tokens, for a model whose texts need not end."""
    if not model.continues:
        return {}
    return {
        "max_new": _number(
            "New tokens",
            MAX_NEW,
            1,
            "Generation stops after this many tokens, if the text does not end before.",
        )
    }


def _reading(trace: Trace, mean: bool) -> ShownAttention:
    """Draw the choice of the decoder layer and head, and return the shown attention.

    There is nothing to choose in a model without attention, or with one alignment.
    """
    sites = writing_sites(trace)
    if not sites or words.is_alignment(sites[0]):
        return decoder_attention(trace)
    site, focus = chosen_focus(trace)
    role = site.role if site.stack == "decoder" else "cross"
    offered = [s for s in sites if s.role == role] or sites[:1]
    nearest = min(offered, key=lambda s: (s.name != site.name, abs(s.layer - site.layer)))
    head = min(focus.head, nearest.n_heads - 1)
    which_head.which_head(
        {nearest.kind: offered}, nearest, None if mean else head, _pick, mean=True
    )
    return decoder_attention(trace, nearest.layer, None if mean else head, name=nearest.name)


def _pick(site: str, head: int | None) -> None:
    state.choose_mean(head is None)
    pick_head(site, url_state.get(FOCUS_HEAD) or 0 if head is None else head)
