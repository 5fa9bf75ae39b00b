"""Settings: precedence, parsing and error messages."""

from pathlib import Path

import pytest

from questloop import settings
from questloop.errors import UsageError
from questloop.setting_types import check_environment
from questloop.settings import LLMBackend


def test_contract_defaults(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    loaded = settings.load()
    assert loaded.loop.epoch_steps == 300_000
    assert loaded.training.batch_size == 4096
    assert loaded.training.ray_workers == "auto"
    assert loaded.store.url == "runs/store"
    assert loaded.llm.backend is LLMBackend.EMBEDDED


def test_flags_beat_environment_beats_toml(monkeypatch, tmp_path):
    config = tmp_path / "q.toml"
    config.write_text("SEED = 1\nEPOCH_STEPS = 10\nbatch_size = 1024\n")
    monkeypatch.setenv("SEED", "2")
    loaded = settings.load(config, {"epoch_steps": 30})
    assert (loaded.loop.seed, loaded.loop.epoch_steps, loaded.training.batch_size) == (2, 30, 1024)


def test_environment_beats_dotenv_beats_toml_beats_a_commands_defaults(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env").write_text("SEED=5\nEPOCH_STEPS=50\n")
    config = tmp_path / "q.toml"
    config.write_text("EPOCH_STEPS = 40\nbatch_size = 1024\n")
    monkeypatch.setenv("SEED", "6")
    loaded = settings.load(config, {}, {"batch_size": 2048, "epoch_steps": 30, "seed": 3, "lr": 0.5})
    assert loaded.loop.seed == 6
    assert loaded.loop.epoch_steps == 50
    assert loaded.training.batch_size == 1024
    assert loaded.training.lr == 0.5


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("EPOCH_STEPS", "many"),
        ("JUDGE_VOTES", "0"),
        ("OBSERVATION", "audio"),
        ("RAY_WORKERS", "-1"),
        ("BATCH_SIZE", "1000"),
        ("SIL_COEF", "-1"),
    ],
)
def test_a_wrong_setting_names_variable_and_value(monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match=name) as caught:
        settings.load()
    assert value in str(caught.value)
    assert "\n" not in str(caught.value)


def test_unknown_toml_setting_is_refused(tmp_path: Path):
    config = tmp_path / "q.toml"
    config.write_text("EPOCH_STEP = 10\n")
    with pytest.raises(UsageError, match="epoch_step"):
        settings.load(config)


@pytest.mark.parametrize(
    ("environment", "backend"),
    [
        ({"LLM_ENDPOINT": "http://127.0.0.1:1/v1"}, LLMBackend.ENDPOINT),
        ({"LLM_NAMESPACE": "zelda-rl"}, LLMBackend.DIRECT),
        ({"LLM_NAMESPACE": "zelda-rl", "LLM_USE_DIRECT": "false"}, LLMBackend.GATEWAY),
        ({"LLM_NAMESPACE": "zelda-rl", "LLM_BACKEND": "embedded"}, LLMBackend.EMBEDDED),
    ],
)
def test_backend_follows_what_is_set(monkeypatch, environment, backend):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert settings.load().llm.backend is backend


def test_secrets_do_not_print(monkeypatch):
    monkeypatch.setenv("S3_SECRET_ACCESS_KEY", "hunter2")
    loaded = settings.load()
    assert loaded.store.s3_secret_key is not None
    assert loaded.store.s3_secret_key.get_secret_value() == "hunter2"
    assert "hunter2" not in repr(loaded.store)


@pytest.mark.parametrize("frame_skip", [4, 8, 16])
def test_time_is_set_in_seconds_of_the_game_or_in_steps(frame_skip):
    """The same seconds are the same frames at every FRAME_SKIP; the names in steps go on to work."""
    skip = {"frame_skip": frame_skip}
    timed = settings.load(None, {"episode_s": 32, "hint_interval_s": 8} | skip)
    assert timed.game.episode_length * frame_skip == 32 * 60
    assert timed.exploration.hint_interval * frame_skip == 8 * 60
    stepped = settings.load(None, {"episode_length": 200, "hint_interval": 50} | skip)
    assert (stepped.game.episode_length, stepped.exploration.hint_interval) == (200, 50)
    off = settings.load(None, {"hint_interval": 50, "hint_interval_s": 0} | skip)
    assert off.exploration.hint_interval == 0
    assert settings.load(None, {"episode_s": 0.001, "hint_interval_s": 0.001} | skip).game.episode_length == 1


@pytest.mark.parametrize("name", ["EPISODE_S", "HINT_INTERVAL_S"])
def test_seconds_that_are_none_are_refused_by_name(monkeypatch, name):
    monkeypatch.setenv(name, "-1")
    with pytest.raises(UsageError, match=name):
        settings.load()


@pytest.fixture
def dotenv(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    settings.warn_once.cache_clear()
    return tmp_path / ".env"


@pytest.mark.parametrize(
    ("written", "meant"),
    [("EPOCH_STEP", "EPOCH_STEPS"), ("ray_worker", "RAY_WORKERS"), ("S3_SECRET_KEYS", "S3_SECRET_KEY")],
)
def test_a_misspelt_name_in_dotenv_is_told_once_with_its_line_and_the_nearest(dotenv, capsys, written, meant):
    dotenv.write_text(f"# mine\n\nSEED=5\nexport {written}=3\nHF_HOME=/cache\nAWS_PROFILE=me\n")
    assert settings.load().loop.seed == 5
    settings.load()
    told = capsys.readouterr().err
    assert told.splitlines() == [
        f"warning: .env, line 4: {written} is no setting and does nothing (did you mean {meant}?)"
    ]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("EPOCH_STEP", "EPOCH_STEPS"),
        ("EPOCHSTEPS", "EPOCH_STEPS"),
        ("ray_wrokers", "RAY_WORKERS"),
        ("SHAPING_COEFF", "SHAPING_COEF"),
        ("FRAME_SKOP", "FRAME_SKIP"),
    ],
)
def test_a_misspelt_name_in_the_environment_is_told_once_with_the_nearest(
    dotenv, monkeypatch, capsys, written, meant
):
    monkeypatch.setenv(written, "3")
    settings.load()
    settings.load()
    assert capsys.readouterr().err.splitlines() == [
        f"warning: environment: {written} is no setting and does nothing (did you mean {meant}?)"
    ]


