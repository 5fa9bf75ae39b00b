"""The commands `questloop fleet logs` and `fetch`: what a job printed and what it wrote."""

from __future__ import annotations

import codecs
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from questloop.cli.fleet_common import on_machine, open_fleet, plain
from questloop.cli.options import JobOption, JobPlace, JsonOption, job_of
from questloop.errors import UsageError
from questloop.local_files import write_file

if TYPE_CHECKING:
    from questloop.fleet.database import Database
    from questloop.fleet.models import Job
    from questloop.settings import Settings

_PIECE = 1 << 16
_QUIET_S = 1.5  # a log that has not grown for so long after its job's end is whole


def logs(
    place: JobPlace = None,
    job: JobOption = None,
    follow_: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the job ends.")] = False,
) -> None:
    """Print a job's log as the dispatcher on this machine has copied it.

    Example:

        questloop fleet logs -f job-0123456789
    """
    job_id = job_of(place, job)
    db, settings = open_fleet()
    from questloop.fleet import jobs
    from questloop.fleet.logs import JobLog

    found = jobs.get(db, job_id)
    if follow_:
        follow(db, settings, job_id, show_log=True)
        return
    path = JobLog(settings.fleet.log_dir, job_id).path
    if not path.exists():
        if found.attempt is None:
            raise UsageError(f"job {job_id!r} is {found.status} and has not run: it has no log")
        raise UsageError(
            f"{path}: no log here yet (job {found.status}); logs lie in LOG_DIR on the dispatcher's machine"
        )
    _show(path, 0)


def fetch(
    place: JobPlace = None,
    folder: Annotated[Path, typer.Argument(help="Where to put the files.")] = Path("."),
    job: JobOption = None,
    as_json: JsonOption = False,
) -> None:
    """Copy a job's output here, from its output_url or from its machine.

    Example:

        questloop fleet fetch job-0123456789 results/
    """
    if job and place and folder == Path("."):  # `--job ID FOLDER`
        folder, place = Path(place), None
    job_id = job_of(place, job)
    db, settings = open_fleet()
    from questloop.fleet import jobs

    found = jobs.get(db, job_id)
    if found.output_url and found.status == "completed":
        written = _fetch_from_store(found.output_url, folder)
    else:
        _, attempts = jobs.history(db, job_id)
        launched = [attempt for attempt in attempts if attempt.launched_at is not None]
        if not launched:
            raise UsageError(f"job {job_id!r} is {found.status}: it has not run yet")
        from questloop.fleet import outputs
        from questloop.fleet.machines import machine_of

        last = launched[-1]
        written = on_machine(
            machine_of(db, last),
            settings,
            lambda transport: outputs.download(transport, job_id, last.id, folder),
        )
    if as_json:
        print(json.dumps({"job_id": job_id, "files": [str(path) for path in written]}))
        return
    print("\n".join(map(str, written)) or "no output")


def follow(db: Database, settings: Settings, job_id: str, show_log: bool) -> Job:
    """Wait until the job has ended for good, printing its log as it grows."""
    from questloop.fleet import jobs
    from questloop.fleet.logs import JobLog

    path = JobLog(settings.fleet.log_dir, job_id).path
    position = 0
    ended_at = None
    while True:
        job = jobs.get(db, job_id)
        before = position
        if show_log and path.exists():
            position = _show(path, position)
        moment = time.monotonic()
        if not jobs.is_final(job):
            ended_at = None
        elif not show_log or (position == 0 and not path.exists()):
            return job
        elif ended_at is None or position > before:
            ended_at = moment
        elif moment - ended_at > _QUIET_S:
            return job
        time.sleep(0.5)


def _show(path: Path, position: int) -> int:
    """Print a log from `position` on, a piece at a time, and return where it ends."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    with path.open("rb") as file:
        file.seek(position)
        while data := file.read(_PIECE):
            sys.stdout.write(plain(decoder.decode(data), lines=True))
        sys.stdout.write(plain(decoder.decode(b"", final=True), lines=True))
        sys.stdout.flush()
        return file.tell()


def _fetch_from_store(url: str, folder: Path) -> list[Path]:
    from questloop.storage.store import open_store

    store = open_store(url)
    written = []
    for entry in store.list():
        target = folder / entry.key
        write_file(target, store.get(entry.key))
        written.append(target)
    return written
