"""The command `questloop fleet submit`: queues a job with its files, and can wait for its end."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from questloop.cli.fleet_common import columns, open_fleet
from questloop.cli.fleet_output import follow
from questloop.cli.options import JsonOption
from questloop.errors import UsageError
from questloop.exit_codes import ExitCode

if TYPE_CHECKING:
    from questloop.fleet.models import Job
    from questloop.settings import Settings

Command = Annotated[list[str] | None, typer.Argument(help="After --: a program and its arguments.")]
File = Annotated[Path | None, typer.Option("--file", "-f", help="YAML with a job's fields.")]
Kind = Annotated[str | None, typer.Option(help="grpo, judge or command")]
Model = Annotated[str | None, typer.Option(help="Model by name or path.")]
Dataset = Annotated[
    str | None, typer.Option(help="Dataset by name, URL or path there; a file here is uploaded.")
]
RewardFunction = Annotated[
    str | None, typer.Option("--reward-function", "--reward_function", help="name or module:function")
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
JobId = Annotated[str | None, typer.Option("--job", "--job-id", help="Id of the job; unset: a new one.")]

_FIELDS = (
    *("job_id", "kind", "model", "dataset", "reward_function", "output_url"),
    *("gpus", "memory_mb", "shared", "priority", "max_retries"),
)
"""Options that are fields of a job by their own name."""


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
    _upload(values, inputs or [], settings)
    submitted = jobs.submit(db, jobs.parse_request(values))
    announced = asyncio.run(bus.announce(settings.fleet, submitted))
    if not wait:
        queued = f"{submitted} queued: questloop fleet logs -f {submitted}"
        print(json.dumps({"job_id": submitted, "announced": announced}) if as_json else queued)
        return
    if not as_json:
        print(f"{submitted} queued", file=sys.stderr)
    job = follow(db, settings, submitted, show_log=not as_json)
    _print_job(job, as_json)
    raise typer.Exit(0 if job.status == "completed" else (job.exit_code or ExitCode.FAILED))


def _add_arguments(values: dict[str, Any], command: list[str] | None, options: list[str] | None) -> None:
    """Put a command, or the options of a grpo or judge job, into the job's fields."""
    if command:
        values |= {"kind": "command", "arguments": command}
    if not options:
        return
    if isinstance(values.get("arguments", {}), list):
        raise UsageError("--arg is for grpo and judge jobs; a command's arguments follow --")
    values["arguments"] = {**values.get("arguments", {}), **dict(map(_name_and_value, options))}


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


def _print_job(job: Job, as_json: bool) -> None:
    if as_json:
        print(json.dumps(columns(job)))
        return
    reason = f" ({job.failure_reason}: {job.failure_detail})" if job.status == "failed" else ""
    print(f"{job.job_id} {job.status}{reason}", file=sys.stderr)
