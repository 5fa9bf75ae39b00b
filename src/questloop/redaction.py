"""Secrets that this process knows, kept out of everything it says.

Settings hand their secrets in when they are read. Every error of Questloop, every line of a log and every
reply of a server passes through `hide`, so that a key does not reach a terminal, a store or a page even where
a library or a server repeats it.
"""

from __future__ import annotations

import re
import threading
from urllib.parse import quote

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
    _, login, place = _parts(url)
    if login:
        remember(login.partition(":")[2] or login)
    for item in place.partition("?")[2].split("&"):
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
    """A URL as messages show it: without user, password and query, nor a port that may be a password.

    >>> shown("https://me:word@host:8000/v1?key=1")
    'https://***@host:8000/v1?***'
    """
    scheme, login, place = _parts(url)
    address, query, _ = place.partition("#")[0].partition("?")
    host, slash, path = address.partition("/")
    if not _is_port(port := _port(host)):
        host = host.removesuffix(port) + HIDDEN
    login = f"{HIDDEN}@" if login else ""
    return hide(f"{scheme}{login}{host}{slash}{path}{'?' + HIDDEN if query else ''}")


def _parts(url: str) -> tuple[str, str, str]:
    """The scheme with `://`, user and password, and the rest of a URL.

    People paste passwords with the signs /, ? and # as they are, which end an address: what stands before the
    last @ is all taken for the login where the address alone makes no sense.

    >>> _parts("http://me:pass/word@host:80/a"), _parts("s3://bucket/run@2")
    (('http://', 'me:pass/word', 'host:80/a'), ('s3://', '', 'bucket/run@2'))
    """
    before, mark, rest = url.partition("://")
    scheme, rest = (f"{before.lower()}://", rest) if mark else ("", url)
    address = re.split(r"[/?#]", rest, maxsplit=1)[0]
    if "@" not in address and _is_port(_port(address)):
        return scheme, "", rest
    login, _, place = rest.rpartition("@")
    return scheme, login, place


def _port(address: str) -> str:
    """What follows the first colon of `host:port`, after the brackets of an address of IPv6."""
    return address.rpartition("]")[2].partition(":")[2]


def _is_port(text: str) -> bool:
    return text == "" or text.isdecimal()
