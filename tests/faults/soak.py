"""The epochs of a long run, small ones, in one process: does anything grow that should not?

    python -m tests.faults.soak --epochs 144

144 epochs are six hours at 300,000 steps an epoch and 2,000 steps a second. Every epoch has all stages, with
KEEP_EPOCHS=3. After each, the process's memory, file handles and threads are read, Python's objects and the
store's are counted and what was printed is measured. The last line is JSON.

What the process keeps shows in Python's objects and in the bytes that malloc has handed out; the resident
memory also holds what malloc keeps for later.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import os
import statistics
import sys
import tempfile
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
warnings.filterwarnings("ignore")

from questloop.pipeline import loop  # noqa: E402
from questloop.storage import keys  # noqa: E402
from questloop.storage.store import open_store  # noqa: E402

from .fake import record  # noqa: E402
from .pipeline import Fake, Process, unfinished  # noqa: E402

KEEP = 3
TIMEOUT_S = 3600.0


@dataclass(frozen=True)
class Sample:
    """A process and its store at the end of an epoch."""

    rss_mb: float
    heap_mb: float  # handed out by malloc
    python_blocks: int  # handed out by Python's own allocator
    python_objects: int  # those that can hold others
    handles: int
    threads: int
    episode_objects: int  # of episodes and checkpoints, which retention removes
    kept_objects: int  # scores, models, commits, journals: a few an epoch for ever
    log_bytes: int

    @classmethod
    def take(cls, url: str) -> Sample:
        gc.collect()
        status = dict(
            line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":" in line
        )
        names = [entry.key for entry in open_store(url).list()]
        gone = [
            name
            for name in names
            if name.startswith((f"{keys.EPISODES}/mossgrove", f"{keys.MODELS}/checkpoints"))
        ]
        return cls(
            rss_mb=int(status["VmRSS"].split()[0]) / 1024,
            heap_mb=_heap_mb(),
            python_blocks=sys.getallocatedblocks(),
            python_objects=len(gc.get_objects()),
            handles=len(os.listdir("/proc/self/fd")),
            threads=int(status["Threads"]),
            episode_objects=len(gone),
            kept_objects=len(names) - len(gone),
            log_bytes=os.fstat(2).st_size,
        )


class _Mallinfo(ctypes.Structure):
    """glibc's `struct mallinfo2`."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    ]


def _heap_mb() -> float:
    library = ctypes.CDLL(None)
    library.mallinfo2.restype = _Mallinfo
    info = library.mallinfo2()
    return (info.uordblks + info.hblkhd) / 2**20


def soak(folder: Path, epochs: int) -> list[Sample]:
    """Run so many epochs; a sample after each. The finished store must be whole."""
    fake = Fake(folder, record(folder / "tape.npz"), epochs, {"keep_epochs": KEEP, "epoch_steps": 256})
    url, samples = str(folder / "store"), folder / "samples.jsonl"

    def prepare() -> None:
        real = loop.retire_epochs

        def retire_epochs(store: object, keep: int) -> tuple[int, ...]:
            gone = real(store, keep)  # type: ignore[arg-type]
            with samples.open("a") as file:
                print(json.dumps(Sample.take(url).__dict__), file=file)
            return gone

        loop.retire_epochs = retire_epochs

    process: Process = fake.start(url, prepare)
    code = process.wait(TIMEOUT_S)
    assert code == 0, process.said()
    wrong = unfinished(open_store(url))
    assert not wrong, wrong
    return [Sample(**json.loads(line)) for line in samples.read_text().splitlines()]


def growth(samples: Sequence[Sample]) -> dict[str, tuple[float, float]]:
    """Medians of each figure over the second and the last quarter of the epochs."""
    quarter = len(samples) // 4
    early, late = samples[quarter : 2 * quarter], samples[-quarter:]
    return {
        name: (
            statistics.median(getattr(each, name) for each in early),
            statistics.median(getattr(each, name) for each in late),
        )
        for name in Sample.__dataclass_fields__
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=144)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="questloop-soak-") as folder:
        samples = soak(Path(folder), options.epochs)
    grown = growth(samples)
    print("| figure | second quarter | last quarter |\n|---|---|---|")
    for name, (early, late) in grown.items():
        print(f"| {name} | {early:,.1f} | {late:,.1f} |")
    per_epoch = (samples[-1].kept_objects - samples[KEEP].kept_objects) / (len(samples) - 1 - KEEP)
    log = (samples[-1].log_bytes - samples[0].log_bytes) / (len(samples) - 1)
    result = {"epochs": len(samples), "kept_objects_an_epoch": per_epoch, "log_bytes_an_epoch": log}
    print(json.dumps(result | {"second_and_last_quarter": grown}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
