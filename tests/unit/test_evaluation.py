"""Scores against sacrebleu called by hand and cases counted by hand."""

import math

import pytest
import sacrebleu

from models.training.evaluation import (
    METRICS,
    TextCases,
    bleu,
    exact_match,
    generate_texts,
    hypotheses,
    scores_by_length,
    signature,
)
from models.training.task import Case

HYPOTHESES = ["the cat sat on the mat .", "a dog barked loudly at us", "he reads", "it is raining"]
CASES = [
    Case(
        "a", ("the cat sat on the mat .", "a cat was sitting on the mat .", "the cat is on the mat")
    ),
    Case("b", ("a dog barked at us loudly",)),
    Case("c", ("he is reading", "he reads a book", "he reads")),
    Case("d", ("rain falls", "it rains")),
]


def test_bleu_of_several_references_is_sacrebleus():
    """A repeated reference counts only once, so padding the list with the first one gives the same score."""
    streams = [
        [c.references[k] if k < len(c.references) else c.references[0] for c in CASES]
        for k in range(3)
    ]
    by_hand = sacrebleu.corpus_bleu(HYPOTHESES, streams).score
    assert bleu(HYPOTHESES, CASES) == pytest.approx(by_hand)
    assert 0 < by_hand < 100
    first_only = [Case(c.source, c.references[:1]) for c in CASES]
    assert bleu(HYPOTHESES, first_only) == pytest.approx(
        sacrebleu.corpus_bleu(HYPOTHESES, [[c.references[0] for c in CASES]]).score
    )
    assert bleu(HYPOTHESES, first_only) < by_hand


def by_papineni(texts: list[str], references: list[str]) -> float:
    """BLEU by its formula: the geometric mean of the clipped precisions of 1 to 4 words, times the brevity penalty."""
    logs = []
    for n in (1, 2, 3, 4):
        right = total = 0
        for text, reference in zip(texts, references, strict=True):
            ours, theirs = (
                [tuple(s.split()[i : i + n]) for i in range(len(s.split()) - n + 1)]
                for s in (text, reference)
            )
            right += sum(min(ours.count(gram), theirs.count(gram)) for gram in set(ours))
            total += len(ours)
        logs.append(math.log(right / total))
    length, wanted = (sum(len(s.split()) for s in side) for side in (texts, references))
    return 100 * min(1.0, math.exp(1 - wanted / length)) * math.exp(sum(logs) / 4)


def test_bleu_follows_its_formula_and_is_case_sensitive():
    references = [
        "The cat sat on the mat and slept all day",
        "He reads a long book about Paris in the rain",
    ]
    cases = [Case(str(i), (reference,)) for i, reference in enumerate(references)]
    shorter = ["the cat sat on the mat and slept", "He reads a long book about paris in Rain"]
    assert bleu(shorter, cases) == pytest.approx(by_papineni(shorter, references))
    assert bleu(shorter, cases) < bleu([references[0], shorter[1]], cases) < 100
    assert bleu(references, cases) == pytest.approx(100)
    lowered = [reference.lower() for reference in references]
    assert bleu(lowered, cases) == pytest.approx(by_papineni(lowered, references))
    assert bleu(lowered, cases) < 80


def test_bleu_of_a_perfect_and_of_an_empty_output():
    cases = CASES[:2]
    assert bleu([c.references[-1] for c in cases], cases) == pytest.approx(100)
    assert bleu(["", ""], cases) == 0


def test_the_signature_is_that_of_the_bleu_that_is_reported():
    """Each setting is checked against the score: another tokenisation, lower case or another smoothing would change it."""
    said = dict(part.split(":") for part in signature("BLEU", CASES).split("|"))
    assert said == {
        "nrefs": "var", "case": "mixed", "eff": "no", "tok": "13a", "smooth": "exp", "version": sacrebleu.__version__,
    }  # fmt: skip
    single = [Case("a", ("The cat's here, now.",)), Case("b", ("it rains today again",))]
    texts = ["the Cat's here , now.", "it rains TODAY"]
    references = [[c.references[0] for c in single]]
    by_hand = sacrebleu.corpus_bleu(
        texts, references, smooth_method="exp", tokenize="13a", lowercase=False
    )
    assert bleu(texts, single) == by_hand.score
    assert bleu(texts, single) != sacrebleu.corpus_bleu(texts, references, lowercase=True).score
    assert signature("BLEU", single).startswith("nrefs:1|")
    assert signature("exact match", single) == ""


