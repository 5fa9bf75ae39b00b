"""The GameState page names every key of the JSON, and no other."""

import re
from pathlib import Path

import numpy as np

from questloop.game.profiles.oracle_of_seasons import PROFILE
from questloop.game.state import decode

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "game-state.md"


def test_keys():
    row = np.full(PROFILE.layout.size, 0x51, np.uint8)  # nothing is zero
    bytes_of = {
        "dungeon": 1,
        "group": 4,
        "hero_object": 0xD1,
        "hero_z": 0xF0,
        "hero_state": 3,
        "text_mode": 1,
    }
    for tap, value in (bytes_of | {"treasures": 0xFF}).items():
        row[PROFILE.layout.offset(tap)] = value
    written = set(decode(row, PROFILE).to_json())
    rows = [line.split("|")[1] for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    assert {key for cell in rows for key in re.findall(r"`(\w+)`", cell)} == written
