"""What pages show of a run."""

import pytest

from questloop.report.page_data import number, planner


@pytest.mark.parametrize(("value", "text"), [(-0.001, "0.00"), (0.0, "0.00"), (-0.01, "-0.01"), (None, "–")])
def test_nothing_has_no_sign(value, text):
    assert number(value) == text


def test_an_epoch_without_the_planner_has_no_counts():
    on = {
        "planner": {"takeovers": {"puzzle solved": 2}, "steps": 90, "plans": 3, "plans_invalid": 1},
        "hints": {"outcomes": {"given": 5, "reached": 4}},
    }
    assert planner({0: {"planner": None, "hints": None}, 1: on, 2: on | {"hints": None}}) == [
        ("puzzle taken over: solved", [None, 2, 2]),
        ("steps played by plans", [None, 90, 90]),
        ("plans", [None, 3, 3]),
        ("invalid plans", [None, 1, 1]),
        ("hints: given", [None, 5, None]),
        ("hints: reached", [None, 4, None]),
    ]
    assert planner({0: {}}) == []
