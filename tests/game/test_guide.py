"""Guides: the booklet of a game as text, places and aims."""

import re
from pathlib import Path

import pytest

from questloop.errors import UsageError
from questloop.game.guide import Guide, Side, bundled_guide
from questloop.game.profiles import mossgrove, profile_for
from questloop.game.rom import Rom

TEXT = """# A game
## Places
- 0:21 Meadow, where it begins: left 0:20; up 0:11 at 4,0; door 7,1 to 4:21
- 0:20 Hollow: right 0:21
- 0:11 Village: down 0:21
- 4:21 Cave: door 4,7 to 0:21

## Aims
| aim | what | where | needs | how |
|---|---|---|---|---|
| sword_1 | Take the blade | 0:20 tile 4,2 | - | Walk against the stump. |
| cave | Enter the cave | 4:21 | sword_1 | Through the door. |
"""


def test_places_ways_and_aims_are_read() -> None:
    guide = Guide.parse(TEXT)
    assert guide.names[0x21] == "Meadow"
    assert [(way.to, way.side, way.tile) for way in guide.ways if way.place == 0x21] == [
        (0x20, Side.LEFT, None),
        (0x11, Side.UP, (4, 0)),
        (0x421, None, (7, 1)),
    ]
    blade, cave = guide.aims
    assert (blade.key, blade.place, blade.tile, blade.needs) == ("sword_1", 0x20, (4, 2), ())
    assert (cave.place, cave.tile, cave.needs) == (0x421, None, ("sword_1",))


def test_routes_follow_the_fewest_rooms() -> None:
    guide = Guide.parse(TEXT)
    assert guide.rooms_to(0x421) == {0x421: 0, 0x21: 1, 0x20: 2, 0x11: 2}
    way = guide.next_way(0x20, 0x421)
    assert way is not None
    assert way.to == 0x21
    assert guide.next_way(0x421, 0x421) is None


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("left 0:20", "left of 0:20", "line 3: 'left of 0:20' is no way"),
        ("left 0:20", "left 0:99", "0:99, which is no place"),
        ("0:20 tile 4,2", "over there", "line 11: 'over there' says no place"),
        ("| sword_1 | Take the blade", "| Take the blade", "five columns"),
        ("- 0:20 Hollow", "- 20 Hollow", "'20' is no room"),
    ],
)
def test_a_line_without_the_form_is_named(old: str, new: str, told: str) -> None:
    with pytest.raises(UsageError, match=re.escape(told)):
        Guide.parse(TEXT.replace(old, new, 1))


def test_a_guide_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="GUIDE names a Markdown file"):
        Guide.read(tmp_path / "none.md")


def test_the_bundled_guide_leads_from_the_beginning_to_every_aim() -> None:
    guide = bundled_guide("mossgrove")
    here = 0x21
    for aim in guide.aims:
        assert here in guide.rooms_to(aim.place), f"no way from {here:x} to {aim.key}"
        here = aim.place


def test_the_bundled_guide_names_aims_in_the_order_of_the_milestones() -> None:
    order = [milestone.key for milestone in mossgrove.MILESTONES]
    aims = [aim.key for aim in bundled_guide("mossgrove").aims]
    assert [key for key in order if key in aims] == aims


def test_a_guide_of_ones_own_stands_in_for_the_profiles(tmp_path: Path) -> None:
    path = tmp_path / "guide.md"
    path.write_text(TEXT.replace("| cave | Enter", "| grotto_entered | Enter"))
    guide = profile_for(Rom.load(None), path).guide
    assert guide is not None
    assert [aim.key for aim in guide.aims] == ["sword_1", "grotto_entered"]


def test_an_aim_that_is_no_milestone_of_the_game_is_named(tmp_path: Path) -> None:
    path = tmp_path / "guide.md"
    path.write_text(TEXT)
    with pytest.raises(UsageError, match="aim cave names cave, no milestone"):
        profile_for(Rom.load(None), path)


def test_the_guide_of_oracle_of_seasons_goes_through_the_whole_quest():
    from questloop.game.profiles.oracle_of_seasons import PROFILE

    guide = PROFILE.guide
    assert guide is not None
    keys = [milestone.key for milestone in PROFILE.milestones]
    aims = [aim.key for aim in guide.aims]
    assert len(set(aims)) == len(aims)
    assert aims[-1] == PROFILE.goal
    assert {f"essence_{number}" for number in range(1, 9)} <= set(aims)
    assert {f"d{number}_boss" for number in range(1, 9)} <= set(aims)
    assert {f"d{number}_entered" for number in range(1, 9)} <= set(aims)
    for place, aim in enumerate(guide.aims):
        assert set(aim.needs) <= set(aims[:place]), f"{aim.key} needs what comes later"
        assert aim.key in keys
