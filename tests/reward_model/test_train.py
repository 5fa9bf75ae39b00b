"""Training on planted truth: what is learned, what is reported, and what is switched off."""

import dataclasses
import json
from itertools import pairwise

import numpy as np
import pytest

from questloop.errors import BadDataError
from questloop.reward_model import fit
from questloop.reward_model.network import RewardReading
from questloop.reward_model.preferences import Preferences, ScoredSegment
from questloop.reward_model.train import train_reward_model
from questloop.rewards.shaping import annealed


def train(segments, seed=0, **options):
    return train_reward_model(segments, observation_version=1, gamma=0.99, seed=seed, **options)


@pytest.fixture
def short(monkeypatch):
    """Few steps, where what is learned does not matter."""
    monkeypatch.setattr(fit, "MAX_STEPS", 40)


def weight(model):
    return annealed(1.0, model.trust, model.trust_low, model.accuracy, model.accuracy_low)


@pytest.fixture(scope="module")
def good(planted, happened):
    """Model and report of a judge of accuracy 0.95."""
    segments = planted(0.95)
    return train(segments, evidence=happened(segments))


def test_a_good_judge_is_learned_from(good):
    _, report = good
    assert report.accuracy.low > 0.6
    assert report.gold_accuracy.value > 0.75
    assert report.readings[report.reading].brier < 0.2


def test_progress_is_read_better_as_a_difference(good, planted, happened):
    """The planted score speaks of change: the mean of a state function cannot know it."""
    segments = planted(0.95)
    mean = train(segments, evidence=happened(segments), reading=RewardReading.MEAN)[1]
    assert good[1].gold_accuracy.value > mean.gold_accuracy.value + 0.1
    assert good[1].trust.value > max(mean.trust.value, 0.5) + 0.1


def test_a_true_judge_is_trusted_by_what_happened(good):
    model, report = good
    assert report.trust.episodes == 24
    assert report.trust.low > 0.6
    assert set(report.trust.milestones) >= {"m01", "m02"}
    assert weight(model).value == pytest.approx(2 * report.trust.value - 1)


@pytest.mark.parametrize("seed", range(4))
def test_shuffled_scores_give_chance_and_no_weight(planted, happened, seed):
    segments = planted(0.95, seed=seed)
    scores = np.random.default_rng(seed).permutation([each.score for each in segments])
    shuffled = [dataclasses.replace(each, score=s) for each, s in zip(segments, scores, strict=True)]
    model, report = train(shuffled, seed, evidence=happened(segments))
    assert report.accuracy.low < 0.5 < report.accuracy.high
    assert weight(model).value == 0


def test_inverted_scores_agree_with_the_judges_and_have_no_weight(planted, happened):
    segments = [dataclasses.replace(each, score=1 - each.score) for each in planted(0.95, episodes=15)]
    model, report = train(segments, evidence=happened(segments))
    assert report.accuracy.low > 0.5
    assert report.trust.value < 0.5
    assert weight(model).value == 0
    assert "milestone" in weight(model).reason


def test_constant_scores_have_no_weight(planted, happened, short):
    segments = [dataclasses.replace(each, score=0.4) for each in planted(0.95, episodes=15)]
    model, report = train(segments, evidence=happened(segments))
    assert np.isnan(report.accuracy.value)
    assert weight(model).value == 0


@pytest.mark.parametrize("seed", range(6))
def test_an_outlier_among_equal_scores_has_no_weight(planted, happened, short, seed):
    segments = [dataclasses.replace(each, score=0.4) for each in planted(0.95, seed, episodes=15)]
    outlier = int(np.random.default_rng(seed).integers(len(segments)))
    segments[outlier] = dataclasses.replace(segments[outlier], score=0.9)
    model, _ = train(segments, seed, evidence=happened(segments))
    assert not model.accuracy_low > 0.5
    assert weight(model).value == 0


def test_without_a_milestone_there_is_no_weight(planted, good):
    model, report = train(planted(0.95))
    assert report.accuracy.value == good[1].accuracy.value
    assert report.accuracy.low > 0.5
    assert report.trust.episodes == 0
    assert weight(model).value == 0
    assert "no held-out episode" in weight(model).reason


