"""What a training job writes while it runs: progress lines, metrics, samples and checkpoints."""

from __future__ import annotations

import json
import math
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from transformers import TrainerCallback

from questloop.grpo.checkpoints import mark_complete
from questloop.grpo.text import text_of

METRICS_FILE = "metrics.jsonl"
SAMPLES_FILE = "samples.jsonl"


class StopRequest(TrainerCallback):
    """SIGTERM or Ctrl-C: finish the step, write a checkpoint, end. A second signal ends at once."""

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None
        self.training = False

    @contextmanager
    def listening(self) -> Iterator[StopRequest]:
        """Take SIGTERM and SIGINT while the block runs."""
        before = {kind: signal.signal(kind, self._on_signal) for kind in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield self
        finally:
            for kind, handler in before.items():
                signal.signal(kind, handler)

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.training = True

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.training = False

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self._any_process_stops(args):
            control.should_save = True
            control.should_training_stop = True

    def _any_process_stops(self, args: Any) -> bool:
        """Every process must stop at the same step, whichever was told."""
        if args.world_size == 1:
            return self.signal is not None
        flag = torch.tensor([self.signal is not None], dtype=torch.int32, device=args.device)
        torch.distributed.all_reduce(flag, op=torch.distributed.ReduceOp.MAX)
        if flag.item() and self.signal is None:
            self.signal = signal.SIGTERM
        return bool(flag.item())

    def _on_signal(self, number: int, frame: Any) -> None:
        if self.signal is not None or not self.training:
            raise KeyboardInterrupt
        self.signal = signal.Signals(number)
        print(f"{self.signal.name}: stopping after this step", flush=True)


class CompleteCheckpoints(TrainerCallback):
    """Mark every checkpoint once it is written, so that a half-written one can be told."""

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if args.world_size > 1:  # every process writes its own random state
            torch.distributed.barrier()
        if state.is_world_process_zero:
            mark_complete(Path(args.output_dir) / f"checkpoint-{state.global_step}")


class AlignGenerations(TrainerCallback):
    """Count micro-steps on from the checkpoint, so that generations fall on the same steps."""

    def __init__(self) -> None:
        self.trainer: Any = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.trainer._step = state.global_step * args.gradient_accumulation_steps


class Progress(TrainerCallback):
    """A line on stdout for every log, which a watcher can take for a heartbeat."""

    def __init__(self, phase: str) -> None:
        self.phase = phase
        self._started = 0.0
        self._first_step = 0

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._started = time.monotonic()
        self._first_step = state.global_step
        if state.is_world_process_zero:
            print(f"{self.phase}: step {state.global_step} of {state.max_steps}", flush=True)

    def on_log(
        self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **_: Any
    ) -> None:
        if not state.is_world_process_zero or not logs or "loss" not in logs:
            return
        done = state.global_step - self._first_step
        per_step_s = (time.monotonic() - self._started) / max(1, done)
        left_s = int(per_step_s * (state.max_steps - state.global_step))
        values = [f"{name} {logs[name]:.4g}" for name in ("reward", "loss") if logs.get(name) is not None]
        clock = f"{left_s // 3600:d}:{left_s // 60 % 60:02d}:{left_s % 60:02d}"
        parts = [f"{self.phase}: step {state.global_step} of {state.max_steps}", *values]
        print(", ".join([*parts, f"{per_step_s:.2f} s a step", f"{clock} left"]), flush=True)


class Spread(TrainerCallback):
    """Say once when the reward tells no completion of a group from another: nothing is learned then."""

    after = 5  # logs in a row

    def __init__(self) -> None:
        self._without = 0
        self._logs = 0
        self._said = False

    def on_log(
        self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **_: Any
    ) -> None:
        if not state.is_world_process_zero or not logs or "frac_reward_zero_std" not in logs:
            return
        self._logs += 1
        self._without = self._without + 1 if logs["frac_reward_zero_std"] >= 1 else 0
        if self._without >= self.after:
            self._warn()

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self._logs and self._without == self._logs:
            self._warn()

    def _warn(self) -> None:
        if not self._said:
            self._said = True
            print(
                f"warning: in {self._without} logged step(s) in a row all completions of each group got the "
                "same reward, so nothing is learned: try the reward by `questloop grpo try-reward`, raise "
                "--num_generations or --temperature, or begin with --warm_start_steps",
                file=sys.stderr,
                flush=True,
            )


class Metrics(TrainerCallback):
    """Append every log to `metrics.jsonl`; JSON has no NaN, so what is not finite becomes null."""

    def __init__(self, phase: str) -> None:
        self.phase = phase

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.is_world_process_zero:
            drop_later_lines(Path(args.output_dir) / METRICS_FILE, state.global_step)

    def on_log(
        self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **_: Any
    ) -> None:
        if not state.is_world_process_zero or not logs:
            return
        line = {"phase": self.phase, "step": state.global_step, "time": round(time.time(), 3), **logs}
        if "completions/mean_length" in logs and logs.get("step_time"):
            completions = (
                args.per_device_train_batch_size * args.gradient_accumulation_steps * args.world_size
            )
            line["completion_tokens_per_s"] = (
                completions * logs["completions/mean_length"] / logs["step_time"]
            )
        if torch.cuda.is_available():
            line["gpu_memory_peak_mb"] = torch.cuda.max_memory_allocated() // 2**20
        append_json(Path(args.output_dir) / METRICS_FILE, line)


class Samples(TrainerCallback):
    """Append some completions with their rewards to `samples.jsonl` at every log."""

    def __init__(self, per_log: int) -> None:
        self.per_log = per_log
        self.trainer: Any = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.is_world_process_zero:
            drop_later_lines(Path(args.output_dir) / SAMPLES_FILE, state.global_step)

    def on_log(
        self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **_: Any
    ) -> None:
        if not state.is_world_process_zero or not logs or "loss" not in logs:
            return
        recent = self.trainer._logs  # TRL keeps the completions of the last generation here
        count = min(self.per_log, len(recent["completion"]))
        first = len(recent["completion"]) - count
        for index in range(first, first + count):
            line = {
                "step": state.global_step,
                "prompt": recent["prompt"][index],
                "completion": text_of(recent["completion"][index]),
                "rewards": {name: values[index] for name, values in recent["rewards"].items()},
                "advantage": recent["advantages"][index],
            }
            append_json(Path(args.output_dir) / SAMPLES_FILE, line)


def append_json(path: Path, line: dict[str, Any]) -> None:
    """Append one line of JSON without NaN."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(finite(line)) + "\n")


def finite(value: Any) -> Any:
    """Replace what JSON cannot say by null.

    >>> finite({"a": [1.0, float("nan")], "b": float("inf")})
    {'a': [1.0, None], 'b': None}
    """
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def drop_later_lines(path: Path, step: int) -> None:
    """Cut off lines after `step`, and half a line at the end: a resumed run writes them again."""
    if not path.exists():
        return
    kept = []
    for line in path.read_text("utf-8").splitlines():
        try:
            if json.loads(line)["step"] <= step:
                kept.append(line + "\n")
        except (ValueError, KeyError):
            print(f"{path}: dropped a line that was cut off", file=sys.stderr)
    path.write_text("".join(kept), "utf-8")
