"""The two loads of the benchmark: Mossgrove as it ships, and Mossgrove using up half of each frame.

A game that halts until VBlank, as Mossgrove does, is emulated several times faster than most commercial ones.
Its `busy_mode` byte stands for their load; it is set in the start state, so that it outlives every reset.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing.connection import Connection

import numpy as np

from questloop.env.game_env import GameEnv
from questloop.env.streams import slot_streams
from questloop.game.batch import GameBatch
from questloop.game.emulator import Emulator
from questloop.game.profiles import profile_for
from questloop.game.rom import Rom
from questloop.game.start_states import StartStates, beginnings
from questloop.settings import Settings, load

BUSY_MODE = 0xC3F0
SLOTS = 32
FRAME_SKIP = 4


def bench_starts(busy: bool) -> StartStates:
    """The beginning of Mossgrove, under one of the two loads."""
    rom = Rom.load(None)
    profile = profile_for(rom)
    (start,) = beginnings(rom, profile)
    emulator = Emulator(rom, profile.layout)
    emulator.load(start.state)
    emulator.poke(BUSY_MODE, bytes([busy]))
    state = emulator.save()
    emulator.close()
    return StartStates((replace(start, state=state),))


def bench_env(slots: int, starts: StartStates, settings: Settings | None = None) -> GameEnv:
    """The composed environment, every episode from `starts`."""
    settings = settings or load()
    env = GameEnv(slots, settings.game, settings.rewards, starts=starts)
    env.seed(slot_streams(0, 0, slots))
    return env


class RawEmulators:
    """`cores` processes that only tick: what no trainer on this machine can exceed."""

    def __init__(self, cores: int, starts: StartStates, frame_skip: int = FRAME_SKIP) -> None:
        context = multiprocessing.get_context("spawn")
        self.core_shares: list[float] = []
        """of every measurement, the smallest share of a core that a process had"""
        self._ends: list[Connection] = []
        self._processes = []
        for _ in range(cores):
            ours, theirs = context.Pipe()
            process = context.Process(target=_tick_on_request, args=(theirs, starts, frame_skip), daemon=True)
            process.start()
            self._ends.append(ours)
            self._processes.append(process)
        for end in self._ends:
            end.recv()

    def steps_per_second(self, seconds: float, processes: int | None = None) -> float:
        """Steps per second of so many processes together (unset: all)."""
        ends = self._ends[:processes]
        for end in ends:
            end.send(seconds)
        rates, shares = zip(*(end.recv() for end in ends), strict=True)
        self.core_shares.append(min(shares))
        return float(sum(rates))

    def close(self) -> None:
        """End the processes."""
        for end in self._ends:
            end.send(None)
        for process in self._processes:
            process.join(10)


def _tick_on_request(end: Connection, starts: StartStates, frame_skip: int) -> None:
    rom = Rom.load(None)
    batch = GameBatch(rom, profile_for(rom).layout, SLOTS, frame_skip)
    for slot in range(SLOTS):
        batch.reset(slot, starts.states[0].state)
    end.send(None)
    while (seconds := end.recv()) is not None:
        end.send(_tick(batch, seconds, frame_skip))
    batch.close()
    end.close()


def _tick(batch: GameBatch, seconds: float, frame_skip: int) -> tuple[float, float]:
    """Steps per second, and the share of a core that this process had meanwhile."""
    steps, began, worked = 0, time.perf_counter(), time.process_time()
    while (elapsed := time.perf_counter() - began) < seconds:
        for emulator in batch.emulators:
            emulator.tick(frame_skip)
        steps += SLOTS
    return steps / elapsed, (time.process_time() - worked) / elapsed


def env_step_ratio(starts: StartStates, rounds: int, vector_steps: int) -> list[float]:
    """CPU time of raw ticks over CPU time of `GameEnv.step`, a round each.

    The same emulators do both in turn, a vector step each: the machine's speed and the play drift alike.
    """
    env = bench_env(SLOTS, starts)
    actions = np.random.default_rng(0).integers(0, 8, (vector_steps, SLOTS)).astype(np.uint8)
    obs = np.zeros((SLOTS, *env.observation_shape), np.float32)
    reward, boundary = np.zeros(SLOTS, np.float32), np.zeros(SLOTS, np.uint8)
    env.reset(obs)

    def step(row: np.ndarray) -> None:
        env.step(row, obs, reward, boundary)

    def tick(_: np.ndarray) -> None:
        for emulator in env.batch.emulators:
            emulator.tick(FRAME_SKIP)

    for row in actions[:20]:
        step(row)
    ratios = []
    for _ in range(rounds):
        seconds = [(_cpu_seconds(tick, row), _cpu_seconds(step, row)) for row in actions]
        ticking, stepping = np.sum(seconds, axis=0)
        ratios.append(float(ticking / stepping))
    env.close()
    return ratios


def state_seconds(starts: StartStates, rounds: int) -> tuple[list[float], list[float]]:
    """Seconds to save and to load a state."""
    rom = Rom.load(None)
    emulator = Emulator(rom, profile_for(rom).layout)
    emulator.load(starts.states[0].state)
    saves, loads = [], []
    for _ in range(rounds):
        began = time.perf_counter()
        state = emulator.save()
        between = time.perf_counter()
        emulator.load(state)
        saves.append(between - began)
        loads.append(time.perf_counter() - between)
    emulator.close()
    return saves, loads


def emulator_mb(starts: StartStates, emulators: int = 16, frames: int = 0) -> tuple[float, float]:
    """Memory an emulator beyond the first, MB, fresh and after `frames` frames of each.

    Measured in a new process: this one may have freed memory to use again.
    """
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(_emulator_mb, starts, emulators, frames).result()


def _emulator_mb(starts: StartStates, emulators: int, frames: int) -> tuple[float, float]:
    env = bench_env(1, starts)
    obs = np.zeros((emulators, *env.observation_shape), np.float32)
    env.reset(obs[:1])
    before = resident_mb()
    many = bench_env(emulators, starts)
    many.reset(obs)
    fresh = (resident_mb() - before) / emulators
    for _ in range(frames // FRAME_SKIP):
        for emulator in many.batch.emulators:
            emulator.tick(FRAME_SKIP)
    after = (resident_mb() - before) / emulators
    many.close()
    env.close()
    return fresh, after


def resident_mb() -> float:
    """Resident memory of this process, MB."""
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def _cpu_seconds(work: Callable[[np.ndarray], None], row: np.ndarray) -> float:
    began = time.process_time()
    work(row)
    return time.process_time() - began
