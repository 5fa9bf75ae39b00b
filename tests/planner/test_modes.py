"""The mode switch: hysteresis both ways, cool-down, budget."""

from hypothesis import given
from hypothesis import strategies as st

from questloop.episodes.mode import Mode
from questloop.planner.modes import ModeRules, ModeState

RULES = ModeRules(hold_frames=3, cooldown_frames=5, budget=2)
EVENTS = st.lists(st.sampled_from(["dialog", "puzzle", "both", "none", "fail"]), max_size=80)


def advance(state: ModeState, event: str) -> ModeState:
    if event == "fail":
        return state.failed()
    return state.observe(event in ("dialog", "both"), event in ("puzzle", "both"))


@given(EVENTS)
def test_a_mode_changes_only_after_three_frames_that_agree(events):
    state, recent = ModeState(RULES), []
    for event in events:
        before, state = state, advance(state, event)
        recent = [] if event == "fail" else [*recent, event]
        if event == "fail":
            assert state.mode is Mode.POLICY
        elif state.mode is not before.mode:
            assert len(recent) >= 3
            if state.mode is Mode.DIALOG:
                assert set(recent[-3:]) <= {"dialog", "both"}
            if state.mode is Mode.PUZZLE:
                assert set(recent[-3:]) == {"puzzle"}


@given(EVENTS)
def test_budget_and_cooldown_hold(events):
    state, since_failure = ModeState(RULES), 1_000
    for event in events:
        before, state = state, advance(state, event)
        since_failure = 0 if event == "fail" else since_failure + 1
        assert state.takeovers <= RULES.budget
        assert state.takeovers - before.takeovers in (0, 1)
        if 0 < since_failure < RULES.cooldown_frames:
            assert state.mode is Mode.POLICY


def test_a_flicker_of_one_frame_changes_nothing():
    state = ModeState(RULES)
    for event in ["dialog", "dialog", "none"] * 10:
        state = advance(state, event)
        assert state.mode is Mode.POLICY


def test_three_frames_take_over_and_three_hand_back():
    state = ModeState(RULES)
    for _ in range(3):
        state = advance(state, "dialog")
    assert (state.mode, state.takeovers) == (Mode.DIALOG, 1)
    for _ in range(2):
        state = advance(state, "none")
    assert state.mode is Mode.DIALOG
    assert advance(state, "none").mode is Mode.POLICY
