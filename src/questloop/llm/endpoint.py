"""The address of an OpenAI-compatible server, as people paste it."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import SplitResult, unquote, urlsplit

import httpx

from questloop.errors import UsageError
from questloop.redaction import shown

_TAILS = ("/chat/completions", "/completions", "/responses", "/embeddings", "/models", "/chat")
_EXAMPLE = "for example http://127.0.0.1:8000/v1"


@dataclass(frozen=True)
class Endpoint:
    """Where a server is; `url` may be shown, what may hold a secret stands apart."""

    url: str
    """base URL without user, password and query; `/chat/completions` is appended"""
    query: str = field(default="", repr=False)
    """goes with every request, such as `api-version=...`"""
    login: tuple[str, str] | None = field(default=None, repr=False)
    """user and password, for basic authentication"""


def read_endpoint(name: str, text: str, *, gateway: bool = False) -> Endpoint:
    """The server that `text`, the value of the setting `name`, means.

    A path of the API at its end is cut off, quotes and surrounding space too, and `/v1` is added where there
    is no path at all; a `gateway` has its paths before `/v1`. `UsageError` for what is no HTTP address.

    >>> read_endpoint("LLM_ENDPOINT", " http://host:8000/v1/chat/completions ").url
    'http://host:8000/v1'
    """
    text = text.strip().strip("\"'").strip()
    parts = _split(name, text)
    path = parts.path.rstrip("/")
    for tail in _TAILS:
        path = path.removesuffix(tail)
    path = path.rstrip("/")
    if gateway:
        path = path.removesuffix("/v1")
    elif not path:
        path = "/v1"
    login, _, place = parts.netloc.rpartition("@")
    user, _, password = login.partition(":")
    return Endpoint(
        url=f"{parts.scheme.lower()}://{place}{path}",
        query=parts.query,
        login=(unquote(user), unquote(password)) if login else None,
    )


def _split(name: str, text: str) -> SplitResult:
    def refusal(reason: str) -> UsageError:
        return UsageError(f"{name}={shown(text)!r}: {reason}, {_EXAMPLE}")

    if any(sign.isspace() or not sign.isprintable() for sign in text):
        raise refusal("a space or a control character stands in it")
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        reason = "its port is no number from 1 to 65535" if "port" in str(error).lower() else str(error)
        raise refusal(reason) from None
    if parts.scheme.lower() not in ("http", "https") or not host:
        raise refusal("not an http(s) URL")
    if port == 0:
        raise refusal("its port is no number from 1 to 65535")
    try:
        httpx.URL(text)
        host.encode("idna")
    except (httpx.InvalidURL, UnicodeError) as error:
        raise refusal(f"no address of a host ({error})") from None
    return parts
