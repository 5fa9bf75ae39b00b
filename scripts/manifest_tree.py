"""Rendered manifests as a tree: its documents by kind, and the pods and containers that they make."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

Document = dict[str, Any]
Pod = tuple[str, dict[str, str], dict[str, Any]]
"""owner, labels, pod specification"""


class PodGroup(NamedTuple):
    """Pods that are alike."""

    pod: Pod
    count: int


class Tree:
    """The documents of one overlay, with what rules ask of them."""

    def __init__(self, documents: list[Document], beside: list[Document] | None = None) -> None:
        """`beside`: what a person starts beside them, jobs and a notebook's cluster."""
        self.documents = documents
        self.beside = beside or []

    def of(self, *kinds: str) -> list[Document]:
        return [item for item in self.documents if item["kind"] in kinds]

    def names(self, kind: str) -> set[str]:
        return {item["metadata"]["name"] for item in self.of(kind)}

    def pods(self) -> Iterator[Pod]:
        """Every pod that these documents make themselves, or that a Job is made of."""
        for item in self.documents:
            for group in pods_of(item):
                yield group.pod

    def containers(self) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
        for owner, _, pod in self.pods():
            for container in [*pod.get("initContainers", []), *pod["containers"]]:
                yield f"{owner}/{container['name']}", container, pod


def pods_of(item: Document) -> Iterator[PodGroup]:
    """The pods that a document makes, with how many of each there are at most."""
    kind, name = item["kind"], item["metadata"]["name"]
    owner = f"{kind} {name}"
    if kind in ("Deployment", "StatefulSet", "Job"):
        yield PodGroup(_pod(owner, item["spec"]["template"]), item["spec"].get("replicas", 1))
    elif kind == "PodTemplate":
        yield PodGroup(_pod(owner, item["template"]), 1)
    elif kind == "RayJob" and "submitterPodTemplate" in item["spec"]:
        yield PodGroup(_pod(owner, item["spec"]["submitterPodTemplate"]), 1)
    elif kind == "RayCluster":
        labels = {"ray.io/cluster": name}
        head = item["spec"]["headGroupSpec"]["template"]
        yield PodGroup(_pod(f"{owner} head", head, labels | {"ray.io/node-type": "head"}), 1)
        for group in item["spec"]["workerGroupSpecs"]:
            worker = _pod(
                f"{owner} {group['groupName']}", group["template"], labels | {"ray.io/node-type": "worker"}
            )
            yield PodGroup(worker, group.get("maxReplicas", group.get("replicas", 1)))


def _pod(owner: str, template: Document, labels: dict[str, str] | None = None) -> Pod:
    return owner, template.get("metadata", {}).get("labels", {}) | (labels or {}), template["spec"]


def named(tree: Tree) -> Iterator[tuple[str, str, str]]:
    """(owner, kind, name) of what the pods and models of a tree name."""
    for owner, _, pod in tree.pods():
        yield owner, "ServiceAccount", pod["serviceAccountName"]
        for volume in pod.get("volumes", []):
            if "secret" in volume:
                yield owner, "Secret", volume["secret"]["secretName"]
            if "configMap" in volume and not volume["configMap"].get("optional"):
                yield owner, "ConfigMap", volume["configMap"]["name"]
            if "persistentVolumeClaim" in volume:
                yield owner, "PersistentVolumeClaim", volume["persistentVolumeClaim"]["claimName"]
    for owner, container, _ in tree.containers():
        for source in container.get("envFrom", []):
            yield owner, "ConfigMap", source["configMapRef"]["name"]
        for variable in container.get("env", []):
            if "secretKeyRef" in variable.get("valueFrom", {}):
                yield owner, "Secret", variable["valueFrom"]["secretKeyRef"]["name"]
    for item in tree.of("LLMInferenceService"):
        uri = item["spec"]["model"]["uri"]
        if uri.startswith("pvc://"):
            name = f"LLMInferenceService {item['metadata']['name']}"
            yield name, "PersistentVolumeClaim", uri.removeprefix("pvc://").split("/")[0]


def scraped(tree: Tree) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """(ServiceMonitor, Service, port) of everything that is scraped."""
    for monitor in tree.of("ServiceMonitor"):
        wanted = monitor["spec"]["selector"]["matchLabels"].items()
        named = {endpoint["port"] for endpoint in monitor["spec"]["endpoints"]}
        for service in tree.of("Service"):
            if wanted <= service["metadata"].get("labels", {}).items():
                for port in service["spec"]["ports"]:
                    if port["name"] in named:
                        yield monitor["metadata"]["name"], service["metadata"]["name"], port


def quantity(text: str | int) -> float:
    """A Kubernetes quantity.

    >>> quantity("500m"), quantity("2Gi")
    (0.5, 2147483648.0)
    """
    number, suffix = re.fullmatch(r"([\d.]+)([a-zA-Z]*)", str(text)).groups()  # type: ignore[union-attr]
    scale = {"": 1.0, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15} | {
        f"{letter}i": 1024.0**power for power, letter in enumerate("KMGTPE", 1)
    }
    return float(number) * scale[suffix]
