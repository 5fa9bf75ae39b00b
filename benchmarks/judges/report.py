"""Step 3: the same held-out pairs for judges that need no GPU, and the table of all.

    python benchmarks/judges/report.py --data build/judges

reads what `train.py` wrote and writes `benchmarks/judges/results.json`. Where summaries have changed since
the play, `--rules-read FOLDER` (the held-out play again, by today's `play.py`) gives the rule-based judge
those that it is made for.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from agreement import Floats, agreement, correct
from common import read_segments
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegressionCV
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from questloop.grpo.judge_data import OutcomeSegment
from questloop.grpo.judge_recipe import GRPO_STEPS, LEARNING_RATE, WARM_START_STEPS
from questloop.grpo.judge_text import condense
from questloop.judges import rules
from questloop.llm.routes import Role

RESULTS = Path(__file__).with_name("results.json")
COMMAND = (
    "python benchmarks/judges/play.py --seed 0 --episodes {train} --out build/judges/train && "
    "python benchmarks/judges/play.py --seed 1 --episodes {held_out} --out build/judges/held_out && "
    "python benchmarks/judges/train.py --model SMOLLM2 --seeds {seeds}{steps}{options} && "
    "python benchmarks/judges/report.py"
)
MOMENTS = ("before", "warm_start", "after")
STATES = ("far", "far_places", "nearer", "chosen")
"""what is measured of a judge that learned about states (`train.States.measure`)"""
DIFFERENCES = (
    ("small_llm_warm_start", "rule_based"),
    ("small_llm_after", "rule_based"),
    ("small_llm_warm_start", "rule_based_by_single_segments"),
    ("small_llm_after", "rule_based_by_single_segments"),
    ("small_llm_after_by_single_segments", "rule_based_by_single_segments"),
    ("small_llm_warm_start_by_single_segments", "rule_based_by_single_segments"),
    ("small_llm_warm_start", "logistic"),
    ("small_llm_warm_start", "logistic_on_words"),
    ("small_llm_after", "small_llm_warm_start"),
    ("small_llm_after", "logistic"),
    ("small_llm_after", "logistic_on_words"),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("build/judges"))
    parser.add_argument("--episodes", type=int, nargs=2, default=[0, 0], help="played: train, held out")
    parser.add_argument("--rules-read", type=Path, help="the held-out play with today's summaries")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    train, held_out = (read_segments(arguments.data / name) for name in ("train", "held_out"))
    runs = [
        json.loads(path.read_text("utf-8")) for path in sorted(arguments.data.glob("runs/seed_*/judge.json"))
    ]
    table = Table(runs, held_out)
    seen = [arguments.data / name / "observations.npz" for name in ("train", "held_out")]
    summaries = read_segments(arguments.rules_read) if arguments.rules_read else held_out
    if [(s.segment_id, s.outcome) for s in summaries] != [(s.segment_id, s.outcome) for s in held_out]:
        raise SystemExit(f"{arguments.rules_read}: not the play that the others are measured by")
    scores = np.array([rules_overall(segment.text) for segment in summaries])
    table.add_scores("rule_based", scores, pairs=False)
    table.add_pairs("rule_based", [None], [table.prefer(rules_prefer, summaries)])
    table.add_pairs("rule_based_by_single_segments", [None], [table.compared(scores)])
    if all(path.exists() for path in seen):
        features = [np.load(path)["features"] for path in seen]
        table.add_scores("logistic", logistic_on_observations(train, *features))
    table.add_scores("logistic_on_words", logistic_on_words(train, held_out))
    for moment in MOMENTS:
        finished = [run for run in runs if moment in run["said"]]
        if finished:
            table.add_language_model(f"small_llm_{moment}", moment, finished)
    played = dict(zip(("train", "held_out"), arguments.episodes, strict=True))
    document = {
        "command": COMMAND.format(
            seeds=" ".join(str(run["seed"]) for run in runs),
            steps=steps_of(runs[0]["steps"]),
            options="".join(f" --arg {option}" for option in runs[0].get("options", [])),
            **played,
        ),
        "seeds": [run["seed"] for run in runs],
        "rule_based_version": rules.VERSION,
        "held_out_pairs": len(table.episodes),
        "judges": table.judges,
        "minus": table.differences(),
        "segments": runs[0]["segments"] | {"held_out": len(held_out)},
        "episodes": {"train": episodes_of(train), "held_out": episodes_of(held_out)},
        "followed_by_a_milestone": {"train": followed(train), "held_out": followed(held_out)},
        "format_share": {
            moment: mean(run["said"][moment]["format_share"] for run in runs if moment in run["said"])
            for moment in MOMENTS
            if any(moment in run["said"] for run in runs)
        },
        "validation": {
            str(run["seed"]): {moment: said["validation"] for moment, said in run["said"].items()}
            for run in runs
        },
        "states": {
            str(run["seed"]): {name: said[name] for name in STATES}
            for run in runs
            if STATES[0] in (said := run["said"]["warm_start"])
        },
        "steps": {str(run["seed"]): run["steps"] for run in runs},
        "learning_rate": LEARNING_RATE,
        "training": training_figures(arguments.data / "runs", runs),
    }
    arguments.out.write_text(json.dumps(document, indent=1) + "\n", "utf-8")
    for name, judge in table.judges.items():
        interval = f"[{judge['low']:.3f}, {judge['high']:.3f}]"
        print(f"{name:34} {judge['accuracy']:.3f}  {interval}  {judge['by_seed']}")
    for name, value in document["minus"].items():
        print(f"{name:60} {value['accuracy']:+.3f}  [{value['low']:+.3f}, {value['high']:+.3f}]")


class Table:
    """Agreement of judges with the outcomes of the same held-out pairs, the better segment first.

    A judge that was trained several times has the mean of its hits at every pair; episodes are resampled once
    for all of its seeds.
    """

    def __init__(self, runs: list[dict], segments: list[OutcomeSegment]) -> None:
        if any(run["pairs"] != runs[0]["pairs"] for run in runs):
            raise SystemExit("the seeds were measured by different pairs; train again")
        index = {segment.segment_id: number for number, segment in enumerate(segments)}
        if [segment.segment_id for segment in segments] != runs[0]["milestone_segments"]:
            raise SystemExit("the held-out segments are not those that were measured; train again")
        self.segments = segments
        self.better, self.worse = np.array([[index[a], index[b]] for a, b in runs[0]["pairs"]]).T
        self.episodes = [
            (segments[a].episode_id, segments[b].episode_id)
            for a, b in zip(self.better, self.worse, strict=True)
        ]
        self.truth = np.array([segment.outcome for segment in segments])
        self.hits: dict[str, Floats] = {}
        self.judges: dict[str, dict] = {}

    def prefer(self, judge, segments: list[OutcomeSegment]) -> Floats:
        """Preferences of a judge that is a function of two texts."""
        return np.array(
            [judge(segments[a].text, segments[b].text) for a, b in zip(self.better, self.worse, strict=True)]
        )

    def compared(self, scores: Floats) -> Floats:
        """Preferences by the scores of single segments."""
        return 0.5 + (scores[self.better] - scores[self.worse]) / 2

    def add_pairs(self, name: str, seeds: list[int | None], preferences: list[Floats]) -> None:
        """A judge by its preferences for the better segment."""
        hits = [correct(one) for one in preferences]
        self.hits[name] = np.mean(hits, axis=0)
        by_seed = {
            str(s): round(float(h.mean()), 4) for s, h in zip(seeds, hits, strict=True) if s is not None
        }
        found = vars(agreement([self.hits[name]], [self.episodes])) | {"by_seed": by_seed}
        self.judges[name] = found | self.judges.get(name, {})

    def add_scores(self, name: str, scores: Floats, pairs: bool = True) -> None:
        """A judge by its scores of single segments."""
        self.judges[name] = {"milestone_auc": round(float(roc_auc_score(self.truth, scores)), 4)}
        if pairs:
            self.add_pairs(name, [None], [self.compared(scores)])

    def add_language_model(self, name: str, moment: str, runs: list[dict]) -> None:
        """The model asked about pairs in both orders, and about single segments that are then compared."""
        seeds = [run["seed"] for run in runs]
        singles = [np.array(run["said"][moment]["milestone"]) for run in runs]
        self.judges[name] = {"milestone_auc": mean(roc_auc_score(self.truth, one) for one in singles)}
        self.add_pairs(name, seeds, [np.array(run["said"][moment]["preferences"]) for run in runs])
        self.add_pairs(f"{name}_by_single_segments", seeds, [self.compared(one) for one in singles])

    def differences(self) -> dict[str, dict]:
        """Which judge is ahead of which, by how much, with intervals."""
        return {
            f"{one} - {other}": vars(agreement([self.hits[one] - self.hits[other]], [self.episodes]))
            for one, other in DIFFERENCES
            if one in self.hits and other in self.hits
        }


def steps_of(done: dict[str, int]) -> str:
    """The options of `train.py` for as many steps, where they are not the recipe's."""
    if done == {"warm_start": WARM_START_STEPS, "grpo": GRPO_STEPS}:
        return ""
    return f" --warm-start-steps {done['warm_start']} --grpo-steps {done['grpo']}"


