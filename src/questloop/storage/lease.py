"""The lease of a run: one process writes a store at a time.

Fences count 1, 2, 3 ...; whoever creates `lease/{fence}.json` first is the writer of that fence. The writer
renews a heartbeat object that it alone writes. A newer writer appears only where the last one released its
lease, died on this host, or left its heartbeat unchanged for the lease's whole time. The newcomer watches
that by its own clock: clocks of different machines are never compared. Create-only puts are all this needs.
"""

from __future__ import annotations

import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import NoReturn, TypeVar

from pydantic import BaseModel, Field

from questloop.errors import QuestloopError, UsageError
from questloop.exit_codes import ExitCode
from questloop.storage import keys
from questloop.storage.schema import SchemaVersion
from questloop.storage.sealed import seal, unseal
from questloop.storage.store import AlreadyExists, Entry, NotFound, Store
from questloop.telemetry.logs import get_logger

LEASE_S = 30.0
log = get_logger(__name__)
_BEATS_A_LEASE = 5
_Document = TypeVar("_Document", bound=BaseModel)
_TRUSTED_SHARE = 0.7  # of the lease's time: the writer stops before a newcomer may start


class LeaseHeld(QuestloopError):
    """Another writer has the store."""

    exit_code = ExitCode.UNAVAILABLE


class LeaseLost(QuestloopError):
    """This writer's lease went to a newer one, or could not be renewed in time."""

    exit_code = ExitCode.PREEMPTED


class Holder(BaseModel):
    """`lease/{fence}.json`: who writes."""

    schema_version: SchemaVersion = 1
    run: str
    fence: int
    token: str
    lease_s: float = Field(gt=0, le=3600)  # a newcomer waits for it
    host: str
    process: str
    pid: int
    acquired: datetime


class Beat(BaseModel):
    """`lease/{fence}-beat.json`: a sign of life."""

    schema_version: SchemaVersion = 1
    token: str
    count: int
    released: bool = False


@dataclass(frozen=True)
class Process:
    """A process on a host. `host` tells PID namespaces and boots apart, `start` a reused PID."""

    host: str
    pid: int
    start: str

    @classmethod
    def current(cls) -> Process:
        """This process."""
        return cls(_host(), os.getpid(), _start_of(os.getpid()) or "")

    def is_alive(self) -> bool:
        """Only meaningful on its own host."""
        return self.start != "" and _start_of(self.pid) == self.start