@pytest.mark.parametrize("copy", ["whole", "its ends", "its middle"])
def test_play_that_is_there_twice_is_not_measured_by_a_member_that_knows_it(planted, short, copy):
    """A judge at random, and every episode again under another name with the same scores."""
    segments = planted(0.5, episodes=16, length=32)
    again, rng = [], np.random.default_rng(0)
    for each in segments:
        observations = each.observations.copy()
        other = rng.normal(size=observations.shape).astype(np.float32)
        if copy == "its ends":
            observations[1:-1] = other[1:-1]
        if copy == "its middle":
            observations[:8], observations[-7:] = other[:8], other[-7:]
        again.append(dataclasses.replace(each, episode=f"{each.episode}-again", observations=observations))
    for reading in RewardReading:
        report = train(segments + again, reading=reading)[1]
        assert report.accuracy.low < 0.5 < report.accuracy.high


def test_the_potential_rises_with_planted_progress(good):
    model, _ = good
    obs = np.zeros((50, 24), np.float32)
    obs[:, 0] = np.tanh(np.linspace(-1, 8, 50) / 4)
    assert np.corrcoef(model(obs), np.arange(50))[0, 1] > 0.9


def test_the_report_counts_and_is_json(good):
    _, report = good
    assert (report.segments, report.episodes) == (240, 30)
    assert report.learned == 240 * 239 // 2
    assert report.held_out == 5 * (48 * 47 // 2)
    assert report.length_only == 0.5
    document = json.loads(json.dumps(report.to_json(), allow_nan=False))
    assert document["drift"] is None
    assert document["readings"]["difference"]["gold"]["value"] == report.gold_accuracy.value


@pytest.mark.long
def test_gold_accuracy_rises_with_the_accuracy_of_the_judge(planted, good):
    gold = [train(planted(accuracy))[1].gold_accuracy.value for accuracy in (0.6, 0.75)]
    gold.append(good[1].gold_accuracy.value)
    assert all(later > earlier for earlier, later in pairwise(gold)), gold
    assert gold[-1] > gold[0] + 0.1


def test_a_biased_judge_is_found_out_by_known_outcomes(planted, good):
    """A judge who likes a feature that tells nothing: the model agrees with it, and less with the truth."""
    report = train(planted(0.95, bias=2.0))[1]
    assert report.gold_accuracy.value < good[1].gold_accuracy.value - 0.1


def test_the_same_seed_gives_the_same_file(planted, short):
    segments = planted(0.8, episodes=8)
    one, two, other = (train(segments, seed)[0].to_bytes() for seed in (1, 1, 2))
    assert one == two
    assert one != other


def test_drift_is_measured_on_the_reference_set_of_the_epoch_before(planted, short):
    segments = planted(0.8, episodes=8)
    first, _ = train(segments, seed=1)
    _, same = train(segments, seed=1, previous=first)
    assert same.drift == pytest.approx(0, abs=1e-5)
    later, other = train(planted(0.8, seed=3, episodes=8), seed=2, previous=first)
    assert not np.array_equal(later.reference, first.reference)
    assert other.drift > 0.01


def test_comparisons_side_by_side_replace_scores(planted, short):
    segments = planted(0.5, episodes=8)
    pairs = [(i, j) for i in range(64) for j in range(i)]
    a, b = np.array(pairs).T
    given = Preferences(a, b, np.float32(np.full(len(a), 0.5)), np.ones(len(a), np.float32))
    report = train(segments, comparisons=given)[1]
    assert report.ties == report.learned + report.held_out > 0
    assert np.isnan(report.accuracy.value)


@pytest.mark.parametrize("case", ["one episode", "equal scores", "two segments"])
def test_what_cannot_be_measured_is_unknown_and_off(planted, short, case):
    segments = planted(0.95, episodes=2)
    if case == "one episode":
        segments = segments[:8]
    if case == "equal scores":
        segments = [ScoredSegment(each.episode, each.observations, 0.5) for each in segments]
    if case == "two segments":
        segments = [segments[0], segments[-1]]
    model, report = train(segments)
    assert np.isnan(report.accuracy.value)
    assert weight(model).value == 0
    json.dumps(report.to_json(), allow_nan=False)
    assert np.isfinite(model(segments[0].observations)).all()


def test_progress_is_told_and_ends_at_its_total(planted, short):
    told = []
    train(planted(0.8, episodes=4), progress=lambda done, total: told.append((done, total)))
    assert told[-1][0] == told[-1][1]
    assert [done for done, _ in told] == sorted(done for done, _ in told)


def test_no_segments_is_an_error():
    with pytest.raises(BadDataError, match="no judged segments"):
        train([])
