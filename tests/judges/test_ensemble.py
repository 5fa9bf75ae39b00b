import pytest
from hypothesis import given
from hypothesis import strategies as st

from questloop.judges.ensemble import combine, weighted_mean
from questloop.judges.rubric import JUDGES, WEIGHTS, Criterion
from questloop.judges.scores import JudgeScores, Tokens


def judged(overall, **scores):
    return JudgeScores(
        model="m", fingerprint="f", votes=(), valid=3, quorum=overall is not None, scores=scores,
        overall=overall, spread=0.0, latency_s=0.1, tokens=Tokens(),
    )  # fmt: skip


def test_every_criterion_has_one_owner_and_the_weights_are_whole():
    owned = [name for judge in JUDGES for name in judge.criteria]
    assert sorted(owned) == sorted(Criterion)
    assert sum(WEIGHTS.values()) == pytest.approx(1)


def test_weighted_by_hand():
    line = combine("s", "e", 0, {
        "state": judged(0.6, progress=0.5, dialog=1.0, efficiency=0.0),
        "puzzle": judged(0.2, puzzle=0.25),
        "vision": judged(0.4, novelty=1.0),
    })  # fmt: skip
    assert line.weighted == pytest.approx(0.4 * 0.5 + 0.2 * 1 + 0.2 * 0.25 + 0.1 * 1 + 0.1 * 0)
    assert line.missing == ()
    assert line.agreement == pytest.approx(0.6)


def test_missing_criteria_are_renormalised_and_flagged():
    line = combine("s", "e", 0, {
        "state": judged(0.6, progress=0.5, dialog=None, efficiency=0.0),
        "puzzle": judged(None, puzzle=None),
        "vision": judged(None, novelty=None),
    })  # fmt: skip
    assert line.weighted == pytest.approx((0.4 * 0.5) / 0.5)
    assert line.missing == (Criterion.DIALOG, Criterion.PUZZLE, Criterion.NOVELTY)
    assert line.agreement is None


def test_nothing_valid_is_no_score():
    line = combine("s", "e", 0, {"state": judged(None, progress=None, dialog=None, efficiency=None)})
    assert line.weighted is None
    assert len(line.missing) == 5


@given(st.dictionaries(st.sampled_from(list(Criterion)), st.floats(0, 1), min_size=1))
def test_weighted_lies_between_its_criteria(criteria):
    assert min(criteria.values()) - 1e-6 <= weighted_mean(criteria) <= max(criteria.values()) + 1e-6
