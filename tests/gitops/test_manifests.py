"""The manifests keep the rules, and each rule catches what it is there for."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from scripts import render_manifests
from scripts.manifest_rules import WORKING_DIR, findings

from questloop.pipeline.ray_jobs import STAGE_JOBS

ROOT = Path(__file__).parents[2]
OVERLAYS = render_manifests.OVERLAYS
needs_schemas = pytest.mark.skipif(
    render_manifests.SCHEMAS not in os.environ,
    reason=f"{render_manifests.SCHEMAS} does not name a folder of CRD schemas",
)


@pytest.mark.parametrize("overlay", OVERLAYS)
@pytest.mark.parametrize("component", [None, *render_manifests.CHOSEN])
def test_an_overlay_keeps_every_rule_with_each_component(overlay, component, documents):
    name = f"{overlay}+{component}" if component else overlay
    assert findings(documents(name), beside=documents("jobs")) == []


def test_every_component_is_rendered_alone():
    folders = {path.parent.name for path in (ROOT / "gitops/components").glob("*/kustomization.yaml")}
    assert folders == set(render_manifests.COMPONENTS)


def test_jobs_keep_the_rules(documents):
    assert findings(documents("jobs"), whole=False) == []


@needs_schemas
@pytest.mark.slow
def test_everything_is_valid_by_both_sets_of_schemas(rendered):
    known = [path for name, path in rendered.items() if name not in render_manifests.WITHOUT_SCHEMA]
    assert render_manifests.schema_problems(known) == []


def find(documents, kind, name):
    return next(item for item in documents if item["kind"] == kind and item["metadata"]["name"] == name)


def pod(documents, kind, name):
    return find(documents, kind, name)["spec"]["template"]["spec"]


def literal_secret(documents):
    head = find(documents, "RayCluster", "zelda-rl")["spec"]["headGroupSpec"]["template"]["spec"]
    head["containers"][0]["env"][2] = {"name": "S3_ACCESS_KEY", "value": "AKIA"}


def latest(documents):
    pod(documents, "StatefulSet", "nats")["containers"][0]["image"] = "docker.io/library/nats:latest"


def untagged(documents):
    pod(documents, "Deployment", "fleet-poller")["containers"][0]["image"] = "quay.io/questloop/questloop"


def fixed_user(documents):
    pod(documents, "Deployment", "minio")["securityContext"]["fsGroup"] = 1000


def privileges(documents):
    del pod(documents, "Deployment", "minio")["containers"][0]["securityContext"]["capabilities"]


def home(documents):
    pod(documents, "Deployment", "fleet-requeue")["containers"][0]["volumeMounts"].pop(0)


def dns_port(documents):
    find(documents, "NetworkPolicy", "allow-dns")["spec"]["egress"][0]["ports"][1]["port"] = 53


def open_by_default(documents):
    find(documents, "NetworkPolicy", "default-deny")["spec"]["egress"] = [{}]


def store_open_to_all(documents):
    find(documents, "NetworkPolicy", "allow-same-namespace")["spec"]["podSelector"] = {}


def filer(documents):
    ports = find(documents, "NetworkPolicy", "allow-store")["spec"]["ingress"][0]["ports"]
    ports.append({"protocol": "TCP", "port": 8888})


def unscraped(documents):
    find(documents, "NetworkPolicy", "allow-monitoring")["spec"]["ingress"][0]["ports"].pop()


def number(documents):
    find(documents, "RayCluster", "zelda-rl")["spec"]["headGroupSpec"]["rayStartParams"]["num-cpus"] = 0


def no_least(documents):
    del find(documents, "RayCluster", "zelda-rl")["spec"]["workerGroupSpecs"][0]["minReplicas"]


def autoscaler(documents):
    find(documents, "RayCluster", "zelda-rl")["spec"]["enableInTreeAutoscaling"] = True


def queue(documents):
    find(documents, "RayCluster", "zelda-rl")["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = "zelda"


def service_links(documents):
    del pod(documents, "StatefulSet", "nats")["enableServiceLinks"]


def working_dir(documents):
    head = find(documents, "RayCluster", "zelda-rl")["spec"]["headGroupSpec"]["template"]["spec"]
    head["containers"][0]["workingDir"] = "/home/questloop"


def rom_elsewhere(documents):
    find(documents, "ConfigMap", "questloop-settings")["data"]["ROM_PATH"] = "/games/zelda.gbc"


def two_switches(documents):
    find(documents, "ConfigMap", "questloop-settings")["data"]["LLM_USE_DIRECT"] = "false"


def target_port(documents):
    find(documents, "Service", "nats")["spec"]["ports"][0]["targetPort"] = "clients"


def selector(documents):
    find(documents, "Service", "postgresql")["spec"]["selector"] = {"app": "postgres"}


def monitor_port(documents):
    find(documents, "ServiceMonitor", "questloop-fleet")["spec"]["endpoints"][0]["port"] = "http"


def pool(documents):
    find(documents, "HTTPRoute", "judge-state")["spec"]["rules"][0]["backendRefs"][0]["name"] = "qwen25-8b"


def endpoint(documents):
    find(documents, "ConfigMap", "questloop-settings")["data"]["S3_ENDPOINT_URL"] = "http://minio:9000"


def alert(documents):
    rule = find(documents, "PrometheusRule", "questloop")["spec"]["groups"][0]["rules"][0]
    rule["expr"] = "questloop_judge_agreement < 0.2"


def panel(documents):
    boards = find(documents, "ConfigMap", "questloop-dashboards")["data"]
    boards["loop.json"] = boards["loop.json"].replace("questloop_reward_drift", "questloop_reward_drifts")


def setting(documents):
    find(documents, "ConfigMap", "questloop-settings")["data"]["EPOCH_STEP"] = "1"


def unnamed_secret(documents):
    container = pod(documents, "Deployment", "fleet-poller")["containers"][0]
    container["env"][0]["valueFrom"]["secretKeyRef"]["name"] = "questloop-flete"


def unquoted(documents):
    (model,) = (i for i in documents if i["metadata"]["name"] == "qwen25-vl-32b")
    model["spec"]["template"]["containers"][0]["env"][0]["value"] += ' --limit-mm-per-prompt={"image":8}'


def one_gpu(documents):
    limits = find(documents, "LLMInferenceService", "qwen25-32b")["spec"]["template"]["containers"][0]
    limits["resources"]["limits"]["nvidia.com/gpu"] = "1"


def parallel(documents):
    find(documents, "LLMInferenceService", "qwen25-7b")["spec"]["parallelism"]["tensor"] = 4


def external_store(documents):
    find(documents, "ConfigMap", "questloop-settings")["data"]["S3_ENDPOINT_URL"] = "https://s3.corp.example"


def external_models(documents):
    data = find(documents, "ConfigMap", "questloop-settings")["data"]
    data["LLM_ENDPOINT"] = "http://llm.corp.example:8080/v1"


def ca_elsewhere(documents):
    find(documents, "ConfigMap", "questloop-fleet-settings")["data"]["SSL_CERT_FILE"] = "/etc/ca/ca.crt"


def waits_early(documents):
    wave = {"argocd.argoproj.io/sync-wave": "1"}
    find(documents, "RayCluster", "zelda-rl")["metadata"]["annotations"] |= wave


def odd_quota(documents):
    groups = find(documents, "ClusterQueue", "zelda-rl")["spec"]["resourceGroups"]
    groups.append(groups[0])


def late_volume(documents):
    annotations = {"argocd.argoproj.io/sync-wave": "1"}
    find(documents, "PersistentVolumeClaim", "minio-data")["metadata"]["annotations"] = annotations


@pytest.mark.parametrize(
    ("break_it", "finding"),
    [
        (literal_secret, "S3_ACCESS_KEY is a literal"),
        (latest, "nats:latest is neither"),
        (untagged, "questloop is neither"),
        (fixed_user, "fixes a user or group"),
        (privileges, "does not drop ALL"),
        (home, "/home/questloop is not an emptyDir"),
        (dns_port, "UDP and TCP 5353"),
        (open_by_default, "does not deny everything"),
        (store_open_to_all, "not there for every pod but the store"),
        (filer, "does not open 9000 alone"),
        (unscraped, "does not open 9100"),
        (number, "num-cpus is not a string"),
        (no_least, "wants minReplicas"),
        (autoscaler, "no autoscaler"),
        (queue, "no LocalQueue zelda"),
        (service_links, "enableServiceLinks is not false"),
        (working_dir, "head does not begin in /opt/questloop"),
        (rom_elsewhere, "evaluator: ROM_PATH is /games/zelda.gbc, and nothing is mounted there"),
        (two_switches, "two switches of one thing"),
        (target_port, "no pod has the port clients"),
        (selector, "selects no pod"),
        (monitor_port, "no Service has the port http"),
        (pool, "no InferencePool qwen25-8b"),
        (endpoint, "minio:9000 is no Service"),
        (alert, "nothing exports questloop_judge_agreement"),
        (panel, "nothing exports questloop_reward_drifts"),
        (setting, "EPOCH_STEP is no setting"),
        (unquoted, "would be given --limit-mm-per-prompt={image:8}, which is no JSON"),
        (one_gpu, "has 1 GPUs, and its parallelism is 2"),
        (parallel, "lacks --tensor-parallel-size=4"),
        (
            external_store,
            "evaluator: S3_ENDPOINT_URL=https://s3.corp.example, and no NetworkPolicy lets it out",
        ),
        (external_models, "runners: LLM_ENDPOINT=http://llm.corp.example:8080/v1, and no NetworkPolicy"),
        (ca_elsewhere, "SSL_CERT_FILE is /etc/ca/ca.crt, and nothing is mounted there"),
        (waits_early, "a later wave would wait until it is healthy"),
        (
            odd_quota,
            "the rule `admission` cannot read this: ValueError: ClusterQueue zelda-rl has 2 resourceGroups",
        ),
        (late_volume, "minio-data of a later wave"),
        (unnamed_secret, "no Secret questloop-flete"),
    ],
)
def test_a_fault_is_found(break_it, finding, documents):
    broken = documents("dev")
    break_it(broken)
    assert any(finding in text for text in findings(broken)), findings(broken)


def test_faults_of_ray_jobs_are_found(documents):
    jobs = documents("jobs")
    job = find(jobs, "RayJob", "zelda-train-epoch-0")
    job["spec"] |= {"suspend": False, "ttlSecondsAfterFinished": 60}
    job["spec"]["runtimeEnvYAML"] += "  S3_SECRET_KEY: x\n"
    job["metadata"]["name"] = "z" * 48
    text = "\n".join(findings(jobs, whole=False))
    for finding in ("suspend does not go", "ttlSeconds", "shown on the dashboard", "longer than 47"):
        assert finding in text


@pytest.mark.parametrize(
    "entrypoint", ["python scripts/run_rollout.py", "python run_rollouts.py", "sh -c 'python scripts/x.py'"]
)
def test_an_entry_point_that_is_not_there_is_found(entrypoint, documents):
    jobs = documents("jobs")
    find(jobs, "RayJob", "zelda-train-epoch-0")["spec"]["entrypoint"] = entrypoint
    assert any("is no script of ours" in text for text in findings(jobs, whole=False))


@needs_schemas
@pytest.mark.slow
def test_typos_are_caught_by_the_schemas(documents, tmp_path):
    """One misspelt field a kind; each must be reported."""
    typos = {
        ("RayCluster", "zelda-rl"): ("headGroupSpec", "headGroupSpecs"),
        ("LLMInferenceService", "qwen25-7b"): ("router", "routers"),
        ("HTTPRoute", "judge-state"): ("parentRefs", "parentRef"),
        ("ClusterQueue", "zelda-rl"): ("resourceGroups", "resourceGroup"),
        ("NetworkPolicy", "allow-dns"): ("podSelector", "podSelecter"),
        ("ServiceMonitor", "questloop-fleet"): ("selector", "selectors"),
        ("GrafanaDashboard", "questloop-loop"): ("instanceSelector", "instanceSelectors"),
        ("Route", "ray-dashboard"): ("to", "too"),
        ("Deployment", "minio"): ("template", "templates"),
    }
    broken = documents("dev")
    for (kind, name), (field, wrong) in typos.items():
        spec = find(broken, kind, name)["spec"]
        spec[wrong] = spec.pop(field)
    path = tmp_path / "dev.yaml"
    path.write_text(yaml.safe_dump_all(broken), "utf-8")
    problems = "\n".join(render_manifests.schema_problems([path]))
    for kind, name in typos:
        assert re.search(rf"{kind}/(\S+/)?{name}\b", problems), (kind, name)


def test_ray_jobs_run_what_the_driver_submits(documents):
    """By a script's name as the documents have it; the driver names the command, which needs no folder."""
    jobs = {item["metadata"]["name"]: item["spec"] for item in documents("jobs") if item["kind"] == "RayJob"}
    for job in STAGE_JOBS:
        assert command_of(jobs.pop(f"{job.name}-epoch-0")["entrypoint"]) == job.entrypoint.split()[-1]
    assert {name: command_of(spec["entrypoint"]) for name, spec in jobs.items()} == {
        "zelda-pipeline": "pipeline"
    }


