"""A store on an S3 endpoint, by obstore."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import timedelta
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from questloop.errors import UnavailableError, UsageError
from questloop.settings import StoreSettings
from questloop.storage.fork import obstore
from questloop.storage.store import AlreadyExists, Entry, NotFound, Store, valid_key, valid_prefix

BUCKETS = ("zelda-episodes", "zelda-models")  # where there is one bucket a top-level prefix

# Transient faults are ridden out for about half a minute; the check at the start answers within seconds.
_PATIENT: dict[str, Any] = {
    "max_retries": 10,
    "retry_timeout": timedelta(seconds=60),
    "backoff": {"init_backoff": timedelta(seconds=0.3), "max_backoff": timedelta(seconds=8)},
}
_BRIEF = {"max_retries": 1, "retry_timeout": timedelta(seconds=4)}
_PAUSES_S = (0.1, 0.4, 1.6, 6.4)
_REPEAT_WITHIN_S = 20.0
_CREDENTIAL_SOURCES = (
    "AWS_ACCESS_KEY_ID",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)


class S3ObjectStore(Store):
    """`s3://bucket/prefix`, or `s3://` where a key's first part names its bucket."""

    def __init__(self, url: str, settings: StoreSettings) -> None:
        parts = urlsplit(url)
        self.url = url
        self._bucket = parts.netloc
        self._prefix = valid_prefix(parts.path.lstrip("/"))
        self._settings = settings
        self._clients: dict[tuple[int, str], Any] = {}
        _validate(settings)

    def __reduce__(self) -> tuple[Any, ...]:
        return S3ObjectStore, (self.url, self._settings)

    def check(self) -> None:
        for bucket in (self._bucket,) if self._bucket else BUCKETS:
            with self._explained(bucket):
                next(obstore().list(self._make_client(bucket, _BRIEF), chunk_size=1), None)

    def check_space(self) -> None:
        """S3 has no low-water mark."""

    def get(self, key: str) -> bytes:
        bucket, path = self._locate(key)
        with self._explained(bucket, key):
            return bytes(obstore().get(self._client(bucket), path).bytes())

    def size(self, key: str) -> int:
        bucket, path = self._locate(key)
        with self._explained(bucket, key):
            return obstore().head(self._client(bucket), path)["size"]

    def list(self, prefix: str = "") -> Iterator[Entry]:
        for bucket, path in self._places(valid_prefix(prefix)):
            with self._explained(bucket):
                for chunk in obstore().list(self._client(bucket), prefix=path):
                    for item in chunk:
                        yield Entry(self._key(bucket, item["path"]), item["size"])

    def folders(self, prefix: str = "") -> tuple[str, ...]:
        prefix = valid_prefix(prefix)
        if not prefix and not self._bucket:
            return tuple(bucket for bucket in BUCKETS if next(self.list(bucket), None))
        names: set[str] = set()
        for bucket, path in self._places(prefix):
            with self._explained(bucket):
                found = obstore().list_with_delimiter(self._client(bucket), prefix=path)
                names |= {name.rsplit("/", 1)[-1] for name in found["common_prefixes"]}
        return tuple(sorted(names))

    def delete(self, keys: Iterable[str]) -> None:
        by_bucket: dict[str, set[str]] = {}
        for key in keys:
            bucket, path = self._locate(key)
            by_bucket.setdefault(bucket, set()).add(path)
        for bucket, paths in by_bucket.items():
            with self._explained(bucket), contextlib.suppress(FileNotFoundError):
                _repeat(partial(obstore().delete, self._client(bucket), sorted(paths)))

    def _put(self, key: str, data: bytes, *, create: bool, durable: bool) -> None:
        bucket, path = self._locate(key)
        put = partial(obstore().put, self._client(bucket), path, data)
        with self._explained(bucket, key):
            if create:
                # In one request: parts would be checked one by one.
                _repeat(partial(put, mode="create", use_multipart=False))
            else:
                put()

    def _locate(self, key: str) -> tuple[str, str]:
        """The bucket of a key, and its path there."""
        if self._bucket:
            return self._bucket, _join(self._prefix, valid_key(key))
        bucket, _, path = valid_key(key).partition("/")
        if not path:
            raise UsageError(f"store {self.url}: key {key!r} names a bucket only")
        return bucket, path

    def _places(self, prefix: str) -> Sequence[tuple[str, str]]:
        """The buckets and paths that a listing of `prefix` reads."""
        if self._bucket:
            return [(self._bucket, _join(self._prefix, prefix))]
        if not prefix:
            return [(bucket, "") for bucket in BUCKETS]
        bucket, _, path = prefix.partition("/")
        return [(bucket, path)]

    def _key(self, bucket: str, path: str) -> str:
        if not self._bucket:
            return f"{bucket}/{path}"
        return path.removeprefix(f"{self._prefix}/") if self._prefix else path

    def _client(self, bucket: str) -> Any:
        # Keyed by process: a fork needs clients of its own (see fork.py).
        key = (os.getpid(), bucket)
        if key not in self._clients:
            self._clients[key] = self._make_client(bucket, _PATIENT)
        return self._clients[key]

    def _make_client(self, bucket: str, retry: dict[str, Any]) -> Any:
        settings = self._settings
        config: dict[str, Any] = {"region": settings.s3_region_name}
        if settings.s3_endpoint_url:
            config["endpoint"] = settings.s3_endpoint_url.rstrip("/")
            config["virtual_hosted_style_request"] = False
        if settings.s3_access_key and settings.s3_secret_key:
            config["access_key_id"] = settings.s3_access_key.get_secret_value()
            config["secret_access_key"] = settings.s3_secret_key.get_secret_value()
        return obstore().store.S3Store(
            bucket,
            **config,
            client_options={
                "allow_http": True,
                "connect_timeout": timedelta(seconds=2),
                "timeout": timedelta(seconds=4 if retry is _BRIEF else 60),
            },
            retry_config=retry,
        )

    @contextlib.contextmanager
    def _explained(self, bucket: str, key: str = "") -> Iterator[None]:
        """Turn the library's errors into ours, one line each, without the response's body."""
        exceptions = obstore().exceptions
        try:
            yield
        except exceptions.AlreadyExistsError:
            raise AlreadyExists(f"store {self.url}: {key} exists") from None
        except FileNotFoundError as error:
            if "NoSuchBucket" in str(error):
                raise self._unavailable(bucket, error) from None
            raise NotFound(f"store {self.url}: no object {key}") from None
        except exceptions.BaseError as error:
            raise self._unavailable(bucket, error) from None

    def _unavailable(self, bucket: str, error: Exception) -> UnavailableError:
        detail = str(error)
        endpoint = self._settings.s3_endpoint_url or "AWS"
        where = f"store {self.url} at {endpoint}"
        if "NoSuchBucket" in detail:
            return UnavailableError(
                f"{where}: bucket {bucket} does not exist; create it, or set S3_BUCKET_NAME to one that does"
            )
        if _is_refusal(error):
            return UnavailableError(
                f"{where}: bucket {bucket}: access refused ({_code(detail)}); "
                "check S3_ACCESS_KEY, S3_SECRET_KEY and what they may do"
            )
        return UnavailableError(
            f"{where}: cannot be reached ({_reason(detail)}); check S3_ENDPOINT_URL and that the server runs"
        )


