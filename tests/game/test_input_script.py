"""Input scripts: text and back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from questloop.errors import BadDataError
from questloop.game.actions import Action
from questloop.game.input_script import Input, format_inputs, load_inputs, parse_inputs, steps

INPUTS = st.lists(st.builds(Input, st.sampled_from(Action), st.integers(1, 500)), max_size=20)


def test_comments_and_blank_lines_are_skipped():
    assert parse_inputs("# go\n\nright 12 # east\nA 4\n") == [Input(Action.RIGHT, 12), Input(Action.A, 4)]


@pytest.mark.parametrize("line", ["JUMP 3", "A", "A 0", "A -1", "A 1.5", "A 3 4", "A ٣x", "A 99999999"])
def test_a_wrong_line_is_named(line):
    with pytest.raises(BadDataError, match=r"walk, line 2: .*\(UP, DOWN, LEFT"):
        parse_inputs(f"NOP 1\n{line}\n", "walk")


@given(INPUTS)
def test_text_round_trips_frame_by_frame(inputs):
    held = list(steps(parse_inputs(format_inputs(inputs)), 1))
    assert held == list(steps(inputs, 1))


@given(INPUTS, st.integers(1, 16))
def test_steps_keep_the_frames_and_never_split_a_press(inputs, frames):
    taken = list(steps(inputs, frames))
    assert sum(item.frames for item in taken) == sum(item.frames for item in inputs)
    pressed = (Action.A, Action.B, Action.START)
    assert [i for i in taken if i.action in pressed] == [i for i in inputs if i.action in pressed]
    assert all(i.frames <= frames for i in taken if i.action not in pressed)


def test_unreadable_files(tmp_path):
    with pytest.raises(BadDataError, match="No such file"):
        load_inputs(tmp_path / "none")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadDataError, match="UTF-8"):
        load_inputs(tmp_path / "binary")
