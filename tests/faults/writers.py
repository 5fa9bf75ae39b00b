"""Clocks that jump, two pipelines on one store, judges that are away, weights that are NaN."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable
from datetime import datetime as real_datetime
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import torch

from questloop.episodes import retention, run
from questloop.exit_codes import ExitCode
from questloop.serving.server import LocalServer
from questloop.storage import commit, keys, lease
from questloop.storage.store import open_store
from questloop.telemetry import progress
from questloop.training import learner

from .pipeline import Fake, Process, Tally, finished, forked, unfinished
from .stores import Fault, impatient, proxied

_LEASE_S = 1.5
_HOUR_S = 3600.0


def jumping_clocks(fake: Fake, reference: Path, rng: random.Random) -> list[Tally]:
    """The wall clock jumps by hours while a run goes on: forth, back, and at every look."""
    tally = Tally("clock jumps")
    there = open_store(str(reference))
    for name, jumps in {
        "forth": [24 * _HOUR_S],
        "back": [-24 * _HOUR_S],
        "both": [-9e5, 9e5, -3e3, 3e7],
    }.items():
        url = str(fake.folder / f"clock-{name}")
        tally.injected += 1
        code, said = fake.run(url, partial(_jump, jumps, rng.randrange(1, 40)))
        wrong = f"ended with {code}: {said}" if code else finished(open_store(url), there)
        tally.check(not wrong, f"{name}: {wrong}")
    return [tally]


def _jump(jumps: list[float], first: int) -> None:
    """From the `first`-th look at the wall clock on, it is off by each of `jumps` in turn."""
    looks = 0
    real_time = time.time

    def shift() -> float:
        nonlocal looks
        looks += 1
        return jumps[(looks - first) % len(jumps)] if looks >= first else 0.0

    class Jumping(real_datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return real_datetime.now(tz) + timedelta(seconds=shift())

    time.time = lambda: real_time() + shift()
    for module in (retention, run, commit, lease, progress):
        module.datetime = Jumping  # type: ignore[attr-defined]


# Two writers


def two_writers(fake: Fake, reference: Path) -> list[Tally]:
    """A second pipeline is refused while the first lives; one that slept too long is fenced off."""
    there = open_store(str(reference))
    refused, late, slept = (
        Tally("a second pipeline on the store"),
        Tally("a pipeline that comes back after another took over"),
        Tally("a pipeline that sleeps for longer than its lease"),
    )
    url = str(fake.folder / "two")
    first = fake.start(url)
    _wait_for(Path(url) / keys.lease_beat(1), first)
    refused.injected += 1
    code, said = fake.run(url)
    refused.check(
        code == ExitCode.UNAVAILABLE and "another pipeline" in said, f"the second ended with {code}: {said}"
    )
    code = first.wait()
    wrong = f"the first ended with {code}: {first.said()}" if code else finished(open_store(url), there)
    refused.check(not wrong, wrong)

    url = str(fake.folder / "late")
    first = fake.start(url, _short_lease)
    _wait_for(Path(url) / keys.EPISODES, first)
    first.signal(signal.SIGSTOP)
    late.injected += 1
    code, said = fake.run(url, _another_host)
    late.check(code == 0, f"the second ended with {code}: {said}")
    first.signal(signal.SIGCONT)
    code = first.wait()
    late.check(code == ExitCode.PREEMPTED, f"the late one ended with {code}: {first.said()}")
    wrong = finished(open_store(url), there)
    late.check(not wrong, wrong)

    url = str(fake.folder / "slept")
    first = fake.start(url, _short_lease)
    _wait_for(Path(url) / keys.EPISODES, first)
    first.signal(signal.SIGSTOP)
    slept.injected += 1
    time.sleep(2 * _LEASE_S)
    first.signal(signal.SIGCONT)
    code = first.wait()
    wrong = f"ended with {code}: {first.said()}" if code else finished(open_store(url), there)
    slept.check(not wrong, wrong)
    return [refused, late, slept]


def _short_lease() -> None:
    lease.Lease.acquire.__func__.__kwdefaults__["lease_s"] = _LEASE_S  # type: ignore[attr-defined]


def _another_host() -> None:
    lease._host = lambda: "another host"


def _wait_for(path: Path, process: Process) -> None:
    deadline = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} never came: {process.said()}"
        time.sleep(0.005)


# Judges that are away


def faults_of_judges(fake: Fake, rng: random.Random) -> list[Tally]:
    """Requests to judges that fail now and then, and judges that stay away until the next start."""
    passing = Tally("judges: 500, 503, reset, lost reply, slow, 5% of requests")
    away = Tally("judges away until the next start")
    address = fake.folder / "judges"

    def serve() -> None:
        with LocalServer() as server:
            address.with_suffix(".new").write_text(server.url)
            address.with_suffix(".new").rename(address)
            signal.pause()

    asked: dict[str, Any] = {
        "llm_backend": "endpoint",
        "llm_timeout_s": 10,
        "llm_concurrency": 2,
        "llm_model_state": "rule-based-state",
        "llm_model_puzzle": "rule-based-puzzle",
        "llm_model_vision": "rule-based-vision",
    }
    with forked(serve):
        deadline = time.monotonic() + 60
        while not address.exists():
            assert time.monotonic() < deadline, "the judges' server did not start"
            time.sleep(0.01)
        upstream = address.read_text()
        plain = fake.folder / "judged"
        code, said = fake.run(str(plain), **asked, llm_endpoint=upstream)
        assert code == 0, said
        there = open_store(str(plain))
        kinds: list[Fault] = [500, 503, "reset", "lost reply", "slow"]
        schedule = [rng.choice(kinds) if rng.random() < 0.05 else None for _ in range(2000)]
        url = str(fake.folder / "judged-badly")
        passing.injected += 1
        with proxied(upstream, schedule) as endpoint:
            code, said = fake.run(url, **asked, llm_endpoint=f"{endpoint}/v1")
        wrong = f"ended with {code}: {said}" if code else finished(open_store(url), there)
        passing.check(not wrong, wrong)
        url = str(fake.folder / "not-judged")
        for first in (0, *sorted(rng.sample(range(1, 70), 3))):
            with proxied(upstream, [None] * first + ["reset"] * 5000) as endpoint:
                code, said = fake.run(url, impatient, **asked, llm_endpoint=f"{endpoint}/v1")
            if code == 0:
                break
            away.injected += 1
            away.check(code == ExitCode.UNAVAILABLE, f"ended with {code}: {said}")
            wrong = unfinished(open_store(url))
            away.check(not wrong, wrong)
        code, said = fake.run(url, **asked, llm_endpoint=upstream)
        wrong = f"ended with {code}: {said}" if code else finished(open_store(url), there)
        away.check(not wrong, wrong)
    return [passing, away]


# NaN weights


def nan_weights(fake: Fake, reference: Path) -> list[Tally]:
    """A weight becomes NaN after an update: nothing of it is committed, and the next start is well."""
    tally = Tally("NaN weights")
    for update in (1, 2, 3, 4):  # of two epochs of two updates
        url = str(fake.folder / f"nan-{update}")
        tally.injected += 1
        code, said = fake.run(url, partial(_nan_after, update))
        if code == 0:
            tally.check(False, f"NaN weights after update {update} were committed")
            continue
        tally.check(code == ExitCode.BAD_DATA, f"update {update}: ended with {code}: {said}")
        wrong = unfinished(open_store(url))
        tally.check(not wrong, wrong)
        code, said = fake.run(url)
        there = open_store(str(reference))
        wrong = f"ended with {code}: {said}" if code else finished(open_store(url), there)
        tally.check(not wrong, wrong)
    return [tally]


def _nan_after(update: int) -> None:
    real: Callable[..., Any] = learner.QuestLearner.update
    updates = 0

    def poisoned(self: Any, **kwargs: Any) -> Any:
        nonlocal updates
        result = real(self, **kwargs)
        updates += 1
        if updates == update:
            with torch.no_grad():
                next(self.network.policy.parameters()).view(-1)[0] = float("nan")
        return result

    learner.QuestLearner.update = poisoned  # type: ignore[method-assign]
