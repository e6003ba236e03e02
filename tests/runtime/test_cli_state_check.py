"""`streams state check`: what a new version would read of the rows on disk, said before the deploy."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from runtime_support.running_app import Cluster
from streams.app.states import ClientState
from streams.cli.main import main
from streams.cli.topology_function import load_topology
from streams.config import StreamsConfig
from waiting import wait_until

APP = """
from pydantic import BaseModel
from streams import Consumed, Materialized, StreamsBuilder

class Sum(BaseModel):
    cents: int
{fields}

def topology():
    builder = StreamsBuilder()
    words = builder.stream("in", Consumed(key_serde="string", value_serde="string"))
    kept = Materialized(name="{name}", key_serde={key}, value_serde={value}{more})
    sums = words.group_by_key().aggregate(lambda: Sum(cents=0), add, materialized=kept)
    sums.to_stream().map_values(lambda one: str(one)).to("out")
    return builder.build()

def add(key, word, total):
    return total.model_copy(update={{"cents": total.cents + int(word)}})
"""


def version(
    folder: Path, fields: str = "", *, name: str = "sums", key: str = '"string"', value: str = "Sum", more: str = ""
) -> str:
    path = folder / f"app_{uuid.uuid4().hex}.py"  # a module is imported once
    path.write_text(APP.format(fields=fields, name=name, key=key, value=value, more=more))
    return f"{path}:topology"


def run(cluster: Cluster, state: Path, app: str, expected: str, **record: str) -> None:
    """Runs a version until it has counted 3 cents more."""
    given = StreamsConfig.of({"application.id": "app", "bootstrap.servers": "in-memory:9092"})
    running = cluster.app(load_topology(app, lambda: given), {"state.dir": str(state)})
    cluster.until_state(running, ClientState.RUNNING)
    cluster.send("3", **record)
    wait_until("it is committed", lambda: cluster.values()[-1:] == [expected])
    assert running.close(10)


@pytest.fixture
def state(cluster: Cluster, tmp_path: Path) -> Path:
    """The state of a version with one field."""
    found = tmp_path / "state"
    run(cluster, found, version(tmp_path), "cents=3")
    return found


def check(state: Path, app: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    capsys.readouterr()
    status = main(["state", "check", "--new", app, "--state-dir", str(state), "--application-id", "app"])
    return status, capsys.readouterr().out


@pytest.mark.parametrize(
    ("fields", "how", "status", "line"),
    [
        ("", {}, 0, "ok    0_0 sums: the same format"),
        ("    zone: str = 'all'", {}, 0, "ok    0_0 sums: another format of its value, which can be read"),
        ("    zone: str", {}, 1, "fail  0_0 sums: value: field 'zone' is new and does not have a default"),
        ("    zone: str", {"more": ", migrate=lambda old: old"}, 0, "which can be read"),
        ("", {"key": '"bytes"'}, 1, "key: they are written as string, and read as bytes"),
        ("", {"value": '"json"'}, 0, "another format of its value, which can be read"),
        ("", {"value": '"long"'}, 1, "value: they are written as json-schema, and read as long"),
    ],
)
def test_a_line_for_each_store(
    fields: str,
    how: dict[str, str],
    status: int,
    line: str,
    state: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    found, out = check(state, version(tmp_path, fields, **how), capsys)
    assert (found, out.count("\n")) == (status, 1)
    assert line in out


def test_rows_of_a_version_before_the_last_one(
    cluster: Cluster, state: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(cluster, state, version(tmp_path, "    zone: str = 'all'"), "cents=3 zone='all'", key="other")
    wanted = version(tmp_path, "    zone: str")
    status, out = check(state, wanted, capsys)
    assert status == 1
    assert "fail  0_0 sums: the value under the key 'k' cannot be read" in out
    assert "(field 'zone' is new and does not have a default)" in out
    run(cluster, state, version(tmp_path, "    zone: str = 'all'"), "cents=6 zone='all'")
    assert check(state, wanted, capsys) == (
        0, "ok    0_0 sums: values of earlier versions may exist; all 2 rows can be read\n"
    )  # fmt: skip


def test_a_store_that_is_gone_is_a_warning(state: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out = check(state, version(tmp_path, name="others"), capsys)
    assert status == 0
    assert out.startswith("warn  0_0 sums: the new version does not have this store")


@pytest.mark.parametrize(
    ("read", "status", "line"),
    [
        ("Sum.model_validate_json", 0, "the format of its value is unknown; 1 rows can be read"),
        ("lambda data: 1 / 0", 1, "the value under the key 'k' cannot be read: ZeroDivisionError"),
    ],
)
def test_rows_are_tried_by_a_serde_of_which_nothing_is_known(
    read: str, status: int, line: str, state: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    value = f"__import__('streams').serdes.serde_of(lambda one: one.model_dump_json().encode(), {read})"
    found, out = check(state, version(tmp_path, value=value), capsys)
    assert (found, line in out) == (status, True), out
