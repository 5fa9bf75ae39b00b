"""Figures, their spread and their targets."""

import json

import pytest

from questloop.bench.figures import BenchReport, Figure, describe_machine, steadiness


def test_a_figure_is_a_median_with_its_range():
    figure = Figure.of([3.0, 1.0, 2.0], target=2.5)
    assert (figure.value, figure.low, figure.high) == (2.0, 1.0, 3.0)
    assert figure.met is False


def test_a_target_may_be_an_upper_bound_or_absent():
    assert Figure(20.0, target=30.0, at_most=True).met
    assert Figure(20.0).met is None
    assert Figure.missing("no sb3", 1.4).met is None


def test_the_report_is_json_with_the_contracts_fields():
    report = BenchReport(describe_machine(), {"ppo_ratio": Figure.of([0.5])})
    document = json.loads(json.dumps(report.to_json(), allow_nan=False))
    assert set(document) == {"machine", "figures"}
    assert {"value", "min", "max", "target"} <= set(document["figures"]["ppo_ratio"])
    assert {"cpu", "cores", "load", "busy", "versions"} <= set(document["machine"])


@pytest.mark.parametrize(
    ("limits", "shares", "steady"),
    [
        ([[100, 104], [50, 51]], [0.99, 0.97], True),
        ([[100, 104], [50, 60]], [0.99, 0.99], False),
        ([[100, 104]], [0.99, 0.6], False),
    ],
)
def test_a_machine_that_did_not_hold_still_meets_nothing(limits, shares, steady):
    figures = {"steady": steadiness(limits, shares), "ppo_ratio": Figure.of([0.5], 0.45)}
    report = BenchReport(describe_machine(), figures)
    assert report.steady is steady
    assert report.met("ppo_ratio") is (True if steady else None)
