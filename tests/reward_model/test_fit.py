"""The loss against closed forms, the readings by hand."""

import numpy as np
import pytest
import torch

from questloop.reward_model.fit import preference_loss, read, roles
from questloop.reward_model.network import RewardReading
from questloop.reward_model.preferences import from_comparisons


def loss(logit, label, weight=1.0):
    row = torch.tensor([[logit]]), torch.tensor([label]), torch.tensor([weight])
    return preference_loss(*row).item()


@pytest.mark.parametrize("label", [0.0, 0.3, 0.5, 1.0])
def test_a_logit_of_0_costs_log_2(label):
    assert loss(0.0, label) == pytest.approx(np.log(2))


@pytest.mark.parametrize(("logit", "label"), [(1.5, 1.0), (-0.7, 0.25), (3.0, 0.5)])
def test_the_loss_is_that_of_the_formula(logit, label):
    p = 0.9 / (1 + np.exp(-logit)) + 0.05
    assert loss(logit, label) == pytest.approx(-(label * np.log(p) + (1 - label) * np.log(1 - p)), rel=1e-5)


@pytest.mark.parametrize("logit", [50.0, 1e4, -1e4, float("inf")])
def test_an_extreme_logit_costs_at_most_the_label_noise(logit):
    wrong = 0.0 if logit > 0 else 1.0
    assert loss(logit, wrong) == pytest.approx(-np.log(0.05), rel=1e-4)


def test_a_tie_is_cheapest_at_equal_values():
    assert loss(0.0, 0.5) < min(loss(0.1, 0.5), loss(-0.1, 0.5))


def test_weights_make_a_weighted_mean():
    logits, label = torch.tensor([[0.0, 2.0]]), torch.tensor([1.0, 1.0])
    both = preference_loss(logits, label, torch.tensor([3.0, 1.0])).item()
    assert both == pytest.approx((3 * loss(0.0, 1.0) + loss(2.0, 1.0)) / 4)
    assert preference_loss(logits, label, torch.zeros(2)).item() == 0


def test_readings_by_hand():
    outputs = torch.tensor([[[1.0, 2.0, 6.0]]])
    assert read(outputs, RewardReading.MEAN, 0.5).item() == 3
    assert read(outputs, RewardReading.DIFFERENCE, 0.5).item() == 0.5 * 6 - 1


def test_a_difference_takes_a_constant_out_and_a_mean_of_equal_lengths_in_pairs_too():
    outputs = torch.randn(2, 2, 5)
    for reading in RewardReading:
        a, b = read(outputs, reading, 1.0).unbind(dim=1)
        c, d = read(outputs + 7, reading, 1.0).unbind(dim=1)
        torch.testing.assert_close(a - b, c - d, atol=1e-5, rtol=0)


def test_a_member_trains_on_no_segment_of_its_own_fold_nor_of_the_one_that_stops_it():
    fold = np.arange(10) % 5
    every = from_comparisons([(a, b, 1.0, 1.0) for a in range(10) for b in range(a)])
    trains, stops = roles(fold, every)
    for member in range(5):
        trained_on = {*fold[every.a[trains[member]]], *fold[every.b[trains[member]]]}
        assert trained_on == set(range(5)) - {member, (member + 1) % 5}
        assert {*fold[every.a[stops[member]]], *fold[every.b[stops[member]]]} == {(member + 1) % 5}
