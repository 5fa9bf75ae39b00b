"""The next aim of a guide: a potential that grows along the quest, and what the policy sees of it."""

from dataclasses import replace
from importlib import resources

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import spearmanr

from questloop.game.actions import Action
from questloop.game.emulator import Emulator
from questloop.game.guide import NOWHERE
from questloop.game.input_script import parse_inputs, steps
from questloop.game.profiles import mossgrove
from questloop.game.rom import Rom
from questloop.game.walking import ground_of
from questloop.rewards.aims import NO_AIM, Aims, aims_in_force
from questloop.setting_types import AimsOf, Shaping
from questloop.settings import Settings

PROFILE = mossgrove.PROFILE
GUIDE = PROFILE.guide
assert GUIDE is not None
FRAMES = 4


class Played:
    """One game under `Aims`, stepped by hand."""

    def __init__(self, gamma: float, shaping: Shaping = Shaping.POTENTIAL) -> None:
        self.emulator = Emulator(Rom.load(None), PROFILE.layout)
        self.taps = np.zeros((1, PROFILE.layout.size), np.uint8)
        self.how = shaping, gamma
        self.aims = self.fresh()
        self.aims.reset(np.array([0]), self.columns())

    def fresh(self) -> Aims:
        return Aims(1, PROFILE, GUIDE, lambda slot: ground_of(self.emulator, PROFILE), *self.how)

    def columns(self):
        self.emulator.read(self.taps[0])
        return PROFILE.columns(self.taps.copy())

    def step(self, action: Action, frames: int) -> float:
        self.emulator.step(action, frames)
        out = np.full((1, 1), np.nan, np.float32)
        self.aims.step(self.columns(), out)
        return float(out[0, 0])

    @property
    def phi(self) -> float:
        return float(self.aims.state_dict()["phi"][0])


def walkthrough():
    script = resources.files("questloop.game") / "roms" / PROFILE.walkthrough
    return list(steps(parse_inputs(script.read_text("utf-8"), PROFILE.walkthrough), FRAMES))


@pytest.fixture(scope="module")
def along() -> dict[str, NDArray]:
    """The walkthrough, to its end: potential, place and aim after every step, and what steps paid."""
    game = Played(gamma=1.0)
    rows = []
    for item in walkthrough():
        paid = game.step(item.action, item.frames)
        columns = game.columns()
        rows.append((game.phi, columns.place[0], game.aims.aim[0], paid, columns.has_control[0]))
    game.emulator.close()
    return dict(zip(("phi", "place", "aim", "paid", "control"), np.array(rows).T, strict=True))


def test_the_potential_grows_along_the_quest(along):
    known = along["phi"][~np.isnan(along["phi"])]
    assert len(known) > 2000
    assert spearmanr(known, np.arange(len(known))).statistic > 0.98


def test_it_does_not_fall_where_the_next_room_of_the_route_is_entered(along):
    order = {aim.key: number for number, aim in enumerate(GUIDE.aims)}
    before_essence = (along["aim"] <= order["essence_1"]) & (along["aim"] >= 0)
    entered = np.flatnonzero(np.diff(along["place"]) != 0)
    rises = [along["phi"][min(at + 12, len(along["phi"]) - 1)] - along["phi"][at] for at in entered]
    assert min(rise for at, rise in zip(entered, rises, strict=True) if before_essence[at]) > -0.15


def test_every_aim_comes_up_in_order_and_none_is_left_at_the_end(along):
    seen = along["aim"][along["aim"] != NO_AIM].astype(int)
    assert list(dict.fromkeys(seen.tolist())) == sorted(set(range(len(GUIDE.aims) - 1)) | {seen[-1]})
    assert along["aim"][-1] == NO_AIM


def test_what_steps_pay_sums_to_the_change_of_the_potential():
    game, gamma = Played(gamma=0.9), 0.9
    rng = np.random.default_rng(0)
    for item in walkthrough()[:60]:  # to where the hero can be moved
        game.step(item.action, item.frames)
    first, total = game.phi, 0.0
    for number in range(200):
        total += gamma**number * game.step(Action(int(rng.choice([1, 2, 3, 4, 5]))), 8)
    assert total == pytest.approx(gamma**200 * game.phi - first, abs=1e-3)
    game.emulator.close()


def test_a_game_that_is_over_has_no_potential():
    game = Played(gamma=0.9)
    for item in walkthrough()[:200]:
        game.step(item.action, item.frames)
    before = game.phi
    assert before > 1
    columns = game.columns()
    columns.game_over[:] = True
    out = np.zeros((1, 1), np.float32)
    game.aims.step(columns, out)
    assert out[0, 0] == pytest.approx(-before)
    game.emulator.close()


