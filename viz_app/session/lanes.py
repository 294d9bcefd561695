"""Two queues of edit requests, one for short and one for long texts, each with its own thread.

Concurrent runs mostly wait for each other's interpreter lock, so short texts are answered by a
single thread, in batches of the requests that have arrived meanwhile. The pass of a long text
spends its time outside that lock, so short texts need not wait for it.
"""

import asyncio
import logging
from collections.abc import Callable, Hashable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

# bytes of a request's texts (up to 512 typed ids); above, it takes the long lane
LONG_REQUEST_BYTES = 1024
TOGETHER = 12  # short requests answered in one batch
_log = logging.getLogger(__name__)

TypedTexts = tuple[str, ...]  # the contents of the model's text boxes, in field order


def are_long(texts: Iterable[object]) -> bool:
    """Return True if the texts have more than LONG_REQUEST_BYTES; other values do not count."""
    return sum(len(text.encode()) for text in texts if isinstance(text, str)) > LONG_REQUEST_BYTES


@dataclass(frozen=True, eq=False)
class LaneRequest:
    """A request of one session, and the future for its answer: bytes, or None without an answer."""

    session: Hashable
    texts: TypedTexts
    answer: asyncio.Future

    def settle(self, answer: bytes | None) -> None:
        """Set the answer, unless it was set before or its waiter was cancelled."""
        if not self.answer.done():
            self.answer.set_result(answer)


Reply = Callable[[LaneRequest, bytes | None], None]
LaneWork = Callable[
    [Sequence[LaneRequest], Reply], None
]  # answers each request of a batch, in a thread


class Lanes:
    """Queues for the requests of many sessions, first come, first served.

    Only a session's newest request waits: an older one that has not begun is dropped and answered
    with None, so sessions take turns. A session's short text waits for its own long text in
    progress, so that its answers keep their order.
    """

    def __init__(self, work: LaneWork) -> None:
        self._short, self._long = _Lane(work, TOGETHER), _Lane(work, 1)
        self._after_long: dict[Hashable, LaneRequest] = {}

    @property
    def is_busy(self) -> bool:
        """True if a short request is waiting or being answered."""
        return self._short.is_busy

    async def answer(self, session: Hashable, texts: TypedTexts) -> bytes | None:
        """Wait for the answer; None if a newer request replaced it or answering failed."""
        request = LaneRequest(session, texts, asyncio.get_running_loop().create_future())
        lane = self._long if are_long(texts) else self._short
        self._drop(session, lane)
        if lane is self._short and (in_progress := self._long.at_work(session)):
            self._after_long[session] = request
            in_progress.answer.add_done_callback(lambda _: self._release(request))
        else:
            lane.add(request)
        try:
            return await request.answer
        finally:
            for waiting in self._waiting():
                if waiting.get(session) is request:  # its caller has stopped waiting
                    del waiting[session]

    def _waiting(self) -> tuple[dict[Hashable, LaneRequest], ...]:
        return self._short.waiting, self._long.waiting, self._after_long

    def _drop(self, session: Hashable, lane: "_Lane") -> None:
        """Answer the session's waiting requests with None; keep its place in this lane's queue."""
        for waiting in self._waiting():
            if older := waiting.get(session):
                older.settle(None)
                if waiting is not lane.waiting:
                    del waiting[session]

    def _release(self, request: LaneRequest) -> None:
        if self._after_long.get(request.session) is request:
            del self._after_long[request.session]
            self._short.add(request)


class _Lane:
    """A queue served by one thread, at most `max_requests` at a time, in order of arrival."""

    def __init__(self, work: LaneWork, max_requests: int) -> None:
        self._work, self._max_requests = work, max_requests
        self.waiting: dict[Hashable, LaneRequest] = {}
        self._batch: list[LaneRequest] = []
        self._task: asyncio.Task | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="edits")

    @property
    def is_busy(self) -> bool:
        return bool(self._task and not self._task.done())

    def add(self, request: LaneRequest) -> None:
        self.waiting[request.session] = request
        if not self.is_busy:
            self._task = asyncio.create_task(self._answer_all())

    def at_work(self, session: Hashable) -> LaneRequest | None:
        """Return the request of this session that is being answered."""
        return next((r for r in self._batch if r.session is session and not r.answer.done()), None)

    async def _answer_all(self) -> None:
        loop = asyncio.get_running_loop()

        def reply(request: LaneRequest, answer: bytes | None) -> None:
            loop.call_soon_threadsafe(request.settle, answer)

        while self.waiting:
            batch = self._batch = list(self.waiting.values())[: self._max_requests]
            for request in batch:
                del self.waiting[request.session]
            try:
                await loop.run_in_executor(self._thread, self._work, batch, reply)
            except Exception:
                _log.exception("no edit could be answered")
            finally:  # every caller gets an answer, even after an error
                for request in batch:
                    request.settle(None)
                self._batch = []
