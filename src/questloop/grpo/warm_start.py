"""A short supervised phase before GRPO, for tasks that a model does not solve by sampling alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transformers import PrinterCallback
from trl import SFTConfig, SFTTrainer

from questloop.grpo.arguments import ScriptArguments, TrainerArguments
from questloop.grpo.callbacks import CompleteCheckpoints, Metrics, Progress, StopRequest
from questloop.grpo.checkpoints import is_whole, mark_complete, newest_whole
from questloop.grpo.data import Row, to_dataset
from questloop.grpo.models import load_model
from questloop.grpo.preflight import TrainingPlan

# Options of the GRPO configuration that mean the same for a supervised phase.
_SHARED = (
    "per_device_train_batch_size",
    "gradient_checkpointing",
    "max_grad_norm",
    "weight_decay",
    "bf16",
    "fp16",
    "use_cpu",
    "seed",
    "logging_steps",
    "save_steps",
    "save_total_limit",
    "report_to",
    "disable_tqdm",
)


def warm_start(
    script: ScriptArguments, trainer: TrainerArguments, plan: TrainingPlan, stop: StopRequest
) -> Path | None:
    """Train on prompt and `--warm_start_column` and return the folder of the result; None if stopped.

    The loss is on the completion alone; a step takes one batch, without accumulation. A finished warm start
    is taken as it is, a half-done one goes on.
    """
    folder = Path(trainer.output_dir or ".") / "warm_start"
    finished = folder / "model"
    if is_whole(finished):
        return finished
    config = _config(script, trainer, folder)
    rows = [_example(row, script.warm_start_column) for row in plan.rows]
    sft = SFTTrainer(
        model=load_model(script, trainer, plan.dtype, trained=None),
        args=config,
        train_dataset=to_dataset(rows, script.dataset),
        processing_class=plan.tokenizer,
        callbacks=[stop, CompleteCheckpoints(), Metrics("warm_start"), Progress("warm_start")],
    )
    sft.remove_callback(PrinterCallback)
    resume = newest_whole(folder)
    sft.train(resume_from_checkpoint=str(resume) if resume else None)
    if stop.signal is not None:
        return None
    sft.save_model(str(finished))
    if sft.accelerator.is_main_process:
        mark_complete(finished)
    sft.accelerator.wait_for_everyone()
    return finished


def _config(script: ScriptArguments, trainer: TrainerArguments, folder: Path) -> Any:
    shared = {name: getattr(trainer, name) for name in _SHARED}
    return SFTConfig(
        output_dir=str(folder),
        max_steps=script.warm_start_steps,
        learning_rate=script.warm_start_learning_rate,
        warmup_steps=min(10, script.warm_start_steps // 10),
        max_length=None,
        **shared,
    )


def _example(row: Row, column: str) -> Row:
    if isinstance(row["prompt"], str):
        return {"prompt": row["prompt"], "completion": str(row[column])}
    return {"prompt": row["prompt"], "completion": [{"role": "assistant", "content": str(row[column])}]}
