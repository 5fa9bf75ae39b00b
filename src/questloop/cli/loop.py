"""The commands of the training loop: `demo`, `pipeline`, its single stages, and `report`."""

from __future__ import annotations

import json
import os
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from questloop.cli import advice, stopping
from questloop.cli.loop_words import closing, dashboard_beside, opening, said_when_slow
from questloop.cli.options import (
    ConfigOption,
    EpochOption,
    JsonOption,
    SeedOption,
    StoreOption,
    StorePlace,
    loop_settings,
    store_of,
)
from questloop.errors import BadDataError

if TYPE_CHECKING:
    from rich.console import Console

    from questloop.settings import Settings

DashboardOption = Annotated[
    bool, typer.Option("--dashboard", help="Serve the live page meanwhile, on this machine alone.")
]

DEMO = {
    "epoch_steps": 81_920,
    "episode_length": 400,
    "envs_per_worker": 16,
    "export_segments_per_epoch": 200,
    "judge_budget": 40,
}
"""What the demo sets beside what the loop's commands do (`LEARNS`): two short epochs that end episodes."""

DEMO_STORE = "runs/demo"


def demo(
    place: StorePlace = None,
    store: StoreOption = None,
    seed: SeedOption = None,
    epochs: Annotated[int, typer.Option(min=1, help="Epochs to play.")] = 2,
    fresh: Annotated[bool, typer.Option(help="Delete what an earlier demo left in the store first.")] = False,
    dashboard: DashboardOption = False,
    as_json: JsonOption = False,
) -> None:
    """Train, judge, learn a reward model and train again, shaped by it, on the bundled game.

    A demo that was stopped goes on; a finished one shows its table again.

    Examples:

        questloop demo
        questloop demo --dashboard
        questloop demo --fresh --seed 1 --json
        questloop demo --store s3://questloop
    """
    from questloop.settings import LEARNS, load

    settings = load(None, {"seed": seed, "store_url": store_of(place, store) or _demo_store()}, LEARNS | DEMO)
    if fresh:
        _clear(settings)
    _run(settings, epochs, as_json, dashboard)


def pipeline(
    place: StorePlace = None,
    store: StoreOption = None,
    epochs: Annotated[int | None, typer.Option(min=1, help="Stop after this many epochs.")] = None,
    hours: Annotated[
        float | None, typer.Option(help="RUN_HOURS: begin no epoch after so many hours.")
    ] = None,
    config: ConfigOption = None,
    dashboard: DashboardOption = False,
    as_json: JsonOption = False,
) -> None:
    """Run the full loop for RUN_HOURS; resumes where it stopped.

    Examples:

        questloop pipeline --hours 8
        ROM_PATH=zelda.gbc STORE_URL=s3://questloop questloop pipeline
    """
    settings = loop_settings(place, store, config, run_hours=hours)
    _run(settings, epochs, as_json, dashboard)


