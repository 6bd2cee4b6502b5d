"""One process of a burst: its streams in a closed loop, or its arrivals by rate, on one event loop.

Owns: who sends next, the bounds on every wait, one row a request. No request is sent again. Refuses: to
judge; whatever went wrong is a row with an error.
"""

from __future__ import annotations

import asyncio
import gc
import time
from random import Random
from time import perf_counter
from typing import TYPE_CHECKING, Any

from .apis import APIS, body_of
from .lag import Watch, spin
from .prompts import Prompts
from .wire import Backlog, Connection, Exchange, Place

if TYPE_CHECKING:  # CPython 3.8 cannot subscript these at run time
    from collections.abc import Callable

    Row = dict[str, Any]

RECEIVE = 1 << 18
LOOK_EVERY_S = 0.5
WAKE_EVERY_S = 0.02
IDLE_S = 1.0  # a kept connection older than that may be on its way out at the server's end
SETTLE_S = 1.0  # after [DONE] the body's end may take that long
HOPELESS = 64  # failures without one success


class Told:
    """What the parent shows while it goes: requests over, failed, tokens that came so far.

    Tokens are those of a moment: of what was over then and of what was on its way.
    """

    def __init__(self, tell: Callable[[int, int, int], None]) -> None:
        self._tell = tell
        self.over = self.failed = 0
        self._tokens = self._seen = 0

    def add(self, row: Row) -> None:
        self.over += 1
        self.failed += bool(row["error"])
        self._tokens += row["tokens"]
        self._tell(self.over, self.failed, self._seen)

    def look(self, on_their_way: int) -> None:
        self._seen = self._tokens + on_their_way
        self._tell(self.over, self.failed, self._seen)


class Requests:
    """What is sent, by number: made beforehand as far as memory is no question, else when it is due."""

    def __init__(self, order: Row, prompts: Prompts) -> None:
        self._order = order
        self._prompts = prompts
        self._ready: dict[int, bytes] = {}
        self.place = Place(order["url"], order.get("api_key"))
        self.stream = APIS[order["api"]]

    def prepare(self, count: int, room: int) -> None:
        """Make the first ``count``, or as many as fit into ``room`` bytes."""
        for number in range(count):
            self._ready[number] = made = self._make(number)
            room -= len(made)
            if room < 0:
                return

    def take(self, number: int) -> bytes:
        return self._ready.pop(number, None) or self._make(number)

    def asked(self, number: int) -> int:
        """Its output length."""
        listed = self._prompts.count() is not None
        return self._prompts[number][1] if listed else int(self._order["output_len"])

    def _make(self, number: int) -> bytes:
        prompt, output_len = self._prompts[number]
        return self.place.request(self.stream.path, body_of(self._order, prompt, output_len))


