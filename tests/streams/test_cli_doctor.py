"""`streams doctor`: a line for each thing that an application needs. Without a broker, or with one of few words."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from processor_api.errors import ConfigError, StreamsError
from processor_api.task_id import TopicPartition
from processor_api.topology.topology import Topology
from quick_process import run
from streams import StreamsBuilder
from streams.cli.doctor.cluster_checks import (
    CheckedCluster,
    check_cluster,
    group_finding,
    needed_rights,
    right_findings,
    topic_findings,
)
from streams.cli.doctor.machine_checks import open_files, space
from streams.cli.output.causes import CannotRun
from streams.cli.output.findings import fail, fails, ok, warn
from streams.kafka.confluent.rights import Rights
from streams.kafka.ports import Admin, OffsetAndMetadata
from streams.kafka.producing.key_places import Placement
from streams.kafka.topics.internal import RESET_HINT
from streams.kafka.wire.describe import GroupDescription
from streams.kafka.wire.messages import (
    DESCRIBE_CLUSTER,
    DESCRIBE_GROUPS,
    FIND_COORDINATOR,
    TRANSACTION_KEY,
    ClusterBroker,
    DescribeClusterResponse,
    DescribedGroup,
    DescribeGroupsResponse,
    FindCoordinatorResponse,
)
from streams.testing.broker import EmbeddedBroker, EmbeddedClients
from wire_support.fake_broker import HOST, FakeBroker, Request, here

REPOSITORY = Path(__file__).resolve().parents[2]
APP = """
from processor_api.topology.topology import Topology
def topology(): return Topology().add_source("source", "in").add_sink("sink", "out", "source")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "app.py").write_text(APP)
    return tmp_path


def doctor(folder: Path, *arguments: str, before: str = "") -> tuple[int, dict[str, list[str]]]:
    """The exit status, and the lines by what they are about: ``ok 3.11`` and so on."""
    command = ["-m", "streams", "doctor", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "XDG_STATE_HOME": str(folder / "state-home")}
    if before:
        command = ["sh", "-c", f'{before} exec "$0" "$@"', sys.executable, *command]
        found = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60)
    else:
        found = run(command, folder, environment)
    # on a busy machine it may say that it still waits for the cluster
    assert [line for line in found.stderr.splitlines() if not line.startswith("no response for ")] == []
    lines: dict[str, list[str]] = {}
    for line in found.stdout.splitlines():
        verdict, _, rest = line.partition("  ")
        what, _, text = rest.strip().partition(": ")
        lines.setdefault(what, []).append(f"{verdict.strip()} {text}")
    return found.returncode, lines


def test_a_machine_in_order(folder: Path) -> None:
    """Without settings there is no cluster to look at, which is said; nothing is made."""
    status, lines = doctor(folder)
    assert status == 0
    assert lines["python"] == ["ok " + ".".join(map(str, sys.version_info[:3]))]
    assert [lines[what][0].split()[0] for what in ("streams", "librdkafka", "rocksdict")] == ["ok"] * 3
    assert all(any(part.isdigit() for part in lines[what][0]) for what in ("streams", "librdkafka", "rocksdict"))
    assert re.fullmatch(r"(ok|warn) (at most \d+.*|no limit)", *lines["open files"])
    (state,) = lines["state directory"]
    assert state.startswith(f"ok {folder}/state-home/streams, which will be created: ")
    assert lines["settings"] == [
        "warn application.id is not given, so the group is not checked",
        "warn bootstrap.servers is not given, so no broker is checked",
    ]
    assert sorted(path.name for path in folder.iterdir() if path.name != "__pycache__") == ["app.py"]


def test_few_open_files_are_a_warning(folder: Path) -> None:
    """With the way to raise the limit."""
    status, lines = doctor(folder, before="ulimit -Sn 1000; ulimit -Hn 4000;")
    assert status == 0
    (text,) = lines["open files"]
    assert text.startswith("warn at most 4000, ")
    assert text.endswith("raise the limit by ulimit -n")


