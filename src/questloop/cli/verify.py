"""The command `questloop verify`, which audits a store."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from questloop.cli.called import program
from questloop.cli.loop_words import said_when_slow
from questloop.cli.options import ConfigOption, JsonOption, StoreOption, StorePlace, store_of

if TYPE_CHECKING:
    from questloop.episodes.findings import Audit
    from questloop.storage.lease import Lease
    from questloop.storage.store import Store

_SHOWN = 20


def verify(
    place: StorePlace = None,
    store: StoreOption = None,
    repair: Annotated[
        bool, typer.Option("--repair", help="Delete what no commit lists, and what was spoilt of that.")
    ] = False,
    rewind: Annotated[
        int | None,
        typer.Option(min=0, help="Withdraw the results of this epoch and later ones, to be played again."),
    ] = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check that every segment, score and model of a store is there once, whole and unchanged.

    Reads and hashes everything that a commit lists, and follows the lineage from segments to scores, reward
    models and the epochs that these shaped. Orphans are what a stage that was killed left behind: they do no
    harm, and --repair deletes them. So it does with a cached judgement, a judge pass, a lease or a heartbeat
    that was cut off or changed (spoilt): no result hangs on them. What else is damaged cannot be repaired,
    but played again: --rewind withdraws an epoch's results and all later ones. Neither works while a pipeline
    is writing the store. Exit code 65 where something is missing, changed or twice.

    Examples:

        questloop verify

        questloop verify runs/demo --json

        questloop verify s3://questloop --repair

        questloop verify runs/store --rewind 7 --repair
    """
    with said_when_slow("checking every file of the store"):
        from questloop import settings
        from questloop.exit_codes import ExitCode
        from questloop.storage.store import open_existing_store

        changes = repair or rewind is not None
        settled = settings.load(config, {"store_url": store_of(place, store)}).store
        where = open_existing_store(settled, write=changes)
        withdrawn, removed = [], None
        if rewind is None and not repair:
            found = _audit(where)
        else:
            with only_writer(where) as lease:
                if rewind is not None:
                    withdrawn = _rewind(where, rewind, lease)
                found = _audit(where)
                if repair:
                    removed = _repair(where, found)
    if as_json:
        done = {"withdrawn": withdrawn} if rewind is not None else {}
        print(json.dumps(found.to_json() | done | ({} if removed is None else {"removed": removed})))
    else:
        for key in withdrawn:
            print(f"withdrawn: {key}")
        _print(found, where, removed)
    if not found.ok:
        raise typer.Exit(ExitCode.BAD_DATA)


def _audit(store: Store) -> Audit:
    from questloop.pipeline.audit import audit_run
    from questloop.telemetry.progress import progress_bar

    with progress_bar("verify", "objects") as tell:
        return audit_run(store, tell)


@contextmanager
def only_writer(store: Store) -> Iterator[Lease | None]:
    """Hold the store's lease, so that no pipeline writes meanwhile; None: there never was a pipeline."""
    from questloop.episodes.run import read_run
    from questloop.storage import keys
    from questloop.storage.lease import Lease, holder_of

    holder = holder_of(store)
    if holder is not None:
        run = holder.run
    elif next(store.list(keys.lease_prefix()), None):  # its lease cannot be read
        run = read_run(store).run
    else:
        yield None
        return
    with Lease.acquire(store, run) as lease:
        yield lease


def _rewind(store: Store, epoch: int, lease: Lease | None) -> list[str]:
    from questloop.errors import BadDataError
    from questloop.pipeline.audit import rewind

    if lease is None:
        raise BadDataError(f"store {store.url} holds no run that could be rewound")
    return rewind(store, epoch, lease)


def _repair(store: Store, found: Audit) -> int:
    """Remove what no result hangs on; returns how many objects. The store's writer calls this."""
    from questloop.episodes.audit import remove_orphans
    from questloop.pipeline.notes import mend

    removed = remove_orphans(store, found) + mend(store, found) + store.remove_unfinished()
    found.repaired = True
    return removed


def _print(found: Audit, store: Store, removed: int | None) -> None:
    from questloop.episodes.plain import counted
    from questloop.storage.lease import has_writer

    result, again = found.to_json(), f"{program()} verify {shlex.quote(store.url)}"
    models = f"{found.models} reward models and checkpoints"
    print(f"{store.url}: {found.segments} segments, {found.scores} scores, {models}")
    gone = {*found.orphans, *(() if removed is None else found.spoilt)}
    shown = [finding for finding in found.findings if finding.key not in gone]
    for finding in shown[:_SHOWN]:
        print(f"  {finding.kind}: {finding.key}: {finding.detail}")
    if len(shown) > _SHOWN:
        print(f"  ... and {len(shown) - _SHOWN} more; --json lists them all")
    if removed is not None:
        print(f"removed {removed} objects")
    elif result["orphans"]:
        files = counted(result["orphans"], "file")
        why = "left by stages that were stopped, which nothing uses: --json lists, --repair deletes them"
        if has_writer(store):
            why = "that no finished stage lists: a pipeline is writing the store; ask when it is done"
        print(f"{files} {why}")
    if found.ok:
        print("ok")
    elif found.whole:
        print(f"NOT ok: no result hangs on what was spoilt; take it away by {again} --repair")
    elif (epoch := found.first_harmed) is not None:
        print(
            f"NOT ok: restore what is missing from a copy, or play again from epoch {epoch} on: "
            f"{again} --rewind {epoch} --repair, then the same pipeline"
        )
    else:
        print("NOT ok: restore what is missing from a copy, or begin again in another STORE_URL")
