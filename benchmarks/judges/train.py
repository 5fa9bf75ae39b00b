"""Step 2, on a GPU: fine-tune the small model as a judge, seed by seed, and ask it about held-out pairs.

    python benchmarks/judges/train.py --data build/judges --model build/smollm2 --seeds 0 1 2

writes `build/judges/runs/seed_N/` with the probabilities before, after the warm start and after GRPO, each as
soon as it is known. SIGTERM during GRPO ends it early: its newest checkpoint is measured.
"""

from __future__ import annotations

import argparse
import gc
import json
import shutil
import time
from pathlib import Path

import torch
from common import dataset_of, held_out_pairs, read_segments

from questloop.exit_codes import ExitCode
from questloop.grpo.arguments import parse
from questloop.grpo.callbacks import StopRequest
from questloop.grpo.checkpoints import newest_whole, write_json
from questloop.grpo.judge_data import Task
from questloop.grpo.judge_eval import LanguageJudge
from questloop.grpo.judge_recipe import GRPO_STEPS, WARM_START_STEPS, judge_arguments
from questloop.grpo.preflight import check
from questloop.grpo.train import main as train
from questloop.grpo.warm_start import warm_start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("build/judges"))
    parser.add_argument("--model", type=Path, required=True, help="folder of the model to start from")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--runs", type=Path, help="where to write; unset: DATA/runs")
    parser.add_argument("--warm-start-steps", type=int, default=WARM_START_STEPS)
    parser.add_argument("--grpo-steps", type=int, default=GRPO_STEPS)
    parser.add_argument("--learning-rate", type=float, help="of GRPO; unset: the recipe's")
    parser.add_argument("--work", type=Path, help="where checkpoints go; unset: beside the results")
    arguments = parser.parse_args()
    for seed in arguments.seeds:
        out = (arguments.runs or arguments.data / "runs") / f"seed_{seed}"
        out.mkdir(parents=True, exist_ok=True)
        run_seed(arguments, seed, out)


def run_seed(arguments: argparse.Namespace, seed: int, out: Path) -> None:
    """Train one seed and write what the judge says before, in between and after."""
    started = time.monotonic()
    segments = read_segments(arguments.data)
    dataset = dataset_of(segments, seed)
    work = (arguments.work or out) / f"training_{seed}"
    dataset.write(work / "dataset")
    texts = {segment.segment_id: segment.text for segment in segments}
    ids = held_out_pairs(dataset)
    pairs = [(texts[better], texts[worse]) for better, worse in ids]
    singles = [row for row in dataset.held_out if row["task"] == Task.MILESTONE]
    said = {"before": ask(arguments.model, None, pairs, singles)}
    print(f"seed {seed}: before {accuracy(said['before']):.3f}", flush=True)

    steps = {"warm_start_steps": arguments.warm_start_steps, "grpo_steps": 0}
    document = {
        "seed": seed,
        "pairs": ids,
        "milestone_segments": [row["segments"][0] for row in singles],
        "said": said,
        "about": dataset.about,
        "steps": steps,
        "learning_rate": arguments.learning_rate,
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
    }

    def keep(moment: str, adapter: Path, metrics: Path, phase: str) -> None:
        said[moment] = ask(arguments.model, adapter, pairs, singles)
        for name in ("adapter_model.safetensors", "adapter_config.json"):
            shutil.copyfile(adapter / name, out / name)
        shutil.copyfile(metrics, out / f"{phase}_metrics.jsonl")
        write_json(out / "judge.json", document | {"seconds": round(time.monotonic() - started, 1)})
        print(f"seed {seed}: {moment} {accuracy(said[moment]):.3f}", flush=True)

    trained = work / "trained"
    options = {
        "warm_start_steps": arguments.warm_start_steps,
        "grpo_steps": arguments.grpo_steps,
        "seed": seed,
    }
    command = judge_arguments(arguments.model, work / "dataset", trained, **options)
    if arguments.learning_rate is not None:
        command += ["--learning_rate", str(arguments.learning_rate)]
    warm = warm_start_alone(command)
    keep("warm_start", warm, trained / "warm_start" / "metrics.jsonl", "warm_start")
    code = train(command)
    adapter = newest_whole(trained) if code == ExitCode.PREEMPTED else trained
    if code not in (ExitCode.DONE, ExitCode.PREEMPTED) or adapter is None:
        raise SystemExit(code)
    lines = [json.loads(line) for line in (trained / "metrics.jsonl").read_text("utf-8").splitlines()]
    steps["grpo_steps"] = max(line["step"] for line in lines)
    keep("after", adapter, trained / "metrics.jsonl", "grpo")
    if code == ExitCode.PREEMPTED:
        raise SystemExit(code)


def warm_start_alone(command: list[str]) -> Path:
    """The supervised phase of the script, which takes it over afterwards; returns the adapter's folder."""
    script, trainer = parse(command)
    stop = StopRequest()
    with stop.listening():
        plan = check(script, trainer)
        adapter = warm_start(script, trainer, plan, stop)
    for reward in plan.rewards:
        reward.close()
    gc.collect()
    torch.cuda.empty_cache()
    if adapter is None:
        raise SystemExit(ExitCode.PREEMPTED)
    return adapter


def ask(model: Path, adapter: Path | None, pairs: list[tuple[str, str]], singles: list[dict]) -> dict:
    """Preferences for the first of each pair over both orders, and p(yes) of single segments."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    on_gpu = torch.cuda.is_available()
    loaded = AutoModelForCausalLM.from_pretrained(model, dtype=torch.bfloat16 if on_gpu else torch.float32)
    if adapter is not None:
        from peft import PeftModel

        loaded = PeftModel.from_pretrained(loaded, adapter)
    judge = LanguageJudge(loaded.to("cuda" if on_gpu else "cpu"), AutoTokenizer.from_pretrained(model))
    preferences = judge.preferences(pairs)
    milestone, share = judge.probabilities([row["prompt"] for row in singles], singles[0]["labels"])
    del judge, loaded
    gc.collect()
    if on_gpu:
        torch.cuda.empty_cache()
    return {
        "preferences": [round(float(p), 5) for p in preferences],
        "milestone": [round(float(p), 5) for p in milestone[:, 0]],
        "format_share": round(float(share.mean()), 4),
    }


def accuracy(said: dict) -> float:
    """Share of the pairs where the better one is preferred; a tie is half."""
    return sum(1.0 if p > 0.5 else 0.5 if p == 0.5 else 0.0 for p in said["preferences"]) / len(
        said["preferences"]
    )


if __name__ == "__main__":
    main()
