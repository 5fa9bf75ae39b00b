"""Decides when a failed request is repeated."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from questloop.llm.reply import ChatError, ChatFailure


@dataclass(frozen=True)
class RetryPolicy:
    """Exponential backoff with jitter on transient failures.

    An overloaded server (429, 503) is waited for by the clock, since it did not even try; every other
    failure counts against `max_attempts`.
    """

    max_attempts: int = 3
    base_s: float = 0.5
    cap_s: float = 20.0
    patience_s: float = 300.0
    """seconds that an overloaded server is waited for"""
    rng: random.Random = field(default_factory=random.Random, repr=False, compare=False)

    def delay(self, error: ChatError, failures: int, overloads: int, elapsed_s: float) -> float | None:
        """Seconds until the next attempt, or None to give up.

        `failures` and `overloads` count the attempts that ended so, this one included.
        """
        if not error.transient:
            return None
        if error.reason is ChatFailure.OVERLOADED:
            wait = max(self._backoff(overloads), error.retry_after_s or 0.0)
            return wait if elapsed_s + wait <= self.patience_s else None
        return self._backoff(failures) if failures < self.max_attempts else None

    def _backoff(self, count: int) -> float:
        ceiling = min(self.cap_s, self.base_s * 2 ** min(count - 1, 16))
        return ceiling * self.rng.uniform(0.5, 1.0)
