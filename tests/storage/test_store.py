"""One conformance suite for a folder and a real S3 server, with one bucket and with one a prefix."""

import contextlib
import errno
import fcntl
import multiprocessing
import os
import pickle
import shutil
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from questloop.errors import DiskFullError, UnavailableError, UsageError
from questloop.storage.folder import FolderStore
from questloop.storage.store import AlreadyExists, NotFound, folder_path, open_store, valid_key


def test_put_then_get(store, here):
    stored = store.put(f"{here}/a.json", b"one")
    assert store.get(stored.key) == b"one"
    assert (stored.size, stored.sha256[:8]) == (3, "7692c3ad")
    store.put(f"{here}/a.json", b"three", durable=True)
    assert store.get(f"{here}/a.json") == b"three"
    assert store.size(f"{here}/a.json") == 5


def test_empty_and_large_objects(store, here):
    large = os.urandom(12 * 2**20)
    for data in (b"", large):
        store.put(f"{here}/x", data)
        assert store.get(f"{here}/x") == data
    store.put_if_absent(f"{here}/large", large)
    assert store.get(f"{here}/large") == large


def test_create_only_put_refuses_the_second(store, here):
    store.put_if_absent(f"{here}/once", b"first")
    with pytest.raises(AlreadyExists, match="once exists"):
        store.put_if_absent(f"{here}/once", b"second")
    assert store.get(f"{here}/once") == b"first"


