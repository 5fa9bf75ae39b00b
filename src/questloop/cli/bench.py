"""The command `questloop bench`, which measures throughput."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from questloop.cli.options import JsonOption
from questloop.local_files import write_file

if TYPE_CHECKING:
    from questloop.bench.figures import BenchReport


def bench(
    full: Annotated[
        bool, typer.Option("--full", help="More rounds, and memory over 30 million frames.")
    ] = False,
    profile: Annotated[bool, typer.Option("--profile", help="Show where the time goes.")] = False,
    as_json: JsonOption = False,
    output: Annotated[Path | None, typer.Option(help="Also write the JSON there.")] = None,
) -> None:
    """Measure throughput beside the emulator's limit, stock RLlib and Stable-Baselines3.

    Example:

        questloop bench --json --output build/bench.json
    """
    from questloop.bench.profiling import profile_training
    from questloop.bench.suite import run_bench

    report = run_bench(full, say=lambda text: typer.echo(f"  {text}", err=True))
    document = json.dumps(report.to_json(), allow_nan=False, indent=1)
    if output is not None:
        write_file(output, document + "\n")
    if as_json:
        typer.echo(document)
    else:
        _print_table(report)
    if profile:
        typer.echo(profile_training(), err=as_json)


def _print_table(report: BenchReport) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    machine, steady = report.machine, report.figures["steady"]
    console.print(f"{machine['cpu']}, {machine['cores']} cores, load {machine['load']}")
    console.print(", ".join(f"{name} {found}" for name, found in machine["versions"].items()))
    if machine["busy"]:
        console.print("[bold red]The machine is busy: ratios are rough, rates are too low.[/]")
    if not report.steady:
        console.print(
            f"[bold red]The machine did not hold still, so no figure is called met:[/] {steady.note}"
        )
    table = Table("figure", "median", "range", "target", "")
    for name, figure in report.figures.items():
        table.add_row(
            name,
            _number(figure.value),
            f"{_number(figure.low)} - {_number(figure.high)}",
            _number(figure.target),
            {True: "met", False: "[bold]short[/]", None: ""}[report.met(name)] or figure.note,
        )
    console.print(table)


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
