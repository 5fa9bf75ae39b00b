"""Structured logs on standard error: lines for a person on a terminal, JSON objects elsewhere."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

import structlog
from structlog.typing import EventDict, WrappedLogger

_SECRETS = ("password", "secret", "token", "access_key", "api_key", "authorization")


def configure(level: str = "INFO", stream: TextIO | None = None) -> None:
    """Set logging up, once, at the start of a command. The standard library's loggers go the same way."""
    stream = stream or sys.stderr
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _hide_secrets,
    ]
    if stream.isatty():
        last: list[Any] = [structlog.dev.ConsoleRenderer()]
    else:
        last = [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(default=str)]
    structlog.configure(
        processors=[*shared, *last],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(stream),
        cache_logger_on_first_use=False,
    )
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter)
    logging.basicConfig(handlers=[handler], level=max(logging.WARNING, _number(level)), force=True)


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
            event[name] = "***"
    return event
