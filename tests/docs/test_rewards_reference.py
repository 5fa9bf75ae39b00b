"""The rewards page says what the settings and the code say."""

import re
from pathlib import Path

from questloop.rewards.aims import Aims
from questloop.rewards.hints import HintTargets
from questloop.rewards.total import Rewards
from questloop.settings import RewardSettings

PAGE = Path(__file__).parents[2] / "docs/reference/rewards.md"
ROW = re.compile(r"^\| `(\w+)` \| `REWARD_(\w+)` \| `(-?[\d.]+)` \|", re.MULTILINE)


def test_every_part_stands_in_the_table_with_its_weight():
    rows = ROW.findall(PAGE.read_text("utf-8"))
    weights = RewardSettings()
    assert [part for part, _, _ in rows] == [variable.lower() for _, variable, _ in rows]
    assert {part: float(default) for part, _, default in rows} == {
        name: getattr(weights, f"reward_{name}")
        for name in (*Rewards(1, weights).names, *HintTargets.names, *Aims.names)
    }
