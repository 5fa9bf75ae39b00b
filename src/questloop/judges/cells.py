"""The judge pass over the distinct cells of a run: each is judged once, over all epochs.

How far along the quest is it, alone, and, side by side with another one, which is nearer to the end. So a
large model's cost goes by new cells, not by steps. A cell that waits for the budget is judged by a later
pass. What is asked, how votes count and what an outage does is as with segments (`judges.judge_runner`).

Sources: Klissarov et al. 2023, "Motif: intrinsic motivation from artificial intelligence feedback" (arXiv
2310.00166), and Wang et al. 2024, "RL-VLM-F" (2402.03681), which have language models compare states; Ma et
al. 2024, "Vision language models are in-context value learners" (2411.04549), which has them say how far.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import BaseModel, ConfigDict

from questloop.episodes.cells import GameCell
from questloop.episodes.jsonl import from_jsonl, to_jsonl
from questloop.episodes.plain import plain
from questloop.judges.ahead import Waypoint
from questloop.judges.base_pass import BasePass
from questloop.judges.judge_runner import JudgeRunner
from questloop.judges.pairwise import PairSummary, Preference, ask_pairs, summarise_pairs
from questloop.judges.request import Case
from questloop.judges.rubric import CELL, NEARER
from questloop.judges.scores import JudgeScores, Score
from questloop.judges.selection import shuffled
from questloop.judges.states import describe
from questloop.storage import keys
from questloop.storage.schema import SchemaVersion
from questloop.storage.store import Store, StoredObject

NEAR = 4
"""a new cell is compared with one of so many that scored about the same, on either side"""


@dataclass(frozen=True)
class CellText:
    """A cell as judges see it: `text`. `kind` is what it shares with others of its room and stage.

    One that is not `compared` is scored alone, and never beside another.
    """

    cell_id: str
    kind: str
    text: str
    compared: bool = True

    @classmethod
    def of(cls, cell: GameCell) -> CellText:
        """What judges get to know of a cell."""
        state = plain(dict(cell.state))
        read = state.get
        kind = f"{read('room', '')} {' '.join(sorted(read('milestones', ())))}"
        return cls(cell.cell_id, kind, describe(state))

    @classmethod
    def ahead(cls, waypoint: Waypoint, compared: bool = True) -> CellText:
        """What judges get to know of a state that nobody has played yet."""
        return cls(waypoint.cell_id, waypoint.cell_id, waypoint.text, compared)


class CellScore(BaseModel):
    """A line of the cells' `scores.jsonl`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: SchemaVersion = 1
    cell_id: str
    score: Score
    """how far along the quest: the median of the votes"""
    spread: Score
    """largest minus smallest vote; 0 of a judge that always answers the same"""
    model: str
    fingerprint: str


class CellSummary(BaseModel):
    """What is judged of the cells of a run by the end of a pass."""

    model_config = ConfigDict(frozen=True)

    seen: int
    judged: int
    """with a score"""
    new: int
    """of these, judged by this pass"""
    waiting: int
    """for the budget of a later pass"""
    no_quorum: int
    """asked for in this pass and without a score; a later one asks again"""
    invalid: dict[str, int]
    """invalid votes of this pass by reason"""
    pairs: PairSummary | None
    """all that are judged side by side; None: none are"""
    model: str
    fingerprints: dict[str, str]
    prompt_tokens: int
    completion_tokens: int


@dataclass(frozen=True)
class CellBook:
    """Scores and pairs of cells that earlier passes left."""

    scores: tuple[CellScore, ...] = ()
    pairs: tuple[Preference, ...] = ()

    def under(self, cell: str, nearer: str) -> CellBook:
        """What was judged under the fingerprints `cell` and `nearer`: those of two judges do not mix."""
        return CellBook(
            tuple(line for line in self.scores if line.fingerprint == cell),
            tuple(line for line in self.pairs if line.fingerprint == nearer),
        )


@dataclass(frozen=True)
class CellResult:
    """What a pass wrote."""

    summary: CellSummary
    objects: tuple[StoredObject, ...]


