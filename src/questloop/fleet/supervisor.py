"""Starts attempts on their machines and watches them to their end.

Everything here may be interrupted at any point and done again by another dispatcher: what is true stands on
the machine and in the database, and `watch` compares the two.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from questloop.errors import QuestloopError
from questloop.fleet import agent, attempts, environment, failures, machines, outputs
from questloop.fleet.agent import NeedsSetupError, RunnerError
from questloop.fleet.attempts import Assignment, Outcome
from questloop.fleet.commands import BadJobError, Command, command_of
from questloop.fleet.database import Database, DatabaseUnavailable
from questloop.fleet.environment import BadEnvironmentError
from questloop.fleet.log_copies import LogCopier
from questloop.fleet.models import VM
from questloop.fleet.states import Ending, FailureReason, JobKind
from questloop.fleet.transport import Transport, TransportError, TransportPool
from questloop.settings import FleetSettings, StoreSettings
from questloop.telemetry.logs import get_logger

log = get_logger(__name__)
_TRIES = 5  # of a launch that the machine answers with an error, and of storing an output
_CANCELLED = Outcome(Ending.CANCELLED)


class Supervisor:
    """Launches and watches the attempts of one dispatcher."""

    def __init__(
        self,
        db: Database,
        settings: FleetSettings,
        owner: str,
        pool: TransportPool,
        store: StoreSettings,
        on_end: Callable[[], None] = lambda: None,
    ) -> None:
        self.db = db
        self.settings = settings
        self.owner = owner
        self.pool = pool
        self.store = store
        self.on_end = on_end
        self._launching: set[int] = set()
        self._deadlines: dict[int, tuple[float, float]] = {}  # attempt: deadline there, when it was granted
        self.logs = LogCopier(db, settings.log_dir)
        self._failures: Counter[int] = Counter()
        self._stale: Counter[int] = Counter()
        self._forced: set[int] = set()

    async def launch(self, attempt: int) -> None:
        """Start an attempt that this dispatcher owns; harmless where it was started before."""
        if attempt in self._launching:
            return
        self._launching.add(attempt)
        try:
            assignment = await asyncio.to_thread(attempts.load, self.db, attempt)
            if assignment is not None:
                await self._launch(assignment)
        finally:
            self._launching.discard(attempt)

    async def watch(self, vm: VM, assignments: Sequence[Assignment]) -> None:
        """Look at all of this dispatcher's attempts on a machine in one call, and act on what it says."""
        transport = await self.pool.get(vm)
        items = [
            {
                "job_id": item.job.job_id,
                "attempt": item.attempt.id,
                "deadline": self._deadlines.get(item.attempt.id, (None, 0.0))[0],
            }
            for item in assignments
        ]
        try:
            reply = await agent.look(transport, "watch", {"attempts": items})
        except QuestloopError as error:
            await self._out_of_reach(vm, assignments, error)
            return
        await self._grant(assignments, reply)
        results = await asyncio.gather(
            *(self._act(transport, item, reply) for item in assignments), return_exceptions=True
        )
        for item, result in zip(assignments, results, strict=True):
            if isinstance(result, TransportError | DatabaseUnavailable):
                log.info("watch_interrupted", job=item.job.job_id, machine=vm.name, error=str(result))
            elif isinstance(result, BaseException):
                log.error("watch_failed", job=item.job.job_id, machine=vm.name, exc_info=result)

    def forget(self, live: set[int]) -> None:
        """Drop what is remembered of attempts that are not `live` any more."""
        for known in (self._deadlines, self._failures, self._stale):
            for attempt in set(known) - live:
                del known[attempt]
        self._forced &= live
        self.logs.forget(live)

    # --- launching ---

    async def _launch(self, item: Assignment) -> None:
        attempt, job = item.attempt.id, item.job
        never_armed = item.attempt.boot_id is None
        if job.cancel_requested_at is not None and never_armed:
            await self._finish(item, _CANCELLED)
            return
        try:
            command = command_of(job)
            variables = environment.resolve(job.environment, self.settings.job_secrets_dir)
        except (BadJobError, BadEnvironmentError) as error:
            await self._finish(item, Outcome(Ending.FAILED, FailureReason.BAD_ARGUMENTS, detail=str(error)))
            return
        transport = await self.pool.get(item.vm)
        try:
            hello = await agent.call(transport, "hello", {})
            try:
                await outputs.upload_inputs(transport, self.store, job.job_id, attempt, command.uploads)
            except TransportError:
                raise
            except QuestloopError as error:
                if never_armed:
                    reason = FailureReason.INPUT_UNAVAILABLE
                    await self._finish(item, Outcome(Ending.FAILED, reason, detail=str(error)))
                return
            lease_s = self.settings.runner_lease_s
            # The write that `attempts` explains: it must commit before the launch is sent.
            if not await asyncio.to_thread(
                attempts.arm, self.db, attempt, self.owner, hello["boot_id"], lease_s
            ):
                return
            never_armed = False
            spec = _launch_request(item, command, variables, hello, lease_s)
            state = await agent.call(transport, "launch", spec)
        except TransportError as error:
            await self._pause(item, error)
            if never_armed:
                await self._place_elsewhere(item, FailureReason.MACHINE_UNREACHABLE, error)
            return
        except (RunnerError, NeedsSetupError) as error:
            self._failures[attempt] += 1
            await self._pause(item, error)
            if never_armed:
                outcome = Outcome(Ending.LOST, FailureReason.LAUNCH_FAILED, detail=str(error))
                await self._finish(item, outcome)
            return
        if state["state"] == "refused":
            await self._refused(item, state)
        elif state["state"] in ("running", "exited"):
            log.info("launched", job=job.job_id, attempt=attempt, machine=item.vm.name)
            await asyncio.to_thread(attempts.mark_launched, self.db, attempt)

    async def _refused(self, item: Assignment, state: dict[str, Any]) -> None:
        reason = state["reason"]
        log.warning("launch_refused", job=item.job.job_id, machine=item.vm.name, reason=reason)
        if reason == "lease_expired":
            return  # the call took too long; the next look tries again
        if reason == "slot_in_use":
            uuids = [slot.uuid for slot in item.slots]
            await asyncio.to_thread(machines.mark_in_use, self.db, item.vm.id, uuids)
        rebooted = reason == "machine_rebooted"
        lost = FailureReason.MACHINE_REBOOTED if rebooted else FailureReason.LAUNCH_REFUSED
        transport = await self.pool.get(item.vm)
        if await self._bar(transport, item):
            await self._finish(item, Outcome(Ending.LOST, lost, detail=state["detail"], counted=False))

    async def _pause(self, item: Assignment, error: QuestloopError) -> None:
        """The machine gets no other job for a while, so that this one goes elsewhere."""
        log.warning("launch_failed", job=item.job.job_id, machine=item.vm.name, error=str(error))
        await asyncio.to_thread(machines.pause, self.db, item.vm.id)

    async def _place_elsewhere(self, item: Assignment, reason: FailureReason, error: QuestloopError) -> None:
        """Nothing was sent to the machine: the job goes back to the queue.

        At no cost to it, unless the machine has failed to launch before: one that answers polls and launches
        nothing would take jobs for ever.
        """
        await asyncio.to_thread(machines.mark_unreachable, self.db, item.vm.id, str(error))
        counted = item.vm.launch_failures > 0
        await self._finish(item, Outcome(Ending.LOST, reason, detail=str(error), counted=counted))

    # --- watching ---

    async def _out_of_reach(self, vm: VM, assignments: Sequence[Assignment], error: QuestloopError) -> None:
        """Hold what may run there; what was never armed runs nowhere."""
        log.info("machine_out_of_reach", machine=vm.name, error=str(error))
        await asyncio.to_thread(machines.mark_unreachable, self.db, vm.id, str(error))
        for item in assignments:
            if item.attempt.boot_id is None and item.attempt.id not in self._launching:
                await self._place_elsewhere(item, FailureReason.MACHINE_UNREACHABLE, error)
        held = [item.attempt.id for item in assignments if item.attempt.boot_id is not None]
        await asyncio.to_thread(attempts.mark_held, self.db, held)

    async def _grant(self, assignments: Sequence[Assignment], reply: dict[str, Any]) -> None:
        """Let runners go on: first the database, then, with the next look, the machine.

        The new deadline counts from the machine's clock in this reply, which was read before the write.
        """
        lease_s = self.settings.runner_lease_s
        every = min(60.0, lease_s / 4)
        moment = time.monotonic()
        due = [
            item.attempt.id
            for item in assignments
            if reply["attempts"][str(item.attempt.id)]["state"] == "running"
            and (
                moment - self._deadlines.get(item.attempt.id, (0.0, -1e9))[1] > every
                or item.attempt.held_since is not None
            )
        ]
        granted = await asyncio.to_thread(attempts.extend, self.db, due, self.owner, lease_s)
        for attempt in granted:
            self._deadlines[attempt] = (reply["clock"] + lease_s, moment)

    async def _act(self, transport: Transport, item: Assignment, reply: dict[str, Any]) -> None:
        attempt = item.attempt.id
        if attempt in self._launching:
            return
        state = reply["attempts"][str(attempt)]
        rebooted = item.attempt.boot_id not in (None, reply["boot_id"])
        match state["state"]:
            case "absent" if item.attempt.launched_at is not None and not rebooted:
                await self._removed(item)  # with all that the fleet kept there
            case "absent":
                await self._absent(transport, item, rebooted)
            case "removed":
                await self._removed(item)
            case "running":
                await self._running(transport, item, state)
            case "exited":
                await self._exited(transport, item, state["exit"], state["log_size"])
            case "gone":
                await self._gone(item, rebooted)
                self.logs.follow(transport, item, state["log_size"])

    async def _removed(self, item: Assignment) -> None:
        """Whoever removes a job's folder wants no more of it; how it ended nobody can know."""
        detail = "its folder on the machine was removed; its processes there have been ended"
        await self._finish(item, Outcome(Ending.FAILED, FailureReason.ERROR, detail=detail))

    async def _absent(self, transport: Transport, item: Assignment, rebooted: bool) -> None:
        attempt = item.attempt.id
        if rebooted:
            outcome = Outcome(Ending.LOST, FailureReason.MACHINE_REBOOTED, counted=False)
            await self._finish(item, outcome)
        elif item.job.cancel_requested_at is not None:
            if await self._bar(transport, item):
                await self._finish(item, _CANCELLED)
        elif self._failures[attempt] >= _TRIES:
            if await self._bar(transport, item):
                await self._finish(item, Outcome(Ending.LOST, FailureReason.LAUNCH_FAILED))
        else:
            await self.launch(attempt)

    async def _running(self, transport: Transport, item: Assignment, state: dict[str, Any]) -> None:
        attempt = item.attempt.id
        if item.attempt.launched_at is None:
            await asyncio.to_thread(attempts.mark_launched, self.db, attempt)
        await self._stop_if_due(transport, item, state)
        await self.logs.copy(transport, item, state["log_size"])

    async def _stop_if_due(self, transport: Transport, item: Assignment, state: dict[str, Any]) -> None:
        attempt = item.attempt.id
        if state["heartbeat_age_s"] > self.settings.heartbeat_timeout_s:
            self._stale[attempt] += 1
            if self._stale[attempt] > 1:
                log.warning("heartbeat_stale", job=item.job.job_id, machine=item.vm.name)
                self._forced.add(attempt)
                await self._kill(transport, item, ending="stalled", force=True)
            return
        self._stale.pop(attempt, None)
        if item.job.cancel_requested_at is not None:
            await self._kill(transport, item)

    async def _exited(
        self, transport: Transport, item: Assignment, record: dict[str, Any], log_size: int
    ) -> None:
        outcome = failures.outcome_of(record, await self.logs.end(transport, item, log_size))
        if outcome.detail:
            secrets = self.settings.job_secrets_dir
            detail = environment.hide(outcome.detail, item.job.environment, secrets)
            outcome = replace(outcome, detail=detail)
        if outcome.ending is Ending.COMPLETED and item.job.output_url:
            try:
                await outputs.store(transport, item.job.job_id, item.attempt.id, item.job.output_url)
            except TransportError:
                raise
            except QuestloopError as error:
                self._failures[item.attempt.id] += 1
                if self._failures[item.attempt.id] < _TRIES:
                    log.warning("output_not_stored", job=item.job.job_id, error=str(error))
                    return
                detail = f"{error}; `questloop fleet fetch` copies it from the machine"
                outcome = Outcome(Ending.FAILED, FailureReason.OUTPUT_NOT_STORED, 0, detail)
        await self.logs.copy(transport, item, log_size)  # a piece or two; the job waits for no more
        await self._finish(item, outcome)
        self.logs.follow(transport, item, log_size)

    async def _gone(self, item: Assignment, rebooted: bool) -> None:
        reason = FailureReason.RUNNER_GONE
        if rebooted:
            reason = FailureReason.MACHINE_REBOOTED
        elif item.attempt.id in self._forced:
            reason = FailureReason.HEARTBEAT_STALE
        await self._finish(item, Outcome(Ending.LOST, reason))

    async def _bar(self, transport: Transport, item: Assignment) -> bool:
        """See to it that the attempt never starts there, also by a launch on its way; False if it has."""
        state = await self._kill(transport, item)
        return state["state"] == "exited" and not state["exit"]["started"]

    async def _kill(
        self, transport: Transport, item: Assignment, ending: str = "cancelled", force: bool = False
    ) -> dict[str, Any]:
        request = {"job_id": item.job.job_id, "attempt": item.attempt.id, "ending": ending, "force": force}
        return await agent.call(transport, "kill", request)

    async def _finish(self, item: Assignment, outcome: Outcome) -> None:
        done = await asyncio.to_thread(
            attempts.finish, self.db, item.attempt.id, outcome, self.settings.set_aside_after
        )
        if done:
            self.on_end()
            log.info(
                "attempt_ended",
                job=item.job.job_id,
                attempt=item.attempt.id,
                machine=item.vm.name,
                ending=outcome.ending.value,
                reason=outcome.reason and outcome.reason.value,
            )


def _launch_request(
    item: Assignment, command: Command, variables: dict[str, str], hello: dict[str, Any], lease_s: float
) -> dict[str, Any]:
    """What the runner is told. A training job goes on from what its earlier attempts left."""
    job = item.job
    return {
        "job_id": job.job_id,
        "attempt": item.attempt.id,
        "boot_id": hello["boot_id"],
        "deadline": hello["clock"] + lease_s,
        "slots": [{"uuid": slot.uuid, "floor": slot.floor} for slot in item.slots],
        "shared": job.shared and job.gpus > 0,
        "cuda_devices": [slot.uuid for slot in item.slots] if job.gpus else [],
        "argv": command.argv,
        "downloads": command.downloads,
        "environment": variables,
        "keep_output": job.kind is not JobKind.COMMAND,
    }
