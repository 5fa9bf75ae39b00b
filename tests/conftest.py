"""Tests see no setting of the machine they run on."""

import os

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
