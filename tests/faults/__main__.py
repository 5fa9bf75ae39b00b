"""Take the quest loop and try to break it, and count what was lost.

    python -m tests.faults --seed 0 --points 200

Small pipelines on a fast fake environment, with the real stores, lease, exporter, judges, reward model and
checkpoints, and a few on the bundled game with Ray. After every fault the same command goes on, and the
auditor must find every step, segment, score and model of an undisturbed run, once. The faults follow from
the seed; where they strike depends on the machine's timing too. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
warnings.filterwarnings("ignore")

from tests.services import s3_server  # noqa: E402

from . import mossgrove, stores, writers  # noqa: E402
from .fake import record  # noqa: E402
from .kills import kill_campaign  # noqa: E402
from .pipeline import EPOCHS, Fake, Tally  # noqa: E402

PARTS = ("kills", "disk", "files", "clocks", "writers", "judges", "nan", "s3", "game")


def run(seed: int, points: int, parts: tuple[str, ...], folder: Path) -> list[Tally]:
    """The faults of these parts; `points` kills."""
    fake = Fake(folder, record(folder / "tape.npz"))
    reference = folder / "reference"
    fake.preload(str(reference))
    small = points < 100
    todo: dict[str, Callable[[random.Random], list[Tally]]] = {
        "kills": lambda rng: kill_campaign(fake, reference, points, seed),
        "disk": lambda rng: stores.faults_on_disk(fake, reference, 2 if small else 8, rng),
        "files": lambda rng: stores.partial_files(fake, reference, _longer(fake), rng, 6 if small else 99),
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
    code, said = Fake(fake.folder, fake.tape, EPOCHS + 1).run(str(path))
    assert code == 0, said
    return path


def _on_s3(fake: Fake, reference: Path, rng: random.Random) -> list[Tally]:
    folder = fake.folder / "s3"
    folder.mkdir()
    with s3_server(folder) as server:
        return stores.faults_on_s3(fake, server, reference, rng)


def table(tallies: list[Tally]) -> str:
    """A Markdown table of what was done."""
    rows = [
        f"| {each.fault} | {each.injected} | {each.survived} | {each.injected - each.survived} |"
        for each in tallies
    ]
    return "\n".join(["| fault | injected | survived | lost |", "|---|---|---|---|", *rows])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--points", type=int, default=200, help="kills")
    parser.add_argument("--parts", default=",".join(PARTS), help="of " + ", ".join(PARTS))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="questloop-faults-") as folder:
        tallies = run(options.seed, options.points, tuple(options.parts.split(",")), Path(folder))
    print(table(tallies))
    for tally in tallies:
        for line in tally.lost:
            print(f"LOST: {tally.fault}: {line}")
    injected, survived = (sum(getattr(each, name) for each in tallies) for name in ("injected", "survived"))
    print(json.dumps({"injected": injected, "survived": survived, "lost": injected - survived}))
    return int(injected != survived)


if __name__ == "__main__":
    sys.exit(main())
