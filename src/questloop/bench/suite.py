"""Runs the whole benchmark in rounds; ratios compare contestants of the same round."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from statistics import median

import ray

from questloop.bench import game
from questloop.bench.figures import BenchReport, Figure, describe_machine, steadiness
from questloop.bench.ours import UPDATES, Ours, Parts
from questloop.bench.peers import Peer, StableBaselines3, StockRLlib
from questloop.bench.scaling import sampling_rates
from questloop.bench.waiting import waiting_figures
from questloop.errors import MissingExtraError
from questloop.game.start_states import StartStates
from questloop.machine import machine_cores
from questloop.training.cluster import start_local

Say = Callable[[str], None]

_ROUNDS, _ROUNDS_FULL = 3, 9
_RAW_SECONDS = 2.0
_RAY_SLOTS = 16  # actors of every contestant stay alive between rounds
_FULL_FRAMES = 30_000_000
_FIRST_DESIGN_EPOCHS = 10
_EXPORT_UPDATES = 36
_SKIPS = (8, 16)


@dataclass
class _Rounds:
    """Steps per second by contestant, one number per round."""

    rates: dict[str, list[float]] = field(default_factory=dict)
    core_shares: list[float] = field(default_factory=list)
    """of the processes that measure the raw limit"""

    def add(self, name: str, values: list[float]) -> None:
        self.rates.setdefault(name, []).append(median(values))

    def ratio(self, of: str, to: str, target: float | None = None) -> Figure:
        """Ratios within each round; missing where one of the two was not run."""
        if of not in self.rates or to not in self.rates:
            return Figure.missing(f"no {to}: pip install 'questloop[peers]'", target)
        pairs = zip(self.rates[of], self.rates[to], strict=True)
        return Figure.of([mine / theirs for mine, theirs in pairs], target)

    def rate(self, name: str, factor: float = 1.0, target: float | None = None) -> Figure:
        """Steps per second, times `factor`."""
        if name not in self.rates:
            return Figure.missing("not run", target)
        return Figure.of([factor * rate for rate in self.rates[name]], target)


def run_bench(full: bool = False, say: Say = lambda _: None) -> BenchReport:
    """Measure everything; minutes on a quiet machine, hours with `full`."""
    report = BenchReport(describe_machine())
    rounds = _ROUNDS_FULL if full else _ROUNDS
    say("start states")
    busy, shipped = game.bench_starts(True), game.bench_starts(False)
    say("environment step beside raw ticks")
    report.figures |= {
        "env_step_ratio": Figure.of(game.env_step_ratio(busy, rounds, 100), 0.85),
        "env_step_ratio_shipped": Figure.of(game.env_step_ratio(shipped, rounds, 200), 0.65),
    }
    report.figures |= _states_and_memory(shipped, full, say)
    if ray.is_initialized():
        ray.shutdown()
    start_local(_RAY_SLOTS)
    on_busy = _contest(busy, rounds, say, everything=True)
    on_shipped = _contest(shipped, rounds, say, everything=False)
    report.figures |= _training_figures(on_busy, on_shipped)
    for skip in _SKIPS:
        report.figures |= _at_skip(busy, skip, rounds, say)
    report.figures |= _export(busy, rounds, say)
    ray.shutdown()
    report.figures |= _scaling(rounds, say)
    say("commands, and a whole demo")
    report.figures |= waiting_figures()
    report.figures["steady"] = steadiness(
        [on_busy.rates["raw"], on_shipped.rates["raw"]], on_busy.core_shares + on_shipped.core_shares
    )
    return report


def _states_and_memory(starts: StartStates, full: bool, say: Say) -> dict[str, Figure]:
    say("save states and memory")
    saves, loads = game.state_seconds(starts, 20)
    emulators = 16
    fresh, after = game.emulator_mb(starts, emulators, _FULL_FRAMES // emulators if full else 20_000)
    return {
        "save_state_ms": Figure.of([1000 * seconds for seconds in saves]),
        "load_state_ms": Figure.of([1000 * seconds for seconds in loads]),
        "emulator_mb": Figure(
            after,
            min(fresh, after),
            max(fresh, after),
            target=30.0,
            at_most=True,
            note="fresh, and after 30 million frames" if full else "fresh, and after 320,000 frames",
        ),
    }


def _contest(starts: StartStates, rounds: int, say: Say, everything: bool) -> _Rounds:
    """Let all train in turn, on one load of the game."""
    load = "busy" if everything else "as shipped"
    found = _Rounds()
    cores = machine_cores()
    raw = game.RawEmulators(cores, starts)
    with ExitStack() as stack:
        stack.callback(raw.close)
        contestants: dict[str, Peer] = {}

        def enter(name: str, make: Callable[[], Peer]) -> None:
            say(f"{load}: starting {name}")
            contestants[name] = stack.enter_context(make())

        began = time.perf_counter()
        enter("ours", lambda: Ours(starts, Parts()))
        found.add("startup_s", [time.perf_counter() - began])
        enter("ours_without_rnd", lambda: Ours(starts, Parts(rnd=False)))
        enter("rllib", lambda: StockRLlib(starts, cores, game.SLOTS))
        try:
            enter("sb3", lambda: StableBaselines3(starts))
        except MissingExtraError as error:
            say(str(error))
        if everything:
            enter("first_design", lambda: StockRLlib(starts, cores, 1, _FIRST_DESIGN_EPOCHS))
        for name, contestant in contestants.items():
            if not isinstance(contestant, Ours):
                say(f"{load}: warming up {name}")
                contestant.run(1)
        for number in range(rounds):
            say(f"{load}: round {number + 1} of {rounds}")
            found.add("raw_one_core", [raw.steps_per_second(_RAW_SECONDS / 2, processes=1)])
            # The limit before and after what is compared with it: a shared machine's speed drifts.
            limits = [raw.steps_per_second(_RAW_SECONDS)]
            found.add("ours", contestants["ours"].run(UPDATES))
            limits.append(raw.steps_per_second(_RAW_SECONDS))
            found.add("raw", limits)
            for name in list(contestants)[1:]:
                found.add(name, contestants[name].run(1 if name == "first_design" else UPDATES))
        found.core_shares += raw.core_shares
    return found


def _at_skip(starts: StartStates, frame_skip: int, rounds: int, say: Say) -> dict[str, Figure]:
    """PPO with every default reward at more frames per step, beside the raw limit there."""
    found = _Rounds()
    raw = game.RawEmulators(machine_cores(), starts, frame_skip)
    with ExitStack() as stack:
        stack.callback(raw.close)
        ours = stack.enter_context(Ours(starts, Parts(), frame_skip=frame_skip))
        for number in range(rounds):
            say(f"{frame_skip} frames per step: round {number + 1} of {rounds}")
            limits = [raw.steps_per_second(_RAW_SECONDS)]
            found.add("ours", ours.run(UPDATES))
            limits.append(raw.steps_per_second(_RAW_SECONDS))
            found.add("raw", limits)
    return {
        f"ppo_ratio_skip{frame_skip}": found.ratio("ours", "raw", 0.8),
        f"steps_per_minute_skip{frame_skip}": found.rate("ours", 60),
    }


def _export(starts: StartStates, rounds: int, say: Say) -> dict[str, Figure]:
    """Epochs of half the default length with half the default budget, beside such without export.

    What an epoch's end waits for counts. Who goes first changes, since a machine's speed drifts.
    """
    found = _Rounds()
    with (
        Ours(starts, Parts()) as without,
        Ours(starts, Parts(export=True), epoch_updates=_EXPORT_UPDATES) as exporting,
    ):
        for number in range(rounds):
            say(f"export on and off: round {number + 1} of {rounds}")
            pair = [("off", without), ("on", exporting)]
            for name, ours in pair if number % 2 == 0 else reversed(pair):
                ours.run(_EXPORT_UPDATES)
                found.add(name, ours.epoch_rates[-1:])
            report = exporting.reports[-1]
            minutes = (report.step_end - report.step_start) / exporting.epoch_rates[-1] / 60
            found.add("segments", [report.segments / minutes])
            found.add("pngs", [report.pngs / minutes])
    return {
        "export_ratio": found.ratio("on", "off", 0.93),
        "export_on_steps_per_minute": found.rate("on", 60),
        "export_off_steps_per_minute": found.rate("off", 60),
        "export_segments_per_minute": found.rate("segments"),
        "export_pngs_per_minute": found.rate("pngs"),
    }


def _training_figures(busy: _Rounds, shipped: _Rounds) -> dict[str, Figure]:
    return {
        "raw_steps_per_second": busy.rate("raw"),
        "raw_steps_per_second_one_core": busy.rate("raw_one_core"),
        "raw_steps_per_second_shipped": shipped.rate("raw"),
        "ppo_ratio": busy.ratio("ours", "raw", 0.55),
        "ppo_ratio_shipped": shipped.ratio("ours", "raw"),
        "ppo_vs_rllib": busy.ratio("ours", "rllib", 1.5),
        "ppo_vs_rllib_shipped": shipped.ratio("ours", "rllib", 1.25),
        "ppo_vs_rllib_without_rnd": busy.ratio("ours_without_rnd", "rllib"),
        "ppo_vs_sb3": busy.ratio("ours_without_rnd", "sb3", 2.0),
        "ppo_vs_sb3_shipped": shipped.ratio("ours_without_rnd", "sb3", 1.0),
        "ppo_vs_first_design": busy.ratio("ours", "first_design", 6.0),
        "steps_per_minute": busy.rate("ours", 60, 250_000),
        "steps_per_minute_shipped": shipped.rate("ours", 60),
        "rllib_steps_per_minute": busy.rate("rllib", 60),
        "sb3_steps_per_minute": busy.rate("sb3", 60),
        "startup_s": busy.rate("startup_s"),
    }


def _scaling(rounds: int, say: Say) -> dict[str, Figure]:
    say("1, 2, 4 and 8 runners of an environment that sleeps")
    found = sampling_rates((1, 2, 4, 8), rounds)
    alone = median(found[1][0])
    figures = {
        f"runner_efficiency_{runners}": Figure.of(
            [rate / (runners * alone) for rate in rates], 0.8 if runners == 8 else None
        )
        for runners, (rates, _) in found.items()
        if runners > 1
    }
    figures["driver_ms_per_batch_8"] = Figure.of(found[8][1], note="beyond the slowest runner's own time")
    return figures
