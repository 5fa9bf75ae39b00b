"""The local server in a process that has other things to do."""

import logging

import httpx
from fastapi import FastAPI

from questloop.serving.background import AppServer


def test_log_handlers_of_others_stay_open():
    closed = []

    class Handler(logging.Handler):
        def close(self):
            closed.append(self)
            super().close()

    handler = Handler()
    try:
        with AppServer(FastAPI()) as server:
            assert httpx.get(server.root_url).status_code == 404
        assert closed == []
    finally:
        handler.close()


def test_a_request_that_fails_is_logged_without_a_configuration(caplog):
    app = FastAPI()

    @app.get("/")
    def fail():
        raise RuntimeError("on purpose")

    with AppServer(app) as server:
        assert httpx.get(server.root_url).status_code == 500
    assert "on purpose" in caplog.text
