"""The admission simulation: what is refused, what waits, and what machines take."""

import pytest
from scripts import render_manifests
from scripts.manifest_admission import NOTEBOOK_CLUSTER, QUEUED, ClusterQueue, queues, requests, workloads
from scripts.manifest_rules import findings
from scripts.manifest_tree import Tree, pods_of, quantity

OVERLAYS = render_manifests.OVERLAYS


def cluster(cpu, replicas=1, gpu=None):
    """A RayCluster of one pod of 1 CPU and `replicas` of `cpu`."""
    wanted = {"requests": {"cpu": cpu}, "limits": {"nvidia.com/gpu": gpu} if gpu else {}}
    head = {"spec": {"containers": [{"resources": {"requests": {"cpu": "1"}}}]}}
    worker = {
        "groupName": "w",
        "maxReplicas": replicas,
        "template": {"spec": {"containers": [{"resources": wanted}]}},
    }
    return {
        "kind": "RayCluster",
        "metadata": {"name": "r"},
        "spec": {"headGroupSpec": {"template": head}, "workerGroupSpecs": [worker]},
    }


def test_a_workload_is_admitted_whole_or_not_at_all():
    queue = ClusterQueue({"cpu-only": {"cpu": 4}})
    assert "4 cpu of RayCluster r w" in queue.admit(cluster("2", replicas=2))
    assert queue.used == {}
    assert queue.admit(cluster("3")) == {"RayCluster r head": "cpu-only", "RayCluster r w": "cpu-only"}
    assert "1 cpu of RayCluster r head" in queue.admit(cluster("0"))


def test_each_pod_set_takes_the_first_flavor_with_room():
    queue = ClusterQueue({"cpu-only": {"cpu": 8}, "gpu": {"cpu": 8, "nvidia.com/gpu": 1}})
    admitted = {"RayCluster r head": "cpu-only", "RayCluster r w": "gpu"}
    assert queue.admit(cluster("1", gpu="1")) == admitted
    assert "nvidia.com/gpu" in queue.admit(cluster("1", gpu="1"))


def test_what_no_quota_covers_is_never_admitted():
    queue = ClusterQueue({"cpu-only": {"cpu": 8}})
    document = cluster("1")
    document["spec"]["workerGroupSpecs"][0]["template"]["spec"]["containers"][0]["resources"]["requests"] = {
        "ephemeral-storage": "1Gi"
    }
    assert "ephemeral-storage" in queue.admit(document)


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_everything_that_may_ask_at_once_is_admitted(overlay, documents):
    """And the quota is not so wide that the rule could not fail: a second notebook waits."""
    tree = Tree(documents(overlay), documents("jobs"))
    (queue,) = (ClusterQueue.of(item) for item in tree.of("ClusterQueue"))
    names = {item["metadata"]["name"] for item in workloads(tree)}
    assert {"zelda-rl", "zelda-workbench", "evaluator", "reward-model", "fetch-models"} <= names
    for item in workloads(tree):
        assert isinstance(queue.admit(item), dict), item["metadata"]["name"]
    assert isinstance(queue.admit(NOTEBOOK_CLUSTER), str)


@pytest.mark.parametrize("overlay", OVERLAYS)
@pytest.mark.parametrize("resource", [0, 1])
def test_a_quota_without_a_notebook_or_the_workers_most_is_found(overlay, resource, documents):
    standing = documents(overlay)
    tree = Tree(standing)
    (quota,) = tree.of("ClusterQueue")
    item = quota["spec"]["resourceGroups"][0]["flavors"][0]["resources"][resource]
    (notebook_cpu, notebook_memory) = (
        sum(group.count * requests(group)[name] for group in pods_of(NOTEBOOK_CLUSTER))
        for name in ("cpu", "memory")
    )
    item["nominalQuota"] = str(quantity(item["nominalQuota"]) - (notebook_cpu, notebook_memory)[resource])
    assert any("would not be admitted" in text for text in findings(standing, beside=documents("jobs")))
    more = documents(overlay)
    for group in Tree(more).of("RayCluster")[0]["spec"]["workerGroupSpecs"]:
        group["maxReplicas"] += 20
    assert any("would not be admitted" in text for text in findings(more))


def test_every_kind_that_a_webhook_looks_at_names_its_queue(documents):
    found = set()
    for name in (*OVERLAYS, "jobs"):
        changed = documents(name)
        for item in changed:
            if item["kind"] in QUEUED:
                assert item["metadata"]["labels"].pop("kueue.x-k8s.io/queue-name") == "zelda-rl"
                assert any("names no queue" in text for text in queues(Tree([item])))
                found.add(item["kind"])
    assert found == {"RayCluster", "RayJob", "Job"}


def machine_set(documents, name):
    return next(
        item for item in documents if item["kind"] == "MachineSet" and item["metadata"]["name"] == name
    )["spec"]


def no_label(documents):
    machine_set(documents, "pyboy-training")["template"]["spec"]["metadata"]["labels"].clear()


def another_taint(documents):
    taint = {"key": "dedicated", "value": "x", "effect": "NoSchedule"}
    machine_set(documents, "pyboy-training")["template"]["spec"]["taints"].append(taint)


def one_for_training(documents):
    machine_set(documents, "pyboy-training")["replicas"] = 1


def one_for_models(documents):
    machine_set(documents, "llm-inference")["replicas"] = 1


def models_anywhere(documents):
    for item in Tree(documents).of("LLMInferenceService"):
        del item["spec"]["template"]["nodeSelector"]


@pytest.mark.parametrize(
    ("break_it", "finding"),
    [
        (no_label, "no MachineSet has the labels"),
        (another_taint, "no MachineSet has the labels"),
        (one_for_training, "find no room on pyboy-training"),
        (one_for_models, "find no room on llm-inference"),
        (models_anywhere, "MachineSet llm-inference: nothing is to run there"),
    ],
)
def test_machines_that_do_not_fit_are_found(break_it, finding, documents):
    broken = documents("prod")
    break_it(broken)
    assert any(finding in text for text in findings(broken)), findings(broken)


def test_a_pool_that_no_machine_is_of_is_found(documents):
    broken = documents("dev")
    pod = next(item for item in broken if item["kind"] == "Deployment")["spec"]["template"]["spec"]
    pod["nodeSelector"] = {"questloop.dev/pool": "infrastructure"}
    assert any("this overlay makes no machines" in text for text in findings(broken))


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_gpu_component_gives_head_and_workers_one_each_with_quota(overlay, documents):
    """The default stays without, which `test_sizes_are_those_of_the_environment` shows."""
    tree = Tree(documents(f"{overlay}+gpu"), documents("jobs"))
    (ray,), (queue,) = tree.of("RayCluster"), tree.of("ClusterQueue")
    assert [requests(group)["nvidia.com/gpu"] for group in pods_of(ray)] == [1, 1]
    admitted = ClusterQueue.of(queue).admit(ray)
    assert set(admitted.values()) == {"zelda-rl-gpu"}
    (settings,) = (item for item in tree.of("ConfigMap") if item["metadata"]["name"] == "questloop-settings")
    assert settings["data"]["LEARNER_GPUS"] == "1"
