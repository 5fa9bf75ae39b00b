"""What a schema cannot say about the rendered manifests: one function a concern, each yields findings."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from prometheus_client.metrics import MetricWrapperBase
from scripts.manifest_admission import admission, machines, queues
from scripts.manifest_delivery import names, waves
from scripts.manifest_network import addresses, network
from scripts.manifest_tree import Document, Tree, named, scraped

from questloop import settings
from questloop.telemetry import metrics

ROOT = Path(__file__).parents[1]
WORKING_DIR = "/opt/questloop"
"""where the image has `scripts/`"""
OURS = "quay.io/questloop/questloop"
MADE_ELSEWHERE = {
    "questloop-store": "gitops/make-secrets.sh or External Secrets",
    "questloop-fleet": "gitops/make-secrets.sh or External Secrets",
    "questloop-proxy": "gitops/make-secrets.sh or External Secrets",
    "questloop-llm": "a person, where models ask for a token",
    "questloop-fleet-ssh": "a person, for machines of the fleet",
    "questloop-rom": "a person, for the own-rom component",
    "ray-dashboard-tls": "the cluster's service CA",
}
OPERATORS_SERVICES = {"zelda-rl-head-svc": 8265}
_SECRET_NAME = re.compile(r"(KEY|SECRET|PASSWORD|TOKEN)(_ID)?$")
_NOT_SETTINGS = {"HOME", "OMP_NUM_THREADS", "SSL_CERT_FILE", "POSTGRESQL_PASSWORD", "NATS_TOKEN"}
_METRIC = re.compile(r"\b(?:questloop_\w+|up)\b(?!\s*=)")


def secrets(tree: Tree) -> Iterator[str]:
    """Nothing secret stands in git; keys come by reference, and never by Ray's public runtime environment."""
    for item in tree.of("Secret"):
        if item.get("data") or item.get("stringData"):
            yield f"Secret {item['metadata']['name']} holds values"
    for item in tree.of("ConfigMap"):
        for name in item.get("data", {}):
            if _SECRET_NAME.search(name):
                yield f"ConfigMap {item['metadata']['name']} holds {name}"
    for item in tree.of("RayJob"):
        for name in re.findall(r"^\s*(\w+):", item["spec"].get("runtimeEnvYAML", ""), re.M):
            if _SECRET_NAME.search(name):
                yield f"RayJob {item['metadata']['name']}: {name} in runtimeEnvYAML is shown on the dashboard"
    for owner, container, _ in tree.containers():
        for variable in container.get("env", []):
            if _SECRET_NAME.search(variable["name"]) and "value" in variable:
                yield f"{owner}: {variable['name']} is a literal"
            if re.search(r"://[^/$]*:[^/$]+@", variable.get("value", "")):
                yield f"{owner}: {variable['name']} is a URL with a literal password"


def images(tree: Tree) -> Iterator[str]:
    """Others' images by digest; ours by version or digest."""
    for owner, container, _ in tree.containers():
        image = container["image"]
        if re.search(r"@sha256:[0-9a-f]{64}$", image):
            continue
        name, _, tag = image.rpartition(":")
        if name != OURS or not re.match(r"\d+\.\d+\.\d+", tag):
            yield f"{owner}: image {image} is neither pinned by digest nor a version of ours"


def restricted(tree: Tree) -> Iterator[str]:
    """The SCC restricted-v2: the cluster chooses the UID, and nothing is privileged."""
    for owner, _, pod in tree.pods():
        context = pod.get("securityContext", {})
        if context.get("runAsNonRoot") is not True:
            yield f"{owner}: runAsNonRoot is not true"
        if context.get("seccompProfile", {}).get("type") != "RuntimeDefault":
            yield f"{owner}: seccompProfile is not RuntimeDefault"
        for volume in pod.get("volumes", []):
            if not {"emptyDir", "configMap", "secret", "persistentVolumeClaim"} & volume.keys():
                yield f"{owner}: volume {volume['name']} is of a kind that restricted-v2 refuses"
        if pod.get("enableServiceLinks") is not False:
            yield f"{owner}: enableServiceLinks is not false: a Service would set variables like NATS_PORT"
        if pod.get("hostNetwork") or pod.get("hostPID"):
            yield f"{owner}: takes the host's network or processes"
        if pod.get("serviceAccountName") is None:
            yield f"{owner}: has no service account"
    for owner, container, pod in tree.containers():
        context = container.get("securityContext", {})
        if context.get("allowPrivilegeEscalation") is not False:
            yield f"{owner}: allowPrivilegeEscalation is not false"
        if context.get("capabilities", {}).get("drop") != ["ALL"]:
            yield f"{owner}: does not drop ALL capabilities"
        for where in (context, pod.get("securityContext", {})):
            if {"runAsUser", "runAsGroup", "fsGroup"} & where.keys():
                yield f"{owner}: fixes a user or group"
        if "requests" not in container.get("resources", {}):
            yield f"{owner}: requests no resources"
        if container["image"].startswith(OURS) and not _home_is_writable(container, pod):
            yield f"{owner}: /home/questloop is not an emptyDir"


