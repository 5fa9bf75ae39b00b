"""Random streams and slot states of runners, without a Ray cluster."""

import numpy as np
import pytest

from questloop.training.runner import QuestRunner, draw_actions


def sample(config, worker, **kwargs):
    runner = QuestRunner(config=config, worker_index=worker)
    return runner, runner.sample(**kwargs).rollout


def test_four_runners_of_eight_slots_have_32_streams_and_the_same_seed_gives_them_again(make_config):
    config = make_config(slots=8, steps=40, seed=11)

    def columns():
        return [
            sample(config, worker, steps=40)[1].action[:, n].tobytes()
            for worker in range(1, 5)
            for n in range(8)
        ]

    first = columns()
    assert len(set(first)) == 32
    assert columns() == first


def test_another_seed_and_a_restarted_runner_draw_other_numbers(make_config):
    actions = [
        sample(make_config(seed=seed), 1, steps=40, incarnation=incarnation)[1].action.copy()
        for seed, incarnation in ((1, 0), (2, 0), (1, 1))
    ]
    assert not np.array_equal(actions[0], actions[1])
    assert not np.array_equal(actions[0], actions[2])


def test_a_runner_goes_on_from_anothers_slot_state(make_config):
    config = make_config(seed=4)
    runner, _ = sample(config, 1, steps=13)
    state = runner.slot_state()
    straight = runner.sample(20).rollout
    other = QuestRunner(config=config, worker_index=1)
    assert other.load_slot_state([state]) is None
    other.module.set_state(runner.module.get_state())
    resumed = other.sample(20).rollout
    np.testing.assert_array_equal(straight.observations, resumed.observations)
    np.testing.assert_array_equal(straight.action, resumed.action)


def test_what_the_environment_raises_is_returned(make_config):
    runner = QuestRunner(config=make_config(), worker_index=0)
    runner.env.step = lambda *_: 1 / 0
    assert isinstance(runner.sample(1), ZeroDivisionError)


@pytest.mark.parametrize("uniform", [0.0, 0.3, 0.999999])
def test_actions_invert_the_distribution_function(uniform):
    logits = np.log(np.array([[0.25, 0.25, 0.5]], np.float32))
    action, logp = np.zeros(1, np.uint8), np.zeros(1, np.float32)
    draw_actions(logits, np.full(1, uniform, np.float32), action, logp)
    assert action[0] == {0.0: 0, 0.3: 1, 0.999999: 2}[uniform]
    assert logp[0] == pytest.approx(np.log([0.25, 0.25, 0.5][action[0]]), abs=1e-6)


def test_actions_are_drawn_by_their_probabilities():
    n = 20_000
    logits = np.tile(np.log(np.array([0.1, 0.2, 0.7], np.float32)), (n, 1))
    action, logp = np.zeros(n, np.uint8), np.zeros(n, np.float32)
    draw_actions(logits, np.random.default_rng(0).random(n, np.float32), action, logp)
    np.testing.assert_allclose(np.bincount(action) / n, [0.1, 0.2, 0.7], atol=0.01)
