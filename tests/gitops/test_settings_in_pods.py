"""What the containers of the manifests find, read by the product's own settings."""

from urllib.parse import urlsplit

import pytest
from scripts import render_manifests
from scripts.manifest_rules import OURS
from scripts.manifest_tree import Tree

from questloop.llm.routes import Role, route_of
from questloop.settings import GROUPS, LEARNS, LLMBackend, load

OVERLAYS = render_manifests.OVERLAYS
JUDGING = {"RayCluster zelda-rl head/head", "PodTemplate evaluator/evaluator"}
AGENT = ("FRAME_SKIP", "EPISODE_LENGTH", "AIMS", "PLANNER", "HINT_INTERVAL", "ARCHIVE_FRACTION")
GATEWAY = "openshift-ai-inference-openshift-default.openshift-ingress.svc.cluster.local"


def environments(tree):
    """The environment of every container of ours by owner; keys of Secrets are left out."""
    maps = {item["metadata"]["name"]: item.get("data", {}) for item in tree.of("ConfigMap")}
    for owner, container, _ in tree.containers():
        if container["image"].startswith(OURS):
            found = {}
            for source in container.get("envFrom", []):
                found |= maps[source["configMapRef"]["name"]]
            found |= {item["name"]: item["value"] for item in container.get("env", []) if "value" in item}
            yield owner, found


@pytest.fixture
def settings_of(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)  # without a .env

    def read(environment, **changed):
        for name, value in (environment | changed).items():
            monkeypatch.setenv(name, value)
        found = load()
        for name in environment | changed:
            monkeypatch.delenv(name)
        return found

    return read


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_who_judges_is_one_switch_in_every_pod(overlay, documents, settings_of):
    tree = Tree(documents(overlay))
    services = tree.names("LLMInferenceService")
    paths = {
        match["path"]["value"]
        for item in tree.of("HTTPRoute")
        for rule in item["spec"]["rules"]
        for match in rule["matches"]
    }
    seen = set()
    for owner, environment in environments(tree):
        if "LLM_NAMESPACE" not in environment:
            continue
        seen.add(owner)
        as_it_is = settings_of(environment).llm
        if overlay == "dev":
            assert as_it_is.backend is LLMBackend.EMBEDDED
            del environment["LLM_BACKEND"]  # as its patch says, for models
        direct = settings_of(environment).llm
        gateway = settings_of(environment, LLM_USE_DIRECT="false").llm
        assert (direct.backend, gateway.backend) == (LLMBackend.DIRECT, LLMBackend.GATEWAY), owner
        for role in Role:
            host = urlsplit(route_of(role, direct).url).hostname
            name, _, rest = host.partition("-kserve-workload-svc.")
            assert (name in services, rest) == (True, "zelda-rl.svc.cluster.local")
            there = urlsplit(route_of(role, gateway).url)
            assert there.hostname == GATEWAY
            assert there.path.removesuffix("/v1") in paths
    assert seen >= JUDGING


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_every_pod_of_ours_reads_its_settings(overlay, documents, settings_of):
    for owner, environment in environments(Tree(documents(overlay))):
        found = settings_of(environment)
        if "S3_ENDPOINT_URL" in environment:
            assert found.store.url == "s3://", owner


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_agents_switches_are_stated_as_the_loops_commands_set_them(overlay, documents, settings_of):
    """So that what a cluster trains is what a machine trains, until somebody turns one."""
    fields = {name: field.default for group in GROUPS for name, field in group.model_fields.items()}
    (head,) = (env for owner, env in environments(Tree(documents(overlay))) if owner.endswith("head/head"))
    found = settings_of(head)
    held = found.game.model_dump() | found.exploration.model_dump()
    for name in AGENT:
        assert name in head
        assert held[name.lower()] == (fields | LEARNS)[name.lower()], name


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_start_states_come_from_the_bucket(overlay, documents, settings_of):
    tree = Tree(documents(f"{overlay}+start-states"))
    states = {
        owner: settings_of(environment).game.start_states
        for owner, environment in environments(tree)
        if owner.startswith("RayCluster")
    }
    assert set(states.values()) == {"s3://zelda-models/zelda_states"}
