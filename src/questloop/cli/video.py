"""The command `questloop video`, which films episodes of a run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from questloop.cli.options import (
    ConfigOption,
    JsonOption,
    LatestEpoch,
    StoreOption,
    StorePlace,
    loop_settings,
)
from questloop.errors import BadDataError, UsageError
from questloop.local_files import write_file

if TYPE_CHECKING:
    from questloop.episodes.replays import Replay
    from questloop.settings import Settings
    from questloop.storage.store import Store


def video(
    place: StorePlace = None,
    store: StoreOption = None,
    epoch: LatestEpoch = None,
    episode: Annotated[str | None, typer.Option(help="Id of an episode; unset: the best one.")] = None,
    grid: Annotated[int, typer.Option(min=1, max=64, help="Film so many episodes side by side.")] = 1,
    over_epochs: Annotated[
        bool, typer.Option("--over-epochs", help="Film the middle episode of several epochs, side by side.")
    ] = False,
    subtitles: Annotated[
        bool, typer.Option("--subtitles", help="Show below an episode what a judge said of each segment.")
    ] = False,
    steps: Annotated[
        int | None, typer.Option(min=1, help="Film at most so many steps; unset: two minutes of the game.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="File to write: .mp4, .webp or .gif; unset: an MP4 in the store.")
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="List the epoch's episodes, best first.")] = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Film an epoch's best episode, a certain one, or many side by side.

    Episodes are played again from their inputs, which every epoch keeps. A single one runs at the game's own
    speed around what happens and faster in between; below the screen stand what happens, who plays and the
    judges' scores.

    Examples:

        questloop video runs/demo

        questloop video runs/demo --over-epochs --output learning.webp

        questloop video runs/demo --epoch 1 --grid 16 --output grid.mp4

        questloop video runs/demo --list
    """
    from questloop.episodes.replays import read_replays
    from questloop.report import films
    from questloop.telemetry.progress import progress_bar

    if sum((bool(episode), grid > 1, over_epochs)) > 1:
        raise UsageError("video takes one of --episode, --grid and --over-epochs")
    suffix = _suffix(output)
    where, settings, number = _opened(loop_settings(place, store, config), epoch)
    able = films.ranked(read_replays(where, number))
    if list_:
        _print_list(able, settings, as_json)
        return
    with progress_bar("film", "frames") as tell:
        if over_epochs:
            name, (data, chosen) = "epochs", films.film_epochs(where, settings, tell, suffix)
        else:
            name = episode or ("best" if grid == 1 else "grid")
            chosen = _chosen(able, episode, grid)
            data = films.film(where, settings, number, chosen, steps, tell, subtitles, suffix)
    _keep(where, number, name, output, data, chosen, as_json)


def _suffix(output: Path | None) -> str:
    from questloop.game.recording import FORMATS

    if output and output.suffix.lower() not in FORMATS:
        raise UsageError(f"--output {output}: a film ends in {', '.join(FORMATS)}")
    return output.suffix.lower() if output else ".mp4"


def _opened(settings: Settings, epoch: int | None) -> tuple[Store, Settings, int]:
    """The store, the settings with the run's own frames per step, and the epoch, the newest where unset."""
    from questloop.episodes.run import read_run
    from questloop.storage.store import open_existing_store

    store = open_existing_store(settings.store)
    settings.game = settings.game.model_copy(update={"frame_skip": read_run(store).frame_skip})
    return store, settings, _latest(store) if epoch is None else epoch


def _keep(
    store: Store,
    epoch: int,
    name: str,
    output: Path | None,
    data: bytes,
    chosen: Sequence[Replay],
    as_json: bool,
) -> None:
    """Write a film where it belongs, and say where that is."""
    from questloop.storage import keys

    if output:
        write_file(output, data)
        path = str(output)
    else:
        key = keys.film(epoch, name)
        store.put(key, data)
        path = f"{store.url.rstrip('/')}/{key}"
    if as_json:
        print(json.dumps({"video": path, "bytes": len(data), "episodes": [r.episode_id for r in chosen]}))
        return
    names = chosen[0].episode_id if len(chosen) == 1 else f"{len(chosen)} episodes"
    print(f"{path}: {names}, {len(data) / 1e6:.1f} MB")


def _latest(store: Store) -> int:
    from questloop.storage.commit import committed_epochs
    from questloop.storage.keys import Stage

    epochs = committed_epochs(store, Stage.ROLLOUTS)
    if not epochs:
        raise BadDataError(f"store {store.url} holds no played epoch; play one with `questloop rollouts`")
    return epochs[-1]


def _chosen(able: list[Replay], episode: str | None, grid: int) -> list[Replay]:
    if not able:
        raise BadDataError("the epoch has no episode that can be filmed; --epoch names another one")
    if episode is None:
        return able[:grid]
    found = [item for item in able if item.episode_id == episode]
    if not found:
        raise UsageError(f"--episode {episode}: none of this epoch that can be filmed; --list shows them")
    return found


def _print_list(replays: list[Replay], settings: Settings, as_json: bool) -> None:
    from questloop.episodes.plain import counted
    from questloop.report.summary import milestone_titles
    from questloop.report.words import OUTCOMES

    if as_json:
        rows = [
            {
                "episode": item.episode_id,
                "return": round(item.raw_return, 3),
                "steps": item.steps,
                "outcome": item.outcome.value,
                "milestones": item.milestones,
            }
            for item in replays
        ]
        print(json.dumps(rows))
        return
    titles = milestone_titles(settings.game)
    width = max((len(item.episode_id) for item in replays), default=0)
    print(f"{'episode':{width}}  {'return':>8}  {'length':>12}  {'how it ended':13}  milestones, last one")
    for item in replays:
        last = max(item.milestones, key=lambda name: item.milestones[name], default=None)
        reached = counted(len(item.milestones), "milestone") + (f": {titles.get(last, last)}" if last else "")
        line = f"{item.episode_id}  {item.raw_return:8.2f}  {item.steps:6,} steps"
        print(f"{line}  {OUTCOMES[item.outcome]:13}  {reached}")
