"""Requests made up from the dashboard's own OpenAPI document: an answer or a refusal, never a crash."""

import pytest
import schemathesis
from hypothesis import given, settings

from questloop.fleet import jobs
from questloop.fleet.database import Database
from questloop.settings import load
from questloop.web.app import build_app

pytestmark = pytest.mark.slow


def test_no_request_crashes_it(store, tmp_path):
    """With every view: the fleet's, and the one that writes, asked by whoever has the token."""
    fleet = Database(f"sqlite:///{tmp_path}/fleet.sqlite3")
    fleet.migrate()
    jobs.submit(fleet, jobs.parse_request({"job_id": "a", "kind": "command", "arguments": ["true"]}))
    app = build_app(store, load(flags={"dashboard_token": "secret"}), fleet)
    schema = schemathesis.openapi.from_asgi("/openapi.json", app).exclude(path="/events")  # it never ends
    operations = [found.ok() for found in schema.get_all_operations()]
    assert len(operations) >= 15
    for operation in operations:

        @settings(max_examples=12)
        @given(case=operation.as_strategy())
        def ask(case):
            reply = case.call(base_url="http://localhost", headers={"Authorization": "Bearer secret"})
            assert reply.status_code < 500, f"{case.method} {case.formatted_path}: {reply.status_code}"

        ask()
    fleet.dispose()


@pytest.mark.parametrize(
    "path",
    [
        "/segments/..%2f..%2frun.json",
        "/segments/%2e%2e/frames/0.png",
        "/segments/r1-e0000-s000-00000-00000-f0001%00/frames/0.png",
        "/segments/%ff/strip.png",
        "/static/../../settings.py",
        "/static/%2e%2e/%2e%2e/settings.py",
        "/rooms/-1/0.png",
        "/rooms/99999999999999999999/0.png",
        "/segments?page=0",
        "/segments?epoch=1e9&order=nonsense",
        "/episodes?epoch=%00",
    ],
)
def test_odd_paths_are_refused(store, path):
    from starlette.testclient import TestClient

    reply = TestClient(build_app(store, load())).get(path)
    assert 400 <= reply.status_code < 500
    assert "Traceback" not in reply.text
