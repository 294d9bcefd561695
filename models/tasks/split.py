"""Which sources are held out: by a hash of the text, and none that says the same as a text trained on."""

import hashlib
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping

SETS = (
    "train",
    "test",
    "validation",
)  # texts that say the same all belong to the first of these that one falls into

SIGNS = re.compile(r"[^\w\s]|_")  # vowel signs of Indic scripts too, which belong to their letters

# English words as they are heard. Where a contraction has two readings ('s: is, has), both fall together.
CLIPPED = {
    "am": "m", "are": "re", "is": "s", "has": "s", "us": "s", "have": "ve", "will": "ll", "shall": "ll", "would": "d", "had": "d",
    "not": "nt", "cannot": "cant", "wont": "llnt", "shant": "llnt",
    "arent": "rent", "isnt": "snt", "hasnt": "snt", "havent": "vent", "wouldnt": "dnt", "hadnt": "dnt",
}  # fmt: skip


FOLDS = 5  # of fold_of: each text is in the test set of one


def split_of(source: str) -> str:
    """ "test" (2 %), "validation" (1 %) or "train", by a hash of the sentence without case and spacing."""
    bucket = _bucket(source)
    return "test" if bucket < 2 else "validation" if bucket == 2 else "train"


def fold_of(source: str, fold: int) -> str:
    """The same of few texts: "test" (20 %), "validation" (10 %) or "train", in one of FOLDS such splits."""
    bucket = (_bucket(source) - fold * 100 // FOLDS) % 100
    return "test" if bucket < 20 else "validation" if bucket < 30 else "train"


def _bucket(source: str) -> int:
    """0 to 99, by a hash of the sentence without case and spacing."""
    plain = " ".join(_plain(source).split())
    return int.from_bytes(hashlib.blake2b(plain.encode(), digest_size=8).digest(), "big") % 100


def same_text(text: str) -> str:
    """The text without case, punctuation, spacing and Unicode form, contractions and what they stand for alike: two
    texts of which this is the same count as one text."""
    plain = _plain(text)
    words = SIGNS.sub(
        lambda sign: sign[0] if unicodedata.category(sign[0]).startswith("M") else "", plain
    ).split()
    joined = "".join(CLIPPED.get(word, word) for word in words)
    return (
        joined.replace("cannt", "cant") or plain.strip()
    )  # "can not"; a text of signs alone is itself


def sets_of(
    sources: Iterable[str],
    given: Mapping[str, Iterable[str]],
    split_of: Callable[[str], str] = split_of,
) -> dict[str, str]:
    """Each source → the set it belongs to, "left out" or "taken out".

    `split_of`, a hash, decides; texts that say the same but fall into several sets are left out of all but the first of SETS.
    `given` has the sources of sets that come from elsewhere ("test", "validation"): what says the same as one of them is
    taken out, and the hash does not choose those sets."""
    taken = {same_text(source) for texts in given.values() for source in texts}
    said = {source: same_text(source) for source in set(sources)}
    hashed = {source: "train" if (name := split_of(source)) in given else name for source in said}
    first: dict[str, str] = {}
    for source, text in said.items():
        first[text] = min(hashed[source], first.get(text, hashed[source]), key=SETS.index)
    return {
        source: "taken out"
        if text in taken
        else hashed[source]
        if hashed[source] == first[text]
        else "left out"
        for source, text in said.items()
    }


def _plain(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()
