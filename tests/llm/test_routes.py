import pytest

from questloop.errors import UsageError
from questloop.llm.routes import Role, failover_route, route_of
from questloop.settings import LLMSettings


def test_direct_workload_service():
    route = route_of(Role.STATE, LLMSettings(llm_namespace="zelda-rl"))
    assert route.url == "https://qwen25-7b-kserve-workload-svc.zelda-rl.svc.cluster.local:8000/v1"
    assert route.model == "qwen25-7b"


@pytest.mark.parametrize(
    ("role", "path"),
    [
        ("state", "/judge/state"),
        ("puzzle", "/judge/puzzle"),
        ("rules", "/judge/puzzle"),
        ("vision", "/judge/vision"),
        ("plan_vision", "/vision"),
        ("plan_dialog", "/dialog"),
        ("plan_puzzle", "/puzzle"),
    ],
)
def test_gateway_routes(role, path):
    settings = LLMSettings(llm_namespace="ns", llm_use_direct=False, llm_gateway_url="https://gw.example/")
    assert route_of(Role.parse(role), settings).url == f"https://gw.example{path}/v1"


def test_one_endpoint_serves_every_role():
    settings = LLMSettings(llm_endpoint="http://127.0.0.1:9/v1/", llm_model_vision="llava")
    assert {route_of(role, settings).url for role in Role} == {"http://127.0.0.1:9/v1"}
    assert route_of(Role.VISION, settings).model == route_of(Role.PLAN_VISION, settings).model == "llava"


@pytest.mark.parametrize(
    ("values", "name"),
    [
        ({"llm_backend": "endpoint"}, "LLM_ENDPOINT"),
        ({"llm_backend": "direct"}, "LLM_NAMESPACE"),
        ({"llm_backend": "gateway"}, "LLM_GATEWAY_URL"),
        ({"llm_endpoint": "localhost:8000"}, "LLM_ENDPOINT"),
        ({}, "LLM_BACKEND=embedded"),
    ],
)
def test_what_is_missing_is_named(values, name):
    with pytest.raises(UsageError, match=name):
        route_of(Role.STATE, LLMSettings(**values))


def test_failover_only_where_configured():
    settings = LLMSettings(llm_namespace="ns", llm_failover_model="qwen25-7b")
    assert failover_route(route_of(Role.STATE, settings), settings) is None
    backup = failover_route(route_of(Role.PUZZLE, settings), settings)
    assert backup is not None
    assert backup.url == "https://qwen25-7b-kserve-workload-svc.ns.svc.cluster.local:8000/v1"
    assert failover_route(route_of(Role.PUZZLE, LLMSettings(llm_namespace="ns")), settings) is not None


def test_unknown_role_lists_the_known():
    with pytest.raises(UsageError, match="state, puzzle, vision"):
        Role.parse("dragon")
