import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from questloop.episodes.png import decode_png, decode_screen, encode_png
from questloop.errors import BadDataError
from questloop.game.screen import rgb_of_screen


def screen(colours, seed=0, height=144, width=160):
    random = np.random.default_rng(seed)
    palette = random.choice(1 << 15, colours, replace=False).astype(np.uint16)
    return palette[random.integers(0, colours, (height, width))]


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 300), st.integers(0, 99), st.integers(1, 40), st.integers(1, 41))
def test_no_pixel_changes(colours, seed, height, width):
    drawn = screen(colours, seed, height, width)
    png = encode_png(drawn)
    np.testing.assert_array_equal(decode_screen(png), drawn)
    np.testing.assert_array_equal(decode_png(png), rgb_of_screen(drawn))


def test_frames_of_the_game(played):
    sizes = []
    for drawn in played.frames.values():
        png = encode_png(drawn)
        sizes.append(len(png))
        np.testing.assert_array_equal(decode_screen(png), drawn)
    assert max(sizes) < 8000


def test_a_picture_in_rgb_is_no_screen():
    with pytest.raises(ValueError, match="no screen"):
        encode_png(rgb_of_screen(screen(4)))


@pytest.mark.parametrize(
    "data", [b"", b"GIF89a", encode_png(screen(4))[:200], b"\x89PNG\r\n\x1a\n" + bytes(50)]
)
def test_what_is_no_png(data):
    with pytest.raises(BadDataError, match=r"^frame 3: not a PNG"):
        decode_png(data, "frame 3")


def test_huge_picture_is_refused_before_it_is_decoded():
    png = bytearray(encode_png(screen(4)))
    png[16:24] = struct.pack(">II", 60000, 60000)
    with pytest.raises(BadDataError, match="frame"):
        decode_png(bytes(png), "frame")
