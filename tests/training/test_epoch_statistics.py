"""Returns and rooms across rollouts."""

import json

import numpy as np

from questloop.env.slot_report import SlotReport
from questloop.episodes.boundary import Boundary
from questloop.training.epoch_statistics import ReturnMeter, RoomMeter, chain_hashes
from questloop.training.runner import empty_rollout


def rollout(reward, boundary):
    made = empty_rollout(*np.shape(reward), (2,), np.dtype(np.float32))
    made.reward[:] = reward
    made.boundary[:] = boundary
    return made


def test_an_episode_longer_than_an_epoch_has_figures():
    meter = ReturnMeter(2)
    for _ in range(2):
        meter.start_epoch()
        meter.add(rollout([[1, 0], [1, 2]], [[0, 0], [0, 0]]))
    summary = meter.summary()
    json.dumps(summary, allow_nan=False)
    assert summary["episodes_finished"] == 0
    assert summary["return_mean"] is None
    assert summary["return_running_mean"] == 4
    assert summary["return_best"] == 4
    assert summary["return_per_1000_steps"] == 1000


def test_returns_and_lengths_are_exact_over_boundaries_and_rollouts():
    meter = ReturnMeter(1)
    meter.add(rollout([[1], [2]], [[0], [Boundary.HANDOVER]]))
    meter.add(rollout([[4], [8], [16]], [[Boundary.TERMINATED], [Boundary.TRUNCATED], [0]]))
    assert meter.finished == [(7.0, 3), (8.0, 1)]
    assert meter.returns.tolist() == [16]
    assert meter.lengths.tolist() == [1]


def test_a_lost_runners_episodes_are_forgotten_and_a_state_goes_on():
    meter = ReturnMeter(3)
    meter.add(rollout([[1, 2, 3]], [[0, 0, 0]]))
    meter.forget(slice(0, 2))
    other = ReturnMeter(3)
    other.load_state_dict(meter.state_dict())
    assert other.returns.tolist() == [0, 0, 3]


def test_rooms_count_over_slots_and_milestones_over_episodes():
    meter = RoomMeter()
    first = SlotReport([3], [0b01], rooms=np.array([1, 2]), milestones=np.array([0, 3], np.uint64))
    second = SlotReport(rooms=np.array([4, 2]), milestones=np.array([2, 3], np.uint64))
    first.room_steps, second.room_steps = {7: 1, 9: 5}, {9: 2, 11: 3}
    meter.add(0, first)
    meter.add(0, second)
    assert meter.room_steps == {7: 1, 9: 7, 11: 3}
    assert meter.rooms_per_episode == 3
    assert meter.milestone_counts(("sword", "essence")) == {"sword": 2, "essence": 2}


def test_hashes_tell_slots_and_their_histories_apart():
    one = rollout(np.zeros((2, 2)), 0)
    one.action[:, 1] = 1
    first = chain_hashes(["0" * 64] * 2, one)
    assert first[0] != first[1]
    assert chain_hashes(first, one) != first
    assert chain_hashes(["0" * 64] * 2, one) == first
