"""Damaged state of a running application is restored from its changelog, loudly and once; or is an error that names it.

Each test damages what is on disk, and tells rows that stayed from restored ones by a wrong count written there before.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from processor_api.errors import DamagedStateError
from processor_api.processor import Processor
from processor_api.record import Record
from processor_api.serde import Serdes
from processor_api.stores.factory import Stores
from processor_api.stores.queries import IsolationLevel, KeyQuery
from processor_api.topology.topology import Topology
from runtime_support.rebuilt import looking_up, rebuilds
from runtime_support.running_app import Cluster
from state.engine.port import OFFSETS, POSITIONS
from state.rocksdb.engine import RocksEngine
from state_support.all_kinds import change, drop_family
from streams.app.kafka_streams import KafkaStreams
from streams.app.states import ClientState
from streams.cli.main import main
from streams.queries.request import StateQueryRequest
from streams.queries.store_types import QueryableStoreTypes, StoreQueryParameters
from waiting import wait_until

S = Serdes.STRING
WRONG = (100).to_bytes(8, "big")
MANY = [f"m{number:05}" for number in range(3000)]
"""Enough for the first and the last of them to be in different blocks."""


class CountBoth(Processor[str, str, str, str]):
    """Forwards how often two stores saw the value."""

    def process(self, record: Record[str, str]) -> None:
        counts = []
        for name in ("counts", "others"):
            store = self.context.get_state_store(name)
            counts.append((store.get(record.value) or 0) + 1)
            store.put(record.value, counts[-1])
        self.context.forward(record.with_value(f"{record.value}={counts[0]},{counts[1]}"))


def topology(*, logged: bool = True) -> Topology:
    made = Topology().add_source("s", "in").add_processor("p", CountBoth, "s").add_sink("sink", "out", "p")
    for name in ("counts", "others"):
        supplier = Stores.persistent_key_value_store(name)
        builder = Stores.key_value_store_builder(supplier, S, Serdes.LONG)
        made.add_state_store(builder if logged or name == "counts" else builder.with_logging_disabled(), "p")
    return made


@pytest.fixture
def database(cluster: Cluster, state: Path) -> Path:
    """Of an application that counted and ended; both stores hold a wrong count of ``z``."""
    run(cluster, state, *(f"{value}=1,1" for value in (*MANY, "z")), sent=(*MANY, "z"))
    path = state / "app" / "0_0" / "rocksdb"
    for store in ("counts", "others"):
        change(path, f"{store}.plain", b"z", WRONG)
    return path


def run(cluster: Cluster, state: Path, *out: str, sent: tuple[str, ...], **more: Any) -> None:
    """Starts an application, until it has put out these too, and ends it."""
    before = cluster.values()
    app = cluster.app(topology(**more), {"state.dir": str(state)})
    cluster.send(*sent)
    cluster.until_out(*before, *out)
    assert app.close(60)


STORE = [("store is rebuilt from its changelog: it is damaged on disk", "counts", "0_0")]
TASK = [("the stores of a task are rebuilt from their changelogs: what they share is damaged", None, "0_0")]

# ---------------------------------------------------------------------- ways of damage


def table_file(database: Path, family: str = "counts.plain") -> Path:
    """The file with the rows of a family."""
    from state.rocksdb.reader import DatabaseReader

    with DatabaseReader(database) as reader:
        return max(
            (database / f"{number:06}.sst" for number in reader.files(family)), key=lambda one: one.stat().st_size
        )


def damaged_blocks(database: Path) -> None:
    """In place, as a disk does it."""
    file = table_file(database)
    with file.open("r+b") as opened:
        data = bytearray(opened.read())
        for at in range(0, len(data) // 2, 50):
            data[at] ^= 0xFF
        opened.seek(0)
        opened.write(data)


def a_short_file(database: Path) -> None:
    file = table_file(database)
    file.write_bytes(file.read_bytes()[:100])


def a_lost_file(database: Path) -> None:
    table_file(database).unlink()


def a_lost_family(database: Path) -> None:
    drop_family(database, "counts.plain")


def a_garbled_offset(database: Path) -> None:
    change(database, OFFSETS, b"app-counts-changelog-0", b"?")


def a_lost_root(database: Path) -> None:
    (database / "CURRENT").unlink()


def a_garbled_list_of_files(database: Path) -> None:
    for file in database.glob("MANIFEST-*"):
        file.write_bytes(b"\xff" * 100)


def lost_offsets(database: Path) -> None:
    drop_family(database, OFFSETS)


def a_garbled_position(database: Path) -> None:
    change(database, POSITIONS, b"in-0", b"?")


def a_lost_log(database: Path) -> None:
    """In front of a later one; as in a process that is killed while it flushes, and a copy that misses a file."""
    engine = RocksEngine(database, [])
    copy = database.with_name("copy")
    for name in (POSITIONS, "counts.plain"):
        batch = engine.batch()
        batch.put(b"in-9", bytes(8), engine.family(POSITIONS).handle)
        engine.write(batch)
        engine.family(name).flush()
    shutil.copytree(database, copy)
    engine.close()
    shutil.rmtree(database)
    copy.rename(database)
    min(database.glob("*.log")).unlink()


OF_A_STORE = [damaged_blocks, a_short_file, a_lost_file, a_lost_family, a_garbled_offset]
OF_A_TASK = [a_lost_root, a_garbled_list_of_files, lost_offsets, a_garbled_position, a_lost_log]

# ---------------------------------------------------------------------- rebuilt


@pytest.mark.parametrize(
    ("damage", "other_count", "told"),
    [*((damage, 101, STORE) for damage in OF_A_STORE), *((damage, 2, TASK) for damage in OF_A_TASK)],
)
def test_a_damaged_store_is_restored_and_the_others_of_its_task_stay_if_they_are_whole(
    damage: Callable[[Path], None],
    other_count: int,
    told: list[Any],
    cluster: Cluster,
    state: Path,
    database: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    damage(database)
    run(cluster, state, f"{MANY[0]}=2,2", f"z=2,{other_count}", sent=(MANY[0], "z"))
    assert rebuilds(caplog) == told
    run(cluster, state, f"{MANY[0]}=3,3", f"z=3,{other_count + 1}", sent=(MANY[0], "z"))
    assert rebuilds(caplog) == told


def test_damage_met_while_records_are_processed_costs_none_of_them(
    cluster: Cluster, state: Path, database: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The transaction is rolled back, and its records are processed again on the restored store."""
    seen = cluster.values()
    app = cluster.app(topology(), {"state.dir": str(state), "processing.guarantee": "exactly_once_v2"})
    cluster.send("z")
    cluster.until_out(*seen, "z=101,101")
    damaged_blocks(database)
    cluster.send("new", MANY[0])
    cluster.until_out(*seen, "z=101,101", "new=1,1", f"{MANY[0]}=2,2")
    assert rebuilds(caplog) == STORE
    assert app.state is ClientState.RUNNING
    assert app.failure is None
    cluster.send("z")
    cluster.until_out(*seen, "z=101,101", "new=1,1", f"{MANY[0]}=2,2", "z=102,102")