def test_progress_pays_what_the_potential_changes_undiscounted():
    game = Played(gamma=0.9, shaping=Shaping.PROGRESS)
    rng = np.random.default_rng(0)
    for item in walkthrough()[:60]:
        game.step(item.action, item.frames)
    first = game.phi
    paid = [game.step(Action(int(rng.choice([1, 2, 3, 4, 5]))), 8) for _ in range(300)]
    assert min(paid) < 0 < max(paid)
    assert sum(paid) == pytest.approx(game.phi - first, abs=1e-4)
    over = game.columns()
    over.game_over[:] = True
    out = np.ones((1, 1), np.float32)
    game.aims.step(over, out)
    assert out[0, 0] == 0
    game.aims.reset(np.array([0]), game.columns())
    assert game.step(Action.NOP, 1) == pytest.approx(0, abs=1e-3), "what an episode begins with pays nothing"
    game.emulator.close()


def test_an_episode_that_begins_before_there_is_control_is_not_paid_for_where_it_begins():
    game = Played(gamma=1.0, shaping=Shaping.PROGRESS)
    paid = 0.0
    for item in walkthrough():
        paid += game.step(item.action, item.frames)
        if game.columns().has_control[0]:
            break
    assert paid == 0
    game.emulator.close()


@pytest.mark.parametrize("more", [{}, {"best": np.float32([9])}])
def test_checkpoints_of_earlier_releases_go_on_from_their_potential(more):
    game = Played(gamma=1.0, shaping=Shaping.PROGRESS)
    for item in walkthrough()[:150]:
        game.step(item.action, item.frames)
    old = {"phi": game.aims.state_dict()["phi"]} | more
    other = game.fresh()
    other.load_state_dict(old)
    assert other.state_dict() == game.aims.state_dict()
    game.emulator.close()


@pytest.mark.parametrize("shaping", Shaping)
def test_what_is_kept_goes_on_the_same(shaping):
    game = Played(gamma=0.99, shaping=shaping)
    script = walkthrough()
    for item in script[:150]:
        game.step(item.action, item.frames)
    other = game.fresh()
    other.load_state_dict(game.aims.state_dict())
    first, second = np.zeros((2, 1, 1), np.float32)
    for item in script[150:250]:
        game.emulator.step(item.action, item.frames)
        columns = game.columns()
        game.aims.step(columns, first)
        other.step(columns, second)
        assert (first == second).all()
        assert (game.aims.seen_by(columns) == other.seen_by(columns)).all()
    game.emulator.close()


def test_whoever_follows_what_is_seen_comes_to_the_aim():
    """Walk by the numbers that the policy sees alone, from the meadow to the blade and the grotto's door."""
    game = Played(gamma=0.99)
    for item in walkthrough():
        game.step(item.action, item.frames)
        if game.aims.aim[0] == 1:
            break
    follow = {(1, 0): Action.RIGHT, (-1, 0): Action.LEFT, (0, 1): Action.DOWN, (0, -1): Action.UP}
    places = set()
    for number in range(400):
        dx, dy, _, solid = game.aims.seen_by(game.columns())[0]
        way = (int(np.sign(dx)), 0) if abs(dx) > abs(dy) else (0, int(np.sign(dy)))
        action = follow.get(way, Action.A if number % 2 else Action.NOP)  # nothing is seen while words stand
        if solid and number % 2:
            action = Action.A
        game.step(action, 8)
        places.add(int(game.columns().place[0]))
    assert {0x20, 0x21, 0x22, 0x421} <= places
    game.emulator.close()


def test_steps_are_counted_by_the_aim_before_them():
    game = Played(gamma=0.99)
    for item in walkthrough()[:120]:
        game.step(item.action, item.frames)
    counted = game.aims.take_steps()
    assert set(counted) == {"met_elder", "sword_1", "grotto_entered"}
    assert 20 < sum(counted.values()) < 120  # not before there is control, nor while words stand
    assert game.aims.take_steps() == {}
    game.emulator.close()


class Judged(Played):
    """A game whose aims judges choose."""

    def fresh(self) -> Aims:
        ground = self.emulator
        return Aims(1, PROFILE, GUIDE, lambda slot: ground_of(ground, PROFILE), *self.how, judged=True)


