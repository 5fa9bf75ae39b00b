import itertools
import os

import pytest

from questloop.storage.store import open_store

_names = itertools.count()


@pytest.fixture(
    params=[
        "folder",
        pytest.param("s3 one bucket", marks=pytest.mark.integration),
        pytest.param("s3 bucket a prefix", marks=pytest.mark.integration),
    ]
)
def store(request, tmp_path):
    """Every kind of store; the S3 server outlives a test."""
    if request.param == "folder":
        return open_store(str(tmp_path / "store"))
    server = request.getfixturevalue("s3_server")
    return open_store(server.settings("s3://one/some/prefix" if "one" in request.param else "s3://"))


@pytest.fixture(params=["folder", pytest.param("s3", marks=pytest.mark.integration)])
def empty_store(request, tmp_path):
    """A store with nothing in it."""
    if request.param == "folder":
        return open_store(str(tmp_path / "store"))
    server = request.getfixturevalue("s3_server")
    return open_store(server.settings(f"s3://one/empty-{os.getpid()}-{next(_names)}"))


@pytest.fixture
def here():
    """A folder of the store that no other test uses."""
    return f"zelda-models/test-{os.getpid()}-{next(_names)}"
