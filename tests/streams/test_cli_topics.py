"""`streams topics` shows the topics of an application, and creates those that are missing; so does `streams run
--create-topics`."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster_cli import ClusterCommands, commands
from processor_api.errors import ConfigError, MissingTopicError
from processor_api.topology.topology import Topology
from streams import StreamsBuilder, StreamsConfig
from streams.cli.cluster.topics import make_topics
from streams.kafka.ports import NewTopic

ROOT = Path(__file__).resolve().parents[2]
SHOP = """
builder = StreamsBuilder(key_serde="string", value_serde="string")
users = builder.table("users")
builder.global_table("places")
builder.stream("orders").join(users, str.__add__).to("out")
"""


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[ClusterCommands]:
    yield from commands(tmp_path)


def test_what_is_missing_is_a_problem_with_its_line(cli: ClusterCommands) -> None:
    """The application's own topics are made by the application, and are none."""
    found = cli.run("topics", cli.app(SHOP))
    assert found.out == (
        "TOPIC                                        USE        PARTITIONS  REPLICAS  CLEANUP  NOTE\norders"
        "                                       input      -                              missing\nusers"
        "                                        input      -                              missing\nout"
        "                                          output     -                              missing\nplaces"
        "                                       global     -"
        "                              missing\nshop-users-STATE-STORE-0000000000-changelog  changelog  -"
        "                              created at the start\nshop-0-tasks                                 tasks      -"
        "                              created at the start\n\nsame number of partitions: orders, users\n\nproblem:"
        " input topic 'orders' does not exist (shop.py:6)\nproblem: input topic 'users' does not exist"
        " (shop.py:4)\nproblem: output topic 'out' does not exist (shop.py:6)\nproblem: global topic 'places' does not"
        " exist (shop.py:5)\nto create the missing topics: streams topics shop.py --create\n"
    )
    assert (found.status, found.err) == (1, "")
    assert cli.kafka.broker.topics == {}


def test_create_makes_the_users_topics_and_nothing_else(cli: ClusterCommands) -> None:
    """A topic that only a table reads is compacted. Doing it again changes nothing."""
    app = cli.app(SHOP)
    found = cli.run("topics", app, "--create", "--partitions", "3")
    assert found.out == (
        "created topic orders with 3 partitions\ncreated topic users with 3 partitions,"
        " cleanup.policy=compact\ncreated topic out with 3 partitions\n"
        "created topic places with 3 partitions, cleanup.policy=compact\n\nTOPIC"
        "                                        USE        PARTITIONS  REPLICAS  CLEANUP  NOTE\norders"
        "                                       input      3                     delete\nusers"
        "                                        input      3                     compact\nout"
        "                                          output     3                     delete\nplaces"
        "                                       global     3                     compact  restores"
        " places-STATE-STORE-0000000003\nshop-users-STATE-STORE-0000000000-changelog  changelog  (3)"
        "                            created at the start\nshop-0-tasks                                 tasks      -"
        "                              created at the start\n\nsame number of partitions: orders, users\n"
    )
    assert found.status == 0
    assert cli.run("topics", app, "--create").lines[0].startswith("TOPIC")
    assert set(cli.kafka.broker.topics) == {"orders", "users", "out", "places"}


def test_topics_read_together_get_the_number_that_one_of_them_has(cli: ClusterCommands) -> None:
    """Whatever --partitions says; others get that."""
    cli.kafka.create_topics("users", partitions=5)
    found = cli.run("topics", cli.app(SHOP), "--create", "--partitions", "2")
    assert found.lines[:3] == [
        "created topic orders with 5 partitions",
        "created topic out with 2 partitions",
        "created topic places with 2 partitions, cleanup.policy=compact",
    ]
    assert found.status == 0


