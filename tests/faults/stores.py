"""The store in trouble: S3 behind a proxy that fails, a disk that is full, files that were damaged."""

from __future__ import annotations

import errno
import os
import random
import shutil
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from tests.services import S3Server
from tests.storage.faulty_proxy import FaultyProxy

from questloop.episodes.exporter import Exporter
from questloop.episodes.reader import SegmentReader
from questloop.episodes.run import read_run
from questloop.exit_codes import ExitCode
from questloop.pipeline.audit import audit_run, rewind
from questloop.pipeline.notes import mend
from questloop.storage import folder, keys, s3, s3_client
from questloop.storage.keys import Stage
from questloop.storage.lease import Lease
from questloop.storage.store import open_store

from .pipeline import EPOCHS, Fake, Tally, finished, forked, unfinished

Fault = int | str | None
_SHARE = 0.08  # of requests that fail
_MANY = 20_000  # requests, more than a run makes
PASSING: list[Fault] = [500, 503, "reset", "lost reply", "slow"]
LASTING: list[Fault] = [403, 500, "reset"]


def impatient() -> None:
    """Give up on a store or a judge after a second, in this process."""
    brief = {"max_retries": 2, "retry_timeout": timedelta(seconds=1)}
    s3_client.PATIENT |= brief | {"backoff": {"init_backoff": timedelta(seconds=0.05)}}
    s3._REPEAT_WITHIN_S = 1.0
    Exporter.__init__.__kwdefaults__["patience_s"] = 1.0


@contextmanager
def proxied(upstream: str, faults: list[Fault]) -> Iterator[str]:
    """The URL of a proxy that gives each request the next of `faults`."""
    proxy = FaultyProxy(upstream)
    proxy.faults = deque(faults)
    with forked(proxy.server.serve_forever):
        proxy.server.server_close()
        yield proxy.endpoint


def faults_on_s3(fake: Fake, server: S3Server, reference: Path, rng: random.Random) -> list[Tally]:
    """Requests that fail now and then are ridden out; a store that stays away stops the run only."""
    there = open_store(str(reference))
    tallies = []
    for fault in PASSING:
        tally = Tally(f"store: {_name(fault)}, {_SHARE:.0%} of requests", injected=1)
        url = f"s3://one/passing-{str(fault).replace(' ', '-')}"
        schedule: list[Fault] = [fault if rng.random() < _SHARE else None for _ in range(_MANY)]
        with proxied(server.endpoint, [None, None, *schedule]) as endpoint:
            code, said = fake.run(url, **_s3(server, endpoint))
        wrong = f"ended with {code}: {said}" if code else finished(open_store(server.settings(url)), there)
        tally.check(not wrong, f"{url}: {wrong}")
        tallies.append(tally)
    for fault in LASTING:
        tally = Tally(f"store: {_name(fault)} until the next start")
        url = f"s3://one/lasting-{fault}"
        for first in sorted(rng.sample(range(5, 400), 3)):
            with proxied(server.endpoint, [None] * first + [fault] * _MANY) as endpoint:
                code, said = fake.run(url, impatient, **_s3(server, endpoint))
            if code == 0:
                break
            tally.injected += 1
            tally.check(code == ExitCode.UNAVAILABLE, f"{url}: ended with {code}: {said}")
            wrong = unfinished(open_store(server.settings(url)))
            tally.check(not wrong, f"{url}: {wrong}")
        code, said = fake.run(url, **_s3(server, server.endpoint))
        wrong = f"ended with {code}: {said}" if code else finished(open_store(server.settings(url)), there)
        tally.check(not wrong, f"{url}: {wrong}")
        tallies.append(tally)
    return tallies


def _s3(server: S3Server, endpoint: str) -> dict[str, Any]:
    return {
        "s3_endpoint_url": endpoint,
        "s3_access_key": server.access_key,
        "s3_secret_key": server.secret_key,
    }


def _name(fault: Fault) -> str:
    return "expired credentials (403)" if fault == 403 else str(fault)


# A disk that is full


def faults_on_disk(fake: Fake, reference: Path, points: int, rng: random.Random) -> list[Tally]:
    """The disk fills at a random write, or comes below LOW_WATER_MB; there is room at the next start."""
    full = Tally("disk full in the middle of a file")
    low = Tally("disk below LOW_WATER_MB")
    there = open_store(str(reference))
    url = str(fake.folder / "full")
    for tally, prepare in ((full, _full_from), (low, _low_from)):
        for number in range(points):
            code, said = fake.run(url, partial(prepare, 1 + rng.randrange(90 if tally is full else 12)))
            if code == 0:
                url = str(fake.folder / f"full-{tally is full}-{number}")
                continue
            tally.injected += 1
            tally.check(code == ExitCode.DISK_FULL, f"ended with {code}: {said}")
            wrong = unfinished(open_store(url))
            tally.check(not wrong, wrong)
    code, said = fake.run(url)
    wrong = f"ended with {code}: {said}" if code else finished(open_store(url), there)
    full.check(not wrong, wrong)
    return [full, low]


