"""The first picture of a film in a terminal."""

import sys
from io import StringIO

import numpy as np
import pytest
from rich.console import Console

from questloop.cli.loop import _print_still
from questloop.game.recording import write_film
from questloop.report.still import COLUMNS, ROWS, poster, still
from questloop.settings import load
from questloop.storage.store import open_store

pytest.importorskip("av")


def test_the_room_of_the_first_picture_is_drawn_in_its_colours(tmp_path):
    first = np.zeros((164, 160, 3), np.uint8)
    first[:64], first[64:128], first[128:] = (200, 30, 30), (30, 30, 200), (255, 255, 255)
    write_film(tmp_path / "film.mp4", [first, np.zeros_like(first)], fps=10)
    text = still((tmp_path / "film.mp4").read_bytes())
    lines = text.plain.splitlines()
    assert [len(line) for line in lines] == [COLUMNS] * (ROWS // 2)
    red, blue = (text.spans[at].style.color.triplet for at in (0, COLUMNS * (ROWS // 2 - 1)))
    assert red.red > 150 > red.blue
    assert blue.blue > 150 > blue.red
    drawn = StringIO()
    Console(file=drawn, force_terminal=True, color_system="256", width=80).print(text)
    assert drawn.getvalue().count("\n") == ROWS // 2


@pytest.mark.parametrize("reader", [True, False], ids=["damaged", "without PyAV"])
def test_a_film_that_cannot_be_read_ends_no_run(tmp_path, monkeypatch, reader):
    settings = load(None, {"store_url": str(tmp_path / "store")})
    open_store(settings.store).put("film.mp4", b"no film")
    if not reader:
        monkeypatch.setitem(sys.modules, "av", None)
    drawn = StringIO()
    _print_still(Console(file=drawn, width=80), settings, "film.mp4")
    assert not drawn.getvalue()
    assert poster(b"no film") is None


def test_a_page_shows_the_first_picture_of_a_film_before_it_plays(tmp_path):
    write_film(tmp_path / "film.mp4", [np.zeros((164, 160, 3), np.uint8)], fps=10)
    assert (poster((tmp_path / "film.mp4").read_bytes()) or b"").startswith(b"\x89PNG")
