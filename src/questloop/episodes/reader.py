"""Reads segments and episodes of committed epochs, and checks everything it reads."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from questloop.episodes.files import decode_observations, decode_states
from questloop.episodes.segment import (
    OBSERVATIONS,
    STATES,
    EpisodeRecord,
    Manifest,
    ManifestFile,
    parse_manifest,
    parse_record,
)
from questloop.episodes.trace import Floats
from questloop.errors import BadDataError
from questloop.storage import keys
from questloop.storage.commit import read_commit, remedy
from questloop.storage.keys import Stage
from questloop.storage.store import NotFound, Store, sha256_hex


class SegmentReader:
    """Segments of a store; `BadDataError` names the key of an object that is missing, cut off or changed."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._listed: dict[int, dict[str, str]] = {}

    def list(self, epoch: int) -> tuple[str, ...]:
        """The ids of an epoch's segments; `NotFound` where its rollouts are not committed.

        None are left of an epoch that was retired (KEEP_EPOCHS).
        """
        if self._store.exists(keys.retired(epoch)):
            return ()
        return tuple(sorted(key.split("/")[2] for key in self._committed(epoch, "/manifest.json")))

    def episodes(self, epoch: int) -> tuple[EpisodeRecord, ...]:
        """The records of the episodes that the epoch touched, as they stand now; none of a retired epoch."""
        committed = sorted(self._committed(epoch, "/episode.json"))
        if self._store.exists(keys.retired(epoch)):
            return ()
        return tuple(self._record(key) for key in committed)

    def _record(self, key: str) -> EpisodeRecord:
        """A record as the newest epoch that it names has committed it, where that is committed already."""
        data = self._store.get(key)
        record = parse_record(data, key)
        self._check(record.epochs[-1], key, data)
        return record

    def manifest(self, segment_id: str) -> Manifest:
        """A segment's manifest alone; `NotFound` for a segment that is not complete."""
        key = keys.manifest(segment_id)
        data = self._store.get(key)
        manifest = parse_manifest(data, key)
        if manifest.segment_id != segment_id:
            raise BadDataError(f"{key}: it describes segment {manifest.segment_id}")
        self._check(manifest.epoch, key, data)
        return manifest

    def _check(self, epoch: int, key: str, data: bytes) -> None:
        """Raise `BadDataError` where an object is not what its epoch's commit, if there is one, lists."""
        digest = sha256_hex(data)
        for again in (False, True):  # since a commit was read its epoch may have been played again
            if again or epoch not in self._listed:
                commit = read_commit(self._store, epoch, Stage.ROLLOUTS)
                objects = () if commit is None else commit.objects
                self._listed[epoch] = {item.key: item.sha256 for item in objects}
            listed = self._listed[epoch]
            if not listed or listed.get(key) == digest:
                return
        raise BadDataError(f"{key}: changed since it was committed; {remedy(epoch)}")

    def load(self, segment_id: str) -> SegmentView:
        """A segment; its files are read and checked when they are asked for."""
        return SegmentView(self._store, self.manifest(segment_id))

    def _committed(self, epoch: int, ending: str) -> set[str]:
        commit = read_commit(self._store, epoch, Stage.ROLLOUTS)
        if commit is None:
            raise NotFound(
                f"store {self._store.url}: epoch {epoch} has no committed rollouts; "
                f"play it with `questloop rollouts --epoch {epoch}`"
            )
        return {key for key in commit.listed if key.endswith(ending)}


class SegmentView:
    """A segment in the store."""

    def __init__(self, store: Store, manifest: Manifest) -> None:
        self._store = store
        self.manifest = manifest
        self._files = {file.name: file for file in manifest.files}

    @property
    def segment_id(self) -> str:
        """The segment's id."""
        return self.manifest.segment_id

    @property
    def episode_id(self) -> str:
        """The id of its episode."""
        return self.manifest.episode_id

    @cached_property
    def states(self) -> list[dict[str, Any]]:
        """The lines of `states.jsonl`, one per recorded frame."""
        return check_states(self.manifest, self._read(STATES))

    @cached_property
    def observations(self) -> Floats:
        """f32[L, D], what the policy saw after each step."""
        return check_observations(self.manifest, self._read(OBSERVATIONS))

    def png(self, step: int) -> bytes | None:
        """The stored picture of a step; None where there is none."""
        name = keys.frame_name(step)
        return self._read(name) if name in self._files else None

    def check(self) -> None:
        """Read and check every file."""
        self.states  # noqa: B018
        self.observations  # noqa: B018
        for name in self._files:
            self._read(name)

    def _read(self, name: str) -> bytes:
        key = keys.segment_file(self.segment_id, name)
        if name not in self._files:
            raise BadDataError(f"{keys.manifest(self.segment_id)}: lists no {name}")
        data = self._store.get(key)
        check_file(self._files[name], data, key)
        return data


def check_file(file: ManifestFile, data: bytes, key: str) -> None:
    """Raise `BadDataError` where `data` is not what the manifest lists."""
    if len(data) != file.size:
        raise BadDataError(
            f"{key}: {len(data)} bytes, the manifest says {file.size}; it is cut off or changed"
        )
    if sha256_hex(data) != file.sha256:
        raise BadDataError(f"{key}: its SHA-256 is not the manifest's; it was changed")


def check_states(manifest: Manifest, data: bytes) -> list[dict[str, Any]]:
    """The lines of `states.jsonl`; `BadDataError` where they or their pictures are not the manifest's."""
    key = keys.segment_file(manifest.segment_id, STATES)
    states = decode_states(data, key)
    steps = [state["step"] for state in states]
    if steps != list(range(manifest.first_step, manifest.first_step + manifest.frames)):
        raise BadDataError(
            f"{key}: {len(steps)} lines, steps {steps[:1]} to {steps[-1:]}; "
            f"the manifest says {manifest.frames} frames from {manifest.first_step}"
        )
    named = {state["png"] for state in states if state.get("png")}
    stored = {file.name for file in manifest.files if file.name.startswith("frames/")}
    if named != stored or len(stored) != manifest.pngs:
        odd = ", ".join(sorted(named ^ stored)[:3]) or f"{len(stored)}, not {manifest.pngs}"
        raise BadDataError(f"{key}: pictures do not match the manifest: {odd}")
    return states


def check_observations(manifest: Manifest, data: bytes) -> Floats:
    """f32[L, D] of `observations.npz`; `BadDataError` where its shape is not the manifest's."""
    key = keys.segment_file(manifest.segment_id, OBSERVATIONS)
    obs = decode_observations(data, key)
    if obs.shape != (expected := (manifest.frames, manifest.observation_size)):
        raise BadDataError(f"{key}: obs is {list(obs.shape)}, the manifest says {list(expected)}")
    return obs
