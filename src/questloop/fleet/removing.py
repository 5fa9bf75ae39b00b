"""Ends what runs on a machine that is about to leave the fleet."""

from __future__ import annotations

import asyncio

from questloop.errors import QuestloopError
from questloop.fleet import agent, attempts, machines
from questloop.fleet.attempts import Outcome
from questloop.fleet.database import Database
from questloop.fleet.machines import LiveAttempt
from questloop.fleet.states import Ending, FailureReason
from questloop.fleet.transport import Transport

_LOOKS = 60
_PAUSE_S = 0.5


async def end_jobs(db: Database, name: str, transport: Transport) -> list[str]:
    """End the machine's jobs there, and return what becomes of each, a sentence per job.

    A job that is surely gone is queued again at once, at no cost to it. Where the machine does not answer, it
    is held until its runner has ended itself.
    """
    return [await _end(db, name, transport, item) for item in machines.live_attempts(db, name)]


async def _end(db: Database, name: str, transport: Transport, item: LiveAttempt) -> str:
    why = ""
    try:
        if await _gone(transport, item):
            outcome = Outcome(
                Ending.LOST,
                FailureReason.MACHINE_UNREACHABLE,
                detail=f"machine {name!r} was removed, and the job was ended there",
                counted=False,
            )
            await asyncio.to_thread(attempts.finish, db, item.attempt, outcome)
            return f"{item.job_id}: ended on {name}, queued again"
    except QuestloopError as error:
        why = f" ({error})"
    if item.lease_until is None:
        return f"{item.job_id}: was not launched on {name} yet{why}; queued again at the next scan"
    return (
        f"{item.job_id}: may still run on {name}{why}; it counts as running until "
        f"{item.lease_until:%H:%M:%S} UTC, when its runner has ended itself, and is queued again then"
    )


async def _gone(transport: Transport, item: LiveAttempt) -> bool:
    request = {"job_id": item.job_id, "attempt": item.attempt}
    await agent.call(transport, "kill", request)
    for _ in range(_LOOKS):
        reply = await agent.look(transport, "watch", {"attempts": [request]})
        if reply["attempts"][str(item.attempt)]["state"] in ("exited", "gone", "removed"):
            return True
        await asyncio.sleep(_PAUSE_S)
    return False
