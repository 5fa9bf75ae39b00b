"""The learner: its loss is RLlib's, it learns, and it refuses what is not finite."""

import copy

import numpy as np
import pytest
import torch
from ray.rllib.algorithms.ppo.torch.ppo_torch_learner import PPOTorchLearner
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.columns import Columns
from ray.rllib.core.learner.training_data import TrainingData
from ray.rllib.evaluation.postprocessing import Postprocessing
from ray.rllib.utils.postprocessing.value_predictions import compute_value_targets

from questloop.errors import BadDataError
from questloop.training.advantages import standardise
from questloop.training.learner import as_rllib
from questloop.training.loss import POLICY_STATISTICS, LossWeights, policy_loss, value_loss


def train(runner, learner, updates):
    rewards = []
    for _ in range(updates):
        rollout = runner.sample(32, learner.module.get_state()).rollout
        rewards.append(rollout.reward.mean())
        learner.update(training_data=TrainingData(batch=as_rllib(learner.prepare(rollout))))
    return rewards


def test_the_learner_improves_the_return(make_config, make_learner):
    runner, learner = make_learner(make_config())
    rewards = train(runner, learner, 25)
    assert np.mean(rewards[-5:]) > 1.5 * np.mean(rewards[:5])


def test_the_same_seed_gives_the_same_weights(make_config, make_learner):
    weights = []
    for _ in range(2):
        torch.manual_seed(0)
        runner, learner = make_learner(make_config(seed=3))
        train(runner, learner, 2)
        weights.append(torch.cat([p.detach().flatten() for p in learner.network.parameters()]))
    assert torch.equal(*weights)


def test_the_loss_is_rllibs_on_the_same_batch(make_config, make_learner):
    """RLlib's PPO learner is the reference: one value stream, no KL penalty, same coefficients."""
    config = make_config(vf_clip_param=0.05)
    runner, learner = make_learner(config)
    _, reference = make_learner(config, PPOTorchLearner)
    reference.module.set_state(learner.module.get_state())
    batch = learner.prepare(runner.sample(32, learner.module.get_state()).rollout)
    with torch.no_grad():
        for parameter in learner.network.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    reference.module.set_state(learner.module.get_state())
    obs = torch.from_numpy(batch.obs)
    columns = {
        Columns.OBS: obs,
        Columns.ACTIONS: torch.from_numpy(batch.action),
        Columns.ACTION_LOGP: torch.from_numpy(batch.logp),
        Columns.ACTION_DIST_INPUTS: torch.zeros(len(batch), 2),
        Postprocessing.ADVANTAGES: torch.from_numpy(batch.advantage),
        Postprocessing.VALUE_TARGETS: torch.from_numpy(batch.target_ext),
    }
    expected = reference.compute_loss_for_module(
        module_id=DEFAULT_MODULE_ID,
        config=config,
        batch=columns,
        fwd_out=reference.module[DEFAULT_MODULE_ID].forward_train(columns),
    )
    weights = LossWeights(config.clip_param, config.vf_clip_param, config.entropy_coeff)
    policy, statistics = policy_loss(
        learner.network.logits(obs),
        columns[Columns.ACTIONS],
        columns[Columns.ACTION_LOGP],
        columns[Postprocessing.ADVANTAGES],
        weights,
    )
    values = learner.network.values(obs)[:, :1]
    value, _ = value_loss(values, columns[Postprocessing.VALUE_TARGETS][:, None], weights)
    assert dict(zip(POLICY_STATISTICS, statistics.tolist(), strict=True))["clip_fraction"] > 0
    torch.testing.assert_close(policy + value, expected, rtol=1e-5, atol=1e-6)


