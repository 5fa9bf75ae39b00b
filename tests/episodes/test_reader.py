import json

import pytest

from questloop.episodes.exporter import Exporter
from questloop.episodes.reader import SegmentReader
from questloop.errors import BadDataError
from questloop.storage import keys
from questloop.storage.commit import commit_stage
from questloop.storage.keys import Stage
from questloop.storage.store import NotFound


@pytest.fixture
def stored(store, segments, recording):
    """The store with one exported segment, and the segment."""
    exporter = Exporter(store, recording)
    exporter.submit(segments[1])
    exporter.close()
    return store, segments[1]


def edit(store, segment, **changed):
    key = keys.manifest(str(segment.id))
    document = json.loads(store.get(key)) | changed
    store.put(key, json.dumps(document).encode())


def test_what_was_exported_is_read(stored):
    store, segment = stored
    view = SegmentReader(store).load(str(segment.id))
    view.check()
    assert (view.segment_id, view.episode_id) == (str(segment.id), str(segment.id.episode))
    assert len(view.states) == 150
    assert (view.observations == segment.obs).all()
    assert view.png(310).startswith(b"\x89PNG")
    assert view.png(311) is None


def test_every_picture_stands_in_the_states(stored):
    """lerobot#2364."""
    store, segment = stored
    view = SegmentReader(store).load(str(segment.id))
    named = {int(state["png"][7:13]): state["step"] for state in view.states if state["png"]}
    assert all(number == step for number, step in named.items())
    prefix = keys.segment_prefix(str(segment.id))
    there = {entry.key.removeprefix(f"{prefix}/frames/") for entry in store.list(f"{prefix}/frames")}
    assert there == {f"{step:06d}.png" for step in named}
    assert view.manifest.pngs == len(named)


def test_uncommitted_epochs_are_not_listed(stored):
    store, _ = stored
    with pytest.raises(NotFound, match="epoch 0 has no committed rollouts; play it with"):
        SegmentReader(store).list(0)
    commit_stage(store, 0, Stage.ROLLOUTS, 1, [])
    assert SegmentReader(store).list(0) == ()


@pytest.mark.parametrize("name", ["states.jsonl", "observations.npz", "frames/000310.png"])
def test_changed_and_cut_off_files_are_named(stored, name):
    store, segment = stored
    key = keys.segment_file(str(segment.id), name)
    whole = store.get(key)
    for data, says in [(whole[:-1], "cut off"), (whole[:-1] + b"?", "SHA-256"), (b"", "0 bytes")]:
        store.put(key, data)
        with pytest.raises(BadDataError, match=f"{key}: .*{says}"):
            SegmentReader(store).load(str(segment.id)).check()
    store.delete([key])
    with pytest.raises(NotFound, match=key):
        SegmentReader(store).load(str(segment.id)).check()


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"frames": 149}, "the manifest says 149 frames"),
        ({"first_step": 0}, "the manifest says 150 frames from 0"),
        ({"pngs": 3}, "pictures do not match"),
        ({"observation_size": 7}, "the manifest says"),
        ({"frames": 301}, "frames: must be less than or equal to 300"),
        ({"segment_id": "../x"}, "segment_id: .*not a segment id"),
        ({"segment_id": "r1-e0000-s000-00000-00009-f0001"}, "describes segment"),
        ({"schema_version": 2}, "newer than this release"),
        ({"raw_return": float("nan")}, "manifest.json"),
        ({"files": [{"name": "../../x", "sha256": "0" * 64, "size": 1}]}, r"files.0.name: "),
        ({"files": []}, "lists no states.jsonl"),
    ],
)
def test_a_manifest_that_does_not_fit_is_named(stored, changed, says):
    store, segment = stored
    edit(store, segment, **changed)
    with pytest.raises(BadDataError, match=says):
        SegmentReader(store).load(str(segment.id)).check()


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"null", b"\xff"])
def test_a_manifest_that_is_none(stored, data):
    store, segment = stored
    store.put(keys.manifest(str(segment.id)), data)
    with pytest.raises(BadDataError, match=r"manifest.json: "):
        SegmentReader(store).load(str(segment.id))


def test_a_segment_without_manifest_is_not_complete(stored):
    store, segment = stored
    store.delete([keys.manifest(str(segment.id))])
    with pytest.raises(NotFound, match=r"manifest\.json"):
        SegmentReader(store).load(str(segment.id))
