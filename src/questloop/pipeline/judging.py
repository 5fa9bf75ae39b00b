"""An epoch's segments as the judges want them, and the judges as the settings want them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from questloop.episodes.outcomes import outcomes
from questloop.episodes.reader import SegmentReader
from questloop.judges.evaluate import Result, evaluate_epoch
from questloop.judges.selection import SegmentInfo
from questloop.llm.client import ChatClient
from questloop.serving.server import LocalServer
from questloop.settings import LLMBackend, LLMSettings, Settings
from questloop.storage.store import Store

T = TypeVar("T")


def judge_epoch(
    settings: Settings,
    store: Store,
    epoch: int,
    *,
    restart: bool = False,
    keep: bool = True,
    progress: Callable[[int, int], None] | None = None,
    announce: Callable[[str], None] = print,
) -> Result:
    """One judge pass over an epoch's exported segments by the judges in force; see `evaluate_epoch`."""
    reader = SegmentReader(store)
    return with_judges(
        settings.llm,
        lambda client: evaluate_epoch(
            store,
            epoch,
            segment_infos(reader, epoch),
            reader.load,
            client,
            settings.judges,
            outcomes=outcomes(reader, epoch),
            seed=settings.loop.seed,
            restart=restart,
            keep=keep,
            progress=progress,
            announce=announce,
        ),
    )


def segment_infos(reader: SegmentReader, epoch: int) -> list[SegmentInfo]:
    """The epoch's exported segments, with what selection may know of them."""
    manifests = [reader.manifest(segment_id) for segment_id in reader.list(epoch)]
    return [
        SegmentInfo(manifest.segment_id, manifest.episode_id, manifest.novelty, manifest.raw_return)
        for manifest in manifests
    ]


def with_judges(settings: LLMSettings, ask: Callable[[ChatClient], Awaitable[T]]) -> T:
    """Run `ask` with a client of the judges in force; the embedded ones are served meanwhile."""

    async def run(embedded_url: str | None) -> T:
        async with ChatClient(settings, embedded_url) as client:
            return await ask(client)

    if settings.backend is not LLMBackend.EMBEDDED:
        return asyncio.run(run(None))
    with LocalServer() as server:
        return asyncio.run(run(server.url))
