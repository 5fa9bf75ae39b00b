"""Summaries in fewer words: what tells something stays, other text is left alone."""

from hypothesis import given
from hypothesis import strategies as st

from questloop.grpo.judge_text import LAST_EVENTS, condense
from questloop.judges.compress import compress


def line(step, **state):
    return {"step": step, "mode": "policy", "state": {"room": "5:31", "pos": (8, 8), **state}}


def test_a_real_summary_keeps_what_tells_something():
    lines = [line(step, keys=int(step > 5), room="5:31" if step < 8 else "5:32") for step in range(10)]
    text = condense(compress(lines).text)
    assert "keys 0 > 1" in text
    assert "room 5:32 new" in text
    assert text.splitlines()[-1].startswith("Now: room 5:32")
    assert "rupees" not in text
    assert "deaths" not in text
    assert len(text) < len(compress(lines).text)


def test_the_last_events_stay_and_repeats_do_not():
    lines = [line(step, keys=step // 2) for step in range(100)]
    events = condense(compress(lines).text).splitlines()[1]
    assert events.count(">") == LAST_EVENTS
    assert "keys 48 > 49" in events
    pushed = condense(compress([line(step, block_moving=step % 2) for step in range(20)]).text)
    assert pushed.count("block pushed") == 1


@given(st.text())
def test_other_text_stays_as_it_is_or_does_not_grow_beyond_its_labels(text):
    assert condense(text) == text or len(condense(text)) < len(text) + 40
