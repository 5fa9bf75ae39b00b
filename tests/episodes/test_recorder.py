import io
import itertools
import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.episodes.conftest import cut

from questloop.episodes.boundary import Boundary
from questloop.episodes.recorder import Recorder
from questloop.episodes.segment import SEGMENT_FRAMES, EpisodeOutcome, parse_record
from questloop.episodes.takeover import PlayedPlan, Takeover
from questloop.episodes.trace import EpisodeStart, Screens, Trace
from questloop.errors import BadDataError
from questloop.storage.commit import to_json


def test_segments_of_a_game(played, segments, make_recorder):
    assert [(str(segment.id), segment.length, segment.last) for segment in segments] == [
        ("r1-e0000-s000-00000-00000-f0001", 300, False),
        ("r1-e0000-s000-00000-00001-f0001", 150, True),
        ("r1-e0000-s001-00000-00000-f0001", 300, False),
        ("r1-e0000-s001-00000-00001-f0001", 300, False),
    ]
    for segment in segments:
        slot = segment.id.episode.slot
        rows = slice(segment.first_step, segment.first_step + segment.length)
        np.testing.assert_array_equal(segment.taps, played.taps[rows, slot])
        np.testing.assert_array_equal(segment.obs, played.obs[rows, slot])
        assert sorted(segment.frames) == [step for step in segment.steps if step % 10 == 0]
        np.testing.assert_array_equal(
            segment.frames[segment.first_step], played.frames[segment.first_step, slot]
        )
    assert segments[0].start == EpisodeStart(seed=5, state="forest")


def test_nothing_of_a_trace_is_held_on_to(played, make_recorder):
    """A view of one picture would keep a whole rollout in the memory that processes share."""
    places = {at: row for row, at in enumerate(played.frames)}
    pictures = np.stack(list(played.frames.values()))
    trace = replace(played, frames=Screens(places, pictures))
    recorder = make_recorder()
    for segment in recorder.add(trace):
        assert not any(np.shares_memory(picture, pictures) for picture in segment.frames.values())
        for name in ("action", "taps", "obs", "reward_parts"):
            assert not np.shares_memory(getattr(segment, name), getattr(trace, name))
    open_ones = [picture for frames in recorder._frames for picture in frames.values()]
    assert open_ones
    assert not any(np.shares_memory(picture, pictures) for picture in open_ones)


def test_records_list_all_segments_and_which_are_exported(played, make_recorder):
    recorder = make_recorder()
    done = recorder.add(played)
    recorder.mark_exported([str(done[1].id), "unknown"])
    records = {record.id: record for record in recorder.records()}
    first = records["r1-e0000-s000-00000"]
    assert first.outcome is EpisodeOutcome.TRUNCATED
    assert (first.steps, first.seed, first.start_state, first.epochs) == (450, 5, "forest", (0,))
    assert [(entry.index, entry.first_step, entry.frames, entry.exported) for entry in first.segments] == [
        (0, 0, 300, False),
        (1, 300, 150, True),
    ]
    assert first.raw_return == pytest.approx(played.reward_parts[:450, 0].sum())
    assert first.raw_return == pytest.approx(sum(entry.raw_return for entry in first.segments))
    going_on = records["r1-e0000-s000-00001"]
    assert (going_on.outcome, going_on.steps, going_on.seed) == (EpisodeOutcome.RUNNING, 250, 6)
    assert going_on.segments == ()


def test_segments_of_a_short_episode_are_shorter_and_say_so(played, make_recorder):
    done = make_recorder(segment_steps=75)
    segments = [s for s in done.add(played) if str(s.id.episode) == "r1-e0000-s000-00000"]
    assert [(s.id.index, s.length, s.last) for s in segments] == [(i, 75, i == 5) for i in range(6)]
    record = parse_record(to_json(done.records()[0]), "key")
    assert record.segment_steps == 75
    assert [entry.first_step for entry in record.segments] == list(range(0, 450, 75))
    assert done.replays()[0].segment_steps == 75


def test_an_episode_keeps_the_length_of_its_segments_where_settings_change(played, make_recorder):
    """As on a resume with another EPISODE_LENGTH, and where an earlier release left the state."""
    first = make_recorder()
    first.add(cut(played, 0, 380))
    state = first.state_dict()
    meta = json.loads(str(state["meta"]))
    for episode in meta["episodes"]:
        del episode["segment_steps"]  # not there before
    second = make_recorder(epoch=1, fence=2, segment_steps=50)
    second.load_state_dict(state | {"meta": np.array(json.dumps(meta))})
    done = second.add(cut(played, 380, 700))
    lengths = {(s.id.episode.slot, s.id.episode.ordinal): s.length for s in done if not s.last}
    assert lengths == {(1, 0): 300, (0, 1): 50}


