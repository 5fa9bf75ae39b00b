"""The `questloop` command: every subcommand is registered here."""

from __future__ import annotations

import io
import os
import sys
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from questloop.cli import (
    advice,
    bench,
    bursts,
    dashboard,
    doctor,
    epoch,
    evaluate,
    evaluate_policy,
    fleet,
    grpo,
    judge,
    loop,
    play,
    profile,
    states,
    stopping,
    verify,
    video,
)
from questloop.cli.help_text import let_help_flow
from questloop.cli.narrowing import narrowed
from questloop.errors import QuestloopError
from questloop.local_files import of_the_disk


class _Stoppable(TyperGroup):
    """Says that Ctrl-C was taken; Typer ends without a word."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise typer.Exit(stopping.say()) from None


app = typer.Typer(
    name="questloop",
    cls=_Stoppable,
    help="Game-playing agents that learn from AI judges, and judges that learn from outcomes.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _show_version(asked: bool) -> None:
    if asked:
        from questloop import __version__

        print(__version__)
        raise typer.Exit


@app.callback()
def root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_show_version, help="Print the version.")
    ] = False,
) -> None:
    """Game-playing agents that learn from AI judges, and judges that learn from outcomes."""
    from questloop.telemetry import logs

    if context.invoked_subcommand not in stopping.LOOPS:
        stopping.begun()
    advice.forget()
    logs.configure()


@app.command("version")
def print_version() -> None:
    """Print the version, as `questloop --version` does.

    Example:

        questloop version
    """
    _show_version(True)


app.command()(loop.demo)
app.command()(loop.pipeline)
app.command()(loop.rollouts)
app.command()(evaluate.evaluate)
app.command()(evaluate_policy.evaluate_policy)
app.command()(loop.reward_model)
app.command()(epoch.epoch)
app.command()(bursts.bursts)
app.command()(loop.report)
app.command()(bench.bench)
app.command()(doctor.doctor)
app.command()(play.play)
app.command()(video.video)
app.command()(verify.verify)
app.command()(dashboard.dashboard)
app.add_typer(profile.app, name="profile")
app.add_typer(grpo.app)
app.add_typer(judge.app, name="judge")
app.add_typer(states.app, name="states")
app.add_typer(fleet.app, name="fleet")
let_help_flow(app)


def main() -> None:
    """Run a command; an error meant for the user is one line and a non-zero exit code."""
    for stream in (sys.stdout, sys.stderr):  # what the terminal's encoding has not is no reason to end
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        try:
            with stopping.guarded():
                narrowed(app, sys.argv[1:])()
        finally:
            sys.stdout.flush()  # what it goes to may be full
    except QuestloopError as error:
        _end(error)
    except OSError as error:
        if (ours := of_the_disk(error)) is None:
            raise
        _end(ours)


def _end(error: QuestloopError) -> NoReturn:
    """Say what went wrong, and drop output that cannot be written: Python would try again at its end."""
    print(f"{error.prefix}{advice.complete(str(error), app)}", file=sys.stderr)
    try:
        sys.stdout.flush()
    except OSError:
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
    sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
