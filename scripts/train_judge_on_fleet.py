"""A judge by way of the fleet: submit, watch, fetch the adapter, measure it on what was held out.

    questloop fleet up                                       # in another terminal, in the same folder
    questloop judge base runs/smollm2
    questloop judge export --out runs/judge-data
    python scripts/train_judge_on_fleet.py --model runs/smollm2 --dataset runs/judge-data --out runs/judge

Further arguments are options of the job, for example `--arg grpo_steps=30 --arg use_cpu=true --gpus 0`. The
model's folder must be there under this path on the machine that takes the job.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

from questloop.fleet.jobs import new_job_id
from questloop.grpo.judge_data import Task
from questloop.grpo.language_judge import LanguageJudge


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--model", type=Path, required=True, help="folder of the model to start from")
    parser.add_argument("--dataset", type=Path, required=True, help="folder that `judge export` wrote")
    parser.add_argument("--out", type=Path, required=True, help="where the adapter goes")
    arguments, more = parser.parse_known_args()
    model, job = arguments.model.resolve(), new_job_id()
    rows = (arguments.dataset / "held_out.jsonl").read_text("utf-8").splitlines()
    pairs = [row for row in map(json.loads, rows) if row["task"] == Task.PAIR]

    train = arguments.dataset / "train.jsonl"
    submit = ["fleet", "submit", "--kind", "judge", "--job-id", job, "--model", model, "--dataset", train]
    questloop(*submit, "--wait", *more)
    questloop("fleet", "fetch", job, arguments.out)
    served = arguments.out / "judge.gguf"
    questloop("judge", "adapter", arguments.out, "--base", model, "--out", served)
    for name, adapter in (("before", None), ("after", arguments.out)):
        print(f"{name}: {accuracy(model, adapter, pairs):.3f} of {len(pairs)} held-out pairs")
    print(f"questloop judge serve --model smollm2 --adapter {served}")


def questloop(*arguments: object) -> None:
    """Run the command; ends this script where it fails."""
    command = [sys.executable, "-m", "questloop", *map(str, arguments)]
    print("$ questloop", *command[3:], flush=True)
    if code := subprocess.run(command).returncode:
        sys.exit(code)


def accuracy(model: Path, adapter: Path | None, pairs: list[dict]) -> float:
    """Share of the pairs' questions where the model gives the right letter more probability."""
    import torch
    from peft import PeftModel
    from transformers import AutoModelForCausalLM, AutoTokenizer

    loaded = AutoModelForCausalLM.from_pretrained(model)
    if adapter is not None:
        loaded = PeftModel.from_pretrained(loaded, adapter)
    loaded = loaded.to("cuda" if torch.cuda.is_available() else "cpu")
    judge = LanguageJudge(loaded, AutoTokenizer.from_pretrained(model), batch_size=8)
    p, _ = judge.probabilities([row["prompt"] for row in pairs], ("A", "B"))
    right = [(p[index, 0] > 0.5) == (row["answer"] == "A") for index, row in enumerate(pairs)]
    return sum(right) / len(right)


if __name__ == "__main__":
    main()