class Lease:
    """The right to write a run's store; a context manager that releases it.

    A thread renews it. `check()` comes before every write that matters. A writer that was cut off from the
    store for too long continues its lease if nobody came meanwhile: it creates the next fence's document
    itself, with its own token. `fence`, which object names carry, stays what it was.
    """

    def __init__(self, store: Store, holder: Holder, clock: Callable[[], float] = time.monotonic) -> None:
        self.fence = holder.fence
        self.run = holder.run
        self._store = store
        self._holder = holder  # of the newest fence that is this writer's
        self._clock = clock
        self._count = 0
        self._lost: str | None = None
        self._renewed = clock()
        self._renewing = threading.Lock()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    @classmethod
    def acquire(
        cls,
        store: Store,
        run: str,
        *,
        lease_s: float = LEASE_S,
        process: Process | None = None,
        is_alive: Callable[[Process], bool] = Process.is_alive,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        background: bool = True,
    ) -> Lease:
        """Become the writer of `run` under a fence above every earlier one.

        Raises `LeaseHeld` where another writer is alive, `UsageError` where the store belongs to another run.
        A writer that was killed on this host is followed at once; one on another host after `lease_s` without
        a heartbeat.
        """
        keys.valid_run_id(run)
        process = process or Process.current()
        fence = _newest_fence(store)
        if fence:
            _wait_until_free(store, fence, run, process, is_alive, clock, sleep)
        holder = Holder(
            run=run,
            fence=fence + 1,
            token=secrets.token_hex(16),
            lease_s=lease_s,
            host=process.host,
            process=process.start,
            pid=process.pid,
            acquired=datetime.now(UTC),
        )
        lease = cls(store, holder, clock)
        _create(store, holder)
        log.debug("lease taken", run=run, fence=holder.fence, store=store.url)
        lease.renew()
        if background:
            lease._renew_in_background()
        return lease

    @property
    def trusted(self) -> bool:
        """Whether no other writer can be there; costs no request."""
        in_time = self._clock() - self._renewed <= self._holder.lease_s * _TRUSTED_SHARE
        return self._lost is None and in_time

    def check(self) -> None:
        """Raise `LeaseLost` unless this is the writer. Costs a request only after an outage."""
        if not self.trusted:
            self.renew()

    def renew(self) -> None:
        """Write a heartbeat, after an outage continue.

        `LeaseLost` where a newer writer is there, or this one's lease is not: the store was emptied. Stages
        do so before they commit.
        """
        with self._renewing:
            started = self._clock()
            if not self.trusted:
                self._continue()
            if not self._store.exists(keys.lease(self._holder.fence)):
                self._lose("the store was emptied or replaced while it was written")
            self._put_beat()
            if self._store.exists(keys.lease(self._holder.fence + 1)):
                self._lose("a newer writer took over")
            self._renewed = started

    def _continue(self) -> None:
        """Create the next fence as this writer's own."""
        if self._lost is not None:
            self._lose(self._lost)
        following = self._holder.model_copy(update={"fence": self._holder.fence + 1})
        try:
            _create(self._store, following)
        except LeaseHeld:
            self._lose("a newer writer took over")
        self._holder = following
        log.warning("lease continued after an outage", run=self.run, fence=self.fence)

    def _put_beat(self, released: bool = False) -> None:
        self._count += 1
        beat = Beat(token=self._holder.token, count=self._count, released=released)
        self._store.put(keys.lease_beat(self._holder.fence), seal(beat))

    def _lose(self, reason: str) -> NoReturn:
        self._lost = reason
        raise LeaseLost(
            f"lease {self.fence} of run {self.run} on {self._store.url} is lost: {reason}; "
            "run the command again to resume"
        )

    def release(self) -> None:
        """Give the store back; the next writer need not wait."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._lost is None:
            self._lost = "it was released"
            self._put_beat(released=True)

    def __enter__(self) -> Lease:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.release()
        except QuestloopError:
            if error is None:
                raise

    def _renew_in_background(self) -> None:
        self._thread = threading.Thread(target=self._beat, name="lease", daemon=True)
        self._thread.start()

    def _beat(self) -> None:
        while not self._stopped.wait(self._holder.lease_s / _BEATS_A_LEASE):
            try:
                self.renew()
            except LeaseLost as error:
                log.error("lease lost", run=self.run, fence=self.fence, error=str(error))
                return
            except QuestloopError as error:  # the next one, or check(), tries again
                log.warning("lease not renewed", run=self.run, fence=self.fence, error=str(error))


class FencedStore(Store):
    """A store that writes only while the lease is held, and otherwise raises `LeaseLost`.

    What has a fixed name, such as a checkpoint or `episode.json`, must not be written over by a writer that
    slept while another took its place. Between the look at the lease and the write itself no time passes but
    that of one request.
    """

    def __init__(self, store: Store, lease: Lease) -> None:
        self._store, self._lease = store, lease
        self.url = store.url

    def get(self, key: str) -> bytes:
        return self._store.get(key)

    def size(self, key: str) -> int:
        return self._store.size(key)

    def list(self, prefix: str = "") -> Iterator[Entry]:
        return self._store.list(prefix)

    def folders(self, prefix: str = "") -> tuple[str, ...]:
        return self._store.folders(prefix)

    def delete(self, keys: Iterable[str]) -> None:
        self._lease.check()
        self._store.delete(keys)

    def check(self, *, write: bool = True) -> None:
        self._store.check(write=write)

    def check_space(self) -> None:
        self._store.check_space()

    def remove_unfinished(self) -> int:
        self._lease.check()
        return self._store.remove_unfinished()

    def _put(self, key: str, data: bytes, *, create: bool, durable: bool) -> None:
        self._lease.check()
        self._store._put(key, data, create=create, durable=durable)


def is_superseded(store: Store, fence: int) -> bool:
    """Whether a writer other than that of `fence` came after it; one request where none did."""
    newest = fence
    while store.exists(keys.lease(newest + 1)):
        newest += 1
    if newest == fence:
        return False
    first, last = _read(store, keys.lease(fence), Holder), _read(store, keys.lease(newest), Holder)
    return first is None or last is None or first.token != last.token


def holder_of(store: Store) -> Holder | None:
    """The newest writer of a store, alive or not; None where there was none."""
    fence = _newest_fence(store)
    return _read(store, keys.lease(fence), Holder) if fence else None


def has_writer(store: Store) -> bool:
    """Whether the newest writer is known to live: a process of this machine whose lease is not released."""
    holder = holder_of(store)
    if holder is None:
        return False
    beat = _read(store, keys.lease_beat(holder.fence), Beat)
    if beat is not None and beat.released:
        return False
    process = Process(holder.host, holder.pid, holder.process)
    return process.host == _host() and process.is_alive()


def _wait_until_free(
    store: Store,
    fence: int,
    run: str,
    process: Process,
    is_alive: Callable[[Process], bool],
    clock: Callable[[], float],
    sleep: Callable[[float], None],
) -> None:
    """Return once the writer of `fence` is known to be gone; `LeaseHeld` once it is known to live."""
    holder = _read(store, keys.lease(fence), Holder)
    if holder is None:
        log.warning("the last writer's lease cannot be read; waiting to see whether it lives", fence=fence)
        holder = Holder(
            run=run, fence=fence, token="", lease_s=LEASE_S, host="unknown", process="", pid=0,
            acquired=datetime.now(UTC),
        )  # fmt: skip
    if holder.run != run:
        raise UsageError(
            f"store {store.url} holds run {holder.run}, not {run}; resume that run, or give another STORE_URL"
        )
    first = _read(store, keys.lease_beat(fence), Beat)
    if first is not None and first.released:
        return
    other = Process(holder.host, holder.pid, holder.process)
    held = LeaseHeld(
        f"store {store.url} is being written by another pipeline (run {holder.run}, process {holder.pid} on "
        f"{holder.host.partition(' ')[0]}); stop that one, or give another STORE_URL"
    )
    if other.host == process.host and other.start:
        if is_alive(other):
            raise held
        return
    deadline = clock() + holder.lease_s
    while (left := deadline - clock()) > 0:
        sleep(min(left, holder.lease_s / _BEATS_A_LEASE))
        beat = _read(store, keys.lease_beat(fence), Beat)
        if beat is not None and beat.released:
            return
        if beat != first:
            raise held


def _create(store: Store, holder: Holder) -> None:
    data = seal(holder)
    try:
        store.put_if_absent(keys.lease(holder.fence), data)
    except AlreadyExists:
        # After a lost reply the retry meets its own lease.
        if store.get(keys.lease(holder.fence)) != data:
            raise LeaseHeld(
                f"store {store.url}: another pipeline took fence {holder.fence} just now; only one can write"
            ) from None


def _newest_fence(store: Store) -> int:
    names = (entry.key.rsplit("/", 1)[-1] for entry in store.list(keys.lease_prefix()))
    return max((fence for name in names if (fence := keys.parse_lease(name)) is not None), default=0)


def _read(store: Store, key: str, model: type[_Document]) -> _Document | None:
    try:
        return unseal(store.get(key), model)
    except (NotFound, ValueError):
        return None


def _host() -> str:
    """This host's name, boot and PID namespace; a process is only looked up where all three agree."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        namespace = os.readlink("/proc/self/ns/pid")
    except OSError:  # not Linux: never taken for the same host, so a newcomer waits
        boot, namespace = secrets.token_hex(8), ""
    return f"{socket.gethostname()} {boot} {namespace}".strip()


def _start_of(pid: int) -> str | None:
    """When a process started, in the kernel's ticks since boot; None where there is none."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in ("Z", "X") else fields[19]
