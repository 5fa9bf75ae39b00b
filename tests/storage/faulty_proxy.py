"""A proxy in front of an S3 server that misbehaves on demand."""

from __future__ import annotations

import http.client
import itertools
import socket
import struct
import threading
import time
from collections import deque
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

SLOW_S = 0.2
CODES = {"RequestTimeTooSkewed": 403, "InvalidTokenId": 403, "ConditionalRequestConflict": 409}


class FaultyProxy:
    """Requests take the next fault of `faults`, and none once that is empty.

    Faults: a status code (500, 503, 403), "reset" (the connection breaks before the server sees the request),
    "lost reply" (the server does what was asked, the answer is lost), "slow" (an answer after `SLOW_S`),
    "stall" (no answer until `release`), an S3 error code of `CODES`. None is none. What the server cannot do
    stands in `lacks`: "conditions" (it takes a create-only put of what is there), "conditional puts" (it
    refuses them), "bulk delete".
    """

    def __init__(self, upstream: str) -> None:
        self.upstream = urlsplit(upstream).netloc
        self.faults: deque[int | str | None] = deque()
        self.lacks = ""
        self.headers: list[dict[str, str]] = []
        self.requests = itertools.count()
        self.seen = 0
        self.release = threading.Event()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.server.daemon_threads = True

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"

    def always(self, fault: int | str) -> None:
        """Fail every request from now on."""
        self.faults = deque([fault] * 10_000)


@contextmanager
def faulty_proxy(upstream: str):
    """Run a proxy."""
    proxy = FaultyProxy(upstream)
    thread = threading.Thread(target=proxy.server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        proxy.release.set()
        proxy.server.shutdown()
        proxy.server.server_close()
        thread.join()


def _handler(proxy: FaultyProxy) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_any(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            proxy.seen += 1
            conditional = self.headers.get("If-None-Match") is not None
            unfit = proxy.faults and proxy.faults[0] == "ConditionalRequestConflict" and not conditional
            fault = proxy.faults.popleft() if proxy.faults and not unfit else None
            proxy.headers.append({name.lower(): value for name, value in self.headers.items()})
            refused = conditional if proxy.lacks == "conditional puts" else self.command == "POST"
            if refused and proxy.lacks in ("conditional puts", "bulk delete"):
                self.answer(501, b"<Error><Code>NotImplemented</Code></Error>")
            elif fault in CODES:
                self.answer(CODES[str(fault)], f"<Error><Code>{fault}</Code></Error>".encode())
            elif isinstance(fault, int):
                self.answer(fault, b"<Error><Code>ExpiredToken</Code></Error>" if fault == 403 else b"")
            elif fault == "reset":
                self.reset()
            elif fault == "stall":
                proxy.release.wait()
                self.close_connection = True
            else:
                if fault == "slow":
                    time.sleep(SLOW_S)
                status, headers, data = self.forward(body)
                if fault == "lost reply":
                    self.reset()
                elif status == 412 and proxy.lacks == "conditions":
                    self.answer(200, b"", {"ETag": '"x"'})
                else:
                    self.answer(status, data, headers)

        do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = handle_any

        def forward(self, body: bytes):
            connection = http.client.HTTPConnection(proxy.upstream, timeout=30)
            connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                connection.putheader(name, value)  # Host too: it is signed
            connection.endheaders(body)
            answer = connection.getresponse()
            data = answer.read()
            headers = dict(answer.getheaders())
            connection.close()
            return answer.status, headers, data

        def answer(self, status: int, data: bytes, headers: dict[str, str] | None = None) -> None:
            self.send_response_only(status)
            for name, value in (headers or {}).items():
                if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                    self.send_header(name, value)
            length = (headers or {}).get("Content-Length") if self.command == "HEAD" else None
            self.send_header("Content-Length", length or str(len(data)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data)

        def reset(self) -> None:
            """Close with RST."""
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.close_connection = True
            self.connection.close()

        def finish(self) -> None:
            try:
                super().finish()
            except (OSError, ValueError):
                self.close_connection = True

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Handler
