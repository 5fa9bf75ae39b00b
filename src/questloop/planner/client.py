"""Asks a planner for a plan: the embedded one in this process, or a language model over HTTP."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from importlib import resources
from typing import Any, Protocol

from questloop.game.profile import Profile
from questloop.llm.client import ChatClient
from questloop.llm.routes import Role
from questloop.llm.structured import ParseError, parse_object
from questloop.planner import embedded
from questloop.planner.modes import Mode
from questloop.planner.plan import InvalidPlan, Plan, parse_plan, plan_schema
from questloop.planner.view import Scene, view_of
from questloop.settings import LLMBackend, LLMSettings

PROMPT_VERSION = 1
MAX_REPLY_TOKENS = 1024

_ROLES = {Mode.DIALOG: Role.PLAN_DIALOG, Mode.PUZZLE: Role.PLAN_PUZZLE}


class Planner(Protocol):
    """`ask` returns at once; the future brings a plan, or raises `InvalidPlan` or `ChatError`."""

    def ask(self, mode: Mode, document: dict[str, Any]) -> Future[Plan]:
        """A plan for a request document of `request`."""

    def close(self) -> None:
        """Ask no more."""


def request(mode: Mode, scene: Scene, profile: Profile) -> dict[str, Any]:
    """What a planner is told: the compact state, and the room as a text map with its lists."""
    return {
        "version": PROMPT_VERSION,
        "mode": mode.value,
        "game": profile.name,
        "state": scene.state.to_json(),
        "view": view_of(scene, profile).to_json(),
    }


def messages(document: dict[str, Any]) -> list[dict[str, Any]]:
    """The stable system message first, so that a prefix cache serves it; then the request."""
    text = json.dumps(document, separators=(",", ":"))
    return [{"role": "system", "content": prompt()}, {"role": "user", "content": text}]


def prompt() -> str:
    """The system message of this version."""
    file = resources.files("questloop.planner") / "prompts" / f"plan_{PROMPT_VERSION}.md"
    return file.read_text("utf-8")


def planner_of(settings: LLMSettings) -> Planner:
    """The planner that `settings` name."""
    return EmbeddedPlanner() if settings.backend is LLMBackend.EMBEDDED else RemotePlanner(settings)


class EmbeddedPlanner:
    """Answers before `ask` returns, so that a run repeats exactly. The local server serves the same rules."""

    def ask(self, mode: Mode, document: dict[str, Any]) -> Future[Plan]:
        future: Future[Plan] = Future()
        future.set_result(parse_plan(embedded.answer(document)))
        return future

    def close(self) -> None:
        pass


class RemotePlanner:
    """Asks in a thread of its own; LLM_CONCURRENCY bounds the requests of all games of this process."""

    def __init__(self, settings: LLMSettings, embedded_url: str | None = None) -> None:
        """`embedded_url`: the local server's, for LLM_BACKEND=embedded over HTTP."""
        self._settings, self._embedded_url = settings, embedded_url
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="planner", daemon=True)
        self._thread.start()
        self._client = self._do(self._connect()).result()

    def ask(self, mode: Mode, document: dict[str, Any]) -> Future[Plan]:
        return self._do(self._plan(_ROLES[mode], document))

    def close(self) -> None:
        if self._loop.is_closed():
            return
        self._do(self._disconnect()).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _plan(self, role: Role, document: dict[str, Any]) -> Plan:
        reply = await self._client.chat(
            role,
            messages(document),
            schema=plan_schema(),
            max_tokens=MAX_REPLY_TOKENS,
            temperature=0.0,
        )
        try:
            return parse_plan(parse_object(reply.choices[0].text, ["macros"]))
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
