"""The arguments of GRPO training: its own and all of TRL's, as flags or YAML."""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from trl import GRPOConfig, TrlParser

from questloop.errors import UsageError
from questloop.grpo.scoring import DEFAULT_TIMEOUT_S

UNNAMED = "(named after the model)"


@dataclass
class ScriptArguments:
    """What to train, on what, and by which rewards."""

    model: str = field(default="", metadata={"help": "folder or hub name of the model to start from"})
    dataset: str = field(
        default="",
        metadata={"help": "JSON, JSONL, CSV or Parquet file, a folder of them, or a hub name"},
    )
    dataset_config: str | None = field(default=None, metadata={"help": "configuration of a hub dataset"})
    dataset_split: str = field(default="train", metadata={"help": "split of a hub dataset or a folder"})
    reward_function: list[str] = field(
        default_factory=list,
        metadata={"help": "built-in names or module:function, separated by spaces or commas"},
    )
    reward_timeout_s: float = field(
        default=DEFAULT_TIMEOUT_S,
        metadata={
            "help": "seconds that a module:function may take a batch, in a process of its own; "
            "0: no limit, inside the trainer"
        },
    )
    preprocess: str = field(
        default="generic", metadata={"help": "generic, deepseek, or module:function from a row to a row"}
    )
    lora_r: int = field(default=0, metadata={"help": "rank of the LoRA adapter; 0 trains every weight"})
    lora_alpha: int | None = field(default=None, metadata={"help": "LoRA scale; unset: twice the rank"})
    lora_dropout: float = field(default=0.0, metadata={"help": "dropout before the adapter"})
    lora_target_modules: list[str] = field(
        default_factory=list,
        metadata={"help": "layers with an adapter; unset: every linear one but the head"},
    )
    dtype: str = field(
        default="auto",
        metadata={
            "help": "type of the loaded weights; auto: bfloat16 under LoRA on GPUs that have it",
            "choices": ["auto", "float32", "bfloat16", "float16"],
        },
    )
    warm_start_steps: int = field(
        default=0, metadata={"help": "supervised steps on --warm_start_column before GRPO; 0: none"}
    )
    warm_start_learning_rate: float = field(default=1e-4, metadata={"help": "peak rate of the warm start"})
    warm_start_column: str = field(
        default="answer", metadata={"help": "column with the completion that the warm start imitates"}
    )
    use_unsloth: bool = field(
        default=False, metadata={"help": "load the model with Unsloth (its own environment, see the docs)"}
    )
    cuda_graphs: bool = field(
        default=False,
        metadata={
            "help": "decode by recorded steps: several times faster for models of a few hundred million"
        },
    )
    samples_per_log: int = field(
        default=4, metadata={"help": "completions written to samples.jsonl at every log; 0: none"}
    )

    def __post_init__(self) -> None:
        if self.model.startswith("~"):  # no shell has seen `--model=~/folder`, nor a job's row
            self.model = str(Path(self.model).expanduser())
        self.reward_function = [
            name for item in self.reward_function for name in item.split(",") if name.strip()
        ]
        for name in ("model", "dataset"):
            if not getattr(self, name):
                raise UsageError(f"--{name}: not given; see --help")
        for name in ("lora_r", "warm_start_steps", "samples_per_log", "reward_timeout_s"):
            if getattr(self, name) < 0:
                raise UsageError(f"--{name} {getattr(self, name)}: must be 0 or more")


