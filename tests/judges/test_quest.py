"""The rule-based judge of states: it knows what stands in the guide and in the state, and no more."""

import pytest

from questloop.game.guide import bundled_guide
from questloop.judges import quest
from questloop.judges.rubric import CELL, NEARER
from questloop.judges.states import describe

GUIDE = """# A game
## Places
- 0:00 Start: right 0:01
- 0:01 Middle: left 0:00; right 0:02; door 4,2 to 1:00
- 0:02 End: left 0:01
- 1:00 Cave: door 4,7 to 0:01

## Aims
| aim | what | where | needs | how |
|---|---|---|---|---|
| lamp | Take the lamp | 0:02 tile 5,3 | - | - |
| chat | Hear the hermit | 0:01 tile 1,1 | - | - |
| gem | Take the gem | 1:00 tile 4,4 | lamp | - |
"""
SYSTEM = CELL.guided(GUIDE).prompt


def state(room, x=4, y=4, reached=()):
    return describe({"room": room, "pos": [16 * x, 16 * y], "milestones": list(reached)})


def score(*args, system=SYSTEM, **kwargs):
    return quest.judge(system, state(*args, **kwargs))["overall"]


def test_rooms_and_aims_by_hand():
    # 3 rooms before the lamp (0:00 and a room more), then legs of 2 (0:02 to 0:01) and 2 (0:01 to 1:00): 7
    assert quest.judge(SYSTEM, state("0:02", 5, 3)) == {
        "reason": "rule-based: 0 of 3 aims done, 0.0 rooms to lamp",
        "overall": pytest.approx(3 / 7, abs=1e-6),
    }
    assert score("0:01", 10, 4) == pytest.approx((3 - 1) / 7, abs=1e-6)
    assert score("0:01", 2, 4) == pytest.approx((3 - 1 - 0.5) / 7, abs=1e-6)
    assert score("1:00", 4, 4, ["lamp", "chat"]) == pytest.approx(1, abs=1e-6)
    assert score("1:00", 4, 4, ["lamp", "chat", "gem"]) == 1


def test_the_way_of_the_quest_only_rises():
    way = [
        ("0:00", 1, 4, ()), ("0:00", 8, 4, ()), ("0:01", 0, 4, ()), ("0:01", 9, 4, ()), ("0:02", 0, 4, ()),
        ("0:02", 5, 3, ()), ("0:02", 5, 3, ("lamp",)), ("0:02", 1, 4, ("lamp",)), ("0:01", 9, 4, ("lamp",)),
        ("0:01", 1, 1, ("lamp",)), ("0:01", 1, 1, ("lamp", "chat")), ("0:01", 4, 2, ("lamp", "chat")),
        ("1:00", 4, 7, ("lamp", "chat")), ("1:00", 4, 4, ("lamp", "chat")),
        ("1:00", 4, 4, ("lamp", "chat", "gem")),
    ]  # fmt: skip
    scores = [score(*step) for step in way]
    assert scores == sorted(scores)
    assert len(set(scores)) >= len(scores) - 1  # standing at the gem is as good as having it


def test_what_was_passed_by_was_not_needed():
    assert score("0:01", reached=["gem"]) == 1
    assert score("0:01", 4, 2, ["chat"]) == score("0:01", 4, 2, ["lamp", "chat"])


def test_a_place_that_the_guide_does_not_know_is_far():
    assert score("5:55") < score("0:00", 0, 4)


def test_it_reads_the_guide_of_its_own_prompt():
    swapped = GUIDE.replace("0:02 tile 5,3", "0:00 tile 5,3")
    other = CELL.guided(swapped).prompt
    assert score("0:00", system=other) > score("0:02", system=other)
    assert score("0:00") < score("0:02")


@pytest.mark.parametrize("system", ["", CELL.prompt, "## Places\n- nonsense", "## Aims\n| a | b |"])
def test_without_a_guide_it_counts_milestones_and_says_so(system):
    none, two = (quest.judge(system, state("0:01", reached=reached)) for reached in ((), ("a", "b")))
    assert none["overall"] == 0 < two["overall"] < 1
    assert "no guide" in str(none["reason"])


def test_comparing_agrees_with_scoring_and_is_fair():
    near, far = state("0:02"), state("0:00")
    system = NEARER.guided(GUIDE).prompt
    ab, ba = (float(quest.compare(system, *pair)["overall"]) for pair in ((near, far), (far, near)))
    assert ab > 0.9
    assert ab + ba == pytest.approx(1)
    assert quest.compare(system, near, near)["overall"] == 0.5


@pytest.mark.parametrize("text", ["", "nothing of the kind", "Place: room 9:99", state("0:01")[:30]])
def test_what_is_no_state_gets_a_number_all_the_same(text):
    assert 0 <= quest.judge(SYSTEM, text)["overall"] <= 1


def test_the_bundled_guide_is_read_and_its_quest_begins_low_and_ends_at_1():
    system = CELL.guided(bundled_guide("mossgrove").text).prompt
    assert score("0:21", system=system) < 0.2
    assert score("5:01", reached=["finished"], system=system) == 1


def test_a_state_says_nothing_of_rewards_or_of_the_purse():
    text = describe({"room": "0:21", "pos": [1, 2], "health": [3, 12], "rupees": 42, "reward": {"room": 1}})
    assert "42" not in text
    assert "reward" not in text
    assert quest.is_state(text)
    assert not quest.is_state("Segment of 3 steps, 0 to 2.")
