"""Asynchronous client of OpenAI-compatible chat completions."""

from __future__ import annotations

import asyncio
import json
import ssl
import time
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime
from typing import Any, Self

import httpx

from questloop.errors import UsageError
from questloop.llm.limiter import AdaptiveLimiter
from questloop.llm.reply import ChatError, Choice, FailureReason, Reply, Usage
from questloop.llm.retry import RetryPolicy
from questloop.llm.routes import Role, Route, failover_route, route_of
from questloop.settings import LLMSettings

MAX_REPLY_BYTES = 1 << 20
CONNECT_TIMEOUT_S = 10.0
MAX_RETRY_AFTER_S = 120.0

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
    """Talks to the models of every role over kept connections; one an event loop.

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
        key = settings.llm_api_key
        self._http = httpx.AsyncClient(
            headers={
                "Accept": "application/json",
                "Accept-Encoding": "identity",
                **({"Authorization": f"Bearer {key.get_secret_value()}"} if key else {}),
            },
            timeout=httpx.Timeout(settings.llm_timeout_s, connect=CONNECT_TIMEOUT_S, pool=None),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=4 * settings.llm_concurrency),
            verify=_tls(settings),
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()

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
        return [str(item.get("id")) for item in document.get("data", []) if isinstance(item, dict)]

    async def _ask(self, route: Route, body: Mapping[str, Any]) -> Reply:
        loop = asyncio.get_running_loop()
        limiter = self._limiters.setdefault(route.url, AdaptiveLimiter(self.settings.llm_concurrency))
        request_id = uuid.uuid4().hex
        began = loop.time()
        failures = overloads = 0
        while True:
            async with limiter.slot():
                sent = loop.time()
                try:
                    document = await self._exchange("POST", route, "/chat/completions", body, request_id)
                    reply = _reply(document, route, loop.time() - sent, failures + overloads + 1, request_id)
                except ChatError as error:
                    failure = error
                else:
                    limiter.succeeded()
                    self._count(reply)
                    return reply
            self.stats.failures[failure.reason] += 1
            overloaded = failure.reason is FailureReason.OVERLOADED
            overloads += overloaded
            failures += not overloaded
            wait = self._retry.delay(failure, failures, overloads, loop.time() - began)
            if overloaded:
                limiter.overloaded(sent, failure.retry_after_s or wait or 0.0)
            if wait is None:
                raise failure
            self.stats.retries += 1
            await asyncio.sleep(wait)

    async def _exchange(
        self, method: str, route: Route, path: str, body: Mapping[str, Any] | None, request_id: str
    ) -> dict[str, Any]:
        """One attempt; its whole duration is bounded, however slowly bytes drip in."""
        url = route.url + path
        try:
            async with (
                asyncio.timeout(self.settings.llm_timeout_s),
                self._http.stream(method, url, json=body, headers={"X-Request-Id": request_id}) as response,
            ):
                raw = await _read(response, url)
        except httpx.ConnectTimeout as error:
            raise _transport_error(url, error) from None
        except (TimeoutError, httpx.TimeoutException):
            raise ChatError(
                FailureReason.TIMEOUT,
                f"{url}: no answer within LLM_TIMEOUT_S={self.settings.llm_timeout_s:g}",
            ) from None
        except httpx.TransportError as error:
            raise _transport_error(url, error) from None
        return _document(response, raw, url)

    def _count(self, reply: Reply) -> None:
        self.stats.requests += 1
        self.stats.prompt_tokens += reply.usage.prompt
        self.stats.completion_tokens += reply.usage.completion
        self.stats.cached_tokens += reply.usage.cached or 0


def _tls(settings: LLMSettings) -> ssl.SSLContext | bool:
    bundle = settings.llm_ca_bundle
    if bundle is None:
        return True
    try:
        return ssl.create_default_context(cafile=str(bundle))
    except (OSError, ssl.SSLError) as error:
        raise UsageError(f"LLM_CA_BUNDLE={bundle}: not a readable PEM file: {error}") from None


async def _read(response: httpx.Response, url: str) -> bytes:
    size = 0
    chunks = []
    async for chunk in response.aiter_bytes():
        size += len(chunk)
        if size > MAX_REPLY_BYTES:
            raise ChatError(FailureReason.TOO_LARGE, f"{url}: reply longer than {MAX_REPLY_BYTES} bytes")
        chunks.append(chunk)
    return b"".join(chunks)


def _transport_error(url: str, error: httpx.TransportError) -> ChatError:
    text = str(error) or type(error).__name__
    if "CERTIFICATE_VERIFY_FAILED" in text:
        return ChatError(
            FailureReason.TLS, f"{url}: certificate not trusted; set LLM_CA_BUNDLE to its CA ({text})"
        )
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
        return ChatError(FailureReason.UNREACHABLE, f"{url}: cannot connect ({text}); is the server running?")
    return ChatError(FailureReason.CONNECTION, f"{url}: {text}")


def _document(response: httpx.Response, raw: bytes, url: str) -> dict[str, Any]:
    status = response.status_code
    if status != 200:
        raise _status_error(response, raw, url)
    kind = response.headers.get("content-type", "").split(";")[0].strip().lower()
    if kind != "application/json" and not kind.endswith("+json"):
        raise ChatError(
            FailureReason.CONTENT_TYPE, f"{url}: answered {kind or 'no content type'}, not JSON", status
        )
    try:
        document = json.loads(raw)
    except (ValueError, RecursionError):
        raise ChatError(FailureReason.MALFORMED, f"{url}: reply is not whole JSON", status) from None
    if not isinstance(document, dict):
        raise ChatError(FailureReason.MALFORMED, f"{url}: reply is not a JSON object", status)
    return document


def _status_error(response: httpx.Response, raw: bytes, url: str) -> ChatError:
    status = response.status_code
    excerpt = " ".join(raw[:300].decode("utf-8", "replace").split())
    message = f"{url}: HTTP {status} {excerpt}".rstrip()
    if status in (429, 503):
        return ChatError(FailureReason.OVERLOADED, message, status, _retry_after(response))
    if status in (408, 425) or status >= 500:
        return ChatError(FailureReason.SERVER_ERROR, message, status)
    if status in (401, 403):
        return ChatError(FailureReason.AUTH, f"{message}; set LLM_API_KEY", status)
    return ChatError(FailureReason.REFUSED, message, status)


def _retry_after(response: httpx.Response) -> float | None:
    """Seconds of a Retry-After header, which holds a number or a date."""
    value = response.headers.get("retry-after")
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - time.time()
        except ValueError:
            return None
    return min(max(seconds, 0.0), MAX_RETRY_AFTER_S) if seconds == seconds else None


def _reply(
    document: Mapping[str, Any], route: Route, latency_s: float, attempts: int, request_id: str
) -> Reply:
    try:
        choices = tuple(_choice(item) for item in document["choices"])
    except (KeyError, TypeError):
        choices = ()
    if not choices:
        raise ChatError(FailureReason.MALFORMED, f"{route.url}: reply has no choices")
    return Reply(
        choices=choices,
        model=str(document.get("model") or route.model),
        usage=_usage(document),
        latency_s=latency_s,
        attempts=attempts,
        request_id=request_id,
    )


def _choice(item: Mapping[str, Any]) -> Choice:
    content = item["message"]["content"]
    return Choice(
        text=content if isinstance(content, str) else "", finish_reason=str(item.get("finish_reason") or "")
    )


def _usage(document: Mapping[str, Any]) -> Usage:
    usage = document.get("usage")
    if not isinstance(usage, dict):
        return Usage()
    details = usage.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else None
    return Usage(
        prompt=_tokens(usage.get("prompt_tokens")) or 0,
        completion=_tokens(usage.get("completion_tokens")) or 0,
        cached=_tokens(cached),
    )


def _tokens(value: Any) -> int | None:
    return value if isinstance(value, int) and value >= 0 else None
