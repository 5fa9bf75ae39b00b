"""Asks a planner for a plan: the embedded one in this process, or a language model over HTTP."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from importlib import resources
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from questloop.episodes.mode import Mode
from questloop.game.profile import Profile
from questloop.llm.client import ChatClient
from questloop.llm.routes import EMBEDDED_MODELS, Role, route_of
from questloop.llm.structured import ParseError, parse_object
from questloop.planner import embedded, hint
from questloop.planner.hint import Hint, hint_schema, parse_hint
from questloop.planner.plan import InvalidPlan, Plan, parse_plan, plan_schema
from questloop.planner.view import Scene, view_of
from questloop.settings import LLMBackend, LLMSettings

PROMPT_VERSION = 3
MAX_REPLY_TOKENS = 1024

Picture = NDArray[np.uint8]
"""The screen, u8[144, 160, 3]."""

_ROLES = {Mode.DIALOG: Role.PLAN_DIALOG, Mode.PUZZLE: Role.PLAN_PUZZLE}


class Planner(Protocol):
    """`ask` returns at once; the future brings a plan, or raises `InvalidPlan` or `ChatError`."""

    sees: bool
    """Whether a picture is of use to it."""

    def ask(self, mode: Mode, document: dict[str, Any], picture: Picture | None = None) -> Future[Plan]:
        """A plan for a request document of `request`; with a picture, the route `/vision` is asked."""

    def source(self, mode: Mode, sees: bool) -> str:
        """The rules or the model that answer such a request; `sees`: one with a picture."""

    def hint(self, document: dict[str, Any], picture: Picture | None = None) -> Future[Hint]:
        """A hint for a request document of `hint.request`, by the route `/vision`."""

    def close(self) -> None:
        """Ask no more."""


def request(mode: Mode, scene: Scene, profile: Profile, failed: str = "") -> dict[str, Any]:
    """What a planner is told: the compact state, the room as a text map with its lists, and what the plan
    before this one in the same takeover `failed` by."""
    document = {
        "version": PROMPT_VERSION,
        "mode": mode.value,
        "game": profile.name,
        "state": scene.state.to_json(),
        "view": view_of(scene, profile).to_json(),
    }
    return document | {"failed": failed} if failed else document


def messages(system: str, document: dict[str, Any], picture: Picture | None = None) -> list[dict[str, Any]]:
    """The stable system message first, so that a prefix cache serves it; then the request."""
    content: str | list[dict[str, Any]] = json.dumps(document, separators=(",", ":"))
    if picture is not None:
        content = [
            {"type": "text", "text": content},
            {"type": "image_url", "image_url": {"url": _png_url(picture)}},
        ]
    return [{"role": "system", "content": system}, {"role": "user", "content": content}]


def prompt() -> str:
    """The system message of a request for a plan."""
    return _prompt(f"plan_{PROMPT_VERSION}")


def hint_prompt() -> str:
    """The system message of a request for a hint."""
    return _prompt(f"hint_{hint.PROMPT_VERSION}")


def planner_of(settings: LLMSettings, guide: str = "") -> Planner:
    """The planner that `settings` name."""
    if settings.backend is LLMBackend.EMBEDDED:
        return EmbeddedPlanner()
    return RemotePlanner(settings, guide=guide)


class EmbeddedPlanner:
    """Answers before `ask` returns, so that a run repeats exactly. The local server serves the same rules."""

    sees = False

    def ask(self, mode: Mode, document: dict[str, Any], picture: Picture | None = None) -> Future[Plan]:
        future: Future[Plan] = Future()
        future.set_result(parse_plan(embedded.answer(document)))
        return future

    def source(self, mode: Mode, sees: bool) -> str:
        return EMBEDDED_MODELS[_ROLES[mode]]

    def hint(self, document: dict[str, Any], picture: Picture | None = None) -> Future[Hint]:
        future: Future[Hint] = Future()
        future.set_result(parse_hint(embedded.answer(document)))
        return future

    def close(self) -> None:
        pass


class RemotePlanner:
    """Asks in a thread of its own; LLM_CONCURRENCY bounds the requests of all games of this process."""

    def __init__(self, settings: LLMSettings, embedded_url: str | None = None, guide: str = "") -> None:
        """`embedded_url`: the local server's, for LLM_BACKEND=embedded over HTTP.

        `guide`: the game's, which every request begins with.
        """
        self._guide = f"{guide.rstrip()}\n\n" if guide else ""
        self._settings, self._embedded_url = settings, embedded_url
        self.sees = settings.llm_images
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="planner", daemon=True)
        self._thread.start()
        self._client = self._do(self._connect()).result()

    def ask(self, mode: Mode, document: dict[str, Any], picture: Picture | None = None) -> Future[Plan]:
        role = self._role(mode, picture is not None)
        return self._do(self._plan(role, messages(self._guide + prompt(), document, picture)))

    def source(self, mode: Mode, sees: bool) -> str:
        return route_of(self._role(mode, sees), self._settings, self._embedded_url).model

    def hint(self, document: dict[str, Any], picture: Picture | None = None) -> Future[Hint]:
        return self._do(
            self._hint(messages(self._guide + hint_prompt(), document, picture if self.sees else None))
        )

    def close(self) -> None:
        if self._loop.is_closed():
            return
        self._do(self._disconnect()).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @staticmethod
    def _role(mode: Mode, sees: bool) -> Role:
        return Role.PLAN_VISION if sees else _ROLES[mode]

    async def _plan(self, role: Role, messages: list[dict[str, Any]]) -> Plan:
        return parse_plan(await self._object(role, messages, plan_schema(), "macros"))

    async def _hint(self, messages: list[dict[str, Any]]) -> Hint:
        return parse_hint(await self._object(Role.PLAN_VISION, messages, hint_schema(), "target"))

    async def _object(
        self, role: Role, messages: list[dict[str, Any]], schema: dict[str, Any], key: str
    ) -> dict[str, Any]:
        reply = await self._client.chat(
            role, messages, schema=schema, max_tokens=MAX_REPLY_TOKENS, temperature=0.0
        )
        try:
            return parse_object(reply.choices[0].text, [key])
        except ParseError as error:
            raise InvalidPlan(str(error)) from None

    async def _connect(self) -> ChatClient:
        return ChatClient(self._settings, self._embedded_url)

    async def _disconnect(self) -> None:
        """Requests under way are given up."""
        waiting = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        await self._client.__aexit__()

    def _do(self, work: Coroutine[Any, Any, Any]) -> Future[Any]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)


def _prompt(name: str) -> str:
    return (resources.files("questloop.planner") / "prompts" / f"{name}.md").read_text("utf-8")


def _png_url(picture: Picture) -> str:
    buffer = io.BytesIO()
    Image.fromarray(picture).save(buffer, "png")
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()
