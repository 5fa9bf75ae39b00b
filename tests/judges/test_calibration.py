import random

import pytest
from tests.judges.test_ensemble import judged

from questloop.judges.calibration import calibrate
from questloop.judges.ensemble import combine


def made(count, truth, seed=0):
    """Segments whose outcome has probability `truth(score)`."""
    rng = random.Random(seed)
    lines, outcomes = [], {}
    for number in range(count):
        score = rng.random()
        answers = {"state": judged(score, progress=score, dialog=None, efficiency=None)}
        lines.append(combine(f"s{number}", f"e{number % 25}", 0, answers))
        outcomes[f"s{number}"] = rng.random() < truth(score)
    return lines, outcomes


def test_an_overconfident_judge_is_mended():
    found = calibrate(*made(800, lambda score: 0.1 + 0.2 * score))
    assert found.weighted.brier < found.weighted.brier_raw
    assert found.weighted.ece < 0.06 < found.weighted.ece_raw


def test_a_judge_that_knows_beats_the_base_rate_and_one_that_guesses_does_not():
    knows = calibrate(*made(400, lambda score: float(score > 0.5))).weighted
    guesses = calibrate(*made(400, lambda score: 0.5)).weighted
    assert knows.brier < 0.05 < knows.brier_base_rate
    assert guesses.brier > guesses.brier_base_rate - 0.01


def test_criteria_and_overall_get_figures_and_absent_ones_none():
    found = calibrate(*made(100, lambda score: score))
    assert set(found.judges["state"]) == {"overall", "progress"}


@pytest.mark.parametrize("outcomes", [{}, {"s0": True}, {f"s{n}": True for n in range(100)}])
def test_too_little_known_is_no_calibration(outcomes):
    lines, _ = made(100, lambda score: score)
    assert calibrate(lines, outcomes) is None
