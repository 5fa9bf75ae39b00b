"""A real S3 server behind a proxy that fails."""

import itertools
from datetime import timedelta

import pytest
from tests.storage.faulty_proxy import faulty_proxy

from questloop.errors import UnavailableError
from questloop.storage import s3
from questloop.storage.commit import commit_stage, read_commit
from questloop.storage.keys import Stage
from questloop.storage.lease import Lease
from questloop.storage.store import AlreadyExists, open_store

pytestmark = pytest.mark.integration
_names = itertools.count()


@pytest.fixture
def proxy(s3_server):
    with faulty_proxy(s3_server.endpoint) as proxy:
        yield proxy


@pytest.fixture
def store(s3_server, proxy):
    return open_store(s3_server.settings(f"s3://one/faults-{next(_names)}", s3_endpoint_url=proxy.endpoint))


@pytest.mark.parametrize("fault", [500, 503, "reset", "lost reply"])
def test_passing_faults_are_ridden_out(store, proxy, fault):
    proxy.faults.extend([fault] * 3)
    store.put("a/b", b"x")
    proxy.faults.extend([fault] * 2)
    assert store.get("a/b") == b"x"
    proxy.faults.extend([fault] * 2)
    assert [entry.key for entry in store.list("a")] == ["a/b"]
    proxy.faults.extend([fault] * 2)
    store.delete(["a/b"])
    assert not store.exists("a/b")


def test_lost_reply_to_a_create_only_put_is_told_apart(store, proxy):
    """The store cannot know whose object it is: the caller reads it back."""
    proxy.faults.append("lost reply")
    with pytest.raises(AlreadyExists):
        store.put_if_absent("a/once", b"mine")
    assert store.get("a/once") == b"mine"


def test_lost_replies_to_lease_and_commit_do_no_harm(store, proxy):
    proxy.faults.extend([503, "lost reply"])
    with Lease.acquire(store, "r1", background=False) as lease:
        assert lease.fence == 1
        proxy.faults.extend([503, "lost reply"])
        commit_stage(store, 0, Stage.ROLLOUTS, lease.fence, [])
    proxy.faults.clear()
    assert read_commit(store, 0, Stage.ROLLOUTS).fence == 1


def test_expired_credentials_are_named_at_once(store, proxy):
    proxy.always(403)
    before = proxy.seen
    with pytest.raises(UnavailableError, match=r"access refused \(ExpiredToken\); check S3_ACCESS_KEY"):
        store.put("a/b", b"x")
    assert proxy.seen == before + 1


@pytest.mark.parametrize("fault", [500, "reset", "stall"])
def test_an_endpoint_that_fails_is_noticed_when_it_is_opened(s3_server, proxy, fault):
    proxy.always(fault)
    with pytest.raises(UnavailableError, match="check S3_ENDPOINT_URL and that the server runs") as error:
        open_store(s3_server.settings("s3://one", s3_endpoint_url=proxy.endpoint))
    assert "\n" not in str(error.value)
    assert proxy.seen <= 3


@pytest.mark.parametrize("put", ["put", "put_if_absent"])
def test_a_store_that_stays_away_is_given_up(s3_server, proxy, monkeypatch, put):
    monkeypatch.setitem(s3._PATIENT, "retry_timeout", timedelta(seconds=1))
    monkeypatch.setattr(s3, "_REPEAT_WITHIN_S", 1.0)
    store = open_store(s3_server.settings("s3://one/away", s3_endpoint_url=proxy.endpoint))
    proxy.always("reset")
    with pytest.raises(UnavailableError, match="cannot be reached"):
        getattr(store, put)(f"a/{put}", b"x")
    assert 2 <= proxy.seen <= 30
    proxy.faults.clear()
    assert not store.exists(f"a/{put}")
