"""Trials and questions, which register nothing in a registry and write nothing to Kafka or to snapshots."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from registry_server import KeptRegistry
from streams import Avro, SchemaRegistry, StreamsBuilder
from streams.cli.changes_nothing import changes_nothing
from streams.cli.main import main, parser
from streams.kafka.ports import NewTopic
from streams.kafka.read_only import WriteRefused, for_now
from streams.registry.schemas import RegistryAway, SchemaError
from streams.snapshots.cloud import open_objects
from streams.testing import EmbeddedKafka
from streams.trials import WriteInTrial, trial, trial_in_effect, trial_on_this_thread


@dataclass(frozen=True)
class Order:
    customer: str
    cents: int = 0


@pytest.fixture
def server() -> Iterator[KeptRegistry]:
    with KeptRegistry([]) as made:
        yield made


def test_a_schema_that_is_registered_keeps_its_id_in_a_trial(server: KeptRegistry) -> None:
    registry = SchemaRegistry(server.url)
    before = Avro(Order, registry=registry).bind("orders", is_key=False).serialize(Order("ann"))
    with trial("a test"):
        serde = Avro(Order, registry=registry).bind("orders", is_key=False)
        assert serde.serialize(Order("ann")) == before
        assert serde.deserialize(before) == Order("ann")


@pytest.mark.parametrize("ids", ["prefix", "header"])
def test_any_other_schema_gets_an_id_of_the_process(server: KeptRegistry, ids: str) -> None:
    registry = SchemaRegistry(server.url, schema_ids=ids)
    with trial("a test"):
        bound = [Avro(Order, registry=registry).bind(topic, is_key=False) for topic in ("orders", "orders-2")]
        written = [serde.serialize(Order("ann", 7)) if ids == "prefix" else b"" for serde in bound]
        if ids == "prefix":
            assert [Avro(registry=registry).bind("x", is_key=False).deserialize(data) for data in written] == [
                {"customer": "ann", "cents": 7}
            ] * 2
        else:
            headers: Any = __import__("streams").Headers()
            data = bound[0].with_headers(headers).serialize(Order("ann", 7))
            assert bound[1].with_headers(headers).deserialize(data) == Order("ann", 7)
    assert server.subjects == {}
    first = Avro(Order, registry=SchemaRegistry(server.url)).bind("orders", is_key=False).serialize(Order("ann", 7))
    assert first[:5] == b"\0\0\0\0\1"
    assert list(server.subjects) == ["orders-value"]


@dataclass(frozen=True)
class Place:
    city: str


def test_an_id_of_one_registry_is_none_of_another_in_a_trial(server: KeptRegistry) -> None:
    """A schema of a new subject kept its id for all registries of the process, which have others under that id."""
    with KeptRegistry([]) as other:
        places, orders = SchemaRegistry(other.url), SchemaRegistry(server.url)
        Avro(Place, registry=places).bind("places", is_key=False).serialize(Place("Rome"))
        data = Avro(Order, registry=orders).bind("orders", is_key=False).serialize(Order("ann"))
        with trial("a test"):
            for topic in ("places", "places-2"):
                Avro(Place, registry=places).bind(topic, is_key=False).serialize(Place("Rome"))
            assert Avro(Order, registry=orders).bind("orders", is_key=False).deserialize(data) == Order("ann")


def test_a_schema_has_one_id_in_all_subjects_of_a_trial(server: KeptRegistry) -> None:
    """Keys of a table and of the repartition topic that is joined with it stood in other partitions."""
    registry = SchemaRegistry(server.url)

    def written(*topics: str) -> set[bytes]:
        bound = [Avro(Order, registry=registry).bind(topic, is_key=True) for topic in topics]
        return {serde.serialize(Order("ann", 1)) for serde in bound}

    with trial("a test"):
        assert len(written("unknown-1", "unknown-2")) == 1
    registered = written("registered")
    with trial("a test"):
        assert written("registered", "new-1", "new-2") == registered


def test_a_reference_to_a_schema_of_the_process_is_followed(server: KeptRegistry) -> None:
    registry = SchemaRegistry(server.url)
    with trial("a test"):
        order = Avro(Order, name="shop.Order", registry=registry).bind("orders", is_key=False)
        order.serialize(Order("ann"))
        made = registry.client.latest("orders-value")
        box = {"type": "record", "name": "shop.Box", "fields": [{"name": "order", "type": "shop.Order"}]}
        references = [("shop.Order", "orders-value", made.version)]
        serde = Avro(schema=box, references=references, registry=registry).bind("boxes", is_key=False)
        value = {"order": {"customer": "ann", "cents": 1}}
        assert Avro(registry=registry).bind("boxes", is_key=False).deserialize(serde.serialize(value)) == value
    assert server.subjects == {}


def test_a_trial_without_its_registry_fails(server: KeptRegistry) -> None:
    with server:
        url = server.url
    registry = SchemaRegistry(url, timeout_ms=0)
    with trial("a test"), pytest.raises(RegistryAway):
        Avro(Order, registry=registry).bind("orders", is_key=False).serialize(Order("ann"))


def test_only_the_thread_of_a_question_is_a_part_of_it() -> None:
    with trial_on_this_thread("a question"):
        assert trial_in_effect() == "a question"
    assert trial_in_effect() is None


def test_clients_of_a_trial_do_not_write(tmp_path: Path) -> None:
    with EmbeddedKafka(tmp_path) as kafka, trial("a test"):
        clients = for_now(kafka.clients)
        admin, consumer = clients.admin({}), clients.consumer({"group.id": "g"})
        for write in (
            lambda: admin.create_topics([NewTopic(name="a", partitions=1)]),
            lambda: admin.delete_topics(["a"]),
            lambda: admin.delete_group("g"),
            lambda: consumer.commit({}),
            lambda: consumer.subscribe(["a"], None),  # type: ignore[arg-type]
            lambda: clients.producer({}).begin_transaction(),
            lambda: clients.streams_group({}),
            lambda: clients.leave_group({}, "g", "i"),
        ):
            with pytest.raises(WriteRefused):
                write()
        assert admin.topics() == {}


def test_snapshots_of_a_trial_are_not_written(tmp_path: Path) -> None:
    open_objects(tmp_path).write("kept", [b"x"])
    with trial("a test"):
        objects = open_objects(tmp_path)
        assert b"".join(objects.read("kept")) == b"x"
        for write in (lambda: objects.write("new", [b"x"]), lambda: objects.delete("kept")):
            with pytest.raises(WriteInTrial, match="a test changes nothing, and would call"):
                write()
    assert [one.name for one in tmp_path.iterdir()] == ["kept"]


APP = """
from dataclasses import dataclass
from streams import Avro, SchemaRegistry, StreamsBuilder

