"""What a person sees."""

import io
import json
from contextlib import suppress

import pytest
from rich.console import Console
from structlog.contextvars import merge_contextvars
from structlog.testing import capture_logs

from questloop.pipeline.context import open_context
from questloop.pipeline.display import Display, print_table
from questloop.report.table import FIGURES, Row
from questloop.settings import load
from questloop.storage import keys
from questloop.storage.commit import commit_stage
from questloop.storage.keys import Stage
from questloop.telemetry.logs import get_logger


def test_what_a_stage_logs_says_which_run_epoch_and_stage(tmp_path):
    log = get_logger("test")
    with (
        capture_logs(processors=[merge_contextvars]) as lines,
        open_context(load(flags={"store_url": str(tmp_path)})) as context,
    ):
        with Display(context).stage(3, Stage.EVALUATE):
            log.warning("inside")
        log.warning("between")
    inside, between = (line for line in lines if line["event"] in ("inside", "between"))
    assert (inside["run"], inside["epoch"], inside["stage"]) == (context.run.run, 3, "evaluate")
    assert between["run"] == context.run.run
    assert "epoch" not in between


@pytest.mark.parametrize("terminal", [False, True])
def test_a_stage_is_named_once(tmp_path, monkeypatch, terminal):
    """By its bar where there is a terminal, by a line otherwise."""
    out = io.StringIO()
    monkeypatch.setattr("questloop.pipeline.display.Console", lambda **_: Console(
        file=out, force_terminal=terminal, color_system=None, width=100))  # fmt: skip
    with open_context(load(flags={"store_url": str(tmp_path)})) as context:
        display = Display(context)
        with display.stage(3, Stage.EVALUATE):
            pass
        with display.work("report", "parts"):
            pass
    lines = [line.split("\r")[-1] for line in out.getvalue().splitlines()]
    for title in ("epoch 3 judge", "report"):
        bare, bars = ([line for line in lines if title in line and ("starting" in line) == bar]
                      for bar in (False, True))  # fmt: skip
        assert (len(bare), bool(bars)) == ((0, True) if terminal else (1, False))


def test_a_stage_of_an_earlier_session_is_not_shown_as_starting(tmp_path, monkeypatch):
    for terminal in (False, True):
        out = io.StringIO()
        console = Console(file=out, force_terminal=terminal, color_system=None, width=100)
        monkeypatch.setattr("questloop.pipeline.display.Console", lambda console=console, **_: console)
        with open_context(load(flags={"store_url": str(tmp_path)})) as context:
            commit_stage(context.store, int(terminal), Stage.ROLLOUTS, context.fence, [])
            with Display(context).stage(int(terminal), Stage.ROLLOUTS):
                pass
        assert "train" not in out.getvalue()


def test_a_run_that_was_stopped_says_so_until_it_goes_on(tmp_path):
    with open_context(load(flags={"store_url": str(tmp_path)})) as context:
        display = Display(context)
        with suppress(KeyboardInterrupt), display.stage(3, Stage.EVALUATE) as bar:
            bar.counting(1, 4)
            raise KeyboardInterrupt
        said = json.loads(context.store.get(keys.progress()))
        assert (said["epoch"], said["stage"], said["step"]) == (3, "evaluate", 1)
        assert (said["stopped"], said["rate"], said["eta_s"]) == (True, None, None)
        with Display(context).stage(3, Stage.EVALUATE) as bar:
            bar.counting(4, 4)
        display = Display(context)
        display.finish()
        assert not json.loads(context.store.get(keys.progress()))["stopped"]


def row(epoch, **figures):
    return Row(
        **{
            "epoch": epoch,
            "steps": 1_000_000,
            "milestones_per_episode": 12.345,
            "milestone_shares": {},
            "milestones": 19,
            "unique_rooms": 26,
            "return_mean": 12345.67,
            "return_per_1000_steps": 12.34,
            "shaping_weight": 0.56,
            "shaping_reason": "",
            "judged_stages": 0,
            "judge_agreement": -0.123456,
            "judge_tau": None,
            "reward_model_accuracy": 0.987654,
            "gold_accuracy": 0.87654,
            "trust": 0.87654,
            "steps_per_second": 12_345.6,
        }
        | figures
    )


def printed(rows, width):
    text = io.StringIO()
    print_table(rows, Console(file=text, width=width))
    return text.getvalue().splitlines()


@pytest.mark.parametrize("width", [60, 80, 200])
@pytest.mark.parametrize("epochs", [0, 1, 2, 30, 200])
def test_the_closing_table_stands_upright_and_fits(width, epochs):
    lines = printed([row(epoch) for epoch in range(epochs)], width)
    assert all(len(line) <= width for line in lines)
    wide = max(len(figure.title) for figure in FIGURES.values())
    figures = {line[:wide].strip(): line[wide:].split() for line in lines[: len(FIGURES)]}
    assert list(figures) == [figure.title for figure in FIGURES.values()]
    shown = [int(epoch) for epoch in figures["epoch"]]
    assert shown == [0, *range(epochs - len(shown) + 1, epochs)] if epochs else shown == []
    assert len(shown) == epochs or len(lines[0]) > width - 11, "as many as fit"
    assert len(shown) >= min(epochs, 2)
    assert figures["steps"] == ["1,000,000"] * len(shown)
    assert figures["reward model orders milestones"] == ["87.7%"] * len(shown)
    assert figures["judges' foresight (tau)"] == ["–"] * len(shown)
    left_out = epochs - len(shown)
    assert any(f"{left_out} epoch" in line for line in lines) == (left_out > 0)
