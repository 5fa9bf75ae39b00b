"""The commands `questloop fleet ...` that list, explain, cancel, retry and watch jobs."""

from __future__ import annotations

import asyncio
import json
import shlex
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from questloop.cli import fleet_daemons, fleet_output, fleet_submit, fleet_vm
from questloop.cli.fleet_common import columns, machines_table, open_fleet, plain, table
from questloop.cli.options import JobOption, JobPlace, JobsOption, JobsPlace, JsonOption, job_of, jobs_of
from questloop.errors import UsageError

if TYPE_CHECKING:
    from questloop.fleet.database import Database
    from questloop.fleet.models import Attempt, Job, JobEvent

app = typer.Typer(help="Training jobs on GPU machines that you reach by SSH.", no_args_is_help=True)
app.add_typer(fleet_daemons.app)
app.add_typer(fleet_vm.app, name="vm")

app.command(context_settings={"allow_interspersed_args": False})(fleet_submit.submit)
app.command()(fleet_output.logs)
app.command()(fleet_output.fetch)


@app.command(name="jobs")
def list_jobs(
    status: Annotated[str | None, typer.Option(help="Only jobs of this status.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many, the newest first.")] = 50,
    as_json: JsonOption = False,
) -> None:
    """List jobs.

    Example:

        questloop fleet jobs --status failed
    """
    db, _ = open_fleet()
    from questloop.fleet import jobs
    from questloop.fleet.commands import summary
    from questloop.fleet.states import JobStatus

    if status is not None and status not in list(JobStatus):
        raise UsageError(f"--status {status!r}: one of {', '.join(JobStatus)}")
    found = jobs.find(db, JobStatus(status) if status else None, limit)
    if as_json:
        print(json.dumps([job_values(job) for job in found]))
        return
    table(
        ("job", "kind", "status", "priority", "gpus", "retries", "reason", "created", "runs"),
        [
            (
                job.job_id,
                job.kind.value,
                job.status.value,
                str(job.priority),
                str(job.gpus),
                f"{job.retry_count}/{job.max_retries}",
                job.failure_reason.value if job.failure_reason and job.status != "completed" else "",
                f"{job.created_at:%Y-%m-%d %H:%M:%S}",
                summary(job),
            )
            for job in found
        ],
    )


@app.command()
def show(place: JobPlace = None, job: JobOption = None, as_json: JsonOption = False) -> None:
    """Show a job with its attempts and events.

    Example:

        questloop fleet show job-0123456789
    """
    job_id = job_of(place, job)
    db, _ = open_fleet()
    from questloop.fleet import jobs

    found = jobs.get(db, job_id)
    events, attempts = jobs.history(db, job_id)
    if as_json:
        values = job_values(found)
        values["attempts"] = [columns(attempt) for attempt in attempts]
        values["events"] = [columns(event) for event in events]
        print(json.dumps(values))
        return
    _show_job(job_values(found))
    if attempts:
        _show_attempts(attempts)
    _show_events(events)


@app.command()
def explain(place: JobPlace = None, job: JobOption = None, as_json: JsonOption = False) -> None:
    """Say why a job is not running, or why it failed.

    Example:

        questloop fleet explain job-0123456789
    """
    job_id = job_of(place, job)
    db, settings = open_fleet()
    from questloop.fleet import jobs
    from questloop.fleet.explain import explain as reasons

    lines = reasons(db, job_id, settings.fleet)
    if as_json:
        print(json.dumps({"job_id": job_id, "status": jobs.get(db, job_id).status, "reasons": lines}))
        return
    print("\n".join(map(plain, lines)))


@app.command()
def cancel(places: JobsPlace = None, job: JobsOption = None) -> None:
    """Cancel jobs; a running one ends with its whole process group.

    Example:

        questloop fleet cancel job-0123456789
    """
    db, _ = open_fleet()
    from questloop.fleet import jobs

    for job_id in jobs_of(places, job):
        status = jobs.cancel(db, job_id)
        print(f"{job_id}: {'being cancelled' if status == 'running' else status}")


