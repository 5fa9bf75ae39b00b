"""The script itself, on a tiny model: it learns, resumes, stops cleanly and says how it ended."""

import errno
import json
import os
import subprocess
import sys
import types
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from questloop.exit_codes import ExitCode
from questloop.grpo import train
from questloop.grpo.checkpoints import newest_whole

pytestmark = pytest.mark.slow


def argv(model, *more, out="out", steps=12, reward="toy_rewards:share_of_a", **options):
    options = {
        "model": model,
        "dataset": "toy.jsonl",
        "reward_function": reward,
        "reward_timeout_s": 0,
        "output_dir": out,
        "max_steps": steps,
        "learning_rate": 2e-2,
        "per_device_train_batch_size": 32,
        "num_generations": 8,
        "max_completion_length": 6,
        "gradient_checkpointing": "false",
        "report_to": "none",
        "save_strategy": "no",
    } | options
    flags = [part for name, value in options.items() for part in (f"--{name}", str(value))]
    return [*flags, "--use_cpu", *more]


def metrics(folder, phase="grpo"):
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [line for line in lines if line["phase"] == phase and "loss" in line]


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_it_learns(toy, tiny_model, capsys, seed):
    assert train.main(argv(tiny_model, seed=seed)) == ExitCode.DONE

    rewards = [line["reward"] for line in metrics(toy / "out")]
    assert len(rewards) == 12
    assert sum(rewards[-3:]) / 3 > sum(rewards[:3]) / 3 + 0.25
    assert "grpo: step 12 of 12, reward" in capsys.readouterr().out
    assert json.loads((toy / "out" / "result.json").read_text())["steps"] == 12
    samples = [json.loads(line) for line in (toy / "out" / "samples.jsonl").read_text().splitlines()]
    assert len(samples) == 12 * 4
    sample = samples[-1]
    assert sample["rewards"]["toy_rewards:share_of_a"] == pytest.approx(
        sample["completion"].count("a") / max(1, len(sample["completion"]))
    )
    trained = AutoModelForCausalLM.from_pretrained(toy / "out")
    before = AutoModelForCausalLM.from_pretrained(tiny_model)
    assert any(not torch.equal(a, b) for a, b in zip(trained.parameters(), before.parameters(), strict=True))
    assert AutoTokenizer.from_pretrained(toy / "out").decode([3, 4]) == "ab"


STOPPING_REWARD = """
import os, signal
from toy_rewards import share_of_a
calls = 0

def stop_at_six(completions, **kwargs):
    global calls
    calls += 1
    if calls == 6:
        os.kill(os.getpid(), signal.SIGTERM)
    return share_of_a(completions)
"""


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, id="full"),
        pytest.param({"lora_r": 4, "beta": 0.05, "warm_start_steps": 2}, id="lora"),
    ],
)
def test_a_stopped_run_goes_on_as_if_it_had_not_been_stopped(toy, tiny_model, capsys, options):
    options = options | {"save_strategy": "steps", "save_steps": 4, "steps": 8}
    (toy / "stopping.py").write_text(STOPPING_REWARD)
    sys.modules.pop("stopping", None)
    command = argv(tiny_model, out="stopped", reward="stopping:stop_at_six", **options)

    assert train.main(command) == ExitCode.PREEMPTED
    assert "SIGTERM: stopping after this step" in capsys.readouterr().out
    newest = newest_whole(toy / "stopped")
    assert newest.name == "checkpoint-6"
    # the newest checkpoint is cut off, as by a full disk: the one before it is taken
    weights = next(newest.glob("*.safetensors"))
    weights.write_bytes(weights.read_bytes()[:100])

    assert train.main(command) == ExitCode.DONE
    assert f"{newest.relative_to(toy)}: cut off" in capsys.readouterr().out
    assert train.main(argv(tiny_model, out="whole", **options)) == ExitCode.DONE
    stopped, whole = metrics(toy / "stopped"), metrics(toy / "whole")
    assert [line["step"] for line in stopped] == [line["step"] for line in whole] == list(range(1, 9))
    for name in ("loss", "reward", "learning_rate"):
        assert [line[name] for line in stopped] == pytest.approx([line[name] for line in whole], abs=1e-4)
    assert (toy / "stopped" / "adapter_model.safetensors").exists() == bool(options.get("lora_r"))


