"""The command `questloop fleet submit`: queues a job with its files, and can wait for its end."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from questloop.cli.fleet_common import columns, open_fleet, plain
from questloop.cli.fleet_output import follow
from questloop.cli.options import JsonOption
from questloop.errors import UsageError
from questloop.exit_codes import ExitCode

if TYPE_CHECKING:
    from questloop.fleet.database import Database
    from questloop.fleet.models import Attempt
    from questloop.settings import Settings

Command = Annotated[list[str] | None, typer.Argument(help="After --: a program and its arguments.")]
File = Annotated[Path | None, typer.Option("--file", "-f", help="YAML with a job's fields.")]
Kind = Annotated[str | None, typer.Option(help="What kind of job: grpo, judge or command.")]
Model = Annotated[str | None, typer.Option(help="Model by name or path.")]
Dataset = Annotated[
    str | None, typer.Option(help="Dataset by name, URL or path there; a file here is uploaded.")
]
RewardFunction = Annotated[
    str | None,
    typer.Option("--reward-function", "--reward_function", help="Reward: a name or module:function."),
]
Arguments = Annotated[
    list[str] | None, typer.Option("--arg", help="Option of the job, name=value; may be repeated.")
]
Inputs = Annotated[
    list[str] | None, typer.Option("--input", help="File here or http(s) URL for the job's folder.")
]
OutputUrl = Annotated[str | None, typer.Option(help="Store that the job's output goes to.")]
Gpus = Annotated[int | None, typer.Option(help="GPUs, all on one machine; 0: a CPU slot.")]
MemoryMb = Annotated[int | None, typer.Option(help="Memory needed on each GPU, MB.")]
Shared = Annotated[bool | None, typer.Option(help="Share GPUs with other shared jobs by memory.")]
Priority = Annotated[int | None, typer.Option(help="Higher goes first.")]
MaxRetries = Annotated[int | None, typer.Option(help="Retries after a failure; unset: MAX_RETRIES.")]
RetryErrors = Annotated[
    bool | None, typer.Option("--retry-errors", help="Retry also where the program itself failed.")
]
Environment = Annotated[
    list[str] | None,
    typer.Option("--env", help="NAME=VALUE, NAME=env:VARIABLE or NAME=file:FILE of the dispatcher."),
]
JobId = Annotated[str | None, typer.Option("--job", "--job-id", help="Id of the job; unset: a new one.")]

_FIELDS = (
    *("job_id", "kind", "model", "dataset", "reward_function", "output_url"),
    *("gpus", "memory_mb", "shared", "priority", "max_retries", "retry_errors"),
)
"""Options that are fields of a job by their own name."""
_URLS = ("https://", "http://")
_DATA_SUFFIXES = (".json", ".jsonl", ".csv", ".parquet")


def submit(
    context: typer.Context,
    command: Command = None,
    file: File = None,
    kind: Kind = None,
    model: Model = None,
    dataset: Dataset = None,
    reward_function: RewardFunction = None,
    argument: Arguments = None,
    inputs: Inputs = None,
    output_url: OutputUrl = None,
    gpus: Gpus = None,
    memory_mb: MemoryMb = None,
    shared: Shared = None,
    priority: Priority = None,
    max_retries: MaxRetries = None,
    retry_errors: RetryErrors = None,
    environment: Environment = None,
    job_id: JobId = None,
    wait: Annotated[bool, typer.Option(help="Wait for the end and show the log.")] = False,
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

    given = {name: context.params[name] for name in _FIELDS if context.params[name] is not None}
    values = (_read_yaml(file) if file is not None else {}) | given
    values.setdefault("max_retries", settings.fleet.max_retries)
    values.setdefault("job_id", jobs.new_job_id())
    _add_arguments(values, command, argument)
    if environment:
        given = dict(_name_and_text("--env", item) for item in environment)
        values["environment"] = _mapping(values, "environment") | given
    jobs.parse_request(values)  # before anything is uploaded
    _upload(values, inputs or [], settings)
    submitted = jobs.submit(db, jobs.parse_request(values))
    announced = asyncio.run(bus.announce(settings.fleet, submitted))
    if not wait:
        queued = f"{submitted} queued: questloop fleet logs -f {submitted}"
        print(json.dumps({"job_id": submitted, "announced": announced}) if as_json else queued)
        return
    try:
        raise typer.Exit(_wait(db, settings, submitted, as_json))
    except KeyboardInterrupt:
        again = (
            f"`questloop fleet logs -f {submitted}` shows it, `questloop fleet cancel {submitted}` ends it"
        )
        print(f"\n{submitted} goes on: {again}", file=sys.stderr)
        raise typer.Exit(130) from None


def _add_arguments(values: dict[str, Any], command: list[str] | None, options: list[str] | None) -> None:
    """Put a command, or the options of a grpo or judge job, into the job's fields."""
    if command:
        _check_command_alone(values)
        values |= {"kind": "command", "arguments": command}
    if not options:
        return
    if isinstance(values.get("arguments"), list):
        raise UsageError("--arg is for grpo and judge jobs; a command's arguments follow --")
    values["arguments"] = _mapping(values, "arguments") | dict(map(_name_and_value, options))


def _check_command_alone(values: dict[str, Any]) -> None:
    """Refuse a program of one's own beside what asks for a training job."""
    if values.get("kind", "command") != "command":
        raise UsageError(f"kind {values['kind']}: what follows -- is a job of kind command; leave one out")
    for name in ("model", "dataset", "reward_function"):
        if values.get(name) is not None:
            raise UsageError(
                f"{name}: what follows -- is a program of its own, which takes none; give options of a "
                "training job by --arg NAME=VALUE"
            )