def test_the_state_directory_is_that_of_the_application(folder: Path) -> None:
    (folder / "state" / "mine").mkdir(parents=True)
    status, lines = doctor(folder, "--application-id", "mine", "-c", f"state.dir={folder}/state")
    assert status == 0
    assert lines["state directory"][0].startswith(f"ok {folder}/state/mine: ")
    assert lines["settings"] == ["warn bootstrap.servers is not given, so no broker is checked"]
    assert list((folder / "state" / "mine").iterdir()) == []


def test_a_state_directory_that_cannot_be_written_fails(folder: Path) -> None:
    """Here it would be below a file."""
    status, lines = doctor(folder, "-c", f"state.dir={folder}/app.py/state")
    assert status == 1
    assert lines["state directory"] == [
        f"fail {folder}/app.py/state cannot be created in {folder}/app.py: Not a directory; set state.dir"
    ]


def test_a_library_that_does_not_load_fails(folder: Path) -> None:
    """A native one may be built for another system; the rest is looked at all the same."""
    (folder / "rocksdict.py").write_text("raise ImportError('no such symbol')\n")
    status, lines = doctor(folder)
    assert status == 1
    assert lines["rocksdict"] == ["fail ImportError: no such symbol"]
    assert "state directory" in lines


def test_wrong_settings_fail_one_by_one(folder: Path) -> None:
    """All of them at once."""
    status, lines = doctor(folder, "-c", "colour=blue", "-c", "num.stream.threads=none")
    assert status == 1
    assert lines["settings"] == [
        "fail colour is not a setting",
        "fail num.stream.threads must be a whole number, got 'none'",
    ]
    assert doctor(folder, "-c", "colour")[1]["settings"] == ["fail -c takes key=value, got 'colour'"]


def test_a_topology_that_cannot_be_loaded_fails(folder: Path) -> None:
    status, lines = doctor(folder, "app:none")
    assert status == 1
    assert lines["topology"] == ["fail module app does not have function 'none'; it has topology"]


def test_a_broker_that_is_not_there_fails(folder: Path) -> None:
    """At once; what needs it is not looked at."""
    with FakeBroker({}) as broker:
        bootstrap = broker.bootstrap
    given = ("--application-id", "a", "--bootstrap-servers", bootstrap)
    status, lines = doctor(folder, "app:topology", *given)
    assert status == 1
    assert lines["broker"] == [f"fail {bootstrap} cannot be reached: Connection refused"]
    assert not {"group", "topics"} & set(lines)
    assert len(lines["librdkafka"]) == 1


def test_a_login_that_only_librdkafka_has_is_left_to_it(folder: Path) -> None:
    """Which says here that it is built without it, or that nobody answers."""
    given = ("--bootstrap-servers", f"{HOST}:1", "-c", "security.protocol=sasl_plaintext", "-c", "sasl.mechanism=PLAIN")
    status, lines = doctor(folder, *given)
    assert status == 1
    assert lines["broker"] == ["warn sasl.username is missing: the login needs it; using librdkafka instead"]
    assert lines["librdkafka"][1].startswith("fail cannot make an admin client: ")


@pytest.mark.parametrize(
    ("soft", "hard", "finding"),
    [
        (None, None, ok("open files", "no limit")),
        (4096, 4096, ok("open files", "at most 4096")),
        (4096, None, ok("open files", "at most 4096")),
        (256, None, ok("open files", "at most 256, raised to 65536 by an application with a store on disk")),
        (1024, 4096, ok("open files", "at most 1024, raised to 4096 by an application with a store on disk")),
        (
            1024,
            4095,
            warn(
                "open files",
                "at most 4095, but a store on disk may have 64 open for each task: raise the limit by ulimit -n",
            ),
        ),
    ],
)
def test_limits_of_open_files(soft: int | None, hard: int | None, finding: object) -> None:
    assert open_files(soft, hard) == finding


