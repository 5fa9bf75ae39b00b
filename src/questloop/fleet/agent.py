"""Calls the runner program on a machine, JSON in and JSON out, and installs it where it is missing."""

from __future__ import annotations

import contextlib
import hashlib
import json
import uuid
from collections.abc import Awaitable, Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from questloop.errors import QuestloopError
from questloop.fleet.transport import Result, Transport, printable

FOLDER = ".questloop"
_LONGEST_TROUBLE = 300
_SHELL_INTERFERES = (
    "the login shell there (~/.bashrc and the like) ends early or asks something; let it do that only where "
    "$- holds an i"
)
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
    question = uuid.uuid4().hex
    line = json.dumps(request | {"question": question}).encode()
    return await _call(transport, transport.run, command, line, question)


async def look(transport: Transport, command: str, request: dict[str, Any]) -> dict[str, Any]:
    """Watch or poll by a runner there that is kept for the next look, and started where none runs."""
    question = uuid.uuid4().hex
    line = json.dumps([command, request | {"question": question}]).encode() + b"\n"

    async def ask(argv: Sequence[str], stdin: bytes) -> Result:
        return await transport.ask(argv, stdin, _mark(question))

    return await _call(transport, ask, "serve", line, question)


def _mark(question: str) -> bytes:
    """What is on the line that answers a question and on no other."""
    return f'"question": "{question}"'.encode()


async def _call(
    transport: Transport,
    run: Callable[[Sequence[str], bytes], Awaitable[Result]],
    command: str,
    stdin: bytes,
    question: str,
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
        raise RunnerError(f"runner {command}: {_trouble(result)}")
    before, answer = _split(result.stdout, _mark(question))
    noise = before if result.noise is not None else None
    if answer is None:
        said = printable(before)
        raise RunnerError(
            f"runner {command}: the login shell there printed {said!r} and no answer came"
            if said
            else f"runner {command}: ended without an answer: {_SHELL_INTERFERES}"
        )
    if noise is not None:
        transport.talk = printable(noise + (result.noise or b""))
    answer.pop("question", None)
    return answer


def _trouble(result: Result) -> str:
    """Why the runner failed there, as far as can be told, with what mends it."""
    said = result.stderr.decode("utf-8", "replace").strip() or printable(result.stdout)
    last = (said.splitlines() or [""])[-1][:_LONGEST_TROUBLE]
    if last.startswith("SyntaxError"):
        return "python3 there is too old: put 3.8 or newer first in the PATH of its login shell"
    if "JSONDecodeError" in last:
        return f"its question was read by somebody else: {_SHELL_INTERFERES}"
    return last or f"exit code {result.exit_code} and not a word: {_SHELL_INTERFERES}"


def _split(output: bytes, mark: bytes) -> tuple[bytes, dict[str, Any] | None]:
    """What was printed before the answer, and the answer; None where there is none that is whole."""
    before = b""
    for line in output.splitlines(keepends=True):
        if mark in line:
            with contextlib.suppress(ValueError, RecursionError):
                answer = json.loads(line)
                if isinstance(answer, dict):
                    return before, answer
        before += line
    return before, None


def attempt_path(job_id: str, attempt: int, name: str) -> str:
    """A file of an attempt, relative to the home folder there."""
    return f"{FOLDER}/jobs/{job_id}/{attempt}/{name}"


def staging_path(job_id: str, attempt: int, name: str) -> str:
    """Where an uploaded input waits for the launch."""
    return f"{FOLDER}/staging/{job_id}/{attempt}/{name}"
