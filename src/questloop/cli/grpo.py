"""The command `questloop grpo`: fine-tunes a language model by GRPO, or tries a reward before that."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer
from typer.core import TyperGroup

from questloop.cli.options import JsonOption

if TYPE_CHECKING:
    from questloop.grpo.try_reward import RewardTrial


class _TrainByDefault(TyperGroup):
    """`questloop grpo --model ...` trains: what is no subcommand goes to `train`."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        if args and args[0] not in self.commands and args[0] != "--help":
            args = ["train", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    name="grpo",
    cls=_TrainByDefault,
    no_args_is_help=True,
    help="""Fine-tune a language model by GRPO, the same as scripts/train_grpo.py.

    \b
    questloop grpo --model HuggingFaceTB/SmolLM2-135M-Instruct --dataset questions.jsonl \\
        --reward_function correctness,strict_format --preprocess deepseek \\
        --lora_r 16 --max_steps 200 --output_dir runs/grpo
    questloop grpo --config job.yaml --seed 1
    questloop grpo train --help          every option
    questloop grpo try-reward completions.jsonl --reward-function my_rewards:score
    """,
)


@app.command(
    "train",
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
)
def train(context: typer.Context) -> None:
    """Train; this is also what `questloop grpo` does with options alone.

    Example:

        questloop grpo train --config job.yaml --seed 1
    """
    from questloop.grpo.train import main

    raise typer.Exit(int(main(context.args)))


@app.command("try-reward")
def try_reward(
    file: Annotated[
        str, typer.Argument(help="Rows with `completion` and the columns that the rewards need.")
    ],
    reward_function: Annotated[
        list[str],
        typer.Option("--reward-function", "--reward_function", help="Built-in name or module:function."),
    ],
    reward_weight: Annotated[
        list[float] | None,
        typer.Option("--reward-weight", "--reward_weight", help="Weight of each, in the same order."),
    ] = None,
    timeout_s: Annotated[
        float,
        typer.Option(
            "--reward-timeout-s", "--reward_timeout_s", help="Seconds that a reward may take; 0: no limit."
        ),
    ] = 60.0,
    limit: Annotated[int | None, typer.Option(min=1, help="Rows to score; unset: all.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Score a file of completions and show what each reward gives.

    Examples:

        questloop grpo try-reward completions.jsonl --reward-function correctness
        questloop grpo try-reward completions.csv --reward-function my_rewards:score --json
    """
    from questloop.grpo.try_reward import try_rewards

    names = [name for item in reward_function for name in item.split(",") if name]
    trial = try_rewards(file, names, reward_weight, timeout_s, limit)
    if as_json:
        print(json.dumps(trial.to_json()))
        return
    _show(trial)


def _show(trial: RewardTrial) -> None:
    from rich.console import Console
    from rich.table import Table

    from questloop.grpo.text import text_of

    console = Console()
    rows = Table("row", "completion", *trial.values, "total", title="Rewards by row")
    for index, row in enumerate(trial.rows):
        text = text_of(row["completion"]).replace("\n", "\\n")
        scores = [_number(values[index]) for values in trial.values.values()]
        rows.add_row(str(index), text[:48], *scores, _number(trial.totals[index]))
    console.print(rows)
    summary = Table("reward", "weight", "mean", "low", "high", "abstained", "seconds", title="Rewards in all")
    for item in trial.summaries:
        numbers = [_number(value) for value in (item.weight, item.mean, item.low, item.high)]
        summary.add_row(item.name, *numbers, str(item.abstained), f"{item.seconds:.3f}")
    console.print(summary)
    if not trial.distinguishes:
        console.print("Every completion gets the same total: GRPO would learn nothing from this reward.")


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"
