"""The table of AI feedback: from the runs of `feedback.yaml` to `feedback.json` and Markdown.

    PYTHONPATH=src python benchmarks/learning/run.py --experiment benchmarks/learning/feedback.yaml --jobs 2
    PYTHONPATH=src python benchmarks/learning/feedback.py runs/learning --write feedback.json
    PYTHONPATH=src python benchmarks/learning/feedback.py feedback.json --plot docs/pictures/feedback.png

Interquartile means over seeds with 95% bootstrap intervals, as in `report.py`.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from report import GOAL, Run, interquartile

EPISODES = 20
_DRAWN = {
    "hints": ("the guide's own aims", "#8a6d1b"),
    "judges": ("judges lead and shape", "#1f7a4d"),
    "judges_small": ("the same by a small\nlanguage model", "#2f62a8"),
    "none": ("no feedback", "#5b6672"),
    "astray": ("places exchanged", "#b3403a"),
}
"""What a line is called, and its colour."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+", help="folders of run.py, or a feedback.json")
    parser.add_argument("--write", type=Path, help="write the table as JSON here")
    parser.add_argument("--plot", type=Path, help="draw milestones over training here (needs matplotlib)")
    args = parser.parse_args()
    arms: dict[str, dict[str, Any]] = {}
    for path in args.runs:
        arms |= json.loads(path.read_text())["arms"] if path.is_file() else arms_of(path)
    if args.write:
        args.write.write_text(json.dumps({"arms": arms}, indent=1) + "\n")
    print(table(arms))
    if args.plot:
        plot(arms, args.plot)


def arms_of(folder: Path) -> dict[str, dict[str, Any]]:
    """Each arm's seeds in order, with what each seed reached; None where it never did."""
    arms: dict[str, dict[str, Any]] = {}
    runs = [json.loads(file.read_text()) for file in sorted(folder.glob("*.json"))]
    for run in sorted(runs, key=lambda run: run["seed"]):
        row = {
            "seeds": run["seed"],
            "steps": run["steps"],
            "first_essence_steps": run["milestone_steps"].get(GOAL),
            "first_essence_seconds": _seconds_to(run),
            "essences_of_20": sum(GOAL in episode["milestones"] for episode in _played(run)),
            "milestones_per_episode": sum(len(e["milestones"]) for e in _played(run)) / EPISODES,
            "milestones_by_epoch": [round(_milestones(epoch["training"]), 3) for epoch in run["epochs"]],
            "shaping_weights": [epoch["training"]["shaping_weight"] for epoch in run["epochs"]],
            "seconds": round(run["seconds"], 1),
        }
        arm = arms.setdefault(run["arm"], {name: [] for name in row})
        for name, value in row.items():
            arm[name].append(value)
    return arms


def _played(run: Run) -> list[dict[str, Any]]:
    """Evaluation as the agent was trained: with a planner where it had one."""
    modes = run["evaluation"]
    played: list[dict[str, Any]] = modes["planner_on" if run["settings"].get("PLANNER") else "planner_off"]
    assert len(played) == EPISODES
    return played


def _milestones(training: dict[str, Any]) -> float:
    """Of an epoch, per episode that ended in it; those of the episodes that still ran are in them too."""
    return float(sum(training["milestones"].values()) / max(training["episodes_finished"], 1))


def _seconds_to(run: Run) -> float | None:
    """Seconds of training until an episode first had the essence, from the pace of its epochs."""
    step, seconds = run["milestone_steps"].get(GOAL), 0.0
    if step is None:
        return None
    begun = 0
    for epoch in (each["training"] for each in run["epochs"]):
        if step <= epoch["step_end"]:
            share = (step - begun) / (epoch["step_end"] - begun)
            return round(seconds + share * epoch["seconds"], 1)
        seconds, begun = seconds + epoch["seconds"], epoch["step_end"]
    return None


def table(arms: dict[str, dict[str, Any]]) -> str:
    """A row per arm."""
    lines = [
        "| arm | seeds | steps | first essence in training, steps | seconds "
        "| first essence from power-on, of 20 | IQM (95%) | milestones per episode |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, arm in arms.items():
        if "essences_of_20" not in arm:  # cut off before it was evaluated
            continue
        essences = arm["essences_of_20"]
        cells = [
            name,
            str(len(arm["seeds"])),
            f"{arm['steps'][0]:,}",
            _middle(arm["first_essence_steps"]),
            _middle(arm["first_essence_seconds"]),
            ", ".join(map(str, essences)),
            interval(essences),
            interval(arm["milestones_per_episode"]),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def plot(arms: dict[str, dict[str, Any]], path: Path) -> None:
    """Milestones per episode over training: interquartile means over seeds, and their intervals."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axis = pyplot.subplots(figsize=(7.2, 3.6), layout="constrained")
    for name, (title, colour) in _DRAWN.items():
        if (arm := arms.get(name)) is None:
            continue
        scores = np.array(arm["milestones_by_epoch"], float)
        steps = np.arange(1, scores.shape[1] + 1) * arm["steps"][0] / scores.shape[1] / 1000
        middle, low, high = np.array([interquartile(column) for column in scores.T]).T
        axis.fill_between(steps, low, high, color=colour, alpha=0.2, linewidth=0)
        axis.plot(steps, middle, color=colour, marker="o", markersize=3)
        axis.annotate(
            title,
            (steps[-1], middle[-1]),
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
            color=colour,
        )
    axis.set_xlabel("thousand steps of training")
    axis.set_ylabel("milestones per episode")
    axis.set_ylim(bottom=0)
    axis.margins(x=0.02)
    axis.spines[["top", "right"]].set_visible(False)
    axis.grid(alpha=0.25)
    figure.savefig(path, dpi=160)
    pyplot.close(figure)


def _middle(values: list[float | None]) -> str:
    """The middle value and how many there are."""
    known = sorted(value for value in values if value is not None)
    if not known:
        return "never"
    middle = f"{known[len(known) // 2]:,.0f}"
    return middle if len(known) == len(values) else f"{middle} ({len(known)} of {len(values)})"


def interval(values: list[float]) -> str:
    """Interquartile mean and its interval."""
    point, low, high = interquartile(np.array(values, float))
    return f"{point:.1f} ({low:.1f} - {high:.1f})"


if __name__ == "__main__":
    main()
