"""What can be known before the model loads is refused before it loads, with the flag that mends it."""

import json
import shutil
from types import SimpleNamespace

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from questloop.errors import BadDataError, DiskFullError, UnavailableError, UsageError
from questloop.exit_codes import ExitCode
from questloop.grpo import preflight
from questloop.grpo.arguments import parse
from questloop.grpo.preflight import GpuMemoryError, check, count_parameters, weights_mb
from questloop.grpo.train import main, wants_unsloth


def arguments(toy, model, *more):
    return [
        *("--model", str(model), "--dataset", "toy.jsonl", "--reward_function", "correctness"),
        *("--output_dir", str(toy / "out"), "--use_cpu", "--max_completion_length", "8", *more),
    ]


def checked(toy, model, *more):
    return check(*parse(arguments(toy, model, *more)))


def test_a_plan_for_what_is_right(toy, tiny_model):
    plan = checked(
        toy, tiny_model, "--reward_function", "correctness,strict_format", "--reward_weights", "1", "2"
    )
    assert [(reward.name, reward.weight) for reward in plan.rewards] == [
        ("correctness", 1),
        ("strict_format", 2),
    ]
    assert len(plan.rows) == 81
    assert plan.dtype is torch.float32
    model = AutoModelForCausalLM.from_pretrained(tiny_model)
    assert plan.parameters == plan.trainable == sum(p.numel() for p in model.parameters())


def test_lora_parameters_are_counted_as_peft_makes_them(tiny_model):
    from peft import LoraConfig, get_peft_model

    adapted = get_peft_model(
        AutoModelForCausalLM.from_pretrained(tiny_model), LoraConfig(r=4, target_modules="all-linear")
    )
    trainable, total = adapted.get_nb_trainable_parameters()
    assert count_parameters(AutoConfig.from_pretrained(tiny_model), lora_r=4) == (total, trainable)


def test_memory_of_weights_gradients_and_moments():
    billion = 10**9
    assert weights_mb(billion, billion, torch.float32, reference=False) == 16 * billion // 2**20
    assert weights_mb(billion, billion, torch.float32, reference=True) == 20 * billion // 2**20
    assert weights_mb(billion, billion // 100, torch.bfloat16, reference=False) < 2.2 * billion // 2**20


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (
            ["--per_device_train_batch_size", "1", "--num_generations", "4"],
            r"--num_generations 4: .*_batch_size 1 x 1 .*for example --per_device_train_batch_size 4",
        ),
        (["--num_generations", "1"], "--num_generations 1: GRPO compares completions"),
        (
            ["--generation_batch_size", "12", "--num_generations", "4"],
            "--generation_batch_size 12 is not a multiple of 8",
        ),
        (["--save_total_limit", "1"], "--save_total_limit 1: keep 2 or more"),
        (
            ["--save_steps", "3", "--steps_per_generation", "2"],
            "--save_steps 3 is not a multiple of the 2 steps",
        ),
        (["--reward_weights", "1", "2"], "2 weights for 1 reward functions"),
        (["--lora_r", "4", "--lora_target_modules", "q_projj"], "has no linear layer so named"),
        (["--max_completion_length", "200"], r"row \d+ has 3 prompt tokens; .*beyond the model's 128"),
        (["--use_unsloth"], "unsloth is not installed here"),
        (["--use_vllm"], "vllm is not installed here"),
        (
            ["--loss_type", "nonsense", "--importance_sampling_level", "x", "--warm_start_steps", "-1"],
            "must be 0",
        ),
        (["--preprocess", "deepseek"], "no chat template"),
    ],
)
def test_wrong_settings(toy, tiny_model, more, message):
    with pytest.raises(UsageError, match=message):
        checked(toy, tiny_model, *more)


def test_a_row_without_an_answer_is_named(toy, tiny_model):
    (toy / "toy.jsonl").write_text('{"prompt": "a", "answer": "a"}\n{"prompt": "b"}\n')
    with pytest.raises(BadDataError, match=r"toy.jsonl: row 1 has no 'answer', which the reward correctness"):
        checked(toy, tiny_model)


