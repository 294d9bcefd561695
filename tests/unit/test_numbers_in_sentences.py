"""Sentences with numbers: each forged number must appear beside what it counts, with the right direction."""

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
from models.analysis.position_measures import measure_formula
from models.analysis.shuffle import ShuffleTest
from models.architectures.base import BY_MASK, BY_VECTORS
from models.architectures.transformer import Transformer
from models.layers.masks import Mask, look_ahead
from models.layers.positions import wavelengths
from models.trace.edits import MaskChange, for_kinds
from viz_app import words
from viz_app.session import run_changes
from viz_app.views.from_rnn import cost as cost_text
from viz_app.views.from_rnn import learning, pair
from viz_app.views.from_rnn import reach as reach_text
from viz_app.views.from_rnn.learners import Learner
from viz_app.views.inside import scaling as inside_scaling
from viz_app.views.masks import outcome_text
from viz_app.views.masks import state as masks_state
from viz_app.views.masks import text as masks_text
from viz_app.views.positions import adding
from viz_app.views.positions import misprints as measured
from viz_app.views.positions import text as positions
from viz_app.views.positions.page import positions_answer


def assert_contains(said: str, *parts: str) -> None:
    """Assert that a text contains these, in this order."""
    at = 0
    for part in parts:
        at = said.find(part, at) + len(part)
        assert at >= len(part), (part, said)


def reach(kind: str, norms: list[list[float]], **more: object) -> Reach:
    """Return a layer with these norms, by hand: output y_i in row i, input x_j in column j."""
    made = torch.tensor(norms)
    of = {name: more.pop(name) for name in ("width", "depth") if name in more}
    steps = torch.ones(made.shape, dtype=torch.int64)
    return Reach(
        LayerChoice(kind, 1, **of), made, made > 0, steps, [[0], [1]], 1, 1, 0.0, 0.0, **more
    )


BEFORE = [[9.0, 0, 0], [4.0, 9.0, 0], [1.0, 2.0, 9.0]]
BOTH = [[9.0, 8.0, 2.0], [4.0, 9.0, 6.0], [0.5, 2.0, 9.0]]


@pytest.mark.parametrize(("found", "said"), [
    (reach(RNN, BEFORE), ("RNN", "Lower-triangular", "Backwards", "1 is 3, mean of 2", "At distance 2 it is 3 times weaker: 1")),
    (reach(BIDIRECTIONAL, BOTH), (
        "bidirectional RNN", "Full", "Left of the diagonal, read forwards", "1 is 3, mean", "At distance 2 it is 6 times weaker: 0.5,",
        "Right of it, read backwards", "distance 1 is 7, mean of 2 pairs", "At distance 2 it is 3.5 times weaker: 2,")),
    (reach(CNN, [[1.0, 1, 0], [1, 1, 1], [0, 1, 1]], width=3, depth=1), (
        "CNN", "A band: 1 layer of width 3", "= 3 tokens", "other 2 of 9 pairs are exactly 0")),
    (reach(SELF_ATTENTION, BOTH, positioned=True), (
        "self-attention", "Full", "the inputs x hold the position vectors", "most to the token just after its own (7, mean of 2 pairs)",
        "least to the token 2 positions before its own (0.5, one pair)")),
])  # fmt: skip
def test_the_sentence_on_reach(found: Reach, said: tuple[str, ...]) -> None:
    assert_contains(reach_text.explain_reach([found]), *said)


def timings(**powers: tuple[float, float]) -> list[Timing]:
    """Return the timings of layers whose time at 64 tokens is the second number and grows as this power of n."""
    kinds = {"rnn": RNN, "attention": SELF_ATTENTION}
    return [
        Timing(kinds[name], n, (last * (n / 64) ** power,))
        for n in (8, 16, 32, 64)
        for name, (power, last) in powers.items()
    ]


