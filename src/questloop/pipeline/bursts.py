"""Starts the Jobs that follow each burst of training on a cluster: the judges and the reward model.

A burst is a RayJob that trains an epoch (`gitops/jobs/zelda-train-epoch.yaml`). When it has succeeded, its
evaluator's Job is made, and when that one has, the reward model's. All that is known stands in the cluster,
so this process keeps nothing and may be stopped at any time; a Job is named by its epoch, so none is made
twice.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any

from questloop.errors import MissingExtraError, UnavailableError

BURST = "questloop.dev/burst=true"
QUEUE = "kueue.x-k8s.io/queue-name"
FOLLOWERS = ("evaluator", "reward-model")
"""PodTemplates, in the order in which their Jobs run"""
BACKOFF_LIMIT = 3
KEPT_S = 86_400
_EPOCH = re.compile(r"-epoch-(\d+)$")
_CONFLICT = 409
_NOT_FOUND = 404
Document = dict[str, Any]


class Cluster:
    """What is asked of the API server in one namespace, by this pod's account or this user's kubeconfig."""

    def __init__(self, namespace: str) -> None:
        """Raises `UnavailableError` where there is neither."""
        try:
            from kubernetes import client, config
            from urllib3.exceptions import HTTPError
        except ImportError:
            raise MissingExtraError("the Kubernetes client", "cluster") from None
        try:
            if "KUBERNETES_SERVICE_HOST" in os.environ:
                config.load_incluster_config()
            else:
                config.load_kube_config(os.environ.get("KUBECONFIG"))
        except config.ConfigException as error:
            raise UnavailableError(
                f"no cluster is configured ({error}): log in with `oc login`, or run this in a pod whose "
                "service account has a token"
            ) from None
        self._namespace = namespace
        self._refusal, self._silence = client.ApiException, (OSError, HTTPError)
        self._plain = client.ApiClient().sanitize_for_serialization
        self._custom, self._core, self._batch = (
            *(client.CustomObjectsApi(), client.CoreV1Api(), client.BatchV1Api()),
        )

    def bursts(self) -> list[Document]:
        """The RayJobs that are bursts."""
        answer = self._ask(
            *(self._custom.list_namespaced_custom_object, "ray.io", "v1", self._namespace, "rayjobs"),
            label_selector=BURST,
        )
        found: list[Document] = answer["items"]
        return found

    def template(self, name: str) -> Document:
        """The pod of the PodTemplate `name`."""
        answer = self._ask(self._core.read_namespaced_pod_template, name, self._namespace)
        pod: Document = answer["template"]
        return pod

    def job(self, name: str) -> Document | None:
        """The Job `name`; None where there is none."""
        try:
            found: Document = self._ask(self._batch.read_namespaced_job, name, self._namespace)
        except self._refusal:
            return None
        return found

    def create_job(self, job: Document) -> bool:
        """Whether it was made; False where there is one of its name already."""
        try:
            self._ask(self._batch.create_namespaced_job, self._namespace, job)
        except self._refusal:
            return False
        return True

    def _ask(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """The answer as JSON values; what is missing or there already is left to the caller."""
        try:
            return self._plain(call(*args, **kwargs))
        except self._refusal as error:
            if error.status in (_NOT_FOUND, _CONFLICT):
                raise
            raise UnavailableError(
                f"the API server refused {call.__name__}: {error.status} {error.reason}; "
                "gitops/base/rbac/bursts-role.yaml has the rights that this needs"
            ) from None
        except self._silence as error:
            raise UnavailableError(f"the API server does not answer: {str(error)[:200]}") from None


def follow(cluster: Cluster, tell: Callable[[str], None]) -> list[str]:
    """Make the Jobs that are due now; their names."""
    made: list[str] = []
    for burst in cluster.bursts():
        found = _EPOCH.search(burst["metadata"]["name"])
        if found is None or burst.get("status", {}).get("jobStatus") != "SUCCEEDED":
            continue
        for follower in FOLLOWERS:
            name = f"{follower}-epoch-{found[1]}"
            job = cluster.job(name)
            if job is None:
                template = cluster.template(follower)
                if cluster.create_job(follower_job(name, burst, template, found[1])):
                    made.append(name)
                    tell(f"{name}: made, after {burst['metadata']['name']}")
            if job is None or not _has_succeeded(job):
                break
    return made


def follower_job(name: str, burst: Document, template: Document, epoch: str) -> Document:
    """The Job `name` of `epoch`, which goes when its burst goes."""
    meta = burst["metadata"]
    pod = template["spec"]
    containers = [
        container
        | {
            "env": [
                *(item for item in container.get("env", []) if item["name"] != "EPOCH"),
                {"name": "EPOCH", "value": epoch},
            ]
        }
        for container in pod["containers"]
    ]
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": meta["namespace"],
            "labels": {QUEUE: meta["labels"][QUEUE]},
            "ownerReferences": [
                {"apiVersion": "ray.io/v1", "kind": "RayJob", "name": meta["name"], "uid": meta["uid"]}
            ],
        },
        "spec": {
            "backoffLimit": BACKOFF_LIMIT,
            "ttlSecondsAfterFinished": KEPT_S,
            "template": {"metadata": template.get("metadata", {}), "spec": pod | {"containers": containers}},
        },
    }


def _has_succeeded(job: Document) -> bool:
    conditions = job.get("status", {}).get("conditions") or []
    return any(item["type"] == "Complete" and item["status"] == "True" for item in conditions)
