"""Start states: named save states that episodes begin from.

They stand in a folder or a store (`START_STATES`), one `NAME.state` each, with their weights in
`weights.json` (1 where it does not name one). A game that ships a walkthrough needs none: its states are
made by replaying it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources

import numpy as np

from questloop.errors import BadDataError, UsageError
from questloop.game.actions import Action
from questloop.game.emulator import PYBOY_VERSION, Emulator
from questloop.game.input_script import Input, parse_inputs, steps
from questloop.game.profile import Profile
from questloop.game.rom import Rom
from questloop.game.state_file import SaveState
from questloop.storage.folder import FolderStore
from questloop.storage.store import Store, folder_path, open_store

BEGINNING = "start"
"""Name of the state at which the player has control for the first time."""

_SUFFIX = ".state"
_WEIGHTS = "weights.json"
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
_STEP_FRAMES = 4
_TITLE_FRAMES = 600
"""Frames without a button after which a game that gave no control is one that waits at its title."""


@dataclass(frozen=True)
class StartState:
    """A state and how often it is chosen, relative to the others; weight 0: never by chance."""

    name: str
    state: SaveState
    weight: float = 1.0


@dataclass(frozen=True)
class StartStates:
    """What episodes begin from."""

    states: tuple[StartState, ...]

    def __post_init__(self) -> None:
        if not sum(state.weight for state in self.states) > 0:
            raise BadDataError(f"no start state has a weight above 0; mend {_WEIGHTS}")

    def choose(self, rng: np.random.Generator) -> StartState:
        """One of them, by weight."""
        weights = np.array([state.weight for state in self.states])
        return self.states[int(rng.choice(len(weights), p=weights / weights.sum()))]

    def named(self, name: str) -> StartState:
        """The state of that name; `UsageError` lists those there are."""
        for state in self.states:
            if state.name == name:
                return state
        raise UsageError(f"no start state {name!r}; there are {', '.join(s.name for s in self.states)}")


def load_start_states(
    rom: Rom, profile: Profile, where: str | None = None, milestones: bool = False
) -> StartStates:
    """The start states of a run: those in the folder or store `where`, else the game's own (`beginnings`).

    Raises `BadDataError` where one was made with another ROM, PyBoy or layout, naming what changed and the
    command that makes it again.
    """
    if where is None:
        return StartStates(tuple(beginnings(rom, profile, milestones)))
    states = read_start_states(where)
    for item in states:
        item.state.require(rom.sha256, PYBOY_VERSION, profile.layout.hash, f"start state {item.name}")
    return StartStates(tuple(states))


def beginnings(rom: Rom, profile: Profile, milestones: bool = False) -> Iterator[StartState]:
    """The game's own states: its beginning (weight 1) and, on request, one per milestone (weight 0).

    Without a walkthrough the only one is power-on.
    """
    if not profile.walkthrough:
        emulator = Emulator(rom, profile.layout)
        yield StartState(BEGINNING, emulator.power_on)
        emulator.close()
        return
    script = resources.files("questloop.game") / "roms" / profile.walkthrough
    for item in replay(rom, profile, parse_inputs(script.read_text("utf-8"), profile.walkthrough)):
        yield item
        if not milestones:
            return


def waits_at_title(rom: Rom, profile: Profile, where: str | None) -> str | None:
    """One line where a game begins at its title and there is nothing to begin from instead; else None."""
    if where is not None or profile.walkthrough:
        return None
    emulator = Emulator(rom, profile.layout)
    row = np.zeros(profile.layout.size, np.uint8)
    try:
        for _ in range(0, _TITLE_FRAMES, _STEP_FRAMES):
            emulator.step(Action.NOP, _STEP_FRAMES)
            emulator.read(row)
            if profile.decode(row[np.newaxis]).has_control[0]:
                return None
    finally:
        emulator.close()
    return (
        f"{rom.name} waits at its title, and START_STATES names nothing to begin from: make a state with"
        " `questloop states capture --intro` and set START_STATES=states"
    )


def replay(rom: Rom, profile: Profile, inputs: list[Input]) -> Iterator[StartState]:
    """Play `inputs` from power-on; yield the beginning, then a state for each milestone it reaches.

    A state is taken when its milestone holds and the player has control.
    """
    emulator = Emulator(rom, profile.layout)
    row = np.zeros(profile.layout.size, np.uint8)
    reached, begun = 0, False
    waiting: list[str] = []
    for item in steps(inputs, _STEP_FRAMES):
        emulator.step(item.action, item.frames)
        emulator.read(row)
        holding = int(profile.detector(row[np.newaxis])[0])
        waiting += profile.milestone_names(holding & ~reached)
        reached |= holding
        if (begun and not waiting) or not profile.decode(row[np.newaxis]).has_control[0]:
            continue
        state = emulator.save()
        if not begun:
            yield StartState(BEGINNING, state)
            begun = True
        for name in waiting:
            yield StartState(name, state, 0.0)
        waiting.clear()
    emulator.close()
    if not begun:
        raise BadDataError(
            f"the walkthrough of {profile.name} never gives the player control; record it again"
        )


def read_start_states(where: str) -> list[StartState]:
    """Every state in a folder or store, by name."""
    store = _open(where)
    keys = sorted(entry.key for entry in store.list() if entry.key.endswith(_SUFFIX) and "/" not in entry.key)
    if not keys:
        raise BadDataError(
            f"START_STATES {where} holds no {_SUFFIX} file; make one with `questloop states capture`"
        )
    weights = _read_weights(store, where)
    unknown = sorted(set(weights) - {key.removesuffix(_SUFFIX) for key in keys})
    if unknown:
        raise BadDataError(
            f"{where}/{_WEIGHTS} names {', '.join(unknown)}, which has no {_SUFFIX} file there"
        )
    return [
        StartState(name, SaveState.from_bytes(store.get(key), f"{where}/{key}"), weights.get(name, 1.0))
        for key in keys
        for name in [key.removesuffix(_SUFFIX)]
    ]


def write_start_state(where: str, item: StartState) -> None:
    """Put a state into a folder or store, in place of one with the same name."""
    if not _NAME.fullmatch(item.name):
        raise UsageError(
            f"start state {item.name!r}: a name is letters, digits, '_', '-' and '.', at most 64"
        )
    store = open_store(where)
    store.put(item.name + _SUFFIX, item.state.to_bytes())
    weights = _read_weights(store, where)
    if weights.get(item.name, 1.0) != item.weight:
        store.put(_WEIGHTS, json.dumps(weights | {item.name: item.weight}, indent=2).encode())


def _open(where: str) -> Store:
    """To be read only: a folder may be one that nobody can write, as a ConfigMap's is."""
    if where.startswith("s3://"):
        return open_store(where)
    folder = folder_path(where, "START_STATES")
    if not folder.is_dir():
        raise BadDataError(f"START_STATES {where} is no folder; make one with `questloop states capture`")
    return FolderStore(folder, low_water_mb=0)


def _read_weights(store: Store, where: str) -> dict[str, float]:
    if not store.exists(_WEIGHTS):
        return {}
    try:
        weights = {str(name): float(weight) for name, weight in json.loads(store.get(_WEIGHTS)).items()}
    except (ValueError, TypeError, AttributeError) as error:
        raise BadDataError(f"{where}/{_WEIGHTS} is not a JSON object of name to weight: {error}") from None
    wrong = sorted(name for name, weight in weights.items() if not 0 <= weight < float("inf"))
    if wrong:
        raise BadDataError(f"{where}/{_WEIGHTS}: the weight of {', '.join(wrong)} is not 0 or more")
    return weights
