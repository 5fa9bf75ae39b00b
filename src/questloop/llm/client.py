"""Asynchronous client of OpenAI-compatible chat completions."""

from __future__ import annotations

import asyncio
import os
import ssl
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self
from urllib.parse import urlsplit

import httpx

from questloop.errors import UsageError
from questloop.llm.dialect import Dialect
from questloop.llm.limiter import AdaptiveLimiter
from questloop.llm.reply import ChatError, ChatFailure, Reply
from questloop.llm.retry import RetryPolicy
from questloop.llm.routes import Role, Route, failover_route, route_of
from questloop.llm.wire import read_choices, read_document, read_usage
from questloop.proxies import Proxy, proxy_for, through, unusable
from questloop.redaction import hide_bytes
from questloop.settings import LLMSettings
from questloop.telemetry.logs import get_logger

MAX_REPLY_BYTES = 1 << 20
CONNECT_TIMEOUT_S = 10.0
LONGEST_PAUSE_S = 120.0
TELL_AFTER_S = 10.0
"""waiting for a busy server is told from here on"""

log = get_logger(__name__)
Message = Mapping[str, Any]


@dataclass
class ClientStats:
    """What a client has done since it was made."""

    requests: int = 0
    retries: int = 0
    failovers: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    """attempts that failed, by reason, those later retried included"""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0


class ChatClient:
    """Talks to the models of every role over kept connections; one per event loop.

    Each server gets at most LLM_CONCURRENCY requests at once, fewer while it answers 429 or 503.

    >>> async def ask():                                                        # doctest: +SKIP
    ...     async with ChatClient(LLMSettings(llm_endpoint="http://127.0.0.1:8000/v1")) as client:
    ...         return await client.chat(Role.STATE, [{"role": "user", "content": "Hello"}])
    """

    def __init__(
        self,
        settings: LLMSettings,
        embedded_url: str | None = None,
        retry: RetryPolicy | None = None,
    ) -> None:
        self.settings = settings
        self.stats = ClientStats()
        self._embedded_url = embedded_url
        self._retry = retry or RetryPolicy()
        self._limiters: dict[str, AdaptiveLimiter] = {}
        self._dialects: dict[tuple[str, str], Dialect] = {}
        self._tls = _tls(settings)
        self._connections: dict[Proxy | None, httpx.AsyncClient] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for connections in self._connections.values():
            await connections.aclose()

    def route(self, role: Role) -> Route:
        """Where requests of `role` go."""
        return route_of(role, self.settings, self._embedded_url)

    async def chat(
        self,
        role: Role,
        messages: Sequence[Message],
        *,
        schema: Mapping[str, Any] | None = None,
        seed: int | None = None,
        n: int = 1,
        max_tokens: int = 256,
        temperature: float = 0.7,
    ) -> Reply:
        """Ask for `n` completions; `schema` asks the server to enforce a JSON schema.

        Raises `ChatError` when retries, and the failover model where one is configured, are spent.
        """
        route = self.route(role)
        body: dict[str, Any] = {
            "model": route.model,
            "messages": list(messages),
            "max_tokens": max_tokens,
            "temperature": temperature,
        }
        if n > 1:
            body["n"] = n
        if seed is not None:
            body["seed"] = seed
        if schema is not None:
            body["response_format"] = {
                "type": "json_schema",
                "json_schema": {"name": role.value, "strict": True, "schema": schema},
            }
        try:
            return await self._ask(route, body)
        except ChatError:
            backup = failover_route(route, self.settings)
            if backup is None:
                raise
            self.stats.failovers += 1
            reply = await self._ask(backup, body | {"model": backup.model})
            return replace(reply, failover_from=route.model)

    async def models(self, role: Role) -> list[str]:
        """Names of the models that the server of `role` offers."""
        route = self.route(role)
        document = await self._exchange("GET", route, "/models", None, uuid.uuid4().hex)
        listed = document.get("data", document.get("models"))
        items = listed if isinstance(listed, list) else []
        return [str(item.get("id") or item.get("name")) for item in items if isinstance(item, dict)]

    async def _ask(self, route: Route, body: Mapping[str, Any]) -> Reply:
        loop = asyncio.get_running_loop()
        limiter = self._limiters.setdefault(route.url, AdaptiveLimiter(self.settings.llm_concurrency))
        dialect = self._dialects.setdefault((route.url, route.model), Dialect())
        request_id = uuid.uuid4().hex
        began = loop.time()
        failures = overloads = 0
        refusal: ChatError | None = None
        while True:
            async with limiter.slot():
                sent, taken = loop.time(), dialect.taken
                written = dialect.write(body)
                try:
                    document = await self._exchange("POST", route, "/chat/completions", written, request_id)
                    reply = _reply(document, route, loop.time() - sent, failures + overloads + 1, request_id)
                except ChatError as error:
                    failure = error
                else:
                    dialect.worked(taken)
                    limiter.succeeded()
                    self._count(reply)
                    return reply
            self.stats.failures[failure.reason] += 1
            if dialect.refused(failure, written, taken):
                refusal = refusal or failure
                continue
            overloaded = failure.reason is ChatFailure.OVERLOADED
            overloads += overloaded
            failures += not overloaded
            wait = self._retry.delay(failure, failures, overloads, loop.time() - began)
            if overloaded:
                limiter.overloaded(sent, min(failure.retry_after_s or wait or 0.0, LONGEST_PAUSE_S))
            if wait is None:
                # Of what was tried in vain, the answer to the request as it was meant says most.
                raise refusal if refusal and failure.reason is ChatFailure.REFUSED else failure
            self.stats.retries += 1
            if wait > TELL_AFTER_S:
                log.warning("the server is busy", wait_s=round(wait), said=str(failure))
            await asyncio.sleep(wait)

    async def _exchange(
        self, method: str, route: Route, path: str, body: Mapping[str, Any] | None, request_id: str
    ) -> dict[str, Any]:
        """One attempt; its whole duration is bounded, however slowly bytes drip in."""
        url = route.url + path
        proxy = proxy_for(url)
        try:
            return await self._attempt(method, route, url, body, request_id, proxy)
        except ChatError as error:
            raise _through(proxy, error) from None

    async def _attempt(
        self,
        method: str,
        route: Route,
        url: str,
        body: Mapping[str, Any] | None,
        request_id: str,
        proxy: Proxy | None,
    ) -> dict[str, Any]:
        address = f"{url}?{route.query}" if route.query else url
        try:
            async with (
                asyncio.timeout(self.settings.llm_timeout_s),
                self._connect(proxy, url).stream(
                    method, address, json=body, headers={"X-Request-Id": request_id}, auth=route.login
                ) as response,
            ):
                raw = await _read(response, url)
        except httpx.ConnectTimeout as error:
            raise _transport_error(url, error) from None
        except (TimeoutError, httpx.TimeoutException):
            raise ChatError(
                ChatFailure.TIMEOUT,
                f"{url}: no answer within LLM_TIMEOUT_S={self.settings.llm_timeout_s:g}",
            ) from None
        except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
            raise _transport_error(url, error) from None
        return read_document(response, hide_bytes(raw), url)

    def _connect(self, proxy: Proxy | None, url: str) -> httpx.AsyncClient:
        """Kept connections, those by a proxy apart; the environment's proxies are read by `proxies` alone."""
        if proxy not in self._connections:
            settings = self.settings
            key = settings.llm_api_key
            try:
                self._connections[proxy] = httpx.AsyncClient(
                    headers={
                        "Accept": "application/json",
                        "Accept-Encoding": "identity",
                        **({"Authorization": f"Bearer {key.get_secret_value()}"} if key else {}),
                    },
                    timeout=httpx.Timeout(settings.llm_timeout_s, connect=CONNECT_TIMEOUT_S, pool=None),
                    limits=httpx.Limits(
                        max_connections=None, max_keepalive_connections=4 * settings.llm_concurrency
                    ),
                    verify=self._tls,
                    trust_env=False,
                    proxy=proxy.url if proxy else None,
                )
            except (ImportError, ValueError, httpx.InvalidURL) as error:
                assert proxy is not None
                why = "SOCKS needs `pip install 'httpx[socks]'`" if isinstance(error, ImportError) else error
                raise unusable(proxy, urlsplit(url).hostname or "", str(why)) from None
        return self._connections[proxy]

    def _count(self, reply: Reply) -> None:
        self.stats.requests += 1
        self.stats.prompt_tokens += reply.usage.prompt
        self.stats.completion_tokens += reply.usage.completion
        self.stats.cached_tokens += reply.usage.cached or 0


