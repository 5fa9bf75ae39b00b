"""Start states where a cluster has them: in a bucket, and in a ConfigMap."""

import errno
from pathlib import Path

import pytest
import yaml

from questloop.game.profiles import profile_for
from questloop.game.rom import Rom
from questloop.game.start_states import beginnings, read_start_states, write_start_state

ROOT = Path(__file__).parents[2]


def read_only(*_):
    raise OSError(errno.EROFS, "Read-only file system")


@pytest.fixture(scope="module")
def beginning():
    rom = Rom.load(None)
    (state,) = beginnings(rom, profile_for(rom))
    return state


@pytest.mark.integration
def test_they_are_read_from_the_bucket_that_the_component_names(beginning, s3_server, monkeypatch):
    (operation,) = yaml.safe_load((ROOT / "gitops/components/start-states/settings.yaml").read_text())
    for name, value in s3_server.environment().items():
        monkeypatch.setenv(name, value)
    where = operation["value"]
    write_start_state(where, beginning)
    assert [item.name for item in read_start_states(where)] == ["start"]


def test_they_are_read_from_a_mounted_config_map(beginning, tmp_path, monkeypatch):
    """Kubernetes mounts its files as links into a folder whose name changes with every update, and so that
    nobody can write there."""
    data = tmp_path / "..2026_11_29"
    data.mkdir()
    (data / "start.state").write_bytes(beginning.state.to_bytes())
    (tmp_path / "..data").symlink_to(data.name)
    (tmp_path / "start.state").symlink_to("..data/start.state")
    monkeypatch.setattr(Path, "write_bytes", read_only)
    assert [item.name for item in read_start_states(str(tmp_path))] == ["start"]
    assert len(beginning.state.to_bytes()) < 2**20  # what a ConfigMap holds
