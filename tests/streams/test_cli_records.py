"""`streams produce` and `streams consume` write and read records by the serdes of a topology."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster_cli import ClusterCommands, commands
from processor_api.topology.partitioner import partition_for_key
from state.formats.foreign_keys import unanswered, unanswered_key
from streams import Serdes
from streams.cli.main import main
from streams.testing.broker.messages import ErrorInfo
from waiting import wait_until

ECHO = """
builder = StreamsBuilder(key_serde="string", value_serde="string")
builder.stream("in").to("out")
"""
ORDERS = """
from pydantic import BaseModel
class Order(BaseModel):
    item: str
    amount: int
builder = StreamsBuilder(key_serde="long", value_serde=Order)
builder.stream("orders").to("out")
"""
TIME = "2026-01-31T12:00:00.000Z"
TIME_MS = 1769860800000


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[ClusterCommands]:
    yield from commands(tmp_path)


def records(found: str) -> list[dict[str, Any]]:
    """The lines of standard output without their places."""
    lines = [json.loads(line) for line in found.splitlines()]
    return [{name: value for name, value in line.items() if name not in ("topic", "partition")} for line in lines]


# ------------------------------------------------------------------ round trips


def test_a_header_that_looks_like_a_mark_is_shown(cli: ClusterCommands) -> None:
    """A record of a topic that is no changelog was shown with a time of 1970, and without the header."""
    app = cli.app(ECHO)
    cli.kafka.create_topics("in")
    for time in (1, TIME_MS):
        cli.kafka.produce("in", b"k", b"v", time, [("streams.timestamp", bytes(8))])
    rows = map(json.loads, cli.run("consume", app, "in").lines)
    assert [(row["timestamp"], list(row["headers"])) for row in rows] == [
        ("1970-01-01T00:00:00.001Z", ["streams.timestamp"]),
        (TIME, ["streams.timestamp"]),
    ]


def test_what_was_written_is_read(cli: ClusterCommands) -> None:
    """With times and headers; the count and the places are said."""
    app = cli.app(ECHO)
    cli.kafka.create_topics("in")
    lines = [
        '{"key": "ann", "value": "one", "timestamp": "2026-01-31T12:00:00Z", "headers": {"a": "1", "b": null}}',
        f'{{"value": "two", "timestamp": {TIME_MS}}}',
        f'{{"key": "ann", "value": null, "timestamp": "{TIME}", "headers": [["a", "1"], ["a", {{"base64": "/w=="}}]]}}',
    ]
    written = cli.run("produce", app, "in", *lines)
    assert written == (0, "3 records written to in: partition 0 at offsets 0 to 2\n", "")
    found = cli.run("consume", app, "in")
    assert (found.status, found.err) == (0, "")
    assert found.out == (
        f'{{"topic": "in", "partition": 0, "offset": 0, "key": "ann", "value": "one", "timestamp": "{TIME}",'
        ' "headers": {"a": "1", "b": null}}\n'
        f'{{"topic": "in", "partition": 0, "offset": 1, "key": null, "value": "two", "timestamp": "{TIME}"}}\n'
        f'{{"topic": "in", "partition": 0, "offset": 2, "key": "ann", "value": null, "timestamp": "{TIME}",'
        ' "headers": [["a", "1"], ["a", {"base64": "/w=="}]]}\n'
    )
    assert cli.run("consume", app, "in", "--format", "text").out == (
        f'0@0  {TIME}  ann  one  {{"a": "1", "b": null}}\n'
        f"0@1  {TIME}  null  two\n"
        f'0@2  {TIME}  ann   null  [["a", "1"], ["a", {{"base64": "/w=="}}]]\n'
    )


def test_a_terminal_gets_text_and_a_word_about_what_to_type(cli: ClusterCommands) -> None:
    app = cli.app(ECHO)
    cli.kafka.create_topics("in")
    written = cli.run("produce", app, "in", stdin='{"key": "k", "value": "v", "timestamp": 5}\n', terminal=True)
    assert written == (
        0,
        "1 record written to in: partition 0 at offset 0\n",
        'type one record per line: VALUE, KEY<tab>VALUE, or {"key": "ann", "value": 3}; Ctrl-D ends the input\n',
    )
    assert cli.run("consume", app, "in", terminal=True).out == "0@0  1970-01-01T00:00:00.005Z  k  v\n"


def test_what_consume_prints_produce_reads(cli: ClusterCommands) -> None:
    app = cli.app(ORDERS)
    cli.kafka.create_topics("orders", "out")
    line = '{"key": 7, "value": {"item": "tea", "amount": 2}, "timestamp": 5}'
    assert cli.run("produce", app, "orders", line).status == 0
    printed = cli.run("consume", app, "orders").out
    assert cli.run("produce", app, "out", stdin=printed).out == "1 record written to out: partition 0 at offset 0\n"
    assert cli.run("consume", app, "out").out == printed.replace('"orders"', '"out"')
    assert cli.kafka.read_records("out", 1, "long", "json")[0].value == {"item": "tea", "amount": 2}


COUNTS = """
from datetime import timedelta
builder = StreamsBuilder(key_serde="string", value_serde="string")
hours = builder.stream("in").group_by_key().windowed_by(TimeWindows.of_size_with_no_grace(timedelta(hours=1)))
hours.count().to_stream().to("counts")
"""
AFTER = """
from datetime import timedelta
key = WindowedSerdes.time_windowed_serde_from("string", timedelta(hours=1))
builder = StreamsBuilder(key_serde=key, value_serde="long")
builder.stream("counts").filter(lambda key, count: count > 1).to("often")
"""


def test_what_consume_prints_try_reads_and_what_that_prints_produce_reads(cli: ClusterCommands) -> None:
    """Keys in windows, times and headers pass unchanged from command to command."""
    counts, after = cli.app(COUNTS), cli.app(AFTER, "after")
    cli.kafka.create_topics("in", "counts")
    for number in (1, 2):
        line = f'{{"key": "ann", "value": "x", "timestamp": {TIME_MS + number}, "headers": {{"n": "{number}"}}}}'
        assert cli.run("produce", counts, "in", line).status == 0
    consumed = cli.run("consume", counts, "in")
    assert (consumed.status, consumed.err) == (0, "")
    tried = cli.run("try", counts, stdin=consumed.out)
    key = f'{{"key": "ann", "start": "{TIME}", "end": "2026-01-31T13:00:00.000Z"}}'
    lines = [
        f'"key": {key}, "value": {n}, "timestamp": "2026-01-31T12:00:00.00{n}Z", "headers": {{"n": "{n}"}}}}\n'
        for n in (1, 2)
    ]
    assert tried == (0, "".join('{"topic": "counts", ' + line for line in lines), "")
    assert cli.run("produce", after, "counts", stdin=tried.out) == (
        0,
        "2 records written to counts: partition 0 at offsets 0 to 1\n",
        "",
    )
    consumed = cli.run("consume", after, "counts")
    placed = [f'{{"topic": "counts", "partition": 0, "offset": {n}, {line}' for n, line in enumerate(lines)]
    assert consumed == (0, "".join(placed), "")
    assert cli.run("try", after, stdin=consumed.out) == (0, '{"topic": "often", ' + lines[1], "")


def test_a_single_record_is_typed_by_its_parts(cli: ClusterCommands) -> None:
    """Text as it is where the serde is one of text; else JSON."""
    cli.kafka.create_topics("in", "orders")
    app = cli.app(ECHO)
    cli.run("produce", app, "in", "--key", "7", "--value", "hello world", "--timestamp", TIME, "--header", "a=b=c")
    (record,) = cli.kafka.read_records("in", 1)
    assert (record.key, record.value, record.timestamp) == ("7", "hello world", TIME_MS)
    assert record.headers == [("a", b"b=c")]
    cli.run("produce", cli.app(ORDERS), "orders", "--key", "7", "--value", '{"item": "tea", "amount": 1}')
    (record,) = cli.kafka.read_records("orders", 1, "long", "json")
    assert (record.key, record.value) == (7, {"item": "tea", "amount": 1})


def test_partitions_are_those_of_the_application(cli: ClusterCommands) -> None:
    """Kafka's default for keys; a sink's own partitioner; and --partition before both."""
    app = cli.app(
        'builder = StreamsBuilder(key_serde="string", value_serde="long")\n'
        'builder.stream("in").to("out", Produced(partitioner=lambda topic, key, value, headers, n: [value % n]))\n'
    )
    cli.kafka.create_topics("in", "out", partitions=5)
    keys = ["ann", "bob", "cid", "dan"]
    cli.run("produce", app, "in", *(json.dumps({"key": key, "value": 1}) for key in keys))
    found = {line["key"]: line["partition"] for line in map(json.loads, cli.run("consume", app, "in").lines)}
    assert found == {key: partition_for_key(key.encode(), 5) for key in keys}
    cli.run("produce", app, "out", '{"key": "ann", "value": 8}')
    cli.run("produce", app, "out", '{"key": "bob", "value": 8}', "--partition", "1")
    lines = map(json.loads, cli.run("consume", app, "out").lines)
    assert {line["key"]: line["partition"] for line in lines} == {"ann": 3, "bob": 1}


def test_time_zero_is_written(cli: ClusterCommands) -> None:
    app = cli.app(ECHO)
    cli.kafka.create_topics("in")
    cli.run("produce", app, "in", '{"value": "x", "timestamp": 0}')
    assert records(cli.run("consume", app, "in").out)[0]["timestamp"] == "1970-01-01T00:00:00.000Z"


# ------------------------------------------------------------------ what cannot be written


@pytest.mark.parametrize(
    ("line", "error"),
    [
        (
            "{",
            "it is not JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)",
        ),
        ("[1]", 'expected a JSON object such as {"key": "ann", "value": 3}'),
        ("@+5m", "a step of time works only in `streams try`: here each record has its own timestamp"),
        (b'{"value": "\xff"}', "it is not UTF-8"),
        ('{"key": 1}', 'a record needs a "value", which may be null'),
        ('{"vaule": 1, "value": 1}', "a record does not have 'vaule'; it has topic, key, value, timestamp, headers"),
        ('{"value": NaN}', "it is not JSON: NaN is not JSON"),
        (
            '{"value": null, "timestamp": "noon"}',
            "'noon' is not a time: write milliseconds since 1970, or ISO 8601 such as 2025-01-01T12:00:00Z",
        ),
        (
            '{"value": null, "headers": 3}',
            'the headers must be an object such as {"source": "web"} or a list of pairs of a name and a value, got 3',
        ),
        (
            '{"value": null, "headers": {"a": 3}}',
            'the header \'a\' is 3: a text or {"base64": "..."} is expected',
        ),
        ('{"key": "x", "value": null}', "its key \"x\" does not fit the serde 'long': an integer is expected"),
        (
            '{"key": 1, "value": {"item": "tea"}}',
            'its value {"item": "tea"} does not fit the serde \'pydantic Order\': amount: Field required',
        ),
        (
            f'{{"key": {1 << 63}, "value": null}}',
            "its key 9223372036854775808 does not fit the serde 'long': long: 9223372036854775808 is not an"
            " integer from -9223372036854775808 to 9223372036854775807",
        ),
    ],
)
def test_a_wrong_line_is_named(cli: ClusterCommands, line: str | bytes, error: str) -> None:
    """Lines before it are written; it and those behind it are not."""
    app = cli.app(ORDERS)
    cli.kafka.create_topics("orders")
    first = '{"key": 1, "value": {"item": "tea", "amount": 1}}'
    wrong = line if isinstance(line, bytes) else line.encode()
    found = cli.run("produce", app, "orders", stdin=b"\n\n".join((first.encode(), wrong, first.encode())))
    assert found == (
        2,
        "1 record written to orders: partition 0 at offset 0\n",
        f"error: line:3, topic orders: {error}\n",
    )


def test_a_wrong_file_is_not_written_at_all(cli: ClusterCommands) -> None:
    app = cli.app(ECHO)
    cli.kafka.create_topics("in")
    file = cli.folder / "some.jsonl"
    file.write_text('{"value": "fine"}\n{"value": 3}\n')
    found = cli.run("produce", app, "in", "--file", str(file))
    assert (found.status, found.out) == (2, "")
    assert found.err == (
        "error: some.jsonl:2, topic in: its value 3 does not fit the serde 'string': a text is expected\n"
    )
    file.write_text('{"value": "fine"}\n\n{"value": "fine too"}')
    found = cli.run("produce", app, "in", "--file", str(file))
    assert (found.status, found.out) == (0, "2 records written to in: partition 0 at offsets 0 to 1\n")


def test_a_file_may_have_each_form_that_a_trial_reads(cli: ClusterCommands) -> None:
    """`streams try --input` took files that `produce --file` refused."""
    app = cli.app(ECHO)
    cli.kafka.create_topics("in")
    (cli.folder / "some.csv").write_text('key,value\nann,tea\nbob,"milk, 2"\n')
    (cli.folder / "some.txt").write_text('cleo\tcoffee\nno key\n{"key": "dan", "value": "cake"}\n')
    for name in ("some.csv", "some.txt"):
        assert cli.run("produce", app, "in", "--file", str(cli.folder / name)).status == 0
    written = [("ann", "tea"), ("bob", "milk, 2"), ("cleo", "coffee"), (None, "no key"), ("dan", "cake")]
    assert entries(cli, app, "in") == written
    (cli.folder / "step.txt").write_text("ann\ttea\n@+5m\n")
    found = cli.run("produce", app, "in", "--file", str(cli.folder / "step.txt"))
    assert (found.status, found.out) == (2, "")
    assert "step.txt:2, topic in: a step of time works only" in found.err
    assert cli.run("produce", app, "in", "--file", str(cli.folder / "none.csv")).err == (
        "error: file none.csv does not exist\n"
    )


@pytest.mark.parametrize("text", ["two\nlines", "Traceback:\r\n\tat line 3\n", "\n"])
def test_texts_of_several_lines_are_texts(cli: ClusterCommands, text: str) -> None:
    """Such as the message and the stack trace of a dead letter; they come back as they were."""
    cli.kafka.create_topics("in", "copy")
    cli.kafka.produce("in", b"k", text.encode(), 1, [("__streams.errors.stacktrace", text.encode())])
    printed = cli.run("consume", "--topic", "in", "--bootstrap-servers", "x:9092").out
    (record,) = records(printed)
    assert (record["value"], record["headers"]) == (text, {"__streams.errors.stacktrace": text})
    cli.run("produce", "--topic", "copy", "--bootstrap-servers", "x:9092", stdin=printed)
    (copy,) = cli.kafka.broker.records("copy", read_committed=True)
    assert (copy.value(), copy.headers()) == (text.encode(), [("__streams.errors.stacktrace", text.encode())])


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["in", "--key", "a"], "--key needs --value; to delete a key, give the record"),
        (
            ["in", "--value", "a", "{}"],
            "records must be given in one way only: as arguments, by --key and --value, or by --file",
        ),
        (["in", "{}", "--header", "a=b"], "--timestamp and --header need --value; in a JSON object they are fields"),
        (["in", "--value", "a", "--header", "b"], "the record, topic in: 'b' is not a header: give name=value"),
        (["in", "--value", "a", "--partition", "3"], "--partition 3: topic 'in' has partitions 0 to 0"),
        (["out", "--value", "a"], "topic 'out' does not exist: streams topics shop.py --create creates it"),
        (["nope", "--value", "a"], "the topology does not have topic 'nope'; it has: in, out. For another topic give"),
        ([], "specify a topic too; `streams topics shop.py` lists the topics of the application"),
        (["in", "--topic", "x"], "--topic x works only without an application: remove one of the two"),
        (["in", "--value", "a", "--value-serde", "strng"], "--value-serde 'strng' must be a serde, one of the names"),
    ],
)
def test_wrong_usage_says_what_to_do(cli: ClusterCommands, words: list[str], error: str) -> None:
    cli.kafka.create_topics("in")
    found = cli.run("produce", cli.app(ECHO), *words)
    assert (found.status, found.out) == (2, "")
    assert found.err.startswith(f"error: {error}")


def test_topics_of_the_application_itself_are_not_written(cli: ClusterCommands) -> None:
    app = cli.app(
        'builder = StreamsBuilder(key_serde="string", value_serde="string")\n'
        'builder.stream("in").group_by(lambda k, v: v).count(materialized=Materialized(name="counts"))\n'
    )
    for topic in ("counts", "shop-counts-changelog", "shop-counts-repartition", "counts-repartition"):
        found = cli.run("produce", app, topic, '{"value": 1}')
        assert found.status == 2
        assert "is an internal topic of the application: other records there corrupt its state" in found.err


class _AwayClients:
    """Clients of which the producer takes records and delivers none: each fails as its time is over."""

    def __init__(self, clients: Any) -> None:
        self._clients = clients
        self.settings: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._clients, name)

    def producer(self, settings: dict[str, Any]) -> Any:
        self.settings = settings
        return _AwayProducer(self._clients.producer(settings))


class _AwayProducer:
    def __init__(self, producer: Any) -> None:
        self._producer = producer
        self._waiting: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._producer, name)

    def produce(self, topic: str, value: Any, key: Any, partition: int, on_delivery: Any, *_: Any) -> None:
        if len(self._waiting) == 2:
            raise BufferError
        self._waiting.append(on_delivery)

    def poll(self, timeout_s: float) -> int:
        return self.flush() if timeout_s else 0

    def flush(self) -> int:
        waiting, self._waiting = self._waiting, []
        for on_delivery in waiting:
            on_delivery(ErrorInfo("_MSG_TIMED_OUT", "Local: Message timed out"), None)
        return len(waiting)


@pytest.mark.parametrize(
    ("words", "settings", "timeout_ms"),
    [
        ([], "", 30_000),
        (["--timeout", "2.5"], "settings['producer.delivery.timeout.ms'] = 9000", 2_500),
        ([], "settings['producer.delivery.timeout.ms'] = 9000", 9_000),
    ],
)
def test_records_that_no_broker_takes_are_one_line(
    cli: ClusterCommands, words: list[str], settings: str, timeout_ms: int
) -> None:
    """The rest of the input is not read, and a full queue is waited for only until their time is over."""
    app = cli.app(ECHO, after=settings)
    cli.kafka.create_topics("in")
    clients = _AwayClients(cli.kafka.clients)
    found = cli.run("produce", app, "in", *words, stdin='{"value": "x"}\n' * 5, clients=clients)
    assert found == (
        1,
        "",
        "error: 3 records were not delivered to topic 'in': no broker at localhost:9092 accepted them within"
        f" {timeout_ms / 1000:g} s\n",
    )
    assert clients.settings["delivery.timeout.ms"] == timeout_ms


@pytest.mark.parametrize("text", ["0", "-1", "nan", "x", "1e9"])
def test_a_timeout_is_some_seconds(cli: ClusterCommands, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["produce", "--topic", "in", "--timeout", text])
    assert ended.value.code == 2
    assert capsys.readouterr().err.splitlines()[-1].startswith("streams produce: error: argument --timeout: ")


# ------------------------------------------------------------------ where it begins and ends


@pytest.mark.parametrize(
    ("words", "offsets"),
    [
        ([], [0, 1, 2, 3, 4]),
        (["--from", "end"], []),
        (["--from", "3"], [3, 4]),
        (["--from", "99"], []),
        (["--from=-2"], [3, 4]),
        (["--from=-99"], [0, 1, 2, 3, 4]),
        (["--from", "1970-01-01T00:00:02Z"], [2, 3, 4]),
        (["--from", "1970-01-01T00:00:00.001+00:00"], [1, 2, 3, 4]),
        (["--from", "2030-01-01"], []),
        (["--limit", "2"], [0, 1]),
        (["--limit", "0"], []),
        (["--where", "key=k1"], [1, 3]),
        (["--where", "key=k1", "--where", "value=v3"], [3]),
        (["--where", "headers.n=4"], [4]),
        (["--where", "value=V3"], []),
        (["--where", "key=k1", "--limit", "1"], [1]),
        (["--partition", "0", "--from", "4", "--follow", "--limit", "1"], [4]),
    ],
)
def test_the_part_that_was_asked_for_is_read(cli: ClusterCommands, words: list[str], offsets: list[int]) -> None:
    app = cli.app(ECHO)
    cli.kafka.create_topics("in")
    lines = [
        json.dumps({"key": f"k{n % 2}", "value": f"v{n}", "timestamp": n * 1000, "headers": {"n": str(n)}})
        for n in range(5)
    ]
    cli.run("produce", app, "in", stdin="\n".join(lines))
    found = cli.run("consume", app, "in", *words)
    assert (found.status, found.err) == (0, "")
    assert [one["offset"] for one in records(found.out)] == offsets


def test_a_field_of_a_value_is_a_condition(cli: ClusterCommands) -> None:
    """Numbers are compared as numbers, and truth values are none."""
    cli.kafka.create_topics("in")
    app = cli.app('builder = StreamsBuilder(key_serde="string", value_serde="json")\nbuilder.stream("in").to("out")')
    values: list[Any] = [{"a": {"b": 3}}, {"a": {"b": "3"}}, {"a": {"b": True}}, {"a": 3}, 3, None, {"a": {"b": 3.0}}]
    cli.run("produce", app, "in", *(json.dumps({"value": value}) for value in values))
    asked = {"value.a.b=3": [0, 1], "value=3": [4], "value.a.b=true": [2], "value=null": [5], "value.a.b=x": []}
    for text, offsets in asked.items():
        found = cli.run("consume", app, "in", "--where", text)
        assert [one["offset"] for one in records(found.out)] == offsets, text


def test_no_group_is_made_and_nothing_is_committed(cli: ClusterCommands) -> None:
    app = cli.app(ECHO)
    cli.kafka.create_topics("in")
    cli.run("produce", app, "in", '{"value": "x"}')
    assert len(cli.run("consume", app, "in").lines) == 1
    with cli.kafka.broker.lock:
        assert cli.kafka.broker.groups.names() == []


def test_rolled_back_and_open_records_are_left_out(cli: ClusterCommands) -> None:
    """Unless they are asked for."""
    app = cli.app(ECHO)
    cli.kafka.create_topics("in")
    producer = cli.kafka.clients.producer({"transactional.id": "t"})
    producer.init_transactions()
    for value, commits in ((b"dropped", False), (b"kept", True)):
        producer.begin_transaction()
        producer.produce("in", value, None, 0, None, None, 1)
        producer.flush()
        (producer.commit_transaction if commits else producer.abort_transaction)()
    producer.begin_transaction()
    producer.produce("in", b"open", None, 0, None, None, 1)
    producer.flush()
    assert [one["value"] for one in records(cli.run("consume", app, "in").out)] == ["kept"]
    found = records(cli.run("consume", app, "in", "--uncommitted").out)
    assert [one["value"] for one in found] == ["dropped", "kept", "open"]
    producer.abort_transaction()


# ------------------------------------------------------------------ what cannot be read


def test_a_record_that_cannot_be_read_is_one_line(cli: ClusterCommands) -> None:
    """The others are printed, and the exit status says that there was one."""
    app = cli.app('builder = StreamsBuilder(key_serde="string", value_serde="long")\nbuilder.stream("in").to("out")')
    cli.kafka.create_topics("in")
    for value in (Serdes.LONG.serialize(1), b"\x00\x01\x02", b"no\x1b[2Jnumber", Serdes.LONG.serialize(2)):
        cli.kafka.produce("in", b"k", value, 1)
    found = cli.run("consume", app, "in")
    assert found.status == 1
    assert [(one["offset"], one["value"]) for one in records(found.out)] == [(0, 1), (3, 2)]
    assert found.err == (
        "cannot be read: the value of in-0 at offset 1: ValueError: long: expected 8 bytes, got 3; the bytes:"
        ' {"base64": "AAEC"}\n'
        "cannot be read: the value of in-0 at offset 2: ValueError: long: expected 8 bytes, got 12; the bytes:"
        ' {"base64": "bm8bWzJKbnVtYmVy"}\n'
    )


def test_text_from_records_rules_no_terminal(cli: ClusterCommands) -> None:
    app = cli.app(ECHO)
    cli.kafka.create_topics("in")
    cli.kafka.produce("in", b"a\x1b[2J", "line\nline \u202e".encode(), 1, [("h\x1b", b"\xff")])
    found = cli.run("consume", app, "in", "--format", "text")
    (line,) = found.out.rstrip("\n").splitlines()
    assert line.isprintable()


def test_lines_of_text_are_values_or_keys_and_values_as_in_a_trial(cli: ClusterCommands) -> None:
    app = cli.app(ECHO)
    cli.kafka.create_topics("in")
    found = cli.run("produce", app, "in", stdin='to be\nann\tnot to be\n{"key": "bob", "value": "x"}\n')
    assert (found.status, found.err) == (0, "")
    printed = map(json.loads, cli.run("consume", app, "in").out.splitlines())
    assert [(record["key"], record["value"]) for record in printed] == [
        (None, "to be"),
        ("ann", "not to be"),
        ("bob", "x"),
    ]


def test_a_topic_without_records_says_so_on_a_terminal(cli: ClusterCommands) -> None:
    app = cli.app(ECHO)
    cli.kafka.create_topics("in")
    said = "topic 'in' has no record there now; results are written at a commit, and --follow waits for them\n"
    assert cli.run("consume", app, "in", terminal=True) == (0, "", said)
    assert cli.run("consume", app, "in") == (0, "", "")


def test_a_topic_that_is_nearly_one_is_guessed(cli: ClusterCommands) -> None:
    found = cli.run("produce", cli.app(ECHO), "inn", "--value", "x")
    assert "the topology does not have topic 'inn', did you mean 'in'?; it has: " in found.err


def test_a_topic_that_does_not_exist_is_said(cli: ClusterCommands) -> None:
    found = cli.run("consume", cli.app(ECHO), "in")
    assert (found.status, found.err) == (
        2,
        "error: topic 'in' does not exist: streams topics shop.py --create creates it\n",
    )


def test_an_application_or_a_topic_is_needed(cli: ClusterCommands) -> None:
    found = cli.run("consume")
    assert (found.status, found.err) == (
        2,
        "error: specify the application and a topic, such as app.py orders, or only a topic by --topic\n",
    )


def test_any_topic_is_read_without_an_application(cli: ClusterCommands, monkeypatch: pytest.MonkeyPatch) -> None:
    """By named serdes; without them text as text, and other bytes in base64."""
    monkeypatch.setenv("STREAMS_BOOTSTRAP_SERVERS", "localhost:9092")
    cli.kafka.create_topics("free")
    written = cli.run("produce", "--topic", "free", "--key", "k", "--value", "3", "--value-serde", "long")
    assert written.out == "1 record written to free: partition 0 at offset 0\n"
    assert records(cli.run("consume", "--topic", "free", "--value-serde", "long").out)[0]["value"] == 3
    found = records(cli.run("consume", "--topic", "free").out)[0]
    assert (found["key"], found["value"]) == ("k", {"base64": "AAAAAAAAAAM="})


# ------------------------------------------------------------------ internal topics


def entries(cli: ClusterCommands, app: str, topic: str) -> list[tuple[Any, Any]]:
    """Keys and values on a topic."""
    found = cli.run("consume", app, topic)
    assert (found.status, found.err) == (0, "")
    return [(one["key"], one["value"]) for one in records(found.out)]


def test_changelogs_of_windows_sessions_and_versions_are_readable(cli: ClusterCommands) -> None:
    """By the names of their stores."""
    app = cli.app(
        "from datetime import timedelta\n"
        'builder = StreamsBuilder(key_serde="string", value_serde="string")\n'
        'one = builder.stream("in").group_by_key()\n'
        "minute = TimeWindows.of_size_with_no_grace(timedelta(minutes=1))\n"
        'one.windowed_by(minute).count(materialized=Materialized(name="w")).to_stream().to("out")\n'
        "gap = SessionWindows.of_inactivity_gap_with_no_grace(timedelta(minutes=1))\n"
        'one.windowed_by(gap).count(materialized=Materialized(name="s"))\n'
        'versions = Materialized(supplier=Stores.persistent_versioned_key_value_store("v", 60000))\n'
        'builder.table("in2", materialized=versions)\n'
    )
    cli.kafka.create_topics("in", "in2", "out")
    cli.run("produce", app, "in", f'{{"key": "ann", "value": "x", "timestamp": {TIME_MS + 1500}}}')
    cli.run("produce", app, "in2", '{"key": "bob", "value": "y", "timestamp": 7}')
    cli.start(app)
    cli.kafka.read_records("out", 1, "bytes", "bytes")
    for application in cli.kafka.applications:
        application.close()
    at = "2026-01-31T12:00:01.500Z"
    window = {"key": "ann", "start": TIME, "end": "2026-01-31T12:01:00.000Z"}
    assert entries(cli, app, "w") == [(window, 1)]
    assert entries(cli, app, "shop-w-changelog") == [(window, 1)]
    assert entries(cli, app, "s") == [({"key": "ann", "start": at, "end": at}, 1)]
    assert entries(cli, app, "v") == [("bob", "y")]
    assert entries(cli, app, "out") == [(window, 1)]
    assert len(records(cli.run("consume", app, "out", "--where", "key=ann").out)) == 1
    assert cli.run("consume", app, "w", "--format", "text").out == (
        f"0@0  {at}  ann @ 2026-01-31T12:00:00Z/2026-01-31T12:01:00Z  1\n"
    )


def test_windowed_keys_are_written_as_they_are_read(cli: ClusterCommands) -> None:
    app = cli.app(
        'serde = WindowedSerdes.time_windowed_serde_from("string", 60000)\n'
        'sessions = WindowedSerdes.session_windowed_serde_from("string")\n'
        "builder = StreamsBuilder()\n"
        'builder.stream("in", Consumed(key_serde=serde, value_serde="string")).foreach(print)\n'
        'builder.stream("in2", Consumed(key_serde=sessions, value_serde="string")).foreach(print)\n'
    )
    cli.kafka.create_topics("in", "in2", partitions=4)
    key = {"key": "ann", "start": TIME, "end": "2026-01-31T12:01:00.000Z"}
    for topic in ("in", "in2"):
        assert cli.run("produce", app, topic, json.dumps({"key": key, "value": "x"})).status == 0
        found = cli.run("consume", app, topic)
        assert json.loads(found.out)["key"] == key
        assert json.loads(found.out)["partition"] == partition_for_key(b"ann", 4)
    assert cli.run("produce", app, "in", '{"key": {"key": "ann"}, "value": "x"}').err == (
        'error: record 1, topic in: its key {"key": "ann"} does not fit the serde \'time-windowed string\': an object'
        ' {"key": ..., "start": TIME, "end": TIME} is expected\n'
    )


def test_topics_of_a_foreign_key_join_are_readable(cli: ClusterCommands) -> None:
    app = cli.app(
        'builder = StreamsBuilder(key_serde="string", value_serde="string")\n'
        'left, right = builder.table("left"), builder.table("right")\n'
        'left.foreign_key_join(right, lambda v: v[0], str.__add__).to_stream().to("out")\n'
    )
    cli.kafka.create_topics("left", "right", "out")
    cli.run("produce", app, "right", '{"key": "a", "value": "R", "timestamp": 1}')
    cli.run("produce", app, "left", '{"key": "k", "value": "a1", "timestamp": 2}')
    cli.start(app)
    cli.kafka.read_records("out", 1)
    for application in cli.kafka.applications:
        application.close()
    names = [one.split()[0] for one in cli.run("topics", app).lines if re.match("shop-.*subscription", one, re.I)]
    store = next(name for name in names if name.endswith("changelog"))
    ((key, value),) = entries(cli, app, store)
    assert key == {"foreign_key": "a", "key": "k"}
    assert {name: value[name] for name in ("instruction", "key", "partition")} == {
        "instruction": "answer if found",
        "key": "k",
        "partition": 0,
    }
    for name in names:
        if name != store:
            entries(cli, app, name)
    cli.kafka.produce(store, unanswered_key(7), unanswered(b"a", None, b"R"), 3)
    assert entries(cli, app, store)[-1] == ({"unanswered": 7}, {"foreign_key": "a", "value": "Ug=="})


def test_changelogs_of_buffers_and_outer_joins_are_readable(cli: ClusterCommands) -> None:
    app = cli.app(
        "from datetime import timedelta\n"
        'builder = StreamsBuilder(key_serde="string", value_serde="string")\n'
        "minute = TimeWindows.of_size_with_no_grace(timedelta(minutes=1))\n"
        'counts = builder.stream("in").group_by_key().windowed_by(minute).count(materialized=Materialized(name="c"))\n'
        'counts.suppress(Suppressed.until_window_closes(BufferConfig.unbounded()).with_name("held"))\n'
        "joined = JoinWindows.of_time_difference_and_grace(1000, 60000)\n"
        'left, right = builder.stream("left"), builder.stream("right")\n'
        'how = {"windows": joined, "joined": StreamJoined(store_name="j")}\n'
        'left.outer_join(right, lambda a, b: f"{a}{b}", **how).to("out")\n'
    )
    cli.kafka.create_topics("in", "left", "right", "out")
    cli.run("produce", app, "in", f'{{"key": "ann", "value": "x", "timestamp": {TIME_MS}}}')
    cli.run("produce", app, "left", f'{{"key": "bob", "value": "L", "timestamp": {TIME_MS}}}')
    cli.start(app)
    stores = [one.split()[0] for one in cli.run("topics", app).lines if one.startswith("shop-") and "changelog" in one]
    held = next(name for name in stores if "held" in name)
    alone = next(name for name in stores if "shared" in name)
    this = next(name for name in stores if "this" in name)

    wait_until("the changelogs are written", lambda: all(cli.run("consume", app, n).out for n in (held, alone, this)))
    ((key, value),) = entries(cli, app, held)
    assert key == {"key": "ann", "start": TIME, "end": "2026-01-31T12:01:00.000Z"}
    assert (value["new"], value["old"], value["record"]["topic"]) == (1, None, "in")
    ((key, value),) = entries(cli, app, alone)
    assert key == {"key": "bob", "time": TIME, "side": "left"}
    assert value == [{"side": "left", "value": "L"}]
    ((key, value),) = entries(cli, app, this)
    assert (key["key"], key["start"], value) == ("bob", TIME, "L")


def test_changes_on_a_repartition_topic_are_readable(cli: ClusterCommands) -> None:
    app = cli.app(
        'builder = StreamsBuilder(key_serde="string", value_serde="string")\n'
        'table = builder.table("in").group_by(lambda k, v: (v, v), Grouped(name="g")).count()\n'
    )
    cli.kafka.create_topics("in")
    cli.kafka.create_topics("shop-g-repartition")
    cli.kafka.produce("shop-g-repartition", b"k", b"new\x01", 1)
    cli.kafka.produce("shop-g-repartition", b"k", b"old\x00", 1)
    assert entries(cli, app, "g-repartition") == [
        ("k", {"new": "new", "old": None}),
        ("k", {"new": None, "old": "old"}),
    ]


def test_dead_letters_and_declared_topics_are_readable(cli: ClusterCommands) -> None:
    """A dead letter has the raw key and value of what could not be read, whatever the serdes of the application are."""
    app = cli.app(
        'builder = StreamsBuilder(key_serde="string", value_serde="long")\n'
        'by_name = builder.stream("in")\n'
        'by_name.to(lambda key, value, context: key, topics=["ann", "bob"])\n'
        "by_name.to(lambda key, value, context: key)\n",
        after='settings["errors.dead.letter.queue.topic.name"] = "failed"\n'
        'settings["deserialization.exception.handler"] = "LogAndContinueExceptionHandler"\n',
    )
    cli.kafka.create_topics("in", "ann", "bob", "failed")
    cli.run("produce", app, "in", '{"key": "ann", "value": 1, "timestamp": 1}')
    cli.kafka.produce("in", b"ann", b"no long", 2)
    cli.start(app)
    cli.kafka.read_records("failed", 1)
    (letter,) = cli.run("consume", app, "failed").lines
    assert json.loads(letter)["value"] == "no long"
    assert entries(cli, app, "ann") == [("ann", 1), ("ann", 1)]
