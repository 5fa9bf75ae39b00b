"""Errors meant for users: one line that names what, where and how to mend it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from questloop.exit_codes import ExitCode
from questloop.redaction import hide


class QuestloopError(Exception):
    """Base of every error with a message for the user; commands print it and exit with `exit_code`.

    Its message is one line, whatever a server or a file put into it, and holds no known secret.
    """

    exit_code = ExitCode.FAILED
    prefix = "error: "
    """What a command prints before the message."""

    def __init__(self, message: str = "") -> None:
        super().__init__(hide(" ".join(message.split())))


class UsageError(QuestloopError):
    """A wrong flag or setting."""

    exit_code = ExitCode.USAGE


class BadDataError(QuestloopError):
    """A file or object is missing parts, cut off, of another version, or not what its name says."""

    exit_code = ExitCode.BAD_DATA


class UnavailableError(QuestloopError):
    """A store, judge, database or other service cannot be reached."""

    exit_code = ExitCode.UNAVAILABLE


class DiskFullError(QuestloopError):
    """Free space is below the low-water mark."""

    exit_code = ExitCode.DISK_FULL


class MissingExtraError(UsageError):
    """An optional package is needed.

    >>> str(MissingExtraError("asyncssh", "fleet"))
    "asyncssh is not installed: pip install 'questloop[fleet]'"
    """

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"{package} is not installed: pip install 'questloop[{extra}]'")


_PLAIN = {
    "int_parsing": "not a whole number",
    "int_from_float": "not a whole number",
    "float_parsing": "not a number",
    "bool_parsing": "neither on nor off",
}
"""What pydantic says at length, by its type of error."""


def message_of(item: Mapping[str, Any]) -> str:
    """What one of pydantic's errors says, without the kind of exception that it puts before it.

    >>> message_of({"type": "value_error", "msg": "Value error, not a whole number"})
    'not a whole number'
    >>> message_of({"type": "less_than_equal", "msg": "Input should be less than or equal to 60"})
    'must be less than or equal to 60'
    """
    said = str(item["msg"]).removeprefix("Value error, ").removeprefix("Assertion failed, ")
    return _PLAIN.get(item["type"], said.replace("Input should ", "must "))


def reason_of(error: ValueError, whole: str = "") -> str:
    """What is wrong with a document, in a few words, and in which field; `whole` names it where in none."""
    found = getattr(error, "errors", None)
    if found is None:
        return str(error)
    first = found()[0]
    place = ".".join(map(str, first["loc"])) or whole
    return f"{place}: {message_of(first)}" if place else message_of(first)
