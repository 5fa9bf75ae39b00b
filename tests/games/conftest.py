"""Mossgrove on the real emulator: what is tested here is the game."""

import io
from importlib import resources
from pathlib import Path

import numpy as np
import pytest
from pyboy import PyBoy

from questloop.game.emulator import Emulator
from questloop.game.input_script import parse_inputs, steps
from questloop.game.profiles.mossgrove import PROFILE
from questloop.game.rom import Rom

ROOT = Path(__file__).parents[2]
TITLE = 0x0D
SHIPPED = ROOT / "src/questloop/game/roms/mossgrove.gbc"


class Console:
    """A headless console with the shipped ROM, and the game's state by name."""

    FIELDS = {  # noqa: RUF012
        "game_state": 0xC2EE, "cutscene": 0xC2EF, "group": 0xCC49, "room": 0xCC4C, "health": 0xC6A2,
        "max_health": 0xC6A3, "text": 0xCBA0, "choosing": 0xCBA1, "choice": 0xCBA5, "menu": 0xCBCB,
        "scroll": 0xCD00, "palette": 0xC4AB, "season": 0xCC4E, "sword": 0xC6AC, "tile_type": 0xCCB6,
        "y": 0xD00B, "x": 0xD00D, "direction": 0xD008, "state": 0xD004,
    }  # fmt: skip

    def __init__(self) -> None:
        self.pyboy = PyBoy(
            io.BytesIO(SHIPPED.read_bytes()), window="null", cgb=True, sound_emulated=False, log_level="ERROR"
        )

    def run(self, frames: int, *buttons: str) -> None:
        for button in buttons:
            self.pyboy.button_press(button)
        self.pyboy.tick(frames, False)
        for button in buttons:
            self.pyboy.button_release(button)

    def press(self, button: str) -> None:
        self.run(3, button)
        self.run(3)

    def until(self, holds, frames: int = 1200, button: str | None = None) -> None:
        for _ in range(frames):
            if holds():
                return
            self.run(1, *[button] if button else [])
        raise AssertionError(f"not reached within {frames} frames: {self.fields()}")

    def begin(self) -> None:
        self.until(lambda: self.cutscene == TITLE)
        self.press("start")
        self.until(self.control)

    def read(self, address: int) -> int:
        return self.pyboy.memory[1, address] if address >= 0xD000 else self.pyboy.memory[address]

    def write(self, address: int, value: int) -> None:
        if address >= 0xD000:
            self.pyboy.memory[1, address] = value
        else:
            self.pyboy.memory[address] = value

    def go_to(self, group: int, room: int, y: int, x: int) -> None:
        """By way of death, which leads to the place of respawn."""
        for address, value in (
            (0xC62B, group),
            (0xC62C, room),
            (0xC62E, 2),
            (0xC62F, y),
            (0xC630, x),
            (0xC6A2, 0),
        ):
            self.write(address, value)
        self.until(lambda: self.read(0xCC35))
        self.until(self.control)

    def __getattr__(self, name: str) -> int:
        return self.read(self.FIELDS[name])

    def control(self) -> bool:
        return (
            self.game_state == 2
            and self.cutscene == 1
            and self.scroll == 1
            and not (self.text or self.menu or self.palette or self.read(0xCCA4) & 0x81)
        )

    def fields(self) -> dict[str, int]:
        return {name: getattr(self, name) for name in self.FIELDS}


@pytest.fixture
def console():
    made = Console()
    yield made
    made.pyboy.stop(save=False)


class Trace:
    """What the walkthrough left in memory after each of its steps."""

    def __init__(self) -> None:
        script = (resources.files("questloop.game") / "roms" / PROFILE.walkthrough).read_text("utf-8")
        emulator = Emulator(Rom.load(None), PROFILE.layout)
        fixed, objects, rows = [], [], []
        for item in steps(parse_inputs(script), 4):
            emulator.step(item.action, item.frames)
            fixed.append(np.frombuffer(emulator.peek(0xC000, 0x1000), np.uint8))
            objects.append(np.frombuffer(emulator.peek(0xD000, 0x600, 1), np.uint8))
            rows.append(np.zeros(PROFILE.layout.size, np.uint8))
            emulator.read(rows[-1])
        emulator.close()
        self._fixed, self._objects = np.array(fixed), np.array(objects)
        self.taps = np.array(rows)
        """u8[steps, K]"""

    def at(self, address: int) -> np.ndarray:
        """u8[steps]: the byte at an address, objects in their bank."""
        if address >= 0xD000:
            return self._objects[:, address - 0xD000]
        return self._fixed[:, address - 0xC000]

    def region(self, address: int, size: int) -> np.ndarray:
        """u8[steps, size]"""
        return np.stack([self.at(address + i) for i in range(size)], axis=1)

    def seen(self, address: int) -> set[int]:
        """Every value the byte took."""
        return set(self.at(address).tolist())

    def when(self, **conditions: int) -> np.ndarray:
        """bool[steps]: where named columns have the given values."""
        columns = PROFILE.columns(self.taps)
        return np.logical_and.reduce([getattr(columns, name) == value for name, value in conditions.items()])


@pytest.fixture(scope="package")
def trace():
    return Trace()
