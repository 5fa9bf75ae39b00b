import io

from PIL import Image
from tests.judges.play import FakeSegment, line, picture, state

from questloop.judges.compress import compress
from questloop.judges.contact_sheet import HEIGHT, LABEL, MAX_PICTURES, Picture, choose, sheet


def played(changes, png_at):
    """Lines of 60 steps; `changes` by step."""
    now, lines = state(), []
    for step in range(60):
        now = state(**(now | changes.get(step, {})))
        lines.append(line(step, now, f"frames/{step:06d}.png" if step in png_at else None))
    return FakeSegment("s", "e", lines, {step: picture(step) for step in png_at})


def test_pictures_show_what_happened_not_the_first_frames():
    changes = {21: {"room": "0:11"}, 33: {"health": [8, 12]}, 41: {"text": 3}, 50: {"sword": 1}}
    segment = played(changes, {*range(0, 60, 10), 22, 34, 42, 51, 59})
    chosen = choose(segment, compress(segment.states).events)
    assert [(item.step, item.label) for item in chosen] == [
        (0, "start"),
        (22, "room 0:10 > 0:11 new, first visit"),
        (34, "damage, health 12 > 8"),
        (42, "dialog 3 begins"),
        (50, "sword 0 > 1"),
        (59, "end"),
    ]


def test_gains_come_before_damage_when_room_is_short():
    changes = {step: {"health": [12 - step // 5, 12]} for step in range(5, 45, 5)} | {50: {"sword": 1}}
    segment = played(changes, set(range(60)))
    chosen = choose(segment, compress(segment.states).events)
    assert len(chosen) == MAX_PICTURES
    assert "sword 0 > 1" in [item.label for item in chosen]


def test_a_segment_without_pictures_has_none():
    segment = played({}, set())
    assert choose(segment, compress(segment.states).events) == []
    assert sheet([]) is None


def test_a_picture_that_is_none_is_passed_over():
    data = sheet(
        [Picture(1, "a", picture(1)), Picture(2, "b", b"not a png"), Picture(3, "c", picture(2)[:60])]
    )
    with Image.open(io.BytesIO(data)) as image:
        assert image.size == (160, HEIGHT + LABEL)
