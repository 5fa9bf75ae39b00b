import csv
import io
import json
import re
from uuid import uuid4

import pytest
from fastapi.testclient import TestClient
from tests.web.conftest import PLAYED

from questloop.report.book import RunBook
from questloop.report.curves import CURVES, as_csv, series
from questloop.settings import load
from questloop.storage import keys
from questloop.storage.commit import commit_stage
from questloop.storage.keys import Stage
from questloop.storage.store import open_store
from questloop.web.app import build_app
from questloop.web.hub import build_dashboard

POINTS = [
    {"step": 1000 * at, "return_per_1000_steps": float(at), "unique_rooms_per_episode": 1.0, "entropy": 2.0,
     "kl": 0.01 * at, "steps_per_second": 2000.0, "episode_return": None if at % 2 else 5.0}
    for at in range(1, 2001)
]  # fmt: skip
FULL = {1: PLAYED | {"step_start": 0, "step_end": 2_000_000, "curve": POINTS}}


def client(store):
    return TestClient(build_app(store, load(flags={"store_url": store.url})))


def test_a_curve_has_every_update_that_measured_it():
    found = series(FULL)
    assert found["kl"].x == [point["step"] for point in POINTS]
    assert found["episode_return"].y == [5.0] * 1000
    assert found["kl"].each == "update"
    assert "vf_loss" not in found


def test_a_store_of_a_release_before_has_a_point_an_epoch():
    losses = {"losses": {"kl": 0.5, "vf_loss": 3.0}, "return_mean": 7.0}
    found = series({epoch: PLAYED | losses | {"step_end": 3600 * (epoch + 1)} for epoch in (0, 1)})
    assert (found["kl"].x, found["kl"].y, found["kl"].each) == ([3600, 7200], [0.5, 0.5], "epoch")
    assert found["episode_return"].y == [7.0, 7.0]
    assert found["entropy"].each == "update"


def test_milestones_count_once_over_the_epochs_at_their_first_step():
    first = PLAYED | {"milestone_steps": {"a": 900, "b": 1800}}
    second = PLAYED | {"step_start": 3600, "step_end": 7200, "milestone_steps": {"a": 4000, "c": 5000}}
    found = series({0: first, 1: second})["milestones"]
    assert list(zip(found.x, found.y, strict=True)) == [(0, 0), (900, 1), (1800, 2), (5000, 3), (7200, 3)]


def test_a_page_gets_means_and_a_zoom_gets_the_points_themselves():
    whole = series(FULL)["kl"].within(0, 10**9)
    assert len(whole.x) <= 600
    assert sum(whole.y) / len(whole.y) == pytest.approx(sum(p["kl"] for p in POINTS) / 2000)
    near = series(FULL)["kl"].within(10_000, 20_000)
    assert near.x == list(range(10_000, 20_001, 1000))
    assert near.y == [pytest.approx(x / 1e5) for x in near.x]


def test_the_csv_has_a_line_an_update_and_nothing_where_nothing_was_measured():
    lines = list(csv.DictReader(io.StringIO("".join(as_csv(FULL)))))
    assert len(lines) == 2000
    assert (lines[0]["step"], lines[0]["kl"], lines[0]["episode_return"]) == ("1000", "0.01", "")
    assert lines[1]["episode_return"] == "5"


def test_the_pages_of_curves_draw_the_same_and_name_what_is_missing(store):
    pages = client(store)
    text = pages.get("/curves").text
    assert 'data-curve="entropy"' in text
    assert "Loss of the critic" in text.partition("Not measured in this run")[2]
    assert pages.get("/curves.json").json()["runs"][0]["curves"]["entropy"]["x"] == [1800, 3600]
    assert pages.get("/curves.json?low=2000&high=9000").json()["runs"][0]["curves"]["entropy"]["x"] == [3600]
    answer = pages.get("/curves.csv")
    assert "attachment" in answer.headers["content-disposition"]
    assert answer.text.splitlines()[0].startswith("step,return_per_1000_steps")
    assert {curve.group for curve in CURVES} == {"Play", "Learning", "Reward and speed"}


