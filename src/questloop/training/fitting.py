"""Gradient descent on minibatches, one optimiser at a time or several side by side."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from questloop.errors import BadDataError

LossOf = Callable[[Any], tuple[Tensor, Tensor]]
"""Loss and statistics `[S]` of a minibatch: its rows, in whatever form the loss takes them."""


@dataclass(frozen=True)
class Descent:
    """An optimiser, its loss and the minibatches to take, in order.

    Descents that run at once share no parameter.
    """

    name: str
    optimizer: torch.optim.Optimizer
    loss_of: LossOf
    minibatches: Sequence[Any]
    statistics: tuple[str, ...]

    def run(self) -> dict[str, float]:
        """Take every minibatch; the mean of each statistic, none without a minibatch.

        Raises `BadDataError` where a loss is not finite, before its gradient is used.
        """
        sums = torch.zeros(len(self.statistics))
        for minibatch in self.minibatches:
            loss, statistics = self.loss_of(minibatch)
            if not math.isfinite(loss.item()):
                parts = ", ".join(
                    f"{name} {value:.4g}"
                    for name, value in zip(self.statistics, statistics.tolist(), strict=True)
                )
                raise BadDataError(
                    f"the loss of the {self.name} is {loss.item()} ({parts}): no update was made; "
                    "lower LR or look at the rewards"
                )
            self.optimizer.zero_grad(set_to_none=True)
            loss.backward()
            self.optimizer.step()
            sums += statistics.cpu()
        if not self.minibatches:
            return {}
        means = (sums / len(self.minibatches)).tolist()
        return dict(zip(self.statistics, means, strict=True))


class Fitter:
    """Runs descents side by side, a thread each with one torch thread.

    Threads inside torch's operators would meet at every one of the thousands of small operators of an update;
    two descents meet once, at its end. Their results do not depend on how they are scheduled.
    """

    def __init__(self, threads: int) -> None:
        self._pool = ThreadPoolExecutor(threads, "fit", initializer=torch.set_num_threads, initargs=(1,))

    def run(self, descents: Sequence[Descent]) -> dict[str, float]:
        """Statistics of all. Where one raises, the parameters of all are put back to what they were."""
        parameters = [
            parameter
            for descent in descents
            for group in descent.optimizer.param_groups
            for parameter in group["params"]
        ]
        before = [parameter.detach().clone() for parameter in parameters]
        futures = [self._pool.submit(descent.run) for descent in descents]
        errors = [error for future in futures if (error := future.exception()) is not None]
        if errors:
            with torch.no_grad():
                for parameter, value in zip(parameters, before, strict=True):
                    parameter.copy_(value)
            raise errors[0]
        return {name: value for future in futures for name, value in future.result().items()}
