"""`questloop grpo` on the command line."""

import json

import pytest
from typer.testing import CliRunner

from questloop.cli.app import app
from questloop.errors import BadDataError
from questloop.grpo import train
from questloop.grpo.try_reward import try_rewards

ROWS = [
    {"completion": "<answer>4</answer>", "answer": "4"},
    {"completion": [{"role": "assistant", "content": "5"}], "answer": "4"},
    {"completion": "6", "answer": "N/A"},
]


@pytest.fixture
def completions(tmp_path):
    path = tmp_path / "completions.json"
    path.write_text(json.dumps(ROWS))
    return str(path)


def test_totals_are_weighted_and_leave_out_who_abstains(completions):
    trial = try_rewards(completions, ["correctness", "xml_count"], [2.0, 0.5], timeout_s=0)
    assert trial.values == {"correctness": [1.0, 0.0, None], "xml_count": [0.5, 0.0, 0.0]}
    assert trial.totals == [2.25, 0.0, 0.0]
    assert trial.distinguishes
    first = trial.summaries[0]
    assert (first.mean, first.low, first.high, first.abstained) == (0.5, 0.0, 1.0, 1)


def test_rows_where_every_reward_abstains_have_no_total(completions):
    trial = try_rewards(completions, ["correctness"], None, timeout_s=0)
    assert trial.totals == [1.0, 0.0, None]


def test_a_file_without_completions(tmp_path):
    (tmp_path / "d.jsonl").write_text('{"prompt": "a"}\n')
    with pytest.raises(BadDataError, match="no column 'completion'"):
        try_rewards(str(tmp_path / "d.jsonl"), ["soft_format"], None, timeout_s=0)


def test_the_command_prints_json(completions):
    result = CliRunner().invoke(
        app, ["grpo", "try-reward", completions, "--reward-function", "correctness,xml_count", "--json"]
    )
    assert result.exit_code == 0
    assert json.loads(result.stdout)["values"]["correctness"] == [1.0, 0.0, None]


def test_the_command_warns_of_a_reward_that_teaches_nothing(completions):
    result = CliRunner().invoke(
        app, ["grpo", "try-reward", completions, "--reward_function", "length_penalty"]
    )
    assert result.exit_code == 0
    assert "GRPO would learn nothing" in result.stdout


@pytest.mark.parametrize("prefix", [[], ["train"]])
def test_options_alone_train(monkeypatch, prefix):
    seen = []
    monkeypatch.setattr(train, "main", lambda argv: seen.append(argv) or 75)
    result = CliRunner().invoke(
        app, ["grpo", *prefix, "--model", "m", "--seed=3", "--lora_target_modules", "a", "b"]
    )
    assert result.exit_code == 75
    assert seen == [["--model", "m", "--seed=3", "--lora_target_modules", "a", "b"]]


def test_help_names_both_ways():
    result = CliRunner().invoke(app, ["grpo", "--help"])
    assert "try-reward" in result.stdout
    assert "--reward_function" in result.stdout
