"""The commands `questloop fleet up`, `poller`, `dispatcher` and `requeue`, which run until stopped."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from questloop.cli.fleet_common import MOST_CPU_SLOTS, open_fleet

if TYPE_CHECKING:
    from questloop.fleet.database import Database
    from questloop.settings import Settings

app = typer.Typer()

MetricsPort = Annotated[int | None, typer.Option(min=0, max=65535, help="Publish metrics on this port.")]


@app.command()
def up(
    cpu_slots: Annotated[
        int | None,
        typer.Option(
            min=0, max=MOST_CPU_SLOTS, help="Jobs without a GPU at once here; unset: 1 where there is no GPU."
        ),
    ] = None,
    metrics_port: MetricsPort = None,
) -> None:
    """Start the whole fleet on this machine: NATS, SQLite, poller, dispatcher, requeue manager.

    Ctrl-C stops it; jobs that run then run on, and the next start finds them.

    Example:

        questloop fleet up
    """
    typer.echo("starting NATS, the database, poller, dispatcher and requeue manager", err=True)
    db, settings = _set_up(metrics_port)
    from questloop.fleet.up import run_until_signal
    from questloop.fleet.up import up as run

    def ready(url: str) -> None:
        print(f"fleet up: database {db.url.render_as_string()}, NATS {_without_password(url)}")
        print("submit a job from another terminal: questloop fleet submit --gpus 0 --wait -- echo hello")
        sys.stdout.flush()

    run_until_signal(
        lambda stop: run(db, settings.fleet, settings.store, stop, cpu_slots=cpu_slots, ready=ready)
    )
    print("fleet stopped; jobs that run now run on, and the next `questloop fleet up` finds them")


@app.command()
def poller(metrics_port: MetricsPort = None) -> None:
    """Run the GPU poller alone.

    Example:

        DATABASE_URL=postgresql://fleet@db/fleet questloop fleet poller
    """
    db, settings = _set_up(metrics_port)
    from questloop.fleet.poller import GPUPoller
    from questloop.fleet.up import run_until_signal

    run_until_signal(GPUPoller(db, settings.fleet).run)


@app.command()
def dispatcher(metrics_port: MetricsPort = None) -> None:
    """Run a dispatcher alone; any number may run.

    Example:

        DATABASE_URL=postgresql://fleet@db/fleet NATS_URL=nats://bus:4222 questloop fleet dispatcher
    """
    db, settings = _set_up(metrics_port)
    from questloop.fleet.dispatcher import GlobalJobDispatcher
    from questloop.fleet.up import run_until_signal

    run_until_signal(GlobalJobDispatcher(db, settings.fleet, settings.store).run)


@app.command()
def requeue(metrics_port: MetricsPort = None) -> None:
    """Run the requeue manager alone.

    Example:

        DATABASE_URL=postgresql://fleet@db/fleet questloop fleet requeue
    """
    db, settings = _set_up(metrics_port)
    from questloop.fleet.requeue import RequeueManager
    from questloop.fleet.up import run_until_signal

    run_until_signal(RequeueManager(db, settings.fleet).run)


def _set_up(port: int | None) -> tuple[Database, Settings]:
    """Open the fleet for a daemon: its files are its owner's, and its metrics are published if asked for."""
    db, settings = open_fleet()
    os.umask(0o077)
    if port is not None:
        from questloop.telemetry import metrics

        metrics.MetricsServer(port, settings.telemetry.metrics_address)
    return db, settings


def _without_password(url: str) -> str:
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.rsplit('@', 1)[-1]}"
