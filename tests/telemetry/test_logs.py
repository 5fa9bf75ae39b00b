import io
import json
import logging

import pytest
import structlog

from questloop.telemetry import logs


@pytest.fixture
def lines():
    """What is logged, read as JSON lines; the set-up of other tests is put back."""
    out = io.StringIO()
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    logs.configure(stream=out)
    yield lambda: [json.loads(line) for line in out.getvalue().splitlines()]
    structlog.reset_defaults()
    root.handlers[:] = before
    root.setLevel(level)


def test_lines_are_json_with_ids(lines):
    log = structlog.get_logger("questloop.test")
    with logs.context(run="r1", epoch=3):
        log.info("segment exported", segment="s1")
    log.info("after")
    first, second = lines()
    assert (first["event"], first["run"], first["epoch"], first["segment"]) == (
        "segment exported",
        "r1",
        3,
        "s1",
    )
    assert first["level"] == "info"
    assert first["timestamp"].endswith("Z")
    assert "run" not in second


def test_secrets_are_hidden(lines):
    structlog.get_logger().warning("opened", s3_secret_key="hunter2", llm_api_key="hunter2", url="x")
    assert "hunter2" not in json.dumps(lines())
    assert lines()[0]["url"] == "x"


def test_the_standard_library_goes_the_same_way(lines):
    with logs.context(job="j1"):
        logging.getLogger("asyncssh").warning("lost %s", "it")
    assert (lines()[0]["event"], lines()[0]["job"], lines()[0]["level"]) == ("lost it", "j1", "warning")


def test_levels_and_errors(lines):
    log = structlog.get_logger()
    log.debug("unseen")
    try:
        raise ValueError("broken")
    except ValueError:
        log.exception("failed")
    (line,) = lines()
    assert "ValueError: broken" in line["exception"]


def test_a_terminal_gets_lines_for_a_person():
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    out = Terminal()
    logs.configure(stream=out)
    structlog.get_logger().info("hello", epoch=1)
    structlog.reset_defaults()
    logging.getLogger().handlers.clear()
    assert "hello" in out.getvalue()
    assert not out.getvalue().startswith("{")
