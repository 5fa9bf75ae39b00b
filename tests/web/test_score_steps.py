import re

import pytest

from questloop.judges.rubric import STATE, Criterion
from questloop.judges.scores import JudgeScores, Tokens, Vote
from questloop.judges.votes import tally
from questloop.llm.structured import ParseFailure
from questloop.report.book import RunBook
from questloop.web.score_steps import ScoreSteps, said, vote_groups


def vote(seed, overall, reason="because"):
    return Vote(seed=seed, scores=dict.fromkeys(STATE.criteria, overall), overall=overall, reason=reason)


def judged(*votes):
    scores, overall, spread = tally(votes, STATE)
    valid = sum(each.invalid is None for each in votes)
    return JudgeScores(
        model="m", fingerprint="f", votes=votes, valid=valid, quorum=overall is not None, scores=scores,
        overall=overall, spread=spread, latency_s=0.0, tokens=Tokens(),
    )  # fmt: skip


def test_votes_that_say_the_same_are_one():
    votes = [vote(1, 0.5), vote(2, 0.7), vote(3, 0.5), vote(4, 0.5, "else")]
    assert [(group.which, group.vote.overall) for group in vote_groups(votes)] == [
        ("1, 3", 0.5), ("2", 0.7), ("4", 0.5)
    ]  # fmt: skip
    assert [group.which for group in vote_groups([vote(n, 0.5) for n in (1, 2, 3)])] == ["1 to 3"]


@pytest.mark.parametrize(
    ("votes", "says"),
    [
        ([vote(1, 0.73), vote(2, 0.73), vote(3, 0.73)], "3 votes, all 0.73."),
        ([vote(1, 0.2), vote(2, 0.9), vote(3, 0.4)], "3 votes, from 0.20 to 0.90; the median counts, 0.40."),
        ([vote(1, 0.2)], "1 vote."),
        (
            [vote(1, 0.2), vote(2, 0.2), Vote(seed=3, invalid=ParseFailure.EMPTY)],
            "2 of 3 votes count, all 0.20.",
        ),
        (
            [vote(1, 0.2), *(Vote(seed=n, invalid=ParseFailure.EMPTY) for n in (2, 3))],
            "1 of 3 votes count, 2 are needed: no score.",
        ),
    ],
)
def test_what_became_of_the_votes_is_said(votes, says):
    assert said(judged(*votes)) == says


def test_the_sum_on_the_page_is_the_score(store):
    for line in RunBook(store).scores(0).values():
        steps = ScoreSteps.of(line)
        assert steps.total / steps.weight == pytest.approx(line.weighted, abs=1e-5)
        highest, lowest = steps.overall[0][1], steps.overall[-1][1]
        assert 1 - (highest - lowest) == pytest.approx(line.agreement, abs=1e-5)
        assert steps.missing == [name for name in Criterion if line.criteria[name] is None]


def test_a_segments_page_tells_every_step(store):
    from tests.web.test_app import client

    book = RunBook(store)
    name = book.segments(0)[0]
    line = book.scores(0)[name]
    text = client(store).get(f"/segments/{name}").text
    assert f"How it became {line.weighted:.2f}" in text
    assert re.search(rf"/ [\d.]+ = <b>{line.weighted:.2f}</b>", text)
    assert "3 votes, all" in text
    assert text.count("points of progress") == 1
