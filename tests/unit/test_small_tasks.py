"""The small generated tasks: their answers by a second route, their split, their forms, their plans."""

import math
from collections import Counter
from dataclasses import replace
from datetime import datetime
from itertools import islice, pairwise
from random import Random

import pytest
import torch

from models.analysis.induction import induction, repeated_texts
from models.architectures import build
from models.checkpoint import load_checkpoint
from models.checkpoint_files import snapshots as snapshots_in
from models.tasks import TASKS, DataError, has_data_of, markov, open_task, reopen_task
from models.tasks.forms import MASKED_FORM, ORDERED, PAIRED_FORM
from models.tasks.generated import is_held_out_source
from models.tasks.markov import MarkovTask, markov_probability, mean_loss
from models.tasks.repeat import INDUCTION, REPEAT_LENGTH, predictable_places
from models.tasks.small import COPY_LETTERS, MIN_LETTERS, SMALL_TASKS
from models.tokenizers.base import Tokenizer
from models.training.batches import NO_LABEL
from models.training.recipe import Recipe
from models.training.recipes import PLANS
from models.training.small_recipes import MAX_LETTERS
from models.training.task import N_STORED_TEXTS, validation_texts
from models.training.trainer import Trainer
from viz_app.words.terms import terms

EVERY = [(name, model) for name in SMALL_TASKS for model in PLANS[name]]


def opened(name: str, model: str, **settings):
    return open_task(name, **PLANS[name][model].data | settings)


def added(source: str) -> str:
    """The sum as at school: digit by digit from the right, with a carry."""
    first, second = source.split("+")
    carry, written = 0, ""
    for a, b in zip(reversed(first), reversed(second), strict=True):
        carry, digit = divmod(ord(a) + ord(b) - 2 * ord("0") + carry, 10)
        written += "0123456789"[digit]
    return written + "01"[carry]  # the last digit first


def is_right(name: str, source: str, answer: str) -> bool:
    """Check an answer by a route that the generator does not take."""
    if name == "addition":
        return answer == added(source)
    if name == "english-dates":
        return answer == datetime.strptime(source, "%d %B %Y").strftime("%Y-%m-%d")
    if name in ("markov", "repeat"):
        return True  # anything may follow
    if name == "sort":
        return Counter(answer) == Counter(source) and all(a <= b for a, b in pairwise(answer))
    indices = range(len(source)) if name == "copy" else range(len(source) - 1, -1, -1)
    return len(answer) == len(source) and all(answer[i] == source[j] for i, j in enumerate(indices))


@pytest.mark.slow(except_one_in=3)
@pytest.mark.parametrize("name", SMALL_TASKS)
def test_every_answer_is_right(name):
    task = opened(name, next(iter(PLANS[name])))
    for source in (*task.sources(1, 1), *task._held_out_sources(validation=False)[:200]):
        strings = task.strings(source)
        assert is_right(name, strings.source, strings.answer)


@pytest.mark.slow(except_one_in=3)
@pytest.mark.parametrize(("name", "model"), EVERY)
def test_every_character_has_a_token_and_every_row_fits_its_model(name, model):
    task, n_ctx = opened(name, model), PLANS[name][model].sizes["n_ctx"]
    for case in task.held_out(50):
        for text in (*case.fields, *case.references):
            assert task.tokenizer.unknown_id not in task.tokenizer.encode(text).ids
    assert len(validation_texts(task, n_ctx)) == N_STORED_TEXTS
    batch = task.collate(task.examples(task.sources(1, 1), Random(1)))
    assert max(ids.shape[1] for ids in batch.inputs) <= n_ctx <= 32


def test_letters_have_every_length():
    lengths = {len(case.source) for case in open_task("sort").held_out()}
    assert lengths == set(range(MIN_LETTERS, MAX_LETTERS + 1))
    assert {c for case in open_task("copy").held_out() for c in case.source} == set(COPY_LETTERS)


@pytest.mark.slow
@pytest.mark.parametrize("most", [5, 6, 30])
def test_the_longest_string_is_the_one_asked_for(most):
    task = open_task("reverse", max_letters=most)
    assert {len(case.source) for case in task.held_out()} == set(range(MIN_LETTERS, most + 1))
    assert max(map(len, task.sources(1, 1))) == most
    stored = reopen_task("reverse", None, task.data())
    assert stored.held_out(9) == task.held_out(9)


def test_a_record_without_a_longest_string_has_the_usual_one():
    stored = open_task("copy").data()
    del stored["max_letters"]
    assert reopen_task("copy", None, stored).max_letters == MAX_LETTERS


