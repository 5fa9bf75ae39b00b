"""The commands of docs/howto/troubleshooting.md are run, and print what the page says."""

import re
import shlex
from pathlib import Path

import asyncssh
import pytest
from typer.testing import CliRunner

from questloop.cli import doctor
from questloop.cli.app import app
from questloop.errors import QuestloopError
from questloop.fleet import jobs, machines
from questloop.fleet.database import Database
from questloop.fleet.jobs import parse_request
from questloop.fleet.machines import Reading, SlotReading
from questloop.fleet.states import Health, SlotKind, VMState

KEY = asyncssh.generate_private_key("ssh-ed25519").export_public_key().decode()
PAGE = Path(__file__).parents[2] / "docs" / "howto" / "troubleshooting.md"
SECTIONS = {
    title: (command, expected)
    for title, command, expected in re.findall(
        r"^## ([^\n]+)\n\n```console\n\$ ([^\n]+)\n(.*?)```", PAGE.read_text("utf-8"), re.S | re.M
    )
}
CHECKED = {
    "The language model cannot be reached": "judges",
    "Uploads to S3 fail": "store",
    "Ray does not start": "ray",
}


@pytest.mark.parametrize("title", SECTIONS)
def test_a_command_prints_what_the_page_says(title, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DATABASE_URL", f"sqlite:///{tmp_path}/fleet.sqlite3")
    # The other checks have tests of their own, and Ray takes seconds to start.
    monkeypatch.setattr(doctor, "CHECKS", [c for c in doctor.CHECKS if c[0] == CHECKED.get(title)])
    Path("completions.jsonl").write_text('{"prompt": "2 + 2", "completion": "4", "answer": "4"}\n')
    _fleet(title, f"sqlite:///{tmp_path}/fleet.sqlite3")
    command, expected = SECTIONS[title]
    words = shlex.split(command)
    while "=" in words[0]:
        name, _, value = words.pop(0).partition("=")
        monkeypatch.setenv(name, value)
    assert words.pop(0) == "questloop"
    result = CliRunner().invoke(app, words)
    printed = result.output
    if isinstance(result.exception, QuestloopError):
        printed += f"error: {result.exception}\n"
    pattern = "".join(".*" if line == "...\n" else re.escape(line) for line in expected.splitlines(True))
    assert re.fullmatch(pattern, printed, re.S), printed


def test_every_symptom_has_a_section():
    assert len(SECTIONS) == 8


def _fleet(title, url):
    if title not in ("No job is placed", "A job stays pending", "SSH errors"):
        return
    db = Database(url)
    db.migrate()
    wanted = {"kind": "command", "arguments": ["true"]}
    jobs.submit(db, parse_request(wanted | {"job_id": "job-one", "gpus": 1}))
    jobs.submit(db, parse_request(wanted | {"job_id": "job-two", "gpus": 2}))
    if title == "No job is placed":
        return
    machines.add(db, "gpu1", "127.0.0.1", port=9, user="train", ssh_key_path="key", host_key=KEY)
    if title == "A job stays pending":
        vm = machines.get(db, "gpu1")
        slot = SlotReading(SlotKind.CUDA, 0, "GPU-0", Health.HEALTHY, memory_mb=81559)
        machines.reconcile(db, [Reading(vm.id, VMState.READY, None, "boot", (slot,))], vm.created_at)
