"""Profiles: milestones, and a third game added as the how-to says."""

import re
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

from questloop.errors import UsageError
from questloop.game import profiles
from questloop.game.actions import Action
from questloop.game.batch import GameBatch
from questloop.game.emulator import Emulator
from questloop.game.gates import check_game
from questloop.game.observation import INDEX, OBSERVATION_SIZE, Encoder
from questloop.game.profile import ByteTest, Milestone, MilestoneDetector, at_least, bit, equals
from questloop.game.rom import Rom
from questloop.game.start_states import load_start_states
from questloop.game.state import decode
from questloop.game.taps import Tap, TapLayout

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "add-a-game.md"
LAYOUT = TapLayout([Tap("a", None, 0xC100, 2), Tap("b", None, 0xC200)])


def holds(*milestones: Milestone, a=(0, 0), b=0) -> list[bool]:
    mask = int(MilestoneDetector(milestones, LAYOUT)(LAYOUT.row(a=a, b=b)[np.newaxis])[0])
    return [bool(mask >> i & 1) for i in range(len(milestones))]


def test_a_milestone_holds_while_all_its_tests_hold():
    milestones = (
        Milestone("bit", "", (bit("a", 9),)),
        Milestone("both", "", (bit("a", 9), at_least("b", 3))),
        Milestone("equal", "", (equals("b", 3),)),
        Milestone("range", "", (ByteTest("b", 0, 0x0F, 2, 4),)),
    )
    assert holds(*milestones) == [False] * 4
    assert holds(*milestones, a=(0, 2), b=2) == [True, False, False, True]
    assert holds(*milestones, a=(0, 2), b=3) == [True, True, True, True]
    assert holds(*milestones, a=(2, 0), b=0xF4) == [False, False, False, True]
    assert holds() == []


def test_the_128th_milestone_and_no_more():
    many = [Milestone(str(i), "", (equals("b", i),)) for i in range(129)]
    assert holds(*many[:128], b=127) == [False] * 127 + [True]
    with pytest.raises(ValueError, match="at most 128"):
        MilestoneDetector(tuple(many), LAYOUT)


def test_a_milestone_on_an_unknown_tap_is_refused():
    with pytest.raises(KeyError):
        MilestoneDetector((Milestone("x", "", (equals("none", 1),)),), LAYOUT)


@pytest.mark.parametrize("profile", profiles.profiles(), ids=lambda profile: profile.name)
def test_keys_are_unique_and_plain(profile):
    keys = [milestone.key for milestone in profile.milestones]
    assert len(set(keys)) == len(keys)
    assert all(re.fullmatch(r"[a-z0-9_]+", key) for key in keys)
    assert profile.milestone_names(0b101) == [keys[0], *keys[2:3]]


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A package with the how-to's profile, installed as its pyproject says."""
    blocks = dict(re.findall(r"```(python|toml)\n(.*?)```", PAGE.read_text(), re.DOTALL))
    (tmp_path / "lantern.py").write_text(blocks["python"])
    ((group, named),) = tomllib.loads(blocks["toml"])["project"]["entry-points"].items()
    info = tmp_path / "lantern_profile-0.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: lantern-profile\nVersion: 0.1\n")
    entries = "".join(f"{name} = {value}\n" for name, value in named.items())
    (info / "entry_points.txt").write_text(f"[{group}]\n{entries}")
    monkeypatch.syspath_prepend(str(tmp_path))
    profiles._installed.cache_clear()
    yield info / "entry_points.txt"
    profiles._installed.cache_clear()
    sys.modules.pop("lantern", None)


def test_a_third_game_by_the_how_to(installed, toy_bytes):
    rom = Rom.of(Path("lantern.gbc"), toy_bytes(b"LANTERN"))
    profile = profiles.profile_for(rom)
    assert profile.name == "lantern"
    emulator, row = Emulator(rom, profile.layout), np.zeros(profile.layout.size, np.uint8)
    for action in (Action.NOP, Action.RIGHT, Action.A):
        emulator.step(action, 80)
    emulator.read(row)
    state = decode(row, profile)
    assert state.x > 60
    assert (state.rupees, state.milestones) == (1, ("coin",))
    observation = np.zeros((1, OBSERVATION_SIZE), np.float32)
    Encoder(1, profile, 4).encode(
        profile.columns(row[np.newaxis]), np.array([Action.A], np.uint8), observation
    )
    assert observation[0, INDEX["rupees"]] > 0
    batch = GameBatch(rom, profile.layout, 2)
    assert batch.step(np.full(2, Action.NOP, np.uint8)).shape == (2, 3)
    start = load_start_states(rom, profile).states[0]
    assert {item.gate for item in check_game(rom, profile, start, steps=400)} <= {"inside", "coins"}


def test_a_broken_profile_is_named(installed, toy_rom):
    for value, reason in (("lantern:NONE", "does not load"), ("lantern:LAYOUT", "is no Profile")):
        installed.write_text(f"[questloop.profiles]\nlantern = {value}\n")
        profiles._installed.cache_clear()
        with pytest.raises(UsageError, match=f"lantern.*{reason}"):
            profiles.profile_for(toy_rom)


PROFILE_FILE = Path(__file__).parents[2] / "games/ninecoins/ninecoins.py"


@pytest.mark.parametrize("name", ["mossgrove", "oracle_of_seasons"])
def test_a_known_game_is_named_by_game_profile(toy_rom, name):
    assert profiles.profile_for(toy_rom, named=name).name == name


def test_a_file_is_named_by_game_profile(toy_rom, monkeypatch):
    assert profiles.profile_for(toy_rom, named=str(PROFILE_FILE)).name == "ninecoins"
    monkeypatch.chdir(PROFILE_FILE.parent)
    assert profiles.profile_for(toy_rom, named="ninecoins.py").name == "ninecoins"


def test_a_module_is_named_by_game_profile(toy_rom, monkeypatch):
    monkeypatch.syspath_prepend(str(PROFILE_FILE.parent))
    assert profiles.profile_for(toy_rom, named="ninecoins").name == "ninecoins"
    assert profiles.profile_for(toy_rom, named="ninecoins:PROFILE").name == "ninecoins"
    sys.modules.pop("ninecoins", None)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("nothing", "neither a known game .mossgrove, oracle_of_seasons., nor a .py file, nor a module"),
        ("none.py", "none.py does not load: FileNotFoundError"),
        ("math", "PROFILE is no Profile but NoneType"),
        ("math:pi", "pi is no Profile but float"),
    ],
)
def test_a_game_profile_that_is_none_is_named(toy_rom, name, reason):
    with pytest.raises(UsageError, match=reason):
        profiles.profile_for(toy_rom, named=name)


def test_a_file_that_breaks_is_named(toy_rom, tmp_path):
    file = tmp_path / "broken.py"
    file.write_text("PROFILE = 1 / 0\n")
    with pytest.raises(UsageError, match=r"broken.py does not load: ZeroDivisionError: division by zero"):
        profiles.profile_for(toy_rom, named=str(file))


def test_a_file_that_is_not_whole_is_named(toy_rom, tmp_path):
    file = tmp_path / "wrong.py"
    file.write_text(PROFILE_FILE.read_text().replace('goal="lit"', 'goal="dark"'))
    with pytest.raises(UsageError, match=r"wrong.py is not whole: goal 'dark' is no milestone"):
        profiles.profile_for(toy_rom, named=str(file))