def test_how_times_grew() -> None:
    assert_contains(
        cost_text.growth_text(timings(rnn=(1, 7.0), attention=(2, 2.0))),
        "RNN n^1.00 (32 to 64); self-attention n^2.00 (32 to 64)",
        "At 64 tokens the RNN takes 3.5 times as long as self-attention",
    )
    assert_contains(
        cost_text.growth_text(timings(rnn=(1, 7.0))[:1]), "Two lengths in the upper half are needed"
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
    """Lengths are in words of the source; the best bucket is neither the first nor the longest, and the longest is listed first."""
    buckets = [
        {"least": 12, "most": 22, "score": 30.56, "cases": 1304}, {"least": 2, "most": 3, "score": 41.0, "cases": 71},
        {"least": 4, "most": 5, "score": 49.84, "cases": 310},
    ]  # fmt: skip
    assert_contains(
        learning.score_drop({"a": buckets, "b": buckets[:1]}, {"a": 9, "b": 9}),
        "**a** loses 39% of its best: 19.2 BLEU, from 49.8 (4–5 words) to 30.6 (12–22 words, 1,304 cases)",
        "**b** is best on its longest sentences, 12–22 words: 30.6",
        "71 to 1,304 cases",
    )


def test_counted_and_timed_numbers_and_the_effect_of_a_gpu() -> None:
    one, more, gpu = (
        cost_text.counted_and_timed(*where) for where in (("cpu", 1), ("cpu", 3), ("cuda", 1))
    )
    for said in (one, more, gpu):
        assert_contains(said, "Counted", "the path lengths", "Timed", "the plot of times")
        assert "The RNN takes its n steps in turn" in said
    assert "**nothing here runs in parallel**" in one
    assert "On a GPU" in one
    assert "3 CPU threads" in more
    assert "parallel" not in more + gpu
    assert "This is a GPU (cuda)" in gpu


def test_the_sentence_on_the_distance_of_two_alignments() -> None:
    """Steps count from 1."""
    assert_contains(
        pair.divergence_sentence(0.256, 3, 0.914),
        "0.26 bits** apart",
        "most at step 4, by 0.91 bits",
    )
    assert pair.divergence_sentence(0.256, 3, 0.914, "Not trained alike.").endswith(
        " Not trained alike."
    )


def test_which_model_of_a_pair_is_missing() -> None:
    alignment, heads = "one with Bahdanau's alignment", "a Transformer with cross-attention"
    said = [
        pair.no_pair(*given)
        for given in (([], False, True), (["x", "y"], True, False), ([], False, False))
    ]
    assert [(alignment in one, heads in one) for one in said] == [
        (True, False),
        (False, True),
        (True, True),
    ]
    assert "(looked for: x, y)" in said[1]


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
            reach_text.weights_label(recurrent, LayerChoice(kind))
            == f"trained, mine encoder, {cell} states each)"
        )
    plain = named(random_seq2seq(cell="tanh"), 1)
    assert (
        reach_text.weights_label(plain, LayerChoice(RNN))
        == "trained, mine encoder, forward direction (tanh, 7 states each)"
    )
    assert reach_text.weights_label(transformer, LayerChoice(SELF_ATTENTION)) == (
        f"mine encoder, training not recorded, layer 1 ({transformer.config.n_heads} heads, without residual and LayerNorm)"
    )
    for kind, sizes in ((CNN, " as any CNN here (tanh, 64 channels)"), (RNN, " (tanh, 64 states)"),
                        (BIDIRECTIONAL, " (tanh, 64 states each way)"), (SELF_ATTENTION, "")):  # fmt: skip
        assert reach_text.weights_label(transformer, LayerChoice(kind, 5)) == (
            f"random weights, seed 5: untrained{sizes}, on the embeddings of mine"
        )
    assert pair.provenance(recurrent, "softmax") == "mine, trained for 1,234 steps: softmax"
    assert pair.provenance(transformer, "softmax") == "mine, training not recorded: softmax"


@pytest.mark.parametrize(("before", "after", "same", "said"), [
    (-4.0, -2.0, True, ("falls (1.000 → 0.500 nats per token)", "helps")),
    (-2.0, -4.0, False, ("it rises (0.500 → 1.000 nats per token)", "has not learned to use later tokens")),
    (-2.0, -2.001, True, ("no difference", "(0.500 → 0.500 nats per token)")),
])  # fmt: skip
def test_looking_ahead(before: float, after: float, same: bool, said: tuple[str, ...]) -> None:
    old, new = (
        SimpleNamespace(log_prob=value, labels=(4, 5, 6, 2), output_ids=ids)
        for value, ids in ((before, (4, 2)), (after, (4, 2) if same else (5, 2)))
    )
    edits = for_kinds(decoder_self=MaskChange(allow=((0, 1),)))
    new.trace = letters().run("ab", "cd", edits=edits)
    told = outcome_text.look_ahead_effect(old, new, edits, Transformer.kinds)
    assert_contains(
        told, "decoder may look ahead", *said, "stays the same" if same else "comes out differently"
    )


