"""Whether Argo CD can deliver an overlay: the order of waves, its rights, what it ignores."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from scripts.manifest_tree import Document, Tree, named

MAY_WAIT = ("RayCluster", "LLMInferenceService")
"""healthy only once Kueue has room or somebody has fetched weights: a wave after theirs might never come"""
NAMESPACES = ("zelda-rl", "openshift-ingress", "openshift-machine-api")
_FIXED = "so names stay as they are: an environment has a cluster of its own (GITOPS.md)"
WRITES = {"create", "update", "patch", "delete"}
ADMIN = {
    "": {
        "configmaps",
        "persistentvolumeclaims",
        "pods",
        "pods/log",
        "secrets",
        "serviceaccounts",
        "services",
    },
    "apps": {"deployments", "statefulsets"},
    "batch": {"cronjobs", "jobs"},
    "networking.k8s.io": {"networkpolicies"},
    "policy": {"poddisruptionbudgets"},
    "rbac.authorization.k8s.io": {"roles", "rolebindings"},
    "route.openshift.io": {"routes"},
}
"""What the ClusterRole admin may write of the kinds of Kubernetes and OpenShift."""
_READ = {"get", "list", "watch"}
"""Argo CD of OpenShift GitOps reads everything."""


def names(tree: Tree) -> Iterator[str]:
    """Commands, alerts and accounts name what an overlay makes: a prefix or another namespace breaks them."""
    if tree.names("RayCluster") != {"zelda-rl"}:
        yield f"RayClusters {sorted(tree.names('RayCluster'))}: zelda-rl is named elsewhere, {_FIXED}"
    places = {item["metadata"].get("namespace", NAMESPACES[0]) for item in tree.documents} - set(NAMESPACES)
    for place in sorted(places):
        yield f"namespace {place}: accounts, quotas and commands name {NAMESPACES[0]}, {_FIXED}"


def waves(tree: Tree) -> Iterator[str]:
    """Argo CD waits for each wave: what a pod needs is made in its own or an earlier one."""
    wave = {(item["kind"], item["metadata"]["name"]): _wave(item) for item in tree.documents}
    for owner, kind, name in named(tree):
        user = wave[(owner.split()[0], owner.split()[1].split("/")[0])]
        for made in (kind, "ExternalSecret" if kind == "Secret" else kind):
            if wave.get((made, name), user) > user:
                yield f"{owner}: needs {kind} {name} of a later wave"
    last = max(wave.values(), default=0)
    for item in tree.of(*MAY_WAIT):
        if _wave(item) < last:
            yield f"{item['kind']} {item['metadata']['name']}: a later wave would wait until it is healthy"


def delivery(tree: Tree, applications: list[Document], cluster: list[Document]) -> Iterator[str]:
    """`applications`: those that sync this overlay; `cluster`: what an administrator applies before."""
    yield from _rights(tree, Tree(cluster))
    for application in applications:
        yield from _ignored(tree, application)


def _wave(item: Document) -> int:
    return int(item["metadata"].get("annotations", {}).get("argocd.argoproj.io/sync-wave", 0))


def _rights(tree: Tree, cluster: Tree) -> Iterator[str]:
    """Argo CD may write every kind, and holds every right that the overlay's Roles give."""
    held: dict[tuple[str, str], set[str]] = {}
    for item in cluster.of("Role", "ClusterRole"):
        for rule in item["rules"]:
            for group in rule["apiGroups"]:
                for resource in rule["resources"]:
                    held.setdefault((group, resource), set()).update(rule["verbs"])
    missing = {}
    for item in tree.documents:
        group = item["apiVersion"].rpartition("/")[0]
        if not _may(held, group, plural(item["kind"])) and item["kind"] != "Namespace":
            missing[f"{plural(item['kind'])} of {group or 'the core group'}"] = "may not write"
        for rule in item.get("rules", []) if item["kind"] == "Role" else []:
            for group in rule["apiGroups"]:
                for resource in rule["resources"]:
                    lacking = set(rule["verbs"]) - held.get((group, resource), set()) - _READ
                    if lacking and resource not in ADMIN.get(group, set()):
                        missing[f"{resource} of {group}"] = f"cannot grant {', '.join(sorted(lacking))} on"
    for what, why in sorted(missing.items()):
        yield f"Argo CD {why} {what}: add it to the Role questloop-gitops of cluster/config/argocd.yaml"


def _may(held: dict[tuple[str, str], set[str]], group: str, resource: str) -> bool:
    return resource in ADMIN.get(group, set()) or held.get((group, resource), set()) >= WRITES


def plural(kind: str) -> str:
    """The resource of a kind.

    >>> plural("NetworkPolicy"), plural("LLMInferenceService")
    ('networkpolicies', 'llminferenceservices')
    """
    return re.sub("ys$", "ies", f"{kind.lower()}s") if not kind.endswith("way") else f"{kind.lower()}s"


def _ignored(tree: Tree, application: Document) -> Iterator[str]:
    """With RespectIgnoreDifferences a sync keeps what is ignored, so that a commit would change nothing."""
    for rule in application["spec"].get("ignoreDifferences", []):
        for item in tree.of(rule["kind"]):
            for path in rule.get("jqPathExpressions", []):
                if rule.get("name", item["metadata"]["name"]) == item["metadata"]["name"] and _has(
                    item, path
                ):
                    name = f"{item['kind']} {item['metadata']['name']}"
                    yield f"{name}: states {path}, which Argo CD is told to ignore: it would stay as it is"


def _has(found: Any, path: str) -> bool:
    """Whether a document has a value at a path like `.spec.groups[]?.replicas`."""
    values = [found]
    for part in path.removeprefix(".").split("."):
        name, lists = re.sub(r"\[\]\??$", "", part), part.endswith(("[]", "[]?"))
        values = [value[name] for value in values if isinstance(value, dict) and name in value]
        if lists:
            values = [each for value in values for each in value]
    return bool(values)
