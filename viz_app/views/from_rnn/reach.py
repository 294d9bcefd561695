"""The section What reaches what: Jacobian norms of four layers over the current text."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from models import InputError, Scope
from models.analysis.checks import Check
from models.analysis.jacobian_reach import (
    BIDIRECTIONAL,
    CNN,
    D_NEW,
    LAYER_KINDS,
    RNN,
    SELF_ATTENTION,
    LayerChoice,
    Reach,
    has_layer,
)
from viz_app import ui, words
from viz_app.components.catalogue import MAPS
from viz_app.controls import pick, which_head
from viz_app.controls.layer_choice import (
    Layers,
    choose_layers,
    layer_text_too_long,
    short_source,
)
from viz_app.drawing.extent import Scaled
from viz_app.drawing.labels import labels
from viz_app.drawing.notes import check_rows
from viz_app.drawing.provenance import file_name
from viz_app.drawing.stamp import Facts, caption, facts, name_weights, saving
from viz_app.session import cache, reference_models, url_state
from viz_app.session.current_run import CurrentRun
from viz_app.session.live import Pictures
from viz_app.session.parameters import Choice
from viz_app.views.from_rnn import charts, files
from viz_app.views.from_rnn.maps import MAP_SCALES, LayerReach, influence
from viz_app.views.page import File, Foot, PageCell, Plot, ShownComponent, View

REACH_SCALE = Choice("from-rnn-scale", "root", options=tuple(MAP_SCALES))
MAPPED, FADING = "Every pair", "Mean by distance"
REACH_PICTURE = Choice("from-rnn-reach", MAPPED, options=(MAPPED, FADING))
REACH_HELP = (
    r"$\lVert \partial y_i / \partial x_j \rVert$ is the Frobenius norm of a block of the layer's Jacobian. It "
    r"measures how strongly the output at one position responds to a small change of the input at another. Every cell "
    r"is a true derivative, taken at this sentence. Norms depend on the scale of the weights, so compare shapes "
    r"between layers rather than heights."
)


@dataclass(frozen=True)
class ReachChoices:
    """The layers, the picture of them, and the colour scale of their maps."""

    layers: Layers
    picture: str
    scale: str


def layer_reaches(layers: Layers) -> list[LayerReach]:
    """Measure each kind of layer over the chosen source.

    It is a trained one where the run's model, or a shipped one of its task, has one.
    """
    return [_layer_reach(layers, kind) for kind in LAYER_KINDS]


def _layer_reach(layers: Layers, kind: str) -> LayerReach:
    run = layers.run
    trained = kind != CNN and reference_models.suitable_scope(
        run, lambda scope: has_layer(scope.model, kind)
    )
    seed = None if trained else layers.seed
    choice, scope = LayerChoice(kind, seed, layers.width, layers.depth), trained or run.scope
    return LayerReach(
        cache.cached_reach(scope, layers.source.ids, choice),
        weights_label(scope, choice),
        name_weights(scope),
    )


def reach_facts(run: CurrentRun, layers: Sequence[LayerReach]) -> Facts:
    """Return the facts about the layers over a run's source: the weights of each, not the run's."""
    of_layers = {}
    for layer in layers:
        choice = layer.reach.choice
        sizes = f"; width {choice.width}, layers {choice.depth}" * (choice.kind == CNN)
        of_layers[choice.kind] = f"{layer.weights}; {layer.model}{sizes}"
    names = {"source", *of_layers, "counting"}
    all_facts = facts(run.trace, **of_layers)
    return {name: value for name, value in all_facts.items() if name in names}


def layers_within(layers: Layers, other: CurrentRun) -> Layers:
    """Return the same layers over the other run's source.

    Raises:
        InputError: it is too long.
    """
    if short_source(other) is None:
        n = len(other.trace.streams["source"].ids)
        raise InputError(layer_text_too_long(n), other.scope.model.fields[0].name)
    return Layers(layers.width, layers.depth, layers.seed, other)


def _choose(run: CurrentRun) -> ReachChoices:
    with which_head.head_row():
        picture = pick.pick_few("Show", REACH_PICTURE, REACH_PICTURE.options)
        layers = choose_layers(run)
        scale = pick.one_of_many(
            "Colour scale",
            REACH_SCALE,
            list(MAP_SCALES),
            url_state.get(REACH_SCALE),
            lambda scale: MAP_SCALES[scale][0],
            width=210,
            disabled=picture != MAPPED,
        )
    return ReachChoices(layers, picture, scale)


def _within(choices: ReachChoices, run: CurrentRun, other: CurrentRun) -> ReachChoices:
    return replace(choices, layers=layers_within(choices.layers, other))


def _payloads(run: CurrentRun, choices: ReachChoices) -> Pictures:
    source = choices.layers.source
    if source is None:
        return {}
    layers = layer_reaches(choices.layers)
    reaches = [one.reach for one in layers]
    checked = {"checks": check_rows(reach_checks(reaches))}
    if choices.picture == MAPPED:
        saved = saving(
            file_name(run.trace, "what-reaches-what"), reach_facts(choices.layers.run, layers)
        )
        draw = partial(influence, layers, source, choices.scale, saved)
        return {"from-rnn-maps": Scaled(draw), **checked}
    title = "Influence by distance: mean over the pairs that a layer can reach"
    models = "; ".join(dict.fromkeys(layer.model for layer in layers))
    note = caption({"layers of": models, "source": source.text})
    return {
        "from-rnn-fading": charts.scaled_fading(reaches, ui.page_look(), title, note),
        **checked,
    }


def _layout(run: CurrentRun, choices: ReachChoices, pictures: Pictures) -> Sequence[PageCell]:
    name = f"{file_name(run.trace, 'what-reaches-what')}.by-distance"
    return [ShownComponent(MAPS, "from-rnn-maps"), Plot("from-rnn-fading", name), Foot((1.6, 1))]


def _text(run: CurrentRun, choices: ReachChoices) -> str:
    if choices.layers.source is None:
        return ""
    layers = layer_reaches(choices.layers)
    return f"{explain_reach([one.reach for one in layers])}\n\n{REACH_HELP}"


def _files(run: CurrentRun, choices: ReachChoices) -> Sequence[File]:
    layers = choices.layers
    if layers.source is None:
        return []
    tokens = [label.text for label in labels(layers.source)]

    def norms(now: CurrentRun) -> str:
        return files.influence_csv(layer_reaches(layers), tokens)

    def arrays(now: CurrentRun) -> bytes:
        return files.influence_npz(layer_reaches(layers), tokens)

    def by_distance(now: CurrentRun) -> str:
        return files.distance_csv(layer_reaches(layers))

    def about(now: CurrentRun) -> Facts:
        return reach_facts(layers.run, layer_reaches(layers))

    name, file = file_name(run.trace, "what-reaches-what"), partial(File, about=about)
    return [
        file("The norms, CSV", norms, f"{name}.csv"),
        file("The norms, npz", arrays, f"{name}.npz"),
        file("By distance, CSV", by_distance, f"{name}.by-distance.csv"),
    ]


def weights_label(scope: Scope, choice: LayerChoice) -> str:
    """Name a layer's weights, above its picture."""
    if choice.seed is not None:
        sizes = {
            RNN: f"tanh, {D_NEW} states",
            BIDIRECTIONAL: f"tanh, {D_NEW} states each way",
            CNN: f"tanh, {D_NEW} channels",
        }
        what = f" ({sizes[choice.kind]})" if choice.kind in sizes else ""
        always = " as any CNN here" if choice.kind == CNN else ""
        return f"random weights, seed {choice.seed}: untrained{always}{what}, on the embeddings of {scope.name}"
    model, config = scope.model, scope.config
    trained = (
        f"trained, {scope.name} encoder"
        if scope.training.get("step")
        else f"{scope.name} encoder, {words.training_state(scope.training)}"
    )
    if model.is_recurrent:
        side = "forward direction" if choice.kind == RNN else "both directions"
        cell = "GRU" if config.cell == "gru" else "tanh"
        return f"{trained}, {side} ({cell}, {config.d_hidden} states each)"
    return f"{trained}, layer 1 ({config.n_heads} heads, without residual and LayerNorm)"