def test_names_and_lengths_of_waves() -> None:
    assert [positions.wavelength_text(wave) for wave in (6.2832, 99.94, 123.4, 62_831.9, 1e9)] == [
        "6.3", "99.9", "123", "62,832", "infinite",
    ]  # fmt: skip
    assert positions.dimension("paper", 4, 6.2832) == "dimension 4: sin, wavelength 6.3"
    assert positions.dimension("paper", 5, 6.2832) == "dimension 5: cos, wavelength 6.3"
    assert positions.dimension("sin-sin", 5, 6.2832) == "dimension 5: sin, wavelength 6.3"
    assert positions.dimension("model", 5, None) == "dimension 5"
    assert (measured.length_share(0.1234), measured.length_share(2e-9)) == (
        "12.3 %",
        "0 (rounding: 2e-09)",
    )
    waves = torch.tensor([6.0, 50.0, 100.0, 101.0, 5e9])
    assert_contains(
        positions.wavelengths_sentence(waves, 100),
        "3 of 5 dimensions",
        "in 100 positions",
        "1 dimensions",
        "over 10⁹",
    )
    assert positions.wavelengths_sentence(wavelengths("paper", 8), 100).endswith(
        "tell distant positions apart."
    )


def test_what_adding_costs() -> None:
    x, p = torch.full((3, 4), 2.0), torch.full((3, 4), 0.5)
    said = adding.explain_adding(x, p, "sinusoidal")
    assert_contains(said, "8 numbers", "that gives x + p, 4 numbers", "4 × 4 more weights")
    assert_contains(said, "token vectors have a length of 4.00", "position vectors 1.00")
    assert "adds no positions" in adding.explain_adding(x, p, "none").removeprefix(said)


def test_the_table_of_the_three_formulas() -> None:
    made = replace(
        measure_formula("paper", 100, 8, 5),
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
    assert rows["Shift by 5: the best single matrix misses by"] == ["25.0 %"]
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
    assert_contains(
        measured.measured_note(made),
        "100 positions shown",
        "over 123 positions",
        "root mean square",
    )


def shuffle(change: float, order: tuple[int, ...] = (1, 0, 2)) -> ShuffleTest:
    """Return a shuffle test whose last stage moved each vector by this share of its length, the input by none."""
    original = torch.ones(2, 3, 4)
    put_back = original.clone()
    put_back[1, :, 0] += 2 * change  # every vector has length 2
    return ShuffleTest(order, ("input", "layer 1"), original, put_back)


def test_the_shuffle_test() -> None:
    moved = (
        "after layer 1 changes on average by 75 % of its length",
        "141 % would be a right angle",
        "switched off",
    )
    for kind, change, order, said in (
        ("sinusoidal", (0.75, 0.0), (1, 0, 2), (*moved, "each vector stays the same", "The largest change is 0 of")),
        ("sinusoidal", (0.75, 0.5), (1, 0, 2), (*moved, "changed by 0.50 of its length: more than rounding")),
        ("none", (0.75, 0.5), (1, 0, 2), ("no position vectors; yet a vector changed by 0.50",)),
        ("none", (0.0, 0.0), (1, 0, 2), ("no position vectors", "cannot know the order", "Largest change: 0 of")),
        ("sinusoidal", (0.75, 0.0), (0, 1, 2), ("Nothing can be reordered",)),
    ):  # fmt: skip
        assert_contains(
            positions.explain_shuffle(*(shuffle(one, order) for one in change), kind), *said
        )


def test_what_the_positions_of_the_loaded_model_are() -> None:
    assert positions.own_help("none", BY_MASK) == "This model has no position vectors at all."
    assert positions.own_help("learned", BY_VECTORS) == "This model's positions are learned."
    without, vector, ahead = (
        "Attention alone ignores order",
        "a position vector is added",
        "The look-ahead mask gives",
    )
    assert_contains(
        positions_answer(random_attention_only(positions="sinusoidal")), without, "So", vector
    )
    assert_contains(
        positions_answer(random_model(positions="none")),
        without,
        "no position vectors",
        "In others",
        vector,
    )
    assert_contains(positions_answer(random_gpt()), ahead, "In addition", vector)
    assert "past the last position there is none" in positions.explain_table(
        positions.OWN_TABLE, "learned", BY_VECTORS
    )
    assert_contains(
        positions.explain_table(positions.OWN_TABLE, "sinusoidal", BY_VECTORS),
        "not learned",
        "$$\\sin",
    )
    for kind, more in (
        ("sinusoidal", ""),
        ("none", "no position vectors"),
        ("learned", "learned its vectors"),
    ):
        said = positions.explain_table("2^i", kind, BY_MASK)
        assert_contains(
            said, "PE(pos, 2i)", f"$${positions.LATEX['2^i']}$$", positions.WHAT["2^i"], more
        )
        assert bool(more) != said.endswith(positions.WHAT["2^i"])


# what the division by √d_k does


@pytest.mark.parametrize(("now", "then", "said"), [
    (1.0, 0.0004, "hardly at all"), (1.0, 0.9, "only 0.9 times as strongly"), (1.0, 0.96, "about as strongly"),
    (1.0, 1.04, "about as strongly"), (2.0, 5.0, "2.5 times as strongly"), (5.0, 2.0, "only 0.4 times as strongly"),
])  # fmt: skip
def test_how_many_times_as_strongly(now: float, then: float, said: str) -> None:
    assert inside_scaling._answer(now, then) == said


@pytest.mark.parametrize(("softmax", "product", "said"), [
    ((0.0, 0.0), (0.0, 0.0), ("no gradient is left",)),
    ((0.5, 0.1), (0.25, 0.1), ("by q·k would be 0.1 instead of 0.25", "Less of it would reach q and k")),
    ((0.5, 0.002), (0.25, 0.002), ("by q·k would be 0.002 instead of 0.25", "could hardly learn")),
    ((0.5, 0.3), (0.2, 0.3), ("by q·k would be 0.3 instead of 0.2", "Its own mean here would be 0.3 instead of 0.5", "makes up")),
    ((0.5, 0.6), (0.2, 0.6), ("by q·k would be 0.6 instead of 0.2", "0.6 instead of 0.5", "neither would be smaller")),
])  # fmt: skip
def test_the_sentence_on_the_gradients_with_and_without_the_division(
    softmax: tuple, product: tuple, said: tuple[str, ...]
) -> None:
    """The gradient with the division comes first, the one without second."""
    found = SimpleNamespace(mean_gradient=softmax, mean_product_gradient=product)
    text = inside_scaling._compare_with_paper(found)
    assert_contains(text, *said)
    assert ("hardly learn" in text) == (0 < product[1] < 0.01 * product[0])


# sentences that several pages share


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
                mask=Mask([look_ahead(3, 3)] if kind.name == "decoder_self" else []),
                n_query=3,
                n_key=3,
            ),
            words.terms("translation", ("en", "fr")),
        )
        for kind in Transformer.kinds
    }
    assert_contains(
        said["encoder_self"],
        "Queries **Q**, keys **K** and values **V** all",
        "English sentence",
        "in both directions",
    )
    assert_contains(
        said["decoder_self"], "all come from the French so far", "comes after it", "exactly 0"
    )
    assert_contains(
        said["cross"],
        "Queries **Q** come from the French",
        "keys **K** and values **V** come from the English",
    )


