"""What a person sees while Ray and its runners start."""

import os
import sys

import pytest
import ray
from tests.disks import small_disk

from questloop.errors import DiskFullError, UnavailableError
from questloop.settings import TrainingSettings
from questloop.training.cluster import quiet_stderr, start_local, start_ray


def test_progress_is_seen_while_rays_core_is_kept_quiet(capfd):
    with quiet_stderr():
        os.write(2, b"a warning of the core\n")
        print("the bar", file=sys.stderr)
    print("after", file=sys.stderr)
    assert capfd.readouterr().err == "the bar\nafter\n"


def test_what_the_core_said_is_shown_where_it_failed(capfd):
    def fail():
        os.write(2, b"why\n")
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"), quiet_stderr():
        fail()
    assert capfd.readouterr().err == "why\n"


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1:99999", "ray://127.0.0.1:99999", f"{'x' * 70}.example:6379", "ray://é..x:1", ":6379"],
)
def test_an_address_that_is_none_is_one_line(address):
    with pytest.raises(UnavailableError, match=r"^RAY_ADDRESS=.*unset it$") as refused:
        start_ray(TrainingSettings(ray_address=address))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "error", [Exception("The current node timed out during startup.\nMore."), Exception()]
)
def test_ray_that_does_not_start_is_one_line(monkeypatch, error):
    """It raises bare exceptions on a machine that is too busy: a patch, since none is so to order."""

    def init(**_):
        raise error

    monkeypatch.setattr(ray, "init", init)
    with pytest.raises(UnavailableError, match=r"^Ray did not start here: \w+.*; look at free memory"):
        start_local(1)


def test_ray_does_not_wait_for_files_that_its_disk_has_no_room_for(tmp_path, monkeypatch):
    with small_disk(tmp_path / "disk", 2) as disk:
        disk.fill()
        monkeypatch.delenv("RAY_TMPDIR", raising=False)
        monkeypatch.setenv("TMPDIR", str(disk.root))
        monkeypatch.setattr("questloop.training.cluster._LONGEST_BASE", 1000)
        with pytest.raises(DiskFullError, match=f"the disk of {disk.root} is full; .*TMPDIR"):
            start_local(1)
