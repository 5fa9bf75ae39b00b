"""Sanity checks: a minute of random play shows whether the memory taps read what they are named for.

A wrong address costs a night of training; here it is a finding with its reason. Ranges are tested only while
the player has control, since a game may hold anything in memory while it loads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from questloop.game.actions import ACTION_COUNT
from questloop.game.batch import GameBatch
from questloop.game.columns import Bools, Bytes, Columns
from questloop.game.profile import Profile
from questloop.game.rom import Rom
from questloop.game.start_states import StartState

_SLOTS = 4
_FEWEST = 50
"""Steps with control below which nothing can be said about what should change."""
_MARGIN = 16
"""Pixels that a hero may stand outside a room while the next one scrolls in."""
_RESTLESS = 0.25
"""Share of steps in which health may change at most; noise changes in nearly all."""
_LEAP = 16
"""Pixels that no hero walks in one step; a pit or a warp within the room may carry him farther."""
_LEAPING = 0.25
"""Share of moves that may be leaps; sub-pixels and counters leap in most."""


@dataclass(frozen=True)
class Finding:
    """A gate that did not stay quiet: what is wrong, and how often of how many steps."""

    gate: str
    reason: str


class Gates:
    """Watches steps of N slots and reports what no sane game does."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._steps = 0
        self._controlled = 0
        self._first: dict[str, str] = {}
        self._broken: dict[str, int] = {}
        self._columns: Columns | None = None
        self._moved = {"x": 0, "y": 0}
        self._leaps = {"x": 0, "y": 0}
        self._alive = 0
        self._solid = 0
        self._restless = 0

    def add(self, taps: Bytes) -> None:
        """Watch one step of taps u8[N, K]."""
        columns = self._profile.columns(taps)
        control = columns.has_control
        self._steps += len(taps)
        self._controlled += int(control.sum())
        if control.any():
            played = taps[control]
            self._watch_columns(self._profile.columns(played))
            self._watch_bytes(played)
        self._compare(columns)
        self._columns = columns

    def findings(self) -> list[Finding]:
        """What was found, worst first; empty for a sane game."""
        if self._controlled < _FEWEST:
            reason = (
                f"the player had control in {self._controlled} of {self._steps} steps: begin inside the game"
                " (START_STATES, see `questloop states capture`), or the taps of control are wrong"
            )
            return [Finding("control", reason)]
        found = [
            Finding(gate, f"{self._first[gate]} ({times} of {self._controlled} steps with control)")
            for gate, times in sorted(self._broken.items(), key=lambda item: -item[1])
        ]
        for axis, moved in self._moved.items():
            if not moved:
                found.append(Finding("position", f"{axis} never changed while the player had control"))
            elif (leaps := self._leaps[axis]) > _LEAPING * moved:
                found.append(
                    Finding("position", f"{axis} leapt more than {_LEAP} pixels in {leaps} of {moved} moves")
                )
        if self._profile.sanity.collisions and not self._solid:
            found.append(Finding("collisions", "no metatile of any room was solid"))
        if self._profile.sanity.max_health and not self._alive:
            found.append(Finding("health", "health was 0 in every step with control"))
        if self._restless > _RESTLESS * self._controlled:
            found.append(Finding("health", f"health changed in {self._restless} of {self._controlled} steps"))
        return found

    def _watch_columns(self, c: Columns) -> None:
        sanity = self._profile.sanity
        self._expect(
            "health",
            c.health <= c.max_health,
            lambda i: f"health is {c.health[i]}, above its maximum {c.max_health[i]}",
        )
        if sanity.max_health:
            self._expect(
                "max_health",
                (c.max_health > 0) & (c.max_health <= sanity.max_health),
                lambda i: f"maximum health is {c.max_health[i]} quarter hearts, not 1 to {sanity.max_health}",
            )
        height, width = np.where(c.large_room, 176, 128), np.where(c.large_room, 240, 160)
        self._expect(
            "inside",
            (c.y < height + _MARGIN) & (c.x < width + _MARGIN),
            lambda i: f"the hero stands at x {c.x[i]}, y {c.y[i]}, outside the room",
        )
        columns, rows = np.array([sanity.maps.get(group, (0, 0)) for group in c.group.tolist()]).T
        self._expect(
            "room",
            (c.room & 15 < columns) & (c.room >> 4 < rows),
            lambda i: f"room {c.group[i]}:{c.room[i]:02x} is not on the map",
        )
        self._solid += int((c.collisions & 15).any())
        self._alive += int((c.health > 0).any())

    def _watch_bytes(self, taps: Bytes) -> None:
        layout = self._profile.layout
        for limits in self._profile.sanity.ranges:
            values = taps[:, layout.offset(limits.tap)]
            wrong = ((values < limits.low) | (values > limits.high)) & ~np.isin(values, limits.also)
            if wrong.any():
                reason = f"{limits.tap} is {values[wrong][0]}, not {limits.low} to {limits.high}"
                self._break(limits.tap, reason, int(wrong.any(axis=1).sum()))
        for tap in self._profile.sanity.bcd:
            values = taps[:, layout.offset(tap)]
            wrong = (values >> 4 > 9) | (values & 15 > 9)
            if wrong.any():
                reason = f"{tap} holds {values[wrong][0]:02X}, no decimal digits"
                self._break(tap, reason, int(wrong.any(axis=1).sum()))

    def _compare(self, columns: Columns) -> None:
        before = self._columns
        if before is None:
            return
        both = before.has_control & columns.has_control
        same_room = both & (before.place == columns.place)
        for axis in self._moved:
            pixels = np.abs(getattr(columns, axis) - getattr(before, axis))[same_room]
            self._moved[axis] += int((pixels > 0).sum())
            self._leaps[axis] += int((pixels > _LEAP).sum())
        self._restless += int((both & (before.health != columns.health)).sum())

    def _expect(self, gate: str, sane: Bools, describe: Callable[[int], str]) -> None:
        if not sane.all():
            self._break(gate, describe(int(np.argmin(sane))), int((~sane).sum()))

    def _break(self, gate: str, reason: str, times: int) -> None:
        self._broken[gate] = self._broken.get(gate, 0) + times
        self._first.setdefault(gate, reason)


def check_game(
    rom: Rom, profile: Profile, start: StartState, steps: int = 2000, seed: int = 0
) -> list[Finding]:
    """Play `steps` steps of random inputs from `start` in a few emulators; the gates' findings.

    Actions are held for 1 to 16 steps, since single random steps only tremble on the spot.
    """
    rng = np.random.default_rng(seed)
    batch = GameBatch(rom, profile.layout, _SLOTS)
    gates = Gates(profile)
    actions = np.zeros(_SLOTS, np.uint8)
    held = np.zeros(_SLOTS, np.int64)
    try:
        for slot in range(_SLOTS):
            batch.reset(slot, start.state)
        for _ in range(steps // _SLOTS):
            change = held == 0
            actions[change] = rng.integers(0, ACTION_COUNT, int(change.sum()))
            held[change] = rng.integers(1, 17, int(change.sum()))
            held -= 1
            gates.add(batch.step(actions))
    finally:
        batch.close()
    return gates.findings()