def _tls(settings: LLMSettings) -> ssl.SSLContext:
    bundle = settings.llm_ca_bundle
    try:
        if bundle is None:
            return httpx.create_ssl_context(trust_env=True)
        return ssl.create_default_context(cafile=str(bundle))
    except (OSError, ssl.SSLError) as error:
        name = f"LLM_CA_BUNDLE={bundle}" if bundle else f"SSL_CERT_FILE={os.environ.get('SSL_CERT_FILE')}"
        raise UsageError(f"{name}: not a readable PEM file: {error}") from None


async def _read(response: httpx.Response, url: str) -> bytes:
    size = 0
    chunks = []
    async for chunk in response.aiter_bytes():
        size += len(chunk)
        if size > MAX_REPLY_BYTES:
            raise ChatError(ChatFailure.TOO_LARGE, f"{url}: reply longer than {MAX_REPLY_BYTES} bytes")
        chunks.append(chunk)
    return b"".join(chunks)


def _transport_error(url: str, error: Exception) -> ChatError:
    text = str(error) or type(error).__name__
    if "CERTIFICATE_VERIFY_FAILED" in text:
        return ChatError(
            ChatFailure.TLS, f"{url}: certificate not trusted; set LLM_CA_BUNDLE to its CA ({text})"
        )
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
        return ChatError(ChatFailure.UNREACHABLE, f"{url}: cannot connect ({text}); is the server running?")
    if isinstance(error, httpx.DecodingError):
        return ChatError(ChatFailure.MALFORMED, f"{url}: reply cannot be unpacked ({text})")
    return ChatError(ChatFailure.CONNECTION, f"{url}: {text}")


def _through(proxy: Proxy | None, error: ChatError) -> ChatError:
    """The error of a request that a proxy may have spoilt says so."""
    if proxy is not None and error.reason not in (ChatFailure.QUOTA, ChatFailure.TOO_LARGE):
        error.args = (f"{error}{through(proxy)}",)
    return error


def _reply(
    document: Mapping[str, Any], route: Route, latency_s: float, attempts: int, request_id: str
) -> Reply:
    return Reply(
        choices=read_choices(document, route.url),
        model=str(document.get("model") or route.model),
        usage=read_usage(document),
        latency_s=latency_s,
        attempts=attempts,
        request_id=request_id,
    )