def test_a_model_that_is_not_there(toy, tmp_path):
    with pytest.raises(UsageError, match="no such folder"):
        checked(toy, tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(BadDataError, match="empty"):
        checked(toy, tmp_path / "empty")


def test_a_hub_that_cannot_be_reached(toy, monkeypatch):
    def offline(*args, **kwargs):
        raise OSError("We couldn't connect to the hub\nmore")

    monkeypatch.setattr(preflight.AutoConfig, "from_pretrained", offline)
    with pytest.raises(UnavailableError, match=r"--model some/model: .*couldn't connect to the hub"):
        checked(toy, "some/model")


def test_a_full_disk(toy, tiny_model, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=0))
    monkeypatch.setattr(preflight, "count_parameters", lambda *_: (10**8, 10**8))
    with pytest.raises(DiskFullError, match=r"2 checkpoints and the model need \d+ MB; 0 MB are free"):
        checked(toy, tiny_model)


def test_a_model_too_large_for_the_memory(toy, tiny_model, monkeypatch):
    monkeypatch.setattr(preflight, "count_parameters", lambda *_: (10**13, 10**13))
    monkeypatch.setattr(preflight, "_check_disk", lambda *_: None)
    with pytest.raises(UsageError, match=r"of memory are free: train an adapter \(--lora_r 16\)"):
        checked(toy, tiny_model)


def test_a_model_too_large_for_the_gpu(toy, tiny_model, monkeypatch):
    script, trainer = parse(arguments(toy, tiny_model))
    trainer.use_cpu = False
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (2**30, 80 * 2**30))
    with pytest.raises(GpuMemoryError, match="need 2048 MB and the GPU has 1024 of 81920 MB free") as caught:
        preflight._check_memory(2048, script, trainer)
    assert caught.value.exit_code is ExitCode.OUT_OF_GPU_MEMORY


def test_several_gpus_in_one_process(toy, tiny_model, monkeypatch):
    _, trainer = parse(arguments(toy, tiny_model))
    trainer.use_cpu = False
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with pytest.raises(
        UsageError, match="2 GPUs are visible to one process: start the script by `accelerate"
    ):
        preflight._check_devices(trainer)


def test_yaml_gives_defaults_and_flags_win(toy, tiny_model):
    config = {
        "model": str(tiny_model), "dataset": "toy.jsonl", "reward_function": ["correctness"],
        "learning_rate": "1e-3", "output_dir": "out", "num_generations": 4, "use_cpu": True,
    }  # fmt: skip
    (toy / "job.yaml").write_text(json.dumps(config))
    script, trainer = parse(["--config", "job.yaml", "--num_generations", "2"])
    assert (script.reward_function, trainer.learning_rate, trainer.num_generations) == (
        ["correctness"],
        1e-3,
        2,
    )

    (toy / "job.yaml").write_text(json.dumps(config | {"learning_rat": 1}))
    with pytest.raises(UsageError, match="learning_rat"):
        parse(["--config", "job.yaml"])
    with pytest.raises(UsageError, match=r"--config: .*nowhere.yaml"):
        parse(["--config", "nowhere.yaml"])


@pytest.mark.parametrize(
    ("argv", "wanted"),
    [
        ([], False),
        (["--use_unsloth"], True),
        (["--use_unsloth", "true", "--seed", "1"], True),
        (["--use_unsloth", "false"], False),
        (["--use_unsloth=False"], False),
        (["--config", "with.yaml"], True),
        (["--config", "nowhere.yaml"], False),
    ],
)
def test_unsloth_is_known_of_before_anything_is_imported(tmp_path, monkeypatch, argv, wanted):
    (tmp_path / "with.yaml").write_text("use_unsloth: true\n")
    monkeypatch.chdir(tmp_path)
    assert wants_unsloth(argv) is wanted


