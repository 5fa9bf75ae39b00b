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


def quantity(text: str | int) -> float:
    """A Kubernetes quantity.

    >>> quantity("500m"), quantity("2Gi")
    (0.5, 2147483648.0)
    """
    number, suffix = re.fullmatch(r"([\d.]+)([a-zA-Z]*)", str(text)).groups()  # type: ignore[union-attr]
    scale = {"": 1.0, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9} | {
        f"{letter}i": 1024.0**power for power, letter in enumerate("KMGT", 1)
    }
    return float(number) * scale[suffix]