@dataclass
class CellPass(BasePass):
    """The pass of an epoch over all cells that the run has seen by then."""

    cells: Sequence[CellText] = ()
    earlier: CellBook = CellBook()
    runners: tuple[JudgeRunner, JudgeRunner] = field(init=False)

    def __post_init__(self) -> None:
        folder = keys.cell_judgements()
        self.runners = self.runner(CELL, folder), self.runner(NEARER, folder)

    @property
    def fingerprints(self) -> dict[str, str]:
        """Of its two judges, by their names."""
        return {runner.judge.name: runner.fingerprint for runner in self.runners}

    async def run(self) -> CellResult:
        """Judge what is new among `cells` and write `scores.jsonl` and `preferences.jsonl` of all.

        Killed at any point, the same call goes on. Raises `UnavailableError` as `JudgePass.run` does.
        """
        scorer, comparer = self.runners
        book = self.earlier.under(scorer.fingerprint, comparer.fingerprint)
        known = {line.cell_id for line in book.scores}
        fresh = [cell for cell in self.cells if cell.cell_id not in known]
        chosen = choose(fresh, self.settings.judge_cells, self.seed)
        self.announce(
            f"judging {len(chosen)} new cells of {len(self.cells)} x {self.settings.judge_votes} votes, "
            f"alone and in pairs ({scorer.route.model})"
        )
        await self.ask([scorer], len(chosen), lambda n: Case(chosen[n].cell_id, "", chosen[n].text, ()))
        found = [_score(cell.cell_id, scorer.answers[cell.cell_id]) for cell in chosen]
        scores = [*book.scores, *(line for line in found if line is not None)]
        texts = {cell.cell_id: cell.text for cell in self.cells if cell.compared}
        new = pairs_of([cell.cell_id for cell in chosen], texts, scores, self.seed)
        pairs = [*book.pairs, *await ask_pairs(self, comparer, new, texts.__getitem__)]
        summary = self._summary(len(fresh) - len(chosen), found, scores, pairs)
        written = (
            self.store.put(keys.cell_scores(self.epoch), to_jsonl(scores), durable=True),
            self.store.put(keys.cell_preferences(self.epoch), to_jsonl(pairs), durable=True),
        )
        return CellResult(summary, written)

    def _summary(
        self,
        waiting: int,
        found: Sequence[CellScore | None],
        scores: Sequence[CellScore],
        pairs: Sequence[Preference],
    ) -> CellSummary:
        answers = [answer for runner in self.runners for answer in runner.answers.values()]
        reasons = Counter(
            vote.invalid.value for answer in answers for vote in answer.votes if vote.invalid is not None
        )
        return CellSummary(
            seen=len(self.cells),
            judged=len(scores),
            new=sum(line is not None for line in found),
            waiting=waiting,
            no_quorum=sum(line is None for line in found),
            invalid=dict(sorted(reasons.items())),
            pairs=summarise_pairs(pairs, {}) if pairs else None,
            model=self.runners[0].route.model,
            fingerprints=self.fingerprints,
            prompt_tokens=sum(answer.tokens.prompt for answer in answers),
            completion_tokens=sum(answer.tokens.completion for answer in answers),
        )


def read_book(store: Store, epoch: int) -> CellBook:
    """What the judge pass over `epoch` left; `NotFound` where it left nothing."""
    key, pairs = keys.cell_scores(epoch), keys.cell_preferences(epoch)
    remedy = "judge the epoch again"
    return CellBook(
        tuple(from_jsonl(CellScore, store.get(key), key, remedy)),
        tuple(from_jsonl(Preference, store.get(pairs), pairs, remedy)),
    )


def choose(cells: Sequence[CellText], budget: int | str, seed: int) -> list[CellText]:
    """At most `budget` of `cells`, in a fixed order.

    Kinds (a room at a stage of the quest) are served in turn, so that every one is known before any is known
    in detail; a seeded hash decides within one.
    """
    kinds: dict[str, list[CellText]] = {}
    for cell in sorted(cells, key=lambda cell: shuffled(seed, cell.cell_id)):
        kinds.setdefault(cell.kind, []).append(cell)
    turns = sorted((turn, kind, cell.cell_id) for kind in kinds for turn, cell in enumerate(kinds[kind]))
    by_id = {cell.cell_id: cell for cell in cells}
    chosen = turns if budget == "all" else turns[: int(budget)]
    return sorted((by_id[cell_id] for *_, cell_id in chosen), key=lambda cell: cell.cell_id)


def pairs_of(
    new: Sequence[str], texts: Mapping[str, str], scores: Sequence[CellScore], seed: int
) -> list[tuple[str, str]]:
    """Each new cell that has a score with one that scored about the same and reads otherwise.

    Far from one another, scores tell enough; near one another, comparing is surer (Christiano et al. 2017
    ask where the ensemble is unsure).
    """
    order = sorted(
        (line for line in scores if line.cell_id in texts), key=lambda line: (line.score, line.cell_id)
    )
    place = {line.cell_id: number for number, line in enumerate(order)}
    pairs = set()
    for cell_id in new:
        if cell_id not in place:
            continue
        at = place[cell_id]
        near = [line.cell_id for line in order[max(at - NEAR, 0) : at + NEAR + 1]]
        others = [other for other in near if texts[other] != texts[cell_id]]
        if others:
            other = min(others, key=lambda each: shuffled(seed, cell_id, each))
            pairs.add((min(cell_id, other), max(cell_id, other)))
    return sorted(pairs)


def _score(cell_id: str, answer: JudgeScores) -> CellScore | None:
    if answer.overall is None:
        return None
    return CellScore(
        cell_id=cell_id,
        score=answer.overall,
        spread=answer.spread or 0.0,
        model=answer.model,
        fingerprint=answer.fingerprint,
    )
