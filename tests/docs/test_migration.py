"""What migration.md says of settings, manifests and paths is so."""

import re
from pathlib import Path

import pytest
from scripts import render_manifests
from scripts.write_settings_reference import _default

from questloop.settings import GROUPS, LEARNS

ROOT = Path(__file__).parents[2]
SECTIONS = dict(
    re.findall(
        r"^## (.+?)\n(.*?)(?=^## |\Z)",
        (ROOT / "docs/explanation/migration.md").read_text("utf-8"),
        re.M | re.S,
    )
)
FIELDS = {name.upper(): field for group in GROUPS for name, field in group.model_fields.items()}
OVERLAYS = render_manifests.OVERLAYS


def rows(section):
    lines = [line for line in SECTIONS[section].splitlines() if line.startswith("| ")][1:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def bare(cell):
    return cell.strip("`")


@pytest.fixture(scope="module")
def rendered(tmp_path_factory):
    folder = tmp_path_factory.mktemp("manifests")
    parts = {name: f"overlays/{name}" for name in OVERLAYS} | {"jobs": "jobs", "argocd": "argocd"}
    return {
        name: render_manifests.read(render_manifests.render(ROOT / "gitops" / part, folder / f"{name}.yaml"))
        for name, part in parts.items()
    }


@pytest.mark.parametrize("row", rows("Settings"), ids=lambda row: bare(row[0]))
def test_a_default_is_the_products(row):
    name, _, default, *_ = row
    assert default == _default(FIELDS[bare(name)])


@pytest.mark.parametrize("row", rows("Settings"), ids=lambda row: bare(row[0]))
def test_what_the_loop_sets_is_told(row):
    name, _, _, loop, *_ = row
    assert bare(loop) == str(LEARNS.get(bare(name).lower(), "-"))


@pytest.mark.parametrize("row", rows("Settings"), ids=lambda row: bare(row[0]))
def test_a_value_of_the_cluster_is_the_manifests(row, rendered):
    name, _, _, _, cluster, _ = row
    told = [bare(value) for value in cluster.split(" / ")]
    told = told * 3 if len(told) == 1 else told
    assert told == [pods_find(rendered[overlay]).get(bare(name), "-") for overlay in OVERLAYS]


@pytest.mark.parametrize("row", rows("Settings"), ids=lambda row: bare(row[0]))
def test_a_setting_that_differs_says_why(row):
    _, asked, default, loop, cluster, why = row
    same = {float(bare(value)) for value in (asked, default) if re.fullmatch(r"`[\d.e-]+`", value)}
    if len(same) != 1 or loop != "-" or " / " in cluster:
        assert why or bare(asked) == bare(default), row


def pods_find(documents):
    settings = next(item for item in documents if item["metadata"]["name"] == "questloop-settings")["data"]
    cluster = next(item for item in documents if item["kind"] == "RayCluster")["spec"]
    (head,) = cluster["headGroupSpec"]["template"]["spec"]["containers"]
    return settings | {item["name"]: item["value"] for item in head["env"] if "value" in item}


@pytest.mark.parametrize("row", rows("Names on the cluster"), ids=lambda row: f"{row[0]} {bare(row[1])}")
def test_a_name_is_in_the_manifests(row, rendered):
    kind, name, _ = row
    documents = [*rendered["prod"], *rendered["jobs"], *rendered["argocd"]]
    assert (kind, bare(name)) in {(item["kind"], item["metadata"]["name"]) for item in documents}


@pytest.mark.parametrize("row", rows("Paths"), ids=lambda row: bare(row[0]))
def test_a_path_is_there_and_a_new_one_has_its_reason(row):
    was, now, why = row
    assert (ROOT / bare(now)).exists()
    assert why or Path(bare(was)).name == Path(bare(now)).name or "gitops" in now or "models.py" in now
