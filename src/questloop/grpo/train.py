"""The GRPO training script: check, warm start if asked for, train, save."""

from __future__ import annotations

import errno
import importlib.util
import json
import os
import sys
import time
import warnings
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from questloop.errors import MissingExtraError, QuestloopError
from questloop.exit_codes import ExitCode

if TYPE_CHECKING:
    from questloop.grpo.arguments import ScriptArguments, TrainerArguments
    from questloop.grpo.callbacks import StopRequest
    from questloop.grpo.preflight import TrainingPlan

RESULT_FILE = "result.json"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the script and return its exit code; an error meant for the user is one line on stderr."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        return run(arguments)
    except QuestloopError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("stopped before the first step", file=sys.stderr)
        return ExitCode.PREEMPTED
    except (OSError, RuntimeError, MemoryError) as error:
        code = _known_failure(error)
        if code is None:
            raise
        print(f"error: {_first_line(error)}; {_REMEDY[code]}", file=sys.stderr)
        return code


def run(argv: Sequence[str]) -> ExitCode:
    """Check the arguments and train. Raises `QuestloopError` for what the user can mend."""
    if wants_help(argv):
        print(FIRST_FLAGS, flush=True)
    _import_stack(argv)
    import datasets
    from transformers.utils.logging import disable_progress_bar

    from questloop.grpo.arguments import parse
    from questloop.grpo.callbacks import StopRequest
    from questloop.grpo.preflight import check

    # TRL 1.16 still sets what transformers 5.24 renamed
    warnings.filterwarnings("ignore", r"`\w*gradient_checkpointing\w*` is deprecated", FutureWarning)
    disable_progress_bar()
    datasets.disable_progress_bars()
    script, trainer = parse(argv)
    stop = StopRequest()
    with stop.listening():
        plan = check(script, trainer)
        _announce(script, plan)
        try:
            code = _train(script, trainer, plan, stop)
        finally:
            for reward in plan.rewards:
                reward.close()
    _leave_group()
    return code


def _leave_group() -> None:
    """Let several processes end together: one that ends early can make another abort."""
    import torch.distributed

    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()


def _train(
    script: ScriptArguments, trainer: TrainerArguments, plan: TrainingPlan, stop: StopRequest
) -> ExitCode:
    from questloop.grpo.checkpoints import newest_whole

    folder = Path(trainer.output_dir or ".")
    if _is_first_process():
        _take_over(folder, script, trainer, plan)
    done = _steps_done(folder, trainer)
    if done is not None:
        print(f"done already: {done} steps, model and tokenizer in {folder}; {_MORE}", flush=True)
        return ExitCode.DONE
    warm = None
    if script.warm_start_steps:
        from questloop.grpo.warm_start import warm_start

        warm = warm_start(script, trainer, plan, stop)
        if warm is None:
            return ExitCode.PREEMPTED
    started = time.monotonic()
    grpo = _build(script, trainer, plan, stop, warm)
    checkpoint = newest_whole(folder)
    grpo.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    if stop.signal is not None:
        print(f"stopped at step {grpo.state.global_step}; the same command goes on from there", flush=True)
        return ExitCode.PREEMPTED
    _save(grpo, folder, time.monotonic() - started)
    return ExitCode.DONE


def _build(
    script: ScriptArguments,
    trainer: TrainerArguments,
    plan: TrainingPlan,
    stop: StopRequest,
    warm: Path | None,
) -> Any:
    from transformers import PrinterCallback
    from trl import GRPOTrainer

    from questloop.grpo import graph_decoding
    from questloop.grpo.callbacks import (
        AlignGenerations,
        CompleteCheckpoints,
        Metrics,
        Progress,
        Samples,
        Spread,
    )
    from questloop.grpo.data import to_dataset
    from questloop.grpo.models import load_model

    trainer.reward_weights = [reward.weight for reward in plan.rewards]
    align, samples = AlignGenerations(), Samples(script.samples_per_log)
    grpo = GRPOTrainer(
        model=load_model(script, trainer, plan.dtype, trained=warm),
        reward_funcs=list(plan.rewards),
        args=trainer,
        train_dataset=to_dataset(plan.rows, script.dataset),
        processing_class=plan.tokenizer,
        callbacks=[stop, align, CompleteCheckpoints(), Metrics("grpo"), samples, Progress("grpo"), Spread()],
    )
    align.trainer = samples.trainer = grpo
    grpo.remove_callback(PrinterCallback)
    if script.cuda_graphs:
        graph_decoding.install(grpo.model)
    return grpo