def _mapping(values: dict[str, Any], field: str) -> dict[str, Any]:
    found = values.get(field)
    if found is not None and not isinstance(found, dict):
        raise UsageError(f"{field}: a mapping is needed")
    return found or {}


def _upload(values: dict[str, Any], sources: list[str], settings: Settings) -> None:
    """Put files that lie here into the store; the job's row then names the objects."""
    from questloop.fleet.commands import STORE_PREFIX

    inputs = dict(values.get("inputs", {}))
    dataset = values.get("dataset")
    if dataset and dataset not in inputs and Path(dataset).is_file():
        sources = [*sources, dataset]
        values["dataset"] = Path(dataset).name
    named = _named(sources, inputs)
    _check_there(values, {*inputs, *named})
    for name, source in named.items():
        if source.startswith(_URLS):
            inputs[name] = source
            continue
        from questloop.storage.store import open_store

        key = f"fleet/{values['job_id']}/{name}"
        open_store(settings.store).put(key, Path(source).read_bytes(), durable=True)
        inputs[name] = f"{STORE_PREFIX}{key}"
    values["inputs"] = inputs


def _named(sources: list[str], inputs: dict[str, str]) -> dict[str, str]:
    """The sources by the names that they get in the job's folder."""
    from questloop.fleet.commands import valid_input_name

    named: dict[str, str] = {}
    for source in sources:
        name = source.partition("?")[0].rsplit("/", 1)[-1] if source.startswith(_URLS) else Path(source).name
        if not source.startswith(_URLS) and not Path(source).is_file():
            raise UsageError(f"--input {source}: neither a file here nor an http(s) URL")
        if not valid_input_name(name):
            raise UsageError(
                f"--input {source}: its name there would be {name!r}: rename it to letters, digits, '.', '_' "
                "and '-', beginning with a letter or digit"
            )
        if named.get(name, source) != source or name in inputs:
            raise UsageError(f"--input {source}: another input has the name {name!r}: rename one")
        named[name] = source
    return named


def _check_there(values: dict[str, Any], inputs: set[str]) -> None:
    """Refuse a model or dataset that is named by a path from this folder: the job runs in one of its own."""
    for field in ("model", "dataset"):
        name = values.get(field)
        if not name or name in inputs or name.startswith(("/", "~", *_URLS)):
            continue
        if Path(name).is_dir():
            raise UsageError(
                f"{field} {name}: a folder here, which is not sent along; give the path that it has on the "
                "machines, beginning with /"
            )
        if name.startswith(".") or (field == "dataset" and Path(name).suffix in _DATA_SUFFIXES):
            raise UsageError(
                f"{field} {name}: not found here; give a file that is here, a path on the machines that "
                "begins with /, or a name of the hub"
            )


def _read_yaml(path: Path) -> dict[str, Any]:
    import yaml

    try:
        values = yaml.safe_load(path.read_text("utf-8"))
    except OSError as error:
        raise UsageError(f"--file {path}: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"--file {path}: not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(values, dict):
        raise UsageError(f"--file {path}: a mapping of a job's fields is needed")
    return values


def _name_and_value(text: str) -> tuple[str, Any]:
    name, value = _name_and_text("--arg", text)
    return name, {"true": True, "false": False}.get(value.lower(), value)


def _name_and_text(option: str, text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise UsageError(f"{option} {name[:40]}: write name=value")
    return name, value


def _wait(db: Database, settings: Settings, job_id: str, as_json: bool) -> int:
    """Show the log until the job ends, then its attempts; the exit code for the command."""
    from questloop.episodes.plain import counted
    from questloop.fleet import jobs
    from questloop.fleet.logs import JobLog

    if not as_json:
        print(f"{job_id} queued", file=sys.stderr)
    job = follow(db, settings, job_id, show_log=not as_json)
    _, attempts = jobs.history(db, job_id)
    if as_json:
        end = JobLog(settings.fleet.log_dir, job_id).end(4096)
        each = [columns(attempt) for attempt in attempts]
        print(json.dumps({**columns(job), "environment": {}, "attempts": each, "log_end": end}))
    else:
        reason = f" ({job.failure_reason}: {job.failure_detail})" if job.status == "failed" else ""
        code = "" if job.exit_code is None else f", exit code {job.exit_code}"
        tried = counted(len(attempts), "attempt")
        lines = [f"{job_id} {job.status}{reason}{code}, {tried}", *map(_line_of, attempts)]
        if not JobLog(settings.fleet.log_dir, job_id).path.exists():
            lines.append(
                f"no log in {settings.fleet.log_dir}: the job printed nothing, or the log lies on the "
                "dispatcher's machine"
            )
        elif job.log_note:
            lines.append(f"log: {job.log_note}")
        print("\n".join(map(plain, lines)), file=sys.stderr)
    return 0 if job.status == "completed" else (job.exit_code or ExitCode.FAILED)


def _line_of(attempt: Attempt) -> str:
    ended = f"{attempt.ending}" + (f" ({attempt.reason})" if attempt.reason else "")
    code = "" if attempt.exit_code is None else f", exit code {attempt.exit_code}"
    seconds = ""
    if attempt.launched_at and attempt.ended_at:
        seconds = f", {(attempt.ended_at - attempt.launched_at).total_seconds():.0f} s"
    return f"  attempt {attempt.id} on {attempt.vm_name}: {ended}{code}{seconds}"
