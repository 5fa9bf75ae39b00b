"""The figures of a benchmark run: each with its median, its range and the value it should reach."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from statistics import median
from typing import Any

from questloop.machine import machine_cores, machine_memory_mb, processor_name

BUSY_LOAD = 0.5
"""Load a core, before the bench starts, above which figures are not to be trusted."""

RAW_MAY_MOVE = 0.1
CORE_SHARE = 0.95
"""What a machine that holds still keeps to: how far the raw limit may move between rounds, relative to its
median, and the share of a core that a process which only computes gets at least."""

_PACKAGES = ("pyboy", "ray", "torch", "numpy", "gymnasium", "stable-baselines3")


@dataclass(frozen=True)
class Figure:
    """Median, lowest and highest of several measurements; None where it was not measured, with the reason."""

    value: float | None
    low: float | None = None
    high: float | None = None
    target: float | None = None
    note: str = ""
    at_most: bool = False  # the target is an upper bound

    @classmethod
    def of(
        cls, values: Sequence[float], target: float | None = None, note: str = "", at_most: bool = False
    ) -> Figure:
        """The median of `values` and their range."""
        return cls(median(values), min(values), max(values), target, note, at_most)

    @classmethod
    def missing(cls, note: str, target: float | None = None) -> Figure:
        """A figure that was not measured."""
        return cls(None, target=target, note=note)

    @property
    def met(self) -> bool | None:
        """Whether it keeps to its target; None where there is none."""
        if self.value is None or self.target is None:
            return None
        return self.value <= self.target if self.at_most else self.value >= self.target

    def to_json(self) -> dict[str, Any]:
        """As the contract of `questloop bench --json` has it."""
        return {
            "value": self.value,
            "min": self.low,
            "max": self.high,
            "target": self.target,
            "note": self.note,
        }


def steadiness(limits: Sequence[Sequence[float]], core_shares: Sequence[float]) -> Figure:
    """1 where the machine held still while it was measured, else 0, with the reason.

    `limits`: raw steps per second by round, a sequence for every load of the game.
    """
    moved = max((max(each) - min(each)) / median(each) for each in limits)
    share = min(core_shares)
    steady = moved <= RAW_MAY_MOVE and share >= CORE_SHARE
    note = f"the raw limit moved by {moved:.0%}, its processes had {share:.0%} of a core or more"
    return Figure(float(steady), note=note)


@dataclass
class BenchReport:
    """A machine and what was measured on it."""

    machine: dict[str, Any]
    figures: dict[str, Figure] = field(default_factory=dict)

    @property
    def steady(self) -> bool:
        """Whether the machine held still; true where nothing was measured that could say so."""
        found = self.figures.get("steady")
        return found is None or found.value != 0

    def met(self, name: str) -> bool | None:
        """Whether a figure keeps to its target; None without one, or where the machine did not hold still."""
        return self.figures[name].met if self.steady else None

    def to_json(self) -> dict[str, Any]:
        """The document of `questloop bench --json`."""
        return {
            "machine": self.machine,
            "figures": {name: figure.to_json() for name, figure in self.figures.items()},
        }


def describe_machine() -> dict[str, Any]:
    """CPU, versions and load; `busy` where other work would spoil the figures."""
    load = os.getloadavg()[0]
    cores = machine_cores()
    return {
        "cpu": processor_name(),
        "cores": cores,
        "memory_mb": round(machine_memory_mb()),
        "load": round(load, 2),
        "busy": load > BUSY_LOAD * cores,
        "python": platform.python_version(),
        "versions": {name: found for name in _PACKAGES if (found := _version(name))},
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
