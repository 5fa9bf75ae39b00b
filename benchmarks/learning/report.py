"""Tables and plots of the runs in a folder: interquartile means over seeds with 95% bootstrap intervals.

The interquartile mean is rliable's (Agarwal et al. 2021: SciPy's trimmed mean). rliable's bootstrap does not
run with the pinned versions of pandas and arch, so the intervals are SciPy's, by percentiles.

    PYTHONPATH=src python benchmarks/learning/report.py runs/learning --plot docs/explanation/learning.png

`results.json`, which `--write` makes of a folder, can stand in the folder's place.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import bootstrap, trim_mean

GOAL = "essence_1"
REPEATS = 20_000
_MEASURES = ("judges", "gold", "potential", "trust")  # of a reward model, old runs and new
Run = dict[str, Any]


def essence_share(mode: str) -> Callable[[Run], float]:
    """Share of evaluation episodes with the first essence."""
    return lambda run: float(np.mean([GOAL in played["milestones"] for played in run["evaluation"][mode]]))


def milestones_an_episode(mode: str) -> Callable[[Run], float]:
    """Milestones reached in an evaluation episode."""
    return lambda run: float(np.mean([len(played["milestones"]) for played in run["evaluation"][mode]]))


MEASURES: dict[str, Callable[[Run], float]] = {
    "milestones in training": lambda run: len(run["milestone_steps"]),
    "rooms in training": lambda run: run["unique_rooms"],
    "thousand steps to the first essence": lambda run: (
        run["milestone_steps"].get(GOAL, run["steps"]) / 1000  # the budget where it was never reached
    ),
    "milestones per episode": milestones_an_episode("planner_off"),
    "episodes with the essence": essence_share("planner_off"),
    "milestones per episode, planner on": milestones_an_episode("planner_on"),
    "episodes with the essence, planner on": essence_share("planner_on"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("runs", type=Path, help="folder of run.py, or results.json")
    parser.add_argument("--short", action="store_true", help="only the table of seeds")
    parser.add_argument("--plot", type=Path, help="write a figure here")
    parser.add_argument("--write", type=Path, help="write the runs, without their epochs' details, here")
    args = parser.parse_args()
    runs = read(args.runs)
    if not args.short:
        print(table(runs) + "\n")
    print(seeds_table(runs))
    if args.plot:
        plot(runs, args.plot)
    if args.write:
        lines = ",\n".join(json.dumps(compact(run)) for run in runs)
        args.write.write_text(f"[\n{lines}\n]\n")


def read(path: Path) -> list[Run]:
    """All runs, arms in the experiment's order."""
    if path.is_file():
        return list(json.loads(path.read_text()))
    runs = [json.loads(file.read_text()) for file in path.glob("*.json")]
    order = ["events", "coverage", "rnd", "archive", "shaping", "all"]

    def place(run: Run) -> tuple[int, str, int]:
        return (order.index(run["arm"]) if run["arm"] in order else len(order), run["arm"], run["seed"])

    return sorted(runs, key=place)


def by_arm(runs: list[Run], measure: Callable[[Run], float]) -> dict[str, NDArray[np.float64]]:
    """Scores `[seeds]` of every arm."""
    arms = dict.fromkeys(run["arm"] for run in runs)
    return {arm: np.array([measure(run) for run in runs if run["arm"] == arm], float) for arm in arms}


def estimates(runs: list[Run], measure: Callable[[Run], float]) -> dict[str, tuple[float, float, float]]:
    """Interquartile mean and its 95% interval, by arm."""
    return {arm: interquartile(scores) for arm, scores in by_arm(runs, measure).items()}


def interquartile(scores: NDArray[np.float64]) -> tuple[float, float, float]:
    """Interquartile mean of scores [seeds], and the ends of its 95% interval."""
    point = float(iqm(scores))
    if len(scores) < 2 or np.ptp(scores) == 0:
        return point, point, point
    found = bootstrap((scores,), iqm, n_resamples=REPEATS, method="percentile", rng=0).confidence_interval
    return point, float(found.low), float(found.high)


