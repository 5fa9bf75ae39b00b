"""Step 2, on a GPU: fine-tune the small model as a judge, seed by seed, and ask it about the held-out pairs.

    python benchmarks/judges/train.py --data build/judges --model build/smollm2 --seeds 0 1 2

A seed's warm start and its GRPO learn from different episodes of `build/judges/train`, GRPO from the pairs
there of which the model is not sure. Where states lie beside the segments, the warm start learns from them
and from the places of the guide too, of which a tenth is held out. Writes `build/judges/runs/seed_N/` with
what the model says before, after the warm start and after GRPO (`--grpo-steps 0`: none) about
`build/judges/held_out`, each as soon as it is known. SIGTERM ends a phase early: its newest checkpoint is
measured.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

import torch
from common import (
    HELD_OUT_PAIRS,
    VALIDATION_PAIRS,
    VALIDATION_SHARE,
    pairs_of,
    parts,
    places,
    read_segments,
    read_states,
    the_guide,
)
from scipy.stats import spearmanr

from questloop.exit_codes import ExitCode
from questloop.grpo.arguments import parse
from questloop.grpo.callbacks import StopRequest
from questloop.grpo.checkpoints import newest_whole, write_json
from questloop.grpo.data import Row
from questloop.grpo.judge_data import (
    LABELS,
    STATE_TASKS,
    JudgedState,
    OutcomeSegment,
    Task,
    prompt,
    questions,
    state_questions,
)
from questloop.grpo.judge_recipe import GRPO_STEPS, WARM_START_STEPS, judge_arguments
from questloop.grpo.language_judge import LanguageJudge
from questloop.grpo.preflight import check
from questloop.grpo.train import main as train
from questloop.grpo.warm_start import warm_start
from questloop.judges.ahead import chosen_places

WARM_START_PAIRS = 20_000
GRPO_PAIRS = 4_000
STATE_PAIRS = 10_000
PLACE_DRAWS = 40
"""questions about a place, each with one of the two tenths around its score"""
SURE = 0.95
"""GRPO learns from pairs of which the right answer has less probability than this"""

Pair = tuple[OutcomeSegment, OutcomeSegment]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("build/judges"))
    parser.add_argument("--model", type=Path, required=True, help="folder of the model to start from")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--runs", type=Path, help="where to write; unset: DATA/runs")
    parser.add_argument("--warm-start-steps", type=int, default=WARM_START_STEPS)
    parser.add_argument("--grpo-steps", type=int, default=GRPO_STEPS)
    parser.add_argument("--work", type=Path, help="where checkpoints go; unset: beside the results")
    parser.add_argument(
        "--arg", action="append", default=[], metavar="NAME=VALUE", help="an option of the training script"
    )
    arguments = parser.parse_args()
    runs = arguments.runs or arguments.data / "runs"
    for seed in arguments.seeds:
        Run(arguments, seed, runs / f"seed_{seed}").train()


class Run:
    """One seed."""

    def __init__(self, arguments: argparse.Namespace, seed: int, out: Path) -> None:
        self.started = time.monotonic()
        self.model: Path = arguments.model
        self.steps = {"warm_start": arguments.warm_start_steps, "grpo": arguments.grpo_steps}
        self.options: list[str] = arguments.arg
        self.seed, self.out = seed, out
        self.work: Path = (arguments.work or out) / f"training_{seed}"
        self.out.mkdir(parents=True, exist_ok=True)
        self.parts = parts(read_segments(arguments.data / "train"), seed)
        self.held_out = read_segments(arguments.data / "held_out")
        self.pairs = pairs_of(self.held_out, HELD_OUT_PAIRS)
        self.validation = pairs_of(self.parts.validation, VALIDATION_PAIRS)
        self.states: States | None = None
        if (arguments.data / "train" / "states.jsonl").exists():
            self.states = States(arguments.data, seed)
        self.said: dict[str, dict] = {}
        self.done = {"warm_start": 0, "grpo": 0}

    def train(self) -> None:
        """Both phases, each measured."""
        self.keep("before", None)
        trained = self.work / "trained"
        taught = questions(
            self.parts.warm_start, (Task.PAIR, Task.MILESTONE), WARM_START_PAIRS, random.Random(self.seed)
        )
        if self.states is not None:
            taught += self.states.questions(random.Random(self.seed))
        adapter, whole = warm_start_alone(self.command(write(taught, self.work / "warm_start")))
        self.done["warm_start"] = last_step(trained / "warm_start")
        self.keep("warm_start", adapter)
        copy(trained / "warm_start" / "metrics.jsonl", self.out / "warm_start_metrics.jsonl")
        if not whole:
            raise SystemExit(ExitCode.PREEMPTED)
        if not self.steps["grpo"]:
            return

        unsure = self.unsure(adapter)
        print(f"seed {self.seed}: GRPO learns from {len(unsure)} pairs", flush=True)
        code = train(self.command(write(unsure, self.work / "grpo")))
        if code not in (ExitCode.DONE, ExitCode.PREEMPTED):
            raise SystemExit(code)
        adapter = newest_whole(trained) if code == ExitCode.PREEMPTED else trained
        if adapter is not None:
            self.done["grpo"] = last_step(trained)
            self.keep("after", adapter)
            copy(trained / "metrics.jsonl", self.out / "grpo_metrics.jsonl")
        if code == ExitCode.PREEMPTED:
            raise SystemExit(code)

    def command(self, dataset: Path) -> list[str]:
        """Arguments of the training script."""
        arguments = judge_arguments(
            self.model,
            dataset,
            self.work / "trained",
            warm_start_steps=self.steps["warm_start"],
            grpo_steps=self.steps["grpo"],
            seed=self.seed,
        )
        return [*arguments, *(part for option in self.options for part in f"--{option}".split("=", 1))]

    def unsure(self, adapter: Path) -> list[Row]:
        """Questions about pairs that the warm start has not seen and left open, or answered wrongly."""
        rows = questions(self.parts.grpo, (Task.PAIR,), GRPO_PAIRS, random.Random(self.seed))
        with Asked(self.model, adapter) as judge:
            p, _ = judge.probabilities([row["prompt"] for row in rows], LABELS[Task.PAIR])
        right = [p[index, row["labels"].index(row["answer"])] for index, row in enumerate(rows)]
        return [row for row, probability in zip(rows, right, strict=True) if probability < SURE]

    def keep(self, moment: str, adapter: Path | None) -> None:
        """Measure the model with this adapter, and write all that is known so far."""
        singles = [prompt(Task.MILESTONE, segment.text) for segment in self.held_out]
        with Asked(self.model, adapter) as judge:
            preferences = judge.preferences(texts(self.pairs))
            milestone, share = judge.probabilities(singles, LABELS[Task.MILESTONE])
            validation = judge.preferences(texts(self.validation))
            states = {} if self.states is None else self.states.measure(judge)
        self.said[moment] = {
            "preferences": [round(float(p), 5) for p in preferences],
            "milestone": [float(f"{p:.4g}") for p in milestone[:, 0]],
            "format_share": round(float(share.mean()), 4),
            "validation": round(float((validation > 0.5).mean()), 4),
            **states,
        }
        document = {
            "seed": self.seed,
            "pairs": [(better.segment_id, worse.segment_id) for better, worse in self.pairs],
            "milestone_segments": [segment.segment_id for segment in self.held_out],
            "said": self.said,
            "segments": {name: len(part) for name, part in vars(self.parts).items()},
            "steps": self.done,
            "options": self.options,
            "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
            "seconds": round(time.monotonic() - self.started, 1),
        }
        if adapter is not None:
            (self.out / moment).mkdir(exist_ok=True)
            for name in ("adapter_model.safetensors", "adapter_config.json"):
                copy(adapter / name, self.out / moment / name)
        write_json(self.out / "judge.json", document)
        shown = {name: value for name, value in states.items() if name != "places"}
        print(f"seed {self.seed}: {moment} {(preferences > 0.5).mean():.3f} {shown}", flush=True)


class States:
    """States that a judge learns from and is measured by, with what the rule-based judge says of them."""

    def __init__(self, data: Path, seed: int) -> None:
        self.guide = the_guide()
        self.places = places(self.guide)
        order = random.Random(seed).sample(self.places, len(self.places))
        count = round(VALIDATION_SHARE * len(order))
        self.places_held_out, self.places_taught = order[:count], order[count:]
        self.taught = read_states(data / "train")
        known = {state.cell_id for state in self.taught}
        self.held_out = [state for state in read_states(data / "held_out") if state.cell_id not in known]

    def questions(self, rng: random.Random) -> list[Row]:
        """What is taught: states of the play, places again and again, and pairs of either."""
        rows = state_questions(self.taught, STATE_TASKS, STATE_PAIRS, rng)
        rows += state_questions(self.places_taught, (Task.NEARER,), STATE_PAIRS, rng)
        rows += state_questions(self.places_taught * PLACE_DRAWS, (Task.FAR,), 0, rng)
        rng.shuffle(rows)
        return rows

    def measure(self, judge: LanguageJudge) -> dict[str, object]:
        """Of what was held out: rank correlation with the rule-based judge, pairs ordered as it does. Of all
        stages of the quest: the places chosen, and how many are its own."""
        tenths = self._tenths(judge, self.held_out)
        of_places = dict(
            zip((state.cell_id for state in self.places), self._tenths(judge, self.places), strict=True)
        )
        rules = chosen_places(self.guide, {state.cell_id: state.score for state in self.places})
        chosen = chosen_places(self.guide, of_places)
        unseen = [of_places[state.cell_id] for state in self.places_held_out]
        pairs = state_questions(self.held_out, (Task.NEARER,), HELD_OUT_PAIRS, random.Random(0))
        p, _ = judge.probabilities([row["prompt"] for row in pairs], LABELS[Task.NEARER])
        right = [(p[n, 0] > 0.5) == (row["answer"] == "A") for n, row in enumerate(pairs)]
        return {
            "far": _rank(tenths, self.held_out),
            "far_places": _rank(unseen, self.places_held_out),
            "nearer": round(sum(map(bool, right)) / len(right), 4),
            "chosen": f"{sum(a == b for a, b in zip(chosen, rules, strict=True))} of {len(rules)}",
            "places": [self.guide.names.get(place, "") for place in chosen],
        }

    @staticmethod
    def _tenths(judge: LanguageJudge, states: Sequence[JudgedState]) -> list[float]:
        p, _ = judge.probabilities([prompt(Task.FAR, state.text) for state in states], LABELS[Task.FAR])
        middles = [number + 0.5 for number in range(p.shape[1])]
        return [float(row @ middles) / p.shape[1] for row in p]


def _rank(said: Sequence[float], states: Sequence[JudgedState]) -> float:
    return round(float(spearmanr(said, [state.score for state in states]).statistic), 4)


class Asked:
    """The model with an adapter, or as it is, for as long as it is asked."""

    def __init__(self, model: Path, adapter: Path | None) -> None:
        from transformers import AutoModelForCausalLM, AutoTokenizer

        on_gpu = torch.cuda.is_available()
        loaded = AutoModelForCausalLM.from_pretrained(
            model, dtype=torch.bfloat16 if on_gpu else torch.float32
        )
        if adapter is not None:
            from peft import PeftModel

            loaded = PeftModel.from_pretrained(loaded, adapter).merge_and_unload()
        loaded = loaded.to("cuda" if on_gpu else "cpu")
        self.judge = LanguageJudge(loaded, AutoTokenizer.from_pretrained(model), batch_size=128)

    def __enter__(self) -> LanguageJudge:
        return self.judge

    def __exit__(self, *_: object) -> None:
        del self.judge
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


def warm_start_alone(command: list[str]) -> tuple[Path, bool]:
    """The supervised phase of the script, which goes on from it: its adapter, and whether it ended."""
    script, trainer = parse(command)
    stop = StopRequest()
    with stop.listening():
        plan = check(script, trainer)
        adapter = warm_start(script, trainer, plan, stop)
    for reward in plan.rewards:
        reward.close()
    gc.collect()
    torch.cuda.empty_cache()
    cut_off = newest_whole(Path(trainer.output_dir or ".") / "warm_start")
    if adapter is None and cut_off is None:
        raise SystemExit(ExitCode.PREEMPTED)
    return adapter or cut_off, adapter is not None


def write(rows: Sequence[Row], folder: Path) -> Path:
    """A dataset of the script."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return folder


def last_step(folder: Path) -> int:
    """The last step in a phase's metrics."""
    lines = (folder / "metrics.jsonl").read_text("utf-8").splitlines()
    return max(json.loads(line)["step"] for line in lines)


def texts(pairs: Sequence[Pair]) -> list[tuple[str, str]]:
    return [(better.text, worse.text) for better, worse in pairs]


def copy(source: Path, target: Path) -> None:
    shutil.copyfile(source, target)


if __name__ == "__main__":
    main()
