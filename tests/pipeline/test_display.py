"""What a person sees."""

import io

from rich.console import Console

from questloop.pipeline.display import print_table
from questloop.pipeline.table import COLUMNS, Row


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
        steps_per_second=12_345.6,
    )
    text = io.StringIO()
    print_table([row], Console(file=text, width=80))
    header, line, *_ = text.getvalue().splitlines()
    assert header.split() == list(COLUMNS.values())
    assert line.split()[1] == "1,000,000"
    assert "…" not in text.getvalue()
