"""The observation: every dimension has a way to move, stays in its range, and is described truly."""

from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from questloop.game.actions import Action
from questloop.game.columns import Columns
from questloop.game.observation import DIMENSIONS, INDEX, OBSERVATION_SIZE, QUEST_SIZE, Encoder, describe
from questloop.game.profiles import mossgrove
from questloop.game.profiles.oracle_of_seasons import PROFILE

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "observation.md"


def at(**values) -> Columns:
    """One slot in the middle of small room 0:77, with control."""
    columns = Columns.zeros(1)
    usual = {"room": 0x77, "x": 72, "y": 56, "has_control": True, "max_health": 12}
    for name, value in (usual | values).items():
        getattr(columns, name)[0] = value
    columns.tile[:] = (columns.y >> 4 << 4) | (columns.x >> 4)
    return columns


def encode(*steps: Columns, actions=(), encoder: Encoder | None = None) -> np.ndarray:
    encoder = encoder or Encoder(1, PROFILE, 4)
    out = np.full((1, OBSERVATION_SIZE), np.nan, np.float32)
    actions = [*actions, *[Action.NOP] * len(steps)]
    for columns, action in zip(steps, actions, strict=False):
        encoder.encode(columns, np.array([action], np.uint8), out)
    assert np.isfinite(out).all()
    return out[0]


def enemies(**values) -> Columns:
    columns = at()
    for name, slots in values.items():
        getattr(columns, f"enemy_{name}")[0, : len(slots)] = slots
    return columns


def solid(row: int, column: int, value: int = 0x0F) -> Columns:
    columns = at()
    columns.collisions[0, row, column] = value
    return columns


def items(index: int, level: int) -> Columns:
    columns = at()
    columns.items[0, index] = level
    return columns


