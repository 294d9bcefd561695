"""Small stories with questions, after bAbI's first two tasks (Weston et al. 2015).

People go to places and pick things up. The location of a person takes one supporting fact, that of
a thing two: who picked it up, and where that person went last.

Combinations of names and places are held out: for some pairs no training story sends the person to
the place, and these pairs answer the held-out questions.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

PEOPLE = (
    "Mary",
    "John",
    "Sandra",
    "Daniel",
    "Bill",
    "Fred",
    "Julie",
    "Anna",
    "Paul",
    "Lucy",
    "Tom",
    "Ruth",
)
ROOMS = (
    "garden", "kitchen", "bathroom", "bedroom", "hallway", "office", "school", "park", "cinema", "library", "station", "market",
)  # fmt: skip
THINGS = ("football", "apple", "milk", "book", "key", "hat", "letter", "lamp")
GOES = ("went to the", "moved to the", "travelled to the", "journeyed to the", "went back to the")
TAKES = ("picked up the", "took the", "got the", "grabbed the")
N_FACTS = (1, 2)
MAX_SENTENCES = 6

StoryPart = Literal["train", "validation", "test"]


@dataclass(frozen=True)
class BabiStory:
    """A question on a story; `place` is the character offset of the answer in the story."""

    question: str
    context: str
    answer: str
    place: int
    n_facts: int


def part_of(name: str, place: str) -> StoryPart:
    """Return the set that a pair of person and place belongs to.

    Ten in twelve pairs are in training; every name and every place is in pairs of each set.
    """
    remainder = (PEOPLE.index(name) + ROOMS.index(place)) % 12
    held_out: dict[int, StoryPart] = {0: "test", 6: "validation"}
    return held_out.get(remainder, "train")


def stories(part: StoryPart, seed: str) -> Iterator[BabiStory]:
    """Yield stories endlessly, with one and two supporting facts in turn."""
    rng = random.Random(seed)
    while True:
        for n_facts in N_FACTS:
            yield make_story(part, n_facts, rng)


def make_story(part: StoryPart, n_facts: int, rng: random.Random) -> BabiStory:
    """Return a story of at most six sentences whose answer is a pair of the set `part`.

    The other sentences are about training pairs.
    """
    name = rng.choice(PEOPLE)
    place = rng.choice([each for each in ROOMS if part_of(name, each) == part])
    events = _events(rng.randint(2, MAX_SENTENCES) - n_facts, rng)
    events.insert(rng.randint(0, len(events)), ("goes", name, place))
    thing = ""
    if n_facts == 2:
        taken_things = [what for kind, _, what in events if kind == "takes"]
        thing = rng.choice([each for each in THINGS if each not in taken_things])
        events.insert(rng.randint(0, len(events)), ("takes", name, thing))
    last = max(i for i, event in enumerate(events) if event == ("goes", name, place))
    events = [event for i, event in enumerate(events) if i <= last or event[:2] != ("goes", name)]
    return _write_story(
        events, f"Where is {f'the {thing}' if thing else name}?", (name, place), n_facts, rng
    )


def _events(n: int, rng: random.Random) -> list[tuple[str, str, str]]:
    """Return other events: people go to places of training pairs, and take things, none twice."""
    things = rng.sample(THINGS, len(THINGS) - 1)
    events: list[tuple[str, str, str]] = []
    for _ in range(n):
        name = rng.choice(PEOPLE)
        if things and rng.random() < 0.35:
            events.append(("takes", name, things.pop()))
        else:
            events.append(
                (
                    "goes",
                    name,
                    rng.choice([place for place in ROOMS if part_of(name, place) == "train"]),
                )
            )
    return events


def _write_story(
    events: list[tuple[str, str, str]],
    question: str,
    answer: tuple[str, str],
    n_facts: int,
    rng: random.Random,
) -> BabiStory:
    context, place = "", 0
    for kind, name, what in events:
        sentence = f"{name} {rng.choice(GOES if kind == 'goes' else TAKES)} {what}."
        if (kind, name, what) == ("goes", *answer):
            place = len(context) + len(sentence) - len(what) - 1
        context += f"{sentence} "
    return BabiStory(question, context.rstrip(), answer[1], place, n_facts)