def test_a_repartition_with_a_fixed_number_decides_too(cli: ClusterCommands) -> None:
    app = cli.app(
        'builder = StreamsBuilder(key_serde="string", value_serde="string")\n'
        'left = builder.stream("left").repartition(Repartitioned(name="r", number_of_partitions=7))\n'
        'left.join(builder.table("right"), str.__add__).to("out")\n'
    )
    found = cli.run("topics", app, "--create")
    assert "created topic right with 7 partitions, cleanup.policy=compact" in found.lines
    assert "same number of partitions: right, shop-r-repartition" in found.lines
    assert found.status == 0


def test_unequal_partitions_are_a_problem(cli: ClusterCommands) -> None:
    app = cli.app(SHOP)
    cli.kafka.create_topics("orders", "out", "places", partitions=2)
    cli.kafka.create_topics("users", partitions=3)
    found = cli.run("topics", app)
    assert found.status == 1
    assert [line for line in found.lines if line.startswith("problem")] == [
        "problem: topics that are joined or grouped together need the same number of partitions: 'orders' has 2,"
        " 'users' has 3. Repartition one side, or create the topics with the same number, made at shop.py:6 (topic"
        " 'orders'), shop.py:4 (topic 'users')"
    ]
    assert [line for line in found.lines if line.startswith("note")] == [
        "note: table 'places-STATE-STORE-0000000003' is restored from topic 'places', whose cleanup.policy is delete:"
        " rows that Kafka deletes there are missing after a restore; set cleanup.policy=compact",
        "note: table 'users-STATE-STORE-0000000000' reads topic 'users', whose cleanup.policy is delete: a new"
        " application, or one that is reset, lacks the rows that Kafka has deleted; set cleanup.policy=compact",
    ]


READERS = """
builder = StreamsBuilder(key_serde="string", value_serde="string")
"""
VERSIONED = """
versions = Stores.persistent_versioned_key_value_store("rows", 1000)
builder.table("in", materialized=Materialized(supplier=versions))
"""
LACKS = "a new application, or one that is reset, lacks the rows that Kafka has deleted"


@pytest.mark.parametrize(
    ("read", "settings"),
    [
        ('builder.table("in", materialized="rows")', {"cleanup.policy": "compact"}),
        ('builder.table("in").to_stream().to("out")', {"cleanup.policy": "compact"}),
        ('builder.stream("in").to_table(materialized="rows")', {"cleanup.policy": "compact"}),
        (VERSIONED, {"cleanup.policy": "compact", "min.compaction.lag.ms": "86401000"}),
        ('builder.stream("in").to_table(ttl=1000, materialized="rows")', {}),
        ('builder.stream("in").filter(bool).to_table()', {}),
        ('builder.stream("in").group_by_key().count()', {}),
        ('builder.stream("in").to_table(materialized="rows"); builder.stream("in").to("out")', {}),
    ],
)
def test_the_input_of_a_table_is_created_compacted(cli: ClusterCommands, read: str, settings: dict[str, str]) -> None:
    """Not if a stream reads it too, whose records would be lost, or its rows expire."""
    found = cli.run("topics", cli.app(f"{READERS}{read}\n"), "--create")
    assert (found.status, found.err) == (0, "")
    words = "".join(f", {name}={value}" for name, value in settings.items())
    assert f"created topic in with 1 partition (the brokers' default){words}" in found.lines
    made = cli.kafka.clients.admin({}).topic_settings(["in"])["in"]
    assert made["cleanup.policy"] == settings.get("cleanup.policy", "delete")
    assert [line for line in found.lines if line.startswith("note")] == (
        [
            f"note: table 'rows' reads topic 'in', whose cleanup.policy is delete: {LACKS}. Compaction would remove"
            " records of the stream that reads it too (shop.py:4): set retention.ms=-1 and retention.bytes=-1, or give"
            " the table a topic of its own"
        ]
        if ".to(" in read and "rows" in read and not settings
        else []
    )


