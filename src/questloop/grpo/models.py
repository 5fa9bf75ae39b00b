"""Loads the model to train: plain, with a LoRA adapter, or through Unsloth."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from questloop.errors import BadDataError, UsageError
from questloop.grpo.arguments import ScriptArguments, TrainerArguments
from questloop.grpo.preflight import UNSLOTH_MISSING


def load_model(
    script: ScriptArguments, trainer: TrainerArguments, dtype: torch.dtype, trained: Path | None
) -> Any:
    """Load the model that a phase starts from, ready to train.

    `trained` is the folder that an earlier phase left: a whole model or an adapter.
    """
    if script.use_unsloth:
        return _load_with_unsloth(script, trainer, trained)
    if not script.lora_r:
        return _from_pretrained(trained or Path(script.model), script.model, dtype)
    from peft import PeftModel, get_peft_model
    from transformers import set_seed

    set_seed(trainer.seed)  # a new adapter is drawn at random, before the trainer seeds itself
    base = _from_pretrained(Path(script.model), script.model, dtype)
    if trained is not None:
        return PeftModel.from_pretrained(base, trained, is_trainable=True)
    return get_peft_model(base, lora_config(script))


def lora_config(script: ScriptArguments) -> Any:
    """The adapter that the arguments describe."""
    from peft import LoraConfig

    return LoraConfig(
        r=script.lora_r,
        lora_alpha=script.lora_alpha or 2 * script.lora_r,
        lora_dropout=script.lora_dropout,
        target_modules=script.lora_target_modules or "all-linear",
        task_type="CAUSAL_LM",
    )


def _from_pretrained(folder: Path, name: str, dtype: torch.dtype) -> Any:
    from transformers import AutoModelForCausalLM

    source = str(folder) if folder.is_dir() else name
    try:
        return AutoModelForCausalLM.from_pretrained(source, dtype=dtype)
    except (OSError, ValueError) as error:
        raise BadDataError(f"--model {source}: {str(error).strip().splitlines()[0]}") from None


def _load_with_unsloth(script: ScriptArguments, trainer: TrainerArguments, trained: Path | None) -> Any:
    """Unsloth's own loader; it patches the trainer too, which is why it was imported before everything."""
    try:
        from unsloth import FastLanguageModel
    except ImportError as error:
        raise UsageError(f"{UNSLOTH_MISSING} ({error})") from None
    model, _ = FastLanguageModel.from_pretrained(
        model_name=str(trained or script.model),
        max_seq_length=None,
        load_in_4bit=False,
        fast_inference=trainer.use_vllm,
        full_finetuning=not script.lora_r,
    )
    if not script.lora_r or trained is not None:
        return model
    return FastLanguageModel.get_peft_model(
        model,
        r=script.lora_r,
        lora_alpha=script.lora_alpha or 2 * script.lora_r,
        lora_dropout=script.lora_dropout,
        **({"target_modules": script.lora_target_modules} if script.lora_target_modules else {}),
        random_state=trainer.seed,
    )