def _home_is_writable(container: dict[str, Any], pod: dict[str, Any]) -> bool:
    mounts = {mount["mountPath"]: mount["name"] for mount in container.get("volumeMounts", [])}
    volumes = {volume["name"]: volume for volume in pod.get("volumes", [])}
    return "emptyDir" in volumes.get(mounts.get("/home/questloop", ""), {})


def ray(tree: Tree) -> Iterator[str]:
    """What KubeRay checks in its operator only, and what Kueue asks of a cluster that it manages."""
    for item in tree.of("RayCluster"):
        name, spec = item["metadata"]["name"], item["spec"]
        groups = spec["workerGroupSpecs"]
        if len(name) > 53:
            yield f"RayCluster {name}: the name is longer than 53"
        if spec["headGroupSpec"].get("enableIngress") is not False:
            yield f"RayCluster {name}: enableIngress is not false"
        if item["metadata"].get("labels", {}).get("kueue.x-k8s.io/queue-name") is None:
            yield f"RayCluster {name}: names no queue, so Kueue leaves it alone"
        elif spec.get("enableInTreeAutoscaling"):
            yield f"RayCluster {name}: Kueue manages it, so it can have no autoscaler"
        if len(groups) > 7:
            yield f"RayCluster {name}: more than 7 worker groups"
        for group in [spec["headGroupSpec"], *groups]:
            for key, value in group.get("rayStartParams", {}).items():
                if not isinstance(value, str):
                    yield f"RayCluster {name}: rayStartParams {key} is not a string"
        for group in groups:
            least, most = group.get("minReplicas"), group.get("maxReplicas")
            if least is None or most is None or not least <= group.get("replicas", 0) <= most:
                yield f"RayCluster {name}: {group['groupName']} wants minReplicas <= replicas <= maxReplicas"
        for group in [spec["headGroupSpec"], *groups]:
            for container in group["template"]["spec"]["containers"]:
                if container.get("workingDir") != WORKING_DIR:
                    yield f"RayCluster {name}: {container['name']} does not begin in {WORKING_DIR}"
    for item in tree.of("RayJob"):
        yield from _ray_job(item["metadata"]["name"], item["spec"])


def _ray_job(name: str, spec: dict[str, Any]) -> Iterator[str]:
    if len(name) > 47:
        yield f"RayJob {name}: the name is longer than 47"
    script = re.fullmatch(r"python (scripts/\w+\.py)", spec["entrypoint"])
    if not script or not (ROOT / script[1]).exists():
        yield f"RayJob {name}: {spec['entrypoint']} is no script of ours in {WORKING_DIR}"
    submitter = spec.get("submitterPodTemplate", {}).get("spec", {})
    if spec.get("submissionMode") != "K8sJobMode" or not submitter.get("tolerations"):
        yield f"RayJob {name}: no pod of its own submits it, with tolerations"
    if "clusterSelector" in spec:
        if "ray.io/cluster" not in spec["clusterSelector"]:
            yield f"RayJob {name}: clusterSelector lacks ray.io/cluster"
        for key in (
            *("suspend", "backoffLimit", "shutdownAfterJobFinishes", "ttlSecondsAfterFinished"),
            "rayClusterSpec",
        ):
            if key in spec:
                yield f"RayJob {name}: {key} does not go with clusterSelector"
    elif spec.get("ttlSecondsAfterFinished") and not spec.get("shutdownAfterJobFinishes"):
        yield f"RayJob {name}: a TTL needs shutdownAfterJobFinishes"


