"""Which proxy a request goes through, by HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY.

Libraries read these each in its own way, and stumble over what others take. Here is one way for all of
Questloop: this machine itself is never asked by a proxy, and an entry of NO_PROXY may be a name, `.domain`,
`host:port`, an address, a network or `*`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from urllib.parse import urlsplit

from questloop.errors import UsageError
from questloop.redaction import remember_url, shown

SCHEMES = ("http", "https", "socks5", "socks5h")


@dataclass(frozen=True)
class Proxy:
    """A proxy, and the variable that names it."""

    variable: str
    url: str

    def __str__(self) -> str:
        return f"{self.variable}={shown(self.url)}"


def proxy_for(url: str) -> Proxy | None:
    """The proxy for requests to `url`; None: none.

    Raises `UsageError` for one that is no address of a proxy.
    """
    parts = urlsplit(url)
    host = (parts.hostname or "").rstrip(".")
    port = parts.port or (443 if parts.scheme == "https" else 80)
    if is_loopback(host) or _is_exempt(host, port):
        return None
    for name in (f"{parts.scheme}_proxy", "all_proxy"):
        for variable in (name, name.upper()):
            if value := os.environ.get(variable, "").strip():
                return _checked(Proxy(variable, value if "://" in value else f"http://{value}"), host)
    return None


def is_loopback(host: str) -> bool:
    """Whether a host's name or address is this machine itself.

    >>> [is_loopback(host) for host in ("localhost", "127.8.0.1", "::1", "example.com")]
    [True, True, True, False]
    """
    address = _address(host)
    if address is None:
        return host == "localhost" or host.endswith(".localhost")
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback or address.is_unspecified


def _checked(proxy: Proxy, host: str) -> Proxy:
    try:
        parts = urlsplit(proxy.url)
        usable = parts.scheme in SCHEMES and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise unusable(proxy, host, f"not an address of a proxy ({', '.join(SCHEMES)})")
    remember_url(proxy.url)
    return proxy


def unusable(proxy: Proxy, host: str, reason: str) -> UsageError:
    """The error for a proxy that cannot be used to reach `host`."""
    return UsageError(f"{proxy}: {reason}; mend it, or add {host} to NO_PROXY to do without it")


def _is_exempt(host: str, port: int) -> bool:
    listed = os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or ""
    return any(_matches(entry.lower(), host, port) for entry in listed.replace(",", " ").split())


def _matches(entry: str, host: str, port: int) -> bool:
    if entry == "*":
        return True
    try:
        network = ip_network(entry.strip("[]"), strict=False)
    except ValueError:
        name, colon, wanted = entry.rpartition(":")
        if not colon:
            name, wanted = entry, str(port)
        name = name.strip("[]").lstrip("*").lstrip(".")
        return bool(name) and wanted == str(port) and (host == name or host.endswith(f".{name}"))
    return (address := _address(host)) is not None and address in network


def _address(host: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(host.partition("%")[0])
    except ValueError:
        return None
