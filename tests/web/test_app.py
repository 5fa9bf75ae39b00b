import json
import re
from collections import Counter

import pytest
from fastapi.testclient import TestClient

from questloop.exploration.archive import Archive, Delta
from questloop.judges.labels import read_labels
from questloop.report.book import RunBook
from questloop.rewards.total import Rewards
from questloop.settings import RewardSettings, load
from questloop.storage import keys
from questloop.storage.commit import commit_stage
from questloop.storage.keys import Stage
from questloop.storage.store import open_store
from questloop.web.app import build_app
from questloop.web.labels import Labelling

PAGES = [
    "/", "/curves", "/map", "/segments", "/episodes", "/archive", "/planner", "/judges", "/label", "/run"
]  # fmt: skip


def client(store, **flags):
    return TestClient(build_app(store, load(flags={"store_url": store.url, **flags})))


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
        "No run yet|No room yet|None yet|is off in this run|Nothing has been judged|Curves appear|no run has",
        answer.text,
    )
    for claim in ("Not measured in this run", "kept by the release", "0 episodes", "<thead"):
        assert claim not in answer.text, "nothing is said of a run that has not begun"


def test_a_segments_reward_is_told_by_titles(pages, segment_id):
    rewards = (
        pages.get(f"/segments/{segment_id}").text.partition("<h2>Reward</h2>")[2].partition("</table>")[0]
    )
    titles = re.findall(r'<th scope="row"[^>]*>([^<]+)</th>', rewards)
    assert titles
    assert not {title.lower() for title in titles} & set(Rewards(1, RewardSettings()).names)
    assert "-0.00" not in rewards


def test_the_overview_has_the_closing_table_curves_and_segments(pages):
    text = pages.get("/").text
    assert "3,600" in text
    assert "2.50" in text
    assert text.count('class="plot"') == 3
    assert "Heard the elder&#39;s request" in text
    assert "met_elder" not in text
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


def test_an_episode_has_its_outcome_and_its_segments(pages, store, segment_id):
    episode_id = RunBook(store).manifest(segment_id).episode_id
    assert f'href="/episodes/{episode_id}"' in pages.get(f"/segments/{segment_id}").text
    text = pages.get(f"/episodes/{episode_id}").text
    assert "unfinished" in text
    assert "1 of 1 was exported" in text or "were exported" in text
    assert f'href="/segments/{segment_id}"' in text


def test_an_epoch_that_goes_on_has_its_curve_and_its_rooms(store):
    training = {
        "step_start": 3600,
        "room_visits": {"5:0a": 7},
        "curve": [
            {"step": 5400, "return_per_1000_steps": 77.5, "unique_rooms_per_episode": 1.0, "entropy": 2.0}
        ],
    }
    progress = {"epoch": 1, "stage": "rollouts", "errors": [], "training": training}
    store.put(keys.progress(), json.dumps(progress).encode())
    pages = client(store)
    assert "77.5" in pages.get("/").text
    assert 'data-room="5:0a"' in pages.get("/map").text


def test_a_form_that_chooses_all_epochs_is_understood(pages):
    assert pages.get("/segments?epoch=&order=best").status_code == 200


def test_the_planners_takeovers_stand_by_outcome(pages):
    assert "dialog taken over: done" in pages.get("/planner").text


def test_films_are_listed_and_served_in_parts(pages, store):
    assert "<video" not in pages.get("/episodes").text
    store.put(keys.film(0, "best"), b"0123456789")
    seen = client(store)
    assert 'src="/films/0/best.mp4"' in seen.get("/episodes").text
    whole = seen.get("/films/0/best.mp4")
    assert (whole.status_code, whole.content) == (200, b"0123456789")
    for asked, status, body, where in [
        ("bytes=0-", 206, b"0123456789", "bytes 0-9/10"),
        ("bytes=3-5", 206, b"345", "bytes 3-5/10"),
        ("bytes=8-99", 206, b"89", "bytes 8-9/10"),
        ("bytes=-4", 206, b"6789", "bytes 6-9/10"),
        ("bytes=10-", 416, b"", "bytes */10"),
        ("bytes=0-1,4-5", 200, b"0123456789", None),
        ("bytes=-", 200, b"0123456789", None),
    ]:
        part = seen.get("/films/0/best.mp4", headers={"Range": asked})
        assert (part.status_code, part.content, part.headers.get("content-range")) == (status, body, where)
    assert seen.get("/films/1/best.mp4").status_code == 404
    assert seen.get("/films/0/..%2Fbest.mp4").status_code == 404