@pytest.mark.parametrize(
    ("free", "finding"),
    [
        (5 << 30, ok("state directory", "/s: 5.0 GiB free")),
        (1 << 30, ok("state directory", "/s: 1.0 GiB free")),
        ((1 << 30) - 1, warn("state directory", "/s: 1024 MiB free, which is little")),
        (64 << 20, warn("state directory", "/s: 64 MiB free, which is little")),
        (
            (64 << 20) - 1,
            fail("state directory", "/s: 64 MiB free, which is too little: free space there, or set state.dir"),
        ),
    ],
)
def test_free_space(free: int, finding: object) -> None:
    assert space("/s", free) == finding


def test_findings_of_errors() -> None:
    """One for each complaint; a cause is told where the error does not say it."""
    assert fails("x", ConfigError("2 settings are wrong:\n  a\n  b")) == [fail("x", "a"), fail("x", "b")]
    caused = CannotRun("no")
    caused.__cause__ = OSError("why")
    assert fails("x", caused) == [fail("x", "no; caused by OSError: why")]
    error = StreamsError("told")
    error.__cause__ = OSError("why")
    assert fails("x", error) == [fail("x", "told")]
    assert str(fails("x", error)[0]) == "fail  x: told"


@pytest.mark.parametrize(
    ("protocol", "members", "may_read", "finding"),
    [
        ("", 0, True, ok("group", "'g' can be joined and described; 0 members")),
        ("cooperative-sticky", 3, None, ok("group", "'g' can be joined and described; 3 members")),
        ("stream", 0, True, ok("group", "'g' can be joined and described; 0 members")),
        ("", 0, False, fail("group", "'g' can be described but not joined: allow READ on it")),
        (
            "stream",
            2,
            True,
            fail(
                "group",
                "'g' has 2 members that assign by 'stream', which this library does not use: stop them, or set another"
                " application.id",
            ),
        ),
    ],
)
def test_groups(protocol: str, members: int, may_read: bool | None, finding: object) -> None:
    """Members that are something else would refuse ours: Java's assign by ``stream``."""
    assert group_finding("g", GroupDescription("Stable", protocol, members, may_read)) == finding


@pytest.mark.parametrize(
    ("found", "protocol", "says"),
    [
        (
            GroupDescription("Stable", "", 2, True, "streams"),
            "classic",
            "is a group of the streams protocol with 2 mem",
        ),
        (GroupDescription("Stable", "cooperative-sticky", 2, True), "streams", "group.protocol is streams: stop its"),
        (GroupDescription("NotReady", "", 2, None, "streams"), "streams", "has not assigned tasks to its 2 members"),
        (GroupDescription("Empty", "", 0, True, knows_streams=False), "streams", "must be Kafka 4.2 or later"),
    ],
)
def test_groups_of_the_streams_protocol(found: GroupDescription, protocol: str, says: str) -> None:
    finding = group_finding("g", found, protocol)
    assert not finding.text.startswith("'g' can be joined")
    assert says in finding.text


@pytest.mark.parametrize(
    ("found", "protocol", "says"),
    [
        (GroupDescription("Stable", "uniform", 2, True, "consumer"), "classic", "can be joined"),
        (GroupDescription("Stable", "uniform", 2, False, "consumer"), "classic", "allow READ on it"),
        (GroupDescription("Stable", "uniform", 2, True, "consumer"), "streams", "is a group of the consumer protocol"),
    ],
)
def test_groups_of_the_consumer_protocol(found: GroupDescription, protocol: str, says: str) -> None:
    assert says in group_finding("g", found, protocol).text


@pytest.mark.parametrize("kind", ["classic", "consumer", "streams"])
@pytest.mark.parametrize("protocol", ["classic", "streams"])
def test_an_empty_group_may_be_joined_by_each_protocol(kind: str, protocol: str) -> None:
    fits = ok("group", "'g' can be joined and described; 0 members")
    assert group_finding("g", GroupDescription("Empty", "", 0, True, kind), protocol) == fits


def counts() -> Topology:
    builder = StreamsBuilder()
    grouped = builder.stream("in").group_by(lambda key, value: value)
    grouped.count().to_stream().to("out")
    return builder.build()


SETTINGS = {"application.id": "a"}
REPARTITION = "a-KSTREAM-AGGREGATE-STATE-STORE-0000000002-repartition"
CHANGELOG = "a-KSTREAM-AGGREGATE-STATE-STORE-0000000002-changelog"


