"""The command `questloop video`, which films episodes of a run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from questloop.cli.options import ConfigOption, JsonOption, LatestEpoch, StoreOption, StorePlace, store_of
from questloop.errors import BadDataError, UsageError

if TYPE_CHECKING:
    from questloop.episodes.replays import Replay
    from questloop.storage.store import Store


def video(
    place: StorePlace = None,
    store: StoreOption = None,
    epoch: LatestEpoch = None,
    episode: Annotated[str | None, typer.Option(help="id of an episode; unset: the best one")] = None,
    grid: Annotated[int, typer.Option(min=1, max=64, help="film so many episodes side by side")] = 1,
    steps: Annotated[
        int | None, typer.Option(min=1, help="film at most so many steps; unset: two minutes of the game")
    ] = None,
    output: Annotated[Path | None, typer.Option(help="file to write; unset: into the store")] = None,
    list_: Annotated[bool, typer.Option("--list", help="list the epoch's episodes, best first")] = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Film an epoch's best episode, a certain one, or many side by side, as MP4 into the store.

    Episodes are played again from their inputs, which every epoch keeps. Rewards, mode and the judges' scores
    stand below the screen.

    Examples:

        questloop video --store runs/demo

        questloop video --store runs/demo --epoch 1 --grid 16 --output grid.mp4

        questloop video --store runs/demo --list
    """
    from questloop import settings as settings_module
    from questloop.episodes.replays import read_replays
    from questloop.episodes.run import read_run
    from questloop.report import films
    from questloop.storage import keys
    from questloop.storage.store import open_existing_store
    from questloop.telemetry.progress import progress_bar

    if episode and grid > 1:
        raise UsageError("video takes one of --episode and --grid")
    settings = settings_module.load(config, {"store_url": store_of(place, store)}, settings_module.LEARNS)
    where = open_existing_store(settings.store)
    settings.game = settings.game.model_copy(update={"frame_skip": read_run(where).frame_skip})
    number = _latest(where) if epoch is None else epoch
    replays = read_replays(where, number)
    if list_:
        _print_list(films.ranked(replays), as_json)
        return
    chosen = _chosen(replays, episode) if episode else films.ranked(replays)[:grid]
    if not chosen:
        raise BadDataError(f"epoch {number} of {where.url} has no episode that can be filmed")
    with progress_bar("film", "frames") as tell:
        data = films.film(where, settings, number, chosen, steps, tell)
    if output:
        output.write_bytes(data)
        path = str(output)
    else:
        key = keys.film(number, episode or ("best" if grid == 1 else "grid"))
        where.put(key, data)
        path = f"{where.url.rstrip('/')}/{key}"
    _say(path, data, chosen, as_json)


def _say(path: str, data: bytes, chosen: Sequence[Replay], as_json: bool) -> None:
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


def _chosen(replays: tuple[Replay, ...], episode: str) -> list[Replay]:
    found = [item for item in replays if item.episode_id == episode]
    if not found:
        raise UsageError(f"--episode {episode}: not of this epoch; --list shows those there are")
    return found


def _print_list(replays: list[Replay], as_json: bool) -> None:
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
    for item in replays:
        reached = ", ".join(item.milestones) or "-"
        print(f"{item.episode_id}  {item.raw_return:8.2f}  {item.steps:6} steps  {item.outcome:10} {reached}")
