import pytest

from questloop.settings import load
from questloop.web.names import Names, commands, episode_title


@pytest.fixture(scope="module")
def names():
    return Names(load().game)


@pytest.mark.parametrize(
    ("start", "said"),
    [
        ("archive-g0-r21-k1-m5", "archive: Waking meadow, 2 milestones"),
        ("archive-g7-rff-k0-m1", "archive: room 7:ff, 1 milestone"),
        ("after_the_bell", "after the bell"),
    ],
)
def test_a_start_is_told_by_its_place(names, start, said):
    assert names.start(start) == said


def test_a_place_and_a_milestone_have_titles(names):
    assert names.place("0:21") == "Waking meadow"
    assert names.place("nowhere") == "nowhere"
    assert names.milestone("met_elder") == "Heard the elder's request"


def test_an_episode_is_short_whatever_its_run_is_called():
    for run in ("r1", "a-run-of-many-words"):
        assert episode_title(f"{run}-e0011-s014-00033") == "epoch 11, agent 14, episode 33"


def test_commands_in_a_text_are_code_and_the_rest_is_only_text():
    assert commands("run `questloop fleet up` <now>") == "run <code>questloop fleet up</code> &lt;now&gt;"
    assert commands("`<b>`") == "<code>&lt;b&gt;</code>"
