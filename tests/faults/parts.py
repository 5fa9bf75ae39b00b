"""The parts of the fault suite, and running them side by side."""

from __future__ import annotations

import multiprocessing
import random
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tests.services import s3_server

from . import mossgrove, others, stores, writers
from .fake import record
from .kills import kill_campaign, kill_campaign_on_s3
from .pipeline import EPOCHS, Fake, Tally

LANES = (
    ("kills", "s3", "disk", "judges", "nan"),
    ("game", "files", "digits", "writers", "clocks", "others", "kills-s3"),
)
"""Run side by side, a process each."""
PARTS = tuple(part for lane in LANES for part in lane)


def run(seed: int, points: int, parts: tuple[str, ...], folder: Path) -> list[Tally]:
    """The faults of these parts; `points` kills."""
    warnings.filterwarnings("ignore")
    fake = Fake(folder, record(folder / "tape.npz"))
    reference = folder / "reference"
    fake.preload(str(reference))
    small = points < 100
    todo: dict[str, Callable[[random.Random], list[Tally]]] = {
        "kills": lambda rng: kill_campaign(fake, reference, points, seed),
        "disk": lambda rng: stores.faults_on_disk(fake, reference, 2 if small else 8, rng),
        "files": lambda rng: stores.partial_files(fake, reference, _longer(fake), rng, 6 if small else 99),
        "digits": lambda rng: stores.changed_digits(fake, reference, _longer(fake), rng, 6 if small else 99),
        "others": lambda rng: others.faults_of_others(fake, reference, rng, 6 if small else 99),
        "kills-s3": lambda rng: _kills_on_s3(fake, reference, points, rng),
        "clocks": lambda rng: writers.jumping_clocks(fake, reference, rng),
        "writers": lambda rng: writers.two_writers(fake, reference),
        "judges": lambda rng: writers.faults_of_judges(fake, rng),
        "nan": lambda rng: writers.nan_weights(fake, reference),
        "s3": lambda rng: _on_s3(fake, reference, rng),
        "game": lambda rng: mossgrove.faults(folder, rng, kills=1 if small else 6),
    }
    tallies = []
    for part in parts:
        began = time.monotonic()
        found = todo[part](random.Random(f"{seed} {part}"))
        seconds = time.monotonic() - began
        print(f"{part}: {seconds:.0f} s", *(each.to_json() for each in found), sep="\n  ", file=sys.stderr)
        tallies += found
    return tallies


def _longer(fake: Fake) -> Path:
    path = fake.folder / "longer"
    if path.exists():
        return path
    code, said = Fake(fake.folder, fake.tape, EPOCHS + 1).run(str(path))
    assert code == 0, said
    return path


def _on_s3(fake: Fake, reference: Path, rng: random.Random) -> list[Tally]:
    folder = fake.folder / "s3"
    folder.mkdir()
    with s3_server(folder) as server:
        return stores.faults_on_s3(fake, server, reference, rng)


def _kills_on_s3(fake: Fake, reference: Path, points: int, rng: random.Random) -> list[Tally]:
    folder = fake.folder / "s3-killed"
    folder.mkdir()
    with s3_server(folder) as server:
        return kill_campaign_on_s3(fake, server, reference, points, rng)


def side_by_side(seed: int, points: int, parts: list[str]) -> list[Tally]:
    """The faults of these parts, a process a lane."""
    lanes = [wanted for lane in LANES if (wanted := tuple(part for part in lane if part in parts))]
    with (
        tempfile.TemporaryDirectory(prefix="questloop-faults-") as folder,
        ProcessPoolExecutor(len(lanes), multiprocessing.get_context("spawn")) as pool,
    ):
        running = []
        for number, lane in enumerate(lanes):
            (own := Path(folder) / str(number)).mkdir()
            running.append(pool.submit(run, seed, points, lane, own))
        return [tally for lane in running for tally in lane.result()]
