"""Structured logs on standard error: lines for a person on a terminal, JSON objects elsewhere.

structlog, which brings rich, is imported at the first line that is logged: most commands log none.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

from questloop.redaction import HIDDEN, hide

if TYPE_CHECKING:
    from structlog.typing import EventDict, WrappedLogger

_SECRETS = ("password", "secret", "token", "access_key", "api_key", "authorization")


_wanted: tuple[str, TextIO | None] | None = None  # by `configure`, and not handed to structlog yet


class _Logger:
    """structlog's logger of a name, made when a line is logged."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, method: str) -> Any:
        if method.startswith("__"):  # whoever copies or pickles it asks for those
            raise AttributeError(method)
        return getattr(_structlog().get_logger(self._name), method)


def get_logger(name: str) -> Any:
    """A logger of structlog, which writes to standard error in a program that has not set structlog up."""
    return _Logger(name)


def configure(level: str = "INFO", stream: TextIO | None = None) -> None:
    """Set logging up at the start of a command; `stream` unset: what standard error is then.

    The standard library's loggers go the same way, from WARNING on.
    """
    global _wanted
    _wanted = level, stream
    if "structlog" in sys.modules:
        _structlog()
    handler = logging.StreamHandler(stream) if stream else _StderrHandler()
    handler.setFormatter(_Formatter(stream))
    logging.basicConfig(handlers=[handler], level=max(logging.WARNING, _number(level)), force=True)


def _structlog() -> Any:
    """The package structlog, set up as `configure` asked."""
    global _wanted
    import structlog

    if _wanted is not None or not structlog.is_configured():
        level, stream = _wanted or ("INFO", None)
        structlog.configure(
            processors=[*_shared(), *_last(stream)],
            wrapper_class=structlog.make_filtering_bound_logger(level),
            logger_factory=lambda *_: structlog.WriteLogger(stream or sys.stderr),
            cache_logger_on_first_use=False,
        )
        _wanted = None
    return structlog


def _shared() -> list[Any]:
    import structlog

    return [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _hide_secrets,
    ]


def _last(stream: TextIO | None) -> list[Any]:
    import structlog

    if (stream or sys.stderr).isatty():
        return [structlog.dev.ConsoleRenderer()]
    return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(default=str)]


class _Formatter(logging.Formatter):
    """Formats lines of the standard library's loggers as structlog does."""

    def __init__(self, stream: TextIO | None) -> None:
        super().__init__()
        self._stream = stream
        self._formatter: logging.Formatter | None = None

    def format(self, record: logging.LogRecord) -> str:
        if self._formatter is None:
            formatter = _structlog().stdlib.ProcessorFormatter
            self._formatter = formatter(
                foreign_pre_chain=_shared(),
                processors=[formatter.remove_processors_meta, *_last(self._stream)],
            )
        return self._formatter.format(record)


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
    with _structlog().contextvars.bound_contextvars(**ids):
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
