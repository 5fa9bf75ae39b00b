"""The fleet's database: SQLite for one machine, PostgreSQL for many dispatchers.

All calls are synchronous and short; daemons make them in threads. A write on SQLite begins with
`BEGIN IMMEDIATE`, so writers queue up instead of failing half way.
"""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, create_engine, event, make_url, select, text
from sqlalchemy.exc import ArgumentError, DataError, DBAPIError, NoSuchModuleError
from sqlalchemy.orm import Session

from questloop.errors import UnavailableError, UsageError
from questloop.fleet.models import db_now

_MIGRATION_LOCK = 0x7175657374  # any number, the same for every process


class DatabaseUnavailable(UnavailableError):
    """The database does not answer."""


class Database:
    """An engine and its sessions."""

    def __init__(self, url: str, pool_size: int = 8) -> None:
        try:
            parsed = make_url(url)
            if parsed.drivername in ("postgresql", "postgres"):
                parsed = parsed.set(drivername="postgresql+psycopg")
            options: dict[str, Any] = {
                "pool_size": pool_size,
                "max_overflow": pool_size,
                "pool_pre_ping": True,
            }
            if parsed.drivername.startswith("sqlite"):
                if not parsed.database or parsed.database == ":memory:":
                    raise UsageError(
                        "DATABASE_URL: an in-memory SQLite is seen by one process only; name a file"
                    )
                Path(parsed.database).parent.mkdir(parents=True, exist_ok=True)
                options["connect_args"] = {"timeout": 30}
            self.engine = create_engine(parsed, **options)
        except (ArgumentError, NoSuchModuleError) as error:
            raise UsageError(
                f"DATABASE_URL: {error}; use sqlite:///file or postgresql://user@host/database"
            ) from None
        self.url = parsed
        self.is_sqlite = self.engine.dialect.name == "sqlite"
        if self.is_sqlite:
            _prepare_sqlite(self.engine)
        self._writer = self.engine.execution_options(questloop_write=True)

    @contextlib.contextmanager
    def read(self) -> Iterator[Session]:
        """A session for reading."""
        with _translated(), Session(self.engine, expire_on_commit=False) as session:
            yield session

    @contextlib.contextmanager
    def write(self) -> Iterator[Session]:
        """A transaction: committed at the end of the block, rolled back if it raises."""
        with _translated(), Session(self._writer, expire_on_commit=False) as session, session.begin():
            yield session

    def migrate(self) -> None:
        """Bring the schema up to date; safe when many processes do it at once."""
        from alembic import command
        from alembic.config import Config
        from alembic.migration import MigrationContext
        from alembic.script import ScriptDirectory

        config = Config()
        config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
        head = ScriptDirectory.from_config(config).get_current_head()
        with _translated(), self._migration_lock(), self._writer.connect() as connection:
            if MigrationContext.configure(connection).get_current_revision() == head:
                return
            connection.rollback()
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
            connection.commit()

    def dispose(self) -> None:
        """Close every connection."""
        self.engine.dispose()

    @contextlib.contextmanager
    def _migration_lock(self) -> Iterator[None]:
        if self.is_sqlite:
            with open(f"{self.url.database}.migrate", "w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                yield
            return
        with self.engine.connect() as connection:
            connection.execute(text("SELECT pg_advisory_lock(:key)"), {"key": _MIGRATION_LOCK})
            try:
                yield
            finally:
                connection.execute(text("SELECT pg_advisory_unlock(:key)"), {"key": _MIGRATION_LOCK})


def now(session: Session) -> datetime:
    """The database's clock: what every lease is measured by."""
    value = session.scalar(select(db_now()))
    assert value is not None
    return value


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except DataError as error:  # a text that is too long, a number out of range
        raise UsageError(f"database: {str(error.orig).strip().splitlines()[0]}") from error
    except DBAPIError as error:
        if error.connection_invalidated or type(error.orig).__name__ in (
            "OperationalError",
            "InterfaceError",
        ):
            raise DatabaseUnavailable(f"database: {str(error.orig).strip().splitlines()[0]}") from error
        raise


def _prepare_sqlite(engine: Engine) -> None:
    @event.listens_for(engine, "connect")
    def _connect(connection: Any, record: Any) -> None:
        connection.isolation_level = None  # transactions begin below, not in the driver
        for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON", "busy_timeout=30000"):
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def _begin(connection: Any) -> None:
        write = connection.get_execution_options().get("questloop_write")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")
