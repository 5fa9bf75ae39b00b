"""A local OpenAI-compatible server, so that the default judge is asked exactly as a real model is."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from fastapi import FastAPI, Header
from fastapi.responses import JSONResponse

from questloop.judges import quest, rules
from questloop.judges.pairwise import FIRST, SEPARATOR
from questloop.llm.routes import EMBEDDED_MODELS, Role
from questloop.planner import embedded
from questloop.serving.background import AppServer
from questloop.serving.protocol import ChatRequest, completion

Handler = Callable[[ChatRequest], Mapping[str, Any]]
"""answers a request with the JSON object that a model would write"""


def default_handlers() -> dict[str, Handler]:
    """Every embedded model by name. None of them is a language model."""
    judges = {EMBEDDED_MODELS[role]: _rule_based(role) for role in (Role.STATE, Role.PUZZLE, Role.VISION)}
    planning = (Role.PLAN_DIALOG, Role.PLAN_PUZZLE, Role.PLAN_VISION)
    return judges | {EMBEDDED_MODELS[role]: _plan for role in planning}


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


class LocalServer(AppServer):
    """The server on a free loopback port, in a thread, for as long as the context lasts.

    >>> with LocalServer() as server:                                          # doctest: +SKIP
    ...     client = ChatClient(LLMSettings(), embedded_url=server.url)
    """

    def __init__(self, handlers: Mapping[str, Handler] | None = None, port: int = 0) -> None:
        super().__init__(_default_app() if handlers is None else build_app(handlers), port)

    @property
    def url(self) -> str:
        """Base URL, with `/v1`."""
        return f"{self.root_url}/v1"


@cache
def _default_app() -> FastAPI:
    """Made once: FastAPI remembers the functions of every application, and a run serves one each epoch."""
    return build_app(default_handlers())


def _plan(request: ChatRequest) -> Mapping[str, Any]:
    """The embedded planner's answer; a message that is no request for a plan gets an object without one."""
    try:
        return embedded.answer(json.loads(request.user.text))
    except (ValueError, KeyError, TypeError, IndexError) as error:
        return {"error": f"not a request for a plan: {error!r}"}


def _rule_based(role: Role) -> Handler:
    def answer(request: ChatRequest) -> Mapping[str, Any]:
        text = request.user.text
        first, found, second = text.partition(SEPARATOR)
        first = first.removeprefix(FIRST)
        if quest.is_state(first):
            system = request.system
            return quest.compare(system, first, second) if found else quest.judge(system, text)
        if found:
            return rules.compare(first, second)
        return rules.judge(role, text, request.user.png)

    return answer
