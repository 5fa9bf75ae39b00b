"""A whole pass against a server that misbehaves in every way."""

import json
from collections import Counter
from itertools import pairwise
from statistics import median

import pytest
from tests.judges.play import infos, world
from tests.serving.hostile import CONTENT, Act, hostile

from questloop.errors import UnavailableError
from questloop.judges.evaluate import evaluate_epoch
from questloop.judges.rubric import JUDGES
from questloop.judges.scores import InvalidReason, read_scores
from questloop.judges.votes import seeds_of
from questloop.llm.client import ChatClient
from questloop.llm.retry import RetryPolicy
from questloop.settings import JudgeSettings, LLMSettings
from questloop.storage import keys
from questloop.storage.store import open_store

REASONS = {
    Act.ERROR: InvalidReason.SERVER_ERROR,
    Act.REFUSE: InvalidReason.REFUSED,
    Act.HANG: InvalidReason.TIMEOUT,
    Act.DRIP: InvalidReason.TIMEOUT,
    Act.DROP: InvalidReason.CONNECTION,
    Act.HTML: InvalidReason.CONTENT_TYPE,
    Act.HUGE: InvalidReason.TOO_LARGE,
    Act.HALF_BODY: InvalidReason.MALFORMED,
    Act.NO_CHOICES: InvalidReason.MALFORMED,
    Act.HALF_JSON: InvalidReason.BAD_JSON,
    Act.PROSE: InvalidReason.NO_JSON,
    Act.EMPTY: InvalidReason.EMPTY,
    Act.OUT_OF_RANGE: InvalidReason.OUT_OF_RANGE,
    Act.NEGATIVE: InvalidReason.OUT_OF_RANGE,
    Act.NAN: InvalidReason.NOT_FINITE,
    Act.INFINITE: InvalidReason.NOT_FINITE,
    Act.TEXT_NUMBER: InvalidReason.NOT_A_NUMBER,
    Act.BOOLEAN: InvalidReason.NOT_A_NUMBER,
    Act.BARE_NUMBER: InvalidReason.NO_JSON,
    Act.MISSING: InvalidReason.MISSING_FIELD,
    Act.CUT_OFF: InvalidReason.CUT_OFF,
}
TRANSPORT = [act for act in Act if act not in CONTENT]
ROUNDS = TRANSPORT + sorted(CONTENT) + sorted(CONTENT)
"""what becomes of segment k; in the last round only the vote of seed 2 is bad"""
WHOLE = len(ROUNDS) - len(CONTENT)


def place(body):
    """The number of a segment in its episode, read from its text."""
    content = body["messages"][1]["content"]
    text = content if isinstance(content, str) else content[0]["text"]
    return int(text.split(" steps, ")[1].split()[0]) // 300


def seed_of(body, index):
    return body["seed"] + index


def value(number, seed):
    return round((number * 7 + seed * 13) % 101 / 100, 2)


def answer(body, index):
    score = value(place(body), seed_of(body, index))
    criteria = dict.fromkeys(["progress", "dialog", "efficiency", "puzzle", "novelty"], score)
    return {"reason": "r", **criteria, "overall": score}


async def run(store, played, server, **settings):
    values = {"llm_endpoint": server.url, "llm_timeout_s": 60, "llm_concurrency": 16} | settings
    async with ChatClient(
        LLMSettings(**values), retry=RetryPolicy(max_attempts=2, base_s=0.01, cap_s=0.05)
    ) as client:
        result = await evaluate_epoch(
            store, 0, infos(played), played.__getitem__, client, JudgeSettings(), announce=lambda _: None
        )
        return result.summary


