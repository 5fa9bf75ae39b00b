"""A folder store on a real file system that is full, out of inodes, or only read."""

import os
import subprocess
import sys

import pytest
from tests.disks import small_disk
from tests.pipeline.playing import play
from tests.report.test_report import INFO

from questloop.errors import DiskFullError, UnavailableError, UsageError
from questloop.exit_codes import ExitCode
from questloop.local_files import write_file
from questloop.pipeline.context import open_context
from questloop.settings import load
from questloop.storage import keys
from questloop.storage.commit import commit_stage, committed_epochs
from questloop.storage.keys import Stage
from questloop.storage.lease import Lease
from questloop.storage.store import open_store


@pytest.fixture
def disk(tmp_path):
    with small_disk(tmp_path / "disk", 8) as made:
        yield made


def files(root):
    """Every file but the filler, and what it holds."""
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file() and path.name != "filler"}


WRITES = {
    "a new object": lambda store: store.put("a/new", b"x" * 5000),
    "an object that is there": lambda store: store.put("a/old", b"y" * 5000),
    "a durable one": lambda store: store.put("a/durable", b"x", durable=True),
    "in a new folder": lambda store: store.put("b/c/d", b"x"),
    "create-only": lambda store: store.put_if_absent("a/once", b"x"),
    "a commit": lambda store: commit_stage(store, 0, Stage.ROLLOUTS, 1, [], {}),
    "a lease": lambda store: Lease.acquire(store, "r1", background=False).release(),
}
TROUBLES = {
    "full": (lambda disk: disk.fill(), DiskFullError, "No space left on device; free space"),
    "out of inodes": (lambda disk: disk.use_up_inodes(), DiskFullError, "inodes"),
    "only read": (lambda disk: disk.remount("ro"), UnavailableError, "Read-only .*; mount it for writing"),
}


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("trouble", TROUBLES)
def test_a_write_fails_whole_and_works_once_there_is_room(disk, write, trouble):
    store = open_store(str(disk.root / "store"))
    store.put("a/old", b"old")
    begin, kind, says = TROUBLES[trouble]
    begin(disk)
    before = files(disk.root)
    with pytest.raises(kind, match=f"cannot write [^ ]+: .*{says}"):
        WRITES[write](store)
    assert files(disk.root) == before
    assert [entry.key for entry in store.list()] == ["a/old"]
    disk.make_room()
    WRITES[write](store)


def test_a_lease_outlives_a_disk_that_was_full(disk):
    store = open_store(str(disk.root / "store"))
    with Lease.acquire(store, "r1", background=False) as lease:
        disk.fill()
        with pytest.raises(DiskFullError):
            lease.renew()
        disk.make_room()
        lease.renew()


def test_old_epochs_make_room_before_a_run_looks_for_it(disk, monkeypatch):
    url = str(disk.root / "store")
    monkeypatch.setenv("STORE_URL", url)
    monkeypatch.setenv("LOW_WATER_MB", "2")
    settings = load()
    with open_context(settings) as context:
        play(context.store, slots=2, steps=300)
        commit_stage(context.store, 1, Stage.ROLLOUTS, 1, [], {})
    disk.fill(leave_kb=2000)
    with pytest.raises(DiskFullError, match="KEEP_EPOCHS"), open_context(settings):
        pass
    with open_context(settings, keep_epochs=1) as context:
        assert committed_epochs(context.store, Stage.ROLLOUTS)
        assert not context.store.exists(keys.checkpoint(0, "state.json"))


COMMANDS = {
    "report": 0,
    "verify --repair": ExitCode.BAD_DATA,  # the play of the tests has no checkpoint
    "evaluate --budget 2": 0,
    "video --output {disk}/a/film.gif": 0,
}
"""and how each ends once there is room"""


def ask(command, disk, **more):
    words = command.format(disk=disk.root).split()
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "questloop", *words],
        env=os.environ
        | {"PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))}
        | {"STORE_URL": str(disk.root / "store"), "LOW_WATER_MB": "0", "FRAME_SKIP": "4"},
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        cwd=disk.root.parent,
        **({"stdout": subprocess.PIPE} | more),
    )


def in_one_line(done, code):
    errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert done.returncode == code, done.stderr[-2000:]
    assert len(errors) == 1
    assert errors == done.stderr.splitlines()[-1:]
    return errors[0]


@pytest.fixture
def run(disk):
    """The disk, with a store on it that has an epoch."""
    settings = load(flags={"store_url": str(disk.root / "store"), "low_water_mb": "0", "frame_skip": "4"})
    with open_context(settings) as context:
        play(context.store, slots=1, steps=300, info=INFO)
    return disk


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_on_a_full_disk_ends_in_one_line_and_goes_on(run, command):
    run.fill()
    before = files(run.root)
    said = in_one_line(ask(command, run), ExitCode.DISK_FULL)
    assert "No space left on device; free space" in said
    assert f"{run.root}" in said
    assert files(run.root) == before
    run.make_room()
    assert ask(command, run).returncode == COMMANDS[command]


def test_output_that_goes_to_a_full_disk_is_told(run):
    run.fill()
    with open(run.root / "said.json", "w") as said:
        assert "No space left" in in_one_line(ask("verify --json", run, stdout=said), ExitCode.DISK_FULL)


def test_a_file_outside_of_the_store_is_whole_or_as_it_was(disk):
    film = disk.root / "new" / "film.gif"
    write_file(film, b"old")
    disk.fill()
    with pytest.raises(DiskFullError, match=f"cannot write {film}: No space"):
        write_file(film, b"x" * 9000)
    assert files(disk.root) == {film: b"old"}
    disk.make_room()
    disk.remount("ro")
    with pytest.raises(UsageError, match="Read-only file system; name a place"):
        write_file(film, b"new")
