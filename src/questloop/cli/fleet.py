"""`questloop fleet`: queue jobs on your GPU machines and see what becomes of them."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from questloop.cli import fleet_daemons, fleet_vm
from questloop.cli.fleet_common import JsonOption, columns, machines_table, on_machine, open_fleet
from questloop.errors import UsageError
from questloop.exit_codes import ExitCode

if TYPE_CHECKING:
    from questloop.fleet.database import Database
    from questloop.fleet.models import VM, Job
    from questloop.settings import Settings

app = typer.Typer(help="Training jobs on GPU machines that you reach by SSH.", no_args_is_help=True)
app.add_typer(fleet_daemons.app)
app.add_typer(fleet_vm.app, name="vm")

JobArgument = Annotated[str, typer.Argument(help="job id")]


@app.command(context_settings={"allow_interspersed_args": False})
def submit(
    command: Annotated[list[str] | None, typer.Argument(help="after --: a program and its arguments")] = None,
    file: Annotated[Path | None, typer.Option("--file", "-f", help="YAML with a job's fields")] = None,
    kind: Annotated[str | None, typer.Option(help="grpo, judge or command")] = None,
    model: Annotated[str | None, typer.Option(help="model by name or path")] = None,
    dataset: Annotated[
        str | None, typer.Option(help="dataset by name, URL or path there; a file here is uploaded")
    ] = None,
    reward_function: Annotated[
        str | None, typer.Option("--reward-function", "--reward_function", help="name or module:function")
    ] = None,
    argument: Annotated[
        list[str] | None, typer.Option("--arg", help="option of the job, name=value; may be repeated")
    ] = None,
    inputs: Annotated[
        list[str] | None, typer.Option("--input", help="file here or http(s) URL for the job's folder")
    ] = None,
    output_url: Annotated[str | None, typer.Option(help="store that the job's output goes to")] = None,
    gpus: Annotated[int | None, typer.Option(help="GPUs, all on one machine; 0: a CPU slot")] = None,
    memory_mb: Annotated[int | None, typer.Option(help="memory needed on each GPU")] = None,
    shared: Annotated[bool | None, typer.Option(help="share GPUs with other shared jobs by memory")] = None,
    priority: Annotated[int | None, typer.Option(help="higher goes first")] = None,
    max_retries: Annotated[int | None, typer.Option(help="unset: MAX_RETRIES")] = None,
    job_id: Annotated[str | None, typer.Option(help="unset: a new one")] = None,
    wait: Annotated[bool, typer.Option(help="wait for the end and show the log")] = False,
    as_json: JsonOption = False,
) -> None:
    """Queue a job.

    Examples:

        questloop fleet submit --gpus 0 --wait -- python -c 'print("hello")'

        questloop fleet submit --model HuggingFaceTB/SmolLM2-135M-Instruct --dataset data.jsonl
        --reward-function correctness --arg max_steps=100

        questloop fleet submit -f job.yaml --priority 5
    """
    db, settings = open_fleet()
    from questloop.fleet import bus, jobs

    values = _read_yaml(file) if file is not None else {}
    flags = {
        "job_id": job_id,
        "kind": kind,
        "model": model,
        "dataset": dataset,
        "reward_function": reward_function,
        "output_url": output_url,
        "gpus": gpus,
        "memory_mb": memory_mb,
        "shared": shared,
        "priority": priority,
        "max_retries": max_retries,
    }
    values |= {name: value for name, value in flags.items() if value is not None}
    values.setdefault("max_retries", settings.fleet.max_retries)
    if command:
        values |= {"kind": "command", "arguments": command}
    if argument:
        if isinstance(values.get("arguments", {}), list):
            raise UsageError("--arg is for grpo and judge jobs; a command's arguments follow --")
        values["arguments"] = {**values.get("arguments", {}), **dict(map(_name_and_value, argument))}
    values.setdefault("job_id", jobs.new_job_id())
    _upload(values, inputs or [], settings)
    submitted = jobs.submit(db, jobs.parse_request(values))
    announced = asyncio.run(bus.announce(settings.fleet, submitted))
    if not wait:
        if as_json:
            print(json.dumps({"job_id": submitted, "announced": announced}))
        else:
            print(f"{submitted} queued: questloop fleet logs -f {submitted}")
        return
    if not as_json:
        print(f"{submitted} queued", file=sys.stderr)
    job = _follow(db, settings, submitted, show_log=not as_json)
    _print_job(job, as_json)
    raise typer.Exit(0 if job.status == "completed" else (job.exit_code or ExitCode.FAILED))


@app.command(name="jobs")
def list_jobs(
    status: Annotated[str | None, typer.Option(help="only jobs of this status")] = None,
    limit: Annotated[int, typer.Option(min=1, help="newest first")] = 50,
    as_json: JsonOption = False,
) -> None:
    """List jobs.

    Example:

        questloop fleet jobs --status failed
    """
    db, _ = open_fleet()
    from questloop.fleet import jobs
    from questloop.fleet.states import JobStatus

    if status is not None and status not in list(JobStatus):
        raise UsageError(f"--status {status!r}: one of {', '.join(JobStatus)}")
    found = jobs.find(db, JobStatus(status) if status else None, limit)
    if as_json:
        print(json.dumps([_job_values(job) for job in found]))
        return
    _table(
        ("job", "kind", "status", "priority", "gpus", "retries", "reason", "created"),
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
            )
            for job in found
        ],
    )


@app.command()
def show(job_id: JobArgument, as_json: JsonOption = False) -> None:
    """Show a job with its attempts and events.

    Example:

        questloop fleet show job-0123456789
    """
    db, _ = open_fleet()
    from questloop.fleet import jobs

    job = jobs.get(db, job_id)
    events, attempts = jobs.history(db, job_id)
    if as_json:
        values = _job_values(job)
        values["attempts"] = [columns(attempt) for attempt in attempts]
        values["events"] = [columns(event) for event in events]
        print(json.dumps(values))
        return
    for name, value in _job_values(job).items():
        if value not in (None, {}, []):
            print(f"{name:20} {value}")
    _table(
        ("attempt", "machine", "claimed", "ended", "ending", "reason", "exit"),
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
    _table(
        ("at", "from", "to", "reason", "detail"),
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


@app.command()
def explain(job_id: JobArgument, as_json: JsonOption = False) -> None:
    """Say why a job is not running, or why it failed.

    Example:

        questloop fleet explain job-0123456789
    """
    db, settings = open_fleet()
    from questloop.fleet import jobs
    from questloop.fleet.explain import explain as reasons

    lines = reasons(db, job_id, settings.fleet)
    if as_json:
        print(json.dumps({"job_id": job_id, "status": jobs.get(db, job_id).status, "reasons": lines}))
        return
    print("\n".join(lines))


@app.command()
def logs(
    job_id: JobArgument,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="go on until the job ends")] = False,
) -> None:
    """Print a job's log as the dispatcher on this machine has copied it.

    Example:

        questloop fleet logs -f job-0123456789
    """
    db, settings = open_fleet()
    from questloop.fleet import jobs
    from questloop.fleet.logs import JobLog

    job = jobs.get(db, job_id)
    if follow:
        _follow(db, settings, job_id, show_log=True)
        return
    path = JobLog(settings.fleet.log_dir, job_id).path
    if not path.exists():
        if job.attempt is None:
            raise UsageError(f"job {job_id!r} is {job.status} and has not run: it has no log")
        raise UsageError(
            f"{path}: no log here yet (job {job.status}); logs lie in LOG_DIR on the dispatcher's machine"
        )
    _write_bytes(path.read_bytes())


@app.command()
def fetch(
    job_id: JobArgument,
    folder: Annotated[Path, typer.Argument(help="where to put the files")] = Path("."),
    as_json: JsonOption = False,
) -> None:
    """Copy a job's output here, from its output_url or from its machine.

    Example:

        questloop fleet fetch job-0123456789 results/
    """
    db, settings = open_fleet()
    from questloop.fleet import jobs

    job = jobs.get(db, job_id)
    if job.output_url and job.status == "completed":
        written = _fetch_from_store(job.output_url, folder)
    else:
        _, attempts = jobs.history(db, job_id)
        if not attempts:
            raise UsageError(f"job {job_id!r} is {job.status}: it has not run yet")
        from questloop.fleet import outputs

        vm = _vm_by_id(db, attempts[-1].vm_id)
        written = on_machine(
            vm, settings, lambda transport: outputs.download(transport, job_id, attempts[-1].id, folder)
        )
    if as_json:
        print(json.dumps({"job_id": job_id, "files": [str(path) for path in written]}))
        return
    print("\n".join(map(str, written)) or "no output")


@app.command()
def cancel(job_ids: Annotated[list[str], typer.Argument(help="job ids")]) -> None:
    """Cancel jobs; a running one ends with its whole process group.

    Example:

        questloop fleet cancel job-0123456789
    """
    db, _ = open_fleet()
    from questloop.fleet import jobs

    for job_id in job_ids:
        status = jobs.cancel(db, job_id)
        print(f"{job_id}: {'being cancelled' if status == 'running' else status}")


@app.command()
def retry(job_ids: Annotated[list[str], typer.Argument(help="job ids")]) -> None:
    """Queue failed jobs again, with all their retries.

    Example:

        questloop fleet retry job-0123456789
    """
    db, settings = open_fleet()
    from questloop.fleet import bus, jobs

    for job_id in job_ids:
        jobs.retry(db, job_id)
        asyncio.run(bus.announce(settings.fleet, job_id))
        print(f"{job_id}: queued")


@app.command()
def top(
    interval_s: Annotated[float, typer.Option("--interval", min=0.2, help="seconds")] = 2,
    once: Annotated[bool, typer.Option(help="print once and end")] = False,
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


def _follow(db: Database, settings: Settings, job_id: str, show_log: bool) -> Job:
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


def _upload(values: dict[str, Any], sources: list[str], settings: Settings) -> None:
    """Put files that lie here into the store; the job's row then names the objects."""
    from questloop.fleet.commands import STORE_PREFIX

    inputs = dict(values.get("inputs", {}))
    dataset = values.get("dataset")
    if dataset and Path(dataset).is_file():
        sources = [*sources, dataset]
        values["dataset"] = Path(dataset).name
    for source in sources:
        name = source.rsplit("/", 1)[-1]
        if source.startswith(("https://", "http://")):
            inputs[name] = source
            continue
        if not Path(source).is_file():
            raise UsageError(f"--input {source}: neither a file here nor an http(s) URL")
        from questloop.storage.store import open_store

        key = f"fleet/{values['job_id']}/{name}"
        open_store(settings.store).put(key, Path(source).read_bytes(), durable=True)
        inputs[name] = f"{STORE_PREFIX}{key}"
    values["inputs"] = inputs


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


