"""Helpers that the commands of `questloop fleet` share: opening the database, tables, transports."""

from __future__ import annotations

import asyncio
import gc
import importlib.util
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any

from questloop.errors import MissingExtraError

if TYPE_CHECKING:
    from questloop.fleet.database import Database
    from questloop.fleet.models import VM
    from questloop.settings import Settings

MOST_CPU_SLOTS = 4096


def open_fleet() -> tuple[Database, Settings]:
    """The database, brought up to date, and the settings."""
    with _quick_imports():
        from questloop.settings import load

        settings = load()
        for package in ("sqlalchemy", "alembic", "asyncssh", "nats"):
            if importlib.util.find_spec(package) is None:
                raise MissingExtraError(package, "fleet")
        from questloop.fleet.database import Database
        from questloop.fleet.machines import name_bare_rows

    db = Database(settings.fleet.database_url.get_secret_value())
    db.migrate()
    name_bare_rows(db)
    return db, settings


_PLUGINS = "PYDANTIC_DISABLE_PLUGINS"


@contextmanager
def _quick_imports() -> Iterator[None]:
    """Import without two searches: for garbage, which imports leave none of, and for plugins of pydantic.

    For the latter it reads the metadata of every installed package. The two took 11 to 18% of `fleet jobs`.
    """
    asked = os.environ.get(_PLUGINS)
    os.environ[_PLUGINS] = "__all__" if asked is None else asked
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        if asked is None:
            del os.environ[_PLUGINS]


# Control characters as pictures of themselves: what a job or a machine printed must not steer a terminal.
_PICTURES = {code: 0x2400 + code for code in range(0x20)} | {0x7F: 0x2421}
_PICTURES |= dict.fromkeys(range(0x80, 0xA0), 0xFFFD)
_LINES = {code: picture for code, picture in _PICTURES.items() if chr(code) not in "\n\t"}


def plain(text: str, lines: bool = False) -> str:
    """`text` without control characters; `lines` keeps line ends and tabs, with a carriage return as an end.

    >>> plain("red \x1b[31m"), plain("10%\\r20%\\n", lines=True)
    ('red ␛[31m', '10%\\n20%\\n')
    """
    if not lines:
        return text.translate(_PICTURES)
    return text.replace("\r\n", "\n").replace("\r", "\n").translate(_LINES)


def table(columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    """Plain columns, never cut off, so that other programs can read them.

    A terminal that they do not fit is given a line per cell instead, and a free line between rows.
    """
    shown = [columns, *(tuple(map(plain, row)) for row in rows)]
    widths = [max(len(row[index]) for row in shown) for index in range(len(columns))]
    if sys.stdout.isatty() and sum(widths) + 2 * len(widths) - 2 > get_terminal_size().columns:
        _upright(shown)
        return
    for row in shown:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _upright(shown: list[tuple[str, ...]]) -> None:
    names, *rows = shown
    width = max(map(len, names))
    for place, row in enumerate(rows):
        if place:
            print()
        for name, cell in zip(names, row, strict=True):
            if cell:
                print(f"{name.ljust(width)}  {cell}")


def on_machine(vm: VM, settings: Settings, work: Any, timeout_s: float | None = None) -> Any:
    """What `work` returns for a transport to the machine."""
    from questloop.fleet.transport import TransportPool

    async def run() -> Any:
        pool = TransportPool(timeout_s or max(60, settings.fleet.ssh_timeout_s))
        try:
            return await work(await pool.get(vm))
        finally:
            await pool.close()

    return asyncio.run(run())


def columns(row: Any) -> dict[str, Any]:
    """A row as plain values for JSON."""
    values = {column.key: getattr(row, column.key) for column in row.__mapper__.column_attrs}
    return {
        name: value.isoformat() if hasattr(value, "isoformat") else value for name, value in values.items()
    }


MACHINE_COLUMNS = ("machine", "address", "state", "GPUs free", "CPU slots free", "slots", "polled")


def machine_rows(found: list[VM]) -> list[tuple[str, ...]]:
    """Machines with the state of every slot, by `MACHINE_COLUMNS`."""
    from questloop.fleet.machines import slot_state
    from questloop.fleet.states import SlotKind

    rows = []
    for vm in found:
        state = vm.state.value + (f", drained: {vm.drain_reason.value}" if vm.drain_reason else "")
        slots = " ".join(f"{slot.kind.value}{slot.index}:{slot_state(slot)}" for slot in vm.slots)
        polled = f"{vm.last_polled:%H:%M:%S}" if vm.last_polled else "never"
        gpus = f"{vm.available_gpus}/{vm.total_gpus}"
        if vm.last_polled is None and vm.available_gpus:
            gpus = f"{vm.available_gpus} claimed"  # by whoever inserted the row
        cpus = [slot_state(slot) for slot in vm.slots if slot.kind is SlotKind.CPU]
        address = vm.ip_address if vm.port == 22 else f"{vm.ip_address}:{vm.port}"
        cells = (vm.name, address, state, gpus, f"{cpus.count('free')}/{vm.cpu_slots}", slots, polled)
        rows.append(tuple(plain(cell or "") for cell in cells))
    return rows


def machines_table(found: list[VM]) -> Any:
    """The same as a live table."""
    from rich.markup import escape
    from rich.table import Table

    table = Table(*MACHINE_COLUMNS, box=None, pad_edge=False)
    for row in machine_rows(found):
        table.add_row(*map(escape, row))
    return table
