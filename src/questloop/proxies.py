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
                return _checked(variable, value, host)
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


def _checked(variable: str, value: str, host: str) -> Proxy:
    """The proxy that a variable names; `UsageError` where that is not the address of one."""
    scheme, mark, rest = value.partition("://")
    proxy = Proxy(variable, f"{scheme.lower()}://{rest}" if mark else f"http://{value}")
    remember_url(proxy.url)
    try:
        parts = urlsplit(proxy.url)
        (parts.hostname or "").encode("idna")
        usable = parts.scheme in SCHEMES and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    odd = any(sign.isspace() or not sign.isprintable() or sign == "\\" for sign in proxy.url)
    if not usable or odd or parts.path.strip("/") or parts.query or parts.fragment:
        raise unusable(
            proxy,
            host,
            f"not an address of a proxy ({', '.join(SCHEMES)}; of a password, / is written %2F, # %23, "
            "? %3F and a space %20)",
        )
    return proxy


def unusable(proxy: Proxy, host: str, reason: str) -> UsageError:
    """The error for a proxy that cannot be used to reach `host`."""
    return UsageError(f"{proxy}: {reason}; mend it, or add {host} to NO_PROXY to do without it")


def through(proxy: Proxy | None) -> str:
    """What the error of a request adds that a proxy may have spoilt."""
    return f" (asked by the proxy {proxy}; NO_PROXY names hosts to reach without it)" if proxy else ""


def _is_exempt(host: str, port: int) -> bool:
    """By NO_PROXY and no_proxy together, so that what is added to either helps."""
    listed = f"{os.environ.get('no_proxy', '')},{os.environ.get('NO_PROXY', '')}"
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
        if wanted != str(port):
            return False
        name = name.strip("[]").lstrip("*").strip(".")
        if (address := _address(name)) is not None:
            return address == _address(host)
        return bool(name) and (host == name or host.endswith(f".{name}"))
    return (address := _address(host)) is not None and address in network


def _address(host: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(host.partition("%")[0])
    except ValueError:
        return None