@pytest.mark.parametrize(
    ("more", "code"),
    [
        (["--model", "./nowhere"], ExitCode.USAGE),
        (["--dataset", "empty.jsonl"], ExitCode.BAD_DATA),
        (["--reward_function", "nonsense"], ExitCode.USAGE),
    ],
)
def test_the_script_ends_with_the_code_of_the_error(toy, tiny_model, capsys, more, code):
    (toy / "empty.jsonl").write_text("")
    assert main([*arguments(toy, tiny_model), *more]) == code
    assert capsys.readouterr().err.startswith("error: --")


def rows(toy, count):
    lines = (toy / "toy.jsonl").read_text().splitlines()[:count]
    (toy / "toy.jsonl").write_text("\n".join(lines))


@pytest.mark.parametrize(
    ("prompts", "options", "needed"),
    [
        (1, ("--per_device_train_batch_size", "4", "--num_generations", "2"), 2),
        (3, ("--per_device_train_batch_size", "32", "--num_generations", "8"), 4),
        (
            5,
            (
                *("--per_device_train_batch_size", "8", "--gradient_accumulation_steps", "2"),
                *("--num_generations", "2"),
            ),
            8,
        ),
        (1, ("--generation_batch_size", "16", "--num_generations", "8"), 2),
    ],
)
def test_fewer_prompts_than_a_generation_takes(toy, tiny_model, prompts, options, needed):
    rows(toy, prompts)
    with pytest.raises(UsageError, match=rf"{prompts} prompt\(s\), and a generation takes {needed} \("):
        checked(toy, tiny_model, *options)
    rows_needed = [json.dumps({"prompt": f"{n}:", "answer": "a"}) for n in range(needed)]
    (toy / "toy.jsonl").write_text("\n".join(rows_needed))
    assert len(checked(toy, tiny_model, *options).rows) == needed


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--eval_strategy", "steps", "--eval_steps", "5"), "--eval_strategy steps: .* no evaluation data"),
        (("--eval_strategy", "epoch"), "--eval_strategy epoch: .* no evaluation data"),
        (("--do_eval", "true"), "--do_eval: .* no evaluation data"),
        (("--eval_on_start", "true"), "--eval_on_start: .* no evaluation data"),
        (("--report_to", "wandb"), "--report_to wandb: wandb is not installed"),
        (("--report_to", "mlflow"), "--report_to mlflow: mlflow is not installed"),
        (("--report_to", "wanbd"), "--report_to wanbd: one of none, "),
        (("--push_to_hub", "true"), "--push_to_hub: no token"),
    ],
)
def test_options_without_their_needs_are_refused(toy, tiny_model, monkeypatch, options, said):
    monkeypatch.setenv("HF_HOME", str(toy / "hf"))
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setattr("huggingface_hub.get_token", lambda: None)
    monkeypatch.setattr(
        preflight, "_load_config", lambda model: pytest.fail("refused before the model is looked at")
    )
    with pytest.raises(UsageError, match=said):
        checked(toy, tiny_model, *options)


def test_reports_need_an_account_where_a_job_cannot_be_asked(monkeypatch, tmp_path):
    from questloop.grpo import needs

    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("WANDB_API_KEY", "WANDB_MODE", "NETRC"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(UsageError, match="set WANDB_API_KEY"):
        needs._check_report("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    needs._check_report("wandb")


def test_without_an_output_folder_one_is_named_after_the_model(toy, tiny_model, monkeypatch):
    monkeypatch.chdir(toy)
    argv = [*arguments(toy, tiny_model)]
    at = argv.index("--output_dir")
    del argv[at : at + 2]
    _, trainer = parse(argv)
    assert trainer.output_dir == f"{tiny_model.name}-grpo"
    occupied = toy / trainer.output_dir
    occupied.mkdir()
    assert parse(argv)[1].output_dir == occupied.name, "an empty one is free"
    (occupied / "note").touch()
    with pytest.raises(UsageError, match=rf"{occupied.name}, is occupied: give --output_dir {occupied.name}"):
        parse(argv)
    assert parse([*argv, "--output_dir", occupied.name])[1].output_dir == occupied.name
