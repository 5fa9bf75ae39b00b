"""A real S3 server behind a proxy that fails."""

import itertools
from datetime import timedelta

import pytest
from tests.storage.faulty_proxy import faulty_proxy

from questloop.cli.doctor import check_store
from questloop.errors import UnavailableError, UsageError
from questloop.settings import Settings
from questloop.storage import s3, s3_client
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
    monkeypatch.setitem(s3_client.PATIENT, "retry_timeout", timedelta(seconds=1))
    monkeypatch.setattr(s3, "_REPEAT_WITHIN_S", 1.0)
    store = open_store(s3_server.settings("s3://one/away", s3_endpoint_url=proxy.endpoint))
    proxy.always("reset")
    with pytest.raises(UnavailableError, match="cannot be reached"):
        getattr(store, put)(f"a/{put}", b"x")
    assert 2 <= proxy.seen <= 30
    proxy.faults.clear()
    assert not store.exists(f"a/{put}")


@pytest.mark.parametrize("lacks", ["conditions", "conditional puts"])
@pytest.mark.parametrize("url", ["s3://one/lacking", "s3://"])
def test_a_server_without_conditional_writes_is_refused_when_it_is_opened(s3_server, proxy, lacks, url):
    """Two pipelines would hold the lease at once on it."""
    proxy.lacks = lacks
    settings = s3_server.settings(url, s3_endpoint_url=proxy.endpoint)
    with pytest.raises(UnavailableError, match="no conditional writes") as error:
        open_store(settings)
    assert "\n" not in str(error.value)
    open_store(settings, write=False)
    proxy.lacks = ""
    left = [entry.key for entry in open_store(settings).list() if "probe" in entry.key]
    assert not left


def test_doctor_says_so(s3_server, proxy):
    proxy.lacks = "conditions"
    settings = Settings(**s3_server.settings("s3://one", s3_endpoint_url=proxy.endpoint).model_dump())
    [check] = check_store(settings, 200)
    assert not check.ok
    assert "If-None-Match" in check.detail


def test_a_conflict_of_two_writers_is_asked_again(store, proxy):
    proxy.faults.extend(["ConditionalRequestConflict"] * 2)
    store.put_if_absent("a/once", b"mine")
    assert store.get("a/once") == b"mine"
    proxy.faults.append("ConditionalRequestConflict")
    with pytest.raises(AlreadyExists):
        store.put_if_absent("a/once", b"another's")


def test_a_server_without_bulk_delete_is_asked_one_by_one(store, proxy):
    for name in ("a/1", "a/2"):
        store.put(name, b"x")
    proxy.lacks = "bulk delete"
    store.delete(["a/1", "a/2", "a/3"])
    assert not list(store.list("a"))


@pytest.mark.parametrize(
    ("code", "advice"),
    [("RequestTimeTooSkewed", "the clock of this machine"), ("InvalidTokenId", "AWS_SESSION_TOKEN")],
)
def test_a_refusal_gets_the_advice_that_fits_it(store, proxy, code, advice):
    proxy.always(code)
    with pytest.raises(UnavailableError, match=advice):
        store.get("a/b")


@pytest.mark.parametrize("name", ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"])
@pytest.mark.parametrize("value", ["http://127.0.0.1:9", "socks5://127.0.0.1:9", "nonsense://x"])
def test_a_server_on_this_machine_is_asked_by_no_proxy(s3_server, monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    open_store(s3_server.settings("s3://one/no-proxy")).put("a", b"x")


def test_other_servers_are_asked_by_the_proxy(s3_server, proxy, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", proxy.endpoint)
    settings = s3_server.settings("s3://one/by-proxy", s3_endpoint_url="http://s3.example:9000")
    open_store(settings).put("a", b"x")
    assert proxy.seen
    monkeypatch.setenv("HTTP_PROXY", "socks5://127.0.0.1:9")
    with pytest.raises(UsageError, match=r"HTTP_PROXY=socks5.*NO_PROXY"):
        open_store(settings)


@pytest.mark.parametrize(
    "changed",
    [
        {"store_url": "s3://key:marked-secret@one"},
        {"s3_endpoint_url": "http://key:marked-secret@127.0.0.1:9"},
        {"s3_endpoint_url": "http://127.0.0.1:port?token=marked-secret"},
        {"s3_endpoint_url": "ftp://:marked-secret@host"},
    ],
)
def test_addresses_with_secrets_in_them_are_refused_without_them(s3_server, changed):
    with pytest.raises(UsageError) as error:
        open_store(s3_server.settings(**{"url": "s3://one"} | changed))
    assert "marked-secret" not in str(error.value)