def stands_on_its_aim(game):
    """No thing in the room is named: what is pointed to is the metatile underfoot."""
    right, down, near, thing = game.aims.look(game.columns())[0]
    assert max(abs(right), abs(down)) <= 0.5
    assert (near, thing) == (1, 0)


def test_judged_aims_point_nowhere_before_a_judge_has_spoken_and_then_to_the_room_alone():
    game = Judged(gamma=1.0, shaping=Shaping.PROGRESS)
    paid = sum(game.step(item.action, item.frames) for item in walkthrough()[:75])
    assert paid == 0
    assert not game.aims.look(game.columns()).any()
    order = [aim.key for aim in GUIDE.aims]
    places = [NOWHERE] * len(order)
    places[: order.index("sword_1") + 1] = [0x020] * (order.index("sword_1") + 1)
    game.aims.lead_to(places)
    assert game.step(Action.NOP, 4) == 0, "to be told where to go is no progress"
    seen = game.aims.look(game.columns())[0]
    assert seen[0] < 0, "the stump hollow lies to the left"
    before = game.phi
    paid = 0.0
    while game.columns().place[0] != 0x020 or not game.columns().has_control[0]:
        paid += game.step(Action.LEFT, 16)
    assert paid == pytest.approx(game.phi - before, abs=1e-4)
    assert paid > 0
    stands_on_its_aim(game)
    game.emulator.close()


def test_where_judges_lead_is_kept_with_what_was_earned():
    game = Judged(gamma=1.0, shaping=Shaping.PROGRESS)
    for item in walkthrough()[:75]:
        game.step(item.action, item.frames)
    places = [0x022] * len(GUIDE.aims)
    game.aims.lead_to(places)
    game.step(Action.NOP, 4)
    other = game.fresh()
    other.load_state_dict(game.aims.state_dict())
    other.lead_to(places)  # the same again changes nothing
    assert other.state_dict()["phi"] == game.aims.state_dict()["phi"]
    np.testing.assert_array_equal(other.look(game.columns()), game.aims.look(game.columns()))
    game.emulator.close()


@pytest.mark.parametrize("first", [Judged, Played])
@pytest.mark.parametrize("guide", [GUIDE, replace(GUIDE, aims=GUIDE.aims[1:4])])
@pytest.mark.parametrize("judged", [True, False])
def test_what_was_earned_under_other_aims_is_not_paid_by_these(first, guide, judged):
    """A run that changes AIMS or GUIDE goes on."""
    if (first, guide, judged) == (Played, GUIDE, False):
        pytest.skip("the same aims")
    game = first(gamma=1.0, shaping=Shaping.PROGRESS)
    if first is Judged:
        game.aims.lead_to([0x022] * len(GUIDE.aims))
    for item in walkthrough()[:75]:
        game.step(item.action, item.frames)
    other = Aims(1, PROFILE, guide, lambda slot: ground_of(game.emulator, PROFILE), *game.how, judged=judged)
    other.load_state_dict(game.aims.state_dict())
    if judged:
        other.lead_to([0x020] * len(guide.aims))
    was, game.aims = game.phi, other
    assert game.step(Action.NOP, 4) == 0
    assert game.phi != was
    paid = [game.step(Action.LEFT, 4) for _ in range(8)]
    assert any(paid), "and from then on it is paid"
    game.emulator.close()


@pytest.mark.parametrize(
    ("values", "guide", "found"),
    [
        ({}, GUIDE, AimsOf.GUIDE),
        ({"aims": "judges"}, GUIDE, AimsOf.JUDGES),
        ({"aims": "judges"}, None, AimsOf.OFF),
        ({"aims": "judges"}, replace(GUIDE, aims=()), AimsOf.OFF),
        ({"aims": "judges", "hint_interval": 100}, GUIDE, AimsOf.OFF),
        ({"aims": "off"}, GUIDE, AimsOf.OFF),
    ],
)
def test_nobody_says_where_to_go_without_a_guide_or_where_hints_do(values, guide, found):
    assert aims_in_force(Settings(**values).exploration, guide) is found


def test_the_guide_s_own_place_named_by_judges_is_still_the_room_alone():
    game = Judged(gamma=1.0, shaping=Shaping.PROGRESS)
    game.aims.lead_to([aim.place for aim in GUIDE.aims])
    for item in walkthrough()[:50]:
        game.step(item.action, item.frames)
    assert game.columns().place[0] == GUIDE.aims[0].place, "the elder is in the first room"
    stands_on_its_aim(game)
    game.emulator.close()
