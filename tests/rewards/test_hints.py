"""The bonus of hints: paid once a target, bounded, and shown to the policy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from questloop.rewards.hints import MOST_PAID, NO_EDGE, HintTargets

ROOM = 4 << 8 | 0x21
UP, RIGHT, DOWN, LEFT = range(4)


class Hero:
    """What the targets read of `Columns`, one slot."""

    def __init__(self, place=ROOM, y=64, x=80, control=True, transition=False, large=False):
        self.place = np.array([place])
        self.y, self.x = np.array([y]), np.array([x])
        self.has_control, self.transition = np.array([control]), np.array([transition])
        self.large_room = np.array([large])


@pytest.fixture
def targets():
    return HintTargets(1)


def paid(targets, hero) -> float:
    out = np.full((1, 1), np.nan, np.float32)
    targets.step(hero, out)
    return float(out[0, 0])


def test_a_place_pays_once_when_it_is_reached(targets):
    assert paid(targets, Hero()) == 0
    targets.aim(0, ROOM, y=104, x=120)
    assert paid(targets, Hero(y=64, x=80)) == 0
    assert paid(targets, Hero(y=104, x=104)) == 1  # beside it
    assert paid(targets, Hero(y=104, x=104)) == 0
    assert targets.counts == {"reached": 1, "missed": 0}


@pytest.mark.parametrize(
    ("edge", "entrance"),
    [(UP, (116, 80)), (DOWN, (12, 80)), (LEFT, (64, 148)), (RIGHT, (64, 12))],
)
def test_an_exit_pays_when_the_room_is_left_over_its_edge(targets, edge, entrance):
    y, x = entrance
    targets.aim(0, ROOM, 8, 80, edge)
    assert paid(targets, Hero(place=ROOM - 16, y=y, x=x, transition=True)) == 0  # still scrolling
    assert paid(targets, Hero(place=ROOM - 16, y=y, x=x)) == 1
    targets.aim(0, ROOM, 8, 80, edge)
    assert paid(targets, Hero(place=ROOM + 1, y=128 - y, x=160 - x)) == 0
    assert targets.counts["missed"] == 1
    assert paid(targets, Hero(place=ROOM - 16, y=y, x=x)) == 0


def test_a_large_room_is_entered_at_its_own_edges(targets):
    targets.aim(0, ROOM, 8, 80, UP)
    assert paid(targets, Hero(place=ROOM - 16, y=116, large=True)) == 0
    targets.aim(0, ROOM, 8, 80, UP)
    assert paid(targets, Hero(place=ROOM - 16, y=164, large=True)) == 1


def test_a_place_in_another_room_is_missed(targets):
    targets.aim(0, ROOM, 64, 80)
    assert paid(targets, Hero(place=ROOM + 1, y=64, x=80)) == 0
    assert targets.counts["missed"] == 1


def test_an_episode_pays_for_so_many_and_no_more(targets):
    def earn(times):
        total = 0.0
        for _ in range(times):
            targets.aim(0, ROOM, 64, 80)
            total += paid(targets, Hero())
        return total

    assert earn(MOST_PAID + 10) == MOST_PAID
    targets.reset(np.array([0]), Hero())
    assert earn(1) == 1


def test_the_policy_sees_where_it_is_meant_to_go(targets):
    assert targets.seen_by(Hero()).tolist() == [[0, 0, 0, 0]]
    targets.aim(0, ROOM, y=96, x=16)
    np.testing.assert_allclose(targets.seen_by(Hero(y=64, x=80)), [[1, -0.5, 0.25, 0]])
    targets.aim(0, ROOM, y=8, x=80, edge=UP)
    np.testing.assert_allclose(targets.seen_by(Hero(y=72, x=80)), [[1, 0, -0.5, 1]])
    assert not targets.seen_by(Hero(place=ROOM + 1)).any()


@given(
    st.integers(0, 255), st.integers(0, 255), st.integers(0, 255), st.integers(0, 255),
    st.sampled_from([NO_EDGE, UP, RIGHT, DOWN, LEFT]),
)  # fmt: skip
def test_what_is_seen_lies_in_the_observations_range(y, x, ty, tx, edge):
    targets = HintTargets(1)
    targets.aim(0, ROOM, ty, tx, edge)
    seen = targets.seen_by(Hero(y=y, x=x))
    assert seen.dtype == np.float32
    assert (np.abs(seen) <= 1).all()


def test_a_target_goes_on_across_epochs(targets):
    targets.aim(0, ROOM, 64, 80)
    other = HintTargets(1)
    other.load_state_dict(targets.state_dict())
    assert paid(other, Hero()) == 1
