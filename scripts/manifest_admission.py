"""Whether what the manifests start is let in: queue names, quotas and machines, from their quantities.

Kueue admits a workload whole or not at all, each of its pod sets into the first flavor of the queue that has
room for it. OpenShift AI refuses workloads without a queue's name in a namespace that Kueue manages.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scripts.manifest_tree import Document, PodGroup, Tree, pods_of, quantity

QUEUE = "kueue.x-k8s.io/queue-name"
QUEUED = ("RayCluster", "RayJob", "Job", "InferenceService", "Notebook", "PyTorchJob")
"""Kinds that OpenShift AI's webhook and the frameworks of `cluster/config/kueue.yaml` look at."""
POOL = "questloop.dev/pool"
Quantities = dict[str, float]

SIZE_FIELDS = ("instanceType", "vmSize", "machineType")
"""where AWS, Azure and Google name it"""
MACHINES: dict[str, Quantities] = {
    "c7i.8xlarge": {"cpu": 32, "memory": 64 * 2**30},
    "g6e.12xlarge": {"cpu": 48, "memory": 384 * 2**30, "nvidia.com/gpu": 4},
    "m7i.2xlarge": {"cpu": 8, "memory": 32 * 2**30},
}
"""What a machine of that type has; a MachineSet of vSphere says it itself."""
RESERVED: Quantities = {"cpu": 1, "memory": 3 * 2**30}
"""What the kubelet and the daemons of a node keep of it."""


def _ray_pod(cpu: int, memory: str) -> Document:
    return {"spec": {"containers": [{"resources": {"requests": {"cpu": str(cpu), "memory": memory}}}]}}


NOTEBOOK_CLUSTER: Document = {
    "kind": "RayCluster",
    "metadata": {"name": "zelda-workbench", "labels": {QUEUE: "zelda-rl"}},
    "spec": {
        "headGroupSpec": {"template": _ray_pod(2, "4G")},
        "workerGroupSpecs": [{"groupName": "workers", "maxReplicas": 3, "template": _ray_pod(2, "4G")}],
    },
}
"""The quantities of the cluster that notebooks/run-kuberay-zelda.ipynb asks for."""


def queues(tree: Tree) -> Iterator[str]:
    """Every kind that a webhook of Kueue's handles names a queue."""
    for item in tree.of(*QUEUED):
        if not item["metadata"].get("labels", {}).get(QUEUE):
            yield f"{item['kind']} {item['metadata']['name']}: names no queue, so it is refused"


@dataclass
class ClusterQueue:
    """A queue that admits workloads until a quota is used up."""

    flavors: dict[str, Quantities]
    """quotas by flavor, in the order in which they are tried"""
    used: dict[str, Quantities] = field(default_factory=dict)

    @classmethod
    def of(cls, document: Document) -> ClusterQueue:
        """From its manifest."""
        groups = document["spec"]["resourceGroups"]
        if len(groups) != 1:
            raise ValueError(f"ClusterQueue {document['metadata']['name']} has {len(groups)} resourceGroups")
        return cls(
            {
                flavor["name"]: {item["name"]: quantity(item["nominalQuota"]) for item in flavor["resources"]}
                for flavor in groups[0]["flavors"]
            }
        )

    def admit(self, workload: Document) -> dict[str, str] | str:
        """The flavor of each of its pods by owner, or why it waits; a workload that waits uses nothing."""
        used = {name: dict(amounts) for name, amounts in self.used.items()}
        chosen: dict[str, str] = {}
        for group in pods_of(workload):
            wanted = {name: group.count * amount for name, amount in requests(group).items()}
            flavor = next((name for name in self.flavors if self._has_room(name, used, wanted)), None)
            if flavor is None:
                asked = ", ".join(f"{amount:g} {name}" for name, amount in sorted(wanted.items()))
                return f"no flavor has room for {asked} of {group.pod[0]}"
            total = used.setdefault(flavor, {})
            for name, amount in wanted.items():
                total[name] = total.get(name, 0.0) + amount
            chosen[group.pod[0]] = flavor
        self.used = used
        return chosen

    def _has_room(self, flavor: str, used: dict[str, Quantities], wanted: Quantities) -> bool:
        quota, taken = self.flavors[flavor], used.get(flavor, {})
        return all(taken.get(name, 0.0) + amount <= quota.get(name, -1.0) for name, amount in wanted.items())


def requests(group: PodGroup) -> Quantities:
    """What one pod of a group asks for."""
    total: Quantities = {}
    for container in group.pod[2]["containers"]:
        resources = container.get("resources", {})
        for name, value in {**resources.get("limits", {}), **resources.get("requests", {})}.items():
            if name in resources.get("requests", {}) or "/" in name:  # a device is requested by its limit
                total[name] = total.get(name, 0.0) + quantity(value)
    return total


def workloads(tree: Tree) -> list[Document]:
    """All that asks a queue at once at most: the standing cluster, a notebook's, a burst's jobs, others."""
    own = tree.of("RayCluster", "Job", "PodTemplate")
    by_hand = [item for item in tree.beside if item["kind"] == "Job"]
    names = {item["metadata"]["name"] for item in own}
    return [*own, NOTEBOOK_CLUSTER, *(item for item in by_hand if item["metadata"]["name"] not in names)]


