"""Runs a judge pass over an epoch with the judges that the settings choose."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from questloop.episodes.cells import GameCell, read_cells
from questloop.episodes.outcomes import outcomes
from questloop.episodes.reader import SegmentReader
from questloop.game.guide import Guide
from questloop.game.profiles import profile_in_force
from questloop.judges.ahead import choices, waypoints
from questloop.judges.cells import CellBook, CellPass, CellText, read_book
from questloop.judges.evaluate import JudgePass, JudgePassResult
from questloop.judges.selection import SegmentInfo
from questloop.llm.client import ChatClient
from questloop.rewards.aims import aims_in_force
from questloop.serving.server import LocalServer
from questloop.setting_types import AimsOf
from questloop.settings import LLMBackend, LLMSettings, Settings
from questloop.storage import keys
from questloop.storage.commit import committed_epochs, holds
from questloop.storage.keys import Stage
from questloop.storage.store import Store

T = TypeVar("T")

STAGES_AHEAD = 4
"""of the quest, beyond the one that a run has come to: agents go on while no judge is asked"""


def judge_epoch(
    settings: Settings,
    store: Store,
    epoch: int,
    *,
    restart: bool = False,
    keep: bool = True,
    progress: Callable[[int, int], None] | None = None,
    announce: Callable[[str], None] = print,
) -> JudgePassResult:
    """One judge pass over an epoch's exported segments by the judges in force; see `JudgePass`."""
    reader, guide = SegmentReader(store), profile_in_force(settings.game).guide
    text = guide.text if guide is not None else ""

    async def ask(client: ChatClient) -> JudgePassResult:
        seen = cells_until(store, epoch) if keep else []
        cells = [CellText.of(cell) for cell in seen]
        if cells and guide is not None:
            cells += _ahead(guide, seen, settings)
        shared: dict[str, Any] = {
            "guide": text,
            "seed": settings.loop.seed,
            "progress": progress,
            "announce": announce,
        }
        work = store, epoch, client, settings.judges
        judging = JudgePass(*work, **shared, restart=restart, keep=keep)
        cell_pass = None
        if cells:
            cell_pass = CellPass(*work, **shared, cells=cells, earlier=judged_before(store, epoch))
        infos, known = segment_infos(reader, epoch), outcomes(reader, epoch)
        return await judging.run(infos, reader.load, known, cell_pass)

    return with_judges(settings.llm, ask)


def _ahead(guide: Guide, seen: Sequence[GameCell], settings: Settings) -> list[CellText]:
    """States that nobody has played yet and judges are asked about: the way through the quest, and, where
    judges say where to go, every place at the stages that the run has come to and at the next ones."""
    ahead = dict.fromkeys(waypoints(guide), True)
    if aims_in_force(settings.exploration, guide) is AimsOf.JUDGES:
        stage = max(guide.stage(cell.state.get("milestones", ())) for cell in seen)
        ahead = dict.fromkeys(choices(guide, stage + 1 + STAGES_AHEAD), False) | ahead
    return [CellText.ahead(waypoint, compared) for waypoint, compared in ahead.items()]


def cells_until(store: Store, epoch: int) -> list[GameCell]:
    """The cells that a run has seen by the end of an epoch, retired ones too."""
    played = (number for number in committed_epochs(store, Stage.ROLLOUTS) if number <= epoch)
    return [cell for number in played for cell in read_cells(store, number)]


def judged_before(store: Store, epoch: int) -> CellBook:
    """What the newest earlier pass left of judgements of cells."""
    for number in reversed(committed_epochs(store, Stage.EVALUATE)):
        if number < epoch and holds(store, number, Stage.EVALUATE, keys.cell_scores(number)):
            return read_book(store, number)
    return CellBook()


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
