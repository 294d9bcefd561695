"""The page Decoding of a language model: continuations of a prompt, against plain forward passes over growing texts."""

import csv
import io
from dataclasses import replace

import numpy as np
import pytest
import torch
from drawn import Drawing, letters, on_screen, saved
from work_by_hand import decoder_pass

from models.decoding import runs as decoding_runs
from models.decoding.multiply_adds import count_multiply_adds
from models.decoding.runs import Method, Run
from models.layers.similarity import SIMILARITIES
from models.runs.scope import Scope
from models.trace import Trace
from models.trace.edits import HeadOff, Where
from viz_app.drawing.payload import unpack
from viz_app.session import cache
from viz_app.session.current_run import CurrentRun
from viz_app.views.decoding import files as decoding_files
from viz_app.views.decoding import files as decoding_svg
from viz_app.views.decoding import payloads as decoding_payloads
from viz_app.views.decoding import text as decoding_text
from viz_app.views.decoding.decoding_runs import ShownAttention, decoder_attention
from viz_app.views.decoding.payloads import DecodingChoices, DecodingPosition

NAMES = ["[padding]", "[start]", "[end]", "[unknown]", *"abcde=@"]  # of the vocabulary, by id
PROMPT, CONTINUATION = "abcab", "edc"
GIVEN = [1, *(NAMES.index(letter) for letter in PROMPT)]  # <s> abcab, 6 tokens
FOLLOWS = [NAMES.index(letter) for letter in CONTINUATION]
OWN = "decoder.layers.1.self_attn"
N_CTX = 17


@pytest.fixture(scope="module")
def scope() -> Scope:
    return letters("gpt", n_ctx=N_CTX)


def run_of(scope: Scope, continuation: str | None = None, prompt: str = PROMPT) -> CurrentRun:
    return CurrentRun(scope, scope.run(prompt, continuation))


def choices_of(run: CurrentRun, method: Method | None = None, **place: object) -> DecodingChoices:
    method = method or Method(max_new=5)
    return DecodingChoices(
        method,
        decoder_attention(run.trace, 1, 2),
        DecodingPosition(forced=method.forced, **place),
        tuple(GIVEN),
        is_tree=True,
    )


def token_names(ids: list[int] | tuple[int, ...]) -> list[str]:
    return [NAMES[i] for i in ids]


def texts(labels: list) -> list[str]:
    return [label[0] for label in labels]


def log_probs(scope: Scope, ids: list[int]) -> torch.Tensor:
    """Return the log-probabilities (n, vocab) of the token after each position, from one plain pass."""
    with torch.no_grad():
        return scope.model(torch.tensor([ids]))[0].double().log_softmax(-1)


def greedy(scope: Scope, n: int) -> list[int]:
    """Return n tokens, each the most probable after a plain pass over all tokens before it."""
    ids = list(GIVEN)
    for _ in range(n):
        ids.append(int(log_probs(scope, ids)[-1].argmax()))
    return ids[len(GIVEN) :]


def weights(trace: Trace, head: int) -> torch.Tensor:
    """Return the weights (query, key) of one head of the second layer, from q and k."""
    site = trace.attention[OWN]
    scores = site.q[0, head] @ site.k[0, head].T / site.d_head**0.5
    return scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -torch.inf).softmax(-1)


# runs


def test_a_given_text_begins_after_its_prompt(scope: Scope) -> None:
    trace = scope.run(PROMPT, CONTINUATION)
    run, first = decoding_runs.of_trace(trace, len(GIVEN) - 1), len(GIVEN) - 1
    assert run.read == (GIVEN[-1], *FOLLOWS[:-1])
    assert run.taken == tuple(FOLLOWS)
    assert (run.ended, run.cached) == (False, (0, 0, 0))
    torch.testing.assert_close(
        run.log_probs.double(), log_probs(scope, GIVEN + FOLLOWS)[first:-1], atol=1e-5, rtol=1e-5
    )
    assert [len(row[2]) for row in run.rows[OWN]] == [6, 7, 8]
    for i, row in enumerate(run.rows[OWN]):
        torch.testing.assert_close(row[2], weights(trace, 2)[first + i, : first + i + 1])
    whole = decoding_runs.of_trace(trace)
    assert (whole.read, whole.taken) == (
        tuple([*GIVEN, *FOLLOWS][:-1]),
        tuple([*GIVEN, *FOLLOWS][1:]),
    )


