"""Limits how many requests a server gets at once."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class AdaptiveLimiter:
    """At most `limit` requests in flight: halved when the server is overloaded, restored by successes.

    Additive increase, multiplicative decrease, as TCP does. Waiters are served in order, so requests that
    share a prefix reach the server one after the other. While paused (Retry-After) nobody enters.
    """

    def __init__(self, maximum: int) -> None:
        self.maximum = maximum
        self.limit = float(maximum)
        self.in_flight = 0
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._resume_at = 0.0
        self._halved_at = -1.0

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Wait for a slot and hold it."""
        await self._acquire()
        try:
            yield
        finally:
            self.in_flight -= 1
            self._wake()

    def succeeded(self) -> None:
        """A request went through: let a little more in."""
        self.limit = min(float(self.maximum), self.limit + 1.0 / self.limit)
        self._wake()

    def overloaded(self, started: float, pause_s: float) -> None:
        """The server refused a request that began at loop time `started`: halve, and pause for `pause_s`.

        Refusals of requests sent before the last halving say nothing new and only prolong the pause.
        """
        now = asyncio.get_running_loop().time()
        if started >= self._halved_at:
            self.limit = max(1.0, self.limit / 2)
            self._halved_at = now
        if now + pause_s > self._resume_at:
            self._resume_at = now + pause_s
            asyncio.get_running_loop().call_later(pause_s + 0.001, self._wake)

    async def _acquire(self) -> None:
        if not self._waiters and self._free():
            self.in_flight += 1
            return
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                self.in_flight -= 1
            self._wake()
            raise

    def _free(self) -> bool:
        return self.in_flight < int(self.limit) and asyncio.get_running_loop().time() >= self._resume_at

    def _wake(self) -> None:
        while self._waiters and self._free():
            waiter = self._waiters.popleft()
            if waiter.done():
                continue
            self.in_flight += 1
            waiter.set_result(None)
