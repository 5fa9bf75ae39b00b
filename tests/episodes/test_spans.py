"""Segments and their windows span time of the game, and fit into episodes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from questloop.episodes.spans import misfits, segment_steps, window_steps

SKIPS = st.sampled_from([1, 2, 4, 8, 16, 60])


@pytest.mark.parametrize("frame_skip", [4, 8, 16])
def test_an_episode_of_the_default_length_has_segments_of_300_steps(frame_skip):
    assert segment_steps(frame_skip, 30_000) == 300


@pytest.mark.parametrize(("frame_skip", "steps"), [(4, 299), (8, 150), (16, 75)])
def test_in_a_short_episode_a_segment_spans_the_time_of_300_steps_of_four_frames(frame_skip, steps):
    assert segment_steps(frame_skip, 1_199) == steps


@given(SKIPS, st.integers(1, 40_000))
def test_a_segment_and_its_window_fit_into_every_episode_that_has_four_steps(frame_skip, length):
    steps = segment_steps(frame_skip, length)
    assert 1 <= steps <= 300
    assert steps + window_steps(steps) <= max(4, length)


def test_settings_that_fit_are_not_spoken_of():
    assert misfits(4, 30_000, 300_000, 64) == []
    assert misfits(16, 200, 51_200, 32) == []


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ((16, 40, 51_200, 32), "EPISODE_LENGTH to at least 76"),
        ((4, 3, 51_200, 32), "EPISODE_LENGTH to at least 300"),
        ((4, 30_000, 3_200, 32), "EPOCH_STEPS to at least 38400"),
        ((4, 30_000, 32 * 600, 32), "EPOCH_STEPS to at least 38400"),
        ((16, 200, 32 * 49, 32), "EPOCH_STEPS to at least 6400"),
    ],
)
def test_what_does_not_fit_is_told_in_one_line_with_what_to_set(values, says):
    (line,) = misfits(*values)
    assert line.endswith(says)
    frame_skip, length, epoch, slots = values
    wanted = int(line.rsplit(" ", 1)[1])
    longer = "LENGTH to" in line
    mended = (frame_skip, wanted, epoch, slots) if longer else (frame_skip, length, wanted, slots)
    assert misfits(*mended) == []
