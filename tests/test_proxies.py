"""Which requests a proxy sees."""

import asyncio
import base64
import re

import pytest
from tests.serving.hostile import Act, hostile

from questloop.errors import UnavailableError, UsageError
from questloop.llm.client import ChatClient
from questloop.llm.reply import ChatError
from questloop.llm.retry import RetryPolicy
from questloop.llm.routes import Role
from questloop.proxies import proxy_for
from questloop.settings import LLMSettings, StoreSettings
from questloop.storage.store import open_store

HELLO = [{"role": "user", "content": "hello"}]
NAMES = [
    "HTTP_PROXY",
    "http_proxy",
    "HTTPS_PROXY",
    "https_proxy",
    "ALL_PROXY",
    "all_proxy",
    "NO_PROXY",
    "no_proxy",
]


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


@pytest.mark.parametrize(
    "host", ["localhost", "127.0.0.1", "127.8.8.8", "[::1]", "[::ffff:127.0.0.1]", "a.localhost"]
)
@pytest.mark.parametrize("value", ["http://proxy:3128", "socks5://127.0.0.1:1080", "no proxy at all", "://"])
def test_this_machine_is_never_asked_by_a_proxy(environment, host, value):
    for name in ("HTTP_PROXY", "ALL_PROXY"):
        environment.setenv(name, value)
    assert proxy_for(f"http://{host}:8000/v1") is None


def test_others_are_by_the_variable_of_their_scheme(environment):
    environment.setenv("ALL_PROXY", "socks5h://all:1080")
    environment.setenv("http_proxy", "plain:3128")
    assert proxy_for("http://host/v1").url == "http://plain:3128"
    assert proxy_for("https://host/v1").variable == "ALL_PROXY"


@pytest.mark.parametrize(
    ("entry", "host", "left_out"),
    [
        ("*", "http://any.example", True),
        ("example.com", "http://example.com", True),
        ("example.com", "http://deep.example.com", True),
        ("example.com", "http://notexample.com", False),
        (".example.com, other", "http://a.example.com", True),
        ("*.example.com", "http://a.example.com", True),
        ("example.com:8000", "http://example.com:8000", True),
        ("example.com:8000", "http://example.com", False),
        ("10.0.0.0/8,fd00::/8,localhost", "http://10.1.2.3", True),
        ("10.0.0.0/8,fd00::/8,localhost", "http://[fd00::7]:8000", True),
        ("10.0.0.0/8,fd00::/8,localhost", "http://11.1.2.3", False),
        ("[fd00::7]", "http://[fd00::7]", True),
        ("fd00::7", "http://host", False),
        (",, ::: , /8 , http://x", "http://host", False),
        ("example.com.", "http://example.com", True),
        ("[FD00:0::7]:8000", "http://[fd00::7]:8000", True),
        ("[fd00::7]:8000", "http://[fd00::7]:9000", False),
        ("10.1.2.3:80", "http://10.1.2.3", True),
        ("other, *", "http://any.example", True),
    ],
)
def test_no_proxy_takes_what_people_write(environment, entry, host, left_out):
    environment.setenv("HTTP_PROXY", "http://proxy:3128")
    environment.setenv("NO_PROXY", entry)
    assert (proxy_for(host) is None) is left_out


UNUSABLE = [
    "ftp://x",
    "socks://x:1080",
    "socks4://x:1080",
    "http://",
    "//x:3128",
    "http:/x:3128",
    "http://host:port",
    "http://h:99999",
    "http://h: 3128",
    "http://h:-1",
    "http://h h:3128",
    "http://h\\h:3128",
    "http://\x7f:3128",
    "http://a..b:3128",
    "http://h:3128/path",
    "http://h:1,http://h:2",
    "http://[fd00::7",
    "http://fd00::7:3128",
    "'http://h:3128'",
    "nonsense://me:marked-secret@x",
    "http://me:marked-secret:3128",
    *(f"http://me:marked{sign}marked-secret@h:3128" for sign in "/?#[]\\ \n"),
    *(f"me:p@{sign}marked-secret@h:3128" for sign in "/?#"),
]


@pytest.mark.parametrize("value", UNUSABLE)
def test_one_that_cannot_be_used_is_named_with_the_remedy(environment, value):
    environment.setenv("HTTPS_PROXY", value)
    with pytest.raises(UsageError, match=r"HTTPS_PROXY=.*add judge.example to NO_PROXY") as error:
        proxy_for("https://judge.example/v1")
    assert "marked" not in str(error.value)


@pytest.mark.parametrize("names", [("no_proxy", "NO_PROXY"), ("NO_PROXY", "no_proxy")])
def test_both_spellings_count_so_that_the_remedy_works_in_either(environment, names):
    environment.setenv("ALL_PROXY", "http://proxy:3128")
    environment.setenv(names[0], "one.example")
    environment.setenv(names[1], "two.example")
    assert proxy_for("http://one.example") is proxy_for("http://two.example") is None
    assert proxy_for("http://three.example")


