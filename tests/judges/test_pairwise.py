from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.judges.play import infos, world
from tests.judges.test_ensemble import judged
from tests.serving.hostile import Act, hostile

from questloop.errors import UsageError
from questloop.judges.pairwise import PairPass, Preference, choose_pairs, preference
from questloop.judges.selection import SegmentInfo
from questloop.llm.client import ChatClient
from questloop.serving.server import LocalServer
from questloop.settings import JudgeSettings, LLMSettings
from questloop.storage import keys
from questloop.storage.store import open_store

PLAYED = world(episodes=6, segments=2)


async def compare(store, settings, url=None, pairs=12, **options):
    async with ChatClient(settings, url) as client:
        comparing = PairPass(store, 0, client, JudgeSettings(), announce=lambda _: None)
        summary, _ = await comparing.run(infos(PLAYED), PLAYED.__getitem__, pairs, **options)
        return summary, client.stats.requests


def read(store):
    return [Preference.model_validate_json(line) for line in store.get(keys.preferences(0)).splitlines()]


@pytest.mark.parametrize(
    ("ab", "ba", "p", "flip"),
    [
        (0.8, 0.2, 0.8, False),
        (0.9, 0.3, 0.8, False),
        (0.9, 0.6, 0.5, True),
        (0.2, 0.3, 0.5, True),
        (0.5, 0.5, 0.5, False),
        (0.7, 0.5, 0.6, False),
        (None, 0.5, None, False),
    ],
)
def test_both_orders_by_hand(ab, ba, p, flip):
    found = preference("a", "b", judged(ab), judged(ba))
    assert found.p == (None if p is None else pytest.approx(p))
    assert found.flip is flip


@given(st.floats(0, 1), st.floats(0, 1))
def test_swapping_a_pair_swaps_its_preference(ab, ba):
    there, back = preference("a", "b", judged(ab), judged(ba)), preference("b", "a", judged(ba), judged(ab))
    assert there.p + back.p == pytest.approx(1, abs=2e-6)
    assert there.flip == back.flip


async def test_a_judge_that_always_prefers_the_first_gives_ties_only(tmp_path):
    store = open_store(str(tmp_path))

    def first(body, index):
        return {"reason": "", "overall": 0.9}

    async with hostile(lambda *_: Act.GOOD, first) as server:
        summary, _ = await compare(store, LLMSettings(llm_endpoint=server.url))
    assert (summary.pairs, summary.valid, summary.ties, summary.flips) == (12, 12, 12, 12)
    assert summary.first_bias == pytest.approx(0.8)
    assert all(item.p == 0.5 for item in read(store))


async def test_the_rule_based_judge_knows_no_order_and_is_asked_once(tmp_path):
    store = open_store(str(tmp_path))
    outcomes = {segment: number % 2 == 0 for number, segment in enumerate(PLAYED)}
    with LocalServer() as server:
        summary, requests = await compare(store, LLMSettings(), server.url, outcomes=outcomes)
        again, none = await compare(store, LLMSettings(), server.url, outcomes=outcomes)
    assert (requests, none) == (24, 0)
    assert again == summary
    assert summary.flips == 0
    assert abs(summary.first_bias) < 0.001
    assert summary.known > 0
    assert 0 <= summary.accuracy <= 1
    assert len({item.p for item in read(store)}) > 6


@given(st.integers(2, 40), st.integers(1, 60), st.integers(0, 3))
def test_pairs_are_of_two_episodes_and_never_asked_twice(count, pairs, seed):
    segments = [SegmentInfo(f"s{number:02d}", f"e{number % 5}") for number in range(count)]
    chosen = choose_pairs(segments, pairs, seed)
    episodes = {info.segment_id: info.episode_id for info in segments}
    assert len(chosen) <= pairs
    assert len({frozenset(pair) for pair in chosen}) == len(chosen)
    assert all(episodes[a] != episodes[b] for a, b in chosen)


def test_segments_take_turns():
    segments = [SegmentInfo(f"s{number:02d}", f"e{number}") for number in range(20)]
    counts = Counter(segment for pair in choose_pairs(segments, 40, 0) for segment in pair)
    assert set(counts.values()) == {4}


async def test_one_episode_has_no_pairs(tmp_path):
    async with ChatClient(LLMSettings(llm_endpoint="http://127.0.0.1:9/v1")) as client:
        alone = [info for info in infos(PLAYED) if "s000" in info.episode_id]
        comparing = PairPass(open_store(str(tmp_path)), 0, client, JudgeSettings())
        with pytest.raises(UsageError, match="two episodes"):
            await comparing.run(alone, PLAYED.__getitem__, 3)
