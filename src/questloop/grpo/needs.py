"""Checks what options of the trainer need beside themselves: evaluation data, packages, accounts."""

from __future__ import annotations

import importlib.util
import netrc
import os
from typing import TYPE_CHECKING

from questloop.errors import UsageError

if TYPE_CHECKING:
    from questloop.grpo.arguments import TrainerArguments

# Package of each place that metrics can go to, where its name is another.
_PACKAGES = {"azure_ml": "azureml", "flyte": "flytekit", "kubeflow": "kubeflow"}
# Variable that holds the account, of those that would ask for one on a terminal, which a job has not.
_ACCOUNTS = {"wandb": "WANDB_API_KEY", "comet_ml": "COMET_API_KEY", "neptune": "NEPTUNE_API_TOKEN"}


def check(trainer: TrainerArguments) -> None:
    """Refuse evaluation without data, and reports and uploads without package or account."""
    _check_evaluation(trainer)
    for name in _reports(trainer):
        _check_report(name)
    if trainer.push_to_hub:
        from huggingface_hub import get_token

        if not (trainer.hub_token or get_token()):
            raise UsageError("--push_to_hub: no token of the hub here: set HF_TOKEN, or leave the option out")


def _check_evaluation(trainer: TrainerArguments) -> None:
    asked = {
        f"--eval_strategy {getattr(trainer.eval_strategy, 'value', trainer.eval_strategy)}": str(
            getattr(trainer.eval_strategy, "value", trainer.eval_strategy)
        )
        != "no",
        "--do_eval": trainer.do_eval,
        "--eval_on_start": trainer.eval_on_start,
        "--load_best_model_at_end": trainer.load_best_model_at_end,
    }
    given = [option for option, on in asked.items() if on]
    if given:
        raise UsageError(
            f"{given[0]}: this script has no evaluation data, and the reward is logged at every step: leave "
            "the option out"
        )


def _reports(trainer: TrainerArguments) -> list[str]:
    names = [trainer.report_to] if isinstance(trainer.report_to, str) else trainer.report_to or []
    return [name for name in names if name not in ("none", "all")]


def _check_report(name: str) -> None:
    from transformers.integrations.integration_utils import INTEGRATION_TO_CALLBACK

    if name not in INTEGRATION_TO_CALLBACK:
        raise UsageError(f"--report_to {name}: one of none, {', '.join(sorted(INTEGRATION_TO_CALLBACK))}")
    package = _PACKAGES.get(name, name)
    if importlib.util.find_spec(package) is None:
        raise UsageError(f"--report_to {name}: {package} is not installed here: install it, or say none")
    variable = _ACCOUNTS.get(name)
    if variable and not (os.environ.get(variable) or _is_offline(name)):
        raise UsageError(f"--report_to {name}: no account here: set {variable}, or say none")


def _is_offline(name: str) -> bool:
    if name != "wandb":
        return False
    if os.environ.get("WANDB_MODE") in ("offline", "disabled", "dryrun"):
        return True
    try:
        return netrc.netrc().authenticators("api.wandb.ai") is not None
    except (OSError, netrc.NetrcParseError):
        return False
