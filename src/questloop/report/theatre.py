"""Plays the episodes of a run again from their inputs, with what each step earned."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from questloop.episodes.replays import Replay
from questloop.episodes.trace import MODES
from questloop.errors import BadDataError, UsageError
from questloop.game.emulator import Emulator
from questloop.game.profile import Profile
from questloop.game.profiles import profile_for
from questloop.game.rom import Rom
from questloop.game.start_states import BEGINNING, load_start_states
from questloop.game.state_file import SaveState
from questloop.game.walking import ground_of
from questloop.rewards.aims import Aims, aims_in_force
from questloop.rewards.total import Rewards
from questloop.setting_types import AimsOf
from questloop.settings import RewardSettings, Settings

_PICTURE_FRAMES = 4  # frames of the game between two pictures, as near as whole parts of a step come to it

Frame = NDArray[np.uint8]


@dataclass(frozen=True)
class Shot:
    """A picture of an episode that is played again, and what holds then; without one, a step."""

    step: int
    frame: Frame | None  # u8[144, 160, 3]; None where it was not asked for
    mode: str
    earned: Mapping[str, float]  # reward parts of the step that are not 0, at its end
    total: float  # reward of the episode so far
    place: str = ""  # name of the room; empty for one without a name


class Theatre:
    """Plays the episodes of a run again. The ROM and the start states are those of the settings."""

    def __init__(self, rom: Rom, profile: Profile, settings: Settings) -> None:
        self._rom, self._profile, self._settings = rom, profile, settings
        self._rewards: RewardSettings = settings.rewards
        self._places = profile.place_names
        self.titles = {milestone.key: milestone.title for milestone in profile.milestones}

    @classmethod
    def of(cls, settings: Settings) -> Theatre:
        """Of the game that the settings name."""
        rom = Rom.load(settings.game.rom_path)
        return cls(rom, profile_for(rom, settings.game.guide, settings.game.game_profile), settings)

    def play(self, replay: Replay, drawn: range) -> Iterator[Shot]:
        """Every step of `replay` up to the end of `drawn`; those in it by `pictures_per_step` shots.

        Raises `BadDataError` where the whole episode was played and does not end as it did then: its inputs
        are of a version that did not note when a game waited for a remote planner, or the start state or
        FRAME_SKIP is another one now.
        """
        start = self._start(replay)
        emulator = Emulator(self._rom, self._profile.layout)
        try:
            yield from self._shots(emulator, replay, start, drawn)
        finally:
            emulator.close()

    def _shots(
        self, emulator: Emulator, replay: Replay, start: SaveState | None, drawn: range
    ) -> Iterator[Shot]:
        row = np.zeros((1, self._profile.layout.size), np.uint8)
        rewards, total = Rewards(1, self._rewards, self._aims(emulator)), 0.0
        reloads, skip, place = set(replay.reloads), self._settings.game.frame_skip, ""
        if start is not None:
            emulator.load(start)
        emulator.read(row[0])
        rewards.reset(np.zeros(1, np.intp), self._profile.columns(row.copy()))
        for step, mode in enumerate(replay.mode[: drawn.stop]):
            if step in reloads:
                emulator.load(emulator.save())
            inputs = replay.inputs(step, skip)
            if step in drawn:
                *between, last = _pictures(emulator, inputs, skip)
                yield from (Shot(step, picture, MODES[mode], {}, total, place) for picture in between)
            else:
                last = None
                for action, frames in inputs:
                    emulator.step(action, frames)
            emulator.read(row[0])
            columns = self._profile.columns(row.copy())
            place = self._places.get((int(columns.group[0]), int(columns.room[0])), "")
            total += float(rewards.step(columns, () if inputs else (0,))[0])
            parts = zip(rewards.names, rewards.parts[0].tolist(), strict=True)
            yield Shot(
                step=step,
                frame=last,
                mode=MODES[mode],
                earned={name: value for name, value in parts if value},
                total=total,
                place=place,
            )
        if drawn.stop >= replay.steps and sha256(row[0].tobytes()).hexdigest() != replay.last_taps:
            raise BadDataError(
                f"episode {replay.episode_id} does not play again as it was played: FRAME_SKIP or "
                "START_STATES is another one now, or its game waited for a remote planner, which earlier "
                "releases did not note; its segments have their pictures"
            )

    def _aims(self, emulator: Emulator) -> Aims | None:
        """What pays for coming nearer to the guide's next aim, where the settings have it on.

        Where judges chose the aims (AIMS=judges), other epochs had others, and their pay is left out.
        """
        exploration, profile = self._settings.exploration, self._profile
        if profile.guide is None or aims_in_force(exploration, profile.guide) is not AimsOf.GUIDE:
            return None
        how = exploration.shaping, self._settings.training.gamma
        return Aims(1, profile, profile.guide, lambda slot: ground_of(emulator, profile), *how)

    def _start(self, replay: Replay) -> SaveState | None:
        name = replay.start_state
        if name is None:
            return None
        if name.startswith("archive-"):
            raise UsageError(
                f"episode {replay.episode_id} begins at {name}: the archive may hold a better state there "
                "by now; film one that begins at a start state"
            )
        where = self._settings.game.start_states
        starts = load_start_states(self._rom, self._profile, str(where) if where else None, name != BEGINNING)
        return starts.named(name).state


def pictures_per_step(frame_skip: int) -> int:
    """Pictures that a filmed step gives: one every four frames of the game, where four divide the step."""
    return 1 if frame_skip % _PICTURE_FRAMES else frame_skip // _PICTURE_FRAMES


def _pictures(emulator: Emulator, inputs: Sequence[tuple[int, int]], frame_skip: int) -> list[Frame]:
    """Play a step; `pictures_per_step` pictures of it, all alike where the game stood still."""
    count = pictures_per_step(frame_skip)
    every = frame_skip // count
    shown = [picture for action, frames in inputs for picture in emulator.show(action, frames, every)]
    return shown[-count:] or [emulator.frame()] * count