@pytest.mark.full  # half a minute, most of it two imports of the training stack
def test_two_processes_share_a_run(toy, tiny_model):
    command = argv(tiny_model, per_device_train_batch_size=16, steps=3, save_strategy="steps", save_steps=2)
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    script = Path(__file__).parents[2] / "scripts" / "train_grpo.py"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(script.parents[1] / "src"), str(toy)])}
    done = subprocess.run([*launch, str(script), *command], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("grpo: step 3 of 3") == 1  # one process speaks
    assert [line["step"] for line in metrics(toy / "out")] == [1, 2, 3]
    assert len(list((toy / "out" / "checkpoint-2").glob("rng_state_*.pth"))) == 2
    assert newest_whole(toy / "out").name == "checkpoint-3"


def test_another_run_is_not_mixed_in(toy, tiny_model, capsys):
    assert train.main(argv(tiny_model, steps=1)) == ExitCode.DONE
    assert train.main(argv(tiny_model, steps=1, seed=5)) == ExitCode.USAGE
    assert "other settings (seed 42 -> 5)" in capsys.readouterr().err


def test_a_warm_start_puts_grpo_where_rewards_are(toy, tiny_chat_model):
    rows = [{"question": f"{a}:", "answer": "jj"} for a in "bcdefghi"]
    (toy / "toy.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (toy / "chat_pipeline.py").write_text(
        "def chat(row):\n"
        "    prompt = [{'role': 'user', 'content': row['question']}]\n"
        "    return {'prompt': prompt, 'answer': row['answer']}\n"
    )
    options = {"reward": "correctness", "preprocess": "chat_pipeline:chat", "steps": 2, "learning_rate": 1e-4}
    assert train.main(argv(tiny_chat_model, out="cold", **options)) == ExitCode.DONE
    warm = {"warm_start_steps": 40, "warm_start_learning_rate": 1e-2}
    assert train.main(argv(tiny_chat_model, out="warm", **options, **warm)) == ExitCode.DONE

    assert metrics(toy / "cold")[0]["reward"] < 0.1
    assert metrics(toy / "warm")[0]["reward"] > 0.5
    losses = [line["loss"] for line in metrics(toy / "warm" / "warm_start", "warm_start")]
    assert losses[-1] < losses[0] / 2


def test_rewards_that_abstain_leave_no_nan_in_the_statistics(toy, tiny_model):
    (toy / "abstaining.py").write_text(
        "calls = 0\n"
        "def sometimes(completions, **kwargs):\n"
        "    global calls\n"
        "    calls += 1\n"
        "    if calls == 2: return [None] * len(completions)\n"
        "    return [None if i % 3 else float('nan') if i % 2 else 1.0 for i in range(len(completions))]\n"
    )
    sys.modules.pop("abstaining", None)
    assert train.main(argv(tiny_model, steps=3, reward="abstaining:sometimes")) == ExitCode.DONE
    text = (toy / "out" / "metrics.jsonl").read_text()
    assert "NaN" not in text
    assert [line["reward"] for line in metrics(toy / "out")] == [1.0, None, 1.0]
    assert all(line["grad_norm"] == line["grad_norm"] for line in metrics(toy / "out"))


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (
            torch.OutOfMemoryError("CUDA out of memory. Tried\nmore"),
            ExitCode.OUT_OF_GPU_MEMORY,
            "--lora_r 16",
        ),
        (OSError(errno.ENOSPC, "No space left on device"), ExitCode.DISK_FULL, "make room"),
        (KeyboardInterrupt(), ExitCode.PREEMPTED, "stopped before the first step"),
    ],
)
def test_it_says_how_it_ended(toy, tiny_model, monkeypatch, capsys, error, code, message):
    def fail(*_):
        raise error

    monkeypatch.setattr(train, "_train", fail)
    assert train.main(argv(tiny_model)) == code
    assert message in capsys.readouterr().err


