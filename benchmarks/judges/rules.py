"""How well the rule-based judges foretell what follows: on fresh play, or on epochs of a store.

    python benchmarks/judges/rules.py --play 20 --episodes 160
    python benchmarks/judges/rules.py --store runs/demo

Each judge reads what it reads in the loop, the summary and the sheet of pictures, of the segments whose
outcome is known. Printed a judge: Kendall's tau-b, the area under the ROC curve with a 95 % interval
(episodes drawn again), and the Brier score of `overall` taken as the probability of a milestone, beside that
of always answering the base rate.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from play import segments
from scipy.stats import kendalltau
from sklearn.metrics import roc_auc_score

from questloop.episodes.outcomes import outcomes
from questloop.episodes.reader import SegmentReader
from questloop.judges import rules
from questloop.judges.agreement import krippendorff_alpha
from questloop.judges.calibration import brier
from questloop.judges.contact_sheet import sheet
from questloop.judges.request import Case, prepare
from questloop.judges.rubric import JUDGES
from questloop.settings import StoreSettings
from questloop.storage.commit import committed_epochs
from questloop.storage.keys import Stage
from questloop.storage.store import open_store

RESAMPLES = 1000


@dataclass(frozen=True)
class Judged:
    """A segment with a known outcome, and `overall` of each judge."""

    episode_id: str
    outcome: bool
    overall: dict[str, float]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--play", type=int, nargs="+", help="seeds")
    source.add_argument("--store", nargs="+", help="one store or several")
    parser.add_argument("--episodes", type=int, default=160, help="to play, a seed")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", type=Path, help="JSON file to write")
    arguments = parser.parse_args()
    judged = list(from_stores(arguments.store) if arguments.store else from_play(arguments))
    document = measure(judged)
    if arguments.out:
        arguments.out.write_text(json.dumps(document, indent=1) + "\n", "utf-8")
    print(
        f"{document['outcomes']} outcomes, {document['positive']} with a milestone, "
        f"{document['episodes']} episodes, alpha {document['alpha']}, "
        f"Brier {document['brier_base_rate']} for always the base rate"
    )
    for name, figures in document["judges"].items():
        print(
            f"{name:8} tau-b {figures['tau']:+.3f}  AUC {figures['auc']:.3f} "
            f"({figures['auc_low']:.3f} to {figures['auc_high']:.3f})  "
            f"Brier {figures['brier']:.3f}  mean {figures['mean']:.3f}"
        )


def from_stores(urls: list[str]) -> Iterator[Judged]:
    """The exported segments of every committed epoch."""
    for url in urls:
        store = open_store(StoreSettings(store_url=url))
        reader = SegmentReader(store)
        for epoch in committed_epochs(store, Stage.ROLLOUTS):
            known = outcomes(reader, epoch)
            for segment_id in reader.list(epoch):
                if segment_id in known:
                    yield judge(prepare(reader.load(segment_id)), known[segment_id])


def from_play(arguments: argparse.Namespace) -> Iterator[Judged]:
    """Segments of episodes as `play.py` plays them, with pictures."""
    work = [
        (seed, range(first, arguments.episodes, 4 * arguments.processes))
        for seed in arguments.play
        for first in range(4 * arguments.processes)
    ]
    with multiprocessing.get_context("spawn").Pool(arguments.processes) as pool:
        for part in pool.starmap(_play_part, work):
            yield from part


def _play_part(seed: int, numbers: range) -> list[Judged]:
    return [judge(prepare(segment), segment.outcome) for segment in segments(seed, numbers, pictured=True)]


def judge(case: Case, outcome: bool) -> Judged:
    """Ask the rules as the embedded server does."""
    picture = sheet(case.pictures)
    overall = {
        seat.name: float(
            rules.judge(seat.role, case.text, picture if seat.pictures else None)["overall"] or 0.0
        )
        for seat in JUDGES
    }
    return Judged(case.episode_id, outcome, overall)


def measure(judged: list[Judged]) -> dict:
    """Figures a judge, and of their mean."""
    truth = np.array([one.outcome for one in judged], dtype=float)
    table = {name: np.array([one.overall[name] for one in judged]) for name in judged[0].overall}
    alpha = krippendorff_alpha(np.array(list(table.values())))
    table["mean"] = np.mean(list(table.values()), axis=0)
    weights = drawn_again([one.episode_id for one in judged])
    return {
        "outcomes": len(truth),
        "positive": int(truth.sum()),
        "episodes": len({one.episode_id for one in judged}),
        "alpha": alpha,
        "brier_base_rate": round(float(truth.mean() * (1 - truth.mean())), 3),
        "judges": {name: _figures(score, truth, weights) for name, score in table.items()},
    }


def drawn_again(episodes: list[str]) -> np.ndarray:
    """Weights [RESAMPLES, segments] of a bootstrap over episodes."""
    _, index = np.unique(episodes, return_inverse=True)
    count = int(index.max()) + 1
    drawn = np.random.default_rng(0).multinomial(count, np.full(count, 1 / count), size=RESAMPLES)
    return drawn[:, index]


def _figures(score: np.ndarray, truth: np.ndarray, weights: np.ndarray) -> dict[str, float]:
    areas = [
        roc_auc_score(truth, score, sample_weight=row) for row in weights if len(set(truth[row > 0])) == 2
    ]
    low, high = np.quantile(areas, (0.025, 0.975))
    figures = {
        "tau": kendalltau(score, truth, variant="b").statistic,
        "auc": roc_auc_score(truth, score),
        "auc_low": low,
        "auc_high": high,
        "brier": brier(score, truth),
        "mean": score.mean(),
    }
    return {name: round(float(value), 3) for name, value in figures.items()}


if __name__ == "__main__":
    main()