@pytest.mark.parametrize(
    ("existing", "findings"),
    [
        (
            {"out": 1},
            [fail("topics", "source topic 'in' does not exist, or cannot be described: create it, or allow DESCRIBE")],
        ),
        (
            {"in": 3},
            [
                ok("topics", "source topic 'in' has 3 partitions"),
                warn(
                    "topics",
                    "output topic 'out' does not exist: create it, unless the brokers create topics automatically",
                ),
                ok("topics", f"0 internal topics exist; to be created at the start: {REPARTITION}, {CHANGELOG}"),
            ],
        ),
        (
            {"in": 3, "out": 1, REPARTITION: 3, CHANGELOG: 3},
            [ok("topics", "source topic 'in' has 3 partitions"), ok("topics", "2 internal topics exist")],
        ),
        (
            {"in": 3, "out": 1, REPARTITION: 2},
            [
                ok("topics", "source topic 'in' has 3 partitions"),
                fail(
                    "topics",
                    "internal topics exist with another number of partitions than this topology needs:"
                    f" '{REPARTITION}' has 2, but needs 3 (source topic 'in' has 3). Keys may be in other partitions"
                    f" than their state. {RESET_HINT}",
                ),
            ],
        ),
    ],
)
def test_topics(existing: Mapping[str, int], findings: list[object]) -> None:
    """By the rules of the start, without making any."""
    assert list(topic_findings(counts(), SETTINGS, existing)) == findings


def test_topics_that_are_written_are_looked_for() -> None:
    """Those that a sink's function may name, and that of dead letters, without which the application does not start."""
    topology = Topology().add_source("source", "in")
    topology.add_sink("sink", lambda key, value, record_context: "a", "source", topics=["a", "b"])
    settings = {**SETTINGS, "errors.dead.letter.queue.topic.name": "failed"}
    assert list(topic_findings(topology, settings, {"in": 1, "b": 1})) == [
        ok("topics", "source topic 'in' has 1 partitions"),
        warn("topics", "output topic 'a' does not exist: create it, unless the brokers create topics automatically"),
        fail(
            "topics",
            "dead-letter topic 'failed' (errors.dead.letter.queue.topic.name) does not exist: create it",
        ),
    ]
    needed, _ = needed_rights(topology, settings, {"in": 1})
    assert needed.items() >= {"a": {"WRITE"}, "b": {"WRITE"}, "failed": {"WRITE"}}.items()


def test_a_topic_that_may_not_be_seen_is_not_said_to_be_absent() -> None:
    """Where the broker was asked by its name."""
    topology = Topology().add_source("source", "in", "other").add_sink("sink", "out", "source")
    assert list(topic_findings(topology, SETTINGS, {}, {"in", "out"})) == [
        fail("topics", "source topic 'in' cannot be described: allow READ on it"),
        fail("topics", "source topic 'other' does not exist: create it"),
    ]
    found = [str(one) for one in topic_findings(counts(), SETTINGS, {"in": 3}, {CHANGELOG})]
    assert f"ok    topics: 1 internal topics exist; to be created at the start: {REPARTITION}" in found


def test_a_topology_without_internal_topics() -> None:
    topology = Topology().add_source("source", "in").add_sink("sink", "out", "source")
    found = list(topic_findings(topology, SETTINGS, {"in": 1, "out": 1}))
    assert found == [ok("topics", "source topic 'in' has 1 partitions")]


