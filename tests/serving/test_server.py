import gc
from types import FunctionType

import httpx
import pytest

from questloop.errors import UnavailableError
from questloop.serving.server import LocalServer


@pytest.fixture(scope="module")
def url():
    with LocalServer() as server:
        yield server.url


def ask(url, model="rule-based-state", **extra):
    body = {"model": model, "messages": [{"role": "user", "content": "Segment of 3 steps, 0 to 2."}]} | extra
    return httpx.post(f"{url}/chat/completions", json=body)


def test_models_are_named_for_what_they_are(url):
    names = {item["id"] for item in httpx.get(f"{url}/models").json()["data"]}
    assert {"rule-based-state", "rule-based-puzzle", "rule-based-vision"} <= names


def test_it_listens_on_loopback_only(url):
    assert url.startswith("http://127.0.0.1:")


def test_n_choices_and_no_invented_tokens(url):
    document = ask(url, n=3).json()
    assert len({choice["message"]["content"] for choice in document["choices"]}) == 1
    assert len(document["choices"]) == 3
    assert document["usage"]["total_tokens"] == 0


def test_an_unknown_model_is_named_with_those_there_are(url):
    reply = ask(url, model="gpt")
    assert reply.status_code == 404
    assert "rule-based-state" in reply.json()["error"]["message"]


@pytest.mark.parametrize("body", [{}, {"model": "rule-based-state", "messages": []}, {"model": 1}])
def test_a_bad_request_is_refused(url, body):
    assert httpx.post(f"{url}/chat/completions", json=body).status_code == 422


def test_a_taken_port_is_one_clear_error(url):
    port = int(url.split(":")[2].split("/")[0])
    with pytest.raises(UnavailableError, match=f"127.0.0.1:{port}"), LocalServer(port=port):
        pass


@pytest.mark.parametrize(
    ("host", "status"), [("127.0.0.1", 200), ("localhost:99", 200), ("evil.example", 400)]
)
def test_only_requests_to_this_machine_by_name_are_answered(host, status):
    """A foreign name that was made to point to 127.0.0.1 is DNS rebinding."""
    with LocalServer() as server:
        reply = httpx.get(f"{server.root_url}/v1/models", headers={"host": host}, timeout=30)
    assert reply.status_code == status


def test_a_server_that_ended_leaves_nothing_behind():
    """A run of days starts one an epoch, and libraries remember the functions of every application."""

    def functions() -> int:
        gc.collect()
        kept = (it for it in gc.get_objects() if type(it) is FunctionType)
        return sum(it.__module__ == "questloop.serving.server" for it in kept)

    counts = []
    for _ in range(3):
        with LocalServer() as server:
            assert ask(server.url).status_code == 200
        counts.append(functions())
    assert counts[1:] == counts[:1] * 2
