"""Reads what a server answers over HTTP: a reply in any shape that is known, or an error.

| shape | read as |
|---|---|
| `message.content` a text, parts of text, an object, or in `tool_calls` | the completion |
| thinking in `<think>` and the like, or as parts of their own | left out |
| a choice without content | an empty completion, cut off where `finish_reason` says so |
| JSON under another content type | JSON |
| `{"error": ...}` under status 200 | the error that it names |
| 402, or 429 and others that speak of a quota, credit or a day's limit | `quota`: no waiting helps |
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any

import httpx

from questloop.llm.reply import ChatError, ChatFailure, ReplyChoice, Usage
from questloop.redaction import hide, shown

_LONGEST_WORDS = 300
_LENGTH = frozenset({"length", "max_tokens", "max_length", "model_length"})

_USED_UP = re.compile(
    r"insufficient[ _](quota|balance|funds|credit)|exceeded your current quota|billing|credit balance"
    r"|(enough|out of|more|no) credit|credits? (exhausted|exceeded|used)|payment required"
    r"|budget (has been )?exceeded|(daily|monthly|weekly|spending|spend|usage|key) (limit|quota|cap)"
    r"|per[ _-]?(day|month)|quota[ _]?(exhausted|exceeded|reached)"
)
_ALWAYS_USED_UP = re.compile(r"insufficient_(quota|balance|funds)|billing_hard_limit|insufficient balance")
_SOON = re.compile(r"per[ _-]?(minute|second)|\b(rpm|tpm)\b")
_WAIT = re.compile(r"(?:try again|retry|retrydelay\D{1,4}|wait)[a-z ]*?([\d.]+) ?(ms|s|m|h)?\b")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_SOON_S = 120.0

_THOUGHTS_END = re.compile(r"</(?:think|thinking|thought|reasoning|seed:think)>|\[/THINK\]|◁/think▷", re.I)
_THOUGHTS_BEGIN = re.compile(r"<(?:think|thinking|thought|reasoning|seed:think)>|\[THINK\]|◁think▷", re.I)
_FINAL = "<|channel|>final<|message|>"


def read_document(response: httpx.Response, raw: bytes, url: str) -> dict[str, Any]:
    """The JSON object of a reply; `ChatError` for every other one, with the server's words."""
    if not response.is_success:
        raise status_error(response.status_code, raw, url, response.headers)
    try:
        document = json.loads(raw)
    except (ValueError, RecursionError):
        document = None
    kind = response.headers.get("content-type", "").split(";")[0].strip().lower()
    if isinstance(document, dict):
        return document
    if kind != "application/json" and not kind.endswith("+json"):
        raise ChatError(
            ChatFailure.CONTENT_TYPE, f"{url}: answered {kind or 'no content type'}, not JSON", 200
        )
    what = "not whole JSON" if document is None else "not a JSON object"
    raise ChatError(ChatFailure.MALFORMED, f"{url}: reply is {what}", 200)


def status_error(status: int, raw: bytes, url: str, headers: Mapping[str, str]) -> ChatError:
    """Why a request failed, by its status and by what the server says."""
    text = hide(raw[:4000].decode("utf-8", "replace"))
    words = _words(text)
    low = text.lower()
    message = f"{url}: HTTP {status} {words}".rstrip()
    wait_s = _retry_after(headers, low)

    def error(reason: ChatFailure, hint: str = "") -> ChatError:
        return ChatError(reason, message + hint, status, wait_s, said=low)

    soon = bool(_SOON.search(low)) or (wait_s is not None and wait_s <= _SOON_S)
    spent = bool(_ALWAYS_USED_UP.search(low)) or (bool(_USED_UP.search(low)) and not soon)
    if status == 402 or (spent and status in (400, 403, 429, 503)):
        return error(ChatFailure.QUOTA)
    if status in (429, 503, 529):
        return error(ChatFailure.OVERLOADED)
    if status in (408, 425) or status >= 500:
        return error(ChatFailure.SERVER_ERROR)
    if status in (401, 403):
        return error(ChatFailure.AUTH, "; set LLM_API_KEY")
    if status == 407:
        return error(ChatFailure.AUTH, "; the proxy asks for a user and a password")
    if 300 <= status < 400:
        place = shown(headers.get("location", "")) or "nowhere"
        return error(ChatFailure.REFUSED, f"; it points to {place}: set LLM_ENDPOINT to what it stands for")
    if status == 404 and not re.search(r"/v\d+[a-z]*$", url.rpartition("/chat/completions")[0] or url):
        return error(ChatFailure.REFUSED, "; the address before /chat/completions mostly ends in /v1")
    return error(ChatFailure.REFUSED)


