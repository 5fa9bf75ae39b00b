"""Random streams and slot states of runners, without a Ray cluster."""

from copy import deepcopy

import cloudpickle
import numpy as np
import pytest
from benchmarks.planner.trials import trials

from questloop.env.world import game_world
from questloop.episodes.boundary import Boundary
from questloop.game.profiles.mossgrove import PROFILE
from questloop.game.rom import Rom
from questloop.game.start_states import StartState, StartStates
from questloop.settings import Settings
from questloop.training.autoscale import Layout
from questloop.training.rollout import concatenate
from questloop.training.runner import QuestRunner, cut_at_handovers, draw_actions, empty_rollout
from questloop.training.trainer import quest_config


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


def test_a_rollout_is_cut_where_policy_and_planner_change_places():
    rollout = empty_rollout(6, 2, (3,), np.dtype(np.float32))
    rollout.mask[2:4, 0] = False
    rollout.mask[1:, 1] = False
    rollout.boundary[0, 1] = Boundary.TERMINATED
    cut_at_handovers(rollout)
    none, cut = Boundary.NONE, Boundary.HANDOVER
    assert rollout.boundary[:, 0].tolist() == [none, cut, none, cut, none, none]
    assert rollout.boundary[:, 1].tolist() == [Boundary.TERMINATED, none, none, none, none, none]


def game_runner(**exploration):
    settings = Settings(**exploration, ray_workers=1, envs_per_worker=2, batch_size=64, minibatch_size=64)
    layout = Layout(runners=1, slots_per_runner=2, rollout_steps=32)
    return QuestRunner(config=quest_config(settings, game_world(settings), layout, 3), worker_index=1)


@pytest.mark.slow
def test_takeovers_in_the_loop_repeat_exactly_and_leave_the_policy_its_own_steps():
    def play():
        runner = game_runner(planner=True)
        runner.env.starter._states = dialogs
        kept = []
        for _ in range(2):  # a runner fills the same buffers again
            s = runner.sample(100)
            kept.append(
                (
                    s.rollout.action.copy(),
                    s.rollout.mask.copy(),
                    deepcopy(s.trace),
                    s.report.copilots["takeovers"],
                )
            )
        runner.stop()
        return kept

    rom = Rom.load(None)
    talking = [trial for trial in trials(rom, PROFILE) if trial.mode == "dialog"][:2]
    dialogs = StartStates(tuple(StartState(trial.name, trial.state) for trial in talking))
    first, second = play(), play()
    for (action, mask, trace, report), again in zip(first, second, strict=True):
        np.testing.assert_array_equal(action, again[0])
        np.testing.assert_array_equal(mask, again[1])
        np.testing.assert_array_equal(trace.mode == 0, mask)
        assert report.outcomes == again[3].outcomes
        assert report.steps == (~mask).sum()
        assert trace.takeovers == again[2].takeovers
    assert first[0][3].outcomes["dialog solved"] >= 2
    _, mask, trace, report = first[0]
    assert len(trace.takeovers) == report.outcomes.total()
    for t, slot, takeover in trace.takeovers:
        began = t - int(trace.episode_step[t, slot]) + takeover.first_step
        assert not mask[began : began + takeover.steps, slot].any()
        assert takeover.plans[0].macros


def test_hints_are_seen_by_the_policy_alone_and_go_on_from_a_state():
    runner, other = game_runner(hint_interval=20), game_runner(hint_interval=20)
    sample = runner.sample(60)
    rollout = sample.rollout
    assert rollout.obs.shape == (60, 2, 132)
    assert rollout.features.shape == (61, 2, 128)
    np.testing.assert_array_equal(rollout.observations[..., :128], rollout.features)
    assert sample.trace.obs.shape == (60, 2, 128)
    assert sample.report.copilots["hints"].outcomes["given"] >= 2
    assert (rollout.observations[-1, :, 128] == 1).any()
    weights, state = runner.module.get_state(), runner.slot_state()
    other.load_slot_state([state])
    first, second = (each.sample(40, weights=weights).rollout for each in (runner, other))
    np.testing.assert_array_equal(first.observations, second.observations)
    runner.stop()
    other.stop()


def test_without_the_planner_a_runner_has_no_takeovers(make_config):
    runner = QuestRunner(config=make_config(), worker_index=1)
    assert runner.copilots == []
    assert runner.sample(4).report.copilots == {}


def test_no_key_is_in_what_rllib_writes():
    settings = Settings(planner=True, llm_api_key="sesame", llm_endpoint="http://127.0.0.1:9/v1")
    layout = Layout(runners=1, slots_per_runner=2, rollout_steps=32)
    config = quest_config(settings, game_world(settings), layout, 3)
    assert b"sesame" not in cloudpickle.dumps(config.planning)


def test_a_rollout_says_where_a_game_stood_still(make_learner):
    runner, learner = make_learner()
    weights = learner.module.get_state()
    played = deepcopy(runner.sample(4, weights).rollout)
    assert played.still is None
    runner.env.paused = (1,)
    waited = runner.sample(4, weights).rollout
    slots = waited.shape[1]
    assert waited.still.tolist() == [[slot == 1 for slot in range(slots)]] * 4
    both = concatenate([played, waited])
    assert both.still[:, :slots].sum() == 0
    assert (both.still[:, slots:] == waited.still).all()
    assert np.isfinite(learner.prepare(both).advantage).all()
