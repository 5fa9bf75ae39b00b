"""Jobs that follow a burst, against a fake API server that grants what the Role of the manifests grants."""

from __future__ import annotations

import copy
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

import pytest
import yaml
from typer.testing import CliRunner

from questloop.cli.app import app
from questloop.errors import BadDataError, UnavailableError
from questloop.pipeline.bursts import Cluster, follow

ROOT = Path(__file__).parents[2]
JOBS = "/apis/batch/v1/namespaces/zelda-rl/jobs"
RAY_JOBS = "/apis/ray.io/v1/namespaces/zelda-rl/rayjobs"
TEMPLATES = "/api/v1/namespaces/zelda-rl/podtemplates"
VERBS = {"GET": "get", "POST": "create"}


def documents(path):
    return [item for item in yaml.safe_load_all((ROOT / "gitops" / path).read_text("utf-8")) if item]


class FakeApiServer:
    """Keeps Jobs, RayJobs and PodTemplates; refuses what the account's Role does not grant."""

    def __init__(self, rules):
        self.rules = rules
        self.ray_jobs: list[dict] = []
        self.jobs: dict[str, dict] = {}
        self.refused: dict[str, tuple[int, object]] = {}
        self.templates = {
            item["metadata"]["name"]: item for item in documents("base/rl-training/burst-templates.yaml")
        }
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                status, document = fake.answer(self.command, self.path, body)
                data = (document if isinstance(document, str) else json.dumps(document)).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = answer

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def answer(self, method, path, body):
        path, _, query = path.partition("?")
        parts = path.strip("/").split("/")
        group = "" if parts[0] == "api" else parts[1]
        kind, *name = parts[parts.index("namespaces") + 2 :]
        verb = "list" if method == "GET" and not name else VERBS[method]
        asked = {"jobs": "get job", "podtemplates": "get template"}[kind] if verb == "get" else verb
        if asked in self.refused:
            return self.refused[asked]
        if not any(
            group in rule["apiGroups"] and kind in rule["resources"] and verb in rule["verbs"]
            for rule in self.rules
        ):
            return 403, {"kind": "Status", "code": 403}
        if path == RAY_JOBS:
            assert unquote(query) == "labelSelector=questloop.dev/burst=true"
            return 200, {"items": self.ray_jobs}
        if method == "POST":
            job = json.loads(body)
            if job["metadata"]["name"] in self.jobs:
                return 409, {"kind": "Status", "code": 409}
            self.jobs[job["metadata"]["name"]] = job
            return 201, job
        found = (self.templates if path.startswith(TEMPLATES) else self.jobs).get(name[0])
        return (200, found) if found else (404, {"kind": "Status", "code": 404})

    def train(self, epoch, status=None):
        """A burst as the file of the documentation has it."""
        (job,) = documents("jobs/zelda-train-epoch.yaml")
        job["metadata"] |= {"name": f"zelda-train-epoch-{epoch}", "uid": f"uid-{epoch}"}
        job["spec"]["runtimeEnvYAML"] = job["spec"]["runtimeEnvYAML"].replace('"0"', f'"{epoch}"')
        job["status"] = {"jobStatus": status} if status else {}
        self.ray_jobs.append(job)
        return job

    def finish(self, name, condition="Complete"):
        self.jobs[name]["status"] = {"conditions": [{"type": condition, "status": "True"}]}


@pytest.fixture
def server(tmp_path, monkeypatch):
    role = next(item for item in documents("base/rbac/bursts-role.yaml") if item["kind"] == "Role")
    fake = FakeApiServer(role["rules"])
    threading.Thread(target=fake.server.serve_forever, daemon=True).start()
    config = tmp_path / "kubeconfig"
    config.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "test",
                "clusters": [{"name": "test", "cluster": {"server": fake.url}}],
                "users": [{"name": "test", "user": {"token": "of-the-test"}}],
                "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
            }
        )
    )
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("KUBECONFIG", str(config))
    yield fake
    fake.server.shutdown()
    fake.server.server_close()


