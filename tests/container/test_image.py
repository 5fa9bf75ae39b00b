"""The image's build steps, as far as they go without an engine, and its entry points as any user."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
import yaml
from scripts.manifest_rules import WORKING_DIR

from questloop.settings import StoreSettings
from questloop.storage import keys
from questloop.storage.commit import read_commit
from questloop.storage.keys import Stage
from questloop.storage.store import open_store

ROOT = Path(__file__).parents[2]
CONTAINERFILE = (ROOT / "Containerfile").read_text("utf-8")
ANY_USER = 1_000_710_000


def can_make_a_root() -> bool:
    if os.geteuid() or not shutil.which("unshare") or not Path("/usr/bin/python3").exists():
        return False
    tried = (
        ["unshare", "--mount", "true"],
        ["/usr/bin/python3", "-c", "import ensurepip, sys; sys.exit(sys.version_info[:2] != (3, 11))"],
    )
    return all(subprocess.run(each, capture_output=True, check=False).returncode == 0 for each in tried)


def test_bases_are_pinned_and_no_rom_is_baked_in():
    assert re.search(r"^ARG BASE=\S+@sha256:[0-9a-f]{64}$", CONTAINERFILE, re.M)
    stages = CONTAINERFILE.split("\nFROM ")[1:]
    assert [stage.split("\n")[0] for stage in stages] == [
        *(
            "${BASE} AS build",
            "${BASE} AS runtime",
            "runtime AS with-rom",
            "with-rom AS with-state",
            "runtime",
        )
    ]
    build, runtime, _, _, shipped = stages
    for text in (build, runtime, shipped):
        assert not re.search(r"\.gbc|\.state|new/ignored|ROM", text)


def test_of_ignored_files_only_roms_and_states_are_in_the_build_context():
    """And git ignores the folder that they stand in."""
    lines = (ROOT / ".containerignore").read_text().splitlines()
    assert lines[0] == "*"
    ignored = {line for line in lines if "ignored" in line or "gbc" in line}
    assert ignored == {"!*.gbc", "!new/ignored/*.gbc", "!new/ignored/*.state"}
    assert {"/new/ignored/", "/*.gbc"} <= set((ROOT / ".gitignore").read_text().splitlines())


def test_every_copied_path_is_there_and_not_ignored():
    allowed = {line[1:] for line in (ROOT / ".containerignore").read_text().splitlines() if line[0] == "!"}
    for line in re.findall(r"^COPY (?!--)(.+)$", CONTAINERFILE, re.M):
        for path in line.split()[:-1]:
            assert (ROOT / path).exists(), path
            assert path in allowed, path


@pytest.mark.long
def test_the_build_steps_run(tmp_path):
    """All of them but the download of what is installed here already: that is read from this environment."""
    context, target = tmp_path / "context", tmp_path / "image"
    context.mkdir()
    for name in ("pyproject.toml", "requirements.lock", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, context)
    for name in ("container", "src"):
        shutil.copytree(ROOT / name, context / name, ignore=shutil.ignore_patterns("__pycache__"))
    build = subprocess.run(
        ["sh", "container/build.sh", str(target)],
        cwd=context,
        env={**os.environ, "PYTHON": sys.executable, "TORCH": "", "PIP_ARGS": "--no-deps"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert build.returncode == 0, build.stderr
    assert "questloop==" in (target / "packages.txt").read_text()
    version = subprocess.run(
        [str(target / "bin/questloop"), "version"],
        cwd=tmp_path,
        env={"PYTHONPATH": sysconfig.get_path("purelib"), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert re.match(r"\d+\.\d+", version.stdout)


def image_environment():
    """The variables that the Containerfile sets for every container."""
    (block,) = re.findall(r"^ENV (PATH=.*?)\n(?! )", CONTAINERFILE, re.M | re.S)
    pairs = dict(part.split("=", 1) for part in block.replace("\\\n", " ").split())
    return pairs | {"PATH": pairs["PATH"].replace("${PATH}", "/usr/bin:/bin")}


def entry_point(path):
    """(folder, command) of a RayJob or Job as written."""
    (job,) = yaml.safe_load_all((ROOT / "gitops/jobs" / path).read_text("utf-8"))
    if job["kind"] == "RayJob":
        return WORKING_DIR, job["spec"]["entrypoint"]
    (container,) = job["spec"]["template"]["spec"]["containers"]
    return container["workingDir"], shlex.join(container["command"])


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.skipif(not can_make_a_root(), reason="needs root, unshare and Debian's python3-venv")
def test_commands_and_jobs_run_on_a_bare_root_as_any_user_that_writes_to_volumes_only(tmp_path):
    """The packages are this environment's; the rest of the image is made by the Containerfile's own steps."""
    context = tmp_path / "context"
    context.mkdir()
    for name in ("pyproject.toml", "requirements.lock", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, context)
    for name in ("container", "src", "scripts"):
        shutil.copytree(ROOT / name, context / name, ignore=shutil.ignore_patterns("__pycache__"))
    root, store = tmp_path / "root", tmp_path / "store"
    root.mkdir()
    store.mkdir()
    store.chmod(0o777)
    small = {
        "STORE_URL": "/store/run",
        "EPOCH_STEPS": "2048",
        "FRAME_SKIP": "4",
        "EPISODE_LENGTH": "512",
        "BATCH_SIZE": "512",
        "MINIBATCH_SIZE": "128",
        "PPO_EPOCHS": "1",
        "RAY_WORKERS": "1",
        "ENVS_PER_WORKER": "4",
        "EXPORT_SEGMENTS_PER_EPOCH": "8",
        "FILM_EPOCHS": "on",
    }
    lines = [f"export {name}={value}" for name, value in (image_environment() | small).items()]
    lines += [
        "id -u; ! touch /home/questloop/x 2>/dev/null; ! touch /opt/questloop/x 2>/dev/null",
        "cd /tmp && questloop demo --epochs 1 --json",
        "questloop video --output /store/film.mp4 --steps 64 --json",
    ]
    for path in ("zelda-train-epoch.yaml", "zelda-eval-epoch.yaml", "evaluator.yaml", "reward-model.yaml"):
        folder, command = entry_point(path)
        lines += [f"echo '== {path}'", f"cd {folder} && EPOCH=1 {command}"]
    commands = tmp_path / "commands.sh"
    commands.write_text("\n".join(lines) + "\n")
    done = subprocess.run(
        [
            *("unshare", "--mount", "--pid", "--fork", "sh", str(Path(__file__).with_name("bare_root.sh"))),
            *map(str, (root, context, sysconfig.get_path("purelib"), store, commands)),
        ],
        env={"PATH": os.environ["PATH"], "DEBOOTSTRAP": os.environ.get("DEBOOTSTRAP", "0")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert done.stdout.splitlines()[0] == str(ANY_USER)
    assert (store / "film.mp4").stat().st_size > 1000
    where = open_store(StoreSettings(store_url=str(store / "run")))
    for stage in Stage:
        assert read_commit(where, 1, stage) is not None, stage
    assert where.exists(keys.film(1, "best"))
    assert (store / "film.mp4").stat().st_uid == ANY_USER
