import asyncio
import json
import ssl

import pytest
from tests.serving.hostile import BAD_CONTENT, DIALECTS, ENDS, GOOD_CONTENT, Act, hostile

from questloop.errors import UsageError
from questloop.llm.client import ChatClient
from questloop.llm.reply import FINAL, ChatError, ChatFailure
from questloop.llm.retry import RetryPolicy
from questloop.llm.routes import Role
from questloop.llm.structured import parse_object
from questloop.llm.wire import status_error
from questloop.settings import LLMSettings

HELLO = [{"role": "user", "content": "hello"}]
QUICK = RetryPolicy(base_s=0.01, cap_s=0.05)


def answer(body, index):
    return {"overall": 0.5}


def always(act):
    return lambda body, index, attempt: act


async def ask(server, times=1, **settings):
    values = {"llm_endpoint": server.url, "llm_timeout_s": 1.0} | settings
    async with ChatClient(LLMSettings(**values), retry=QUICK) as client:
        replies = await asyncio.gather(*(client.chat(Role.STATE, HELLO, seed=i) for i in range(times)))
        return replies, client.stats


async def test_a_reply_carries_text_tokens_and_latency():
    async with hostile(always(Act.GOOD), answer) as server:
        [reply], stats = await ask(server)
    assert reply.choices[0].text == '{"overall": 0.5}'
    assert (reply.usage.prompt, reply.usage.completion, reply.usage.cached) == (100, 10, 60)
    assert reply.latency_s > 0
    assert (stats.requests, stats.cached_tokens) == (1, 60)


async def test_request_carries_what_was_asked():
    schema = {"type": "object"}
    async with (
        hostile(always(Act.GOOD), answer) as server,
        ChatClient(LLMSettings(llm_endpoint=server.url)) as client,
    ):
        reply = await client.chat(
            Role.VISION, HELLO, schema=schema, seed=7, n=3, max_tokens=9, temperature=0.1
        )
    [body] = server.bodies
    assert len(reply.choices) == 3
    assert (body["model"], body["seed"], body["n"], body["max_tokens"]) == ("qwen25-vl-32b", 7, 3, 9)
    assert body["response_format"]["json_schema"]["schema"] == schema


async def test_connections_are_reused():
    async with hostile(always(Act.GOOD), answer) as server:
        await ask(server, times=40, llm_concurrency=4)
    assert len(server.bodies) == 40
    assert server.connections <= 4


@pytest.mark.parametrize("act", [Act.STORM, Act.BUSY, Act.ERROR_ONCE, Act.DROP_ONCE])
async def test_transient_failures_are_asked_again(act):
    async with hostile(always(act), answer) as server:
        [reply], stats = await ask(server)
    assert reply.attempts == len(server.bodies) > 1
    assert stats.retries == reply.attempts - 1


@pytest.mark.parametrize(
    ("act", "reason", "attempts"),
    [
        (Act.ERROR, ChatFailure.SERVER_ERROR, 3),
        (Act.DROP, ChatFailure.CONNECTION, 3),
        (Act.HALF_BODY, ChatFailure.MALFORMED, 3),
        (Act.NO_CHOICES, ChatFailure.MALFORMED, 3),
        (Act.HTML, ChatFailure.CONTENT_TYPE, 1),
        (Act.HUGE, ChatFailure.TOO_LARGE, 1),
    ],
)
async def test_lasting_failures_end_with_their_reason(act, reason, attempts):
    async with hostile(always(act), answer) as server:
        with pytest.raises(ChatError) as failed:
            await ask(server)
        assert failed.value.reason is reason
        assert server.url in str(failed.value)
        assert len(server.bodies) == attempts


@pytest.mark.parametrize("act", [Act.HANG, Act.DRIP])
async def test_the_timeout_bounds_the_whole_request(act):
    async with hostile(always(act), answer) as server:
        with pytest.raises(ChatError) as failed:
            await ask(server, llm_timeout_s=0.4)
        assert failed.value.reason is ChatFailure.TIMEOUT


async def test_backs_off_under_429_and_loses_nothing():
    async with hostile(always(Act.GOOD), answer, capacity=2, latency_s=0.01) as server:
        replies, stats = await ask(server, times=60, llm_concurrency=16)
    assert len(replies) == 60
    assert server.statuses[200] == 60
    assert server.statuses[429] == stats.failures["overloaded"] > 0
    assert server.statuses[429] < 120


