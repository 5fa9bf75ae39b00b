import json
import re

import pytest
from fastapi.testclient import TestClient

from questloop.settings import load
from questloop.storage import keys
from questloop.storage.store import open_store
from questloop.web.app import build_app
from questloop.web.book import RunBook

PAGES = ["/", "/map", "/segments", "/episodes", "/planner", "/judges"]


def client(store):
    return TestClient(build_app(store, load(flags={"store_url": store.url})))


@pytest.fixture
def pages(store):
    return client(store)


@pytest.fixture
def segment_id(store):
    return RunBook(store).segments(0)[0]


@pytest.mark.parametrize("path", PAGES)
def test_a_page_of_an_empty_store_says_that_nothing_is_there_yet(tmp_path, path):
    answer = client(open_store(str(tmp_path))).get(path)
    assert answer.status_code == 200
    assert re.search(
        "No run yet|No room yet|None yet|is off in this run|Nothing has been judged", answer.text
    )


def test_the_overview_has_the_closing_table_curves_and_segments(pages):
    text = pages.get("/").text
    assert "3,600" in text
    assert "2.50" in text
    assert text.count("<svg") == 3
    assert "met_elder" in text
    assert re.search(r'href="/segments/r1-e0000-s', text)


def test_the_map_shows_where_rooms_lie_and_a_picture_of_a_seen_one(pages):
    text = pages.get("/map").text
    assert re.search(r'grid-area: 1 / 2" data-room="0:21"', text)
    assert 'data-room="3:00"' in text
    assert pages.get("/rooms/0/33.png").headers["content-type"] == "image/png"
    assert pages.get("/rooms/7/200.png").status_code == 404


def test_segments_are_sorted_by_score_and_filtered_by_epoch(pages, store):
    scores = RunBook(store).weighted(0)
    best = max(scores, key=lambda name: (scores[name], name))
    worst = min(scores, key=lambda name: (scores[name], name))
    shown = {order: _first(pages.get(f"/segments?order={order}").text) for order in ("best", "worst")}
    assert scores[shown["best"]] == scores[best]
    assert scores[shown["worst"]] == scores[worst]
    assert "None yet" in pages.get("/segments?epoch=7").text


def test_a_segment_shows_pictures_states_votes_and_reasons(pages, segment_id):
    text = pages.get(f"/segments/{segment_id}").text
    for said in ("rule-based-state", "rule-based-puzzle", "rule-based-vision", "points of progress"):
        assert said in text
    frames = json.loads(re.search(r'<script type="application/json">(.*?)</script>', text, re.S)[1])
    assert frames[0]["step"] == 0
    assert {"room", "tile", "health", "mode", "action", "reward"} <= frames[0].keys()
    picture = pages.get(f"/segments/{segment_id}/frames/0.png")
    assert picture.content.startswith(b"\x89PNG")
    assert "immutable" in picture.headers["cache-control"]
    assert pages.get(f"/segments/{segment_id}/strip.png").content.startswith(b"\x89PNG")
    assert pages.get(f"/segments/{segment_id}/frames/1.png").status_code == 404


def test_what_judges_may_not_see_is_shown_to_people(pages, store, segment_id):
    text = pages.get(f"/segments/{segment_id}").text
    assert re.search("what followed is not known yet|milestone followed", text)


def test_episodes_link_to_their_segments(pages, segment_id):
    assert f'href="/segments/{segment_id}"' in pages.get("/episodes?epoch=0").text


def test_the_planners_takeovers_stand_by_outcome(pages):
    assert "takeovers: dialog done" in pages.get("/planner").text


def test_the_judges_page_has_curves_and_the_reward_models_figures(pages):
    text = pages.get("/judges").text
    assert "accuracy against the judges" in text
    assert "rule-based-vision" in text
    assert "<svg" in text


@pytest.mark.parametrize(
    "path",
    ["/segments/x", "/segments/..%2f..%2fetc", "/segments/r1-e0000-s000-00000-00099-f0001", "/nothing",
     "/rooms/0/999.png", "/segments?page=0", "/segments?order=drop", "/segments?epoch=-1"],
)  # fmt: skip
def test_nonsense_is_refused_in_a_sentence(pages, path):
    answer = pages.get(path)
    assert 400 <= answer.status_code < 500
    assert "Traceback" not in answer.text


def test_nothing_can_be_written(pages, store):
    before = sorted((entry.key, entry.size) for entry in store.list())
    for path in [*PAGES, "/progress"]:
        assert pages.get(path).status_code == 200
        for method in ("POST", "PUT", "DELETE", "PATCH"):
            assert pages.request(method, path).status_code == 405
    assert sorted((entry.key, entry.size) for entry in store.list()) == before


def test_a_foreign_page_cannot_reach_it_by_another_name(store):
    assert client(store).get("/", headers={"Host": "evil.example"}).status_code == 400


def test_nothing_is_loaded_from_elsewhere(pages, segment_id):
    for path in [*PAGES, f"/segments/{segment_id}"]:
        answer = pages.get(path)
        assert "default-src 'self'" in answer.headers["content-security-policy"]
        assert not re.search(r'(src|href)="(https?:)?//', answer.text)


def test_text_of_a_judge_is_shown_as_text(store):
    scores = store.get(keys.scores(0)).decode().replace("points of progress", "<script>alert(1)</script>")
    store.put(keys.scores(0), scores.encode())
    name = RunBook(store).segments(0)[0]
    text = client(store).get(f"/segments/{name}").text
    assert "&lt;script&gt;alert(1)" in text
    assert "<script>alert(1)" not in text


def test_progress_tells_the_stage_and_changes_with_every_commit(store):
    store.put(keys.progress(), json.dumps({"epoch": 0, "stage": "evaluate", "errors": []}).encode())
    news = client(store).get("/progress").json()
    assert news["progress"]["stage"] == "evaluate"
    assert news["state"] == "0/0/0"


@pytest.mark.parametrize("document", [b"", b"{", b"[]", b"\xff"])
def test_a_progress_file_that_cannot_be_read_is_as_none(store, document):
    store.put(keys.progress(), document)
    assert client(store).get("/progress").json()["progress"] is None
    assert client(store).get("/").status_code == 200


def test_a_damaged_object_is_named(store, segment_id):
    store.put(keys.manifest(segment_id), b"{}")
    answer = client(store).get(f"/segments/{segment_id}")
    assert answer.status_code == 404
    assert "manifest.json" in answer.text


def test_the_api_describes_itself(pages):
    paths = pages.get("/openapi.json").json()["paths"]
    assert {"/", "/map", "/segments/{segment_id}", "/progress", "/events"} <= paths.keys()


def _first(text):
    return re.search(r'href="/segments/([^"?]+)"', text)[1]
