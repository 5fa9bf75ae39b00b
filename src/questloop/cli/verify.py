"""`questloop verify`: audits a store."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from questloop.episodes.findings import Audit
    from questloop.storage.store import Store

_SHOWN = 20


def verify(
    store_url: Annotated[str | None, typer.Argument(help="store; unset: STORE_URL", metavar="STORE")] = None,
    repair: Annotated[
        bool, typer.Option("--repair", help="delete what no commit lists; nothing else is touched")
    ] = False,
    config: Annotated[Path | None, typer.Option(help="TOML file of settings")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print the result as JSON")] = False,
) -> None:
    """Check that every segment, score and model of a store is there once, whole and unchanged.

    Reads and hashes everything that a commit lists. Orphans are what a stage that was killed left behind:
    they do no harm, and --repair deletes them, unless a pipeline is writing the store. Exit code 65 where
    something is missing, changed or twice.

    Examples:

        questloop verify

        questloop verify runs/demo --json

        questloop verify s3://questloop --repair
    """
    from questloop import settings
    from questloop.exit_codes import ExitCode
    from questloop.storage.store import open_existing_store

    store = open_existing_store(settings.load(config, {"store_url": store_url}).store)
    found, removed = _audit_and_repair(store) if repair else (_audit(store), None)
    if as_json:
        print(json.dumps(found.to_json() | ({} if removed is None else {"removed": removed})))
    else:
        _print(found, store.url, removed)
    if not found.ok:
        raise typer.Exit(ExitCode.BAD_DATA)


def _audit(store: Store) -> Audit:
    from questloop.episodes.audit import audit
    from questloop.telemetry.progress import progress_bar

    with progress_bar("verify", "objects") as tell:
        return audit(store, tell)


def _audit_and_repair(store: Store) -> tuple[Audit, int]:
    """Audit, then delete orphans; as the store's writer, so that no pipeline writes meanwhile."""
    from questloop.episodes.audit import remove_orphans
    from questloop.storage.lease import Lease, holder_of

    holder = holder_of(store)
    with Lease.acquire(store, holder.run) if holder else nullcontext():
        found = _audit(store)
        return found, remove_orphans(store, found) + store.remove_unfinished()


def _print(found: Audit, url: str, removed: int | None) -> None:
    result = found.to_json()
    print(f"{url}: {found.segments} segments, {found.scores} scores, {found.models} models")
    shown = [finding for finding in found.findings if removed is None or finding.key not in found.orphans]
    for finding in shown[:_SHOWN]:
        print(f"  {finding.kind}: {finding.key}: {finding.detail}")
    if len(shown) > _SHOWN:
        print(f"  ... and {len(shown) - _SHOWN} more; --json lists them all")
    if removed is not None:
        print(f"removed {removed} objects")
    elif result["orphans"]:
        print(f"{result['orphans']} orphans of stages that were stopped; --repair deletes them")
    print(
        "ok"
        if found.ok
        else "NOT ok: restore what is missing from a copy, or begin again in another STORE_URL"
    )
