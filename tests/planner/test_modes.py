"""The mode switch: hysteresis both ways, cool-down, budget."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from questloop.episodes.mode import Mode
from questloop.planner.modes import ModeRules, ModeState

RULES = ModeRules(hold_frames=12, cooldown_frames=20, budget_frames=32)
FRAMES = st.sampled_from([1, 4, 8, 16])
EVENTS = st.lists(st.sampled_from(["dialog", "puzzle", "both", "none", "fail"]), max_size=80)


def advance(state: ModeState, event: str, frames: int = 4) -> ModeState:
    if event == "fail":
        return state.failed()
    return state.observe(event in ("dialog", "both"), event in ("puzzle", "both"), frames)


@given(EVENTS, FRAMES)
def test_a_mode_changes_only_after_twelve_frames_that_agree(events, frames):
    steps = -(-RULES.hold_frames // frames)
    state, recent = ModeState(RULES), []
    for event in events:
        before, state = state, advance(state, event, frames)
        recent = [] if event == "fail" else [*recent, event]
        if event == "fail":
            assert state.mode is Mode.POLICY
        elif state.mode is not before.mode:
            assert len(recent) >= steps
            if state.mode is Mode.DIALOG:
                assert set(recent[-steps:]) <= {"dialog", "both"}
            if state.mode is Mode.PUZZLE:
                assert set(recent[-steps:]) == {"puzzle"}


@given(EVENTS, FRAMES)
def test_budget_and_cooldown_hold(events, frames):
    state, since_failure = ModeState(RULES), 1_000
    for event in events:
        before, state = state, advance(state, event, frames)
        if state.mode is not Mode.POLICY:
            if before.mode is not state.mode:
                assert before.spent < RULES.budget_frames
            state = state.played(frames)
        since_failure = 0 if event == "fail" else since_failure + frames
        if 0 < since_failure < RULES.cooldown_frames:
            assert state.mode is Mode.POLICY


def test_a_flicker_of_one_frame_changes_nothing():
    state = ModeState(RULES)
    for event in ["dialog", "dialog", "none"] * 10:
        state = advance(state, event)
        assert state.mode is Mode.POLICY


@pytest.mark.parametrize(("frames", "steps"), [(1, 12), (4, 3), (8, 2), (16, 1)])
def test_twelve_frames_take_over_and_twelve_hand_back(frames, steps):
    state = ModeState(RULES)
    for seen, mode in [("dialog", Mode.DIALOG), ("none", Mode.POLICY)]:
        for _ in range(steps - 1):
            before, state = state.mode, advance(state, seen, frames)
            assert state.mode is before
        state = advance(state, seen, frames)
        assert state.mode is mode
