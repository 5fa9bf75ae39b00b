"""The commands `questloop fleet logs` and `fetch`: what a job printed and what it wrote."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from questloop.cli.fleet_common import on_machine, open_fleet
from questloop.cli.options import JobOption, JobPlace, JsonOption, job_of
from questloop.errors import UsageError

if TYPE_CHECKING:
    from questloop.fleet.database import Database
    from questloop.fleet.models import Job
    from questloop.settings import Settings


def logs(
    place: JobPlace = None,
    job: JobOption = None,
    follow_: Annotated[bool, typer.Option("--follow", "-f", help="go on until the job ends")] = False,
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
    _write_bytes(path.read_bytes())


def fetch(
    place: JobPlace = None,
    folder: Annotated[Path, typer.Argument(help="where to put the files")] = Path("."),
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
        if not attempts:
            raise UsageError(f"job {job_id!r} is {found.status}: it has not run yet")
        from questloop.fleet import outputs
        from questloop.fleet.overview import machine_of

        vm = machine_of(db, attempts[-1])
        written = on_machine(
            vm, settings, lambda transport: outputs.download(transport, job_id, attempts[-1].id, folder)
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
    while True:
        job = jobs.get(db, job_id)
        if show_log and path.exists():
            with path.open("rb") as file:
                file.seek(position)
                data = file.read()
            position += len(data)
            _write_bytes(data)
        if jobs.is_final(job):
            return job
        time.sleep(0.5)


def _write_bytes(data: bytes) -> None:
    sys.stdout.write(data.decode("utf-8", "replace"))
    sys.stdout.flush()


def _fetch_from_store(url: str, folder: Path) -> list[Path]:
    from questloop.storage.store import open_store

    store = open_store(url)
    written = []
    for entry in store.list():
        target = folder / entry.key
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(store.get(entry.key))
        written.append(target)
    return written
