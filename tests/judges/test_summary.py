"""A pass says why a figure is not known."""

import pytest

from questloop.judges.scores import JudgeScores, SegmentScores, Tokens
from questloop.judges.summary import summarise


def line(number, overall=0.5, judges=("state", "puzzle")):
    answer = JudgeScores(
        model="m", fingerprint="f", votes=(), valid=1, quorum=True, scores={}, overall=overall, spread=0,
        latency_s=0, tokens=Tokens(),
    )  # fmt: skip
    return SegmentScores(
        segment_id=f"s{number}", episode_id=f"e{number % 5}", epoch=0,
        judges=dict.fromkeys(judges, answer), criteria={}, weighted=overall, agreement=None,
    )  # fmt: skip


def unknown(lines, outcomes):
    return summarise(
        0, lines, available=len(lines), budget="all", policy="", outcomes=outcomes, usd_per_mtok=(0, 0)
    ).unknown


def scored(count):
    return [line(number, number / count) for number in range(count)]


def known(count, positive):
    return {f"s{number}": number < positive for number in range(count)}


@pytest.mark.parametrize(
    ("lines", "outcomes", "says"),
    [
        (scored(30), {}, {"tau": "of no judged segment is it known", "brier": "of no judged segment"}),
        (
            scored(30),
            known(30, 0),
            {"tau": "of 30 known segments none was", "brier": "30 known segments none"},
        ),
        (scored(30), known(30, 30), {"tau": "of 30 known segments each was", "brier": "each was"}),
        (scored(5), known(5, 2), {"brier": "5 known segments are too few"}),
        (
            [line(number) for number in range(30)],
            known(30, 9),
            {"alpha": "all of their scores are equal", "tau": "have the same score"},
        ),
        (
            [line(number, number / 30, ("state",)) for number in range(30)],
            known(30, 9),
            {"alpha": "no segment has the scores of two judges"},
        ),
        (scored(30), known(30, 9), {}),
    ],
)
def test_what_is_not_known_has_its_reason(lines, outcomes, says):
    found = unknown(lines, outcomes)
    assert found.keys() == says.keys()
    for name, text in says.items():
        assert text in found[name]