OTHERS = """
PATH HOME LANG LC_ALL TERM SHELL USER LOGNAME HOSTNAME PWD OLDPWD SHLVL EDITOR PAGER DISPLAY
TMPDIR TZ MAIL COLUMNS LINES PS1 SSH_AUTH_SOCK SSH_CONNECTION XDG_RUNTIME_DIR DBUS_SESSION_BUS_ADDRESS
VIRTUAL_ENV CONDA_PREFIX PYTHONPATH PIP_CACHE_DIR LD_LIBRARY_PATH CUDA_VISIBLE_DEVICES HF_HOME HF_TOKEN
RAY_ADDRESS RAY_TMPDIR WANDB_MODE EPOCHS BATCHSIZES LOGDIR LOG_LEVEL DATABASE_URI REDIS_URL NATS_URLS
S3_ENDPOINT S3_ACCESS_KEYS AWS_REGION AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY KUBERNETES_SERVICE_HOST CI
GITHUB_ACTIONS GITHUB_TOKEN METRICS_PATH PORT HOST HTTP_PROXY NO_PROXY OPENAI_API_KEY LLM_MODEL
OMP_NUM_THREADS MALLOC_ARENA_MAX PYTEST_CURRENT_TEST SEEDS MAX_RETRY TIMEOUT_S
"""


def test_what_other_programs_have_in_the_environment_is_left_alone():
    known = settings.known_names() | settings.secret_names()
    assert check_environment(OTHERS.split(), known) == []
    assert check_environment([name.upper() for name in known], known) == []


def test_every_name_of_a_setting_is_known_in_dotenv(dotenv, capsys):
    names = settings.known_names() | settings.secret_names()
    dotenv.write_text("".join(f"{name.upper()}=\n" for name in sorted(names)))
    settings.load()
    assert not capsys.readouterr().err


@pytest.mark.parametrize("broken", ["EPOCH_STEPS 100", "EPOCH_STEPS", "=5", "SEED='5", 'SEED="5" 6', "a: b"])
@pytest.mark.parametrize("before", ["", "\n\n", "SEED=1\n# more\n", 'GUIDE="two\nlines"\n'])
def test_a_broken_line_in_dotenv_is_an_error_with_file_and_line(dotenv, capsys, broken, before):
    dotenv.write_text(f"{before}{broken}\nLR=0.1\n")
    line = before.count("\n") + 1
    with pytest.raises(UsageError, match=rf"^\.env, line {line}: not NAME=value"):
        settings.load()
    assert not capsys.readouterr().err


def test_a_dotenv_that_is_no_text_is_an_error(dotenv):
    dotenv.write_bytes(b"SEED=1\n\xff\xfe")
    with pytest.raises(UsageError, match=r"\.env: not UTF-8"):
        settings.load()


def test_an_unknown_toml_setting_is_named_with_the_nearest(tmp_path):
    config = tmp_path / "q.toml"
    config.write_text("EPOCH_STEP = 10\nwholly_other = 1\n")
    with pytest.raises(UsageError, match=r"epoch_step \(did you mean EPOCH_STEPS\?\), wholly_other;"):
        settings.load(config)


@pytest.mark.parametrize(
    ("name", "value"), [("RAY_WORKERS", "some"), ("DASHBOARD_TOKEN", "é"), ("LR", "fast")]
)
def test_a_message_about_a_setting_has_nothing_of_a_librarys_exception(monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    with pytest.raises(UsageError) as caught:
        settings.load()
    assert "error," not in str(caught.value)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("true", "guide"),
        ("False", "off"),
        ("1", "guide"),
        ("judges", "judges"),
        ("no", "off"),
        ("T", "guide"),
        ("f", "off"),
    ],
)
def test_whose_aims_was_on_or_off_once(monkeypatch, written, read):
    monkeypatch.setenv("AIMS", written)
    assert settings.load().exploration.aims == read


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ("EPOCH_STEPS=8k", ".env, line 2: EPOCH_STEPS='8k': not a whole number"),
        ("LR=fast", ".env, line 2: LR='fast': not a number"),
        ("PLANNER=maybe", ".env, line 2: PLANNER='maybe': neither on nor off"),
        ("FRAME_SKIP=61", ".env, line 2: FRAME_SKIP='61': must be less than or equal to 60"),
    ],
)
def test_a_wrong_value_is_told_with_its_place_and_in_plain_words(tmp_path, monkeypatch, written, says):
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env").write_text(f"\n{written}\n")
    with pytest.raises(UsageError) as told:
        settings.load()
    assert str(told.value) == says
    name, value = written.split("=")
    monkeypatch.setenv(name, value)
    with pytest.raises(UsageError) as told:
        settings.load()
    assert str(told.value) == says.partition("line 2: ")[2], "the environment decides"


def test_a_wrong_value_of_a_toml_file_is_told_with_the_file(tmp_path):
    config = tmp_path / "run.toml"
    config.write_text("epoch_steps = 1.5\n")
    with pytest.raises(UsageError) as told:
        settings.load(config)
    assert str(told.value) == f"--config {config}: EPOCH_STEPS=1.5: not a whole number"