def rules_overall(text: str) -> float:
    """The rule-based state judge's overall score."""
    return float(rules.judge(Role.STATE, text, None)["overall"] or 0.0)


def rules_prefer(first: str, second: str) -> float:
    """The rule-based judge's preference for the first of two segments."""
    return float(rules.compare(first, second)["overall"] or 0.5)


def logistic_on_observations(train: list[OutcomeSegment], features: Floats, held_out: Floats) -> Floats:
    """Log-odds of a milestone from the mean and the last observation of a segment."""
    model = make_pipeline(StandardScaler(), logistic(train, np.logspace(-4, 1, 6)))
    return model.fit(features, outcomes_of(train)).decision_function(held_out)


def logistic_on_words(train: list[OutcomeSegment], held_out: list[OutcomeSegment]) -> Floats:
    """Log-odds of a milestone from the words that the language model reads."""
    words = TfidfVectorizer(token_pattern=r"[^\s,]+", ngram_range=(1, 2), min_df=3, sublinear_tf=True)
    model = make_pipeline(words, logistic(train, np.logspace(0, 3, 4)))
    model.fit([condense(segment.text) for segment in train], outcomes_of(train))
    return model.decision_function([condense(segment.text) for segment in held_out])


def logistic(train: list[OutcomeSegment], strengths: Floats) -> LogisticRegressionCV:
    """A logistic regression whose strength is chosen over folds of episodes."""
    groups = np.array([segment.episode_id for segment in train])
    folds = list(GroupKFold(n_splits=5).split(groups, groups=groups))
    return LogisticRegressionCV(Cs=strengths, cv=folds, max_iter=2000, scoring="roc_auc")


def outcomes_of(segments: list[OutcomeSegment]) -> Floats:
    return np.array([segment.outcome for segment in segments])


def episodes_of(segments: list[OutcomeSegment]) -> int:
    return len({segment.episode_id for segment in segments})


def followed(segments: list[OutcomeSegment]) -> int:
    return sum(segment.outcome for segment in segments)


def mean(values) -> float:
    return round(float(np.mean(list(values))), 4)


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
