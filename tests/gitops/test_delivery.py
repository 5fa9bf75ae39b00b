"""What Argo CD is told and granted, against what the overlays make."""

import pytest
from scripts import render_manifests
from scripts.manifest_delivery import delivery
from scripts.manifest_tree import Tree

OVERLAYS = render_manifests.OVERLAYS


@pytest.fixture
def delivered(documents):
    """The findings of an overlay; its documents, its Application and the cluster's may be changed first."""

    def check(overlay, change=lambda *_: None):
        tree, synced, cluster = documents(overlay), documents("argocd"), documents("cluster")
        synced = [
            item for item in synced if item["metadata"]["name"] == f"questloop-{overlay.partition('+')[0]}"
        ]
        assert len(synced) == 1
        change(tree, synced[0], cluster)
        return list(delivery(Tree(tree), synced, cluster))

    return check


@pytest.mark.parametrize("overlay", ["dev", "staging", "prod"])
@pytest.mark.parametrize("component", [None, *render_manifests.CHOSEN])
def test_argo_cd_may_write_and_does_write_all_of_an_overlay(overlay, component, delivered):
    assert delivered(f"{overlay}+{component}" if component else overlay) == []


def test_a_kind_that_argo_cd_may_not_write_is_found(delivered):
    def change(tree, _, cluster):
        for item in cluster:
            if item["kind"] == "Role":
                item["rules"] = [rule for rule in item["rules"] if rule["resources"] != ["podtemplates"]]

    (finding,) = delivered("dev", change)
    assert finding.startswith("Argo CD may not write podtemplates of the core group")


def test_a_right_that_argo_cd_does_not_have_cannot_be_granted(delivered):
    def change(tree, *_):
        role = next(item for item in tree if item["kind"] == "Role")
        role["rules"].append(
            {"apiGroups": ["kubeflow.org"], "resources": ["trainjobs"], "verbs": ["get", "create"]}
        )

    (finding,) = delivered("dev", change)
    assert finding.startswith("Argo CD cannot grant create on trainjobs of kubeflow.org")


@pytest.mark.parametrize(
    ("kind", "path"),
    [("LLMInferenceService", ".spec.replicas"), ("RayCluster", ".spec.workerGroupSpecs[]?.replicas")],
)
def test_what_a_person_commits_is_not_ignored(kind, path, delivered):
    def change(_, application, __):
        application["spec"]["ignoreDifferences"].append({"kind": kind, "jqPathExpressions": [path]})

    assert any(
        f"states {path}, which Argo CD is told to ignore" in text for text in delivered("prod", change)
    )


def test_what_an_administrator_applies_needs_no_namespace_that_comes_later(documents):
    """`oc apply -k gitops/cluster` is repeated until it says no error: that has to come."""
    cluster = documents("cluster")
    made = {item["metadata"]["name"] for item in cluster if item["kind"] == "Namespace"}
    of_openshift = {"openshift-gitops", "openshift-monitoring"}
    used = {item["metadata"].get("namespace") for item in cluster} - {None}
    assert used - made <= of_openshift