@pytest.mark.parametrize("most", [4, 31])
def test_a_longest_string_out_of_bounds_is_refused(most):
    with pytest.raises(DataError, match=f"max_letters must be between 5 and 30, not {most}"):
        open_task("sort", max_letters=most)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_letters", "9" * 99),
        ("max_letters", 6.5),
        ("max_letters", True),
        ("form", ["source and target"]),
        ("lm_weight", "0.5"),
        ("fold", {}),
    ],
)
def test_a_setting_of_another_type_in_a_record_is_refused(name, value):
    with pytest.raises(DataError, match=f"{name} in the record must be ") as error:
        reopen_task("sort", None, open_task("sort").data() | {name: value})
    assert len(str(error.value)) < 90


def test_only_settings_may_be_missing_in_a_record_of_the_same_data():
    task = open_task("sort", max_letters=8)
    stored = task.data()
    assert has_data_of(task, stored)
    older = {name: value for name, value in stored.items() if name != "max_letters"}
    assert has_data_of(task, older)
    for other in (
        {},
        {"form": stored["form"]},
        older | {"held out": "none"},
        stored | {"max_letters": 6},
        stored | {"files": "others"},
    ):
        assert not has_data_of(task, other)


@pytest.mark.parametrize("name", SMALL_TASKS)
def test_training_validation_and_test_share_no_source(name):
    task = opened(name, next(iter(PLANS[name])), batch_size=251)
    trained = {source for step in range(10) for source in task.sources(1, step)}
    tested, validated = task._held_out_sources(False), task._held_out_sources(True)
    assert (len(set(tested)), len(set(validated))) == (2000, 1000)
    assert not set(tested) & set(validated)
    assert all(map(is_held_out_source, tested + validated))
    assert not any(map(is_held_out_source, trained))


def test_english_dates_are_split_by_date_and_cover_all_years_and_months():
    task = open_task("english-dates")
    sources = task._held_out_sources(validation=False)
    assert len({task.answer(source) for source in sources}) == len(sources), "one source a date"
    dates = [datetime.fromisoformat(task.answer(source)) for source in sources]
    assert {each.month for each in dates} == set(range(1, 13))
    assert {each.day for each in dates} == set(range(1, 32))
    assert {each.year for each in dates} == set(range(1900, 2100))
    assert task.answer("29 February 2000") == "2000-02-29"


def test_a_step_depends_on_its_seed_and_number_alone():
    task = open_task("reverse", batch_size=7)
    first, second = islice(task.batches(11), 2)
    assert (first, second) == tuple(islice(open_task("reverse", batch_size=7).batches(11), 2))
    assert first != second
    assert next(task.batches(12)) != first
    assert [task.tokenizer.decode(source) for source, _ in second] == task.sources(11, 1)


@pytest.mark.parametrize("name", SMALL_TASKS)
def test_a_small_task_has_plans_and_names_for_its_texts_and_takes_no_file(name):
    assert {plan.data["form"] for plan in PLANS[name].values()} == set(SMALL_TASKS[name].forms)
    assert all(plan.recipe.snapshots for plan in PLANS[name].values())
    assert terms(name) is not terms("translation", ())
    with pytest.raises(DataError, match=name):
        open_task(name, "pairs.tsv")


@pytest.mark.parametrize(("name", "model"), EVERY)
def test_the_record_opens_the_same_task_again(name, model):
    task = opened(name, model)
    again = reopen_task(name, None, task.data(), tokenizer=task.tokenizer, n_ctx=32)
    assert again.data() == task.data()
    assert again.sources(1, 1) == task.sources(1, 1)
    assert TASKS[name] is type(again)


def test_a_plain_sum_is_the_reversed_one_read_from_the_other_side():
    reversed_, plain = open_task("addition"), open_task("addition", digits="plain")
    for case in plain.held_out(50):
        assert int(case.references[0]) == sum(map(int, case.source.split("+")))
        assert reversed_.answer(case.source) == case.references[0][::-1]
    assert reversed_.answer("999+001") == "0001"  # a carry across all digits
    assert plain.answer("000+000") == "0000"


def test_a_language_model_is_asked_for_the_answer_alone():
    task = opened("sort", "gpt")
    (inputs, labels), *_ = task.examples(["dab"], Random(1))
    read = task.tokenizer
    assert read.tokens(inputs) == ("<s>", "d", "a", "b", "=", "a", "b", "d")
    assert labels[:4] == [NO_LABEL] * 4
    assert read.tokens(labels[4:]) == ("a", "b", "d", "</s>")


