"""Who plays: takeovers of several games side by side, their ends, and their state."""

from concurrent.futures import Future

import numpy as np
import pytest
from benchmarks.planner.trials import Table

from questloop.game.actions import Action
from questloop.game.profiles.mossgrove import PROFILE
from questloop.game.rom import Rom
from questloop.llm.reply import ChatError, ChatFailure
from questloop.planner.client import EmbeddedPlanner
from questloop.planner.plan import InvalidPlan, Plan
from questloop.planner.takeover import MAX_PLANS, Takeovers
from questloop.planner.view import puzzle_of

NOP = np.array([Action.NOP], np.uint8)


class Refusing:
    """A fake planner: every plan is refused with an error, or never comes."""

    def __init__(self, error=None, sees=False):
        self.error, self.sees, self.asked = error, sees, 0
        self.pictures, self.failed = [], []

    def ask(self, mode, document, picture=None):
        self.asked += 1
        self.pictures.append(picture)
        self.failed.append(document.get("failed"))
        future = Future()
        if self.error is not None:
            future.set_exception(self.error)
        return future

    def source(self, mode, sees):
        return f"fake {mode}"

    def close(self):
        pass


def play(table, takeovers, steps):
    """The masks of `steps` steps in which the policy presses nothing."""
    masks = []
    for _ in range(steps):
        action, mask = NOP.copy(), np.ones(1, np.bool_)
        takeovers.act(action, mask)
        table.step(int(action[0]))
        masks.append(bool(mask[0]))
    return masks


def test_the_policy_plays_until_three_frames_agree_and_again_once_it_is_solved(table, found):
    table.set_up(found["room 4:11"], 0)
    takeovers = Takeovers(table, EmbeddedPlanner(), 4)
    masks = play(table, takeovers, 200)
    assert masks[:3] == [True, True, False]
    report = takeovers.report()
    assert report.outcomes == {"puzzle solved": 1}
    assert masks[-1]
    assert report.steps == masks.count(False)
    (ended,) = takeovers.take_ended()
    assert (ended.slot, ended.row, ended.past) == (0, 2 + report.steps, 0)
    account = ended.takeover
    assert (account.mode, account.room, account.steps) == ("puzzle", "4:11", report.steps)
    assert account.outcome == "solved"
    plan = account.plans[-1]
    assert plan.source == "embedded-planner-puzzle"
    assert plan.reason
    assert plan.macros[0].startswith(("PUSH_BLOCK", "MOVE_TO", "ATTACK"))
    assert (plan.ended, plan.played) == ("done", len(plan.macros))
    assert takeovers.take_ended() == []
    assert takeovers.report().outcomes == {}


@pytest.mark.parametrize(
    ("error", "outcome", "asked"),
    [
        (InvalidPlan("macros.0: unknown"), "invalid", MAX_PLANS),
        (ChatError(ChatFailure.UNREACHABLE, "down"), "unavailable", 1),
    ],
)
def test_without_a_plan_the_policy_plays_on_and_the_planner_rests(table, found, error, outcome, asked):
    table.set_up(found["room 4:11"], 0)
    planner = Refusing(error)
    takeovers = Takeovers(table, planner, 4)
    masks = play(table, takeovers, 60)
    assert takeovers.report().outcomes == {f"puzzle {outcome}": 1}
    assert planner.asked == asked
    plans = takeovers.take_ended()[0].takeover.plans
    assert [(plan.source, plan.macros, plan.ended) for plan in plans] == [
        ("fake puzzle", (), outcome)
    ] * asked
    assert all(masks[20:])


@pytest.mark.parametrize(("rows", "asked"), [([9], 2), ([9, 10], MAX_PLANS)])
def test_a_plan_that_ended_before_its_first_button_is_not_played_again(table, found, rows, asked):
    class Insisting(Refusing):
        def ask(self, mode, document, picture=None):
            future = Future()
            move = {"do": "MOVE_TO", "row": rows[self.asked % len(rows)], "column": 1}
            future.set_result(Plan.model_validate({"reason": "out of the room", "macros": [move]}))
            self.asked += 1
            return future

    table.set_up(found["room 4:11"], 0)
    planner = Insisting()
    takeovers = Takeovers(table, planner, 4)
    masks = play(table, takeovers, 10)
    assert takeovers.report().outcomes == {"puzzle invalid": 1}
    assert planner.asked == asked
    assert all(masks)


def test_a_game_that_waits_for_its_plan_stands_still(table, found):
    table.set_up(found["room 4:11"], 0)
    takeovers = Takeovers(table, Refusing(), 4)
    assert play(table, takeovers, 3) == [True, True, False]
    before = table.batch.taps.copy()
    assert not any(play(table, takeovers, 20))
    np.testing.assert_array_equal(table.batch.taps, before)
    takeovers.state_dict()  # the end of an epoch cuts the takeover, and the game runs again
    assert not table.batch.paused


