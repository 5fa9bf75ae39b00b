"""Sanity gates: quiet on the bundled game, and each wrong address found."""

import dataclasses

import numpy as np
import pytest

from questloop.game.gates import Gates, check_game
from questloop.game.profiles.mossgrove import PROFILE
from questloop.game.profiles.oracle_decoder import OracleDecoder
from questloop.game.profiles.oracle_memory import TAPS
from questloop.game.rom import Rom
from questloop.game.start_states import StartState, load_start_states
from questloop.game.taps import IndexedTap, TapLayout


@pytest.fixture(scope="module")
def rom():
    return Rom.load()


@pytest.fixture(scope="module")
def beginning(rom) -> StartState:
    return load_start_states(rom, PROFILE).states[0]


def test_the_bundled_game_is_sane(rom, beginning):
    assert check_game(rom, PROFILE, beginning, steps=1200) == []


def wrong(name: str, address: int, bank: int | None = None):
    """Mossgrove's profile with one tap at a wrong address."""
    taps = [dataclasses.replace(t, address=address, bank=bank) if t.name == name else t for t in TAPS]
    indexed = PROFILE.layout.indexed
    named = {tap.name for tap in taps}
    extra = [tap for tap in PROFILE.layout.taps if tap.name not in named]
    layout = TapLayout([*taps, *extra], [IndexedTap(t.name, t.bases, t.page, t.index) for t in indexed])
    return dataclasses.replace(PROFILE, layout=layout, decode=OracleDecoder(layout))


@pytest.mark.parametrize(
    ("name", "address", "bank", "gate"),
    [
        ("hero_y", 0xD300, 1, "position"),
        ("hero_x", 0xD300, 1, "position"),
        ("hero_x", 0xD00C, 1, "position"),  # the sub-pixel beside it
        ("health", 0xC6A4, None, "health"),
        ("max_health", 0xC6B0, None, "max_health"),
        ("game_state", 0xC2E0, None, "control"),
        ("collisions", 0xC900, None, "collisions"),
        ("dungeon", 0xCC4C, None, "dungeon"),
        ("rupees", 0xCE00, None, "rupees"),
    ],
)
def test_a_wrong_address_is_found(rom, beginning, name, address, bank, gate):
    profile = wrong(name, address, bank)
    state = dataclasses.replace(beginning.state, layout_hash=profile.layout.hash)
    assert gate in {item.gate for item in check_game(rom, profile, StartState("start", state), steps=400)}


IN_PLAY = {"game_state": 2, "cutscene": 1, "scroll_mode": 1, "hero_object": 0xD0, "dungeon": 0xFF}
IN_PLAY |= {"pushing_direction": 0xFF, "health": 12, "max_health": 12, "collisions": [0x0F]}


def findings(**values):
    """Gates on 60 constructed steps of a hero who walks, with `values` in memory."""
    gates = Gates(PROFILE)
    for step in range(60):
        row = PROFILE.layout.row(**(IN_PLAY | {"hero_x": 40 + step, "hero_y": 40 + step} | values))
        gates.add(row[np.newaxis])
    return {finding.gate: finding.reason for finding in gates.findings()}


@pytest.mark.parametrize(
    ("values", "gate", "reason"),
    [
        ({"health": 13}, "health", "health is 13, above its maximum 12"),
        ({"max_health": 84, "health": 0}, "max_health", "84 quarter hearts"),
        ({"max_health": 0, "health": 0}, "max_health", "0 quarter hearts"),
        ({"rupees": [0x1A, 0]}, "rupees", "holds 1A, no decimal digits"),
        ({"seeds": [0, 0, 0xF0]}, "seeds", "holds F0"),
        ({"group": 1, "room": 0x0B}, "room", "room 1:0b is not on the map"),
        ({"group": 1, "room": 0x80}, "room", "not on the map"),
        ({"group": 9}, "room", "not on the map"),
        ({"hero_y": 200}, "inside", "y 200, outside the room"),
        ({"hero_y": 150, "room_is_large": 0}, "inside", "outside the room"),
        ({"season": 4}, "season", "season is 4, not 0 to 3"),
        ({"dungeon": 12}, "dungeon", "dungeon is 12"),
        ({"small_keys": [0, 0, 200]}, "small_keys", "small_keys is 200"),
        ({"hero_x": 40}, "position", "x never changed"),
        ({"health": 0}, "health", "health was 0 in every step"),
        ({"collisions": [0]}, "collisions", "no metatile"),
        ({"text_active": 1}, "control", "in 0 of 60 steps"),
    ],
)
def test_each_gate_gives_its_reason(values, gate, reason):
    found = findings(**values)
    assert reason in found[gate]


def test_a_sane_walk_is_quiet():
    assert findings() == {}
    assert findings(room_is_large=1, hero_y=150, dungeon=3, season=3, rupees=[0x99, 0x09]).keys() == {
        "position"
    }


@pytest.mark.parametrize(("leaps", "quiet"), [(5, True), (30, False)])
def test_a_position_that_leaps_is_no_position(leaps, quiet):
    gates = Gates(PROFILE)
    for step in range(80):
        x = 40 + step // 2 + 60 * (step < leaps and step % 2)
        gates.add(PROFILE.layout.row(**(IN_PLAY | {"hero_x": x, "hero_y": 40 + step}))[np.newaxis])
    assert [item.reason for item in gates.findings()] == (
        [] if quiet else ["x leapt more than 16 pixels in 30 of 54 moves"]
    )


def test_restless_health():
    gates = Gates(PROFILE)
    for step in range(80):
        row = PROFILE.layout.row(
            **(IN_PLAY | {"hero_x": 40 + step, "hero_y": 40 + step, "health": step % 12})
        )
        gates.add(row[np.newaxis])
    assert [finding.gate for finding in gates.findings()] == ["health"]