class Burst:
    """``order`` is the program's; ``take`` gives the next request's number, None when there is none.

    share: (which process this is, of how many).
    """

    def __init__(
        self,
        order: Row,
        requests: Requests,
        *,
        share: tuple[int, int],
        take: Callable[[], int | None],
        told: Told,
    ) -> None:
        self._order = order
        self._requests = requests
        self._index, self._processes = share
        self._take = take
        self._begin = 0.0
        self._told = told
        self._watch = Watch()
        self._buffer = bytearray(RECEIVE)
        self._idle: list[Connection] = []
        self._active: set[Exchange] = set()
        self._rows: list[Row] = []
        texts = order["texts"]
        self._text_every = max(1, -(-order["requests"] // texts)) if texts else 0

    def run(self, begin: float) -> Row:
        """All of it, from ``begin`` (perf_counter) on: rows as they ended, and this client's own figures."""
        self._begin = begin
        loop = asyncio.SelectorEventLoop(self._watch)
        asyncio.set_event_loop(loop)
        gc.collect()
        gc.freeze()
        gc.disable()  # a collection is a pause of milliseconds; nothing here makes cycles that matter
        time.sleep(max(0.0, begin - perf_counter()))
        try:
            client = loop.run_until_complete(self._all(loop))
        finally:
            loop.close()
        return {"rows": self._rows, "client": client}

    async def _all(self, loop: asyncio.AbstractEventLoop) -> Row:
        self._backlog = Backlog(loop)
        self._watch.forget()
        cpu = time.process_time()
        look = asyncio.ensure_future(self._look())
        wake = asyncio.ensure_future(_wake())
        if self._order.get("rate"):
            await self._arrivals()
        else:
            streams = range(self._index, self._order["concurrency"], self._processes)
            await asyncio.gather(*(self._closed() for _ in streams))
        look.cancel()
        wake.cancel()
        self._told.look(0)
        client = {
            **self._watch.figures(),
            "cpu_s": time.process_time() - cpu,
            "seconds": perf_counter() - self._begin,
        }
        for connection in self._idle:
            connection.close()
        await asyncio.sleep(0)
        return client

    async def _closed(self) -> None:
        """One stream: the next request when the last one is over."""
        connection: Connection | None = None
        while not self._is_over():
            number = self._take()
            if number is None:
                break
            connection = await self._one(number, connection)
        if connection is not None:
            connection.close()

    async def _arrivals(self) -> None:
        """Poisson: this process's share of one schedule that all draw from the seed."""
        rng, at = Random(f"{self._order['seed']} arrivals"), self._begin
        free = asyncio.Semaphore(-(-self._order["concurrency"] // self._processes))
        duration_s = self._order.get("duration_s")
        count = self._order["requests"] if duration_s is None else 1 << 31
        tasks: set[asyncio.Future[None]] = set()
        for number in range(count):
            at += rng.expovariate(self._order["rate"])
            if self._is_over(at):
                break
            if number % self._processes != self._index:
                continue
            await asyncio.sleep(max(0.0, at - perf_counter()))
            await free.acquire()
            task = asyncio.ensure_future(self._arrival(number, at, free))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        if tasks:
            await asyncio.wait(tasks)

    async def _arrival(self, number: int, due: float, free: asyncio.Semaphore) -> None:
        now = perf_counter()
        while self._idle and now - self._idle[-1].idle_since > IDLE_S:
            self._idle.pop().close()
        connection = await self._one(number, self._idle.pop() if self._idle else None, due=due)
        if connection is not None:
            self._idle.append(connection)
        free.release()

    def _is_over(self, at: float | None = None) -> bool:
        """Whether no request begins any more: the time is up, or it is hopeless."""
        at = perf_counter() if at is None else at
        limit = self._order.get("duration_s") or self._order["deadline_s"]
        hopeless = self._told.failed == self._told.over >= HOPELESS + self._order["concurrency"]
        return bool(at - self._begin >= min(limit, self._order["deadline_s"]) or hopeless)

    async def _one(
        self, number: int, connection: Connection | None, *, due: float | None = None
    ) -> Connection | None:
        """Send one request and wait for all of it; the connection, where another may follow on it."""
        data = self._requests.take(number)
        stream = self._requests.stream(keep_text=self._is_sampled(number))
        exchange = Exchange(stream, perf_counter())
        self._active.add(exchange)
        try:
            if connection is None or not connection.open:
                connection = await self._requests.place.connect(self._watch, self._backlog, self._buffer)
            connection.send(data, exchange)
            await exchange.finished
        except TimeoutError:
            exchange.fail("no connection within 30 s")
        except OSError as problem:
            exchange.fail("no connection: %s" % (problem.strerror or problem))
        self._active.discard(exchange)
        row = self._row(number, exchange, due)
        self._rows.append(row)
        self._told.add(row)
        return connection if connection is not None and connection.release() else None

    def _is_sampled(self, number: int) -> bool:
        """Whether its text is kept: some are, spread evenly."""
        return bool(self._text_every) and number % self._text_every == 0

    async def _look(self) -> None:
        """Bound every wait: nothing hangs for hours on one half-open stream."""
        order = self._order
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            now = perf_counter()
            streams = [exchange.stream for exchange in self._active]
            self._told.look(sum(stream.tokens or len(stream.times) for stream in streams))
            for exchange in list(self._active):
                silent = now - exchange.active_at
                limit = order["stall_s"] if exchange.stream.times else order["first_s"]
                if exchange.stream.done and silent > SETTLE_S and not exchange.pieces:
                    exchange.stream.close()
                    exchange.answer.reusable = False
                    if not exchange.finished.done():
                        exchange.finished.set_result(None)
                elif silent > limit:
                    exchange.fail(f"nothing came for {silent:.0f} s")
                elif now - self._begin > order["deadline_s"]:
                    exchange.fail(
                        "not complete after {:.0f} s, when the load was ended".format(order["deadline_s"])
                    )

    def _row(self, number: int, exchange: Exchange, due: float | None) -> Row:
        stream, begun = exchange.stream, exchange.begun
        times, counts = stream.times, stream.counts
        sampled = self._is_sampled(number)
        gaps: list[float] = []
        for before, at, count in zip(times, times[1:], counts[1:]):  # noqa: B905  # strict= is 3.10
            gaps += [round((at - before) / count, 6)] * count
        return {
            "number": number,
            "sent_s": round(begun - self._begin, 6),
            "late_s": round(max(0.0, begun - due), 6) if due is not None else 0.0,
            "ttft_s": round(times[0] - begun, 6) if times else 0.0,
            "e2e_s": round(times[-1] - begun, 6) if times else 0.0,
            "itls_s": gaps,
            "asked": self._requests.asked(number),
            "tokens": stream.tokens or 0,
            "prompt_tokens": stream.prompt_tokens,
            "cached_tokens": stream.cached_tokens,
            "verify_steps": stream.verify_steps,
            "finish": stream.finish,
            "error": stream.error,
            "text": stream.text[: self._order["text_chars"]] if sampled else None,
        }


async def _wake() -> None:
    while True:
        await asyncio.sleep(WAKE_EVERY_S)
        spin()
