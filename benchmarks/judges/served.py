"""Step 4: the held-out pairs, asked of a judge as it is served: by llama.cpp, quantised, with its adapter.

    python benchmarks/judges/served.py --data build/judges --run build/judges/runs/seed_0 --pairs 150

prints its agreement with the outcomes beside that of the model on the GPU, and how far their answers differ.
"""

from __future__ import annotations

import argparse
import json
from contextlib import closing
from pathlib import Path

import numpy as np
from common import HELD_OUT_PAIRS, pairs_of, read_segments

from questloop.judges.pairwise import SEPARATOR
from questloop.serving.local_llm import MODEL, LocalLLM
from questloop.serving.protocol import ChatRequest
from questloop.serving.trained_judge import ADAPTER, TrainedJudge


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("build/judges"))
    parser.add_argument("--run", type=Path, required=True, help="folder of train.py with judge.json")
    parser.add_argument("--adapter", type=Path, default=ADAPTER)
    parser.add_argument("--pairs", type=int, default=150)
    parser.add_argument("--threads", type=int)
    arguments = parser.parse_args()
    pairs = pairs_of(read_segments(arguments.data / "held_out"), HELD_OUT_PAIRS)[: arguments.pairs]
    run = json.loads((arguments.run / "judge.json").read_text("utf-8"))
    if run["pairs"][: len(pairs)] != [[better.segment_id, worse.segment_id] for better, worse in pairs]:
        raise SystemExit(f"{arguments.run} was measured by other pairs")
    said = run["said"].get("after", run["said"]["warm_start"])
    gpu = np.array(said["preferences"][: len(pairs)])
    with (
        LocalLLM(slots=1, threads=arguments.threads, adapter=arguments.adapter) as llm,
        closing(TrainedJudge(llm.url, MODEL)) as judge,
    ):
        served = np.array([preference(judge, better.text, worse.text) for better, worse in pairs])
    print(f"{len(pairs)} pairs: served {(served > 0.5).mean():.3f}, on the GPU {(gpu > 0.5).mean():.3f}")
    apart = np.abs(served - gpu)
    print(f"apart: {apart.mean():.3f} on average, {apart.max():.3f} at most")


def preference(judge: TrainedJudge, better: str, worse: str) -> float:
    """The probability that the first went further, over both orders."""
    return (_asked(judge, better, worse) + 1 - _asked(judge, worse, better)) / 2


def _asked(judge: TrainedJudge, first: str, second: str) -> float:
    text = f"A:\n{first}\n{SEPARATOR}{second}"
    message = {"role": "user", "content": text}
    return float(judge(ChatRequest.model_validate({"model": MODEL, "messages": [message]}))["overall"])


if __name__ == "__main__":
    main()
