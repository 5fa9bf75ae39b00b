"""Loads the reward model that shapes an epoch, found in the store by its digest."""

from __future__ import annotations

from hashlib import sha256

from questloop.errors import BadDataError
from questloop.rewards.shaping import Potential
from questloop.storage import keys
from questloop.storage.commit import committed_epochs, remedy
from questloop.storage.keys import Stage
from questloop.storage.store import NotFound, Store


def find_potential(
    store: Store, digest: str | None, epoch: int, observation_version: int
) -> Potential | None:
    """The newest reward model from before `epoch` whose file has the SHA-256 `digest`; None for None.

    Raises `BadDataError` where no epoch has it, or where it was trained on another observation layout.
    """
    if digest is None:
        return None
    from questloop.reward_model.network import RewardModel

    for earlier in range(epoch - 1, -1, -1):
        key = keys.reward_model(earlier)
        try:
            data = store.get(key)
        except NotFound:
            continue
        if sha256(data).hexdigest() == digest:
            return RewardModel.load(data, key, observation_version)
    learned = [number for number in committed_epochs(store, Stage.REWARD_MODEL) if number < epoch]
    at = learned[-1] if learned else epoch - 1
    raise BadDataError(
        f"no reward model before epoch {epoch} has SHA-256 {digest[:12]}: "
        f"{keys.reward_model(at)} was replaced or is missing; {remedy(at)}"
    )
