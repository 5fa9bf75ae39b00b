"""A reward model's potential along the game's walkthrough, which no judge and no model saw.

A good potential rises from the beginning of the game to its first essence, and does not fall where the hero
enters the next room. GVL (Ma et al. 2024, arXiv 2411.04549) measures values of states so, by their rank
correlation with time.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import lru_cache
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

from questloop.episodes.run import read_run
from questloop.errors import BadDataError, UsageError
from questloop.game.emulator import Emulator
from questloop.game.input_script import parse_inputs, steps
from questloop.game.observation import OBSERVATION_SIZE, OBSERVATION_VERSION, Encoder
from questloop.game.profiles import profile_for
from questloop.game.rom import Rom
from questloop.rewards.shaping import Potential, annealed
from questloop.settings import Settings
from questloop.storage import keys
from questloop.storage.commit import committed_epochs
from questloop.storage.keys import Stage
from questloop.storage.store import Store


@dataclass(frozen=True)
class WalkedStates:
    """The states of the walkthrough from its first with control to the first essence, a step each.

    `observations` f32 [T, 128]; `place` i32 [T]: group and room; `free` bool [T]: the hero walks freely.
    """

    observations: NDArray[np.float32]
    place: NDArray[np.int32]
    free: NDArray[np.bool_]


@dataclass(frozen=True)
class AlongWalkthrough:
    """How a potential does there.

    `spearman`: rank correlation with time. `largest_fall`: of the potential, in its deviations, between the
    last step in a room and the first in the next. `trust` and `weight`: what it was found to be worth on
    play, and what it would weigh in training. None: not known.
    """

    spearman: float | None
    largest_fall: float | None
    trust: float | None
    weight: float

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def along_walkthrough(potential: Potential, walk: WalkedStates, coef: float) -> AlongWalkthrough:
    """Measure a potential; `coef`: SHAPING_COEF."""
    phi = potential(walk.observations).astype(np.float64)
    free = np.flatnonzero(walk.free)
    enters = np.flatnonzero(walk.place[free][1:] != walk.place[free][:-1])
    falls = phi[free[enters]] - phi[free[enters + 1]]
    weight = annealed(coef, potential.trust, potential.trust_low, potential.accuracy, potential.accuracy_low)
    rank = spearmanr(phi, np.arange(len(phi))).statistic if np.ptp(phi) > 0 else float("nan")
    return AlongWalkthrough(
        spearman=_known(rank),
        largest_fall=_known(max(falls, default=float("nan"))),
        trust=_known(potential.trust),
        weight=round(weight.value, 6),
    )


def measure_store(store: Store, settings: Settings) -> list[dict[str, Any]]:
    """`AlongWalkthrough` of the reward model of every epoch of a store that has one, with its epoch.

    Raises `BadDataError` where the store holds no run or no reward model, `UsageError` where its game ships
    no walkthrough.
    """
    from questloop.reward_model.network import RewardModel

    run = read_run(store)
    game = settings.game
    walk = walk_of(Rom.load(game.rom_path), run.frame_skip, game.game_profile)
    if walk is None:
        raise UsageError(f"the profile of {run.game} ships no walkthrough to measure a reward model along")
    epochs = committed_epochs(store, Stage.REWARD_MODEL)
    if not epochs:
        raise BadDataError(f"{store.url} holds no reward model yet: run `questloop reward-model`")
    found = []
    for epoch in epochs:
        key = keys.reward_model(epoch)
        model = RewardModel.load(store.get(key), key, OBSERVATION_VERSION)
        measured = along_walkthrough(model, walk, settings.exploration.shaping_coef)
        found.append({"epoch": epoch, **measured.to_json()})
    return found


@lru_cache(maxsize=4)
def walk_of(rom: Rom, frame_skip: int, game_profile: str | None = None) -> WalkedStates | None:
    """Play the walkthrough of a game in steps of at most `frame_skip` frames; None where it ships none.

    `game_profile` names the file of a profile of one's own (GAME_PROFILE).
    """
    profile = profile_for(rom, None, game_profile)
    if not profile.walkthrough:
        return None
    script = (resources.files("questloop.game") / "roms" / profile.walkthrough).read_text("utf-8")
    emulator, encoder = Emulator(rom, profile.layout), Encoder(1, profile, frame_skip)
    taps = np.zeros((1, profile.layout.size), np.uint8)
    seen: list[NDArray[np.float32]] = []
    places: list[int] = []
    frees: list[bool] = []
    for item in steps(parse_inputs(script, profile.walkthrough), frame_skip):
        emulator.step(item.action, item.frames)
        emulator.read(taps[0])
        columns = profile.columns(taps)
        if not seen and not columns.has_control[0]:
            continue
        out = np.zeros((1, OBSERVATION_SIZE), np.float32)
        encoder.encode(columns, np.array([item.action], np.uint8), out)
        seen.append(out[0])
        places.append(int(columns.place[0]))
        frees.append(bool(columns.walks_freely[0]))
        if columns.essence_count[0]:
            break
    emulator.close()
    return WalkedStates(np.stack(seen), np.array(places, np.int32), np.array(frees))


def _known(value: float) -> float | None:
    return round(float(value), 6) if np.isfinite(value) else None
