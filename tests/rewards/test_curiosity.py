"""RND's statistics against closed forms, its networks by their behaviour."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from questloop.rewards.curiosity import CLIP, Curiosity, ReturnScale, RunningMoments


@given(st.lists(st.integers(1, 30), min_size=1, max_size=6), st.integers(0, 2**31))
@settings(max_examples=50)
def test_moments_of_batches_are_those_of_all_rows(sizes, seed):
    rng = np.random.default_rng(seed)
    batches = [rng.normal(rng.normal(0, 100), 3, (size, 4)).astype(np.float32) for size in sizes]
    moments = RunningMoments(4)
    for batch in batches:
        moments.update(batch)
    rows = np.concatenate(batches).astype(np.float64)
    np.testing.assert_allclose(moments.mean, rows.mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(moments.var, rows.var(axis=0), rtol=1e-5, atol=1e-6)


def test_statistics_of_parallel_runners_merge_in_any_order():
    rows = np.random.default_rng(0).normal(5, 2, (100, 3))
    left, right = RunningMoments(3), RunningMoments(3)
    left.update(rows[:70])
    right.update(rows[70:])
    right.merge(left)
    right.merge(RunningMoments(3))
    np.testing.assert_allclose(right.mean, rows.mean(axis=0))
    np.testing.assert_allclose(right.var, rows.var(axis=0))


def test_returns_are_filtered_over_time_and_not_over_slots():
    """T and N differ and so do their rewards: a filter along the wrong axis gives another deviation."""
    gamma = 0.5
    rewards = np.float32([[1, 0], [2, 0], [4, 8]])
    returns = np.array([[1, 0], [2.5, 0], [5.25, 8]])
    np.testing.assert_allclose(ReturnScale(2, gamma)(rewards), rewards / returns.std(), rtol=1e-5)


def test_returns_go_on_from_rollout_to_rollout():
    rewards = np.random.default_rng(1).exponential(size=(40, 3)).astype(np.float32)
    whole, parts = ReturnScale(3, 0.9), ReturnScale(3, 0.9)
    whole(rewards)
    for start in range(0, 40, 8):
        parts(rewards[start : start + 8])
    np.testing.assert_allclose(parts.state_dict()["carry"], whole.state_dict()["carry"])
    np.testing.assert_allclose(parts.state_dict()["squares"], whole.state_dict()["squares"], rtol=1e-5)


def test_scaling_keeps_the_sign_and_takes_the_scale_away():
    rewards = np.random.default_rng(2).exponential(size=(200, 4)).astype(np.float32)
    small, large = ReturnScale(4, 0.99)(rewards), ReturnScale(4, 0.99)(rewards * 1000)
    assert (small >= 0).all()
    np.testing.assert_allclose(small, large, rtol=1e-3)


def test_observations_are_whitened_and_clipped():
    curiosity = Curiosity(1, 3, 0.99, seed=0)
    rows = np.float32([[0, 10, 7], [2, 30, 7]])
    curiosity.warm_up(rows)
    white = curiosity._whiten(torch.tensor([[1.0, 40.0, 8.0]])).numpy()
    np.testing.assert_allclose(white, [[0, 2, CLIP]], atol=1e-4)


def test_a_bonus_before_the_warm_up_is_refused():
    with pytest.raises(RuntimeError, match="warm_up"):
        Curiosity(2, 4, 0.99, seed=0).bonus(np.zeros((3, 2, 4), np.float32))


def test_what_was_learned_is_less_novel_than_what_was_not():
    rng = np.random.default_rng(3)
    curiosity = Curiosity(4, 16, 0.99, seed=0)
    curiosity.warm_up(rng.normal(size=(512, 16)).astype(np.float32))
    known = rng.normal(0, 0.3, (64, 16)).astype(np.float32)
    optimiser = torch.optim.Adam(curiosity.predictor.parameters(), lr=1e-3)
    first = curiosity.loss(torch.from_numpy(known)).item()
    for _ in range(150):
        optimiser.zero_grad()
        curiosity.loss(torch.from_numpy(known)).backward()
        optimiser.step()
    assert curiosity.loss(torch.from_numpy(known)).item() < first / 10
    unknown = known[:, ::-1] + 2
    bonus = curiosity.bonus(np.concatenate([known, unknown]).reshape(32, 4, 16))
    assert bonus.shape == (32, 4)
    assert bonus[:16].mean() * 5 < bonus[16:].mean()


def test_what_stands_still_is_paid_nothing_and_makes_no_return():
    rng, still = np.random.default_rng(4), np.ones((8, 2), np.bool_)
    curiosity = Curiosity(2, 4, 0.99, seed=0)
    curiosity.warm_up(rng.normal(size=(64, 4)).astype(np.float32))
    assert (curiosity.bonus(rng.normal(size=(8, 2, 4)).astype(np.float32), still) == 0).all()
    assert (curiosity.state_dict()["scale.carry"] == 0).all()


def test_the_target_never_learns():
    curiosity = Curiosity(1, 4, 0.99, seed=0)
    curiosity.warm_up(np.eye(4, dtype=np.float32))
    curiosity.loss(torch.eye(4)).backward()
    assert all(parameter.grad is None for parameter in curiosity.target.parameters())
    assert all(parameter.grad is not None for parameter in curiosity.predictor.parameters())


def test_the_seed_makes_the_networks_and_leaves_the_global_stream_alone():
    torch.manual_seed(7)
    expected = torch.rand(1)
    torch.manual_seed(7)
    one, two, other = (Curiosity(1, 4, 0.99, seed=seed).state_dict() for seed in (1, 1, 2))
    assert torch.rand(1) == expected
    np.testing.assert_array_equal(one["target.0.weight"], two["target.0.weight"])
    assert not np.array_equal(one["target.0.weight"], other["target.0.weight"])


def test_a_restored_state_goes_on_exactly():
    rng = np.random.default_rng(4)
    rollouts = rng.normal(size=(3, 8, 2, 5)).astype(np.float32)
    through, restored = Curiosity(2, 5, 0.99, seed=0), Curiosity(2, 5, 0.99, seed=9)
    through.warm_up(rollouts[0].reshape(-1, 5))
    through.bonus(rollouts[1])
    restored.load_state_dict(through.state_dict())
    np.testing.assert_array_equal(through.bonus(rollouts[2]), restored.bonus(rollouts[2]))
