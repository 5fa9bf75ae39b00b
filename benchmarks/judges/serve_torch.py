"""Serves a trained judge on a GPU, for experiments of many runs; `judge serve` does so with llama.cpp.

    python benchmarks/judges/serve_torch.py --model SMOLLM2 --adapter build/judges/runs/seed_0/warm_start

What was answered is kept: the same question costs nothing. Endpoint: http://127.0.0.1:8100/v1, model
`smollm2-judge`.
"""

from __future__ import annotations

import argparse
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from train import Asked

from questloop.grpo.judge_data import LABELS, Task, prompt
from questloop.grpo.language_judge import LanguageJudge
from questloop.serving.server import LocalServer
from questloop.serving.trained_judge import MODEL, TrainedJudge


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--model", type=Path, required=True, help="folder of the model before training")
    parser.add_argument("--adapter", type=Path, required=True, help="folder of the trained adapter")
    parser.add_argument("--port", type=int, default=8100)
    arguments = parser.parse_args()
    with (
        Asked(arguments.model, arguments.adapter) as judge,
        LocalServer({MODEL: TorchJudge(judge)}, port=arguments.port) as server,
    ):
        print(f"serving {MODEL} at {server.url}", flush=True)
        threading.Event().wait()


class TorchJudge(TrainedJudge):
    """The trained judge, who asks a model in this process."""

    def __init__(self, judge: LanguageJudge) -> None:
        self._judge = judge
        self._busy = threading.Lock()
        self._said: dict[tuple[str, ...], Sequence[Mapping[str, Any]]] = {}

    def close(self) -> None:
        """Nothing is open."""

    def _likely(self, task: Task, *texts: str) -> Sequence[Mapping[str, Any]]:
        labels = LABELS[task]
        with self._busy:
            if (known := self._said.get((task, *texts))) is not None:
                return known
            p, _ = self._judge.probabilities([prompt(task, *texts)], labels)
            logs = np.log(np.maximum(p[0], 1e-12))
            said = [{"token": label, "logprob": float(log)} for label, log in zip(labels, logs, strict=True)]
            self._said[task, *texts] = said
        return said


if __name__ == "__main__":
    main()
