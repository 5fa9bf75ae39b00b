"""The fleet's database: SQLite for one machine, PostgreSQL for many dispatchers.

All calls are synchronous and short; daemons make them in threads. A write on SQLite begins with
`BEGIN IMMEDIATE`, so writers queue up instead of failing half way.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, inspect, make_url, select, text
from sqlalchemy.exc import (
    ArgumentError,
    DataError,
    DBAPIError,
    DisconnectionError,
    InterfaceError,
    InternalError,
    NoSuchModuleError,
    OperationalError,
    StatementError,
)
from sqlalchemy.orm import Session

from questloop.errors import QuestloopError, UnavailableError, UsageError
from questloop.fleet.models import db_now

HEAD = "0003"  # the newest revision in migrations/versions; a test compares the two
_MIGRATION_LOCK = 0x7175657374  # any number, the same for every process
_READ_ONLY = "25006"  # PostgreSQL's code; a server that fails over says it for a while
# A session that met one of these is of no use any more: its server is not the primary, or has ended it.
_SESSION_OVER = {_READ_ONLY, "25P03", "57P01", "57P02", "57P03", "57P04", "57P05"}


class DatabaseUnavailable(UnavailableError):
    """The database does not answer, or takes no writes for now."""


class DatabaseError(QuestloopError):
    """The database refused what it was asked, or its file is damaged."""


_REMEDIES = {
    "is locked": "another program keeps writing to it: `fuser -v` on the file names it; try again",
    "no such table": "its file was removed or replaced: put it back, or let `questloop fleet jobs` begin one",
    "is full": "make room on its disk",
    "malformed": "its file is damaged: stop the daemons and put a copy back, or `sqlite3 FILE .recover` it",
    "is not a database": "DATABASE_URL names a file of another kind",
}
_USE = "use sqlite:///file or postgresql://user@host/database"
_DRIVERS = {
    "postgres": "postgresql+psycopg",
    "postgresql": "postgresql+psycopg",
    "sqlite": "sqlite",
}


def _parsed(url: str) -> URL:
    """DATABASE_URL with the driver that we have, whichever another program was told to use."""
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError) as error:  # the latter: a bad port
        raise UsageError(f"DATABASE_URL: {error}; {_USE}") from None
    backend = parsed.drivername.partition("+")[0]
    return parsed.set(drivername=_DRIVERS[backend]) if backend in _DRIVERS else parsed


def is_absent(url: str) -> bool:
    """Whether DATABASE_URL names an SQLite file that is not there."""
    parsed = _parsed(url)
    return parsed.drivername == "sqlite" and not Path(parsed.database or "").exists()


class Database:
    """An engine and its sessions."""

    def __init__(self, url: str, pool_size: int = 8) -> None:
        try:
            parsed = _parsed(url)
            options: dict[str, Any] = {
                "pool_size": pool_size,
                "max_overflow": pool_size,
                "pool_pre_ping": True,
                "hide_parameters": True,  # what jobs are told is nobody else's business
            }
            if parsed.drivername.startswith("sqlite"):
                if not parsed.database or parsed.database == ":memory:":
                    raise UsageError(
                        "DATABASE_URL: an in-memory SQLite is seen by one process only; name a file"
                    )
                _make_private(Path(parsed.database))
                options["connect_args"] = {"timeout": 30}
            self.engine = create_engine(parsed, **options)
        except (ArgumentError, ImportError, NoSuchModuleError) as error:
            raise UsageError(f"DATABASE_URL: {error}; {_USE}") from None
        self.url = parsed
        self.is_sqlite = self.engine.dialect.name == "sqlite"
        if self.is_sqlite:
            _prepare_sqlite(self.engine, Path(parsed.database or "").absolute())
        else:
            _keep_no_read_only_session(self.engine)
        event.listen(self.engine, "handle_error", _drop_sessions)
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
        if self._revision() == HEAD:
            return  # without Alembic, whose import takes longer than most commands
        from alembic import command
        from alembic.config import Config
        from alembic.migration import MigrationContext

        config = Config()
        config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
        with _translated(), self._migration_lock(), self._writer.connect() as connection:
            if MigrationContext.configure(connection).get_current_revision() == HEAD:
                return
            connection.rollback()
            config.attributes["connection"] = connection
            with self._tables_replaceable(connection):
                command.upgrade(config, HEAD)
                connection.commit()

    def _revision(self) -> str | None:
        """The schema's revision; None where there is no table of it."""
        with self.read() as session:
            if not inspect(session.connection()).has_table("alembic_version"):
                return None
            return session.scalar(text("SELECT version_num FROM alembic_version"))

    def dispose(self) -> None:
        """Close every connection."""
        self.engine.dispose()

    @contextlib.contextmanager
    def _tables_replaceable(self, connection: Connection) -> Iterator[None]:
        """On SQLite a table that others refer to is replaced with foreign keys off, and then checked."""
        if not self.is_sqlite:
            yield
            return
        driver: Any = connection.connection.driver_connection
        driver.execute("PRAGMA foreign_keys=OFF")
        try:
            yield
        finally:
            driver.execute("PRAGMA foreign_keys=ON")

    @contextlib.contextmanager
    def _migration_lock(self) -> Iterator[None]:
        if self.is_sqlite:
            with contextlib.ExitStack() as stack:
                try:
                    lock = stack.enter_context(open(f"{self.url.database}.migrate", "w"))
                except OSError as error:
                    path = f"{self.url.database}.migrate"
                    raise DatabaseUnavailable(f"database: {path}: {error.strerror}") from None
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
    """The database's errors in one line; neither the statement nor its values reach a terminal."""
    try:
        yield
    except DataError as error:  # a text that is too long, a number out of range
        raise UsageError(f"database: {_first_line(error)}") from None
    except DBAPIError as error:
        if _code(error.orig) == _READ_ONLY or "readonly database" in _first_line(error):
            raise DatabaseUnavailable(
                "database: read-only for now, as a standby or in a failover: it takes no job until it can be "
                "written again"
            ) from None
        passing = OperationalError | InterfaceError | InternalError
        if error.connection_invalidated or isinstance(error, passing):
            said = _first_line(error)
            raise DatabaseUnavailable(f"database: {said}{_remedy(said)}") from None
        raise DatabaseError(f"database: {_first_line(error)}") from None
    except StatementError as error:  # a value that cannot be written at all
        raise DatabaseError(f"database: {error.orig}") from None
    except OverflowError as error:  # SQLite's driver, of a number that no column takes
        raise UsageError(f"database: {error}") from None