def references(tree: Tree) -> Iterator[str]:
    """Everything that is named is there, or is known to be made elsewhere."""
    there = {
        "Secret": tree.names("Secret") | tree.names("ExternalSecret") | set(MADE_ELSEWHERE),
        "ConfigMap": tree.names("ConfigMap"),
        "PersistentVolumeClaim": tree.names("PersistentVolumeClaim"),
        "ServiceAccount": tree.names("ServiceAccount"),
    }
    for owner, kind, name in named(tree):
        if name not in there[kind]:
            yield f"{owner}: no {kind} {name}"
    for item in tree.of("Service"):
        name, spec = item["metadata"]["name"], item["spec"]
        pods = [pod for _, labels, pod in tree.pods() if spec["selector"].items() <= labels.items()]
        ports = {port.get("name") for pod in pods for c in pod["containers"] for port in c.get("ports", [])}
        if not pods:
            yield f"Service {name}: selects no pod"
        for port in spec["ports"]:
            if pods and port["targetPort"] not in ports:
                yield f"Service {name}: no pod has the port {port['targetPort']}"
    yield from _routes(tree)
    for item in tree.of("ServiceMonitor"):
        name = item["metadata"]["name"]
        if "namespaceSelector" in item["spec"]:
            yield f"ServiceMonitor {name}: user workloads take no namespaceSelector"
        found = {port["name"] for monitor, _, port in scraped(tree) if monitor == name}
        for endpoint in item["spec"]["endpoints"]:
            if endpoint["port"] not in found:
                yield f"ServiceMonitor {name}: no Service has the port {endpoint['port']}"
    for item in tree.of("GrafanaDashboard"):
        source = item["spec"]["configMapRef"]
        holders = [c for c in tree.of("ConfigMap") if c["metadata"]["name"] == source["name"]]
        if not holders or source["key"] not in holders[0]["data"]:
            yield f"GrafanaDashboard {item['metadata']['name']}: no {source['key']} in {source['name']}"


def _routes(tree: Tree) -> Iterator[str]:
    services = {item["metadata"]["name"]: item["spec"]["ports"] for item in tree.of("Service")}
    for item in tree.of("Route"):
        name, target = item["metadata"]["name"], item["spec"]["to"]["name"]
        if item["spec"]["port"]["targetPort"] not in {port["name"] for port in services.get(target, [])}:
            yield f"Route {name}: no such port of a Service {target}"
    pools = {f"{name}-inference-pool" for name in tree.names("LLMInferenceService")}
    gateways = {(g["metadata"]["namespace"], g["metadata"]["name"]) for g in tree.of("Gateway")}
    for item in tree.of("HTTPRoute"):
        name = item["metadata"]["name"]
        for parent in item["spec"]["parentRefs"]:
            if (parent.get("namespace"), parent["name"]) not in gateways:
                yield f"HTTPRoute {name}: no Gateway {parent['name']}"
        for rule in item["spec"]["rules"]:
            for backend in rule["backendRefs"]:
                if backend["name"] not in pools:
                    yield f"HTTPRoute {name}: no InferencePool {backend['name']}"
    ports = {name: {port["port"] for port in listed} for name, listed in services.items()}
    ports |= {name: {port} for name, port in OPERATORS_SERVICES.items()}
    for owner, text in _texts(tree):
        for host, port in re.findall(r"://(?:[^@/\s]*@)?([a-z][a-z0-9-]*):(\d+)", text):
            if int(port) not in ports.get(host, set()):
                yield f"{owner}: {host}:{port} is no Service and port of this tree"


def _texts(tree: Tree) -> Iterator[tuple[str, str]]:
    for owner, container, _ in tree.containers():
        texts = [variable.get("value", "") for variable in container.get("env", [])]
        yield owner, "\n".join([*texts, *container.get("args", []), *container.get("command", [])])
    for item in tree.of("ConfigMap"):
        yield f"ConfigMap {item['metadata']['name']}", "\n".join(item.get("data", {}).values())


def models(tree: Tree) -> Iterator[str]:
    """What the shell of the model server's preset makes of its arguments, which it reads once more."""
    for item in tree.of("LLMInferenceService"):
        owner, spec = f"LLMInferenceService {item['metadata']['name']}", item["spec"]
        for container in spec.get("template", {}).get("containers", []):
            values = {each["name"]: each.get("value", "") for each in container.get("env", [])}
            arguments = shlex.split(values.get("VLLM_ADDITIONAL_ARGS", ""))
            for argument in arguments:
                if "={" in argument and not _is_json(argument.partition("=")[2]):
                    yield f"{owner}: the server would be given {argument}, which is no JSON: quote it"
            gpus = str(container.get("resources", {}).get("limits", {}).get("nvidia.com/gpu", "0"))
            tensor = str(spec.get("parallelism", {}).get("tensor", 1))
            if tensor != gpus:
                yield f"{owner}: a replica has {gpus} GPUs, and its parallelism is {tensor}"
            if tensor != "1" and f"--tensor-parallel-size={tensor}" not in arguments:
                yield f"{owner}: lacks --tensor-parallel-size={tensor}, which the preset does not pass on"


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def metric_names(tree: Tree) -> Iterator[str]:
    """Alerts and dashboards ask for metrics that this code exports."""
    exported = _exported() | {"up"}
    for owner, expression in _expressions(tree):
        names = set(_METRIC.findall(expression))
        if not names:
            yield f"{owner}: no metric in {expression}"
        for name in sorted(names - exported):
            yield f"{owner}: nothing exports {name}"


