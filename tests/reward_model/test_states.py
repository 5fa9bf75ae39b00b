"""A reward model of states: cells beside segments, and states that nobody played."""

import dataclasses

import numpy as np
import pytest

from questloop.errors import BadDataError
from questloop.reward_model.evidence import episode_states
from questloop.reward_model.preferences import ScoredSegment, ScoredState, state_pool
from questloop.reward_model.train import NOBODY, _lessons, train_reward_model
from questloop.rewards.shaping import annealed

SIZE, EPISODES, STEPS = 24, 30, 40
MILESTONES = {"quarter": 0.25, "half": 0.5, "three quarters": 0.75}


def world(seed=0):
    """Walks on which feature 0 is how far along one is; the others are the episode's own, or noise.

    Segments whose judge knows nothing, cells (a state of each episode and tenth of the way) with their true
    score, and what happened.
    """
    rng = np.random.default_rng(seed)
    segments, states, evidence = [], [], []
    for episode in range(EPISODES):
        start, end = np.sort(rng.uniform(0, 1, 2))
        far = np.linspace(start, end, STEPS) + rng.normal(0, 0.01, STEPS)
        obs = rng.normal(0, 0.3, (STEPS, SIZE)).astype(np.float32)
        obs[:, 0] = far
        obs[:, 1:6] += rng.normal(0, 1, 5).astype(np.float32)
        name = f"e{episode}"
        segments.append(ScoredSegment(name, obs, float(rng.random())))
        firsts = {int(10 * each): step for step, each in reversed(list(enumerate(far)))}
        states += [
            ScoredState(f"{episode:03x}{tenth:03x}", name, obs[step], float(np.clip(far[step], 0, 1)))
            for tenth, step in firsts.items()
        ]
        reached = {key: int(np.argmax(far >= at)) for key, at in MILESTONES.items() if far.max() >= at}
        known = episode_states(name, np.arange(STEPS), obs, {key: at for key, at in reached.items() if at})
        evidence += [known] if known else []
    return segments, states, evidence


def train(segments, states, evidence, seed=0, **options):
    return train_reward_model(
        segments, observation_version=1, gamma=0.99, seed=seed, states=states, evidence=evidence, **options
    )


def weight(model):
    return annealed(1.0, model.trust, model.trust_low, model.accuracy, model.accuracy_low).value


def test_true_cells_are_learned_though_the_segments_judge_knows_nothing():
    model, report = train(*world())
    assert report.cells > 60
    assert report.cell_accuracy.low > 0.6
    assert model.accuracy == report.cell_accuracy.value
    assert report.trust.low > 0.5
    assert weight(model) == pytest.approx(2 * report.trust.value - 1)
    way = np.zeros((20, SIZE), np.float32)
    way[:, 0] = np.linspace(0, 1, 20)
    assert np.corrcoef(model(way), np.arange(20))[0, 1] > 0.9


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("how", ["shuffled", "inverted", "constant", "an outlier"])
def test_cells_that_are_judged_wrongly_have_no_weight(how, seed):
    segments, states, evidence = world(seed)
    scores = np.array([each.score for each in states])
    if how == "shuffled":
        scores = np.random.default_rng(seed).permutation(scores)
    elif how == "inverted":
        scores = 1 - scores
    else:
        scores = np.full(len(states), 0.3)
        scores[np.random.default_rng(seed).integers(len(states))] = 0.3 if how == "constant" else 0.9
    wrong = [dataclasses.replace(each, score=float(s)) for each, s in zip(states, scores, strict=True)]
    model, report = train(segments, wrong, evidence, seed)
    assert weight(model) == 0
    if how == "shuffled":
        assert report.cell_accuracy.low < 0.5 < report.cell_accuracy.high
    if how == "inverted":
        assert report.trust.value < 0.5 < report.cell_accuracy.low


def test_pairs_that_were_judged_side_by_side_are_learned_from():
    segments, states, evidence = world()
    alike = [dataclasses.replace(each, score=0.5) for each in states]
    rng = np.random.default_rng(0)
    pairs = []
    for _ in range(6000):
        a, b = (states[index] for index in rng.integers(len(states), size=2))
        pairs.append((a.name, b.name, float(a.score > b.score)))
    _, report = train(segments, alike, evidence, state_pairs=[*pairs, ("of another run", "e0", 1.0)])
    assert report.cell_pairs == len(states) * (len(states) - 1) // 2 + len(pairs)
    assert report.trust.value > 0.7


def test_states_that_nobody_played_teach_what_play_does_not_reach():
    segments, states, evidence = world()
    near = [each for each in states if each.score < 0.5]
    rng = np.random.default_rng(1)
    ahead = []
    for number in range(120):
        obs = rng.normal(0, 0.3, SIZE).astype(np.float32)
        obs[0] = 0.5 + number / 120
        ahead.append(ScoredState(f"ahead-{number}", None, obs, min(0.5 + number / 120, 1.0)))
    way = np.zeros((20, SIZE), np.float32)
    way[:, 0] = np.linspace(0.6, 1.4, 20)
    known, _ = train(segments, near, evidence)
    guided, report = train(segments, [*near, *ahead], evidence)
    assert report.cells == len(near)
    assert np.ptp(guided(way)) > np.ptp(known(way)) or np.corrcoef(guided(way), np.arange(20))[0, 1] > 0.9
    assert np.isin(guided.reference[:, 0].numpy(), [each.observation[0] for each in near]).all()


def test_nobody_holds_out_what_nobody_played():
    segments, states, _ = world()
    cells = [*states, ScoredState("ahead", None, states[0].observation, 0.9)]
    from questloop.reward_model.preferences import pool

    found = _lessons(pool(segments), state_pool(cells), cells, [], None, np.random.default_rng(0))
    assert found.states.fold[-1] == NOBODY
    assert len(cells) - 1 not in {*found.states_held_out.a, *found.states_held_out.b}
    assert len(cells) - 1 in {*found.states.learned.a, *found.states.learned.b}
    by_episode = dict(found.fold_of)
    for state, fold in zip(states, found.states.fold, strict=False):
        assert by_episode[state.episode] == fold


def test_cells_that_were_seen_twice_are_held_out_together():
    segments, states, _ = world()
    again = [dataclasses.replace(each, name=f"{each.name}x", episode=f"{each.episode}x") for each in states]
    cells = [*states, *again]
    from questloop.reward_model.preferences import pool

    found = _lessons(pool(segments), state_pool(cells), cells, [], None, np.random.default_rng(0))
    np.testing.assert_array_equal(found.states.fold[: len(states)], found.states.fold[len(states) :])


@pytest.mark.parametrize(
    "bad", [{"score": float("nan")}, {"spread": float("inf")}, {"observation": np.full(SIZE, np.nan)}]
)
def test_a_state_that_cannot_be_used_is_named(bad):
    _, states, _ = world()
    states[3] = dataclasses.replace(states[3], **bad)
    with pytest.raises(BadDataError, match=states[3].name):
        state_pool(states)


def test_no_states_are_none():
    assert state_pool([]) is None


def test_a_feature_that_never_moved_means_nothing():
    segments, states, evidence = world()
    for each in (*segments,):
        each.observations[:, 20] = 0.25
    for each in states:
        each.observation[20] = 0.25
    model, _ = train(segments, states, evidence)
    obs = np.zeros((2, SIZE), np.float32)
    obs[:, 20] = 0.25, 1.0
    assert model(obs)[0] == pytest.approx(model(obs)[1], abs=1e-3)