def test_an_episode_goes_on_across_epochs(played, make_recorder):
    """What the store gets is the same as without the epoch's end, but for the epoch's number."""
    whole = make_recorder().add(played)
    first = make_recorder()
    done = first.add(cut(played, 0, 380))
    file = io.BytesIO()
    np.savez(file, **first.state_dict())
    second = make_recorder(epoch=1, fence=2)
    file.seek(0)
    second.load_state_dict(np.load(file, allow_pickle=False))
    later = second.add(cut(played, 380, 700))
    assert [(segment.epoch, segment.id.fence) for segment in [*done, *later]] == [(0, 1)] * 2 + [(1, 2)] * 2
    by_place = {(segment.id.episode, segment.id.index): segment for segment in [*done, *later]}
    assert len(by_place) == len(whole)
    for expected in whole:
        found = by_place[expected.id.episode, expected.id.index]
        assert_same(found, expected)
    records = {record.id: record for record in second.records()}
    assert records["r1-e0000-s001-00000"].epochs == (0, 1)
    assert [entry.segment_id[-5:] for entry in records["r1-e0000-s001-00000"].segments] == ["f0001", "f0002"]
    assert records["r1-e0001-s000-00001"].epochs == (1,)


def test_going_on_is_the_same_as_loading_the_state(played, make_recorder):
    going = make_recorder()
    going.add(cut(played, 0, 460))
    loaded = make_recorder(epoch=1, fence=2)
    loaded.load_state_dict(going.state_dict())
    going.go_on(1, 2)
    ways = (going, loaded)
    for found, expected in zip(*(each.add(cut(played, 460, 700)) for each in ways), strict=True):
        assert found.id == expected.id
        assert_same(found, expected)
    found, expected = (each.replays() for each in ways)
    assert [each.reloads for each in found] == [each.reloads for each in expected]
    assert going.records() == loaded.records()
    states = [each.state_dict() for each in ways]
    assert states[0].keys() == states[1].keys()
    for name, array in states[0].items():
        np.testing.assert_array_equal(array, states[1][name])


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"run": "r2"}, "run was 'r1'"),
        ({"slots": 3}, "slots was 2"),
        ({"reward_names": ("a",)}, "reward_names"),
    ],
)
def test_state_of_another_run_is_refused(played, make_recorder, changed, says):
    recorder = make_recorder()
    recorder.add(cut(played, 0, 20))
    with pytest.raises(BadDataError, match=says):
        make_recorder(**changed).load_state_dict(recorder.state_dict())


def test_state_before_the_first_trace(make_recorder):
    other = make_recorder()
    other.load_state_dict(make_recorder().state_dict())
    assert other.records() == []


def test_lost_runner_abandons_its_episode(played, make_recorder):
    recorder = make_recorder()
    recorder.add(cut(played, 0, 320))
    done = recorder.add(cut(played, 0, 10))
    assert [(segment.length, segment.last) for segment in done] == [(20, True), (20, True)]
    outcomes = [record.outcome for record in recorder.records()]
    assert outcomes == [EpisodeOutcome.ABANDONED] * 2 + [EpisodeOutcome.RUNNING] * 2


def test_takeovers_belong_to_their_episode_and_go_on_with_it(played, make_recorder):
    def takeover(step):
        plan = PlayedPlan(step=0, source="rules", reason="talk", macros=("TALK 3,4",), played=1, ended="done")
        return Takeover(mode="dialog", room="0:1f", first_step=step, steps=5, outcome="solved", plans=(plan,))

    first = make_recorder()
    trace = cut(played, 0, 460)
    trace.takeovers = [(20, 0, takeover(15)), (30, 1, takeover(25)), (455, 0, takeover(0))]
    first.add(trace)
    second = make_recorder(epoch=1)
    second.load_state_dict(first.state_dict())
    trace = cut(played, 460, 500)
    trace.takeovers = [(0, 1, takeover(450))]
    second.add(trace)
    records = {record.id: record for recorder in (first, second) for record in recorder.records()}
    steps = {name[-10:]: [each.first_step for each in record.takeovers] for name, record in records.items()}
    assert steps == {"s000-00000": [15], "s000-00001": [0], "s001-00000": [25, 450]}
    record = records["r1-e0000-s001-00000"]
    assert parse_record(to_json(record), "episode.json") == record


