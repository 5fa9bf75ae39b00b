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


@pytest.mark.parametrize(
    ("pasted", "url"),
    [
        ("http://host:8000", "http://host:8000/v1"),
        ("http://host:8000/", "http://host:8000/v1"),
        ("http://host:8000/v1", "http://host:8000/v1"),
        (" http://host:8000/v1/ \n", "http://host:8000/v1"),
        ('"http://host:8000/v1"', "http://host:8000/v1"),
        ("http://host:8000/v1/chat/completions", "http://host:8000/v1"),
        ("http://host:8000/v1/chat/completions/", "http://host:8000/v1"),
        ("http://host:8000/v1/completions", "http://host:8000/v1"),
        ("http://host:8000/v1/models", "http://host:8000/v1"),
        ("HTTPS://Host/api/v1", "https://Host/api/v1"),
        ("https://host/v1beta/openai/", "https://host/v1beta/openai"),
        (
            "https://host/openai/deployments/m/chat/completions?api-version=1",
            "https://host/openai/deployments/m",
        ),
        ("https://me:word@host/v1", "https://host/v1"),
        ("http://[::1]:8000", "http://[::1]:8000/v1"),
        ("https://host/v1#fragment", "https://host/v1"),
    ],
)
def test_what_people_paste_is_understood(pasted, url):
    route = route_of(Role.STATE, LLMSettings(llm_endpoint=pasted))
    assert route.url == url
    assert route.query == ("api-version=1" if "?" in pasted else "")
    assert route.login == (("me", "word") if "@" in pasted else None)
    assert "word" not in repr(route)


@pytest.mark.parametrize(
    "pasted",
    [
        "host:8000",
        "http//host",
        "http://",
        "http://host:port/v1",
        "http://host:99999/v1",
        "http://host:0/v1",
        "http://host:-1/v1",
        "http://a b/v1",
        "http://host/v 1",
        "http://host/\x07",
        "http://[::1/v1",
        "http://" + "a" * 70 + ".example/v1",
        "http://.../v1",
        "ftp://me:marked-secret@host/v1",
        "http://me:marked-secret@host:port/v1",
        "http://host:port/v1?key=marked-secret",
    ],
)
@pytest.mark.parametrize("name", ["llm_endpoint", "llm_gateway_url"])
def test_what_is_no_address_is_refused_in_one_line(pasted, name):
    settings = LLMSettings(**{name: pasted}, llm_backend="endpoint" if "endpoint" in name else "gateway")
    with pytest.raises(UsageError, match=name.upper()) as error:
        route_of(Role.STATE, settings)
    assert "\n" not in str(error.value)
    assert "marked-secret" not in str(error.value)


def test_a_gateway_may_end_in_its_version():
    settings = LLMSettings(llm_backend="gateway", llm_gateway_url="https://gw.example/v1?tenant=a")
    route = route_of(Role.STATE, settings)
    assert (route.url, route.query) == ("https://gw.example/judge/state/v1", "tenant=a")


@pytest.mark.parametrize(
    "values", [{"llm_namespace": "a/b"}, {"llm_model_state": "org/Model", "llm_namespace": "a"}]
)
def test_no_name_of_a_service_is_refused(values):
    with pytest.raises(UsageError, match=r"LLM_MODEL_STATE.*LLM_NAMESPACE"):
        route_of(Role.STATE, LLMSettings(**values))