def test_one_of_many_creators_wins(store, here):
    won = []

    def create(number):
        try:
            store.put_if_absent(f"{here}/race", str(number).encode())
        except AlreadyExists:
            return
        won.append(number)

    threads = [threading.Thread(target=create, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert store.get(f"{here}/race") == str(won[0]).encode()


def test_missing_objects(store, here):
    for ask in (store.get, store.size):
        with pytest.raises(NotFound, match="no object"):
            ask(f"{here}/nothing")
    assert not store.exists(f"{here}/nothing")
    store.put(f"{here}/folder/a", b"")
    with pytest.raises(NotFound):
        store.get(f"{here}/folder")
    assert not store.exists(f"{here}/folder")


def test_listing(store, here):
    for name in ("a", "sub/b", "sub/deep/c", "sub2/d"):
        store.put(f"{here}/{name}", name.encode())
    assert {entry.key: entry.size for entry in store.list(here)} == {
        f"{here}/a": 1,
        f"{here}/sub/b": 5,
        f"{here}/sub/deep/c": 10,
        f"{here}/sub2/d": 6,
    }
    assert {entry.key for entry in store.list(f"{here}/sub")} == {f"{here}/sub/b", f"{here}/sub/deep/c"}
    assert store.folders(here) == ("sub", "sub2")
    assert store.folders(f"{here}/none") == ()
    assert list(store.list(f"{here}/none")) == []
    assert f"{here}/a" in {entry.key for entry in store.list()}
    assert "zelda-models" in store.folders()


def test_delete(store, here):
    for name in ("a", "b/c", "b/d"):
        store.put(f"{here}/{name}", b"")
    store.delete([f"{here}/a", f"{here}/b/c", f"{here}/never"])
    assert [entry.key for entry in store.list(here)] == [f"{here}/b/d"]
    store.delete([f"{here}/b/d"])
    assert list(store.list(here)) == []


@pytest.mark.parametrize(
    "key",
    ["", "/a", "a/", "a//b", "../a", "a/../b", "a/.hidden", "a\\b", "a b", "a\n", "é", "a/b#1", "a" * 201],
)
def test_keys_that_are_none_are_refused(store, key):
    for ask in (store.get, store.size, lambda key: store.put(key, b""), lambda key: store.delete([key])):
        with pytest.raises(UsageError, match="not a key"):
            ask(key)


@given(st.text())
def test_a_valid_key_stays_below_the_store(key):
    try:
        valid_key(key)
    except UsageError:
        return
    assert os.path.normpath(f"/store/{key}") == f"/store/{key}"


def test_a_store_travels_to_another_process(store, here):
    copied = pickle.loads(pickle.dumps(store))  # noqa: S301
    copied.put(f"{here}/a", b"x")
    assert store.get(f"{here}/a") == b"x"


def test_uploads_from_forked_processes_finish(store, here):
    """boto3#4443. The parent has used the store before it forks."""
    store.put(f"{here}/parent", b"")
    context = multiprocessing.get_context("fork")

    def upload(worker):
        for number in range(5):
            store.put(f"{here}/{worker}/{number}", b"x" * 1000)

    workers = [context.Process(target=upload, args=(worker,)) for worker in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    codes = [worker.exitcode for worker in workers]
    for worker in workers:
        worker.kill()
    assert codes == [0, 0, 0, 0]
    assert len(list(store.list(here))) == 21


# A folder


def test_urls_of_folders(tmp_path):
    assert folder_path("runs/store") == folder_path("runs") / "store"
    assert open_store(f"file://{tmp_path}/a%20b").put("x", b"").size == 0
    assert (tmp_path / "a b" / "x").exists()
    for url in ("http://host/a", "file://host/a", "ftp:///a"):
        with pytest.raises(UsageError, match="give a path"):
            open_store(url)


def test_a_folder_below_a_file_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UnavailableError, match="check STORE_URL"):
        open_store(str(tmp_path / "file" / "store"))


def test_low_water(tmp_path):
    FolderStore(tmp_path, low_water_mb=0).check_space()
    with pytest.raises(DiskFullError, match=r"MB free, less than LOW_WATER_MB=\d+; free space"):
        FolderStore(tmp_path, low_water_mb=10**12).check_space()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="/dev/full is Linux's")
def test_full_disk_leaves_the_old_object(tmp_path, monkeypatch):
    store = open_store(str(tmp_path))
    store.put("a/b", b"old")
    real = FolderStore._staging
    full = tmp_path / "a" / "full"

    def staging(self, path):
        full.unlink(missing_ok=True)
        full.symlink_to("/dev/full")
        return full

    monkeypatch.setattr(FolderStore, "_staging", staging)
    monkeypatch.setattr("questloop.storage.folder._create", lambda path: path.open("wb"))
    with pytest.raises(DiskFullError, match="cannot write a/b: No space left on device"):
        store.put("a/b", b"new" * 10000)
    monkeypatch.setattr(FolderStore, "_staging", real)
    assert store.get("a/b") == b"old"
    assert [entry.key for entry in store.list()] == ["a/b"]


def test_half_written_files_are_no_objects(tmp_path):
    store = open_store(str(tmp_path))
    store.put("a/b", b"x")
    half = tmp_path / "a" / "c#0123456789abcdef"
    half.write_bytes(b"half")
    assert [entry.key for entry in store.list()] == ["a/b"]
    assert store.remove_unfinished() == 0  # it may be in work
    os.utime(half, (0, 0))
    assert store.remove_unfinished() == 1
    assert not half.exists()
    assert store.get("a/b") == b"x"


# S3


@pytest.mark.integration
def test_wrong_credentials_and_buckets_are_named(s3_server):
    for changed, says in [
        ({"s3_secret_key": "wrong"}, r"access refused \(SignatureDoesNotMatch\); check S3_ACCESS_KEY"),
        ({"s3_access_key": "wrong"}, r"access refused \(InvalidAccessKeyId\); check S3_ACCESS_KEY"),
        ({"url": "s3://nothing-here"}, "bucket nothing-here does not exist; create it"),
    ]:
        with pytest.raises(UnavailableError, match=says) as error:
            open_store(s3_server.settings(**changed))
        assert "\n" not in str(error.value)
        assert "correct horse" not in str(error.value)


def test_unreachable_endpoint_is_one_line(monkeypatch):
    monkeypatch.setenv("S3_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("S3_ACCESS_KEY", "a")
    monkeypatch.setenv("S3_SECRET_KEY", "b")
    with pytest.raises(
        UnavailableError,
        match=r"^store s3://one at http://127.0.0.1:9: cannot be reached .*; check S3_END.*$",
    ):
        open_store("s3://one")


@pytest.mark.parametrize(
    ("endpoint", "says"),
    [("127.0.0.1:9000", "give http://host:port"), ("http://127.0.0.1:9000", "needs S3_ACCESS_KEY")],
)
def test_incomplete_settings_are_named(monkeypatch, endpoint, says):
    monkeypatch.delenv("AWS_ACCESS_KEY_ID", raising=False)
    monkeypatch.setenv("S3_ENDPOINT_URL", endpoint)
    with pytest.raises(UsageError, match=says):
        open_store("s3://one")


def no_links(*_, **__):
    raise PermissionError(errno.EPERM, "Operation not permitted")


def test_a_file_system_without_hard_links_creates_under_a_lock(tmp_path, monkeypatch):
    """exFAT and many network file systems. The kernel of the tests has none, so `os.link` stands for it."""
    monkeypatch.setattr(os, "link", no_links)
    store = open_store(str(tmp_path))
    won = []

    def create(number):
        with contextlib.suppress(AlreadyExists):
            store.put_if_absent("a/race", str(number).encode())
            won.append(number)

    threads = [threading.Thread(target=create, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert store.get("a/race") == str(won[0]).encode()
    assert [entry.key for entry in store.list()] == ["a/race"]


def test_a_file_system_with_neither_links_nor_locks_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "link", no_links)
    monkeypatch.setattr(fcntl, "flock", lambda *_: None)
    with pytest.raises(UnavailableError, match="neither hard links nor locks"):
        open_store(str(tmp_path))


@pytest.mark.parametrize("again", [False, True], ids=["removed", "replaced"])
def test_a_folder_that_vanishes_is_not_made_anew(tmp_path, again):
    root = tmp_path / "store"
    store = open_store(str(root))
    store.put("a/b", b"x")
    shutil.rmtree(root)
    if again:
        (tmp_path / "other").mkdir()  # takes the number of the old one, where the file system gives it anew
        root.mkdir()
    for put in (store.put, store.put_if_absent):
        with pytest.raises(UnavailableError, match="removed, replaced or unmounted"):
            put("a/c", b"x")
    assert again or not root.exists()
    assert not list(root.glob("*"))


def test_another_process_finds_the_folder_by_its_name(tmp_path):
    store = pickle.loads(pickle.dumps(open_store(str(tmp_path))))  # noqa: S301
    store.put("a/b", b"x")
    assert store.get("a/b") == b"x"


def test_a_store_that_may_only_be_read_can_be_read(tmp_path, monkeypatch):
    store = open_store(str(tmp_path / "store"))
    store.put("a/b", b"x")

    def refuse(*_, **__):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(os, "mkdir", refuse)
    monkeypatch.setattr("questloop.storage.folder._create", refuse)
    monkeypatch.setattr(Path, "write_bytes", refuse)
    assert open_store(str(tmp_path / "store"), write=False).get("a/b") == b"x"
    with pytest.raises(UnavailableError, match="Read-only"):
        open_store(str(tmp_path / "store"))
    with pytest.raises(UnavailableError, match="No such file"):
        open_store(str(tmp_path / "nothing"), write=False)