def test_the_archive_is_counted_by_room_from_its_index_alone(pages, store):
    archive = Archive()
    archive.merge(
        [
            Delta(
                seen=Counter({"g0-r21-k0-m0": 40, "g0-r21-k0-m1": 2, "g4-r06-k1-m1": 1}),
                chosen=Counter({"g4-r06-k1-m1": 7}),
                found={
                    "g0-r21-k0-m0": (1.5, b"one"),
                    "g0-r21-k0-m1": (9.25, b"two"),
                    "g4-r06-k1-m1": (3.0, b"three"),
                },
            )
        ]
    )
    archive.cells["g0-r21-k0-m0"].state = None
    archive.write(store, keys.archive(0))
    store.delete(entry.key for entry in store.list("zelda-models/archive"))  # states are never read
    first, second = re.findall(r"<tr><th scope=\"row\">.*?</tr>", pages.get("/archive").text)
    told = [re.sub(r"(<[^>]*>)+", "|", row) for row in (first, second)]
    assert told[0].startswith("|room 4:06|1|1|1|7|3.00|")
    assert told[1].startswith("|Waking meadow|2|1|42|0|9.25|")
    assert not told[0].endswith("–|")
    store.put(keys.archive(0), b"{}")
    refused = client(store).get("/archive")
    assert refused.status_code == 404
    assert "no index of an archive" in refused.text


def test_a_takeovers_plans_stand_beside_what_became_of_them(pages):
    text = pages.get("/planner").text
    assert "Puzzle taken over: room changed" in text
    assert "<b>27 steps</b> <span>Stone room</span>" in text
    assert "push &lt;the&gt; block <code>PUSH_BLOCK 3,4 up · WAIT 8</code>" in text
    assert 'room changed<span class="unseen"> after</span> 1/2' in text
    assert "/segments/r1-e0000-s000-00000-00000-f0001" in text


def test_the_judges_page_has_curves_and_the_reward_models_figures(pages):
    text = pages.get("/judges").text
    assert "agrees with the judges" in text
    assert "1: milestones follow high scores; 0: chance" in text
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


def _to_label(pages):
    return re.search(r'data-label="([^"]+)"', pages.get("/label").text)[1]


@pytest.mark.parametrize(
    ("token", "given", "status"),
    [
        (None, "Bearer x", 403),
        ("secret", None, 401),
        ("secret", "Bearer wrong", 401),
        ("secret", "Bearer sécret".encode(), 401),
        ("secret", "secret", 401),
    ],
)
def test_labels_are_refused_without_the_token(store, token, given, status):
    pages = client(store, dashboard_token=token)
    headers = {"Authorization": given} if given else {}
    assert pages.post(f"/label/{_to_label(pages)}", json={"key": 5}, headers=headers).status_code == status
    assert read_labels(store, 0) == {}


def test_labels_are_kept_one_by_one_and_measured_at_the_end(store):
    pages = client(store, dashboard_token="secret")
    headers = {"Authorization": "Bearer secret"}
    count = int(re.search(r"Segment 1 of (\d+)", pages.get("/label").text)[1])
    for number in range(count):
        text = pages.get(f"/label?number={number}").text
        assert "rule-based" not in text, "a person is not told what the judges said"
        name = re.search(r'data-label="([^"]+)"', text)[1]
        assert pages.post(f"/label/{name}", json={"key": number % 10}, headers=headers).status_code == 200
    assert len(read_labels(store, 0)) == count
    text = pages.get("/label?number=1").text
    assert '<button type="button" value="1" aria-pressed="true">' in text
    assert "All are labelled" in text
    assert pages.post(f"/label/{name}", json={"key": 10}, headers=headers).status_code == 422


def test_the_command_that_labels_chooses_epoch_and_count(store):
    settings = load(flags={"store_url": store.url, "dashboard_token": "secret"})
    pages = TestClient(build_app(store, settings, labelling=Labelling(epoch=0, count=2)))
    assert "Segment 1 of 2 of epoch 0" in pages.get("/label").text
    chosen = {re.search(r'data-label="([^"]+)"', pages.get(f"/label?number={n}").text)[1] for n in (0, 1)}
    other = next(name for name in RunBook(store).segments(0) if name not in chosen)
    headers = {"Authorization": "Bearer secret"}
    assert pages.post(f"/label/{other}", json={"key": 1}, headers=headers).status_code == 404
    unjudged = TestClient(build_app(store, settings, labelling=Labelling(epoch=7)))
    assert "None yet" in unjudged.get("/label").text


def test_a_foreign_page_cannot_reach_it_by_another_name(store):
    assert client(store).get("/", headers={"Host": "evil.example"}).status_code == 400


def test_nothing_is_loaded_from_elsewhere(pages, segment_id):
    for path in [*PAGES, f"/segments/{segment_id}"]:
        answer = pages.get(path)
        assert "default-src 'self'" in answer.headers["content-security-policy"]
        assert not re.search(r'(src|href)="(https?:)?//', answer.text)


def test_text_of_a_judge_is_shown_as_text(store):
    scores = store.get(keys.scores(0)).decode().replace("points of progress", "<script>alert(1)</script>")
    info = RunBook(store).info(0, Stage.EVALUATE)
    store.delete([keys.commit(0, Stage.EVALUATE)])
    commit_stage(store, 0, Stage.EVALUATE, 2, [store.put(keys.scores(0), scores.encode())], info)
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
