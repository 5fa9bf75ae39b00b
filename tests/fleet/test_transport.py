"""SSH over real connections to loopback servers, and what they refuse."""

import asyncio
import os
import signal

import asyncssh
import pytest

from questloop.fleet import agent
from questloop.fleet.models import VM
from questloop.fleet.states import TransportKind
from questloop.fleet.transport import (
    AddressError,
    ChangedHostKeyError,
    LocalTransport,
    PrivateKeyError,
    SSHTransport,
    TransportError,
    TransportPool,
    UnknownHostKeyError,
    check_address,
    host_key_of,
)

from .loopback import LoopbackMachine, client_key


@pytest.fixture
async def machine(tmp_path):
    key, path = client_key(tmp_path)
    machine = LoopbackMachine("m", tmp_path / "home", key)
    await machine.start()
    machine.key_path = path
    yield machine
    await machine.stop()


def row(machine, **changed):
    values = {
        "id": 1,
        "name": "m",
        "ip_address": "127.0.0.1",
        "port": machine.port,
        "user": "questloop",
        "ssh_key_path": str(machine.key_path),
        "host_key": machine.public_key,
        "transport": TransportKind.SSH,
    }
    return VM(**(values | changed))


@pytest.fixture(params=["ssh", "local"])
async def transport(request, machine, tmp_path):
    made = SSHTransport(row(machine)) if request.param == "ssh" else LocalTransport(machine.home)
    yield made
    await made.close()


async def test_both_kinds_keep_the_contract(transport):
    result = await transport.run(["sh", "-c", 'cat; echo err >&2; exit "$1"', "x", "3"], b"in\x00put")
    assert (result.exit_code, result.stdout, result.stderr) == (3, b"in\x00put", b"err\n")
    await transport.put("a/b/file", b"0123456789")
    assert await transport.read_from("a/b/file", 4) == b"456789"
    assert await transport.read_from("a/b/file", 4, 2) == b"45"
    assert await transport.read_from("a/b/file", 10) == b""
    assert await transport.read_from("absent", 0) == b""
    assert (await transport.run(["stat", "-c", "%a", "a/b/file"])).stdout == b"600\n"


async def test_files_put_at_once_under_one_name_are_whole(transport):
    """As when several jobs are launched on a machine that has no runner yet."""
    contents = [bytes([number]) * 200_000 for number in range(8)]
    await asyncio.gather(*(transport.put("a/file", content) for content in contents))
    assert await transport.read_from("a/file", 0) in contents
    assert (await transport.run(["ls", "a"])).stdout == b"file\n"


async def test_a_look_that_is_cut_off_spares_the_next_connection(machine):
    """As when another command's time ran out: that closes the connection, and the next opens a new one."""
    transport = SSHTransport(row(machine))
    script = ["sh", "-c", "while read -r line; do sleep $line; echo done; done"]
    assert (await transport.ask(script, b"0\n")).stdout == b"done\n"
    look = asyncio.create_task(transport.ask(script, b"60\n"))
    await asyncio.sleep(0.3)
    await transport.close()
    innocent = asyncio.create_task(transport.run(["sh", "-c", "sleep 5; echo well"]))
    with pytest.raises(TransportError):
        await look
    assert (await innocent).stdout == b"well\n"
    await transport.close()


async def test_looks_at_the_same_time_leave_one_process(machine):
    transport = SSHTransport(row(machine))
    script = ["sh", "-c", "while read -r line; do sleep 0.2; echo done; done"]
    results = await asyncio.gather(*(transport.ask(script, b"x\n") for _ in range(3)))
    assert {result.stdout for result in results} == {b"done\n"}
    for _ in range(200):
        if len(machine._commands_running) == 1:
            break
        await asyncio.sleep(0.05)
    assert len(machine._commands_running) == 1
    await transport.close()


async def test_a_closed_local_transport_says_so(tmp_path):
    transport = LocalTransport(tmp_path)
    await transport.close()
    with pytest.raises(TransportError, match="closed"):
        await transport.run(["true"])


