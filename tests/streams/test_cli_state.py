"""`streams state`, on the directory of a task with a store of each kind."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from processor_api.errors import StateDirectoryError
from runtime_support.task_kit import TaskKit
from state.directory.metadata import METADATA_FILE
from state.directory.state_directory import StateDirectory
from state.engine.port import OFFSETS
from state.formats.offsets import complete_at_key
from state.rocksdb.engine import RocksEngine
from state_support.all_kinds import KINDS, change, made
from streams.cli.main import main
from streams.cli.state import dump

TOPOLOGY = "state_support.all_kinds:topology"
RECORDS = (("a", "one", 10), ("b", "two", 120), ("a", "three", 230), ("b", "-", 340), ("c", "four", 350))
TWO_WINDOWS = ("a", "one", 0), ("b", "two", 100), ("a", "three", 200), ("c", "four", 300)

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def running(root: Path) -> Iterator[TaskKit]:
    """A task that has its stores open."""
    kit = made(root, *RECORDS)
    with kit, StateDirectory.open(root, "app").try_lock_task(kit.environment.task_id):  # type: ignore[union-attr]
        yield kit


@pytest.fixture
def stopped(root: Path) -> Path:
    """The database of a task that has closed them."""
    kit = made(root, *RECORDS)
    kit.task.close(dirty=True)
    return root / "app" / "0_0" / "rocksdb"


@pytest.fixture
def state(root: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    def run(command: str, *arguments: str, where: Path = root) -> tuple[int, str, str]:
        capsys.readouterr()
        status = main(["state", command, *arguments, "--state-dir", str(where)])
        out, err = capsys.readouterr()
        return status, out, err

    return run


def dumped(state: Run, store: str, *arguments: str) -> list[dict[str, Any]]:
    status, out, err = state("dump", store, "--topology", TOPOLOGY, "--format", "json", *arguments)
    assert (status, err) == (0, "")
    rows = [json.loads(line) for line in out.splitlines()]
    assert all(row.pop("task") == "0_0" for row in rows)
    return rows


def keys(state: Run, store: str, *arguments: str) -> str:
    return "".join(row["key"] for row in dumped(state, store, *arguments))


def files(directory: Path) -> dict[Path, tuple[int, int]]:
    return {path: (path.stat().st_size, path.stat().st_mtime_ns) for path in (directory, *directory.rglob("*"))}


# ---------------------------------------------------------------------- list


def test_stores_are_listed_while_the_worker_runs(running: TaskKit, state: Run) -> None:
    status, out, _ = state("list", "--format", "json")
    rows = {row["store"]: row for row in map(json.loads, out.splitlines())}
    assert status == 0
    assert {name: row["kind"] for name, row in rows.items()} == KINDS
    for name, row in rows.items():
        assert (row["application"], row["task"], row["format"]) == ("app", "0_0", "1")
        assert row["changelog"] == {f"app-{name}-changelog-0": 4}
        assert row["input"] == {"in-0": 5}
        assert row["rows"] == {"versioned": 4}.get(name, 2 if row["kind"].endswith(("value", "list")) else 4)


def test_a_list_for_people_has_a_line_for_each_store(stopped: Path, state: Run) -> None:
    status, out, _ = state("list")
    head, *lines = out.splitlines()
    assert status == 0
    assert head.split() == ["application", "task", "store", "kind", "format", "rows", "size", "changelog", "input"]
    assert [line.split()[2] for line in lines] == sorted(KINDS)
    assert "app-plain-changelog-0@4" in out
    assert "in-0@5" in out


def test_applications_that_share_a_directory_are_listed_or_named(stopped: Path, root: Path, state: Run) -> None:
    StateDirectory.open(root, "other")
    assert state("list")[0] == 0
    status, _, err = state("dump", "plain")
    assert status == 2
    assert f"{root} has state of: app, other: choose one by its application.id" in err
    assert state("dump", "plain", "--application-id", "app")[0] == 0


# ---------------------------------------------------------------------- dump


def test_each_kind_is_dumped_with_what_it_keeps(running: TaskKit, state: Run) -> None:
    def times(start: str, end: str, length: int) -> list[dict[str, Any]]:
        return [{"key": key, "value": value, start: at, end: at + length} for key, value, at in TWO_WINDOWS]

    windows = [row | {"sequence": 0} for row in times("window_start", "window_end", 100)]
    stamped = [row | {"timestamp": time} for row, time in zip(windows, (10, 120, 230, 350), strict=True)]
    sessions = times("session_start", "session_end", 50)
    latest = [{"key": "a", "value": "three"}, {"key": "c", "value": "four"}]
    stamps = [row | {"timestamp": time} for row, time in zip(latest, (230, 350), strict=True)]

    def by_key(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return sorted(rows, key=lambda row: row["key"])

    assert dumped(state, "plain") == latest
    assert dumped(state, "stamped") == stamps
    assert dumped(state, "headed") == [row | {"headers": [["h", "01"]]} for row in stamps]
    assert dumped(state, "listed") == [{"key": "a", "value": ["one", "three"]}, {"key": "c", "value": ["four"]}]
    assert dumped(state, "versioned") == [
        {"key": "a", "value": "one", "valid_from": 10, "valid_to": 230},
        {"key": "a", "value": "three", "valid_from": 230},
        {"key": "b", "value": "two", "valid_from": 120, "valid_to": 340},
        {"key": "c", "value": "four", "valid_from": 350},
    ]
    assert dumped(state, "window") == by_key(windows)
    assert dumped(state, "stamped-window") == by_key(stamped)
    assert dumped(state, "ordered-window") == stamped
    assert dumped(state, "session") == by_key(sessions)
    assert dumped(state, "ordered-session") == sessions


@pytest.mark.parametrize("store", KINDS)
def test_ranges_prefixes_and_limits(store: str, running: TaskKit, state: Run) -> None:
    everything = keys(state, store)
    assert keys(state, store, "--reverse") == everything[::-1]
    assert keys(state, store, "--from", "b") == everything.replace("a", "")
    assert keys(state, store, "--to", "b") == everything.replace("c", "")
    assert set(keys(state, store, "--from", "a", "--to", "a")) == {"a"}
    assert keys(state, store, "--prefix", "c") == "c"
    assert keys(state, store, "--prefix", "hex:63") == "c"
    assert keys(state, store, "--from", "b", "--to", "a") == ""
    assert keys(state, store, "--limit", "1", "--reverse") == everything[-1]


def test_without_serdes_bytes_are_hexadecimal_digits(stopped: Path, state: Run) -> None:
    assert state("dump", "plain") == (0, "task  key  value\n0_0   61   7468726565\n0_0   63   666f7572\n", "")
    found = state("dump", "plain", "--from", "62", "--value-serde", "string")
    assert found == (0, "task  key  value\n0_0   63   four\n", "")
    assert state("dump", "plain", "--from", "64") == (0, "", "")


def test_a_dump_for_people_is_a_table_with_times_in_utc(stopped: Path, state: Run) -> None:
    def table(store: str) -> list[str]:
        status, out, err = state("dump", store, "--topology", TOPOLOGY)
        assert (status, err) == (0, "")
        return out.splitlines()

    assert table("versioned") == [
        "task  key  valid_from                valid_to                  value",
        "0_0   a    1970-01-01T00:00:00.010Z  1970-01-01T00:00:00.230Z  one",
        "0_0   a    1970-01-01T00:00:00.230Z                            three",
        "0_0   b    1970-01-01T00:00:00.120Z  1970-01-01T00:00:00.340Z  two",
        "0_0   c    1970-01-01T00:00:00.350Z                            four",
    ]
    assert table("headed")[:2] == [
        "task  key  timestamp                 headers  value",
        "0_0   a    1970-01-01T00:00:00.230Z  h:01     three",
    ]
    assert table("window")[:2] == [
        "task  key  window_start              window_end                sequence  value",
        "0_0   a    1970-01-01T00:00:00.000Z  1970-01-01T00:00:00.100Z         0  one",
    ]
    assert table("listed")[1] == '0_0   a    ["one", "three"]'


def test_times_that_no_calendar_has_are_numbers() -> None:
    """Those of a window without an end, or that a broken client wrote."""
    assert dump.cell("window_end", 2**63 - 1) == "9223372036854775807"
    assert dump.cell("timestamp", -1) == "-1"
    assert dump.cell("timestamp", -(2**62)) == "-4611686018427387904"


def test_texts_of_a_table_are_one_line_and_no_command(stopped: Path, state: Run) -> None:
    change(stopped, "plain.plain", b"b", "\x1b[2J\nnext \u202e\x9b31m".encode())
    change(stopped, "plain.plain", b"c", b"")
    out = state("dump", "plain", "--topology", TOPOLOGY)[1]
    assert out == (
        'task  key  value\n0_0   a    three\n0_0   b    "\\u001b[2J\\nnext \\u202e\\u009b31m"\n0_0   c    ""\n'
    )


@pytest.mark.parametrize(
    "name",
    [
        "string",
        "StringSerde",
        "org.apache.kafka.common.serialization.Serdes$StringSerde",
        "processor_api.serde:Serdes.STRING",
    ],
)
def test_serdes_are_named_as_in_settings(name: str, stopped: Path, state: Run) -> None:
    status, out, err = state("dump", "plain", "--key-serde", name, "--value-serde", "bytes", "--from", "c")
    if name == "StringSerde":
        assert (status, "--key-serde must be a serde, one of the names avro, boolean, " in err) == (2, True)
    else:
        assert (status, out, err) == (0, "task  key  value\n0_0   c    four\n", "")


def test_a_serde_that_does_not_exist_is_told(stopped: Path, state: Run) -> None:
    status, out, err = state("dump", "plain", "--value-serde", "strng")
    assert (status, out) == (2, "")
    assert err.startswith("error: --value-serde must be a serde, one of the names avro, boolean, bytes, double, ")
    assert err.endswith("; got 'strng'; did you mean \"string\"?; or hex, for the bytes\n")


def test_a_serde_that_does_not_fit_is_told(stopped: Path, state: Run) -> None:
    status, _, err = state("dump", "plain", "--value-serde", "long")
    assert status == 1
    assert "the value 7468726565 cannot be read by the serde 'long'" in err
    assert "--value-serde, or hex [store='plain']" in err
    for key, serde in (("x", "long"), ("6", "hex"), ("hex:zz", "string"), ("{", "json")):
        status, _, err = state("dump", "plain", "--key-serde", serde, "--from", key)
        assert (status, f"{key!r} is not a key of store 'plain'" in err) == (2, True)


@pytest.mark.parametrize("command", [("dump", "nope"), ("verify", "nope"), ("rebuild", "nope")])
def test_an_unknown_store_is_answered_with_those_there_are(
    command: tuple[str, ...], stopped: Path, root: Path, state: Run
) -> None:
    status, _, err = state(*command)
    assert status == 2
    assert err == f"error: store 'nope' does not exist on disk in {root}; existing stores: {', '.join(sorted(KINDS))}\n"


def test_a_topology_without_the_store_is_told(stopped: Path, state: Run, tmp_path: Path) -> None:
    status, _, err = state("dump", "nope", "--topology", TOPOLOGY)
    assert (status, "the topology does not have store 'nope'; it has: headed, " in err) == (2, True)


# ---------------------------------------------------------------------- directories


def test_a_directory_that_is_not_there_is_told_and_not_made(root: Path, state: Run) -> None:
    status, _, err = state("list")
    assert status == 2
    assert f"the state directory {root} does not exist" in err
    assert not root.exists()


def test_a_directory_of_java_is_refused(root: Path, state: Run) -> None:
    (root / "app" / "0_0").mkdir(parents=True)
    (root / "app" / "kafka-streams-process-metadata").touch()
    for arguments in (("list", "--application-id", "app"), ("dump", "s", "--application-id", "app")):
        status, _, err = state(*arguments)
        assert (status, "holds state of Kafka Streams in Java" in err) == (2, True)


def test_another_application_is_answered_with_those_there_are(stopped: Path, root: Path, state: Run) -> None:
    status, _, err = state("verify", "--application-id", "shop")
    assert (status, err) == (2, f"error: no state of application 'shop' exists; {root} has state of: app\n")
    assert state("verify", "--task", "0_7")[2].endswith("does not have state of task 0_7; it has state of: 0_0\n")


def test_a_directory_that_says_it_is_of_another_application_is_refused(stopped: Path, root: Path, state: Run) -> None:
    (root / "app").rename(root / "shop")
    status, _, err = state("dump", "plain")
    assert (status, "belongs to the application 'app', not to 'shop'" in err) == (2, True)


def test_nothing_is_changed_by_looking(stopped: Path, root: Path, state: Run, tmp_path: Path) -> None:
    """Opening a database as the binding does writes a file into its directory."""
    before = files(root)
    for arguments in (("list",), ("dump", "plain"), ("verify",), ("dump", "versioned", "--topology", TOPOLOGY)):
        assert state(*arguments)[0] == 0
    assert files(root) == before


# ---------------------------------------------------------------------- verify


def test_whole_state_is_verified_while_the_worker_runs(running: TaskKit, state: Run) -> None:
    status, out, _ = state("verify")
    assert status == 0
    assert len(out.splitlines()) == 1 + len(KINDS)
    assert all(line.startswith("ok ") for line in out.splitlines())
    assert "ok    0_0 versioned: versioned-key-value, 4 entries, app-versioned-changelog-0@4" in out
    assert len(state("verify", "plain")[1].splitlines()) == 1


@pytest.mark.parametrize(
    ("family", "key", "value", "said"),
    [
        (
            "stamped.timestamped",
            b"d",
            b"short",
            "fail  0_0 stamped: store 'stamped' at .* the row under 64 does not belong to",
        ),
        (
            "session.session-plain",
            b"d",
            b"",
            "fail  0_0 session: store 'session' .* the row under 64 does not belong to",
        ),
        (
            OFFSETS,
            b"app-window-changelog-0",
            b"x",
            "fail  0_0 window: its changelog offset of .* is damaged",
        ),
        (OFFSETS, b"app-plain-changelog-0", None, "fail  0_0 plain: 2 entries, but no changelog offset"),
        ("positions", b"in-0", b"x", "fail  0_0: .* its input position of in-0 is not an offset"),
        (OFFSETS, b"streams.format", b"9", "fail  0_0: .* has format 9, but this release reads 1"),
        (OFFSETS, b"streams.format", None, "fail  0_0: .* does not contain the format"),
    ],
)
def test_what_is_wrong_is_told(
    family: str, key: bytes, value: bytes | None, said: str, stopped: Path, state: Run
) -> None:
    change(stopped, family, key, value)
    status, out, _ = state("verify")
    assert status == 1
    (failed,) = [line for line in out.splitlines() if not line.startswith("ok ")]
    assert re.match(said, failed), failed


def test_a_store_without_a_changelog_is_known_from_the_topology(stopped: Path, state: Run, tmp_path: Path) -> None:
    change(stopped, OFFSETS, b"app-plain-changelog-0", None)
    assert state("verify", "plain", "--topology", TOPOLOGY)[0] == 1
    assert state("verify", "plain", "--topology", "state_support.all_kinds:unlogged_topology")[0] == 0


# ---------------------------------------------------------------------- rebuild


def test_a_store_is_not_rebuilt_while_the_worker_runs(running: TaskKit, root: Path, state: Run) -> None:
    for arguments in (("plain",), ("--task", "0_0")):
        status, out, err = state("rebuild", *arguments)
        assert (status, out) == (1, "")
        assert "a worker of application 'app' has task 0_0" in err
        assert "stop it first; nothing was changed" in err
    assert running.store("plain").get("a") == "three"
    assert dumped(state, "plain") != []


def test_a_rebuilt_store_is_gone_with_its_offset_and_others_are_not(stopped: Path, state: Run) -> None:
    status, out, _ = state("rebuild", "window")
    assert status == 0
    assert out == (
        "task 0_0: removed store 'window', 4 entries, app-window-changelog-0@4; the next start restores it from its"
        " changelog\n"
    )
    listed = [json.loads(line) for line in state("list", "--format", "json")[1].splitlines()]
    assert {row["store"] for row in listed} == KINDS.keys() - {"window"}
    assert all(row["rows"] for row in listed)
    engine = RocksEngine(stopped, ["window.window-plain"])
    assert not engine.holds("window.window-plain")
    assert engine.family(OFFSETS).get(b"app-window-changelog-0") is None
    engine.close()
    assert state("verify")[0] == 0


def test_rows_that_may_have_no_changelog_are_removed_by_force_only(stopped: Path, state: Run) -> None:
    for key in (b"app-plain-changelog-0", complete_at_key("app-plain-changelog")):
        change(stopped, OFFSETS, key, None)
    status, _, err = state("rebuild", "plain")
    assert (status, "store 'plain' does not have a changelog offset in task 0_0" in err) == (2, True)
    assert dumped(state, "plain") != []
    status, _, err = state("rebuild", "plain", "--force")
    assert (status, "give --yes" in err) == (2, True)
    assert state("rebuild", "plain", "--force", "--yes")[0] == 0
    assert state("dump", "plain")[0] == 2


def test_the_state_of_a_task_with_such_rows_is_removed_by_force_only(stopped: Path, state: Run) -> None:
    """It was removed unasked, and with it the only copy of the rows."""
    for key in (b"app-plain-changelog-0", complete_at_key("app-plain-changelog")):
        change(stopped, OFFSETS, key, None)
    for words in ((), ("--yes",)):
        status, out, err = state("rebuild", "--task", "0_0", *words)
        assert (status, out, "store 'plain' does not have a changelog offset in task 0_0" in err) == (2, "", True)
    status, out, err = state("rebuild", "--task", "0_0", "--force")
    assert (status, out, "give --yes to remove rows that cannot be restored" in err) == (2, "", True)
    assert stopped.exists()
    assert dumped(state, "plain") != []
    assert state("rebuild", "--task", "0_0", "--force", "--yes")[0] == 0
    assert not stopped.exists()


def test_all_state_of_a_task_is_removed_also_when_it_cannot_be_read(stopped: Path, root: Path, state: Run) -> None:
    assert state("rebuild")[0] == 2
    (stopped / "CURRENT").write_text("nothing\n")
    status, out, _ = state("rebuild", "--task", "0_0")
    assert status == 0
    assert out.startswith("task 0_0: removed all state, which could not be read (")
    assert not stopped.exists()
    assert (root / "app" / METADATA_FILE).exists()


# ---------------------------------------------------------------------- odd small files


@pytest.mark.parametrize("content", [b"", bytes(120), b"\xff{", b"[]"])
def test_metadata_that_cannot_be_read_are_told_and_left_as_they_are(
    content: bytes, stopped: Path, root: Path, state: Run
) -> None:
    """The state was not shown, though all of it was there."""
    (root / "app" / METADATA_FILE).write_bytes(content)
    assert [line.split()[2] for line in state("list")[1].splitlines()[1:]] == sorted(KINDS)
    assert state("dump", "plain", "--application-id", "app")[0] == 0
    status, out, err = state("verify")
    assert (status, err) == (0, "")
    assert f"warn  app: {METADATA_FILE} is damaged in {root / 'app'}: the next start writes another" in out
    assert (root / "app" / METADATA_FILE).read_bytes() == content


def test_without_metadata_the_state_is_shown_nevertheless(stopped: Path, root: Path, state: Run) -> None:
    """It was said to be of Java, or not there."""
    (root / "app" / METADATA_FILE).unlink()
    assert [line.split()[2] for line in state("list")[1].splitlines()[1:]] == sorted(KINDS)
    assert state("list", where=root / "app")[1] == state("list")[1]
    status, out, err = state("verify")
    assert (status, err) == (0, "")
    assert f"warn  app: {METADATA_FILE} is missing in {root / 'app'}: the next start writes another" in out
    assert state("dump", "plain", "--application-id", "app")[0] == 0
    assert state("rebuild", "plain")[0] == 0
    assert (root / "app" / METADATA_FILE).exists()


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"", b"MANIFEST-999999\n", b"../../../../../etc/passwd\n"])
def test_a_root_file_that_names_no_list_of_files_is_told(content: bytes, stopped: Path, root: Path, state: Run) -> None:
    (stopped / "CURRENT").write_bytes(content)
    status, out, _ = state("verify")
    assert status == 1
    assert out.startswith(f"fail  0_0: the database at {stopped} is damaged: ")
    assert "streams state rebuild --task 0_0" in out
    for command, wanted in ((["list"], 1), (["dump", "plain"], 2)):
        status, _, err = state(*command)
        assert (status, "Unicode" in err) == (wanted, False)
        assert "is damaged: " in err


def a_file(path: Path) -> None:
    path.write_text("x")


def a_link_to_itself(path: Path) -> None:
    path.symlink_to(path.name)


@pytest.mark.parametrize("what", [a_file, a_link_to_itself])
@pytest.mark.parametrize("place", ["0_0", "0_0/rocksdb"])
def test_what_is_in_the_place_of_a_directory_is_told(
    what: Callable[[Path], None], place: str, stopped: Path, root: Path, state: Run
) -> None:
    """Nothing was printed, and the exit status was 0."""
    path = root / "app" / place
    shutil.rmtree(path)
    what(path)
    status, out, _ = state("verify")
    assert status == 1
    assert out == (
        f"fail  0_0: {path} is not a directory: move it elsewhere; the next start restores its state from changelogs\n"
    )
    status, _, err = state("list")
    assert (status, f"{path} is not a directory" in err) == (1, True)
    with pytest.raises(
        StateDirectoryError,
        match=r"move it elsewhere|has the name of one of its files or directories: move it away",
    ):
        made(root, *RECORDS)
    path.unlink()
    assert state("verify")[1] == f"{root} does not have stores on disk\n"


# ---------------------------------------------------------------------- export


def test_an_export_without_pyarrow_says_what_to_install(
    stopped: Path, state: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)  # as if it were not installed
    status, _, err = state("export", "plain", "--to-file", str(tmp_path / "rows.parquet"))
    assert (status, err) == (2, "error: Parquet needs pyarrow: pip install 'streams-for-kafka[parquet]'\n")


def test_entries_are_exported_with_their_types(stopped: Path, state: Run, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    target = tmp_path / "rows.parquet"

    def exported(store: str, *arguments: str) -> list[dict[str, Any]]:
        status, out, _ = state("export", store, "--to-file", str(target), *arguments)
        table = parquet.read_table(target)
        assert (status, out) == (0, f"wrote {table.num_rows} entries to {target}\n")
        return table.to_pylist()  # type: ignore[no-any-return]

    assert exported("plain")[0] == {"task": "0_0", "key": b"a", "value": b"three"}
    assert exported("headed", "--topology", TOPOLOGY, "--limit", "1") == [
        {"task": "0_0", "key": "a", "value": "three", "timestamp": 230, "headers": [{"name": "h", "value": b"\x01"}]}
    ]
    versions = exported("versioned", "--topology", TOPOLOGY)
    assert [(row["key"], row["valid_from"], row["valid_to"]) for row in versions] == [
        ("a", 10, 230),
        ("a", 230, None),
        ("b", 120, 340),
        ("c", 350, None),
    ]
    assert exported("listed", "--topology", TOPOLOGY)[0]["value"] == '["one", "three"]'
    assert exported("plain", "--prefix", "7a") == []
    assert list(tmp_path.glob("*.tmp")) == []


def test_an_export_has_the_columns_of_the_kind_whatever_its_first_entries_are(
    stopped: Path, state: Run, tmp_path: Path
) -> None:
    """They were those of the first 10,000 entries: later ones lost what only they had, and nothing was said."""
    parquet = pytest.importorskip("pyarrow.parquet")
    target = tmp_path / "rows.parquet"
    columns = {
        "plain": [],
        "stamped": ["timestamp"],
        "headed": ["timestamp", "headers"],
        "listed": [],
        "versioned": ["valid_from", "valid_to"],
        "window": ["window_start", "sequence"],
        "headed-window": ["timestamp", "headers", "window_start", "sequence"],
        "ordered-session": ["session_start", "session_end"],
        "headed-session": ["headers", "session_start", "session_end"],
    }
    for limit in ("0", "1", "1000"):
        for store, more in columns.items():
            assert state("export", store, "--to-file", str(target), "--limit", limit)[0] == 0
            assert parquet.read_schema(target).names == ["task", "key", "value", *more]
    assert state("export", "window", "--to-file", str(target), "--limit", "0", "--topology", TOPOLOGY)[0] == 0
    assert "window_end" in parquet.read_schema(target).names


def test_every_kind_is_exported_whole(stopped: Path, state: Run, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    target = tmp_path / "rows.parquet"
    for store in KINDS:
        assert state("export", store, "--to-file", str(target), "--topology", TOPOLOGY)[0] == 0
        exported = parquet.read_table(target).to_pylist()
        for row, entry in zip(exported, dumped(state, store), strict=True):
            assert entry.keys() | {"task"} <= row.keys()
            assert {name: row[name] for name in entry.keys() - {"key", "value", "headers"}} == {
                name: entry[name] for name in entry.keys() - {"key", "value", "headers"}
            }


def test_what_json_reads_is_json_in_an_export(stopped: Path, state: Run, tmp_path: Path) -> None:
    """Whatever types the values have; it was text or JSON, by those of the first entries."""
    parquet = pytest.importorskip("pyarrow.parquet")
    target = tmp_path / "rows.parquet"
    values = ["1", '"text"', "1.5", '{"a": [1]}', "true"]
    for number, value in enumerate(values):
        change(stopped, "plain.plain", b"json-%d" % number, value.encode())
    prefix = b"json-".hex()
    status, _, err = state("export", "plain", "--to-file", str(target), "--value-serde", "json", "--prefix", prefix)
    assert (status, err) == (0, "")
    assert parquet.read_table(target).column("value").to_pylist() == values


# ---------------------------------------------------------------------- a real process

WRITER = """
import itertools, sys
from pathlib import Path
from state.engine.port import OFFSETS
from state.rocksdb.engine import RocksEngine
from state.rocksdb.options import RocksSettings, SharedMemory

