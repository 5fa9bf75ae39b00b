"""Runs the whole fleet on one machine: NATS, database, poller, dispatcher and requeue manager."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

from pydantic import SecretStr

from questloop.errors import UnavailableError
from questloop.fleet import bus, machines
from questloop.fleet.database import Database
from questloop.fleet.dispatcher import GlobalJobDispatcher
from questloop.fleet.machines import UnknownMachineError
from questloop.fleet.poller import GPUPoller
from questloop.fleet.requeue import RequeueManager
from questloop.fleet.states import TransportKind
from questloop.settings import FleetSettings, StoreSettings
from questloop.telemetry.logs import get_logger

log = get_logger(__name__)
LOCAL_MACHINE = "local"


async def up(
    db: Database,
    settings: FleetSettings,
    store: StoreSettings,
    stop: asyncio.Event,
    cpu_slots: int | None = None,
    ready: Callable[[str], None] = lambda url: None,
) -> None:
    """Run the whole fleet in this process until `stop`; jobs that run then run on.

    `cpu_slots`: jobs without a GPU at once on this machine; None gives one where there is no nvidia-smi.
    """
    add_local_machine(db, cpu_slots)
    with contextlib.ExitStack() as stack:
        if settings.nats_url is None:
            settings = settings.model_copy(update={"nats_url": SecretStr(_bus_url(stack))})
        assert settings.nats_url is not None
        ready(settings.nats_url.get_secret_value())
        await asyncio.gather(
            GPUPoller(db, settings).run(stop),
            GlobalJobDispatcher(db, settings, store).run(stop),
            RequeueManager(db, settings).run(stop),
        )


def add_local_machine(db: Database, cpu_slots: int | None = None) -> None:
    """Make this machine one of the fleet, reached without SSH."""
    if cpu_slots is None:
        cpu_slots = 0 if shutil.which("nvidia-smi") else 1
    try:
        if machines.get(db, LOCAL_MACHINE).cpu_slots != cpu_slots:
            machines.set_cpu_slots(db, LOCAL_MACHINE, cpu_slots)
    except UnknownMachineError:
        machines.add(db, LOCAL_MACHINE, "local", transport=TransportKind.LOCAL, cpu_slots=cpu_slots)


def run_until_signal(work: Callable[[asyncio.Event], object]) -> None:
    """Run `work(stop)` and set `stop` at SIGTERM or Ctrl-C."""

    async def main() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        await work(stop)  # type: ignore[misc]

    asyncio.run(main())


def _bus_url(stack: contextlib.ExitStack) -> str:
    """The URL of a NATS server of our own, or of one that has the port already."""
    try:
        return stack.enter_context(bus.embedded_server(4222, Path.home() / ".questloop" / "nats"))
    except UnavailableError as error:
        log.info("nats_not_started", url=bus.DEFAULT_URL, detail=str(error))
        return bus.DEFAULT_URL
