"""The Workbench notebook, run from its first cell to its last against a fake API server and job server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml
from scripts import render_manifests
from scripts.manifest_rules import Tree, secrets

ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "notebooks/run-kuberay-zelda.ipynb"
TOKEN = "sha256~a-token-of-the-test"
CLUSTER = "zelda-workbench"


class FakeCluster:
    """As much of an OpenShift API server and of Ray's job server as the notebook needs; any job succeeds."""

    def __init__(self):
        self.applied: dict | None = None
        self.deleted = False
        self.jobs: list[dict] = []
        self.unauthorised: list[str] = []
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self):
                size = int(self.headers.get("Content-Length") or 0)
                status, document = fake.answer(self.command, self.path, self.headers, self.rfile.read(size))
                body = json.dumps(document).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST = do_PATCH = do_DELETE = answer

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.host = f"127.0.0.1:{self.server.server_port}"

    def answer(self, method, path, headers, body):
        path = path.partition("?")[0].rstrip("/")
        if headers.get("Authorization") not in (TOKEN, f"Bearer {TOKEN}"):
            self.unauthorised.append(path)
        if path.startswith("/api/jobs") or path == "/api/version":
            return self._job_server(method, path, body)
        clusters = "/apis/ray.io/v1/namespaces/zelda-rl/rayclusters"
        if path == f"{clusters}/{CLUSTER}":
            if method == "PATCH":
                self.applied = yaml.safe_load(body)
            if method == "DELETE":
                self.deleted = True
            return 200, self.applied | {"status": {"state": "ready"}}
        return self._listing(path, clusters)

    def _listing(self, path, clusters):
        ready = [] if self.applied is None else [self.applied | {"status": {"state": "ready"}}]
        queue = {"metadata": {"name": "zelda-rl", "annotations": {"kueue.x-k8s.io/default-queue": "true"}}}
        route = {"metadata": {"name": f"ray-dashboard-{CLUSTER}"}, "spec": {"host": self.host}}
        version = {"groupVersion": "ray.io/v1", "version": "v1"}
        groups = [{"name": "ray.io", "versions": [version], "preferredVersion": version}]
        routes = {"groupVersion": "route.openshift.io/v1", "version": "v1"}
        groups.append({"name": "route.openshift.io", "versions": [routes], "preferredVersion": routes})
        kinds = [{"name": "rayclusters", "kind": "RayCluster", "namespaced": True, "verbs": ["patch"]}]
        known = {
            "": {},
            "/version": {"major": "1", "minor": "33"},
            "/api": {"kind": "APIVersions", "versions": ["v1"]},
            "/api/v1": {"kind": "APIResourceList", "groupVersion": "v1", "resources": []},
            "/apis": {"kind": "APIGroupList", "groups": groups},
            "/apis/ray.io/v1": {"groupVersion": "ray.io/v1", "resources": kinds},
            "/apis/route.openshift.io/v1": {"groupVersion": "route.openshift.io/v1", "resources": []},
            "/api/v1/namespaces/zelda-rl/secrets": {"items": []},
            "/apis/kueue.x-k8s.io/v1beta1/namespaces/zelda-rl/localqueues": {"items": [queue]},
            "/apis/gateway.networking.k8s.io/v1/httproutes": {"items": []},
            "/apis/route.openshift.io/v1/namespaces/zelda-rl/routes": {"items": [route]},
            clusters: {"items": ready},
        }
        if path not in known:
            return 404, {"kind": "Status", "code": 404}
        return 200, {"kind": "APIResourceList", "apiVersion": "v1"} | known[path]

    def _job_server(self, method, path, body):
        if path == "/api/version":
            return 200, {"version": "4", "ray_version": "2.58.0", "ray_commit": "", "session_name": "x"}
        if method == "POST":
            self.jobs.append(json.loads(body))
            name = self.jobs[-1]["submission_id"]
            return 200, {"submission_id": name, "job_id": name}
        if path == "/api/jobs":
            return 200, [self._details(job) for job in self.jobs]
        name = path.split("/")[3]
        if path.endswith("/logs"):
            return 200, {"logs": f"log of {name}\n"}
        return 200, self._details(next(job for job in self.jobs if job["submission_id"] == name))

    @staticmethod
    def _details(job):
        return {
            "type": "SUBMISSION",
            "submission_id": job["submission_id"],
            "status": "SUCCEEDED",
            "entrypoint": job["entrypoint"],
            "driver_exit_code": 0,
            "message": "",
        }


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """(the fake cluster, what the notebook printed)"""
    fake = FakeCluster()
    threading.Thread(target=fake.server.serve_forever, daemon=True).start()
    home = tmp_path_factory.mktemp("workbench")
    cells = [
        "".join(cell["source"])
        for cell in json.loads(NOTEBOOK.read_text("utf-8"))["cells"]
        if cell["cell_type"] == "code"
    ]
    script = home / "notebook.py"
    script.write_text("\n\n".join(cells), "utf-8")
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "PYTHONPATH": str(ROOT / "src"),
        "OPENSHIFT_SERVER": f"http://{fake.host}",
        "OPENSHIFT_TOKEN": TOKEN,
        "TLS_WAIT_S": "0",
        "CODEFLARE_TLS_DIR": str(home / "tls"),
        "EPOCHS": "2",
        "WAIT_S": "60",
    }
    done = subprocess.run(
        [sys.executable, str(script)],
        env=environment,
        cwd=home,
        capture_output=True,
        text=True,
        check=False,
        timeout=170,
    )
    fake.server.shutdown()
    fake.server.server_close()
    assert done.returncode == 0, done.stdout + done.stderr
    return fake, done.stdout


@pytest.mark.slow
def test_the_notebook_runs_both_cycles_of_every_epoch(played):
    fake, output = played
    names = [f"zelda-{stage}-epoch-{epoch}" for epoch in range(2) for stage in ("train", "eval", "reward")]
    assert [job["submission_id"] for job in fake.jobs] == names
    assert "log of zelda-reward-epoch-1" in output
    assert fake.jobs[3]["runtime_env"]["env_vars"]["EPOCH"] == "1"
    assert fake.deleted
    assert fake.unauthorised == []


@pytest.mark.slow
def test_the_cluster_has_its_queue_its_settings_and_its_keys_by_reference(played):
    fake, output = played
    cluster = fake.applied
    assert cluster["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "zelda-rl"
    assert list(secrets(Tree([cluster]))) == []
    assert TOKEN not in json.dumps(cluster) + output
    head, *workers = [cluster["spec"]["headGroupSpec"], *cluster["spec"]["workerGroupSpecs"]]
    for group in (head, *workers):
        (container,) = group["template"]["spec"]["containers"]
        values = {item["name"]: item for item in container["env"]}
        assert values["RAY_WORKERS"]["value"] == "6"
        assert values["S3_SECRET_KEY"]["valueFrom"]["secretKeyRef"]["name"] == "questloop-store"
    assert [group["replicas"] for group in workers] == [3]


@pytest.mark.slow
@pytest.mark.skipif(
    render_manifests.SCHEMAS not in os.environ, reason=f"{render_manifests.SCHEMAS} names no schemas"
)
def test_what_the_sdk_applies_is_a_valid_ray_cluster(played, tmp_path):
    path = tmp_path / "raycluster.yaml"
    path.write_text(yaml.safe_dump(played[0].applied), "utf-8")
    assert render_manifests.schema_problems([path]) == []
