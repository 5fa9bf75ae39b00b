"""Checks a training job before the model's weights load, so that a mistake costs seconds."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from questloop.errors import BadDataError, DiskFullError, QuestloopError, UnavailableError, UsageError
from questloop.exit_codes import ExitCode
from questloop.grpo import graph_decoding, needs
from questloop.grpo.arguments import ScriptArguments, TrainerArguments
from questloop.grpo.data import Row, check_columns, load_rows
from questloop.grpo.pipelines import prepare
from questloop.grpo.scoring import Reward, load_rewards

UNSLOTH_MISSING = (
    "--use_unsloth: unsloth is not installed here; it pins an older stack, so give it an environment of its "
    "own (docs/howto/grpo.md, Unsloth), or leave the flag out"
)
VLLM_MISSING = "--use_vllm: vllm is not installed here: pip install vllm, or leave the flag out"


class GpuMemoryError(QuestloopError):
    """The job needs more memory than the GPU has."""

    exit_code = ExitCode.OUT_OF_GPU_MEMORY


@dataclass(frozen=True)
class TrainingPlan:
    """What the checks found; the training starts from it."""

    rows: list[Row]
    rewards: list[Reward]
    tokenizer: Any
    dtype: torch.dtype
    parameters: int
    trainable: int
    memory_mb: int
    dataset_sha256: str


def check(script: ScriptArguments, trainer: TrainerArguments) -> TrainingPlan:
    """Check packages, rewards, data, model, disk and memory. Raises the error that says what to change."""
    _check_packages(script, trainer)
    _check_devices(trainer)
    if script.cuda_graphs:
        graph_decoding.check(trainer)
    _check_save_steps(trainer)
    needs.check(trainer)
    rewards = load_rewards(script.reward_function, trainer.reward_weights, script.reward_timeout_s)
    rows = _rows(script, rewards)
    _check_enough(len(rows), trainer, script.dataset)
    config, tokenizer = _load_config(script.model)
    _check_lengths(rows, tokenizer, config, trainer, script.dataset)
    dtype = _dtype(script, trainer)
    parameters, trainable = count_parameters(config, script.lora_r, script.lora_target_modules)
    _check_disk(Path(trainer.output_dir or "."), parameters, trainable, dtype, trainer.save_total_limit or 3)
    memory_mb = weights_mb(parameters, trainable, dtype, reference=_has_reference(script, trainer))
    _check_memory(memory_mb, script, trainer)
    return TrainingPlan(rows, rewards, tokenizer, dtype, parameters, trainable, memory_mb, sha256_of(rows))


def count_parameters(config: Any, lora_r: int, targets: Sequence[str] = ()) -> tuple[int, int]:
    """Return all parameters and the trainable ones, from a model without memory (torch's meta device)."""
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    total = sum(parameter.numel() for parameter in model.parameters())
    if not lora_r:
        return total, total
    head = model.get_output_embeddings()
    adapted = [
        module
        for name, module in model.named_modules()
        if isinstance(module, torch.nn.Linear)
        and module is not head
        and (not targets or name.rsplit(".", 1)[-1] in targets)
    ]
    if not adapted:
        raise UsageError(f"--lora_target_modules {' '.join(targets)}: the model has no linear layer so named")
    trainable = sum(lora_r * (module.in_features + module.out_features) for module in adapted)
    return total + trainable, trainable


def weights_mb(parameters: int, trainable: int, dtype: torch.dtype, reference: bool) -> int:
    """MB of weights, gradients, Adam's two moments and the reference's weights: the part that is sure.

    Activations, logits and the generation's cache come on top and depend on batch and lengths. An adapter is
    kept in float32; its reference is the model without it.
    """
    frozen = parameters - trainable
    trained_itemsize = 4 if frozen else dtype.itemsize
    weights_of_reference = 1 if reference else 0
    size = frozen * dtype.itemsize + trainable * trained_itemsize * (1 + 1 + 2 + weights_of_reference)
    return size // 2**20


def sha256_of(rows: Sequence[Mapping[str, Any]]) -> str:
    """A fingerprint of prepared rows: a resumed run must see the same ones."""
    digest = hashlib.sha256()
    for row in rows:
        digest.update(json.dumps(row, sort_keys=True, default=str).encode())
    return digest.hexdigest()


def _check_packages(script: ScriptArguments, trainer: TrainerArguments) -> None:
    if script.use_unsloth and importlib.util.find_spec("unsloth") is None:
        raise UsageError(UNSLOTH_MISSING)
    if trainer.use_vllm and importlib.util.find_spec("vllm") is None:
        raise UsageError(VLLM_MISSING)


def _check_devices(trainer: TrainerArguments) -> None:
    if trainer.use_cpu or "WORLD_SIZE" in os.environ:
        return
    if torch.cuda.device_count() > 1:
        raise UsageError(
            f"{torch.cuda.device_count()} GPUs are visible to one process: start the script by `accelerate "
            "launch` to use them all, or set CUDA_VISIBLE_DEVICES to one"
        )


def _check_save_steps(trainer: TrainerArguments) -> None:
    cycle = trainer.cycle_steps
    if trainer.save_strategy == "steps" and trainer.save_steps >= 1 and trainer.save_steps % cycle:
        raise UsageError(
            f"--save_steps {trainer.save_steps:g} is not a multiple of the {cycle} steps that a generation "
            "serves (--steps_per_generation, --num_iterations): no run could resume exactly in between"
        )


def _rows(script: ScriptArguments, rewards: Sequence[Reward]) -> list[Row]:
    raw = load_rows(script.dataset, script.dataset_split, script.dataset_config)
    rows = prepare(raw, script.preprocess, script.dataset)
    needed = {column: f"the reward {reward.name}" for reward in rewards for column in reward.columns}
    if script.warm_start_steps:
        needed[script.warm_start_column] = "the warm start"
    check_columns(rows, needed, script.dataset)
    return rows


def _check_enough(prompts: int, trainer: TrainerArguments, source: str) -> None:
    """A generation takes so many different prompts; what does not fill one is never trained on."""
    completions = trainer.generation_batch_size or trainer.per_device_train_batch_size
    generations = trainer.num_generations or 1
    needed = completions // generations
    if prompts < needed:
        size = trainer.per_device_train_batch_size
        raise UsageError(
            f"{source}: {prompts} prompt(s), and a generation takes {needed} ({completions} completions / "
            f"--num_generations {generations} = {needed}): give more prompts, raise --num_generations, or "
            f"lower --per_device_train_batch_size {size} or --gradient_accumulation_steps "
            f"{trainer.gradient_accumulation_steps}"
        )


def _load_config(model: str) -> tuple[Any, Any]:
    if model.startswith((".", "/", "~")) and not Path(model).expanduser().is_dir():
        raise UsageError(f"--model {model}: no such folder")
    try:
        return AutoConfig.from_pretrained(model), AutoTokenizer.from_pretrained(model, padding_side="left")
    except (OSError, ValueError) as error:
        reason = str(error).strip().split("\n")[0]
        if Path(model).is_dir():
            raise BadDataError(f"--model {model}: {reason}") from None
        raise UnavailableError(f"--model {model}: no such folder, and not from the hub: {reason}") from None


def _check_lengths(
    rows: Sequence[Row], tokenizer: Any, config: Any, trainer: TrainerArguments, source: str
) -> None:
    messages = not isinstance(rows[0]["prompt"], str)
    if messages and not tokenizer.chat_template:
        raise UsageError(
            "the prompts are messages and the model's tokenizer has no chat template: take an "
            "instruction-tuned model, or text prompts (--preprocess generic)"
        )
    limit = getattr(config.get_text_config(), "max_position_embeddings", None)
    if limit is None:
        return
    # characters bound tokens from above (byte-level tokenizers aside), so most rows need no tokenizer
    longest = max(range(len(rows)), key=lambda index: len(str(rows[index]["prompt"])))
    prompt = rows[longest]["prompt"]
    if messages:
        prompt = tokenizer.apply_chat_template(prompt, tokenize=False, add_generation_prompt=True)
    length = len(tokenizer(prompt)["input_ids"])
    if length + (trainer.max_completion_length or 0) > limit:
        raise UsageError(
            f"{source}: row {longest} has {length} prompt tokens; with --max_completion_length "
            f"{trainer.max_completion_length} that is beyond the model's {limit}: shorten either"
        )


def _dtype(script: ScriptArguments, trainer: TrainerArguments) -> torch.dtype:
    if script.dtype == "auto":
        return torch.bfloat16 if script.lora_r and trainer.bf16 else torch.float32
    return getattr(torch, script.dtype)


def _has_reference(script: ScriptArguments, trainer: TrainerArguments) -> bool:
    return bool(trainer.beta) and not script.lora_r


def _check_disk(folder: Path, parameters: int, trainable: int, dtype: torch.dtype, checkpoints: int) -> None:
    """A checkpoint holds the trained weights and two moments; the finished model is written beside them."""
    weights = trainable * (4 if trainable < parameters else dtype.itemsize)
    needed_mb = ((checkpoints + 1) * 3 * weights + weights) // 2**20
    existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    free_mb = shutil.disk_usage(existing).free // 2**20
    if free_mb < needed_mb:
        raise DiskFullError(
            f"--output_dir {folder}: {checkpoints} checkpoints and the model need {needed_mb} MB; "
            f"{free_mb} MB are free; make room, lower --save_total_limit, or train an adapter (--lora_r 16)"
        )


def _check_memory(needed_mb: int, script: ScriptArguments, trainer: TrainerArguments) -> None:
    remedy = (
        "take a smaller model" if script.lora_r else "train an adapter (--lora_r 16) or take a smaller model"
    )
    if not trainer.use_cpu and torch.cuda.is_available():
        free, total = torch.cuda.mem_get_info()
        if needed_mb > free // 2**20:
            raise GpuMemoryError(
                f"weights, gradients and optimiser need {needed_mb} MB and the GPU has {free // 2**20} of "
                f"{total // 2**20} MB free: {remedy}"
            )
        return
    available_mb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES") // 2**20
    if needed_mb > available_mb:
        raise UsageError(
            f"weights, gradients and optimiser need {needed_mb} MB; {available_mb} MB of memory are free: "
            + remedy
        )
