"""What pages show of a run."""

from questloop.report.page_data import planner


def test_an_epoch_without_the_planner_has_no_counts():
    on = {
        "planner": {"takeovers": {"puzzle solved": 2}, "steps": 90, "plans": 3, "plans_invalid": 1},
        "hints": {"outcomes": {"given": 5, "reached": 4}},
    }
    assert planner({0: {"planner": None, "hints": None}, 1: on, 2: on | {"hints": None}}) == [
        ("takeovers: puzzle solved", [None, 2, 2]),
        ("steps played by plans", [None, 90, 90]),
        ("plans", [None, 3, 3]),
        ("invalid", [None, 1, 1]),
        ("hints: given", [None, 5, None]),
        ("hints: reached", [None, 4, None]),
    ]
    assert planner({0: {}}) == []
