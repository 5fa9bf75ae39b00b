"""Game profiles: everything that makes a game known to Questloop."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from questloop.errors import UsageError
from questloop.game.actions import ACTION_COUNT
from questloop.game.columns import Bools, Bytes, Columns, Masks
from questloop.game.guide import Guide
from questloop.game.taps import TapLayout
from questloop.game.terrain import LAYOUT_TAP, MODE_TAP, Terrain

MAX_MILESTONES = 128
MAX_ITEMS = 16


@dataclass(frozen=True)
class ByteTest:
    """Holds while `low <= (byte & mask) <= high` for byte `index` of tap `tap`."""

    tap: str
    index: int = 0
    mask: int = 0xFF
    low: int = 0
    high: int = 0xFF


@dataclass(frozen=True)
class Milestone:
    """Something worth reaching: it holds now while every test holds. Latching is the reward's work."""

    key: str
    title: str
    when: tuple[ByteTest, ...]


def bit(tap: str, number: int) -> ByteTest:
    """Bit `number` of a bit field: byte `number >> 3`, bit `number & 7`."""
    mask = 1 << (number & 7)
    return ByteTest(tap, number >> 3, mask, mask, mask)


def equals(tap: str, value: int, index: int = 0) -> ByteTest:
    """The byte is `value`."""
    return ByteTest(tap, index, 0xFF, value, value)


def at_least(tap: str, value: int, index: int = 0) -> ByteTest:
    """The byte is `value` or more."""
    return ByteTest(tap, index, 0xFF, value, 0xFF)


class MilestoneDetector:
    """All milestones of a profile tested at once."""

    def __init__(self, milestones: tuple[Milestone, ...], layout: TapLayout) -> None:
        if len(milestones) > MAX_MILESTONES:
            raise ValueError(f"{len(milestones)} milestones; a profile has at most {MAX_MILESTONES}")
        tests = [test for milestone in milestones for test in milestone.when]
        self._places = np.array([layout.index(test.tap, test.index) for test in tests], np.intp)
        self._mask, self._low, self._high = (
            np.array([getattr(test, name) for test in tests], np.uint8) for name in ("mask", "low", "high")
        )
        counts = [len(milestone.when) for milestone in milestones]
        self._starts = np.concatenate(([0], np.cumsum(counts)[:-1])).astype(np.intp)

    def __call__(self, taps: Bytes) -> Masks:
        """[N], bit i for milestone i, from `taps` u8[N, K]."""
        holds = np.zeros((len(taps), MAX_MILESTONES), np.bool_)
        if len(self._places):
            values = taps[:, self._places] & self._mask
            passed = (values >= self._low) & (values <= self._high)
            np.logical_and.reduceat(passed, self._starts, axis=1, out=holds[:, : len(self._starts)])
        masks: Masks = np.zeros(len(taps), np.object_)
        masks[:] = [int.from_bytes(row, "little") for row in np.packbits(holds, axis=1, bitorder="little")]
        return masks


@dataclass(frozen=True)
class ByteRange:
    """Bytes of a tap that a sane game keeps within `low` to `high`, or at one of `also`."""

    tap: str
    low: int
    high: int
    also: tuple[int, ...] = ()


@dataclass(frozen=True)
class Sanity:
    """What a wrong address would break; the gates of `questloop doctor` report it.

    `maps` gives for each group the columns and rows of its map of rooms: a room's low nibble is its column.
    `max_health` is 0 for a game without health; `collisions` says whether its rooms have solid metatiles.
    """

    maps: Mapping[int, tuple[int, int]]
    max_health: int = 0
    collisions: bool = False
    ranges: tuple[ByteRange, ...] = ()
    bcd: tuple[str, ...] = ()


@dataclass(frozen=True)
class Profile:
    """A game: its memory, its meaning and its goals. Declarative; `decode` is its one function.

    `decode(taps u8[N, K])` fills every field of `Columns` but `milestones`, which `columns` adds.
    `titles` are header titles of ROMs it plays, `sha256s` those it was tested with. `details`
    are taps that tools read on demand (`Emulator.look`). `walkthrough` names an input script in `game/roms`
    that plays the game from power-on.
    """

    name: str
    titles: tuple[str, ...]
    layout: TapLayout
    decode: Callable[[Bytes], Columns]
    milestones: tuple[Milestone, ...]
    items: tuple[str, ...] = ()
    details: TapLayout | None = None
    sanity: Sanity = field(default_factory=lambda: Sanity(dict.fromkeys(range(8), (16, 16))))
    room_top: int = 16  # first pixel row of the room on the screen; above it stands the status bar
    action_mask: Bools = field(default_factory=lambda: np.ones(ACTION_COUNT, np.bool_))
    sha256s: tuple[str, ...] = ()
    walkthrough: str = ""
    terrain: Terrain = field(default_factory=Terrain)
    goal: str = ""
    """Key of the milestone at which the game is finished and an episode ends; empty: there is none."""
    guide: Guide | None = None
    """The game's booklet: what judges, hints and planner know of it beforehand."""
    detector: MilestoneDetector = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if len(self.items) > MAX_ITEMS:
            raise ValueError(f"{len(self.items)} items; a profile has at most {MAX_ITEMS}")
        keys = {milestone.key for milestone in self.milestones}
        for aim in self.guide.aims if self.guide else ():
            if unknown := {aim.key, *aim.needs} - keys:
                names = ", ".join(sorted(unknown))
                raise UsageError(f"the guide's aim {aim.key} names {names}, no milestone of the game")
        object.__setattr__(self, "detector", MilestoneDetector(self.milestones, self.layout))

    @cached_property
    def room_taps(self) -> TapLayout | None:
        """The details that tell what a room is made of, alone; None where the game does not tell."""
        known = self.details.taps if self.details is not None else ()
        taps = [tap for tap in known if tap.name in (LAYOUT_TAP, MODE_TAP)]
        return TapLayout(taps) if taps else None

    @property
    def place_names(self) -> dict[tuple[int, int], str]:
        """Names of rooms by group and room, as the guide gives them; empty without one."""
        names = self.guide.names if self.guide else {}
        return {(place >> 8, place & 255): name for place, name in names.items()}

    def columns(self, taps: Bytes) -> Columns:
        """Decode `taps` u8[N, K]."""
        columns = self.decode(taps)
        columns.milestones = self.detector(taps)
        return columns

    def milestone_names(self, mask: int) -> list[str]:
        """Keys of the milestones in a bit mask."""
        return [m.key for i, m in enumerate(self.milestones) if mask >> i & 1]