def test_a_reward_that_raises_ends_the_run_by_its_name(toy, tiny_model, capsys):
    (toy / "raising.py").write_text("def boom(completions, **kwargs):\n    return [completions[99999]]\n")
    assert train.main(argv(tiny_model, reward="raising:boom")) == ExitCode.BAD_DATA
    assert "reward function raising:boom raised IndexError" in capsys.readouterr().err


def test_the_unsloth_path_as_far_as_it_goes_without_the_package(toy, tiny_model, monkeypatch):
    calls = []

    class FakeFastLanguageModel:
        """Stands in for Unsloth's loader: takes its arguments, gives plain models."""

        @staticmethod
        def from_pretrained(model_name, **options):
            calls.append(options)
            return AutoModelForCausalLM.from_pretrained(model_name), None

        @staticmethod
        def get_peft_model(model, r, lora_alpha, lora_dropout, random_state):
            from peft import LoraConfig, get_peft_model

            return get_peft_model(model, LoraConfig(r=r, lora_alpha=lora_alpha, target_modules="all-linear"))

    fake = types.ModuleType("unsloth")
    fake.FastLanguageModel = FakeFastLanguageModel
    fake.__spec__ = types.SimpleNamespace()
    monkeypatch.setitem(sys.modules, "unsloth", fake)
    assert train.main(argv(tiny_model, "--use_unsloth", steps=1, lora_r=4)) == ExitCode.DONE
    assert calls == [
        {"max_seq_length": None, "load_in_4bit": False, "fast_inference": False, "full_finetuning": False}
    ]
    assert (toy / "out" / "adapter_model.safetensors").exists()


def test_a_finished_command_repeated_ends_before_the_model_loads(toy, tiny_model, capsys, monkeypatch):
    assert train.main(argv(tiny_model, steps=2)) == ExitCode.DONE
    before = (toy / "out" / "result.json").read_text()
    from questloop.grpo import models

    with monkeypatch.context() as patched:
        patched.setattr(models, "load_model", lambda *_, **__: pytest.fail("the model was loaded"))
        assert train.main(argv(tiny_model, steps=2)) == ExitCode.DONE
    assert "done already: 2 steps" in capsys.readouterr().out
    assert (toy / "out" / "result.json").read_text() == before
    assert train.main(argv(tiny_model, steps=3)) == ExitCode.DONE, "more steps are more work"
    assert json.loads((toy / "out" / "result.json").read_text())["steps"] == 3


def test_a_reward_without_spread_is_warned_of(toy, tiny_model, capsys):
    (toy / "flat.py").write_text("def same(completions, **kwargs):\n    return [1.0 for _ in completions]\n")
    assert train.main(argv(tiny_model, steps=6, reward="flat:same")) == ExitCode.DONE
    said = capsys.readouterr().err
    assert said.count("warning: in 5 logged step(s) in a row all completions of each group got the same") == 1
    assert train.main(argv(tiny_model, steps=6, out="other")) == ExitCode.DONE
    assert "warning" not in capsys.readouterr().err


def test_help_begins_with_the_ten_flags_that_matter(capsys):
    with pytest.raises(SystemExit) as ended:
        train.main(["--help"])
    assert ended.value.code == 0
    said = capsys.readouterr().out
    first = said[: said.index("Every option:")]
    assert sum(line.startswith("  --") for line in first.splitlines()) == 10
    for flag in ("--model", "--dataset", "--reward_function", "--max_steps", "--output_dir", "--lora_r"):
        assert f"  {flag} " in first
        assert flag in said[len(first) :], "each of them is an option"
