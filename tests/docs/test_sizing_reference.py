"""The sizing page is what its figures say, and the figures are carried right."""

import pytest
from scripts import write_sizing_reference as sizing

RATES = {
    "env_steps_per_core_s": 1000.0,
    "driver_us_per_step": 1000.0,
    "emulator_mb": 10.0,
    "segment_mb": 0.5,
    "prompt_tokens_per_vote": 1000.0,
}
ASSUMED = {
    "usd_per_core_hour": 1.0,
    "usd_per_gpu_hour": 10.0,
    "prompt_tokens_per_gpu_s": 1000.0,
    "reply_tokens_per_gpu_s": 100.0,
    "reply_tokens_per_vote": 100.0,
}


def test_the_page_is_written_by_the_script():
    assert sizing.PAGE.read_text("utf-8") == sizing.page()


def test_one_runner_gives_what_was_measured():
    one = sizing.size(32, RATES, ASSUMED)
    assert (one.cores, one.steps_per_s, one.epoch_s) == (1, pytest.approx(500), pytest.approx(600))
    assert one.export_mb_per_s == pytest.approx(400 * 0.5 / 600)
    assert one.judge_gpus == pytest.approx(1800 * 2 / 600)  # a second for the prompt, one for the reply
    assert one.usd_per_hour == pytest.approx(2 * 1 + 6 * 10)


def test_the_learner_caps_the_loop():
    assert sizing.size(100_000, RATES, ASSUMED).steps_per_s == pytest.approx(1000, rel=0.01)
