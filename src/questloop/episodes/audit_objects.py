"""Checks one committed object: its bytes, what they say, and the files that it lists in turn."""

from __future__ import annotations

from dataclasses import dataclass, field

from questloop.episodes.findings import AuditFinding, Kind
from questloop.episodes.reader import check_file, check_observations, check_states
from questloop.episodes.segment import (
    OBSERVATIONS,
    STATES,
    EpisodeRecord,
    Manifest,
    parse_manifest,
    parse_record,
)
from questloop.errors import BadDataError
from questloop.storage import keys
from questloop.storage.commit import Commit, CommittedObject
from questloop.storage.store import NotFound, Store, sha256_hex


@dataclass
class Checked:
    """What a committed object turned out to be; `accounted` are the keys that it answers for."""

    accounted: set[str]
    epoch: int
    findings: list[AuditFinding] = field(default_factory=list)
    manifest: Manifest | None = None
    record: EpisodeRecord | None = None

    def found(self, kind: Kind, key: str, detail: str) -> None:
        self.findings.append(AuditFinding(kind, key, detail, self.epoch))


def check_object(store: Store, commit: Commit, item: CommittedObject, retired: bool) -> Checked:
    """Read an object that `commit` lists, and all that belongs to it; `retired`: it may be gone."""
    checked = Checked({item.key}, commit.epoch)
    try:
        data = store.get(item.key)
    except NotFound:
        if not retired:
            checked.found(Kind.MISSING, item.key, f"listed by {_name(commit)}")
        return checked
    intact = len(data) == item.size and sha256_hex(data) == item.sha256
    if item.key.endswith("/episode.json"):
        _check_record(checked, commit, item.key, data, intact)
    elif not intact:
        checked.found(Kind.BAD_HASH, item.key, f"not what {_name(commit)} lists")
    elif item.key.endswith("/manifest.json"):
        _check_manifest(store, checked, commit, item.key, data)
    return checked


def _check_record(checked: Checked, commit: Commit, key: str, data: bytes, intact: bool) -> None:
    try:
        record = parse_record(data, key)
    except BadDataError as error:
        checked.found(Kind.BAD_DOCUMENT, key, str(error))
        return
    # An epoch that is not committed yet may have written it again.
    if not intact and record.epochs[-1] <= commit.epoch:
        checked.found(Kind.BAD_HASH, key, f"not what {_name(commit)} lists")
    elif key != keys.episode_record(record.id):
        checked.found(Kind.BAD_DOCUMENT, key, f"it describes episode {record.id}")
    else:
        checked.record = record


def _check_manifest(store: Store, checked: Checked, commit: Commit, key: str, data: bytes) -> None:
    try:
        manifest = parse_manifest(data, key)
    except BadDataError as error:
        checked.found(Kind.BAD_DOCUMENT, key, str(error))
        return
    if key != keys.manifest(manifest.segment_id):
        checked.found(Kind.BAD_DOCUMENT, key, f"it describes segment {manifest.segment_id}")
        return
    if (manifest.epoch, manifest.fence) != (commit.epoch, commit.fence):
        says = f"epoch {manifest.epoch}, fence {manifest.fence}"
        checked.found(Kind.BAD_DOCUMENT, key, f"{says}; its commit says {commit.epoch}, {commit.fence}")
    checked.manifest = manifest
    for file in manifest.files:
        file_key = keys.segment_file(manifest.segment_id, file.name)
        checked.accounted.add(file_key)
        try:
            content = store.get(file_key)
            check_file(file, content, file_key)
        except NotFound:
            checked.found(Kind.MISSING, file_key, "its manifest lists it")
        except BadDataError as error:
            checked.found(Kind.BAD_HASH, file_key, str(error))
        else:
            _check_content(checked, manifest, file.name, content)


def _check_content(checked: Checked, manifest: Manifest, name: str, content: bytes) -> None:
    try:
        if name == STATES:
            check_states(manifest, content)
        elif name == OBSERVATIONS:
            check_observations(manifest, content)
    except BadDataError as error:
        checked.found(Kind.BAD_DOCUMENT, keys.segment_file(manifest.segment_id, name), str(error))


def _name(commit: Commit) -> str:
    return f"the commit of epoch {commit.epoch} {commit.stage}"
