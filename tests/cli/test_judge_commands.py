import json
import os
import signal
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest
from tests.pipeline.playing import play
from typer.testing import CliRunner

from questloop.cli import doctor
from questloop.cli.app import app
from questloop.serving.server import LocalServer
from questloop.storage.store import open_store


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("played"))
    play(open_store(folder), slots=3, steps=600)
    return folder


def start(*arguments):
    command = [sys.executable, "-m", "questloop.cli.app", *arguments]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )


def stop(process):
    process.send_signal(signal.SIGTERM)
    return process.communicate(timeout=60)


def test_compare_prints_json(url):
    result = CliRunner().invoke(app, ["judge", "compare", "--store", url, "--pairs", "5", "--json"])
    assert result.exit_code == 0, result.output
    summary = json.loads(result.stdout)
    assert (summary["pairs"], summary["valid"], summary["model"]) == (5, 5, "rule-based-state")


@pytest.mark.slow
def test_serve_says_how_to_use_it_and_ends_on_sigterm():
    process = start("judge", "serve", "--port", "0")
    lines = [process.stdout.readline() for _ in range(2)]
    try:
        settings = dict(part.split("=", 1) for part in lines[1].split()[1:])
        names = [item["id"] for item in httpx.get(f"{settings['LLM_ENDPOINT']}/models").json()["data"]]
        assert settings["LLM_MODEL_STATE"] in names
    finally:
        stop(process)
    assert process.returncode == 0


def judge_checks():
    result = CliRunner().invoke(app, ["doctor", "--steps", "200", "--json"])
    return {check["name"]: check for check in json.loads(result.stdout)["checks"] if "judge" in check["name"]}


def test_doctor_names_the_judges_and_what_is_wrong_with_them(monkeypatch):
    monkeypatch.setattr(doctor, "CHECKS", [check for check in doctor.CHECKS if check[0] == "judges"])
    assert judge_checks() == {"judges": {"name": "judges", "ok": True, "detail": "rule-based, embedded"}}
    with LocalServer() as server:
        monkeypatch.setenv("LLM_ENDPOINT", server.url)
        monkeypatch.setenv("LLM_MODEL_STATE", "rule-based-state")
        found = judge_checks()
    assert found["judge state"]["ok"]
    assert "set LLM_MODEL_PUZZLE to one of" in found["judge puzzle"]["detail"]
    assert "cannot connect" in judge_checks()["judge state"]["detail"]


class WithoutModels(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(b'{"object": "list", "data": []}')

    def log_message(self, *_):
        pass


def test_doctor_says_so_where_a_server_offers_no_model(monkeypatch):
    monkeypatch.setattr(doctor, "CHECKS", [check for check in doctor.CHECKS if check[0] == "judges"])
    with ThreadingHTTPServer(("127.0.0.1", 0), WithoutModels) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("LLM_ENDPOINT", f"http://127.0.0.1:{server.server_port}/v1")
        found = judge_checks()
        server.shutdown()
    assert found["judge state"]["detail"].endswith("the server lists no models: load one there")
