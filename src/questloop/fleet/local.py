"""This machine as one of the fleet's, without an SSH server in between."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from questloop.fleet.contract import CHUNK, Result, TransportError, part_of

_LOCAL_COMMANDS = 8
# What a job on this machine keeps of this process's environment, beside LC_*.
_PLAIN = {
    *("USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "XDG_RUNTIME_DIR"),
    *("LD_LIBRARY_PATH", "PYTHONPATH", "QUESTLOOP_BOOT_ID_FILE"),
}


class LocalTransport:
    """This machine, without an SSH server."""

    def __init__(self, home: Path | None = None, timeout_s: float = 20) -> None:
        self.home = home or Path.home()
        self.timeout_s = timeout_s
        self.talk = ""
        # Jobs find the `questloop` of this very installation.
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
        # As over SSH, a job gets a user's plain environment: never the settings and secrets of this process.
        plain = {name: value for name, value in os.environ.items() if _is_plain(name)}
        self._environment = {**plain, "HOME": str(self.home), "PATH": path}
        # Threads, since asyncio's own processes can hang when they are cancelled while they start (3.11).
        self._commands = ThreadPoolExecutor(_LOCAL_COMMANDS, "local-command")

    async def run(self, argv: Sequence[str], stdin: bytes = b"") -> Result:
        """See `Transport.run`."""
        loop = asyncio.get_running_loop()
        try:
            done = await loop.run_in_executor(self._commands, self._run, argv, stdin)
        except RuntimeError:  # by a pool that made another transport since
            raise TransportError("the transport was closed") from None
        except FileNotFoundError:
            return Result(127, b"", f"{argv[0]}: not found\n".encode())
        except OSError as error:
            raise TransportError(f"{argv[0]}: {error.strerror}") from None
        except subprocess.TimeoutExpired:
            raise TransportError(f"no answer within {self.timeout_s:.0f} s") from None
        return Result(done.returncode, done.stdout, done.stderr)

    async def ask(self, argv: Sequence[str], line: bytes, mark: bytes = b"") -> Result:
        """See `Transport.ask`: a command of its own for every line."""
        return await self.run(argv, line)

    async def put(self, path: str, data: bytes, mode: int = 0o600) -> None:
        """See `Transport.put`."""
        await asyncio.to_thread(self._put, self.home / path, data, mode)

    async def read_from(self, path: str, offset: int, limit: int = CHUNK) -> bytes:
        """See `Transport.read_from`."""
        return await asyncio.to_thread(self._read, self.home / path, offset, limit)

    async def close(self) -> None:
        """Take no more commands. Python's end waits for those that run, `timeout_s` at most."""
        self._commands.shutdown(wait=False)

    def _run(self, argv: Sequence[str], stdin: bytes) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            argv,
            input=stdin,
            capture_output=True,
            timeout=self.timeout_s,
            cwd=self.home,
            env=self._environment,
            start_new_session=True,
        )

    @staticmethod
    def _put(path: Path, data: bytes, mode: int) -> None:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        part = Path(part_of(str(path)))
        part.write_bytes(data)
        part.chmod(mode)
        part.replace(path)

    @staticmethod
    def _read(path: Path, offset: int, limit: int) -> bytes:
        try:
            with path.open("rb") as file:
                file.seek(offset)
                return file.read(limit)
        except FileNotFoundError:
            return b""


def _is_plain(name: str) -> bool:
    return name in _PLAIN or name.startswith("LC_")
