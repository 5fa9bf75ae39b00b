"""Copies of jobs' logs from their machines to LOG_DIR: after a job's end rather than in its way.

A log that cannot be written here, for a full disk above all, holds up no job: the job says what is missing.
"""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

from questloop.fleet import agent, attempts
from questloop.fleet.attempts import Assignment
from questloop.fleet.database import Database, DatabaseUnavailable
from questloop.fleet.logs import CAP, TAIL, JobLog
from questloop.fleet.transport import Transport, TransportError
from questloop.telemetry.logs import get_logger

log = get_logger(__name__)
_PIECE = 1 << 19
_PIECES_PER_LOOK = 8
_END = 16_384  # bytes of a log that tell why a job failed
_TRIES = 5  # to reach the machine for what is left after a job's end
_PAUSE_S = 3.0


class LogCopier:
    """Copies the logs of one dispatcher's attempts."""

    def __init__(self, db: Database, folder: Path) -> None:
        self.db = db
        self.folder = folder
        self.tasks: set[asyncio.Task[None]] = set()
        self._notes: dict[int, str | None] = {}

    async def copy(self, transport: Transport, item: Assignment, size: int) -> bool:
        """Copy some of what is new; whether all is here that is to be for now. Raises `TransportError`."""
        try:
            done = await self._copy(transport, item, size, final=False)
            await self._note(item, None)
            return done
        except OSError as error:
            await self._note(item, f"not copied to LOG_DIR here: {error.strerror or error}")
            return False

    async def end(self, transport: Transport, item: Assignment, size: int) -> str:
        """The end of the log as it lies on the machine."""
        path = agent.attempt_path(item.job.job_id, item.attempt.id, "log")
        data = await transport.read_from(path, max(0, size - _END), _END)
        return data.decode("utf-8", "replace")

    def follow(self, transport: Transport, item: Assignment, size: int) -> None:
        """Copy the rest of an ended attempt's log in the background."""
        task = asyncio.create_task(self._rest(transport, item, size))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def forget(self, live: set[int]) -> None:
        """Drop what is remembered of attempts that are not `live` any more."""
        for attempt in set(self._notes) - live:
            del self._notes[attempt]

    async def stop(self) -> None:
        """End what is under way."""
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    async def _rest(self, transport: Transport, item: Assignment, size: int) -> None:
        reason = "its machine cannot be reached"
        try:
            for _ in range(_TRIES):
                try:
                    while not await self._copy(transport, item, size, final=True):
                        pass
                    return
                except TransportError as error:
                    reason = str(error)
                    await asyncio.sleep(_PAUSE_S)
        except OSError as error:
            reason = error.strerror or str(error)
        except Exception:
            log.exception("log_not_copied", job=item.job.job_id)
        job_log = JobLog(self.folder, item.job.job_id)
        await asyncio.to_thread(job_log.mark_missing, reason)
        left = max(0, size - job_log.position(item.attempt.id))
        await self._note(item, f"{left} bytes are missing in LOG_DIR: {reason}; the machine has them")

    async def _copy(self, transport: Transport, item: Assignment, size: int, final: bool) -> bool:
        attempt, name = item.attempt.id, item.vm.name
        job_log = JobLog(self.folder, item.job.job_id)
        path = agent.attempt_path(item.job.job_id, attempt, "log")
        for _ in range(_PIECES_PER_LOOK):
            position = await asyncio.to_thread(job_log.position, attempt)
            if position >= CAP and size - position > TAIL:
                if not final:
                    return True
                if not await asyncio.to_thread(job_log.leave_out, attempt, position, size - TAIL, name):
                    return True
                continue
            if position >= size:
                return True
            data = await transport.read_from(path, position, _PIECE)
            if not data:
                return True  # someone has emptied it
            if not await asyncio.to_thread(job_log.append, attempt, position, data, name):
                return final  # another dispatcher copies it, or a newer attempt has followed
        return False

    async def _note(self, item: Assignment, note: str | None) -> None:
        if note == self._notes.get(item.attempt.id, item.job.log_note):
            return
        with contextlib.suppress(DatabaseUnavailable):
            await asyncio.to_thread(attempts.note_log, self.db, item.job.job_id, note)
            self._notes[item.attempt.id] = note
        if note is not None:
            log.warning("log_not_copied", job=item.job.job_id, detail=note)
