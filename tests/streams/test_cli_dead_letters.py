"""`streams dlq` groups dead letters by their cause, shows one, and sends each back once."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster_cli import ClusterCommands, commands
from processor_api.clock import ManualClock, SystemClock
from processor_api.task_id import TopicPartition
from streams.dead_letters import DeadLetter
from streams.dead_letters.memory import ReplayMemory
from streams.kafka.ports import OffsetAndMetadata
from streams.testing.broker import EmbeddedClients

APP = """
RATES = {"EUR": 1.0}
builder = StreamsBuilder(key_serde="string", value_serde="json")
payments = builder.stream("payments")
payments.map_values(lambda payment: RATES[payment["currency"]] * payment["amount"]).to("euros")
"""
SETTINGS = """settings |= {
    "deserialization.exception.handler": "LogAndContinueExceptionHandler",
    "processing.exception.handler": "LogAndContinueProcessingExceptionHandler",
    "errors.dead.letter.queue.topic.name": "payments-dead",
}"""
NOW_MS = SystemClock().time_ms()
DAY_MS = 24 * 3_600_000
GROUP = "shop~dlq-replay"


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[ClusterCommands]:
    yield from commands(tmp_path)


@pytest.fixture
def app(cli: ClusterCommands) -> str:
    """An application with topics of two partitions, that does not run."""
    cli.kafka.create_topics("payments", "euros", partitions=2)
    cli.kafka.create_topics("payments-dead", partitions=2)
    return cli.app(APP, after=SETTINGS)


def letter(
    cli: ClusterCommands,
    key: str,
    error: str = "KeyError: 'XYZ'",
    *,
    topic: str | None = "payments",
    partition: int = 0,
    node: str = "map",
    time_ms: int = NOW_MS,
    more: list[tuple[str, bytes | None]] | None = None,
) -> None:
    """Writes a dead letter as a handler does."""
    kind, _, text = error.partition(": ")
    said = {"exception": kind, "message": text, "stacktrace": f"Traceback\n{error}\n", "topic": topic}
    said |= {"partition": str(partition), "offset": "7", "node": node}
    headers = [(f"__streams.errors.{name}", None if one is None else one.encode()) for name, one in said.items()]
    cli.kafka.produce("payments-dead", key.encode(), b'{"n": 1}', time_ms, [("trace", b"t"), *(more or []), *headers])


def sent(cli: ClusterCommands, topic: str = "payments") -> list[tuple[int, str, Any]]:
    """The records on a topic: partition, key, headers."""
    rows = [json.loads(line) for line in cli.run("consume", "--topic", topic, "--bootstrap-servers", "b:9092").lines]
    return sorted((row["partition"], row["key"], row.get("headers")) for row in rows)


# ------------------------------------------------------------------ a running application


def test_what_died_is_listed_shown_and_processed_after_the_mistake_is_corrected(cli: ClusterCommands) -> None:
    cli.kafka.create_topics("payments", "euros", "payments-dead")
    app = cli.app(APP, after=SETTINGS)
    running = cli.start(app)
    payments = cli.kafka.create_input_topic("payments", value_serde="string", start_timestamp=NOW_MS)
    payments.pipe_input("1", '{"amount": 10, "currency": "USD"}')
    payments.pipe_input("2", '{"amount": 10, "currency": "XYZ"}')
    payments.pipe_input("3", "ten dollars")
    cli.kafka.read_records("payments-dead", 3, value_serde="string")
    running.close()

    found = json.loads(cli.run("dlq", "list", app, "--json").out)
    assert [(one["count"], one["left"], one["exception"].rpartition(".")[2][-11:]) for one in found["causes"]] == [
        (2, 2, "KeyError"),
        (1, 1, "DecodeError"),
    ]
    assert found["causes"][0]["node"] == "KSTREAM-MAPVALUES-0000000001"
    place = f"{found['causes'][0]['partition']}:{found['causes'][0]['offset']}"
    shown = cli.run("dlq", "show", app, place)
    assert "error        KeyError: 'XYZ'" in shown.lines
    assert "from         payments, partition 0, offset 1" in shown.lines
    assert 'value        {"amount": 10, "currency": "XYZ"}' in shown.lines
    assert any("RATES[payment" in line for line in shown.lines)  # the line of the script, in its traceback

    mended = cli.app(APP.replace('"EUR": 1.0', '"EUR": 1.0, "USD": 0.9, "XYZ": 2.0'), after=SETTINGS)
    replayed = cli.run("dlq", "replay", mended, "--error", "KeyError")
    assert (replayed.status, replayed.out) == (0, "2 dead letters sent: 2 to payments\n")
    cli.start(mended)
    euros = cli.kafka.read_records("euros", 2, value_serde="json")
    assert [(one.key, one.value, one.timestamp) for one in euros] == [("1", 9.0, NOW_MS), ("2", 20.0, NOW_MS)]
    assert cli.run("dlq", "replay", mended, "--error", "KeyError").out == "0 dead letters sent\n"
    assert [one["left"] for one in json.loads(cli.run("dlq", "list", app, "--json").out)["causes"]] == [0, 1]


REPARTITIONED = """
builder = StreamsBuilder(key_serde="string", value_serde="json")
by_currency = builder.stream("payments").group_by(lambda _, payment: payment["currency"])
by_currency.aggregate(int, lambda _, payment, total: total + payment["amount"], materialized="totals")
"""


def test_a_letter_behind_a_repartition_names_the_record_before_it(cli: ClusterCommands) -> None:
    """Its own topic is one whose records are deleted once they are processed. The next offset is a marker."""
    cli.kafka.create_topics("payments", "payments-dead")
    app = cli.app(REPARTITIONED, after=SETTINGS + "\nsettings['processing.guarantee'] = 'exactly_once_v2'")
    running = cli.start(app)
    payments = cli.kafka.create_input_topic("payments", value_serde="json", start_timestamp=NOW_MS)
    payments.pipe_input("1", {"amount": 10, "currency": "EUR"})
    payments.pipe_input("2", {"amount": "ten", "currency": "EUR"})
    cli.kafka.read_records("payments-dead", 1, value_serde="string")
    running.close()
    shown = cli.run("dlq", "show", app, "0:0")
    (place,) = [line for line in shown.lines if line.startswith("from ")]
    origin = {"topic": "payments", "partition": 0, "offset": 1}
    said = r"shop-totals-repartition, partition 0, offset [0-9]+, made from payments, partition 0, offset 1"
    assert re.fullmatch(f"from         {said}", place)
    assert "headers      {}" in shown.lines
    found = json.loads(cli.run("dlq", "show", app, "0:0", "--json").out)
    assert (found["origin"], found["headers"]) == (origin, {})
    beside = cli.run("dlq", "show", app, "0:1")
    assert (beside.status, beside.err) == (
        2,
        "error: partition 0 of 'payments-dead' has no record at offset 1, which is a transaction marker or was deleted:"
        " give an offset from 0 to 1. The nearest dead letter is 0:0\n",
    )


def test_a_record_that_dies_again_is_left_after_some_replays(cli: ClusterCommands) -> None:
    """The header that counts comes back with the letter."""
    cli.kafka.create_topics("payments", "euros", "payments-dead")
    app = cli.app(APP, after=SETTINGS)
    cli.start(app)
    payments = cli.kafka.create_input_topic("payments", value_serde="json", start_timestamp=NOW_MS)
    payments.pipe_input("1", {"amount": 10, "currency": "XYZ"})
    for _ in range(2):
        cli.kafka.read_records("payments-dead", 1, value_serde="json")
        assert cli.run("dlq", "replay", app, "--max-replays", "2").out == "1 dead letter sent: 1 to payments\n"
    cli.kafka.read_records("payments-dead", 1, value_serde="json")
    last = cli.run("dlq", "replay", app, "--max-replays", "2")
    assert (last.status, last.lines) == (
        1,
        ["0 dead letters sent", "1 dead letter was not sent: they failed again after 2 replays (--max-replays)"],
    )
    assert "replayed     2 times" in cli.run("dlq", "show", app, "0:2").lines


# ------------------------------------------------------------------ which letters


def test_causes_do_not_differ_by_what_is_quoted_and_by_numbers(cli: ClusterCommands, app: str) -> None:
    letter(cli, "a", "KeyError: 'XYZ'", time_ms=NOW_MS)
    letter(cli, "b", "KeyError: 'ABC'", time_ms=NOW_MS + 1)
    letter(cli, "c", "KeyError: 'ABC'", node="other")
    letter(cli, "d", "ValueError: got 7 of 9\nbytes \x1b[31m")
    printed = cli.run("dlq", "list", app)
    assert [line.split()[:2] for line in printed.lines] == [["COUNT", "LEFT"], ["2", "2"], ["1", "1"], ["1", "1"]]
    assert printed.lines[1].endswith("'ABC'")
    assert "\x1b" not in printed.out
    assert "got 7 of 9 bytes \\x1b[31m" in printed.out
    assert json.loads(cli.run("dlq", "list", app, "--json").out)["causes"][0]["count"] == 2


@pytest.mark.parametrize(
    ("options", "keys"),
    [
        ([], "abcd"),
        (["--topic", "payments", "--node", "n2"], "b"),
        (["--error", "ValueError"], "c"),
        (["--error", "my.ValueError"], "c"),
        (["--error", "odd text"], "c"),
        (["--since", str(NOW_MS + 10)], "d"),
        (["--until", str(NOW_MS + 10)], "abc"),
        (["--since", str(NOW_MS + 11)], ""),
    ],
)
def test_options_choose_letters(cli: ClusterCommands, app: str, options: list[str], keys: str) -> None:
    """The time is that of the letter: from ``--since`` on, and before ``--until``."""
    letter(cli, "a")
    letter(cli, "b", node="n2")
    letter(cli, "c", "my.ValueError: an odd text")
    letter(cli, "d", time_ms=NOW_MS + 10)
    assert cli.run("dlq", "replay", app, *options).status == 0
    assert [key for _, key, _ in sent(cli)] == list(keys)
    count = sum(one["count"] for one in json.loads(cli.run("dlq", "list", app, "--json", *options).out)["causes"])
    assert count == len(keys)


def test_one_letter_is_chosen_by_its_place(cli: ClusterCommands, app: str) -> None:
    for key in "abcdef":
        letter(cli, key)
    rows = [
        json.loads(line)
        for line in cli.run("consume", "--topic", "payments-dead", "--bootstrap-servers", "b:9092").lines
    ]
    row = rows[2]
    place = ("--partition", str(row["partition"]), "--offset", str(row["offset"]))
    assert cli.run("dlq", "replay", app, *place).out == "1 dead letter sent: 1 to payments\n"
    assert [key for _, key, _ in sent(cli)] == [row["key"]]
    assert cli.run("dlq", "replay", app).out == "5 dead letters sent: 5 to payments\n"
    assert [key for _, key, _ in sent(cli)] == list("abcdef")


# ------------------------------------------------------------------ what is sent


def test_a_record_goes_back_as_it_was(cli: ClusterCommands, app: str) -> None:
    """To its partition, whatever its key says; with its own headers, and the count of replays."""
    letter(cli, "k", partition=1, more=[("h", None), ("h", b"2")])
    letter(cli, "k", partition=0)
    cli.run("dlq", "replay", app)
    headers = [["trace", "t"], ["h", None], ["h", "2"], ["__streams.replays", "1"]]
    assert sent(cli) == [(0, "k", {"trace": "t", "__streams.replays": "1"}), (1, "k", headers)]


def test_a_record_goes_back_with_its_own_time_and_without_what_was_added(cli: ClusterCommands, app: str) -> None:
    """The letter has the time at the node that failed."""
    said = {"topic": b"payments", "partition": b"0", "offset": b"7", "node": b"map"}
    said |= {"timestamp": b"%d" % (NOW_MS - 5_000), "headers": b'[["mark", "1"]]'}
    headers = [("claim", b"c"), *((f"__streams.errors.{name}", one) for name, one in said.items())]
    cli.kafka.produce("payments-dead", b"k", b'{"n": 1}', NOW_MS, headers)
    assert (
        'added        [["mark", "1"]]'
        in cli.run("dlq", "show", app, "0:0").lines + cli.run("dlq", "show", app, "1:0").lines
    )
    assert cli.run("dlq", "replay", app).out == "1 dead letter sent: 1 to payments\n"
    (record,) = cli.kafka.read_records("payments", 1, value_serde="string")
    assert (record.timestamp, list(record.headers)) == (NOW_MS - 5_000, [("claim", b"c"), ("__streams.replays", b"1")])


def test_only_the_last_headers_of_an_error_are_taken_away(cli: ClusterCommands, app: str) -> None:
    """An application that reads the dead letters of another has letters of letters."""
    letter(cli, "k", more=[("__streams.errors.topic", b"orders"), ("__streams.errors.exception", b"Old")])
    cli.run("dlq", "replay", app)
    ((_, _, headers),) = sent(cli)
    assert headers == {
        "trace": "t",
        "__streams.errors.topic": "orders",
        "__streams.errors.exception": "Old",
        "__streams.replays": "1",
    }


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"topic": None}, "no header has their source"),
        ({"topic": "euros"}, "the application does not read their source topic 'euros'"),
        ({"topic": "__consumer_offsets"}, "the application does not read their source topic '__consumer_offsets'"),
        ({"topic": "a\nb"}, "the application does not read their source topic 'a\\nb'"),
        ({"partition": 2}, "topic 'payments' no longer has partition 2"),
        ({"partition": -1}, "no header has their source"),
        ({"more": [("__streams.replays", b"3")]}, "they failed again after 3 replays (--max-replays)"),
    ],
)
def test_a_letter_that_cannot_go_back_is_left_with_the_reason(
    cli: ClusterCommands, app: str, given: dict[str, Any], reason: str
) -> None:
    letter(cli, "bad", **given)
    letter(cli, "good")
    found = cli.run("dlq", "replay", app)
    assert found.status == 1
    assert found.lines == ["1 dead letter sent: 1 to payments", f"1 dead letter was not sent: {reason}"]
    assert [key for _, key, _ in sent(cli)] == ["good"]


def test_a_dry_run_sends_and_remembers_nothing(cli: ClusterCommands, app: str) -> None:
    letter(cli, "a")
    for _ in range(2):
        assert cli.run("dlq", "replay", app, "--dry-run").out == "1 dead letter would be sent: 1 to payments\n"
    assert sent(cli) == []


def test_no_more_are_sent_in_a_second_than_was_asked_for(cli: ClusterCommands, app: str) -> None:
    for key in "abcde":
        letter(cli, key)
    clock = ManualClock(NOW_MS)
    assert cli.run("dlq", "replay", app, "--rate", "2/s", clock=clock).status == 0
    assert clock.time_ms() - NOW_MS == 2000
    assert len(sent(cli)) == 5


# ------------------------------------------------------------------ what is remembered


def test_letters_are_sent_once_whatever_was_chosen_before(cli: ClusterCommands, app: str) -> None:
    for number in range(40):
        letter(cli, f"{number:02}", node=f"n{number % 5}")
    for node in ("n3", "n1", "n3", "n0"):
        cli.run("dlq", "replay", app, "--node", node)
    assert cli.run("dlq", "replay", app).out == "16 dead letters sent: 16 to payments\n"
    assert [key for _, key, _ in sent(cli)] == [f"{number:02}" for number in range(40)]
    letter(cli, "new")
    assert cli.run("dlq", "replay", app).out == "1 dead letter sent: 1 to payments\n"


def test_a_replay_that_was_overtaken_sends_nothing_twice(cli: ClusterCommands, app: str) -> None:
    """Another one that begins meanwhile fences it: its transaction is lost, and what it had committed is not."""
    for key in "abcd":
        letter(cli, key)

    class Overtaken(ManualClock):
        printed = ""

        def wait(self, seconds: float) -> None:
            super().wait(seconds)
            if not self.printed:
                self.printed = cli.run("dlq", "replay", app).out

    clock = Overtaken(NOW_MS)
    first = cli.run("dlq", "replay", app, "--rate", "1", clock=clock)
    assert clock.printed == "3 dead letters sent: 3 to payments\n"
    assert first.status == 1
    assert first.out == "1 dead letter sent: 1 to payments\n"
    assert len(first.err.splitlines()) == 1
    assert [key for _, key, _ in sent(cli)] == list("abcd")


def test_old_letters_are_not_sent_where_a_replay_may_be_forgotten(cli: ClusterCommands, app: str) -> None:
    letter(cli, "a", time_ms=NOW_MS - 8 * DAY_MS)
    letter(cli, "b")
    found = cli.run("dlq", "replay", app)
    assert found.status == 2
    assert "no replay is stored, and some of the dead letters are older than 7 days" in found.err
    assert cli.run("dlq", "replay", app, "--since", str(NOW_MS)).status == 2
    assert sent(cli) == []
    assert cli.run("dlq", "replay", app, "--first", "--since", str(NOW_MS)).status == 0
    assert cli.run("dlq", "replay", app).out == "1 dead letter sent: 1 to payments\n"


def test_memory_is_a_border_and_the_runs_behind_it() -> None:
    """Offsets between two letters, such as the marks of transactions, break no run."""
    memory = ReplayMemory(0)
    for offset, is_sent in ((0, True), (2, True), (4, False), (6, True), (9, True), (11, False), (12, True)):
        memory.passed(offset, is_sent=is_sent)
    again = ReplayMemory.of(memory.committed(), 0, 20)
    assert (again.before, [offset for offset in range(20) if again.has(offset)]) == (
        3,
        [0, 1, 2, 6, 7, 8, 9, 12],
    )
    again.passed(4, is_sent=True)
    assert [offset for offset in range(20) if ReplayMemory.of(again.committed(), 0, 20).has(offset)] == [
        0, 1, 2, 3, 4, 6, 7, 8, 9, 12,
    ]  # fmt: skip
    assert ReplayMemory.of(memory.committed(), 8, 20).before == 8
    assert not ReplayMemory.of(memory.committed(), 0, 2).is_known


def test_more_runs_than_a_broker_takes_are_refused() -> None:
    memory = ReplayMemory(0)
    draw = random.Random(1)
    for offset in range(60_000):
        memory.passed(offset, is_sent=draw.random() < 0.5)
    with pytest.raises(ValueError, match="runs of letters"):
        memory.committed()


def test_offsets_of_another_program_are_named(cli: ClusterCommands, app: str) -> None:
    letter(cli, "a")
    consumer = EmbeddedClients(cli.kafka.broker).consumer({"group.id": GROUP})
    consumer.commit({TopicPartition("payments-dead", 0): OffsetAndMetadata(0, "hello")})
    consumer.close()
    found = cli.run("dlq", "replay", app)
    assert (found.status, sent(cli)) == (1, [])
    assert f"group '{GROUP}' does not record what was replayed: the metadata 'hello'" in found.err


# ------------------------------------------------------------------ bad input


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["list", "APP", "--since", "tomorrow"], "--since: 'tomorrow' is not a time"),
        (["list", "APP", "--offset", "3"], "--offset needs --partition"),
        (["show", "APP", "17"], "'17' is not the position of a dead letter: give partition and offset, such as 0:17"),
        (["show", "APP", "0:17"], "partition 0 of 'payments-dead' is empty"),
        (["show", "APP", "2:0"], "topic 'payments-dead' has partitions 0 to 1"),
        (["replay", "APP", "--queue", "nothing"], "topic 'nothing' does not exist"),
    ],
)
def test_bad_input_is_named(cli: ClusterCommands, app: str, words: list[str], text: str) -> None:
    found = cli.run("dlq", *(app if word == "APP" else word for word in words))
    assert found.status == 2
    assert text in found.err


def test_an_offset_beyond_the_end_names_the_last_letter(cli: ClusterCommands) -> None:
    cli.kafka.create_topics("payments", "euros", "payments-dead")
    app = cli.app(APP, after=SETTINGS)
    for key in "abc":
        letter(cli, key)
    found = cli.run("dlq", "show", app, "0:17")
    assert found.err == (
        "error: partition 0 of 'payments-dead' has no record at offset 17: give an offset from 0 to 2. The nearest dead"
        " letter is 0:2\n"
    )


def test_a_marker_names_the_letters_on_both_sides(cli: ClusterCommands) -> None:
    cli.kafka.create_topics("payments", "euros", "payments-dead")
    app = cli.app(APP, after=SETTINGS)
    producer = cli.kafka.clients.producer({"transactional.id": "t"})
    producer.init_transactions()
    for key in (b"a", b"b"):
        producer.begin_transaction()
        producer.produce("payments-dead", b"v", key, 0, None, None, NOW_MS, None)
        producer.commit_transaction()
    found = cli.run("dlq", "show", app, "0:1")
    assert found.err.endswith("deleted: give an offset from 0 to 3. The nearest dead letters are 0:0 and 0:2\n")


def test_without_a_topic_the_setting_is_named(cli: ClusterCommands) -> None:
    found = cli.run("dlq", "list", cli.app(APP))
    assert (found.status, "errors.dead.letter.queue.topic.name" in found.err) == (2, True)


def test_no_dead_letters_are_said_to_be_none(cli: ClusterCommands, app: str) -> None:
    assert cli.run("dlq", "list", app).out == "topic 'payments-dead' has no matching dead letters\n"
    assert cli.run("dlq", "replay", app).out == "0 dead letters sent\n"


def test_a_record_without_headers_is_a_letter_of_unknown_cause(cli: ClusterCommands, app: str) -> None:
    cli.kafka.produce("payments-dead", None, None, 0)
    assert cli.run("dlq", "list", app).lines[1].split()[:4] == [
        "1",
        "1",
        "1970-01-01T00:00:00Z",
        "1970-01-01T00:00:00Z",
    ]
    assert "error        not known: " in cli.run("dlq", "show", app, "0:0").out + cli.run("dlq", "show", app, "1:0").out


def test_a_header_that_is_no_number_is_not_known() -> None:
    class Message:
        def __getattr__(self, name: str) -> Any:
            found = {"headers": [("__streams.errors.partition", "²".encode()), ("__streams.replays", b"9" * 30)]}
            return lambda: found.get(name, (1, 5) if name == "timestamp" else 0)

    letter = DeadLetter.of(Message())
    assert (letter.source_partition, letter.replays, letter.headers) == (-1, 0, [])
