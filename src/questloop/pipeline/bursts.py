"""Starts the Jobs that follow each burst of training on a cluster: the judges and the reward model.

A burst is a RayJob that trains an epoch (`gitops/jobs/zelda-train-epoch.yaml`). When it has succeeded, its
evaluator's Job is made, and when that one has, the reward model's. All that is known stands in the cluster,
so this process keeps nothing and may be stopped at any time; a Job is named by its burst, so none is made
twice.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from typing import Any

from questloop.errors import BadDataError, MissingExtraError, QuestloopError, UnavailableError

BURST = "questloop.dev/burst=true"
QUEUE = "kueue.x-k8s.io/queue-name"
FOLLOWERS = ("evaluator", "reward-model")
"""PodTemplates, in the order in which their Jobs run"""
BACKOFF_LIMIT = 3
_EPOCH = re.compile(r"^(.*)-epoch-(\d+)$")
_FIRST_RUN = "zelda-train"
"""what the bursts of the documentation are called: the Jobs after them are named by their epoch alone"""
_HINTS = {
    401: "the token is not valid any more: log in with `oc login`",
    403: "gitops/base/rbac/bursts-role.yaml has the rights that this needs",
    404: "the namespace, KubeRay's kinds or gitops/base/rl-training/burst-templates.yaml are not there",
}
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
        found: Document | None = self._ask(
            self._batch.read_namespaced_job, name, self._namespace, none_at=_NOT_FOUND
        )
        return found

    def create_job(self, job: Document) -> bool:
        """Whether it was made; False where there is one of its name already."""
        made = self._ask(self._batch.create_namespaced_job, self._namespace, job, none_at=_CONFLICT)
        return made is not None

    def _ask(self, call: Callable[..., Any], *args: Any, none_at: int | None = None, **kwargs: Any) -> Any:
        """The answer as JSON values; None where the server answers with the status `none_at`."""
        try:
            return self._plain(call(*args, **kwargs))
        except self._refusal as error:
            if error.status == none_at:
                return None
            raise UnavailableError(
                f"the API server refused {call.__name__}: {error.status} {error.reason}{_why(error)}"
            ) from None
        except self._silence as error:
            raise UnavailableError(f"the API server does not answer: {str(error)[:200]}") from None


def _why(error: Any) -> str:
    """What the server says itself, and how to mend what it does not say."""
    try:
        said = str(json.loads(error.body)["message"]).splitlines()[0]
    except (ValueError, TypeError, KeyError, IndexError):
        said = ""
    hint = "" if "exceeded quota" in said else _HINTS.get(error.status, "")
    return (f": {said}" if said else "") + (f"; {hint}" if hint else "")


def follow(cluster: Cluster, tell: Callable[[str], None]) -> list[str]:
    """Make the Jobs that are due now; their names. `tell` is given a line of each burst's state.

    A burst that cannot be served does not keep others from it: its error is raised after them.
    """
    made: list[str] = []
    failure: QuestloopError | None = None
    for burst in cluster.bursts():
        try:
            made += _serve(cluster, burst, tell)
        except QuestloopError as error:
            failure = failure or error
    if failure is not None:
        raise failure
    return made


def _serve(cluster: Cluster, burst: Document, tell: Callable[[str], None]) -> list[str]:
    name, status = burst["metadata"]["name"], burst.get("status", {}).get("jobStatus")
    if status != "SUCCEEDED":
        if status in ("FAILED", "STOPPED"):
            tell(f"{name}: {status.lower()}, so nothing follows it")
        return []
    settings = settings_of(burst)
    for follower in FOLLOWERS:
        job_name = _job_name(follower, name)
        job = cluster.job(job_name)
        if job is None:
            document = follower_job(job_name, burst, cluster.template(follower), settings)
            if cluster.create_job(document):
                tell(f"{job_name}: made, after {name}")
                return [job_name]
            return []
        if _is(job, "Failed"):
            tell(f"{job_name}: failed; look at its log, then delete it, and it is made again")
        if not _is(job, "Complete"):
            return []
    return []


def settings_of(burst: Document) -> dict[str, str]:
    """The settings that stand in the burst itself: its judges read the same, its epoch above all.

    Raises `BadDataError` where the burst does not say which epoch it is, or says two.
    """
    import yaml

    name = burst["metadata"]["name"]
    found = _EPOCH.search(name)
    if found is None:
        raise BadDataError(f"RayJob {name}: a burst's name ends with -epoch-N; nothing follows this one")
    try:
        runtime = yaml.safe_load(burst.get("spec", {}).get("runtimeEnvYAML") or "") or {}
        settings = {key: str(value) for key, value in (runtime.get("env_vars") or {}).items()}
    except (yaml.YAMLError, AttributeError):
        raise BadDataError(f"RayJob {name}: runtimeEnvYAML is no mapping with env_vars") from None
    if settings.setdefault("EPOCH", found[2]) != found[2]:
        raise BadDataError(
            f"RayJob {name}: its name says epoch {found[2]}, EPOCH says {settings['EPOCH']}: no Job follows"
        )
    return settings


def _job_name(follower: str, burst: str) -> str:
    """Bursts of another run, by another name, have Jobs of their own."""
    found = _EPOCH.search(burst)
    first = found is not None and found[1] == _FIRST_RUN
    return f"{follower}-epoch-{found[2]}" if first and found else f"{follower}-{burst}"


def follower_job(name: str, burst: Document, template: Document, settings: dict[str, str]) -> Document:
    """The Job `name`, which goes when its burst goes; a TTL would have it made again."""
    meta = burst["metadata"]
    pod = template["spec"]
    said = [{"name": key, "value": value} for key, value in sorted(settings.items())]
    containers = [
        container
        | {"env": [*(item for item in container.get("env", []) if item["name"] not in settings), *said]}
        for container in pod["containers"]
    ]
    queue = meta.get("labels", {}).get(QUEUE)
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": meta["namespace"],
            "labels": {QUEUE: queue} if queue else {},
            "ownerReferences": [
                {"apiVersion": "ray.io/v1", "kind": "RayJob", "name": meta["name"], "uid": meta["uid"]}
            ],
        },
        "spec": {
            "backoffLimit": BACKOFF_LIMIT,
            "template": {"metadata": template.get("metadata", {}), "spec": pod | {"containers": containers}},
        },
    }


def _is(job: Document, condition: str) -> bool:
    conditions = job.get("status", {}).get("conditions") or []
    return any(item["type"] == condition and item["status"] == "True" for item in conditions)
