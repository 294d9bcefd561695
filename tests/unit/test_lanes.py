"""The order in which edits are answered, with work that ends when the test says so: nothing depends on time."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence

import pytest

from viz_app.session.lanes import LONG_REQUEST_BYTES, TOGETHER, LaneRequest, Lanes, Reply, are_long

LONG_TEXT = "x" * (LONG_REQUEST_BYTES + 1)
PATIENCE = 30  # s after which a test that hangs fails


class Work:
    """Answer each request with its texts in capitals, once the test has opened the gate of its lane."""

    def __init__(self) -> None:
        self.gates = {False: threading.Event(), True: threading.Event()}
        self.begun = {False: threading.Semaphore(0), True: threading.Semaphore(0)}
        self.batches: list[list[tuple[object, str]]] = []

    def __call__(self, batch: Sequence[LaneRequest], reply: Reply) -> None:
        long = are_long(batch[0].texts)
        self.batches.append([(r.session, r.texts[0][-5:]) for r in batch])
        self.begun[long].release()
        assert self.gates[long].wait(PATIENCE)
        for request in batch:
            reply(request, request.texts[0].upper().encode())

    async def has_begun(self, *, long: bool) -> None:
        """Wait until the next batch of this lane is being answered."""
        assert await asyncio.to_thread(self.begun[long].acquire, timeout=PATIENCE)


def run(test: Callable[[Work, Lanes], Awaitable[None]]) -> Work:
    """Run a test with its own lanes and return the work."""
    work = Work()

    async def begin() -> None:
        await asyncio.wait_for(test(work, Lanes(work)), PATIENCE)

    asyncio.run(begin())
    return work


async def put_request(lanes: Lanes, session: str, text: str) -> asyncio.Task:
    """Put a request into its lane and return it."""
    task = asyncio.create_task(lanes.answer(session, (text,)))
    await asyncio.sleep(0)
    return task


def test_short_texts_do_not_wait_for_a_long_one() -> None:
    async def test(work: Work, lanes: Lanes) -> None:
        long = await put_request(lanes, "a", LONG_TEXT)
        await work.has_begun(long=True)
        work.gates[False].set()
        assert await lanes.answer("b", ("short",)) == b"SHORT"
        assert not long.done()
        work.gates[True].set()
        assert await long == LONG_TEXT.upper().encode()

    run(test)


@pytest.mark.parametrize("newer", ["new", LONG_TEXT])
@pytest.mark.parametrize("older", ["old", LONG_TEXT[1:] + "y"])
def test_only_the_newest_request_of_a_session_waits(older: str, newer: str) -> None:
    async def test(work: Work, lanes: Lanes) -> None:
        others = [await put_request(lanes, "other", text) for text in ("b", LONG_TEXT)]
        await work.has_begun(long=True)  # the short one has been dropped for it
        others.append(await put_request(lanes, "third", "b"))
        await work.has_begun(long=False)
        dropped = await put_request(lanes, "a", older)
        answered = await put_request(lanes, "a", newer)
        assert await dropped is None
        for gate in work.gates.values():
            gate.set()
        assert await answered == newer.upper().encode()
        await asyncio.gather(*others)

    begun = [pair for batch in run(test).batches for pair in batch if pair[0] == "a"]
    assert begun == [("a", newer[-5:])]


def test_sessions_take_turns_in_the_long_lane() -> None:
    async def test(work: Work, lanes: Lanes) -> None:
        tasks = [await put_request(lanes, "a", f"{LONG_TEXT}1")]
        await work.has_begun(long=True)
        for session, n in (("b", 1), ("c", 1), ("a", 2), ("b", 2)):
            tasks.append(await put_request(lanes, session, f"{LONG_TEXT}{n}"))
        work.gates[True].set()
        assert [await task is None for task in tasks] == [False, True, False, False, False]

    turns = [(batch[0][0], batch[0][1][-1]) for batch in run(test).batches]
    assert turns == [("a", "1"), ("b", "2"), ("c", "1"), ("a", "2")]  # b has kept its place


def test_short_texts_that_came_meanwhile_are_answered_in_one_batch() -> None:
    async def test(work: Work, lanes: Lanes) -> None:
        tasks = [await put_request(lanes, "first", "one")]
        await work.has_begun(long=False)
        assert lanes.is_busy
        tasks += [await put_request(lanes, f"{i}", f"text{i}") for i in range(TOGETHER + 1)]
        work.gates[False].set()
        answers = [await task for task in tasks]
        assert answers == [b"ONE", *(f"TEXT{i}".encode() for i in range(TOGETHER + 1))]

    assert [len(batch) for batch in run(test).batches] == [1, TOGETHER, 1]


def test_a_session_has_its_answers_in_order() -> None:
    async def test(work: Work, lanes: Lanes) -> None:
        work.gates[False].set()
        long = await put_request(lanes, "a", LONG_TEXT)
        await work.has_begun(long=True)
        overtaken, short = (
            await put_request(lanes, "a", "one"),
            await put_request(lanes, "a", "two"),
        )
        assert await overtaken is None
        assert await lanes.answer("b", ("other",)) == b"OTHER"
        assert not short.done()
        work.gates[True].set()
        assert [await long, await short] == [LONG_TEXT.upper().encode(), b"TWO"]

    run(test)


def test_a_session_that_has_left_is_not_waited_for() -> None:
    async def test(work: Work, lanes: Lanes) -> None:
        first = await put_request(lanes, "a", LONG_TEXT)
        await work.has_begun(long=True)
        gone = await put_request(lanes, "b", LONG_TEXT)
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)
        work.gates[True].set()
        assert await first
        assert await lanes.answer("c", (LONG_TEXT,))

    assert [batch[0][0] for batch in run(test).batches] == ["a", "c"]


def test_work_that_breaks_down_leaves_no_one_waiting() -> None:
    def breaks(batch: Sequence[LaneRequest], reply: Reply) -> None:
        raise RuntimeError("no memory")

    async def ask() -> list[bytes | None]:
        lanes = Lanes(breaks)
        waiting = [lanes.answer(i, ("a",)) for i in range(TOGETHER + 3)]
        return await asyncio.wait_for(asyncio.gather(*waiting), PATIENCE)

    assert asyncio.run(ask()) == [None] * (TOGETHER + 3)


def test_the_length_of_a_text_is_judged_in_bytes() -> None:
    assert [
        are_long(texts)
        for texts in (
            ("x" * LONG_REQUEST_BYTES, ""),
            ("x" * LONG_REQUEST_BYTES, "y"),
            ("é" * LONG_REQUEST_BYTES,),
        )
    ] == [
        False,
        True,
        True,
    ]
    assert not are_long((None, (1, 2)))
