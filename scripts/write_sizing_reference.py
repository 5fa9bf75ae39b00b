"""Compute docs/reference/sizing.md from measured rates (benchmarks/sizing/rates.json) and stated assumptions.

Replace either file by your own figures and run it again; a test keeps the page in step with both.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RATES = ROOT / "benchmarks/sizing/rates.json"
ASSUMED = ROOT / "benchmarks/sizing/assumed.json"
PAGE = ROOT / "docs/reference/sizing.md"
ENVIRONMENTS = (9, 100, 10_000)
SLOTS = 32
EPOCH_STEPS = 300_000
SEGMENT_STEPS = 300
EXPORTED = 400
JUDGED = 200
JUDGES = 3
VOTES = 3


@dataclass(frozen=True)
class Size:
    """What a number of environments comes to."""

    environments: int
    cores: int
    steps_per_s: float
    epoch_s: float
    memory_gb: float
    export_mb_per_s: float
    judge_gpus: float
    usd_per_hour: float


def tokens_per_epoch(rates: dict[str, float], assumed: dict[str, float]) -> tuple[float, float]:
    """Prompt and reply tokens of one judge pass."""
    requests = JUDGED * JUDGES * VOTES
    return requests * rates["prompt_tokens_per_vote"], requests * assumed["reply_tokens_per_vote"]


def size(environments: int, rates: dict[str, float], assumed: dict[str, float]) -> Size:
    """One column of the table: a core a runner of at most 32 emulators, one learner."""
    cores = math.ceil(environments / SLOTS)
    step_s = 1 / (cores * rates["env_steps_per_core_s"]) + 1e-6 * rates["driver_us_per_step"]
    epoch_s = EPOCH_STEPS * step_s
    prompt, reply = tokens_per_epoch(rates, assumed)
    gpu_s = prompt / assumed["prompt_tokens_per_gpu_s"] + reply / assumed["reply_tokens_per_gpu_s"]
    gpus = gpu_s / epoch_s
    return Size(
        environments=environments,
        cores=cores,
        steps_per_s=1 / step_s,
        epoch_s=epoch_s,
        memory_gb=environments * rates["emulator_mb"] / 1000 + cores * 0.45,
        export_mb_per_s=EXPORTED * rates["segment_mb"] / epoch_s,
        judge_gpus=gpus,
        usd_per_hour=(cores + 1) * assumed["usd_per_core_hour"] + gpus * assumed["usd_per_gpu_hour"],
    )


def page() -> str:
    """The whole page."""
    measured: dict[str, Any] = json.loads(RATES.read_text("utf-8"))
    assumed: dict[str, float] = json.loads(ASSUMED.read_text("utf-8"))
    rates, machine = measured["rates"], measured["machine"]
    sizes = [size(count, rates, assumed) for count in ENVIRONMENTS]
    prompt, reply = tokens_per_epoch(rates, assumed)
    most = 1e6 / rates["driver_us_per_step"]

    def share(s: Size) -> float:
        """Of their time that runners step."""
        return s.steps_per_s / (s.cores * rates["env_steps_per_core_s"])

    rows = [
        ("runners, one core each, up to 32 emulators", [f"{s.cores}" for s in sizes]),
        ("steps/s of the loop", [f"{s.steps_per_s:,.0f}" for s in sizes]),
        ("an epoch of 300,000 steps", [f"{s.epoch_s:,.0f} s" for s in sizes]),
        ("memory of emulators and runners", [f"{s.memory_gb:,.1f} GB" for s in sizes]),
        ("export, 400 segments an epoch", [f"{s.export_mb_per_s:.2f} MB/s" for s in sizes]),
        ("GPUs that keep up with judging", [f"{s.judge_gpus:.2f}" for s in sizes]),
        ("cost an hour, USD", [f"{s.usd_per_hour:.2f}" for s in sizes]),
    ]
    table = "\n".join(f"| {name} | {' | '.join(cells)} |" for name, cells in rows)
    heads = " | ".join(f"{count:,}" for count in ENVIRONMENTS)
    segment = rates["segment_mb"]
    return f"""# Sizing

