"""What pages show of the guide's aims."""

from questloop.game.guide import bundled_guide
from questloop.report import page_data

GUIDE = bundled_guide("mossgrove")


def test_aims_stand_in_the_order_of_the_guide_with_their_share_of_each_epoch():
    played = {0: {"aims": {"sword_1": 0.25, "met_elder": 0.75}}, 1: {"aims": {"met_elder": 1.0}}}
    assert page_data.aims(played, GUIDE) == [
        ("Hear the elder", None, ["75.0%", "100.0%"]),
        ("Take the twig blade", None, ["25.0%", "–"]),
    ]


def test_where_judges_sent_agents_stands_beside_the_aim():
    judged = {"met_elder": "0:21"}
    played = {
        0: {"aims": {"met_elder": 1.0}, "judged_aims": {}},
        1: {"aims": {"met_elder": 0.5, "sword_1": 0.5}, "judged_aims": judged},
    }
    assert [row[:2] for row in page_data.aims(played, GUIDE)] == [
        ("Hear the elder", "Waking meadow"),
        ("Take the twig blade", "not asked yet"),
    ]


def test_a_run_without_aims_has_no_table_and_an_older_epoch_an_empty_column():
    assert page_data.aims({0: {}, 1: {"aims": None}}, GUIDE) == []
    assert page_data.aims({0: {}, 1: {"aims": {"met_elder": 1.0}}}, GUIDE) == [
        ("Hear the elder", None, ["–", "100.0%"])
    ]
