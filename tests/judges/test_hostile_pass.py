"""A whole pass against a server that misbehaves in every way."""

import json
from collections import Counter
from itertools import pairwise
from statistics import median

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.judges.play import infos, world
from tests.serving.hostile import (
    BAD_CONTENT,
    CONTENT,
    DIALECTS,
    ENDS,
    GOOD_CONTENT,
    OUTAGES,
    PASSING,
    REFUSALS,
    Act,
    hostile,
)

from questloop.errors import UnavailableError
from questloop.judges.evaluate import JudgePass
from questloop.judges.rubric import JUDGES
from questloop.judges.scores import ValueFailure, read_scores
from questloop.judges.votes import seeds_of
from questloop.llm.client import ChatClient
from questloop.llm.reply import ChatFailure
from questloop.llm.retry import RetryPolicy
from questloop.llm.structured import ParseFailure
from questloop.serving.server import LocalServer
from questloop.settings import JudgeSettings, LLMSettings
from questloop.storage import keys
from questloop.storage.store import open_store

REASONS = {
    Act.ERROR: ChatFailure.SERVER_ERROR,
    Act.HANG: ChatFailure.TIMEOUT,
    Act.DRIP: ChatFailure.TIMEOUT,
    Act.DROP: ChatFailure.CONNECTION,
    Act.HTML: ChatFailure.CONTENT_TYPE,
    Act.STREAM: ChatFailure.CONTENT_TYPE,
    Act.HALF_BODY: ChatFailure.MALFORMED,
    Act.BAD_ZIP: ChatFailure.MALFORMED,
    Act.NO_CHOICES: ChatFailure.MALFORMED,
    Act.ERROR_UNDER_200: ChatFailure.SERVER_ERROR,
    Act.REFUSE: ChatFailure.REFUSED,
    Act.TOO_LONG: ChatFailure.REFUSED,
    Act.MOVED: ChatFailure.REFUSED,
    Act.HUGE: ChatFailure.TOO_LARGE,
    Act.REFUSED_UNDER_200: ChatFailure.REFUSED,
    Act.HALF_JSON: ParseFailure.BAD_JSON,
    Act.PROSE: ParseFailure.NO_JSON,
    Act.EMPTY: ParseFailure.EMPTY,
    Act.OUT_OF_RANGE: ValueFailure.OUT_OF_RANGE,
    Act.NEGATIVE: ValueFailure.OUT_OF_RANGE,
    Act.NAN: ValueFailure.NOT_FINITE,
    Act.INFINITE: ValueFailure.NOT_FINITE,
    Act.TEXT_NUMBER: ValueFailure.NOT_A_NUMBER,
    Act.BOOLEAN: ValueFailure.NOT_A_NUMBER,
    Act.BARE_NUMBER: ParseFailure.NO_JSON,
    Act.MISSING: ParseFailure.MISSING_FIELD,
    Act.CUT_OFF: ValueFailure.CUT_OFF,
    Act.NO_CONTENT: ValueFailure.CUT_OFF,
    Act.NULL: ParseFailure.EMPTY,
    Act.NO_CHOICE: ParseFailure.EMPTY,
    Act.DRAFT: ValueFailure.CUT_OFF,
    Act.DECLINED: ParseFailure.NO_JSON,
    Act.HALF_PAIR: ParseFailure.NO_JSON,
}
PUZZLE = "qwen25-32b"
COUNTED = [act for act in Act if act in PASSING | GOOD_CONTENT | REFUSALS | BAD_CONTENT]
"""acts under which a pass ends"""
ROUNDS = COUNTED + sorted(CONTENT)
"""what becomes of the puzzle judge's segment k; in the last round only the vote of seed 2 is bad"""


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


async def run(store, played, server, **changed):
    values = {"llm_endpoint": server.url, "llm_timeout_s": 60, "llm_concurrency": 16} | changed
    async with ChatClient(
        LLMSettings(**values), retry=RetryPolicy(max_attempts=2, base_s=0.01, cap_s=0.05)
    ) as client:
        judging = JudgePass(store, 0, client, JudgeSettings(), announce=lambda _: None)
        result = await judging.run(infos(played), played.__getitem__)
        return result.summary


