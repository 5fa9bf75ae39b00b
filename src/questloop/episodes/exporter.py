"""Background threads that encode segments one by one and upload them."""

from __future__ import annotations

import contextlib
import os
import queue
import sys
import threading
import time
from collections.abc import Callable
from contextvars import copy_context
from dataclasses import dataclass
from typing import TypeVar

from questloop.episodes.files import Recording, encode
from questloop.episodes.segment import Segment
from questloop.errors import QuestloopError, UnavailableError
from questloop.storage import keys
from questloop.storage.commit import to_json
from questloop.storage.interface import Store, StoredObject, StoreGone
from questloop.telemetry import logs, metrics
from questloop.telemetry.logs import get_logger

PATIENCE_S = 300.0
log = get_logger(__name__)
_T = TypeVar("_T")
_NICENESS = 19
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 15.0


@dataclass(frozen=True)
class Exported:
    """A segment that the store has."""

    segment_id: str
    manifest: StoredObject
    pngs: int


class Exporter:
    """`threads` take segments off a queue of at most `bound`; `submit` waits while it is full.

    An upload that fails is tried again for `patience_s`, with the segment kept. After that, or on a full
    disk, the exporter stops: `submit` and `close` raise what happened, and `pending` counts what was accepted
    and is not stored. The epoch is then played again from its start, so nothing is lost.
    """

    def __init__(
        self,
        store: Store,
        recording: Recording,
        *,
        threads: int = 3,
        bound: int = 32,
        patience_s: float = PATIENCE_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store, self._recording = store, recording
        self._patience_s, self._clock = patience_s, clock
        self._queue: queue.Queue[Segment | None] = queue.Queue(bound)
        self._exported: list[Exported] = []
        self._accepted = 0
        self._error: Exception | None = None
        self._stopped = threading.Event()
        # Encoding mostly holds the interpreter's lock: two threads at it take turns, and time from training.
        self._encoding = threading.Lock()
        self._threads = [
            threading.Thread(
                target=copy_context().run, args=(self._work,), name=f"export-{number}", daemon=True
            )
            for number in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def pending(self) -> int:
        """Segments accepted and not yet stored."""
        return self._accepted - len(self._exported)

    def submit(self, segment: Segment) -> None:
        """Accept a segment; waits while the queue is full, raises where the exporter stopped."""
        while True:
            self._raise()
            try:
                self._queue.put(segment, timeout=0.1)
            except queue.Full:
                continue
            self._accepted += 1
            metrics.export_queue_depth.set(self._queue.qsize())
            return

    def close(self) -> list[Exported]:
        """Wait until all is stored; returns it by segment id. Raises where the exporter stopped."""
        for _ in self._threads:
            while not self._stopped.is_set():
                try:
                    self._queue.put(None, timeout=0.1)
                    break
                except queue.Full:
                    continue
        for thread in self._threads:
            thread.join()
        self._raise()
        return sorted(self._exported, key=lambda item: item.segment_id)

    def abort(self) -> None:
        """Stop without waiting for what is queued."""
        self._stopped.set()
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        _yield_to_training()
        while not self._stopped.is_set():
            try:
                segment = self._queue.get(timeout=0.1)
            except queue.Empty:
                continue
            if segment is None:
                return
            metrics.export_queue_depth.set(self._queue.qsize())
            try:
                with logs.context(segment=str(segment.id)):
                    self._exported.append(self._export(segment))
                    log.debug("segment exported")
                metrics.segments_exported_total.inc()
            except Exception as error:
                self._error = self._error or error
                self._stopped.set()

    def _export(self, segment: Segment) -> Exported:
        with self._encoding:
            files, manifest = encode(segment, self._recording)
        self._patiently(self._store.check_space)
        for name, data in files.items():
            self._put(keys.segment_file(manifest.segment_id, name), data)
        stored = self._put(keys.manifest(manifest.segment_id), to_json(manifest), durable=True)
        return Exported(manifest.segment_id, stored, manifest.pngs)

    def _put(self, key: str, data: bytes, durable: bool = False) -> StoredObject:
        return self._patiently(lambda: self._store.put(key, data, durable=durable))

    def _patiently(self, ask: Callable[[], _T]) -> _T:
        """Try until the store answers, for at most the patience."""
        deadline, pause = self._clock() + self._patience_s, _FIRST_PAUSE_S
        while True:
            try:
                return ask()
            except StoreGone:
                raise
            except UnavailableError as error:
                log.warning(
                    "upload failed; trying again", error=str(error), pause_s=pause, pending=self.pending
                )
                if self._clock() > deadline or self._stopped.wait(pause):
                    raise
                pause = min(2 * pause, _LONGEST_PAUSE_S)

    def _raise(self) -> None:
        if self._error is None:
            return
        if isinstance(self._error, QuestloopError):
            raise type(self._error)(f"export stopped with {self.pending} segments not stored: {self._error}")
        raise self._error


def _yield_to_training() -> None:
    """Let this thread have what training leaves over: Ray starts runners at niceness 15, we at 0."""
    if sys.platform == "linux":  # elsewhere a whole process has one priority
        with contextlib.suppress(OSError):  # a sandbox may forbid it
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)
