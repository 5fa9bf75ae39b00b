import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from questloop.errors import BadDataError, UsageError
from questloop.storage import keys
from questloop.storage.keys import EpisodeId, SegmentId, Stage
from questloop.storage.store import valid_key

numbers = st.integers(0, 10**8)
runs = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?", fullmatch=True)
episodes = st.builds(EpisodeId, runs, numbers, numbers, numbers)
segments = st.builds(SegmentId, episodes, numbers, numbers)


@given(segments)
def test_ids_survive_writing_and_reading(segment):
    assert SegmentId.parse(str(segment)) == segment
    assert EpisodeId.parse(str(segment.episode)) == segment.episode


@given(st.text(st.sampled_from(string.ascii_lowercase + string.digits + "-./_ "), max_size=60) | st.text())
def test_what_is_read_is_written_the_same(text):
    for kind in (EpisodeId, SegmentId):
        try:
            parsed = kind.parse(text)
        except BadDataError:
            continue
        assert str(parsed) == text


@given(segments, numbers)
def test_every_key_is_one(segment, epoch):
    segment_id, episode_id = str(segment), str(segment.episode)
    made = [
        keys.episode_record(episode_id),
        keys.manifest(segment_id),
        keys.segment_file(segment_id, "states.jsonl"),
        keys.segment_file(segment_id, keys.frame_name(epoch)),
        keys.scores(epoch),
        keys.checkpoint(epoch, "env_runner/state.pkl"),
        keys.reward_model(epoch),
        keys.evaluation(epoch),
        keys.run(),
        keys.progress(),
        keys.retired(epoch),
        keys.commit(epoch, Stage.EVALUATE),
        keys.lease(epoch),
        keys.lease_beat(epoch),
        keys.video("epoch_0.mp4"),
    ]
    assert len(set(map(valid_key, made))) == len(made)
    assert keys.manifest(segment_id).startswith(f"{keys.episode_prefix(episode_id)}/")


def test_layout_is_the_published_one():
    segment = "r1-e0003-s012-00004-00007-f0002"
    assert keys.manifest(segment) == f"zelda-episodes/r1-e0003-s012-00004/{segment}/manifest.json"
    assert keys.segment_file(segment, keys.frame_name(12)).endswith(f"{segment}/frames/000012.png")
    assert keys.scores(3) == "zelda-episodes/scores/epoch_3/scores.jsonl"
    assert keys.checkpoint(3, "state.json") == "zelda-models/checkpoints/epoch_3/state.json"
    assert keys.reward_model(0) == "zelda-models/reward_model/epoch_0/rm.pt"
    assert keys.evaluation(0) == "zelda-models/evaluations/epoch_0/summary.json"
    assert keys.progress() == "zelda-models/pipeline/progress.json"
    assert keys.commit(3, Stage.REWARD_MODEL) == "zelda-models/pipeline/epoch_3/commit-reward_model.json"


@pytest.mark.parametrize("name", ["../x", "a/../../b", "", "/etc/passwd", ".", "a//b", "a\x00b"])
def test_names_cannot_leave_their_folder(name):
    segment = "r1-e0003-s012-00004-00007-f0002"
    for make in (
        lambda: keys.segment_file(segment, name),
        lambda: keys.checkpoint(0, name),
        lambda: keys.video(name),
    ):
        with pytest.raises(UsageError):
            make()
    with pytest.raises(BadDataError):
        keys.manifest(name)


@pytest.mark.parametrize(
    ("name", "epoch"),
    [("epoch_0", 0), ("epoch_12", 12), ("epoch_01", None), ("epoch_", None), ("0", None), ("epoch_x", None)],
)
def test_names_of_epochs(name, epoch):
    assert keys.parse_epoch(name) == epoch


@pytest.mark.parametrize(
    ("name", "fence"), [("000007.json", 7), ("000007-beat.json", None), ("x.json", None), ("7", None)]
)
def test_names_of_leases(name, fence):
    assert keys.parse_lease(name) == fence