def test_masked_letters_are_those_of_the_answer():
    task = opened("sort", "bert")
    ((ids, segments, places, labels, kind),) = task.examples(["dcbaabcd"], Random(3))
    tokens = task.tokenizer.tokens(ids)
    assert (tokens[0], tokens[9], tokens[-1]) == ("[CLS]", "=", "[SEP]")
    whole = "dcbaabcd=aabbccdd"
    shown = [whole[i - 1] if i not in places else "[MASK]" for i in range(1, len(whole) + 1)]
    assert list(tokens[1:-1]) == shown
    assert task.tokenizer.tokens(labels) == tuple(whole[i - 1] for i in places)
    assert all(i - 1 > 8 for i in places)
    assert (set(segments), kind) == ({0}, (NO_LABEL,))


def test_letters_in_an_order_are_the_last_of_it():
    task = opened("sort", "xlnet")
    ((ids, ranks, _, labels),) = task.examples(["dcbaabcd"], Random(5))
    assert sorted(ranks) == list(range(len(ids)))
    predicted = [i for i, label in enumerate(labels) if label != NO_LABEL]
    assert sorted(ranks[i] for i in predicted) == list(range(len(ids) - len(predicted), len(ids)))
    assert all(i > 8 and labels[i] == ids[i] for i in predicted)


def test_a_form_that_does_not_fit_is_refused():
    for name, form in (("copy", MASKED_FORM), ("markov", PAIRED_FORM), ("addition", ORDERED)):
        with pytest.raises(DataError, match=f"form of {name} must be"):
            open_task(name, form=form)
    with pytest.raises(DataError, match="period must be varied or fixed, not 'odd'"):
        open_task("repeat", period="odd")
    with pytest.raises(DataError, match="digits must be reversed or plain, not 'odd'"):
        open_task("addition", digits="odd")


def returns(text: str) -> set[int]:
    """The distances between occurrences of a block's letters, those of three or more in a row."""
    return {
        j - i
        for i in range(len(text) - 2)
        for j in range(i + 1, len(text) - 2)
        if text[i : i + 3] == text[j : j + 3]
    }


def test_periods_vary_within_a_text_unless_they_are_fixed():
    fixed = [returns(text) for text in open_task("repeat", period="fixed").sources(1, 1)]
    assert all(distances == {8, 16, 24} for distances in fixed)
    varied = [returns(text) for text in open_task("repeat").sources(1, 1)]
    assert len(set.union(*varied)) > 15
    assert sum(len(distances) > 2 for distances in varied) > len(varied) / 2


def test_the_letters_to_predict_follow_what_was_there_before():
    task = open_task("repeat")
    for text in task.sources(1, 1):
        assert len(text) == REPEAT_LENGTH
        places = set(task.strings(text).known)
        for i in range(1, REPEAT_LENGTH):
            before = text.rfind(text[i - 1], 0, i - 1)  # the last time of the letter before
            assert (i in places) == (before >= 0 and text[before + 1] == text[i])
        (inputs, labels), *_ = task.examples([text], Random(1))
        assert len(inputs) == len(labels) == REPEAT_LENGTH + 1
        assert {i for i, label in enumerate(labels) if label != NO_LABEL} == places
    (case,) = task.held_out(1)
    assert case.source + case.references[0] == task._held_out_sources(False)[0]


def test_the_repeat_task_reports_the_score_of_its_model():
    task = open_task("repeat")
    torch.manual_seed(3)
    sizes = PLANS["repeat"]["gpt"].sizes
    model = build(PLANS["repeat"]["gpt"].config(task.tokenizer.vocab_size, **sizes))
    measures = task.evaluate(model, 5).measures
    repeats = repeated_texts(task.tokenizer.encode(task.alphabet).ids, 31, task.tokenizer.start_id)
    assert measures["induction score"] == induction(model, repeats).score
    right = []  # letters of the held-out texts themselves, not of those with other periods
    for text in task._held_out_sources(False)[:5]:
        ids = task.tokenizer.encode(text).ids
        first = model(torch.tensor([[task.tokenizer.start_id, *ids]]))[0].argmax(-1).tolist()
        right += [first[place] == ids[place] for place in predictable_places(text)]
    assert measures["accuracy"] == pytest.approx(100 * sum(right) / len(right))
    assert measures["accuracy"] != measures["accuracy on other periods"]


def in_closed_form(text: str) -> float:
    """ln p(text) after its first letter, by the marginal likelihood of a Dirichlet prior."""
    a, k = markov.CONCENTRATION, len(markov.MARKOV_LETTERS)
    counts = Counter(pairwise(text))
    total = 0.0
    for row in markov.MARKOV_LETTERS:
        n = [counts[row, letter] for letter in markov.MARKOV_LETTERS]
        total += math.lgamma(k * a) - math.lgamma(k * a + sum(n))
        total += sum(math.lgamma(a + each) - math.lgamma(a) for each in n)
    return total


