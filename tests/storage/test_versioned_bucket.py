"""A store in an S3 bucket that keeps versions: deletion leaves a marker and the old versions there."""

import itertools
import os

import pytest
from tests.cli.test_verify import RUN
from tests.pipeline.playing import play

from questloop.cli.doctor import check_store
from questloop.episodes.retention import retire_epochs
from questloop.pipeline.audit import audit_run, rewind
from questloop.settings import load
from questloop.storage import keys
from questloop.storage.commit import commit_stage, committed_epochs, to_json
from questloop.storage.keys import Stage
from questloop.storage.lease import Lease
from questloop.storage.store import AlreadyExists, NotFound, open_store

pytestmark = pytest.mark.integration
_names = itertools.count()


@pytest.fixture(params=["Enabled", "Suspended"])
def bucket(request, s3_server):
    """The server with its versioned bucket, and a prefix there that no other test uses."""
    s3_server.keep_versions("versioned", "Enabled")
    if request.param == "Suspended":
        s3_server.keep_versions("versioned", "Suspended")
    return s3_server, f"{os.getpid()}-{next(_names)}"


@pytest.fixture
def store(bucket):
    server, prefix = bucket
    return open_store(server.settings(f"s3://versioned/{prefix}"))


def test_what_was_deleted_is_gone_and_may_be_created_once_more(store):
    for _ in range(3):
        store.put_if_absent("a/once", b"1")
        with pytest.raises(AlreadyExists):
            store.put_if_absent("a/once", b"2")
        store.put("a/once", b"three")
        store.put("a/deep/b", b"")
        assert store.get("a/once") == b"three"
        assert {(entry.key, entry.size) for entry in store.list()} == {("a/once", 5), ("a/deep/b", 0)}
        assert store.folders("a") == ("deep",)
        store.delete(["a/once", "a/deep/b", "a/never"])
        for ask in (store.get, store.size):
            with pytest.raises(NotFound):
                ask("a/once")
        assert not store.exists("a/once")
        assert list(store.list()) == []
        assert store.folders() == ()


def test_an_audit_a_rewind_and_old_epochs_read_the_newest_versions_alone(store):
    store.put(keys.run(), to_json(RUN))
    play(store, slots=1, steps=300)
    for epoch in (1, 2):
        commit_stage(store, epoch, Stage.ROLLOUTS, 1, [], {})
    retire_epochs(store, 2)
    assert not [entry for entry in store.list("zelda-episodes") if entry.key.endswith("manifest.json")]
    assert audit_run(store).first_harmed != 0
    for fence in (1, 2):
        with Lease.acquire(store, RUN.run) as lease:
            assert lease.fence == fence
            rewind(store, 2, lease)
        assert committed_epochs(store, Stage.ROLLOUTS) == (0, 1)
        assert not store.exists(keys.commit(2, Stage.ROLLOUTS))
        commit_stage(store, 2, Stage.ROLLOUTS, fence, [], {})
        assert committed_epochs(store, Stage.ROLLOUTS) == (0, 1, 2)


def test_doctor_says_what_versions_cost(s3_server, monkeypatch):
    s3_server.keep_versions("versioned")
    for name, value in s3_server.environment().items():
        monkeypatch.setenv(name, value)
    url = f"s3://versioned/{os.getpid()}-doctor"
    store = open_store(url)
    store.put("a/b", b"old")
    store.put("a/b", b"new")
    store.delete(["a/b"])
    assert s3_server.versions("versioned", f"{os.getpid()}-doctor/a/") == {"Version": 2, "DeleteMarker": 1}
    for where, said in ((url, True), ("s3://one/doctor", False)):
        (found,) = check_store(load(flags={"store_url": where}), 0)
        assert found.ok
        assert ("versioned keeps versions" in found.detail) is said
