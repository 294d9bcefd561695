"""Surveys over held-out texts: does a translation recover, and do other weights keep a word?

Each result is a mean over texts with its 95 % bootstrap interval, and belongs to the weights that
it was measured on.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from random import Random

import torch

from models.analysis.joined_words import word_starts
from models.analysis.paired import bootstrap
from models.decoding import greedy
from models.runs.attention_row import AttentionRow, query_of
from models.runs.explanation import N_PERMUTATIONS, adversary, quick_tests
from models.runs.scope import Scope
from models.runs.survey_parts import SurveyParts
from models.tokenizers.base import Encoding, Tokenizer
from models.trace import AttentionSite, Trace

SHARE, SHARE_DIFFERENCE, _NATS = "share", "difference", "nats"  # units
MIN_WORDS = 4  # in a translation, so that at least two words follow the middle one
ADVERSARY_TEXTS = 16  # the first texts, on which the adversary searches as well
_DIGITS = 4  # decimal places of a recorded number

SurveyProgress = Callable[[int, int], object]


@dataclass(frozen=True)
class SurveyedMean:
    """A mean over held-out texts, with its 95 % bootstrap interval over texts."""

    unit: str  # SHARE, SHARE_DIFFERENCE of two shares, or nats
    mean: float
    low: float
    high: float
    n_texts: int

    @classmethod
    def of(cls, unit: str, values: Sequence[float], seed: int) -> "SurveyedMean":
        """Return the mean of one number for each text."""
        interval = bootstrap(torch.tensor(values, dtype=torch.float64), seed)
        mean, low, high = (
            round(one, _DIGITS) for one in (interval.mean, interval.low, interval.high)
        )
        return cls(unit, mean, low, high, len(values))


@dataclass(frozen=True)
class GeneratedWord:
    """A word of a generated text, as its tokenizer splits words."""

    text: str
    start: int  # its first token among those generated
    ids: tuple[int, ...]
    is_spaced: bool  # after a space, or at the start


def generated_words(ids: Sequence[int], tokenizer: Tokenizer) -> list[GeneratedWord]:
    """Return the words of generated tokens up to </s>; punctuation is left out."""
    ids = tuple(ids[: ids.index(tokenizer.end_id)] if tokenizer.end_id in ids else ids)
    row = tokenizer.spell(ids)
    opening, words = len(row.ids) - len(ids), []
    for first, end in pairwise([*word_starts(row, tokenizer), len(row.ids)]):
        spans = [span for span in row.offsets[first:end] if span is not None and span[0] < span[1]]
        text = row.text[spans[0][0] : spans[-1][1]].strip() if spans and first >= opening else ""
        if any(map(str.isalnum, text)):
            start = spans[0][0]
            is_spaced = start == 0 or row.text[start].isspace() or row.text[start - 1].isspace()
            words.append(GeneratedWord(text, first - opening, row.ids[first:end], is_spaced))
    return words


@dataclass(frozen=True)
class Slip:
    """A wrong word in a translation, with the words after the right one and after this one."""

    right: GeneratedWord
    wrong: GeneratedWord
    before: tuple[str, ...]  # the words after the right one
    after: tuple[str, ...]  # the words that the model writes after the wrong one

    @property
    def is_recovered(self) -> bool:
        """True if this text, too, ends with at least the second half of the words that followed."""
        n = math.ceil(len(self.before) / 2)
        return self.after[-n:] == self.before[-n:]

    @property
    def is_unmoved(self) -> bool:
        """True if every word that followed the right one follows the wrong one, and no other."""
        return self.after == self.before


REPLACED_WORDS: Mapping[str, Callable[[int], int]] = {  # of n words
    "first": lambda n: 0,
    "middle": lambda n: (n - 1) // 2,
}


def draw_wrong_word(
    texts: Sequence[Sequence[GeneratedWord]], i: int, place: str, seed: int
) -> GeneratedWord:
    """Draw a wrong word for text i from the words at this place in all texts.

    It is one of the distinct words that differ from the right one and, like it, follow a space or
    none.

    Raises:
        ValueError: there is no such word.
    """
    each = [words[REPLACED_WORDS[place](len(words))] for words in texts]
    right = each[i]
    others = {
        word.ids: word
        for word in each
        if word.text.casefold() != right.text.casefold() and word.is_spaced == right.is_spaced
    }
    if not others:
        raise ValueError(f"no {place} word of another translation can replace “{right.text}”")
    return others[Random(f"{seed} {place} {i}").choice(sorted(others))]


def make_slip(
    scope: Scope, source: Encoding, words: Sequence[GeneratedWord], right: int, wrong: GeneratedWord
) -> Slip:
    """Force a wrong word in place of one of a translation's words; the model writes the rest."""
    start = words[right].start
    end = start + len(wrong.ids)
    forced = dict(zip(range(start, end), wrong.ids, strict=True))
    token_ids = [step.token for step in greedy(scope.model, source.ids, forced=forced)]
    after = [w.text for w in generated_words(token_ids, scope.tokenizer) if w.start >= end]
    before = [word.text for word in words[right + 1 :]]
    return Slip(words[right], wrong, tuple(before), tuple(after))


