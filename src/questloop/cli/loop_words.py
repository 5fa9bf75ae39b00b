"""What commands print first, before they load anything large, and what `demo` and `pipeline` print last."""

from __future__ import annotations

import shlex
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from shutil import get_terminal_size
from textwrap import fill
from typing import TYPE_CHECKING

import typer

from questloop.cli.called import program
from questloop.errors import UnavailableError

if TYPE_CHECKING:
    from questloop.settings import Settings

DASHBOARD_PORT = 8500
PATIENCE_S = 0.3
"""How long a command may be silent."""


@contextmanager
def said_when_slow(line: str) -> Iterator[None]:
    """Tell the person at the terminal what is done, unless it is done at once."""
    if not sys.stderr.isatty():
        yield
        return
    timer = threading.Timer(PATIENCE_S, typer.echo, (line,), {"err": True})
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def opening(settings: Settings, epochs: int | None, dashboard: bool) -> list[str]:
    """What runs, where, how it is watched and how it is stopped.

    The store is opened and the ROM read first, so that what is wrong with them is all that is said.
    """
    from questloop.episodes.plain import counted
    from questloop.game.rom import Rom
    from questloop.storage import keys
    from questloop.storage.commit import committed_epochs
    from questloop.storage.keys import Stage
    from questloop.storage.store import open_store

    store = open_store(settings.store)
    if not settings.store.keep_epochs:  # else old epochs make room first
        store.check_space()
    game = Rom.load(settings.game.rom_path).path.stem
    known = len(committed_epochs(store, Stage.ROLLOUTS))
    new = "epoch 0 was begun, and begins again" if store.exists(keys.run()) else "a new run"
    held = f"goes on after {counted(known, 'epoch')}" if known else new
    if epochs is not None and known >= epochs:
        held = f"holds {counted(known, 'epoch')} already; only what is missing is done"
    length = f"{settings.loop.epoch_steps:,} steps"
    most = "epochs" if epochs is None else counted(epochs, "epoch")
    plan = f"{most} of {length}"
    if epochs is None or "run_hours" in settings.loop.model_fields_set:
        plan += f", for at most {settings.loop.run_hours:g} h"
    lines = [
        f"plays   {game}: {plan}; in each, agents play and learn, judges score, a reward model learns",
        f"store   {store.url}: {held}",
        "stop    Ctrl-C is safe: the same command goes on after the last finished stage",
    ]
    lines = list(map(_wrapped, lines))
    return lines if dashboard else [*lines, f"watch   {program()} dashboard {_named(settings)}"]


def closing(settings: Settings) -> list[str]:
    """What to do next, as commands."""
    store, called = _named(settings), program()
    commands = {
        f"dashboard {store}": "all of it, in the browser",
        f"video {store} --over-epochs": "film what it learned",
        f"report {store}": "write the report anew",
    }
    lines = [f"{'' if at else 'next':8}{called} {command}" for at, command in enumerate(commands)]
    told = [f"{line}  # {what}" for line, what in zip(lines, commands.values(), strict=True)]
    return told if max(map(len, told)) <= get_terminal_size().columns or not sys.stdout.isatty() else lines


def _wrapped(line: str) -> str:
    """A line whose words begin at the ninth column, broken between words where a terminal is narrower."""
    if not sys.stderr.isatty():
        return line
    width = max(40, get_terminal_size().columns)
    return fill(line, width, subsequent_indent=" " * 8, break_long_words=False, break_on_hyphens=False)


@contextmanager
def dashboard_beside(settings: Settings) -> Iterator[str]:
    """Serve the live page from a process of its own, on a free port; its line for a person."""
    from questloop.serving.background import listen

    try:
        listener = listen(DASHBOARD_PORT)
    except UnavailableError:
        listener = listen(0)
    port = listener.getsockname()[1]
    listener.close()
    command = [sys.executable, "-m", "questloop", "dashboard", settings.store.url, "--port", str(port)]
    page = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        yield f"watch   http://127.0.0.1:{port}"
    finally:
        page.terminate()
        page.wait()


def _named(settings: Settings) -> str:
    return shlex.quote(settings.store.url)
