import base64
import io
import json

import numpy as np
from PIL import Image
from tests.web.test_app import client

from questloop.episodes.png import encode_png
from questloop.report.book import RunBook
from questloop.storage import keys
from questloop.storage.commit import commit_stage
from questloop.storage.keys import Stage


def test_trails_are_the_recorded_places_of_different_agents(store):
    answer = client(store).get("/map/trails.json").json()
    assert answer["epoch"] == 0
    assert 1 < len(answer["agents"]) <= 12
    first = answer["agents"][0]
    states = RunBook(store).reader.load(first["segment"]).states
    assert len(first["trail"]) == len(states)
    room = states[-1]["state"]["room"]
    assert first["trail"][-1] == [int(room[0]), int(room[2:], 16), *states[-1]["state"]["pos"]]


def test_tiles_are_summed_over_the_epochs_or_shown_of_one(store):
    info = RunBook(store).info(0, Stage.ROLLOUTS)
    for epoch, text in ((1, "17 3 18 1"), (2, "17 4")):
        commit_stage(store, epoch, Stage.ROLLOUTS, 1, [], info | {"tiles": {"0:21": text}})
    pages = client(store)
    assert pages.get("/map/tiles.json").json() == {"0:21": [[17, 7], [18, 1]]}
    assert pages.get("/map/tiles.json?epoch=2").json() == {"0:21": [[17, 4]]}
    assert pages.get("/map/tiles.json?epoch=9").json() == {}
    assert '<option value="2">epoch 2</option>' in pages.get("/map").text


def test_a_store_of_a_release_before_says_that_tiles_are_not_known(store):
    assert "not kept by the release" in client(store).get("/map").text


def test_living_agents_have_trails_and_screens(store):
    picture = base64.b64encode(b"\x89PNG picture").decode()
    agents = [
        {"agent": 3, "trail": [[0, 33, 8, 9]], "screen": picture},
        {"agent": 5, "trail": [], "screen": None},
    ]
    store.put(keys.agents(), json.dumps({"epoch": 1, "step": 90, "agents": agents}).encode())
    pages = client(store)
    answer = pages.get("/agents.json").json()
    assert answer["step"] == 90
    assert answer["agents"][0] == {"agent": 3, "trail": [[0, 33, 8, 9]], "screen": True}
    assert pages.get("/agents/3.png").content == b"\x89PNG picture"
    assert pages.get("/agents/5.png").status_code == 404
    assert pages.get("/agents/7.png").status_code == 404


def test_rooms_of_a_first_epoch_are_pictured_by_what_living_agents_see(store):
    screen = base64.b64encode(encode_png(np.full((144, 160), 200, np.uint16))).decode()
    agents = [
        {"agent": 0, "trail": [], "screen": screen, "pictured": [6, 77]},
        {"agent": 1, "trail": [], "screen": screen, "pictured": None},
        {"agent": 2, "trail": [], "screen": "no picture", "pictured": [6, 78]},
        {"agent": 3, "trail": [], "screen": None, "pictured": [6, 79]},
        {"agent": 4, "trail": [], "screen": screen, "pictured": [[], {}]},
        {"agent": 5, "trail": []},
    ]
    store.put(keys.agents(), json.dumps({"epoch": 0, "step": 90, "agents": agents}).encode())
    pages = client(store)
    assert pages.get("/map").status_code == 200
    found = pages.get("/rooms/6/77.png")
    assert Image.open(io.BytesIO(found.content)).size == (160, 128)
    assert [pages.get(f"/rooms/6/{room}.png").status_code for room in (78, 79)] == [404, 404]


def test_agents_that_cannot_be_read_are_none(store):
    for document in (b"", b"[]", b"\xff"):
        store.put(keys.agents(), document)
        assert client(store).get("/agents.json").json()["agents"] == []


def test_every_look_at_the_map_searches_on_for_rooms_without_a_picture(store, monkeypatch):
    monkeypatch.setattr("questloop.web.rooms.LOOKED_AT", 2)
    monkeypatch.setattr("questloop.web.rooms.LOOKED_AT_LATER", 2)
    pages = client(store)
    looks = [pages.get("/map").text.count("no picture yet") for _ in range(7)]
    assert looks == sorted(looks, reverse=True)
    whole = client(store)
    monkeypatch.setattr("questloop.web.rooms.LOOKED_AT", 100)
    assert whole.get("/map").text.count("no picture yet") == looks[-1]
