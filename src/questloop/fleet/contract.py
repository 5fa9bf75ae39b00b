"""The interface of every way to a machine, by SSH or local, and the errors that it raises."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from questloop.errors import UnavailableError, UsageError

CHUNK = 1 << 19  # in base64 it stays below the 2 MiB that a line may have


class TransportError(UnavailableError):
    """The machine could not be reached, or did not answer in time: nothing is known of what it did."""


class HostKeyError(TransportError):
    """The machine's identity is in doubt."""


class UnknownHostKeyError(HostKeyError):
    """No host key is known for this machine."""

    def __init__(self, name: str) -> None:
        super().__init__(f"machine {name!r} has no host key: run `questloop fleet vm trust {name}`")


class BadHostKeyError(HostKeyError):
    """What stands in the machine's row is no host key."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"machine {name!r}: its host_key is no public key; run `questloop fleet vm trust {name}`"
        )


class ChangedHostKeyError(HostKeyError):
    """The machine shows another host key than the trusted one."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"machine {name!r} shows another host key than the trusted one: if it was set up anew, accept it "
            f"with `questloop fleet vm trust {name}`; otherwise someone may be in between"
        )


class PrivateKeyError(UsageError):
    """A private key file is missing, open to others, or cannot be used."""


class AddressError(UsageError):
    """An address or port that no machine can have."""


@dataclass(frozen=True)
class Result:
    """What a command left.

    `noise` is what came before the answer of `ask`; None where the command was running before, so that its
    shell has had its say.
    """

    exit_code: int
    stdout: bytes
    stderr: bytes
    noise: bytes | None = b""


class Transport(Protocol):
    """A way to one machine; paths are relative to the home folder there.

    `talk`: what the login shell there prints by itself.
    """

    talk: str

    async def run(self, argv: Sequence[str], stdin: bytes = b"") -> Result:
        """Run a command; raises `TransportError` where its end is not learnt."""
        ...

    async def ask(self, argv: Sequence[str], line: bytes, mark: bytes = b"") -> Result:
        """One line's answer, a line that holds `mark`, of a command that may be kept running for the next.

        A result with another exit code than 0 is that of a command that ended instead of answering.
        """
        ...

    async def put(self, path: str, data: bytes, mode: int = 0o600) -> None:
        """Write a file as a whole, with the folders above it."""
        ...

    async def read_from(self, path: str, offset: int, limit: int = CHUNK) -> bytes:
        """Up to `limit` bytes from `offset`; empty where the file is absent or shorter."""
        ...

    async def close(self) -> None:
        """End the connection."""
        ...


def printable(noise: bytes, limit: int = 120) -> str:
    """The first line that says something, cut and without control characters, for a message to a person."""
    text = noise[:4096].decode("utf-8", "replace")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    first = "".join(character if character.isprintable() else "\ufffd" for character in "".join(lines[:1]))
    return first[:limit]


def part_of(path: str) -> str:
    """Where a file is written before it takes its place: another one each time, for writers at once."""
    return f"{path}.{uuid.uuid4().hex}.part"
