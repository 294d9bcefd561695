"""What the Positions page says: names of the formulas, and what the measurements mean."""

from collections.abc import Sequence

from torch import Tensor

from models.analysis.permutation_test import ShuffleTest
from models.analysis.position_measures import FormulaMeasures
from models.architectures import Model
from viz_app.views.positions.charts import NEVER
from viz_app.views.positions.shuffle import UNRELATED, says

QUESTION = "Positions: how does it know the order?"
SAME, SAME_FLOAT = 1e-6, 1e-4     # of a vector's length: no change, and no change but rounding through every layer
OWN = "model"  # picked beside the formulas: the table of the loaded checkpoint
NAMES = {"paper": "The paper's", "2^i": "Misprint 2ⁱ", "sin-sin": "Misprint sin, sin", OWN: "This model's own"}
LATEX = {
    "paper": r"\sin\frac{pos}{10000^{2i/d}},\;\;\cos\frac{pos}{10000^{2i/d}}",
    "2^i": r"\sin\frac{pos}{10000^{\mathbf{2^i}/d}},\;\;\cos\frac{pos}{10000^{\mathbf{2^i}/d}}",
    "sin-sin": r"\sin\frac{pos}{10000^{2i/d}},\;\;\mathbf{\sin}\frac{pos}{10000^{(\mathbf{2i+1})/d}}",
}
WHOSE = {"paper": "the paper's formula", "2^i": "the misprint 2ⁱ", "sin-sin": "the misprint with sine twice"}
WHAT = {
    "paper": "Dimensions come in pairs, a sine and a cosine of one wavelength. From pair to pair the wavelength grows "
    "by the same factor, from 2π towards 10000·2π positions.",
    "2^i": "2ⁱ printed where 2i should stand. The exponent doubles from pair to pair, so that from the "
    "pair log₂ d on (counted from 0) no wavelength is under 60,000 positions.",
    "sin-sin": "Sine printed in both places, the second time with 2i+1. No dimension has a cosine partner of its own "
    "wavelength.",
}


NO_WAVES = (
    "**Learned vectors have no wavelength.** They are trained like every other weight, and no formula says "
    "how. Look at the map: are neighbouring places alike?"
)
BAND = (
    "Line: mean over all pairs at this distance. Band: least to largest; where there is none, only the distance counts."
)
SHIFT_HELP = "Is PE(pos+k) one fixed matrix times PE(pos), wherever pos is?"
PICTURES = "Each picture has its own download at its upper right corner, when the pointer is on it."


_OF_ONE_TEXT = (
    "**The shuffle test here is for models that read one text and write another.** This model reads one row, in which special "
    "tokens and segments have their places, too. Open **eng-fra** or **dates** for the test; the sections beside it show this "
    "model's own position vectors."
)
_NOT_SHUFFLED = (
    "**There is no shuffle test for this model.** The test asks what an encoder, which reads a text all at once, makes of its "
    "tokens in another order. Here every token reads only those before it: the look-ahead mask alone tells the first from the "
    "last, and a text in another order is another text. Open **eng-fra** or **dates** for the test; the sections beside it "
    "show this model's own position vectors."
)


def not_shuffled(model: Model) -> str:
    """Why there is no shuffle test for a model that does not read one text and write another."""
    return _NOT_SHUFFLED if model.continues else _OF_ONE_TEXT


def answer(model: Model) -> str:
    """How this model knows the order of what it reads, in one or two sentences."""
    if model.is_recurrent:
        return "This model reads one token after the other, so the order is in its states: it has no position vectors."
    alone = "Attention without a mask does not: reorder its tokens, and it only reorders what it makes of them."
    if model.continues:
        alone = "The look-ahead mask tells a little: each token sees as many others as stand before it."
    added = "every place has a vector of its own, added to the token that stands there."
    return f"{alone} {'This model has no position vectors. In others, ' if model.config.positions == 'none' else 'So '}{added}"


def size(n: int, d_model: int) -> str:
    """How large a table of positions is."""
    return f"{n} positions × {d_model} dimensions"


def own_help(kind: str) -> str:
    """What the loaded model's positions are, beside the picker."""
    return "This model has no position vectors." if kind == "none" else f"This model's positions are {kind}."


def explained(formula: str, kind: str) -> str:
    """The table on the screen in words and symbols; `kind` is the loaded model's."""
    if formula != OWN:
        text = f"**{NAMES[formula]}.** PE(pos, 2i) and PE(pos, 2i+1) are\n\n$${LATEX[formula]}$$\n\n{WHAT[formula]}"
        if kind == "learned":
            text += f" The loaded model learned its vectors instead: pick “{NAMES[OWN]}” to see them."
        return text + (" The loaded model has no position vectors at all." if kind == "none" else "")
    if kind == "learned":
        return (
            "**Learned positions.** One vector for each place, trained like every other weight. Nothing in them is "
            "prescribed, and past the last place there is none."
        )
    return f"**Sinusoidal positions**, by the paper's formula, computed and not learned:\n\n$${LATEX['paper']}$$"


