"""Copies files to a machine before a job and its output back afterwards."""

from __future__ import annotations

import asyncio
from pathlib import Path, PurePosixPath

from questloop.errors import BadDataError
from questloop.fleet import agent
from questloop.fleet.transport import Transport
from questloop.settings import StoreSettings
from questloop.storage.store import open_store

_CHUNK = 1 << 20


async def upload_inputs(
    transport: Transport, store: StoreSettings, job_id: str, attempt: int, uploads: dict[str, str]
) -> None:
    """Put objects of the store where the launch finds them."""
    if not uploads:
        return
    source = await asyncio.to_thread(open_store, store)
    for name, key in uploads.items():
        data = await asyncio.to_thread(source.get, key)
        await transport.put(agent.staging_path(job_id, attempt, name), data)


async def listing(transport: Transport, job_id: str, attempt: int) -> dict[str, int]:
    """Every file in the attempt's output folder with its size, by its path there."""
    reply = await agent.call(transport, "outputs", {"job_id": job_id, "attempt": attempt})
    files = reply["files"]
    for name in files:
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts:
            raise BadDataError(f"job {job_id!r}: output {name!r} lies outside its folder")
    return files


async def download(transport: Transport, job_id: str, attempt: int, folder: Path) -> list[Path]:
    """Copy the attempt's output into `folder`, piece by piece; a file that is there whole is kept."""
    written = []
    for name, size in (await listing(transport, job_id, attempt)).items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if not (target.exists() and target.stat().st_size == size):
            partial = target.with_name(f"{target.name}.part")
            with partial.open("wb") as file:
                async for piece in _pieces(transport, job_id, attempt, name, size):
                    file.write(piece)
            partial.replace(target)
        written.append(target)
    return written


async def store(transport: Transport, job_id: str, attempt: int, url: str) -> int:
    """Copy the attempt's output to the store at `url`, a file in memory at a time; returns how many files."""
    target = await asyncio.to_thread(open_store, url)
    files = await listing(transport, job_id, attempt)
    for name, size in files.items():
        pieces = [piece async for piece in _pieces(transport, job_id, attempt, name, size)]
        await asyncio.to_thread(target.put, name, b"".join(pieces))
    return len(files)


async def _pieces(transport: Transport, job_id: str, attempt: int, name: str, size: int):  # type: ignore[no-untyped-def]
    path = agent.attempt_path(job_id, attempt, f"output/{name}")
    position = 0
    while position < size:
        piece = await transport.read_from(path, position, min(_CHUNK, size - position))
        if not piece:
            raise BadDataError(
                f"job {job_id!r}: output {name!r} is shorter than listed; is the job still running?"
            )
        position += len(piece)
        yield piece
