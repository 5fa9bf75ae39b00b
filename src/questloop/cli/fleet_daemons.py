"""The commands `questloop fleet up`, `poller`, `dispatcher` and `requeue`, which run until stopped."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from questloop.cli.fleet_common import open_fleet

if TYPE_CHECKING:
    from questloop.settings import Settings

app = typer.Typer()


@app.command()
def up(
    cpu_slots: Annotated[
        int | None,
        typer.Option(min=0, help="jobs without a GPU at once here; unset: 1 where there is no GPU"),
    ] = None,
    metrics_port: Annotated[int | None, typer.Option(help="publish metrics on this port")] = None,
) -> None:
    """Start the whole fleet on this machine: NATS, SQLite, poller, dispatcher, requeue manager.

    Ctrl-C stops it; jobs that run then run on, and the next start finds them.

    Example:

        questloop fleet up
    """
    db, settings = open_fleet()
    from questloop.fleet.up import run_until_signal
    from questloop.fleet.up import up as run

    _set_up(metrics_port, settings)

    def ready(url: str) -> None:
        print(f"fleet up: database {db.url.render_as_string()}, NATS {_without_password(url)}")
        print("submit a job from another terminal: questloop fleet submit --gpus 0 --wait -- echo hello")
        sys.stdout.flush()

    run_until_signal(
        lambda stop: run(db, settings.fleet, settings.store, stop, cpu_slots=cpu_slots, ready=ready)
    )


@app.command()
def poller(
    metrics_port: Annotated[int | None, typer.Option(help="publish metrics on this port")] = None,
) -> None:
    """Run the GPU poller alone.

    Example:

        DATABASE_URL=postgresql://fleet@db/fleet questloop fleet poller
    """
    db, settings = open_fleet()
    from questloop.fleet.poller import GPUPoller
    from questloop.fleet.up import run_until_signal

    _set_up(metrics_port, settings)
    run_until_signal(lambda stop: GPUPoller(db, settings.fleet).run(stop))


@app.command()
def dispatcher(
    metrics_port: Annotated[int | None, typer.Option(help="publish metrics on this port")] = None,
) -> None:
    """Run a dispatcher alone; any number may run.

    Example:

        DATABASE_URL=postgresql://fleet@db/fleet NATS_URL=nats://bus:4222 questloop fleet dispatcher
    """
    db, settings = open_fleet()
    from questloop.fleet.dispatcher import GlobalJobDispatcher
    from questloop.fleet.up import run_until_signal

    _set_up(metrics_port, settings)
    run_until_signal(lambda stop: GlobalJobDispatcher(db, settings.fleet, settings.store).run(stop))


@app.command()
def requeue(
    metrics_port: Annotated[int | None, typer.Option(help="publish metrics on this port")] = None,
) -> None:
    """Run the requeue manager alone.

    Example:

        DATABASE_URL=postgresql://fleet@db/fleet questloop fleet requeue
    """
    db, settings = open_fleet()
    from questloop.fleet.requeue import RequeueManager
    from questloop.fleet.up import run_until_signal

    _set_up(metrics_port, settings)
    run_until_signal(lambda stop: RequeueManager(db, settings.fleet).run(stop))


def _set_up(port: int | None, settings: Settings) -> None:
    """Set a daemon up: its files are its owner's, and its metrics are published where asked for."""
    os.umask(0o077)
    if port is not None:
        from questloop.telemetry import metrics

        metrics.MetricsServer(port, settings.telemetry.metrics_address)


def _without_password(url: str) -> str:
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.rsplit('@', 1)[-1]}"
