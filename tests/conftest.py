"""Tests see no setting of the machine they run on."""

import os
import signal
from pathlib import Path

import hypothesis
import pytest
from tests import services

from questloop import settings

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("PYTHONWARNINGS", "ignore:Using SDL2 binaries:UserWarning")

# The same examples every time, so that a change is what makes a test fail; FUZZ=1 looks for new ones.
hypothesis.settings.register_profile(
    "busy machine",
    deadline=None,
    derandomize="FUZZ" not in os.environ,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("busy machine")


TESTS = Path(__file__).parent
TEARDOWN_S = 300
LONGEST = (
    *("integration/test_loop.py", "reward_model/test_train.py", "training/test_trainer.py"),
    *("fleet/test_dispatcher.py", "grpo/test_train.py", "pipeline/test_audit.py", "docs/test_scripts.py"),
    *("web/test_app.py", "report/test_films.py", "cli/test_verify.py", "training/test_imitation.py"),
    *("cli/test_game_commands.py", "training/test_learner.py", "integration/test_killed_export.py"),
)


def pytest_collection_modifyitems(items):
    """The files that take longest first: a file runs in one process, and none of them shall begin last."""
    rank = {TESTS / name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: rank.get(item.path, len(rank)))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item):
    """A net under hangs of its own: pytest-timeout takes down the one of a test that has failed."""

    def hang(*_):
        pytest.fail(f"the teardown took more than {TEARDOWN_S} s")

    before = signal.signal(signal.SIGALRM, hang)
    signal.setitimer(signal.ITIMER_REAL, TEARDOWN_S, TEARDOWN_S / 10)  # again for the next fixture
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.fixture(autouse=True)
def _no_ambient_settings(monkeypatch):
    names = settings.known_names() | {"s3_access_key_id", "s3_secret_access_key"}
    for name in list(os.environ):
        if name.lower() in names:
            monkeypatch.delenv(name)


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory):
    """A real S3 server (SeaweedFS); tests that use it are marked `integration`."""
    with services.s3_server(tmp_path_factory.mktemp("s3")) as server:
        yield server