RECURRENT = (
    "**This model has no position vectors, and needs none.** It is an RNN: each state is made from the one read before and a "
    "token, so the order is in the recurrence itself. "
)
TABLES_ONLY = RECURRENT + (
    "The tables below are those that are added for attention: without a mask, and without them, the order of its tokens is nothing "
    "to it."
)
NOT_ADDED = RECURRENT + (
    "So there is nothing to add and nothing to concatenate. Choose a Transformer at the left to see how a position vector is "
    "added to a token's."
)
NOT_ATTENDED = (
    "**The encoder of this model has no attention of its own**, so no W reads the sum of token and position here. Choose a "
    "Transformer at the left."
)


def recurrent(test: ShuffleTest) -> str:
    """What the shuffle test found in an RNN's encoder, in words."""
    if test.order == tuple(range(len(test.order))):
        return RECURRENT + "Nothing can change places here: besides the end mark there is only one token. Type more words."
    found = ", ".join(f"{name} {100 * float(mean):.0f} %" for name, mean in zip(test.stages, test.mean, strict=True))
    same = ", ".join(
        f"{name} {int((change < SAME).sum())}" for name, change in zip(test.stages, test.change, strict=True)
    )
    ways = "Reading forwards, a state can only change from the first moved place on" + (
        "; reading backwards, only up to the last one" if len(test.stages) > 1 else ""
    )
    return (
        f"{RECURRENT}Put the same tokens in another order, and each token's state moves on average by this share of its length: "
        f"{found} ({100 * UNRELATED:.0f} % would be a right angle, at equal lengths). {ways}: of {len(test.order)} states these "
        f"are the same as before: {same}. There is nothing to switch off, as there is in a Transformer."
    )


def dimension(formula: str, dim: int, wavelength: float | None) -> str:
    """A dimension's name in a legend: which function, which wavelength."""
    if wavelength is None:
        return f"dimension {dim}"
    function = "cos" if dim % 2 and formula != "sin-sin" else "sin"
    return f"dimension {dim}: {function}, wavelength {length(wavelength)}"


def length(wavelength: float) -> str:
    """A wavelength in positions."""
    return "endless" if wavelength >= NEVER else f"{wavelength:,.1f}" if wavelength < 100 else f"{wavelength:,.0f}"


def turns(waves: Tensor, n: int) -> str:
    """How the wavelengths lie against the length shown."""
    full, endless = int((waves <= n).sum()), int((waves >= NEVER).sum())
    rest = f" {endless} dimensions have a wavelength over 10⁹ and are not drawn." if endless else ""
    return (
        f"{full} of {len(waves)} dimensions come round at least once in {n} positions and tell near places apart; the slower ones "
        f"tell far places apart.{rest}"
    )


def share(value: float) -> str:
    """A share of the vectors' length, as a percentage or as rounding."""
    return f"0 (rounding: {value:.0e})" if value < 1e-6 else f"{100 * value:.1f} %"


def measured_rows(measures: Sequence[FormulaMeasures]) -> list[tuple[str, list[str]]]:
    """The comparison as a table: what is measured, and its value for each formula."""
    d, k = measures[0].table.shape[1], measures[0].shift
    lengths = [m.table.norm(dim=1) for m in measures]
    return [
        ("Dimensions that move at all (by 0.01 or more)", [f"{m.moving} of {d}" for m in measures]),
        (
            "Length of the vectors, shortest to longest",
            [f"{float(v.min()):.2f} to {float(v.max()):.2f}" for v in lengths],
        ),
        (
            "The two positions hardest to tell apart",
            ["{} and {}".format(*m.neighbours.closest_pair) + f", {m.neighbours.least:.3f} apart" for m in measures],
        ),
        (
            "Aliased: positions that resemble one further away more than those beside them",
            [f"{m.neighbours.aliased} of {len(m.table)}" for m in measures],
        ),
        (
            "The two positions least alike: their PE·PEᵀ, as a share of a vector's with itself, on average",
            [f"{100 * m.similarity.floor:.0f} %".replace("-", "−") for m in measures],
        ),
        (
            "PE·PEᵀ at one distance differs from place to place by",
            [f"{m.similarity.spread:.2g}" if m.similarity.spread > 1e-6 else "0" for m in measures],
        ),
        (f"Shift by {k}: turning each pair by its fixed angle misses by", [share(m.rotation_miss) for m in measures]),
        (f"Shift by {k}: the best single matrix there is misses by", [share(m.best_linear_miss) for m in measures]),
    ]


