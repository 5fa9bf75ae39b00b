"""Commits: the result of a stage counts once its commit exists.

`epoch_N/commit-{stage}.json` is made once and lists the objects that belong to the result, with size and
SHA-256. An object that no commit lists is an orphan. A commit of a segment's manifest covers the segment's
other files, which the manifest lists in turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from questloop.errors import BadDataError, reason_of
from questloop.storage import keys
from questloop.storage.keys import Stage
from questloop.storage.lease import LeaseLost, is_superseded
from questloop.storage.schema import NEWEST, SchemaVersion
from questloop.storage.sealed import seal, unseal
from questloop.storage.store import AlreadyExists, NotFound, Store, StoredObject, sha256_hex


class CommittedObject(BaseModel):
    """An object of the result."""

    model_config = ConfigDict(frozen=True)

    key: str
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    size: int = Field(ge=0)


class Commit(BaseModel):
    """`commit-{stage}.json`."""

    model_config = ConfigDict(frozen=True)

    schema_version: SchemaVersion = NEWEST
    epoch: int
    stage: Stage
    fence: int
    created: datetime
    objects: tuple[CommittedObject, ...]
    info: dict[str, JsonValue] = Field(
        default_factory=dict, description="what the stage reports, such as steps"
    )

    @property
    def listed(self) -> set[str]:
        """The keys of its objects."""
        return {item.key for item in self.objects}


def commit_stage(
    store: Store,
    epoch: int,
    stage: Stage,
    fence: int,
    objects: Iterable[StoredObject],
    info: Mapping[str, Any] | None = None,
) -> Commit:
    """Declare the stage's result; returns the commit in force.

    `info` holds no NaN. Raises `LeaseLost` where a newer writer has the store, and `AlreadyExists` where
    another writer committed this stage before. Committing the same result again changes nothing.
    """
    commit = Commit(
        epoch=epoch,
        stage=stage,
        fence=fence,
        created=datetime.now(UTC),
        objects=tuple(
            CommittedObject(key=item.key, sha256=item.sha256, size=item.size)
            for item in sorted(objects, key=lambda item: item.key)
        ),
        info=dict(info or {}),
    )
    if is_superseded(store, fence):
        raise LeaseLost(f"commit of epoch {epoch} {stage}: fence {fence} was taken over by a newer writer")
    try:
        store.put_if_absent(keys.commit(epoch, stage), seal(commit, indent=1))
    except AlreadyExists:
        standing = read_commit(store, epoch, stage)
        # After a lost reply the retry meets its own commit.
        if standing is None or (standing.fence, standing.objects) != (fence, commit.objects):
            raise
        return standing
    return commit


def read_commit(store: Store, epoch: int, stage: Stage) -> Commit | None:
    """The stage's commit, None where the stage has none; `BadDataError` for one that cannot be read."""
    key = keys.commit(epoch, stage)
    try:
        data = store.get(key)
    except NotFound:
        return None
    try:
        return unseal(data, Commit)
    except ValueError as error:
        raise BadDataError(f"{key}: not a commit: {reason_of(error)}; {remedy(epoch)}") from None


def read_committed(store: Store, commit: Commit, key: str) -> bytes:
    """An object as `commit` lists it; `BadDataError` where it is missing, cut off, changed or not listed."""
    listed = next((item for item in commit.objects if item.key == key), None)
    if listed is None:
        where = keys.commit(commit.epoch, commit.stage)
        raise BadDataError(f"{where}: lists no {key}; {remedy(commit.epoch)}")
    try:
        data = store.get(key)
    except NotFound:
        raise NotFound(f"store {store.url}: {key} is missing; {remedy(commit.epoch)}") from None
    if len(data) != listed.size or sha256_hex(data) != listed.sha256:
        raise BadDataError(f"{key}: cut off or changed since it was committed; {remedy(commit.epoch)}")
    return data


def read_result(store: Store, epoch: int, stage: Stage, key: str) -> bytes:
    """An object as the stage's commit lists it, or as it stands where the stage is not committed."""
    commit = read_commit(store, epoch, stage)
    return store.get(key) if commit is None else read_committed(store, commit, key)


def holds(store: Store, epoch: int, stage: Stage, key: str) -> bool:
    """Whether the stage of an epoch is committed, and with this object."""
    commit = read_commit(store, epoch, stage)
    return commit is not None and key in commit.listed


def remedy(epoch: int) -> str:
    """What to do where a committed object of `epoch` is not what it was."""
    return f"restore it from a copy, or play again from there: `questloop verify --rewind {epoch} --repair`"


def committed_epochs(store: Store, stage: Stage) -> tuple[int, ...]:
    """The epochs whose `stage` is committed, rising."""
    return epochs_with(store, commit_name(stage))


def commit_name(stage: Stage) -> str:
    """The file of a stage's commit in its epoch's folder."""
    return f"commit-{Stage(stage)}.json"


def epochs_with(store: Store, name: str) -> tuple[int, ...]:
    """The epochs that have a document of that name in the pipeline's folder, rising; one listing for all."""
    return epochs_by_document(store).get(name, ())


def epochs_by_document(store: Store) -> dict[str, tuple[int, ...]]:
    """The epochs, rising, that have each of the documents in the pipeline's folder, by their names."""
    found: dict[str, list[int]] = {}
    for entry in store.list(f"{keys.MODELS}/pipeline"):
        folder, _, name = entry.key.split("/", 2)[2].partition("/")
        epoch = keys.parse_epoch(folder)
        if epoch is not None:
            found.setdefault(name, []).append(epoch)
    return {name: tuple(sorted(epochs)) for name, epochs in found.items()}


def to_json(document: BaseModel) -> bytes:
    """Indented JSON with a final newline; `ValueError` for a NaN or an infinity."""
    import json

    text = json.dumps(document.model_dump(mode="json"), indent=1, allow_nan=False)
    return text.encode() + b"\n"
