"""Shows where the time of training goes, by function."""

from __future__ import annotations

import cProfile
import io
import pstats
from functools import partial

from ray.rllib.core.learner.training_data import TrainingData

from questloop.bench.game import bench_starts
from questloop.env.world import game_world
from questloop.settings import load
from questloop.training.autoscale import Layout
from questloop.training.learner import QuestLearner, as_rllib
from questloop.training.rollout import Rollout
from questloop.training.runner import QuestRunner
from questloop.training.trainer import quest_config

_LAYOUT = Layout(1, 32, 128)
_LINES = 25


def profile_training() -> str:
    """The functions that a rollout and an update spend their time in, one process, one batch each."""
    settings = load(flags={"ppo_epochs": 4})
    starts = bench_starts(busy=True)
    world = game_world(settings)
    config = quest_config(settings, world, _LAYOUT, seed=0)
    config.batch_env = partial(world.build, starts=starts)  # type: ignore[call-arg]
    config.env_runners(num_env_runners=0)
    config.record = False
    runner = QuestRunner(config=config, worker_index=0)
    spec = config.get_multi_rl_module_spec(spaces=runner.get_spaces())
    learner = config.learner_class(config=config, module_spec=spec)
    learner.build()
    steps = _LAYOUT.rollout_steps
    sampling, learning = cProfile.Profile(), cProfile.Profile()
    for warm in (True, False):
        weights = learner.module.get_state()
        sample = runner.sample(steps, weights) if warm else sampling.runcall(runner.sample, steps, weights)
        if isinstance(sample, Exception):
            raise sample

        if warm:
            _learn(learner, sample.rollout)
        else:
            learning.runcall(_learn, learner, sample.rollout)
    runner.stop()
    return f"Sampling {steps} vector steps\n{_text(sampling)}\nOne update\n{_text(learning)}"


def _learn(learner: QuestLearner, rollout: Rollout) -> None:
    learner.update(training_data=TrainingData(batch=as_rllib(learner.prepare(rollout))))


def _text(profile: cProfile.Profile) -> str:
    out = io.StringIO()
    pstats.Stats(profile, stream=out).sort_stats("tottime").print_stats(_LINES)
    return out.getvalue()
