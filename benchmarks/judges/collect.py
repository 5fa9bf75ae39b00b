"""Step 1: judged segments and their observations out of a store.

    python benchmarks/judges/collect.py --store runs/store --out build/judges

writes `segments.jsonl` (id, episode, summary, outcome, progress) and `observations.npz` (f32[N, 256]: mean
and last observation of each segment, in the same order).
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from pathlib import Path

import numpy as np

from questloop.episodes.reader import SegmentReader
from questloop.pipeline.outcome_segments import TOKEN_BUDGET, outcome_segments
from questloop.settings import StoreSettings
from questloop.storage.commit import committed_epochs
from questloop.storage.keys import Stage
from questloop.storage.store import open_store


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--store", nargs="+", required=True, help="one store or several")
    parser.add_argument("--out", type=Path, default=Path("build/judges"))
    parser.add_argument("--token-budget", type=int, default=TOKEN_BUDGET)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    lines, features = [], []
    for url in arguments.store:
        store = open_store(StoreSettings(store_url=url))
        reader = SegmentReader(store)
        for segment in outcome_segments(
            reader, committed_epochs(store, Stage.ROLLOUTS), arguments.token_budget
        ):
            observations = reader.load(segment.segment_id).observations
            features.append(np.concatenate([observations.mean(axis=0), observations[-1]]))
            lines.append(json.dumps(dataclasses.asdict(segment)) + "\n")
    (arguments.out / "segments.jsonl").write_text("".join(lines), "utf-8")
    np.savez_compressed(arguments.out / "observations.npz", features=np.array(features, dtype=np.float32))
    followed = sum(json.loads(line)["outcome"] for line in lines)
    print(f"{len(lines)} segments, {followed} followed by a milestone, in {arguments.out}")


if __name__ == "__main__":
    main()
