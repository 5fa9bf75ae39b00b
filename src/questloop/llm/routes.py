"""Which URL and model serve a role.

| backend | base URL | model |
|---|---|---|
| embedded | the local server's, handed in | `rule-based-state` and so on |
| endpoint | LLM_ENDPOINT | LLM_MODEL_STATE, _PUZZLE, _VISION |
| direct | `https://{model}-kserve-workload-svc.{namespace}.svc.cluster.local:8000/v1` | same |
| gateway | LLM_GATEWAY_URL + `/judge/state`, `/vision` and so on + `/v1` | same |
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from enum import StrEnum

from questloop.errors import UsageError
from questloop.llm.endpoint import Endpoint, read_endpoint
from questloop.settings import LLMBackend, LLMSettings


class Role(StrEnum):
    """What a request is for: three judges and three planner modes."""

    STATE = "state"
    PUZZLE = "puzzle"
    VISION = "vision"
    PLAN_VISION = "plan_vision"
    PLAN_DIALOG = "plan_dialog"
    PLAN_PUZZLE = "plan_puzzle"

    @classmethod
    def parse(cls, name: str) -> Role:
        """The role called `name`; `rules` is another name for `puzzle`.

        >>> Role.parse("rules")
        <Role.PUZZLE: 'puzzle'>
        """
        try:
            return cls("puzzle" if name == "rules" else name)
        except ValueError:
            raise UsageError(f"role {name!r} is unknown; one of {', '.join(cls)}, rules") from None


_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")

GATEWAY_PATHS = {
    Role.STATE: "/judge/state",
    Role.PUZZLE: "/judge/puzzle",
    Role.VISION: "/judge/vision",
    Role.PLAN_VISION: "/vision",
    Role.PLAN_DIALOG: "/dialog",
    Role.PLAN_PUZZLE: "/puzzle",
}

EMBEDDED_MODELS = {
    Role.STATE: "rule-based-state",
    Role.PUZZLE: "rule-based-puzzle",
    Role.VISION: "rule-based-vision",
    Role.PLAN_VISION: "embedded-planner-vision",
    Role.PLAN_DIALOG: "embedded-planner-dialog",
    Role.PLAN_PUZZLE: "embedded-planner-puzzle",
}


@dataclass(frozen=True)
class Route:
    """Where the requests of a role go."""

    role: Role
    url: str
    """base URL; `/chat/completions` is appended"""
    model: str
    images: bool
    """whether the model takes pictures"""
    query: str = field(default="", repr=False)
    """goes with every request"""
    login: tuple[str, str] | None = field(default=None, repr=False)
    """user and password of the server, which never stand in `url`"""

    @classmethod
    def to(cls, role: Role, endpoint: Endpoint, model: str, images: bool) -> Route:
        """The route to a model at `endpoint`."""
        return cls(role, endpoint.url, model, images, endpoint.query, endpoint.login)


def route_of(role: Role, settings: LLMSettings, embedded_url: str | None = None) -> Route:
    """The route of `role`; `embedded_url` is the local server's base URL.

    Raises `UsageError` where the backend in force lacks its URL or namespace.
    """
    backend = settings.backend
    if backend is LLMBackend.EMBEDDED:
        if embedded_url is None:
            raise UsageError(
                "LLM_BACKEND=embedded: the local server is not running; set LLM_ENDPOINT to use another"
            )
        endpoint = read_endpoint("the embedded server", embedded_url)
        return Route.to(role, endpoint, EMBEDDED_MODELS[role], images=True)
    model = model_of(role, settings)
    return Route.to(role, _endpoint(role, model, settings), model, settings.llm_images)


def model_of(role: Role, settings: LLMSettings) -> str:
    """The model that settings name for `role`."""
    if role in (Role.VISION, Role.PLAN_VISION):
        return settings.llm_model_vision
    if role in (Role.PUZZLE, Role.PLAN_PUZZLE):
        return settings.llm_model_puzzle
    return settings.llm_model_state


def failover_route(route: Route, settings: LLMSettings) -> Route | None:
    """The route to LLM_FAILOVER_MODEL, or None where none is set or it is the model that failed."""
    model = settings.llm_failover_model
    if model is None or model == route.model or settings.backend is LLMBackend.EMBEDDED:
        return None
    return Route.to(route.role, _endpoint(route.role, model, settings), model, route.images)


def _endpoint(role: Role, model: str, settings: LLMSettings) -> Endpoint:
    match settings.backend:
        case LLMBackend.DIRECT:
            if not settings.llm_namespace:
                raise UsageError(
                    "LLM_BACKEND=direct needs LLM_NAMESPACE, the namespace of the model services"
                )
            for name in (model, settings.llm_namespace):
                if not _LABEL.fullmatch(name):
                    raise UsageError(
                        f"LLM_BACKEND=direct: {name!r} is no name of a Kubernetes service or namespace; "
                        "set LLM_MODEL_STATE, _PUZZLE, _VISION and LLM_NAMESPACE to those of the cluster"
                    )
            service = f"{model}-kserve-workload-svc.{settings.llm_namespace}.svc.cluster.local"
            return Endpoint(f"https://{service}:8000/v1")
        case LLMBackend.GATEWAY:
            if not settings.llm_gateway_url:
                raise UsageError(
                    "LLM_BACKEND=gateway needs LLM_GATEWAY_URL, for example https://gateway.example"
                )
            gateway = read_endpoint("LLM_GATEWAY_URL", settings.llm_gateway_url, gateway=True)
            return replace(gateway, url=f"{gateway.url}{GATEWAY_PATHS[role]}/v1")
        case _:
            if not settings.llm_endpoint:
                raise UsageError(
                    "LLM_BACKEND=endpoint needs LLM_ENDPOINT, for example http://127.0.0.1:8000/v1"
                )
            return read_endpoint("LLM_ENDPOINT", settings.llm_endpoint)
