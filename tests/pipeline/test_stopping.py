"""A pipeline that is told to stop says so, and goes on saying so for as long as it takes."""

import os
import signal
import time

import pytest

from questloop.pipeline.loop import Stopped, _stop_signals
from questloop.telemetry import progress


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stopping_is_never_silent(monkeypatch, capfd, number):
    monkeypatch.setattr(progress, "BEAT_S", 0.02)
    before = signal.getsignal(number)
    with pytest.raises(Stopped, match="goes on after the last finished stage"), _stop_signals():
        _play_until(number)
    said = capfd.readouterr().err
    assert said.count("stopping, this takes a few seconds") == 1
    assert said.count("  stopping, 0 s") > 2
    assert signal.getsignal(number) == before
    time.sleep(0.1)
    assert not capfd.readouterr().err


def _play_until(number):
    try:
        os.kill(os.getpid(), number)
        time.sleep(5)
    finally:
        time.sleep(0.2)  # what is closed meanwhile


def test_a_pipeline_that_ends_by_itself_says_nothing(capfd):
    with _stop_signals():
        pass
    assert not capfd.readouterr().err
