"""States imagined along the guide's route."""

from tests.judges.test_quest import GUIDE

from questloop.game.guide import NOWHERE, Guide, bundled_guide
from questloop.judges import quest
from questloop.judges.ahead import Waypoint, choices, chosen_places, is_imagined, waypoints
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


def test_the_default_judge_would_go_where_the_guide_s_next_aim_is():
    guide = bundled_guide("mossgrove")
    asked = choices(guide, 3)
    assert len(asked) == 3 * len(guide.names) == len({each.text for each in asked})
    prompt = CELL.guided(guide.text).prompt
    scores = {each.cell_id: quest.judge(prompt, each.text)["overall"] for each in asked}
    assert chosen_places(guide, scores) == (0x021, 0x020, 0x421) + (NOWHERE,) * 15
    assert len(choices(guide, 99)) == len(guide.aims) * len(guide.names)


def test_nobody_is_led_where_one_place_has_no_score():
    guide = Guide.parse(GUIDE)
    scores = dict.fromkeys((each.cell_id for each in choices(guide, 2)), 0.5)
    assert chosen_places(guide, scores)[:2] == (min(guide.names, key=list(guide.names).index),) * 2
    del scores[choices(guide, 2)[-1].cell_id]
    assert chosen_places(guide, scores)[1] == NOWHERE
    assert set(chosen_places(guide, {})) == {NOWHERE}
