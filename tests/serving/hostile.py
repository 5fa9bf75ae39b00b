"""A server that misbehaves as told: raw sockets, since no framework would send such replies."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Act(StrEnum):
    """What becomes of a request or, of those from PLAIN on, of one completion."""

    GOOD = "good"
    STORM = "storm"  # 429 three times, then good
    BUSY = "busy"  # 503 with Retry-After, then good
    BUSY_IN_WORDS = "busy_in_words"  # 429 that says in its text when to come again, then good
    ERROR_ONCE = "error_once"  # 500, then good
    DROP_ONCE = "drop_once"  # the connection closes in the middle of the body, then good
    BUSY_UNDER_200 = "busy_under_200"  # an overload under a good status, then good
    TEXT_PLAIN = "text_plain"  # JSON that calls itself text
    NO_TYPE = "no_type"  # JSON without a content type
    CREATED = "created"  # 201, as some gateways say
    # what asking again mends in time, or another server
    ERROR = "error"
    HANG = "hang"
    DRIP = "drip"
    DROP = "drop"
    HTML = "html"
    STREAM = "stream"  # server-sent events, though none were asked for
    HALF_BODY = "half_body"
    BAD_ZIP = "bad_zip"
    NO_CHOICES = "no_choices"
    ERROR_UNDER_200 = "error_under_200"
    # what is about this one request
    REFUSE = "refuse"  # 400
    TOO_LONG = "too_long"  # 400 that names the context's length
    MOVED = "moved"  # 308
    HUGE = "huge"
    REFUSED_UNDER_200 = "refused_under_200"
    # what ends a pass at once
    QUOTA = "quota"  # 429 insufficient_quota
    CREDIT = "credit"  # 402
    DAY_LIMIT = "day_limit"  # 429 until tomorrow
    QUOTA_UNDER_200 = "quota_under_200"
    LOGIN = "login"  # 401 that repeats the key
    # content that counts
    FENCED = "fenced"  # good, in prose and a fence
    PARTS = "parts"  # text in parts, thoughts among them
    THOUGHTS = "thoughts"  # a draft in <think>, then good
    CHANNELS = "channels"
    PARSED = "parsed"  # an object in place of its text
    CALLED = "called"  # as the arguments of a function
    MISFILED = "misfiled"  # under reasoning_content
    OLD_FORM = "old_form"  # as `text` beside no message
    # content that does not
    HALF_JSON = "half_json"
    PROSE = "prose"
    EMPTY = "empty"
    OUT_OF_RANGE = "out_of_range"
    NEGATIVE = "negative"
    NAN = "nan"
    INFINITE = "infinite"
    TEXT_NUMBER = "text_number"
    BOOLEAN = "boolean"
    BARE_NUMBER = "bare_number"
    MISSING = "missing"
    CUT_OFF = "cut_off"
    NO_CONTENT = "no_content"  # out of tokens while thinking
    NULL = "null"
    NO_CHOICE = "no_choice"  # null in place of the choice
    DRAFT = "draft"  # a good answer in thoughts that never end
    DECLINED = "declined"
    HALF_PAIR = "half_pair"  # half of a surrogate pair


_ACTS = list(Act)
GOOD_CONTENT = frozenset(_ACTS[_ACTS.index(Act.FENCED) : _ACTS.index(Act.HALF_JSON)])
BAD_CONTENT = frozenset(_ACTS[_ACTS.index(Act.HALF_JSON) :])
PASSING = frozenset(_ACTS[: _ACTS.index(Act.ERROR)])
OUTAGES = frozenset(_ACTS[_ACTS.index(Act.ERROR) : _ACTS.index(Act.REFUSE)])
REFUSALS = frozenset(_ACTS[_ACTS.index(Act.REFUSE) : _ACTS.index(Act.QUOTA)])
ENDS = frozenset(_ACTS[_ACTS.index(Act.QUOTA) : _ACTS.index(Act.FENCED)])
CONTENT = GOOD_CONTENT | BAD_CONTENT

JSON = "application/json"
DIALECTS: dict[str, str] = {
    "response_format": "This response_format type is unavailable now",
    "json_schema": "'response_format.type' : value is not one of the allowed values ['text','json_object']",
    "max_tokens": "Unsupported parameter: 'max_tokens' is not supported with this model. "
    "Use 'max_completion_tokens' instead.",
    "temperature": "Unsupported value: 'temperature' does not support 0.7 with this model.",
    "seed": "property 'seed' is unsupported",
}
"""what a server may refuse in a request, and its words"""
PROMISE = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 9999\r\n\r\n"
"""of more than ever comes"""

Script = Callable[[dict[str, Any], int, int], Act]
"""from the request's body, the number of the completion and of the attempt"""
Answer = Callable[[dict[str, Any], int], dict[str, Any]]


