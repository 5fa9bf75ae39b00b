"""A fine-tuned small language model as a judge, behind the same requests as any other.

It is taught to answer questions in one word (`grpo.judge_data`): which of two segments is more likely to be
followed by a milestone, and whether one is; which of two states is nearer to the end of the quest, and how
many tenths of it are done. It is read by the probability of that word.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx

from questloop.errors import UnavailableError
from questloop.grpo.judge_data import LABELS, Task, prompt
from questloop.judges.pairwise import FIRST, SEPARATOR
from questloop.judges.quest import is_state
from questloop.serving.protocol import ChatRequest

MODEL = "smollm2-judge"
ADAPTER = Path(__file__).with_name("smollm2_judge.gguf")
"""of SmolLM2-135M-Instruct, trained on Mossgrove (docs/explanation/judge-recipe.md)"""
# Labels that are not among so many likely first tokens have no probability to speak of.
TOP_TOKENS = 20


class TrainedJudge:
    """Answers judge requests by asking the model behind `llm_url` (OpenAI-compatible, with `/v1`).

    A segment alone gets `overall`, the probability that a milestone follows, and the same as `progress`; the
    criteria that it was not taught are null.
    """

    def __init__(self, llm_url: str, model: str, timeout_s: float = 120.0) -> None:
        self._client = httpx.Client(base_url=llm_url, timeout=timeout_s, trust_env=False)
        self._model = model

    def __call__(self, request: ChatRequest) -> Mapping[str, Any]:
        """The JSON object of an answer. Raises `UnavailableError` where the model does not answer."""
        first, found, second = request.user.text.partition(SEPARATOR)
        first = first.removeprefix(FIRST).strip()
        if is_state(first):
            return self._of_state(first, second.strip() if found else None)
        if found:
            p = self._probability(Task.PAIR, first, second.strip())
            return {"reason": f"trained judge: A with probability {p:.2f}", "overall": round(p, 4)}
        p = self._probability(Task.MILESTONE, first)
        return {
            "reason": f"trained judge: a milestone follows with probability {p:.2f}",
            "progress": round(p, 4),
            "dialog": None,
            "efficiency": None,
            "puzzle": None,
            "novelty": None,
            "overall": round(p, 4),
        }

    def _of_state(self, first: str, second: str | None) -> Mapping[str, Any]:
        if second is not None:
            p = self._probability(Task.NEARER, first, second)
            return {"reason": f"trained judge: A with probability {p:.2f}", "overall": round(p, 4)}
        shares = shares_of(self._likely(Task.FAR, first), LABELS[Task.FAR])
        tenths = sum((number + 0.5) * share for number, share in enumerate(shares))
        return {"reason": f"trained judge: {tenths:.1f} tenths", "overall": round(tenths / 10, 4)}

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _probability(self, task: Task, *texts: str) -> float:
        return share_of_first(self._likely(task, *texts), LABELS[task])

    def _likely(self, task: Task, *texts: str) -> Sequence[Mapping[str, Any]]:
        """The likely first tokens of the model's answer."""
        body = {
            "model": self._model,
            "messages": prompt(task, *texts),
            "max_tokens": 1,
            "temperature": 0,
            "logprobs": True,
            "top_logprobs": TOP_TOKENS,
        }
        try:
            reply = self._client.post("chat/completions", json=body).raise_for_status().json()
            likely: list[Mapping[str, Any]] = reply["choices"][0]["logprobs"]["content"][0]["top_logprobs"]
        except (httpx.HTTPError, LookupError, TypeError, ValueError) as error:
            raise UnavailableError(f"the model of the trained judge gave no answer: {error!r}") from None
        return likely


def share_of_first(likely: Sequence[Mapping[str, Any]], labels: Sequence[str]) -> float:
    """The first label's part of the probability that all labels have; equal parts where none is likely.

    >>> share_of_first([{"token": "A", "logprob": -1.0}, {"token": "x", "logprob": -1.1}], ["A", "B"])
    1.0
    """
    return shares_of(likely, labels)[0]


def shares_of(likely: Sequence[Mapping[str, Any]], labels: Sequence[str]) -> list[float]:
    """Each label's part of the probability that all labels have; equal parts where none is likely.

    >>> shares_of([{"token": "0", "logprob": -1.0}, {"token": "1", "logprob": -1.0}], ["0", "1", "2"])
    [0.5, 0.5, 0.0]
    """
    found = {item["token"]: math.exp(item["logprob"]) for item in likely}
    parts = [found.get(label, 0.0) for label in labels]
    total = sum(parts)
    return [part / total if total else 1 / len(labels) for part in parts]