def test_topics_of_a_former_version_are_found() -> None:
    """By the rule of the start: unread records are a failure, changelogs of no store a warning."""
    broker = EmbeddedBroker()
    kafka = EmbeddedClients(broker)
    for name in ("in", "a-former-repartition", "a-former-changelog"):
        broker.create_topic(name, 1)
    producer = kafka.producer({})
    for name in ("a-former-repartition", "a-former-changelog"):
        producer.produce(name, b"v", b"k", 0, None, None, 1, None)
    producer.flush()
    topology = Topology().add_source("source", "in")

    def left() -> list[str]:
        with FakeBroker(answers()) as fake:
            more = {"group": None, "topology": topology, "make_consumer": make_consumer}
            found = list(check_cluster(cluster(fake.bootstrap, lambda: kafka.admin({}), **more)))
        return [str(one) for one in found if one.what == "deploy"]

    def make_consumer() -> Any:
        return kafka.consumer({"group.id": "a", "isolation.level": "read_committed", "auto.offset.reset": "error"})

    warned = "warn  deploy: changelogs of stores that this topology does not have remain: a-former-changelog."
    (only,) = left()
    assert only.startswith(warned)
    consumer = make_consumer()
    consumer.commit({TopicPartition("a-former-repartition", 0): OffsetAndMetadata(0)})
    consumer.close()
    unread, changelogs = left()
    assert unread.startswith("fail  deploy: internal topics that this topology does not have hold records that were")
    assert "'a-former-repartition' (1). A repartition or its store was renamed" in unread
    assert changelogs.startswith(warned)


def test_keys_that_lie_elsewhere_than_those_they_are_joined_with_are_found() -> None:
    """The table is written by a producer with librdkafka's own partitioner, and joined with a stream by another key."""
    broker = EmbeddedBroker()
    kafka = EmbeddedClients(broker)
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    devices = builder.table("devices")
    builder.stream("readings").select_key(lambda _, value: value).left_join(devices, max).to("out")
    for name in ("devices", "readings", "out"):
        broker.create_topic(name, 4)
    producer = kafka.producer({})

    def found_of(way: Placement) -> str:
        for number in range(20):
            key = b"%s%d" % (way.value.encode(), number)
            producer.produce("devices", b"v", key, way.partition(key, 4), None, None, 1, None)
        producer.flush()
        more = {"topology": builder.build(), "make_consumer": lambda: kafka.consumer({"group.id": "a"})}
        with FakeBroker(answers()) as fake:
            (found,) = [
                one
                for one in check_cluster(cluster(fake.bootstrap, lambda: kafka.admin({}), **more))
                if one.what == "keys"
            ]
        return str(found)

    assert found_of(Placement.MURMUR2).startswith("ok    keys: co-partitioned topics have their keys in the")
    warned = found_of(Placement.CRC32)
    assert warned.startswith("warn  keys: topic 'devices': ")
    assert " of 40 keys are not in the partition that murmur2 computes, such as 'CRC32" in warned
    assert "partition keys by murmur2 in the producer" in warned, "some keys are by murmur2, so not all by CRC32"


@pytest.mark.parametrize(
    ("settings", "is_lossy"),
    [({}, True), ({"cleanup.policy": "compact"}, False), ({"retention.ms": "-1"}, False)],
)
def test_tables_over_topics_that_lose_rows_are_found(settings: dict[str, str], is_lossy: bool) -> None:
    broker = EmbeddedBroker()
    kafka = EmbeddedClients(broker)
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    builder.table("in", materialized="rows").to_stream().to("out")
    broker.create_topic("in", 1, settings)
    broker.create_topic("out", 1)
    with FakeBroker(answers()) as fake:
        found = list(check_cluster(cluster(fake.bootstrap, lambda: kafka.admin({}), topology=builder.build())))
    remark = (
        "table 'rows' reads topic 'in', whose cleanup.policy is delete: a new application, or one that is reset, lacks"
        " the rows that Kafka has deleted; set cleanup.policy=compact"
    )
    assert [one for one in found if one.what == "topics" and one.text.startswith("table ")] == [
        warn("topics", remark)
    ] * is_lossy


CONTROL = ["a-0-tasks", "a-1-tasks"]
NEEDED = {
    "in": {"READ"},
    "out": {"WRITE"},
    REPARTITION: {"READ", "WRITE", "DELETE"},
    CHANGELOG: {"READ", "WRITE"},
    **{name: {"READ", "WRITE"} for name in CONTROL},
}


