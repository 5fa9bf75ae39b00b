"""Every reward through the one place that sums them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from questloop.game.columns import Columns
from questloop.rewards.aims import Aims
from questloop.rewards.hints import HintTargets
from questloop.rewards.total import Rewards
from questloop.settings import RewardSettings

WEIGHTS = RewardSettings()


class Play:
    """One slot, step by step; `total` and `parts` are sums since its reset."""

    def __init__(self, columns: Callable[..., Any], **start: Any) -> None:
        self._columns, self._rewards = columns, Rewards(1, WEIGHTS)
        self.reset(**start)

    def reset(self, **state: Any) -> None:
        self._state = state
        self._rewards.reset(np.array([0]), self._columns(**state))
        self.total, self.parts = 0.0, dict.fromkeys(self._rewards.names, 0.0)

    def step(self, **change: Any) -> dict[str, float]:
        """The parts that this step paid."""
        self._state |= change
        self.total += float(self._rewards.step(self._columns(**self._state))[0])
        paid = dict(zip(self._rewards.names, self._rewards.parts[0].tolist(), strict=True))
        for name, value in paid.items():
            self.parts[name] += value
        return {name: round(value, 6) for name, value in paid.items() if value}


@pytest.fixture
def play(columns) -> Callable[..., Play]:
    return lambda **start: Play(columns, **({"at": (2, 2)} | start))


def test_a_weight_for_every_part_and_a_part_for_every_weight():
    names = {f"reward_{name}" for name in (*Rewards(1, WEIGHTS).names, *HintTargets.names, *Aims.names)}
    assert names == set(RewardSettings.model_fields)


@pytest.mark.parametrize(
    ("change", "paid"),
    [
        ({"rupees": 5}, {"rupee": 5 * WEIGHTS.reward_rupee}),
        ({"small_keys": 1}, {"key": WEIGHTS.reward_key}),
        ({"boss_keys": 1}, {"key": WEIGHTS.reward_key}),
        ({"sword_level": 1}, {"sword": WEIGHTS.reward_sword}),
        ({"essences": 0b100}, {"essence": WEIGHTS.reward_essence}),
        ({"health": 8}, {"health": 4 * WEIGHTS.reward_health}),
        ({"dying": True}, {"death": WEIGHTS.reward_death}),
        ({"game_over": True}, {"death": WEIGHTS.reward_death}),
        ({"text_active": True, "text_index": 0x1234}, {"dialog": WEIGHTS.reward_dialog}),
        ({"room": 7}, {"room": WEIGHTS.reward_room, "tile": WEIGHTS.reward_tile}),
        ({"at": (2, 3)}, {"tile": WEIGHTS.reward_tile}),
        ({}, {}),
    ],
)
def test_an_event_pays_its_weight_once(play, change, paid):
    game = play()
    assert game.step(**change) == paid
    assert game.step() == {}
    assert game.total == pytest.approx(sum(paid.values()))


@pytest.mark.parametrize(
    "owned",
    [
        {"sword_level": 2},
        {"essences": 0xFF},
        {"rupees": 999},
        {"small_keys": 3, "boss_keys": 1},
        {"room": 9},
        {"dying": True, "has_control": False},
        {"text_active": True, "text_index": 3, "has_control": False},
    ],
)
def test_what_is_owned_at_a_reset_pays_nothing(play, owned):
    game = play(**owned)
    game.step()
    assert game.total == 0


def test_a_restore_forgets_what_was_owned_and_owns_what_the_state_holds(play):
    game = play()
    game.step(sword_level=1, rupees=50)
    game.reset(at=(2, 2), rupees=10)
    assert game.step(rupees=20) == {"rupee": 10 * WEIGHTS.reward_rupee}
    assert game.step(sword_level=1) == {"sword": WEIGHTS.reward_sword}


def test_a_key_found_in_another_room_after_one_was_spent_pays_again(play):
    game = play(small_keys=1)
    assert game.step(small_keys=0) == {}
    assert game.step(small_keys=1) == {"key": WEIGHTS.reward_key}
    game.step(small_keys=0, room=9)
    assert game.step(small_keys=1)["key"] == WEIGHTS.reward_key


def test_a_key_of_the_same_room_pays_once_however_often_it_is_found(play):
    game = play()
    for _ in range(10):
        game.step(small_keys=1)
        game.step(small_keys=0)
    assert game.parts["key"] == WEIGHTS.reward_key


def test_keys_that_come_back_when_memory_is_loaded_again_are_no_find(play):
    game = play(small_keys=3)
    game.step(small_keys=0, has_control=False)
    game.step(small_keys=3)
    game.step(has_control=True)
    assert game.parts["key"] == 0


def test_a_key_pays_when_its_fanfare_is_over(play):
    game = play()
    assert game.step(small_keys=1, has_control=False) == {}
    assert game.step(has_control=True) == {"key": WEIGHTS.reward_key}


def test_rupees_spent_and_earned_back_pay_nothing(play):
    game = play(rupees=20)
    for rupees in (30, 5, 30, 0, 31):
        game.step(rupees=rupees)
    assert game.parts["rupee"] == pytest.approx(11 * WEIGHTS.reward_rupee)


def test_healing_pays_nothing_and_every_loss_costs(play):
    game = play(health=12)
    for health in (8, 12, 8):
        game.step(health=health)
    assert game.parts["health"] == pytest.approx(8 * WEIGHTS.reward_health)


def test_a_lost_essence_pays_no_second_time(play):
    game = play()
    for essences in (0b1, 0, 0b1, 0b11):
        game.step(essences=essences)
    assert game.parts["essence"] == pytest.approx(2 * WEIGHTS.reward_essence)


def test_a_death_counts_once_while_its_flags_flicker_and_again_after_control(play):
    game = play()
    for flags in (
        {"dying": True, "has_control": False},
        {"dying": False},
        {"game_over": True},
        {"game_over": False},
    ):
        game.step(**flags)
    assert game.parts["death"] == WEIGHTS.reward_death
    game.step(has_control=True)
    game.step(dying=True, has_control=False)
    assert game.parts["death"] == 2 * WEIGHTS.reward_death


def test_a_text_pays_once_and_texts_of_menus_never(play):
    game = play()
    for _ in range(5):
        game.step(text_active=True, text_index=0x0412, has_control=False)
        game.step(text_active=False, has_control=True)
    game.step(text_active=True, text_index=0xFFFF)
    assert game.parts["dialog"] == pytest.approx(2 * WEIGHTS.reward_dialog)
    game.step(text_active=True, text_index=5, menu_open=True)
    assert game.parts["dialog"] == pytest.approx(2 * WEIGHTS.reward_dialog)


def test_opening_and_closing_the_menu_500_times_pays_nothing(play):
    game = play()
    for _ in range(500):
        game.step(menu_open=True, has_control=False, at=(0, 0), text_active=True)
        game.step(menu_open=False, has_control=True, at=(2, 2), text_active=False)
    assert game.total == 0


def test_walking_to_and_fro_100_times_pays_the_first_visit_and_costs_the_rest(play):
    game = play(at=(3, 3))
    for _ in range(100):
        game.step(at=(3, 4))
        game.step(at=(3, 3))
    assert game.parts["tile"] == pytest.approx(WEIGHTS.reward_tile)
    assert game.parts["revisit"] == pytest.approx(199 * WEIGHTS.reward_revisit, rel=1e-4)
    assert game.parts["room"] == 0


def test_standing_still_is_no_revisit(play):
    game = play()
    for _ in range(100):
        game.step()
    assert game.total == 0


def test_entering_a_house_50_times_counts_it_once(play):
    game = play(group=0, room=0x20)
    for _ in range(50):
        game.step(has_control=False, transition=True)
        game.step(group=3, room=0x91, at=(7, 4), has_control=True, transition=False)
        game.step(has_control=False, transition=True)
        game.step(group=0, room=0x20, at=(2, 2), has_control=True, transition=False)
    assert game.parts["room"] == WEIGHTS.reward_room
    assert game.parts["tile"] == pytest.approx(WEIGHTS.reward_tile)


def test_riding_out_and_in_counts_each_place_once(play):
    game = play(room=1)
    for _ in range(20):
        for room, tile in ((1, (2, 9)), (2, (2, 0)), (2, (2, 1)), (1, (2, 9)), (1, (2, 2))):
            game.step(room=room, at=tile)
    assert game.parts["room"] == WEIGHTS.reward_room
    assert game.parts["tile"] == pytest.approx(3 * WEIGHTS.reward_tile)


def test_the_same_room_number_in_two_groups_is_two_rooms(play):
    game = play(group=4, room=4)
    assert game.step(group=5) == {"room": WEIGHTS.reward_room, "tile": WEIGHTS.reward_tile}
    assert game.step(group=4) == {"revisit": WEIGHTS.reward_revisit}


@pytest.mark.parametrize("hindrance", ["transition", "menu_open", "dying", "game_over"])
def test_places_passed_without_control_are_no_visits(play, hindrance):
    game = play()
    assert "tile" not in game.step(room=5, at=(4, 4), **{hindrance: True})
    assert game.step(**{hindrance: False})["room"] == WEIGHTS.reward_room


def test_places_outside_the_map_are_no_visits(play):
    game = play()
    game.step(at=(15, 15))
    game.step(at=(2, 2), group=8)
    assert game.total == 0


def test_an_episode_that_starts_without_control_starts_where_control_begins(play):
    game = play(has_control=False, room=0)
    assert game.step(room=0xB6, at=(4, 7), has_control=True) == {}
    assert game.step(at=(4, 6)) == {"tile": WEIGHTS.reward_tile}


def test_slots_are_apart_and_reset_alone(columns):
    rewards = Rewards(3, WEIGHTS)
    rewards.reset(np.arange(3), columns(3))
    rewards.step(columns(3, room=[1, 2, 0]))
    assert rewards.coverage.rooms.tolist() == [2, 2, 1]
    rewards.reset(np.array([False, True, False]), columns(3, room=[1, 2, 0]))
    total = rewards.step(columns(3, room=[0, 0, 0]))
    assert total.tolist() == pytest.approx(
        [WEIGHTS.reward_revisit, WEIGHTS.reward_room + WEIGHTS.reward_tile, 0]
    )


@given(seed=st.integers(0, 2**32))
@settings(max_examples=30)
def test_an_episode_goes_on_after_its_state_was_carried_over(seed):
    steps = _random_columns(seed, 12)
    through, first, second = (Rewards(2, WEIGHTS) for _ in range(3))
    through.reset(np.arange(2), steps[0])
    first.reset(np.arange(2), steps[0])
    for index, state in enumerate(steps[1:]):
        if index == 5:
            second.load_state_dict(first.state_dict())
            first = second
        np.testing.assert_array_equal(through.step(state), first.step(state))
        np.testing.assert_array_equal(through.parts, first.parts)


@given(seed=st.integers(0, 2**32))
@settings(max_examples=30)
def test_the_sum_is_that_of_the_parts_and_first_visits_are_bounded_by_places(seed):
    rewards, tiles = Rewards(2, WEIGHTS), np.zeros(2)
    state, *steps = _random_columns(seed, 20)
    rewards.reset(np.arange(2), state)
    places = [{(int(state.room[n]), int(state.tile[n]))} for n in range(2)]
    for state in steps:
        total = rewards.step(state)
        np.testing.assert_allclose(total, rewards.parts.sum(axis=1), rtol=1e-5)
        tiles += rewards.parts[:, rewards.names.index("tile")] / WEIGHTS.reward_tile
        for n in range(2):
            places[n].add((int(state.room[n]), int(state.tile[n])))
    assert (np.round(tiles) < [len(seen) for seen in places]).all()


def test_state_of_another_number_of_slots_is_refused(columns):
    with pytest.raises(ValueError, match="shape"):
        Rewards(2, WEIGHTS).load_state_dict(Rewards(3, WEIGHTS).state_dict())


def _random_columns(seed: int, count: int) -> list[Columns]:
    """Columns of two slots, every field anywhere in 0..2 (flags in 0..1)."""
    rng = np.random.default_rng(seed)
    made = [Columns.zeros(2) for _ in range(count)]
    for state in made:
        for name in NUMBERS:
            getattr(state, name)[:] = rng.integers(0, 3, 2)
        for name in FLAGS:
            getattr(state, name)[:] = rng.integers(0, 2, 2)
    return made


NUMBERS = ["group", "room", "tile", "health", "rupees", "small_keys", "boss_keys"]
NUMBERS += ["sword_level", "essences", "text_index"]
FLAGS = ["text_active", "menu_open", "has_control", "dying", "game_over", "transition"]
