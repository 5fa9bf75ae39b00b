"""Nine Coins's ROM is what its source builds."""

import pytest
from games.ninecoins import build
from tests.games.test_mossgrove_build import _sdcc_version


@pytest.mark.skipif("4.2.0" not in _sdcc_version(), reason="needs sdcc 4.2.0")
def test_rebuilding_gives_the_kept_bytes(tmp_path):
    assert build.build(tmp_path) == build.KEPT.read_bytes()
