"""A trained policy that only plays, from the arrays of a checkpoint, without Ray or torch."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from questloop.env.observers import AIMED, VECTOR, WHITE_MOST
from questloop.errors import BadDataError, UsageError
from questloop.game.guide import Guide
from questloop.game.observation import OBSERVATION_SIZE
from questloop.rewards.aims import AIM_SIZE
from questloop.setting_types import AimsOf
from questloop.storage import keys
from questloop.storage.store import Store
from questloop.training.checkpoint import STATE, Arrays, read_checkpoint

Floats = NDArray[np.float32]

_SIZES = (OBSERVATION_SIZE, OBSERVATION_SIZE + AIM_SIZE)
_EPOCH = re.compile(r"epoch_(\d+)")
_WEIGHT = re.compile(r"policy\.(\d+)\.weight")


class Player:
    """Samples actions as the policy of a checkpoint does. `size`: numbers of the observation it reads;
    `aims`: the places that judges led it to; None where the guide did, or nobody."""

    def __init__(self, policy: Arrays, rng: np.random.Generator, aims: Sequence[int] | None = None) -> None:
        """`policy`: the arrays of `VectorModule`; raises `BadDataError` where it is another network."""
        places = sorted(int(found[1]) for name in policy if (found := _WEIGHT.fullmatch(name)))
        self._layers = [(policy[f"policy.{i}.weight"], policy[f"policy.{i}.bias"]) for i in places]
        if not self._layers or self._layers[0][0].shape[1] not in _SIZES:
            raise BadDataError(
                "the checkpoint's policy does not read the vector observation; train one that does"
            )
        self.size, self.aims = self._layers[0][0].shape[1], aims
        self._centre = policy.get("centre", np.float32(0))
        self._scale = policy.get("scale", np.float32(1))
        self._closed = policy.get("closed", np.float32(0))
        self._lead = policy.get("lead")
        self._rng = rng

    def led_by(self, guide: Guide | None) -> AimsOf:
        """Who says where it goes next.

        Raises `UsageError` where `guide`, the game's, cannot be that of its training.
        """
        if self.size == OBSERVATION_SIZE:
            return AimsOf.OFF
        known = len(guide.aims) if guide is not None else 0
        if not known or (self.aims is not None and len(self.aims) != known):
            trained = "aims" if self.aims is None else f"{len(self.aims)} aims"
            raise UsageError(
                f"the policy was trained with a guide of {trained}, and the game's has {known}; "
                "set GUIDE as it was set for the run"
            )
        return AimsOf.GUIDE if self.aims is None else AimsOf.JUDGES

    def logits(self, obs: Floats) -> Floats:
        """`[B, actions]` of `obs` f32[B, size]."""
        *hidden, (weight, bias) = self._layers
        led = 0 if self._lead is None else obs[:, -len(self._lead) :] @ self._lead
        obs = np.clip((obs - self._centre) * self._scale, -WHITE_MOST, WHITE_MOST)
        for hidden_weight, hidden_bias in hidden:
            obs = np.tanh(obs @ hidden_weight.T + hidden_bias)
        logits: Floats = obs @ weight.T + bias + self._closed + led
        return logits

    def act(self, obs: Floats) -> NDArray[np.uint8]:
        """Actions u8[B], sampled: `argmax(logits + Gumbel noise)` draws from their softmax."""
        logits = self.logits(obs)
        chosen: NDArray[np.uint8] = (
            (logits + self._rng.gumbel(size=logits.shape)).argmax(axis=1).astype(np.uint8)
        )
        return chosen


def load_player(store: Store, epoch: int | None, seed: int) -> Player:
    """The policy of `epoch`'s checkpoint, or of the latest one."""
    number = _latest(store) if epoch is None else epoch
    checkpoint = read_checkpoint(store, number, VECTOR, AIMED)
    return Player(checkpoint.policy, np.random.default_rng(seed), checkpoint.counts.get("aims"))


def _latest(store: Store) -> int:
    prefix = keys.checkpoint_prefix(0).rpartition("/")[0]
    epochs = [int(found[1]) for name in store.folders(prefix) if (found := _EPOCH.fullmatch(name))]
    whole = [epoch for epoch in epochs if store.exists(keys.checkpoint(epoch, STATE))]
    if not whole:
        raise BadDataError(
            f"{store.url} holds no checkpoint; train first: `questloop demo`, `questloop pipeline`"
        )
    return max(whole)