def explain_reach(reaches: Sequence[Reach]) -> str:
    """Explain each picture, as a list in Markdown."""
    explanations = {RNN: _rnn, BIDIRECTIONAL: _bidirectional, CNN: _cnn, SELF_ATTENTION: _attention}
    return "\n".join(
        f"- **{reach.choice.kind}.** {explanations[reach.choice.kind](reach)}" for reach in reaches
    )


def _rnn(reach: Reach) -> str:
    return (
        "Lower-triangular: an output sees its own token and those before it. Everything to the right is exactly 0. "
        f"{_along(reach, -1, 'Backwards from an output')}"
    )


def _bidirectional(reach: Reach) -> str:
    """Compare what the forward direction carries with what the backward direction does.

    They are left and right of the diagonal.
    """
    sides = (
        _along(reach, -1, "Left of the diagonal, read forwards"),
        _along(reach, 1, "Right of it, read backwards"),
    )
    return " ".join(
        [
            "Full: one direction fills what the other leaves empty.",
            *(side for side in sides if side),
        ]
    )


def _cnn(reach: Reach) -> str:
    n, choice = len(reach.norms), reach.choice
    field = choice.depth * (choice.width - 1) + 1
    beyond = n * n - int(reach.reaches.sum())
    sees = (
        f"{choice.depth} layers of width {choice.width} see"
        if choice.depth > 1
        else f"1 layer of width {choice.width} sees"
    )
    outside = (
        f"The other {beyond} of {n * n} pairs are exactly 0: this stack cannot see them."
        if beyond
        else f"That covers all {n * n} pairs of this sentence."
    )
    return f"A band: {sees} depth·(width − 1) + 1 = {field} token{'s' * (field > 1)}, centred on the output's own. {outside}"


