"""Removes the episodes and checkpoints of old epochs (KEEP_EPOCHS).

An epoch is declared retired before anything of it is removed: an auditor knows what is gone on purpose, and a
removal that was cut off goes on the next time. Scores, reward models, summaries and commits stay, and so do
the inputs of its episodes, the cells that it saw first and the film of its best one.
"""

from __future__ import annotations

import contextlib
import json
from datetime import UTC, datetime
from itertools import takewhile

from questloop.episodes.segment import parse_record
from questloop.errors import BadDataError
from questloop.storage import keys
from questloop.storage.commit import committed_epochs, epochs_with, read_commit
from questloop.storage.keys import Stage
from questloop.storage.store import AlreadyExists, NotFound, Store
from questloop.telemetry.logs import get_logger

log = get_logger(__name__)


def retire_epochs(store: Store, keep: int) -> tuple[int, ...]:
    """Remove what the newest `keep` epochs with committed rollouts do not need; 0 keeps all.

    Returns the epochs retired now. An episode that a kept epoch touches keeps its record.
    """
    if keep == 0:
        return ()
    epochs = committed_epochs(store, Stage.ROLLOUTS)
    # The oldest go first, so those before one that is done are done too.
    old = list(takewhile(lambda epoch: not _is_done(store, epoch), reversed(epochs[:-keep])))[::-1]
    kept = set(epochs[-keep:])
    for epoch in old:
        _declare(store, epoch)
        _remove(store, epoch, kept)
        store.put(keys.retired(epoch), _document(epoch, done=True), durable=True)
        log.info("epoch retired", epoch=epoch, store=store.url)
    return tuple(old)


def retired_epochs(store: Store) -> frozenset[int]:
    """The epochs whose episodes and checkpoints are gone, or are being removed."""
    return frozenset(epochs_with(store, "retired.json"))


def _declare(store: Store, epoch: int) -> None:
    with contextlib.suppress(AlreadyExists):
        store.put_if_absent(keys.retired(epoch), _document(epoch, done=False))


def _remove(store: Store, epoch: int, kept: set[int]) -> None:
    commit = read_commit(store, epoch, Stage.ROLLOUTS)
    assert commit is not None
    for item in commit.objects:
        if item.key.endswith("/manifest.json"):
            # Without its manifest a segment is not complete: readers never see half of one.
            folder = item.key.removesuffix("/manifest.json")
            store.delete([item.key])
            store.delete(entry.key for entry in store.list(folder))
        elif item.key.endswith("/episode.json"):
            if not _is_needed(store, item.key, kept):
                store.delete([item.key])
        elif item.key not in (keys.replays(epoch), keys.cells(epoch), keys.cell_observations(epoch)):
            store.delete([item.key])
    store.delete(_films_but_the_best(store, epoch))
    store.delete(entry.key for entry in store.list(keys.judgements_prefix(epoch)))


def _films_but_the_best(store: Store, epoch: int) -> list[str]:
    best = keys.film(epoch, "best")
    first = best.removesuffix("best.mp4")
    films = [entry.key for entry in store.list(keys.films_prefix()) if entry.key.endswith(".mp4")]
    return [key for key in films if key.startswith(first) and key != best]


def _is_needed(store: Store, key: str, kept: set[int]) -> bool:
    try:
        return bool(kept & set(parse_record(store.get(key), key).epochs))
    except NotFound:
        return False
    except BadDataError:
        return True  # for `questloop verify` to report


def _is_done(store: Store, epoch: int) -> bool:
    try:
        return bool(json.loads(store.get(keys.retired(epoch)))["done"])
    except NotFound:
        return False
    except (ValueError, KeyError, TypeError, RecursionError):
        return False


def _document(epoch: int, done: bool) -> bytes:
    document = {"schema_version": 1, "epoch": epoch, "done": done, "updated": datetime.now(UTC).isoformat()}
    return json.dumps(document).encode() + b"\n"
