"""The game as a vectorised environment: emulators, observations, rewards and recording of `N` slots."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from questloop.env.observers import PointedObserver, VectorObserver, VisualObserver
from questloop.env.slot_report import SlotReport
from questloop.env.starts import Guidance, Starter, game_starts
from questloop.env.streams import slot_streams
from questloop.env.tape import RolloutRecorder
from questloop.episodes.boundary import Boundary
from questloop.episodes.trace import Trace
from questloop.game.batch import GameBatch
from questloop.game.columns import Masks
from questloop.game.observation import OBSERVATION_SIZE
from questloop.game.profile import Profile
from questloop.game.profiles import profile_for
from questloop.game.rom import Rom
from questloop.game.start_states import StartStates
from questloop.game.state_file import SaveState
from questloop.game.walking import Ground, ground_of
from questloop.rewards.aims import AIM_SIZE, Aims
from questloop.rewards.hints import HINT_SIZE, HintTargets
from questloop.rewards.total import Rewards
from questloop.setting_types import AimsOf, Shaping
from questloop.settings import GameSettings, RewardSettings


class GameEnv:
    """A `BatchEnv`. An episode is terminated by the game's over or its goal, truncated at EPISODE_LENGTH.

    The start state is the one thing drawn at random, by each slot's own stream.
    """

    def __init__(
        self,
        num_slots: int,
        game: GameSettings,
        rewards: RewardSettings,
        png_stride: int = 10,
        starts: StartStates | None = None,
        archive_fraction: float = 0.0,
        visual: bool = False,
        hinted: bool = False,
        aims: AimsOf = AimsOf.OFF,
        shaping: Shaping = Shaping.PROGRESS,
        gamma: float = 0.99,
    ) -> None:
        """`starts` saves making the start states again, where another process has done so.

        `hinted`: the vectors that the policy sees end with `rewards.hints.HINT_SIZE` numbers of the hint in
        force; with `aims`, with `rewards.aims.AIM_SIZE` numbers of the next aim, whose potential is paid too,
        as `shaping` says (`gamma` is the learner's discount).
        """
        rom = Rom.load(game.rom_path)
        self.profile: Profile = profile_for(rom, game.guide, game.game_profile)
        self.num_slots, self.num_actions = num_slots, len(self.profile.action_mask)
        self.episode_length = game.episode_length
        self.batch = GameBatch(rom, self.profile.layout, num_slots, game.frame_skip)
        self.starter = Starter(num_slots, starts or game_starts(game, rom, self.profile), archive_fraction)
        self._streams = slot_streams(0, 0, num_slots)
        self.targets = HintTargets(num_slots) if hinted else None
        """Where hints point; None without hints."""
        guide = None if aims is AimsOf.OFF else self.profile.guide
        how = shaping, gamma, aims is AimsOf.JUDGES
        self.aims = None if guide is None else Aims(num_slots, self.profile, guide, self._ground, *how)
        """The next aims; None without a guide."""
        pointer = self.aims if self.targets is None else self.targets
        self.rewards = Rewards(num_slots, rewards, pointer)
        self.columns = self.profile.columns(self.batch.taps)
        self.age = np.zeros(num_slots, np.int64)
        sizes = num_slots, self.profile, game.frame_skip
        self.observer = VisualObserver(*sizes) if visual else VectorObserver(*sizes)
        if pointer is not None and not visual:
            self.observer = PointedObserver(*sizes, pointer, HINT_SIZE if hinted else AIM_SIZE)
        self.observation_shape, self.observation_dtype = self.observer.shape, self.observer.dtype
        self.features, self.final_features = self.observer.features, self.observer.final_features
        self._obs = np.zeros((num_slots, *self.observation_shape), self.observation_dtype)
        self.final_obs = np.zeros_like(self._obs)
        self._goal = _milestone_bit(self.profile, self.profile.goal)
        self._reached: Masks = np.zeros(num_slots, np.object_)
        self._at_start: Masks = np.zeros(num_slots, np.object_)
        self._raw_return = np.zeros(num_slots, np.float32)
        self._tile_steps = np.zeros(8 * 256 * 256, np.int32)
        self._report = SlotReport()
        row_sizes = self.profile.layout.size, OBSERVATION_SIZE
        self._recorder = RolloutRecorder(num_slots, *row_sizes, self.rewards.names, png_stride)

    # BatchEnv

    @property
    def paused(self) -> Collection[int]:
        return self.batch.paused

    def seed(self, streams: Sequence[np.random.Generator]) -> None:
        self._streams = list(streams)

    def reset(self, obs: NDArray[Any]) -> None:
        self._begin(np.arange(self.num_slots))
        obs[:] = self._obs

    def step(
        self,
        action: NDArray[np.uint8],
        obs: NDArray[Any],
        reward: NDArray[np.float32],
        boundary: NDArray[np.uint8],
        render: bool = False,
    ) -> None:
        """As `BatchEnv`; `render` draws the screens for `batch.frame`."""
        still = tuple(self.batch.paused)  # before the step, in which others may begin to wait
        pictured = self._recorder.wanted(self.age, still)
        everything = render or self.observer.draws
        taps = self.batch.step(action, np.ones(self.num_slots, np.bool_) if everything else pictured)
        self._recorder.draw(self.batch, pictured)
        columns = self.columns = self.profile.columns(taps)
        reward[:] = self.rewards.step(columns, still)
        vectors = self.observer.encode(self.batch, columns, action, obs)
        self._reached |= columns.milestones
        self._raw_return += reward
        np.add.at(self._tile_steps, (columns.place & 2047) << 8 | columns.tile & 255, columns.has_control)
        self.age += 1
        over = columns.game_over | (columns.milestones & self._goal != 0)
        self.starter.explore(columns, self._raw_return, over, self.batch.save)
        boundary[:] = over
        late = ~over & (self.age >= self.episode_length)
        boundary[late] = Boundary.TRUNCATED
        parts = self.rewards.parts
        self._recorder.add(self.age - 1, action, boundary, self.batch, vectors, parts, columns)
        over |= late
        if over.any():
            slots = np.flatnonzero(over)
            self.final_obs[slots] = obs[slots]
            self.observer.keep_final(slots)
            self._end(slots)
            self._begin(slots)
            obs[slots] = self._obs[slots]
        self._obs[:] = obs

    def observe(self, obs: NDArray[Any]) -> None:
        obs[:] = self._obs

    def follow(self, guidance: Guidance) -> None:
        self.starter.follow(guidance)
        if self.aims is not None and guidance.aims is not None:
            self.aims.lead_to(guidance.aims)

    def report(self) -> SlotReport:
        report, self._report = self._report, SlotReport()
        report.rooms = self.rewards.coverage.rooms.astype(np.int64)
        report.milestones = self._reached & ~self._at_start
        trodden = np.flatnonzero(self._tile_steps)
        report.tile_steps = dict(zip(trodden.tolist(), self._tile_steps[trodden].tolist(), strict=True))
        rooms: Counter[int] = Counter()
        for tile, steps in report.tile_steps.items():
            rooms[tile >> 8] += steps
        report.room_steps = dict(rooms)
        self._tile_steps[trodden] = 0
        if self.aims is not None:
            report.aim_steps = self.aims.take_steps()
        report.delta = self.starter.take_delta()
        return report

    def start_trace(self, steps: int) -> None:
        self._recorder.record(steps, self.age)

    def trace(self) -> Trace | None:
        return self._recorder.take_trace()

    def state_dict(self) -> dict[str, Any]:
        """Saves every emulator, and loads what was saved.

        Loading releases held buttons, so that whoever goes on from this state and this environment itself
        play the same from here.
        """
        states = [self.batch.save(slot) for slot in range(self.num_slots)]
        for slot, state in enumerate(states):
            self.observer.load(self.batch, slot, state)
        return {
            "emulators": [np.frombuffer(state.to_bytes(), np.uint8) for state in states],
            **self.observer.state_dict(),
            "rewards": self.rewards.state_dict(),
            "obs": self._obs.copy(),
            "age": self.age.copy(),
            "reached": self._reached.tolist(),
            "at_start": self._at_start.tolist(),
            **self._recorder.state_dict(),
            "raw_return": self._raw_return.copy(),
            "starter": self.starter.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for slot, blob in enumerate(state["emulators"]):
            save = SaveState.from_bytes(blob.tobytes(), f"emulator {slot} of the checkpoint")
            self.observer.load(self.batch, slot, save)
        self.columns = self.profile.columns(self.batch.taps)
        self.observer.load_state_dict(state)
        self.rewards.load_state_dict(state["rewards"])
        self._obs[:] = state["obs"]
        self.age[:] = state["age"]
        self._reached[:] = state["reached"]
        self._at_start[:] = state["at_start"]
        self._recorder.load_state_dict(state)
        self._raw_return[:] = state["raw_return"]
        self.starter.load_state_dict(state["starter"])

    def close(self) -> None:
        self.batch.close()

    # What hints need

    @property
    def rooms_beside(self) -> NDArray[np.bool_]:
        """[N, 4]: whether the rooms up, right, down and left were entered in this episode."""
        return self.observer.encoder.history.rooms_beside

    def _ground(self, slot: int) -> Ground:
        """What a slot's room is made of."""
        return ground_of(self.batch.emulators[slot], self.profile)

    # Episodes

    def _end(self, slots: NDArray[np.intp]) -> None:
        self._report.finished_rooms += self.rewards.coverage.rooms[slots].tolist()
        self._report.finished_starts += self._recorder.names(slots)
        self._report.finished_milestones += (self._reached & ~self._at_start)[slots].tolist()

    def _begin(self, slots: NDArray[np.intp]) -> None:
        """Start an episode in `slots` and write its first observations into `_obs`."""
        for slot in slots.tolist():
            start = self.starter.choose(self._streams[slot])
            self._raw_return[slot] = start.state.raw_return
            self.batch.reset(slot, start.state)
            self._recorder.begin(slot, start.name)
        self.columns = self.profile.columns(self.batch.taps)
        self.rewards.reset(slots, self.columns)
        self.observer.begin(slots, self.columns, self._obs)
        self.starter.begin(slots, self.columns)
        self.age[slots] = 0
        self._reached[slots] = self._at_start[slots] = self.columns.milestones[slots]


def _milestone_bit(profile: Profile, key: str) -> int:
    bits = [bit for bit, milestone in enumerate(profile.milestones) if milestone.key == key]
    return sum(1 << bit for bit in bits)
