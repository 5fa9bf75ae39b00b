"""The entry points that cluster jobs name run the commands they say."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("script", "word"),
    [
        ("run_pipeline.py", "RUN_HOURS"),
        ("run_rollouts.py", "training epoch"),
        ("run_evaluator.py", "judges"),
        ("train_reward_model.py", "reward model"),
        ("run_epoch.py", "Ray cluster"),
        ("train_grpo.py", "--reward_function"),
    ],
)
def test_a_script_prints_its_commands_help(script, word):
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / script), "--help"],
        env={"PYTHONPATH": str(ROOT / "src"), "PATH": "/usr/bin:/bin", "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert word in done.stdout