async def test_arguments_reach_the_program_as_they_are(transport):
    values = ["a b", "x'; touch m; '", "$(touch m)", "two\nlines", "-rf", "", "*", '"', "\\"]
    result = await transport.run(["printf", "%s\\0", *values])
    assert result.stdout.decode().split("\0")[:-1] == values
    assert (await transport.run(["ls"])).stdout.find(b"m\n") == -1


async def test_many_commands_at_once_share_one_connection(machine):
    transport = SSHTransport(row(machine))
    results = await asyncio.gather(*(transport.run(["echo", str(number)]) for number in range(30)))
    assert [int(result.stdout) for result in results] == list(range(30))
    assert len(machine._connections) == 1
    await transport.close()


async def test_an_unknown_host_key_is_refused_before_connecting(machine):
    with pytest.raises(UnknownHostKeyError, match="vm trust"):
        await SSHTransport(row(machine, host_key=None)).run(["true"])
    assert not machine.commands


async def test_a_changed_host_key_is_refused_with_its_own_reason(machine):
    other = asyncssh.generate_private_key("ssh-ed25519").export_public_key("openssh").decode()
    with pytest.raises(ChangedHostKeyError, match="another host key"):
        await SSHTransport(row(machine, host_key=other)).run(["true"])
    assert not machine.commands


async def test_a_refused_client_key_says_which(machine, tmp_path):
    (tmp_path / "other").mkdir()
    _, path = client_key(tmp_path / "other")
    with pytest.raises(TransportError, match="authorized_keys"):
        await SSHTransport(row(machine, ssh_key_path=str(path))).run(["true"])


async def test_a_private_key_open_to_others_is_refused(machine):
    machine.key_path.chmod(0o644)
    with pytest.raises(PrivateKeyError, match="chmod 600"):
        await SSHTransport(row(machine)).run(["true"])
    with pytest.raises(PrivateKeyError, match="No such file"):
        await SSHTransport(row(machine, ssh_key_path="/nowhere")).run(["true"])


@pytest.mark.parametrize("made", ["passphrase", "old passphrase", "junk", "empty", "public", "folder"])
async def test_a_private_key_that_cannot_be_used_is_named_with_what_mends_it(machine, tmp_path, made):
    key = asyncssh.generate_private_key("ssh-rsa", key_size=2048)
    content, said = {
        "passphrase": (key.export_private_key(passphrase="secret"), "ssh-keygen"),
        "old passphrase": (key.export_private_key("pkcs1-pem", passphrase="secret"), "ssh-keygen"),
        "junk": (b"junk\n", "not a private key"),
        "empty": (b"", "not a private key"),
        "public": (key.export_public_key(), r"without \.pub"),
        "folder": (b"", "no file"),
    }[made]
    path = tmp_path / "key"
    path.write_bytes(content)
    path.chmod(0o600)
    transport = SSHTransport(row(machine, ssh_key_path=str(tmp_path if made == "folder" else path)), 30)
    with pytest.raises(PrivateKeyError, match=said):
        await transport.run(["true"])


@pytest.mark.parametrize(
    ("address", "port", "said"),
    [
        ("127.0.0.1", 99_999, "from 1 to 65535"),
        ("127.0.0.1", -5, "from 1 to 65535"),
        ("root@127.0.0.1", 22, "--user"),
        ("127.0.0.1:2222", 22, "--port"),
        ("x" * 300, 22, "host name is needed"),
        ("", 22, "host name is needed"),
        ("a b", 22, "host name is needed"),
        ("..", 22, "host name is needed"),
    ],
)
async def test_an_address_that_no_machine_has_is_refused(machine, address, port, said):
    with pytest.raises(AddressError, match=said):
        await host_key_of(address, port)
    with pytest.raises(AddressError, match=said):
        await SSHTransport(row(machine, ip_address=address, port=port), 30).run(["true"])


