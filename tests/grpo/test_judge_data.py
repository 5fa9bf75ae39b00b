"""Questions for judges: no episode on both sides, no outcome in a prompt, balanced answers."""

import json
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from questloop.errors import BadDataError
from questloop.grpo.data import load_rows
from questloop.grpo.judge_data import (
    STATE_TASKS,
    JudgedState,
    OutcomeSegment,
    Task,
    build,
    sample_pairs,
    split_by_episode,
    state_questions,
)
from questloop.grpo.rewards import BUILTIN_REWARDS


def segments(episodes=12, each=6):
    return [
        OutcomeSegment(f"e{e}/s{s}", f"e{e}", f"text {e} {s}", outcome=(e + s) % 3 == 0, progress=float(s))
        for e in range(episodes)
        for s in range(each)
    ]


def states(episodes=12, each=5):
    return [
        JudgedState(f"c{e}-{s}", f"e{e}", f"State of the game.\n{e} {s}", score=(e * each + s) / 60)
        for e in range(episodes)
        for s in range(each)
    ]


def test_questions_about_states_follow_their_scores_and_the_split_of_their_episodes():
    dataset = build(segments(), (Task.PAIR, *STATE_TASKS), seed=0, states=states())
    score = {state.cell_id: state.score for state in states()}
    trained, tested = (
        {e for row in rows for e in row["episodes"]} for rows in (dataset.train, dataset.held_out)
    )
    assert not trained & tested
    for rows in (dataset.train, dataset.held_out):
        nearer = [row for row in rows if row["task"] == Task.NEARER]
        answers = [row["answer"] for row in nearer]
        assert 0.4 < answers.count("A") / len(answers) < 0.6
        for row in nearer:
            a, b = (score[name] for name in row["segments"])
            assert row["answer"] == ("A" if a > b else "B")
        for row in rows:
            if row["task"] == Task.FAR:
                assert abs(int(row["answer"]) + 0.5 - 10 * score[row["segments"][0]]) < 1
                assert row["labels"] == list("0123456789")
    assert dataset.about["states"] == {
        "train": len({s.cell_id for s in states() if s.episode_id in trained}),
        "held_out": len({s.cell_id for s in states() if s.episode_id in tested}),
    }


def test_how_far_a_state_is_is_taught_finer_than_tenths():
    for score in (0.0, 0.03, 0.26, 0.5, 0.777, 0.95, 1.0):
        same = [replace(states()[0], score=score)] * 2000
        rows = state_questions(same, (Task.FAR,), 0, random.Random(0))
        mean = sum(int(row["answer"]) + 0.5 for row in rows) / 20000
        assert abs(mean - min(max(score, 0.05), 0.95)) < 0.005
        assert {int(row["answer"]) for row in rows} <= set(range(10))


def test_questions_about_states_alone_need_no_segments():
    dataset = build([], STATE_TASKS, seed=0, states=states())
    assert {row["task"] for row in dataset.train} == set(STATE_TASKS)


def test_states_that_are_all_alike_teach_nothing():
    alike = [replace(state, score=0.5) for state in states()]
    with pytest.raises(BadDataError, match="no two judged cells that differ"):
        build(segments(), STATE_TASKS, seed=0, states=alike)


@given(st.integers(2, 30), st.integers(0, 5), st.floats(0.05, 0.95))
def test_no_episode_is_on_both_sides_and_both_have_some(episodes, seed, fraction):
    train, held_out = split_by_episode(segments(episodes, 2), fraction, seed)
    sides = [{segment.episode_id for segment in side} for side in (train, held_out)]
    assert all(sides)
    assert not sides[0] & sides[1]
    assert len(train) + len(held_out) == 2 * episodes


def test_the_split_depends_on_ids_and_seed_alone():
    some = segments()
    shuffled = random.Random(1).sample(some, len(some))
    held_out = [{s.segment_id for s in split_by_episode(rows, 0.25, 0)[1]} for rows in (some, shuffled)]
    assert held_out[0] == held_out[1]
    assert held_out[0] != {s.segment_id for s in split_by_episode(some, 0.25, 1)[1]}


def test_pairs_differ_in_outcome_and_none_comes_twice():
    pairs = sample_pairs(segments(), 200, random.Random(0))
    assert len(set(pairs)) == len(pairs) == 200
    assert all(better.outcome and not worse.outcome for better, worse in pairs)
    assert len(sample_pairs(segments(2, 3), 10**6, random.Random(0))) == 2 * 4


def test_questions_of_every_task():
    dataset = build(segments(), tuple(Task), held_out_pairs=50, seed=0, states=states())
    for rows in (dataset.train, dataset.held_out):
        by_task = {task: [row for row in rows if row["task"] == task] for task in Task}
        answers = [row["answer"] for row in by_task[Task.PAIR]]
        assert abs(answers.count("A") - answers.count("B")) <= 1
        assert {row["answer"] for row in by_task[Task.MILESTONE]} == {"yes", "no"}
        assert {row["answer"] for row in by_task[Task.BAND]} == {"none", "little", "some", "much"}
        assert all(row["answer"] in row["labels"] for row in rows)
    assert len([row for row in dataset.held_out if row["task"] == "pair"]) == 50
    trained, tested = (
        {e for row in rows for e in row["episodes"]} for rows in (dataset.train, dataset.held_out)
    )
    assert not trained & tested


def test_the_right_answer_of_a_pair_is_the_segment_that_went_further():
    outcomes = {segment.segment_id: segment.outcome for segment in segments()}
    texts = {segment.segment_id: segment.text for segment in segments()}
    for row in build(segments(), [Task.PAIR]).train:
        first, second = row["segments"]
        assert outcomes[first] == (row["answer"] == "A")
        assert outcomes[second] == (row["answer"] == "B")
        assert row["prompt"][1]["content"] == f"A:\n{texts[first]}\n\nB:\n{texts[second]}"


def test_it_is_written_as_a_dataset_that_trains(tmp_path):
    dataset = build(segments(), [Task.PAIR, Task.MILESTONE])
    dataset.write(tmp_path)
    assert load_rows(str(tmp_path)) == dataset.train
    assert load_rows(str(tmp_path), split="held_out") == dataset.held_out
    about = json.loads((tmp_path / "about.json").read_text())
    assert about["segments"] == {"train": 54, "held_out": 18}
    assert about["questions"]["train"]["pair"] == len([r for r in dataset.train if r["task"] == "pair"])

    rows = dataset.train
    right = {"completions": [row["answer"] for row in rows], "labels": [row["labels"] for row in rows]}
    right["answer"] = right["completions"]
    assert set(BUILTIN_REWARDS["judge_format"](**right)) == {1.0}
    assert set(BUILTIN_REWARDS["judge_agreement"](**right)) == {1.0}


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([OutcomeSegment("a", "e", "t", True)], "1 episode"),
        (
            [OutcomeSegment(f"{e}{s}", f"e{e}", "t", True) for e in range(4) for s in range(2)],
            "learns? from differ",
        ),
    ],
)
def test_too_little_to_learn_from(rows, message):
    with pytest.raises(BadDataError, match=message):
        build(rows)


def test_bands_need_progress():
    rows = [OutcomeSegment(s.segment_id, s.episode_id, s.text, s.outcome) for s in segments()]
    with pytest.raises(BadDataError, match="bands need segments with different progress"):
        build(rows, [Task.BAND])