async def test_cancelled_requests_free_their_slots():
    def script(body, index, attempt):
        return Act.HANG if body["seed"] < 4 else Act.GOOD

    async with hostile(script, answer) as server:
        settings = LLMSettings(llm_endpoint=server.url, llm_concurrency=4)
        async with ChatClient(settings, retry=QUICK) as client:
            stuck = [asyncio.create_task(client.chat(Role.STATE, HELLO, seed=i)) for i in range(4)]
            waiting = [asyncio.create_task(client.chat(Role.STATE, HELLO, seed=i)) for i in range(4, 8)]
            await asyncio.sleep(0.1)
            for task in stuck:
                task.cancel()
            replies = await asyncio.wait_for(asyncio.gather(*waiting), 5)
    assert len(replies) == 4


async def test_failover_is_used_only_where_configured_and_is_recorded():
    def script(body, index, attempt):
        return Act.ERROR if body["model"] == "qwen25-7b" else Act.GOOD

    async with hostile(script, answer) as server:
        with pytest.raises(ChatError):
            await ask(server)
        [reply], stats = await ask(server, llm_failover_model="backup")
    assert (reply.model, reply.failover_from) == ("backup", "qwen25-7b")
    assert stats.failovers == 1


async def test_nobody_listening_is_named():
    async with ChatClient(LLMSettings(llm_endpoint="http://127.0.0.1:9/v1"), retry=QUICK) as client:
        with pytest.raises(ChatError, match=r"127\.0\.0\.1:9.*is the server running") as failed:
            await client.chat(Role.STATE, HELLO)
    assert failed.value.reason is ChatFailure.UNREACHABLE


def test_a_bad_ca_bundle_is_named(tmp_path):
    bundle = tmp_path / "ca.pem"
    bundle.write_text("no certificate")
    with pytest.raises(UsageError, match="LLM_CA_BUNDLE"):
        ChatClient(LLMSettings(llm_ca_bundle=bundle))


async def test_the_ca_bundle_decides_whom_to_trust(tmp_path):
    pytest.importorskip("cryptography", reason="makes the test's certificate")
    certificate, key = _certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)

    async def reply(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        body = b'{"choices": [{"message": {"content": "hi"}}]}'
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(reply, "127.0.0.1", 0, ssl=context) as server:
        endpoint = f"https://localhost:{server.sockets[0].getsockname()[1]}/v1"
        async with ChatClient(LLMSettings(llm_endpoint=endpoint), retry=QUICK) as client:
            with pytest.raises(ChatError, match="LLM_CA_BUNDLE") as failed:
                await client.chat(Role.STATE, HELLO)
        assert failed.value.reason is ChatFailure.TLS
        async with ChatClient(LLMSettings(llm_endpoint=endpoint, llm_ca_bundle=certificate)) as client:
            assert (await client.chat(Role.STATE, HELLO)).choices[0].text == "hi"


async def test_the_key_is_sent_and_never_shown():
    seen = []

    async def reply(reader, writer):
        seen.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(
            b"HTTP/1.1 401 Unauthorized\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
        )
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(reply, "127.0.0.1", 0) as server:
        endpoint = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        async with ChatClient(LLMSettings(llm_endpoint=endpoint, llm_api_key="s3cret")) as client:
            with pytest.raises(ChatError, match="LLM_API_KEY") as failed:
                await client.chat(Role.STATE, HELLO)
    assert b"Authorization: Bearer s3cret" in seen[0]
    assert "s3cret" not in str(failed.value)
    assert len(seen) == 1


def _certificate(folder):
    from datetime import UTC, datetime, timedelta

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    (folder / "cert.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    plain = serialization.NoEncryption()
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    (folder / "key.pem").write_bytes(pem)
    return folder / "cert.pem", folder / "key.pem"


@pytest.mark.parametrize("act", sorted(GOOD_CONTENT | {Act.TEXT_PLAIN, Act.NO_TYPE, Act.CREATED}))
async def test_every_known_shape_of_an_answer_is_read(act):
    async with hostile(always(act), answer) as server:
        [reply], _ = await ask(server)
        assert parse_object(reply.choices[0].text, ["overall"]) == {"overall": 0.5}
        assert len(server.bodies) == 1


@pytest.mark.parametrize("act", sorted(BAD_CONTENT))
async def test_an_answer_of_any_shape_is_a_reply(act):
    """A choice without content costs its own vote, not those beside it, and is not asked for again."""

    def second(body, index, attempt):
        return act if index == 1 else Act.GOOD

    async with (
        hostile(second, answer) as server,
        ChatClient(LLMSettings(llm_endpoint=server.url), retry=QUICK) as client,
    ):
        reply = await client.chat(Role.STATE, HELLO, n=3)
        assert len(server.bodies) == 1
    assert [choice.text for choice in reply.choices][::2] == ['{"overall": 0.5}'] * 2
    reply.choices[1].text.encode()
    cut = act in (Act.CUT_OFF, Act.NO_CONTENT, Act.DRAFT)
    assert reply.choices[1].finish_reason == ("length" if cut else "" if act is Act.NO_CHOICE else "stop")


@pytest.mark.parametrize("act", sorted(ENDS))
async def test_what_no_other_request_would_mend_is_said_at_once(act):
    async with hostile(always(act), answer) as server:
        with pytest.raises(ChatError) as failed:
            await ask(server, llm_api_key="marked-secret")
        assert len(server.bodies) == 1
    assert failed.value.reason in FINAL
    assert "marked-secret" not in str(failed.value)


@pytest.mark.parametrize("act", [Act.BUSY_IN_WORDS, Act.BUSY_UNDER_200])
async def test_a_busy_server_may_say_so_in_its_own_way(act):
    async with hostile(always(act), answer) as server:
        [reply], _ = await ask(server)
    assert reply.attempts == 2


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("Rate limit reached for requests per min (RPM)", ChatFailure.OVERLOADED),
        (
            "You exceeded your current quota. Quota exceeded for metric GenerateRequestsPerMinute",
            "overloaded",
        ),
        ("You exceeded your current quota. Please retry in 32.6s.", ChatFailure.OVERLOADED),
        ("You exceeded your current quota, please check your plan and billing details.", ChatFailure.QUOTA),
        ("Your credit balance is too low to access the API.", ChatFailure.QUOTA),
        ("Insufficient Balance", ChatFailure.QUOTA),
        ("Budget has been exceeded! Current cost: 10.1, Max budget: 10", ChatFailure.QUOTA),
        ("free-models-per-day limit reached. Add 10 credits to unlock 1000 requests", ChatFailure.QUOTA),
        ("Too many requests", ChatFailure.OVERLOADED),
        ("Model is overloaded, try again later", ChatFailure.OVERLOADED),
    ],
)
def test_limits_are_told_apart_by_their_words(words, reason):
    raw = json.dumps({"error": {"message": words}}).encode()
    error = status_error(429, raw, "http://host/v1/chat/completions", {})
    assert error.reason == reason
    assert words[:60] in str(error)