def test_judges_and_reward_model_follow_each_burst_in_turn(server):
    cluster, told = Cluster("zelda-rl"), []
    running = server.train(3)
    assert follow(cluster, told.append) == []
    running["status"] = {"jobStatus": "RUNNING"}
    assert follow(cluster, told.append) == []
    running["status"] = {"jobStatus": "SUCCEEDED"}
    server.train(4, "SUCCEEDED")
    assert follow(cluster, told.append) == ["evaluator-epoch-3", "evaluator-epoch-4"]
    assert follow(cluster, told.append) == []
    server.finish("evaluator-epoch-3")
    assert follow(cluster, told.append) == ["reward-model-epoch-3"]
    server.finish("reward-model-epoch-3")
    assert follow(cluster, told.append) == []
    assert len(told) == 3


def test_what_failed_is_left_to_a_person(server):
    server.train(0, "FAILED")
    server.train(1, "SUCCEEDED")
    cluster = Cluster("zelda-rl")
    follow(cluster, print)
    server.finish("evaluator-epoch-1", "Failed")
    assert follow(cluster, print) == []
    assert list(server.jobs) == ["evaluator-epoch-1"]


def test_a_job_is_that_of_its_template_its_epoch_and_its_queue_and_goes_with_its_burst(server):
    server.train(12, "SUCCEEDED")
    follow(Cluster("zelda-rl"), print)
    job = server.jobs["evaluator-epoch-12"]
    (by_hand,) = documents("jobs/evaluator.yaml")
    expected = copy.deepcopy(by_hand["spec"])
    del expected["ttlSecondsAfterFinished"]  # what removed itself would be made again, day by day
    made = copy.deepcopy(job["spec"])
    for spec, epoch in ((expected, "0"), (made, "12")):
        (container,) = spec["template"]["spec"]["containers"]
        container["image"] = container["image"].partition(":")[0]  # the template's version is the overlay's
        container["env"].remove({"name": "EPOCH", "value": epoch})
    assert made == expected
    assert job["metadata"]["labels"] == by_hand["metadata"]["labels"]
    assert job["metadata"]["ownerReferences"] == [
        {"apiVersion": "ray.io/v1", "kind": "RayJob", "name": "zelda-train-epoch-12", "uid": "uid-12"}
    ]


def test_a_second_owner_makes_nothing_twice(server, monkeypatch):
    server.train(5, "SUCCEEDED")
    monkeypatch.setattr(Cluster, "job", lambda *_: None)  # as if the other had made it a moment later
    assert follow(Cluster("zelda-rl"), print) == ["evaluator-epoch-5"]
    assert follow(Cluster("zelda-rl"), print) == []


def test_a_missing_right_is_named(server):
    server.train(0, "SUCCEEDED")
    for rule in server.rules:
        rule["verbs"] = [verb for verb in rule["verbs"] if verb != "create"]
    with pytest.raises(UnavailableError, match=r"refused create_namespaced_job: 403 .*bursts-role\.yaml"):
        follow(Cluster("zelda-rl"), print)


REFUSALS = {
    "expired": (401, "Unauthorized", "oc login"),
    "quota": (403, "jobs is forbidden: exceeded quota: jobs, requested: 1, used: 9", "exceeded quota: jobs"),
    "no kind": (404, "the server could not find the requested resource", "KubeRay's kinds"),
    "gone": (410, "the continue token has expired", "410"),
    "invalid": (422, "Job is invalid: spec:\n* one\n* two", "422"),
    "busy": (429, "too many requests", "429"),
    "down": (503, "", "503"),
}


