"""A judge is trained by `questloop judge train`, by hand or as a job of the fleet."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from questloop.cli.app import app
from questloop.fleet.commands import command_of
from questloop.fleet.models import Job
from questloop.fleet.states import JobKind
from questloop.grpo import train
from questloop.grpo.judge_recipe import judge_arguments


@pytest.fixture
def trained(monkeypatch):
    """The arguments that the training script was called with."""
    calls = []
    monkeypatch.setattr(train, "main", lambda arguments: calls.append(arguments) or 0)
    return calls


def test_a_judge_job_runs_the_recipe_with_the_options_of_the_job(trained):
    job = Job(
        job_id="judge-1",
        kind=JobKind.JUDGE,
        model="smollm2",
        dataset="train.jsonl",
        inputs={"train.jsonl": "store:uploads/train.jsonl"},
        arguments={"grpo_steps": 3, "use_cpu": True, "learning_rate": 1e-4},
    )
    argv = ["/".join(item) if isinstance(item, list) else item for item in command_of(job).argv]
    assert argv[:3] == ["questloop", "judge", "train"]

    result = CliRunner().invoke(app, argv[1:])

    assert result.exit_code == 0, result.output
    recipe = judge_arguments("smollm2", "work/train.jsonl", "output", grpo_steps=3)
    assert trained == [[*recipe, "--use_cpu=true", "--learning_rate=0.0001"]]


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_job_of_two_gpus_trains_in_two_processes(toy, tiny_model):
    """On CPUs, which stand in for the GPUs: the launcher and the processes are the real ones."""
    job = Job(
        job_id="pair",
        kind=JobKind.GRPO,
        model=str(tiny_model),
        dataset="toy.jsonl",
        reward_function="toy_rewards:share_of_a",
        gpus=2,
        inputs={},
        arguments={
            "use_cpu": True,
            "max_steps": 2,
            "per_device_train_batch_size": 8,
            "num_generations": 4,
            "max_completion_length": 6,
            "report_to": "none",
            "gradient_checkpointing": False,
            "reward_timeout_s": 0,
        },
    )
    argv = ["/".join(item) if isinstance(item, list) else item for item in command_of(job).argv]
    scripts = str(Path(sys.executable).parent)
    environment = {**os.environ, "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}"}
    environment["PYTHONPATH"] = os.pathsep.join([str(Path(train.__file__).parents[2]), "."])
    environment["CUDA_VISIBLE_DEVICES"] = "GPU-b,GPU-a"
    done = subprocess.run(argv, cwd=toy, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-8000:]
    result = json.loads((toy / "output/result.json").read_text())
    assert result["steps"] == 2
    log = [json.loads(line) for line in (toy / "output/metrics.jsonl").read_text().splitlines()]
    per_step = 2 * 8 * 6  # processes, completions, tokens at most
    assert 0 < log[0]["num_tokens"] <= per_step + 2 * 8 * 3
    assert log[0]["num_tokens"] > 8 * (6 + 3), "more than one process can have made"


def test_several_gpus_are_launched_one_process_each():
    for gpus in (0, 1):
        job = Job(job_id="j", kind=JobKind.GRPO, model="m", gpus=gpus, inputs={}, arguments={})
        assert command_of(job).argv[:2] == ["questloop", "grpo"]
    job = Job(job_id="j", kind=JobKind.JUDGE, model="m", gpus=4, inputs={}, arguments={})
    argv = command_of(job).argv
    assert argv[:3] == ["accelerate", "launch", "--multi_gpu"]
    assert argv[argv.index("--num_processes") + 1] == "4"
    assert argv[argv.index("--module") + 1 :][:3] == ["questloop", "judge", "train"]
    plain = Job(job_id="j", kind=JobKind.COMMAND, gpus=2, inputs={}, arguments=["true"])
    assert command_of(plain).argv == ["true"]
