"""Sentences with numbers, whole: numbers forged so that each has one place, the words around them written out."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from drawn import letters
from small import random_attention_only, random_gpt, random_model, random_seq2seq

from models.analysis.jacobian_reach import (
    BIDIRECTIONAL,
    CNN,
    RNN,
    SELF_ATTENTION,
    LayerChoice,
    Reach,
)
from models.analysis.layer_timing import Timing
from models.analysis.position_measures import measure
from models.analysis.shuffle import ShuffleTest
from models.architectures.base import BY_MASK, BY_VECTORS
from models.architectures.transformer import Transformer
from models.layers.masks import Mask
from models.layers.positions import wavelengths
from models.trace.edits import MaskChange, for_kinds
from viz_app import words
from viz_app.session import run_changes
from viz_app.views.from_rnn import cost_text, reach_text
from viz_app.views.from_rnn import learners_text as from_rnn_learners_text
from viz_app.views.from_rnn import text as from_rnn_text
from viz_app.views.from_rnn.learners import Learner
from viz_app.views.inside import scaling as inside_scaling
from viz_app.views.masks import outcome_text
from viz_app.views.masks import state as masks_state
from viz_app.views.masks import text as masks_text
from viz_app.views.positions import measured_text as measured
from viz_app.views.positions import order_text as order
from viz_app.views.positions import text as positions


def reach(kind: str, norms: list[list[float]], **more: object) -> Reach:
    """A layer of these norms, by hand: output y_i in row i, input x_j in column j."""
    made = torch.tensor(norms)
    of = {name: more.pop(name) for name in ("width", "depth") if name in more}
    steps = torch.ones(made.shape, dtype=torch.int64)
    return Reach(
        LayerChoice(kind, 1, **of), made, made > 0, steps, [[0], [1]], 1, 1, 0.0, 0.0, **more
    )


BEFORE = [[9.0, 0, 0], [4.0, 9.0, 0], [1.0, 2.0, 9.0]]
BOTH = [[9.0, 8.0, 2.0], [4.0, 9.0, 6.0], [0.5, 2.0, 9.0]]


@pytest.mark.parametrize(("found", "said"), [
    (reach(RNN, BEFORE),
     "- **RNN.** Lower-triangular: an output sees its own token and those before it; all to the right is exactly 0. Backwards from "
     "an output, the influence at distance 2 (1, one pair) is 3 times weaker than at distance 1 (3, mean of 2 pairs); it passes "
     "through every state between."),
    (reach(BIDIRECTIONAL, BOTH),
     "- **bidirectional RNN.** Full: one direction fills what the other leaves empty. Left of the diagonal, read forwards, the "
     "influence at distance 2 (0.5, one pair) is 6 times weaker than at distance 1 (3, mean of 2 pairs); it passes through every "
     "state between. Right of it, read backwards, the influence at distance 2 (2, one pair) is 3.5 times weaker than at distance 1 "
     "(7, mean of 2 pairs); it passes through every state between."),
    (reach(CNN, [[1.0, 1, 0], [1, 1, 1], [0, 1, 1]], width=3, depth=1),
     "- **CNN.** A band: 1 layer of width 3 sees depth·(width − 1) + 1 = 3 tokens, centred on the output's own. The other 2 of 9 "
     "pairs are exactly 0: this stack cannot see them."),
    (reach(SELF_ATTENTION, BOTH, positioned=True),
     "- **self-attention.** Full: every pair is one step apart, and nothing has to pass through the tokens between. Distance may "
     "still count, because the inputs x hold the position vectors. On average an output responds most to the token just after its "
     "own (7, mean of 2 pairs) and least to the token 2 places before its own (0.5, one pair)."),
])  # fmt: skip
def test_what_reaches_what(found: Reach, said: str) -> None:
    assert reach_text.explanation([found]) == said


def timings(**powers: tuple[float, float]) -> list[Timing]:
    """Of layers whose time at 64 tokens is the second number and grows as this power of n."""
    kinds = {"rnn": RNN, "attention": SELF_ATTENTION}
    return [
        Timing(kinds[name], n, (last * (n / 64) ** power,))
        for n in (8, 16, 32, 64)
        for name, (power, last) in powers.items()
    ]


def test_how_times_grew() -> None:
    assert cost_text.growth_text(timings(rnn=(1, 7.0), attention=(2, 2.0))) == (
        "In the upper half of the lengths time grows as: RNN n^1.00 (32 to 64); self-attention n^2.00 (32 to 64). With n^1, twice "
        "the tokens take twice the time; with n^2, four times. At 64 tokens the RNN takes 3.5 times as long as self-attention."
    )
    assert cost_text.growth_text(timings(rnn=(1, 7.0))[:1]) == (
        "Two lengths in the upper half are needed before a slope can be fitted."
    )


def test_table_1_with_what_was_counted_and_measured() -> None:
    heading, _, rnn, restricted = cost_text.comparison_table(
        [reach(RNN, BEFORE)], timings(rnn=(1.5, 1.0))
    ).splitlines()
    assert heading == (
        "| layer | complexity per layer | sequential operations (here, n = 3) | maximum path length (here, n = 3) "
        "| measured growth |"
    )
    assert rnn == "| RNN | O(n·d²) | O(n) (**2**) | O(n) (**1**) | n^1.50 |"
    assert restricted == "| self-attention (restricted) | O(r·n·d) | O(1) | O(n/r) | – |"


def test_how_far_scores_fall() -> None:
    """In words of the source; the best bucket is neither the first nor the longest, and the longest stands first."""
    buckets = [
        {"least": 12, "most": 22, "score": 30.56, "cases": 1304}, {"least": 2, "most": 3, "score": 41.0, "cases": 71},
        {"least": 4, "most": 5, "score": 49.84, "cases": 310},
    ]  # fmt: skip
    assert from_rnn_text.score_drop({"a": buckets, "b": buckets[:1]}, {"a": 9, "b": 9}) == (
        "- **a** loses 39% of its best: 19.2 BLEU, from 49.8 (4–5 words) to 30.6 (12–22 words, 1,304 cases).\n"
        "- **b** is best on its longest sentences, 12–22 words: 30.6.\n\n"
        "Each point is a score over 71 to 1,304 cases; point at it to see how many."
    )


def test_what_is_counted_what_is_timed_and_what_a_gpu_would_change() -> None:
    one, more, gpu = (
        cost_text.counted_and_timed(*where) for where in (("cpu", 1), ("cpu", 3), ("cuda", 1))
    )
    for said in (one, more, gpu):
        assert said.startswith(
            "**Counted**, on each layer's own graph: the timetable, the path lengths and the bold figures"
        )
        assert (
            "**Timed**, on this machine: the plot of times and the measured growth, nothing else."
            in said
        )
        assert "the RNN still takes its n steps one after the other" in said
    assert "One CPU thread does one thing at a time: **nothing below runs in parallel**" in one
    assert "On a GPU the positions of one sequential step run at once" in one
    assert "The 3 CPU threads share the large products" in more
    assert "parallel" not in more + gpu
    assert "This is a GPU (cuda): the positions" in gpu


def test_how_far_two_alignments_lie_apart() -> None:
    """Steps are counted from 1."""
    said = (
        "On average the two rows are **0.26 bits** apart. They differ most at step 4, by 0.91 bits; the bars show which token that "
        "is."
    )
    assert from_rnn_text.divergence(0.256, 3, 0.914) == said
    assert (
        from_rnn_text.divergence(0.256, 3, 0.914, "Not trained alike.")
        == f"{said} Not trained alike."
    )


def test_which_model_of_a_pair_is_missing() -> None:
    start = "Two trained models of this task are needed, with the same tokens. Missing: "
    alignment, heads = "one with Bahdanau's alignment", "a Transformer with cross-attention"
    assert from_rnn_text.no_pair([], False, True) == f"{start}{alignment}."
    assert from_rnn_text.no_pair(["x", "y"], True, False) == f"{start}{heads} (looked for: x, y)."
    assert from_rnn_text.no_pair([], False, False) == f"{start}{alignment} and {heads}."


def test_whose_weights_and_which_cell() -> None:
    def named(model: torch.nn.Module, step: int = 0) -> SimpleNamespace:
        return SimpleNamespace(
            name="mine", model=model, config=model.config, training={"step": step} if step else {}
        )

    recurrent, transformer = named(random_seq2seq(), 1234), named(random_model())
    for kind, cell in (
        (RNN, "forward direction (GRU, 7"),
        (BIDIRECTIONAL, "both directions (GRU, 7"),
    ):
        assert (
            reach_text.weights(recurrent, LayerChoice(kind))
            == f"trained, mine encoder, {cell} states each)"
        )
    plain = named(random_seq2seq(cell="tanh"), 1)
    assert (
        reach_text.weights(plain, LayerChoice(RNN))
        == "trained, mine encoder, forward direction (tanh, 7 states each)"
    )
    assert reach_text.weights(transformer, LayerChoice(SELF_ATTENTION)) == (
        f"mine encoder, training not recorded, layer 1 ({transformer.config.n_heads} heads, without residual and LayerNorm)"
    )
    for kind, sizes in ((CNN, " as any CNN here (tanh, 64 channels)"), (RNN, " (tanh, 64 states)"),
                        (BIDIRECTIONAL, " (tanh, 64 states each way)"), (SELF_ATTENTION, "")):  # fmt: skip
        assert reach_text.weights(transformer, LayerChoice(kind, 5)) == (
            f"random weights, seed 5: untrained{sizes}, on the embeddings of mine"
        )
    assert (
        from_rnn_text.provenance(recurrent, "softmax") == "mine, trained for 1,234 steps: softmax"
    )
    assert (
        from_rnn_text.provenance(transformer, "softmax") == "mine, training not recorded: softmax"
    )


@pytest.mark.parametrize(("before", "after", "same", "said"), [
    (-4.0, -2.0, True, "The loss on the given target falls (1.000 → 0.500 nats a token): seeing what comes next helps this "
     "model to guess it."),
    (-2.0, -4.0, False, "One might expect a lower loss on the given target; it rises (0.500 → 1.000 nats a token): trained with "
     "the mask, this model has not learned to use what lies ahead."),
    (-2.0, -2.001, True, "That makes no difference to the loss on the given target (0.500 → 0.500 nats a token)."),
])  # fmt: skip
def test_looking_ahead(before: float, after: float, same: bool, said: str) -> None:
    old, new = (
        SimpleNamespace(log_prob=value, labels=(4, 5, 6, 2), output_ids=ids)
        for value, ids in ((before, (4, 2)), (after, (4, 2) if same else (5, 2)))
    )
    ends = "stays the same here" if same else "comes out differently"
    assert outcome_text.cheat(
        old, new, for_kinds(decoder_self=MaskChange(opened=((0, 1),))), Transformer.kinds
    ) == (
        f"The decoder may look ahead. {said} While writing there is nothing ahead to read, yet each new token changes "
        f"what earlier ones see: the text {ends}."
    )


def test_names_and_lengths_of_waves() -> None:
    assert [positions.length(wave) for wave in (6.2832, 99.94, 123.4, 62_831.9, 1e9)] == [
        "6.3", "99.9", "123", "62,832", "endless",
    ]  # fmt: skip
    assert positions.dimension("paper", 4, 6.2832) == "dimension 4: sin, wavelength 6.3"
    assert positions.dimension("paper", 5, 6.2832) == "dimension 5: cos, wavelength 6.3"
    assert positions.dimension("sin-sin", 5, 6.2832) == "dimension 5: sin, wavelength 6.3"
    assert positions.dimension("model", 5, None) == "dimension 5"
    assert (measured.share(0.1234), measured.share(2e-9)) == ("12.3 %", "0 (rounding: 2e-09)")
    waves = torch.tensor([6.0, 50.0, 100.0, 101.0, 5e9])
    assert positions.turns(waves, 100) == (
        "3 of 5 dimensions come round at least once in 100 positions and tell near places apart; the slower ones tell far places "
        "apart. 1 dimensions have a wavelength over 10⁹ and are not drawn."
    )
    assert positions.turns(wavelengths("paper", 8), 100).endswith("tell far places apart.")


def test_what_adding_costs() -> None:
    x, p = torch.full((3, 4), 2.0), torch.full((3, 4), 0.5)
    said = order.adding(x, p, "sinusoidal")
    assert "one after the other, 8 numbers, and multiply by [I; I]" in said
    assert "that gives x + p, 4 numbers." in said
    assert said.endswith(
        "at the price of 4 × 4 more weights in each projection. Adding shares one matrix; keeping the two apart is left to "
        "training. Here token vectors have a length of 4.00 on average and position vectors 1.00."
    )
    assert order.adding(x, p, "none") == (
        f"{said} This model adds no positions; p here is the paper's table, which it does not use."
    )


def test_the_table_of_the_three_formulas() -> None:
    made = replace(
        measure("paper", 100, 8, 5),
        n_varying=7,
        rotation_miss=3e-9,
        best_linear_miss=0.25,
        n_fit=123,
    )
    rows = dict(measured.measured_rows([made]))
    lengths = made.table.norm(dim=1)
    assert rows["Dimensions that move at all (by 0.01 or more)"] == ["7 of 8"]
    assert rows["Length of the vectors, shortest to longest"] == [
        f"{lengths.min():.2f} to {lengths.max():.2f}"
    ]
    assert rows["Shift by 5: turning each pair by its fixed angle misses by"] == [
        "0 (rounding: 3e-09)"
    ]
    assert rows["Shift by 5: the best single matrix there is misses by"] == ["25.0 %"]
    products = made.table @ made.table.T
    floor = float((products / products.diagonal().mean()).min())
    assert rows[
        "The two positions least alike: their PE·PEᵀ, as a share of a vector's with itself, on average"
    ] == [f"{100 * floor:.0f} %".replace("-", "−")]
    distances = torch.cdist(made.table, made.table).fill_diagonal_(torch.inf)
    a, b = divmod(int(distances.argmin()), 100)
    assert rows["The two positions hardest to tell apart"][0].endswith(
        f", {distances[a, b]:.3f} apart"
    )
    assert measured.measured_note(made) == (
        "The upper rows are over the 100 positions shown. Shifts are measured over 123 positions, at least four times as many as "
        "dimensions, so that no matrix fits by luck; a miss is the root mean square, as a share of the vectors' length."
    )


def shuffle(change: float, order: tuple[int, ...] = (1, 0, 2)) -> ShuffleTest:
    """A run whose last stage moved each vector by this share of its length, the input by none."""
    original = torch.ones(2, 3, 4)
    put_back = original.clone()
    put_back[1, :, 0] += 2 * change  # every vector has length 2
    return ShuffleTest(order, ("input", "layer 1"), original, put_back)


def test_the_shuffle_test() -> None:
    with_positions = (
        "With positions, a token's vector after layer 1 is on average 75 % of its length away from what it was (141 % would be a "
        "right angle, at equal lengths). With positions switched off, "
    )
    assert order.shuffled(shuffle(0.75), shuffle(0.0), "sinusoidal") == (
        f"{with_positions}every vector is the same as before, only in another place: the largest change anywhere is 0 of a "
        "vector's length."
    )
    assert order.shuffled(shuffle(0.75), shuffle(0.5), "sinusoidal") == (
        f"{with_positions}a vector still changed by 0.50 of its length: more than rounding explains."
    )
    assert order.shuffled(shuffle(0.75), shuffle(0.5), "none") == (
        "This model has no position vectors; yet a vector changed by 0.50 of its length."
    )
    assert order.shuffled(shuffle(0.0), shuffle(0.0), "none") == (
        "This model has no position vectors. Its encoder cannot know the order of the source: reordering the tokens only reorders "
        "its vectors (largest change 0 of their length)."
    )
    assert order.shuffled(shuffle(0.75, (0, 1, 2)), shuffle(0.0), "sinusoidal") == (
        "Nothing can change places here: besides the end mark there is only one token. Type more words on the left."
    )


def test_what_the_positions_of_the_loaded_model_are() -> None:
    assert positions.own_help("none", BY_MASK) == "This model has no position vectors at all."
    assert positions.own_help("learned", BY_VECTORS) == "This model's positions are learned."
    attention = "Attention without a mask does not: reorder its tokens, and it only reorders what it makes of them."
    vector = "every place has a vector of its own, added to the token that stands there."
    assert (
        positions.answer(random_attention_only(positions="sinusoidal"))
        == f"{attention} So {vector}"
    )
    assert positions.answer(random_model(positions="none")) == (
        f"{attention} This model has no position vectors. In others, {vector}"
    )
    ahead = "The look-ahead mask tells a little: each token sees as many others as stand before it."
    assert positions.answer(random_gpt()) == f"{ahead} So {vector}"
    assert positions.explanation(positions.OWN, "learned", BY_VECTORS) == (
        "**Learned positions.** One vector for each place, trained like every other weight. Nothing in them is prescribed, and "
        "past the last place there is none."
    )
    assert positions.explanation(positions.OWN, "sinusoidal", BY_VECTORS).startswith(
        "**Sinusoidal positions**, by the paper's formula, computed and not learned:\n\n$$\\sin"
    )
    for kind, more in (("sinusoidal", ""), ("none", " The loaded model has no position vectors at all."),
                       ("learned", " The loaded model learned its vectors instead: pick “This model's own” to see them."),
    ):  # fmt: skip
        assert positions.explanation("2^i", kind, BY_MASK) == (
            "**Misprint 2ⁱ.** PE(pos, 2i) and PE(pos, 2i+1) are\n\n"
            f"$${positions.LATEX['2^i']}$$\n\n{positions.WHAT['2^i']}{more}"
        )


# what the division by √d_k does


@pytest.mark.parametrize(("now", "then", "said"), [
    (1.0, 0.0004, "hardly at all"), (1.0, 0.9, "only 0.9 times as strongly"), (1.0, 0.96, "about as strongly"),
    (1.0, 1.04, "about as strongly"), (2.0, 5.0, "2.5 times as strongly"), (5.0, 2.0, "only 0.4 times as strongly"),
])  # fmt: skip
def test_how_many_times_as_strongly(now: float, then: float, said: str) -> None:
    assert inside_scaling._answer(now, then) == said


@pytest.mark.parametrize(("softmax", "product", "said"), [
    ((0.0, 0.0), (0.0, 0.0), "Every query of this head is so settled that no gradient is left to measure, with the division or "
     "without."),
    ((0.5, 0.1), (0.25, 0.1), "Over all queries of this head the mean gradient by q·k would be 0.1 instead of 0.25: less would "
     "reach q and k, which is what the paper divides against (§3.2.1)."),
    ((0.5, 0.3), (0.2, 0.3), "Over all queries of this head the mean gradient by q·k would be 0.3 instead of 0.2. The paper "
     "divides because a settled softmax has small gradients (§3.2.1): its own mean here would be 0.3 instead of 0.5, but the "
     "missing 1/√dₖ makes up for that."),
    ((0.5, 0.6), (0.2, 0.6), "Over all queries of this head the mean gradient by q·k would be 0.6 instead of 0.2, and softmax's "
     "own 0.6 instead of 0.5: neither would be smaller on this head."),
])  # fmt: skip
def test_what_the_gradients_say_of_the_division(softmax: tuple, product: tuple, said: str) -> None:
    """With the division first, without second."""
    found = SimpleNamespace(mean_gradient=softmax, mean_product_gradient=product)
    assert inside_scaling._moral(found) == said


# what is common to several pages


def test_where_queries_keys_and_values_come_from() -> None:
    said = {
        kind.name: words.where_from(
            SimpleNamespace(
                site_kind=kind,
                stack=kind.stack,
                role=kind.role,
                query_stream=kind.query_stream,
                key_stream=kind.key_stream,
                has_causes=True,
                mask=Mask(),
            ),
            words.terms("translation", "eng-fra"),
        )
        for kind in Transformer.kinds
    }
    both = "Queries **Q**, keys **K** and values **V** all come from"
    assert said == {
        "encoder_self": f"{both} the English sentence: each English token may read every other, in both directions.",
        "decoder_self": f"{both} the French so far. Nothing may read what comes after it, because a model that writes "
        "from left to right does not have that yet: these cells are hatched and their weight is exactly 0.",
        "cross": "Queries **Q** come from the French so far (the decoder); keys **K** and values **V** come from the English "
        "sentence (as it leaves the encoder). This is where the two texts meet.",
    }


def test_at_an_earlier_step() -> None:
    assert words.at_step(1250, {}) == (
        "The line above and all pictures below are of the weights after 1,250 steps, reading the same text as the finished model. "
        "Of these weights: no score was measured."
    )
    assert words.after_steps(1) == "the weights after 1 step"


@pytest.mark.parametrize(("sizes", "said"), [
    ((10, 2000), "W, U and v (in all 10 to 2,000 parameters). "), ((10, 10), "W, U and v. "),
])  # fmt: skip
def test_sizes_are_told_where_they_differ(sizes: tuple[int, ...], said: str) -> None:
    found = [Learner("x", "one", size, 400, (), None, None) for size in sizes]
    assert said in from_rnn_learners_text.similarities(found)
    assert "trained for 400 steps each by one recipe" in from_rnn_learners_text.similarities(found)


def test_names_in_links_of_the_masks_page_stay() -> None:
    """A link from yesterday shows the same today."""
    named = masks_state.SECOND.name, masks_state.WHICH.name, masks_state.PAINTED.name
    assert named == ("masks-second", "masks-shown", "mask")
    by_kind = {kind: parameter.name for kind, parameter in run_changes.MASK_CHANGES.items()}
    assert by_kind == {
        "encoder_self": "encoder-mask", "decoder_self": "decoder-mask", "cross": "cross-mask", "self": "self-mask",
        "content": "content-mask", "query": "query-mask",
    }  # fmt: skip


@pytest.mark.parametrize(("kind", "said"), [
    ("encoder_self", "The source is read once, so writing meets the same mask at every step."),
    ("decoder_self", "While writing, a prefix of m tokens meets the top-left m × m part of the mask."),
    ("cross", "While writing, a prefix of m tokens meets the first m rows of the mask."),
])  # fmt: skip
def test_what_of_a_mask_is_met_while_writing(kind: str, said: str) -> None:
    trace = letters("transformer").run("abc", "ed")
    site = next(site for site in trace.attention.values() if site.kind == kind)
    held = f"Every layer and head of that kind of attention, and both texts, by position. {said}"
    assert held in masks_text.rules(site)
    streams = {True: "its residual stream and the bias of W_O", False: "the bias of W_O"}
    for has_stream, stream in streams.items():
        said = f"the heads pass on zeros, and the token goes on with {stream} alone."
        assert said in masks_text.rules(site, has_stream)