How far one setup carries, computed from rates that were measured and prices that are assumed. The page is \
written by `scripts/write_sizing_reference.py`; put your own figures into its two files and run it again.

## Measured

By `{measured["command"]}`, on {machine["cores"]} cores at a load of {machine["load"]} (Python \
{machine["python"]}), the bundled game. The first two rows are CPU time and do not mind the \
load; the third is wall time and does.

| | |
|---|---|
| step, observation and reward, one core, {SLOTS} emulators | {rates["env_steps_per_core_s"]:,.0f} steps/s |
| a step in the process of the learner, with batches and export | {rates["driver_us_per_step"]:.0f} us |
| the whole loop, {rates["loop_runners"]:.0f} runners, everything exported | \
{rates["loop_steps_per_s"]:,.0f} steps/s |
| an emulator | {rates["emulator_mb"]:.1f} MB |
| a segment of {SEGMENT_STEPS} steps | {segment:.3f} MB in {rates["objects_per_segment"]:.0f} objects |
| a vote's prompt | {rates["prompt_tokens_per_vote"]:,.0f} tokens (an estimate by characters; pictures apart) |

## Assumed

Nothing here was measured: no large model and no cluster was at hand.

| | |
|---|---|
| a core, a GPU, an hour | {assumed["usd_per_core_hour"]:.2f} USD, {assumed["usd_per_gpu_hour"]:.2f} USD |
| a judge's GPU, mean over 7B and 32B | {assumed["prompt_tokens_per_gpu_s"]:,.0f} prompt and \
{assumed["reply_tokens_per_gpu_s"]:,.0f} reply tokens/s, no prefix cache |
| a vote's reply | {assumed["reply_tokens_per_vote"]:.0f} tokens (at most {rates["reply_tokens_most"]:.0f}) |
| object storage | {assumed["usd_per_tb_month"]:.0f} USD a TB and month |

## Carried to 9, 100 and 10,000 environments

| environments | {heads} |
|---|{"---|" * len(sizes)}
{table}

A step costs `1 / (cores x {rates["env_steps_per_core_s"]:,.0f})` seconds on the runners and \
{rates["driver_us_per_step"]:.0f} us in the one process that no runner shortens. A judge pass is {JUDGED} segments x {JUDGES} judges x {VOTES} votes = \
{JUDGED * JUDGES * VOTES:,} requests, {prompt / 1e6:.1f} M prompt and {reply / 1e6:.2f} M reply tokens, \
whatever the number of environments: `JUDGE_BUDGET` sets it.

## Where each part saturates

- **The learner.** There is one. It caps the loop at {most:,.0f} steps/s, however many runners there are. At \
{share(sizes[1]):.0%} and {share(sizes[2]):.1%} of their time the runners of 100 and 10,000 environments work, \
and for the rest they wait: more of them buy variety, not speed. Several runs with a learner each, or fewer \
passes an update (`PPO_EPOCHS`, 10 here), use the cores better.
- **Judges.** A pass takes {sizes[0].judge_gpus * sizes[0].epoch_s:,.0f} GPU seconds. The loop waits for it, so \
that it adds that much to every epoch, divided by the GPUs. A smaller `JUDGE_BUDGET`, a larger `EVAL_INTERVAL` \
or the prefix cache shorten it; all segments of an epoch (`JUDGE_BUDGET=all`) would take \
{EPOCH_STEPS / SEGMENT_STEPS / JUDGED:.0f} times as long.
- **Store.** 400 segments an epoch are {EXPORTED * segment:,.0f} MB; at the pace of 100 environments \
{86_400 / sizes[1].epoch_s * EXPORTED * segment / 1000:,.0f} GB a day, \
{86_400 / sizes[1].epoch_s * EXPORTED * segment * 30 / 1e6 * assumed["usd_per_tb_month"]:,.0f} USD a month for \
a month of it. `KEEP_EPOCHS` bounds it.
- **Memory** is the emulators': {rates["emulator_mb"]:.1f} MB each, \
{SLOTS * rates["emulator_mb"] / 1000 + 0.45:.1f} GB for a full runner.
"""  # noqa: E501  (prose)


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