@pytest.fixture
def several(tmp_path, judged):
    """A folder with two runs, the second an epoch longer, with another learning rate, and another folder."""
    import shutil

    for name in ("one", "two"):
        shutil.copytree(judged, tmp_path / "runs" / name)
    (tmp_path / "runs" / "notes").mkdir()
    second = open_store(str(tmp_path / "runs" / "two"))
    info = RunBook(second).info(0, Stage.ROLLOUTS) | {"epoch": 1, "step_start": 3600, "step_end": 7200}
    commit_stage(second, 1, Stage.ROLLOUTS, 1, [], info)
    key = next(entry.key for entry in second.list(keys.sessions_prefix()))
    session = json.loads(second.get(key))
    for each in session["settings"]:
        if each["name"] == "LR":
            each["value"] = "0.5"
    second.put(key, json.dumps(session).encode())
    store = open_store(str(tmp_path / "runs"))
    return TestClient(build_dashboard(store, load(flags={"store_url": store.url})))


def test_a_folder_of_runs_lists_them_with_pages_of_their_own(several):
    text = several.get("/").text
    assert 'href="/runs/one/"' in text
    assert 'href="/runs/two/"' in text
    assert "/runs/notes" not in text
    page = several.get("/runs/two/").text
    assert 'href="/runs/two/segments"' in page
    assert several.get("/runs/two/static/style.css").status_code == 200
    assert several.get("/runs/two/progress").json()["state"] == "0,1/0/0"
    assert several.get("/runs/notes/").status_code == 404
    assert several.get("/runs/..%2f..%2fetc/").status_code == 404
    own = [where for where in re.findall(r'(?:href|src)="([^"]*)"', page) if where.startswith("/")]
    assert {where for where in own if not where.startswith("/runs/two/")} == {"/"}


@pytest.mark.integration
@pytest.mark.timeout(180)
def test_a_folder_of_a_bucket_lists_its_runs_too(store, s3_server):
    runs = open_store(s3_server.settings(f"s3://one/runs-{uuid4().hex}"))
    for entry in store.list(""):
        for run in ("first", "second"):
            runs.put(f"{run}/{entry.key}", store.get(entry.key))
    runs.put("notes/todo.txt", b"no run")
    settings = load(flags=s3_server.settings(runs.url).model_dump())
    pages = TestClient(build_dashboard(runs, settings))
    text = pages.get("/").text
    assert re.findall(r'href="/runs/([^"/]*)/"', text) == ["first", "second"]
    assert "3,600" in text
    assert 'href="/runs/second/segments"' in pages.get("/runs/second/").text
    assert pages.get("/runs/second/segments").text.count('class="card"') > 0
    assert pages.get("/runs/notes/").status_code == 404
    assert [run["name"] for run in pages.get("/compare.json?run=first&run=second").json()["runs"]] == [
        "first",
        "second",
    ]


def test_runs_are_compared_with_the_settings_that_differ(several):
    text = several.get("/compare?run=one&run=two").text
    assert 'learning rate of Adam<br><code class="soft">LR</code>' in text
    assert "GAMMA</code>" not in text
    answer = several.get("/compare.json?run=one&run=two").json()
    assert [run["name"] for run in answer["runs"]] == ["one", "two"]
    assert answer["runs"][1]["epochs"] == [3600]
    assert several.get("/compare?run=nothing").status_code == 404
    assert several.get("/compare?" + "run=one&" * 7).status_code == 422


def test_one_run_is_no_list(store):
    pages = TestClient(build_dashboard(store, load(flags={"store_url": store.url})))
    assert 'href="/segments"' in pages.get("/").text
    assert "All runs" not in pages.get("/").text
