"""Checks the documents that no commit lists (judge passes, judgements, leases), and removes damaged ones.

Each is checked against its own digest. A run does without one that was cut off or changed: it asks again, or
takes it as if it were not there. So none of them harms an epoch, and `mend` takes it away.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

from pydantic import BaseModel

from questloop.episodes.findings import Audit, AuditFinding, Kind
from questloop.errors import reason_of
from questloop.judges.journal import PassRecord
from questloop.judges.scores import JudgeScores
from questloop.storage import keys
from questloop.storage.lease import LEASE_S, Beat, Holder
from questloop.storage.sealed import seal, unseal
from questloop.storage.store import NotFound, Store

THREADS = 8
_WHAT: dict[type[BaseModel], str] = {
    PassRecord: "judge pass",
    JudgeScores: "judgement",
    Holder: "lease",
    Beat: "heartbeat",
}


def check_notes(store: Store, audit: Audit) -> None:
    """Add to `audit` each of these documents that is not what was written."""

    def check(note: tuple[str, type[BaseModel]]) -> AuditFinding | None:
        key, model = note
        try:
            unseal(store.get(key), model)
        except NotFound:  # removed meanwhile
            return None
        except ValueError as error:
            return AuditFinding(Kind.SPOILT, key, f"not a {_WHAT[model]}: {reason_of(error)}")
        return None

    with ThreadPoolExecutor(THREADS) as pool:
        audit.findings += [finding for finding in pool.map(check, _notes(store)) if finding is not None]


def mend(store: Store, audit: Audit) -> int:
    """Remove what `check_notes` found; returns how many. Only the store's writer may call this."""
    fences = {key: fence for key in audit.spoilt if (fence := _fence(key)) is not None}
    for key, fence in fences.items():
        # A fence must not come free again: a writer that sleeps could take it.
        store.put(key, seal(_unknown(fence)))
    store.delete(key for key in audit.spoilt if key not in fences)
    return len(audit.spoilt)


def _notes(store: Store) -> Iterator[tuple[str, type[BaseModel]]]:
    for key in _keys(store, f"{keys.EPISODES}/scores", keys.cell_judgements()):
        folder, _, name = key.removeprefix(f"{keys.EPISODES}/scores/").partition("/")
        if f"/{keys.JUDGEMENTS}/" in key:
            yield key, JudgeScores
        elif keys.parse_epoch(folder) is not None and name == "pass.json":
            yield key, PassRecord
    for key in _keys(store, keys.lease_prefix()):
        if _fence(key) is not None:
            yield key, Holder
        elif key.endswith("-beat.json"):
            yield key, Beat


def _keys(store: Store, *prefixes: str) -> Iterable[str]:
    return (entry.key for prefix in prefixes for entry in store.list(prefix))


def _fence(key: str) -> int | None:
    """The fence of a lease document's key; None for another key."""
    folder, _, name = key.rpartition("/")
    return keys.parse_lease(name) if folder == keys.lease_prefix() else None


def _unknown(fence: int) -> Holder:
    """In place of a lease that cannot be read: that of nobody who could come back."""
    return Holder(
        run="unknown", fence=fence, token="", lease_s=LEASE_S, host="unknown", process="", pid=0,
        acquired=datetime.now(UTC),
    )  # fmt: skip