def _remedy(said: str) -> str:
    """What mends an error of SQLite, for a person; nothing where its words say it."""
    return next((f"; {remedy}" for words, remedy in _REMEDIES.items() if words in said), "")


def _first_line(error: DBAPIError) -> str:
    return (str(error.orig).strip().splitlines() or [type(error.orig).__name__])[0]


def _code(error: BaseException | None) -> str | None:
    return getattr(error, "sqlstate", None)


def _drop_sessions(context: Any) -> None:
    """Let the pool forget its sessions where the server is no primary any more."""
    if _code(context.original_exception) in _SESSION_OVER:
        context.is_disconnect = True


def _keep_no_read_only_session(engine: Engine) -> None:
    """A session that began while the server took no writes never takes any: it serves once and is closed."""

    @event.listens_for(engine, "connect")
    def _note(connection: Any, record: Any) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SHOW transaction_read_only")
            record.info["read_only"] = cursor.fetchone()[0] == "on"
        connection.rollback()

    @event.listens_for(engine, "checkin")
    def _close(connection: Any, record: Any) -> None:
        if connection is not None and record.info.get("read_only"):
            record.invalidate()


def _make_private(path: Path) -> None:
    """An SQLite file that only its owner may read: jobs' arguments stand in it. One that is there stays."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    except OSError as error:
        raise UsageError(
            f"DATABASE_URL: {path}: {error.strerror}; name a file in a folder that can be written"
        ) from None


def _prepare_sqlite(engine: Engine, path: Path) -> None:
    @event.listens_for(engine, "checkout")
    def _same_file(connection: Any, record: Any, proxy: Any) -> None:
        """A connection to a file that was removed or replaced would write where nobody reads."""
        if record.info["file"] != _identity(path):
            raise DisconnectionError("the file was removed or replaced")

    @event.listens_for(engine, "connect")
    def _connect(connection: Any, record: Any) -> None:
        connection.isolation_level = None  # transactions begin below, not in the driver
        for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON", "busy_timeout=30000"):
            connection.execute(f"PRAGMA {pragma}")
        record.info["file"] = _identity(path)

    @event.listens_for(engine, "begin")
    def _begin(connection: Any) -> None:
        write = connection.get_execution_options().get("questloop_write")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")


def _identity(path: Path) -> tuple[int, int] | None:
    """Which file a path names; None where there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