def _save(grpo: Any, folder: Path, seconds: float) -> None:
    from questloop.grpo.callbacks import finite
    from questloop.grpo.checkpoints import write_json

    grpo.save_model(str(folder))
    if not grpo.accelerator.is_main_process:
        return
    history = [line["reward"] for line in grpo.state.log_history if line.get("reward") is not None]
    tenth = max(1, len(history) // 10)
    result = {
        "steps": grpo.state.global_step,
        "epochs": grpo.args.num_train_epochs,
        "seconds": round(seconds, 1),
        "reward_first": sum(history[:tenth]) / tenth if history else None,
        "reward_last": sum(history[-tenth:]) / tenth if history else None,
    }
    write_json(folder / RESULT_FILE, finite(result))
    print(f"done: {result['steps']} steps, model and tokenizer in {folder}", flush=True)


def _steps_done(folder: Path, trainer: TrainerArguments) -> int | None:
    """The steps of a run in the folder that has done all that is asked for; None where there is work left."""
    try:
        result = json.loads((folder / RESULT_FILE).read_text("utf-8"))
    except (OSError, ValueError):
        return None
    if trainer.max_steps > 0:
        return result["steps"] if result["steps"] >= trainer.max_steps else None
    return result["steps"] if result.get("epochs", 0) >= trainer.num_train_epochs else None


def _take_over(folder: Path, script: ScriptArguments, trainer: TrainerArguments, plan: TrainingPlan) -> None:
    """Make sure that what the folder holds is this run, and clear away what was cut off."""
    from questloop.grpo.checkpoints import check_same_run, drop_broken

    run = {
        "dataset_sha256": plan.dataset_sha256,
        "reward_function": [reward.name for reward in plan.rewards],
        "reward_weights": [reward.weight for reward in plan.rewards],
        "lora": [script.lora_r, script.lora_alpha, sorted(script.lora_target_modules)],
        "warm_start_steps": script.warm_start_steps,
        "batch": [trainer.per_device_train_batch_size, trainer.gradient_accumulation_steps],
        "num_generations": trainer.num_generations,
        "loss": [trainer.loss_type, trainer.beta],
        "parameters": plan.parameters,
        "seed": trainer.seed,
    }
    check_same_run(folder, run)
    for broken in [*drop_broken(folder), *drop_broken(folder / "warm_start")]:
        print(f"{broken}: cut off while it was written, removed", flush=True)


def _announce(script: ScriptArguments, plan: TrainingPlan) -> None:
    if not _is_first_process():
        return
    what = f"LoRA rank {script.lora_r}" if script.lora_r else "every weight"
    rewards = ", ".join(f"{reward.name} x {reward.weight:g}" for reward in plan.rewards)
    print(
        f"{len(plan.rows)} prompts, {rewards}; {plan.trainable:,} of {plan.parameters:,} parameters ({what}, "
        f"{plan.dtype}), {plan.memory_mb} MB before activations",
        flush=True,
    )


def _import_stack(argv: Sequence[str]) -> None:
    """Import TRL, and before it Unsloth where it is asked for, since it patches what is imported later."""
    if wants_unsloth(argv):
        with suppress(ModuleNotFoundError):  # `preflight` says what to do
            import unsloth  # noqa: F401
    for package in ("trl", "peft", "datasets"):
        if importlib.util.find_spec(package) is None:
            raise MissingExtraError(package, "grpo")


FIRST_FLAGS = """\
The ten that matter first:
  --model MODEL                        folder or hub name to start from
  --dataset FILE                       JSON, JSONL, CSV or Parquet file, a folder of them, or a hub name
  --reward_function NAME [NAME ...]    built-in rewards, or module:function of your own
  --preprocess PIPELINE                generic, deepseek (reasoning, then answer), or module:function
  --output_dir FOLDER                  where all goes; the same command again goes on from there
  --max_steps N                        steps of the optimiser
  --num_generations N                  completions per prompt, which are compared with each other
  --per_device_train_batch_size N      completions per step and GPU, a multiple of --num_generations
  --max_completion_length N            tokens per completion
  --lora_r N                           rank of an adapter; 0 trains every weight

Example:
  questloop grpo --model HuggingFaceTB/SmolLM2-135M-Instruct --dataset questions.jsonl
      --reward_function correctness --max_steps 200 --lora_r 16 --output_dir runs/grpo

Every option:
"""


def wants_help(argv: Sequence[str]) -> bool:
    """Whether help is all that is asked for."""
    return any(argument in ("-h", "--help") for argument in argv)


def wants_unsloth(argv: Sequence[str]) -> bool:
    """Whether Unsloth is asked for, before the real parser (which needs TRL) can say so."""
    arguments = list(argv)
    for index, argument in enumerate(arguments):
        if argument.startswith("--use_unsloth"):
            following = argument.partition("=")[2] or "".join(arguments[index + 1 : index + 2])
            return following.lower() not in ("false", "0", "no")
    return bool(_yaml_config(arguments).get("use_unsloth"))


def _yaml_config(arguments: list[str]) -> dict[str, Any]:
    if "--config" not in arguments[:-1]:
        return {}
    import yaml

    try:
        document = yaml.safe_load(Path(arguments[arguments.index("--config") + 1]).read_text("utf-8"))
    except (OSError, yaml.YAMLError):
        return {}  # `parse` reports it
    return document if isinstance(document, dict) else {}


def _is_first_process() -> bool:
    return os.environ.get("RANK", "0") == "0"


def _known_failure(error: BaseException) -> ExitCode | None:
    import torch

    text = str(error)
    if isinstance(error, torch.OutOfMemoryError) or "CUBLAS_STATUS_ALLOC_FAILED" in text:
        return ExitCode.OUT_OF_GPU_MEMORY
    if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT) or "No space left on device" in text:
        return ExitCode.DISK_FULL
    return None


def _first_line(error: BaseException) -> str:
    return str(error).strip().split("\n")[0]


_MORE = "raise --max_steps to go on, or take another --output_dir"
_REMEDY = {
    ExitCode.OUT_OF_GPU_MEMORY: "lower --per_device_train_batch_size or --max_completion_length, raise "
    "--gradient_accumulation_steps, or train an adapter (--lora_r 16)",
    ExitCode.DISK_FULL: "make room and run the same command: it goes on from the newest whole checkpoint",
}
