import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.judges.play import line, segment, state

from questloop.judges.compress import TOKEN_BUDGET, compress, estimate_tokens
from questloop.judges.rules import read


def told(*states):
    return compress([line(step, now) for step, now in enumerate(states)])


def events(*states):
    return [(event.step, event.text) for event in told(*states).events]


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        ({}, {"room": "1:10"}, "room 0:10 > 1:10 new, first visit"),
        ({}, {"sword": 1}, "sword 0 > 1"),
        ({"keys": 1}, {"keys": 2}, "keys 1 > 2"),
        ({"keys": 1}, {}, "door opened with a key"),
        ({}, {"boss_keys": 1}, "boss keys 0 > 1"),
        ({}, {"items": {"boomerang": 1}}, "item boomerang 0 > 1"),
        ({"essences": [1]}, {"essences": [1, 3]}, "essence 3 taken"),
        ({}, {"milestones": ["house"]}, "reached house"),
        ({"rupees": 3}, {"rupees": 8}, "rupees 3 > 8"),
        ({}, {"buttons": 2}, "button pressed 0x02"),
        ({"buttons": 2}, {}, "button released 0x02"),
        ({}, {"switches": 1}, "switch hit"),
        ({}, {"torches": 1}, "torch lit"),
        ({}, {"block_moving": True}, "block pushed"),
        ({"enemies_left": 3}, {"enemies_left": 2}, "enemies 3 > 2"),
        ({}, {"text": 0}, "dialog 0 begins"),
        ({"text": 7}, {}, "dialog 7 ends"),
        ({}, {"health": [8, 12]}, "damage, health 12 > 8"),
        ({"health": [8, 12]}, {"health": [12, 12]}, "healed, health 8 > 12"),
        ({}, {"dying": True}, "death"),
        ({}, {"game_over": True}, "death"),
    ],
)
def test_what_matters_is_told(before, after, text):
    assert events(state(**before), state(**after)) == [(1, text)]


def test_the_last_enemy_clears_the_room():
    assert events(state(enemies_left=1), state())[-1] == (1, "room cleared")


def test_a_room_change_is_no_puzzle_and_a_known_room_not_new():
    a, b = state(enemies_left=2), state(room="0:11")
    assert [text for _, text in events(a, b, a)] == ["room 0:10 > 0:11 new, first visit", "room 0:11 > 0:10"]


def test_a_room_that_the_game_knows_is_no_first_visit():
    assert events(state(), state(room="0:11", room_flags=0x10)) == [(1, "room 0:10 > 0:11 new")]


def test_a_milestone_that_comes_and_goes_is_reached_once():
    outside, inside = state(), state(milestones=["vault_entered"])
    assert [text for _, text in events(outside, inside, outside, inside)] == ["reached vault_entered"]
    assert events(inside, outside, inside) == []
    assert "Reached before: vault_entered\n" in told(inside, outside).text


def test_dying_is_told_once():
    assert [text for _, text in events(state(), state(dying=True), state(game_over=True))] == ["death"]


def test_counts_by_hand():
    here, there = state(pos=[8, 8]), state(pos=[24, 8])
    counts = read(told(here, there, here, here, state(pos=[8, 8], text=1)).text).counts
    assert {name: counts[name] for name in ("tiles", "tile moves", "turned back", "stood", "in dialog")} == {
        "tiles": 2, "tile moves": 2, "turned back": 1, "stood": 1, "in dialog": 1,
    }  # fmt: skip


@pytest.mark.parametrize(("frames", "steps"), [(4, 300), (8, 150), (16, 75)])
def test_the_same_play_is_told_alike_at_every_frame_skip(frames, steps):
    """A tile every 16 frames: late ones are of the last 400 frames; the header says how long a step is."""
    walk = [state(pos=[8 + 16 * (step * frames // 16), 8]) for step in range(steps)]
    lines = [line(step, now) | {"frame": (step + 1) * frames} for step, now in enumerate(walk)]
    text = compress(lines).text
    reading = read(text)
    assert (reading.steps, reading.counts["tiles"], reading.counts["late tiles"]) == (steps, 75, 25)
    told = "" if frames == 4 else f" of {frames} frames"
    assert text.startswith(f"Segment of {steps} steps{told}, 0 to {steps - 1}. ")
    untold = compress([{key: each[key] for key in each if key != "frame"} for each in lines]).text
    assert untold.startswith(f"Segment of {steps} steps, 0"), "lines without frames are of four each"


@settings(max_examples=20)
@given(st.integers(0, 1000), st.integers(150, 1000))
def test_the_budget_holds_and_counts_do_not_depend_on_it(seed, budget):
    lines = segment(0, seed=seed).states
    short, whole = compress(lines, budget), compress(lines, 100_000)
    assert estimate_tokens(short.text) <= max(budget, 260)
    assert read(short.text).counts == read(whole.text).counts


def test_the_heaviest_events_survive_a_small_budget():
    states = [state(rupees=step) for step in range(1, 290)] + [state(rupees=289, sword=1)]
    text = told(*states).text
    assert "sword 0 > 1" in text
    assert "left out" in text
    assert estimate_tokens(text) <= TOKEN_BUDGET


def test_the_reader_gets_back_what_was_written():
    summary = compress(segment(2, seed=5).states)
    reading = read(summary.text)
    assert reading.steps == 300
    assert list(reading.events) == [event.text for event in summary.events]