def admission(tree: Tree) -> Iterator[str]:
    """Queues exist, and the quotas hold everything that may ask at once."""
    found = {item["metadata"]["name"]: ClusterQueue.of(item) for item in tree.of("ClusterQueue")}
    flavors = tree.names("ResourceFlavor")
    for name, queue in found.items():
        for flavor in sorted(queue.flavors.keys() - flavors):
            yield f"ClusterQueue {name}: no ResourceFlavor {flavor}"
    targets = {item["metadata"]["name"]: item["spec"]["clusterQueue"] for item in tree.of("LocalQueue")}
    for name, target in targets.items():
        if target not in found:
            yield f"LocalQueue {name}: no ClusterQueue {target}"
    for item in workloads(tree):
        owner = f"{item['kind']} {item['metadata']['name']}"
        label = item["metadata"].get("labels", {}).get(QUEUE, "zelda-rl")
        queue = found.get(targets.get(label, ""))
        if queue is None:
            yield f"{owner}: no LocalQueue {label}"
        elif isinstance(answer := queue.admit(item), str):
            yield f"{owner}: would not be admitted: {answer}"
    for item in tree.of("Namespace"):
        if item["metadata"].get("labels", {}).get("kueue.openshift.io/managed") != "true":
            yield f"Namespace {item['metadata']['name']}: lacks kueue.openshift.io/managed"


# Machines


@dataclass
class Machine:
    """A machine of a set, and what is left on it."""

    pool: str
    labels: dict[str, str]
    taints: list[dict[str, Any]]
    free: Quantities

    def takes(self, pod: dict[str, Any]) -> bool:
        """Whether selectors and tolerations let the pod onto it."""
        tolerations = pod.get("tolerations", [])
        return pod.get("nodeSelector", {}).items() <= self.labels.items() and all(
            any(_tolerates(toleration, taint) for toleration in tolerations) for taint in self.taints
        )

    def holds(self, wanted: Quantities) -> bool:
        """Whether there is room, which is then used."""
        if any(amount > self.free.get(name, 0.0) for name, amount in wanted.items()):
            return False
        for name, amount in wanted.items():
            self.free[name] -= amount
        return True


def machines(tree: Tree) -> Iterator[str]:
    """The machines of the overlay take what is to run on them, all of it at once, and none is idle."""
    park = []
    for item in tree.of("MachineSet"):
        size = _size(item["spec"]["template"]["spec"]["providerSpec"]["value"])
        if isinstance(size, str):
            yield f"MachineSet {item['metadata']['name']}: {size}"
            return
        park += _machines(item, size)
    used: set[str] = set()
    waiting = sorted(_scheduled(tree), key=lambda group: -requests(group).get("cpu", 0.0))
    for group in waiting:
        owner, _, pod = group.pod
        if not pod.get("nodeSelector"):
            continue  # goes to any machine of the cluster
        if not park:
            if POOL in pod["nodeSelector"]:
                yield f"{owner}: selects {POOL}, and this overlay makes no machines"
            continue
        suited = [machine for machine in park if machine.takes(pod)]
        if not suited:
            yield f"{owner}: no MachineSet has the labels {pod['nodeSelector']} with taints that it tolerates"
            continue
        used |= {machine.pool for machine in suited}
        wanted = requests(group)
        placed = sum(any(machine.holds(wanted) for machine in suited) for _ in range(group.count))
        if placed < group.count:
            yield f"{owner}: {group.count - placed} of {group.count} find no room on {suited[0].pool}"
    for pool in sorted({machine.pool for machine in park} - used):
        yield f"MachineSet {pool}: nothing is to run there"


def _scheduled(tree: Tree) -> Iterator[PodGroup]:
    """All pods, those of a queue with what its flavor adds to them."""
    flavors = {item["metadata"]["name"]: item.get("spec", {}) for item in tree.of("ResourceFlavor")}
    queue = next((ClusterQueue.of(item) for item in tree.of("ClusterQueue")), ClusterQueue({}))
    for item in workloads(tree):
        chosen = queue.admit(item)
        for group in pods_of(item):
            flavor = chosen.get(group.pod[0]) if isinstance(chosen, dict) else None
            yield _flavored(group, flavors.get(flavor, {}) if flavor else {})
    for item in tree.of("Deployment", "StatefulSet"):
        yield from pods_of(item)
    for item in tree.of("LLMInferenceService"):
        spec = item["spec"]
        name = f"LLMInferenceService {item['metadata']['name']}"
        yield PodGroup((name, {}, spec["template"]), spec.get("replicas", 1))


def _flavored(group: PodGroup, flavor: Document) -> PodGroup:
    owner, labels, pod = group.pod
    selector = {**pod.get("nodeSelector", {}), **flavor.get("nodeLabels", {})}
    tolerations = [*pod.get("tolerations", []), *flavor.get("tolerations", [])]
    return PodGroup(
        (owner, labels, pod | {"nodeSelector": selector, "tolerations": tolerations}), group.count
    )


def _size(provider: Document) -> Quantities | str:
    """What a machine has; a text where that is not known."""
    if {"numCPUs", "memoryMiB"} <= provider.keys():
        return {"cpu": float(provider["numCPUs"]), "memory": float(provider["memoryMiB"]) * 2**20}
    kind = next((str(provider[name]) for name in SIZE_FIELDS if name in provider), None)
    if kind in MACHINES:
        return MACHINES[kind]
    return f"the size of {kind or 'its machines'} is not known: add it to MACHINES in {Path(__file__).name}"


def _machines(item: Document, size: Quantities) -> list[Machine]:
    template = item["spec"]["template"]["spec"]
    return [
        Machine(
            item["metadata"]["name"],
            template.get("metadata", {}).get("labels", {}),
            template.get("taints", []),
            {name: amount - RESERVED.get(name, 0.0) for name, amount in size.items()},
        )
        for _ in range(item["spec"]["replicas"])
    ]


def _tolerates(toleration: dict[str, Any], taint: dict[str, Any]) -> bool:
    if toleration.get("effect") not in (None, taint["effect"]):
        return False
    if toleration.get("key", taint["key"]) != taint["key"]:  # none: every key, with the operator Exists
        return False
    return toleration.get("operator") == "Exists" or toleration.get("value") == taint.get("value")
