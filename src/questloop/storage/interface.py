"""The interface of an object store, which a folder and an S3 endpoint implement.

Keys are slash-separated names, the same in both. A put is atomic: a reader sees the old object, the new one
or none, never a part of one.
"""

from __future__ import annotations

import hashlib
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from questloop.errors import BadDataError, QuestloopError, UnavailableError, UsageError


class AlreadyExists(QuestloopError):
    """A create-only put met an object of that key."""


class StoreGone(UnavailableError):
    """A folder was removed, replaced, unmounted or made read-only since it was opened: waiting mends none."""


class NotFound(BadDataError):
    """The store has no object of that key."""


@dataclass(frozen=True)
class StoredObject:
    """What a put left in the store; commits and manifests list these."""

    key: str
    sha256: str
    size: int


@dataclass(frozen=True)
class Entry:
    """A line of a listing."""

    key: str
    size: int


class Store(ABC):
    """A folder or an S3 endpoint. Safe to use from many threads and after a fork.

    Every method raises `UnavailableError` where the store cannot be reached or refuses the credentials,
    `DiskFullError` where a folder's disk is full, and `UsageError` for a key that is not one.
    """

    url: str

    @abstractmethod
    def get(self, key: str) -> bytes:
        """The object's bytes; `NotFound` where there is none."""

    @abstractmethod
    def size(self, key: str) -> int:
        """The object's size in bytes; `NotFound` where there is none."""

    @abstractmethod
    def list(self, prefix: str = "") -> Iterator[Entry]:
        """Every object below the folder `prefix`, in no particular order."""

    @abstractmethod
    def folders(self, prefix: str = "") -> tuple[str, ...]:
        """The names of the folders directly in `prefix`, sorted."""

    @abstractmethod
    def delete(self, keys: Iterable[str]) -> None:
        """Remove objects; one that is not there is not an error."""

    @abstractmethod
    def _put(self, key: str, data: bytes, *, create: bool, durable: bool) -> None: ...

    @abstractmethod
    def check(self, *, write: bool = True) -> None:
        """Raise `UnavailableError` or `DiskFullError` at once where the store cannot be used.

        `write`: that it can be written, and that the second of two create-only puts is refused.
        """

    @abstractmethod
    def check_space(self) -> None:
        """Raise `DiskFullError` where less than LOW_WATER_MB is free. S3 has no such limit."""

    def remark(self) -> str:
        """What its owner should know though it can be used, in a sentence; empty where there is nothing."""
        return ""

    def remove_unfinished(self) -> int:
        """Delete files that killed processes left half written; returns how many. S3 shows none."""
        return 0

    def put(self, key: str, data: bytes, *, durable: bool = False) -> StoredObject:
        """Write an object, over one that is there.

        `durable`: it survives a power loss once this returns (a folder's file is fsynced; S3 always does so).
        """
        self._put(valid_key(key), data, create=False, durable=durable)
        return _stored(key, data)

    def put_if_absent(self, key: str, data: bytes) -> StoredObject:
        """Create an object, durably; `AlreadyExists` where there is one.

        After a lost reply the retry meets its own object and raises as well. A caller that must know writes
        something unique and reads it back.
        """
        self._put(valid_key(key), data, create=True, durable=True)
        return _stored(key, data)

    def exists(self, key: str) -> bool:
        """Whether there is an object of that key."""
        try:
            self.size(key)
        except NotFound:
            return False
        return True


_SEGMENT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+=,@-]{0,199}")


def valid_key(key: str) -> str:
    """`key`, if every part of it is a plain name; `UsageError` for anything that could leave the store."""
    if not all(_SEGMENT.fullmatch(part) for part in key.split("/")):
        raise UsageError(f"not a key of the store: {key!r}; parts are letters, digits and _.+=,@- only")
    return key


def valid_prefix(prefix: str) -> str:
    """`prefix` without its final slash, checked like a key; empty for the whole store."""
    prefix = prefix.rstrip("/")
    return valid_key(prefix) if prefix else ""


def sha256_hex(data: bytes) -> str:
    """The SHA-256 of `data` in hex."""
    return hashlib.sha256(data).hexdigest()


def _stored(key: str, data: bytes) -> StoredObject:
    return StoredObject(key, sha256_hex(data), len(data))