memory = SharedMemory(RocksSettings(write_buffer_bytes=1 << 18, log_bytes=1 << 19))
engine = RocksEngine(Path(sys.argv[1]), ["one.plain", "two.plain"], memory)
handles = [engine.family(name).handle for name in ("one.plain", "two.plain")]
offsets = engine.family(OFFSETS).handle
for number in itertools.count():
    batch = engine.batch()
    for key in range(20):
        for handle in handles:
            batch.put(b"%04d" % (20 * number % 1000 + key), number.to_bytes(8, "big") + bytes(50), handle)
    batch.put(b"app-one-changelog-0", number.to_bytes(8, "big"), offsets)
    batch.put(b"app-two-changelog-0", number.to_bytes(8, "big"), offsets)
    engine.write(batch)
    if number == 100:
        print("writes", flush=True)
"""


def test_what_is_shown_while_a_process_writes_is_of_one_commit(tmp_path: Path) -> None:
    """Rows of all stores agree with the offset, also while table files come and go."""
    from state.rocksdb.reader import DatabaseReader

    path = tmp_path / "db"
    with subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "writes\n"
        try:
            for _ in range(8):
                with DatabaseReader(path) as reader:
                    offset = int.from_bytes(reader.family(OFFSETS).get(b"app-one-changelog-0") or b"", "big")
                    for family in ("one.plain", "two.plain"):
                        found = {key: int.from_bytes(row[:8], "big") for key, row in reader.family(family).range()}
                        assert len(found) == 1000
                        assert max(found.values()) == offset
                        assert min(found.values()) == offset - 49
        finally:
            writer.kill()


def test_a_topology_gives_its_application_id_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As for every other command: `--topology app.py` showed the state of another application of the directory."""
    app = tmp_path / "app.py"
    app.write_text(
        "from streams import StreamsBuilder\n"
        'builder = StreamsBuilder(key_serde="string", value_serde="string")\n'
        'builder.table("in", materialized="plain")\n'
    )
    for name in ("app", "other"):
        kit = made(tmp_path / name, (name, "row", 10))
        kit.task.close(dirty=True)
    (tmp_path / "other" / "app").rename(tmp_path / "app" / "other")
    serdes = ("--key-serde", "string", "--value-serde", "string")
    words = ["state", "dump", "plain", "--state-dir", str(tmp_path / "app"), "--format", "json", *serdes]
    assert main(words) == 2
    assert "has state of: app, other: choose one by its application.id" in capsys.readouterr().err
    assert main([*words, "--topology", str(app)]) == 0
    assert [json.loads(line)["key"] for line in capsys.readouterr().out.splitlines()] == ["app"]