@pytest.mark.parametrize("first", [-1, 8])
def test_nothing_is_taken_outside_the_text(scope: Scope, first: int) -> None:
    with pytest.raises(
        ValueError, match=f"first must be a position with a token after it, 0 to 7, not {first}"
    ):
        decoding_runs.of_trace(scope.run(PROMPT, CONTINUATION), first)


@pytest.mark.parametrize("how", decoding_runs.DECODING_METHODS)
def test_a_run_stops_after_so_many_tokens_or_at_the_context(scope: Scope, how: str) -> None:
    """Every token is forced, so that none is the end token."""
    forced, room = tuple((i, 5) for i in range(N_CTX)), N_CTX - len(GIVEN)
    for max_new, n in ((4, 4), (None, room), (100, room)):
        run = decoding_runs.autoregressive(
            scope.model, GIVEN, Method(how, max_new=max_new, forced=forced)
        ).run
        assert (run.taken, run.ended) == ((5,) * n, False)


def test_a_prompt_as_long_as_the_context_leaves_no_room(scope: Scope) -> None:
    with pytest.raises(
        ValueError, match="17 tokens leave no room to generate: the model reads at most 17"
    ):
        decoding_runs.autoregressive(scope.model, [4] * N_CTX, Method())
    for how in decoding_runs.DECODING_METHODS:
        settings = {"seed": 1} if how == "sample" else {}
        with pytest.raises(ValueError, match="17 tokens leave no room to generate"):
            scope.write("a" * (N_CTX - 1), how, **settings)
    run = run_of(scope, prompt="a" * (N_CTX - 1))
    assert not decoding_payloads.has_room(run)
    drawn = on_screen(decoding_payloads.decoding_payloads(run, choices_of(run)))
    assert list(drawn) == ["note decoding"]
    assert drawn["note decoding"]["rows"] == [["line", decoding_text.no_room(N_CTX)]]
    assert "all 17 tokens that this model can read" in decoding_text.no_room(N_CTX)
    assert decoding_payloads.has_room(run_of(scope, prompt="a" * (N_CTX - 2)))


# which attention


def test_its_own_attention_is_shown_and_no_other(scope: Scope) -> None:
    trace = scope.run(PROMPT)
    assert decoder_attention(trace, 1, 2) == ShownAttention(
        "", OWN, 2, "decoder layer 2, head 3", ""
    )
    assert decoder_attention(trace) == ShownAttention(
        "", "decoder.layers.0.self_attn", None, "decoder layer 1, mean over its 3 heads", ""
    )


# the stepper


def test_a_given_continuation_is_shown_beside_the_models_own(scope: Scope) -> None:
    run = run_of(scope, CONTINUATION)
    header, arrays = unpack(
        on_screen(decoding_payloads.decoding_payloads(run, choices_of(run)))["stepper"]
    )
    own = greedy(scope, 5)
    assert texts(header["prompt"]) == ["[start]", *"abca"]
    teacher, writer = header["parallel"], header["serial"]
    assert (texts(teacher["read"]), texts(teacher["given"])) == (["b", *"ed"], [*"edc"])
    assert (texts(writer["read"]), texts(writer["written"])) == (
        ["b", *token_names(own[:-1])],
        token_names(own),
    )
    assert (teacher["taken"], writer["taken"]) == (FOLLOWS, own)
    assert writer["cached"] == [0, 6, 7, 8, 9]
    assert (header["steps"], header["ownText"], header["box"]) == (5, "", "What follows")
    assert (header["source"], header["cross"], header["sourceName"], header["own"]) == (
        [],
        "",
        "",
        True,
    )
    assert (header["targetName"], header["reading"]) == ("the text", "decoder layer 2, head 3")
    counts, given = (
        count_multiply_adds(scope.model, 0, 5, 6),
        count_multiply_adds(scope.model, 0, 3, 6),
    )
    assert header["work"] == {
        "cached": list(counts.cached), "uncached": list(counts.uncached), "parallel": given.parallel, "layers": 2, "source": 0,
        "state": 0,
    }  # fmt: skip
    best = log_probs(scope, GIVEN + FOLLOWS)[5:-1].argmax(-1).tolist()
    assert (teacher["best"], texts(teacher["predicted"])) == (best, token_names(best))
    pairs = list(zip(FOLLOWS, own, strict=False))
    assert header["diverges"] == next((i for i, (a, b) in enumerate(pairs) if a != b), -1)
    for lane, ids, n in (("parallel", GIVEN + FOLLOWS, 3), ("serial", GIVEN + own, 5)):
        p = log_probs(scope, ids).exp()[5 : 5 + n]
        found = torch.from_numpy(arrays[f"{lane}_ids"].astype(np.int64))
        np.testing.assert_allclose(arrays[f"{lane}_p"], p.gather(1, found).numpy(), atol=1e-5)
        np.testing.assert_allclose(
            arrays[f"{lane}_entropy"], -(p * p.log2()).sum(-1).numpy(), atol=1e-5
        )
        whole = weights(scope.run_batch([(scope.tokenizer.spell(ids[1:]),)])[0], 2)[
            5 : 5 + n, : 5 + n
        ]
        np.testing.assert_allclose(arrays[f"{lane}_self"], whole.numpy(), atol=1e-5)
        assert [texts(row) for row in header[lane]["candidates"]] == [
            token_names(row) for row in found.tolist()
        ]
        assert f"{lane}_cross" not in arrays


