"""What a person sees."""

import io

from rich.console import Console
from structlog.contextvars import merge_contextvars
from structlog.testing import capture_logs

from questloop.pipeline.context import open_context
from questloop.pipeline.display import Display, print_table
from questloop.report.table import COLUMNS, Row
from questloop.settings import load
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


def test_the_closing_table_fits_a_terminal_of_80_columns():
    row = Row(
        epoch=120,
        steps=1_000_000,
        return_mean=123.45,
        return_per_1000_steps=12.34,
        unique_rooms=26,
        milestones=19,
        shaping_weight=0.56,
        judge_agreement=-0.123456,
        judge_tau=-0.123456,
        reward_model_accuracy=0.987654,
        gold_accuracy=0.87654,
        trust=0.87654,
        steps_per_second=12_345.6,
    )
    text = io.StringIO()
    print_table([row], Console(file=text, width=80))
    header, line, *_ = text.getvalue().splitlines()
    assert header.split() == list(COLUMNS.values())
    assert line.split()[1] == "1,000,000"
    assert "…" not in text.getvalue()