@pytest.mark.parametrize(
    ("settings", "is_lossy"),
    [
        ({"cleanup.policy": "delete"}, True),
        ({"cleanup.policy": "compact,delete"}, True),
        ({"cleanup.policy": "compact"}, False),
        ({"cleanup.policy": "delete", "retention.ms": "-1"}, False),
        ({"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "1000000"}, True),
    ],
)
@pytest.mark.parametrize("reader", ['builder.table("in", materialized="rows")', 'builder.global_table("in", "rows")'])
def test_rows_of_a_table_that_kafka_deletes_are_a_note(
    cli: ClusterCommands, settings: dict[str, str], is_lossy: bool, reader: str
) -> None:
    cli.kafka.clients.admin({}).create_topics([NewTopic(name="in", partitions=1, configs=settings)])
    reader = reader.replace('"in", "rows"', '"in", materialized="rows"')
    found = cli.run("topics", cli.app(f"{READERS}{reader}\n"))
    notes = [line for line in found.lines if line.startswith("note: table 'rows' ")]
    assert [settings["cleanup.policy"] in line for line in notes] == [True] * is_lossy


def test_unequal_partitions_are_refused_before_anything_is_created(cli: ClusterCommands) -> None:
    app = cli.app(
        'builder = StreamsBuilder(key_serde="string", value_serde="string")\n'
        'joined = builder.stream("a").join(builder.table("b"), str.__add__)\n'
        'joined.join(builder.table("c"), str.__add__).to("out")\n'
    )
    cli.kafka.create_topics("a", partitions=2)
    cli.kafka.create_topics("b", partitions=3)
    found = cli.run("topics", app, "--create")
    assert (found.status, found.out) == (2, "")
    assert found.err == (
        "error: topics that are joined or grouped together need the same number of partitions: 'a' has 2, 'b' has 3."
        " Repartition one side, or create the topics with the same number\n"
    )
    assert set(cli.kafka.broker.topics) == {"a", "b"}


def test_internal_topics_that_do_not_fit_are_problems(cli: ClusterCommands) -> None:
    """Their number of partitions, and a policy by which rows or records are lost."""
    app = cli.app(
        'builder = StreamsBuilder(key_serde="string", value_serde="string")\n'
        'builder.stream("in").group_by(lambda k, v: v).count(name="n", materialized=Materialized(name="counts"))\n'
    )
    cli.kafka.create_topics("in", partitions=2)
    cli.kafka.create_topics("shop-counts-changelog", partitions=3)
    cli.kafka.create_topics("shop-counts-repartition", partitions=2, configs={"cleanup.policy": "compact"})
    found = cli.run("topics", app)
    assert found.status == 1
    assert "shop-counts-changelog" in found.lines[3]
    assert found.lines[3].endswith("needs 2 partitions")
    problems = [line for line in found.lines if line.startswith("problem")]
    assert problems[0].startswith(
        "problem: internal topics exist with another number of partitions than this topology needs:"
        " 'shop-counts-changelog' has 3, but needs 2"
    )
    assert sorted(problems[1:]) == [
        "problem: changelog topic 'shop-counts-changelog' has cleanup.policy=delete, but needs compact: rows that"
        " Kafka deletes there are missing after a restore",
        "problem: repartition topic 'shop-counts-repartition' has cleanup.policy=compact, but needs delete: records"
        " with the key of a later record are lost",
    ]


def test_topics_that_records_decide_are_said_not_to_be_listed(cli: ClusterCommands) -> None:
    """A topic whose name begins as the application's id is the user's all the same."""
    app = cli.app(
        "import re\n"
        'builder = StreamsBuilder(key_serde="string", value_serde="string")\n'
        'builder.stream(re.compile("shop-.*-in")).to(lambda key, value, context: value)\n'
    )
    cli.kafka.create_topics("shop-a-in", "other")
    found = cli.run("topics", app)
    assert found.out == (
        "TOPIC         USE    PARTITIONS  REPLICAS  CLEANUP  NOTE\nshop-a-in     input  1"
        "                     delete\nshop-0-tasks  tasks  -                              created at the"
        " start\n\nnote: source 'KSTREAM-SOURCE-0000000000' reads all topics that match 'shop-.*-in': shop-a-in\nnote:"
        " sink 'KSTREAM-SINK-0000000001' chooses a topic for each record: its topics are not listed\n"
    )
    assert found.status == 0


def test_a_topic_that_two_patterns_match_is_a_problem(cli: ClusterCommands) -> None:
    """Semantics 152: with the lines of both."""
    app = cli.app(
        "import re\n"
        'builder = StreamsBuilder(key_serde="string", value_serde="string")\n'
        'builder.stream(re.compile("in-.*")).to("out")\n'
        'builder.stream(re.compile(".*-2")).to("out")\n'
    )
    cli.kafka.create_topics("in-1", "in-2", "out")
    found = cli.run("topics", app)
    assert found.status == 1
    (problem,) = [line for line in found.lines if line.startswith("problem")]
    assert "topic 'in-2' matches the patterns of two sources: 'in-.*' of" in problem


def test_the_page_shows_what_is_printed(cli: ClusterCommands) -> None:
    """For the first application of the README."""
    (program, *_) = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    page = (ROOT / "docs" / "topics-and-records.md").read_text()
    (shown, *_) = re.findall(r"^```text\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert cli.run("topics", cli.app(program, "app", before="")).out == shown


def test_json_has_all_of_it(cli: ClusterCommands) -> None:
    app = cli.app('builder = StreamsBuilder(key_serde="string", value_serde="string")\nbuilder.stream("in").to("out")')
    cli.kafka.create_topics("in", partitions=2)
    found = cli.run("topics", app, "--json")
    assert found.status == 1
    made = json.loads(found.out)
    assert made["application_id"] == "shop"
    assert made["problems"] == ["output topic 'out' does not exist (shop.py:3)"]
    assert [(one["name"], one["exists"], one["partitions"], one["external"]) for one in made["topics"]] == [
        ("in", True, 2, True),
        ("out", False, None, True),
        ("shop-0-tasks", False, None, False),
    ]
    created = json.loads(cli.run("topics", app, "--json", "--create").out)
    assert (created["created"], created["problems"]) == (["out"], [])


def test_creation_options_without_create_are_refused(cli: ClusterCommands) -> None:
    found = cli.run("topics", cli.app(SHOP), "--partitions", "3")
    assert (found.status, found.err) == (
        2,
        "error: --partitions and --replication-factor need --create\n",
    )


def test_run_creates_topics_first_and_says_so(cli: ClusterCommands, caplog: pytest.LogCaptureFixture) -> None:
    """As `streams run --create-topics` does, by the same function."""
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    builder.stream("in").to("out")
    config = StreamsConfig.of({"application.id": "a", "bootstrap.servers": "localhost:9092"})
    with caplog.at_level(logging.INFO, "streams.cli"):
        make_topics(builder.build(config), config, cli.kafka.clients)
        make_topics(builder.build(config), config, cli.kafka.clients)
    assert caplog.messages == [
        "created topic in with 1 partition (the brokers' default)",
        "created topic out with 1 partition (the brokers' default)",
    ]


def test_run_warns_of_an_input_of_a_table_that_it_creates_without_compaction(
    cli: ClusterCommands, caplog: pytest.LogCaptureFixture
) -> None:
    """Once, when it creates it."""
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    builder.stream("in").to_table(materialized="rows")
    builder.stream("in").to("out")
    config = StreamsConfig.of({"application.id": "a", "bootstrap.servers": "localhost:9092"})
    with caplog.at_level(logging.WARNING, "streams.cli"):
        make_topics(builder.build(config), config, cli.kafka.clients)
        make_topics(builder.build(config), config, cli.kafka.clients)
    (warned,) = caplog.messages
    assert warned.startswith("table 'rows' reads topic 'in', whose cleanup.policy is delete: a new application, or one")


def test_run_creates_nothing_for_a_topology_without_serdes(cli: ClusterCommands) -> None:
    config = StreamsConfig.of({"application.id": "a", "bootstrap.servers": "localhost:9092"})
    topology = Topology().add_source("source", "in").add_sink("sink", "out", "source")
    with pytest.raises(ConfigError, match="serdes are missing"):
        make_topics(topology, config, cli.kafka.clients)
    assert cli.kafka.broker.topics == {}


def test_a_policy_of_two_words_fits_in_any_order(cli: ClusterCommands) -> None:
    """Here that of the changelog of windows."""
    app = cli.app(
        "from datetime import timedelta\n"
        'builder = StreamsBuilder(key_serde="string", value_serde="string")\n'
        "windows = TimeWindows.of_size_with_no_grace(timedelta(minutes=1))\n"
        'builder.stream("in").group_by_key().windowed_by(windows).count(materialized=Materialized(name="w"))\n'
    )
    cli.kafka.create_topics("in")
    cli.kafka.broker.create_topic("shop-w-changelog", 1, {"cleanup.policy": "delete,compact"})
    found = cli.run("topics", app)
    assert (found.status, found.lines[2].split()) == (0, ["shop-w-changelog", "changelog", "1", "delete,compact"])


ALL_KINDS = """
builder = StreamsBuilder(key_serde="string", value_serde="string")
builder.stream("orders").to(lambda key, value, context: value, topics=["b-orders", "a-orders"])
"""
LETTERS = {"errors.dead.letter.queue.topic.name": "failed"}


def test_dead_letters_and_declared_topics_are_topics_of_the_application(cli: ClusterCommands) -> None:
    """They were in no list, and the first record for one held its whole thread up until `task.timeout.ms`."""
    app = cli.app(ALL_KINDS, after=f"settings |= {LETTERS!r}")
    missing = cli.run("topics", app)
    assert [line for line in missing.lines if line.startswith("problem")] == [
        "problem: input topic 'orders' does not exist (shop.py:4)",
        "problem: output topic 'a-orders' does not exist (shop.py:4)",
        "problem: output topic 'b-orders' does not exist (shop.py:4)",
        "problem: dead letters topic 'failed' does not exist (errors.dead.letter.queue.topic.name)",
    ]
    assert missing.status == 1
    made = cli.run("topics", app, "--create")
    assert [line.split()[2] for line in made.lines if line.startswith("created")] == [
        "orders", "a-orders", "b-orders", "failed",
    ]  # fmt: skip
    assert (made.status, made.err) == (0, "")
    assert "chooses a topic for each record" not in made.out


@pytest.mark.parametrize("also_read", [False, True])
def test_an_application_does_not_start_without_its_topic_for_dead_letters(
    cli: ClusterCommands, also_read: bool
) -> None:
    """As without an input: they come when something is wrong already."""
    more = 'builder.stream("failed").to("orders")\n' if also_read else ""
    app = cli.app(ALL_KINDS + more, after=f"settings |= {LETTERS!r}")
    cli.kafka.create_topics("orders", "a-orders", "b-orders")
    wanted = "'failed'" if also_read else r"dead-letter topic 'failed' \(errors.dead.letter"
    with pytest.raises(MissingTopicError, match=wanted):
        cli.start(app)
    cli.run("topics", app, "--create")
    cli.start(app)


def test_a_start_names_the_outputs_that_do_not_exist(cli: ClusterCommands, caplog: pytest.LogCaptureFixture) -> None:
    """It goes on: a broker may make them when they are written."""
    app = cli.app(ALL_KINDS)
    cli.kafka.create_topics("orders", "b-orders")
    with caplog.at_level(logging.WARNING, "streams.topics"):
        cli.start(app)
    (warned,) = [one for one in caplog.records if one.name == "streams.topics"]
    assert vars(warned)["topics"] == "a-orders"
