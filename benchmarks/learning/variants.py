"""Controls and ablations of the experiment: what no setting of the product does, done to its parts here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from enum import StrEnum
from typing import Any

import numpy as np

from questloop.env.world import World
from questloop.reward_model import train
from questloop.rewards.aims import AIM_SIZE, Aims


class Variant(StrEnum):
    """What is changed."""

    SHUFFLED = "shuffled"
    """Scores are dealt to other segments and cells before a reward model learns: it must not help."""
    SEGMENTS = "segments"
    """The reward model learns from judged segments alone, not from judged cells."""
    POTENTIAL = "potential"
    """The aims' potential is paid, and the policy neither sees the aims nor begins by following them."""
    UNLED = "unled"
    """The policy sees the aims and does not begin by following them."""


def vary(variant: Variant, world: World, seed: int) -> World:
    """Change this process's parts, and the world."""
    match variant:
        case Variant.SHUFFLED:
            rng = np.random.default_rng(seed)
            train.pool = _shuffled(train.pool, rng)  # type: ignore[assignment]
            train.state_pool = _shuffled(train.state_pool, rng)  # type: ignore[assignment]
        case Variant.SEGMENTS:
            train.state_pool = lambda states: None  # type: ignore[assignment]
        case Variant.POTENTIAL:
            Aims.seen_by = lambda self, columns: np.zeros((columns.n, AIM_SIZE), np.float32)  # type: ignore[method-assign]
            return replace(world, lead=None)
        case Variant.UNLED:
            return replace(world, lead=None)
    return world


def _shuffled(make: Callable[..., Any], rng: np.random.Generator) -> Callable[..., Any]:
    def made(items: Any) -> Any:
        pool = make(items)
        return pool if pool is None else replace(pool, score=rng.permutation(pool.score))

    return made
