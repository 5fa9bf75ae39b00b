"""Controls and ablations of the experiment: what no setting of the product does, done to its parts here."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from enum import StrEnum
from functools import partial
from typing import Any, TypeVar

import numpy as np

from questloop.env.world import World
from questloop.game.guide import Guide
from questloop.judges.ahead import choices
from questloop.llm.client import ChatClient
from questloop.pipeline import judging, stages
from questloop.reward_model import train
from questloop.rewards.aims import AIM_SIZE, Aims
from questloop.serving.trained_judge import MODEL
from questloop.settings import LLMSettings

SMALL_JUDGE = os.environ.get("SMALL_JUDGE", "http://127.0.0.1:8100/v1")
"""where `judge serve --model smollm2` or `benchmarks/judges/serve_torch.py` answers"""

T = TypeVar("T")


class Variant(StrEnum):
    """What is changed."""

    SHUFFLED = "shuffled"
    """Scores are dealt to other segments and cells before a reward model learns: it must not help."""
    ASTRAY = "astray"
    """Judges lead, but what they said of a place is dealt to another one: it must not help."""
    SEGMENTS = "segments"
    """The reward model learns from judged segments alone, not from judged cells."""
    POTENTIAL = "potential"
    """The aims' potential is paid, and the policy neither sees the aims nor begins by following them."""
    UNLED = "unled"
    """The policy sees the aims and does not begin by following them."""
    SMALL = "small"
    """A small language model judges, at `SMALL_JUDGE`; the planner stays what it is."""


def vary(variant: Variant, world: World, seed: int) -> World:
    """Change this process's parts, and the world."""
    match variant:
        case Variant.SHUFFLED:
            train.train_reward_model = partial(
                _shuffled, train.train_reward_model, np.random.default_rng(seed)
            )
        case Variant.ASTRAY:
            stages.chosen_places = partial(_astray, stages.chosen_places, seed)
        case Variant.SEGMENTS:
            train.train_reward_model = partial(_of_segments, train.train_reward_model)
        case Variant.POTENTIAL:
            Aims.seen_by = lambda self, columns: np.zeros((columns.n, AIM_SIZE), np.float32)  # type: ignore[method-assign]
            return replace(world, lead=None)
        case Variant.UNLED:
            return replace(world, lead=None)
        case Variant.SMALL:
            judging.with_judges = partial(_by_small_model, judging.with_judges)
    return world


def _shuffled(learn: Callable[..., Any], rng: np.random.Generator, segments: Any, **rest: Any) -> Any:
    pairs = [(a, b, p if rng.random() < 0.5 else 1 - p) for a, b, p in rest.pop("state_pairs", ())]
    states = _dealt(rest.pop("states", ()), rng)
    return learn(_dealt(segments, rng), states=states, state_pairs=pairs, **rest)


def _astray(choose: Callable[..., Any], seed: int, guide: Guide, scores: Mapping[str, float]) -> Any:
    """The same wrong place for the same stage in every epoch."""
    dealt = dict(scores)
    for stage in range(len(guide.aims)):
        ids = [each.cell_id for each in choices(guide, stage + 1) if len(each.reached) == stage]
        order = np.random.default_rng([seed, stage]).permutation(len(ids))
        known = {ids[to]: scores[ids[at]] for at, to in enumerate(order) if ids[at] in scores}
        dealt |= known
    return choose(guide, dealt)


def _by_small_model(
    with_judges: Callable[..., T], settings: LLMSettings, ask: Callable[[ChatClient], Any]
) -> T:
    models = dict.fromkeys(("llm_model_state", "llm_model_puzzle", "llm_model_vision"), MODEL)
    own = {"llm_endpoint": SMALL_JUDGE, "llm_images": False, "llm_timeout_s": 600.0, **models}
    return with_judges(settings.model_copy(update=own), ask)


def _of_segments(learn: Callable[..., Any], segments: Any, **rest: Any) -> Any:
    return learn(segments, **rest | {"states": (), "state_pairs": ()})


def _dealt(items: Any, rng: np.random.Generator) -> list[Any]:
    """The same items, each with the score of another."""
    kept = list(items)
    order = rng.permutation(len(kept))
    return [replace(item, score=kept[other].score) for item, other in zip(kept, order, strict=True)]