def test_what_an_application_does_with_its_topics() -> None:
    """Those of its own that are not there yet have to be made; the topics that tasks are shared by are among them."""
    assert needed_rights(counts(), SETTINGS, dict.fromkeys(NEEDED, 3)) == (NEEDED, [])
    assert needed_rights(counts(), SETTINGS, {"in": 3}) == (NEEDED, sorted([REPARTITION, CHANGELOG, *CONTROL]))
    pattern = Topology().add_source("source", re.compile("in-.*"))
    assert needed_rights(pattern, SETTINGS, {"in-1": 1}) == (
        {"in-1": {"READ"}, "a-0-tasks": {"READ", "WRITE", "ALTER"}},
        ["a-0-tasks"],
    )
    pattern.add_source("other", "other")
    by_group = {**SETTINGS, "group.protocol": "streams"}
    assert needed_rights(pattern, by_group, {"in-1": 1, "other": 1}) == (
        {"in-1": {"READ"}, "other": {"READ"}, "a-0-tasks": {"DESCRIBE", "ALTER"}},
        ["a-0-tasks"],
    )


NONE: frozenset[str] = frozenset()
ALL = frozenset({"READ", "WRITE", "DELETE", "CREATE", "DESCRIBE"})


@pytest.mark.parametrize(
    ("rights", "made", "findings"),
    [
        (
            Rights(dict.fromkeys(NEEDED, ALL), frozenset(), ALL, {}),
            [],
            [ok("rights", "the rights on 6 topics are sufficient")],
        ),
        (
            Rights({"in": ALL, "out": ALL}, frozenset(), None, {}),
            [REPARTITION, CHANGELOG],
            [ok("rights", "the rights on 2 topics are sufficient; the missing topics (2) can be created")],
        ),
        (
            Rights(
                {**dict.fromkeys(NEEDED, ALL), "in": frozenset({"DESCRIBE"}), REPARTITION: frozenset({"READ"})},
                frozenset(),
                None,
                {},
            ),
            [],
            [
                fail("rights", f"the rights on topic '{REPARTITION}' are not sufficient: allow DELETE and WRITE on it"),
                fail("rights", "the rights on topic 'in' are not sufficient: allow READ on it"),
            ],
        ),
        (
            Rights({"in": ALL, "out": None}, frozenset({CHANGELOG}), None, {CHANGELOG: "x", REPARTITION: "y"}),
            [CHANGELOG, REPARTITION],
            [
                fail(
                    "rights",
                    f"topic '{CHANGELOG}' cannot be described: allow READ and WRITE on it, or on topics with the"
                    " prefix 'a-'",
                ),
                warn("rights", "the broker does not report the rights on topic 'out'"),
                fail(
                    "rights",
                    "the right to create topics is missing: allow CREATE on topics with the prefix 'a-', or on the"
                    f" cluster: {CHANGELOG}, {REPARTITION}",
                ),
            ],
        ),
    ],
)
def test_rights(rights: Rights, made: list[str], findings: list[object]) -> None:
    """Each missing one says what to allow, also of topics that are not there yet."""
    assert right_findings(NEEDED, made, rights, "a-") == findings


@pytest.mark.parametrize(
    ("code", "finding"),
    [
        (0, ok("transactions", "the right to use transactional ids with the prefix 'g-' exists")),
        (
            53,
            fail(
                "transactions",
                "the coordinator of transactional id 'g-doctor' cannot be found:"
                " TRANSACTIONAL_ID_AUTHORIZATION_FAILED (53); allow WRITE on transactional ids with the prefix 'g-'",
            ),
        ),
    ],
)
def test_transactions_are_looked_at_under_exactly_once(code: int, finding: object) -> None:
    def coordinators(request: Request) -> FindCoordinatorResponse:
        own = here(request)
        if request.body.key_type != TRANSACTION_KEY:
            return own
        (found,) = own.coordinators
        return own._replace(coordinators=(found._replace(error_code=code),))

    settings = {**SETTINGS, "processing.guarantee": "exactly_once_v2"}
    with FakeBroker(answers() | {FIND_COORDINATOR: coordinators}) as broker:
        found = list(check_cluster(cluster(broker.bootstrap, settings=settings)))
        assert [one for one in found if one.what == "transactions"] == [finding]


def embedded_admin() -> Admin:
    broker = EmbeddedBroker()
    broker.create_topic("in", 3)
    return EmbeddedClients(broker).admin({})