def survey_recovery(
    scope: Scope,
    sources: Sequence[Encoding],
    seed: int,
    progress: SurveyProgress,
    parts: SurveyParts | None = None,
) -> dict[str, SurveyedMean]:
    """Return how often translations recover from a wrong word, by the word that is replaced.

    Translations of fewer than MIN_WORDS words are left out. Parts that `parts` holds are not
    computed again.

    Raises:
        ValueError: the model writes no translations, or too few that are long enough.
    """
    if not scope.model.translates:
        raise ValueError(f"{scope.name} does not translate: it has no translation to recover")
    parts = parts or SurveyParts()
    n, done, originals = len(sources) * (1 + len(REPLACED_WORDS)), 0, []
    for i, source in enumerate(sources):
        largest_id = scope.tokenizer.vocab_size - 1
        token_ids = parts.numbers(f"text {i}", largest_id, partial(_translate, scope, source))
        words = generated_words(tuple(map(int, token_ids)), scope.tokenizer)
        originals += [(source, words)] * (len(words) >= MIN_WORDS)
        progress(done := done + 1, n)
    if len(originals) < 2:
        raise ValueError(
            f"{scope.name} writes {len(originals)} translations of at least {MIN_WORDS} words; "
            "at least 2 are needed"
        )
    n = len(sources) + len(originals) * len(REPLACED_WORDS)
    means, texts = {}, [words for _, words in originals]
    for place in REPLACED_WORDS:
        slips = []
        for i, (source, _) in enumerate(originals):
            measured = partial(_measure_slip, scope, source, texts, i, place, seed)
            slips.append(parts.numbers(f"{place} {i}", 1, measured))
            progress(done := done + 1, n)
        for name, values in zip(RECOVERY_MEASURES, zip(*slips, strict=True), strict=True):
            means[f"{place} {name}"] = SurveyedMean.of(SHARE, values, seed)
    return means


def _translate(scope: Scope, source: Encoding) -> Sequence[int]:
    return scope.write(source).ids


def _measure_slip(
    scope: Scope,
    source: Encoding,
    texts: Sequence[Sequence[GeneratedWord]],
    i: int,
    place: str,
    seed: int,
) -> list[float]:
    """Return the RECOVERY_MEASURES of text i, whose source is given, after a wrong word."""
    wrong = draw_wrong_word(texts, i, place, seed)
    slip = make_slip(scope, source, texts[i], REPLACED_WORDS[place](len(texts[i])), wrong)
    return [measure(slip) for measure in RECOVERY_MEASURES.values()]


RECOVERY_MEASURES: Mapping[str, Callable[[Slip], float]] = {
    "recovered": lambda one: float(one.is_recovered),
    "unmoved": lambda one: float(one.is_unmoved),
}


