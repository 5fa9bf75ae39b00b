"""Mossgrove on the real emulator, without Questloop's own layers: what is tested here is the game."""

import io
from pathlib import Path

import pytest
from pyboy import PyBoy

ROOT = Path(__file__).parents[2]
SHIPPED = ROOT / "src/questloop/game/roms/mossgrove.gbc"


class Console:
    """A headless console with the shipped ROM, and the game's state by name."""

    FIELDS = {  # noqa: RUF012
        "game_state": 0xC2EE, "cutscene": 0xC2EF, "group": 0xCC49, "room": 0xCC4C, "health": 0xC6A2,
        "max_health": 0xC6A3, "text": 0xCBA0, "menu": 0xCBCB, "scroll": 0xCD00, "palette": 0xC4AB,
    }  # fmt: skip

    def __init__(self) -> None:
        self.pyboy = PyBoy(
            io.BytesIO(SHIPPED.read_bytes()), window="null", cgb=True, sound_emulated=False, log_level="ERROR"
        )

    def run(self, frames: int, button: str | None = None) -> None:
        if button:
            self.pyboy.button_press(button)
        self.pyboy.tick(frames, False)
        if button:
            self.pyboy.button_release(button)

    def until(self, holds, frames: int = 1200) -> None:
        for _ in range(frames):
            if holds():
                return
            self.run(1)
        raise AssertionError(f"not reached within {frames} frames: {self.state()}")

    def read(self, address: int) -> int:
        return self.pyboy.memory[1, address] if address >= 0xD000 else self.pyboy.memory[address]

    def __getattr__(self, name: str) -> int:
        return self.read(self.FIELDS[name])

    @property
    def y(self) -> int:
        return self.read(0xD00B)

    @property
    def x(self) -> int:
        return self.read(0xD00D)

    def control(self) -> bool:
        return (
            self.game_state == 2
            and self.cutscene == 1
            and self.scroll == 1
            and not (self.text or self.menu or self.palette or self.read(0xCCA4) & 0x81)
        )

    def state(self) -> dict[str, int]:
        return {name: getattr(self, name) for name in self.FIELDS} | {"y": self.y, "x": self.x}


@pytest.fixture
def console():
    made = Console()
    yield made
    made.pyboy.stop(save=False)
