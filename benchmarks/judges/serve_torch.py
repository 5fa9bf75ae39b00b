"""Serves a trained judge on a GPU, for experiments of many runs; `judge serve` does so with llama.cpp.

    python benchmarks/judges/serve_torch.py --model SMOLLM2 --adapter build/judges/runs/seed_0/warm_start

What was answered is kept: the same question costs nothing. Endpoint: http://127.0.0.1:8100/v1, model
`smollm2-judge`.
"""

from __future__ import annotations

import argparse
import queue
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
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
    """The trained judge, who asks a model in this process: what is asked at the same time in one batch."""

    def __init__(self, judge: LanguageJudge) -> None:
        self._judge = judge
        self._said: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
        self._asked: queue.SimpleQueue[tuple[Task, tuple[str, ...], Future[Any]]] = queue.SimpleQueue()
        threading.Thread(target=self._answer, daemon=True).start()

    def close(self) -> None:
        """Nothing is open."""

    def _likely(self, task: Task, *texts: str) -> Sequence[Mapping[str, Any]]:
        if (task, *texts) not in self._said:
            future: Future[Any] = Future()
            self._asked.put((task, texts, future))
            self._said[task, *texts] = future.result()
        return self._said[task, *texts]

    def _answer(self) -> None:
        while True:
            waiting = [self._asked.get()]
            while not self._asked.empty() and len(waiting) < 256:
                waiting.append(self._asked.get())
            for task in {one[0] for one in waiting}:
                mine = [one for one in waiting if one[0] is task]
                labels = LABELS[task]
                p, _ = self._judge.probabilities([prompt(task, *texts) for _, texts, _ in mine], labels)
                logs = np.log(np.maximum(p, 1e-12)).tolist()
                for (_, _, future), row in zip(mine, logs, strict=True):
                    pairs = zip(labels, row, strict=True)
                    future.set_result([{"token": label, "logprob": log} for label, log in pairs])


if __name__ == "__main__":
    main()
