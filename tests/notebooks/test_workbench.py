"""The Workbench notebook, run from its first cell to its last against a fake API server and job server."""

from __future__ import annotations

import copy
import functools
import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import yaml
from scripts import render_manifests
from scripts.manifest_admission import NOTEBOOK_CLUSTER, ClusterQueue, queues, requests, workloads
from scripts.manifest_rules import secrets
from scripts.manifest_tree import Tree, pods_of

ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "notebooks/run-kuberay-zelda.ipynb"
TOKEN = "sha256~a-token-of-the-test"
CLUSTER = "zelda-workbench"


class FakeCluster:
    """As much of an OpenShift API server and of Ray's job server as the notebook needs; any job succeeds.

    It refuses what names no queue, as OpenShift AI's webhook does. It admits by the dev overlay's quotas, in
    which the standing cluster and a burst's jobs are already; another notebook holds the rest for the first
    `late` looks. `broken` refuses everything. `refusal` is a status and message for what is applied,
    `troubles` statuses of the first looks at the cluster, `hidden` hides Kueue's workloads. Whoever runs the
    notebook has the rights of the Role zelda-rl-training and no others.
    """

    def __init__(self, late=2, broken=False, refusal=None, troubles=(), hidden=False):
        self.refusal, self.troubles, self.hidden = refusal, list(troubles), hidden
        self.applied: dict | None = None
        self.deleted = False
        self.jobs: list[dict] = []
        self.unauthorised: list[str] = []
        self.late, self.broken, self.looks = late, broken, 0
        self.queue = quotas()
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

    def cluster(self):
        """What was applied, with its state of this moment: unseen, then waiting, then admitted and ready."""
        self.looks += 1
        if self.looks == 1:
            return self.applied
        if self.looks <= 1 + self.late:
            taken = copy.deepcopy(self.queue)
            assert isinstance(taken.admit(NOTEBOOK_CLUSTER), dict)
            self.answer_of_kueue = taken.admit(self.applied)
        else:
            self.answer_of_kueue = copy.deepcopy(self.queue).admit(self.applied)
        state = "suspended" if isinstance(self.answer_of_kueue, str) else "ready"
        return self.applied | {"status": {"state": state}}

    def workloads(self):
        waits = {"type": "QuotaReserved", "status": "False", "message": str(self.answer_of_kueue)}
        return [
            {
                "metadata": {"name": "w", "ownerReferences": [{"kind": "RayCluster", "name": CLUSTER}]},
                "status": {"conditions": [waits]},
            }
        ]

    def apply(self, body):
        document = yaml.safe_load(body)
        if self.refusal:
            status, reason = self.refusal
            if status == 409:
                self.applied = document  # as an earlier run of the cell left it
            return status, {"kind": "Status", "code": status, "message": reason}
        if self.broken or any("names no queue" in text for text in queues(Tree([document]))):
            reason = 'denied by an admission webhook: missing required label "kueue.x-k8s.io/queue-name"'
            return 403, {"kind": "Status", "code": 403, "message": reason, "reason": "Forbidden"}
        self.applied = document
        return 200, document

    def answer(self, method, path, headers, body):
        path = path.partition("?")[0].rstrip("/")
        if headers.get("Authorization") not in (TOKEN, f"Bearer {TOKEN}"):
            self.unauthorised.append(path)
        if path.startswith("/api/jobs") or path == "/api/version":
            return self._job_server(method, path, body)
        if not granted(method, path):
            return 403, {"kind": "Status", "code": 403, "message": f"{path} is forbidden"}
        clusters = "/apis/ray.io/v1/namespaces/zelda-rl/rayclusters"
        if path == f"{clusters}/{CLUSTER}":
            if method == "PATCH":
                return self.apply(body)
            if self.applied is None:
                return 404, {"kind": "Status", "code": 404}
            if method == "DELETE":
                self.deleted = True
                return 200, {"kind": "Status"}
            if self.troubles:
                status = self.troubles.pop(0)
                return status, {"kind": "Status", "code": status}
            return 200, self.cluster()
        if self.hidden and path.endswith("/workloads"):
            return 403, {"kind": "Status", "code": 403}
        if path == "/apis/kueue.x-k8s.io/v1beta1/namespaces/zelda-rl/workloads":
            return 200, {"items": self.workloads()}
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


@functools.cache
def dev():
    """The documents of the dev overlay and the jobs."""
    with TemporaryDirectory() as folder:
        return [
            render_manifests.read(
                render_manifests.render(
                    ROOT / "gitops" / part, Path(folder) / f"{part.replace('/', '-')}.yaml"
                )
            )
            for part in ("overlays/dev", "jobs")
        ]


def granted(method, path):
    """Whether the Role of the manifests grants it; what everybody may ask is not of a namespace."""
    parts = path.strip("/").split("/")
    if "namespaces" not in parts:
        return "httproutes" not in parts
    group = "" if parts[0] == "api" else parts[1]
    resource, *name = parts[parts.index("namespaces") + 2 :]
    verb = {"PATCH": "patch", "DELETE": "delete", "POST": "create"}.get(method, "get" if name else "list")
    (role,) = (i for i in dev()[0] if i["kind"] == "Role" and i["metadata"]["name"] == "zelda-rl-training")
    return any(
        group in rule["apiGroups"] and resource in rule["resources"] and verb in rule["verbs"]
        for rule in role["rules"]
    )


def quotas():
    """The dev overlay's queue, with everything in it that may be there but a notebook's cluster."""
    tree = Tree(*dev())
    (queue,) = (ClusterQueue.of(item) for item in tree.of("ClusterQueue"))
    for item in workloads(tree):
        if item is not NOTEBOOK_CLUSTER:
            assert isinstance(queue.admit(item), dict)
    return queue