def test_the_exact_predictor_is_the_ratio_of_marginal_likelihoods():
    texts = MarkovTask().sources(1, 1)[:11]
    for text in texts:
        for end in (1, 5, 17):
            for letter in markov.MARKOV_LETTERS:
                ratio = in_closed_form(text[:end] + letter) - in_closed_form(text[:end])
                assert math.log(markov_probability(text[:end], letter)) == pytest.approx(ratio)
    nats = -sum(map(in_closed_form, texts)) / (len(texts) * (markov.MARKOV_LENGTH - 1))
    assert mean_loss(texts, context=1) == pytest.approx(nats)


def test_no_other_counting_predicts_a_chain_better(monkeypatch):
    texts = MarkovTask(batch_size=500).sources(1, 1)
    exact = mean_loss(texts, context=1)
    assert exact < mean_loss(texts, context=0) < math.log(len(markov.MARKOV_LETTERS))
    for other in (0.5, 2.0):
        monkeypatch.setattr(markov, "CONCENTRATION", other * markov.CONCENTRATION)
        assert mean_loss(texts, context=1) > exact
        monkeypatch.undo()


def test_uniform_guessing_gains_nothing_on_a_chain():
    task = opened("markov", "gpt")
    plan = PLANS["markov"]["gpt"]
    model = build(plan.config(task.tokenizer.vocab_size, **plan.sizes))
    with torch.no_grad():
        model.embedding.weight[:4] = -1e4 * torch.ones_like(model.embedding.weight[:4])
        model.decoder.last_norm.weight.zero_()
        model.decoder.last_norm.bias.zero_()
    measures = task.evaluate(model, 50).measures
    assert measures["nats per letter"] == pytest.approx(math.log(task.tokenizer.vocab_size))
    assert measures[task.metric] == 0  # special tokens are guessed too
    assert measures["exact nats per letter"] < measures["letter counts nats per letter"]


def test_a_character_vocabulary_with_a_mask_is_read_back():
    tokenizer = opened("sort", "bert").tokenizer
    again = Tokenizer.from_json(tokenizer.to_json())
    assert again.special_ids == tokenizer.special_ids
    assert again.tokens(again.encode("ab[MASK]d?").ids) == ("a", "b", "[MASK]", "d", "[UNK]")


def test_validations_of_averaged_weights_add_no_score_to_those_of_the_snapshots(
    tmp_path, monkeypatch
):
    plan, task = PLANS["repeat"]["gpt"], open_task("repeat", batch_size=2)
    few = task.validation()[:3]
    monkeypatch.setattr(task, "validation", lambda: few)
    sizes = plan.sizes | {"d_model": 6, "n_heads": 2, "d_ff": 7, "n_layers": 1}
    recipe = Recipe(
        4, average_last=1.0, validate_every=1, score_cases=2, snapshots=True, n_snapshots=3
    )
    config = plan.config(task.tokenizer.vocab_size, **sizes)
    trainer = Trainer(task, config, recipe, tmp_path, torch.device("cpu"))
    printed = [record.validation for record in trainer.train()]
    scores = {row["step"]: row[INDUCTION] for row in trainer.curve if INDUCTION in row}
    assert list(scores) == snapshots_in(tmp_path)[1:] == [2, 4]
    for step, score in scores.items():
        model = load_checkpoint(tmp_path, step).model
        assert score == round(task.snapshot_measures(model)[INDUCTION], 4)
        assert score == round(printed[step - 1][INDUCTION], 4)


@pytest.mark.slow
def test_a_run_records_the_score_of_every_snapshot_and_learns_the_same(tmp_path):
    plan = PLANS["repeat"]["gpt"]
    task = open_task("repeat", batch_size=3)
    config = plan.config(task.tokenizer.vocab_size, **plan.sizes | {"d_model": 12, "d_ff": 13})
    sizes = {"steps": 23, "validate_every": 20, "save_every": 20, "score_cases": 0}
    cpu, ends = torch.device("cpu"), []
    for snapshots in (True, False):
        recipe = replace(plan.recipe, snapshots=snapshots, **sizes)
        trainer = Trainer(task, config, recipe, tmp_path / f"{snapshots}", cpu)
        ends.append([record.loss for record in trainer.train()])
        scores = {row["step"]: row[INDUCTION] for row in trainer.curve if INDUCTION in row}
        if not snapshots:
            assert scores == {}
            continue
        kept = [step for step in snapshots_in(trainer.folder) if step]
        assert list(scores) == kept
        assert len(kept) > 4
        for step in kept:
            model = load_checkpoint(trainer.folder, step).model
            repeats = repeated_texts(
                task.tokenizer.encode(task.alphabet).ids, 31, task.tokenizer.start_id
            )
            assert scores[step] == round(induction(model, repeats).score, 4)
    assert ends[0] == ends[1]