@pytest.mark.parametrize(("name", "sees"), [("room 4:11", True), ("room 4:11", False), ("text 1f", True)])
def test_a_puzzle_that_one_plan_did_not_solve_is_shown_to_a_planner_that_sees(table, found, name, sees):
    table.set_up(found[name], 0)
    planner = Refusing(InvalidPlan("macros.0: unknown"), sees)
    play(table, Takeovers(table, planner, 4), 40)
    assert planner.failed == [None] + ["invalid"] * (MAX_PLANS - 1)
    assert planner.pictures[0] is None
    for picture in planner.pictures[1:]:
        if sees and name.startswith("room"):
            assert picture.shape == (144, 160, 3)
            assert len(np.unique(picture)) > 3
        else:
            assert picture is None


def test_a_takeover_is_the_same_however_long_a_step_is(skipping, found):
    """The same buttons in the same frames, and the books in steps."""
    skipping.set_up(found["room 4:11"], 0)
    skip = skipping.frame_skip
    takeovers = Takeovers(skipping, EmbeddedPlanner(), skip)
    policy, buttons, masks = -(-12 // skip) - 1, [], []
    for _ in range(400 // skip):
        masks += play(skipping, takeovers, 1)
        buttons += skipping.batch.pressed.get(0, b"")
    (ended,) = takeovers.take_ended()
    steps = masks.count(False)
    assert (ended.takeover.outcome, ended.takeover.steps) == ("solved", steps)
    assert masks == [True] * policy + [False] * steps + [True] * (400 // skip - policy - steps)
    assert ended.row + ended.past - ended.takeover.steps == policy
    assert not skipping.batch.scripts
    assert not skipping.batch.pressed
    assert len(buttons) == steps * skip // 4
    alone = Table(Rom.load(None), PROFILE)
    alone.set_up(found["room 4:11"], 0)
    for button in [Action.NOP] * (policy * skip // 4) + list(buttons):
        alone.step(button)
    assert puzzle_of(alone.scene.state, PROFILE) is None, "steps of four frames did the same"
    alone.close()


class Late(EmbeddedPlanner):
    """A fake planner that answers when it is told to."""

    def __init__(self):
        self.asked = []

    def ask(self, mode, document, picture=None):
        self.asked.append((Future(), super().ask(mode, document, picture).result()))
        return self.asked[-1][0]

    def answer(self):
        for future, plan in self.asked:
            if not future.done():
                future.set_result(plan)


def test_a_game_waits_for_its_plan_between_steps_alone(skipping, found):
    """However late plans come, a step is played whole or not at all."""
    skipping.set_up(found["room 4:11"], 0)
    planner = Late()
    takeovers = Takeovers(skipping, planner, skipping.frame_skip)
    parts_of_a_step, waited = skipping.frame_skip // 4, 0
    for step in range(600):
        play(skipping, takeovers, 1)
        pressed = skipping.batch.pressed.get(0)
        assert pressed is None or len(pressed) in (0, parts_of_a_step)
        waited += pressed == b""
        if step % 7 == 6:
            planner.answer()
        if takeovers.latest.outcomes:
            break
    assert takeovers.latest.outcomes == {"puzzle solved": 1}
    assert waited


def test_modes_that_an_earlier_version_saved_in_steps_are_read_as_frames(skipping):
    takeovers = Takeovers(skipping, EmbeddedPlanner(), skipping.frame_skip)
    takeovers.load_state_dict({"ended": [], "modes": [[0, 0, 5, 200, 3]]})
    (modes,) = takeovers.state_dict()["modes_in_frames"]
    assert modes == [0, 0, 5 * skipping.frame_skip, 200 * skipping.frame_skip, 0]


def test_an_episode_that_ends_takes_its_takeover_along(table, found):
    table.set_up(found["room 4:11"], 0)
    takeovers = Takeovers(table, EmbeddedPlanner(), 4)
    play(table, takeovers, 10)
    takeovers.ended(np.array([0]))
    assert takeovers.report().outcomes == {"puzzle episode_over": 1}
    (ended,) = takeovers.take_ended()
    assert (ended.row, ended.past, ended.takeover.steps) == (9, 1, 8)
    assert ended.takeover.plans[-1].ended == ""
    assert play(table, takeovers, 2) == [True, True]


def test_whoever_goes_on_from_the_state_plays_what_the_first_one_plays(table, found):
    table.set_up(found["room 4:11"], 0)
    takeovers = Takeovers(table, EmbeddedPlanner(), 4)
    play(table, takeovers, 10)
    takeovers.take_ended()
    state, saved = takeovers.state_dict(), table.batch.save(0)
    table.batch.load(0, saved)
    first = play(table, takeovers, 60), table.batch.taps.copy()
    table.batch.load(0, saved)
    table.columns = table.profile.columns(table.batch.taps)
    other = Takeovers(table, EmbeddedPlanner(), 4)
    other.load_state_dict(state)
    second = play(table, other, 60), table.batch.taps.copy()
    assert first[0] == second[0]
    cut, *later = takeovers.take_ended()
    assert (cut.row, cut.takeover.outcome, cut.takeover.steps) == (0, "cut", 8)
    assert [cut, *later] == other.take_ended()
    np.testing.assert_array_equal(first[1], second[1])
