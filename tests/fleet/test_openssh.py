"""A real OpenSSH server: poll, launch, log and outputs over it."""

import asyncio
import contextlib
import getpass
import os
import shlex
import shutil
import socket
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

from questloop.fleet import agent, jobs, machines, setup
from questloop.fleet.dispatcher import GlobalJobDispatcher
from questloop.fleet.poller import GPUPoller
from questloop.fleet.states import JobStatus, VMState
from questloop.fleet.transport import ChangedHostKeyError, SSHTransport, TransportPool, host_key_of
from questloop.settings import FleetSettings, StoreSettings

from .helpers import submit
from .loopback import client_key

SSHD = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin")
pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(SSHD is None, reason="no sshd: apt-get install openssh-server"),
]


@pytest.fixture
def server(tmp_path):
    """sshd on a free port, for this user alone, and a folder for what the fleet writes."""
    key, key_path = client_key(tmp_path)
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "host")], check=True)
    (tmp_path / "authorized").write_bytes(key.export_public_key("openssh"))
    (tmp_path / "authorized").chmod(0o600)
    home = tmp_path / "home"
    home.mkdir()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    search = f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin"
    config = tmp_path / "sshd_config"
    config.write_text(
        f"ListenAddress 127.0.0.1\nPort {port}\nHostKey {tmp_path}/host\nPidFile none\n"
        f"AuthorizedKeysFile {tmp_path}/authorized\nPasswordAuthentication no\nStrictModes no\nUsePAM no\n"
        f"PermitRootLogin prohibit-password\nSetEnv HOME={home} PATH={search}\n"
        f"Subsystem sftp internal-sftp -d {home}\n"
    )
    if os.geteuid() == 0:
        os.makedirs("/run/sshd", exist_ok=True)
    process = subprocess.Popen([SSHD, "-D", "-e", "-f", str(config)], stderr=subprocess.PIPE)
    for _ in range(200):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            break
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.05)
    yield port, key_path, home
    process.terminate()
    process.wait()
    process.stderr.close()


@pytest.fixture
async def machine(server, sqlite_db):
    """The server as a machine of the fleet."""
    port, key_path, home = server
    host_key, fingerprint = await host_key_of("127.0.0.1", port)
    assert fingerprint.startswith("SHA256:")
    machines.add(
        sqlite_db,
        "openssh",
        "127.0.0.1",
        port=port,
        user=getpass.getuser(),
        ssh_key_path=str(key_path),
        host_key=host_key,
        cpu_slots=1,
    )
    return machines.get(sqlite_db, "openssh"), home


async def test_a_job_over_openssh(machine, sqlite_db, tmp_path, monkeypatch):
    _, home = machine
    # sshd starts commands in the home of the password file; the fleet's folder is moved below the test's.
    monkeypatch.setattr(agent, "FOLDER", str(home / ".questloop"))
    agent.source.cache_clear()
    settings = FleetSettings(log_dir=tmp_path / "logs", ssh_timeout_s=60, poll_timeout_s=30)
    try:
        poller = GPUPoller(sqlite_db, settings, TransportPool(60))
        await poller.poll_round()
        await poller.pool.close()
        assert machines.get(sqlite_db, "openssh").state is VMState.READY
        dispatcher = GlobalJobDispatcher(
            sqlite_db, settings, StoreSettings(store_url=str(tmp_path / "store")), pool=TransportPool(60)
        )
        script = "echo over ssh; setsid sleep 60 & echo 7 > $QUESTLOOP_OUTPUT_DIR/n"
        job_id = submit(sqlite_db, gpus=0, arguments=["sh", "-c", script], output_url=str(tmp_path / "out"))
        for _ in range(200):
            await dispatcher.sweep()
            await dispatcher.look()
            while dispatcher._tasks:
                await asyncio.gather(*dispatcher._tasks)
            if jobs.get(sqlite_db, job_id).status is JobStatus.COMPLETED:
                break
            await asyncio.sleep(0.1)
        await dispatcher.pool.close()
        assert jobs.get(sqlite_db, job_id).status is JobStatus.COMPLETED
        assert "over ssh" in (tmp_path / "logs" / f"{job_id}.log").read_text()
        assert (tmp_path / "out/n").read_text() == "7\n"
    finally:
        agent.source.cache_clear()