def command_of(entrypoint):
    """The command that a script of ours hands over to."""
    text = (ROOT / entrypoint.removeprefix("python ")).read_text("utf-8")
    (name,) = re.findall(r'sys\.argv(?: = \[sys\.argv\[0\], |\.insert\(1, )"([a-z-]+)"', text)
    return name


def test_the_image_has_scripts_where_jobs_begin():
    containerfile = (ROOT / "Containerfile").read_text("utf-8")
    assert f"COPY scripts {WORKING_DIR}/scripts\n" in containerfile
    assert f"WORKDIR {WORKING_DIR}\n" in containerfile.split("AS runtime")[1]


def test_argo_cd_syncs_no_job(documents):
    for overlay in OVERLAYS:
        kinds = [item["kind"] for item in documents(overlay)]
        assert "RayJob" not in kinds
        assert [item["metadata"]["name"] for item in documents(overlay) if item["kind"] == "Job"] in (
            [],
            ["make-buckets"],
        )


def test_applications_name_what_is_there(documents):
    for item in documents("argocd"):
        if item["kind"] == "Application":
            assert (ROOT / item["spec"]["source"]["path"] / "kustomization.yaml").exists()
            assert item["spec"]["project"] == "questloop"
            assert item["spec"]["syncPolicy"]["automated"] == {"prune": True, "selfHeal": True}


