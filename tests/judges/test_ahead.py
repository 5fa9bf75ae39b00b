"""States imagined along the guide's route."""

from tests.judges.test_quest import GUIDE

from questloop.game.guide import Guide, bundled_guide
from questloop.judges import quest
from questloop.judges.ahead import Waypoint, is_imagined, waypoints
from questloop.judges.rubric import CELL


def test_every_room_of_every_leg_with_the_aims_before_it_done():
    lamp, chat, gem = 0x002, 0x001, 0x100
    assert waypoints(Guide.parse(GUIDE)) == [
        Waypoint(lamp, ()),
        Waypoint(lamp, ("lamp",)),
        Waypoint(chat, ("lamp",)),
        Waypoint(chat, ("lamp", "chat")),
        Waypoint(gem, ("lamp", "chat")),
    ]


def test_an_unreachable_aim_is_no_endless_way():
    assert waypoints(Guide.parse(GUIDE.replace("door 4,2 to 1:00", "up 0:00")))


def test_a_guide_without_aims_has_none():
    assert waypoints(Guide.parse(GUIDE.partition("## Aims")[0])) == []


def test_the_default_judge_sees_them_rise():
    guide = bundled_guide("mossgrove")
    found = waypoints(guide)
    scores = [quest.judge(CELL.guided(guide.text).prompt, each.text)["overall"] for each in found]
    assert len(found) == len({each.cell_id for each in found}) == len({each.text for each in found}) > 40
    assert scores == sorted(scores)
    assert all(is_imagined(each.cell_id) for each in found)
    assert not is_imagined("00ff00ff00ff00ff")