def test_at_an_earlier_step() -> None:
    assert_contains(
        words.at_step(1250, {}), "after 1,250 steps", "Score of these weights: not measured"
    )
    assert words.after_steps(1) == "the weights after 1 step"


@pytest.mark.parametrize(("sizes", "said"), [
    ((10, 2000), "W, U and v (in all 10 to 2,000 parameters). "), ((10, 10), "W, U and v. "),
])  # fmt: skip
def test_sizes_are_mentioned_where_they_differ(sizes: tuple[int, ...], said: str) -> None:
    found = [Learner("x", "one", size, 400, (), None, None) for size in sizes]
    assert said in learning.compare_similarities(found)
    assert "trained for 400 steps each under each similarity" in learning.compare_similarities(
        found
    )


def test_names_in_links_of_the_masks_page_do_not_change() -> None:
    """An old link must keep working."""
    named = (
        masks_state.SECOND_MASKED_TEXT.name,
        masks_state.SHOWN_TEXT.name,
        masks_state.PAINTED.name,
    )
    assert named == ("masks-second", "masks-shown", "mask")
    by_kind = {kind: parameter.name for kind, parameter in run_changes.MASK_CHANGES.items()}
    assert by_kind == {
        "encoder_self": "encoder-mask", "decoder_self": "decoder-mask", "cross": "cross-mask", "self": "self-mask",
        "content": "content-mask", "query": "query-mask",
    }  # fmt: skip


@pytest.mark.parametrize(("kind", "said"), [
    ("encoder_self", "The source is read once, so the same mask applies at every step of writing."),
    ("decoder_self", "While writing, the top-left m × m part of the mask applies to a prefix of m tokens."),
    ("cross", "While writing, the first m rows of the mask apply to a prefix of m tokens."),
])  # fmt: skip
def test_the_part_of_a_mask_that_generation_uses(kind: str, said: str) -> None:
    trace = letters("transformer").run("abc", "ed")
    site = next(site for site in trace.attention.values() if site.kind == kind)
    held = f"Every layer and head of that kind of attention, and both texts, by position. {said}"
    assert held in masks_text.rules(site)
    streams = {True: "its residual stream and the bias of W_O", False: "the bias of W_O"}
    for has_stream, stream in streams.items():
        said = f"The heads pass on zeros, and the token continues with {stream} alone."
        assert said in masks_text.rules(site, has_stream)