@dataclass
class Hostile:
    """What the server does and what it saw."""

    script: Script
    answer: Answer
    url: str = ""
    capacity: int | None = None
    """requests at once beyond which it answers 429"""
    latency_s: float = 0.0
    supports_n: bool = True
    refuses: frozenset[str] = frozenset()
    """of `DIALECTS`"""
    wordless: bool = False
    """it refuses those without saying why"""
    away: bool = False
    """it closes every connection without an answer"""
    bodies: list[dict[str, Any]] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)
    connections: int = 0
    in_flight: int = 0
    attempts: Counter[str] = field(default_factory=Counter)
    tasks: set[Any] = field(default_factory=set)
    login: bytes = b""
    """the last request's Authorization"""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.tasks.add(asyncio.current_task())
        try:
            while await self._exchange(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, TimeoutError):
            pass
        finally:
            writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = await reader.readuntil(b"\r\n\r\n")
        headers = dict(_header(line) for line in head.split(b"\r\n")[1:] if b": " in line)
        body = json.loads(await reader.readexactly(int(headers.get(b"content-length", b"0"))) or b"{}")
        if self.away:
            return False
        if head.startswith(b"GET "):  # /v1/models
            return await self._reply(writer, b'{"data": []}', 200)
        self.bodies.append(body)
        key = json.dumps([body.get("messages"), body.get("seed")])
        self.attempts[key] += 1
        if self.capacity is not None and self.in_flight >= self.capacity:
            return await self._reply(writer, b"{}", 429, "Retry-After: 0.05\r\n")
        if (refused := self._refused(body)) is not None:
            words = "Bad Request" if self.wordless else DIALECTS[refused]
            return await self._reply(writer, json.dumps({"error": {"message": words}}).encode(), 400)
        self.in_flight += 1
        self.login = headers.get(b"authorization", b"")
        try:
            await asyncio.sleep(self.latency_s)
            return await self._act(writer, body, self.attempts[key])
        finally:
            self.in_flight -= 1

    def _refused(self, body: dict[str, Any]) -> str | None:
        form = body.get("response_format", {}).get("type")
        asked = {*body, form, *(["response_format"] if form else [])}
        return next((name for name in DIALECTS if name in asked and name in self.refuses), None)

    async def _act(self, writer: asyncio.StreamWriter, body: dict[str, Any], attempt: int) -> bool:
        act = self.script(body, 0, attempt)
        whole = json.dumps(self._document(body, attempt)).encode()
        match act:
            case Act.STORM if attempt <= 3:
                return await self._reply(writer, b"{}", 429)
            case Act.BUSY if attempt == 1:
                return await self._reply(writer, b"{}", 503, "Retry-After: 0.1\r\n")
            case Act.ERROR_ONCE if attempt == 1:
                return await self._reply(writer, b"oh", 500)
            case Act.BUSY_IN_WORDS if attempt == 1:
                return await self._fail(writer, 429, "Rate limit reached. Please try again in 50ms.")
            case Act.BUSY_UNDER_200 if attempt == 1:
                return await self._fail(writer, 200, "Overloaded", type="overloaded_error")
            case Act.HANG:
                await asyncio.sleep(30)
                return False
            case Act.DRIP:
                writer.write(PROMISE)
                for byte in whole:
                    writer.write(bytes([byte]))
                    await writer.drain()
                    await asyncio.sleep(0.2)
                return False
            case Act.DROP | Act.DROP_ONCE if act is Act.DROP or attempt == 1:
                writer.write(PROMISE)
                writer.write(whole[:20])
                await writer.drain()
                return False
            case Act.MOVED:
                return await self._reply(writer, b"", 308, "Location: https://elsewhere.example/v1?key=1\r\n")
            case Act.BAD_ZIP:
                return await self._reply(writer, b"no zip", 200, "Content-Encoding: gzip\r\n")
            case Act.HTML:
                return await self._reply(writer, b"<html>please log in</html>", 200, kind="text/html")
            case Act.STREAM:
                return await self._reply(writer, b"data: {}\n\n", 200, kind="text/event-stream")
            case Act.TEXT_PLAIN:
                return await self._reply(writer, whole, 200, kind="text/plain; charset=utf-8")
            case Act.NO_TYPE:
                return await self._reply(writer, whole, 200, kind="")
            case Act.CREATED:
                return await self._reply(writer, whole, 201)
            case Act.LOGIN:
                return await self._fail(writer, 401, f"Incorrect API key: {self.login.decode()}")
        if act in _BODIES:
            status, body_of = _BODIES[act]
            return await self._reply(writer, body_of(whole), status)
        return await self._reply(writer, whole, 200)

    def _document(self, body: dict[str, Any], attempt: int) -> dict[str, Any]:
        n = body.get("n", 1) if self.supports_n else 1
        choices = []
        for index in range(n):
            act = self.script(body, index, attempt)
            choices.append(_choice(act, index, json.dumps(self.answer(body, index))))
        usage = {
            "prompt_tokens": 100,
            "completion_tokens": 10 * n,
            "prompt_tokens_details": {"cached_tokens": 60},
        }
        return {"model": body.get("model"), "choices": choices, "usage": usage}

    async def _fail(self, writer: asyncio.StreamWriter, status: int, words: str, **more: Any) -> bool:
        return await self._reply(writer, json.dumps({"error": {"message": words, **more}}).encode(), status)

    async def _reply(
        self,
        writer: asyncio.StreamWriter,
        body: bytes,
        status: int,
        extra: str = "",
        kind: str = "application/json",
    ) -> bool:
        self.statuses[status] += 1
        named = f"Content-Type: {kind}\r\n" if kind else ""
        head = f"HTTP/1.1 {status} X\r\n{named}Content-Length: {len(body)}\r\n{extra}\r\n"
        writer.write(head.encode() + body)
        await writer.drain()
        return True


