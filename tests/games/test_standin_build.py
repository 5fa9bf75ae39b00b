"""The stand-in's ROM is what its source builds, and says that it is one."""

from pathlib import Path

import pytest
from games.standin import build, facts
from tests.games.test_mossgrove_build import _sdcc_version

from questloop.errors import UsageError
from questloop.game.profiles import profile_for
from questloop.game.rom import Rom


def test_it_is_no_rom_of_the_commercial_game():
    rom = Rom.load(build.KEPT)
    assert rom.title == "QL STAND-IN"
    assert not any(rom.data[0x104:0x134]), "no logo"
    with pytest.raises(UsageError, match="no game profile plays"):
        profile_for(rom)


def test_its_tables_are_its_facts():
    text = build.tables()
    assert text.count("room_") >= 2 * len(build.ROOMS)
    for mode in range(len(facts.MODES)):
        for tile in range(256):
            assert build._kind(mode, tile) < len(build.KINDS)


@pytest.mark.slow
@pytest.mark.skipif("4.2.0" not in _sdcc_version(), reason="needs sdcc 4.2.0")
def test_rebuilding_gives_the_kept_bytes(tmp_path):
    assert build.build(Path(tmp_path)) == build.KEPT.read_bytes()
