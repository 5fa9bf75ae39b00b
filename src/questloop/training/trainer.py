"""The trainer runs the epochs of a run in one process, starting Ray and the runners once."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Self

import ray
import torch

from questloop.env.slot_report import SlotReport
from questloop.env.starts import Guidance
from questloop.env.world import World, game_world
from questloop.episodes.spans import misfits
from questloop.errors import UsageError
from questloop.exploration.archive import Archive
from questloop.exploration.curriculum import Curriculum
from questloop.game.guide import NOWHERE, place_name
from questloop.game.observation import OBSERVATION_SIZE
from questloop.planner.copilot import Copilot
from questloop.rewards.shaping import Potential
from questloop.setting_types import Shaping
from questloop.settings import LLMSettings, Settings, load
from questloop.storage import keys
from questloop.storage.store import Store, StoredObject
from questloop.telemetry import metrics
from questloop.telemetry.logs import get_logger
from questloop.training.algorithm import QuestConfig, QuestPPO, Update
from questloop.training.autoscale import Layout
from questloop.training.checkpoint import Checkpoint, export_rllib, read_checkpoint, write_checkpoint
from questloop.training.cluster import quiet_stderr, require_gpu, start_ray
from questloop.training.epoch_plan import EpochPlan, EpochProgress, EpochReport, Progress
from questloop.training.epoch_statistics import EpochTally, ReturnMeter, chain_hashes
from questloop.training.exports import Exports
from questloop.training.imitation import demonstrations
from questloop.training.live_view import LiveView
from questloop.training.potentials import find_potential
from questloop.training.shaper import Shaper

_NO_HASH = "0" * 64
log = get_logger(__name__)


class Trainer:
    """Runs epochs; a context manager. The state at the end of an epoch is both in memory and in the store.

    An epoch that follows the one in memory goes on from there; any other is restored from the checkpoint of
    the epoch before it. Both ways give the same weights, counts and trajectories.
    """

    def __init__(self, settings: Settings, store: Store, world: World | None = None) -> None:
        require_gpu(settings.training)
        self.settings = settings
        self.store = store
        self.world = world or game_world(settings)
        if settings.exploration.awr_top_k and self.world.observation_space.shape != (OBSERVATION_SIZE,):
            raise UsageError(
                "AWR_TOP_K imitates what segments hold, 128-D observations; "
                "set OBSERVATION=vector and HINT_INTERVAL=0, or AWR_TOP_K=0"
            )
        self._started_ray = False
        self._algorithm: QuestPPO | None = None
        self._at: tuple[str, int] | None = None  # run and epoch whose end is in memory

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run_epoch(
        self,
        plan: EpochPlan,
        progress: Progress | None = None,
        announce: Callable[[str], None] = lambda line: None,
    ) -> EpochReport:
        """Collect and learn from the planned steps, export, write the checkpoint, report.

        `announce` is told before the first epoch that is trained what of the settings does not fit together.
        """
        if not self._go_to(plan, announce) and self.world.recording is not None:
            game, span = self.settings.game, plan.step_end - plan.step_start
            for line in misfits(game.frame_skip, game.episode_length, span, self.layout.slots):
                announce(line)
        began = time.perf_counter()
        shaper = self._begin(plan)
        tally = self._tally = EpochTally(plan.step_start)
        while tally.step < plan.step_end:
            update = self.algorithm.step_once(self._steps_of_next(plan.step_end - tally.step))
            self._take_in(update)
            if progress is not None:
                if self._live is not None:
                    self._live.show(plan.epoch, tally.step, update.samples)
                progress(self._progress(plan, time.perf_counter() - began))
        seconds = time.perf_counter() - began
        exported = self._exports.finish_epoch()
        objects = (*exported.objects, *self._write(plan, tally.step))
        self._at = (plan.run, plan.epoch)
        return EpochReport(
            run=plan.run,
            epoch=plan.epoch,
            step_start=plan.step_start,
            step_end=tally.step,
            seconds=seconds,
            steps_per_second=(tally.step - plan.step_start) / max(seconds, 1e-9),
            reward_model_sha256=plan.reward_model_sha256,
            runners=self.layout.runners,
            slots=self.layout.slots,
            shaping_weight=shaper.weight,
            shaping_reason=shaper.reason,
            **self._meter.summary(),
            **tally.summary(self.world.milestones),
            judged_aims=self._judged_aims(),
            archive_cells=len(self._archive.cells) if self._archive else None,
            curriculum=self._curriculum.to_json() if self._curriculum else None,
            trajectory_hashes=tuple(self._hashes),
            segments=exported.segments,
            segments_completed=exported.segments_completed,
            pngs=exported.pngs,
            cells=exported.cells,
            episodes=tuple(record.id for record in exported.episodes),
            objects=objects,
        )

    def close(self) -> None:
        """Stop the runners, and Ray where it was started here."""
        if self._algorithm is not None:
            self._exports.abort()
            self._algorithm.stop()
            self._algorithm = None
        if self._started_ray:
            ray.shutdown()
            self._started_ray = False

    @property
    def algorithm(self) -> QuestPPO:
        """RLlib's Algorithm, built with the first epoch."""
        assert self._algorithm is not None
        return self._algorithm

    # Beginning

    def _go_to(self, plan: EpochPlan, announce: Callable[[str], None]) -> bool:
        """Be at the end of the epoch before the planned one: in memory, from the store, or at the start.

        Whether it was in memory."""
        if self._at == (plan.run, plan.epoch - 1):
            self._at = None
            return True
        self._at = None
        version = self.world.policy_version
        checkpoint = read_checkpoint(self.store, plan.epoch - 1, version) if plan.epoch else None
        if self._algorithm is not None:
            self._exports.abort()
            self._algorithm.stop()
        self._build(plan, announce)
        if checkpoint is not None:
            self._restore(plan, checkpoint)
        return False

    def _build(self, plan: EpochPlan, announce: Callable[[str], None]) -> None:
        before = ray.is_initialized()
        if not before:
            announce(f"starting Ray: {self.settings.training.ray_address or 'on this machine'}")
        self.layout: Layout = start_ray(self.settings.training)
        self._started_ray |= ray.is_initialized() and not before
        torch.set_num_threads(1)  # the learner has threads of its own
        logging.getLogger("ray.rllib").setLevel(logging.ERROR)
        announce(f"starting {self.layout.slots} environments")
        config = quest_config(self.settings, self.world, self.layout, plan.seed)
        with quiet_stderr():
            self._algorithm = QuestPPO(config=config)
        slots = self.layout.slots
        self._meter = ReturnMeter(slots)
        self._hashes = [_NO_HASH] * slots
        self._shaped_by: dict[str, Any] = {"sha256": None, "weight": 0.0}
        self._aims: tuple[int, ...] | None = None
        self._archive = Archive() if self.settings.exploration.archive_fraction else None
        self._curriculum = Curriculum(self.world.starts) if self.world.starts else None
        self._exports = Exports(self.settings, self.store, self.world, slots)
        recording = self.world.recording
        self._live = LiveView(self.store, recording[1]) if recording is not None else None

    def _restore(self, plan: EpochPlan, checkpoint: Checkpoint) -> None:
        learner, counts = self.algorithm.learner, checkpoint.counts
        learner.load_arrays(checkpoint.policy, checkpoint.optimizer, checkpoint.curiosity)
        learner.load_counts(counts["learner"])
        self.algorithm.runners_lost = counts["runners_lost"]
        self._shaped_by = counts["shaped_by"]
        potential = find_potential(
            self.store, self._shaped_by["sha256"], plan.epoch, self.world.observation_version
        )
        form = Shaping(self._shaped_by.get("form", Shaping.POTENTIAL))
        learner.shaper = Shaper(potential, self._shaped_by["weight"], "before", form)
        if self._archive is not None and counts["archive"]:
            self._archive = Archive.read(self.store, keys.archive(plan.epoch - 1))
        if self._curriculum is not None and counts["curriculum"]:
            self._curriculum = Curriculum.load(counts["curriculum"], self.world.starts)
        if counts["layout"] == [self.layout.runners, self.layout.slots_per_runner]:
            self.algorithm.load_slot_states(checkpoint.slots["runners"])
            self._meter.load_state_dict(checkpoint.slots["meter"])
            self._hashes = list(counts["hashes"])
            self._exports.load_state_dict(checkpoint.slots["exports"])
        else:
            # Another number of slots begins new episodes, with random numbers that none has drawn; weights,
            # statistics and counts go on.
            self.algorithm.first_incarnation = plan.epoch << 20
            log.warning(
                "another layout than the epoch before: all slots begin new episodes",
                was=counts["layout"], now=[self.layout.runners, self.layout.slots_per_runner],
            )  # fmt: skip

    def _shaper(self, plan: EpochPlan, potential: Potential | None) -> Shaper:
        exploration = self.settings.exploration
        shaper = Shaper.of(potential, exploration.shaping_coef, exploration.shaping)
        digest = plan.reward_model_sha256 if shaper.active else None
        self._shaped_by = {"sha256": digest, "weight": shaper.weight, "form": shaper.form.value}
        return shaper

    # Running

    def _begin(self, plan: EpochPlan) -> Shaper:
        """Tell learner, meters and runners what this epoch is shaped by, imitates and starts from."""
        sha256, version = plan.reward_model_sha256, self.world.observation_version
        potential = find_potential(self.store, sha256, plan.epoch, version)
        shaper, exploration = self._shaper(plan, potential), self.settings.exploration
        learner = self.algorithm.learner
        learner.set_shaper(shaper)
        learner.demonstrations = demonstrations(self.store, plan.epoch, exploration.awr_top_k)
        learner.sil_coef = exploration.sil_coef
        self._meter.start_epoch()
        self._exports.start_epoch(plan)
        self._aims = _trusted_aims(plan.aims, potential)
        self.algorithm.guidance = Guidance(self._archive, self._curriculum, self._aims)
        return shaper

    def _judged_aims(self) -> dict[str, str] | None:
        if self._aims is None:
            return None
        named = zip(self.world.aims, self._aims, strict=True)
        return {key: place_name(place) for key, place in named if place != NOWHERE}

    def _steps_of_next(self, rest: int) -> int:
        """Vector steps of the next rollout: a whole one, or what is left, rounded up."""
        return min(self.layout.rollout_steps, -(-rest // self.layout.slots))

    def _take_in(self, update: Update) -> None:
        tally = self._tally
        per_runner = self.layout.slots_per_runner
        for runner in update.lost:
            mine = slice(runner * per_runner, (runner + 1) * per_runner)
            self._meter.forget(mine)
            self._hashes[mine] = [_NO_HASH] * per_runner
        before = len(self._meter.finished)
        self._meter.add(update.rollout)
        self._hashes = chain_hashes(self._hashes, update.rollout)
        for sample in update.samples:
            tally.rooms.add(sample.runner, sample.report)
            self._note_milestones(sample.report)
            self._note_episodes(sample.report)
            metrics.mode_latency_seconds.labels("policy").observe(sample.policy_seconds)
            for name, report in sample.report.copilots.items():
                report.publish()
                tally.copilots.setdefault(name, type(report)()).add(report)
        if self._archive is not None:
            self._archive.merge(sample.report.delta for sample in update.samples if sample.report.delta)
        self._exports.add([sample.trace for sample in update.samples if sample.trace is not None])
        tally.add(update, self.world.milestones, self._meter.finished[before:])

    def _note_milestones(self, report: SlotReport) -> None:
        for reached in report.finished_milestones:
            for bit, name in enumerate(self.world.milestones):
                if reached >> bit & 1:
                    metrics.milestone_total.labels(name).inc()

    def _note_episodes(self, report: SlotReport) -> None:
        """Tell the curriculum which milestones the finished episodes reached."""
        if self._curriculum is None:
            return
        for start, reached in zip(report.finished_starts, report.finished_milestones, strict=True):
            names = {name for bit, name in enumerate(self.world.milestones) if reached >> bit & 1}
            self._curriculum.record(start, names)

    def _progress(self, plan: EpochPlan, seconds: float) -> EpochProgress:
        tally = self._tally
        return EpochProgress(
            epoch=plan.epoch,
            step_start=plan.step_start,
            step=tally.step,
            step_end=plan.step_end,
            steps_per_second=(tally.step - plan.step_start) / max(seconds, 1e-9),
            episodes=len(self._meter.finished),
            return_per_1000_steps=self._meter.per_1000_steps,
            unique_rooms=len(tally.rooms.room_steps),
            places=tally.rooms.places(),
            room_visits=tally.rooms.visits(),
            curve=tuple(tally.curve),
            curriculum=self._curriculum.to_json() if self._curriculum else None,
        )

    # Ending

    def _write(self, plan: EpochPlan, step: int) -> list[StoredObject]:
        learner = self.algorithm.learner
        policy, optimizer, curiosity = learner.arrays()
        checkpoint = Checkpoint(
            observation_version=self.world.policy_version,
            policy=policy,
            optimizer=optimizer,
            curiosity=curiosity,
            slots={
                "runners": self.algorithm.slot_states(),
                "meter": self._meter.state_dict(),
                "exports": self._exports.state_dict(),
            },
            counts={
                "run": plan.run,
                "step": step,
                "learner": learner.counts(),
                "runners_lost": self.algorithm.runners_lost,
                "shaped_by": self._shaped_by,
                "aims": self._aims,
                "layout": [self.layout.runners, self.layout.slots_per_runner],
                "hashes": list(self._hashes),
                "archive": self._archive is not None,
                "curriculum": self._curriculum.to_json() if self._curriculum else None,
            },
        )
        archive = self._archive.write(self.store, keys.archive(plan.epoch)) if self._archive else []
        written = write_checkpoint(self.store, plan.epoch, checkpoint)
        return [*archive, *written, *export_rllib(self.store, plan.epoch, self.algorithm)]


def _trusted_aims(aims: tuple[int, ...] | None, potential: Potential | None) -> tuple[int, ...] | None:
    """The places that judges chose; nowhere until what was learned from them, `potential`, is trusted."""
    if aims is None or Shaper.of(potential, coef=1.0).active:
        return aims
    return (NOWHERE,) * len(aims)


def make_planning(
    llm: LLMSettings, frame_skip: int, takes_over: bool, hint_interval: int, env: Any
) -> list[Copilot]:
    """The copilots of a runner's environment, which share a planner with the key of its own environment."""
    from questloop.planner.client import planner_of  # its HTTP client: a run without a planner does without
    from questloop.planner.hints import Hints
    from questloop.planner.takeover import Takeovers

    guide = env.profile.guide
    keyed = llm.model_copy(update={"llm_api_key": load().llm.llm_api_key})
    planner = planner_of(keyed, guide.text if guide is not None else "")
    takeovers: list[Copilot] = [Takeovers(env, planner, frame_skip)] if takes_over else []
    hints: list[Copilot] = [Hints(env, planner, hint_interval)] if hint_interval else []
    return [*takeovers, *hints]


def quest_config(settings: Settings, world: World, layout: Layout, seed: int) -> QuestConfig:
    """RLlib's configuration for `settings`."""
    training, exploration = settings.training, settings.exploration
    config = QuestConfig().play(
        world.build, world.observation_space, world.action_space, layout.rollout_steps
    )
    config.action_mask = world.action_mask
    config.lead = world.lead
    config.whiten = training.whiten
    config.record = world.recording is not None
    if world.plays_by_plan or world.hint_interval:
        keyless = settings.llm.model_copy(update={"llm_api_key": None})  # RLlib writes its configuration
        config.planning = partial(
            make_planning, keyless, settings.game.frame_skip, world.plays_by_plan, world.hint_interval
        )
    config.rnd_coef = exploration.rnd_coef
    config.features_size = OBSERVATION_SIZE if world.sees_more else None
    config.env_runners(
        num_env_runners=layout.runners,
        num_envs_per_env_runner=layout.slots_per_runner,
        create_local_env_runner=layout.runners == 0,
    )
    config.learners(num_gpus_per_learner=training.learner_gpus)
    config.training(
        lr=training.lr,
        gamma=training.gamma,
        lambda_=training.gae_lambda,
        clip_param=training.clip,
        vf_clip_param=training.value_clip,
        entropy_coeff=training.entropy_coef,
        train_batch_size_per_learner=layout.batch_size,
        minibatch_size=training.minibatch_size,
        num_epochs=training.ppo_epochs,
    )
    return config.debugging(seed=seed, log_level="ERROR")