@pytest.mark.parametrize("start", [5, 301])
def test_gap_in_the_steps_is_refused(played, make_recorder, start):
    recorder = make_recorder()
    recorder.add(cut(played, 0, 300))
    with pytest.raises(
        ValueError, match=f"slot 0 is at episode step {start} at row 0, which does not follow"
    ):
        recorder.add(cut(played, start, start + 20))
    broken = cut(played, 300, 320)
    broken.episode_step = broken.episode_step.copy()
    broken.episode_step[7:, 1] += 1
    with pytest.raises(ValueError, match="slot 1 is at episode step 308 at row 7"):
        recorder.add(broken)


def test_boundaries_are_those_of_the_rewards():
    assert (Boundary.TERMINATED, Boundary.TRUNCATED) == (1, 2)


def test_milestones_are_those_that_the_play_reached():
    trace = synthetic([40], [])
    trace.milestones[:, 0] = 0b001  # from the start state
    trace.milestones[7:9, 0] |= 0b010  # holds for a moment only
    trace.milestones[20:, 0] |= 0b110
    recorder = small_recorder(1)
    recorder.add(trace)
    assert recorder.records()[0].milestones == {"b": 7, "c": 20}


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_nothing_is_lost_or_twice(data):
    """Any episodes, cut into any traces, with the recorder's state carried over at any of them."""
    slots = data.draw(st.integers(1, 3))
    length = data.draw(st.integers(1, 1300))
    ends = [data.draw(st.sets(st.integers(0, length - 1), max_size=4)) for _ in range(slots)]
    trace = synthetic([length] * slots, ends)
    cuts = sorted({0, length, *data.draw(st.sets(st.integers(0, length), max_size=5))})
    recorder, done, records, epoch = small_recorder(slots), [], {}, 0
    for start, stop in itertools.pairwise(cuts):
        done += recorder.add(cut(trace, start, stop))
        if data.draw(st.booleans()):
            records |= {record.id: record for record in recorder.records()}
            epoch += 1
            following = small_recorder(slots, epoch)
            following.load_state_dict(recorder.state_dict())
            recorder = following
    records |= {record.id: record for record in recorder.records()}
    for slot in range(slots):
        mine = [segment for segment in done if segment.id.episode.slot == slot]
        seen = np.concatenate([segment.taps for segment in mine] or [np.zeros((0, 2), np.uint8)])
        np.testing.assert_array_equal(seen, trace.taps[: len(seen), slot])
        starts = [0, *(end + 1 for end in sorted(ends[slot]))]
        assert len(seen) == sum((b - a) for a, b in itertools.pairwise(starts)) + (
            (length - starts[-1]) // SEGMENT_FRAMES * SEGMENT_FRAMES
        )
    assert all(segment.last or segment.length == SEGMENT_FRAMES for segment in done)
    assert len({str(segment.id) for segment in done}) == len(done)
    listed = [entry.segment_id for record in records.values() for entry in record.segments]
    assert sorted(listed) == sorted(str(segment.id) for segment in done)
    assert sum(record.steps for record in records.values()) == length * slots
    for record in records.values():
        indices = [entry.index for entry in record.segments]
        assert indices == list(range(len(indices)))


def small_recorder(slots, epoch=0):
    return Recorder(
        slots, run="r1", epoch=epoch, fence=epoch + 1, reward_names=("x",), milestone_names=("a", "b", "c")
    )


def synthetic(lengths, ends):
    """A trace whose taps number its rows; episodes end where `ends` says."""
    length, slots = lengths[0], len(lengths)
    step = np.zeros((length, slots), np.int64)
    boundary = np.zeros((length, slots), np.uint8)
    for slot in range(slots):
        begun = 0
        for end in sorted(ends[slot]) if ends else []:
            boundary[end, slot] = 1
            step[begun : end + 1, slot] = np.arange(end + 1 - begun)
            begun = end + 1
        step[begun:, slot] = np.arange(length - begun)
    numbers = np.arange(length, dtype=np.uint16).view(np.uint8).reshape(length, 1, 2)
    return Trace(
        episode_step=step,
        action=np.zeros((length, slots), np.uint8),
        mode=np.zeros((length, slots), np.uint8),
        boundary=boundary,
        taps=np.repeat(numbers, slots, axis=1),
        obs=np.zeros((length, slots, 1), np.float32),
        reward_parts=np.ones((length, slots, 1), np.float32),
        milestones=np.zeros((length, slots), np.uint64),
    )


def assert_same(found, expected):
    assert (found.first_step, found.last, found.milestones) == (
        expected.first_step,
        expected.last,
        expected.milestones,
    )
    for name in ("action", "mode", "taps", "obs", "reward_parts"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    assert found.frames.keys() == expected.frames.keys()
    for step, picture in expected.frames.items():
        np.testing.assert_array_equal(found.frames[step], picture)
