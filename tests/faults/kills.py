"""`kill -9` at random points of every stage, and the same command again."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from tests.services import S3Server

from questloop.storage import folder
from questloop.storage.commit import read_commit
from questloop.storage.keys import Stage
from questloop.storage.store import Store, open_store

from .pipeline import EPOCHS, Fake, Tally, finished, unfinished

_BY_TIME = 0.3  # of the kills come by the clock, the others at a write of the store


def kill_at(number: int) -> Callable[[], None]:
    """Have this process die at a point of a folder store's writes, the `number`-th one.

    Every object has four: before its file, with half of it written, whole but not in place, in place; a
    deletion has two. Files of heartbeats and progress count too.
    """

    def prepare() -> None:
        count = 0

        def point() -> None:
            nonlocal count
            count += 1
            if count == number:
                os.kill(os.getpid(), signal.SIGKILL)

        real_write, real_publish = folder._write, folder.FolderStore._publish
        real_unlink = Path.unlink

        def write(path: Path, data: bytes, durable: bool) -> None:
            point()
            if count + 1 == number:
                real_write(path, data[: len(data) // 2], durable)
            point()
            real_write(path, data, durable)

        def publish(self: Any, staged: Path, path: Path, create: bool) -> None:
            point()
            real_publish(self, staged, path, create)
            point()

        def unlink(self: Path, missing_ok: bool = False) -> None:
            point()
            real_unlink(self, missing_ok)

        folder._write = write
        folder.FolderStore._publish = publish  # type: ignore[method-assign]
        Path.unlink = unlink  # type: ignore[method-assign]

    return prepare


def points_of(fake: Fake, store: Path) -> list[int]:
    """How many such points each stage of an undisturbed run has, in order."""
    counts: list[int] = []
    at = fake.folder / "points"

    def prepare() -> None:
        real = folder.FolderStore._publish
        seen = 0

        def publish(self: Any, staged: Path, path: Path, create: bool) -> None:
            nonlocal seen
            real(self, staged, path, create)
            seen += 5
            if path.name.startswith("commit-"):
                with at.open("a") as file:
                    print(seen, file=file)

        folder.FolderStore._publish = publish  # type: ignore[method-assign]

    code, said = fake.run(str(store), prepare)
    assert code == 0, said
    before = 0
    for line in at.read_text().splitlines():
        counts.append(int(line) - before)
        before = int(line)
    assert len(counts) == EPOCHS * len(Stage)
    return counts


def kill_campaign(fake: Fake, reference: Path, points: int, seed: int) -> list[Tally]:
    """Kill pipelines until `points` kills are done, each store resumed until it is finished."""
    rng = random.Random(seed)
    counts = points_of(fake, fake.folder / f"counted-{seed}")
    tallies = {stage: Tally(f"kill -9 in {stage}") for stage in Stage}
    number = 0
    while sum(tally.injected for tally in tallies.values()) < points:
        url = str(fake.folder / f"killed-{seed}-{number}")
        chain = _Chain(fake, url, partial(open_store, url), rng, counts, tallies)
        chain.run(open_store(str(reference)), points - sum(tally.injected for tally in tallies.values()))
        number += 1
    return list(tallies.values())


def kill_campaign_on_s3(
    fake: Fake, server: S3Server, reference: Path, points: int, rng: random.Random
) -> list[Tally]:
    """The same on a real S3 server, where kills come by the clock alone."""
    tallies = {stage: Tally(f"kill -9 in {stage}, on S3") for stage in Stage}
    settings = server.settings().model_dump(exclude_unset=True, exclude={"store_url"})
    number = 0
    while sum(tally.injected for tally in tallies.values()) < points:
        url = f"s3://one/killed-{number}"
        chain = _Chain(
            fake, url, partial(open_store, server.settings(url)), rng, [1] * EPOCHS * len(Stage), tallies,
            by_time=1.0, settings=settings, longest_s=8.0,
        )  # fmt: skip
        chain.run(open_store(str(reference)), points - sum(tally.injected for tally in tallies.values()))
        number += 1
    return list(tallies.values())


class _Chain:
    """One store, killed and resumed until its run is finished."""

    def __init__(
        self,
        fake: Fake,
        url: str,
        find: Callable[[], Store],
        rng: random.Random,
        counts: list[int],
        tallies: dict[Stage, Tally],
        by_time: float = _BY_TIME,
        settings: dict[str, Any] | None = None,
        longest_s: float = 1.5,
    ) -> None:
        self._fake, self._url, self._find, self._rng = fake, url, find, rng
        self._counts, self._tallies, self._by_time = counts, tallies, by_time
        self._settings, self._longest_s = settings or {}, longest_s

    def run(self, reference: Store, most: int) -> None:
        killed: list[Stage] = []
        while len(killed) < most:
            at = self._stage()
            if at == len(self._counts):
                break
            code, said = self._launch(at)
            if code == 0:
                break
            died_in = list(Stage)[min(self._stage(), len(self._counts) - 1) % len(Stage)]
            tally = self._tallies[died_in]
            if code != -signal.SIGKILL:
                tally.injected += 1
                tally.check(False, f"{self._url}: a resumed run ended with {code}: {said}")
                return
            killed.append(died_in)
            tally.injected += 1
            wrong = unfinished(self._find())
            tally.check(not wrong, f"{self._url}: {wrong}")
        code, said = self._fake.run(self._url, **self._settings)
        wrong = f"ended with {code}: {said}" if code else finished(self._find(), reference)
        for stage in set(killed) if wrong else ():
            self._tallies[stage].check(False, f"{self._url}: {wrong}")

    def _launch(self, at: int) -> tuple[int, str]:
        """Start the command that continues the run and kill it in one of the next two stages."""
        target = min(at + self._rng.randrange(2), len(self._counts) - 1)
        if self._rng.random() < self._by_time:
            process = self._fake.start(self._url, **self._settings)
            _wait(process.pid, self._rng.uniform(0.05, self._longest_s))
            with contextlib.suppress(ProcessLookupError):
                process.signal(signal.SIGKILL)
        else:
            before = sum(self._counts[at:target])
            number = before + self._rng.randrange(1, self._counts[target] + 1)
            process = self._fake.start(self._url, kill_at(number), **self._settings)
        return process.wait(), process.said()

    def _stage(self) -> int:
        """The stage that is not committed, counted through all epochs."""
        store = self._find()
        places = [(epoch, stage) for epoch in range(EPOCHS) for stage in Stage]
        for place, (epoch, stage) in enumerate(places):
            if read_commit(store, epoch, stage) is None:
                return place
        return len(places)


def _wait(pid: int, seconds: float) -> None:
    """Sleep, or less where the process ends by itself; it stays to be waited for."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            return
        time.sleep(0.01)