def _exported() -> set[str]:
    found = set()
    for metric in vars(metrics).values():
        if isinstance(metric, MetricWrapperBase):
            (family,) = metric.describe()
            endings = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count")}
            found |= {family.name + ending for ending in endings.get(family.type, ("",))}
    return found


def _expressions(tree: Tree) -> Iterator[tuple[str, str]]:
    for item in tree.of("PrometheusRule"):
        for group in item["spec"]["groups"]:
            for rule in group["rules"]:
                yield f"alert {rule.get('alert') or rule.get('record')}", rule["expr"]
    for item in tree.of("ConfigMap"):
        for name, text in item.get("data", {}).items():
            if name.endswith(".json"):
                for panel in json.loads(text)["panels"]:
                    for target in panel["targets"]:
                        yield f"dashboard {name}, {panel['title']}", target["expr"]


def job_environment(tree: Tree) -> Iterator[str]:
    """Every variable of our containers is a setting, by its right name."""
    known = {name.upper() for name in settings.known_names()} | _NOT_SETTINGS
    maps = {item["metadata"]["name"]: item.get("data", {}) for item in tree.of("ConfigMap")}
    for owner, container, _ in tree.containers():
        if not container["image"].startswith(OURS):
            continue
        found = {variable["name"]: variable.get("value", "") for variable in container.get("env", [])}
        for source in container.get("envFrom", []):
            found |= maps.get(source["configMapRef"]["name"], {})
        names = found.keys()
        mounted = {mount["mountPath"] for mount in container.get("volumeMounts", [])}
        for name in ("ROM_PATH", "GUIDE", "LLM_CA_BUNDLE", "SSL_CERT_FILE"):
            if name in names and str(Path(found[name]).parent) not in mounted:
                yield f"{owner}: {name} is {found[name]}, and nothing is mounted there"
        for name in sorted(names - known):
            yield f"{owner}: {name} is no setting"
        if "RayCluster" in owner:
            for name in sorted({"RAY_WORKERS", "ENVS_PER_WORKER"} - names):
                yield f"{owner}: {name} is not stated"


def one_switch(tree: Tree) -> Iterator[str]:
    """Who answers judges and planner is said once: LLM_BACKEND would make LLM_USE_DIRECT idle."""
    for item in tree.of("ConfigMap"):
        if {"LLM_BACKEND", "LLM_USE_DIRECT"} <= item.get("data", {}).keys():
            name = item["metadata"]["name"]
            yield f"ConfigMap {name}: LLM_BACKEND and LLM_USE_DIRECT are two switches of one thing"


RULES: tuple[Callable[[Tree], Iterator[str]], ...] = (
    *(secrets, images, restricted, network, addresses, ray, queues, admission, machines, references, waves),
    *(models, metric_names, job_environment, one_switch),
)
PARTIAL: tuple[Callable[[Tree], Iterator[str]], ...] = (secrets, images, restricted, ray, queues)
"""Rules for trees that lean on an overlay: jobs."""


def findings(
    documents: list[Document], whole: bool = True, beside: list[Document] | None = None
) -> list[str]:
    """What is wrong with the documents of an overlay, or of a part of one; `beside`: jobs started by hand."""
    tree = Tree(documents, beside)
    if whole and (moved := list(_checked(names, tree))):
        return moved  # what else would be found follows from it
    return [finding for rule in (RULES if whole else PARTIAL) for finding in _checked(rule, tree)]


def _checked(rule: Callable[[Tree], Iterator[str]], tree: Tree) -> Iterator[str]:
    """The rule's findings; one where an overlay of one's own has a shape that it cannot read."""
    try:
        yield from rule(tree)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        yield f"the rule `{rule.__name__}` cannot read this: {type(error).__name__}: {error}"
