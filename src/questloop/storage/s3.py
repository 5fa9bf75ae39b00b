"""A store on an S3 endpoint, by obstore."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from questloop.errors import UnavailableError, UsageError
from questloop.proxies import through
from questloop.redaction import shown
from questloop.settings import StoreSettings
from questloop.storage.fork import obstore
from questloop.storage.interface import AlreadyExists, Entry, NotFound, Store, valid_key, valid_prefix
from questloop.storage.s3_client import BRIEF, PATIENT, check_address, make_client, proxy_of

BUCKETS = ("zelda-episodes", "zelda-models")  # where there is one bucket a top-level prefix

_PAUSES_S = (0.1, 0.4, 1.6, 6.4)
_REPEAT_WITHIN_S = 20.0
_ADVICE = {
    "RequestTimeTooSkewed": "the clock of this machine or of the server is wrong; set it, by NTP best",
    "InvalidTokenId": "the session token is of another account; unset AWS_SESSION_TOKEN",
    "SecondLevelDomainForbidden": "the server wants the bucket in its host name, which Questloop does not do",
}


class S3ObjectStore(Store):
    """`s3://bucket/prefix`, or `s3://` where a key's first part names its bucket."""

    def __init__(self, url: str, settings: StoreSettings) -> None:
        parts = urlsplit(url)
        if "@" in parts.netloc or not re.fullmatch(r"[A-Za-z0-9._-]*", parts.netloc):
            raise UsageError(
                f"STORE_URL={shown(url)!r}: "
                "give s3://bucket/prefix; keys go into S3_ACCESS_KEY and S3_SECRET_KEY"
            )
        self.url = url
        self._bucket = parts.netloc
        try:
            self._prefix = valid_prefix(parts.path.lstrip("/"))
        except UsageError as error:
            raise UsageError(f"STORE_URL={shown(url)!r}: {error}") from None
        self._settings = settings
        self._clients: dict[tuple[int, str], Any] = {}
        self._bulk = True
        self._versioned: set[str] = set()
        check_address(settings)

    def __reduce__(self) -> tuple[Any, ...]:
        return S3ObjectStore, (self.url, self._settings)

    def check(self, *, write: bool = True) -> None:
        for bucket in (self._bucket,) if self._bucket else BUCKETS:
            client = self._make_client(bucket, BRIEF)
            with self._explained(bucket):
                next(obstore().list(client, chunk_size=1), None)
                if write:
                    self._probe(bucket, client)

    def _probe(self, bucket: str, client: Any) -> None:
        """Raise `UnavailableError` unless the second of two create-only puts is refused: leases need that."""
        path = _join(self._prefix, f"probe-{secrets.token_hex(8)}")

        def create() -> None:
            done = obstore().put(client, path, b"probe", mode="create", use_multipart=False)
            if done.get("version") not in (None, "", "null"):
                self._versioned.add(bucket)

        exceptions = obstore().exceptions
        try:
            try:
                create()
            except exceptions.BaseError as error:
                if _is_refusal(error) or "HTTP error" in str(error):
                    raise
                obstore().put(client, path, b"probe")  # where this fails too it is not about conditions
                raise self._unconditional(f"it refuses them: {_reason(str(error))}") from None
            try:
                create()
            except exceptions.AlreadyExistsError:
                return
            raise self._unconditional("it writes over what is there")
        finally:
            with contextlib.suppress(exceptions.BaseError, FileNotFoundError):
                self._delete(bucket, [path])

    def _unconditional(self, how: str) -> UnavailableError:
        return UnavailableError(
            f"store {self.url} at {self._endpoint}: the server has no conditional writes (If-None-Match), "
            f"without which two pipelines could write one run; {how}; use a server or a release that has them"
        )

    @property
    def _endpoint(self) -> str:
        return shown(self._settings.s3_endpoint_url or "AWS")

    def check_space(self) -> None:
        """S3 has no low-water mark."""

    def remark(self) -> str:
        if not self._versioned:
            return ""
        named = " and ".join(sorted(self._versioned))
        return (
            f"{named} keeps versions: what is deleted or written over goes on taking room, until a lifecycle "
            "rule of the bucket expires noncurrent versions"
        )

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
                self._delete(bucket, sorted(paths))

    def _delete(self, bucket: str, paths: Sequence[str]) -> None:
        """In bulk, or one by one where the server does not know that."""
        try:
            _repeat(partial(obstore().delete, self._client(bucket), paths))
        except obstore().exceptions.BaseError as error:
            if not self._bulk or not re.search(r"\b(400|405|501) ", str(error)):
                raise
            self._bulk = False
            self._clients.clear()
            _repeat(partial(obstore().delete, self._client(bucket), paths))

    def _put(self, key: str, data: bytes, *, create: bool, durable: bool) -> None:
        bucket, path = self._locate(key)
        put = partial(obstore().put, self._client(bucket), path, data)
        with self._explained(bucket, key):
            if create:
                # In one request: parts would be checked one by one.
                self._create(bucket, path, partial(put, mode="create", use_multipart=False))
            else:
                put()

    def _create(self, bucket: str, path: str, put: Callable[[], object]) -> None:
        """Put, again where the server answered with a conflict (409) of two writers and kept neither."""
        exceptions = obstore().exceptions
        for pause_s in (*_PAUSES_S, None):
            try:
                _repeat(put)
                return
            except exceptions.AlreadyExistsError:
                try:
                    obstore().head(self._client(bucket), path)
                except FileNotFoundError:
                    if pause_s is None:
                        raise
                else:
                    raise
            except exceptions.GenericError as error:
                if "409 Conflict" not in str(error) or pause_s is None:
                    raise
            time.sleep(pause_s)

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
            self._clients[key] = self._make_client(bucket, PATIENT)
        return self._clients[key]

    def _make_client(self, bucket: str, retry: dict[str, Any]) -> Any:
        return make_client(bucket, self._settings, retry, bulk_delete=self._bulk)

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
        by = "" if "<Code>" in detail else through(proxy_of(self._settings))  # an S3 server's own answer
        where = f"store {self.url} at {self._endpoint}"
        if "NoSuchBucket" in detail:
            return UnavailableError(
                f"{where}: bucket {bucket} does not exist; create it, or set S3_BUCKET_NAME to one that does"
            )
        if advice := _ADVICE.get(_code(detail)):
            return UnavailableError(f"{where}: bucket {bucket}: access refused ({_code(detail)}): {advice}")
        if _is_refusal(error):
            return UnavailableError(
                f"{where}: bucket {bucket}: access refused ({_code(detail)}); "
                f"check S3_ACCESS_KEY, S3_SECRET_KEY and what they may do{by}"
            )
        if found := re.search(r"InvalidCertificate\(\s*(\w+)", detail):
            return UnavailableError(
                f"{where}: its certificate is not trusted ({found[1]}); "
                f"set SSL_CERT_FILE to a PEM file of its CA{by}"
            )
        return UnavailableError(
            f"{where}: cannot be reached ({_reason(detail)}); "
            f"check S3_ENDPOINT_URL and that the server runs{by}"
        )


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
