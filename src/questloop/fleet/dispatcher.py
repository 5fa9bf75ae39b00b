"""The dispatcher: gives waiting jobs their slots, launches them, and watches those it owns.

Any number may run on any machines that reach the database. One that dies leaves its jobs running; another
takes them over when its lease has passed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import time
from collections import defaultdict
from collections.abc import Coroutine
from typing import Any

from questloop.fleet import attempts, bus, claims, jobs
from questloop.fleet.attempts import Assignment
from questloop.fleet.claims import Claimed, ClaimPolicy
from questloop.fleet.database import Database, DatabaseUnavailable
from questloop.fleet.jobs import WITHOUT_ROW, UnknownJobError
from questloop.fleet.supervisor import Supervisor
from questloop.fleet.transport import TransportPool
from questloop.settings import FleetSettings, StoreSettings, load
from questloop.telemetry import metrics
from questloop.telemetry.logs import get_logger

log = get_logger(__name__)
_CLAIMS_A_SWEEP = 1000


class GlobalJobDispatcher:
    """Runs until it is told to stop; then leaves its jobs, running, to the others."""

    def __init__(
        self,
        db: Database,
        settings: FleetSettings,
        store: StoreSettings | None = None,
        owner: str | None = None,
        pool: TransportPool | None = None,
    ) -> None:
        self.db = db
        self.settings = settings
        self.owner = owner or f"{socket.gethostname()}:{os.getpid()}:{os.urandom(3).hex()}"
        self.pool = pool or TransportPool(settings.ssh_timeout_s)
        self.policy = ClaimPolicy.of(settings, self.owner)
        self._wake = asyncio.Event()
        self.supervisor = Supervisor(
            db, settings, self.owner, self.pool, store or load().store, on_end=self._wake.set
        )
        self._tasks: set[asyncio.Task[None]] = set()
        self._watching: set[int] = set()

    async def run(self, stop: asyncio.Event, listen: bool = True) -> None:
        """Dispatch until `stop` is set."""
        loops = [
            asyncio.create_task(self._repeat(self.sweep, self.settings.sweep_interval_s, self._wake, stop)),
            asyncio.create_task(self._repeat(self.look, self.settings.watch_interval_s, None, stop)),
        ]
        if listen:
            loops.append(asyncio.create_task(bus.listen(self.settings, stop, self._on_message)))
        await stop.wait()
        self._wake.set()
        for task in (*loops, *self._tasks):
            task.cancel()
        await asyncio.gather(*loops, *self._tasks, return_exceptions=True)
        await self.supervisor.logs.stop()
        with contextlib.suppress(DatabaseUnavailable):
            await asyncio.to_thread(attempts.let_go, self.db, self.owner)
        await self.pool.close()

    async def sweep(self) -> int:
        """Adopt what no dispatcher holds and claim until nothing more fits; returns how many were claimed."""
        for attempt in await asyncio.to_thread(attempts.adopt, self.db, self.owner, self.settings.lease_s):
            log.info("adopted", attempt=attempt)
        claimed = 0
        for _ in range(_CLAIMS_A_SWEEP):
            began = time.perf_counter()
            result = await asyncio.to_thread(claims.claim, self.db, self.policy)
            if isinstance(result, Claimed):
                metrics.fleet_claim_seconds.observe(time.perf_counter() - began)
                log.info("claimed", job=result.job_id, attempt=result.attempt)
                self._spawn(self.supervisor.launch(result.attempt))
                claimed += 1
            elif result.parked < claims.PARK_AT_ONCE and not result.contended:
                break
            elif result.contended:
                await asyncio.sleep(0.01)
        return claimed

    async def look(self) -> None:
        """Renew this dispatcher's hold and look at its attempts, machine by machine."""
        owned = await asyncio.to_thread(attempts.renew, self.db, self.owner, self.settings.lease_s)
        self.supervisor.forget(owned)
        assignments = await asyncio.to_thread(attempts.load_many, self.db, owned)
        by_machine: dict[int, list[Assignment]] = defaultdict(list)
        for item in assignments:
            by_machine[item.vm.id].append(item)
        for vm_id, items in by_machine.items():
            if vm_id not in self._watching:
                self._watching.add(vm_id)
                self._spawn(self._watch(vm_id, items))

    async def _watch(self, vm_id: int, items: list[Assignment]) -> None:
        try:
            await self.supervisor.watch(items[0].vm, items)
        finally:
            self._watching.discard(vm_id)

    async def _on_message(self, job_id: str) -> None:
        self._wake.set()
        try:
            await asyncio.to_thread(jobs.get, self.db, job_id)
        except UnknownJobError:
            metrics.fleet_unknown_messages_total.inc()
            log.warning("message_for_unknown_job", job=job_id[:80], mend=WITHOUT_ROW)
        except DatabaseUnavailable:
            pass  # the sweep will see

    async def _repeat(
        self, step: Any, interval_s: float, wake: asyncio.Event | None, stop: asyncio.Event
    ) -> None:
        while not stop.is_set():
            if wake is not None:
                wake.clear()
            try:
                await step()
            except DatabaseUnavailable as error:
                log.warning("dispatcher_waits", error=str(error))
            except Exception:
                log.exception("dispatcher_step_failed")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for((wake or stop).wait(), interval_s)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(_guarded(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _guarded(work: Coroutine[Any, Any, None]) -> None:
    try:
        await work
    except DatabaseUnavailable as error:
        log.warning("dispatcher_waits", error=str(error))
    except Exception:
        log.exception("dispatcher_task_failed")