@pytest.mark.slow
@pytest.mark.parametrize(
    ("acts", "supports_n"), [(ROUNDS, True), (ROUNDS[len(TRANSPORT) :], False)], ids=["n", "no_n"]
)
async def test_the_pass_finishes_and_the_rest_is_right(tmp_path, acts, supports_n):
    store = open_store(str(tmp_path))
    played = world(episodes=1, segments=len(acts))
    whole = WHOLE - (len(ROUNDS) - len(acts))

    def act_of(number, model):
        # Time is lost on these once, not three times.
        spared = acts[number] in (Act.HANG, Act.DRIP) and model != "qwen25-7b"
        return Act.GOOD if spared else acts[number]

    def script(body, index, attempt):
        act = act_of(place(body), body["model"])
        return Act.GOOD if place(body) >= whole and seed_of(body, index) != 2 else act

    async with hostile(script, answer, supports_n=supports_n) as server:
        summary = await run(store, played, server, llm_timeout_s=4 if supports_n else 60)
    reasons = Counter()
    judged_segments = 0
    for number, line in enumerate(read_scores(store, 0)):
        answered = False
        for judged in line.judges.values():
            act = act_of(number, judged.model)
            seeds = [1, 2, 3] if act not in REASONS else [1, 3] if number >= whole else []
            good = [value(number, seed) for seed in seeds]
            answered |= bool(good)
            assert [vote.seed for vote in judged.votes] == seeds_of(0, 3)
            for vote in judged.votes:
                right = (None, value(number, vote.seed)) if vote.seed in seeds else (REASONS.get(act), None)
                assert (vote.invalid, vote.overall) == right, act
                reasons.update([vote.invalid.value] if vote.invalid else [])
            assert judged.valid == len(seeds)
            assert judged.overall == (pytest.approx(median(good)) if good else None)
            assert judged.spread == (pytest.approx(max(good) - min(good)) if good else None)
        judged_segments += answered
    assert summary.invalid == dict(sorted(reasons.items()))
    assert summary.judged == judged_segments


async def test_a_judge_that_dies_ends_the_pass_and_what_was_judged_is_kept(tmp_path):
    store = open_store(str(tmp_path))
    played = world(episodes=1, segments=30)

    def dying(body, index, attempt):
        return Act.ERROR if place(body) >= 4 else Act.GOOD

    async with hostile(dying, answer) as server:
        with pytest.raises(UnavailableError, match=r"state judge .*HTTP 500.* kept"):
            await run(store, played, server, llm_concurrency=2)
        asked = len(server.bodies)
    async with hostile(lambda body, index, attempt: Act.GOOD, answer) as server:
        summary = await run(store, played, server, llm_concurrency=2)
        assert len(server.bodies) == 3 * 30 - 4
    assert asked < 200
    assert summary.judged == 30


async def test_a_short_outage_leaves_no_segment_without_a_score(tmp_path):
    """Three segments' connections break, their retries too; asked once more at the end, they are judged."""
    store = open_store(str(tmp_path))
    played = world(episodes=1, segments=8)

    def script(body, index, attempt):
        return Act.DROP if place(body) in (3, 4, 7) and attempt <= 2 else Act.GOOD

    async with hostile(script, answer) as server:
        summary = await run(store, played, server)
    assert summary.judged == 8
    assert summary.invalid == {}


async def test_a_judge_that_is_away_at_the_end_ends_the_pass_without_scores(tmp_path):
    store = open_store(str(tmp_path))
    played = world(episodes=1, segments=8)

    def script(body, index, attempt):
        if place(body) >= 6 and body["model"] == "qwen25-7b":
            server.away = True
            return Act.DROP
        return Act.GOOD

    async with hostile(script, answer) as server:
        with pytest.raises(UnavailableError, match=r"state judge .*kept"):
            await run(store, played, server, llm_concurrency=1)
    assert server.away
    assert not store.exists(keys.scores(0))


async def test_requests_with_one_prefix_follow_one_another(tmp_path):
    store = open_store(str(tmp_path))
    played = world(episodes=2, segments=10)
    async with hostile(lambda body, index, attempt: Act.GOOD, answer, supports_n=False) as server:
        await run(store, played, server, llm_concurrency=1)
    systems = [body["messages"][0]["content"] for body in server.bodies]
    changes = sum(a != b for a, b in pairwise(systems))
    assert changes == len(JUDGES) - 1
    prompts = [json.dumps(body["messages"]) for body in server.bodies]
    assert sum(a != b for a, b in pairwise(prompts)) == 3 * 20 - 1


async def test_seeds_are_distinct_in_the_requests(tmp_path):
    store = open_store(str(tmp_path))
    async with hostile(lambda body, index, attempt: Act.GOOD, answer, supports_n=False) as server:
        await run(store, world(episodes=1, segments=2), server)
    by_prompt = {}
    for body in server.bodies:
        by_prompt.setdefault(json.dumps(body["messages"]), []).append(body["seed"])
    assert all(sorted(set(seeds)) == [1, 2, 3] for seeds in by_prompt.values())
