"""The image's build steps, as far as they go without an engine, and its entry points as any user."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CONTAINERFILE = (ROOT / "Containerfile").read_text("utf-8")
ANY_USER = 1_000_710_000
# It may read everything, since a checkout need not be open to others, and writes what its UID may.
AS_ANY_USER = [
    *("setpriv", f"--reuid={ANY_USER}", "--regid=0", "--clear-groups"),
    *("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"),
]


def can_become_any_user() -> bool:
    if shutil.which("setpriv") is None:
        return False
    return (
        subprocess.run([*AS_ANY_USER, sys.executable, "-c", ""], capture_output=True, check=False).returncode
        == 0
    )


def test_bases_are_pinned_and_no_rom_is_baked_in():
    assert re.search(r"^ARG BASE=\S+@sha256:[0-9a-f]{64}$", CONTAINERFILE, re.M)
    assert set(re.findall(r"^FROM (\S+)", CONTAINERFILE, re.M)) == {"${BASE}", "runtime"}
    stages = CONTAINERFILE.split("\nFROM ")
    assert [stage.split("\n")[0] for stage in stages[1:]] == [
        *("${BASE} AS build", "${BASE} AS runtime", "runtime AS with-rom", "runtime")
    ]
    assert ".gbc" not in stages[1] + stages[2] + stages[4]


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


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.skipif(not can_become_any_user(), reason="needs setpriv and root to become another user")
def test_a_training_epoch_runs_as_any_user_with_a_read_only_home(tmp_path):
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir(mode=0o555)
    work.mkdir()
    os.chown(work, ANY_USER, 0)
    short = Path(tempfile.mkdtemp(prefix="q"))  # paths of Ray's sockets have to be short
    os.chown(short, ANY_USER, 0)
    environment = {
        "PATH": "/usr/bin:/bin",
        "PYTHONPATH": str(ROOT / "src"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "HOME": str(home),
        "USER": "questloop",
        "LOGNAME": "questloop",
        "OMP_NUM_THREADS": "1",
        "TMPDIR": str(short),
        "RAY_TMPDIR": str(short),
        "STORE_URL": str(work / "store"),
        "EPOCH_STEPS": "256",
        "FRAME_SKIP": "4",
        "BATCH_SIZE": "128",
        "MINIBATCH_SIZE": "64",
        "PPO_EPOCHS": "1",
        "RAY_WORKERS": "1",
        "ENVS_PER_WORKER": "2",
        "EPISODE_LENGTH": "64",
    }
    try:
        done = subprocess.run(
            [*AS_ANY_USER, sys.executable, "-m", "questloop", "rollouts", "--json"],
            cwd=work,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    finally:
        shutil.rmtree(short, ignore_errors=True)
    assert list(home.iterdir()) == []
    assert (work / "store").stat().st_uid == ANY_USER