def no_admin() -> Admin:
    raise StreamsError("librdkafka is not to be asked")


def cluster(bootstrap: str, make_admin: Callable[[], Admin] = embedded_admin, **given: Any) -> CheckedCluster:
    fields: dict[str, Any] = {"settings": SETTINGS, "group": "g", "topology": None}
    return CheckedCluster(consumer={"bootstrap.servers": bootstrap}, make_admin=make_admin, **(fields | given))


def answers(**given: Any) -> dict[Any, Any]:
    brokers = (ClusterBroker(1, "one", 9092, None), ClusterBroker(2, "two", 9092, None))
    group = DescribedGroup(0, "g", "Empty", "consumer", "", (), 1 << 3)
    return {
        DESCRIBE_CLUSTER: DescribeClusterResponse(0, 0, None, "the-id", 1, brokers, 0),
        FIND_COORDINATOR: here,
        DESCRIBE_GROUPS: DescribeGroupsResponse(0, (group,)),
    }


def test_a_cluster_in_order() -> None:
    with FakeBroker(answers()) as broker:
        topology = Topology().add_source("source", "in")
        assert list(check_cluster(cluster(broker.bootstrap, topology=topology))) == [
            ok(
                "broker",
                f"{broker.bootstrap} is Kafka 3.3 or older, or with ZooKeeper; cluster the-id has one:9092, two:9092",
            ),
            ok("group", "'g' can be joined and described; 0 members"),
            ok("librdkafka", "reaches the cluster; 1 topics are visible"),
            ok("topics", "source topic 'in' has 3 partitions"),
        ]


def test_a_group_without_a_name_is_not_looked_at() -> None:
    with FakeBroker(answers()) as broker:
        found = list(check_cluster(cluster(broker.bootstrap, group=None)))
        assert [finding.what for finding in found] == ["broker", "librdkafka"]
        assert broker.asked(FIND_COORDINATOR) == []


def test_after_a_broker_that_cannot_be_asked_nothing_is_looked_at() -> None:
    """librdkafka would try for half a minute."""
    with FakeBroker({DESCRIBE_CLUSTER: DescribeClusterResponse(0, 31, None, "", -1, (), 0)}) as broker:
        (found,) = check_cluster(cluster(broker.bootstrap, no_admin))
        assert str(found).startswith(f"fail  broker: {broker.bootstrap} does not describe its cluster")


@pytest.mark.parametrize(
    ("code", "ending"),
    [(30, "GROUP_AUTHORIZATION_FAILED (30); allow READ and DESCRIBE on group 'g'"), (24, "INVALID_GROUP_ID (24)")],
)
def test_a_group_that_may_not_be_seen_fails(code: int, ending: str) -> None:
    """What is missing is told where it is a right."""
    group = DescribedGroup(code, "g", "", "", "", ())
    with FakeBroker(answers() | {DESCRIBE_GROUPS: DescribeGroupsResponse(0, (group,))}) as broker:
        (found,) = (one for one in check_cluster(cluster(broker.bootstrap)) if one.what == "group")
        assert found == fail("group", f"group 'g' is not described: {ending}")


def test_librdkafka_alone_is_asked_for_all_of_it() -> None:
    """Where our own connection cannot log in."""
    kerberos = {"bootstrap.servers": "kafka:1", "security.protocol": "sasl_plaintext"}
    where = CheckedCluster(kerberos, embedded_admin, SETTINGS, "g", None)
    assert list(check_cluster(where)) == [
        warn(
            "broker",
            "a login by Kerberos (sasl.mechanism GSSAPI) works for librdkafka only, not for this connection; using"
            " librdkafka instead",
        ),
        ok("librdkafka", "reaches the cluster; 1 topics are visible"),
        ok("group", "'g' can be described; 0 members"),
    ]


def test_librdkafka_that_does_not_reach_the_cluster_fails() -> None:
    with FakeBroker(answers()) as broker:
        *_, last = check_cluster(cluster(broker.bootstrap, no_admin))
        assert last == fail("librdkafka", "librdkafka is not to be asked")
