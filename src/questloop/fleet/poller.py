"""The GPU poller: asks every machine regularly and records what it sees, never a claim.

A machine that does not answer holds up no other: each has at most one poll under way, and the next round
leaves out those that still wait.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from dataclasses import replace

from sqlalchemy import func, select

from questloop.errors import QuestloopError
from questloop.fleet import agent, machines, nvidia_smi
from questloop.fleet.agent import NeedsSetupError, RunnerError
from questloop.fleet.database import Database, DatabaseUnavailable, now
from questloop.fleet.machines import Reading, SlotReading
from questloop.fleet.models import VM, Job
from questloop.fleet.states import Health, JobStatus, SlotKind, TransportKind, VMState
from questloop.fleet.transport import (
    ChangedHostKeyError,
    Transport,
    TransportPool,
    UnknownHostKeyError,
    host_key_of,
)
from questloop.settings import FleetSettings
from questloop.telemetry import metrics
from questloop.telemetry.logs import get_logger

log = get_logger(__name__)
_WRITE_AT_ONCE = 64


class GPUPoller:
    """Polls every machine in the database. More than one may run."""

    def __init__(self, db: Database, settings: FleetSettings, pool: TransportPool | None = None) -> None:
        self.db = db
        self.settings = settings
        self.pool = pool or TransportPool(settings.ssh_timeout_s)
        self._limit = asyncio.Semaphore(settings.poll_concurrency)
        self._in_flight: set[int] = set()
        self._mig: set[int] = set()

    async def run(self, stop: asyncio.Event) -> None:
        """Poll until `stop` is set."""
        rounds: set[asyncio.Task[int]] = set()
        while not stop.is_set():
            task = asyncio.create_task(self._safe_round())
            rounds.add(task)
            task.add_done_callback(rounds.discard)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), self.settings.poll_interval_s)
        for task in rounds:
            task.cancel()
        await asyncio.gather(*rounds, return_exceptions=True)
        await self.pool.close()

    async def poll_round(self) -> int:
        """Poll every machine that has no poll under way; returns how many were polled."""
        vms, since = await asyncio.to_thread(self._machines)
        due = [vm for vm in vms if vm.id not in self._in_flight]
        self._in_flight |= {vm.id for vm in due}
        waiting = {asyncio.create_task(self._poll(vm)) for vm in due}
        try:
            while waiting:
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                if waiting and len(done) < _WRITE_AT_ONCE:
                    more, waiting = await asyncio.wait(waiting, timeout=0.05)
                    done |= more
                readings = [task.result() for task in done]
                await asyncio.to_thread(
                    machines.reconcile, self.db, readings, since, self.settings.foreign_memory_mb
                )
                self._in_flight -= {reading.vm_id for reading in readings}
        finally:
            for task in waiting:
                task.cancel()
            self._in_flight -= {vm.id for vm in due}
        await asyncio.to_thread(update_gauges, self.db)
        return len(due)

    async def _safe_round(self) -> int:
        try:
            return await self.poll_round()
        except DatabaseUnavailable as error:
            log.warning("poller_waits", error=str(error))
        except Exception:
            log.exception("poll_round_failed")
        return 0

    def _machines(self):  # type: ignore[no-untyped-def]
        machines.name_bare_rows(self.db)
        with self.db.read() as session:
            return list(session.scalars(select(VM))), now(session)

    async def _poll(self, vm: VM) -> Reading:
        async with self._limit:
            try:
                async with asyncio.timeout(self.settings.poll_timeout_s + self.settings.ssh_timeout_s):
                    return await self._ask(vm)
            except UnknownHostKeyError as error:
                state, detail = VMState.NEEDS_HOST_KEY, str(error)
            except ChangedHostKeyError as error:
                state, detail = VMState.HOST_KEY_CHANGED, str(error)
            except (NeedsSetupError, RunnerError) as error:
                state, detail = VMState.NEEDS_SETUP, str(error)
            except TimeoutError:
                state, detail = VMState.UNREACHABLE, "no answer in time"
            except QuestloopError as error:
                state, detail = VMState.UNREACHABLE, str(error)
            except Exception as error:  # what a machine says must not end the round of all others
                log.exception("poll_failed", machine=vm.name)
                state, detail = VMState.UNREACHABLE, f"an answer that cannot be read: {error!r}"
        if vm.state is not state:
            log.warning("machine_state", machine=vm.name, state=state.value, detail=detail)
        return Reading(vm.id, state, detail)

    async def _ask(self, vm: VM) -> Reading:
        if self.settings.trust_first_host_key and not vm.host_key and vm.transport is TransportKind.SSH:
            await self._trust_first(vm)
        transport = await self.pool.get(vm)
        timeout_s = max(0.5, min(self.settings.poll_timeout_s, self.settings.ssh_timeout_s - 2))
        queries = nvidia_smi.MIG_QUERIES if vm.id in self._mig else nvidia_smi.QUERIES
        reply = await agent.look(transport, "poll", {"queries": queries, "timeout_s": timeout_s})
        driver = nvidia_smi.read(reply["smi"], reply["own_pids"])
        if driver.mig and vm.id not in self._mig:
            self._mig.add(vm.id)
            return await self._ask(vm)
        if vm.boot_id not in (None, reply["boot_id"]):
            log.warning("machine_rebooted", machine=vm.name, boot_id=reply["boot_id"])
        slots = None
        if driver.slots is not None:
            locked = set(reply.get("locked", ()))
            found = driver.slots + cpu_slots(vm.cpu_slots)
            slots = tuple(replace(slot, locked=True) if slot.uuid in locked else slot for slot in found)
        detail = "; ".join(filter(None, (driver.detail, talk_of(transport))))
        return Reading(vm.id, VMState.READY, detail or None, str(reply["boot_id"])[:64], slots)

    async def _trust_first(self, vm: VM) -> None:
        """TRUST_FIRST_HOST_KEY: the key that a machine shows first is its key from then on."""
        key, fingerprint = await host_key_of(vm.ip_address, vm.port, self.settings.ssh_timeout_s)
        await asyncio.to_thread(machines.trust, self.db, vm.name, key)
        log.warning("host_key_trusted_at_first_use", machine=vm.name, fingerprint=fingerprint)
        vm.host_key = key


def talk_of(transport: Transport) -> str:
    """What to say of a login shell that prints; nothing of one that is silent."""
    if not transport.talk:
        return ""
    return (
        f"the login shell there prints {transport.talk!r} before every command, which is skipped: print only "
        "where $- holds an i (in ~/.bashrc and the like)"
    )


def cpu_slots(count: int) -> tuple[SlotReading, ...]:
    """The CPU slots of a machine."""
    return tuple(SlotReading(SlotKind.CPU, index, f"cpu-{index}", Health.HEALTHY) for index in range(count))


def update_gauges(db: Database) -> None:
    """Set the gauges of jobs and GPUs."""
    with db.read() as session:
        counts = dict(session.execute(select(Job.status, func.count()).group_by(Job.status)).all())
    for status in JobStatus:
        metrics.fleet_jobs.labels(status.value).set(counts.get(status, 0))
    states: Counter[str] = Counter()
    for vm in machines.find(db):
        for slot in vm.slots:
            if slot.kind is SlotKind.CUDA:
                states[machines.slot_state(slot)] += 1
    for state in ("free", "claimed", "foreign", *Health):
        metrics.fleet_gpus.labels(str(state)).set(states[str(state)])
