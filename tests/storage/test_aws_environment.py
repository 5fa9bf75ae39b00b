"""A store beside AWS_* variables that are of other programs, accounts and servers."""

import os
import re
import ssl
from pathlib import Path

import obstore
import pytest
from tests.llm.test_client import _certificate
from tests.storage.faulty_proxy import faulty_proxy

from questloop.errors import UnavailableError, UsageError
from questloop.settings import StoreSettings
from questloop.storage.store import open_store

pytestmark = pytest.mark.integration

PLAUSIBLE = {
    "AWS_ACCESS_KEY_ID": "others",
    "AWS_SECRET_ACCESS_KEY": "others",
    "AWS_SESSION_TOKEN": "token-of-another-account",
    "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
    "AWS_ENDPOINT_URL_S3": "http://127.0.0.1:9",
    "AWS_SKIP_SIGNATURE": "true",
    "AWS_REQUEST_PAYER": "true",
    "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "true",
    "AWS_DEFAULT_REGION": "elsewhere-1",
    "AWS_SERVER_SIDE_ENCRYPTION": "aws:kms",
    "AWS_SSE_KMS_KEY_ID": "arn:aws:kms:elsewhere-1:1:key/of-another-account",
    "AWS_CHECKSUM_ALGORITHM": "sha256",
    "AWS_S3_EXPRESS": "true",
    "AWS_PROXY_URL": "http://127.0.0.1:9",
    "AWS_CONDITIONAL_PUT": "disabled",
}


def documented():
    """Every AWS_* name that the library documents, and those of its client's options."""
    folder = Path(obstore.__file__).parent / "_store"
    names = set(re.findall(r"AWS_[A-Z0-9_]+", (folder / "_aws.pyi").read_text()))
    options = re.findall(r"^    ([a-z0-9_]+): ", (folder / "_client.pyi").read_text(), re.M)
    return names | {f"AWS_{name.upper()}" for name in options}


@pytest.fixture
def proxy(s3_server, monkeypatch):
    for name in list(os.environ):
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)
    with faulty_proxy(s3_server.endpoint) as proxy:
        yield proxy


def work(store):
    store.put("a/b", b"x")
    assert store.get("a/b") == b"x"
    store.delete(["a/b"])


def shapes(proxy):
    """The headers of what was asked, without what changes from one request to the next."""
    return {tuple(sorted(headers.keys() - {"content-length", "content-type"})) for headers in proxy.headers}


@pytest.mark.parametrize("value", ["plausible", "nonsense"])
def test_with_keys_of_ours_nothing_of_aws_is_used(s3_server, proxy, monkeypatch, value):
    settings = s3_server.settings("s3://one/ours", s3_endpoint_url=proxy.endpoint)
    work(open_store(settings))
    alone = shapes(proxy)
    proxy.headers.clear()
    others = PLAUSIBLE if value == "plausible" else dict.fromkeys(documented(), "nonsense")
    assert PLAUSIBLE.keys() <= documented()
    for name, text in others.items():
        monkeypatch.setenv(name, text)
    work(open_store(settings))
    assert shapes(proxy) == alone
    for headers in proxy.headers:
        assert f"Credential={s3_server.access_key}/" in headers["authorization"]
        assert "/us-east-1/" in headers["authorization"]
    assert {name: os.environ[name] for name in others} == others


def test_without_them_aws_is_where_keys_region_and_encryption_come_from(s3_server, proxy, monkeypatch):
    meant = {
        "AWS_ACCESS_KEY_ID": s3_server.access_key,
        "AWS_SECRET_ACCESS_KEY": s3_server.secret_key,
        "AWS_DEFAULT_REGION": "eu-central-1",
        "AWS_SERVER_SIDE_ENCRYPTION": "AES256",
        "AWS_ENDPOINT_URL_S3": "http://127.0.0.1:9",
    }
    for name, text in meant.items():
        monkeypatch.setenv(name, text)
    settings = StoreSettings(store_url="s3://one/theirs", s3_endpoint_url=proxy.endpoint)
    open_store(settings, write=False)
    assert all("/eu-central-1/" in headers["authorization"] for headers in proxy.headers)
    named = settings.model_copy(update={"s3_region_name": "us-west-2"})
    proxy.headers.clear()
    work(open_store(named))
    assert all("/us-west-2/" in headers["authorization"] for headers in proxy.headers)
    assert any(headers.get("x-amz-server-side-encryption") == "AES256" for headers in proxy.headers)


@pytest.mark.parametrize(
    ("name", "value"),
    [("AWS_SERVER_SIDE_ENCRYPTION", "none"), ("AWS_S3_EXPRESS", "true"), ("AWS_DISABLE_TAGGING", "perhaps")],
)
def test_what_the_library_cannot_use_is_one_line(s3_server, proxy, monkeypatch, name, value):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", s3_server.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", s3_server.secret_key)
    monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match=r"^bucket one: .*AWS_\* variables") as refused:
        open_store(StoreSettings(store_url="s3://one", s3_endpoint_url=proxy.endpoint))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("name", ["s3_access_key", "s3_secret_key"])
def test_half_a_pair_of_keys_is_not_filled_up_from_aws(s3_server, proxy, monkeypatch, name):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "others")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "others")
    with pytest.raises(UsageError, match=rf"^{name.upper()} is not set"):
        open_store(s3_server.settings("s3://one", s3_endpoint_url=proxy.endpoint, **{name: None}))
    assert not proxy.headers


def test_a_certificate_that_is_not_trusted_is_called_so(s3_server, proxy, tmp_path):
    pytest.importorskip("cryptography", reason="makes the test's certificate")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*_certificate(tmp_path))
    proxy.server.socket = context.wrap_socket(proxy.server.socket, server_side=True)
    endpoint = proxy.endpoint.replace("http://127.0.0.1", "https://localhost")
    with pytest.raises(UnavailableError, match=r"certificate is not trusted \(\w+\); set SSL_CERT_FILE"):
        open_store(s3_server.settings("s3://one", s3_endpoint_url=endpoint))
