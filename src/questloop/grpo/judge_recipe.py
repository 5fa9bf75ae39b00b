"""The settings with which a small language model learns to judge (docs/explanation/judge-recipe.md)."""

from __future__ import annotations

from pathlib import Path

WARM_START_STEPS = 560
GRPO_STEPS = 26
LEARNING_RATE = 5e-5  # of GRPO

_RECIPE: dict[str, object] = {
    "reward_function": "judge_agreement,judge_format",
    "preprocess": "generic",
    "lora_r": 16,
    "warm_start_learning_rate": 1e-3,
    "learning_rate": LEARNING_RATE,
    "lr_scheduler_type": "constant",
    "per_device_train_batch_size": 64,
    "num_generations": 8,
    "max_completion_length": 4,
    "gradient_checkpointing": "false",
    "save_steps": 100,
}
_REWARD_WEIGHTS = ("1.0", "0.2")
# A generation serves this many batches of 64, so that a step learns from 256 completions.
_ACCUMULATION = 4


def judge_arguments(
    model: Path | str,
    dataset: Path | str,
    output_dir: Path | str,
    warm_start_steps: int = WARM_START_STEPS,
    grpo_steps: int = GRPO_STEPS,
    seed: int = 0,
) -> list[str]:
    """Arguments of the training script for a folder that `questloop judge export` wrote.

    >>> judge_arguments("smollm2", "judge-data", "out")[:6]
    ['--model', 'smollm2', '--dataset', 'judge-data', '--output_dir', 'out']
    """
    options = {
        "model": model,
        "dataset": dataset,
        "output_dir": output_dir,
        "warm_start_steps": warm_start_steps,
        "max_steps": grpo_steps,
        "seed": seed,
        **_RECIPE,
        "gradient_accumulation_steps": _ACCUMULATION,
    }
    flags = [part for name, value in options.items() for part in (f"--{name}", str(value))]
    return [*flags, "--reward_weights", *_REWARD_WEIGHTS]