@pytest.mark.slow
@pytest.mark.parametrize("supports_n", [True, False], ids=["n", "no_n"])
async def test_every_vote_is_read_or_counted_by_its_reason(tmp_path, supports_n):
    """Bad answers of one judge cost its own votes: every segment has a score, from the others where not."""
    store = open_store(str(tmp_path))
    acts = ROUNDS if supports_n else [act for act in ROUNDS if act not in REFUSALS]
    whole = len(acts) - len(CONTENT)
    played = world(episodes=1, segments=len(acts))

    def script(body, index, attempt):
        number = place(body)
        spoilt = body["model"] == PUZZLE and (number < whole or seed_of(body, index) == 2)
        return acts[number] if spoilt else Act.GOOD

    async with hostile(script, answer, supports_n=supports_n) as server:
        summary = await run(store, played, server)
    reasons = Counter()
    for number, line in enumerate(read_scores(store, 0)):
        assert line.weighted is not None
        for judged in line.judges.values():
            act = acts[number] if judged.model == PUZZLE else Act.GOOD
            seeds = [1, 2, 3] if act not in REASONS else [1, 3] if number >= whole else []
            good = [value(number, seed) for seed in seeds]
            assert [vote.seed for vote in judged.votes] == seeds_of(0, 3)
            for vote in judged.votes:
                right = (None, value(number, vote.seed)) if vote.seed in seeds else (REASONS.get(act), None)
                assert (vote.invalid, vote.overall) == right, act
                reasons.update([vote.invalid.value] if vote.invalid else [])
            assert judged.valid == len(seeds)
            assert judged.overall == (pytest.approx(median(good)) if good else None)
            assert judged.spread == (pytest.approx(max(good) - min(good)) if good else None)
    assert summary.invalid == dict(sorted(reasons.items()))
    assert summary.judged == len(acts)


def scores_of(store):
    """What two passes must share, by segment."""
    return {
        line.segment_id: (
            line.weighted,
            [(name, each.overall, each.spread, each.valid) for name, each in sorted(line.judges.items())],
        )
        for line in read_scores(store, 0)
    }


async def undisturbed(folder, played):
    store = open_store(str(folder))
    async with hostile(lambda *_: Act.GOOD, answer) as server:
        await run(store, played, server)
    return scores_of(store)


async def left_open(store, played, server, **changed):
    """One line, and nothing that a later stage could take for scores."""
    with pytest.raises(UnavailableError) as ended:
        await run(store, played, server, **changed)
    assert "\n" not in str(ended.value)
    assert not store.exists(keys.scores(0))
    return str(ended.value)


@pytest.mark.parametrize("act", sorted(OUTAGES))
async def test_a_server_that_is_unwell_leaves_the_pass_open(tmp_path, act):
    """For one judgement of six: fewer than ten in a row are an outage too."""
    store, played = open_store(str(tmp_path / "a")), world(episodes=1, segments=2)

    def script(body, index, attempt):
        return act if place(body) == 1 and body["model"] == PUZZLE else Act.GOOD

    async with hostile(script, answer) as server:
        said = await left_open(store, played, server, llm_timeout_s=0.5 if act in ("hang", "drip") else 60)
    assert said.startswith("puzzle judge (qwen25-32b): ")
    assert server.url in said
    assert said.endswith("what was judged is kept, the same command goes on")
    async with hostile(lambda *_: Act.GOOD, answer) as server:
        await run(store, played, server)
        assert len(server.bodies) == 3  # that one, and the vision judge, who comes after
    assert scores_of(store) == await undisturbed(tmp_path / "b", played)


@pytest.mark.parametrize("act", sorted(ENDS))
async def test_what_no_waiting_mends_ends_the_pass_at_its_first_request(tmp_path, act):
    store, played = open_store(str(tmp_path)), world(episodes=1, segments=2)
    async with hostile(lambda *_: act, answer) as server:
        said = await left_open(store, played, server, llm_api_key="marked-secret")
        assert len(server.bodies) == 1
    words = {Act.QUOTA: "exceeded your current quota", Act.CREDIT: "Insufficient Balance", Act.LOGIN: "***"}
    assert words.get(act, "") in said
    assert "marked-secret" not in said


@pytest.mark.parametrize("act", sorted(BAD_CONTENT))
async def test_a_pass_without_one_score_is_not_committed(tmp_path, act):
    store, played = open_store(str(tmp_path / "a")), world(episodes=1, segments=2)
    async with hostile(lambda *_: act, answer) as server:
        said = await left_open(store, played, server)
    assert REASONS[act].value in said
    async with hostile(lambda *_: Act.GOOD, answer) as server:
        await run(store, played, server)
    assert scores_of(store) == await undisturbed(tmp_path / "b", played)


