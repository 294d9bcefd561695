"""The model's passes on each page for one key, beyond the run that is shown: every pass is shown in a picture."""

from collections import Counter

import pytest
from test_live import AFTER, open_page

from models.architectures.transformer import Transformer
from viz_app.session import cache
from viz_app.session.byte_cache import ByteCache
from viz_app.session.cache import store

KNOWN_SECOND = "24 July 1969"


def count_passes(address: str, query: str, patch: pytest.MonkeyPatch) -> Counter[str]:
    """Return the calls of the encoder and of the decoder for one edit of the source, with nothing of it in the cache."""
    app = open_page(address, query)
    session, counts = app.session_state["live session"], Counter()
    patch.setattr(store, "cache_store", ByteCache(2**29))
    cache.scope("dates")
    cache.written_ids(session.scope, KNOWN_SECOND)
    for name in ("encode", "decode"):
        _count(patch, name, counts)
    assert session.edit(AFTER, "")
    patch.undo()
    return counts


def _count(patch: pytest.MonkeyPatch, name: str, counts: Counter[str]) -> None:
    own = getattr(Transformer, name)

    def counted(*given: object, **named: object) -> object:
        counts[name] += 1
        return own(*given, **named)

    patch.setattr(Transformer, name, counted)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("address", "query", "extra"),
    [
        ("inside", "", {}),
        ("masks", "masks-second=", {}),
        # a batch of two, whose texts are known by then
        ("masks", f"masks-second={KNOWN_SECOND}", {"encode": 1, "decode": 1}),
        # decoded once more with every step recorded; without a cache the run itself has read it
        ("decoding", "", {"encode": 1, "decode": len("1999-05-03") + 1}),
    ],
)
def test_a_key_costs_the_run_and_the_passes_that_the_page_shows(
    address: str, query: str, extra: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = count_passes("", "", monkeypatch)
    assert count_passes(address, query, monkeypatch) == alone + Counter(extra)
