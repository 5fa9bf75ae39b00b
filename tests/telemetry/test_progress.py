import io
import json
import re
import threading
import time

import pytest
from rich.console import Console

from questloop.errors import UnavailableError
from questloop.telemetry import progress
from questloop.telemetry.progress import ProgressFile, heartbeat, progress_bar, stage_progress


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def written():
    return []


@pytest.fixture
def file(written, clock):
    return ProgressFile(lambda data: written.append(json.loads(data)), "r1", clock)


def test_the_document_is_the_published_one(file, written):
    file.update(3, "rollouts", 50, 200, rate=10.0)
    file.flush()
    assert " ".join(written[0]) == (
        "schema_version run epoch stage step steps_total rate eta_s training started updated latest errors "
        "stopped"
    )
    assert {name: written[0][name] for name in ("run", "epoch", "stage", "step", "steps_total", "eta_s")} == {
        "run": "r1",
        "epoch": 3,
        "stage": "rollouts",
        "step": 50,
        "steps_total": 200,
        "eta_s": 15.0,
    }


def test_it_is_written_every_two_seconds_and_at_what_matters(file, written, clock):
    for step in range(100):
        clock.now += 0.1
        file.update(0, "rollouts", step, 100)
        file.flush()
    assert 4 <= len(written) <= 6
    file.update(0, "rollouts", 100, 100)
    file.flush()
    assert written[-1]["step"] == 100
    file.update(0, "evaluate", 0, 10)
    file.flush()
    assert written[-1]["stage"] == "evaluate"
    file.error("the judge is away")
    file.finish_epoch({"return": 1.5})
    file.finish()
    assert written[-1]["stage"] == "finished"
    assert written[-1]["latest"] == {"return": 1.5}
    assert written[-1]["errors"][0]["message"] == "the judge is away"


def test_errors_are_bounded_and_nan_is_refused(file, written):
    for number in range(50):
        file.error(str(number))
    assert [item["message"] for item in written[-1]["errors"]] == [str(number) for number in range(30, 50)]
    with pytest.raises(ValueError, match="JSON"):
        file.finish_epoch({"return": float("nan")})


def test_a_store_that_is_away_holds_nobody_up(monkeypatch):
    monkeypatch.setattr(progress, "FLUSH_S", 0.01)
    gate, written = threading.Event(), []

    def write(data):
        gate.wait()
        if not written:
            written.append("failed")
            raise UnavailableError("the store is away")
        written.append(json.loads(data)["step"])

    file = ProgressFile(write, "r1", Clock())
    for step in (1, 2, 100):
        file.update(0, "rollouts", step, 100)
    file.error("the store is away")
    gate.set()
    file._writer.flush(30)
    assert written == ["failed", 100]


def test_nothing_is_printed_where_nobody_watches():
    out = io.StringIO()
    with progress_bar("verify", console=Console(file=out)) as tell:
        for number in range(3):
            tell(number, 3)
    assert out.getvalue() == ""


def test_a_bar_has_rate_and_time_left(monkeypatch):
    monkeypatch.setattr(progress, "SHOW_AFTER_S", -1.0)
    out = io.StringIO()
    with progress_bar("verify", "objects", Console(file=out, force_terminal=True, width=100)) as tell:
        for number in range(1, 1001):
            tell(number, 1000)
    said = out.getvalue()
    assert "verify" in said
    assert "1,000/1,000" in said
    assert "objects/s" in said


@pytest.mark.parametrize("width", [60, 80, 200])
def test_a_bar_fits_its_terminal(width):
    """Title, counts, time left and, where there is room, rate are whole, also before anything is counted."""
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=width, color_system=None)
    with progress_bar("epoch 0 reward model", "updates", console, at_once=True) as tell:
        for number in range(1, 120):
            tell(number, 16_384)
    lines = [re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", line) for line in re.split("[\r\n]", out.getvalue())]
    assert "starting" in lines[0]
    assert max(map(len, lines)) <= width
    last = next(line for line in reversed(lines) if line.strip())
    rate = r"[\d,.]+ updates/s " if width > 60 else ""
    assert re.search(rf"119/16,384 {rate}\d:\d\d:\d\d", last), last


def test_a_short_task_shows_no_bar():
    out = io.StringIO()
    with progress_bar("verify", console=Console(file=out, force_terminal=True)) as tell:
        tell(1, 1)
    assert "verify" not in out.getvalue()


def test_a_heart_beats_while_nothing_is_told_and_not_afterwards(monkeypatch):
    monkeypatch.setattr(progress, "BEAT_S", 0.02)
    beats = []
    with heartbeat(beats.append):
        deadline = time.monotonic() + 30
        while len(beats) < 3 and time.monotonic() < deadline:
            time.sleep(0.01)
    count = len(beats)
    time.sleep(0.1)
    assert 3 <= count == len(beats)
    assert beats == sorted(beats)


def test_a_stage_is_shown_by_lines_where_there_is_no_terminal(monkeypatch):
    monkeypatch.setattr(progress, "BEAT_S", 0.02)
    text = io.StringIO()
    with stage_progress("epoch 0 train", "steps", Console(file=text)) as tell:
        _wait_for("epoch 0 train, 0 s", text)
        tell(1_024, 4_096)
        _wait_for("epoch 0 train: 1,024 of 4,096 steps", text)


def test_a_stage_is_shown_by_a_bar_from_the_first_moment_on_a_terminal():
    text = io.StringIO()
    with stage_progress("epoch 0 train", "steps", Console(file=text, force_terminal=True, width=80)):
        _wait_for("epoch 0 train", text)


def _wait_for(said, text):
    deadline = time.monotonic() + 30
    while said not in text.getvalue():
        assert time.monotonic() < deadline, text.getvalue()
        time.sleep(0.01)