@dataclass
class TrainerArguments(GRPOConfig):
    """TRL's GRPO configuration with defaults for jobs that are watched and may be stopped."""

    output_dir: str | None = field(
        default=None,
        metadata={
            "help": "where checkpoints, metrics and the trained model go; unset: a new folder here, named "
            "after the model"
        },
    )
    bf16: bool | None = field(  # type: ignore[assignment]
        default=None, metadata={"help": "train in bfloat16; unset: on GPUs that have it"}
    )
    logging_steps: float = field(default=1, metadata={"help": "steps between two lines of metrics"})
    save_steps: float = field(default=50, metadata={"help": "steps between two checkpoints"})
    save_total_limit: int | None = field(default=2, metadata={"help": "checkpoints that are kept, 2 or more"})
    report_to: list[str] | str | None = field(
        default=None,
        metadata={"help": "where metrics go beside metrics.jsonl; unset: tensorboard, where it is installed"},
    )
    disable_tqdm: bool | None = field(
        default=True, metadata={"help": "progress as lines on stdout rather than a bar"}
    )

    def __post_init__(self) -> None:
        self.output_dir = self.output_dir or UNNAMED
        if self.report_to is None:
            self.report_to = "tensorboard" if importlib.util.find_spec("tensorboard") else "none"
        if self.bf16 is None:
            self.bf16 = not self.fp16 and _has_bfloat16(bool(self.use_cpu))
        self._check_batches()
        if self.save_total_limit is not None and self.save_total_limit < 2:
            raise UsageError(
                f"--save_total_limit {self.save_total_limit}: keep 2 or more, so that a whole checkpoint is "
                "there while the next one is written"
            )
        try:
            super().__post_init__()
        except ValueError as error:
            raise UsageError(f"trainer arguments: {error}") from None

    @property
    def cycle_steps(self) -> int:
        """Optimiser steps between two generations."""
        return max(
            1, (self.steps_per_generation or 1) * self.num_iterations // self.gradient_accumulation_steps
        )

    def _check_batches(self) -> None:
        """Refuse groups that the batch cannot hold; each message names the flags that mend it."""
        generations = self.num_generations or 0
        if generations < 2:
            raise UsageError(f"--num_generations {generations}: GRPO compares completions, so give 2 or more")
        processes = int(os.environ.get("WORLD_SIZE", "1"))
        batch = self.per_device_train_batch_size * processes
        if self.generation_batch_size is not None and self.generation_batch_size % batch:
            raise UsageError(
                f"--generation_batch_size {self.generation_batch_size} is not a multiple of {batch}: "
                f"--per_device_train_batch_size {self.per_device_train_batch_size} x {processes} processes"
            )
        accumulated = self.steps_per_generation or self.gradient_accumulation_steps
        total = self.generation_batch_size or batch * accumulated
        if total % generations:
            size = self.per_device_train_batch_size
            raise UsageError(
                f"{total} completions a generation do not divide into groups of --num_generations "
                f"{generations}: --per_device_train_batch_size {size} x {processes} processes x "
                f"{accumulated} accumulated; make it a multiple of {generations}, for example "
                f"--per_device_train_batch_size {_next_multiple(size, generations)}"
            )


def parse(argv: Sequence[str]) -> tuple[ScriptArguments, TrainerArguments]:
    """Read flags and `--config FILE.yaml`; flags win. Raises `UsageError`; argparse itself exits with 2."""
    kinds: Any = (ScriptArguments, TrainerArguments)
    parser = TrlParser(kinds, prog="train_grpo.py", allow_abbrev=False)
    try:
        script, trainer = parser.parse_args_and_config(list(argv))
    except (OSError, yaml.YAMLError) as error:
        raise UsageError(f"--config: {error}") from None
    except IndexError:
        raise UsageError("--config: give the path of a YAML file after it") from None
    except ValueError as error:
        raise UsageError(str(error)) from None
    if trainer.output_dir == UNNAMED:
        trainer.output_dir = _named_after(script.model)
    return script, trainer


def _named_after(model: str) -> str:
    """A folder here for a model's training; one that holds something already is not ours to write to."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", Path(model).expanduser().name).strip("-.") or "model"
    folder = Path(f"{name}-grpo")
    if os.environ.get("RANK", "0") == "0" and folder.exists() and any(folder.iterdir()):
        raise UsageError(
            f"--output_dir: not given, and the folder named after the model, {folder}, is occupied: give "
            f"--output_dir {folder} to go on with the run in it, or another"
        )
    return str(folder)


def _has_bfloat16(use_cpu: bool) -> bool:
    import torch

    return not use_cpu and torch.cuda.is_available() and torch.cuda.is_bf16_supported()


def _next_multiple(value: int, of: int) -> int:
    return -(-value // of) * of
