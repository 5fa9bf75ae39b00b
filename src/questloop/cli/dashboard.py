"""The command `questloop dashboard`, which shows a run and the fleet in a browser."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from questloop.cli.loop_words import said_when_slow
from questloop.cli.options import ConfigOption, PortOption, StoreOption, StorePlace, loop_settings

if TYPE_CHECKING:
    from questloop.fleet.database import Database
    from questloop.settings import Settings


def dashboard(
    place: StorePlace = None,
    store: StoreOption = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: PortOption = 8500,
    names: Annotated[
        list[str] | None,
        typer.Option("--name", help="Host name that browsers use, such as a route's; may be repeated."),
    ] = None,
    fleet: Annotated[bool, typer.Option(help="Show the fleet of DATABASE_URL too.")] = True,
    config: ConfigOption = None,
) -> None:
    """Show a run live on a web page: progress, curves, map, segments and what judges said of them, the fleet.

    It only reads, and listens on this machine alone unless --host says otherwise: whoever reaches it sees
    everything. A store that is still empty is waited for. Of a folder that holds the stores of several runs
    it lists them, and compares their curves.

    Examples:

        questloop dashboard runs/demo

        questloop dashboard s3://questloop --host 0.0.0.0 --name quest.example.org
    """
    with said_when_slow("loading the dashboard"):
        from uvicorn import Config

        from questloop.serving.background import Server, listen
        from questloop.storage.store import open_existing_store
        from questloop.web.app import LOOPBACK
        from questloop.web.hub import build_dashboard

        settings = loop_settings(place, store, config)
        app = build_dashboard(
            open_existing_store(settings.store),
            settings,
            _fleet(settings) if fleet else None,
            (*LOOPBACK, *(names or ())),
        )
    listener = listen(port, host)
    typer.echo(f"dashboard at http://{host}:{listener.getsockname()[1]} , Ctrl-C to end", err=True)
    Server(app, Config(app, log_level="warning", access_log=False)).run(sockets=[listener])


def _fleet(settings: Settings) -> Database | None:
    """The fleet's database, where there is one: none is made here. None without the extra `fleet`."""
    try:
        from questloop.fleet.database import Database, is_absent
    except ModuleNotFoundError:
        return None

    url = settings.fleet.database_url.get_secret_value()
    return None if is_absent(url) else Database(url)