PER_GROUP = -(-len(PROFILE.milestones) // QUEST_SIZE)
LAST_GROUP = len(PROFILE.milestones) - PER_GROUP * (QUEST_SIZE - 1)
NEAR = {"id": [9, 8, 7], "x": [88, 72, 8], "y": [56, 24, 120], "health": [4, 2, 8]}
OFFSETS = [(row, column) for row in range(-2, 3) for column in range(-2, 3) if row or column]

# name: (the steps that lead there, the value)
CASES = {
    "x": ([at(x=80)], 80 / 160),
    "y": ([at(y=88, large_room=True)], 88 / 176),
    "x_in_tile": ([at(x=75)], 11 / 15),
    "y_in_tile": ([at(y=50)], 2 / 15),
    "dungeon": ([at(dungeon=2)], 3 / 12),
    "season_warm": ([at(season=3)], -1),
    "season_growing": ([at(season=2)], -1),
    "health": ([at(health=6)], 0.5),
    "rupees": ([at(rupees=999)], 1),
    "bombs": ([at(bombs=9)], 0.5),
    "seeds": ([at(seeds=20)], np.log(21) / np.log(496)),
    "keys_here": ([at(keys_here=1)], 1),
    "boss_key_here": ([at(boss_key_here=True)], 1),
    "text": ([at(text_active=True)], 1),
    "choice": ([at(text_choice=True)], 1),
    "menu": ([at(menu_open=2)], 1),
    "control": ([at(has_control=False)], 0),
    "pushing": ([at(pushing=True)], 1),
    "carrying": ([at(carrying=True)], 1),
    "afloat": ([at(swimming=True)], -1),
    "height": ([at(height=-8)], 0.25),
    "invincible": ([at(invincible=0x20)], 0.5),
    "enemies": ([at(enemies=2)], 0.25),
    "buttons": ([at(triggers=0b101)], 0.5),
    "torches": ([at(torches=1)], 0.25),
    "switches": ([at(switches=0x0101)], 0.25),
    "room_item": ([at(room_flags=0x20)], 1),
    "room_doors": ([at(room_flags=0x03)], 0.5),
    "room_solved": ([at(room_flags=0xC0)], 1),
    "facing_x": ([at(direction=3)], -1),
    "facing_y": ([at(direction=2)], 1),
    **{f"room_bit_{i}": ([at(room=1 << i)], 1) for i in range(8)},
    "group_second_world": ([at(group=1)], 1),
    "group_indoors": ([at(group=2)], 1),
    "group_dungeon": ([at(group=5)], 1),
    "group_side_scroll": ([at(group=6)], 1),
    **{f"item_{i}": ([items(i, 2)], 2 / 3) for i in range(16)},
    "enemy_0_dx": ([enemies(**NEAR)], 16 / 128),
    "enemy_0_dy": ([enemies(id=[1], x=[72], y=[40])], -16 / 128),
    "enemy_0_kind": ([enemies(**NEAR)], 9 / 127),
    "enemy_0_health": ([enemies(**NEAR)], 0.25),
    "enemy_1_dx": ([enemies(id=[1, 0, 2], x=[72, 72, 40], y=[56, 56, 56])], -32 / 128),
    "enemy_1_dy": ([enemies(**NEAR)], -32 / 128),
    **{f"solid_{r:+d}_{c:+d}": ([solid(3 + r, 4 + c, 0x05)], 0.5) for r, c in OFFSETS},
    **{f"quest_{i}": ([at(milestones=0b101 << PER_GROUP * i)], 2 / PER_GROUP) for i in range(QUEST_SIZE - 1)},
    "quest_20": ([at(milestones=1 << PER_GROUP * 20)], 1 / LAST_GROUP),
    "room_up_visited": ([at(room=0x67), at()], 1),
    "room_right_visited": ([at(room=0x78), at()], 1),
    "room_down_visited": ([at(room=0x87), at()], 1),
    "room_left_visited": ([at(room=0x76), at()], 1),
    "tile_up_visited": ([at(y=40), at()], 1),
    "tile_right_visited": ([at(x=88), at()], 1),
    "tile_down_visited": ([at(y=72), at()], 1),
    "tile_left_visited": ([at(x=56), at()], 1),
    "dx": ([at(), at(x=76)], 0.25),
    "dy": ([at(), at(y=52)], -0.25),
    "since_tile": ([at()] * 65, 4 * 64 / 1024),
    "since_room": ([at()] * 65, 4 * 64 / 8192),
}


@pytest.mark.parametrize("name", CASES)
def test_every_dimension_has_a_state_that_moves_it(name):
    steps, value = CASES[name]
    assert encode(*steps)[INDEX[name]] == pytest.approx(value, abs=1e-6)
    elsewhere = (encode(at()), encode(at(room=0, group=3, direction=1)))
    assert any(seen[INDEX[name]] != pytest.approx(value) for seen in elsewhere)


@pytest.mark.parametrize("action", Action)
def test_last_action_is_one_hot(action):
    seen = encode(at(), actions=[action])
    buttons = [other for other in Action if other < Action.START]
    block = seen[INDEX["action_up"] : INDEX["action_up"] + len(buttons)]
    assert block.tolist() == [float(other == action) for other in buttons]


@pytest.mark.parametrize("number", range(len(mossgrove.MILESTONES)))
def test_each_milestone_of_mossgrove_is_a_number_of_its_own(number):
    """Whether the elder was heard, and every other one."""
    seen = encode(at(milestones=1 << number), encoder=Encoder(1, mossgrove.PROFILE, 4))
    block = seen[INDEX["quest_0"] :][:QUEST_SIZE]
    assert block.tolist() == [float(other == number) for other in range(QUEST_SIZE)]


@pytest.mark.parametrize("profile", [mossgrove.PROFILE, PROFILE])
def test_the_quest_s_numbers_rise_from_none_to_all_milestones(profile):
    """Reached in order, each milestone is seen, and all of them together are ones."""
    before, encoder = np.zeros(QUEST_SIZE), Encoder(1, profile, 4)
    for done in range(1, len(profile.milestones) + 1):
        block = encode(at(milestones=(1 << done) - 1), encoder=encoder)[INDEX["quest_0"] :][:QUEST_SIZE]
        assert (block >= before).all()
        assert block.sum() > before.sum() + 0.2
        before = block
    assert set(before.tolist()) <= {0.0, 1.0}
    assert before.sum() == -(-len(profile.milestones) // -(-len(profile.milestones) // QUEST_SIZE))


@pytest.mark.parametrize("frame_skip", [1, 4, 8, 16])
def test_what_lies_back_is_told_in_frames(frame_skip):
    """128 frames without a new metatile look alike, however many steps they took."""
    seen = encode(*[at()] * (128 // frame_skip + 1), encoder=Encoder(1, PROFILE, frame_skip))
    assert seen[INDEX["since_tile"]] == pytest.approx(128 / 1024)
    assert seen[INDEX["since_room"]] == pytest.approx(128 / 8192)


def test_the_cases_cover_the_table():
    actions = {f"action_{action.name.lower()}" for action in Action if action < Action.START}
    assert set(CASES) | actions == {d.name for d in DIMENSIONS}
    assert len(INDEX) == OBSERVATION_SIZE


def test_outside_the_room_is_minus_one():
    corner = encode(at(x=8, y=8))
    assert corner[INDEX["solid_-1_+0"]] == corner[INDEX["solid_+0_-1"]] == -1
    edge = {large: encode(at(x=152, y=120, large_room=large)) for large in (False, True)}
    assert edge[False][INDEX["solid_+0_+1"]] == edge[False][INDEX["solid_+1_+0"]] == -1
    assert edge[True][INDEX["solid_+0_+1"]] == edge[True][INDEX["solid_+1_+0"]] == 0


def test_neighbours_do_not_wrap_round_the_map():
    assert encode(at(room=0x7F), at(room=0x80))[INDEX["room_left_visited"]] == 0
    assert encode(at(x=248, y=40), at(x=8))[INDEX["tile_left_visited"]] == 0


def test_the_same_room_number_in_another_group_is_another_room():
    seen = encode(at(room=0x76, group=4), at(group=4), at())
    assert seen[INDEX["room_left_visited"]] == 0
    assert seen[INDEX["since_room"]] == 0


def test_scrolling_counts_no_visits():
    seen = encode(at(room=0x76, transition=True), at())
    assert seen[INDEX["room_left_visited"]] == 0


def test_movement_is_zero_across_rooms():
    assert encode(at(x=150), at(room=0x78, x=8))[INDEX["dx"]] == 0


def test_reset_clears_one_slot_only():
    encoder = Encoder(2, PROFILE, 4)
    out = np.zeros((2, OBSERVATION_SIZE), np.float32)
    nop = np.full(2, Action.NOP, np.uint8)
    first, second = Columns.zeros(2), Columns.zeros(2)
    first.room[:], second.room[:] = 0x76, 0x77
    encoder.encode(first, nop, out)
    encoder.reset([1])
    encoder.encode(second, nop, out)
    assert out[:, INDEX["room_left_visited"]].tolist() == [1, 0]
    encoder.reset(np.array([True, False]))
    encoder.encode(second, nop, out)
    assert out[:, INDEX["room_left_visited"]].tolist() == [0, 0]


def test_begin_observes_some_slots_and_leaves_the_others_alone():
    rng = np.random.default_rng(1)
    taps = rng.integers(0, 256, (3, 4, PROFILE.layout.size), np.uint8)
    nop = np.full(4, Action.NOP, np.uint8)
    encoder, plain = Encoder(4, PROFILE, 4), Encoder(4, PROFILE, 4)
    out, expected = np.zeros((2, 4, OBSERVATION_SIZE), np.float32)
    encoder.encode(PROFILE.columns(taps[0]), nop, out)
    plain.encode(PROFILE.columns(taps[0]), nop, expected)
    first = encoder.begin(np.array([3, 1]), PROFILE.columns(taps[1]))
    fresh = np.zeros((4, OBSERVATION_SIZE), np.float32)
    began = Encoder(4, PROFILE, 4)
    began.encode(PROFILE.columns(taps[1]), nop, fresh)
    np.testing.assert_array_equal(first, fresh[[3, 1]])
    encoder.encode(PROFILE.columns(taps[2]), nop, out)
    plain.encode(PROFILE.columns(taps[2]), nop, expected)
    began.encode(PROFILE.columns(taps[2]), nop, fresh)
    np.testing.assert_array_equal(out[[0, 2]], expected[[0, 2]])
    np.testing.assert_array_equal(out[[1, 3]], fresh[[1, 3]])


def test_history_is_saved_and_restored():
    encoder, other = Encoder(1, PROFILE, 4), Encoder(1, PROFILE, 4)
    encode(at(room=0x76, x=8), at(x=20), encoder=encoder)
    other.load_state_dict(encoder.state_dict())
    np.testing.assert_array_equal(encode(at(), encoder=encoder), encode(at(), encoder=other))
    with pytest.raises(ValueError, match="history"):
        Encoder(2, PROFILE, 4).load_state_dict(encoder.state_dict())


def test_slots_do_not_mix():
    rng = np.random.default_rng(0)
    taps = rng.integers(0, 256, (4, 6, PROFILE.layout.size), np.uint8)
    together, out = Encoder(6, PROFILE, 4), np.zeros((6, OBSERVATION_SIZE), np.float32)
    alone = [Encoder(1, PROFILE, 4) for _ in range(6)]
    for step in taps:
        actions = rng.integers(0, 8, 6).astype(np.uint8)
        columns = PROFILE.columns(step)
        together.encode(columns, actions, out)
        for slot in range(6):
            single = np.zeros((1, OBSERVATION_SIZE), np.float32)
            alone[slot].encode(columns.take(np.array([slot])), actions[slot : slot + 1], single)
            np.testing.assert_array_equal(single[0], out[slot])


@given(hnp.arrays(np.uint8, (2, PROFILE.layout.size), elements=st.integers(0, 255)), st.integers(0, 7))
def test_any_memory_gives_values_in_range(taps, action):
    encoder, out = Encoder(2, PROFILE, 4), np.zeros((2, OBSERVATION_SIZE), np.float32)
    for _ in range(2):
        encoder.encode(PROFILE.columns(taps), np.full(2, action, np.uint8), out)
    low, high = (np.array([getattr(d, name) for d in DIMENSIONS]) for name in ("low", "high"))
    assert np.isfinite(out).all()
    assert (out >= low).all()
    assert (out <= high).all()


def test_columns_are_arrays_of_their_own():
    taps = np.zeros((2, PROFILE.layout.size), np.uint8)
    columns = PROFILE.columns(taps)
    for field in fields(columns):
        assert not np.shares_memory(getattr(columns, field.name), taps), field.name


def test_the_reference_page_is_the_table():
    assert PAGE.read_text() == describe(), (
        "run: python -m questloop.game.observation > docs/reference/observation.md"
    )
