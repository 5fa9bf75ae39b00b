"""The systemd units that ship, checked by systemd itself, and the scripts beside them."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
UNITS = sorted((ROOT / "systemd").iterdir())


@pytest.mark.integration
@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="apt-get install systemd")
@pytest.mark.parametrize("part", ["poller", "dispatcher", "requeue"])
def test_systemd_takes_the_units(tmp_path, part):
    """With a program where the unit looks for one, and its user and files left to the machine."""
    for unit in UNITS:
        text = unit.read_text().replace("/opt/questloop/bin/questloop", "/bin/true")
        (tmp_path / unit.name).write_text(text)
    (tmp_path / f"questloop-fleet@{part}.service").symlink_to(tmp_path / "questloop-fleet@.service")
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(tmp_path / f"questloop-fleet@{part}.service")],
        capture_output=True,
        text=True,
        env={"SYSTEMD_UNIT_PATH": f"{tmp_path}:", "PATH": "/usr/bin:/bin"},
    )
    ours = [line for line in done.stderr.splitlines() if "questloop" in line]
    assert not ours
    assert done.returncode == 0, done.stderr


def test_the_units_start_commands_that_exist():
    from typer.testing import CliRunner

    from questloop.cli.app import app

    target = (ROOT / "systemd/questloop-fleet.target").read_text()
    parts = re.findall(r"questloop-fleet@(\w+)\.service", target)
    assert sorted(parts) == ["dispatcher", "poller", "requeue"]
    for part in parts:
        assert CliRunner().invoke(app, ["fleet", part, "--help"]).exit_code == 0


@pytest.mark.parametrize("script", ["gpu_poller", "dispatcher", "requeue_manager"])
def test_each_daemon_has_its_script(script):
    done = subprocess.run(
        [sys.executable, ROOT / f"scripts/{script}.py", "--help"],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(ROOT / "src"), "PATH": "/usr/bin:/bin", "COLUMNS": "200"},
    )
    assert done.returncode == 0, done.stderr
    assert "Usage" in done.stdout