def test_a_changed_model_continues_a_prompt_with_its_own_text(scope: Scope) -> None:
    """A given continuation is not called the model's own."""
    off = (HeadOff(Where(site=OWN), baseline="zero"),)
    for after in (None, CONTINUATION):
        own = run_of(scope, after)
        run = cache.changed_run(own, replace(own.spec, edits=off))
        story = decoding_payloads.compare_decoding(run, choices_of(run))[1]
        assert story.writer == ("" if after else "the model's own")
        if after is None:
            assert (
                story.teacher_forced.taken
                == story.autoregressive.taken[: len(story.teacher_forced)]
            )


def test_without_a_continuation_the_models_own_text_is_read_at_once(scope: Scope) -> None:
    run, forced = run_of(scope), Method(forced=((1, 5),), max_new=4)
    header, arrays = unpack(
        on_screen(decoding_payloads.decoding_payloads(run, choices_of(run, forced)))["stepper"]
    )
    own = greedy(scope, 4)
    assert header["ownText"]
    assert header["parallel"]["taken"] == header["free"]["taken"] == own
    assert texts(header["parallel"]["read"]) == ["b", *token_names(own[:-1])]
    assert (
        texts(header["parallel"]["given"]) == texts(header["free"]["written"]) == token_names(own)
    )
    assert texts(header["prompt"]) == ["[start]", *"abca"]
    assert header["serial"]["taken"][1] == 5 != own[1]
    np.testing.assert_allclose(
        arrays["parallel_p"].max(1),
        log_probs(scope, GIVEN + own).exp()[5:-1].amax(1).numpy(),
        atol=1e-5,
    )


@pytest.mark.parametrize("continuation", [None, CONTINUATION])
@pytest.mark.parametrize("how", decoding_runs.DECODING_METHODS)
def test_every_check_holds(scope: Scope, how: str, continuation: str | None) -> None:
    run = run_of(scope, continuation)
    drawn = on_screen(
        decoding_payloads.decoding_payloads(run, choices_of(run, Method(how, seed=3, max_new=5)))
    )
    looks = [look for look, _ in drawn["checks"]["rows"]]
    assert (looks.count("passed"), looks.count("failed")) == (5, 0)
    assert ("beam_tree" in drawn) == (how == "beam")


def test_another_prompt_clears_forced_tokens_but_another_continuation_does_not(
    scope: Scope,
) -> None:
    run = run_of(scope, CONTINUATION)
    choices = choices_of(run, Method(forced=((0, 5),), max_new=3), step=2)
    assert choices.of(run_of(scope, "abc").input_ids) is choices
    other = run_of(scope, CONTINUATION, prompt="abc")
    header, _ = unpack(on_screen(decoding_payloads.decoding_payloads(other, choices))["stepper"])
    assert header["note"] == "The forced tokens belonged to another text and were removed."
    assert (header["forced"], header["step"]) == ([], 0)


