from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from questloop.episodes.segment import Segment
from questloop.episodes.selection import Selection, stratum
from questloop.storage.keys import EpisodeId, SegmentId

NAMES = ("room", "tile", "revisit", "health")


def segment(episode=0, index=0, milestones=(), fence=1, **rewards):
    parts = np.array([[rewards.get(name, 0.0) for name in NAMES]], np.float32)
    empty = np.zeros(1, np.uint8)
    return Segment(
        id=SegmentId(EpisodeId("r1", 0, 0, episode), index, fence),
        epoch=0,
        first_step=300 * index,
        last=False,
        action=empty,
        mode=empty,
        taps=empty[None],
        obs=np.zeros((1, 1), np.float32),
        reward_names=NAMES,
        reward_parts=parts,
        milestones=milestones,
    )


@pytest.mark.parametrize(
    ("made", "novelty", "sign"),
    [
        ({}, 0, 0),
        ({"revisit": -0.3}, 0, 0),
        ({"tile": 0.04}, 1, 0),
        ({"tile": 0.04, "health": -0.5}, 1, -1),
        ({"room": 1.0, "health": 2.0}, 2, 1),
        ({"milestones": ("sword",)}, 2, 0),
    ],
)
def test_strata(made, novelty, sign):
    assert stratum(segment(**made)) == ("r1-e0000-s000-00000", novelty, sign)


kinds = st.builds(
    segment,
    episode=st.integers(0, 3),
    index=st.integers(0, 200),
    room=st.sampled_from([0.0, 1.0]),
    health=st.sampled_from([0.0, -1.0]),
)
offers = st.lists(kinds, max_size=80, unique_by=lambda each: each.id)


@settings(deadline=None)
@given(offers, st.integers(0, 30), st.integers(0, 5), st.randoms())
def test_choice_depends_on_what_was_offered_and_not_on_the_order(offered, budget, seed, random):
    def choose(offered):
        selection = Selection(budget, seed)
        for each in offered:
            selection.offer(each)
            assert len(selection) <= budget
        return [each.id for each in selection.take(budget)]

    chosen = choose(offered)
    assert len(chosen) == min(budget, len(offered))
    shuffled = list(offered)
    random.shuffle(shuffled)
    assert choose(shuffled) == chosen


@settings(deadline=None)
@given(offers, st.integers(1, 30))
def test_strata_share_the_budget_evenly(offered, budget):
    selection = Selection(budget, 0)
    for each in offered:
        selection.offer(each)
    kept = Counter(map(stratum, selection.take(budget)))
    there = Counter(map(stratum, offered))
    level = max(kept.values(), default=0)
    assert all(kept[name] >= min(count, level - 1) for name, count in there.items())


def test_a_rare_kind_is_kept_whole():
    selection = Selection(10, 0)
    rare = [segment(index=7, room=1.0), segment(index=90, room=1.0)]
    for each in [*(segment(index=index) for index in range(100, 300)), *rare]:
        selection.offer(each)
    kept = {each.id.index for each in selection.take(10)}
    assert {7, 90} < kept
    assert len(kept) == 10


@given(offers, st.integers(0, 30), st.integers(0, 30))
def test_what_is_not_taken_stays(offered, budget, count):
    selection = Selection(budget, 0)
    for each in offered:
        selection.offer(each)
    first = selection.take(count)
    rest = selection.take(budget)
    assert len(first) == min(count, budget, len(offered))
    assert len({each.id for each in [*first, *rest]}) == min(budget, len(offered))


def test_seed_decides_and_fence_does_not():
    def choose(seed, fence):
        selection = Selection(10, seed)
        for index in range(100):
            selection.offer(segment(index=index, fence=fence))
        return [each.id.index for each in selection.take(10)]

    assert choose(0, 1) == choose(0, 2)
    assert choose(0, 1) != choose(1, 1)


def test_a_segment_offered_twice_is_no_crash():
    selection = Selection(1, 0)
    one = segment()
    selection.offer(one)
    selection.offer(replace(one))
    assert len(selection.take(9)) == 1
