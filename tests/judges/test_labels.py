import pytest
from tests.judges.test_ensemble import judged

from questloop.judges.ensemble import combine
from questloop.judges.labels import choose, compare


def lines(count):
    return [
        combine(
            f"s{n:02d}",
            "e",
            0,
            {"state": judged(n / count, progress=n / count, dialog=None, efficiency=None)},
        )
        for n in range(count)
    ]


def test_segments_to_label_span_the_scores_in_an_order_that_tells_nothing():
    chosen = choose(lines(90), 30, seed=0)
    assert len(set(chosen)) == 30
    assert sorted(chosen) == [f"s{n:02d}" for n in range(0, 90, 3)]
    assert chosen != sorted(chosen)
    assert len(choose(lines(5), 30, seed=0)) == 5


def test_agreement_with_a_person():
    same = compare(lines(10), {f"s{n:02d}": n / 10 for n in range(10)})
    assert same.weighted == same.judges["state"] == 1.0
    assert same.mean_distance == pytest.approx(0)
    other = compare(lines(10), {f"s{n:02d}": 1 - n / 10 for n in range(10)})
    assert other.weighted == -1.0
    assert compare(lines(3), {}).weighted is None