async def test_a_limit_that_outlasts_patience_is_not_waited_for():
    async def reply(reader, writer):
        seen.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 429 X\r\nRetry-After: 86400\r\nContent-Length: 2\r\n\r\n{}")
        await writer.drain()
        writer.close()

    seen = []
    async with await asyncio.start_server(reply, "127.0.0.1", 0) as server:
        endpoint = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        async with ChatClient(LLMSettings(llm_endpoint=endpoint), retry=QUICK) as client:
            with pytest.raises(ChatError, match="429"):
                await asyncio.wait_for(client.chat(Role.STATE, HELLO), 5)
    assert len(seen) == 1


@pytest.mark.parametrize("refused", sorted(DIALECTS))
async def test_what_a_server_does_not_take_is_asked_for_once(refused):
    async with (
        hostile(always(Act.GOOD), answer, refuses=frozenset({refused})) as server,
        ChatClient(LLMSettings(llm_endpoint=server.url), retry=QUICK) as client,
    ):
        for _ in range(3):
            await client.chat(Role.STATE, HELLO, schema={"type": "object"}, seed=1, n=3)
    assert server.statuses[400] <= 2
    assert server.statuses[200] == 3
    last = server.bodies[-1]
    assert last["n"] == 3
    if refused == "max_tokens":
        assert last["max_completion_tokens"] == 256


async def test_a_refusal_that_is_about_the_prompt_is_told_as_it_was():
    """What was tried in vain is taken back, and the first answer is the one that is shown."""
    async with (
        hostile(always(Act.TOO_LONG), answer) as server,
        ChatClient(LLMSettings(llm_endpoint=server.url), retry=QUICK) as client,
    ):
        for _ in range(2):
            with pytest.raises(ChatError, match="maximum context length") as failed:
                await client.chat(Role.STATE, HELLO, schema={"type": "object"})
            assert failed.value.reason is ChatFailure.REFUSED
    assert "response_format" in server.bodies[-1]


async def test_user_and_password_of_the_address_are_sent_and_hidden():
    seen = []

    async def reply(reader, writer):
        seen.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 500 X\r\nContent-Length: 2\r\n\r\n{}")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(reply, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        endpoint = f"http://me:marked%20secret@127.0.0.1:{port}/v1?api-version=7"
        async with ChatClient(LLMSettings(llm_endpoint=endpoint), retry=QUICK) as client:
            with pytest.raises(ChatError) as failed:
                await client.chat(Role.STATE, HELLO)
    assert b"POST /v1/chat/completions?api-version=7 " in seen[0]
    assert b"Authorization: Basic bWU6bWFya2VkIHNlY3JldA==" in seen[0]
    assert "marked" not in str(failed.value)
