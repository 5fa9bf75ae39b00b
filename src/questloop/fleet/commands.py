"""Builds the command that a machine runs for a job; everything a user wrote stays one argument."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from questloop.errors import UsageError
from questloop.fleet.models import Job
from questloop.fleet.states import JobKind

STORE_PREFIX = "store:"
_JOB_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_OPTION = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
_LONGEST_ARGUMENT = (128 << 10) - 1  # bytes: Linux gives no program a longer one
_MOST_SHOWN = 200
_COLUMNS = ("model", "dataset", "reward_function")
_PROGRAM = {JobKind.GRPO: ("questloop", "grpo"), JobKind.JUDGE: ("questloop", "judge", "train")}


class BadJobError(UsageError):
    """The row cannot be run as it is."""


@dataclass(frozen=True)
class Command:
    """`argv` items that are lists are paths in the attempt's folder; `uploads` map names to store keys."""

    argv: list[str | list[str]]
    downloads: dict[str, str] = field(default_factory=dict)
    uploads: dict[str, str] = field(default_factory=dict)


def valid_job_id(job_id: str) -> bool:
    """Whether `job_id` may name a folder and a file."""
    return _JOB_ID.fullmatch(job_id) is not None


def valid_input_name(name: str) -> bool:
    """Whether `name` may name a file in a job's folder."""
    return _NAME.fullmatch(name) is not None


def command_of(job: Job) -> Command:
    """What `job` runs; raises `BadJobError` that names the column."""
    if not valid_job_id(job.job_id):
        raise BadJobError(f"job_id {job.job_id!r}: use letters, digits, '.', '_' and '-', at most 64")
    downloads: dict[str, str] = {}
    uploads: dict[str, str] = {}
    for name, source in _mapping(job.inputs, "inputs").items():
        if not valid_input_name(name):
            raise BadJobError(f"inputs {name!r}: a plain file name is needed")
        if str(source).startswith(("https://", "http://")):
            downloads[name] = str(source)
        elif str(source).startswith(STORE_PREFIX):
            uploads[name] = str(source).removeprefix(STORE_PREFIX)
        else:
            raise BadJobError(f"inputs {name!r}: {source!r} is neither http(s)://... nor {STORE_PREFIX}KEY")
    argv = _argv(job, {*downloads, *uploads})
    _check_passable([item for item in argv if isinstance(item, str)])
    return Command(argv, downloads, uploads)


def summary(job: Job) -> str:
    """What a job runs, in a line for a person; a long one is cut."""
    said = _summary(job)
    return said if len(said) <= _MOST_SHOWN else f"{said[: _MOST_SHOWN - 1]}\N{HORIZONTAL ELLIPSIS}"


def _summary(job: Job) -> str:
    if job.kind is JobKind.COMMAND:
        words = job.arguments if isinstance(job.arguments, list) else [job.arguments]
        return shlex.join(map(str, words))
    options = job.arguments if isinstance(job.arguments, dict) else {}
    parts = [job.kind.value, job.model or "", f"on {job.dataset}" if job.dataset else ""]
    parts += [f"by {job.reward_function}" if job.reward_function else ""]
    parts += [f"{name}={value}" for name, value in options.items()]
    return " ".join(filter(None, parts))


def _check_passable(arguments: Sequence[str]) -> None:
    """Refuse what the kernel passes to no program."""
    for item in arguments:
        if "\0" in item:
            raise BadJobError("arguments: a NUL character cannot be passed to a program")
        try:
            size = len(item.encode("utf-8", "surrogateescape"))
        except UnicodeEncodeError:
            raise BadJobError("arguments: half a character cannot be passed to a program") from None
        if size > _LONGEST_ARGUMENT:
            raise BadJobError(
                f"arguments: one has {size} bytes, and a program takes {_LONGEST_ARGUMENT} at most: put it "
                "into a file and give that by --input"
            )


def _argv(job: Job, inputs: set[str]) -> list[str | list[str]]:
    if job.kind is JobKind.COMMAND:
        arguments = job.arguments
        if not isinstance(arguments, list) or not arguments or not all(isinstance(a, str) for a in arguments):
            raise BadJobError("arguments: a command job needs a list of strings, the program first")
        return list(arguments)
    argv: list[str | list[str]] = [*_launcher(job), *_PROGRAM[job.kind]]
    given = {name: getattr(job, name) for name in _COLUMNS if getattr(job, name) is not None}
    for option, value in given.items():
        if value in inputs:
            argv += [f"--{option}", ["work", value]]
        else:
            argv.append(f"--{option}={value}")
    for option, value in _mapping(job.arguments, "arguments").items():
        if option == "output_dir" or option in given:
            raise BadJobError(f"arguments {option!r}: the fleet gives this option itself")
        argv += _option(option, value)
    return [*argv, "--output_dir", ["output"]]


def _launcher(job: Job) -> list[str]:
    """What starts a process per GPU, each of which takes the one of its number; nothing for a single GPU."""
    if (job.gpus or 0) < 2:
        return []
    how = ["--multi_gpu", "--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no"]
    port = ["--main_process_port", "0"]  # any free one: jobs share machines
    return ["accelerate", "launch", *how, "--num_processes", str(job.gpus), *port, "--module"]


def _option(option: str, value: Any) -> list[str]:
    if not _OPTION.fullmatch(option):
        raise BadJobError(f"arguments {option!r}: not the name of an option")
    if value is None:
        return []
    if isinstance(value, bool):
        return [f"--{option}={str(value).lower()}"]
    if not isinstance(value, str | int | float):
        raise BadJobError(f"arguments {option!r}: {value!r} is neither text, a number nor true or false")
    return [f"--{option}={value}"]


def _mapping(value: Any, column: str) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise BadJobError(f"{column}: a mapping is needed, not {value!r}")
    return value
