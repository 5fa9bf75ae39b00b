"""Chooses where an episode begins: the game's start, the curriculum's stage or an archived state."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from questloop.errors import UsageError
from questloop.exploration.archive import Archive, Delta, Explorer
from questloop.exploration.curriculum import Curriculum
from questloop.game.columns import Columns
from questloop.game.profile import Profile
from questloop.game.rom import Rom
from questloop.game.start_states import BEGINNING, StartState, StartStates, beginnings, load_start_states
from questloop.game.state_file import SaveState
from questloop.settings import GameSettings


@dataclass
class Guidance:
    """What the trainer knows about starts and aims, sent to the runners with each rollout."""

    archive: Archive | None = None
    curriculum: Curriculum | None = None
    aims: tuple[int, ...] | None = None
    """places of the aims in force, `game.guide.NOWHERE` where none is known; None: those of the guide"""


class Starter:
    """Chooses starts for the slots of one environment."""

    def __init__(self, num_slots: int, states: StartStates, archive_fraction: float = 0.0) -> None:
        self._states, self._fraction = states, archive_fraction
        self._explorer = Explorer(num_slots, Archive()) if archive_fraction else None
        self._curriculum: Curriculum | None = None

    def follow(self, guidance: Guidance) -> None:
        """Go on with the trainer's archive and curriculum."""
        if self._explorer is not None and guidance.archive is not None:
            self._explorer.renew(guidance.archive)
        self._curriculum = guidance.curriculum

    def choose(self, rng: np.random.Generator) -> StartState:
        """A start, drawn from the slot's own stream."""
        if self._explorer is not None and rng.random() < self._fraction:
            state = self._explorer.choose(rng)
            if state is not None:
                return StartState(f"archive-{state.cell}", state)
        name = self._curriculum.choose(rng) if self._curriculum is not None else BEGINNING
        return self._states.choose(rng) if name == BEGINNING else self._states.named(name)

    def begin(self, slots: NDArray[np.intp], columns: Columns) -> None:
        """Episodes begin in `slots`, where `columns` [N] are read."""
        if self._explorer is not None:
            self._explorer.reset(slots, columns)

    def explore(
        self,
        columns: Columns,
        raw_return: NDArray[np.float32],
        over: NDArray[np.bool_],
        save: Callable[[int], SaveState],
    ) -> None:
        """Keep the states of cells that the archive wants and an episode can begin in.

        `raw_return` and `over` are by slot; `save` gives a slot's state. They are a few hundred in a run.
        """
        if self._explorer is None:
            return
        for slot, cell in self._explorer.visit(columns, raw_return):
            if not over[slot]:
                self._explorer.keep(cell, float(raw_return[slot]), save(slot))

    def take_delta(self) -> Delta | None:
        """What the archive is to learn since the last call; None without an archive."""
        return None if self._explorer is None else self._explorer.take_delta()

    def state_dict(self) -> dict[str, Any]:
        """What is kept by slot."""
        return dict(self._explorer.state_dict()) if self._explorer is not None else {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over what `state_dict` gave."""
        if self._explorer is not None and state:
            self._explorer.load_state_dict(state)


def game_starts(game: GameSettings, rom: Rom, profile: Profile, milestones: bool = False) -> StartStates:
    """What episodes begin from: START_STATES, else the game's own beginning.

    `milestones` adds the states at milestones, which the curriculum names and chance never chooses.
    """
    if game.start_states is None and milestones:
        return StartStates(tuple(beginnings(rom, profile, milestones=True)))
    return load_start_states(rom, profile, str(game.start_states) if game.start_states else None)


def curriculum_starts(states: StartStates, profile: Profile) -> tuple[str, ...]:
    """Names of the start states in order of play: the beginning, then one per milestone.

    Raises `UsageError` where there are no states at milestones.
    """
    names = {state.name for state in states.states}
    found = [key for milestone in profile.milestones if (key := milestone.key) in names]
    if BEGINNING not in names or not found:
        raise UsageError(
            f"CURRICULUM needs start states named {BEGINNING!r} and after milestones, such as "
            f"{profile.milestones[0].key!r}: make them with `questloop states capture`, or set it to false"
        )
    return (BEGINNING, *found)
