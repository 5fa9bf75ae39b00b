"""Pairs that were judged side by side, as the reward model takes them."""

import pytest

from questloop.episodes.jsonl import to_jsonl
from questloop.errors import BadDataError
from questloop.judges.pairwise import Preference
from questloop.judges.scores import SegmentScores
from questloop.pipeline.stages import compared_segments
from questloop.storage import keys
from questloop.storage.store import open_store


def name(number):
    return f"r1-e0000-s000-{number:05d}-00000-f0001"


def scores(number, weighted):
    return SegmentScores(
        segment_id=name(number),
        episode_id=f"r1-e0000-s000-{number:05d}",
        epoch=0,
        judges={},
        criteria={},
        weighted=weighted,
        agreement=None,
    )


def compared(a, b, p):
    answers = {"p": p, "flip": False, "p_ab": p, "p_ba": None if p is None else 1 - p}
    return Preference(a=name(a), b=name(b), model="m", fingerprint="f", **answers)


@pytest.fixture
def store(tmp_path):
    """Segment 1 has no score, so the others are numbered 0, 1, 2."""
    store = open_store(str(tmp_path))
    lines = [scores(0, 0.1), scores(1, None), scores(2, 0.5), scores(3, 0.9)]
    store.put(keys.scores(0), to_jsonl(lines))
    return store


def write(store, *items):
    store.put(keys.preferences(0), b"".join(item.model_dump_json().encode() + b"\n" for item in items))


def test_pairs_are_numbered_as_the_segments_are(store):
    write(store, compared(0, 3, 0.25), compared(3, 2, 0.5), compared(0, 2, None), compared(1, 3, 1.0))
    found = compared_segments(store, [0])
    assert list(zip(found.a, found.b, found.label, strict=True)) == [(0, 2, 0.25), (2, 1, 0.5)]
    assert found.weight.tolist() == [1, 1]


def test_without_comparisons_the_command_that_makes_them_is_named(store):
    with pytest.raises(BadDataError, match="questloop judge compare --epoch 0"):
        compared_segments(store, [0])
    write(store, compared(0, 3, None))
    with pytest.raises(BadDataError, match="--pairs"):
        compared_segments(store, [0])


def test_a_damaged_line_is_named(store):
    store.put(keys.preferences(0), compared(0, 3, 0.5).model_dump_json().encode() + b"\n{}\n")
    with pytest.raises(BadDataError, match=r"preferences\.jsonl line 2"):
        compared_segments(store, [0])