@app.command()
def retry(places: JobsPlace = None, job: JobsOption = None) -> None:
    """Queue failed jobs again, with all their retries.

    Example:

        questloop fleet retry job-0123456789
    """
    db, settings = open_fleet()
    from questloop.fleet import bus, jobs

    for job_id in jobs_of(places, job):
        jobs.retry(db, job_id)
        asyncio.run(bus.announce(settings.fleet, job_id))
        print(f"{job_id}: queued")


@app.command()
def top(
    interval_s: Annotated[float, typer.Option("--interval", min=0.2, help="Seconds between two looks.")] = 2,
    once: Annotated[bool, typer.Option(help="Print once and end.")] = False,
) -> None:
    """Watch machines and jobs in a live table.

    Example:

        questloop fleet top
    """
    db, _ = open_fleet()
    from rich.console import Console
    from rich.live import Live

    if once:
        Console().print(_overview(db))
        return
    with Live(_overview(db), screen=True, auto_refresh=False) as live:
        while True:
            time.sleep(interval_s)
            live.update(_overview(db), refresh=True)


def _show_job(values: dict[str, Any]) -> None:
    from questloop.report.words import job_title

    asked = {name: value for name, value in values.items() if value or (value == 0 and name not in _WISHES)}
    width = max(len(job_title(name)) for name in asked)
    for name, value in asked.items():
        print(f"{job_title(name):{width}}  {plain(_in_words(name, value))}")


_WISHES = ("memory_mb", "shared", "retry_errors")  # a job without one need not be told of it


def _in_words(name: str, value: Any) -> str:
    if name.endswith(("_at", "_since")):
        return str(value)[:19].replace("T", " ")
    if value is True:
        return "yes"
    if isinstance(value, dict):
        return ", ".join(f"{key}={each}" for key, each in value.items())
    return shlex.join(map(str, value)) if isinstance(value, list) else str(value)


def _show_attempts(attempts: list[Attempt]) -> None:
    print("\nattempts: where it ran, and how each ended (times in UTC)")
    table(
        ("attempt", "machine", "began", "ended", "how", "why", "exit code"),
        [
            (
                str(item.id),
                item.vm_name,
                f"{item.claimed_at:%H:%M:%S}",
                f"{item.ended_at:%H:%M:%S}" if item.ended_at else "",
                item.ending.value if item.ending else "",
                item.reason.value if item.reason else "",
                "" if item.exit_code is None else str(item.exit_code),
            )
            for item in attempts
        ],
    )


def _show_events(events: list[JobEvent]) -> None:
    print("\nwhat happened (times in UTC)")
    table(
        ("at", "was", "became", "why", "in detail"),
        [
            (
                f"{item.at:%H:%M:%S}",
                item.before or "",
                item.after,
                item.reason or "",
                (item.detail or "")[:80],
            )
            for item in events
        ],
    )


def job_values(job: Job) -> dict[str, Any]:
    """A job's row, without the values that its environment holds."""
    from questloop.fleet.environment import shown

    return {**columns(job), "environment": shown(job.environment)}


def _overview(db: Database) -> Any:
    from rich.console import Group
    from rich.table import Table

    from questloop.fleet import jobs, machines
    from questloop.fleet.machines import machine_names
    from questloop.fleet.states import JobStatus

    listed = Table("job", "status", "gpus", "machine", "since", box=None, pad_edge=False)
    shown = [job for status in (JobStatus.RUNNING, JobStatus.LOST) for job in jobs.find(db, status, 50)]
    waiting = jobs.find(db, JobStatus.PENDING, 20) + jobs.find(db, JobStatus.QUEUED, 20)
    places = machine_names(db, [job.attempt for job in shown if job.attempt])
    for job in [*shown, *waiting]:
        since = job.started_at if job in shown else job.created_at
        place = places.get(job.attempt, "") if job in shown and job.attempt else ""
        listed.add_row(
            job.job_id, job.status.value, str(job.gpus), place, f"{since:%H:%M:%S}" if since else ""
        )
    return Group(machines_table(machines.find(db)), "", listed)