def measured_table(measures: Sequence[FormulaMeasures]) -> str:
    """The rows as a markdown table."""
    lines = [
        "| Measured | " + " | ".join(NAMES[m.formula] for m in measures) + " |",
        "|---" * (len(measures) + 1) + "|",
    ]
    return "\n".join([*lines, *("| " + " | ".join([what, *values]) + " |" for what, values in measured_rows(measures))])


def measured_note(m: FormulaMeasures) -> str:
    """How the shifts were measured."""
    return (
        f"The upper rows are over the {len(m.table)} positions shown. Shifts are measured over {m.n_fit} positions, at "
        "least four times as many as dimensions, so that no matrix fits by luck; a miss is the root mean square, as a "
        "share of the vectors' length."
    )


def verdict(m: FormulaMeasures) -> str:
    """What these numbers mean, in words."""
    n, d = m.table.shape
    said = []
    if m.moving < d / 2:
        said.append(
            f"{d - m.moving} of {d} dimensions stand still over these {n} positions: they cost space in every vector and say "
            f"nothing, and any two positions are at least {100 * m.similarity.floor:.0f} % alike."
        )
    elif m.formula != "sin-sin":
        said.append(f"{m.moving} of {d} dimensions take part.")
    if m.neighbours.aliased:
        said.append(f"{m.neighbours.aliased} of {n} positions resemble one further away more than those beside them.")
    if m.rotation_miss < 1e-6:
        said.append(
            f"A step of {m.shift} is one fixed rotation wherever one stands. That might make it easy for a head to learn “look "
            f"{m.shift} back”: it is why the paper chose its formula (§3.5)."
        )
    else:
        said.append(
            f"No matrix takes PE(pos) to PE(pos+{m.shift}) everywhere. PE(0) already shows it, which is all zeros: a matrix makes "
            f"zeros of zeros. Over {m.n_fit} positions together the best one misses by {share(m.best_linear_miss)} of the vectors' "
            "length."
        )
    if m.similarity.spread > 1e-6:
        said.append("How alike two positions are depends on where they stand, not only on their distance.")
    else:
        said.append("How alike two positions are depends on their distance alone.")
    return " ".join(said)


def shuffled(positioned: ShuffleTest, bare: ShuffleTest, kind: str) -> str:
    """What the shuffle test found, in words."""
    n = len(positioned.order)
    if positioned.order == tuple(range(n)):
        return (
            "Nothing can change places here: besides the end mark there is only one token. Type more words at the left."
        )
    last, place = float(positioned.mean[-1]), positioned.stages[-1]
    exact = says(float(bare.largest.max()))
    rounding = "" if exact == "0" else " That is rounding, because sums are added up in another order."
    where = "as it enters the model" if place == "input" else f"after {place}"
    same = float(bare.largest.max()) < SAME_FLOAT
    if kind == "none":
        return (
            "This model has no position vectors. Its encoder cannot know the order of the source: reordering the tokens only "
            f"reorders its vectors (largest change {exact} of their length).{rounding}"
            if same else f"This model has no position vectors; yet a vector changed by {exact} of its length."
        )
    without = (
        f"every vector is the same as before, only in another place: the largest change anywhere is {exact} of a vector's length."
        f"{rounding}" if same else f"a vector still changed by {exact} of its length: more than rounding explains."
    )
    return (
        f"With positions, a token's vector {where} is on average {100 * last:.0f} % of its length away from what it was "
        f"({100 * UNRELATED:.0f} % would be a right angle, at equal lengths). With positions switched off, {without}"
    )


def through(config: object) -> str:
    """Over the products of both with W_Q, and whether they are the model's own."""
    title = "Both through the model's first W_Q, without its bias: the same numbers"
    if config.positions == "none":
        return f"{title} (this model itself adds no p)"
    return f"{title} (in this model LayerNorm comes between)" if getattr(config, "norm", "post") == "pre" else title


def adding(x: Tensor, p: Tensor, kind: str) -> str:
    """Why adding is a projection of concatenating, for vectors of these sizes."""
    d = x.shape[1]
    lent = (
        " This model adds no positions; p here is the paper's table, which it does not use." if kind == "none" else ""
    )
    return (
        f"**Adding is concatenating, then projecting.** Write x and p one after the other, {2 * d} numbers, and "
        f"multiply by [I; I], two unit matrices one above the other: that gives x + p, {d} numbers. So whatever W "
        "follows,\n\n"
        r"$$\begin{bmatrix}x & p\end{bmatrix}\begin{bmatrix}W\\W\end{bmatrix}=(x+p)\,W.$$"
        "\n\nConcatenating could do a little more: p might have a matrix of its own below W, at the price of "
        f"{d} × {d} more weights in each projection. Adding shares one matrix; keeping the two apart is left to "
        f"training. Here token vectors have a length of {float(x.norm(dim=1).mean()):.2f} on average and position vectors "
        f"{float(p.norm(dim=1).mean()):.2f}.{lent}"
    )
