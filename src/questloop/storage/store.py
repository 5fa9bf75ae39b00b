"""Opens an object store by its URL: a folder or an S3 endpoint."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

from questloop.errors import UsageError
from questloop.redaction import shown
from questloop.settings import StoreSettings, load
from questloop.storage.folder import FolderStore
from questloop.storage.interface import (
    AlreadyExists,
    Entry,
    NotFound,
    Store,
    StoredObject,
    sha256_hex,
    valid_key,
    valid_prefix,
)

__all__ = [
    "AlreadyExists",
    "Entry",
    "NotFound",
    "Store",
    "StoredObject",
    "folder_path",
    "open_existing_store",
    "open_store",
    "sha256_hex",
    "valid_key",
    "valid_prefix",
]


def open_store(where: StoreSettings | str, *, write: bool = True) -> Store:
    """The store at a URL, or the one that the settings name, after a check that it can be used.

    Without `write` a store that may only be read serves too. Else a folder (a plain path or `file:///...`) is
    made where it is missing, and what one writer a run needs is tried. S3 (`s3://bucket/prefix`, or `s3://`
    for one bucket a top-level prefix) is asked once: wrong credentials, a missing bucket and an endpoint that
    does not answer raise `UnavailableError` within seconds.
    """
    settings = load().store if isinstance(where, str) else where
    url = where if isinstance(where, str) else where.url
    store: Store
    if url.startswith("s3://"):
        from questloop.storage.s3 import S3ObjectStore

        store = S3ObjectStore(url, settings)
    else:
        store = FolderStore(folder_path(url), settings.low_water_mb)
    store.check(write=write)
    return store


def open_existing_store(settings: StoreSettings, *, write: bool = False) -> Store:
    """As `open_store`, but a folder that is not there is an error and is not made."""
    if not settings.url.startswith("s3://") and not (path := folder_path(settings.url)).is_dir():
        raise UsageError(f"store {path}: no such folder; give the STORE_URL of a run")
    return open_store(settings, write=write)


def folder_path(url: str, name: str = "STORE_URL") -> Path:
    """The path of a folder store's URL, which the setting `name` holds.

    >>> str(folder_path("file:///tmp/a%20b")), str(folder_path("runs/store"))
    ('/tmp/a b', 'runs/store')
    """
    if "://" not in url:
        return Path(url)
    try:
        parts = urlsplit(url)
    except ValueError:
        raise UsageError(f"{name}={shown(url)!r}: give a path, file:///path or s3://bucket") from None
    if parts.scheme != "file" or parts.netloc not in ("", "localhost") or not parts.path:
        raise UsageError(f"{name}={shown(url)!r}: give a path, file:///path or s3://bucket")
    return Path(unquote(parts.path))