def _validate(settings: StoreSettings) -> None:
    endpoint = settings.s3_endpoint_url
    if endpoint is None:
        return
    parts = urlsplit(endpoint)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(f"S3_ENDPOINT_URL={endpoint!r}: give http://host:port or https://host:port")
    if not (settings.s3_access_key and settings.s3_secret_key) and not any(
        map(os.environ.get, _CREDENTIAL_SOURCES)
    ):
        raise UsageError(f"S3_ENDPOINT_URL={endpoint!r} needs S3_ACCESS_KEY and S3_SECRET_KEY")


def _repeat(ask: Callable[[], object]) -> None:
    """Ask again where the connection broke.

    obstore does so itself for requests that HTTP calls idempotent. A create-only put and a bulk delete are so
    by their meaning only.
    """
    deadline = time.monotonic() + _REPEAT_WITHIN_S
    for pause_s in _PAUSES_S:
        try:
            ask()
            return
        except obstore().exceptions.GenericError as error:
            if "HTTP error" not in str(error) or time.monotonic() > deadline:
                raise
        time.sleep(pause_s)
    ask()


def _join(prefix: str, path: str) -> str:
    return f"{prefix}/{path}" if prefix and path else prefix or path


def _is_refusal(error: Exception) -> bool:
    """Whether the server answered that this is not allowed; obstore types some of these answers only."""
    exceptions = obstore().exceptions
    if isinstance(error, exceptions.PermissionDeniedError | exceptions.UnauthenticatedError):
        return True
    return "403 Forbidden" in str(error) or "401 Unauthorized" in str(error)


def _code(detail: str) -> str:
    """The S3 error code in a response, such as SignatureDoesNotMatch."""
    _, found, rest = detail.partition("<Code>")
    return rest.partition("</Code>")[0] if found else "403"


def _reason(detail: str) -> str:
    """What went wrong, without the request's address and the library's dump."""
    line = detail.partition("\n")[0].partition(": <?xml")[0]
    return line.rpartition(" - ")[2].strip() or line[:200]
