"""Step 3: the same held-out pairs for the rule-based judge and a logistic regression, and the table of all.

    python benchmarks/judges/report.py --data build/judges

reads what `train.py` wrote and writes `benchmarks/judges/results.json`.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from common import dataset_of, held_out_pairs, read_segments
from sklearn.linear_model import LogisticRegressionCV
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from questloop.grpo.judge_data import JudgedSegment, split_by_episode
from questloop.grpo.judge_eval import agreement, correct
from questloop.grpo.judge_recipe import LEARNING_RATE
from questloop.judges import rules
from questloop.llm.routes import Role

RESULTS = Path(__file__).with_name("results.json")
COMMAND = (
    "python benchmarks/judges/play.py --episodes 800 && "
    "python benchmarks/judges/train.py --model SMOLLM2 --seeds {seeds} && python benchmarks/judges/report.py"
)

DIFFERENCES = (
    ("small_llm_warm_start", "rule_based"),
    ("small_llm_warm_start", "logistic"),
    ("small_llm_after", "rule_based"),
    ("small_llm_after", "logistic"),
    ("small_llm_after", "small_llm_warm_start"),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("build/judges"))
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    segments = read_segments(arguments.data)
    features = np.load(arguments.data / "observations.npz")["features"]
    runs = [
        json.loads(path.read_text("utf-8")) for path in sorted(arguments.data.glob("runs/seed_*/judge.json"))
    ]
    hits: dict[str, dict[int, np.ndarray]] = {}
    aucs: dict[str, list[float]] = {}
    episode_of = {segment.segment_id: segment.episode_id for segment in segments}
    episodes = {run["seed"]: [(episode_of[a], episode_of[b]) for a, b in run["pairs"]] for run in runs}
    for run in runs:
        measured, auc = measure(run, segments, features)
        for name, values in measured.items():
            hits.setdefault(name, {})[run["seed"]] = values
        for name, value in auc.items():
            aucs.setdefault(name, []).append(value)

    def over_seeds(by_seed: dict[int, np.ndarray]) -> dict:
        """Agreement over the seeds that got so far: a run may have been cut off before GRPO ended."""
        found = agreement(list(by_seed.values()), [episodes[seed] for seed in by_seed])
        return vars(found) | {"by_seed": {str(s): round(float(v.mean()), 4) for s, v in by_seed.items()}}

    judges = {name: over_seeds(by_seed) for name, by_seed in hits.items()}
    for name, auc_by_seed in aucs.items():
        judges[name]["milestone_auc"] = round(float(np.mean(auc_by_seed)), 4)
    document = {
        "command": COMMAND.format(seeds=" ".join(str(run["seed"]) for run in runs)),
        "seeds": [run["seed"] for run in runs],
        "held_out_pairs": sum(len(run["pairs"]) for run in runs),
        "judges": judges,
        "segments": runs[0]["about"]["segments"],
        "episodes": runs[0]["about"]["episodes"],
        "followed_by_a_milestone": runs[0]["about"]["followed_by_a_milestone"],
        "format_share": {
            moment: round(
                float(
                    np.mean([run["said"][moment]["format_share"] for run in runs if moment in run["said"]])
                ),
                4,
            )
            for moment in ("before", "warm_start", "after")
        },
        "minus": {
            f"{one} - {other}": over_seeds(
                {
                    seed: values - hits[other][seed]
                    for seed, values in hits[one].items()
                    if seed in hits[other]
                }
            )
            for one, other in DIFFERENCES
        },
        "steps": {str(run["seed"]): run["steps"] | {"learning_rate": _rate(run)} for run in runs},
        "training": training_figures(arguments.data / "runs", runs),
    }
    arguments.out.write_text(json.dumps(document, indent=1) + "\n", "utf-8")
    for name, judge in judges.items():
        interval = f"[{judge['low']:.3f}, {judge['high']:.3f}]"
        print(f"{name:24} {judge['accuracy']:.3f}  {interval}  {judge['by_seed']}")


def measure(
    run: dict, segments: list[JudgedSegment], features: np.ndarray
) -> tuple[dict[str, np.ndarray], dict[str, float]]:
    """Hits of every judge on the pairs of one seed, and how well each ranks single segments (AUC)."""
    dataset = dataset_of(segments, run["seed"])
    if [list(pair) for pair in held_out_pairs(dataset)] != run["pairs"]:
        raise SystemExit(f"seed {run['seed']}: the pairs are not those that were trained on; train again")
    by_id = {segment.segment_id: index for index, segment in enumerate(segments)}
    logistic = logistic_scores(segments, features, run["seed"])
    rule = np.array([rules_overall(segment.text) for segment in segments])
    better = np.array([by_id[a] for a, _ in run["pairs"]])
    worse = np.array([by_id[b] for _, b in run["pairs"]])
    rule_based = [
        rules.compare(segments[a].text, segments[b].text)["overall"]
        for a, b in zip(better, worse, strict=True)
    ]
    hits = {
        "rule_based": correct(np.array(rule_based)),
        "logistic": correct(0.5 + (logistic[better] - logistic[worse])),
        **{
            f"small_llm_{moment}": correct(np.array(said["preferences"]))
            for moment, said in run["said"].items()
        },
    }
    singles = np.array([by_id[segment] for segment in run["milestone_segments"]])
    truth = np.array([segments[index].outcome for index in singles])
    auc = {
        "rule_based": roc_auc_score(truth, rule[singles]),
        "logistic": roc_auc_score(truth, logistic[singles]),
    }
    for moment, said in run["said"].items():
        auc[f"small_llm_{moment}"] = roc_auc_score(truth, said["milestone"])
    return hits, auc


def logistic_scores(segments: list[JudgedSegment], features: np.ndarray, seed: int) -> np.ndarray:
    """Probability of a milestone by logistic regression on observations of the training episodes."""
    train, _ = split_by_episode(segments, 0.25, seed)
    trained = {segment.segment_id for segment in train}
    rows = np.array([segment.segment_id in trained for segment in segments])
    outcomes = np.array([segment.outcome for segment in segments])
    groups = np.array([segment.episode_id for segment in segments])
    folds = list(GroupKFold(n_splits=5).split(features[rows], outcomes[rows], groups[rows]))
    model = make_pipeline(
        StandardScaler(),
        LogisticRegressionCV(Cs=np.logspace(-4, 1, 6), cv=folds, max_iter=2000, scoring="roc_auc"),
    )
    model.fit(features[rows], outcomes[rows])
    return model.predict_proba(features)[:, 1]


def rules_overall(text: str) -> float:
    """The rule-based state judge's overall score."""
    return float(rules.judge(Role.STATE, text, None)["overall"] or 0.0)


