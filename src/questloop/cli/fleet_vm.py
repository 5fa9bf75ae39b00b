"""The commands `questloop fleet vm ...`, which add, set up, test and remove machines."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from questloop.cli.fleet_common import (
    MACHINE_COLUMNS,
    MOST_CPU_SLOTS,
    columns,
    machine_rows,
    on_machine,
    open_fleet,
    plain,
    table,
)
from questloop.cli.options import JsonOption
from questloop.errors import QuestloopError
from questloop.exit_codes import ExitCode

if TYPE_CHECKING:
    from questloop.fleet.transport import Transport
    from questloop.settings import Settings

app = typer.Typer(help="The machines.", no_args_is_help=True)

NameArgument = Annotated[str, typer.Argument(help="Name of the machine.")]


@app.command("add")
def vm_add(
    name: NameArgument,
    address: Annotated[str, typer.Argument(help="IP address or host name.")],
    user: Annotated[str, typer.Option(help="User there.")],
    key: Annotated[Path, typer.Option(help="Private key file; its permissions must be 600.")],
    port: Annotated[int, typer.Option(min=1, max=65535, help="SSH port.")] = 22,
    cpu_slots: Annotated[
        int, typer.Option(min=0, max=MOST_CPU_SLOTS, help="Jobs without a GPU at once.")
    ] = 0,
    fingerprint: Annotated[
        str | None, typer.Option(help="SHA256:... that the host key must have; unset: you are asked.")
    ] = None,
) -> None:
    """Add a machine after showing the fingerprint of its host key.

    Example:

        questloop fleet vm add gpu1 192.0.2.10 --user train --key ~/.ssh/fleet
    """
    db, settings = open_fleet()
    from questloop.fleet import machines
    from questloop.fleet.transport import check_private_key

    check_private_key(key)
    host_key = _confirmed_host_key(name, address, port, fingerprint, settings)
    machines.add(
        db,
        name,
        address,
        port=port,
        user=user,
        ssh_key_path=str(key.expanduser().absolute()),
        host_key=host_key,
        cpu_slots=cpu_slots,
    )
    print(f"{name} added; the poller looks at it next. questloop fleet vm test {name} looks now")


@app.command("list")
def vm_list(as_json: JsonOption = False) -> None:
    """List machines with their GPUs.

    Example:

        questloop fleet vm list
    """
    db, _ = open_fleet()
    from questloop.fleet import machines

    found = machines.find(db)
    if as_json:
        print(json.dumps([{**columns(vm), "slots": [columns(slot) for slot in vm.slots]} for vm in found]))
        return
    table(MACHINE_COLUMNS, machine_rows(found))
    for vm in found:
        if vm.state_detail:
            print(plain(f"{vm.name}: {vm.state_detail}"))


@app.command("trust")
def vm_trust(
    name: NameArgument,
    fingerprint: Annotated[
        str | None, typer.Option(help="SHA256:... that the host key must have; unset: you are asked.")
    ] = None,
) -> None:
    """Accept the host key that a machine shows now.

    Example:

        questloop fleet vm trust gpu1
    """
    db, settings = open_fleet()
    from questloop.fleet import machines

    vm = machines.get(db, name)
    machines.trust(db, name, _confirmed_host_key(name, vm.ip_address, vm.port, fingerprint, settings))
    print(f"{name} trusted")


@app.command("setup")
def vm_setup(
    name: NameArgument,
    package: Annotated[
        str | None, typer.Option(help="Wheel, or what pip installs there; unset: this source tree.")
    ] = None,
    extras: Annotated[str, typer.Option(help="Extras of the package.")] = "grpo",
    lock: Annotated[Path | None, typer.Option(help="Pins, such as requirements.lock.")] = None,
) -> None:
    """Put the package and its pins into ~/.questloop/venv on a machine.

    Example:

        questloop fleet vm setup gpu1 --lock requirements.lock
    """
    db, settings = open_fleet()
    from questloop.fleet import machines
    from questloop.fleet import setup as work

    vm = machines.get(db, name)
    print(f"{name}: installing; this takes minutes the first time")
    print(on_machine(vm, settings, lambda there: work.setup(there, package, extras, lock), timeout_s=3600))


@app.command("test")
def vm_test(name: NameArgument, as_json: JsonOption = False) -> None:
    """Look at a machine step by step: connection, Python, disk, GPUs, package.

    Example:

        questloop fleet vm test gpu1
    """
    db, settings = open_fleet()
    from questloop.fleet import machines
    from questloop.fleet import setup as work

    vm = machines.get(db, name)

    async def look(transport: Transport) -> list[work.Check]:
        return [item async for item in work.check(vm, transport)]

    checks = on_machine(vm, settings, look)
    if as_json:
        print(json.dumps([vars(item) for item in checks]))
    for item in [] if as_json else checks:
        print(plain(f"{'ok  ' if item.ok else 'FAIL'} {item.name}: {item.found}"))
        if not item.ok and item.mend:
            print(f"     try: {item.mend}")
    if not all(item.ok for item in checks):
        raise typer.Exit(ExitCode.FAILED)


@app.command("drain")
def vm_drain(
    name: NameArgument, off: Annotated[bool, typer.Option("--off", help="Take jobs again.")] = False
) -> None:
    """Give a machine no new job; what runs there runs on.

    Example:

        questloop fleet vm drain gpu1
    """
    db, _ = open_fleet()
    from questloop.fleet import machines

    machines.drain(db, name, off)
    print(f"{name} {'takes jobs again' if off else 'takes no new job'}")


@app.command("prune")
def vm_prune(
    name: NameArgument,
    days: Annotated[float, typer.Option(min=0, help="Ended at least so many days ago.")] = 14,
) -> None:
    """Remove inputs, outputs and logs of ended jobs from a machine; copies in LOG_DIR and stores stay.

    Example:

        questloop fleet vm prune gpu1 --days 30
    """
    db, settings = open_fleet()
    from questloop.episodes.plain import counted
    from questloop.fleet import agent, machines

    request = {"older_than_s": days * 86_400}
    vm = machines.get(db, name)
    reply = on_machine(vm, settings, lambda there: agent.call(there, "prune", request), timeout_s=600)
    print(f"{name}: {counted(reply['removed'], 'attempt')} removed, {reply['freed_bytes'] / 1e6:.0f} MB")


@app.command("remove")
def vm_remove(
    name: NameArgument,
    force: Annotated[
        bool, typer.Option("--force", help="Remove it with jobs too: they are ended there.")
    ] = False,
) -> None:
    """Forget a machine; with --force also one that has jobs, and say what becomes of them.

    Example:

        questloop fleet vm remove gpu1
    """
    db, settings = open_fleet()
    from questloop.fleet import machines

    if not force:
        machines.remove(db, name)
    else:
        from questloop.fleet import removing

        vm = machines.get(db, name)

        async def end(there: Transport) -> list[str]:
            return await removing.end_jobs(db, name, there)

        for line in on_machine(vm, settings, end):
            print(line)
        machines.remove(db, name, force=True)
    print(f"{name} removed")


def _confirmed_host_key(
    name: str, address: str, port: int, fingerprint: str | None, settings: Settings
) -> str:
    from questloop.fleet.transport import host_key_of

    key, shown = asyncio.run(host_key_of(address, port, settings.fleet.ssh_timeout_s))
    if fingerprint is not None:
        if fingerprint != shown:
            raise QuestloopError(f"{name} shows {shown}, not {fingerprint}: not trusted")
        return key
    print(f"{name} ({address}:{port}) shows {key.split()[0]} {shown}")
    print("compare it with `ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub` on the machine's own console")
    if not typer.confirm("is it the same?"):
        raise QuestloopError(f"{name}: host key not trusted")
    return key