@pytest.mark.long
async def test_setup_over_openssh(machine, tmp_path, monkeypatch):
    vm, home = machine
    folder = home / ".questloop"
    for module in (agent, setup):
        monkeypatch.setattr(module, "FOLDER", str(folder))
    monkeypatch.setattr(setup, "_VENV", str(folder / "venv"))
    agent.source.cache_clear()
    lock = tmp_path / "requirements.lock"
    lock.write_text("nothing-else==1.0\n")
    transport = SSHTransport(vm, 300)
    try:
        package = str(stand_in_wheel(tmp_path))
        for _ in range(2):  # again: brings it up to date
            said = await setup.setup(transport, package, extras="", lock=lock)
        assert said == "Version: 0.0.1"
        assert (folder / "setup" / lock.name).read_text() == lock.read_text()
        found = {item.name: item async for item in setup.check(vm, transport)}
    finally:
        await transport.close()
        agent.source.cache_clear()
    assert found["questloop"].ok
    assert found["questloop"].found == "stand-in"
    assert "host key verified" in found["connection"].found


def stand_in_wheel(folder):
    """A package of questloop's name without its dependencies, so that pip needs no index."""
    path = folder / "questloop-0.0.1-py3-none-any.whl"
    meta = "questloop-0.0.1.dist-info"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("questloop_stand_in.py", "def main():\n    print('stand-in')\n")
        wheel.writestr(f"{meta}/METADATA", "Metadata-Version: 2.1\nName: questloop\nVersion: 0.0.1\n")
        wheel.writestr(
            f"{meta}/WHEEL",
            "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        wheel.writestr(f"{meta}/entry_points.txt", "[console_scripts]\nquestloop = questloop_stand_in:main\n")
        wheel.writestr(f"{meta}/RECORD", "")
    return path


async def test_a_login_shell_that_prints(machine, sqlite_db, tmp_path, monkeypatch):
    """sshd's own bash reads ~/.bashrc before every command, and before an SFTP server that is a program."""
    vm, home = machine
    wrapper = home / "sh"
    wrapper.write_text('#!/bin/bash\necho Welcome to $HOSTNAME\nexec /bin/bash "$@"\n')
    wrapper.chmod(0o755)
    monkeypatch.setattr(agent, "FOLDER", str(home / ".questloop"))
    agent.source.cache_clear()
    transport = TalkingTransport(vm, 60)
    transport.shell = str(wrapper)
    try:
        for _ in range(2):
            reply = await agent.look(transport, "poll", {"queries": {}, "timeout_s": 5})
            assert reply["smi"] == {}
            watch = {"attempts": [{"job_id": "j", "attempt": 7}]}
            assert (await agent.look(transport, "watch", watch))["attempts"] == {"7": {"state": "absent"}}
        assert transport.talk.startswith("Welcome to")
        await transport.put(str(home / "file"), bytes(range(256)) * 9000)
        assert await transport.read_from(str(home / "file"), 256, 256) == bytes(range(256))
        found = {item.name: item async for item in setup.check(vm, transport)}
        assert "prints 'Welcome to" in found["connection"].found
    finally:
        await transport.close()
        agent.source.cache_clear()


class TalkingTransport(SSHTransport):
    """Every command by way of a shell that prints, as sshd starts the one of the password file."""

    shell = ""

    async def run(self, argv, stdin=b""):
        return await super().run([self.shell, "-c", shlex.join(argv)], stdin)

    async def ask(self, argv, line, mark=b""):
        return await super().ask([self.shell, "-c", shlex.join(argv)], line, mark)


async def test_many_commands_stay_within_the_server_s_sessions(machine):
    vm, _ = machine
    transport = SSHTransport(vm, 60)
    results = await asyncio.gather(*(transport.run(["echo", str(number)]) for number in range(30)))
    assert [int(result.stdout) for result in results] == list(range(30))
    await transport.close()


async def test_a_changed_key_is_refused(machine):
    import asyncssh

    vm, _ = machine
    vm.host_key = asyncssh.generate_private_key("ssh-ed25519").export_public_key("openssh").decode()
    with pytest.raises(ChangedHostKeyError):
        await SSHTransport(vm, 60).run(["true"])
