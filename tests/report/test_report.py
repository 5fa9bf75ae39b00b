"""The report of a run that was played without training: what it shows, and that it needs nothing else."""

import posixpath
import re

import pytest
from tests.pipeline.playing import play

from questloop import settings
from questloop.episodes.run import open_run, read_run
from questloop.episodes.session import note_session
from questloop.errors import BadDataError
from questloop.report import report
from questloop.report.report import REPORT_KEY, render, write_report
from questloop.report.scalars import write_scalars
from questloop.storage import keys
from questloop.storage.commit import to_json
from questloop.storage.store import open_store

INFO = {
    "step_start": 0,
    "step_end": 300,
    "return_mean": None,
    "return_per_1000_steps": 1.5,
    "unique_rooms": 1,
    "shaping_weight": 0.0,
    "steps_per_second": 100.0,
    "milestones": {"sword_1": 2, "finished": 0},
    "episodes_finished": 3,
    "trajectory_hashes": ["a slot"],
    "shaping_reason": "off: no reward model yet",
    "room_visits": {"0:20": 280, "0:21": 20},
    "curve": [{"step": step, "return_per_1000_steps": step / 100} for step in range(0, 300, 10)],
    "planner": {"takeovers": {"dialog done": 3}, "steps": 40, "plans": 4, "plans_invalid": 1},
}


@pytest.fixture
def run(tmp_path):
    chosen = settings.load(None, {"store_url": str(tmp_path / "store")})
    store = open_store(chosen.store)
    open_run(store, chosen)
    play(store, slots=1, steps=300, info=INFO)
    return store, chosen


def test_parts_are_those_of_the_run_not_of_who_asks(run):
    store, chosen = run
    note_session(store, settings.load(None, {"store_url": store.url, "planner": True, "aims": False}), 1)
    page = render(store, chosen)
    assert "planner on<" in page
    assert "led to the next aim off<" in page


def test_a_run_in_one_file(run):
    page = render(*run)
    assert "Took the twig blade" in page, "a milestone by its title"
    assert "Still ahead: The grove is awake." in page
    assert "dialog taken over: done" in page
    assert "Stone room, 27 steps." in page
    assert "push &lt;the&gt; block" in page
    assert "PUSH_BLOCK 3,4 up; WAIT 8" in page
    assert "1.50" in page
    assert "<td>0.50</td>" in page, "two of four episodes have the milestone"
    assert "was reached by 50.0% of epoch 0&#39;s episodes." in page
    assert "The judges&#39; scores did not shape epoch 0: no reward model yet." in page
    assert page.count("<svg") == 1, "one curve was recorded"
    assert "data:image/png;base64," in page, "the map with a picture of the room"
    assert "What the judges liked" not in page, "nothing was judged"
    loaded = re.findall(r"""(?:src|href|srcset)=["']([^"']{0,30})""", page)
    assert loaded
    assert all(where.startswith(("data:", "#")) for where in loaded), "it asks nobody for anything"
    assert len(page) < 3_000_000


def test_a_run_of_an_earlier_observation_is_shown(run):
    store, chosen = run
    store.put(keys.run(), to_json(read_run(store).model_copy(update={"observation_version": 1})))
    assert "observation layout 1" in render(store, chosen)


def test_a_film_is_in_the_page_and_a_large_one_beside_it(run, monkeypatch):
    store, chosen = run
    store.put(keys.film(0, "best"), b"film")
    parts = []
    page = render(store, chosen, lambda done, total: parts.append((done, total)))
    assert "The best episode of epoch 0" in page
    assert "data:video/mp4;base64,ZmlsbQ==" in page
    assert parts == [(done, 4) for done in range(5)]
    monkeypatch.setattr(report, "MOST_FILM_BYTES", 3)
    page = render(store, chosen)
    where = re.search('<a href="([^"]+mp4)"', page)[1]
    assert posixpath.normpath(posixpath.join(posixpath.dirname(REPORT_KEY), where)) == keys.film(0, "best")


def test_it_is_written_into_the_store(run):
    store, chosen = run
    where = write_report(store, chosen)
    assert where.endswith(REPORT_KEY)
    assert store.get(REPORT_KEY).startswith(b"<!doctype html>")


def test_its_curves_as_scalars(run, tmp_path):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    path = write_scalars(run[0], tmp_path / "tensorboard")
    events = accumulator.EventAccumulator(str(path)).Reload()
    curve = events.Scalars("play/return_per_1000_steps")
    assert [(item.step, round(item.value, 4)) for item in curve[:2]] == [(0, 0.0), (10, 0.1)]
    assert len(curve) == 30
    assert events.Scalars("epoch/unique_rooms")[0].value == 1
    assert "epoch/return_mean" not in events.Tags()["scalars"], "no episode ended"
    assert write_scalars(run[0], tmp_path / "tensorboard") == path
    assert list(path.parent.iterdir()) == [path], "an earlier file is replaced"


def test_a_store_without_a_run(tmp_path):
    chosen = settings.load(None, {"store_url": str(tmp_path)})
    with pytest.raises(BadDataError, match="questloop pipeline"):
        render(open_store(chosen.store), chosen)