def test_advantages_and_targets_are_rllibs_on_the_same_rollout(make_config, make_learner):
    config = make_config()
    runner, learner = make_learner(config)
    rollout = runner.sample(32, learner.module.get_state()).rollout
    assert (rollout.boundary == 1).any()
    batch = learner.prepare(rollout)
    targets = np.zeros(rollout.shape, np.float32)
    for n in range(rollout.shape[1]):
        targets[:, n] = _rllib_targets(rollout, learner.network, n, config)
    advantage = targets - batch.value_ext.reshape(rollout.shape)
    np.testing.assert_allclose(batch.target_ext, targets.ravel(), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(batch.advantage, standardise(advantage.ravel()), rtol=1e-3, atol=1e-4)


def test_what_a_planner_earns_counts_for_the_step_that_led_to_it(make_config, make_learner):
    runner, learner = make_learner(make_config())
    rollout = runner.sample(32, learner.module.get_state()).rollout
    rollout.mask[10:20, 0] = False
    rollout.boundary[:20, 0] = 0
    before = learner.prepare(rollout)
    rollout.reward[15, 0] += 10
    after = learner.prepare(rollout)
    slots = rollout.shape[1]
    rise = (after.target_ext - before.target_ext).reshape(-1, slots)[:, 0]
    decay = (learner.config.gamma * learner.config.lambda_) ** np.arange(15, -1, -1)
    np.testing.assert_allclose(rise[:16], 10 * decay, rtol=1e-3)
    assert (rise[16:] == 0).all()


def test_a_planners_steps_teach_the_critic_and_not_the_policy(make_config, make_learner):
    runner, learner = make_learner(make_config())
    rollout = runner.sample(32, learner.module.get_state()).rollout
    learner.update(training_data=TrainingData(batch=as_rllib(learner.prepare(rollout))))  # Adam has momentum
    last = {name: learner.statistics[name] for name in POLICY_STATISTICS}
    rollout.mask[:] = False
    policy, critic = (
        [parameter.detach().clone() for parameter in part.parameters()]
        for part in (learner.network.policy, learner.network.critic)
    )
    learner.update(training_data=TrainingData(batch=as_rllib(learner.prepare(rollout))))
    assert all(torch.equal(a, b) for a, b in zip(policy, learner.network.policy.parameters(), strict=True))
    assert not all(
        torch.equal(a, b) for a, b in zip(critic, learner.network.critic.parameters(), strict=True)
    )
    assert {name: learner.statistics[name] for name in POLICY_STATISTICS} == last


def _rllib_targets(rollout, network, n, config):
    """RLlib computes on one row in which each episode is followed by one artificial bootstrap step."""

    def value(obs):
        with torch.no_grad():
            return network.values(torch.from_numpy(obs[None]))[0, 0].item()

    finals = dict(zip(rollout.final_index.tolist(), rollout.final_obs, strict=True))
    values, rewards, ended, cut, real = [], [], [], [], []
    for t in range(len(rollout.action)):
        boundary = rollout.boundary[t, n]
        open_end = t == len(rollout.action) - 1 and boundary == 0
        values.append(value(rollout.obs[t, n]))
        rewards.append(rollout.reward[t, n])
        ended.append(float(boundary == 1))
        cut.append(float(boundary == 2 or open_end))
        real.append(True)
        if boundary or open_end:
            values.append(
                value(rollout.observations[-1][n] if open_end else finals[t * rollout.shape[1] + n])
            )
            rewards.append(0.0)
            ended.append(1.0)
            cut.append(0.0)
            real.append(False)
    targets = compute_value_targets(
        values=np.array(values, np.float32),
        rewards=np.array(rewards, np.float32),
        terminateds=np.array(ended, np.float32),
        truncateds=np.array(cut, np.float32),
        gamma=config.gamma,
        lambda_=config.lambda_,
    )
    return targets[np.array(real)]


def test_curiosity_is_rewarded_after_a_first_rollout_that_warms_it_up(make_config, make_learner):
    config = make_config()
    config.rnd_coef = 0.5
    runner, learner = make_learner(config)
    losses = []
    for update in range(12):
        batch = learner.prepare(runner.sample(32, learner.module.get_state()).rollout)
        assert ("curiosity_mean" in learner.statistics) == (update > 0)
        assert batch.target_int.any() == (update > 0)
        learner.update(training_data=TrainingData(batch=as_rllib(batch)))
        losses.append(learner.statistics["curiosity_loss"])
    assert losses[-1] < 0.8 * losses[0]


def test_a_rollout_that_cannot_be_written_to_is_learned_from(make_config, make_learner):
    """As one runner's comes out of Ray's object store; torch warns of such arrays, once a process."""
    config = make_config()
    config.rnd_coef = 0.5
    runner, learner = make_learner(config)
    for _ in range(2):
        rollout = copy.deepcopy(runner.sample(32, learner.module.get_state()).rollout)
        for array in vars(rollout).values():
            if isinstance(array, np.ndarray):
                array.setflags(write=False)
        learner.update(training_data=TrainingData(batch=as_rllib(learner.prepare(rollout))))


def test_a_learner_goes_on_from_anothers_arrays(make_config, make_learner):
    config = make_config()
    config.rnd_coef = 0.5
    runner, learner = make_learner(config)
    train(runner, learner, 3)
    _, other = make_learner(config)
    other.load_arrays(*learner.arrays())
    other.load_counts(learner.counts())
    rollout = runner.sample(32, learner.module.get_state()).rollout
    for each in (learner, other):
        each.update(training_data=TrainingData(batch=as_rllib(each.prepare(rollout))))
    for mine, theirs in zip(learner.arrays(), other.arrays(), strict=True):
        assert mine.keys() == theirs.keys()
        for name in mine:
            np.testing.assert_array_equal(mine[name], theirs[name])


def test_observations_are_whitened_by_the_first_rollout_and_no_other(make_config, make_learner):
    config = make_config()
    config.whiten = True
    runner, learner = make_learner(config)
    train(runner, learner, 1)
    centre, scale = learner.network.centre.clone(), learner.network.scale.clone()
    assert (scale != 1).any()
    train(runner, learner, 2)
    assert torch.equal(learner.network.centre, centre)
    assert torch.equal(learner.network.scale, scale)


def test_observations_are_seen_as_they_are_unless_asked_for(make_config, make_learner):
    runner, learner = make_learner(make_config())
    train(runner, learner, 2)
    assert (learner.network.scale == 1).all()
    assert (learner.network.centre == 0).all()


def test_a_policy_from_before_whitening_goes_on_with_what_it_saw(make_config, make_learner):
    config = make_config()
    config.whiten = True
    runner, learner = make_learner(config)
    policy, moments, curiosity = learner.arrays()
    counts = learner.counts()
    for name in ("centre", "scale", "closed"):
        del policy[name]
    del counts["whitened"]
    learner.load_arrays(policy, moments, curiosity)
    learner.load_counts(counts)
    train(runner, learner, 1)
    assert (learner.network.scale == 1).all()


def test_a_nan_observation_is_named_and_nothing_is_updated(make_config, make_learner):
    runner, learner = make_learner(make_config())
    rollout = runner.sample(32, learner.module.get_state()).rollout
    rollout.observations[4, 2, 1] = np.nan
    with pytest.raises(BadDataError, match=r"observations\[4, 2, 1\] is nan"):
        learner.prepare(rollout)


def test_a_loss_that_is_not_finite_leaves_the_weights(make_config, make_learner):
    runner, learner = make_learner(make_config())
    batch = learner.prepare(runner.sample(32, learner.module.get_state()).rollout)
    batch.advantage[100] = np.inf
    before = [parameter.detach().clone() for parameter in learner.network.parameters()]
    with pytest.raises(BadDataError, match="no update was made"):
        learner.update(training_data=TrainingData(batch=as_rllib(batch)))
    assert all(torch.equal(a, b) for a, b in zip(before, learner.network.parameters(), strict=True))