def read_choices(document: Mapping[str, Any], url: str) -> tuple[ReplyChoice, ...]:
    """Every completion of a reply; `ChatError` where there is none."""
    listed = document.get("choices")
    if not isinstance(listed, list) and isinstance(document.get("message"), dict):
        listed = [document]  # Ollama's own form
    if not isinstance(listed, list) or not listed:
        raise _error_inside(document, url)
    items = [item if isinstance(item, dict) else {} for item in listed]
    if all(item.get("error") for item in items):
        raise _error_inside(items[0], url)
    if all(isinstance(item.get("index"), int) for item in items):
        items.sort(key=lambda item: item["index"])
    return tuple(_choice(item) for item in items)


def read_usage(document: Mapping[str, Any]) -> Usage:
    """Tokens of a reply; 0 and None where the server does not say."""
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
    return value if isinstance(value, int) and 0 <= value < 2**53 else None


def _error_inside(document: Mapping[str, Any], url: str) -> ChatError:
    """The error of a reply whose status is good."""
    inner = document.get("error")
    error = inner if isinstance(inner, dict) else document
    text = json.dumps(document, ensure_ascii=False)
    code = error.get("code", error.get("status"))
    kind = f"{code} {error.get('type', '')}".lower()
    status = int(str(code)) if re.fullmatch("[45][0-9][0-9]", str(code)) else 0
    if not status:
        status = next((number for word, number in _KINDS if word in kind), 0)
    if status:
        return status_error(status, text.encode(), url, {})
    words = _words(text) if inner or "message" in document or "detail" in document else ""
    return ChatError(ChatFailure.MALFORMED, f"{url}: reply has no choices {words}".rstrip(), said=text)


_KINDS = (
    ("insufficient_quota", 429),
    ("rate_limit", 429),
    ("overloaded", 503),
    ("auth", 401),
    ("permission", 403),
    ("not_found", 404),
    ("invalid", 400),
    ("server_error", 500),
    ("timeout", 408),
)
"""words in an error's code or type, and the status that would say the same"""


def _choice(item: Mapping[str, Any]) -> ReplyChoice:
    message = item.get("message")
    message = message if isinstance(message, dict) else {}
    reason = str(item.get("finish_reason") or "").lower()
    text = _text(message.get("content", item.get("text")))
    if not text.strip():
        text = _called(message) or _text(message.get("refusal"))
    if not text.strip() and reason == "stop":
        # Some servers file a whole answer under the thoughts when thinking is switched off.
        text = _text(message.get("reasoning_content") or message.get("reasoning"))
    text = _without_thoughts(text).encode("utf-8", "replace").decode()
    return ReplyChoice(text=text, finish_reason="length" if reason in _LENGTH else reason)


def _text(content: Any) -> str:
    """The text of a message's content, in whatever form it comes."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(_text(part) for part in content)
    if not isinstance(content, dict):
        return ""
    if (
        content.get("type") in ("thinking", "reasoning", "redacted_thinking")
        or content.get("thought") is True
    ):
        return ""
    for name in ("text", "content", "parts", "value"):
        if name in content:
            return _text(content[name])
    return "" if "type" in content else json.dumps(content)  # an answer that the server parsed


def _called(message: Mapping[str, Any]) -> str:
    """The arguments of the first function that the model called: some servers enforce schemas so."""
    calls = message.get("tool_calls")
    first = calls[0] if isinstance(calls, list) and calls else {"function": message.get("function_call")}
    function = first.get("function") if isinstance(first, dict) else None
    return _text(function.get("arguments")) if isinstance(function, dict) else ""


def _without_thoughts(text: str) -> str:
    """What follows the thoughts; nothing where they never end: a draft in them is no answer."""
    if _FINAL in text:
        return text.rpartition(_FINAL)[2].partition("<|")[0]
    ends = list(_THOUGHTS_END.finditer(text))
    if ends:
        return text[ends[-1].end() :]
    begin = _THOUGHTS_BEGIN.search(text)
    return text[: begin.start()] if begin else text


def _words(text: str) -> str:
    """What a server says of an error, without the JSON around it."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        document = None
    if isinstance(document, list) and document:
        document = document[0]
    for name in ("error", "message", "msg", "detail"):
        if isinstance(document, dict) and document.get(name):
            document = document[name]
    words = document if isinstance(document, str) else text
    return " ".join(words[:_LONGEST_WORDS].split())


def _retry_after(headers: Mapping[str, str], text: str) -> float | None:
    """Seconds that the server wants to be left alone: of a header, which holds a number or a date, or of its
    words."""
    if (thousandths := _number(headers.get("retry-after-ms"))) is not None:
        return max(thousandths / 1000, 0.0)
    value = headers.get("retry-after")
    if value is not None:
        seconds = _number(value)
        if seconds is None:
            try:
                seconds = parsedate_to_datetime(value).timestamp() - time.time()
            except (ValueError, OverflowError):
                return None
        return max(seconds, 0.0)
    found = _WAIT.search(text)
    seconds = _number(found[1]) if found else None
    return None if seconds is None or found is None else seconds * _UNITS[found[2] or "s"]


def _number(value: str | None) -> float | None:
    try:
        number = float(value or "")
    except ValueError:
        return None
    return number if abs(number) < 1e9 else None