def _full_from(number: int) -> None:
    """From the `number`-th file on, half a file fits."""
    real, written = folder._write, 0

    def write(path: Path, data: bytes, durable: bool) -> None:
        nonlocal written
        written += 1
        if written < number:
            real(path, data, durable)
            return
        real(path, data[: len(data) // 2], durable)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    folder._write = write


def _low_from(number: int) -> None:
    """From the `number`-th look on, a megabyte is left, and LOW_WATER_MB is two."""
    real_usage, real_init, looks = shutil.disk_usage, folder.FolderStore.__init__, 0

    def disk_usage(path: Any) -> Any:
        nonlocal looks
        looks += 1
        usage = real_usage(path)
        return usage if looks < number else usage._replace(free=2**20)

    def init(self: Any, root: Path, low_water_mb: int) -> None:
        real_init(self, root, 2)

    shutil.disk_usage = disk_usage  # type: ignore[assignment]
    folder.FolderStore.__init__ = init  # type: ignore[method-assign]


# Files that were damaged


class Damaged(NamedTuple):
    """An object of a finished run; `audited`: the auditor must name it."""

    what: str
    key: str
    audited: bool


def objects_of(store_url: str) -> list[Damaged]:
    """One object of every kind that a finished run leaves."""
    store = open_store(store_url)
    last = EPOCHS - 1
    segment = SegmentReader(store).list(last)[0]
    judgement = next(entry.key for entry in store.list(keys.judgements_prefix(last)))
    return [
        Damaged("manifest", keys.manifest(segment), True),
        Damaged("states.jsonl", keys.segment_file(segment, "states.jsonl"), True),
        Damaged("observations.npz", keys.segment_file(segment, "observations.npz"), True),
        Damaged("picture", keys.segment_file(segment, keys.frame_name(0)), True),
        Damaged("episode.json", keys.episode_record(segment.rsplit("-", 2)[0]), True),
        Damaged("scores.jsonl", keys.scores(last), True),
        Damaged("summary.json", keys.evaluation(last), True),
        Damaged("rm.pt", keys.reward_model(last), True),
        Damaged("policy.safetensors", keys.checkpoint(last, "policy.safetensors"), True),
        Damaged("optimizer.safetensors", keys.checkpoint(last, "optimizer.safetensors"), True),
        Damaged("slots.safetensors", keys.checkpoint(last, "slots.safetensors"), True),
        Damaged("state.json", keys.checkpoint(last, "state.json"), True),
        Damaged("commit-rollouts.json", keys.commit(last, Stage.ROLLOUTS), True),
        Damaged("commit-reward_model.json", keys.commit(last, Stage.REWARD_MODEL), True),
        Damaged("run.json", keys.run(), True),
        Damaged("lease", keys.lease(1), True),
        Damaged("heartbeat", keys.lease_beat(1), True),
        Damaged("progress.json", keys.progress(), False),
        Damaged("pass.json", keys.judge_pass(last), True),
        Damaged("judgement", judgement, True),
    ]


def partial_files(fake: Fake, reference: Path, longer: Path, rng: random.Random, most: int) -> list[Tally]:
    """Objects of a finished run that are cut off: named by the auditor, and no run is built on one.

    Asked for another epoch, the run ends with one line that names the object, or does without it. After
    `verify --rewind`, or `--repair` of what no result hangs on, it ends as the undisturbed one (`longer`).
    """
    return _damaged("an object cut off", _cut, fake, reference, longer, rng, most)


def changed_digits(fake: Fake, reference: Path, longer: Path, rng: random.Random, most: int) -> list[Tally]:
    """The same for one digit of an object that was changed, by whatever writes past the store."""
    return _damaged("an object with a changed digit", _change, fake, reference, longer, rng, most)


def _cut(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(len(data))]


def _change(data: bytes, rng: random.Random) -> bytes:
    """One digit more or less; a byte where there is none."""
    digits = [place for place, byte in enumerate(data) if byte in b"0123456789"]
    at = rng.choice(digits or range(len(data)))
    other = rng.choice([byte for byte in b"0123456789" if byte != data[at]])
    return data[:at] + bytes([other]) + data[at + 1 :]


def _damaged(
    name: str,
    spoil: Callable[[bytes, random.Random], bytes],
    fake: Fake,
    reference: Path,
    longer: Path,
    rng: random.Random,
    most: int,
) -> list[Tally]:
    tally = Tally(name)
    following = Fake(fake.folder, fake.tape, EPOCHS + 1, fake.settings)
    there = open_store(str(longer))
    chosen = objects_of(str(reference))
    for damaged in rng.sample(chosen, min(most, len(chosen))):
        path = fake.folder / f"{spoil.__name__.strip('_')}-{damaged.what}"
        shutil.copytree(reference, path)
        data = (path / damaged.key).read_bytes()
        (path / damaged.key).write_bytes(spoil(data, rng))
        tally.injected += 1
        store = open_store(str(path))
        found = audit_run(store)
        named = any(damaged.key in item.key for item in found.findings)
        if damaged.audited and (found.ok or not named):
            tally.check(False, f"{damaged.what}: the auditor does not name it")
            continue
        code, said = following.run(str(path))
        told = code == 0 or (code == ExitCode.BAD_DATA and damaged.key.split("/")[-2] in said)
        tally.check(told, f"{damaged.what}: ended with {code}: {said}")
        if (epoch := found.first_harmed) is not None:
            with Lease.acquire(store, read_run(store).run) as lease:
                rewind(store, epoch, lease)
            code, said = following.run(str(path))
            wrong = f"rewound, it ended with {code}: {said}" if code else ""
            wrong = wrong or finished(store, there, EPOCHS + 1)
            tally.check(not wrong, f"{damaged.what}: {wrong}")
        elif code == 0:
            if found.spoilt:
                with Lease.acquire(store, read_run(store).run):
                    mend(store, audit_run(store))
            wrong = finished(store, there, EPOCHS + 1, found.spoilt)
            tally.check(not wrong, f"{damaged.what}: {wrong}")
    return [tally]
