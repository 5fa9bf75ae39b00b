"""How fast GRPO runs on one GPU: TRL's plain settings against flags of the script, same batch and lengths.

    python benchmarks/judges/throughput.py --model build/smollm2 --out build/throughput.json

Every completion has exactly `LENGTH` tokens. A figure is the median over the steps but the first.
"""

from __future__ import annotations

import argparse
import gc
import json
from pathlib import Path

import torch

from questloop.grpo import graph_decoding
from questloop.grpo.train import main as train

BATCH, GENERATIONS, LENGTH = 256, 8, 128
PROMPTS = [f"Tell a short story about the number {number}." for number in range(64)]
COMMON = {
    "per_device_train_batch_size": BATCH,
    "num_generations": GENERATIONS,
    "max_completion_length": LENGTH,
    "generation_kwargs": json.dumps({"min_new_tokens": LENGTH}),
    "learning_rate": 1e-6,
    "save_strategy": "no",
    "report_to": "none",
    "reward_function": "repetition_penalty",
    "samples_per_log": 0,
}
_LEAN = {"gradient_checkpointing": "false", "dtype": "bfloat16"}
_GRAPHS = {"cuda_graphs": "true"}
VARIANTS: dict[str, dict[str, object]] = {
    "cuda_graphs": _GRAPHS,
    "bfloat16_and_cuda_graphs": _LEAN | _GRAPHS,
    "lora_and_cuda_graphs": {"gradient_checkpointing": "false", "lora_r": 16} | _GRAPHS,
    "bfloat16": _LEAN,
    "lora": {"gradient_checkpointing": "false", "lora_r": 16},
    "no_checkpointing": {"gradient_checkpointing": "false"},
    "static_cache": _LEAN | {"cache_implementation": "static"},
    "continuous_batching": _LEAN
    | {"use_transformers_continuous_batching": "true", "generation_kwargs": "{}"},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path("build/throughput.json"))
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--variants", nargs="*", default=list(VARIANTS))
    parser.add_argument("--work", type=Path, default=Path("build/throughput"))
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    prompts = arguments.work / "prompts.jsonl"
    rows = [{"prompt": [{"role": "user", "content": prompt}]} for prompt in PROMPTS]
    prompts.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    figures: dict[str, object] = {
        "device": torch.cuda.get_device_name(),
        "batch": [BATCH, LENGTH],
        "same_tokens_by_cuda_graphs": same_tokens(arguments.model),
    }
    for name in ["plain_trl", *arguments.variants]:
        folder = arguments.work / name
        torch.cuda.reset_peak_memory_stats()
        try:
            if name == "plain_trl":
                plain_trl(arguments.model, rows, folder, arguments.steps)
            else:
                ours(arguments.model, prompts, folder, arguments.steps, VARIANTS[name])
            figures[name] = summary(folder)
        except Exception as error:
            figures[name] = {"error": repr(error)[:300]}
        print(name, figures[name], flush=True)
        arguments.out.write_text(json.dumps(figures, indent=1), "utf-8")
        gc.collect()
        torch.cuda.empty_cache()


def same_tokens(folder: Path) -> float:
    """Share of greedily chosen tokens that are the same with recorded steps, in float32."""
    from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).to("cuda")
    tokenizer = AutoTokenizer.from_pretrained(folder, padding_side="left")
    ends = {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.eos_token_id}
    asked = {
        **tokenizer(["Once upon a time", "The", *PROMPTS[:6]], return_tensors="pt", padding=True).to("cuda"),
        "generation_config": GenerationConfig(max_new_tokens=64, min_new_tokens=64, do_sample=False, **ends),
    }
    return float((model.generate(**asked) == graph_decoding.generate(model, **asked)).float().mean())


def plain_trl(model: Path, rows: list[dict], folder: Path, steps: int) -> None:
    """TRL's trainer as it comes."""
    from datasets import Dataset
    from transformers import AutoTokenizer
    from trl import GRPOConfig, GRPOTrainer

    from questloop.grpo.callbacks import Metrics
    from questloop.grpo.rewards import repetition_penalty

    folder.mkdir(parents=True, exist_ok=True)
    config = GRPOConfig(
        output_dir=str(folder),
        per_device_train_batch_size=BATCH,
        num_generations=GENERATIONS,
        max_completion_length=LENGTH,
        generation_kwargs={"min_new_tokens": LENGTH},
        learning_rate=1e-6,
        max_steps=steps,
        logging_steps=1,
        save_strategy="no",
        report_to="none",
    )
    trainer = GRPOTrainer(
        model=str(model),
        reward_funcs=repetition_penalty,
        args=config,
        train_dataset=Dataset.from_list(rows),
        processing_class=AutoTokenizer.from_pretrained(model, padding_side="left"),
        callbacks=[Metrics("plain")],
    )
    trainer.train()


def ours(model: Path, prompts: Path, folder: Path, steps: int, flags: dict[str, object]) -> None:
    """The script with some flags."""
    options = COMMON | {"model": model, "dataset": prompts, "output_dir": folder, "max_steps": steps} | flags
    code = train([part for name, value in options.items() for part in (f"--{name}", str(value))])
    if code:
        raise SystemExit(f"the script ended with {code}")


def summary(folder: Path) -> dict[str, float]:
    """Medians of the steps after the first."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text("utf-8").splitlines()]
    steps = [line for line in lines if "completion_tokens_per_s" in line][1:]

    def median(name: str) -> float:
        return round(float(sorted(line[name] for line in steps)[len(steps) // 2]), 3)

    return {
        name: median(name) for name in ("completion_tokens_per_s", "step_time", "completions/mean_length")
    } | {"gpu_memory_peak_mb": max(line["gpu_memory_peak_mb"] for line in steps)}


if __name__ == "__main__":
    main()