def _attention(reach: Reach) -> str:
    """Compare the influence of tokens by their distance, separately before and after."""
    others = [entry for entry in reach.by_offset() if entry[0]]
    if not others:
        return "Full."
    least, most = min(others, key=lambda entry: entry[1]), max(others, key=lambda entry: entry[1])
    source = (
        "Distance may still count, because the inputs x hold the position vectors."
        if reach.positioned
        else "It has no positions, so what differs with the distance comes from these tokens alone."
    )
    response = f"On average an output responds most to {_where(most[0])} ({_mean(most)})."
    response += (
        f" It responds least to {_where(least[0])} ({_mean(least)})." if most != least else ""
    )
    return f"Full: every pair is one step apart, and nothing passes through the tokens between. {source} {response}"


def _where(offset: int) -> str:
    """Name a token by its distance before or after the output's own."""
    side = "before" if offset < 0 else "after"
    return (
        f"the token just {side} its own"
        if abs(offset) == 1
        else f"the token {abs(offset)} positions {side} its own"
    )


def _mean(entry: tuple[int, float, int]) -> str:
    _, mean, pairs = entry
    return f"{mean:.2g}, {'one pair' if pairs == 1 else f'mean of {pairs} pairs'}"


def _along(reach: Reach, side: int, where: str) -> str:
    """Compare the influence of the nearest and furthest token of one side, −1 before and 1 after.

    Too few tokens give an empty text.
    """
    entries = [entry for entry in reach.by_offset() if entry[0] * side > 0 and entry[1] > 0]
    if len(entries) < 2:
        return ""
    near, far = sorted(entries, key=lambda entry: abs(entry[0]))[:: len(entries) - 1]
    ratio = near[1] / far[1]
    how = f"{_times(ratio)} weaker" if ratio >= 1 else f"{_times(1 / ratio)} stronger"
    return (
        f"{where}, the influence at distance {abs(near[0])} is {_mean(near)}. At distance {abs(far[0])} it is {how}: "
        f"{_mean(far)}. It passes through every state between."
    )


def _times(ratio: float) -> str:
    return f"{ratio:,.0f} times" if ratio >= 100 else f"{ratio:.3g} times"


def reach_checks(reaches: Sequence[Reach]) -> list[Check]:
    """Check the properties that must hold for the pictures.

    Float32: a chain of matrix products differs from autograd's order of summation by some 1e-6 of
    the values.
    """
    leak = max(reach.leak for reach in reaches)
    output, autograd = (
        max(reach.output_gap for reach in reaches),
        max(reach.autograd_gap for reach in reaches),
    )
    return [
        Check(
            "what cannot be reached is 0",
            leak,
            0.0,
            "Largest ‖∂y(i)/∂x(j)‖ where a layer's graph has no path from x(j) to y(i)",
        ),
        Check(
            "the layers are the models' own",
            output,
            1e-5,
            "Largest difference of any y from the models' own pass, relative",
        ),
        Check(
            "the norms are autograd's",
            autograd,
            1e-4,
            "First tokens through plain autograd; largest difference, relative",
        ),
    ]


REACH = View(
    _payloads,
    _layout,
    choose=_choose,
    within=_within,
    text=_text,
    files=_files,
    is_live=lambda choices: False,
    has_strip=False,
)
