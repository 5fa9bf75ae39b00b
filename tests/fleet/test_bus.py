"""Wake-ups over a real NATS server."""

import asyncio
import contextlib

import pytest
from prometheus_client import REGISTRY
from pydantic import SecretStr

from questloop.fleet import bus
from questloop.fleet.dispatcher import GlobalJobDispatcher
from questloop.settings import FleetSettings

from .helpers import submit


@pytest.fixture
def settings(tmp_path):
    with bus.embedded_server(-1, tmp_path / "nats") as url:
        yield FleetSettings(nats_url=SecretStr(url))


async def listening(settings, expected, owners=1):
    """What `owners` listeners together hear until `expected` messages came."""
    heard, stop = [], asyncio.Event()

    async def on_job(job_id):
        heard.append(job_id)
        if len(heard) == expected:
            stop.set()

    await asyncio.wait_for(asyncio.gather(*(bus.listen(settings, stop, on_job) for _ in range(owners))), 60)
    return heard


async def test_messages_sent_before_anyone_listened_are_kept(settings):
    async with bus.connection(settings) as client:
        await bus.ensure_stream(client.jetstream())
    for number in range(3):
        assert await bus.announce(settings, f"j{number}")
    assert await listening(settings, 3) == ["j0", "j1", "j2"]


async def test_each_message_wakes_one_of_many(settings):
    async with bus.connection(settings) as client:
        await bus.ensure_stream(client.jetstream())
    for number in range(6):
        await bus.announce(settings, f"j{number}")
    assert sorted(await listening(settings, 6, owners=3)) == [f"j{number}" for number in range(6)]


async def test_a_message_that_names_no_job_is_counted(db, settings):
    odd = [b"", b"\0", b"a\0b", b"\xff\xfe", b"x" * 100_000, b"[" * 10_000, b"{}", "\u00b2".encode()]
    async with bus.connection(settings) as client:
        await bus.ensure_stream(client.jetstream())
        for payload in odd:
            await client.publish(bus.SUBJECT, payload)
        await client.flush()
    assert await bus.announce(settings, submit(db))
    dispatcher, heard, stop = GlobalJobDispatcher(db, settings), 0, asyncio.Event()

    async def on_job(job_id):
        nonlocal heard
        await dispatcher._on_message(job_id)
        heard += 1
        if heard > len(odd):
            stop.set()

    before = REGISTRY.get_sample_value("questloop_fleet_unknown_messages_total")
    await asyncio.wait_for(bus.listen(settings, stop, on_job), 60)
    assert REGISTRY.get_sample_value("questloop_fleet_unknown_messages_total") - before == len(odd)


async def test_without_a_server_announcing_is_no_error():
    settings = FleetSettings(nats_url=SecretStr("nats://127.0.0.1:1"))
    assert not await bus.announce(settings, "j")


async def test_a_listener_waits_out_a_restart(tmp_path):
    heard, stop = asyncio.Event(), asyncio.Event()

    async def on_job(job_id):
        heard.set()

    with bus.embedded_server(-1, tmp_path / "nats") as url:
        port = int(url.rsplit(":", 1)[1])
        settings = FleetSettings(nats_url=SecretStr(url))
        task = asyncio.create_task(bus.listen(settings, stop, on_job))
        await asyncio.sleep(0.3)
    with bus.embedded_server(port, tmp_path / "nats"):
        for _ in range(60):
            await bus.announce(settings, "again")
            if heard.is_set():
                break
            await asyncio.sleep(0.5)
        assert heard.is_set()
        stop.set()
        await asyncio.wait_for(task, 30)


@pytest.mark.parametrize(
    "said",
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"INFO []\r\n",
        b"INFO {\r\n",
        b"",
        b"x" * 3_000_000,
        b"-ERR 'no'\r\n",
    ],
)
async def test_another_program_on_the_port_is_waited_out(said):
    async def serve(reader, writer):
        writer.write(said)
        with contextlib.suppress(OSError):
            await writer.drain()
        writer.close()

    async def on_job(job_id):
        raise AssertionError(job_id)

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        url = f"nats://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        settings = FleetSettings(nats_url=url)
        assert not await bus.announce(settings, "j")
        stop = asyncio.Event()
        listening = asyncio.create_task(bus.listen(settings, stop, on_job))
        await asyncio.sleep(0.3)
        assert not listening.done()
        stop.set()
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)