def play(fake, home, **changed):
    """Run the notebook's cells in order; how that ended."""
    threading.Thread(target=fake.server.serve_forever, daemon=True).start()
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
        "POLL_S": "0.1",
    }
    done = subprocess.run(
        [sys.executable, str(script)],
        env={name: value for name, value in (environment | changed).items() if value is not None},
        cwd=home,
        capture_output=True,
        text=True,
        check=False,
        timeout=170,
    )
    fake.server.shutdown()
    fake.server.server_close()
    return done


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """(the fake cluster, what the notebook printed)"""
    fake = FakeCluster()
    done = play(fake, tmp_path_factory.mktemp("workbench"))
    assert done.returncode == 0, done.stdout + done.stderr
    return fake, done.stdout


@pytest.mark.slow
def test_it_says_what_it_waits_for_until_the_quota_has_room(played):
    _, output = played
    unseen = output.index("not looked at by KubeRay yet")
    waiting = output.index("suspended: no flavor has room for 2 cpu")
    assert unseen < waiting < output.index("Requested cluster is up and running")
    assert output.count("suspended: ") == 1


@pytest.mark.slow
def test_it_asks_for_what_the_admission_rule_reckons_with(played):
    asked, reckoned = (
        [(group.count, requests(group)) for group in pods_of(cluster)]
        for cluster in (played[0].applied, NOTEBOOK_CLUSTER)
    )
    assert asked == reckoned


@pytest.mark.slow
def test_a_refused_cluster_ends_the_notebook_with_the_servers_words(tmp_path):
    fake = FakeCluster(broken=True)
    done = play(fake, tmp_path)
    assert done.returncode != 0
    assert 'missing required label "kueue.x-k8s.io/queue-name"' in done.stdout
    assert done.stderr.strip().endswith("was not made (404): the API server's answer stands above")
    assert fake.jobs == []


@pytest.mark.slow
def test_an_api_server_that_is_late_is_waited_for_and_what_it_hides_is_said(tmp_path):
    fake = FakeCluster(late=1, troubles=[429, 503, 500], hidden=True)
    done = play(fake, tmp_path, EPOCHS="1")
    assert done.returncode == 0, done.stdout + done.stderr
    for status in (429, 503, 500):
        assert f"the API server does not answer: {status} " in done.stdout
    assert "suspended: what Kueue waits for cannot be read: (403)" in done.stdout
    assert len(fake.jobs) == 3


@pytest.mark.slow
def test_a_token_that_runs_out_while_waiting_ends_in_one_line(tmp_path):
    done = play(FakeCluster(troubles=[401]), tmp_path)
    assert done.returncode != 0
    assert "zelda-workbench cannot be read (401 Unauthorized): log in again" in done.stderr.splitlines()[-1]


@pytest.mark.slow
def test_a_quota_of_the_namespace_that_is_used_up_is_said_in_the_servers_words(tmp_path):
    fake = FakeCluster(
        refusal=(403, "rayclusters is forbidden: exceeded quota: clusters, used: 1, limited: 1")
    )
    done = play(fake, tmp_path)
    assert done.returncode != 0
    assert "exceeded quota: clusters" in done.stdout
    assert "was not made (404)" in done.stderr.splitlines()[-1]


@pytest.mark.slow
def test_a_cluster_of_that_name_that_is_there_is_gone_on_with_and_that_is_said(tmp_path):
    fake = FakeCluster(late=0, refusal=(409, "conflict"))
    done = play(fake, tmp_path, EPOCHS="1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "A RayCluster with this name already exists" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"JUDGES": "oracle"}, "JUDGES=oracle: one of embedded, direct, gateway"),
        ({"OPENSHIFT_TOKEN": None}, "set OPENSHIFT_TOKEN in the environment"),
    ],
)
def test_a_wrong_choice_is_one_line(changed, said, tmp_path):
    fake = FakeCluster()
    done = play(fake, tmp_path, **changed)
    assert done.returncode != 0
    assert said in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


@pytest.mark.long
def test_a_cluster_that_is_never_admitted_ends_with_kueues_reason(tmp_path):
    fake = FakeCluster(late=10**6)
    done = play(fake, tmp_path, WAIT_S="1")
    assert done.returncode != 0
    assert "is not ready after 1 s (suspended: no flavor has room for 2 cpu" in done.stderr
    assert fake.jobs == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("judges", "printed"),
    [
        pytest.param(
            *("direct", "judge state: qwen25-7b at https://qwen25-7b-kserve-workload-svc.zelda-rl.svc"),
            marks=pytest.mark.long,
        ),
        ("gateway", "judge vision: qwen25-vl-32b at https://openshift-ai-inference-openshift-default."),
    ],
)
def test_it_prints_which_judges_answer_and_gives_their_settings_to_the_pods(judges, printed, tmp_path):
    fake = FakeCluster(late=0)
    done = play(fake, tmp_path, JUDGES=judges, EPOCHS="1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert printed in done.stdout
    (container,) = fake.applied["spec"]["headGroupSpec"]["template"]["spec"]["containers"]
    values = {item["name"]: item.get("value") for item in container["env"]}
    assert values["LLM_USE_DIRECT"] == ("true" if judges == "direct" else "false")
    assert "LLM_BACKEND" not in values
    assert fake.jobs[1]["runtime_env"]["env_vars"]["LLM_USE_DIRECT"] == values["LLM_USE_DIRECT"]


@pytest.mark.slow
def test_without_a_choice_the_rules_judge_and_it_says_so(played):
    fake, output = played
    assert "judges: the rules that come with the package" in output
    assert fake.jobs[1]["runtime_env"]["env_vars"]["LLM_BACKEND"] == "embedded"


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
