import io
import json
import logging
import subprocess
import sys

import pytest
import structlog

from questloop.telemetry import logs


@pytest.fixture(autouse=True)
def _put_back():
    """Other tests see logging as it was."""
    root = logging.getLogger()
    handlers, level, config = list(root.handlers), root.level, structlog.get_config()
    yield
    structlog.configure(**config)
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture
def lines():
    """What is logged, read as JSON lines."""
    out = io.StringIO()
    logs.configure(stream=out)
    return lambda: [json.loads(line) for line in out.getvalue().splitlines()]


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
    assert "hello" in out.getvalue()
    assert not out.getvalue().startswith("{")


def test_a_later_standard_error_is_used(capsys):
    logs.configure()
    capsys.readouterr()
    structlog.get_logger().info("one")
    logging.getLogger("x").warning("two")
    assert [json.loads(line)["event"] for line in capsys.readouterr().err.splitlines()] == ["one", "two"]


def test_a_program_that_set_nothing_up_keeps_its_standard_output(capsys):
    structlog.reset_defaults()
    logs.get_logger("x").info("one")
    said = capsys.readouterr()
    assert said.out == ""
    assert json.loads(said.err)["event"] == "one"


def test_structlog_is_imported_at_the_first_line():
    program = (
        "import sys; from questloop.telemetry import logs; logs.configure(); log = logs.get_logger('x');"
        "before = 'structlog' in sys.modules; log.bind(a=1).warning('one', b=2); import logging;"
        "logging.getLogger('y').warning('two'); print(before, 'structlog' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "False True\n", done.stderr
    first, second = map(json.loads, done.stderr.splitlines())
    assert (first["event"], first["a"], first["b"], second["event"]) == ("one", 1, 2, "two")
