"""Compares what random play shows of a game with what its profile says: a block of text to send back.

A profile of a game that nobody here owns rests on facts from others. Whoever has the ROM can say in one
block which metatiles were seen in which collision mode, whether what the terrain calls solid is solid, and
which rooms and milestones were met.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

import numpy as np

from questloop import __version__
from questloop.game.actions import Action
from questloop.game.columns import ROOM_COLS
from questloop.game.emulator import PYBOY_VERSION, Emulator
from questloop.game.profile import Profile
from questloop.game.rom import Rom
from questloop.game.start_states import StartState
from questloop.game.state import GameState, decode
from questloop.game.terrain import Terrain

BEGIN, END = "--- survey: copy from here ---", "--- to here ---"
_OPEN = ("pits", "water", "lava", "spikes", "plates", "buttons", "doors")
_SOLID = (
    *("ledges_up", "ledges_right", "ledges_down", "ledges_left", "blocks", "pushable"),
    *("switches", "torches", "chests", "signs", "locks", "boss_locks"),
)
_LOOK_STEPS = 8
_STEP_FRAMES = 4
_MOST_NAMED = 24


class Survey:
    """Counts what is seen of one game."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._seen: set[tuple[int, int, bytes]] = set()
        self._rooms: Counter[str] = Counter()
        self._modes: set[int] = set()
        self._milestones: set[str] = set()
        self._tiles: dict[tuple[int, str, int], Counter[bool]] = defaultdict(Counter)
        self._looks = self._controlled = 0

    def add(self, state: GameState, details: dict[str, bytes]) -> None:
        """Take in a moment; its room's metatiles once per layout, and only while the player has control."""
        self._looks += 1
        self._milestones.update(state.milestones)
        if not state.has_control:
            return
        self._controlled += 1
        self._rooms[f"{state.group}:{state.room:02x}"] += 1
        layout = details.get("room_layout")
        mode = details.get("active_collisions", b"\0")[0]
        if layout is None or (mode, state.room, layout) in self._seen:
            return
        self._seen.add((mode, state.room, layout))
        self._modes.add(mode)
        terrain = self._profile.terrain.of(mode)
        columns, rows = state.room_size
        for row in range(rows):
            for column in range(columns):
                tile = layout[row * ROOM_COLS + column]
                kind = _kind(tile, terrain)
                self._tiles[mode, kind, tile][state.solid(column, row)] += 1

    def lines(self) -> list[str]:
        """What was found, a few lines."""
        found = [
            f"{self._looks} looks, control in {self._controlled}; rooms {_some(sorted(self._rooms))}",
            f"milestones that held: {_some(sorted(self._milestones))}",
        ]
        for mode in sorted(self._modes):
            agree, differ = self._compare(mode)
            found.append(f"mode {mode}: as expected {_some(agree)}; other than expected {_some(differ)}")
            for solid, word in ((True, "solid"), (False, "open")):
                unknown = [
                    f"{tile:02x}"
                    for (of, kind, tile), counts in sorted(self._tiles.items())
                    if of == mode and not kind and counts[solid]
                ]
                found.append(f"mode {mode}: {word} metatiles of no kind: {_some(unknown)}")
        return found

    def _compare(self, mode: int) -> tuple[list[str], list[str]]:
        agree, differ = [], []
        for (of, kind, tile), counts in sorted(self._tiles.items()):
            if of != mode or not kind:
                continue
            wrong = counts[kind in _OPEN]
            text = f"{kind} {tile:02x} x{counts.total()}"
            if wrong:
                differ.append(f"{text} ({wrong} {'solid' if kind in _OPEN else 'open'})")
            else:
                agree.append(text)
        return agree, differ


def survey(
    rom: Rom, profile: Profile, starts: Sequence[StartState], steps: int, gates: Iterable[str], seed: int = 0
) -> str:
    """The block: random play from each start, `gates` being what the doctor found. No path stands in it."""
    lines = [
        BEGIN,
        f"questloop {__version__}, PyBoy {PYBOY_VERSION}, profile {profile.name}",
        f"ROM {rom.title!r}, sha256 {rom.sha256}, {len(rom.data) // 1024} KiB",
    ]
    for start in starts:
        seen = Survey(profile)
        _play(rom, profile, start, steps, seed, seen)
        lines += [f"from {start.name}: {line}" for line in seen.lines()]
    return "\n".join([*lines, f"gates: {'; '.join(gates) or 'quiet'}", END])


def _play(rom: Rom, profile: Profile, start: StartState, steps: int, seed: int, seen: Survey) -> None:
    rng = np.random.default_rng(seed)
    emulator = Emulator(rom, profile.layout)
    row = np.zeros(profile.layout.size, np.uint8)
    emulator.load(start.state)
    try:
        for step in range(steps):
            if step % _LOOK_STEPS == 0:
                action = int(rng.choice([Action.UP, Action.DOWN, Action.LEFT, Action.RIGHT, Action.A]))
                emulator.read(row)
                details = emulator.look(profile.details) if profile.details is not None else {}
                seen.add(decode(row, profile), details)
            emulator.step(action, _STEP_FRAMES)
    finally:
        emulator.close()


def _kind(tile: int, terrain: Terrain) -> str:
    return next((name for name in (*_OPEN, *_SOLID) if tile in getattr(terrain, name)), "")


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_MOST_NAMED]) or "none"
    return f"{shown} and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else shown
