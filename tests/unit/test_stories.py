"""Stories with questions: the answer follows from the text alone, and held-out pairs appear in no training story."""

import itertools
import re

import pytest
from checked import unchecked

from models.tasks import stories
from models.tasks.stories import PEOPLE, ROOMS, THINGS, part_of

MOVE = re.compile(rf"({'|'.join(PEOPLE)}) (?:{'|'.join(stories.GOES)}) (\w+)\.")
TAKE = re.compile(rf"({'|'.join(PEOPLE)}) (?:{'|'.join(stories.TAKES)}) (\w+)\.")


def make_stories(part: str, n: int, seed: str = "5") -> list[stories.BabiStory]:
    return list(itertools.islice(stories.stories(part, seed), n))


def by_reading(story: stories.BabiStory) -> tuple[str, str]:
    """Return (person, place): who the question is about, and where that person went last."""
    asked = re.fullmatch(r"Where is (?:the )?(\w+)\?", story.question)[1]
    if asked in THINGS:
        (asked,) = [name for name, thing in TAKE.findall(story.context) if thing == asked]
    return asked, [place for name, place in MOVE.findall(story.context) if name == asked][-1]


@pytest.mark.parametrize("part", ["train", "validation", "test"])
def test_the_answer_follows_from_the_story(part):
    for story in make_stories(part, 400):
        assert story.answer == by_reading(story)[1]
        assert story.context[story.place :].startswith(f"{story.answer}.")
        name = by_reading(story)[0]
        assert re.search(rf"{name} (?:{'|'.join(stories.GOES)}) $", story.context[: story.place])
        assert name not in {
            who for who, _ in MOVE.findall(story.context[story.place :])
        }  # the last sentence about that person
        assert 1 <= story.context.count(".") <= 6


def test_one_and_two_supporting_facts_by_turns():
    kinds = [
        (story.n_facts, any(f" {thing}?" in story.question for thing in THINGS))
        for story in make_stories("train", 40)
    ]
    assert kinds == [(1, False), (2, True)] * 20


@unchecked()
def test_held_out_pairs_are_in_no_training_story_and_in_each_answer_of_their_set():
    every = [(name, place) for name in PEOPLE for place in ROOMS]
    sets = {
        part: {pair for pair in every if part_of(*pair) == part}
        for part in ("train", "validation", "test")
    }
    assert {part: len(pairs) for part, pairs in sets.items()} == {
        "train": 120,
        "validation": 12,
        "test": 12,
    }
    for part in ("validation", "test"):
        assert {name for name, _ in sets[part]} == set(PEOPLE)
        assert {place for _, place in sets[part]} == set(ROOMS)
    for part, pairs in sets.items():
        for story in make_stories(part, 600):
            assert by_reading(story) in pairs
            moves = [*MOVE.findall(story.context)]
            moves.remove(by_reading(story))
            assert set(moves) <= sets["train"]


@unchecked()
def test_every_name_place_and_thing_is_asked_about():
    every = make_stories("train", 4000)
    assert {story.answer for story in every} == set(ROOMS)
    asked = [*PEOPLE, *(f"the {thing}" for thing in THINGS)]
    assert {story.question for story in every} == {f"Where is {one}?" for one in asked}


def test_a_thing_is_taken_once():
    for story in make_stories("train", 500):
        things = [thing for _, thing in TAKE.findall(story.context)]
        assert len(things) == len(set(things))


def test_a_seed_tells_the_same_stories_again():
    assert make_stories("train", 50) == make_stories("train", 50)
    assert make_stories("train", 50, "6") != make_stories("train", 50)


def test_stories_have_one_sentence_to_six():
    assert {story.context.count(".") for story in make_stories("train", 600)} == {1, 2, 3, 4, 5, 6}