def test_the_project_allows_every_cluster_scoped_kind_and_namespace(documents):
    project = find(documents("argocd"), "AppProject", "questloop")["spec"]
    allowed = {(item["group"], item["kind"]) for item in project["clusterResourceWhitelist"]}
    namespaces = {item["namespace"] for item in project["destinations"]}
    for overlay in OVERLAYS:
        for item in documents(overlay):
            group = item["apiVersion"].rpartition("/")[0]
            namespace = item["metadata"].get("namespace")
            assert namespace in namespaces or (group, item["kind"]) in allowed, item["metadata"]["name"]


@pytest.mark.parametrize(
    ("overlay", "head", "worker", "workers"),
    [
        ("dev", ("2", "4Gi"), ("2", "4Gi"), 1),
        ("staging", ("4", "8Gi"), ("8", "8Gi"), 2),
        ("prod", ("12", "12Gi"), ("12", "20Gi"), 3),
    ],
)
def test_sizes_are_those_of_the_environment(overlay, head, worker, workers, documents):
    spec = find(documents(overlay), "RayCluster", "zelda-rl")["spec"]
    (group,) = spec["workerGroupSpecs"]
    for size, part in ((head, spec["headGroupSpec"]), (worker, group)):
        resources = part["template"]["spec"]["containers"][0]["resources"]
        assert (resources["requests"]["cpu"], resources["requests"]["memory"]) == size
        assert "nvidia.com/gpu" not in resources["limits"]
    assert group["replicas"] == workers


def test_secrets_are_made_once_and_not_on_a_command_line(tmp_path):
    """The fake kubectl keeps its arguments and what it is given to create."""
    fake = tmp_path / "kubectl"
    fake.write_text(
        f"""#!/bin/sh
echo "$@" >> {tmp_path}/arguments
case "$*" in *"get secret questloop-proxy"*|"get namespace"*) exit 0;; *" get "*) exit 1;; esac
cat >> {tmp_path}/created; echo --- >> {tmp_path}/created
"""
    )
    fake.chmod(0o700)
    done = subprocess.run(
        [shutil.which("sh"), str(ROOT / "gitops/make-secrets.sh")],
        env={"KUBECTL": str(fake), "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "questloop-proxy: there already" in done.stdout
    made = {
        item["metadata"]["name"]: item["stringData"]
        for item in yaml.safe_load_all((tmp_path / "created").read_text())
        if item
    }
    assert made.keys() == {"questloop-store", "questloop-fleet"}
    assert len(made["questloop-store"]["S3_SECRET_KEY"]) == 48
    assert made["questloop-store"]["S3_SECRET_KEY"] not in (tmp_path / "arguments").read_text()