@dataclass
class Total:
    name: str
    cents: int

builder = StreamsBuilder(key_serde="string", value_serde="string", schema_registry=SchemaRegistry({url!r}))
stream = builder.stream("in").map_values(lambda value: Total(value, len(value)))
stream.group_by_key(value_serde=Avro(Total)).reduce(lambda a, b: b, materialized="last").to_stream().to(
    "out", value_serde=Avro(Total)
)
"""


def test_try_registers_nothing(
    server: KeptRegistry, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shop_to_try.py").write_text(APP.format(url=server.url))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.jsonl").write_text('{"topic": "in", "key": "a", "value": "four"}\n')
    status = main(["try", "shop_to_try.py", "--input", "in.jsonl", "--format", "json"])
    out = capsys.readouterr().out
    assert (status, [json.loads(line)["value"] for line in out.splitlines() if '"out"' in line]) == (
        0,
        [{"name": "four", "cents": 4}],
    ), out
    assert server.subjects == {}
    assert trial_in_effect() is None


class Refusing(KeptRegistry):
    """Answers each request with one status."""

    def __init__(self, status: int) -> None:
        super().__init__([])
        self.status, self.asked = status, 0

    def answer(self, *_: Any) -> tuple[int, Any]:
        self.asked += 1
        return self.status, {"error_code": self.status, "message": "not now"}


def tried(folder: Path, url: str, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, list[Any], str]:
    """The exit status of a trial, the values of its results, and its lines on standard error."""
    name = f"shop_{abs(hash((url, words)))}.py"
    (folder / name).write_text(APP.format(url=url))
    given = words if "--generate" in words else ("--input", f"in={folder / 'in.jsonl'}", *words)
    (folder / "in.jsonl").write_text('{"key": "a", "value": "four"}\n{"key": "b", "value": "three"}\n')
    status = main(["try", str(folder / name), "--format", "json", *given])
    found = capsys.readouterr()
    return status, [json.loads(line)["value"] for line in found.out.splitlines() if '"out"' in line], found.err


RESULTS = [{"name": "four", "cents": 4}, {"name": "three", "cents": 5}]


@pytest.mark.parametrize("words", [(), ("--partitions", "2")])
def test_try_without_its_registry_uses_one_in_memory(
    server: KeptRegistry, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    """And reports it once, whichever serdes ask."""
    with server:
        url = server.url
    status, values, said = tried(tmp_path, url, capsys, *words)
    assert (status, sorted(values, key=lambda value: str(value))) == (0, RESULTS)
    assert said.count("the schema registry") == 1
    assert f"the schema registry {url} does not respond: " in said
    assert "using one in memory instead, as with mock://trial" in said


def test_a_schema_that_may_not_be_registered_is_one_in_memory(server: KeptRegistry) -> None:
    with server:
        registry = SchemaRegistry(server.url, auto_register_schemas=False)
    with trial("a test", say=lambda _: None):
        serde = Avro(Order, registry=registry).bind("orders", is_key=False)
        assert serde.deserialize(serde.serialize(Order("ann", 7))) == Order("ann", 7)


def test_try_asks_a_registry_that_fails_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Refusing(503) as server:
        status, values, said = tried(tmp_path, server.url, capsys)
    assert (status, values) == (0, RESULTS)
    assert f"the schema registry {server.url} is unavailable (503" in said
    assert server.asked == 1


def test_try_does_not_hide_that_a_login_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Refusing(401) as server:
        status, values, said = tried(tmp_path, server.url, capsys, "--generate", "1")
    assert (status, values) == (1, [])
    assert "rejects the login (401" in said
    assert "in memory" not in said


def test_bytes_of_another_registry_cannot_be_read_without_it(server: KeptRegistry) -> None:
    registry = SchemaRegistry(server.url)
    data = Avro(Order, registry=registry).bind("orders", is_key=False).serialize(Order("ann"))
    with server:
        pass
    said: list[str] = []
    with trial("a test", say=said.append):
        serde = Avro(Order, registry=registry).bind("orders", is_key=False)
        assert serde.deserialize(serde.serialize(Order("ann", 7))) == Order("ann", 7)
        with pytest.raises(SchemaError, match=r"schema id 1: the registry .* does not respond, and the one in memory"):
            serde.deserialize(data)
    assert len(said) == 1


def test_a_command_that_may_write_is_no_trial() -> None:
    seen: list[str | None] = []

    def run(arguments: Any) -> int:
        seen.append(trial_in_effect())
        return 0

    command = changes_nothing(run, lambda arguments: arguments)
    assert (command(True), command(False)) == (0, 0)
    assert [one is None for one in seen] == [False, True]


@pytest.mark.parametrize(
    ("words", "is_trial"),
    [
        (["describe", "app.py"], True),
        (["doctor", "app.py"], True),
        (["try", "app.py"], True),
        (["topics", "app.py"], True),
        (["topics", "app.py", "--create"], False),
        (["shadow", "new.py", "--against", "app.py"], True),
        (["shadow", "new.py", "--against", "app.py", "--id", "green"], True),
        (["shadow", "new.py", "--against", "app.py", "--id", "green", "--promote"], False),
        (["shadow", "new.py", "--against", "app.py", "--id", "green", "--promote", "--dry-run"], True),
        (["reset", "app.py", "--dry-run"], True),
        (["reset", "app.py"], False),
        (["registry", "check", "app.py"], True),
        (["state", "check", "--new", "new.py"], True),
        (["consume", "app.py", "in"], True),
        (["produce", "app.py", "in"], False),
    ],
)
def test_which_commands_are_trials(words: list[str], is_trial: bool) -> None:
    with contextlib.redirect_stderr(io.StringIO()):
        parsed = parser(words).parse_args(words)
    found = parsed.command
    when = next(
        (
            cell.cell_contents
            for cell in found.__closure__ or ()
            if getattr(cell.cell_contents, "__name__", "run") != "run"
        ),
        None,
    )
    assert (hasattr(found, "__wrapped__") and bool(when is None or when(parsed))) == is_trial


def test_a_question_for_the_owner_of_a_key_registers_nothing(server: KeptRegistry) -> None:
    registry = SchemaRegistry(server.url)
    builder = StreamsBuilder(value_serde="string", schema_registry=registry)
    builder.stream("visits", key_serde=Avro(Order)).group_by_key().count(materialized="counts")
    with EmbeddedKafka() as kafka:
        kafka.create_topics("visits", partitions=4)
        app = kafka.start(builder, {"application.server": "127.0.0.1:1"})
        assert app.query_metadata_for_key("counts", Order("n"), Avro(Order, registry=registry)).partition in range(4)
        assert server.subjects == {}
        data = Avro(Order, registry=registry).bind("visits", is_key=True).serialize(Order("n"))
        from processor_api.topology.partitioner import partition_for_key

        found = app.query_metadata_for_key("counts", Order("n"), Avro(Order, registry=registry))
        assert found.partition == partition_for_key(data, 4)
    assert "counts-key" not in server.subjects
