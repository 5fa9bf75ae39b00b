"""Reaches a machine: by SSH with its host key verified, or as a child process on this machine.

A command is a list of arguments and never holds what a user wrote: requests travel on standard input. Over
SSH the list is quoted once, for the login shell that the server puts in between. That shell may print by
itself, so files travel by commands that mark their answers, not by SFTP, which such a line would spoil.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import shlex
import stat
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import asyncssh

from questloop.fleet.contract import (
    CHUNK,
    AddressError,
    BadHostKeyError,
    ChangedHostKeyError,
    HostKeyError,
    PrivateKeyError,
    Result,
    Transport,
    TransportError,
    UnknownHostKeyError,
    part_of,
    printable,
)
from questloop.fleet.local import LocalTransport
from questloop.fleet.models import VM
from questloop.fleet.states import TransportKind

__all__ = [
    "AddressError",
    "BadHostKeyError",
    "ChangedHostKeyError",
    "HostKeyError",
    "LocalTransport",
    "PrivateKeyError",
    "Result",
    "SSHTransport",
    "Transport",
    "TransportError",
    "TransportPool",
    "UnknownHostKeyError",
    "check_address",
    "check_private_key",
    "connect",
    "host_key_of",
    "printable",
]
T = TypeVar("T")
_SESSIONS = 7  # OpenSSH takes ten per connection: one is for files, one for looks, one is to spare
_REOPEN_PAUSES_S = (0.1, 0.3, 1.0, 2.0)
_MOST_NOISE = 1 << 16
_PASSPHRASE = (
    "it has a passphrase, and nobody is there to type it: take a key without one (`ssh-keygen -t ed25519 -N "
    "''`), or name no key in the row and start the daemons where an ssh-agent holds this one"
)
_PYTHON = ["python3", "-I", "-S", "-c"]


def _one_line(code: str) -> str:
    """A program on one line, which every login shell passes on as it is.

    Between single quotes fish reads backslashes and csh exclamation marks, so there are none.
    """
    return f'import base64;exec(base64.b64decode("{base64.b64encode(code.encode()).decode()}"))'


_WRITER = _one_line(
    """import os, sys
path, part, mode = sys.argv[1], sys.argv[2], int(sys.argv[3])
os.umask(0o077)
os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
    while True:
        data = sys.stdin.buffer.read(1 << 20)
        if not data:
            break
        file.write(data)
os.chmod(part, mode)
os.replace(part, path)
"""
)
_READER = _one_line(
    """import base64, json, signal, sys
signal.alarm(600)
for line in sys.stdin:
    question, path, offset, limit = json.loads(line)
    try:
        with open(path, "rb") as file:
            file.seek(offset)
            data = file.read(limit)
    except OSError:
        data = b""
    print("\\n" + question, base64.b64encode(data).decode(), flush=True)
    signal.alarm(600)
