"""Checks a game profile when it loads, so that no mistake in it ends a run in the middle.

A profile comes from another package. Whatever is wrong in it is said here, all of it at once, before an
emulator runs: names that keys and prompts cannot hold, milestones that can never hold or always do, taps that
are not there, and a `decode` whose columns have other shapes, kinds or ranges than `game.columns` says.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import numpy as np

from questloop.game.actions import ACTION_COUNT, ALL_COUNT, Action
from questloop.game.columns import ROOM_COLS, ROOM_ROWS, Bytes, Columns
from questloop.game.profile import MAX_MILESTONES, ByteTest, Profile
from questloop.game.profile_types import wrong_types
from questloop.game.rom import TITLE_BYTES
from questloop.game.taps import TapLayout
from questloop.game.terrain import (
    DOWN,
    LAYOUT_TAP,
    LEFT,
    MODE_TAP,
    RIGHT,
    UP,
    PuzzleRoom,
    Riddle,
    Terrain,
)

MAX_NAME = 40
MAX_TITLE = 80
_NAME = re.compile(rf"[A-Za-z0-9][A-Za-z0-9_.-]{{0,{MAX_NAME - 1}}}")
_KEY = re.compile(rf"[a-z0-9_]{{1,{MAX_NAME}}}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_ROWS = 64

RANGES: dict[str, tuple[int, int]] = {
    "group": (0, 255),
    "room": (0, 255),
    "y": (0, 255),
    "x": (0, 255),
    "tile": (0, 255),
    "direction": (0, 3),
    "season": (0, 3),
    "dungeon": (-1, 255),
}
"""What tables are indexed by; `game.columns` has the meaning of each."""

_ENDS = ("game_over", "dying")


def faults(profile: Profile) -> list[str]:
    """Everything that is wrong with `profile`, a line each; empty: nothing is."""
    kinds = list(wrong_types(profile))
    return kinds or list(dict.fromkeys(_faults(profile)))


def _faults(profile: Profile) -> Iterator[str]:
    if not _NAME.fullmatch(profile.name):
        yield f"name {profile.name!r} is no plain name of 1 to {MAX_NAME} letters, digits and _.-"
    yield from _titles(profile)
    yield from _names(profile)
    yield from _milestones(profile)
    yield from _sanity(profile)
    yield from _terrain(profile)
    mask = profile.action_mask
    if mask.shape not in ((ACTION_COUNT,), (ALL_COUNT,)) or mask.dtype != np.bool_:
        yield f"action_mask is {mask.dtype}{list(mask.shape)}, not bool[{ACTION_COUNT}]: see policy_actions"
    elif not np.delete(mask, Action.NOP).any():
        yield "action_mask leaves no action but NOP"
    if not 0 <= profile.room_top < 144:
        yield f"room_top {profile.room_top!r} is not on the screen, 0 to 143"
    script = profile.walkthrough
    if script and (not _NAME.fullmatch(script) or not script.endswith(".inputs")):
        yield f"walkthrough {script!r} is no name of a script, NAME.inputs"
    yield from _decoded(profile)


def _titles(profile: Profile) -> Iterator[str]:
    for title in profile.titles:
        if not title.strip():
            yield f"title {title!r} would match every ROM"
        elif len(title) > TITLE_BYTES or not title.isascii() or not title.isprintable():
            yield f"title {title!r} is none of a header: printable ASCII, {TITLE_BYTES} characters at most"
    for digest in profile.sha256s:
        if not _DIGEST.fullmatch(digest):
            yield f"sha256 {digest!r} is none: 64 lower-case hex digits"
    if not profile.titles and not profile.sha256s:
        yield "neither titles nor sha256s name a ROM"


def _names(profile: Profile) -> Iterator[str]:
    keys = [milestone.key for milestone in profile.milestones]
    taps = [*profile.layout.names, *(profile.details.names if profile.details else ())]
    yield from (f"tap {name!r} is no plain name" for name in taps if not _NAME.fullmatch(name))
    for what, names in (("milestone", keys), ("item", list(profile.items))):
        for name, count in Counter(names).items():
            if not _KEY.fullmatch(name):
                yield f"{what} {name!r} is no key: 1 to {MAX_NAME} of a-z, 0-9 and _"
            if count > 1:
                yield f"{what} {name!r} is there {count} times"
    for milestone in profile.milestones:
        title = milestone.title
        if len(title) > MAX_TITLE or not (title.isprintable() or not title):
            yield f"milestone {milestone.key!r}: its title is no line of up to {MAX_TITLE} printable signs"
    if profile.goal and profile.goal not in keys:
        yield f"goal {profile.goal!r} is no milestone's key"


def _milestones(profile: Profile) -> Iterator[str]:
    if len(profile.milestones) > MAX_MILESTONES:
        yield f"{len(profile.milestones)} milestones; a profile has at most {MAX_MILESTONES}"
    for milestone in profile.milestones:
        where = f"milestone {milestone.key!r}"
        if not milestone.when:
            yield f"{where} has no test, so it would always hold"
            continue
        for test in milestone.when:
            yield from (f"{where}: {fault}" for fault in _test(test, profile.layout))
        if not any(_narrows(test) for test in milestone.when):
            yield f"{where} holds whatever the bytes are"


def _test(test: ByteTest, layout: TapLayout) -> Iterator[str]:
    try:
        layout.index(test.tap, test.index)
    except (KeyError, IndexError, ValueError):
        yield f"tap {test.tap!r} has no byte {test.index}"
    numbers = (test.mask, test.low, test.high)
    if not all(0 <= number <= 255 for number in numbers):
        yield f"mask, low and high of {test.tap!r} are bytes, 0 to 255, and not {numbers}"
    elif not any(test.low <= value & test.mask <= test.high for value in range(256)):
        yield f"no byte of {test.tap!r} & {test.mask:02X} is {test.low} to {test.high}, so it can never hold"


def _narrows(test: ByteTest) -> bool:
    return not all(test.low <= value & test.mask <= test.high for value in range(256))


def _sanity(profile: Profile) -> Iterator[str]:
    sanity = profile.sanity
    for group, size in sanity.maps.items():
        if not 0 <= group <= 7 or not all(1 <= side <= 16 for side in size):
            yield f"sanity.maps: group {group!r} of {size!r}; groups are 0 to 7, maps 1 to 16 by 1 to 16"
    for bounds in sanity.ranges:
        if not 0 <= bounds.low <= bounds.high <= 255:
            yield f"sanity.ranges: {bounds.tap!r} from {bounds.low} to {bounds.high}"
    for name in (*(bounds.tap for bounds in sanity.ranges), *sanity.bcd):
        try:
            profile.layout.index(name)
        except (KeyError, IndexError, ValueError):
            yield f"sanity: the layout has no tap {name!r}"


def _terrain(profile: Profile) -> Iterator[str]:
    terrain, details = profile.terrain, profile.details.names if profile.details else ()
    if terrain != Terrain() and LAYOUT_TAP not in details:
        yield f"terrain needs the detail tap {LAYOUT_TAP} (176 bytes): without it no metatile is known"
    if profile.details and LAYOUT_TAP in details:
        place = profile.details.offset(LAYOUT_TAP)
        if place.stop - place.start != ROOM_ROWS * ROOM_COLS:
            yield f"detail tap {LAYOUT_TAP} has {place.stop - place.start} bytes, not 176: 11 rows of 16"
    if terrain.modes and MODE_TAP not in details:
        yield f"terrain.modes needs the detail tap {MODE_TAP}"
    for mode, part in ((None, terrain), *terrain.modes.items()):
        where = "terrain" if mode is None else f"terrain of mode {mode}"
        kinds = {each.name: getattr(part, each.name) for each in fields(part) if each.name in _TILE_KINDS}
        counts = Counter(tile for tiles in kinds.values() for tile in tiles)
        for tile, count in sorted(counts.items()):
            if count > 1:
                names = ", ".join(name for name, tiles in kinds.items() if tile in tiles)
                yield f"{where}: metatile {tile:02X} is of several kinds ({names})"
            if not 0 <= tile <= 0xFF:
                yield f"{where}: metatile {tile} is no byte"
        for tile, block in part.pushable.items():
            if not block.ways <= {UP, RIGHT, DOWN, LEFT}:
                yield f"{where}: block {tile:02X} moves {sorted(block.ways)}; ways are 0 to 3"
            if block.needs and block.needs not in profile.items:
                yield f"{where}: block {tile:02X} needs {block.needs!r}, which is no item of the profile"
    for (group, room), puzzle in terrain.puzzles.items():
        faults_of_it = _puzzle(puzzle, (group, room), profile)
        yield from (f"puzzle room {group}:{room:02x} {fault}" for fault in faults_of_it)


def _puzzle(puzzle: PuzzleRoom, place: tuple[int, int], profile: Profile) -> Iterator[str]:
    group, room = place
    if not (0 <= group <= 7 and 0 <= room <= 0xFF):
        yield "is no room"
    if puzzle.needs and puzzle.needs not in profile.items:
        yield f"needs {puzzle.needs!r}, which is no item of the profile"
    if puzzle.riddle is Riddle.PUSH and puzzle.at is None:
        yield "asks to push a block and does not say which: `at`"
    if puzzle.at and not (0 <= puzzle.at[0] < ROOM_ROWS and 0 <= puzzle.at[1] < ROOM_COLS):
        yield f"has its block outside the room, at {puzzle.at}"
    if puzzle.riddle is Riddle.TORCHES and not puzzle.solved and puzzle.torches < 1:
        yield "does not say how many torches are to be lit: `torches`"


_TILE_KINDS = frozenset(
    {
        *("pits", "water", "lava", "spikes", "ladders", "ledges_up", "ledges_right", "ledges_down"),
        *("ledges_left", "blocks", "pushable", "plates", "buttons", "switches", "torches", "chests"),
        *("signs", "doors", "locks", "boss_locks"),
    }
)
"""Fields of a terrain that a metatile can be in one of; `floor` says what holds people, and may overlap."""


def _decoded(profile: Profile) -> Iterator[str]:
    """What `decode` makes of rows of zeros, of ones and of chance."""
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 256, (_ROWS, profile.layout.size), np.uint8)
    rows[0], rows[1] = 0, 255
    rows.setflags(write=False)
    try:
        found, alone = _arrays(profile, rows), _arrays(profile, rows[_ROWS // 2 : _ROWS // 2 + 1])
    except (Exception, SystemExit) as error:  # it is another package's code
        yield f"decode fails: {error!r}"
        return
    for name, array in found.items():
        wrong = list(_column(name, array, rows))
        yield from wrong
        if not wrong and not np.array_equal(array[_ROWS // 2 : _ROWS // 2 + 1], alone[name]):
            yield f"decode gives other {name} for a row that stands alone: it must depend on that row only"


def _arrays(profile: Profile, rows: Bytes) -> dict[str, Any]:
    columns = profile.columns(rows)
    return {item.name: np.asarray(getattr(columns, item.name)) for item in fields(Columns)}


def _column(name: str, array: Any, rows: Bytes) -> Iterator[str]:
    """What is wrong with one field of `Columns`."""
    wanted: Any = getattr(Columns.zeros(len(rows)), name)
    kinds = {"O": "O", "b": "b", "u": "bu", "i": "bi"}[wanted.dtype.kind]
    if not array.shape:
        yield f"decode gives {name} as one {array.dtype}, not one a row: write columns.{name}[:] = ..."
    elif array.shape != wanted.shape:
        yield f"decode gives {name} as {list(array.shape)} for {_ROWS} rows, not {list(wanted.shape)}"
    elif array.dtype.kind not in kinds:
        yield f"decode gives {name} as {array.dtype}, not {wanted.dtype}"
    elif np.may_share_memory(array, rows):
        yield f"decode gives {name} as a view of taps, which the next step overwrites: copy it"
    elif name in RANGES and not _within(array, *RANGES[name]):
        low, high = RANGES[name]
        yield f"decode gives {name} from {array.min()} to {array.max()}; it is {low} to {high}"
    elif name in _ENDS and array.all():
        yield f"decode gives {name} whatever the bytes are, so that no game is ever played"


def _within(array: Any, low: int, high: int) -> bool:
    return bool((array >= low).all() and (array <= high).all())