@pytest.mark.parametrize("address", ["::1", "b\u00fccher.invalid", "gpu-1_a.invalid", "host.invalid."])
def test_an_address_that_a_machine_may_have_is_taken(address):
    check_address(address, 22)


async def test_a_cut_is_an_error_and_the_next_call_connects_anew(machine):
    transport = SSHTransport(row(machine))
    assert (await transport.run(["echo", "1"])).stdout == b"1\n"
    await machine.cut()
    with pytest.raises(TransportError):
        await transport.run(["echo", "2"])
    await machine.restore()
    assert (await transport.run(["echo", "3"])).stdout == b"3\n"
    await transport.close()


async def test_a_slow_machine_is_waited_for(machine):
    machine.delay_s = 2
    transport = SSHTransport(row(machine), timeout_s=60)
    assert (await transport.run(["echo", "slow"])).stdout == b"slow\n"
    await transport.close()


async def test_a_machine_that_never_answers_is_given_up(machine):
    machine.delay_s = 600
    transport = SSHTransport(row(machine), timeout_s=1)
    with pytest.raises(TransportError, match="no answer"):
        await transport.run(["true"])


async def test_the_shown_host_key_and_its_fingerprint(machine):
    key, fingerprint = await host_key_of("127.0.0.1", machine.port)
    assert key == machine.public_key
    assert fingerprint.startswith("SHA256:")


async def test_the_pool_follows_the_row(machine):
    pool = TransportPool()
    first = await pool.get(row(machine))
    assert await pool.get(row(machine)) is first
    assert await pool.get(row(machine, user="other")) is not first
    await pool.close()


async def test_the_runner_is_put_where_it_is_missing(machine):
    transport = SSHTransport(row(machine))
    first = await agent.call(transport, "hello", {})
    assert first["boot_id"] == (machine.home / "boot_id").read_text().strip()
    await agent.call(transport, "hello", {})
    assert len(machine.commands) == 4  # missing, put, again, and the second call
    await transport.close()


async def test_a_kept_command_answers_line_by_line_and_is_started_anew_once_it_has_ended(machine):
    transport = SSHTransport(row(machine))
    argv = ["sh", "-c", "while read line; do echo $$ $line; done"]
    pid = (await transport.ask(argv, b"a\n")).stdout.split()[0]
    assert (await transport.ask(argv, b"b\n")).stdout == pid + b" b\n"
    os.kill(int(pid), signal.SIGKILL)
    again = (await transport.ask(argv, b"c\n")).stdout.split()
    assert again[0] != pid
    assert again[1] == b"c"
    await transport.close()


async def test_an_answer_that_was_given_up_is_not_taken_for_the_next_one(machine):
    transport = SSHTransport(row(machine))
    argv = ["sh", "-c", "while read line; do sleep $line; echo $line; done"]
    assert (await transport.ask(argv, b"0\n")).stdout == b"0\n"
    asked = asyncio.create_task(transport.ask(argv, b"0.2\n"))
    await asyncio.sleep(0)
    asked.cancel()
    await asyncio.gather(asked, return_exceptions=True)
    assert (await transport.ask(argv, b"0.0\n")).stdout == b"0.0\n"
    await transport.close()


async def test_a_command_that_ends_instead_of_answering_tells_why(machine):
    transport = SSHTransport(row(machine))
    result = await transport.ask(["sh", "-c", "echo why >&2; exit 7"], b"a\n")
    assert (result.exit_code, result.stderr) == (7, b"why\n")
    await transport.close()


async def test_a_cut_ends_what_was_kept_and_the_next_connection_starts_it(machine):
    transport = SSHTransport(row(machine))
    argv = ["sh", "-c", "while read line; do echo $line; done"]
    await transport.ask(argv, b"a\n")
    await machine.cut()
    with pytest.raises(TransportError):
        await transport.ask(argv, b"b\n")
    await machine.restore()
    assert (await transport.ask(argv, b"c\n")).stdout == b"c\n"
    await transport.close()
