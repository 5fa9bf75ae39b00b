"""Makes clients of an S3 endpoint: its address, its keys, the proxy, and what they may see of AWS_*.

obstore reads every AWS_* variable whenever a client is made, some of them (AWS_ENDPOINT_URL_S3) before what
it is told. Other programs set these, for other accounts and servers. With keys of ours in the settings
nothing of them is used; without, they are where the keys come from, and S3_ENDPOINT_URL still goes before
their address.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

from questloop.errors import UsageError
from questloop.proxies import Proxy, proxy_for, unusable
from questloop.redaction import hide, shown
from questloop.settings import StoreSettings
from questloop.storage.fork import obstore

# Transient faults are ridden out for about half a minute; the check at the start answers within seconds.
PATIENT: dict[str, Any] = {
    "max_retries": 10,
    "retry_timeout": timedelta(seconds=60),
    "backoff": {"init_backoff": timedelta(seconds=0.3), "max_backoff": timedelta(seconds=8)},
}
BRIEF: dict[str, Any] = {"max_retries": 1, "retry_timeout": timedelta(seconds=4)}
_NO_PROXY: dict[str, Any] = {"proxy_url": "http://127.0.0.1:9"}
"""with the endpoint's host excluded: the library would read the environment where it is given none"""
_CREDENTIAL_SOURCES = (
    "AWS_ACCESS_KEY_ID",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)
_BEFORE_ENDPOINT = "AWS_ENDPOINT_URL_S3"
"""what the library takes before the address that it is told"""
_REGIONS = ("AWS_REGION", "AWS_DEFAULT_REGION")


def make_client(bucket: str, settings: StoreSettings, retry: dict[str, Any], *, bulk_delete: bool) -> Any:
    """A client of `bucket`; `UsageError` for what of the settings or of AWS_* the library cannot use."""
    config: dict[str, Any] = {"disable_bulk_delete": not bulk_delete, "conditional_put": "etag"}
    own = _has_keys(settings)
    if own or "s3_region_name" in settings.model_fields_set or not any(map(os.environ.get, _REGIONS)):
        config["region"] = settings.s3_region_name
    if settings.s3_endpoint_url:
        config["endpoint"] = settings.s3_endpoint_url.rstrip("/")
        config["virtual_hosted_style_request"] = False
    if own:
        # As a provider, since with keys alone the library looks elsewhere for a session's token.
        config["credential_provider"] = _Keys(settings)
    options: dict[str, Any] = {
        "allow_http": True,
        "connect_timeout": timedelta(seconds=2),
        "timeout": timedelta(seconds=4 if retry is BRIEF else 60),
    }
    proxy = proxy_of(settings)
    options |= _proxy_options(settings, proxy)
    with _visible(settings):
        try:
            return obstore().store.S3Store(bucket, **config, client_options=options, retry_config=retry)
        except (obstore().exceptions.BaseError, ValueError) as error:
            if proxy and "builder error" in str(error):  # all that the library says of a proxy
                host = urlsplit(settings.s3_endpoint_url or "").hostname or ""
                raise unusable(proxy, host, "the store's client cannot use it") from None
            reason = hide(str(error).partition("\n")[0])
            hint = "" if own else ", or the AWS_* variables that name it"
            raise UsageError(f"bucket {bucket}: {reason}; mend the settings S3_*{hint}") from None


def check_address(settings: StoreSettings) -> None:
    """Raise `UsageError` where S3_ENDPOINT_URL is no address or has no keys, or there is half of a pair."""
    pair = {"S3_ACCESS_KEY": settings.s3_access_key, "S3_SECRET_KEY": settings.s3_secret_key}
    missing = [name for name, key in pair.items() if not key]
    if len(missing) == 1:
        raise UsageError(f"{missing[0]} is not set, its other half is; set both, or neither to use AWS_*")
    endpoint = settings.s3_endpoint_url
    if endpoint is None:
        return
    try:
        parts = urlsplit(endpoint)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise UsageError(f"S3_ENDPOINT_URL={shown(endpoint)!r}: give http://host:port or https://host:port")
    if "@" in parts.netloc or parts.query:
        raise UsageError(
            f"S3_ENDPOINT_URL={shown(endpoint)!r}: give the address alone; keys go into S3_ACCESS_KEY and "
            "S3_SECRET_KEY"
        )
    if not _has_keys(settings) and not any(map(os.environ.get, _CREDENTIAL_SOURCES)):
        raise UsageError(f"S3_ENDPOINT_URL={shown(endpoint)!r} needs S3_ACCESS_KEY and S3_SECRET_KEY")


def _has_keys(settings: StoreSettings) -> bool:
    return bool(settings.s3_access_key and settings.s3_secret_key)


_hiding = threading.Lock()


def _unlock() -> None:
    global _hiding
    _hiding = threading.Lock()


os.register_at_fork(after_in_child=_unlock)  # the thread that held it is not in the fork


@contextlib.contextmanager
def _visible(settings: StoreSettings) -> Iterator[None]:
    """Hide from the library what of AWS_* is not meant for this store; it takes no other way to say so."""
    with _hiding:
        if _has_keys(settings):
            hidden = [name for name in os.environ if name.startswith("AWS_")]
        else:
            hidden = [_BEFORE_ENDPOINT] if settings.s3_endpoint_url and _BEFORE_ENDPOINT in os.environ else []
        kept = {name: os.environ.pop(name) for name in hidden}
        try:
            yield
        finally:
            os.environ.update(kept)


def proxy_of(settings: StoreSettings) -> Proxy | None:
    """The proxy that S3_ENDPOINT_URL is asked by; the library finds that of AWS itself."""
    return proxy_for(settings.s3_endpoint_url) if settings.s3_endpoint_url else None


def _proxy_options(settings: StoreSettings, proxy: Proxy | None) -> dict[str, Any]:
    if not settings.s3_endpoint_url:
        return {}
    host = urlsplit(settings.s3_endpoint_url).hostname or ""
    if proxy is None:
        return _NO_PROXY | {"proxy_excludes": host}
    if proxy.url.startswith("socks"):
        raise unusable(proxy, host, "the store's client has no SOCKS")
    return {"proxy_url": proxy.url}


class _Keys:
    """S3_ACCESS_KEY and S3_SECRET_KEY as the library asks for them."""

    def __init__(self, settings: StoreSettings) -> None:
        self._settings = settings

    def __call__(self) -> dict[str, Any]:
        key, secret = self._settings.s3_access_key, self._settings.s3_secret_key
        assert key is not None
        assert secret is not None
        return {
            "access_key_id": key.get_secret_value(),
            "secret_access_key": secret.get_secret_value(),
            "token": None,
            "expires_at": None,
        }
