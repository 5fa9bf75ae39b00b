"""One training epoch as the pipeline calls it."""

from __future__ import annotations

from questloop.env.world import World
from questloop.settings import Settings
from questloop.storage.store import Store
from questloop.training.plan import EpochPlan, EpochReport, Progress
from questloop.training.trainer import Trainer


def train_epoch(
    settings: Settings,
    store: Store,
    plan: EpochPlan,
    progress: Progress | None = None,
    world: World | None = None,
) -> EpochReport:
    """Run `plan` in a trainer of its own.

    Restores the checkpoint of epoch `plan.epoch - 1`, collects and learns from the planned steps shaped by
    the reward model that the plan names, exports segments, writes the checkpoint of `plan.epoch`. Who runs
    several epochs keeps a `Trainer`, which starts Ray and the emulators once. `world` is what is played,
    unset: the game of `settings`.
    """
    with Trainer(settings, store, world) as trainer:
        return trainer.run_epoch(plan, progress)