def rollouts(
    place: StorePlace = None,
    store: StoreOption = None,
    epoch: EpochOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run one training epoch: collect, learn, export segments, write the checkpoint.

    Example:

        EPOCH=3 questloop rollouts --store runs/store
    """
    from questloop.pipeline import stages
    from questloop.pipeline.context import open_context
    from questloop.pipeline.display import Display
    from questloop.storage.keys import Stage
    from questloop.storage.store import open_existing_store
    from questloop.training.cluster import require_gpu
    from questloop.training.trainer import Trainer

    settings = loop_settings(place, store, config, epoch=epoch)
    number = settings.loop.epoch
    require_gpu(settings.training)
    if number > 0:
        stages.needs(open_existing_store(settings.store), number - 1, Stage.ROLLOUTS, "rollouts")
    with (
        open_context(settings) as context,
        Trainer(settings, context.store) as trainer,
        Display(context).stage(number, Stage.ROLLOUTS) as bar,
    ):
        commit = stages.rollouts(context, number, trainer, bar.training, bar.announce)
    _print_info(commit.info, as_json)


def reward_model(
    pairwise: Annotated[
        bool, typer.Option("--pairwise", help="Learn from `questloop judge compare` in place of scores.")
    ] = False,
    along_walkthrough: Annotated[
        bool,
        typer.Option(
            "--along-walkthrough",
            help="Learn nothing: print how every epoch's model does along the game's walkthrough.",
        ),
    ] = False,
    place: StorePlace = None,
    store: StoreOption = None,
    epoch: EpochOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Learn the reward model from an epoch's scores and those of the epochs before.

    Examples:

        EPOCH=3 questloop reward-model --json
        questloop judge compare --epoch 3 --pairs 500 && EPOCH=3 questloop reward-model --pairwise
        questloop reward-model runs/demo --along-walkthrough --json
    """
    from questloop.pipeline import stages
    from questloop.pipeline.context import open_context
    from questloop.pipeline.display import Display
    from questloop.storage.keys import Stage
    from questloop.storage.store import open_existing_store

    settings = loop_settings(place, store, config, epoch=epoch)
    if along_walkthrough:
        _print_walkthrough(settings, as_json)
        return
    number = settings.loop.epoch
    stages.needs(open_existing_store(settings.store), number, Stage.EVALUATE, "evaluate")
    with open_context(settings) as context, Display(context).stage(number, Stage.REWARD_MODEL) as bar:
        commit = stages.reward_model(context, number, bar.counting, pairwise)
    _print_info(commit.info, as_json)


def report(
    place: StorePlace = None,
    store: StoreOption = None,
    tensorboard: Annotated[
        Path | None, typer.Option(help="Folder for the run's curves as a TensorBoard event file.")
    ] = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write the HTML report of a run into its store, or here where that may only be read.

    Examples:

        questloop report runs/demo
        questloop report runs/demo --tensorboard runs/tensorboard
    """
    with said_when_slow("reading the run and writing its report"):
        from questloop.report.report import write_report
        from questloop.report.scalars import write_scalars
        from questloop.storage.commit import committed_epochs
        from questloop.storage.keys import Stage
        from questloop.storage.store import open_existing_store
        from questloop.telemetry.progress import progress_bar

        settings = loop_settings(place, store, config)
        where = open_existing_store(settings.store)
        if not committed_epochs(where, Stage.ROLLOUTS):
            raise BadDataError(
                f"store {where.url}: no epoch has been trained yet, so there is nothing to report; "
                "run `questloop pipeline` on it first"
            )
        with progress_bar("report", "parts") as tell:
            written = {"report": write_report(where, settings, tell, Path("report.html"))}
        if tensorboard:
            written["tensorboard"] = str(write_scalars(where, tensorboard))
    print(json.dumps(written) if as_json else "\n".join(written.values()))


def _print_walkthrough(settings: Settings, as_json: bool) -> None:
    from questloop.pipeline.walkthrough import measure_store
    from questloop.storage.store import open_existing_store

    found = measure_store(open_existing_store(settings.store), settings)
    if as_json:
        print(json.dumps({"epochs": found}, allow_nan=False))
        return
    for each in found:
        print("  ".join(f"{name} {'not known' if value is None else value}" for name, value in each.items()))


def _run(settings: Settings, epochs: int | None, as_json: bool, dashboard: bool) -> None:
    from rich.console import Console

    from questloop.telemetry.progress import heartbeat

    if settings.training.learner_gpus:  # PyTorch is asked before a store is begun
        from questloop.training.cluster import require_gpu

        require_gpu(settings.training)
    for line in opening(settings, epochs, dashboard):
        typer.echo(line, err=True)
    with dashboard_beside(settings) if dashboard else nullcontext() as page:
        if page:
            typer.echo(page, err=True)
        typer.echo("loading PyTorch and Ray", err=True)
        with heartbeat(lambda seconds: typer.echo(f"  still loading, {seconds:.0f} s", err=True)):
            from questloop.pipeline.display import print_table
            from questloop.pipeline.loop import run_pipeline
        result = run_pipeline(settings, epochs)
    stopping.begun()
    if as_json:
        document = {
            "rows": [row.to_json() for row in result.rows],
            "summary": list(result.summary),
            "report": result.report,
            "film": result.film,
            "store": result.store,
            "seconds": round(result.seconds, 1),
        }
        print(json.dumps(document, allow_nan=False))
        return
    console = Console()
    print_table(result.rows, console)
    for sentence in result.summary:
        console.print(f"\n{sentence}", highlight=False, markup=False)
    console.print("")
    if result.film and console.is_terminal and console.color_system in ("256", "truecolor"):
        _print_still(console, settings, result.film.removeprefix(f"{result.store.rstrip('/')}/"))
    made = [("report", result.report), ("film", result.film), ("store", result.store)]
    for name, where in made:
        if where:
            console.print(f"{name:8}{where}", highlight=False, soft_wrap=True, markup=False)
    console.print(f"took    {result.seconds:.0f} s", highlight=False)
    for line in closing(settings):
        console.print(line, highlight=False, soft_wrap=True, markup=False)


def _print_still(console: Console, settings: Settings, key: str) -> None:
    """The film's first picture, where the terminal has room for it and the film can be read here."""
    from questloop.report.still import COLUMNS, still
    from questloop.storage.store import open_existing_store

    if console.width >= COLUMNS:
        with suppress(ModuleNotFoundError, OSError, ValueError, StopIteration):  # of PyAV; an ornament
            console.print(still(open_existing_store(settings.store).get(key)))


def _demo_store() -> str | None:
    if any(os.environ.get(name) for name in ("STORE_URL", "S3_ENDPOINT_URL")):
        return None
    advice.note_store(DEMO_STORE)
    return DEMO_STORE


def _clear(settings: Settings) -> None:
    from questloop.storage import keys
    from questloop.storage.store import open_store

    store = open_store(settings.store)
    for prefix in (keys.EPISODES, keys.MODELS):
        store.delete([entry.key for entry in store.list(prefix)])


def _print_info(info: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print(json.dumps(info, allow_nan=False))
        return
    for name, value in info.items():
        if isinstance(value, int | float | str) or value is None:
            print(f"{name:28} {value}")
