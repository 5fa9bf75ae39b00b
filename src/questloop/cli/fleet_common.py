"""Helpers that the commands of `questloop fleet` share: opening the database, tables, transports."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from questloop.errors import MissingExtraError

if TYPE_CHECKING:
    from questloop.fleet.database import Database
    from questloop.fleet.models import VM
    from questloop.settings import Settings


def open_fleet() -> tuple[Database, Settings]:
    """The database, brought up to date, and the settings."""
    from questloop.settings import load

    settings = load()
    try:
        from questloop.fleet import bus  # noqa: F401  the first import that needs the extra
        from questloop.fleet.database import Database
    except ModuleNotFoundError as error:
        raise MissingExtraError(error.name or "a package", "fleet") from None
    db = Database(settings.fleet.database_url.get_secret_value())
    db.migrate()
    return db, settings


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


def machines_table(found: list[VM]) -> Any:
    """Machines with the state of every slot."""
    from rich.table import Column, Table

    from questloop.fleet.machines import slot_state

    whole = [Column(name, no_wrap=True) for name in ("machine", "state")]
    table = Table(*whole, "GPUs free", "slots", "polled", box=None, pad_edge=False)
    for vm in found:
        state = vm.state.value + (f", drained: {vm.drain_reason.value}" if vm.drain_reason else "")
        slots = " ".join(f"{slot.kind.value}{slot.index}:{slot_state(slot)}" for slot in vm.slots)
        polled = f"{vm.last_polled:%H:%M:%S}" if vm.last_polled else "never"
        table.add_row(vm.name, state, f"{vm.available_gpus}/{vm.total_gpus}", slots, polled)
    return table
