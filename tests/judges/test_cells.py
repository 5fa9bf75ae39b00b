"""The judge pass over cells: each once, over all epochs, whatever happens in between."""

import dataclasses
import json

import httpx
import pytest
from tests.judges.test_quest import GUIDE, state

from questloop.errors import UnavailableError
from questloop.judges.cells import CellBook, CellPass, CellScore, CellText, choose, pairs_of, read_book
from questloop.llm.client import ChatClient
from questloop.llm.retry import RetryPolicy
from questloop.serving.server import LocalServer, default_handlers
from questloop.settings import JudgeSettings, LLMSettings
from questloop.storage import keys
from questloop.storage.store import open_store


def cells(count=12, first=0):
    """Cells along the way of the quest."""
    rooms = ("0:00", "0:01", "0:02")
    found = []
    for number in range(first, first + count):
        reached = ("lamp",)[: number // 12]
        room = rooms[number % 3]
        text = state(room, number % 9, number // 4 % 8, reached)
        found.append(CellText(f"{number:016x}", f"{room} {' '.join(reached)}", text))
    return found


@pytest.fixture(scope="module")
def server():
    with LocalServer() as running:
        yield running


@pytest.fixture
def store(tmp_path):
    return open_store(str(tmp_path / "store"))


async def judge(store, url, found, epoch=0, earlier=None, guide=GUIDE, progress=None, **settings):
    async with ChatClient(LLMSettings(), url, RetryPolicy(base_s=0.01)) as client:
        shared = {"guide": guide, "progress": progress, "announce": lambda _: None}
        work = store, epoch, client, JudgeSettings(**settings)
        judging = CellPass(*work, **shared, cells=found, earlier=earlier or CellBook())
        return await judging.run(), client.stats


async def test_each_cell_is_scored_and_compared_once_over_all_epochs(store, server):
    first, asked = await judge(store, server.url, cells(12))
    assert (first.summary.judged, first.summary.new) == (12, 12)
    pairs = len(read_book(store, 0).pairs)
    assert asked.requests == 12 + 2 * pairs
    second, asked = await judge(store, server.url, cells(15), 1, read_book(store, 0))
    book = read_book(store, 1)
    assert (second.summary.judged, second.summary.new) == (15, 3)
    assert asked.requests == 3 + 2 * (len(book.pairs) - pairs)
    assert book.scores[:12] == read_book(store, 0).scores
    third, asked = await judge(store, server.url, cells(15), 2, book)
    assert (third.summary.new, asked.requests) == (0, 0)
    assert read_book(store, 2) == book


async def test_pairs_agree_with_scores_and_no_order_decides(store, server):
    result, _ = await judge(store, server.url, cells(24))
    book = read_book(store, 0)
    score = {line.cell_id: line.score for line in book.scores}
    assert result.summary.pairs.flips == 0
    assert result.summary.pairs.first_bias == pytest.approx(0, abs=1e-3)
    for pair in book.pairs:
        gap = score[pair.a] - score[pair.b]
        assert (pair.p - 0.5) * gap > 0 or abs(gap) < 1e-3


async def test_what_is_not_to_be_compared_is_scored_alone(store, server):
    alone = [dataclasses.replace(cell, compared=False) for cell in cells(6)]
    result, _ = await judge(store, server.url, [*alone, *cells(6, first=6)])
    assert result.summary.new == 12
    named = {each for pair in read_book(store, 0).pairs for each in (pair.a, pair.b)}
    assert named == {cell.cell_id for cell in cells(6, first=6)}
    _, asked = await judge(store, server.url, [*alone, *cells(6, first=6)], 1, read_book(store, 0))
    assert asked.requests == 0


async def test_cells_that_read_alike_are_asked_once(store, server):
    one = cells(1)[0]
    alike = [dataclasses.replace(one, cell_id=f"{number:016x}") for number in range(5)]
    result, asked = await judge(store, server.url, alike)
    assert result.summary.judged == 5
    assert asked.requests == 1


async def test_what_waits_for_the_budget_is_judged_later(store, server):
    first, _ = await judge(store, server.url, cells(12), judge_cells=5)
    assert (first.summary.new, first.summary.waiting) == (5, 7)
    second, _ = await judge(store, server.url, cells(12), 1, read_book(store, 0), judge_cells=5)
    assert (second.summary.judged, second.summary.waiting) == (10, 2)


async def test_another_guide_is_another_judge(store, server):
    await judge(store, server.url, cells(12))
    other = GUIDE.replace("Take the lamp", "Find the lamp")
    result, asked = await judge(store, server.url, cells(12), 1, read_book(store, 0), guide=other)
    assert result.summary.new == 12
    assert {line.fingerprint for line in read_book(store, 1).scores} == {result.summary.fingerprints["cell"]}
    assert asked.requests > 12


async def test_the_guide_comes_first_in_every_prompt(store):
    seen = []
    handlers = dict(default_handlers())
    answer = handlers["rule-based-state"]

    def listen(request):
        seen.append(request)
        return answer(request)

    handlers["rule-based-state"] = listen
    with LocalServer(handlers) as server:
        await judge(store, server.url, cells(6))
    assert len({request.system for request in seen}) == 2
    assert all(request.system.startswith("# A game") for request in seen)


@pytest.mark.parametrize("lived", [1, 10, 23, 30])
async def test_a_killed_pass_goes_on_without_asking_twice(store, server, lived):
    class Killed(BaseException):
        pass

    def die(done, total):
        nonlocal judged
        judged += 1
        if judged == lived:
            raise Killed

    judged = 0
    with pytest.raises(Killed):
        await judge(store, server.url, cells(24), progress=die)
    kept = len([*store.list(keys.cell_judgements())])
    assert kept >= lived
    assert not store.exists(keys.cell_scores(0))
    result, asked = await judge(store, server.url, cells(24))
    assert result.summary.judged == 24
    assert asked.requests <= 24 + 2 * len(read_book(store, 0).pairs) - kept
    _, again = await judge(store, server.url, cells(24))
    assert again.requests == 0


async def test_a_judge_that_is_away_ends_the_pass_and_nothing_is_written(store):
    with pytest.raises(UnavailableError, match="cell judge"):
        await judge(store, "http://127.0.0.1:9/v1", cells(12))
    assert not store.exists(keys.cell_scores(0))


async def test_answers_that_are_no_numbers_leave_cells_for_a_later_pass(store, server):
    handlers = dict(default_handlers())
    answer = handlers["rule-based-state"]
    bad = cells(24)[5].text

    def spoil(request):
        return {"reason": "", "overall": "much"} if request.user.text == bad else answer(request)

    handlers["rule-based-state"] = spoil
    with LocalServer(handlers) as broken:
        first, _ = await judge(store, broken.url, cells(24))
    assert (first.summary.judged, first.summary.no_quorum) == (23, 1)
    assert first.summary.invalid


def test_every_kind_is_served_before_any_is_served_twice():
    found = [CellText(f"{n:016x}", "often" if n > 2 else f"rare {n}", "") for n in range(40)]
    chosen = choose(found, 4, seed=0)
    assert {cell.kind for cell in chosen} == {"rare 0", "rare 1", "rare 2", "often"}
    assert choose(found, 4, seed=0) == chosen
    assert choose(found, "all", seed=0) == found
    assert len(choose(found, 99, seed=1)) == 40


def test_a_new_cell_is_compared_with_one_of_about_its_score_that_reads_otherwise():
    scores = [
        CellScore(cell_id=f"{n:016x}", score=n / 40, spread=0, model="m", fingerprint="f") for n in range(40)
    ]
    texts = {line.cell_id: f"text {number // 2}" for number, line in enumerate(scores)}
    new = [line.cell_id for line in scores[::4]]
    pairs = pairs_of(new, texts, scores, seed=0)
    assert 5 <= len(pairs) <= len(new)
    for a, b in pairs:
        assert abs(int(a, 16) - int(b, 16)) <= 4
        assert texts[a] != texts[b]
    assert pairs_of(["f" * 16], texts, scores, seed=0) == []


def test_the_local_server_tells_states_from_segments(server):
    def ask(text):
        body = {
            "model": "rule-based-state",
            "messages": [{"role": "system", "content": GUIDE}, {"role": "user", "content": text}],
        }
        reply = httpx.post(f"{server.url}/chat/completions", json=body).json()
        return json.loads(reply["choices"][0]["message"]["content"])

    assert ask(state("0:01")).keys() == {"reason", "overall"}
    assert "rooms" in ask(f"A:\n{state('0:01')}\n\nB:\n{state('0:02')}")["reason"]
    assert "progress" in ask("Segment of 3 steps, 0 to 2.")
