"""A causal language model as a judge, read by the probabilities of its labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from questloop.errors import UsageError
from questloop.grpo.judge_data import Task, prompt

Floats = NDArray[np.float64]


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


def _first_tokens(tokenizer: Any, labels: Sequence[str]) -> list[int]:
    ids = [tokenizer(label, add_special_tokens=False)["input_ids"][0] for label in labels]
    if len(set(ids)) < len(labels):
        raise UsageError(
            f"labels {', '.join(labels)} begin with the same token for this model; choose others"
        )
    return ids
