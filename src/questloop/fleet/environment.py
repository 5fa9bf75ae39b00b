"""The environment that a job asks for: values in its row, or references that its dispatcher follows.

A reference keeps a secret out of the database: `env:NAME` is a variable of the dispatcher's process,
`file:NAME` the content of a file in its `JOB_SECRETS_DIR`. The value goes to the job alone.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from questloop.errors import UsageError
from questloop.redaction import HIDDEN, SHORTEST

VARIABLE, FILE = "env:", "file:"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_LONGEST = 65_536
# What the fleet sets itself, and what makes a program load other code than it was started as.
_RESERVED = ("QUESTLOOP_", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")
# Settings of the dispatcher that open a database, bus or store; whoever may queue a job need not have them.
_OWN = ("DATABASE_", "NATS_", "S3_", "AWS_", "LLM_", "DASHBOARD_", "STORE_")


class BadEnvironmentError(UsageError):
    """An entry of a job's environment that cannot be used; the message never holds a value."""


def check(environment: Mapping[str, Any]) -> None:
    """Refuse names and values that no process can have. Raises `BadEnvironmentError` naming the variable."""
    if not isinstance(environment, Mapping):
        raise BadEnvironmentError("environment: a mapping from variables to values is needed")
    for name, value in environment.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise BadEnvironmentError(f"environment {str(name)[:40]!r}: not the name of a variable")
        if name.startswith(_RESERVED):
            raise BadEnvironmentError(f"environment {name}: the fleet sets this one itself")
        if not isinstance(value, str) or not _passable(value):
            raise BadEnvironmentError(
                f"environment {name}: a text of at most {_LONGEST} bytes without NUL is needed"
            )
        if value.startswith(VARIABLE):
            _check_variable(name, value.removeprefix(VARIABLE))


def resolve(environment: Mapping[str, Any], secrets_dir: Path) -> dict[str, str]:
    """The variables with every reference followed, on the dispatcher. Raises `BadEnvironmentError`."""
    check(environment)
    return {name: _value(name, value, secrets_dir) for name, value in environment.items()}


def hide(text: str, environment: Any, secrets_dir: Path) -> str:
    """`text`, which a job has printed, without the values that its environment holds or refers to."""
    values: set[str] = set()
    for name, value in environment.items() if isinstance(environment, dict) else ():
        with contextlib.suppress(BadEnvironmentError):
            values.update(_value(name, str(value), secrets_dir).splitlines())
    for value in sorted(values, key=len, reverse=True):
        if len(value) >= SHORTEST:
            text = text.replace(value, HIDDEN)
    return text


def shown(environment: Any) -> dict[str, str]:
    """For a person to read: references as they are, values hidden.

    >>> shown({"HF_TOKEN": "file:hf", "LR": "0.1"})
    {'HF_TOKEN': 'file:hf', 'LR': '***'}
    """
    if not isinstance(environment, dict):
        return {}
    return {
        name: value if str(value).startswith((VARIABLE, FILE)) else "***"
        for name, value in environment.items()
    }


def _passable(value: str) -> bool:
    """Whether the kernel passes `value` to a program."""
    try:
        return "\0" not in value and len(value.encode("utf-8", "surrogateescape")) <= _LONGEST
    except UnicodeEncodeError:  # half a surrogate pair
        return False


def _value(name: str, value: str, secrets_dir: Path) -> str:
    if value.startswith(VARIABLE):
        variable = value.removeprefix(VARIABLE)
        found = os.environ.get(variable)
        if found is None:
            raise BadEnvironmentError(
                f"environment {name}: the dispatcher has no variable {variable}; set it where it is started"
            )
        return found
    if value.startswith(FILE):
        return _content(name, value.removeprefix(FILE), secrets_dir.expanduser())
    return value


def _content(name: str, file: str, folder: Path) -> str:
    path = (folder / file).resolve()
    if not path.is_relative_to(folder.resolve()):
        raise BadEnvironmentError(f"environment {name}: only files in JOB_SECRETS_DIR ({folder}) are given")
    try:
        with path.open("rb") as source:
            content = source.read(_LONGEST + 1).decode().rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise BadEnvironmentError(f"environment {name}: file {file} of the dispatcher: {reason}") from None
    if not _passable(content):
        raise BadEnvironmentError(f"environment {name}: file {file} of the dispatcher: too long, or no text")
    return content


def _check_variable(name: str, variable: str) -> None:
    if not _NAME.fullmatch(variable):
        raise BadEnvironmentError(f"environment {name}: {VARIABLE}NAME needs the name of a variable")
    if variable.startswith(_OWN):
        raise BadEnvironmentError(
            f"environment {name}: {variable} is a setting of the dispatcher, which jobs do not get; give the "
            f"value another name there, or put it into a file of JOB_SECRETS_DIR ({FILE}NAME)"
        )
