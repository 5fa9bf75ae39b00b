"""The command `questloop doctor`: finds what is wrong with a set-up and says how to mend it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from questloop.cli.loop_words import said_when_slow
from questloop.cli.options import JsonOption, RomOption, StartStatesOption
from questloop.errors import QuestloopError
from questloop.exit_codes import ExitCode

if TYPE_CHECKING:
    from questloop.settings import Settings


@dataclass(frozen=True)
class DoctorCheck:
    """A line of the report: what was looked at, whether it is right, and what is wrong or was found."""

    name: str
    ok: bool
    detail: str


def doctor(
    rom: RomOption = None,
    start_states: StartStatesOption = None,
    steps: Annotated[int, typer.Option(min=200, help="Steps of random play.")] = 2000,
    as_json: JsonOption = False,
) -> None:
    """Check the set-up: ROM, what is read from it while random inputs run, judges, store and Ray.

    Examples:

        questloop doctor

        questloop doctor --rom zelda.gbc --start-states states
    """
    from questloop import settings

    loaded = settings.load(flags={"rom_path": rom, "start_states": start_states})
    checks = []
    for check in _run(loaded, steps):
        checks.append(check)
        if not as_json:
            print(f"{'ok  ' if check.ok else 'FAIL'}  {check.name}: {check.detail}", flush=True)
    if as_json:
        print(json.dumps({"ok": all(c.ok for c in checks), "checks": [asdict(c) for c in checks]}))
    if not all(check.ok for check in checks):
        raise typer.Exit(ExitCode.FAILED)


def _run(settings: Settings, steps: int) -> Iterator[DoctorCheck]:
    for name, check in CHECKS:
        try:
            with said_when_slow(f"      {name}: checking"):
                found = list(check(settings, steps))
        except QuestloopError as error:
            found = [DoctorCheck(name, False, str(error))]
        yield from found


def check_game(settings: Settings, steps: int) -> Iterator[DoctorCheck]:
    """The ROM loads, a profile plays it, its start states fit, and the gates stay quiet in random play."""
    from questloop.game import gates
    from questloop.game.profiles import broken_profiles, profile_for
    from questloop.game.rom import Rom
    from questloop.game.start_states import load_start_states, waits_at_title
    from questloop.game.survey import survey

    for broken in broken_profiles():
        yield DoctorCheck("profiles", False, broken.why)
    rom = Rom.load(settings.game.rom_path)
    profile = profile_for(rom, settings.game.guide, settings.game.game_profile)
    yield DoctorCheck(
        "rom", True, f"{rom.path} ({rom.title!r}, sha256 {rom.sha256[:12]}), profile {profile.name}"
    )
    starts = load_start_states(rom, profile, settings.game.start_states)
    waits = waits_at_title(rom, profile, settings.game.start_states)
    yield DoctorCheck("start states", not waits, waits or ", ".join(item.name for item in starts.states))
    told: list[str] = []
    for start in starts.states:
        findings = gates.check_game(rom, profile, start, steps, settings.loop.seed)
        told += [f"{start.name}: {finding.gate}: {finding.reason}" for finding in findings]
        for finding in findings:
            yield DoctorCheck(f"memory from {start.name}", False, f"{finding.gate}: {finding.reason}")
        if not findings:
            yield DoctorCheck(f"memory from {start.name}", True, f"plausible in {steps:,} random steps")
    if not profile.walkthrough:
        block = survey(rom, profile, starts.states, steps, told, settings.loop.seed)
        yield DoctorCheck("survey", True, f"what the game shows, to send back with a report\n{block}")


def check_judges(settings: Settings, steps: int) -> Iterator[DoctorCheck]:
    """Every judge's server answers and offers the model that the settings name."""
    import asyncio

    from questloop.judges.rubric import JUDGES, Judge
    from questloop.llm.client import ChatClient
    from questloop.settings import LLMBackend

    async def look(judge: Judge) -> DoctorCheck:
        async with ChatClient(settings.llm) as client:
            route = client.route(judge.role)
            offered = await client.models(judge.role)
        detail = f"{route.model} at {route.url}"
        if route.model in offered:
            return DoctorCheck(f"judge {judge.name}", True, detail)
        setting = f"LLM_MODEL_{judge.name.upper()}"
        named = f"set {setting} to one of {', '.join(offered)}"
        mend = named if offered else "the server lists no models: load one there"
        return DoctorCheck(f"judge {judge.name}", False, f"no {detail}; {mend}")

    if settings.llm.backend is LLMBackend.EMBEDDED:
        yield DoctorCheck("judges", True, "rule-based, embedded")
        return
    for judge in JUDGES:
        try:
            yield asyncio.run(look(judge))
        except QuestloopError as error:
            yield DoctorCheck(f"judge {judge.name}", False, str(error))


def check_store(settings: Settings, steps: int) -> Iterator[DoctorCheck]:
    """What is written to the store can be read back, and there is room for more."""
    from questloop.storage import keys
    from questloop.storage.store import folder_path, open_store

    url = settings.store.url
    if not url.startswith("s3://") and not (folder := folder_path(url)).exists():
        yield DoctorCheck("store", True, f"{folder}: new, the first run makes it")
        return
    try:
        store = open_store(settings.store)
        store.check_space()
    except QuestloopError as error:
        yield DoctorCheck("store", False, str(error))
        return
    probe = keys.doctor_probe()
    try:
        written = store.put(probe, b"probe").size
        same = store.get(probe) == b"probe"
    finally:
        store.delete([probe])
    remark = f"; {store.remark()}" if store.remark() else ""
    yield DoctorCheck("store", same, f"{store.url}: wrote {written} bytes, read back, removed{remark}")


def check_ray(settings: Settings, steps: int) -> Iterator[DoctorCheck]:
    """Ray starts on this machine, or RAY_ADDRESS answers: a head's, or the dashboard's that takes jobs."""
    address = settings.training.ray_address
    if address and address.startswith(("http://", "https://")):
        from questloop.pipeline.ray_jobs import connect

        connect(address)
        yield DoctorCheck("ray", True, f"{address} takes jobs, as `questloop epoch` submits them")
        return
    import ray

    from questloop.training.cluster import start_ray

    layout = start_ray(settings.training)
    ray.shutdown()
    where = settings.training.ray_address or "this machine"
    yield DoctorCheck("ray", True, f"{layout.runners} x {layout.slots_per_runner} environments on {where}")


CHECKS: tuple[tuple[str, Callable[[Settings, int], Iterator[DoctorCheck]]], ...] = (
    ("game", check_game),
    ("judges", check_judges),
    ("store", check_store),
    ("ray", check_ray),
)
"""Name and function of each check, in order; a check yields what it finds or raises a `QuestloopError`."""