def test_the_beam_starts_from_the_prompt(scope: Scope) -> None:
    run = run_of(scope, CONTINUATION)
    method = Method("beam", width=3, max_new=3)
    header, arrays = unpack(
        on_screen(decoding_payloads.decoding_payloads(run, choices_of(run, method, node=(1, 2))))[
            "beam_tree"
        ]
    )
    steps = decoding_runs.autoregressive(scope.model, GIVEN, method).beam
    assert len(header["steps"]) == 3
    for column, step in zip(header["steps"], steps, strict=True):
        for node, h in zip(column, step.hypotheses, strict=True):
            rows = log_probs(scope, [*GIVEN, *h.tokens])[5:-1]
            assert node["logProb"] == pytest.approx(
                float(rows[range(len(h.tokens)), list(h.tokens)].sum()), abs=1e-4
            )
    tokens = steps[1].hypotheses[2].tokens
    assert texts(header["read"]) == ["[start]", *PROMPT, *token_names(tokens[:-1])]
    assert (header["source"], header["cross"], header["sourceName"]) == ([], "", "")
    again = scope.run_batch([(scope.tokenizer.spell([*GIVEN[1:], *tokens[:-1]]),)])[0]
    np.testing.assert_allclose(arrays["self"], weights(again, 2)[-1].numpy(), atol=1e-5)


# files, words and work


def test_files_hold_the_prompt_and_both_runs(scope: Scope) -> None:
    run = run_of(scope, CONTINUATION)
    choices = choices_of(run)
    _, both = decoding_payloads.compare_decoding(run, choices)
    held = saved(decoding_files.arrays(both, scope))
    assert held["text_tokens"].tolist() == ["[start]", *PROMPT]
    assert "source_tokens" not in held
    assert held["parallel.taken"].tolist() == FOLLOWS
    assert held["parallel.decoder.layer2.self_attn"].shape == (3, 3, 8)
    assert held["serial.decoder.layer2.self_attn"].shape == (3, 5, 10)
    table = list(csv.DictReader(io.StringIO(decoding_files.decoding_table(both, scope))))
    assert [row["takes"] for row in table if row["run"] == "teacher-forced"] == [*CONTINUATION]
    assert [row["reads"] for row in table][:3] == ["b", *"ed"]
    drawing = Drawing(decoding_svg.drawing(both, scope, choices.reading, 1, "A title"))
    said = [text.text for text in drawing.texts]
    assert "Self-attention (decoder layer 2, head 3)" in said
    assert not any("to the" in text for text in said)
    first = said.index("Self-attention (decoder layer 2, head 3)")
    chips = [text for text in said[first + 1 : first + 15] if not text.replace(".", "").isdigit()]
    assert chips == [
        "[start]",
        *PROMPT,
        "e",
    ]  # the tokens known at the second step, and none later


def test_the_sentences_on_a_continued_text(scope: Scope) -> None:
    told = decoding_text.explain_decoding(scope.model)
    assert "The whole text is known beforehand" in told
    assert "The look-ahead mask (hatched) hides" in told
    assert "the first step computes the whole prompt and each later one a single position" in told
    assert "source" not in told
    assert "Shifted" not in told


@pytest.mark.parametrize("similarity", SIMILARITIES)
def test_the_work_is_that_of_the_formulas(similarity: str) -> None:
    model, steps = letters("gpt", similarity=similarity, n_ctx=N_CTX).model, 4
    every = range(len(GIVEN), len(GIVEN) + steps)
    work = count_multiply_adds(model, 0, steps, len(GIVEN))
    assert work.uncached == tuple(decoder_pass(model.config, t, t, 0) for t in every)
    assert work.cached[1:] == tuple(decoder_pass(model.config, 1, t, 0) for t in every[1:])
    assert work.cached[0] == work.uncached[0]
    assert work.parallel == work.uncached[-1]


def test_a_run_without_attention_reads_nothing() -> None:
    none = letters("gpt", n_layers=0)
    assert decoder_attention(none.run(PROMPT)) == ShownAttention()
    assert isinstance(decoding_runs.of_trace(none.run(PROMPT)), Run)
