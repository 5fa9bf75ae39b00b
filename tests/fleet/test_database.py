"""Databases that fail over, are read-only for a while, damaged, or of an earlier release."""

import sqlite3

import pytest
from sqlalchemy import create_engine, text

from questloop.errors import QuestloopError, UsageError
from questloop.fleet import claims, jobs, machines
from questloop.fleet.claims import Claimed
from questloop.fleet.database import Database, DatabaseUnavailable

from .conftest import empty
from .helpers import POLICY, add_vm, check_consistent, submit


@pytest.fixture
def postgres(postgres_url):
    database = Database(postgres_url)
    database.migrate()
    empty(database)
    yield database
    admin(postgres_url, "ALTER DATABASE postgres RESET default_transaction_read_only")
    database.dispose()


def admin(url, *statements):
    """As somebody with a connection of their own, which is always writable."""
    engine = create_engine(
        url.replace("postgresql://", "postgresql+psycopg://"), isolation_level="AUTOCOMMIT"
    )
    with engine.connect() as connection:
        connection.execute(text("SET default_transaction_read_only = off"))
        for statement in statements:
            connection.execute(text(statement))
    engine.dispose()


CUT = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
    "WHERE pid <> pg_backend_pid() AND datname = 'postgres'"
)


def test_a_primary_that_becomes_a_standby_is_waited_for(postgres, postgres_url):
    add_vm(postgres, "vm", 1)
    submit(postgres)
    admin(postgres_url, "ALTER DATABASE postgres SET default_transaction_read_only = on", CUT)
    for work in (
        lambda: submit(postgres, arguments=["echo", "s3cret-argument"]),
        lambda: claims.claim(postgres, POLICY),
        lambda: machines.pause(postgres, 1),
    ):
        with pytest.raises(DatabaseUnavailable) as caught:
            work()
        said = str(caught.value)
        assert "\n" not in said
        assert "s3cret" not in said
        assert "INSERT" not in said
        assert caught.value.__suppress_context__
    assert len(jobs.find(postgres)) == 1, "what can be read is read"
    admin(postgres_url, "ALTER DATABASE postgres RESET default_transaction_read_only")
    assert isinstance(claims.claim(postgres, POLICY), Claimed), "no session of that time is left in the pool"


def test_an_error_tells_neither_the_statement_nor_its_values(db):
    submit(db, job_id="one")
    with pytest.raises(QuestloopError) as caught, db.write() as session:
        session.execute(
            text("INSERT INTO jobs (job_id, model) VALUES (:id, :model)"), {"id": "one", "model": "s3cret"}
        )
    assert "s3cret" not in str(caught.value)
    assert "INSERT" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_damaged_file_is_one_line(tmp_path):
    path = tmp_path / "fleet.sqlite3"
    path.write_bytes(b"not a database, whatever its name says" * 100)
    with pytest.raises(QuestloopError, match="not a database"):
        Database(f"sqlite:///{path}").migrate()


@pytest.mark.parametrize("how", ["removed", "replaced", "emptied"])
def test_a_file_that_is_taken_away_is_not_written_to_in_secret(tmp_path, how):
    path = tmp_path / "fleet.sqlite3"
    daemon = Database(f"sqlite:///{path}")
    daemon.migrate()
    submit(daemon, job_id="before")
    for name in (path, *tmp_path.glob("fleet.sqlite3-*")):
        name.unlink()
    if how == "emptied":
        path.touch()
    if how == "replaced":
        other = Database(f"sqlite:///{path}")
        other.migrate()
        submit(other, job_id="after")
    else:
        with pytest.raises(DatabaseUnavailable, match="removed or replaced"):
            jobs.find(daemon)
        Database(f"sqlite:///{path}").migrate()  # as any command does
    assert [job.job_id for job in jobs.find(daemon)] == (["after"] if how == "replaced" else [])
    submit(daemon, job_id="later")
    assert jobs.get(Database(f"sqlite:///{path}"), "later")


