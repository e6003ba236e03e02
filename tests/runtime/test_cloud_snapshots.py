"""Snapshots in an object store that speaks S3's protocol, and what happens when it does not answer as it should."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from processor_api.errors import ConfigError
from processor_api.stores.factory import Stores
from runtime_support.running_app import Cluster, Restores, counting
from streams.config import StreamsConfig
from streams.snapshots.cloud import CloudObjects
from streams.snapshots.writing import GivenUp
from waiting import wait_until

pytest.importorskip("obstore")

SERVER = """
import sys
import boto3
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
address = "http://{}:{}".format(*server.get_host_and_port())
given = {"region_name": "us-east-1", "aws_access_key_id": "key", "aws_secret_access_key": "secret"}
boto3.client("s3", endpoint_url=address, **given).create_bucket(Bucket="bucket")
print(address, file=sys.__stderr__, flush=True)
sys.stdin.read()
"""


@pytest.fixture(name="endpoint", scope="module")
def endpoint_fixture() -> Iterator[str]:
    """A server of the protocol in a process of its own, which ends with its standard input."""
    if find_spec("moto") is None:
        pytest.skip("moto is not installed")
    with subprocess.Popen(
        [sys.executable, "-c", SERVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        try:
            address = next((line for line in process.stderr if line.startswith("http://")), "").strip()
            assert address
            drain = threading.Thread(target=process.stderr.read, daemon=True)
            drain.start()
            yield address
        finally:
            process.stdin.close()
            process.wait(30)
            drain.join(30)


def use(monkeypatch: pytest.MonkeyPatch, endpoint: str) -> None:
    values = {"ACCESS_KEY_ID": "key", "SECRET_ACCESS_KEY": "secret", "REGION": "us-east-1", "ALLOW_HTTP": "true"}
    for name, value in {**values, "ENDPOINT_URL": endpoint}.items():
        monkeypatch.setenv(f"AWS_{name}", value)


@pytest.fixture(name="bucket")
def bucket_fixture(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> str:
    use(monkeypatch, endpoint)
    return f"s3://bucket/some/{uuid4().hex}"


def test_objects_are_written_listed_read_and_deleted(bucket: str) -> None:
    """As those of a directory are, also where one has several parts."""
    objects = CloudObjects(bucket)
    assert objects.list("app/tasks/0_0") == {}
    objects.write("app/tasks/0_0/a.json", [b"one"])
    objects.write("app/tasks/0_0/a.json", [b"two", b"!"])
    large = [bytes([number]) * (1 << 20) for number in range(12)]
    objects.write("app/tasks/0_0/files/f", iter(large))
    assert {name: one.size for name, one in objects.list("app/tasks/0_0").items()} == {"a.json": 4}
    assert list(objects.list("app/tasks/0_0/files")) == ["f"]
    assert b"".join(objects.read("app/tasks/0_0/a.json")) == b"two!"
    assert b"".join(objects.read("app/tasks/0_0/files/f")) == b"".join(large)
    objects.delete("app/tasks/0_0/a.json")
    objects.delete("app/tasks/0_0/a.json")
    assert objects.list("app/tasks/0_0") == {}
    with pytest.raises(FileNotFoundError):
        list(objects.read("app/tasks/0_0/a.json"))


@pytest.mark.parametrize("chunks", [1, 12])
def test_an_object_that_is_given_up_is_not_there(bucket: str, chunks: int) -> None:
    def failing() -> Iterator[bytes]:
        for _ in range(chunks):
            yield bytes(1 << 20)
        raise GivenUp

    objects = CloudObjects(bucket)
    with pytest.raises(GivenUp):
        objects.write("folder/f", failing())
    assert objects.list("folder") == {}


def test_a_worker_begins_with_a_snapshot_in_a_bucket(
    bucket: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    built = counting(store=Stores.persistent_key_value_store("counts"))
    settings: dict[str, Any] = {"state_snapshot_dir": bucket}
    with Cluster(tmp_path / "live") as cluster:
        first = cluster.start(built, state_snapshot_interval_ms=20, **settings)
        cluster.send("a", "b", "a")
        wait_until("it is committed", lambda: cluster.committed() == 3)
        written = len(_said(caplog, "snapshot of a task written"))
        wait_until("it is written", lambda: len(_said(caplog, "snapshot of a task written")) >= written + 2)
        assert first.close(30)
        restores = Restores()
        cluster.start(counting(store=Stores.persistent_key_value_store("counts")), restores, **settings)
        cluster.send("a", "b")
        wait_until("it answers", lambda: len(cluster.values()) == 5)
        assert cluster.values()[3:] == ["a=3", "b=2"]
    assert len(_said(caplog, "snapshot of the task taken")) == 1
    assert sum(count for _, _, count in restores.ended) == 0


def _said(caplog: pytest.LogCaptureFixture, text: str) -> list[str]:
    return [said for one in caplog.records if (said := one.getMessage()).startswith(text)]


class Refusing(BaseHTTPRequestHandler):
    """A store that refuses every request."""

    code, status = "AccessDenied", 403
    timeout = 10

    def answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = f"<?xml version='1.0'?><Error><Code>{self.code}</Code></Error>".encode()
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = answer  # noqa: N815

    def log_message(self, *_: Any) -> None:
        """Says nothing."""


class Skewed(Refusing):
    """One whose clock is another one."""

    code = "RequestTimeTooSkewed"


class Full(Refusing):
    """One without room, in the words of MinIO."""

    code, status = "XMinioStorageFull", 507


@pytest.mark.parametrize("kind", [Refusing, Skewed, Full])
def test_a_store_that_refuses_costs_the_snapshots_and_nothing_else(
    kind: type[Refusing], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The log has its own words, for the writer and for the reader."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), kind)
    server.daemon_threads = False
    threading.Thread(target=server.serve_forever, daemon=True).start()
    use(monkeypatch, f"http://127.0.0.1:{server.server_address[1]}")
    try:
        with Cluster(tmp_path / "live") as cluster:
            for number in range(2):
                built = counting(store=Stores.persistent_key_value_store("counts"))
                app = cluster.start(built, state_snapshot_dir="s3://bucket/path", state_snapshot_interval_ms=20)
                cluster.send("a")
                wait_until("it answers", lambda number=number: len(cluster.values()) == number + 1)
                wait_until("it is committed", lambda number=number: cluster.committed() == number + 1)
                if not number:
                    wait_until("it is logged", lambda: _said(caplog, "a snapshot is not written"))
                assert app.close(30)
            assert cluster.values() == ["a=1", "a=2"]
    finally:
        server.shutdown()
        server.server_close()
    assert kind.code in _said(caplog, "a snapshot is not written")[0]
    assert "Debug source" not in _said(caplog, "a snapshot is not written")[0]
    assert kind.code in _said(caplog, "a snapshot is not taken")[0]


class Breaking(Refusing):
    """A store that ends the connection in the middle of an object, and of each later request for the rest."""

    def answer(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(4 << 20))
        self.send_header("ETag", '"tag"')
        self.send_header("Last-Modified", "Thu, 26 Nov 2026 10:00:00 GMT")
        self.end_headers()
        self.wfile.write(bytes(1 << 20))
        self.close_connection = True

    do_GET = answer  # noqa: N815


def test_a_connection_that_ends_in_the_middle_of_an_object_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """What has come by then is not taken for the object."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Breaking)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    use(monkeypatch, f"http://127.0.0.1:{server.server_address[1]}")
    try:
        with pytest.raises(OSError, match=r"\w"):
            list(CloudObjects("s3://bucket/path").read("object"))
    finally:
        server.shutdown()
        server.server_close()


