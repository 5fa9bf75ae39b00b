"""The command `questloop evaluate-policy`, which plays whole episodes with a trained policy."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Annotated

import typer

from questloop.cli.options import (
    ConfigOption,
    JsonOption,
    LatestEpoch,
    SeedOption,
    StoreOption,
    StorePlace,
    loop_settings,
)

if TYPE_CHECKING:
    from questloop.settings import Settings
    from questloop.training.evaluation import PlayedEpisode
    from questloop.training.player import Player

POWER_ON = "power-on"


def evaluate_policy(
    place: StorePlace = None,
    store: StoreOption = None,
    epoch: LatestEpoch = None,
    episodes: Annotated[int, typer.Option(min=1, help="Episodes to play, side by side.")] = 20,
    start: Annotated[str, typer.Option(help="Start state of every episode, or 'power-on'.")] = POWER_ON,
    planner: Annotated[bool, typer.Option("--planner", help="Let the planner take over too.")] = False,
    seed: SeedOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Play whole episodes with a checkpoint's policy, and count the milestones that they reach.

    Actions are drawn from the policy by the seed. An episode ends with the game, or after EPISODE_LENGTH.

    Examples:

        questloop evaluate-policy runs/demo

        EPISODE_LENGTH=750 questloop evaluate-policy --store runs/full --episodes 20 --json
    """
    from questloop.game.profiles import profile_in_force
    from questloop.storage.store import open_existing_store
    from questloop.telemetry.progress import heartbeat
    from questloop.training.player import load_player

    settings = loop_settings(place, store, config, seed=seed)
    where = open_existing_store(settings.store)
    if not planner and not as_json:
        typer.echo(
            "planner off: the policy plays alone; demo and pipeline train with it: --planner", err=True
        )
    with heartbeat(lambda seconds: typer.echo(f"  still playing, {seconds:.0f} s", err=True)):
        player = load_player(where, epoch, settings.loop.seed)
        played = _play(settings, player, start, episodes, planner)
    milestones = Counter(name for episode in played for name in episode.milestones)
    document = {
        "store": where.url,
        "epoch": epoch,
        "start": start,
        "episodes": len(played),
        "milestones_per_episode": sum(milestones.values()) / len(played),
        "rooms_per_episode": sum(episode.rooms for episode in played) / len(played),
        "steps_per_episode": sum(episode.steps for episode in played) / len(played),
        "milestones": dict(milestones),
    }
    if as_json:
        typer.echo(json.dumps(document))
        return
    for name in ("milestones_per_episode", "rooms_per_episode", "steps_per_episode"):
        typer.echo(f"{name.replace('_', ' '):24} {document[name]:.2f}")
    titles = {each.key: each.title for each in profile_in_force(settings.game).milestones}
    for name, count in milestones.most_common():
        typer.echo(f"{count:3} of {len(played)} episodes  {titles.get(name, name)}")


def _play(
    settings: Settings, player: Player, start: str, episodes: int, planned: bool
) -> list[PlayedEpisode]:
    from questloop.game.emulator import Emulator
    from questloop.game.profiles import profile_for
    from questloop.game.rom import Rom
    from questloop.game.start_states import StartState, load_start_states
    from questloop.planner.client import planner_of
    from questloop.training.evaluation import play_episodes

    rom = Rom.load(settings.game.rom_path)
    profile = profile_for(rom, settings.game.guide, settings.game.game_profile)
    if start == POWER_ON:
        emulator = Emulator(rom, profile.layout)
        begin = StartState(POWER_ON, emulator.power_on)
        emulator.close()
    else:
        begin = load_start_states(rom, profile, settings.game.start_states, milestones=True).named(start)
    planner = planner_of(settings.llm, profile.guide.text if profile.guide else "") if planned else None
    return play_episodes(player, settings.game, begin, episodes, planner)