def rows_of_words(scope: Scope, trace: Trace) -> list[AttentionRow]:
    """Return the row of weights that leads to each generated token before </s>.

    Raises:
        ValueError: the model does not have exactly one such attention, or it has several heads.
    """
    sites = [site for site in trace.attention.values() if _belongs_to_words(trace, site)]
    if [site.n_heads for site in sites] != [1]:
        raise ValueError(
            f"{scope.name} has {sum(site.n_heads for site in sites)} heads whose rows belong to "
            "written words; exactly 1 is needed, whose row is replaced"
        )
    labels = trace.next_token.labels
    n = labels.index(scope.tokenizer.end_id) if scope.tokenizer.end_id in labels else len(labels)
    return [AttentionRow(scope, trace, sites[0].name, 0, i) for i in range(n)]


def _belongs_to_words(trace: Trace, site: AttentionSite) -> bool:
    try:
        query_of(trace, site, 0)
    except ValueError:
        return False
    return True


def survey_weights(
    scope: Scope,
    sources: Sequence[Encoding],
    seed: int,
    progress: SurveyProgress,
    parts: SurveyParts | None = None,
) -> dict[str, SurveyedMean]:
    """Return how often a word stays under other weights (Jain and Wallace 2019).

    "uniform" and "permuted" are the share of a text's tokens that stay; "adversary" is the mean
    divergence from the model's weights that an adversary reaches with the token kept. It searches
    the first ADVERSARY_TEXTS texts. A text with no generated word is left out. Parts that `parts`
    holds are not computed again.

    Raises:
        ValueError: the model writes no translations, or does not have exactly one head that leads
            to words.
    """
    if not scope.model.translates:
        raise ValueError(f"{scope.name} does not translate: this survey replaces weights per word")
    parts = parts or SurveyParts()
    n, done = len(sources) + min(len(sources), ADVERSARY_TEXTS), 0
    values: dict[str, list[float]] = {"uniform": [], "permuted": [], "adversary": []}
    for i, source in enumerate(sources):
        shares = parts.numbers(f"text {i}", 1, partial(_mean_shares, scope, source, seed))
        progress(done := done + 1, n)
        if not shares:
            continue
        for name, share in zip(("uniform", "permuted"), shares, strict=True):
            values[name].append(share)
        if len(values["adversary"]) < ADVERSARY_TEXTS:
            reached = partial(_mean_divergence, scope, source, seed)
            values["adversary"] += parts.numbers(f"adversary {i}", 1, reached)
            progress(done := done + 1, n)
    if not values["uniform"]:
        raise ValueError(f"{scope.name} writes nothing for these texts")
    units = {"uniform": SHARE, "permuted": SHARE, "adversary": _NATS}
    return {name: SurveyedMean.of(units[name], each, seed) for name, each in values.items()}


def _mean_shares(scope: Scope, source: Encoding, seed: int) -> list[float]:
    """Return the shares of a text's tokens that uniform and permuted weights keep.

    They are empty if nothing is generated.
    """
    each = [_shares_kept(row, seed) for row in rows_of_words(scope, scope.run(source))]
    return [sum(shares) / len(shares) for shares in zip(*each, strict=True)]


def _mean_divergence(scope: Scope, source: Encoding, seed: int) -> list[float]:
    """Return how far an adversary moves the rows of a text, on average, in nats."""
    rows = rows_of_words(scope, scope.run(source))
    reached = [adversary(row, seed=seed, max_seconds=math.inf) for row in rows]
    return [sum(one.trial.divergence for one in reached) / len(reached)]


def _shares_kept(row: AttentionRow, seed: int) -> tuple[float, float]:
    """Return the share of uniform and of permuted weights that keep the token: 0 or 1, 0 to 1."""
    tests, option = quick_tests(row, seed=seed), int(row.logits.argmax())
    if tests.uniform is None or tests.permuted is None:
        return 1.0, 1.0  # nothing to move
    return float(tests.uniform.predicted == option), tests.permuted.kept(option) / N_PERMUTATIONS


Survey = Callable[
    [Scope, Sequence[Encoding], int, SurveyProgress, SurveyParts | None], dict[str, SurveyedMean]
]
SURVEYS: Mapping[str, Survey] = {"recovery": survey_recovery, "weights": survey_weights}
