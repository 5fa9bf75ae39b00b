"""Pictures of a run: sizes, places and themes; how they look is checked by eye."""

import io

import numpy as np
from PIL import Image

from questloop.report.images import filmstrip, interior_map, overworld_map


def png(colour):
    buffer = io.BytesIO()
    Image.new("RGB", (160, 144), colour).save(buffer, "PNG")
    return buffer.getvalue()


def opened(data):
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))


def test_rooms_lie_where_their_numbers_say():
    image = opened(overworld_map({(0, 0x21): 5, (0, 0x32): 1, (3, 0x01): 9}, {(0, 0x21): png("red")}, 0))
    assert image.shape == (2 * 128, 2 * 160, 3)
    assert tuple(image[64, 80]) == (255, 0, 0), "the picture of the north-west room"
    assert tuple(image[128 + 64, 80]) != (255, 0, 0), "the south-west room was never entered"


def test_interiors_leave_the_overworld_out():
    image = opened(interior_map({(0, 1): 5, (3, 1): 2, (4, 7): 1}, {}, 0))
    assert image.shape == (128, 2 * 160, 3)


def test_nothing_visited_is_no_map():
    assert overworld_map({}, {}, 0) is None
    assert interior_map({(0, 1): 3}, {}, 0) is None


def test_a_filmstrip_keeps_the_first_and_the_last_frame():
    frames = [(step, png((step, 0, 0))) for step in range(100)]
    image = opened(filmstrip(frames, most=4))
    assert image.shape[1] == 4 * 164 - 4
    assert tuple(image[80, 80]) == (0, 0, 0)
    assert tuple(image[80, -80]) == (99, 0, 0)
    assert filmstrip([]) is None


def test_a_room_that_the_profile_names_says_so():
    named = opened(overworld_map({(0, 0x21): 5}, {}, 0, {(0, 0x21): "Waking meadow"}))
    plain = opened(overworld_map({(0, 0x21): 5}, {}, 0))
    assert named.size == plain.size
    assert named.tobytes() != plain.tobytes()
    other = opened(overworld_map({(0, 0x21): 5}, {}, 0, {(0, 0x22): "Crossroads"}))
    assert other.tobytes() == plain.tobytes()


def test_places_are_named_by_the_guide():
    from questloop.game.profiles.mossgrove import PROFILE

    assert PROFILE.place_names[0, 0x21] == "Waking meadow"
    assert PROFILE.place_names[4, 0x11] == "Stone room"
