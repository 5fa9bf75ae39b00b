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
    """What becomes of a request or, of those below CONTENT, of one completion."""

    GOOD = "good"
    STORM = "storm"  # 429 three times, then good
    BUSY = "busy"  # 503 with Retry-After, then good
    ERROR_ONCE = "error_once"  # 500, then good
    DROP_ONCE = "drop_once"  # the connection closes in the middle of the body, then good
    ERROR = "error"
    REFUSE = "refuse"  # 400
    HANG = "hang"
    DRIP = "drip"
    DROP = "drop"
    HTML = "html"
    HUGE = "huge"
    HALF_BODY = "half_body"
    NO_CHOICES = "no_choices"
    # content
    FENCED = "fenced"  # good, in prose and a fence
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


CONTENT = frozenset(list(Act)[list(Act).index(Act.FENCED) :])

JSON = "application/json"
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
    away: bool = False
    """it closes every connection without an answer"""
    bodies: list[dict[str, Any]] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)
    connections: int = 0
    in_flight: int = 0
    attempts: Counter[str] = field(default_factory=Counter)
    tasks: set[Any] = field(default_factory=set)

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
        headers = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:] if b": " in line)
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
        self.in_flight += 1
        try:
            await asyncio.sleep(self.latency_s)
            return await self._act(writer, body, self.attempts[key])
        finally:
            self.in_flight -= 1

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
            case Act.ERROR:
                return await self._reply(writer, b"oh", 500)
            case Act.REFUSE:
                return await self._reply(writer, b'{"error": "no"}', 400)
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
            case Act.HTML:
                return await self._reply(writer, b"<html>please log in</html>", 200, kind="text/html")
            case Act.HUGE:
                return await self._reply(writer, b" " * (2 << 20) + whole, 200)
            case Act.HALF_BODY:
                return await self._reply(writer, whole[: len(whole) // 2], 200)
            case Act.NO_CHOICES:
                return await self._reply(writer, b'{"choices": []}', 200)
        return await self._reply(writer, whole, 200)

    def _document(self, body: dict[str, Any], attempt: int) -> dict[str, Any]:
        n = body.get("n", 1) if self.supports_n else 1
        choices = []
        for index in range(n):
            act = self.script(body, index, attempt)
            good = json.dumps(self.answer(body, index))
            text = _content(act, good)
            reason = "length" if act is Act.CUT_OFF else "stop"
            choices.append({"index": index, "finish_reason": reason, "message": {"content": text}})
        usage = {
            "prompt_tokens": 100,
            "completion_tokens": 10 * n,
            "prompt_tokens_details": {"cached_tokens": 60},
        }
        return {"model": body.get("model"), "choices": choices, "usage": usage}

    async def _reply(
        self,
        writer: asyncio.StreamWriter,
        body: bytes,
        status: int,
        extra: str = "",
        kind: str = "application/json",
    ) -> bool:
        self.statuses[status] += 1
        head = f"HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n{extra}\r\n"
        writer.write(head.encode() + body)
        await writer.drain()
        return True


def _content(act: Act, good: str) -> str:
    def with_overall(value: str) -> str:
        return good[: good.rindex(":") + 1] + value + "}"

    return {
        Act.FENCED: f"Let me see.\n```json\n{good}\n```\nDone {{I hope}}.",
        Act.HALF_JSON: good[: len(good) // 2],
        Act.CUT_OFF: good[: len(good) // 2],
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
