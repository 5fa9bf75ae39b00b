import asyncio
import json
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.serving.hostile import Act, hostile

from questloop.judges.rubric import PUZZLE, STATE, Criterion
from questloop.judges.scores import ValueFailure, Vote
from questloop.judges.votes import Voter, quorum_of, read_vote, tally
from questloop.llm.client import ChatClient
from questloop.llm.reply import ReplyChoice
from questloop.llm.retry import RetryPolicy
from questloop.llm.structured import ParseFailure
from questloop.settings import LLMSettings

GOOD = {"reason": "ok", "progress": 0.4, "dialog": None, "efficiency": 1, "overall": 0.5}
PROMPT = [{"role": "user", "content": "hello"}]


def read(answer, finish="stop", judge=STATE):
    text = answer if isinstance(answer, str) else json.dumps(answer)
    return read_vote(ReplyChoice(text, finish), judge, seed=1)


def test_a_good_answer():
    vote = read(GOOD)
    assert vote.invalid is None
    assert vote.overall == 0.5
    assert vote.scores == {Criterion.PROGRESS: 0.4, Criterion.DIALOG: None, Criterion.EFFICIENCY: 1.0}
    assert vote.reason == "ok"


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("Cannot evaluate", ParseFailure.NO_JSON),
        ('{"progress": 0.4, "dial', ParseFailure.BAD_JSON),
        ("7", ParseFailure.NO_JSON),
        (GOOD | {"overall": "0.8x"}, ValueFailure.NOT_A_NUMBER),
        ("", ParseFailure.EMPTY),
        (GOOD | {"overall": 15}, ValueFailure.OUT_OF_RANGE),
        (GOOD | {"progress": 1.0001}, ValueFailure.OUT_OF_RANGE),
        (GOOD | {"progress": -0.1}, ValueFailure.OUT_OF_RANGE),
        (GOOD | {"overall": 10**400}, ValueFailure.OUT_OF_RANGE),
        (GOOD | {"overall": float("nan")}, ValueFailure.NOT_FINITE),
        (GOOD | {"dialog": float("-inf")}, ValueFailure.NOT_FINITE),
        (GOOD | {"overall": True}, ValueFailure.NOT_A_NUMBER),
        (GOOD | {"overall": None}, ValueFailure.NOT_A_NUMBER),
        (GOOD | {"overall": [0.5]}, ValueFailure.NOT_A_NUMBER),
        ({"overall": 0.5}, ParseFailure.MISSING_FIELD),
    ],
)
def test_what_cannot_be_read_is_invalid_with_its_reason(answer, reason):
    vote = read(answer)
    assert vote.invalid is reason
    assert vote.overall is None
    assert vote.scores == {}


def test_a_reply_cut_off_at_its_limit_says_so():
    assert read('{"progress": 0.4, "dial', finish="length").invalid is ValueFailure.CUT_OFF


ANSWERS = st.dictionaries(st.sampled_from(STATE.fields), st.floats() | st.text() | st.none())


@given(st.text() | ANSWERS)
def test_no_answer_becomes_a_number_by_accident(answer):
    vote = read(answer)
    assert (vote.overall is None) == (vote.invalid is not None)
    assert vote.overall is None or 0 <= vote.overall <= 1


def vote(overall, puzzle=None, invalid=None):
    scores = {} if invalid else {Criterion.PUZZLE: puzzle}
    return Vote(seed=1, scores=scores, overall=overall, invalid=invalid)


BAD = vote(None, invalid=ParseFailure.NO_JSON)


def test_median_of_the_valid_votes_and_their_range():
    scores, overall, spread = tally([vote(0.2, 0.1), vote(0.9, 0.3), BAD], PUZZLE)
    assert overall == pytest.approx(0.55)
    assert spread == pytest.approx(0.7)
    assert scores[Criterion.PUZZLE] == pytest.approx(0.2)


def test_without_a_quorum_there_is_no_score():
    assert tally([vote(0.9), BAD, BAD], PUZZLE) == ({Criterion.PUZZLE: None}, None, None)


def test_a_criterion_that_most_call_absent_is_absent():
    scores, overall, _ = tally([vote(0.5), vote(0.5), vote(0.5, puzzle=0.7)], PUZZLE)
    assert scores[Criterion.PUZZLE] is None
    assert overall == 0.5