def test_what_is_damaged_again_is_not_rebuilt_again(
    cluster: Cluster, state: Path, database: Path, caplog: pytest.LogCaptureFixture
) -> None:
    seen = cluster.values()
    damaged_blocks(database)
    app = cluster.app(topology(), {"state.dir": str(state)})
    cluster.send(MANY[0])
    cluster.until_out(*seen, f"{MANY[0]}=2,2")
    damaged_blocks(database)
    cluster.send(MANY[1000])
    cluster.until_state(app, ClientState.ERROR)
    assert "this process has already rebuilt it once; check the disk" in told(app, "counts")
    assert rebuilds(caplog) == STORE


# ---------------------------------------------------------------------- refused


def told(app: KafkaStreams, store: str | None) -> str:
    """What the application failed with."""
    failure: BaseException | None = app.failure
    assert isinstance(failure, DamagedStateError), failure
    assert failure.store == store
    return str(failure)


@pytest.mark.parametrize("damage", [*OF_A_STORE, *OF_A_TASK])
def test_if_asked_to_the_application_ends_and_the_command_that_it_names_mends_it(
    damage: Callable[[Path], None],
    cluster: Cluster,
    state: Path,
    database: Path,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    damage(database)
    assert main(["state", "verify", "--state-dir", str(state)]) == 1
    assert "fail  0_0" in capsys.readouterr().out
    cluster.send(MANY[0])
    command: list[str] = []
    for _ in range(2):
        app = cluster.app(topology(), {"state.dir": str(state), "state.on.damage": "fail"})
        cluster.until_state(app, ClientState.ERROR)
        assert isinstance(app.failure, DamagedStateError)
        said = str(app.failure)
        assert "is damaged" in said
        command = said.partition("`streams ")[2].partition("`")[0].split()
        assert command in (["state", "rebuild", "counts"], ["state", "rebuild", "--task", "0_0"])
        app.close(10)
    assert rebuilds(caplog) == []
    assert main([*command, "--state-dir", str(state)]) == 0
    run(cluster, state, f"{MANY[0]}=2,2", sent=())


def test_a_store_without_a_changelog_is_not_thrown_away(cluster: Cluster, state: Path, tmp_path: Path) -> None:
    unlogged = topology(logged=False)
    app = cluster.app(unlogged, {"state.dir": str(state)})
    cluster.send("z")
    cluster.until_out("z=1,1")
    assert app.close(60)
    database = state / "app" / "0_0" / "rocksdb"
    file = table_file(database, "others.plain")
    whole = file.read_bytes()
    for damage in (lambda: file.write_bytes(b"nothing"), lambda: (database / "CURRENT").rename(tmp_path / "aside")):
        damage()
        app = cluster.app(topology(logged=False), {"state.dir": str(state)})
        cluster.until_state(app, ClientState.ERROR)
        failure = str(app.failure)
        assert "it is not rebuilt automatically: store 'others' does not have a changelog" in failure
        assert "run `streams state rebuild " in failure
        assert app.close(60)
        file.write_bytes(whole)
    (tmp_path / "aside").rename(database / "CURRENT")
    app = cluster.app(topology(logged=False), {"state.dir": str(state)})
    cluster.send("z")
    cluster.until_out("z=1,1", "z=2,2")


def test_queries_that_meet_damage_say_so_and_the_application_goes_on(
    cluster: Cluster, state: Path, database: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """They are of other threads, and take nothing out; the thread that writes the store does when it meets it."""
    seen = cluster.values()
    app = cluster.app(topology(), {"state.dir": str(state)})
    cluster.until_state(app, ClientState.RUNNING)
    damaged_blocks(database)
    parameters = StoreQueryParameters.from_name_and_type("counts", QueryableStoreTypes.key_value_store())
    errors = []
    for level in IsolationLevel:
        store = app.store(parameters).read_only(level)
        for read in (lambda store=store: store.get(MANY[0]), lambda store=store: list(store.all())):
            with pytest.raises(DamagedStateError, match=r"store .counts. at .*`streams state rebuild") as caught:
                read()
            errors.append(caught.value)  # whoever keeps one does not keep the database open
        request = StateQueryRequest.in_store("counts").with_query(KeyQuery(MANY[0]))
        answer = app.query(request.with_isolation_level(level)).only_partition_result
        assert answer is not None
        assert answer.is_failure
        assert "store 'counts' at " in answer.failure_message
    assert rebuilds(caplog) == []
    assert app.state is ClientState.RUNNING
    cluster.send(MANY[0])
    cluster.until_out(*seen, f"{MANY[0]}=2,2")
    assert rebuilds(caplog) == STORE
    assert app.store(parameters).get(MANY[1]) == 1


# ---------------------------------------------------------------------- global stores


@pytest.fixture
def global_database(cluster: Cluster, state: Path) -> Path:
    """Of an application that ended; it holds a wrong value of ``z``, to tell its rows from others."""
    cluster.broker.create_topic("ref", 1)
    for key in (*MANY, "z"):
        cluster.send("right", topic="ref", key=key)
    answers(cluster, state, "right", sent="z")
    path = state / "app" / "global" / "0" / "rocksdb"
    change(path, "g.plain", b"z", b"wrong")
    return path


def answers(cluster: Cluster, state: Path, *out: str, sent: str) -> None:
    before = cluster.values()
    app = cluster.app(looking_up(), {"state.dir": str(state)})
    cluster.send(sent)
    cluster.until_out(*before, *out)
    assert app.close(60)


def a_global_table(database: Path) -> None:
    table_file(database, "g.plain").write_bytes(b"nothing")


def a_global_offset(database: Path) -> None:
    change(database, OFFSETS, b"g.plain/ref-0", b"?")


@pytest.mark.parametrize("damage", [a_global_table, a_global_offset, a_lost_root])
def test_damaged_global_stores_are_filled_anew_before_the_application_starts(
    damage: Callable[[Path], None],
    cluster: Cluster,
    state: Path,
    global_database: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    damage(global_database)
    answers(cluster, state, "right", sent="z")
    store = None if damage is a_lost_root else "g"
    assert [(one, task) for _, one, task in rebuilds(caplog)] == [(store, "global/0")]


@pytest.mark.parametrize("damage", [a_global_table, a_global_offset, a_lost_root])
def test_if_asked_to_a_start_fails_that_finds_damaged_global_stores(
    damage: Callable[[Path], None], cluster: Cluster, state: Path, global_database: Path
) -> None:
    damage(global_database)
    of = "g" if damage is a_global_offset else "--task global/0"
    with pytest.raises(DamagedStateError, match=f"streams state rebuild {of}`") as caught:
        cluster.app(looking_up(), {"state.dir": str(state), "state.on.damage": "fail"})
    cluster.apps.pop().close(10)
    command = str(caught.value).partition("`streams ")[2].partition("`")[0].split()
    assert main([*command, "--state-dir", str(state)]) == 0
    answers(cluster, state, "right", sent="z")


def test_global_stores_that_are_met_damaged_are_filled_anew_by_the_next_start(
    cluster: Cluster, state: Path, global_database: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Other threads have them open, so that they cannot be taken out at once."""
    file = table_file(global_database, "g.plain")
    app = cluster.app(looking_up(), {"state.dir": str(state)})
    wait_until("it runs", lambda: app.state is ClientState.RUNNING)
    with file.open("r+b") as opened:
        opened.write(b"\xff" * (file.stat().st_size // 2))
    cluster.send(MANY[0])
    cluster.until_state(app, ClientState.ERROR)
    assert "it is removed when the application closes, and refilled at the next start" in told(app, "g")
    assert app.close(60)
    assert [(store, task) for _, store, task in rebuilds(caplog)] == [("g", "global/0")]
    seen = cluster.values()
    app = cluster.app(looking_up(), {"state.dir": str(state)})
    cluster.send("z")
    cluster.until_out(*seen, "right", "right")
