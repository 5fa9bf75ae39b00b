"""Serves a web application on a loopback port, in a thread."""

from __future__ import annotations

import socket
import threading
import time
from types import TracebackType
from typing import Self

import uvicorn
from fastapi import FastAPI
from starlette.middleware.trustedhost import TrustedHostMiddleware

from questloop.errors import UnavailableError

HOST = "127.0.0.1"
START_TIMEOUT_S = 20.0


class Server(uvicorn.Server):
    """Sets `app.state.stopping` when it is told to end, so that streams, for which it waits, end too."""

    def __init__(self, app: FastAPI, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._app = app

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Tell the streams to end, then end the server."""
        self._app.state.stopping = True
        await super().shutdown(sockets)


class AppServer:
    """Serves `app` for as long as the context lasts; port 0 takes a free one.

    Raises `UnavailableError` where the port is taken.
    """

    def __init__(self, app: FastAPI, port: int = 0) -> None:
        self._app, self._port = app, port
        self._server: Server | None = None
        self._thread: threading.Thread | None = None
        self.root_url = ""

    def __enter__(self) -> Self:
        listener = listen(self._port)
        self.root_url = f"http://{HOST}:{listener.getsockname()[1]}"
        # Its own logging configuration would close the log handlers of everybody else in the process.
        config = uvicorn.Config(
            _guarded(self._app),
            log_config=None,
            log_level="warning",
            access_log=False,
            lifespan="off",
            ws="none",
        )
        self._server = Server(self._app, config)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [listener]}, name="app-server", daemon=True
        )
        self._thread.start()
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self._server.started:
            if not self._thread.is_alive() or time.monotonic() > deadline:
                raise UnavailableError(f"the local server did not start at {self.root_url}")
            time.sleep(0.005)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._server is not None and self._thread is not None:
            self._server.should_exit = True
            self._thread.join(START_TIMEOUT_S)


def listen(port: int, host: str = HOST) -> socket.socket:
    """A listening socket; port 0 takes a free one. Raises `UnavailableError` where it cannot be had."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise UnavailableError(
            f"cannot listen on {host}:{port}: {error.strerror}; choose another --port"
        ) from None
    return listener


def _guarded(app: FastAPI) -> TrustedHostMiddleware:
    """Answers only what was addressed to this machine.

    A page from elsewhere whose name was made to point to 127.0.0.1 (DNS rebinding) would otherwise read and
    write what is served here.
    """
    return TrustedHostMiddleware(app, allowed_hosts=[HOST, "localhost"])
