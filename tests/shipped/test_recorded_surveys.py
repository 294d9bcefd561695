"""The recorded surveys, recomputed: translations by plain passes, words by edits of whole runs."""

import math
import re
from collections.abc import Sequence

import pytest
import torch
from checked import unchecked
from test_shipped import TATOEBA, wants

import models
from models.held_out_texts import held_out
from models.runs.surveys import (
    MIN_WORDS,
    REPLACED_WORDS,
    draw_wrong_word,
    generated_words,
    make_slip,
    survey_recovery,
)
from models.trace.edits import SetWeights, Where

RECORDED_LIMIT = 400  # of the recorded recovery
CHECKED = 4  # texts that are decoded by whole passes


def unnoticed(done: int, total: int) -> None: ...


def written_by_passes(
    scope: models.Scope, source: tuple[int, ...], forced: dict[int, int]
) -> list[int]:
    """Decode greedily without a cache."""
    given, row = torch.tensor([source]), [scope.config.start_id]
    for i in range(scope.model.max_new_tokens(len(source))):
        with torch.no_grad():
            logits = scope.model(given, torch.tensor([row]))[0, -1]
        row.append(forced.get(i, int(logits.argmax())))
        if row[-1] == scope.config.end_id:
            break
    return row[1:]


@pytest.mark.timeout(600)
def test_translations_recover_as_often_as_recorded() -> None:
    wants(TATOEBA, "the held-out texts'")
    scope = models.load("eng-fra", device="cpu")
    recorded = scope.training["surveys"]["recovery"]
    assert recorded["measured_on"] == scope.weights_digest
    sources = [text["source"] for text in held_out(scope, [TATOEBA], RECORDED_LIMIT)]
    with unchecked():
        found = survey_recovery(scope, sources, recorded["seed"], unnoticed)
    assert recorded["means"].keys() == found.keys()
    for measure, one in found.items():
        was = recorded["means"][measure]
        assert (one.unit, one.n_texts) == (was["unit"], was["n_texts"])
        # a translation that depends on rounding may differ between machines
        assert (one.mean, one.low, one.high) == pytest.approx(
            (was["mean"], was["low"], was["high"]), abs=0.01
        )

    translated = [(source, scope.write(source).ids) for source in sources[:12]]
    split = [(*one, generated_words(one[1], scope.tokenizer)) for one in translated]
    kept = [one for one in split if len(one[2]) >= MIN_WORDS]
    for i, (source, own, words) in enumerate(kept[:CHECKED]):
        for place, replaced in REPLACED_WORDS.items():
            at = replaced(len(words))
            wrong = draw_wrong_word([words for *_, words in kept], i, place, 0)
            start, end = words[at].start, words[at].start + len(wrong.ids)
            ids = written_by_passes(scope, source.ids, dict(enumerate(wrong.ids, start)))
            assert ids[:end] == [*own[:start], *wrong.ids]
            before = letters_only(scope, own[start + len(words[at].ids) :])
            after, half = letters_only(scope, ids[end:]), math.ceil(len(before) / 2)
            one = make_slip(scope, source, words, at, wrong)
            assert one.is_recovered == (after[-half:] == before[-half:])


def letters_only(scope: models.Scope, ids: Sequence[int]) -> list[str]:
    """Return the words of these tokens, split at everything that is no letter."""
    return re.findall(r"\w+", scope.tokenizer.decode(ids))


def test_words_stay_under_other_weights_as_often_as_recorded() -> None:
    scope = models.load("eng-fra-bahdanau", device="cpu")
    recorded = scope.training["surveys"]["weights"]
    assert recorded["measured_on"] == scope.weights_digest
    shares = []
    for text in scope.held_out:
        trace = scope.run(text[0])
        labels, logits = trace.next_token.labels, trace.next_token.logits
        n = len(labels) - (labels[-1] == scope.tokenizer.end_id)
        n_key = len(trace.streams["source"].ids)
        edits = [
            SetWeights(
                Where(site="decoder.alignment", queries=(i,), rows=(i,)),
                cells=tuple((key, 1 / n_key) for key in range(n_key)),
            )
            for i in range(n)
        ]
        outputs = scope.outputs_batch([trace.streams] * n, edits)
        kept = [
            int(outputs[i]["next token"].logits[i].argmax()) == int(logits[i].argmax())
            for i in range(n)
        ]
        shares.append(sum(kept) / n)
    was = recorded["means"]["uniform"]
    assert was["n_texts"] == len(shares)
    assert was["mean"] == pytest.approx(sum(shares) / len(shares), abs=0.005)


@pytest.mark.parametrize("name", ["eng-fra-bahdanau", "eng-fra"])
def test_recorded_gains_of_frozen_weights_are_differences_of_shares(name: str) -> None:
    """The models themselves are trained again in tests/recipes."""
    scope = models.load(name, device="cpu")
    recorded = scope.training["surveys"]["frozen"]
    assert recorded["measured_on"] == scope.weights_digest
    means = recorded["means"]
    for guide in ("uniform", "diagonal", "learned"):
        gain = means[f"imposed over {guide}"]
        apart = means["imposed"]["mean"] - means[guide]["mean"]
        assert gain["mean"] == pytest.approx(apart, abs=2e-4)
        assert gain["n_texts"] == means["imposed"]["n_texts"] == means[guide]["n_texts"]
        # the same words of a text are easy for both: a paired interval is narrower than that of two means
        widths = [means[one]["high"] - means[one]["low"] for one in ("imposed", guide)]
        assert gain["high"] - gain["low"] < math.hypot(*widths)
