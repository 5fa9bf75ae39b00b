import asyncio
import json

import pytest
from tests.judges.play import infos, world

from questloop.errors import UnavailableError, UsageError
from questloop.judges.evaluate import JudgePass
from questloop.judges.scores import digest, read_scores
from questloop.llm.client import ChatClient
from questloop.llm.retry import RetryPolicy
from questloop.serving.server import LocalServer
from questloop.settings import JudgeSettings, LLMSettings
from questloop.storage import keys
from questloop.storage.store import open_store


@pytest.fixture(scope="module")
def played():
    return world(episodes=4, segments=3)


@pytest.fixture(scope="module")
def server():
    with LocalServer() as running:
        yield running


@pytest.fixture
def store(tmp_path):
    return open_store(str(tmp_path / "store"))


async def judge(store, played, server, load=None, **options):
    settings = options.pop("settings", JudgeSettings())
    outcomes = options.pop("outcomes", None)
    async with ChatClient(LLMSettings(), server.url) as client:
        judging = JudgePass(store, 0, client, settings, announce=lambda _: None, **options)
        result = await judging.run(infos(played), load or played.__getitem__, outcomes)
        return result, client.stats


async def test_every_segment_gets_a_line(store, played, server):
    result, stats = await judge(store, played, server)
    scores = read_scores(store, 0)
    assert [line.segment_id for line in scores] == sorted(played)
    assert stats.requests == 3 * len(played)
    assert result.summary.judged == len(played)
    assert result.summary.alpha is not None
    for line in scores:
        assert {name: answer.model for name, answer in line.judges.items()} == {
            "state": "rule-based-state",
            "puzzle": "rule-based-puzzle",
            "vision": "rule-based-vision",
        }
        assert all(answer.deterministic and answer.spread == 0 for answer in line.judges.values())
    assert len({line.weighted for line in scores}) > len(scores) // 2
    assert len({line.agreement for line in scores}) > len(scores) // 2


async def test_same_segments_same_scores(tmp_path, played, server):
    first = open_store(str(tmp_path / "a"))
    second = open_store(str(tmp_path / "b"))
    one, _ = await judge(first, played, server)
    two, _ = await judge(second, played, server)
    assert one.summary.scores_sha256 == two.summary.scores_sha256 == digest(read_scores(second, 0))


async def test_documents_hold_no_nan(store, played, server):
    await judge(store, played, server)

    def refuse(name):
        raise AssertionError(name)

    for key in (keys.scores(0), keys.evaluation(0)):
        data = store.get(key)
        for text in data.splitlines() if key.endswith("jsonl") else [data]:
            json.loads(text, parse_constant=refuse)


async def test_no_judge_sees_a_reward(store, played):
    prompts = []

    def record(request):
        prompts.append(request.user.text)
        return {
            "reason": "",
            "progress": 0,
            "dialog": None,
            "efficiency": 0,
            "puzzle": 0,
            "novelty": 0,
            "overall": 0,
        }

    models = dict.fromkeys(("rule-based-state", "rule-based-puzzle", "rule-based-vision"), record)
    with LocalServer(models) as recorder:
        await judge(store, played, recorder)
    assert len(prompts) == 3 * len(played)
    assert not any("98777" in text or "reward" in text for text in prompts)


@pytest.mark.parametrize("lived", [1, 7, 20, 35])
async def test_a_killed_pass_goes_on_without_asking_twice(store, played, server, lived):
    class Killed(BaseException):
        pass

    def die(done, total):
        if done == lived:
            raise Killed

    with pytest.raises(Killed):
        await judge(store, played, server, progress=die)
    kept = {entry.key for entry in store.list(keys.judgements_prefix(0))}
    assert len(kept) >= lived
    assert not store.exists(keys.scores(0))
    result, stats = await judge(store, played, server)
    saved = 3 * len(played) - stats.requests
    in_flight = 2  # threads that were writing when the pass was killed may have finished since
    assert len(kept) <= saved <= len(kept) + in_flight * LLMSettings().llm_concurrency
    assert result.summary.judged == len(played)
    _, again = await judge(store, played, server)
    assert again.requests == 0


async def test_another_fingerprint_is_refused_with_both_named(store, played, server):
    before, _ = await judge(store, played, server)
    with pytest.raises(UsageError) as refused:
        await judge(store, played, server, settings=JudgeSettings(judge_votes=5))
    assert before.summary.fingerprints["state"] in str(refused.value)
    assert "and is" in str(refused.value)
    after, _ = await judge(store, played, server, settings=JudgeSettings(judge_votes=5), restart=True)
    assert after.summary.fingerprints["state"] not in before.summary.fingerprints.values()


async def test_budget_counts_what_was_skipped(store, played, server):
    result, _ = await judge(store, played, server, settings=JudgeSettings(judge_budget=5))
    assert (result.summary.segments, result.summary.judged, result.summary.skipped) == (12, 5, 7)


async def test_the_pass_says_what_it_will_cost(store, played, server):
    said = []
    async with ChatClient(LLMSettings(), server.url) as client:
        judging = JudgePass(store, 0, client, JudgeSettings(), announce=said.append)
        await judging.run(infos(played), played.__getitem__)
    assert "judging 12 of 12 segments x 3 judges x 3 votes" in said[0]
    assert "tokens" in said[0]


async def test_an_unreachable_judge_is_one_clear_error(store, played):
    settings = LLMSettings(llm_endpoint="http://127.0.0.1:9/v1")
    retry = RetryPolicy(base_s=0.01)
    async with ChatClient(settings, retry=retry) as client:
        judging = JudgePass(store, 0, client, JudgeSettings(), announce=lambda _: None)
        with pytest.raises(UnavailableError, match=r"state judge .* cannot connect"):
            await judging.run(infos(played), played.__getitem__)
    assert not store.exists(keys.scores(0))


async def test_nothing_to_judge_is_an_error(store, server):
    with pytest.raises(UsageError, match="no segments"):
        await judge(store, {}, server)


async def test_cancelling_leaves_no_tasks(store, played, server):
    task = asyncio.create_task(judge(store, played, server))
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.sleep(0)
    assert len(asyncio.all_tasks()) == 1
