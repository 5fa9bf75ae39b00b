"""Every setting, given what people paste: read, or refused by one line that names it. No traceback."""

import pytest
from pydantic import ValidationError
from typer.testing import CliRunner

from questloop import redaction
from questloop.cli import dashboard
from questloop.cli.app import app
from questloop.errors import QuestloopError, UsageError
from questloop.game.profiles import profile_for
from questloop.game.rom import Rom
from questloop.game.start_states import load_start_states
from questloop.llm.client import ChatClient
from questloop.llm.routes import Role
from questloop.settings import GROUPS, load, secret_names
from questloop.storage.store import open_existing_store, open_store
from questloop.training.autoscale import choose_layout

LONG = 600
"""characters of one line that a person still reads"""
NUMBERS = ["-1", "0", "1e9", "1e400", "nan", "inf", "-inf", "١٢", "0x10", "1_000", "1,5", "10%", "1" * 400]
WORDS = [
    "",
    " ",
    "none",
    "null",
    "true",
    "on",
    "auto",
    "all",
    "[1]",
    "{}",
    "a,b",
    "*",
    "?",
    "#x",
    "é/ü",
    "\u202e",
]
PATHS = ["~", "~/x", "~nobody/x", "$HOME/x", "${HOME}/x", "../x", "./x/", "/dev/null", "/etc/passwd", "C:\\x"]
PATHS += ["'a b'", '"a b"', "a\tb", "x" * 300, "x" * 5000, "/".join(["x" * 200] * 40), "%00", "%zz"]
URLS = [
    "http://host:1/",
    "https://user:pw@host/x/",
    "http://",
    "http://[::1",
    "host:8000",
    "//host",
    "S3://b",
]
URLS += [
    "s3://a/b c",
    "s3://a:b@c",
    "file://",
    "file://x/y",
    "file:///x%zz",
    "sftp://h/p",
    "mysql://u:p@h/db",
]
URLS += [
    "postgres://u:p@h:port/db",
    "sqlite://",
    "sqlite+aiosqlite:///",
    "oracle+x://h",
    "nats://h:99999",
    "tls://",
]
ODD = NUMBERS + WORDS + PATHS + URLS


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(redaction, "_known", ())  # odd secrets would be hidden in other tests' messages
    open_store(str(tmp_path / "home/x"))


def refused(names, value):
    """The one line of `load`, which names each of `names` and holds no secret."""
    with pytest.raises(UsageError) as error:
        load()
    said = str(error.value)
    assert "\n" not in said
    assert len(said) < LONG * len(names), said
    for name in names:
        assert name.upper() in said
        assert name not in secret_names() or len(value) < 6 or value not in said
    return said


@pytest.mark.parametrize("group", GROUPS)
def test_every_setting_takes_or_refuses_what_people_paste(monkeypatch, group):
    for value in ODD:
        for name in group.model_fields:
            monkeypatch.setenv(name.upper(), value)
        try:
            group()
        except ValidationError as error:
            refused({str(item["loc"][0]) for item in error.errors() if item["loc"]}, value)


@pytest.mark.parametrize("name", ["EPISODE_S", "HINT_INTERVAL_S", "MINIBATCH_SIZE", "BATCH_SIZE", "SIL_COEF"])
def test_settings_that_follow_from_one_another_take_or_refuse_it_too(monkeypatch, name):
    for value in ODD:
        monkeypatch.setenv(name, value)
        try:
            load()
        except UsageError:
            refused({name.lower()}, value)


def game(settings):
    rom = Rom.load(settings.game.rom_path)
    profile = profile_for(rom, settings.game.guide, settings.game.game_profile)
    load_start_states(rom, profile, settings.game.start_states)


def llm(settings):
    client = ChatClient(settings.llm, "http://127.0.0.1:1/v1")
    for role in Role:
        client.route(role)


FIRST = {
    "ROM_PATH": game,
    "GAME_PROFILE": game,
    "START_STATES": game,
    "GUIDE": game,
    "STORE_URL": lambda settings: list(open_existing_store(settings.store).list()),
    "LLM_ENDPOINT": llm,
    "LLM_CA_BUNDLE": llm,
    "LLM_GATEWAY_URL": llm,
    "LLM_NAMESPACE": llm,
    "RAY_WORKERS": lambda settings: choose_layout(settings.training, 2, 4000),
    "ENVS_PER_WORKER": lambda settings: choose_layout(settings.training, 2, 4000),
    "DATABASE_URL": lambda settings: dashboard._fleet(settings),
}
"""what a command does first with a setting that loads"""


@pytest.mark.slow
@pytest.mark.parametrize("name", FIRST)
def test_what_loads_is_used_or_refused_by_the_first_that_needs_it(monkeypatch, name):
    also = {"LLM_GATEWAY_URL": {"LLM_BACKEND": "gateway"}, "LLM_NAMESPACE": {"LLM_BACKEND": "direct"}}
    for other, value in also.get(name, {}).items():
        monkeypatch.setenv(other, value)
    for value in ODD:
        monkeypatch.setenv(name, value)
        if value.strip() == "" or value.startswith("s3://"):
            continue
        try:
            FIRST[name](load())
        except QuestloopError as error:
            said = str(error)
            assert "\n" not in said
            assert len(said) < 2 * LONG + 2 * len(value), said
            assert any(word in said.lower() for word in MEANT.get(name, (name.lower(),))), (value, said)


MEANT = {
    "STORE_URL": ("store",),
    "ROM_PATH": ("rom",),
    "GUIDE": ("guide",),
    "GAME_PROFILE": ("profile",),
    "START_STATES": ("start_states", "start state"),
}
"""how an error names the setting where it speaks of what the setting names"""

COMMANDS = [
    ("STORE_URL", ["verify"]),
    ("STORE_URL", ["evaluate"]),
    ("EPOCH", ["reward-model"]),
    ("S3_ENDPOINT_URL", ["report"]),
    ("DATABASE_URL", ["fleet", "jobs"]),
]


@pytest.mark.long
@pytest.mark.parametrize(("name", "command"), COMMANDS, ids=str)
def test_no_command_ends_in_a_traceback(monkeypatch, name, command):
    runner = CliRunner()
    for value in ODD:
        if value.startswith(("postgres", "s3://", "http://host", "https://user")):  # a network, and its time
            continue
        monkeypatch.setenv(name, value)
        error = runner.invoke(app, command).exception
        assert error is None or isinstance(error, QuestloopError | SystemExit), (value, error)


def test_quotes_and_a_home_are_of_a_shell_that_did_not_read_them(monkeypatch, tmp_path):
    monkeypatch.setenv("STORE_URL", '"~/runs"')
    assert load().store.url == str(tmp_path / "home/runs")
    monkeypatch.setenv("LLM_MODEL_STATE", "'a b'")
    assert load().llm.llm_model_state == "a b"
