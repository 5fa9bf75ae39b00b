"""A store in a local folder."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from questloop.errors import DiskFullError, UnavailableError
from questloop.local_files import FULL, MAKE_ROOM
from questloop.storage.interface import (
    AlreadyExists,
    Entry,
    NotFound,
    Store,
    StoreGone,
    valid_key,
    valid_prefix,
)

_STAGED = re.compile(r".*#[0-9a-f]{16}")  # the name of a file that is being written; no key can have it
_ABANDONED_S = 600  # a put takes seconds
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV, errno.EINVAL)
_NO_SYNC = (errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS, errno.EBADF)
_ABSENT = (FileNotFoundError, IsADirectoryError, NotADirectoryError)


class FolderStore(Store):
    """Objects are files: one is staged beside its place, then linked (create-only) or renamed into it.

    Plain file calls and no object-store library: a local file needs none, the exact error of a full disk is
    kept, and a forked process can go on with it.
    """

    def __init__(self, root: Path, low_water_mb: int) -> None:
        self._root = root.absolute()
        self._low_water_mb = low_water_mb
        self.url = str(root)
        self._links = True
        self._identity: tuple[int, int] | None = None

    def check(self, *, write: bool = True) -> None:
        with self._explained("open"):
            if not write:
                with os.scandir(self._root):
                    return
            self._root.mkdir(parents=True, exist_ok=True)
            self._links = self._has_links()
            self._identity = self._identify()
        if not self._links and not self._has_locks():
            raise UnavailableError(
                f"store {self.url}: its file system has neither hard links nor locks, without which two "
                "pipelines could write one run; name a folder elsewhere as STORE_URL, or an S3 server"
            )

    def _has_links(self) -> bool:
        """Whether a file can be linked, and a second time not to the same name."""
        probe, other = (self._staging(self._root / "probe") for _ in range(2))
        try:
            probe.write_bytes(b"")
            os.link(probe, other)
            with contextlib.suppress(FileExistsError):
                os.link(probe, other)
                return False
            return True
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            return False
        finally:
            probe.unlink(missing_ok=True)
            other.unlink(missing_ok=True)

    def _has_locks(self) -> bool:
        """Whether a second lock of the folder is refused while the first is held."""
        try:
            with self._locked():
                descriptor = os.open(self._root, os.O_RDONLY)
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    return True
                finally:
                    os.close(descriptor)
        except OSError:
            pass
        return False

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the folder's lock, which ends with the process that holds it."""
        descriptor = os.open(self._root, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _identify(self) -> tuple[int, int]:
        found = os.stat(self._root)
        return found.st_dev, found.st_ino

    def _require_there(self) -> None:
        """Raise where the folder was removed, replaced or unmounted, rather than begin again in a new one."""
        try:
            same = self._identity in (None, self._identify())
        except FileNotFoundError:
            same = False
        if not same:
            raise StoreGone(
                f"store {self.url}: the folder was removed, replaced or unmounted since it was opened; "
                "bring it back and run the same command again"
            )
        self._identity = self._identity or self._identify()

    def __getstate__(self) -> dict[str, object]:
        """Another machine may know the folder by another number."""
        return self.__dict__ | {"_identity": None}

    def check_space(self) -> None:
        with self._explained("open"):
            self._require_there()
            free_mb = shutil.disk_usage(self._root).free // 2**20
        if free_mb < self._low_water_mb:
            raise DiskFullError(
                f"store {self.url}: {free_mb} MB free, less than LOW_WATER_MB={self._low_water_mb}; "
                "free space, keep fewer epochs (KEEP_EPOCHS), or lower LOW_WATER_MB"
            )

    def get(self, key: str) -> bytes:
        with self._explained("read", key), self._absent_is_not_found(key):
            return self._path(key).read_bytes()

    def size(self, key: str) -> int:
        with self._explained("read", key), self._absent_is_not_found(key):
            path = self._path(key)
            if path.is_dir():
                raise IsADirectoryError
            return path.stat().st_size

    def list(self, prefix: str = "") -> Iterator[Entry]:
        start = self._root / valid_prefix(prefix)
        with self._explained("list", prefix):
            for folder, _, names in os.walk(start, onerror=_unless_gone):
                for name in names:
                    path = Path(folder, name)
                    if _STAGED.fullmatch(name):
                        continue
                    with contextlib.suppress(FileNotFoundError):  # deleted since
                        yield Entry(path.relative_to(self._root).as_posix(), path.stat().st_size)

    def folders(self, prefix: str = "") -> tuple[str, ...]:
        place = self._root / valid_prefix(prefix)
        with self._explained("list", prefix), contextlib.suppress(*_ABSENT), os.scandir(place) as entries:
            return tuple(sorted(entry.name for entry in entries if entry.is_dir()))
        return ()

    def delete(self, keys: Iterable[str]) -> None:
        for key in keys:
            path = self._path(key)
            with self._explained("delete", key), contextlib.suppress(*_ABSENT):
                path.unlink()
            self._remove_empty_folders(path.parent)

    def remove_unfinished(self) -> int:
        removed = 0
        for folder, _, names in os.walk(self._root):
            for path in (Path(folder, name) for name in names if _STAGED.fullmatch(name)):
                with self._explained("delete", path.name), contextlib.suppress(FileNotFoundError):
                    if time.time() - path.stat().st_mtime > _ABANDONED_S:
                        path.unlink()
                        removed += 1
        return removed

    def _put(self, key: str, data: bytes, *, create: bool, durable: bool) -> None:
        path = self._path(key)
        staged = self._staging(path)
        with self._explained("write", key):
            self._require_there()
            try:
                _write(staged, data, durable)
                self._publish(staged, path, create)
                if durable:
                    self._fsync_folders(path.parent)
            finally:
                staged.unlink(missing_ok=True)

    def _publish(self, staged: Path, path: Path, create: bool) -> None:
        if not create:
            os.replace(staged, path)
            return
        try:
            if self._links:
                os.link(staged, path)
                return
            with self._locked():
                if path.exists():
                    raise FileExistsError
                os.replace(staged, path)
        except FileExistsError:
            raise AlreadyExists(f"store {self.url}: {path.relative_to(self._root)} exists") from None

    def _fsync_folders(self, folder: Path) -> None:
        """Make names durable, those of new folders too."""
        for each in (folder, *folder.parents):
            _fsync_folder(each)
            if each == self._root:
                return

    def _path(self, key: str) -> Path:
        return self._root / valid_key(key)

    def _staging(self, path: Path) -> Path:
        return path.with_name(f"{path.name}#{secrets.token_hex(8)}")

    def _remove_empty_folders(self, folder: Path) -> None:
        while folder != self._root:
            try:
                folder.rmdir()
            except OSError:  # not empty
                return
            folder = folder.parent

    @contextlib.contextmanager
    def _explained(self, verb: str, key: str = "") -> Iterator[None]:
        """Turn the system's errors into ours, one line each."""
        where = f"store {self.url}: cannot {verb} {key}".rstrip()
        try:
            yield
        except OSError as error:
            if error.errno in FULL:
                raise DiskFullError(f"{where}: {error.strerror}; {MAKE_ROOM}") from None
            if error.errno == errno.EROFS:
                mend = "mount it for writing, or name another STORE_URL"
                raise StoreGone(f"{where}: {error.strerror}; {mend}") from None
            mend = "check STORE_URL and the folder's permissions"
            raise UnavailableError(f"{where}: {error.strerror}; {mend}") from None

    @contextlib.contextmanager
    def _absent_is_not_found(self, key: str) -> Iterator[None]:
        try:
            yield
        except _ABSENT:
            raise NotFound(f"store {self.url}: no object {key}") from None


def _unless_gone(error: OSError) -> None:
    """A folder that cannot be listed hides objects; one that was removed since has none."""
    if not isinstance(error, FileNotFoundError | NotADirectoryError):
        raise error


def _write(path: Path, data: bytes, durable: bool) -> None:
    with _create(path) as file:
        file.write(data)
        if durable:
            file.flush()
            os.fsync(file.fileno())


def _create(path: Path) -> BinaryIO:
    """Open a new file; its folder is made, again where a deletion took it away in between."""
    for _ in range(10):
        with contextlib.suppress(FileNotFoundError):
            return open(path, "xb")
        path.parent.mkdir(parents=True, exist_ok=True)
    return open(path, "xb")


def _fsync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NO_SYNC:  # some file systems write names through and cannot be asked to
            raise
    finally:
        os.close(descriptor)
