"""Whose edit is answered next: two lanes of requests, one for short texts and one for long ones, each with a thread of its own.

Runs side by side only wait for each other's interpreter lock, so that short texts are answered by one thread, those that have come
in meanwhile in one batch. A long text's pass spends its time outside that lock; short texts need not wait for it.
"""

import asyncio
import logging
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

LONG = 1024  # bytes of all texts of a request, 512 tokens where they are as short as typed ids; one with more goes to the long lane
TOGETHER = 12  # short requests answered in one batch
_log = logging.getLogger(__name__)

Texts = tuple[str, ...]  # what stands in the boxes of the model's fields, in their order


def is_long(texts: Sequence[object]) -> bool:
    """Return True if these texts have more than LONG bytes together; what is no text counts for nothing."""
    return sum(len(text.encode()) for text in texts if isinstance(text, str)) > LONG


@dataclass(frozen=True, eq=False)
class Request:
    """What one session has asked for, and where its answer goes: bytes, or None where there is none."""

    session: Hashable
    texts: Texts
    answer: asyncio.Future

    def settle(self, answer: bytes | None) -> None:
        """Answer, unless that has been done or nobody waits any more."""
        if not self.answer.done():
            self.answer.set_result(answer)


Reply = Callable[[Request, bytes | None], None]
Work = Callable[[Sequence[Request], Reply], None]  # answers each request of a batch, in a thread


class Lanes:
    """Requests of many sessions. Of one session only the newest waits: one that has not begun is dropped for it, and answered with
    None. Sessions take turns, because each has at most one request waiting, and a lane is first come, first served. A session's
    short text is answered after the long one of its own that is being answered, so that its answers keep their order."""

    def __init__(self, work: Work) -> None:
        self._short, self._long = _Lane(work, TOGETHER), _Lane(work, 1)
        self._after_long: dict[Hashable, Request] = {}

    @property
    def is_busy(self) -> bool:
        """Return True if a short request waits or is being answered."""
        return self._short.is_busy

    async def answer(self, session: Hashable, texts: Texts) -> bytes | None:
        """Wait for the answer to a request; None where there is none, a newer request came, or answering failed."""
        request = Request(session, texts, asyncio.get_running_loop().create_future())
        lane = self._long if is_long(texts) else self._short
        self._drop(session, lane)
        if lane is self._short and (own := self._long.at_work(session)):
            self._after_long[session] = request
            own.answer.add_done_callback(lambda _: self._release(request))
        else:
            lane.add(request)
        try:
            return await request.answer
        finally:
            for waiting in self._waiting():
                if waiting.get(session) is request:  # nobody waits for it any more
                    del waiting[session]

    def _waiting(self) -> tuple[dict[Hashable, Request], ...]:
        return self._short.waiting, self._long.waiting, self._after_long

    def _drop(self, session: Hashable, lane: "_Lane") -> None:
        """Answer what this session has waiting with None; in this lane its place is kept for what comes next."""
        for waiting in self._waiting():
            if older := waiting.get(session):
                older.settle(None)
                if waiting is not lane.waiting:
                    del waiting[session]

    def _release(self, request: Request) -> None:
        if self._after_long.get(request.session) is request:
            del self._after_long[request.session]
            self._short.add(request)


class _Lane:
    """Requests answered by one thread, up to `most` at a time, in the order in which their sessions came."""

    def __init__(self, work: Work, most: int) -> None:
        self._work, self._most = work, most
        self.waiting: dict[Hashable, Request] = {}
        self._batch: list[Request] = []
        self._task: asyncio.Task | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="edits")

    @property
    def is_busy(self) -> bool:
        return bool(self._task and not self._task.done())

    def add(self, request: Request) -> None:
        self.waiting[request.session] = request
        if not self.is_busy:
            self._task = asyncio.create_task(self._answer_all())

    def at_work(self, session: Hashable) -> Request | None:
        """The request of this session that is being answered."""
        return next((r for r in self._batch if r.session is session and not r.answer.done()), None)

    async def _answer_all(self) -> None:
        loop = asyncio.get_running_loop()

        def reply(request: Request, answer: bytes | None) -> None:
            loop.call_soon_threadsafe(request.settle, answer)

        while self.waiting:
            batch = self._batch = list(self.waiting.values())[: self._most]
            for request in batch:
                del self.waiting[request.session]
            try:
                await loop.run_in_executor(self._thread, self._work, batch, reply)
            except Exception:
                _log.exception("no edit could be answered")
            finally:  # whatever has happened, nobody is left waiting
                for request in batch:
                    request.settle(None)
                self._batch = []
