"""What every judge pass works with, whether it judges segments, pairs of them or cells."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass

from questloop.judges.judge_runner import Cases, JudgeRunner, Progress, run_lanes
from questloop.judges.request import Case
from questloop.judges.rubric import Judge
from questloop.llm.client import ChatClient
from questloop.settings import JudgeSettings
from questloop.storage.store import Store


@dataclass
class BasePass:
    """A pass of judges over what an epoch left in the store."""

    store: Store
    epoch: int
    client: ChatClient
    settings: JudgeSettings
    _: KW_ONLY
    guide: str = ""  # the text that every prompt begins with
    seed: int = 0
    progress: Progress | None = None
    announce: Callable[[str], None] = print

    def runner(self, judge: Judge, folder: str) -> JudgeRunner:
        """The judge as it runs in this pass; it keeps what it has judged under `folder` of the store."""
        judge, votes = judge.guided(self.guide), self.settings.judge_votes
        return JudgeRunner.take(judge, self.store, folder, self.client, votes, self.seed)

    def cases(self, count: int, make: Callable[[int], Case]) -> Cases:
        """The cases 0 to `count` - 1, made a little ahead of the requests in flight."""
        return Cases(count, make, ahead=4 * self.client.settings.llm_concurrency)

    async def ask(self, runners: Sequence[JudgeRunner], count: int, make: Callable[[int], Case]) -> None:
        """Have every judge judge `count` cases; none is nothing to do."""
        if count:
            async with self.cases(count, make) as cases:
                await run_lanes(runners, cases, self.progress)
