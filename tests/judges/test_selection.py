import random
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from questloop.judges.selection import SegmentInfo, select


def made(count, seed=0, episodes=20):
    rng = random.Random(seed)
    return [
        SegmentInfo(f"s{n:04d}", f"e{rng.randrange(episodes)}", rng.randrange(10), rng.random())
        for n in range(count)
    ]


@given(st.integers(1, 60), st.integers(1, 80) | st.just("all"), st.integers(0, 5))
def test_budget_is_met_without_repeats_and_without_regard_to_order(count, budget, seed):
    segments = made(count)
    chosen = select(segments, budget, seed)
    assert len(chosen) == len(set(chosen)) == (count if budget == "all" else min(budget, count))
    shuffled = random.Random(1).sample(segments, count)
    assert select(shuffled, budget, seed) == chosen


def test_another_seed_chooses_otherwise():
    assert select(made(200), 20, 0) != select(made(200), 20, 1)


def test_episodes_take_turns():
    chosen = Counter(info.episode_id for info in select(made(2000), 200, 0))
    assert len(chosen) == 20
    assert max(chosen.values()) <= 2 * min(chosen.values())


def test_rare_novelty_is_judged_as_often_as_the_common():
    common = [SegmentInfo(f"c{n:03d}", f"e{n % 30}", 0.0, n) for n in range(300)]
    rare = [SegmentInfo(f"r{n:03d}", f"e{n % 30}", 5.0, 10 * n) for n in range(30)]
    chosen = select(common + rare, 60, 0)
    assert sum(info.novelty > 0 for info in chosen) == 30
