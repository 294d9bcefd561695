"""Small stories with questions, in the manner of bAbI's first two tasks (Weston et al. 2015): people go to places and pick
things up. Where a person is, one sentence says (one supporting fact); where a thing is, two say together: who picked it up,
and where that person went last.

Names and places are held out in combination: of some pairs of a person and a place no training story says that one went to
the other, and those are what the held-out questions come down to.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

NAMES = (
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
PLACES = (
    "garden", "kitchen", "bathroom", "bedroom", "hallway", "office", "school", "park", "cinema", "library", "station", "market",
)  # fmt: skip
THINGS = ("football", "apple", "milk", "book", "key", "hat", "letter", "lamp")
GOES = ("went to the", "moved to the", "travelled to the", "journeyed to the", "went back to the")
TAKES = ("picked up the", "took the", "got the", "grabbed the")
N_FACTS = (1, 2)
LONGEST = 6  # sentences

Part = Literal["train", "validation", "test"]


@dataclass(frozen=True)
class Story:
    """A question on a story; `place` is where in the story the answer begins, in characters."""

    question: str
    context: str
    answer: str
    place: int
    n_facts: int


def part_of(name: str, place: str) -> Part:
    """The set that a person at a place belongs to: four in five pairs to the training stories; every name and every place is in
    pairs of each set."""
    remainder = (NAMES.index(name) + PLACES.index(place)) % 12
    return {0: "test", 6: "validation"}.get(remainder, "train")


def stories(part: Part, seed: str) -> Iterator[Story]:
    """Stories without end, one supporting fact and two by turns."""
    rng = random.Random(seed)
    while True:
        for n_facts in N_FACTS:
            yield story(part, n_facts, rng)


def story(part: Part, n_facts: int, rng: random.Random) -> Story:
    """A story of at most six sentences. The question comes down to a pair of the set `part`; the other sentences are of
    training pairs."""
    name = rng.choice(NAMES)
    place = rng.choice([each for each in PLACES if part_of(name, each) == part])
    events = _events(rng.randint(2, LONGEST) - n_facts, rng)
    events.insert(rng.randint(0, len(events)), ("goes", name, place))
    thing = ""
    if n_facts == 2:
        taken = [what for kind, _, what in events if kind == "takes"]
        thing = rng.choice([each for each in THINGS if each not in taken])
        events.insert(rng.randint(0, len(events)), ("takes", name, thing))
    last = max(i for i, event in enumerate(events) if event == ("goes", name, place))
    events = [event for i, event in enumerate(events) if i <= last or event[:2] != ("goes", name)]
    return _told(
        events, f"Where is {f'the {thing}' if thing else name}?", (name, place), n_facts, rng
    )


def _events(n: int, rng: random.Random) -> list[tuple[str, str, str]]:
    """What else happens: people go to places of training pairs, and take things, none twice."""
    things, found = rng.sample(THINGS, len(THINGS) - 1), []
    for _ in range(n):
        name = rng.choice(NAMES)
        if things and rng.random() < 0.35:
            found.append(("takes", name, things.pop()))
        else:
            found.append(
                (
                    "goes",
                    name,
                    rng.choice([place for place in PLACES if part_of(name, place) == "train"]),
                )
            )
    return found


def _told(
    events: list[tuple[str, str, str]],
    question: str,
    answer: tuple[str, str],
    n_facts: int,
    rng: random.Random,
) -> Story:
    context, place = "", 0
    for kind, name, what in events:
        sentence = f"{name} {rng.choice(GOES if kind == 'goes' else TAKES)} {what}."
        if (kind, name, what) == ("goes", *answer):
            place = len(context) + len(sentence) - len(what) - 1
        context += f"{sentence} "
    return Story(question, context.rstrip(), answer[1], place, n_facts)