def test_a_file_that_somebody_else_writes_to_without_end_says_so(tmp_path):
    database = Database(f"sqlite:///{tmp_path}/fleet.sqlite3")
    database.migrate()
    with database.read() as session:
        session.connection().exec_driver_sql("PRAGMA busy_timeout=10")
    with sqlite3.connect(tmp_path / "fleet.sqlite3", isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(DatabaseUnavailable, match=r"locked; another program .* try again"):
            submit(database)


def test_a_full_disk_says_so(tmp_path):
    database = Database(f"sqlite:///{tmp_path}/fleet.sqlite3")
    database.migrate()
    with database.read() as session:
        session.connection().exec_driver_sql("PRAGMA max_page_count=1")
    with pytest.raises(DatabaseUnavailable, match="make room"):
        submit(database, arguments=["echo", *["x" * 100_000] * 10])


def test_the_list_of_the_newest_jobs_sorts_nothing(sqlite_db):
    with sqlite_db.read() as session:
        plan = "EXPLAIN QUERY PLAN SELECT * FROM jobs ORDER BY created_at DESC, job_id LIMIT 50"
        steps = " ".join(str(row) for row in session.execute(text(plan)))
    assert "ix_jobs_newest" in steps
    assert "TEMP B-TREE" not in steps


def test_an_sqlite_file_is_its_owner_s(tmp_path):
    database = Database(f"sqlite:///{tmp_path}/new/fleet.sqlite3")
    database.migrate()
    submit(database)
    assert {path.name: path.stat().st_mode & 0o077 for path in (tmp_path / "new").glob("fleet.sqlite3*")}[
        "fleet.sqlite3"
    ] == 0
    database.dispose()


def old_schema(database):
    """The tables of the first release, with a machine, a running job and its claim."""
    from alembic import command
    from alembic.config import Config

    from questloop.fleet import database as module

    config = Config()
    folder = module.Path(module.__file__).parent / "migrations"
    config.set_main_option("script_location", str(folder))
    with database._writer.connect() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "0001")
        for statement in (
            "INSERT INTO vms (id, name, ip_address, state, total_gpus) "
            "VALUES (7, 'old', '10.0.0.1', 'ready', 1)",
            'INSERT INTO slots (id, vm_id, kind, "index", uuid, health, claims, exclusive, memory_mb) '
            "VALUES (3, 7, 'cuda', 0, 'GPU-0', 'healthy', 1, true, 80000)",
            "INSERT INTO jobs (job_id, kind, arguments, status, attempt) "
            "VALUES ('runs', 'command', '[\"true\"]', 'running', 99)",
            "INSERT INTO jobs (job_id, kind, arguments, status) "
            "VALUES ('ended', 'command', '[]', 'completed')",
            "INSERT INTO attempts (id, job_id, vm_id, vm_name, owner, owner_until, claimed_at) "
            "VALUES (99, 'runs', 7, 'old', 'd', '2030-01-01 00:00:00+00:00', '2026-01-01 00:00:00+00:00')",
            "INSERT INTO claims (slot_id, attempt_id, memory_mb) VALUES (3, 99, 0)",
        ):
            connection.execute(text(statement))
        connection.commit()


@pytest.fixture(params=["sqlite", "postgresql"])
def bare(request, tmp_path):
    """A database without any table."""
    if request.param == "sqlite":
        database = Database(f"sqlite:///{tmp_path}/old.sqlite3")
        yield database
        database.dispose()
        return
    url = request.getfixturevalue("postgres_url")
    admin(url, "DROP DATABASE IF EXISTS olddays", "CREATE DATABASE olddays")
    database = Database(str(url).replace("/postgres?", "/olddays?"))
    yield database
    database.dispose()
    admin(url, "DROP DATABASE olddays")


def test_a_database_of_the_first_release_keeps_its_rows(bare):
    old_schema(bare)
    bare.migrate()
    bare.migrate()
    vm = machines.get(bare, "old")
    assert (vm.id, vm.total_gpus, vm.blamed_by, vm.launch_failures) == (7, 1, [], 0)
    assert [(slot.id, slot.claims) for slot in vm.slots] == [(3, 1)]
    assert jobs.get(bare, "runs").retry_errors, "what was promised at its submit holds"
    assert not jobs.get(bare, "ended").retry_errors
    check_consistent(bare)
    if bare.is_sqlite:
        with bare.read() as session:
            assert not session.execute(text("PRAGMA foreign_key_check")).all()
            assert session.scalar(text("PRAGMA foreign_keys")) == 1
    with pytest.raises(QuestloopError, match=r"FOREIGN KEY|foreign key"), bare.write() as session:
        session.execute(text("DELETE FROM vms"))


def test_a_machine_is_a_row_of_address_user_and_key(db):
    with db.write() as session:
        for number in (1, 1, 2):
            session.execute(
                text(
                    'INSERT INTO vms (ip_address, "user", ssh_key_path, available_gpus) '
                    "VALUES (:address, 'train', '/keys/fleet', 4)"
                ),
                {"address": f"192.0.2.{number}"},
            )
    machines.name_bare_rows(db)
    names = {vm.name: vm for vm in machines.find(db)}
    assert {"192.0.2.1", "192.0.2.2"} < set(names)
    assert len(names) == 3
    assert {vm.available_gpus for vm in names.values()} == {4}, "a claim, until the first poll"
    assert {vm.state.value for vm in names.values()} == {"needs_host_key"}
    from .helpers import gpu, poll

    poll(db, names["192.0.2.2"].id, gpu(0))
    assert machines.get(db, "192.0.2.2").available_gpus == 1


def test_the_newest_revision_is_the_one_that_is_looked_for():
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    from questloop.fleet import database as module

    config = Config()
    config.set_main_option("script_location", str(module.Path(module.__file__).parent / "migrations"))
    assert ScriptDirectory.from_config(config).get_current_head() == module.HEAD


@pytest.mark.parametrize("url", ["sqlite+aiosqlite:///{}", "sqlite+pysqlcipher:///{}", "sqlite:///{}"])
def test_the_driver_that_another_program_was_told_of_does_not_matter(tmp_path, url):
    database = Database(url.format(tmp_path / "fleet.sqlite3"))
    database.migrate()
    add_vm(database, "vm", 1)
    database.dispose()


@pytest.mark.parametrize("driver", ["", "+asyncpg", "+psycopg2", "+pg8000"])
@pytest.mark.parametrize("backend", ["postgres", "postgresql"])
def test_postgresql_has_one_driver(backend, driver):
    database = Database(f"{backend}{driver}://user@127.0.0.1:1/fleet")
    assert database.engine.dialect.driver == "psycopg"
    database.dispose()


@pytest.mark.parametrize("url", ["mysql://u@h/d", "oracle+cx_oracle://u@h/d", "jdbc:postgresql://h/d", "x"])
def test_a_database_that_is_none_of_ours_is_refused_in_one_line(url):
    with pytest.raises(UsageError, match=r"^DATABASE_URL: [^\n]*; use sqlite:///file or postgresql://"):
        Database(url)
