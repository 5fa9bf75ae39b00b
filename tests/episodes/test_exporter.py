import os
import sys
import threading
import time
from dataclasses import replace

import pytest
from structlog.contextvars import merge_contextvars
from structlog.testing import capture_logs
from tests.disks import small_disk

from questloop.episodes.exporter import Exporter
from questloop.errors import DiskFullError, UnavailableError
from questloop.settings import StoreSettings
from questloop.storage import keys
from questloop.storage.interface import StoreGone
from questloop.storage.keys import SegmentId
from questloop.storage.store import open_store
from questloop.telemetry import logs


@pytest.fixture
def short(segments):
    """Many small segments, made of the game's one that ends an episode."""
    return [
        replace(segments[1], id=SegmentId(segments[1].id.episode, index, 1), frames={}) for index in range(12)
    ]


class Faulty:
    """A store in front of a real one that can be made to wait or to fail."""

    def __init__(self, store):
        self._store = store
        self.url = store.url
        self.open = threading.Event()
        self.open.set()
        self.error = None
        self.puts = []

    def put(self, key, data, *, durable=False):
        self.open.wait()
        if self.error is not None:
            raise self.error
        self.puts.append(key)
        return self._store.put(key, data, durable=durable)

    def check_space(self):
        self._store.check_space()


@pytest.fixture
def faulty(store):
    return Faulty(store)


@pytest.mark.skipif(sys.platform != "linux", reason="threads have priorities on Linux only")
def test_encoding_leaves_the_cores_to_training(faulty, short, recording):
    niceness = []
    faulty.check_space = lambda: niceness.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))
    exporter = Exporter(faulty, recording, threads=2)
    exporter.submit(short[0])
    exporter.close()
    assert niceness == [19]
    assert os.getpriority(os.PRIO_PROCESS, threading.get_native_id()) < 19


def test_a_line_of_a_thread_says_which_run_epoch_and_segment(faulty, short, recording):
    faulty.error = UnavailableError("away")
    with capture_logs(processors=[merge_contextvars]) as lines, logs.context(run="r1", epoch=3):
        exporter = Exporter(faulty, recording, threads=1, patience_s=0.0)
        exporter.submit(short[0])
        with pytest.raises(UnavailableError, match="away"):
            exporter.close()
    failed = next(line for line in lines if line["event"].startswith("upload failed"))
    assert (failed["run"], failed["epoch"], failed["segment"]) == ("r1", 3, str(short[0].id))


@pytest.mark.parametrize("kind", ["folder", pytest.param("s3", marks=pytest.mark.integration)])
def test_every_accepted_segment_is_stored(kind, tmp_path, request, segments, recording):
    if kind == "folder":
        store = open_store(str(tmp_path))
    else:
        store = open_store(request.getfixturevalue("s3_server").settings("s3://one/export"))
    exporter = Exporter(store, recording)
    for segment in segments:
        exporter.submit(segment)
    exported = exporter.close()
    assert [item.segment_id for item in exported] == [str(segment.id) for segment in segments]
    assert sum(item.pngs for item in exported) == sum(len(segment.frames) for segment in segments)
    assert exporter.pending == 0
    for item in exported:
        assert store.size(item.manifest.key) == item.manifest.size
    assert len(list(store.list("zelda-episodes"))) == sum(3 + len(segment.frames) for segment in segments)


def test_manifest_is_written_last(faulty, segments, recording):
    exporter = Exporter(faulty, recording, threads=1)
    exporter.submit(segments[0])
    exporter.close()
    assert faulty.puts[-1] == keys.manifest(str(segments[0].id))
    assert len(faulty.puts) == 3 + len(segments[0].frames)


def test_a_slow_store_blocks_nobody_until_the_bound(faulty, short, recording):
    faulty.open.clear()
    exporter = Exporter(faulty, recording, threads=2, bound=4)
    for segment in short[:6]:  # two in work, four queued
        exporter.submit(segment)
    blocked = threading.Thread(target=exporter.submit, args=(short[6],), daemon=True)
    blocked.start()
    blocked.join(0.3)
    assert blocked.is_alive()
    assert exporter.pending == 6
    faulty.open.set()
    blocked.join(30)
    assert not blocked.is_alive()
    assert len(exporter.close()) == 7


def test_an_outage_within_the_patience_loses_nothing(faulty, short, recording):
    faulty.error = UnavailableError("the store is down")
    exporter = Exporter(faulty, recording, threads=2, patience_s=60)
    for segment in short:
        exporter.submit(segment)
    time.sleep(0.2)
    assert faulty.puts == []
    faulty.error = None
    assert len(exporter.close()) == len(short)


def test_a_dead_store_stops_loudly(faulty, short, recording):
    faulty.error = UnavailableError("store x cannot be reached; check STORE_URL")
    exporter = Exporter(faulty, recording, threads=2, bound=2, patience_s=0)

    def submit_all():
        for segment in short:
            exporter.submit(segment)

    with pytest.raises(
        UnavailableError, match=r"export stopped with \d+ segments not stored: store x cannot"
    ):
        submit_all()
    with pytest.raises(UnavailableError):
        exporter.close()
    assert exporter.pending > 0


def test_a_full_disk_stops_at_once(faulty, short, recording):
    faulty.error = DiskFullError("store x: no space; free space")
    exporter = Exporter(faulty, recording, patience_s=600)
    exporter.submit(short[0])
    with pytest.raises(DiskFullError, match="free space"):
        exporter.close()


@pytest.mark.parametrize("what", ["moved away", "moved away before room is asked for", "made read-only"])
def test_a_store_that_no_waiting_brings_back_stops_at_once(tmp_path, short, recording, what):
    with small_disk(tmp_path / "disk", 8) as disk:
        store = open_store(StoreSettings(store_url=str(disk.root / "store"), low_water_mb=0))
        store.put("a/b", b"there")
        if what == "made read-only":
            disk.remount("ro")
        else:
            (disk.root / "store").rename(disk.root / "away")
        if what == "moved away":
            store.check_space = lambda: None
        exporter = Exporter(store, recording, patience_s=600)
        exporter.submit(short[0])
        with pytest.raises(StoreGone, match=r"1 segments not stored: store "):
            exporter.close()


def test_low_water_stops_before_the_disk_is_full(tmp_path, short, recording):
    from questloop.storage.folder import FolderStore

    store = FolderStore(tmp_path, low_water_mb=10**12)
    exporter = Exporter(store, recording)
    exporter.submit(short[0])
    with pytest.raises(DiskFullError, match="LOW_WATER_MB"):
        exporter.close()
    assert list(store.list()) == []


def test_an_error_of_ours_is_not_swallowed(store, segments, recording):
    exporter = Exporter(store, recording)
    exporter.submit(replace(segments[0], mode=segments[0].mode + 9))
    with pytest.raises(IndexError):
        exporter.close()


def test_abort_waits_for_nothing(faulty, short, recording):
    faulty.error = UnavailableError("down")
    exporter = Exporter(faulty, recording, patience_s=600)
    for segment in short:
        exporter.submit(segment)
    exporter.abort()
    assert exporter.pending == len(short)