@given(st.lists(st.none() | st.floats(0, 1), min_size=1, max_size=15))
def test_tally_is_the_median_exactly_when_a_majority_is_valid(overalls):
    votes = [BAD if value is None else vote(value) for value in overalls]
    valid = [value for value in overalls if value is not None]
    _, overall, spread = tally(votes, PUZZLE)
    if len(valid) >= quorum_of(len(votes)):
        assert overall == median(valid)
        assert spread == max(valid) - min(valid)
    else:
        assert overall is spread is None


def by_seed(body, index):
    return {"puzzle": None, "overall": (body["seed"] + index) / 10}


async def ask(answer, times=2, model="qwen25-32b", **options):
    async with hostile(options.pop("script", lambda *_: Act.GOOD), answer, **options) as server:
        settings = LLMSettings(llm_endpoint=server.url, llm_model_puzzle=model)
        async with ChatClient(settings, retry=RetryPolicy(base_s=0.01)) as client:
            voter = Voter(client, PUZZLE, model, "f", [1, 2, 3])
            answers = [await voter.ask(PROMPT) for _ in range(times)]
        return answers, [(body.get("n", 1), body["seed"]) for body in server.bodies]


async def test_one_request_for_all_votes_where_the_server_supports_n():
    answers, requests = await ask(by_seed)
    assert requests == [(3, 1), (3, 1)]
    assert [vote.overall for vote in answers[0].votes] == [0.1, 0.2, 0.3]
    assert answers[0].overall == 0.2


async def test_a_server_that_ignores_n_is_asked_once_a_seed():
    answers, requests = await ask(by_seed, supports_n=False)
    assert requests[0] == (3, 1)
    assert sorted(requests[1:3]) == [(1, 2), (1, 3)]
    assert sorted(requests[3:]) == [(1, 1), (1, 2), (1, 3)]
    assert [vote.overall for vote in answers[1].votes] == [0.1, 0.2, 0.3]


async def test_a_server_with_one_seed_for_all_samples_is_asked_once_a_seed():
    answers, requests = await ask(lambda body, index: {"puzzle": None, "overall": body["seed"] / 10})
    assert sorted(requests[1:3]) == [(1, 2), (1, 3)]
    assert [vote.overall for vote in answers[0].votes] == [0.1, 0.2, 0.3]


async def test_a_server_that_refuses_n_is_asked_once_a_seed():
    def script(body, index, attempt):
        return Act.REFUSE if body.get("n", 1) > 1 else Act.GOOD

    answers, requests = await ask(by_seed, script=script)
    assert requests[0] == (3, 1)
    assert len(requests) == 1 + 3 + 3
    assert answers[0].valid == 3


async def test_workers_that_find_out_together_lose_no_vote():
    def script(body, index, attempt):
        return Act.REFUSE if body.get("n", 1) > 1 else Act.GOOD

    async with hostile(script, by_seed, latency_s=0.05) as server:
        settings = LLMSettings(llm_endpoint=server.url)
        async with ChatClient(settings, retry=RetryPolicy(base_s=0.01)) as client:
            voter = Voter(client, PUZZLE, "m", "f", [1, 2, 3])
            answers = await asyncio.gather(*(voter.ask(PROMPT) for _ in range(4)))
    assert [answer.valid for answer in answers] == [3, 3, 3, 3]


async def test_once_proven_equal_samples_are_votes():
    settled = False

    def answer(body, index):
        return {"puzzle": None, "overall": 0.5 if settled else index / 10}

    async with (
        hostile(lambda *_: Act.GOOD, answer) as server,
        ChatClient(LLMSettings(llm_endpoint=server.url)) as client,
    ):
        voter = Voter(client, PUZZLE, "m", "f", [1, 2, 3])
        await voter.ask(PROMPT)
        settled = True
        second = await voter.ask(PROMPT)
    assert (second.valid, second.spread) == (3, 0)
    assert len(server.bodies) == 2


async def test_a_deterministic_judge_is_labelled_and_asked_once():
    answers, requests = await ask(lambda *_: {"puzzle": None, "overall": 0.4}, model="rule-based-puzzle")
    assert len(requests) == 2
    assert answers[0].deterministic
    assert answers[0].spread == 0
