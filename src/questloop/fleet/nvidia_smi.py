"""Parses `nvidia-smi`; a GPU counts as healthy only if everything that is needed is reported."""

from __future__ import annotations

import csv
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from questloop.fleet.machines import SlotReading
from questloop.fleet.states import Health, SlotKind

_FIELDS = "index,uuid,name,memory.total,memory.used,memory.free,utilization.gpu,mig.mode.current"
_CSV = "--format=csv,noheader,nounits"
QUERIES = {
    "gpus": [f"--query-gpu={_FIELDS}", _CSV],
    "apps": ["--query-compute-apps=gpu_uuid,pid,used_memory,process_name", _CSV],
}
MIG_QUERIES = QUERIES | {"list": ["-L"]}

_LONGEST_LINE = 10_000
_LONGEST_UUID, _LONGEST_NAME = 96, 128
_NO_DEVICES = "no devices were found"
_BROKEN = ("lost", "unknown error", "err!", "fallen off", "requires reset", "reset required")
_MIG_LINE = re.compile(
    r"^\s+MIG\s+(?P<profile>\S+)\s+Device\s+(?P<device>\d{1,3}):\s+\(UUID:\s*(?P<uuid>MIG-[\w./-]{1,90})\)"
)
_GPU_LINE = re.compile(r"^GPU\s+(?P<index>\d+):.*\(UUID:\s*(?P<uuid>GPU-[^)\s]+)\)")
_PROFILE_GB = re.compile(r"\.(\d{1,5})gb")


@dataclass(frozen=True)
class Driver:
    """A machine's GPUs. `slots` is None if the driver did not answer; `detail` is what to tell a person."""

    slots: tuple[SlotReading, ...] | None
    detail: str | None = None
    mig: bool = False


@dataclass(frozen=True)
class _Row:
    index: int
    uuid: str
    name: str
    memory_mb: int | None
    used_mb: int | None
    utilisation: int | None
    mig: bool
    health: Health


def read(smi: Mapping[str, Any], own_pids: Collection[int]) -> Driver:
    """Make sense of the answers to `QUERIES` or `MIG_QUERIES`; `own_pids` are the fleet's processes."""
    error = smi.get("error")
    if error == "absent":
        return Driver(())
    if error is not None:
        return Driver(None, str(smi.get("detail", error)))
    answer = smi["gpus"]
    rows, problems = parse_gpus(answer["output"])
    if not rows:
        if _NO_DEVICES in answer["output"].lower():
            return Driver(())
        return Driver(None, problems or f"nvidia-smi ended with exit code {answer['exit_code']}")
    foreign, told = _foreign_use(smi.get("apps"), own_pids)
    if not told:
        problems = _join(problems, "processes on the GPUs are not told")
    slots: list[SlotReading] = []
    for row in rows:
        if row.mig:
            continue
        slots.append(
            SlotReading(
                SlotKind.CUDA,
                row.index,
                row.uuid,
                row.health if told else Health.UNKNOWN,
                row.name,
                row.memory_mb or 0,
                row.used_mb or 0,
                row.utilisation,
                row.uuid in foreign,
            )
        )
    mig = {row.uuid: row for row in rows if row.mig}
    if mig and "list" in smi:
        slots += _slices(smi["list"]["output"], mig, foreign, told)
    once = {slot.uuid: slot for slot in slots}  # one that is listed twice is one
    return Driver(tuple(once.values()), problems or None, bool(mig))


def parse_gpus(output: str) -> tuple[list[_Row], str]:
    """The rows of a GPU query, and what is wrong in one line; a line that is no row spoils no other."""
    rows: list[_Row] = []
    problems = ""
    for fields in _lines(output):
        if not any(fields):
            continue
        if len(fields) != 8 or not _is_gpu(*fields[:2]):
            problems = _join(problems, ", ".join(fields)[:200])
            continue
        row = _row(fields)
        rows.append(row)
        if row.health is not Health.HEALTHY:
            problems = _join(
                problems, f"GPU {row.index} ({row.name}) is {row.health}: {', '.join(fields[3:7])}"
            )
    return rows, problems


def parse_apps(output: str) -> list[tuple[str, int | None]]:
    """GPU UUID and process id (None where it is not told) of every process."""
    apps: list[tuple[str, int | None]] = []
    for fields in _lines(output):
        if len(fields) >= 2 and fields[0].startswith(("GPU-", "MIG-")):
            apps.append((fields[0], _int(fields[1])))
    return apps


def _lines(output: str) -> Iterator[list[str]]:
    """The fields of every line; a line that is no CSV is one field."""
    for line in output.splitlines():
        try:
            fields = next(csv.reader([line[:_LONGEST_LINE]], skipinitialspace=True), [])
        except csv.Error:
            fields = [line[:_LONGEST_LINE]]
        yield [field.strip() for field in fields]


def _is_gpu(index: str, uuid: str) -> bool:
    is_uuid = uuid.startswith("GPU-") and uuid.isprintable() and len(uuid) <= _LONGEST_UUID
    return is_uuid and _is_number(index) and len(index) < 5


def _is_number(text: str) -> bool:
    """Whether a database takes it: other scripts' digits are no numbers, and ten digits are too many."""
    return text.isascii() and text.isdigit() and len(text) < 10


def _row(fields: list[str]) -> _Row:
    index, uuid, name, total, used, free, utilisation, mig = fields
    numbers = total, used, free
    if any(word in field.lower() for field in (name, *numbers, utilisation) for word in _BROKEN):
        health = Health.UNHEALTHY
    elif not all(map(_is_number, numbers)) or int(total) == 0:
        health = Health.UNKNOWN
    else:
        health = Health.HEALTHY
    return _Row(
        int(index),
        uuid,
        name[:_LONGEST_NAME],
        _int(total),
        _int(used),
        _int(utilisation),
        mig == "Enabled",
        health,
    )


def _foreign_use(answer: Mapping[str, Any] | None, own_pids: Collection[int]) -> tuple[set[str], bool]:
    if answer is None or answer["exit_code"] != 0:
        return set(), False
    own = set(own_pids)
    return {uuid for uuid, pid in parse_apps(answer["output"]) if pid not in own}, True


def _slices(listing: str, parents: Mapping[str, _Row], foreign: set[str], told: bool) -> list[SlotReading]:
    """The slices of GPUs in MIG mode, which take the place of the whole GPU."""
    slots = []
    parent: _Row | None = None
    for line in listing.splitlines():
        if gpu := _GPU_LINE.match(line):
            parent = parents.get(gpu["uuid"])
            continue
        found = _MIG_LINE.match(line)
        if found is None or parent is None:
            continue
        size = _PROFILE_GB.search(found["profile"])
        healthy = told and parent.health is not Health.UNHEALTHY and size is not None
        slots.append(
            SlotReading(
                SlotKind.CUDA,
                1000 + parent.index * 100 + int(found["device"]),
                found["uuid"],
                Health.HEALTHY if healthy else Health.UNKNOWN,
                f"{parent.name} MIG {found['profile']}"[:_LONGEST_NAME],
                int(size[1]) * 1024 if size else 0,
                foreign_processes=found["uuid"] in foreign or parent.uuid in foreign,
            )
        )
    return slots


def _int(field: str) -> int | None:
    return int(field) if _is_number(field) else None


def _join(first: str, second: str) -> str:
    return f"{first}; {second}"[:1000] if first else second
