"""The command `questloop epoch`, which drives epochs by jobs on a Ray cluster."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from questloop.cli.options import (
    ConfigOption,
    EpochOption,
    JsonOption,
    StoreOption,
    StorePlace,
    loop_settings,
)
from questloop.errors import UsageError

if TYPE_CHECKING:
    from questloop.settings import StoreSettings
    from questloop.storage.store import Store


def epoch(
    address: Annotated[
        str | None, typer.Option(help="RAY_ADDRESS: the cluster's dashboard, http://host:8265.")
    ] = None,
    epoch: EpochOption = None,
    count: Annotated[int, typer.Option(min=1, help="Epochs to run.")] = 1,
    cycle: Annotated[
        str, typer.Option(help="What runs: a, training; b, judges and reward model; ab, both in turn.")
    ] = "ab",
    retries: Annotated[int, typer.Option(min=0, help="Tries of a job after the first.")] = 2,
    place: StorePlace = None,
    store: StoreOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Submit an epoch's training, evaluation and reward model to a Ray cluster, and follow them.

    Settings of this environment go with the jobs, secrets never: those are on the cluster. Where the store is
    named here, its commits say what is done already. Killed, the same command takes the running job up again.

    Examples:

        RAY_ADDRESS=http://127.0.0.1:8265 questloop epoch --epoch 3

        questloop epoch --address http://zelda-rl-head-svc:8265 --count 4 --cycle a --json
    """
    from questloop.pipeline.ray_jobs import EpochDriver

    settings = loop_settings(place, store, config, ray_address=address, epoch=epoch)
    where = settings.training.ray_address
    if not where:
        raise UsageError(
            "RAY_ADDRESS is not set: name the cluster's dashboard, for example http://127.0.0.1:8265"
        )
    driver = EpochDriver(
        where, _store(settings.store), retries, tell=lambda line: typer.echo(line, err=as_json)
    )
    first = settings.loop.epoch
    results = [
        result for number in range(first, first + count) for result in driver.run(number, _cycles(cycle))
    ]
    if as_json:
        typer.echo(json.dumps([result.to_json() for result in results]))
        return
    for result in results:
        typer.echo(f"epoch {result.epoch} {result.stage:12} {result.job or 'was done already'}")


def _store(settings: StoreSettings) -> Store | None:
    """The store that settings name; None where they name none, since the jobs' store is not the default's."""
    from questloop.storage.store import open_store

    return open_store(settings) if settings.store_url or settings.s3_endpoint_url else None


def _cycles(letters: str) -> tuple:
    from questloop.pipeline.ray_jobs import Cycle

    if letters not in ("a", "b", "ab"):
        raise UsageError(f"--cycle {letters!r}: one of a, b, ab")
    return tuple(Cycle(letter) for letter in letters)