@pytest.mark.parametrize("name", REFUSALS)
@pytest.mark.parametrize("asked", ["list", "get job", "get template", "create"])
def test_whatever_the_server_refuses_is_one_line_and_the_next_look_goes_on(asked, name, server):
    status, message, expected = REFUSALS[name]
    server.train(0, "SUCCEEDED")
    if (asked, status) == ("get job", 404):
        return  # there is no such Job, which is what is looked for
    server.refused = {asked: (status, {"kind": "Status", "code": status, "message": message})}
    cluster = Cluster("zelda-rl")
    with pytest.raises(UnavailableError) as raised:
        follow(cluster, print)
    assert expected in str(raised.value)
    assert "\n" not in str(raised.value)
    server.refused = {}
    assert follow(cluster, print) == ["evaluator-epoch-0"]


def test_a_quota_that_is_used_up_is_not_called_a_missing_right(server):
    server.train(0, "SUCCEEDED")
    server.refused = {"create": (403, {"message": "exceeded quota: jobs"})}
    with pytest.raises(UnavailableError) as raised:
        follow(Cluster("zelda-rl"), print)
    assert "bursts-role" not in str(raised.value)


def test_an_answer_that_is_no_json_is_one_line(server):
    server.train(0, "SUCCEEDED")
    server.refused = {"create": (502, "<html>")}
    with pytest.raises(UnavailableError, match="refused create_namespaced_job: 502"):
        follow(Cluster("zelda-rl"), print)


@pytest.mark.parametrize(
    ("spoil", "expected"),
    [
        (lambda burst: burst["metadata"].update(name="zelda-train"), "ends with -epoch-N"),
        (lambda burst: burst["spec"].update(runtimeEnvYAML="env_vars: {EPOCH: '7'}"), "EPOCH says 7"),
        (lambda burst: burst["spec"].update(runtimeEnvYAML="env_vars: [EPOCH]"), "no mapping"),
        (lambda burst: burst["spec"].update(runtimeEnvYAML="{"), "no mapping"),
    ],
)
def test_a_burst_that_says_no_epoch_or_two_is_named_and_others_are_served(spoil, expected, server):
    spoil(server.train(0, "SUCCEEDED"))
    server.train(1, "SUCCEEDED")
    with pytest.raises(BadDataError, match=expected):
        follow(Cluster("zelda-rl"), print)
    assert list(server.jobs) == ["evaluator-epoch-1"]


def test_a_second_run_has_jobs_and_a_store_of_its_own(server):
    server.train(2, "SUCCEEDED")
    other = server.train(2, "SUCCEEDED")
    other["metadata"]["name"] = "other-epoch-2"
    other["spec"]["runtimeEnvYAML"] += '  STORE_URL: "s3://other"\n'
    follow(Cluster("zelda-rl"), print)
    assert list(server.jobs) == ["evaluator-epoch-2", "evaluator-other-epoch-2"]
    stores = [
        {item["name"]: item.get("value") for item in job["spec"]["template"]["spec"]["containers"][0]["env"]}
        for job in server.jobs.values()
    ]
    assert [found.get("STORE_URL") for found in stores] == [None, "s3://other"]
    assert {found["EPOCH"] for found in stores} == {"2"}


def test_a_burst_without_a_queue_has_jobs_without_one(server):
    burst = server.train(0, "SUCCEEDED")
    del burst["metadata"]["labels"]["kueue.x-k8s.io/queue-name"]
    follow(Cluster("zelda-rl"), print)
    assert server.jobs["evaluator-epoch-0"]["metadata"]["labels"] == {}


def test_the_command_tells_each_state_once(server, monkeypatch):
    server.train(0, "FAILED")
    looks = iter(range(3))
    monkeypatch.setattr("time.sleep", lambda _: next(looks))
    done = CliRunner().invoke(app, ["bursts"])
    assert done.output.count("zelda-train-epoch-0: failed, so nothing follows it") == 1


def test_an_api_server_that_is_gone_is_one_line(server):
    cluster = Cluster("zelda-rl")
    server.server.shutdown()
    server.server.server_close()
    with pytest.raises(UnavailableError, match="does not answer"):
        follow(cluster, print)