def _header(line: bytes) -> tuple[bytes, bytes]:
    name, _, value = line.partition(b": ")
    return name.lower(), value


def _said(message: str, **more: Any) -> Callable[[bytes], bytes]:
    return lambda whole: json.dumps({"error": {"message": message, **more}}).encode()


_BODIES: dict[Act, tuple[int, Callable[[bytes], bytes]]] = {
    Act.ERROR: (500, lambda whole: b"oh"),
    Act.HALF_BODY: (200, lambda whole: whole[: len(whole) // 2]),
    Act.NO_CHOICES: (200, lambda whole: b'{"choices": []}'),
    Act.ERROR_UNDER_200: (200, _said("engine died", code=500)),
    Act.REFUSE: (400, lambda whole: b'{"error": "no"}'),
    Act.TOO_LONG: (400, _said("This model's maximum context length is 4096 tokens")),
    Act.HUGE: (200, lambda whole: b" " * (2 << 20) + whole),
    Act.REFUSED_UNDER_200: (200, _said("No endpoints found that support image input", code=404)),
    Act.QUOTA: (429, _said("You exceeded your current quota.", code="insufficient_quota")),
    Act.CREDIT: (402, _said("Insufficient Balance")),
    Act.DAY_LIMIT: (429, _said("Limit reached: 1000 requests per day (RPD). Try again in 7h12m.")),
    Act.QUOTA_UNDER_200: (200, _said("You have no credit left", code="insufficient_quota")),
}


def _choice(act: Act, index: int, good: str) -> Any:
    """One completion in the shape that `act` names."""
    shapes: dict[Act, dict[str, Any]] = {
        Act.PARTS: {
            "content": [
                {"type": "thinking", "thinking": [{"type": "text", "text": '{"overall": 0.99}'}]},
                {"type": "text", "text": good[:9]},
                good[9:],
            ]
        },
        Act.PARSED: {"content": json.loads(good)},
        Act.CALLED: {"content": None, "tool_calls": [{"function": {"name": "f", "arguments": good}}]},
        Act.MISFILED: {"content": None, "reasoning_content": good},
        Act.NO_CONTENT: {"role": "assistant", "reasoning": good},
        Act.NULL: {"content": None},
        Act.DECLINED: {"content": None, "refusal": "I cannot judge that."},
    }
    if act is Act.NO_CHOICE:
        return None
    cut = act in (Act.CUT_OFF, Act.NO_CONTENT, Act.DRAFT)
    choice = {"index": index, "finish_reason": "length" if cut else "stop"}
    if act is Act.OLD_FORM:
        return choice | {"text": good}
    return choice | {"message": shapes.get(act, {"content": _content(act, good)})}


def _content(act: Act, good: str) -> str:
    def with_overall(value: str) -> str:
        return good[: good.rindex(":") + 1] + value + "}"

    return {
        Act.FENCED: f"Let me see.\n```json\n{good}\n```\nDone {{I hope}}.",
        Act.HALF_JSON: good[: len(good) // 2],
        Act.CUT_OFF: good[: len(good) // 2],
        Act.THOUGHTS: f'<think>perhaps {{"overall": 0.99}}</think>{good}',
        Act.CHANNELS: f"<|channel|>analysis<|message|>hm {good[:5]}<|end|><|channel|>final<|message|>{good}",
        Act.DRAFT: f"<think>perhaps {good}",
        Act.HALF_PAIR: "\ud83d",
        Act.PROSE: "Cannot evaluate",
        Act.EMPTY: "",
        Act.OUT_OF_RANGE: with_overall("15"),
        Act.NEGATIVE: with_overall("-0.1"),
        Act.NAN: with_overall("NaN"),
        Act.INFINITE: with_overall("1e999"),
        Act.TEXT_NUMBER: with_overall('"0.8x"'),
        Act.BOOLEAN: with_overall("true"),
        Act.BARE_NUMBER: "7",
        Act.MISSING: good.replace('"overall"', '"overal"'),
    }.get(act, good)


@asynccontextmanager
async def hostile(script: Script, answer: Answer, **options: Any):
    """Run the server in the loop of the test."""
    server = Hostile(script, answer, **options)
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server.url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/v1"
    try:
        yield server
    finally:
        listener.close()
        for task in server.tasks:
            task.cancel()
        await asyncio.gather(*server.tasks, return_exceptions=True)
