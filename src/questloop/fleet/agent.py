"""Calls the runner program on a machine, JSON in and JSON out, and installs it where it is missing."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from questloop.errors import QuestloopError
from questloop.fleet.transport import Result, Transport, TransportError

FOLDER = ".questloop"
_FILE_MISSING = 2  # Python's own exit code for a script that it cannot open


class RunnerError(QuestloopError):
    """The runner on the machine failed; nothing else is known."""


class NeedsSetupError(QuestloopError):
    """The machine has no usable Python."""


@cache
def source() -> tuple[str, bytes]:
    """Path on a machine, which tells versions apart, and content of the runner."""
    content = Path(__file__).with_name("runner.py").read_bytes()
    return f"{FOLDER}/runner-{hashlib.sha256(content).hexdigest()[:12]}.py", content


async def call(transport: Transport, command: str, request: dict[str, Any]) -> dict[str, Any]:
    """Run one command of the runner there."""
    return await _call(transport, transport.run, command, json.dumps(request).encode())


async def look(transport: Transport, command: str, request: dict[str, Any]) -> dict[str, Any]:
    """Watch or poll by a runner there that is kept for the next look, and started where none runs."""
    return await _call(transport, transport.ask, "serve", json.dumps([command, request]).encode() + b"\n")


async def _call(
    transport: Transport,
    run: Callable[[Sequence[str], bytes], Awaitable[Result]],
    command: str,
    stdin: bytes,
) -> dict[str, Any]:
    path, content = source()
    argv = ["python3", "-I", "-S", path, command]
    result = await run(argv, stdin)
    if result.exit_code == _FILE_MISSING:
        await transport.put(path, content)
        result = await run(argv, stdin)
    if result.exit_code == 127:
        raise NeedsSetupError("python3 is not installed there: run `questloop fleet vm setup`")
    if result.exit_code != 0:
        lines = result.stderr.decode("utf-8", "replace").strip().splitlines()
        raise RunnerError(f"runner {command}: {lines[-1] if lines else f'exit code {result.exit_code}'}")
    try:
        answer = json.loads(result.stdout)
    except (ValueError, RecursionError):
        raise TransportError(f"runner {command}: an answer that is cut off") from None
    if not isinstance(answer, dict):
        raise TransportError(f"runner {command}: an answer that is no object")
    return answer


def attempt_path(job_id: str, attempt: int, name: str) -> str:
    """A file of an attempt, relative to the home folder there."""
    return f"{FOLDER}/jobs/{job_id}/{attempt}/{name}"


def staging_path(job_id: str, attempt: int, name: str) -> str:
    """Where an uploaded input waits for the launch."""
    return f"{FOLDER}/staging/{job_id}/{attempt}/{name}"
