"""The small generated tasks: their answers by a second route, their split, their plans."""

from collections import Counter
from itertools import islice, pairwise

import pytest

from models.tasks import DataError, open_task
from models.tasks.small import LETTERS, LONGEST, SHORTEST, SMALL_TASKS, is_held_out
from models.training.recipes import PLANS
from viz_app.words.terms import terms


def is_right(name: str, source: str, answer: str) -> bool:
    """Check an answer by a route that the generator does not take."""
    if name == "sort":
        return Counter(answer) == Counter(source) and all(a <= b for a, b in pairwise(answer))
    indices = range(len(source)) if name == "copy" else range(len(source) - 1, -1, -1)
    return len(answer) == len(source) and all(answer[i] == source[j] for i, j in enumerate(indices))


@pytest.mark.parametrize("name", SMALL_TASKS)
def test_every_answer_is_right_and_every_character_has_a_token(name):
    task = open_task(name)
    for case in task.held_out():
        assert is_right(name, case.source, *case.references)
        assert task.tokenizer.unknown_id not in task.tokenizer.encode("".join(case.whole)).ids
    for source, target in next(task.batches(3)):
        assert is_right(name, task.tokenizer.decode(source), task.tokenizer.decode(target))


def test_letters_have_every_length():
    lengths = {len(case.source) for case in open_task("sort").held_out()}
    assert lengths == set(range(SHORTEST, LONGEST + 1))
    assert {c for case in open_task("copy").held_out() for c in case.source} == set(LETTERS)


@pytest.mark.parametrize("name", SMALL_TASKS)
def test_training_validation_and_test_share_no_source(name):
    task = open_task(name, batch_size=251)
    trained = {source for step in range(40) for source in task.sources(1, step)}
    tested = [case.source for case in task.held_out()]
    validated = [case.source for case in task.held_out(validation=True)]
    assert (len(set(tested)), len(set(validated))) == (2000, 1000)
    assert not set(tested) & set(validated)
    assert all(map(is_held_out, tested + validated))
    assert not any(map(is_held_out, trained))


def test_a_step_depends_on_its_seed_and_number_alone():
    task = open_task("reverse", batch_size=7)
    first, second = islice(task.batches(11), 2)
    assert (first, second) == tuple(islice(open_task("reverse", batch_size=7).batches(11), 2))
    assert first != second
    assert next(task.batches(12)) != first
    assert [task.tokenizer.decode(source) for source, _ in second] == task.sources(11, 1)


@pytest.mark.parametrize("name", SMALL_TASKS)
def test_a_small_task_has_plans_and_names_for_its_texts_and_takes_no_file(name):
    assert set(PLANS[name]) == {"transformer"}
    assert all(plan.recipe.snapshots for plan in PLANS[name].values())
    assert terms(name) is not terms("translation", ())
    with pytest.raises(DataError, match=name):
        open_task(name, "pairs.tsv")