def _vm_by_id(db: Database, vm_id: int | None) -> VM:
    from questloop.fleet.models import VM

    with db.read() as session:
        vm = session.get(VM, vm_id) if vm_id is not None else None
    if vm is None:
        raise UsageError("the machine that ran this job was removed: its output cannot be fetched")
    return vm


def _read_yaml(path: Path) -> dict[str, Any]:
    import yaml

    try:
        values = yaml.safe_load(path.read_text("utf-8"))
    except OSError as error:
        raise UsageError(f"--file {path}: {error.strerror}") from None
    except yaml.YAMLError as error:
        raise UsageError(f"--file {path}: not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(values, dict):
        raise UsageError(f"--file {path}: a mapping of a job's fields is needed")
    return values


def _name_and_value(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals:
        raise UsageError(f"--arg {text!r}: write name=value")
    return name, {"true": True, "false": False}.get(value.lower(), value)


def _job_values(job: Job) -> dict[str, Any]:
    return columns(job)


def _print_job(job: Job, as_json: bool) -> None:
    if as_json:
        print(json.dumps(_job_values(job)))
        return
    reason = f" ({job.failure_reason}: {job.failure_detail})" if job.status == "failed" else ""
    print(f"{job.job_id} {job.status}{reason}", file=sys.stderr)


def _table(columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    """Plain columns, never cut off, so that other programs can read them."""
    widths = [max(len(row[index]) for row in [columns, *rows]) for index in range(len(columns))]
    for row in [columns, *rows]:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _overview(db: Database) -> Any:
    from rich.console import Group
    from rich.table import Table

    from questloop.fleet import jobs, machines
    from questloop.fleet.states import JobStatus

    table = Table("job", "status", "gpus", "machine", "since", box=None, pad_edge=False)
    shown = [job for status in (JobStatus.RUNNING, JobStatus.LOST) for job in jobs.find(db, status, 50)]
    waiting = jobs.find(db, JobStatus.PENDING, 20) + jobs.find(db, JobStatus.QUEUED, 20)
    places = _places(db, [job.attempt for job in shown if job.attempt])
    for job in [*shown, *waiting]:
        since = job.started_at if job in shown else job.created_at
        place = places.get(job.attempt, "") if job in shown and job.attempt else ""
        table.add_row(
            job.job_id, job.status.value, str(job.gpus), place, f"{since:%H:%M:%S}" if since else ""
        )
    return Group(machines_table(machines.find(db)), "", table)


def _places(db: Database, attempts: list[int]) -> dict[int, str]:
    from sqlalchemy import select

    from questloop.fleet.models import Attempt

    with db.read() as session:
        rows = session.execute(select(Attempt.id, Attempt.vm_name).where(Attempt.id.in_(attempts)))
        return {row.id: row.vm_name for row in rows}
