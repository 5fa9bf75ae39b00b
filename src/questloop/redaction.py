"""Secrets that this process knows, kept out of everything it says.

Settings hand their secrets in when they are read. Every error of Questloop, every line of a log and every
reply of a server passes through `hide`, so that a key does not reach a terminal, a store or a page even where
a library or a server repeats it.
"""

from __future__ import annotations

import threading
from urllib.parse import quote, urlsplit, urlunsplit

SHORTEST = 6
"""Characters. What is shorter (`none`, `EMPTY`) is no secret, and hiding it would tear texts apart."""
HIDDEN = "***"
_OURS = "questloop"
"""stands in every remedy; whoever takes it for a password has none"""

_lock = threading.Lock()
_known: tuple[str, ...] = ()


def remember(secret: str) -> None:
    """Hide `secret` from now on, as it stands and as URLs write it."""
    global _known
    written = {secret, secret.strip(), quote(secret, safe="")} - {_OURS}
    forms = {form for form in written if len(form) >= SHORTEST}
    with _lock:
        # Longest first: one secret may be the beginning of another.
        _known = tuple(sorted({*_known, *forms}, key=lambda form: (-len(form), form)))


def remember_url(url: str) -> None:
    """Hide the password of a URL, and the values of its query, which may hold a key."""
    rest = url.partition("://")[2]
    login, at, _ = rest.partition("/")[0].rpartition("@")
    if at:
        remember(login.partition(":")[2] or login)
    for item in url.partition("?")[2].split("&"):
        name, _, value = item.partition("=")
        if any(word in name.lower() for word in ("key", "token", "secret", "password", "sig")):
            remember(value)


def hide(text: str) -> str:
    """`text` with every known secret replaced by `***`."""
    for secret in _known:
        if secret in text:
            text = text.replace(secret, HIDDEN)
    return text


def hide_bytes(data: bytes) -> bytes:
    """As `hide`, for the body of a reply."""
    for secret in _known:
        if (raw := secret.encode("utf-8", "surrogateescape")) in data:
            data = data.replace(raw, HIDDEN.encode())
    return data


def shown(url: str) -> str:
    """A URL as messages show it: without user, password and query.

    >>> shown("https://me:word@host:8000/v1?key=1")
    'https://***@host:8000/v1?***'
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        return hide(url.partition("?")[0].rpartition("@")[2])
    place = parts.netloc.rpartition("@")
    netloc = f"{HIDDEN}@{place[2]}" if place[1] else place[2]
    query = HIDDEN if parts.query else ""
    return hide(urlunsplit((parts.scheme, netloc, parts.path, query, "")))