"""
)


class SSHTransport:
    """A kept connection; opened when first needed, and anew after it broke."""

    def __init__(self, vm: VM, timeout_s: float = 20) -> None:
        self.vm = vm
        self.timeout_s = timeout_s
        self.talk = ""
        self._connection: asyncssh.SSHClientConnection | None = None
        self._opening = asyncio.Lock()
        self._sessions = asyncio.Semaphore(_SESSIONS)
        self._kept: dict[str, asyncssh.SSHClientProcess[bytes]] = {}

    async def run(self, argv: Sequence[str], stdin: bytes = b"") -> Result:
        """See `Transport.run`."""
        async with self._sessions, self._translated():
            connection = await self._connected()
            source = {"input": stdin} if stdin else {"stdin": asyncssh.DEVNULL}
            done = await _open(connection, connection.run, shlex.join(argv), **source)
        return self._result(done)

    async def ask(self, argv: Sequence[str], line: bytes, mark: bytes = b"") -> Result:
        """See `Transport.ask`: the command is kept; one that has ended since is started anew."""
        command = shlex.join(argv)
        async with self._translated():
            connection = await self._connected()
            # Put back only after a whole answer: what is left of one given up is not the next one's.
            kept = self._kept.pop(command, None)
            process = await _open(connection, connection.create_process, command) if kept is None else kept
            answer, noise = await _answer(process, line, mark)
            fresh = kept is None
            if not answer and kept is not None and not connection.is_closed():
                process = await _open(connection, connection.create_process, command)
                answer, noise = await _answer(process, line, mark)
                fresh = True
            if answer:
                if other := self._kept.pop(command, None):  # of a look at the same time
                    other.close()
                self._kept[command] = process
                return Result(0, answer, b"", noise if fresh else None)
            done = await process.wait()
        ended = self._result(done)
        return Result(ended.exit_code, noise + ended.stdout, ended.stderr, noise)

    async def put(self, path: str, data: bytes, mode: int = 0o600) -> None:
        """See `Transport.put`."""
        done = await self.run([*_PYTHON, _WRITER, path, part_of(path), str(mode)], data)
        if done.exit_code:
            lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
            reason = lines[-1] if lines else f"exit code {done.exit_code}"
            raise TransportError(f"{self._address}: {path} was not written: {reason}")

    async def read_from(self, path: str, offset: int, limit: int = CHUNK) -> bytes:
        """See `Transport.read_from`; by a process that is kept for the next piece."""
        question = uuid.uuid4().hex
        request = json.dumps([question, path, offset, limit]).encode() + b"\n"
        mark = question.encode()
        result = await self.ask([*_PYTHON, _READER, "serve"], request, mark)
        _, found, data = result.stdout.partition(mark + b" ")
        if result.exit_code or not found:
            raise TransportError(f"{self._address}: {path} was not read")
        return base64.b64decode(data.strip())

    async def close(self) -> None:
        """End the connection."""
        connection, self._connection = self._connection, None
        self._kept.clear()
        if connection is not None:
            connection.abort()

    async def _connected(self) -> asyncssh.SSHClientConnection:
        async with self._opening:
            if self._connection is None or self._connection.is_closed():
                self._kept.clear()
                self._connection = await connect(self.vm, self.timeout_s)
            return self._connection

    def _result(self, done: asyncssh.SSHCompletedProcess) -> Result:
        if done.exit_status is None or done.exit_status < 0:
            raise TransportError(f"{self._address}: the connection ended before the command")
        return Result(done.exit_status, _bytes(done.stdout), _bytes(done.stderr))

    @property
    def _address(self) -> str:
        return f"{self.vm.ip_address}:{self.vm.port}"

    @contextlib.asynccontextmanager
    async def _translated(self) -> AsyncIterator[None]:
        used = self._connection
        if used is not None and used.is_closed():
            used = None
        try:
            async with asyncio.timeout(self.timeout_s):
                yield
        except asyncssh.HostKeyNotVerifiable:
            await self._give_up(used)
            raise ChangedHostKeyError(self.vm.name) from None
        except TimeoutError:
            await self._give_up(used)
            raise TransportError(f"{self._address}: no answer within {self.timeout_s:.0f} s") from None
        except asyncssh.PermissionDenied as error:
            raise TransportError(
                f"{self._address}: refused the key {self.vm.ssh_key_path}: {error.reason}; put its public "
                f"half into authorized_keys of {self.vm.user} there"
            ) from None
        except (OSError, asyncssh.Error) as error:
            await self._give_up(used)
            raise TransportError(f"{self._address}: {_words(error)}") from None

    async def _give_up(self, used: asyncssh.SSHClientConnection | None) -> None:
        """Close the connection that failed, but not one that was opened in its place since."""
        if used is None or self._connection is used:
            await self.close()


async def _open(
    connection: asyncssh.SSHClientConnection, how: Callable[..., Awaitable[T]], command: str, **options: Any
) -> T:
    """Start a command, again where the server would not open a session: then nothing of it was started.

    sshd counts a session until it has torn it down, so one more can be refused for a moment (MaxSessions).
    """
    for pause_s in _REOPEN_PAUSES_S:
        try:
            return await how(command, encoding=None, **options)
        except asyncssh.ChannelOpenError:
            if connection.is_closed():
                raise
            await asyncio.sleep(pause_s)
    return await how(command, encoding=None, **options)


async def _answer(process: asyncssh.SSHClientProcess[bytes], line: bytes, mark: bytes) -> tuple[bytes, bytes]:
    """The line with `mark` that a command answers, and what came before it; no line if it ended first.

    A shell that prints without end is not listened to for ever.
    """
    noise = b""
    try:
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(line)
        while answer := await process.stdout.readline():
            if answer.endswith(b"\n") and mark in answer and (answer.strip() or not mark):
                return answer, noise.strip()
            noise += answer
            if len(noise) > _MOST_NOISE:
                raise TransportError(
                    f"the login shell prints more than {_MOST_NOISE} bytes where an answer is awaited, "
                    f"beginning with {printable(noise)!r}"
                )
    except BaseException:
        process.close()
        raise
    return b"", noise


async def connect(vm: VM, timeout_s: float) -> asyncssh.SSHClientConnection:
    """An authenticated connection whose host key is the trusted one."""
    if not vm.host_key:
        raise UnknownHostKeyError(vm.name)
    try:
        key = asyncssh.import_public_key(vm.host_key)
    except asyncssh.KeyImportError:
        raise BadHostKeyError(vm.name) from None
    check_address(vm.ip_address, vm.port)
    options: dict[str, Any] = {}
    if vm.ssh_key_path:
        options["client_keys"] = [
            str(check_private_key(Path(vm.ssh_key_path)))
        ]  # with a certificate beside it
    if vm.user:
        options["username"] = vm.user
    return await asyncssh.connect(
        vm.ip_address,
        vm.port,
        known_hosts=([key], [], []),
        server_host_key_algs=_algorithms(key),
        agent_path=None if vm.ssh_key_path else (),
        config=None,
        connect_timeout=timeout_s,
        login_timeout=timeout_s,
        keepalive_interval=15,
        keepalive_count_max=3,
        **options,
    )


async def host_key_of(ip_address: str, port: int, timeout_s: float = 20) -> tuple[str, str]:
    """The host key that a machine shows now, unverified, and its fingerprint for a person to compare."""
    check_address(ip_address, port)
    try:
        async with asyncio.timeout(timeout_s):
            key = await asyncssh.get_server_host_key(ip_address, port, config=None)
    except (OSError, TimeoutError, asyncssh.Error) as error:
        raise TransportError(
            f"{ip_address}:{port}: {_words(error)}; check address, port and firewall"
        ) from None
    if key is None:
        raise TransportError(f"{ip_address}:{port}: shows no host key")
    return " ".join(key.export_public_key("openssh").decode().split()[:2]), key.get_fingerprint()


def check_address(address: str, port: int) -> None:
    """Refuse what no machine can be reached by. Raises `AddressError`."""
    if not 0 < port < 1 << 16:
        raise AddressError(f"port {port}: it must be from 1 to 65535")
    if "@" in address:
        raise AddressError(f"address {address[:80]!r}: give the user apart (--user, or the column user)")
    if address.count(":") == 1:
        raise AddressError(f"address {address[:80]!r}: give the port apart (--port, or the column port)")
    try:
        address.encode("idna")
    except UnicodeError:
        address = ""
    if not address or any(character.isspace() for character in address):
        raise AddressError("address: an IP address or a host name is needed")


def check_private_key(path: Path) -> Path:
    """The expanded path of a private key that only its owner may read; raises `PrivateKeyError`."""
    path = path.expanduser()
    named = f"ssh_key_path {path}"
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise PrivateKeyError(f"{named}: no file; name a private key")
        if stat.S_IMODE(status.st_mode) & 0o077:
            raise PrivateKeyError(f"{named}: others may read it; run `chmod 600 {shlex.quote(str(path))}`")
        asyncssh.read_private_key(path)
        return path
    except OSError as error:
        raise PrivateKeyError(f"{named}: {error.strerror}; name an existing private key") from None
    except (asyncssh.KeyImportError, asyncssh.KeyEncryptionError) as error:
        if "assphrase" in str(error):
            raise PrivateKeyError(f"{named}: {_PASSPHRASE}") from None
        raise PrivateKeyError(
            f"{named}: not a private key ({error}); name the file without .pub, as ssh-keygen makes it"
        ) from None


class TransportPool:
    """One transport a machine, made anew when its row names another address, user or key."""

    def __init__(self, timeout_s: float = 20, local_home: Path | None = None) -> None:
        self.timeout_s = timeout_s
        self.local_home = local_home
        self._transports: dict[int, tuple[tuple[Any, ...], Transport]] = {}

    async def get(self, vm: VM) -> Transport:
        """The transport of a machine."""
        address = (vm.transport, vm.ip_address, vm.port, vm.user, vm.ssh_key_path, vm.host_key)
        known = self._transports.get(vm.id)
        if known is not None and known[0] == address:
            return known[1]
        if known is not None:
            await known[1].close()
        transport: Transport
        if vm.transport is TransportKind.LOCAL:
            transport = LocalTransport(self.local_home, self.timeout_s)
        else:
            transport = SSHTransport(vm, self.timeout_s)
        self._transports[vm.id] = (address, transport)
        return transport

    async def close(self) -> None:
        """End every connection."""
        for _, transport in self._transports.values():
            await transport.close()
        self._transports.clear()


def _algorithms(key: asyncssh.SSHKey) -> list[str]:
    name = key.get_algorithm()
    return ["rsa-sha2-256", "rsa-sha2-512"] if name == "ssh-rsa" else [name]


def _words(error: Exception) -> str:
    """An error without the number and the Python call: "Connection refused"."""
    if isinstance(error, TimeoutError):
        return "no answer"
    if isinstance(error, OSError) and error.errno is not None:
        return os.strerror(error.errno) if error.errno > 0 else error.strerror or str(error)
    return str(error) or type(error).__name__


def _bytes(output: Any) -> bytes:
    return output.encode() if isinstance(output, str) else bytes(output or b"")
