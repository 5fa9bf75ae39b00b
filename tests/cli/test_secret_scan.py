"""Commands that fail, with marked secrets in every setting: none is printed, logged or stored."""

import asyncio
import shutil
import threading
from contextlib import contextmanager

import pytest
from tests.pipeline.playing import play
from tests.serving.hostile import Act, hostile

from questloop.cli import app
from questloop.storage.store import open_store

MARK = "marked-0451"
SECRETS = {
    "LLM_API_KEY": f"llm-{MARK}\n",
    "S3_ACCESS_KEY": f"access-{MARK}",
    "S3_SECRET_KEY": f" secret-{MARK}\n",
    "DASHBOARD_TOKEN": f"dashboard-{MARK}",
    "DATABASE_URL": f"postgresql://me:db-{MARK}@127.0.0.1:9/fleet",
    "NATS_URL": f"nats://nats-{MARK}@127.0.0.1:9",
    "HTTP_PROXY": f"http://me:proxy-{MARK}@127.0.0.1:9",
    "AWS_SESSION_TOKEN": f"aws-{MARK}",
}
"""All set in every case; MARK is what is searched for"""


@contextmanager
def served(act):
    """The hostile server in a thread; `{server}` of a case's settings."""
    ready, stop, found = threading.Event(), threading.Event(), []

    async def run():
        async with hostile(lambda *_: act, lambda body, index: {"overall": 0.5}) as server:
            found.append(server.url)
            ready.set()
            await asyncio.to_thread(stop.wait)

    thread = threading.Thread(target=lambda: asyncio.run(run()))
    thread.start()
    assert ready.wait(30)
    try:
        yield found[0]
    finally:
        stop.set()
        thread.join()


EVALUATE = ["evaluate", "--store", "store", "--budget", "2"]
CASES = {
    "a server that repeats the key": (EVALUATE, {"LLM_ENDPOINT": "{login}"}),
    "a server that fails": (EVALUATE, {"LLM_ENDPOINT": "{error}"}),
    "a used-up quota": (EVALUATE, {"LLM_ENDPOINT": "{quota}"}),
    "a user and a password": (EVALUATE, {"LLM_ENDPOINT": f"http://me:word-{MARK}@127.0.0.1:9/v1"}),
    "a key in the query": (EVALUATE, {"LLM_ENDPOINT": f"http://127.0.0.1:9/v1?api_key=word-{MARK}"}),
    "a port that is none": (EVALUATE, {"LLM_ENDPOINT": f"http://me:word-{MARK}@host:port/v1"}),
    "a proxy that is away": (EVALUATE, {"LLM_ENDPOINT": "http://judge.example/v1"}),
    "a key that no header holds": (EVALUATE, {"LLM_API_KEY": f"a\u2013{MARK}", "LLM_ENDPOINT": "{login}"}),
    "a bundle that is none": (EVALUATE, {"LLM_CA_BUNDLE": "/nothing", "LLM_ENDPOINT": "{login}"}),
    "a store that is away": (["verify", "s3://one"], {"S3_ENDPOINT_URL": "http://127.0.0.1:9"}),
    "a store that is none": (["verify", "s3://one"], {"S3_ENDPOINT_URL": "{login}"}),
    "keys in the store's address": (["verify", f"s3://me:word-{MARK}@one"], {}),
    "keys in the server's address": (
        ["verify", "s3://one"],
        {"S3_ENDPOINT_URL": f"http://me:{MARK}@127.0.0.1:9"},
    ),
    "a database that is away": (["fleet", "jobs"], {}),
    "a database's port that is none": (
        ["fleet", "jobs"],
        {"DATABASE_URL": f"postgresql://me:{MARK}@host:port/f"},
    ),
    "a database of no kind": (["fleet", "jobs"], {"DATABASE_URL": f"nosuch://me:{MARK}@host/f"}),
    "a setting that is none": (["verify", "store"], {"JUDGE_BUDGET": "many"}),
}


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    folder = tmp_path_factory.mktemp("played")
    play(open_store(str(folder)), slots=2, steps=600)
    return folder


@pytest.fixture(scope="module")
def servers():
    with served(Act.LOGIN) as login, served(Act.ERROR) as error, served(Act.QUOTA) as quota:
        yield {"login": login, "error": error, "quota": quota}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_no_secret_is_said_or_kept(case, played, servers, tmp_path, monkeypatch, capfd):
    arguments, changed = CASES[case]
    shutil.copytree(played, tmp_path / "store")
    monkeypatch.chdir(tmp_path)
    for name, value in (SECRETS | changed).items():
        monkeypatch.setenv(name, value.format(**servers) if "{" in value else value)
    monkeypatch.setattr("sys.argv", ["questloop", *arguments])
    with pytest.raises(SystemExit) as ended:
        app.main()
    out, err = capfd.readouterr()
    assert ended.value.code not in (0, None)
    assert MARK not in out + err
    assert "Traceback" not in err
    assert sum(line.startswith("error: ") for line in err.splitlines()) == 1, err
    kept = [path for path in tmp_path.rglob("*") if path.is_file() and MARK.encode() in path.read_bytes()]
    assert not kept
