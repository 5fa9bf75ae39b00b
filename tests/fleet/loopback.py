"""Machines on this one: an SSH server each on 127.0.0.1, a home folder, an `nvidia-smi` that prints a file.

Commands are real processes with the machine's home and boot id in their environment, which is how a reboot
finds them. What is not real: the GPUs, and that all machines share one kernel.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import uuid
from pathlib import Path

import asyncssh

NVIDIA_SMI = """#!/bin/sh
case "$1" in
--query-gpu=*) cat "$HOME/smi/gpus.csv" ;;
--query-compute-apps=*) cat "$HOME/smi/apps.csv" ;;
-L) cat "$HOME/smi/list.txt" ;;
esac
exit "$(cat "$HOME/smi/exit_code")"
"""


class LoopbackMachine:
    """One machine. `cut` and `restore` its network, `reboot` it, or `stop` it."""

    def __init__(self, name: str, home: Path, client_key: asyncssh.SSHKey, gpus: int = 2) -> None:
        self.name = name
        self.home = home
        self.host_key = asyncssh.generate_private_key("ssh-ed25519")
        self.delay_s = 0.0
        self.greeting = ""  # what the login shell runs before every command
        self.commands: list[str] = []
        self._client_key = client_key
        self._server: asyncssh.SSHAcceptor | None = None
        self._connections: set[asyncssh.SSHServerConnection] = set()
        self._commands_running: set[asyncio.Task[None]] = set()
        self.port = 0
        (home / "bin").mkdir(parents=True, exist_ok=True)
        (home / "smi").mkdir(exist_ok=True)
        script = home / "bin" / "nvidia-smi"
        script.write_text(NVIDIA_SMI)
        script.chmod(0o755)
        self.smi(gpus=[gpu_row(index, gpu_uuid(name, index)) for index in range(gpus)])
        self.boot()

    @property
    def public_key(self) -> str:
        """The host key as a row of the fleet holds it."""
        return " ".join(self.host_key.export_public_key("openssh").decode().split()[:2])

    def smi(self, gpus=None, apps=None, listing=None, exit_code: int = 0) -> None:
        """Set what `nvidia-smi` prints."""
        for name, lines in (("gpus.csv", gpus), ("apps.csv", apps or []), ("list.txt", listing or [])):
            if lines is not None:
                (self.home / "smi" / name).write_text("".join(f"{line}\n" for line in lines))
        (self.home / "smi" / "exit_code").write_text(str(exit_code))

    def boot(self) -> None:
        """A new boot id."""
        (self.home / "boot_id").write_text(f"{uuid.uuid4()}\n")

    async def start(self) -> None:
        """Listen; on the same port as before after the first time."""
        machine = self

        class Server(asyncssh.SSHServer):
            def connection_made(self, connection: asyncssh.SSHServerConnection) -> None:
                self.connection = connection
                machine._connections.add(connection)

            def connection_lost(self, error: Exception | None) -> None:
                machine._connections.discard(self.connection)

            def begin_auth(self, username: str) -> bool:
                return True

            def public_key_auth_supported(self) -> bool:
                return True

            def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
                return key == machine._client_key.convert_to_public()

        self._server = await asyncssh.create_server(
            Server,
            "127.0.0.1",
            self.port,
            server_host_keys=[self.host_key],
            process_factory=self._run,
            sftp_factory=lambda channel: asyncssh.SFTPServer(channel, chroot=str(self.home).encode()),
            encoding=None,
            reuse_address=True,
        )
        self.port = self._server.get_port()

    async def cut(self) -> None:
        """No connection stands and none is taken."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for connection in list(self._connections):
            connection.abort()

    async def restore(self) -> None:
        """Take connections again."""
        if self._server is None:
            await self.start()

    async def reboot(self) -> None:
        """Every process ends at once, and the machine comes back under a new boot id."""
        await self.cut()
        self.kill_everything()
        self.boot()
        await self.restore()

    def break_python(self, broken: bool = True) -> None:
        """Let every new `python3` there end with an error, or mend it."""
        program = self.home / "bin" / "python3"
        program.unlink(missing_ok=True)
        if broken:
            program.write_text(
                "#!/bin/sh\necho 'python3: error while loading shared libraries' >&2\nexit 1\n"
            )
            program.chmod(0o755)

    async def stop(self) -> None:
        """End it with all its processes, and with what passed on their output."""
        await self.cut()
        self.kill_everything()
        if self._commands_running:
            _, late = await asyncio.wait(self._commands_running, timeout=1)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    def kill_everything(self) -> None:
        """KILL until nothing of this machine is left.

        All are stopped first: a runner must not see its job die before itself, and write down how.
        """
        while found := self.processes():
            for number in (signal.SIGSTOP, signal.SIGKILL):
                for pid in found:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, number)

    def processes(self) -> set[int]:
        """Everything that runs on this machine."""
        mark = f"QUESTLOOP_BOOT_ID_FILE={self.home}/boot_id".encode()
        found = set()
        for entry in os.scandir("/proc"):
            if entry.name.isdigit():
                try:
                    with open(f"/proc/{entry.name}/environ", "rb") as file:
                        marked = mark in file.read().split(b"\0")
                    # One that has cleared its environment is still in the folder that it was started in.
                    if marked or os.readlink(f"/proc/{entry.name}/cwd").startswith(f"{self.home}/"):
                        found.add(int(entry.name))
                except OSError:
                    continue
        return found - {os.getpid()}

    async def _run(self, process: asyncssh.SSHServerProcess) -> None:
        self.commands.append(process.command or "")
        task = asyncio.current_task()
        assert task is not None
        self._commands_running.add(task)
        task.add_done_callback(self._commands_running.discard)
        if self.delay_s:
            await asyncio.sleep(self.delay_s)
        # Shielded: a start that is cancelled half way waits for ever (Python 3.11).
        start = asyncio.create_subprocess_exec(
            "/bin/sh",
            "-c",
            f"{self.greeting}{process.command or ''}",
            cwd=self.home,
            env={
                "HOME": str(self.home),
                # This Python first: a version manager's `python3` is a script that takes long to start.
                "PATH": f"{self.home}/bin:{Path(sys.executable).parent}:{os.environ['PATH']}",
                "QUESTLOOP_BOOT_ID_FILE": f"{self.home}/boot_id",
            },
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        starting = asyncio.ensure_future(start)
        try:
            child = await asyncio.shield(starting)
        except asyncio.CancelledError:
            (await starting).kill()
            raise
        asked = asyncio.create_task(_pass_on(process.stdin, child.stdin, end=True))
        try:
            await asyncio.gather(
                _pass_on(child.stdout, process.stdout), _pass_on(child.stderr, process.stderr)
            )
            code = await child.wait()
            process.exit(code if code >= 0 else 255)
        except (OSError, asyncssh.Error):
            with contextlib.suppress(ProcessLookupError):
                child.kill()
            await child.wait()
        finally:
            asked.cancel()
            await asyncio.gather(asked, return_exceptions=True)


async def _pass_on(source, target, end: bool = False) -> None:
    """Everything that comes, as it comes; then `target`'s end, if asked."""
    try:
        while data := await source.read(1 << 16):
            target.write(data)
            await target.drain()
    finally:
        if end:
            target.close()


def gpu_uuid(machine: str, index: int) -> str:
    """The UUID of a made-up GPU."""
    return f"GPU-{machine}-{index}"


def gpu_row(index: int, identifier: str, **changed) -> str:
    """A row of the GPU query as an idle H100 prints it."""
    values = {
        "name": "NVIDIA H100 80GB HBM3",
        "total": "81559",
        "used": "0",
        "free": "81079",
        "utilisation": "0",
        "mig": "Disabled",
    } | changed
    return ", ".join([str(index), identifier, *values.values()])


def client_key(folder: Path) -> tuple[asyncssh.SSHKey, Path]:
    """A fresh key for a dispatcher, in a file only its owner may read."""
    key = asyncssh.generate_private_key("ssh-ed25519")
    path = folder / "id_ed25519"
    path.write_bytes(key.export_private_key())
    path.chmod(0o600)
    return key, path
