"""Installs Python packages on a machine, and checks whether it is fit for jobs."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from questloop.errors import QuestloopError, UsageError
from questloop.fleet import agent, nvidia_smi
from questloop.fleet.agent import FOLDER, NeedsSetupError
from questloop.fleet.models import VM
from questloop.fleet.poller import talk_of
from questloop.fleet.transport import HostKeyError, Transport

_VENV = f"{FOLDER}/venv"
_OLDEST = (3, 11)


@dataclass(frozen=True)
class Check:
    """One thing that was looked at; `mend` says what to do if it is not `ok`."""

    name: str
    ok: bool
    found: str
    mend: str = ""


async def setup(
    transport: Transport, package: str | None = None, extras: str = "grpo", lock: Path | None = None
) -> str:
    """Make `~/.questloop/venv` there with the package and its pins; returns what pip said last.

    `package`: a wheel here, or what pip can install there; None builds a wheel of this source tree. `lock`:
    pins of every package, as in requirements.lock. Run again, it brings an old installation up to date.
    """
    found = await transport.run(["python3", "-c", "import sys; print(*sys.version_info[:2])"])
    if found.exit_code != 0:
        raise NeedsSetupError(
            "python3 is not installed there: install Python 3.11 or newer by its package manager"
        )
    version = tuple(int(part) for part in found.stdout.split()[-2:])  # after what the login shell prints
    if version < _OLDEST:
        raise NeedsSetupError(f"python3 there is {version[0]}.{version[1]}; Python 3.11 or newer is needed")
    await _must(transport, "python3", "-m", "venv", _VENV)
    arguments = ["install", "--disable-pip-version-check", "-q"]
    if lock is not None:
        await transport.put(f"{FOLDER}/setup/requirements.lock", await asyncio.to_thread(lock.read_bytes))
        arguments += ["-c", f"{FOLDER}/setup/requirements.lock"]
    with tempfile.TemporaryDirectory() as folder:
        wheel = Path(package) if package and package.endswith(".whl") else None
        if package is None:
            wheel = await asyncio.to_thread(build_wheel, Path(folder))
        target = package or ""
        if wheel is not None:
            target = f"{FOLDER}/setup/{wheel.name}"
            await transport.put(target, await asyncio.to_thread(wheel.read_bytes))
    await _must(transport, f"{_VENV}/bin/pip", *arguments, f"{target}[{extras}]" if extras else target)
    listed = await _must(transport, f"{_VENV}/bin/pip", "show", "questloop")
    return next((line for line in listed.splitlines() if line.startswith("Version:")), listed)


def build_wheel(folder: Path) -> Path:
    """A wheel of the source tree that this package runs from."""
    root = Path(__file__).parents[3]
    if not (root / "pyproject.toml").exists():
        raise UsageError(
            "not run from a source tree: name what to install by --package (a wheel, or for pip)"
        )
    made = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(folder), str(root)],
        capture_output=True,
        text=True,
    )
    wheels = list(folder.glob("questloop-*.whl"))
    if made.returncode or not wheels:
        raise QuestloopError(f"the wheel could not be built: {made.stderr.strip()[-300:]}")
    return wheels[0]


async def check(vm: VM, transport: Transport) -> AsyncIterator[Check]:
    """Look at a machine step by step; ends at the first step that all later ones need."""
    try:
        hello = await agent.call(transport, "hello", {})
    except NeedsSetupError as error:
        yield Check("python", False, str(error), f"questloop fleet vm setup {vm.name}")
        return
    except HostKeyError as error:  # says itself what to do
        yield Check("connection", False, str(error))
        return
    except QuestloopError as error:
        yield Check("connection", False, str(error), f"ssh -p {vm.port} {vm.user}@{vm.ip_address} true")
        return
    place = f"{vm.user}@{vm.ip_address}:{vm.port}, host key verified" if vm.user else "local"
    yield Check("connection", True, "; ".join(filter(None, (place, talk_of(transport)))))
    yield Check("python", True, hello["python"])
    yield Check("boot id", True, hello["boot_id"])
    free = await transport.run(["df", "-Pm", "."])
    megabytes = int(free.stdout.split()[-3]) if free.exit_code == 0 else 0
    yield Check("disk", megabytes >= 2000, f"{megabytes} MB free in the home folder", "free some space there")
    reply = await agent.call(transport, "poll", {"queries": nvidia_smi.QUERIES, "timeout_s": 10})
    driver = nvidia_smi.read(reply["smi"], reply["own_pids"])
    if driver.slots is None:
        yield Check("gpus", False, driver.detail or "unknown", "nvidia-smi there tells more")
    else:
        counts = f"{len(driver.slots)} GPU(s)" + (f"; {driver.detail}" if driver.detail else "")
        yield Check("gpus", driver.detail is None, counts, "jobs that need no GPU need `--cpu-slots`")
    program = await transport.run([f"{_VENV}/bin/questloop", "version"])
    said = program.stdout.decode("utf-8", "replace").split() if program.exit_code == 0 else []
    found = said[-1] if said else "not installed"
    yield Check(
        "questloop",
        program.exit_code == 0,
        found,
        f"questloop fleet vm setup {vm.name} (for grpo and judge jobs)",
    )


async def _must(transport: Transport, *argv: str) -> str:
    result = await transport.run(argv)
    if result.exit_code:
        lines = (result.stderr or result.stdout).decode("utf-8", "replace").strip().splitlines()
        raise QuestloopError(f"{argv[0]}: {lines[-1] if lines else f'exit code {result.exit_code}'}")
    return result.stdout.decode("utf-8", "replace")
