"""Layouts of runners and emulators."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from questloop.settings import TrainingSettings
from questloop.training.autoscale import EMULATOR_MB, RESERVE_MB, RUNNER_MB, Layout, choose_layout


def test_two_cores_and_plenty_of_memory():
    assert choose_layout(TrainingSettings(), 2, 16_000) == Layout(2, 32, 64)


def test_little_memory_means_fewer_emulators():
    layout = choose_layout(TrainingSettings(), 2, RESERVE_MB + 2 * (RUNNER_MB + 8 * EMULATOR_MB))
    assert layout.slots_per_runner <= 8


def test_what_the_user_says_stands():
    settings = TrainingSettings(ray_workers=3, envs_per_worker=1)
    assert choose_layout(settings, 64, 1000) == Layout(3, 1, 1366)


@given(st.integers(1, 128), st.floats(500, 500_000), st.sampled_from([256, 2048, 4096, 6000, 65536]))
def test_every_layout_fills_the_batch(cores, memory_mb, batch):
    settings = TrainingSettings(batch_size=batch, minibatch_size=batch)
    layout = choose_layout(settings, cores, memory_mb)
    assert layout.runners == cores
    assert 1 <= layout.slots_per_runner <= 32
    assert batch <= layout.batch_size < batch + layout.slots


@pytest.mark.parametrize("cores", [3, 6, 12])
def test_odd_core_counts_keep_enough_emulators(cores):
    assert choose_layout(TrainingSettings(), cores, 64_000).slots_per_runner >= 16