def iqm(scores: NDArray[np.float64], axis: int = -1) -> Any:
    """Interquartile mean: of the middle half (Agarwal et al. 2021; rliable's `aggregate_iqm`)."""
    return trim_mean(scores, 0.25, axis=axis)


def table(runs: list[Run]) -> str:
    """Markdown: a row an arm, interquartile means over seeds with 95% intervals."""
    with_planner = all("planner_on" in run["evaluation"] for run in runs)
    columns = {
        name: estimates(runs, measure)
        for name, measure in MEASURES.items()
        if with_planner or not name.endswith("planner on")
    }
    lines = [
        f"| arm | seeds | {' | '.join(columns)} |",
        f"|---|---|{'---|' * len(columns)}",
    ]
    for arm, scores in by_arm(runs, MEASURES["rooms in training"]).items():
        cells = [_cell(*column[arm]) for column in columns.values()]
        lines.append(f"| {arm} | {len(scores)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(point: float, low: float, high: float) -> str:
    return f"{point:.3g} ({low:.3g} - {high:.3g})"


def seeds_table(runs: list[Run]) -> str:
    """Markdown: every run's evaluation."""
    lines = [
        "| arm | seed | first essence in training | essence, policy alone | with planner | milestones |",
        "|---|---|---|---|---|---|",
    ]
    for run in runs:
        first = run["milestone_steps"].get(GOAL)
        cells = [run["arm"], str(run["seed"]), f"{first:,}" if first else "-"]
        for mode in ("planner_off", "planner_on"):
            played = run["evaluation"].get(mode, [])
            cells.append(f"{sum(GOAL in episode['milestones'] for episode in played)} of {len(played)}")
        cells.append(f"{milestones_an_episode('planner_off')(run):.2f}")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def compact(run: Run) -> Run:
    """A run without what only its own reader needs."""
    kept = ("step_end", "return_per_1000_steps", "unique_rooms_per_episode", "milestones", "shaping_weight",
            "shaping_reason", "archive_cells", "curiosity_mean", "shaping_mean")  # fmt: skip
    epochs = []
    for epoch in run["epochs"]:
        found: dict[str, Any] = {name: epoch["training"][name] for name in kept}
        found["milestones"] = {name: count for name, count in found["milestones"].items() if count}
        found["entropy"] = epoch["training"]["losses"]["entropy"]
        if "judges" in epoch:
            found["judges"] = {"alpha": epoch["judges"]["alpha"], "tau": epoch["judges"]["tau"]}
            reading = epoch["reward_model"]["readings"][epoch["reward_model"]["reading"]]
            found["reward_model"] = {name: reading[name] for name in _MEASURES if name in reading}
        epochs.append(found)
    return run | {"epochs": epochs}


def plot(runs: list[Run], path: Path) -> None:
    """Interquartile means and intervals, an arm a row, of every measure in which arms differ."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    all_found = {name: estimates(runs, MEASURES[name]) for name in _PLOTTED}
    told = {name: found for name, found in all_found.items() if len(set(found.values())) > 1}
    figure, axes = pyplot.subplots(1, len(told), figsize=(3.4 * len(told), 2.6), sharey=True)
    for axis, (name, found) in zip(np.atleast_1d(axes), told.items(), strict=True):
        for row, (point, low, high) in enumerate(reversed(found.values())):
            axis.barh(row, high - low, left=low, height=0.55, color="#9bb8d3")
            axis.plot([point, point], [row - 0.28, row + 0.28], color="#1d3557", linewidth=2)
        axis.set_yticks(range(len(found)), list(reversed(found)))
        axis.set_title(name, fontsize=9)
        axis.grid(axis="x", alpha=0.3)
        axis.set_axisbelow(True)
        axis.margins(x=0.08)
        axis.use_sticky_edges = False
    figure.tight_layout()
    figure.savefig(path, dpi=130)


_PLOTTED = (
    "milestones in training",
    "rooms in training",
    "thousand steps to the first essence",
    "milestones per episode",
    "episodes with the essence",
)


if __name__ == "__main__":
    main()
