"""A judge is trained by `questloop judge train`, by hand or as a job of the fleet."""

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
