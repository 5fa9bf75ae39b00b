"""Ctrl-C ends a command with one line, whatever it is importing: Python itself would print a traceback.

An interrupt inside an import can be lost, or come out as another error, and then says more than one line. So
the line is said at once, all that standard error is told after it is dropped, and what does not end soon is
ended. The training loop stops by itself once it has begun (`questloop.pipeline.loop`).
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from questloop.cli.called import again
from questloop.exit_codes import ExitCode

INTERRUPTED = 130  # what shells call the end by Ctrl-C
_ENDS_WITHIN_S = 3.0
LOOPS = ("demo", "pipeline")

_line = ""
_code = INTERRUPTED
_said = False


@contextmanager
def guarded() -> Iterator[None]:
    """Answer Ctrl-C as the module says while the block runs; a guard inside of another one does nothing."""
    global _line, _code, _said
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler:
        yield
        return
    _line, _code, _said = "stopped before anything was done", INTERRUPTED, False
    if sys.argv[1:2] and sys.argv[1] in LOOPS:
        _line = f"stopped before anything was played; `{again()}` starts it again"
        _code = ExitCode.PREEMPTED
    signal.signal(signal.SIGINT, _stop)
    try:
        yield
    except KeyboardInterrupt:
        sys.exit(say())
    except BaseException:
        if not _said:
            raise
        sys.exit(_code)
    finally:
        signal.signal(signal.SIGINT, before)


def begun() -> None:
    """The command does its work from here on."""
    global _line
    _line = "stopped"


def say() -> int:
    """Say that the command was stopped, once, and return the exit code for it."""
    global _said
    if not _said:
        _said = True
        start = "\n" if os.isatty(2) else ""  # the terminal shows ^C
        os.write(2, f"{start}{_line}\n".encode())  # a signal may come inside of print
    return _code


def _stop(number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # another Ctrl-C ends it there and then
    if _importing(frame):
        say()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 2)
        timer = threading.Timer(_ENDS_WITHIN_S, os._exit, (_code,))
        timer.daemon = True
        timer.start()
    raise KeyboardInterrupt


def _importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False
