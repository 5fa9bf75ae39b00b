"""Structured logs on standard error: lines for a person on a terminal, JSON objects elsewhere."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

import structlog
from structlog.typing import EventDict, WrappedLogger

from questloop.redaction import HIDDEN, hide

_SECRETS = ("password", "secret", "token", "access_key", "api_key", "authorization")


def get_logger(name: str) -> Any:
    """A logger of structlog, which writes to standard error in a program that has not set structlog up."""
    if not structlog.is_configured():
        _configure_structlog("INFO", None)
    return structlog.get_logger(name)


def configure(level: str = "INFO", stream: TextIO | None = None) -> None:
    """Set logging up at the start of a command; `stream` unset: what standard error is then.

    The standard library's loggers go the same way, from WARNING on.
    """
    _configure_structlog(level, stream)
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=_SHARED,
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *_last(stream)],
    )
    handler = logging.StreamHandler(stream) if stream else _StderrHandler()
    handler.setFormatter(formatter)
    logging.basicConfig(handlers=[handler], level=max(logging.WARNING, _number(level)), force=True)


def _configure_structlog(level: str, stream: TextIO | None) -> None:
    structlog.configure(
        processors=[*_SHARED, *_last(stream)],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=lambda *_: structlog.WriteLogger(stream or sys.stderr),
        cache_logger_on_first_use=False,
    )


def _last(stream: TextIO | None) -> list[Any]:
    if (stream or sys.stderr).isatty():
        return [structlog.dev.ConsoleRenderer()]
    return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(default=str)]


class _StderrHandler(logging.StreamHandler[TextIO]):
    """Writes to what standard error is now, not to what it was when logging was set up."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> TextIO:  # type: ignore[override]
        return sys.stderr


@contextmanager
def context(**ids: Any) -> Iterator[None]:
    """Add ids (run, epoch, segment, job ...) to every line logged inside, in this thread or task."""
    with structlog.contextvars.bound_contextvars(**ids):
        yield


def _number(level: str) -> int:
    return logging.getLevelNamesMapping()[level.upper()]


def _hide_secrets(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    for name in event:
        if any(word in name.lower() for word in _SECRETS):
            event[name] = HIDDEN
        elif isinstance(event[name], str):
            event[name] = hide(event[name])
    return event


_SHARED: list[Any] = [
    structlog.contextvars.merge_contextvars,
    structlog.processors.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    _hide_secrets,
]