def _rate(run: dict) -> float:
    """The learning rate of GRPO."""
    given = run.get("learning_rate")
    return LEARNING_RATE if given is None else given


def training_figures(folder: Path, runs: list[dict]) -> dict:
    """Speed and memory of the GRPO phase, from the metrics of the runs."""
    rates, peaks, rewards = [], [], []
    finished = [run for run in runs if "after" in run["said"]]
    for run in finished:
        text = (folder / f"seed_{run['seed']}" / "grpo_metrics.jsonl").read_text("utf-8")
        lines = [line for line in map(json.loads, text.splitlines()) if "loss" in line]
        rates.append(float(np.median([line["completion_tokens_per_s"] for line in lines])))
        peaks.append(max(line.get("gpu_memory_peak_mb", 0) for line in lines))
        rewards.append(
            [round(float(np.mean([line["reward"] for line in part])), 3) for part in (lines[:5], lines[-5:])]
        )
    return {
        "seeds": [run["seed"] for run in finished],
        "device": runs[0]["device"],
        "seconds": [run["seconds"] for run in finished],
        "completion_tokens_per_s": [round(rate, 1) for rate in rates],
        "gpu_memory_peak_mb": peaks,
        "reward_first_and_last_5_steps": rewards,
    }


if __name__ == "__main__":
    main()
