"""Train, test and validation split: by a hash of the text, without duplicates across sets."""

import hashlib
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping

# duplicates belong to the first of these sets that one of them is in
SPLIT_SETS = ("train", "test", "validation")

SIGNS = re.compile(r"[^\w\s]|_")  # also vowel signs of Indic scripts, which belong to their letters

# English words as contracted. Both readings of an ambiguous contraction ('s: is, has) are merged.
CLIPPED = {
    "am": "m", "are": "re", "is": "s", "has": "s", "us": "s", "have": "ve", "will": "ll", "shall": "ll", "would": "d", "had": "d",
    "not": "nt", "cannot": "cant", "wont": "llnt", "shant": "llnt",
    "arent": "rent", "isnt": "snt", "hasnt": "snt", "havent": "vent", "wouldnt": "dnt", "hadnt": "dnt",
}  # fmt: skip


FOLDS = 5  # each text is in the test set of one fold


def split_of(source: str) -> str:
    """Return "test" (2 %), "validation" (1 %) or "train".

    The set is chosen by a hash of the sentence without case and spacing.
    """
    bucket = _bucket(source)
    return "test" if bucket < 2 else "validation" if bucket == 2 else "train"


def fold_of(source: str, fold: int) -> str:
    """Return "test" (20 %), "validation" (10 %) or "train", in one of FOLDS splits of few texts."""
    bucket = (_bucket(source) - fold * 100 // FOLDS) % 100
    return "test" if bucket < 20 else "validation" if bucket < 30 else "train"


def _bucket(source: str) -> int:
    """Return 0 to 99, by a hash of the sentence without case and spacing."""
    plain = " ".join(_plain(source).split())
    return int.from_bytes(hashlib.blake2b(plain.encode(), digest_size=8).digest(), "big") % 100


def same_text(text: str) -> str:
    """Return the text without case, punctuation, spacing and Unicode form, and with contractions.

    Two texts with the same result count as one.
    """
    plain = _plain(text)
    words = SIGNS.sub(
        lambda sign: sign[0] if unicodedata.category(sign[0]).startswith("M") else "", plain
    ).split()
    result = "".join(CLIPPED.get(word, word) for word in words)
    # "can not"; a text of punctuation alone is kept
    return result.replace("cannt", "cant") or plain.strip()


def sets_of(
    sources: Iterable[str],
    elsewhere: Mapping[str, Iterable[str]],
    split_of: Callable[[str], str] = split_of,
) -> dict[str, str]:
    """Return each source → its set, "left out" or "taken out".

    The hash `split_of` decides; duplicates (`same_text`) in several sets are left out of all but
    the first of SPLIT_SETS. `elsewhere` has the sources of sets that come from other files ("test",
    "validation"): their duplicates are taken out, and the hash does not assign these sets.
    """
    held_out = {same_text(source) for texts in elsewhere.values() for source in texts}
    normal_forms = {source: same_text(source) for source in set(sources)}
    hashed = {
        source: "train" if (name := split_of(source)) in elsewhere else name
        for source in normal_forms
    }
    first: dict[str, str] = {}
    for source, text in normal_forms.items():
        first[text] = min(hashed[source], first.get(text, hashed[source]), key=SPLIT_SETS.index)
    return {
        source: "taken out"
        if text in held_out
        else hashed[source]
        if hashed[source] == first[text]
        else "left out"
        for source, text in normal_forms.items()
    }


def _plain(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()
