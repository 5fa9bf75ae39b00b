"""A local OpenAI-compatible server, so that the default judge is asked exactly as a real model would be."""

from __future__ import annotations

import json
import socket
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self

import uvicorn
from fastapi import FastAPI, Header
from fastapi.responses import JSONResponse

from questloop.errors import UnavailableError
from questloop.judges import rules
from questloop.judges.pairwise import SEPARATOR
from questloop.llm.routes import EMBEDDED_MODELS, Role
from questloop.serving.protocol import ChatRequest, completion

START_TIMEOUT_S = 20.0

Handler = Callable[[ChatRequest], Mapping[str, Any]]
"""answers a request with the JSON object that a model would write"""


def default_handlers() -> dict[str, Handler]:
    """Every embedded model by name. None of them is a language model."""
    return {EMBEDDED_MODELS[role]: _rule_based(role) for role in (Role.STATE, Role.PUZZLE, Role.VISION)}


def build_app(handlers: Mapping[str, Handler]) -> FastAPI:
    """`/v1/models` and `/v1/chat/completions` over `handlers`, model by name."""
    app = FastAPI(title="Questloop local models", docs_url=None, redoc_url=None, openapi_url=None)

    @app.get("/v1/models")
    def models() -> dict[str, Any]:
        listed = [{"id": name, "object": "model", "owned_by": "questloop"} for name in sorted(handlers)]
        return {"object": "list", "data": listed}

    @app.post("/v1/chat/completions")
    def chat(request: ChatRequest, x_request_id: str = Header("")) -> JSONResponse:
        handler = handlers.get(request.model)
        if handler is None:
            message = f"model {request.model!r} is not served here; one of {', '.join(sorted(handlers))}"
            return JSONResponse({"error": {"message": message, "type": "not_found"}}, status_code=404)
        text = json.dumps(handler(request), allow_nan=False)
        request_id = x_request_id or uuid.uuid4().hex
        return JSONResponse(completion(request, [text] * request.n, request_id, int(time.time())))

    return app


class LocalServer:
    """The server on a free loopback port, in a thread, for as long as the context lasts.

    >>> with LocalServer() as server:                                          # doctest: +SKIP
    ...     client = ChatClient(LLMSettings(), embedded_url=server.url)
    """

    def __init__(
        self, handlers: Mapping[str, Handler] | None = None, host: str = "127.0.0.1", port: int = 0
    ) -> None:
        self._app = build_app(default_handlers() if handlers is None else handlers)
        self._address = (host, port)
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None
        self._url = ""

    @property
    def url(self) -> str:
        """Base URL, with `/v1`."""
        return self._url

    def __enter__(self) -> Self:
        listener = _listen(*self._address)
        host, port = listener.getsockname()[:2]
        self._url = f"http://{host}:{port}/v1"
        config = uvicorn.Config(self._app, log_level="warning", access_log=False, lifespan="off", ws="none")
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [listener]}, name="local-server", daemon=True
        )
        self._thread.start()
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self._server.started:
            if not self._thread.is_alive() or time.monotonic() > deadline:
                raise UnavailableError(f"the local server did not start on {host}:{port}")
            time.sleep(0.005)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._server is not None and self._thread is not None:
            self._server.should_exit = True
            self._thread.join(START_TIMEOUT_S)

    def wait(self) -> None:
        """Until the server ends."""
        if self._thread is not None:
            self._thread.join()


def _listen(host: str, port: int) -> socket.socket:
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


def _rule_based(role: Role) -> Handler:
    def answer(request: ChatRequest) -> Mapping[str, Any]:
        text = request.user.text
        first, found, second = text.partition(SEPARATOR)
        if found:
            return rules.compare(first, second)
        return rules.judge(role, text, request.user.png)

    return answer
