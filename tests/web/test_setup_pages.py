import json
import re

import pytest
from fastapi.testclient import TestClient

from questloop.episodes.session import MOST_NOTES, note_session, read_sessions, setting_values
from questloop.setting_types import Origin
from questloop.settings import load
from questloop.storage import keys
from questloop.storage.store import open_store
from questloop.web.app import build_app

SECRET = {"Authorization": "Bearer secret"}


def client(store, **flags):
    return TestClient(build_app(store, load(flags={"store_url": store.url, **flags})))


def test_every_setting_has_its_origin(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env").write_text("CLIP=0.3\nLR=0.1\n")
    (tmp_path / "run.toml").write_text("gamma = 0.9\nclip = 0.4\n")
    monkeypatch.setenv("LR", "0.01")
    monkeypatch.setenv("S3_ACCESS_KEY_ID", "a-key-of-mine")
    settings = load(tmp_path / "run.toml", {"seed": 3, "epoch": None}, {"gamma": 0.5, "planner": True})
    found = {each.name: each for each in setting_values(settings)}
    assert {name: (found[name].value, found[name].origin) for name in ("SEED", "LR", "CLIP", "GAMMA")} == {
        "SEED": ("3", Origin.OPTION),
        "LR": ("0.01", Origin.ENVIRONMENT),
        "CLIP": ("0.3", Origin.DOTENV),
        "GAMMA": ("0.9", Origin.FILE),
    }
    assert (found["PLANNER"].value, found["PLANNER"].origin) == ("on", Origin.PRESET)
    assert (found["EPOCH"].value, found["EPOCH"].origin) == ("0", Origin.DEFAULT)
    assert (found["S3_ACCESS_KEY"].value, found["S3_ACCESS_KEY"].origin) == ("set", Origin.ENVIRONMENT)


def test_no_secret_reaches_the_store(tmp_path):
    store = open_store(str(tmp_path))
    secrets = {
        "llm_api_key": "key-8w7e6r5t",
        "s3_secret_key": "key-1q2w3e4r",
        "llm_endpoint": "http://me:word-5z6u@host:1/v1?token=tok-7i8o",
        "database_url": "postgresql://u:pass-4r5t@db/q",
    }
    note_session(store, load(flags=secrets), 4)
    written = store.get(keys.session(4)).decode()
    for secret in ("8w7e6r5t", "1q2w3e4r", "5z6u", "7i8o", "4r5t"):
        assert secret not in written
    assert read_sessions(store)[0].fence == 4


def test_the_page_shows_what_differs_where_it_comes_from_and_the_machine(store):
    text = client(store).get("/run").text
    differing = text.partition("What differs from the defaults")[2].partition("All settings")[0]
    assert ">STORE_URL</code>" in differing
    assert "GAMMA</code>" not in differing
    assert "option" in differing
    assert re.search(r"<dt>cores</dt><dd>\d+</dd>", text)
    assert re.search(r"<dt>torch</dt><dd>\d", text)
    assert text.count("<details") >= 10


def test_what_changed_between_two_starts_is_said(store):
    first = read_sessions(store)[0]
    note_session(store, load(flags={"store_url": store.url, "lr": 0.25}), first.fence + 1)
    text = client(store).get("/run").text
    assert "started 2 times" in text
    assert re.search(r"learning rate of Adam \(<code>LR</code>\) from \S+ to 0.25", text)
    assert "0.25" not in client(store).get(f"/run?session={first.fence}").text.partition("<main")[2]


def test_a_store_of_a_release_before_says_that_settings_are_not_known(store):
    store.delete([entry.key for entry in store.list(keys.sessions_prefix())])
    assert "the release that wrote this store did not keep them" in client(store).get("/run").text
    store.put(keys.session(1), b"{}")
    broken = client(store).get("/run")
    assert broken.status_code == 404
    assert "sessions/000001.json" in broken.text


@pytest.mark.parametrize(
    ("token", "headers", "text", "status"),
    [
        (None, SECRET, "a", 403),
        ("secret", {}, "a", 401),
        ("secret", SECRET, "a" * (MOST_NOTES + 1), 422),
        ("secret", SECRET, 7, 422),
    ],
)
def test_notes_are_refused_without_the_token_and_without_bounds(store, token, headers, text, status):
    pages = client(store, dashboard_token=token)
    assert pages.post("/run/notes", json={"text": text}, headers=headers).status_code == status
    with pytest.raises(Exception, match="notes"):
        store.get(keys.notes())


def test_notes_are_kept_and_shown_as_text(store):
    pages = client(store, dashboard_token="secret")
    text = "<script>alert(1)</script>\nsecond line"
    assert pages.post("/run/notes", json={"text": text}, headers=SECRET).status_code == 200
    for shown in (pages.get("/run").text, client(store).get("/run").text):
        assert "&lt;script&gt;alert(1)&lt;/script&gt;\nsecond line" in shown
        assert "<script>alert" not in shown
    store.put(keys.notes(), json.dumps({"text": 3}).encode())
    assert client(store).get("/run").status_code == 200
