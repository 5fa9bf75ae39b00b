"""No secret in what is said."""

import io
import json

import pytest

from questloop import settings
from questloop.errors import BadDataError, UsageError
from questloop.redaction import hide, hide_bytes, remember, remember_url, shown
from questloop.telemetry import logs

KEY = "marked-secret-0451"


def test_what_settings_read_is_hidden_everywhere(monkeypatch):
    monkeypatch.setenv("LLM_API_KEY", f"  {KEY}\n")
    read = settings.load()
    assert read.llm.llm_api_key.get_secret_value() == KEY
    assert str(BadDataError(f"a server said {KEY}")) == "a server said ***"
    assert KEY not in repr(read.llm)
    stream = io.StringIO()
    logs.configure(stream=stream)
    logs.get_logger("x").warning("said", words=f"it said {KEY}")
    logs.configure()
    assert KEY not in stream.getvalue()
    assert json.loads(stream.getvalue())["words"] == "it said ***"
    assert hide_bytes(f"x{KEY}y".encode()) == b"x***y"


def test_a_message_is_one_line():
    assert str(UsageError("a\n  b\r\nc")) == "a b c"


@pytest.mark.parametrize(
    ("url", "secret"),
    [
        ("postgresql://me:p%40ss-word@host/db", "p%40ss-word"),
        ("nats://tok-en-of-nats@host", "tok-en-of-nats"),
        ("https://host/v1?api-key=abc-def-ghi&x=1", "abc-def-ghi"),
        *((f"https://me:word{sign}marked-rest@host:80/v1", "marked-rest") for sign in "/?#[]"),
        ("https://me:w@rd/marked-rest@host", "marked-rest"),
        ("me:marked-rest@host:80", "marked-rest"),
    ],
)
def test_urls_hide_their_secrets(url, secret):
    remember_url(url)
    assert secret not in hide(f"cannot reach {url}")
    assert secret not in shown(url)


def test_the_longer_of_two_secrets_is_hidden_whole():
    remember("prefix-of")
    remember("prefix-of-another")
    assert hide("a prefix-of-another b") == "a *** b"


def test_what_is_no_secret_stays():
    for word in ("none", "EMPTY", "questloop"):
        remember(word)
    assert hide("none EMPTY `questloop verify`") == "none EMPTY `questloop verify`"


SECRETS = ["llm_api_key", "s3_access_key", "s3_secret_key", "dashboard_token"]


@pytest.mark.parametrize("name", SECRETS)
@pytest.mark.parametrize(
    "bad", ["marked-\u2013secret", "marked\nsecret", "marked\x00secret", "mark\u00e9secret"]
)
def test_what_no_header_holds_is_refused_by_its_name(name, bad):
    with pytest.raises(UsageError, match=name.upper()) as error:
        settings.load(flags={name: bad})
    assert "secret" not in str(error.value).removeprefix(name.upper())
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", sorted(settings.secret_names()))
def test_no_refusal_shows_a_secret(name):
    with pytest.raises(UsageError) as error:
        settings.load(flags={name: ["marked-secret"]})
    assert "marked-secret" not in str(error.value)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("s3://bucket/run@2", "s3://bucket/run@2"),
        ("file:///runs/a@b", "file:///runs/a@b"),
        ("http://[::1]:80/x@y", "http://[::1]:80/x@y"),
        ("http://host:80/v1?user=a@b", "http://host:80/v1?***"),
        ("http://me:not-at-all:80", "http://me:***"),
        ("127.0.0.1:9000", "127.0.0.1:9000"),
        ("http://", "http://"),
        ("", ""),
    ],
)
def test_what_is_no_login_is_shown(url, says):
    assert shown(url) == says
