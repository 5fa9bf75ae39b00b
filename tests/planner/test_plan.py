"""Plans: what is accepted, and that nothing else is."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from questloop.planner.plan import MAX_MACROS, InvalidPlan, parse_plan, plan_schema

MOVE = {"do": "MOVE_TO", "row": 3, "column": 4}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["do", "row", "macros", "x"]), inner)
    ),
    max_leaves=12,
)


def test_a_plan_is_read():
    plan = parse_plan({"reason": "the key is behind the block", "macros": [MOVE, {"do": "WAIT", "steps": 5}]})
    assert [macro.do for macro in plan.macros] == ["MOVE_TO", "WAIT"]


@pytest.mark.parametrize(
    "macro",
    [
        {"do": "FLY"},
        {"do": "MOVE_TO", "row": "3", "column": 4},
        {"do": "MOVE_TO", "row": 3},
        {"do": "MOVE_TO", "row": -1, "column": 4},
        {"do": "MOVE_TO", "row": 3, "column": 15},
        {"do": "MOVE_TO", "row": 3.5, "column": 4},
        {"do": "MOVE_TO", "row": True, "column": 4},
        {"do": "WAIT", "steps": 1_000},
        {"do": "PUSH_BLOCK", "row": 1, "column": 1, "direction": "north"},
        {"do": "EXIT", "direction": "up", "shell": "rm"},
    ],
)
def test_what_is_not_in_the_schema_is_refused_in_one_line(macro):
    with pytest.raises(InvalidPlan) as caught:
        parse_plan({"macros": [macro]})
    assert "\n" not in str(caught.value)


def test_empty_and_endless_plans_are_refused():
    for macros in ([], [MOVE] * (MAX_MACROS + 1), [MOVE] * 1_000):
        with pytest.raises(InvalidPlan):
            parse_plan({"macros": macros})


@given(JSON)
def test_any_json_is_a_plan_or_an_invalid_plan(document):
    with contextlib.suppress(InvalidPlan):
        assert parse_plan(document).macros


def test_the_schema_names_every_macro():
    text = str(plan_schema())
    for name in ("MOVE_TO", "PUSH_BLOCK", "USE_ITEM", "TALK", "CHOOSE", "WAIT", "ATTACK", "EXIT"):
        assert name in text
