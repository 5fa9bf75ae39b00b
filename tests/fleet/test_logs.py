"""Copies of jobs' logs: large ones, full disks, and what reaches a terminal."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from questloop.cli.fleet_common import plain
from questloop.cli.fleet_output import _show
from questloop.fleet import jobs, logs
from questloop.fleet.explain import explain
from questloop.fleet.logs import JobLog
from questloop.fleet.states import JobStatus

from .helpers import submit
from .test_dispatcher import running_fleet


@pytest.fixture
def log(tmp_path):
    return JobLog(tmp_path / "logs", "j")


def test_positions_go_on_after_what_was_left_out(log):
    assert log.append(1, 0, b"a" * 100, "m")
    assert log.position(1) == 100
    assert log.leave_out(1, 100, 1000, "m")
    assert log.position(1) == 1000
    assert log.append(1, 1000, b"end", "m")
    assert log.position(1) == 1003
    assert log.append(2, 0, b"again", "m2")
    text = log.path.read_text()
    assert text == (
        "=== attempt 1 on m ===\n" + "a" * 100 + "\n=== 900 bytes left out; the whole log lies on m ===\nend"
        "=== attempt 2 on m2 ===\nagain"
    )
    assert not log.append(1, 1003, b"late", "m")


def test_an_index_of_the_version_before_is_read(log):
    log.append(1, 0, b"abc", "m")
    log._index.write_text(json.dumps({"1": len("=== attempt 1 on m ===\n")}))
    assert log.position(1) == 3
    assert log.append(1, 3, b"d", "m")
    assert log.path.read_text().endswith("abcd")


def test_logs_are_their_owner_s(log):
    log.append(1, 0, b"abc", "m")
    assert [path.stat().st_mode & 0o077 for path in log.path.parent.iterdir()] == [0, 0, 0]
    assert log.path.parent.stat().st_mode & 0o077 == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="a small file system is mounted by root")
def test_a_full_disk_keeps_what_fits_and_is_marked(tmp_path):
    folder = tmp_path / "full"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(folder)]).returncode:
        pytest.skip("no mounts here")
    try:
        log = JobLog(folder, "j")
        with pytest.raises(OSError, match="No space"):
            log.append(1, 0, b"y" * 200_000, "m")
        assert 0 < log.position(1) < 65_536
        log.mark_missing("No space left on device")
        assert log.path.read_text().endswith(
            "the rest of the log is missing here: No space left on device ===\n"
        )
        other = JobLog(folder, "k")
        with pytest.raises(OSError, match="No space"):
            other.append(1, 0, b"y", "m")
        assert other.position(1) == 0
    finally:
        subprocess.run(["umount", str(folder)], check=True)


@pytest.fixture
async def fleet(sqlite_db, tmp_path):
    async with running_fleet(sqlite_db, tmp_path) as fleet:
        yield fleet


async def settle(dispatcher):
    import asyncio

    while dispatcher.supervisor.logs.tasks:
        await asyncio.gather(*dispatcher.supervisor.logs.tasks)


@pytest.mark.parametrize("fault", [errno.ENOSPC, errno.EACCES, errno.EROFS, errno.EIO])
async def test_no_job_waits_for_its_log(fleet, monkeypatch, fault):
    def refuse(*arguments):
        raise OSError(fault, os.strerror(fault))

    dispatcher = fleet.dispatcher()
    running = await fleet.launched(dispatcher, arguments=["sh", "-c", "echo out; sleep 600"])
    monkeypatch.setattr(JobLog, "append", refuse)
    ended = submit(fleet.db, arguments=["sh", "-c", "echo out; exit 0"])
    await fleet.until(ended, JobStatus.COMPLETED, dispatcher=dispatcher)
    jobs.cancel(fleet.db, running.job_id)
    await fleet.until(running.job_id, JobStatus.CANCELLED, dispatcher=dispatcher)
    await settle(dispatcher)
    for job_id in (ended, running.job_id):
        assert os.strerror(fault) in " ".join(explain(fleet.db, job_id, fleet.settings))
    assert not fleet.processes()


async def test_the_reason_is_read_on_the_machine_and_not_from_the_copy(fleet, monkeypatch):
    from questloop.fleet.states import FailureReason

    monkeypatch.setattr(JobLog, "append", lambda *_: False)
    dispatcher = fleet.dispatcher()
    script = "echo 'torch.OutOfMemoryError: CUDA out of memory.'; exit 1"
    job = await fleet.until(
        submit(fleet.db, arguments=["sh", "-c", script]), JobStatus.FAILED, dispatcher=dispatcher
    )
    assert job.failure_reason is FailureReason.OUT_OF_GPU_MEMORY


async def test_a_log_without_end_is_kept_to_a_cap(fleet, monkeypatch):
    from questloop.fleet import log_copies

    for module in (logs, log_copies):
        monkeypatch.setattr(module, "CAP", 1 << 20)
        monkeypatch.setattr(module, "TAIL", 1 << 16)
    dispatcher = fleet.dispatcher()
    script = "head -c 30000000 /dev/zero | tr '\\0' y; echo; echo the end"
    job_id = submit(fleet.db, arguments=["sh", "-c", script])
    await fleet.until(job_id, JobStatus.COMPLETED, dispatcher=dispatcher)
    await settle(dispatcher)
    path = fleet.folder / "logs" / f"{job_id}.log"
    assert path.stat().st_size < 3 << 20
    text = path.read_text()
    assert "bytes left out; the whole log lies on m0" in text
    assert text.endswith("the end\n")


def test_a_terminal_is_sent_no_control_codes(tmp_path, capsys):
    path = tmp_path / "log"
    path.write_bytes(b"\x1b[31mred\x1b]0;title\x07\x9b\r\n10%\r20%\n\x00 caf\xc3\xa9\t\x7f")
    assert _show(path, 0) == path.stat().st_size
    shown = capsys.readouterr().out
    assert shown == "␛[31mred␛]0;title␇\ufffd\n10%\n20%\n␀ café\t␡"
    assert plain("a\nb\x1b") == "a␊b␛"


@pytest.mark.slow
def test_a_large_log_is_shown_in_bounded_memory(tmp_path):
    """In a process of its own, whose largest memory is looked at."""
    path = tmp_path / "log"
    with path.open("wb") as file:
        file.truncate(256 << 20)
    code = (
        "import resource, sys; from pathlib import Path; from questloop.cli.fleet_output import _show;"
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss; before = peak();"
        "_show(Path(sys.argv[1]), 0); print(peak() - before, file=sys.stderr)"
    )
    source = str(Path(__file__).parents[2] / "src")
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)],
        env={**os.environ, "PYTHONPATH": source},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stderr) < 32 << 10, "kilobytes"