def test_the_lower_case_name_goes_first_and_an_empty_one_is_none(environment):
    environment.setenv("https_proxy", "http://lower:3128")
    environment.setenv("HTTPS_PROXY", "http://upper:3128")
    assert proxy_for("https://host").variable == "https_proxy"
    environment.setenv("https_proxy", " ")
    assert proxy_for("https://host").variable == "HTTPS_PROXY"


def of_a_store():
    """Ask an S3 store that is not on this machine."""
    server = {"s3_endpoint_url": "http://store.example:9000", "store_url": "s3://one"}
    open_store(StoreSettings(**server, s3_access_key="access-key", s3_secret_key="secret-key"), write=False)


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("http://me:marked-secret@127.0.0.1:9", r"cannot be reached.*by the proxy ALL_PROXY=http://\*\*\*@"),
        ("http://127.0.0.1:9", r"cannot be reached .*\(asked by the proxy ALL_PROXY=http://127.0.0.1:9;"),
        ("socks5h://me:marked-secret@127.0.0.1:9", "ALL_PROXY=.*has no SOCKS; .*add store.example"),
        ("SOCKS5://127.0.0.1:9", "ALL_PROXY=.*has no SOCKS; .*add store.example"),
        ("http://[fe80::1%25lo]:9", "ALL_PROXY=.*cannot use it; .*add store.example"),
        ("http://me:marked/marked-secret@127.0.0.1:9", "ALL_PROXY=.*add store.example"),
    ],
)
def test_a_store_names_the_proxy_that_keeps_it_away(environment, value, says):
    environment.setenv("ALL_PROXY", value)
    with pytest.raises((UnavailableError, UsageError), match=f"{says}.*NO_PROXY|{says} to NO_PROXY") as error:
        of_a_store()
    assert "marked" not in str(error.value)


@pytest.mark.parametrize("client", ["llm", "store"])
@pytest.mark.parametrize(
    ("login", "password"),
    [("p%40ss%2Fword", "p@ss/word"), ("p@ss", "p@ss"), ("p:ss", "p:ss"), ("p%2", "p%2")],
)
async def test_a_password_reaches_the_proxy_as_it_is(environment, client, login, password):
    seen = []

    async def refuse(reader, writer):
        seen.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as proxy:
        environment.setenv("ALL_PROXY", f"http://me:{login}@127.0.0.1:{proxy.sockets[0].getsockname()[1]}")
        asked = ask("http://judge.example/v1") if client == "llm" else asyncio.to_thread(of_a_store)
        with pytest.raises((ChatError, UnavailableError), match=r"407.*asked by the proxy.*NO_PROXY"):
            await asked
    sent = re.search(rb"(?i)proxy-authorization: basic (\S+)", seen[0])
    assert base64.b64decode(sent[1]).decode() == f"me:{password}"


async def ask(url, **settings):
    async with ChatClient(
        LLMSettings(llm_endpoint=url, **settings), retry=RetryPolicy(max_attempts=1)
    ) as client:
        return await client.chat(Role.STATE, HELLO)


async def test_socks_without_its_package_is_one_line(environment):
    environment.setenv("ALL_PROXY", "socks5://127.0.0.1:1080")
    environment.setitem(__import__("sys").modules, "socksio", None)
    with pytest.raises(UsageError, match=r"ALL_PROXY=.*httpx\[socks\].*NO_PROXY"):
        await ask("http://judge.example/v1")


async def test_a_proxy_that_does_not_answer_is_named(environment):
    environment.setenv("HTTP_PROXY", "http://me:marked-secret@127.0.0.1:9")
    with pytest.raises(
        ChatError, match=r"asked by the proxy HTTP_PROXY=http://\*\*\*@127.0.0.1:9; NO_PROXY"
    ) as error:
        await ask("http://judge.example/v1")
    assert "marked-secret" not in str(error.value)


async def test_a_proxy_that_answers_is_asked(environment):
    seen = []

    async def reply(reader, writer):
        seen.append(await reader.readuntil(b"\r\n\r\n"))
        body = b'{"choices": [{"message": {"content": "hi"}}]}'
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(reply, "127.0.0.1", 0) as proxy:
        environment.setenv("HTTP_PROXY", f"127.0.0.1:{proxy.sockets[0].getsockname()[1]}")
        assert (await ask("http://judge.example/v1")).choices[0].text == "hi"
    assert seen[0].startswith(b"POST http://judge.example/v1/chat/completions ")


async def test_the_embedded_kind_of_server_is_reached_whatever_is_set(environment):
    environment.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    environment.setenv("ALL_PROXY", "socks5://127.0.0.1:9")
    environment.setenv("NO_PROXY", "fd00::/8")
    async with hostile(lambda *_: Act.GOOD, lambda body, index: {"overall": 0.5}) as server:
        assert await ask(server.url)
