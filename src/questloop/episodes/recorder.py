"""Cuts what runners record into segments, and keeps the record of every episode."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from questloop.episodes.boundary import Boundary, ends_episode
from questloop.episodes.open_episode import OpenEpisode
from questloop.episodes.png import decode_screen, encode_png
from questloop.episodes.replays import Replay
from questloop.episodes.segment import (
    SEGMENT_FRAMES,
    EpisodeOutcome,
    EpisodeRecord,
    Segment,
    SegmentEntry,
    milestone_names,
)
from questloop.episodes.trace import EpisodeStart, Trace
from questloop.errors import BadDataError
from questloop.game.screen import Screen
from questloop.storage.keys import EpisodeId, SegmentId

_STATE_VERSION = 1
_COLUMNS = ("action", "mode", "taps", "obs", "reward_parts")
_INPUTS = ("action", "mode")
_ENDS = {Boundary.TERMINATED: EpisodeOutcome.TERMINATED, Boundary.TRUNCATED: EpisodeOutcome.TRUNCATED}


class Recorder:
    """Takes traces of `slots` slots, whose numbers in the run start at `first_slot`, and cuts segments.

    An episode goes on across epochs: `state_dict()` at an epoch's end holds the open segments and the books
    of episodes, and the next epoch's recorder loads it. Milestones that hold after an episode's first step
    count as its start state's.
    """

    def __init__(
        self,
        slots: int,
        *,
        run: str,
        epoch: int,
        fence: int,
        reward_names: tuple[str, ...],
        milestone_names: tuple[str, ...],
        first_slot: int = 0,
        segment_steps: int = SEGMENT_FRAMES,
    ) -> None:
        """`segment_steps`: recorded frames of a segment, for episodes that begin from now on."""
        self.slots = slots
        self._segment_steps = segment_steps
        self._run, self.epoch, self._fence = run, epoch, fence
        self._reward_names, self._milestone_names = reward_names, milestone_names
        self._first_slot = first_slot
        self._ordinals = [0] * slots
        self._episodes: list[OpenEpisode | None] = [None] * slots
        self._ended: list[OpenEpisode] = []
        self._open: dict[str, NDArray[Any]] = {}  # [slots, SEGMENT_FRAMES, ...]
        self._filled = [0] * slots
        self._frames: list[dict[int, Screen]] = [{} for _ in range(slots)]
        self._reached: list[tuple[str, ...]] = [()] * slots
        self._rows: list[list[tuple[int, EpisodeId]]] = [[] for _ in range(slots)]  # of the last trace

    def add(self, trace: Trace) -> list[Segment]:
        """Record a trace; returns the segments it completed. Copies what it keeps.

        A trace of another process lies in memory that the two share. Whoever keeps a view of one picture
        keeps the whole rollout there, until Ray has to put rollouts on the disk.
        """
        self._check(trace)
        self._allocate(trace)
        pictures: list[dict[int, Screen]] = [{} for _ in range(self.slots)]
        for (t, slot), picture in trace.frames.items():
            pictures[slot][t] = picture
        done: list[Segment] = []
        for slot in range(self.slots):
            self._rows[slot] = []
            self._add_slot(trace, slot, pictures[slot], done)
        return done

    def episode_of(self, t: int, slot: int) -> str:
        """The id of the episode that step `t` of the last trace belongs to."""
        return str(next(episode for first, episode in reversed(self._rows[slot]) if first <= t))

    def mark_exported(self, segment_ids: Iterable[str]) -> None:
        """Note which segments the store has."""
        exported = set(segment_ids)
        for episode in self._touched():
            for name in exported & episode.entries.keys():
                episode.entries[name] = episode.entries[name].model_copy(update={"exported": True})

    def records(self) -> list[EpisodeRecord]:
        """The episodes that this epoch touched: those that ended, then those that go on."""
        return [episode.record() for episode in self._touched()]

    def replays(self) -> list[Replay]:
        """The inputs of the same episodes, but of those that a version without them began."""
        return [episode.replay() for episode in self._touched() if len(episode.action) == episode.steps]

    def state_dict(self) -> dict[str, NDArray[Any]]:
        """Open segments and the books of episodes that go on; arrays that need no pickle."""
        pictures = [
            (slot, step, encode_png(picture))
            for slot, frames in enumerate(self._frames)
            for step, picture in sorted(frames.items())
        ]
        meta = {
            "version": _STATE_VERSION,
            "run": self._run,
            "slots": self.slots,
            "reward_names": self._reward_names,
            "milestone_names": self._milestone_names,
            "ordinals": self._ordinals,
            "filled": self._filled,
            "reached": self._reached,
            "episodes": [episode and episode.to_json() for episode in self._episodes],
            "pictures": [(slot, step, len(png)) for slot, step, png in pictures],
        }
        state: dict[str, NDArray[Any]] = {
            f"open_{name}": np.concatenate([rows[slot, :count] for slot, count in enumerate(self._filled)])
            for name, rows in self._open.items()
        }
        state["meta"] = np.array(json.dumps(meta, allow_nan=False))
        for name in _INPUTS:
            joined = b"".join(getattr(episode, name) for episode in self._episodes if episode)
            state[f"inputs_{name}"] = np.frombuffer(joined, np.uint8)
        state["pictures"] = np.frombuffer(b"".join(png for *_, png in pictures), np.uint8)
        return state

    def go_on(self, epoch: int, fence: int) -> None:
        """Go on with the next epoch as one that loads this one's `state_dict` does, copying nothing."""
        self.epoch, self._fence = epoch, fence
        self._ended = []
        self._rows = [[] for _ in range(self.slots)]
        for episode in filter(None, self._episodes):
            episode.reloads.append(episode.steps)

    def load_state_dict(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Go on from the state of an earlier epoch's recorder.

        Raises `BadDataError` where it is of another run, number of slots, set of rewards or milestones.
        """
        meta = json.loads(str(state["meta"]))
        for name, own in [
            ("version", _STATE_VERSION),
            ("run", self._run),
            ("slots", self.slots),
            ("reward_names", list(self._reward_names)),
            ("milestone_names", list(self._milestone_names)),
        ]:
            if meta[name] != own:
                raise BadDataError(
                    f"recorder state: {name} was {meta[name]!r} and is {own!r}; resume with the settings "
                    "that the run began with, or start another run"
                )
        self._ordinals, self._filled = meta["ordinals"], meta["filled"]
        self._reached = [tuple(names) for names in meta["reached"]]
        self._episodes = [item and OpenEpisode.from_json(item) for item in meta["episodes"]]
        for name in _INPUTS:
            self._restore_inputs(name, state.get(f"inputs_{name}", np.zeros(0, np.uint8)).tobytes())
        for name in _COLUMNS:
            if f"open_{name}" in state:
                self._open[name] = self._spread(state[f"open_{name}"])
        self._frames = [{} for _ in range(self.slots)]
        data, at = state["pictures"].tobytes(), 0
        for slot, step, size in meta["pictures"]:
            self._frames[slot][step] = decode_screen(data[at : at + size])
            at += size

    def _restore_inputs(self, name: str, joined: bytes) -> None:
        """Cut the inputs of running episodes apart; a state of an earlier version has none."""
        at = 0
        for episode in self._episodes:
            if episode is not None:
                getattr(episode, name).extend(joined[at : at + episode.recorded])
                at += episode.recorded

    def _add_slot(self, trace: Trace, slot: int, pictures: dict[int, Screen], done: list[Segment]) -> None:
        steps = trace.shape[0]
        boundary = trace.boundary[:, slot]
        ends = [*np.flatnonzero(ends_episode(boundary)).tolist(), steps - 1]
        at = 0
        while at < steps:
            episode = self._episode_at(trace, at, slot, done)
            self._rows[slot].append((at, episode.id))
            stop = min(ends[0] + 1, at + episode.segment_steps - self._filled[slot])
            self._append(trace, at, stop, slot, episode, pictures)
            outcome = _ENDS.get(Boundary(boundary[stop - 1]))
            if outcome is not None:
                episode.outcome = outcome
            if outcome is not None or self._filled[slot] == episode.segment_steps:
                done.append(self._cut(slot, episode))
            if outcome is not None:
                self._end(slot, episode)
            if stop == ends[0] + 1:
                ends.pop(0)
            at = stop

    def _episode_at(self, trace: Trace, t: int, slot: int, done: list[Segment]) -> OpenEpisode:
        """The episode that step `t` belongs to; a new one where it is a first step."""
        episode = self._episodes[slot]
        if trace.episode_step[t, slot] != 0:
            assert episode is not None
            if self.epoch not in episode.epochs:
                episode.epochs.append(self.epoch)
            return episode
        if episode is not None:  # its runner was lost and began anew
            episode.outcome = EpisodeOutcome.ABANDONED
            if self._filled[slot]:
                done.append(self._cut(slot, episode))
            self._end(slot, episode)
        episode = OpenEpisode(
            id=EpisodeId(self._run, self.epoch, self._first_slot + slot, self._ordinals[slot]),
            epochs=[self.epoch],
            start=trace.starts.get((t, slot), EpisodeStart()),
            seen=int(trace.milestones[t, slot]),
            segment_steps=self._segment_steps,
        )
        self._ordinals[slot] += 1
        self._episodes[slot] = episode
        return episode

    def _append(
        self, trace: Trace, at: int, stop: int, slot: int, episode: OpenEpisode, pictures: dict[int, Screen]
    ) -> None:
        """Take steps `at` to `stop` of a slot into its open segment."""
        first = self._filled[slot]
        for name, rows in self._open.items():
            rows[slot, first : first + stop - at] = getattr(trace, name)[at:stop, slot]
        self._filled[slot] += stop - at
        for t in pictures.keys() & set(range(at, stop)):
            self._frames[slot][int(trace.episode_step[t, slot])] = pictures[t].copy()
        self._note_milestones(trace, at, stop, slot, episode)
        episode.takeovers += [each for t, n, each in trace.takeovers if n == slot and at <= t < stop]
        episode.raw_return += float(trace.reward_parts[at:stop, slot].sum(dtype=np.float64))
        episode.steps += stop - at
        for name in _INPUTS:
            getattr(episode, name).extend(getattr(trace, name)[at:stop, slot].tobytes())
        for t in range(at, stop):
            if (script := trace.scripts.get((t, slot))) is not None:
                episode.scripts[int(trace.episode_step[t, slot])] = script
        episode.last_taps = hashlib.sha256(trace.taps[stop - 1, slot].tobytes()).hexdigest()

    def _note_milestones(self, trace: Trace, at: int, stop: int, slot: int, episode: OpenEpisode) -> None:
        held = trace.milestones[at:stop, slot]
        if not int(np.bitwise_or.reduce(held)) & ~episode.seen:
            return
        for offset, mask in enumerate(held.tolist()):
            new = milestone_names(mask & ~episode.seen, self._milestone_names)
            episode.seen |= mask
            episode.milestones |= dict.fromkeys(new, int(trace.episode_step[at + offset, slot]))
            self._reached[slot] += new

    def _cut(self, slot: int, episode: OpenEpisode) -> Segment:
        """Turn the open segment of a slot into one of its own."""
        count = self._filled[slot]
        rows = {name: self._open[name][slot, :count].copy() for name in _COLUMNS}
        segment = Segment(
            id=SegmentId(episode.id, len(episode.entries), self._fence),
            epoch=self.epoch,
            first_step=episode.steps - count,
            last=episode.outcome is not EpisodeOutcome.RUNNING,
            reward_names=self._reward_names,
            milestones=self._reached[slot],
            frames=self._frames[slot],
            start=episode.start,
            **rows,
        )
        episode.entries[str(segment.id)] = SegmentEntry(
            segment_id=str(segment.id),
            epoch=segment.epoch,
            index=segment.id.index,
            first_step=segment.first_step,
            frames=count,
            raw_return=segment.raw_return,
            milestones=segment.milestones,
        )
        self._filled[slot], self._frames[slot], self._reached[slot] = 0, {}, ()
        return segment

    def _end(self, slot: int, episode: OpenEpisode) -> None:
        self._ended.append(episode)
        self._episodes[slot] = None

    def _touched(self) -> list[OpenEpisode]:
        going_on = [episode for episode in self._episodes if episode and self.epoch in episode.epochs]
        return [*self._ended, *going_on]

    def _allocate(self, trace: Trace) -> None:
        for name in _COLUMNS:
            source = getattr(trace, name)
            shape = (self.slots, SEGMENT_FRAMES, *source.shape[2:])
            if name not in self._open:
                self._open[name] = np.zeros(shape, source.dtype)
            if self._open[name].shape != shape:
                raise ValueError(f"trace.{name} is {source.shape}, {self._open[name].shape[2:]} was recorded")

    def _spread(self, joined: NDArray[Any]) -> NDArray[Any]:
        rows = np.zeros((self.slots, SEGMENT_FRAMES, *joined.shape[1:]), joined.dtype)
        at = 0
        for slot, count in enumerate(self._filled):
            rows[slot, :count] = joined[at : at + count]
            at += count
        return rows

    def _check(self, trace: Trace) -> None:
        """Every step is one more than the last, or 0 after an episode's end."""
        _, slots = trace.shape
        if slots != self.slots or trace.reward_parts.shape[2] != len(self._reward_names):
            raise ValueError(
                f"a trace of {slots} slots and {trace.reward_parts.shape[2]} reward parts; "
                f"the recorder has {self.slots} and {len(self._reward_names)}"
            )
        ended = ends_episode(trace.boundary)
        step = trace.episode_step
        wrong = np.argwhere(step[1:] != np.where(ended[:-1], 0, step[:-1] + 1)) + np.array([1, 0])
        if len(wrong) == 0:
            expected = [episode.steps if episode else 0 for episode in self._episodes]
            wrong = np.array([(0, slot) for slot in range(slots) if step[0, slot] not in (0, expected[slot])])
        if len(wrong):
            t, slot = wrong[0]
            raise ValueError(
                f"trace: slot {slot} is at episode step {step[t, slot]} at row {t}, which does not follow"
            )