def test_exact_match_counts_any_reference():
    assert exact_match(HYPOTHESES, CASES) == 50
    assert exact_match(["he  reads"], CASES[2:3]) == 0
    assert exact_match([f" {CASES[2].references[0]}\n"], CASES[2:3]) == 100
    assert set(METRICS) == {"BLEU", "exact match"}


def test_each_text_is_counted_for_its_own_source(scope, reversal):
    """Sources are decoded in batches, in order of length; results come back in their original order."""
    words = ["abc", "d", "ab", "e", "cde", "ba"]
    texts = dict(generate_texts(scope.model, scope.tokenizer, words, batch_size=4))
    assert list(texts) == [1, 3, 2, 5, 0, 4]  # shortest first
    alone = [scope.write(word).text for word in words]
    assert [texts[i] for i in range(6)] == alone
    assert sum(text == word[::-1] for text, word in zip(alone, words, strict=True)) >= 5
    seen = []
    cases = [Case(word, (text,)) for word, text in zip(words, alone, strict=True)]
    assert (
        TextCases(cases, scope.tokenizer, "exact match")
        .evaluate(scope.model)
        .measures["exact match"]
        == 100
    )
    assert hypotheses(scope.model, scope.tokenizer, cases, lambda *at: seen.append(at)) == alone
    assert seen == [(i, 6) for i in range(1, 7)]
    wrong = [Case(word, ("no",)) for word in words]
    assert (
        TextCases(wrong, scope.tokenizer, "exact match")
        .evaluate(scope.model)
        .measures["exact match"]
        == 0
    )


def test_groups_of_length_hold_every_case_once_and_score_their_own():
    words = {
        2: 3,
        3: 1,
        4: 2,
        7: 1,
        8: 1,
        21: 2,
    }  # length → cases; all but the first case of each length are wrong
    cases = [
        Case(f"{i} " + "w " * (n - 1), ("right",))
        for n, count in words.items()
        for i in range(count)
    ]
    texts = ["right" if case.source.startswith("0 ") else "wrong" for case in cases]
    groups = scores_by_length(texts, cases, "exact match", n_groups=4)
    assert [(g.least, g.most, g.cases, round(g.score, 3)) for g in groups] == [
        (2, 3, 4, 50.0), (4, 4, 2, 50.0), (7, 7, 1, 100.0), (8, 21, 3, 66.667),
    ]  # fmt: skip
    order = [5, 0, 9, 3, 1, 8, 2, 7, 4, 6]
    again = scores_by_length(
        [texts[i] for i in order], [cases[i] for i in order], "exact match", n_groups=4
    )
    assert again == groups
    assert [(g.least, g.most, g.cases) for g in scores_by_length(texts, cases, "exact match")] == [
        (2, 3, 4), (4, 4, 2), (7, 7, 1), (8, 8, 1), (21, 21, 2),
    ]  # fmt: skip
    longer = [
        *cases,
        Case("w " * 12, ("right",)),
        Case("w " * 14, ("right",)),
    ]  # the sixth group is the last
    assert [
        (g.least, g.most, g.cases)
        for g in scores_by_length([*texts, "right", "wrong"], longer, "exact match")
    ][4:] == [(12, 21, 4)]
    (whole,) = scores_by_length(HYPOTHESES, CASES, "BLEU")
    assert (whole.least, whole.most, whole.cases, whole.score) == (1, 1, 4, bleu(HYPOTHESES, CASES))
