"""What a command imports before it does anything: modules are counted, since times depend on the machine."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import sys
from questloop.cli.app import main
sys.argv = ["questloop", *sys.argv[1:]]
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
print(*sorted({name.partition(".")[0] for name in sys.modules}), file=sys.stderr)
"""
HEAVY = {
    *("alembic", "asyncssh", "boto3", "datasets", "gymnasium", "matplotlib", "nats", "numpy", "PIL", "pyboy"),
    *("ray", "starlette", "structlog", "torch", "transformers", "trl", "yaml"),
}


@pytest.mark.parametrize(
    ("arguments", "also"),
    [
        ("fleet jobs", {"rich", "pygments"}),
        ("fleet jobs --json", {"rich", "pygments"}),
        ("fleet --help", {"sqlalchemy"}),
        ("fleet submit --help", {"sqlalchemy"}),
        ("--help", {"sqlalchemy"}),
    ],
)
def test_a_command_imports_no_more_than_it_uses(tmp_path, arguments, also):
    environment = {**os.environ, "DATABASE_URL": f"sqlite:///{tmp_path}/fleet.sqlite3"}
    if arguments.startswith("fleet jobs"):  # the first command of all makes the tables
        subprocess.run(
            [sys.executable, "-c", PROGRAM, "fleet", "jobs"], env=environment, check=True, cwd=tmp_path
        )
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments.split()],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    loaded = set(done.stderr.splitlines()[-1].split())
    assert "questloop" in loaded
    assert loaded & (HEAVY | also) == set()