async def test_a_model_that_never_judges_is_told_after_ten_judgements(tmp_path):
    store, played = open_store(str(tmp_path)), world(episodes=1, segments=40)
    async with hostile(lambda *_: Act.PROSE, answer) as server:
        assert "3 no_json: 'Cannot evaluate'" in await left_open(store, played, server, llm_concurrency=1)
        assert len(server.bodies) < 40


@pytest.mark.parametrize(
    "refuses",
    [{"response_format"}, {"json_schema"}, {"max_tokens"}, {"temperature", "seed"}, set(DIALECTS)],
    ids=lambda names: "+".join(sorted(names)),
)
@pytest.mark.parametrize("wordless", [False, True])
async def test_a_server_that_takes_less_is_asked_for_less(tmp_path, refuses, wordless):
    """And it is remembered: each thing is refused once, or by what was on its way meanwhile."""
    played = world(episodes=1, segments=6)
    store = open_store(str(tmp_path / "a"))

    def by_place(body, index):
        return answer(body | {"seed": 1}, index)

    options = {"refuses": frozenset(refuses), "wordless": wordless}
    async with hostile(lambda *_: Act.GOOD, by_place, supports_n=False, **options) as server:
        summary = await run(store, played, server, llm_concurrency=1)
    assert summary.judged == 6
    assert server.statuses[400] <= 3 * (2 * len(DIALECTS) + 3)
    assert not {"json_schema"} & refuses or "json_object" in {
        body.get("response_format", {}).get("type") for body in server.bodies
    }


MIXTURE = st.dictionaries(
    st.tuples(st.integers(0, 2), st.sampled_from(["qwen25-7b", PUZZLE, "qwen25-vl-32b"])),
    st.sampled_from(sorted(set(Act) - {Act.HANG, Act.DRIP, Act.GOOD, Act.STORM, Act.BUSY})),
    max_size=9,
)


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(
    mixture=MIXTURE,
    only_one_vote=st.booleans(),
    supports_n=st.booleans(),
    refuses=st.sets(st.sampled_from(sorted(DIALECTS))),
    wordless=st.booleans(),
)
async def test_a_pass_ends_with_scores_for_all_or_is_left_open(
    tmp_path_factory, mixture, only_one_vote, supports_n, refuses, wordless
):
    folder = tmp_path_factory.mktemp("mixture")
    store, played = open_store(str(folder / "a")), world(episodes=1, segments=3)

    def script(body, index, attempt):
        spoilt = not only_one_vote or body.get("seed", 2) + index == 2
        return mixture.get((place(body), body["model"]), Act.GOOD) if spoilt else Act.GOOD

    options = {"supports_n": supports_n, "refuses": frozenset(refuses), "wordless": wordless}
    async with hostile(script, lambda body, index: answer({"seed": 1} | body, index), **options) as server:
        said = ""
        try:
            await run(store, played, server)
        except UnavailableError as error:
            said = str(error)
    if not said:
        assert all(weighted is not None for weighted, _ in scores_of(store).values())
        return
    assert "\n" not in said
    assert not store.exists(keys.scores(0))
    if "seed" in refuses:  # other votes than those of an undisturbed run are right then
        return
    async with hostile(lambda *_: Act.GOOD, answer) as server:
        await run(store, played, server)
    assert scores_of(store) == await undisturbed(folder / "b", played)


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


async def test_a_segment_that_no_model_reads_has_a_way_out_that_the_error_names(tmp_path):
    """The rule-based judges read every segment, and score the whole epoch."""
    store, played = open_store(str(tmp_path)), world(episodes=1, segments=3)

    def script(body, index, attempt):
        return Act.PROSE if place(body) == 1 else Act.GOOD

    async with hostile(script, answer) as server:
        for _ in range(2):
            said = await left_open(store, played, server)
            assert said.startswith("1 of 3 segments got no score of any judge")
    assert "`LLM_BACKEND=embedded questloop evaluate --epoch 0 --restart`" in said
    with LocalServer() as embedded:
        async with ChatClient(LLMSettings(llm_backend="embedded"), embedded.url) as client:
            judging = JudgePass(store, 0, client, JudgeSettings(), announce=lambda _: None, restart=True)
            await judging.run(infos(played), played.__getitem__)
    assert all(line.weighted is not None for line in read_scores(store, 0))
