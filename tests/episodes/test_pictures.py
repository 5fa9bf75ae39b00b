import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from questloop.episodes.pictures import decode_png, encode_png
from questloop.errors import BadDataError


def picture(colours, seed=0, height=144, width=160, bits=5):
    random = np.random.default_rng(seed)
    palette = random.choice(1 << (3 * bits), colours, replace=False)
    rgb = np.stack([palette >> 2 * bits, palette >> bits, palette], 1) & ((1 << bits) - 1)
    return (rgb << (8 - bits)).astype(np.uint8)[random.integers(0, colours, (height, width))]


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 300),
    st.integers(0, 99),
    st.integers(1, 40),
    st.integers(1, 41),
    st.sampled_from([5, 8]),
)
def test_no_pixel_changes(colours, seed, height, width, bits):
    drawn = picture(colours, seed, height, width, bits)
    np.testing.assert_array_equal(decode_png(encode_png(drawn)), drawn)


def test_frames_of_the_game(played):
    sizes = []
    for drawn in played.frames.values():
        png = encode_png(drawn)
        sizes.append(len(png))
        np.testing.assert_array_equal(decode_png(png), drawn)
    assert max(sizes) < 8000


@pytest.mark.parametrize(
    "data", [b"", b"GIF89a", encode_png(picture(4))[:200], b"\x89PNG\r\n\x1a\n" + bytes(50)]
)
def test_what_is_no_png(data):
    with pytest.raises(BadDataError, match=r"^frame 3: not a PNG"):
        decode_png(data, "frame 3")


def test_huge_picture_is_refused_before_it_is_decoded():
    png = bytearray(encode_png(picture(4)))
    png[16:24] = struct.pack(">II", 60000, 60000)
    with pytest.raises(BadDataError, match="frame"):
        decode_png(bytes(png), "frame")
