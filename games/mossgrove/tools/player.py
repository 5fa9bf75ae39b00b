"""A small player: finds its way over the room's collisions and records every step it takes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from questloop.game.actions import Action
from questloop.game.emulator import Emulator
from questloop.game.input_script import Input, format_inputs
from questloop.game.profile import Profile
from questloop.game.rom import Rom

STEP_FRAMES = 4
WAYS = {Action.UP: (-1, 0), Action.RIGHT: (0, 1), Action.DOWN: (1, 0), Action.LEFT: (0, -1)}
BACK = {Action.UP: Action.DOWN, Action.DOWN: Action.UP, Action.LEFT: Action.RIGHT, Action.RIGHT: Action.LEFT}
DIRECTIONS = (Action.UP, Action.RIGHT, Action.DOWN, Action.LEFT)
HOLES = (1, 7)
LARGE = (5, 6)  # ids of the enemies of 32 x 32 pixels
HEART, SPIT = 1, 4  # ids of parts
PATIENCE = 1500
"""Steps within which a goal is reached or the script is wrong."""


class Lost(Exception):
    """A goal was not reached."""


class Player:
    """Plays from power-on; `inputs` is what it did."""

    def __init__(self, rom: Rom, profile: Profile, tile_types: bytes, bush: int) -> None:
        self.emulator = Emulator(rom, profile.layout)
        self.inputs: list[Input] = []
        self._types = tile_types
        self._bush = bush
        self.watch: Callable[[Player], None] = lambda player: None

    # What is seen.

    def byte(self, address: int) -> int:
        return self.emulator.peek(address, 1, 1 if address >= 0xD000 else None)[0]

    @property
    def place(self) -> tuple[int, int]:
        return self.byte(0xCC49), self.byte(0xCC4C)

    @property
    def y(self) -> int:
        return self.byte(0xD00B)

    @property
    def x(self) -> int:
        return self.byte(0xD00D)

    @property
    def cell(self) -> tuple[int, int]:
        """Row and column underfoot."""
        return (self.y + 4) >> 4, self.x >> 4

    def control(self) -> bool:
        return (
            self.byte(0xC2EE) == 2
            and self.byte(0xC2EF) == 1
            and self.byte(0xCD00) == 1
            and not (self.byte(0xCBA0) or self.byte(0xCBCB) or self.byte(0xC4AB) or self.byte(0xCCA4) & 0x81)
        )

    def open_cell(self, row: int, column: int) -> bool:
        if not (0 <= row < 8 and 0 <= column < 10):
            return False
        place = row << 4 | column
        kind = self._types[self.byte(0xCF00 + place)]
        return self.byte(0xCE00 + place) == 0 and kind not in HOLES

    def enemies(self) -> list[tuple[int, int, int]]:
        """Place of each, and how far off along one axis the blade reaches it."""
        pages = [page for page in range(0xD080, 0xD680, 0x100) if self.byte(page)]
        return [
            (self.byte(p + 0x0B), self.byte(p + 0x0D), 32 if self.byte(p + 1) in LARGE else 24) for p in pages
        ]

    def parts(self, kind: int) -> list[tuple[int, int]]:
        """Places of the small things of a kind."""
        pages = [page for page in range(0xD0C0, 0xD6C0, 0x100) if self.byte(page)]
        return [(self.byte(p + 0x0B), self.byte(p + 0x0D)) for p in pages if self.byte(p + 1) == kind]

    # What is done.

    def step(self, action: Action) -> None:
        self.emulator.step(action, STEP_FRAMES)
        self.inputs.append(Input(action, STEP_FRAMES))
        self.watch(self)

    def wait(self, steps: int = 1) -> None:
        for _ in range(steps):
            self.step(Action.NOP)

    def ready(self) -> None:
        """Let what is going on end; text is read, with its first answer."""
        for _ in range(PATIENCE):
            if self.control() and self.byte(0xD004) == 1:
                return
            self.step(Action.A if self.byte(0xCBA0) and len(self.inputs) % 2 else Action.NOP)
        raise Lost(f"no control at {self.place}")

    def script(self) -> str:
        return format_inputs(self.inputs)

    def path(self, goals: set[tuple[int, int]]) -> list[tuple[int, int]]:
        """Cells from here to the nearest of the goals, which may be solid themselves."""
        start = self.cell
        before: dict[tuple[int, int], tuple[int, int] | None] = {start: None}
        queue = deque([start])
        while queue:
            here = queue.popleft()
            if here in goals:
                way = [here]
                while (back := before[way[-1]]) is not None:
                    way.append(back)
                return way[::-1]
            for down, right in WAYS.values():
                there = here[0] + down, here[1] + right
                if there not in before and (there in goals or self.open_cell(*there)):
                    before[there] = here
                    queue.append(there)
        raise Lost(f"no way from {start} to {sorted(goals)} in {self.place}")

    def go(self, row: int, column: int, near: int = 4) -> None:
        """Walk to the middle of a cell."""
        room = self.place
        for _ in range(PATIENCE):
            self.ready()
            if self.place != room:
                return
            y, x = (row << 4) + 8, (column << 4) + 8
            if abs(self.y - y) <= near and abs(self.x - x) <= near:
                return
            self._walk_towards((row, column))
        raise Lost(f"({row}, {column}) in {room} was not reached, but {self.cell}")

    def _walk_towards(self, goal: tuple[int, int]) -> None:
        way = self.path({goal})
        row, column = way[1] if len(way) > 1 else goal
        here = way[0]
        y, x = (row << 4) + 8, (column << 4) + 8
        # Stay in the middle of the lane while walking along it.
        if row != here[0] or len(way) == 1:
            if abs(self.x - x) > 3:
                self.step(Action.RIGHT if self.x < x else Action.LEFT)
                return
            self.step(Action.DOWN if self.y < y else Action.UP)
        else:
            if abs(self.y - y) > 3:
                self.step(Action.DOWN if self.y < y else Action.UP)
                return
            self.step(Action.RIGHT if self.x < x else Action.LEFT)

    def leave(self, way: Action, lane: int | None = None) -> None:
        """Walk out of the room on one side, through the given row or column."""
        room = self.place
        edge = {Action.UP: 0, Action.DOWN: 7, Action.LEFT: 0, Action.RIGHT: 9}[way]
        lanes = range(10) if way in (Action.UP, Action.DOWN) else range(8)
        cells = {
            (edge, n) if way in (Action.UP, Action.DOWN) else (n, edge) for n in lanes if lane in (None, n)
        }
        cells = {cell for cell in cells if self.open_cell(*cell)}
        self.go(*self.path(cells)[-1])
        for _ in range(PATIENCE):
            if self.place != room:
                self.ready()
                return
            self.ready()
            self.step(way)
        raise Lost(f"{way.name} does not lead out of {room}")

    def enter(self, row: int, column: int) -> None:
        """Walk into a doorway that leads elsewhere."""
        room = self.place
        for _ in range(PATIENCE):
            if self.place != room:
                self.ready()
                return
            self.ready()
            self._walk_towards((row, column))
        raise Lost(f"({row}, {column}) leads nowhere from {room}")

    def face(self, way: Action) -> None:
        for _ in range(20):
            if DIRECTIONS[self.byte(0xD008)] is way:
                return
            self.step(way)
        raise Lost(f"cannot face {way.name}")

    def beside(self, row: int, column: int, way: Action) -> None:
        """Stand before a cell, facing it: it lies in the direction of `way`."""
        down, right = WAYS[way]
        self.go(row - down, column - right)
        self.face(way)

    def use(self, row: int, column: int, way: Action) -> None:
        """Press A before something, and read what it says."""
        self.beside(row, column, way)
        self.step(Action.A)
        self.wait(2)
        self.ready()

    def cut(self, row: int, column: int, way: Action) -> None:
        """Swing at a cell until it is open."""
        self.beside(row, column, way)
        self._repeat(Action.A, lambda: self.open_cell(row, column))

    def strike(self, row: int, column: int, way: Action) -> None:
        """Swing once at a cell."""
        self.beside(row, column, way)
        self.step(Action.A)
        self.wait(5)

    def push(self, row: int, column: int, way: Action) -> None:
        """Push what stands in a cell until the cell is open."""
        self.beside(row, column, way)
        self._repeat(way, lambda: self.open_cell(row, column))
        self.wait(6)

    def _repeat(self, action: Action, done: Callable[[], bool]) -> None:
        for _ in range(60):
            if done():
                return
            self.step(action)
            if action is Action.A:
                self.wait(3)
            self.ready()
        raise Lost(f"{action.name} does not help in {self.place} at {self.cell}")

    def take(self, row: int, column: int) -> None:
        """Walk onto or against something until it is taken."""
        flags = self._flags_address()
        for _ in range(PATIENCE):
            if self.byte(flags) & 0x20:
                self.ready()
                return
            self.ready()
            self._walk_towards((row, column))
        raise Lost(f"nothing to take at ({row}, {column}) in {self.place}")

    def _flags_address(self) -> int:
        group, room = self.place
        return (0xC700, 0xC800, 0xC800, 0xC800, 0xC900, 0xCA00)[group] + room

    def fight(self) -> None:
        """Strike down every enemy of the room."""
        room = self.place
        for _ in range(PATIENCE):
            self.ready()
            foes = self.enemies()
            if not foes:
                return
            if self.place != room:
                raise Lost(f"the hero fell in {room}")
            y, x, reach = min(foes, key=lambda foe: abs(foe[0] - self.y) + abs(foe[1] - self.x))
            down, right = y - self.y, x - self.x
            way = self._way(down, right)
            across, along = sorted((abs(down), abs(right)))
            if reach > 24 and along < 26 and self._free(BACK[way]):
                self.step(BACK[way])
            elif along <= reach and across <= 10:
                if DIRECTIONS[self.byte(0xD008)] is not way:
                    self.step(way)
                self.step(Action.A)
                self.wait(3)
            else:
                self._approach(y, x)
        raise Lost(f"enemies are left in {self.place}: {self.enemies()}")

    def heal(self) -> None:
        """Cut the room's bushes and gather the hearts they drop, until nothing is missing."""
        for _ in range(PATIENCE):
            self.ready()
            if self.byte(0xC6A2) == self.byte(0xC6A3):
                return
            hearts = [p for p in range(0xD0C0, 0xD6C0, 0x100) if self.byte(p) and self.byte(p + 1) == HEART]
            bushes = [
                (n >> 4, n & 15) for n in range(128) if self.byte(0xCF00 + n) == self._bush and n & 15 < 10
            ]
            if hearts:
                self._walk_towards((self.byte(hearts[0] + 0x0B) >> 4, self.byte(hearts[0] + 0x0D) >> 4))
            elif bushes:
                self._cut_nearest(bushes)
            else:
                return
        raise Lost(f"hearts are out of reach in {self.place}")

    def _cut_nearest(self, bushes: list[tuple[int, int]]) -> None:
        way = self.path(set(bushes))
        (row, column), (y, x) = way[-1], way[-2] if len(way) > 1 else self.cell
        self.cut(row, column, next(a for a, step in WAYS.items() if step == (row - y, column - x)))
        self.wait(2)

    def duel(self) -> None:
        """Strike down a large enemy from below, keeping at the blade's length."""
        room = self.place
        for _ in range(PATIENCE):
            self.ready()
            if not self.enemies():
                return
            if self.place != room:
                raise Lost(f"the hero fell in {room}")
            y, x, _ = self.enemies()[0]
            if self._spat_at() and self.byte(0xD008) == 0:
                self.wait()  # behind the shield
            elif abs(self.x - x) > 10:
                self.step(Action.RIGHT if self.x < x else Action.LEFT)
            elif self.y < y + (20 if self.byte(0xD008) == 0 else 27):  # turning takes a step up
                self.step(Action.DOWN)
            elif self.y > y + 34 or self.byte(0xD008) != 0:
                self.step(Action.UP)
            else:
                self.step(Action.A)
                self.wait(2)
        raise Lost(f"{self.enemies()} are left in {room}")

    def _free(self, way: Action) -> bool:
        row, column = self.cell
        down, right = WAYS[way]
        return 0 < column + right < 9 and self.open_cell(row + down, column + right)

    def _spat_at(self) -> bool:
        return any(abs(y - self.y) < 32 and abs(x - self.x) < 14 for y, x in self.parts(SPIT))

    def _approach(self, y: int, x: int) -> None:
        try:
            self._walk_towards((y >> 4, x >> 4))
        except Lost:
            self.wait()

    @staticmethod
    def _way(down: int, right: int) -> Action:
        if abs(down) > abs(right):
            return Action.DOWN if down > 0 else Action.UP
        return Action.RIGHT if right > 0 else Action.LEFT
