"""Measures how often a judge is right on held-out pairs with known outcomes, with an interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from questloop.errors import UsageError
from questloop.grpo.judge_data import Task, prompt

Floats = NDArray[np.float64]
RESAMPLES = 2000


@dataclass(frozen=True)
class Agreement:
    """Share of pairs where the judge prefers the segment that went further, with a 95 % interval."""

    accuracy: float
    low: float
    high: float


class LanguageJudge:
    """A causal language model that is asked for one of a few labels.

    It is read by the probabilities of the labels' first tokens, so that a model which does not keep to the
    form can be compared too.
    """

    def __init__(self, model: Any, tokenizer: Any, batch_size: int = 64) -> None:
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
        self.batch_size = batch_size

    def probabilities(self, prompts: Sequence[Any], labels: Sequence[str]) -> tuple[Floats, Floats]:
        """Return p[N, len(labels)], rows summing to 1, and the labels' share of all probability [N]."""
        import torch

        ids = _first_tokens(self.tokenizer, labels)
        texts = [
            self.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
            for messages in prompts
        ]
        order = sorted(range(len(texts)), key=lambda index: len(texts[index]))
        result = np.empty((len(texts), len(labels)))
        for start in range(0, len(order), self.batch_size):
            rows = order[start : start + self.batch_size]
            batch = self.tokenizer(
                [texts[row] for row in rows],
                return_tensors="pt",
                padding=True,
                padding_side="left",
                add_special_tokens=False,
            ).to(self.model.device)
            with torch.inference_mode():
                logits = self.model(**batch, logits_to_keep=1).logits[:, -1].float()
            result[rows] = logits.softmax(-1)[:, ids].double().cpu().numpy()
        share = result.sum(axis=1)
        return result / np.maximum(share, 1e-12)[:, None], share

    def preferences(self, pairs: Sequence[tuple[str, str]]) -> Floats:
        """The probability that the first of two texts went further, over both orders: f64[N]."""
        both = [prompt(Task.PAIR, a, b) for a, b in pairs] + [prompt(Task.PAIR, b, a) for a, b in pairs]
        p, _ = self.probabilities(both, ("A", "B"))
        return (p[: len(pairs), 0] + 1 - p[len(pairs) :, 0]) / 2


def correct(preferences: Floats) -> Floats:
    """1 where the judge prefers the first of two, which is the one that went further; a tie is half.

    >>> correct(np.array([0.9, 0.2, 0.5])).tolist()
    [1.0, 0.0, 0.5]
    """
    return np.where(preferences == 0.5, 0.5, (preferences > 0.5).astype(float))


def agreement(
    hits: Sequence[Floats], episodes: Sequence[Sequence[tuple[str, str]]], seed: int = 0
) -> Agreement:
    """Mean accuracy over runs (seeds) and a percentile interval, resampling episodes within each run.

    `hits[r]` is f64[P_r] and `episodes[r]` names the two episodes of each pair; segments of one episode are
    no independent evidence, so a pair counts as often as its episodes were drawn (a cluster bootstrap).
    """
    rng = np.random.default_rng(seed)
    resampled = np.mean(
        [_resample(run, pairs, rng) for run, pairs in zip(hits, episodes, strict=True)], axis=0
    )
    low, high = np.nanquantile(resampled, (0.025, 0.975))
    accuracy = float(np.mean([run.mean() for run in hits]))
    return Agreement(round(accuracy, 4), round(float(low), 4), round(float(high), 4))


def _resample(hits: Floats, pairs: Sequence[tuple[str, str]], rng: np.random.Generator) -> Floats:
    names = sorted({name for pair in pairs for name in pair})
    index = {name: number for number, name in enumerate(names)}
    first = np.array([index[a] for a, _ in pairs])
    second = np.array([index[b] for _, b in pairs])
    accuracies = np.empty(RESAMPLES)
    for number in range(RESAMPLES):
        drawn = np.bincount(rng.integers(len(names), size=len(names)), minlength=len(names))
        weights = np.where(first == second, drawn[first], drawn[first] * drawn[second])
        total = weights.sum()
        accuracies[number] = (weights * hits).sum() / total if total else np.nan
    return accuracies


def _first_tokens(tokenizer: Any, labels: Sequence[str]) -> list[int]:
    ids = [tokenizer(label, add_special_tokens=False)["input_ids"][0] for label in labels]
    if len(set(ids)) < len(labels):
        raise UsageError(
            f"labels {', '.join(labels)} begin with the same token for this model; choose others"
        )
    return ids
