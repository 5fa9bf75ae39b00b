"""Options that several commands share, declared once: the same thing has the same name everywhere.

A store is `--store` everywhere and a job of the fleet `--job`; both may be given in place instead.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from questloop.cli.advice import named
from questloop.errors import UsageError

if TYPE_CHECKING:
    from questloop.settings import Settings

StorePlace = Annotated[
    str | None,
    typer.Argument(
        metavar="STORE", help="The store, in place of --store.", show_default=False, callback=named
    ),
]
StoreOption = Annotated[
    str | None,
    typer.Option("--store", help="STORE_URL: a path, file:///... or s3://bucket.", callback=named),
]
EpochOption = Annotated[
    int | None, typer.Option("--epoch", min=0, help="EPOCH: number of the epoch, from 0.")
]
LatestEpoch = Annotated[int | None, typer.Option("--epoch", min=0, help="Epoch; unset: the latest.")]
ConfigOption = Annotated[Path | None, typer.Option("--config", help="TOML file of settings.", callback=named)]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
RomOption = Annotated[Path | None, typer.Option("--rom", help="ROM; unset: ROM_PATH or the bundled game.")]
StartStatesOption = Annotated[
    str | None, typer.Option("--start-states", help="START_STATES: folder or store of start states.")
]
SeedOption = Annotated[
    int | None, typer.Option("--seed", min=0, help="SEED: root of every random stream.", callback=named)
]
PortOption = Annotated[
    int, typer.Option("--port", min=0, max=65535, help="Port to listen on; 0 takes a free one.")
]

JobPlace = Annotated[
    str | None, typer.Argument(metavar="JOB", help="Id of the job, in place of --job.", show_default=False)
]
JobOption = Annotated[str | None, typer.Option("--job", help="Id of the job.")]
JobsPlace = Annotated[
    list[str] | None, typer.Argument(metavar="JOB", help="Ids of jobs.", show_default=False)
]
JobsOption = Annotated[list[str] | None, typer.Option("--job", help="Id of a job; may be repeated.")]


def store_of(place: str | None, option: str | None) -> str | None:
    """The store that was named, None where neither way was used; `UsageError` where both name another."""
    if place and option and place != option:
        raise UsageError(f"STORE {place} and --store {option}: name one store")
    return place or option


def loop_settings(
    place: str | None, option: str | None, config: Path | None = None, **flags: Any
) -> Settings:
    """Settings of a command on the loop's store, as the loop itself has them.

    `flags` are by the names of their settings; None where an option was not given.
    """
    from questloop.settings import LEARNS, load

    return load(config, {"store_url": store_of(place, option), **flags}, LEARNS)


def job_of(place: str | None, option: str | None) -> str:
    """The job that was named; `UsageError` where none or two were."""
    if place and option and place != option:
        raise UsageError(f"JOB {place} and --job {option}: name one job")
    if not (place or option):
        raise UsageError("no job: name one by its id; `questloop fleet jobs` lists them")
    return str(place or option)


def jobs_of(places: list[str] | None, options: list[str] | None) -> list[str]:
    """The jobs that were named, each once, in order; `UsageError` where none was."""
    named = list(dict.fromkeys([*(places or ()), *(options or ())]))
    if not named:
        raise UsageError("no job: name some by their ids; `questloop fleet jobs` lists them")
    return named