def test_folders_are_listed(bucket: str) -> None:
    """Those with objects, by the next part of their names, as in a directory."""
    objects = CloudObjects(bucket)
    for name in ("app/tasks/0_0/a.json", "app/tasks/0_0/files/f", "app/tasks/0_1/memory/b.json", "app/tasks/c"):
        objects.write(name, [b"x"])
    assert objects.folders("app/tasks") == ["0_0", "0_1"]
    assert objects.folders("app/tasks/0_1") == ["memory"]
    assert objects.folders("app/none") == []


def test_a_bucket_that_is_not_there_is_named(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, endpoint)
    with pytest.raises(OSError, match=r"NoSuchBucket|does not exist"):
        CloudObjects("s3://no-such-bucket/path").list("folder")


@pytest.mark.parametrize(
    "place", ["s3://", "s3:///path", "http://bucket/path", "s3://bucket/a b", "s3://bucket?x=1", "ftp://x"]
)
def test_a_url_that_is_none_of_a_store_is_refused_at_once(place: str) -> None:
    given = {"application.id": "app", "bootstrap.servers": "b:9092", "state.snapshot.dir": place}
    with pytest.raises(ConfigError, match=r"state\.snapshot.dir must be a directory, or s3://BUCKET/PATH"):
        StreamsConfig.of(given)


def test_a_url_stays_one() -> None:
    given = {"application.id": "app", "bootstrap.servers": "b:9092", "state.snapshot.dir": "s3://bucket/path/"}
    assert StreamsConfig.of(given).state_snapshot_dir == "s3://bucket/path"
