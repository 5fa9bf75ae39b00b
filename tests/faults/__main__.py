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
import sys

os.environ.setdefault("OMP_NUM_THREADS", "1")

from .parts import PARTS, side_by_side
from .pipeline import Tally


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
    parts = options.parts.split(",")
    if unknown := set(parts) - set(PARTS):
        parser.error(f"--parts: {', '.join(sorted(unknown))} is none of {', '.join(PARTS)}")
    tallies = side_by_side(options.seed, options.points, parts)
    print(table(tallies))
    for tally in tallies:
        for line in tally.lost:
            print(f"LOST: {tally.fault}: {line}")
    injected, survived = (sum(getattr(each, name) for each in tallies) for name in ("injected", "survived"))
    print(json.dumps({"injected": injected, "survived": survived, "lost": injected - survived}))
    return int(injected != survived)


if __name__ == "__main__":
    sys.exit(main())
