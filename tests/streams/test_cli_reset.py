"""`streams reset` has an application process its input again; `streams groups` shows its group."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster_cli import ClusterCommands, commands
from command_cases import AheadClock
from processor_api.task_id import TopicPartition
from streams.kafka.offset_metadata import TopicPartitionMetadata
from streams.kafka.ports import OffsetAndMetadata
from waiting import wait_until

COUNT = """
builder = StreamsBuilder(key_serde="string", value_serde="string")
counts = builder.stream("in").group_by(lambda k, v: v).count(materialized=Materialized(name="counts"))
counts.to_stream().to("out", Produced(value_serde="long"))
"""
MEMORY = """
builder = StreamsBuilder(key_serde="string", value_serde="string")
store = Materialized(name="counts", logging=False)
counts = builder.stream("in").group_by_key().count(materialized=store)
counts.to_stream().to("out", Produced(value_serde="long"))
"""
INTERNAL = ["shop-0-tasks", "shop-1-tasks", "shop-counts-changelog", "shop-counts-repartition"]


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[ClusterCommands]:
    yield from commands(tmp_path)


def run_once(cli: ClusterCommands, app: str, results: int) -> list[tuple[str, int]]:
    """Runs the application until it has written so many results; returns them."""
    application = cli.start(app)
    found = cli.kafka.read_records("out", results, "string", "long")
    wait_until("all is committed", lambda: committed(cli, "in") == {0: ends(cli)["in", 0], 1: ends(cli)["in", 1]})
    application.close()
    return sorted((one.key, one.value) for one in found)


def ends(cli: ClusterCommands) -> dict[tuple[str, int], int]:
    with cli.kafka.broker.lock:
        return {(t.name, p.partition): p.end_offset for t in cli.kafka.broker.topics.values() for p in t.partitions}


def committed(cli: ClusterCommands, topic: str) -> dict[int, int]:
    with cli.kafka.broker.lock:
        offsets = cli.kafka.broker.groups.group("shop").offsets
        return {place.partition: one.offset for place, one in offsets.items() if place.topic == topic}


@pytest.fixture
def counted(cli: ClusterCommands) -> str:
    """An application that has counted four records in two partitions, and was stopped."""
    app = with_records(cli)
    run_once(cli, app, 4)
    return app


@pytest.fixture
def stopped(cli: ClusterCommands) -> str:
    """The same without its state: what another machine sees of it."""
    app = with_records(cli)
    cli.kafka.create_topics(*INTERNAL, partitions=2)
    consumer = cli.kafka.clients.consumer({"group.id": "shop", "client.id": "former"})
    notes = TopicPartitionMetadata(partition_time=7, changelogs=frozenset({1})).encode()
    consumer.commit({TopicPartition("in", n): OffsetAndMetadata(offset, notes) for n, offset in enumerate((3, 1))})
    consumer.close()
    return app


def with_records(cli: ClusterCommands) -> str:
    app = cli.app(COUNT)
    cli.kafka.create_topics("in", "out", partitions=2)
    for partition, values in enumerate((["a", "b", "a"], ["a"])):
        lines = [json.dumps({"key": "k", "value": value, "timestamp": 1000 + n}) for n, value in enumerate(values)]
        cli.run("produce", app, "in", *lines, "--partition", str(partition))
    return app


PLAN = (
    "reset of application shop; its group has 0 members\n"
    "\n"
    "offsets to set:\n"
    "  TOPIC  PARTITION  NOW  NEW\n"
    "  in     0          3    0\n"
    "  in     1          1    0\n"
    "\n"
    "internal topics to delete:\n"
    "  shop-0-tasks\n"
    "  shop-1-tasks\n"
    "  shop-counts-changelog\n"
    "  shop-counts-repartition\n"
    "\n"
    "local state to delete in state/shop:\n"
    "  1_0, 1_1\n"
    "\n"
)


def test_a_reset_application_begins_again(cli: ClusterCommands, counted: str) -> None:
    """The plan is shown, and carried out; the next start counts the same from the beginning."""
    found = cli.run("reset", counted, "--yes")
    assert found.out == PLAN + (
        "deleted the state of 2 tasks in state/shop\n"
        "deleted 4 internal topics\n"
        "set the offsets of 2 partitions\n"
        "done: the next start processes the input again. On other machines that ran it: streams reset shop.py"
        " --state-only\n"
    )
    assert (found.status, found.err) == (0, "")
    assert committed(cli, "in") == {0: 0, 1: 0}
    assert not set(INTERNAL) & set(cli.kafka.broker.topics)
    assert cli.run("state", "list", "--state-dir", str(cli.folder / "state")).err != ""
    assert max(run_once(cli, counted, 4)) == ("b", 1)
    again = [json.loads(line) for line in cli.run("consume", counted, "counts").lines]
    assert sorted((one["key"], one["value"]) for one in again)[-1] == ("b", 1)
    assert max(one["value"] for one in again) == 3


def test_a_store_without_a_changelog_begins_again_too(cli: ClusterCommands) -> None:
    """Its rows are on this machine only; kept, they would be counted twice."""
    app = cli.app(MEMORY)
    cli.kafka.create_topics("in", "out", partitions=2)
    cli.run("produce", app, "in", '{"key": "a", "value": "x"}', '{"key": "a", "value": "x"}', "--partition", "0")
    first = run_once(cli, app, 2)
    cli.run("reset", app, "--yes")
    assert run_once(cli, app, 2) == first == [("a", 1), ("a", 2)]


def test_a_dry_run_changes_nothing(cli: ClusterCommands, counted: str) -> None:
    before = ends(cli), committed(cli, "in")
    found = cli.run("reset", counted, "--dry-run")
    assert (found.status, found.out) == (0, PLAN + "nothing was changed (--dry-run)\n")
    assert (ends(cli), committed(cli, "in")) == before
    assert sorted(path.name for path in (cli.folder / "state" / "shop").iterdir() if "_" in path.name) == ["1_0", "1_1"]


def test_the_user_is_asked(cli: ClusterCommands, counted: str) -> None:
    """And nothing is changed without a yes, or where there is nobody to ask."""
    asked: list[str] = []

    def no(question: str) -> bool:
        asked.append(question)
        return False

    found = cli.run("reset", counted, ask=no)
    assert (found.status, found.out) == (0, PLAN + "nothing was changed\n")
    assert asked == ["reset application 'shop'?"]
    found = cli.run("reset", counted)
    assert (found.status, found.out, found.err) == (
        2,
        PLAN,
        "error: nothing was changed: without a terminal for the question, give --yes\n",
    )
    assert committed(cli, "in") == {0: 3, 1: 1}
    assert cli.run("reset", counted, ask=lambda question: True).status == 0
    assert committed(cli, "in") == {0: 0, 1: 0}


def test_a_group_with_members_is_left_alone(cli: ClusterCommands, counted: str) -> None:
    """Unless they are removed; one that runs joins again, and ends the reset before it changed anything."""
    application = cli.start(counted)
    before = ends(cli)
    found = cli.run("reset", counted, "--yes")
    assert found.status == 1
    assert found.err.startswith("error: nothing was changed: group 'shop' has 1 member (shop-")
    assert found.err.endswith("Stop all workers and wait until they have left; --force removes members that are dead\n")
    found = cli.run("reset", counted, "--yes", "--force")
    assert found.status == 1
    assert (
        "nothing was changed: members have joined group 'shop' in the meantime" in found.err or "is open" in found.err
    )
    assert set(INTERNAL) <= set(cli.kafka.broker.topics)
    assert before.keys() == ends(cli).keys()
    application.close()


@pytest.mark.parametrize(("answer", "offset"), [("y\n", 0), ("yes\n", 0), ("n\n", 3), ("\n", 3), ("", 3)])
def test_on_a_terminal_the_user_types_the_answer(cli: ClusterCommands, stopped: str, answer: str, offset: int) -> None:
    """Anything but yes is no, the end of the input too."""
    found = cli.run("reset", stopped, stdin=answer, terminal=True)
    assert (found.status, found.err) == (0, "")
    assert "\nreset application 'shop'? [y/N] " in found.out
    assert committed(cli, "in")[0] == offset
    assert found.out.endswith("nothing was changed\n") == (offset == 3)


def test_a_worker_that_starts_while_the_user_thinks_is_noticed(cli: ClusterCommands, stopped: str) -> None:
    consumer = cli.kafka.clients.consumer({"group.id": "shop", "client.id": "late", "session.timeout.ms": 3_600_000})

    def join(question: str) -> bool:
        consumer.subscribe(["in"], Listener())
        consumer.poll(0)
        return True

    found = cli.run("reset", stopped, ask=join)
    assert (found.status, found.err) == (
        1,
        "error: nothing was changed: members have joined group 'shop' in the meantime (late): stop these workers"
        " first\n",
    )
    assert set(INTERNAL) <= set(cli.kafka.broker.topics)


def test_dead_members_are_removed_by_force(cli: ClusterCommands, stopped: str) -> None:
    """Here one that never polls again, as that of a killed process."""
    consumer = cli.kafka.clients.consumer({"group.id": "shop", "client.id": "dead", "session.timeout.ms": 3_600_000})
    consumer.subscribe(["in"], Listener())
    consumer.poll(0)
    assert cli.run("reset", stopped, "--yes").status == 1
    found = cli.run("reset", stopped, "--yes", "--force", clock=AheadClock())
    assert (found.status, found.err) == (0, "")
    assert "removed 1 member from the group" in found.lines
    assert committed(cli, "in") == {0: 0, 1: 0}


class Listener:
    """A listener of a member that does nothing."""

    def on_assigned(self, partitions: Any) -> None: ...

    def on_revoked(self, partitions: Any) -> None: ...

    def on_lost(self, partitions: Any) -> None: ...


@pytest.mark.parametrize(
    ("words", "offsets"),
    [
        (["--to-earliest"], {0: 0, 1: 0}),
        (["--to-latest"], {0: 3, 1: 1}),
        (["--to-offset", "2"], {0: 2, 1: 1}),
        (["--shift-by=-2"], {0: 1, 1: 0}),
        (["--shift-by", "7"], {0: 3, 1: 1}),
        (["--to-datetime", "1970-01-01T00:00:01.001Z"], {0: 1, 1: 1}),
        (["--by-duration", "P30000D"], {0: 0, 1: 0}),
        (["--by-duration", "PT1H"], {0: 3, 1: 1}),
        (["--input-topics", "in", "--to-offset", "1"], {0: 1, 1: 1}),
        (["--from-file", "offsets.csv"], {0: 2, 1: 1}),
    ],
)
def test_every_point_of_kafkas_tool_is_known(
    cli: ClusterCommands, stopped: str, words: list[str], offsets: dict[int, int]
) -> None:
    """Offsets that do not exist become the nearest that do."""
    (cli.folder / "offsets.csv").write_text("in,0,2\n\n")
    words = [str(cli.folder / word) if word.endswith(".csv") else word for word in words]
    assert cli.run("reset", stopped, "--yes", *words).status == 0
    assert committed(cli, "in") == offsets


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--to-offset", "-1"], "-1 is not an offset: use --shift-by to move back from the committed offsets"),
        (
            ["--to-datetime", "noon"],
            "'noon' is not a time: write milliseconds since 1970, or ISO 8601 such as 2025-01-01T12:00:00Z",
        ),
        (["--by-duration", "3x"], "'3x' is not a duration: write a number with ms, s, m, h or d, such as 5m or 1h30m"),
        (["--input-topics", "out"], "the topology does not read topic 'out'; it reads: in"),
        (
            ["--internal-topics", "in"],
            "--internal-topics 'in' is not an internal topic of 'shop'; its internal topics: shop-0-tasks",
        ),
        (["--from-file", "wrong.csv"], "wrong.csv, line 2: 'in,0' is not topic,partition,offset"),
        (["--from-file", "other.csv"], "other.csv, line 1: the application does not read partition out-0"),
        (["--from-file", "missing.csv"], "--from-file missing.csv cannot be read:"),
    ],
)
def test_wrong_usage_changes_nothing(cli: ClusterCommands, stopped: str, words: list[str], error: str) -> None:
    (cli.folder / "wrong.csv").write_text("in,0,1\nin,0\n")
    (cli.folder / "other.csv").write_text("out,0,1\n")
    words = [str(cli.folder / word) if word.endswith(".csv") else word for word in words]
    found = cli.run("reset", stopped, "--yes", *words)
    assert found.status == 2
    assert found.err.startswith(f"error: {error}")
    assert committed(cli, "in") == {0: 3, 1: 1}
    assert set(INTERNAL) <= set(cli.kafka.broker.topics)


def test_topics_that_the_application_writes_itself_are_read_from_the_end(cli: ClusterCommands) -> None:
    """Their records come again."""
    app = cli.app(
        'builder = StreamsBuilder(key_serde="string", value_serde="string")\n'
        'builder.stream("in").to("middle")\nbuilder.stream("middle").to("out")\n'
    )
    cli.kafka.create_topics("in", "middle", "out")
    cli.run("produce", app, "in", '{"value": "x"}')
    cli.run("produce", app, "middle", '{"value": "x"}')
    found = cli.run("reset", app, "--yes")
    assert "note: the application writes and reads middle: it is read from the end" in found.lines
    assert (committed(cli, "in"), committed(cli, "middle")) == ({0: 0}, {0: 1})


def test_topics_of_others_are_left_alone(cli: ClusterCommands, stopped: str) -> None:
    """Those of an application whose id begins with this one's; and internal ones that the topology does not have,
    which are said."""
    cli.kafka.create_topics("shop-eu-sums-changelog", "shop-former-changelog", "shop-orders")
    consumer = cli.kafka.clients.consumer({"group.id": "shop-eu", "client.id": "c"})
    consumer.commit({TopicPartition("in", 0): OffsetAndMetadata(1)})
    found = cli.run("reset", stopped, "--yes")
    assert found.status == 0
    assert [line for line in found.lines if line.startswith("note")] == [
        "note: not in this topology, and not deleted: shop-former-changelog; use --internal-topics to delete them"
    ]
    assert {"shop-eu-sums-changelog", "shop-former-changelog", "shop-orders"} <= set(cli.kafka.broker.topics)
    cli.run("reset", stopped, "--yes", "--internal-topics", "shop-former-changelog")
    assert "shop-former-changelog" not in cli.kafka.broker.topics


def test_an_application_is_reset_without_its_topology(cli: ClusterCommands, stopped: str) -> None:
    """By its id and inputs, as with Kafka's own tool."""
    where = ["--application-id", "shop", "--bootstrap-servers", "x:9092", "--state-dir", str(cli.folder / "state")]
    assert cli.run("reset", *where).err == (
        "error: specify the application, such as app.py, or its input topics by --input-topics\n"
    )
    found = cli.run("reset", *where, "--input-topics", "in,gone", "--yes")
    assert (found.status, found.err) == (0, "")
    assert "note: these inputs do not exist: gone" in found.lines
    assert found.lines[-1].endswith("streams reset --application-id shop --state-only")
    assert committed(cli, "in") == {0: 0, 1: 0}
    assert not set(INTERNAL) & set(cli.kafka.broker.topics)


def test_only_the_state_of_this_machine(cli: ClusterCommands, counted: str) -> None:
    """Or everything but that."""
    before = ends(cli), committed(cli, "in")
    found = cli.run("reset", counted, "--state-only", "--yes")
    assert found.out == (
        "reset of application shop\n\nlocal state to delete in state/shop:\n  1_0, 1_1\n\n"
        "deleted the state of 2 tasks in state/shop\n"
    )
    assert (ends(cli), committed(cli, "in")) == before
    assert cli.run("reset", counted, "--state-only", "--yes").out == ("reset of application shop\n\nnothing to reset\n")


def test_offsets_are_kept_with_the_ids_of_their_topics_and_nothing_else(cli: ClusterCommands, stopped: str) -> None:
    """What workers noted with the former offsets is gone: the changelogs that had records, above all."""
    cli.run("reset", stopped, "--yes")
    (topic_id,) = cli.kafka.clients.admin({}).topic_ids(["in"]).values()
    with cli.kafka.broker.lock:
        found = cli.kafka.broker.groups.group("shop").offsets[TopicPartition("in", 0)]
    assert found == OffsetAndMetadata(0, TopicPartitionMetadata(topic_id=topic_id).encode())


# ------------------------------------------------------------------ groups


def test_the_group_of_a_running_application_is_shown(cli: ClusterCommands, counted: str) -> None:
    """Its members with their tasks, and the lag in each partition."""
    application = cli.start(counted)
    found = json.loads(cli.run("groups", counted, "--json").out)
    assert (found["group"], found["state"], found["total_lag"]) == ("shop", "stable", 0)
    (member,) = found["members"]
    assert member["tasks"] == ["0_0", "0_1", "1_0", "1_1"]
    assert member["process"].startswith("shop-")
    assert member["client_id"].startswith(f"{member['process']}-StreamThread-{member['thread']}-consumer-topology-")
    text = cli.run("groups", counted)
    assert (text.status, text.err) == (0, "")
    assert text.lines[0] == "group shop is stable, assignor cooperative-sticky; 1 member"
    assert text.lines[2].split() == ["PROCESS", "THREAD", "HOST", "TASKS"]
    application.close()


def test_the_lag_of_a_stopped_application_is_shown(cli: ClusterCommands, stopped: str) -> None:
    """Also where nothing is committed, and without the topology, where only what is committed is known."""
    cli.run("produce", stopped, "in", '{"value": "x"}', '{"value": "y"}', "--partition", "1")
    with cli.kafka.broker.lock:
        offsets = cli.kafka.broker.groups.group("shop").offsets
        del offsets[TopicPartition("in", 0)]
    found = cli.run("groups", stopped)
    read = [line.split() for line in found.lines if line.startswith("in ")]
    assert read == [["in", "0", "-", "3", "3"], ["in", "1", "1", "3", "2"]]
    assert found.lines[0] == "group shop is empty; 0 members"
    assert found.lines[-1] == "total lag: 5; 3 partitions without a committed offset"
    latest = cli.run("groups", stopped, "-c", "consumer.auto.offset.reset=latest")
    assert next(line.split() for line in latest.lines if line.startswith("in ")) == ["in", "0", "-", "3", "-"]
    found = cli.run("groups", "--application-id", "shop", "--bootstrap-servers", "x:9092")
    assert [line.split() for line in found.lines if line.startswith("in ")] == [["in", "1", "1", "3", "2"]]
    assert not any("tasks" in line for line in found.lines[1:])


def test_a_group_that_does_not_exist_is_said(cli: ClusterCommands) -> None:
    found = cli.run("groups", "--application-id", "none", "--bootstrap-servers", "x:9092")
    assert found == (1, "group none does not exist; 0 members\n", "")


def test_all_groups_are_listed(cli: ClusterCommands, stopped: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAMS_BOOTSTRAP_SERVERS", "localhost:9092")
    monkeypatch.chdir(cli.folder)
    assert cli.run("groups").out == "GROUP  STATE  MEMBERS  PROTOCOL  ASSIGNOR\nshop   empty  0        classic\n"
    assert json.loads(cli.run("groups", "--json").out) == {
        "groups": [{"name": "shop", "state": "empty", "assignor": "", "protocol": "classic", "members": 0}]
    }


# ------------------------------------------------------------------ what errors of a start name


def refused(cli: ClusterCommands, app: str) -> str:
    """Starts an application that does not run; returns its error."""
    application = cli.start(app, wait=False)
    wait_until("it has failed", lambda: application.failure is not None)
    application.close()
    cli.kafka.applications.remove(application)  # its failure is no reason to end a later read
    return str(application.failure)


def follow(cli: ClusterCommands, app: str, error: str, lines: str = "") -> None:
    """Does what an error says: runs the command that it names, with these lines in its file."""
    (words,) = re.findall(r"`streams (reset APP --offsets-only [^`]*)`", error)
    file = cli.folder / "offsets.csv"
    file.write_text(lines)
    named = {"APP": app, "FILE": str(file)}
    found = cli.run(*(named.get(word, word) for word in words.split()), "--yes")
    assert (found.status, found.err) == (0, ""), found
    assert found.out.splitlines()[-1] == (
        "done: the next start reads from these offsets; stores and internal topics are as they were"
    )


def goes_on(cli: ClusterCommands, app: str) -> tuple[str, int]:
    """Starts the application, and counts one record more; returns the first result after the start."""
    cli.run("produce", app, "in", "--key", "k", "--value", "a")
    application = cli.start(app)
    (found,) = cli.kafka.read_records("out", 1, "string", "long")
    application.close()
    return found.key, found.value


def forget(cli: ClusterCommands, topic: str) -> dict[int, int]:
    """Removes the committed offsets of a topic; returns them."""
    before = committed(cli, topic)
    with cli.kafka.broker.lock:
        offsets = cli.kafka.broker.groups.group("shop").offsets
        for partition in before:
            del offsets[TopicPartition(topic, partition)]
    return before


@pytest.mark.parametrize("has_state", [True, False])
def test_lost_offsets_of_a_store_are_set_as_the_error_says(cli: ClusterCommands, counted: str, has_state: bool) -> None:
    """From what the stores know or, without them, from what a person knows; nothing is counted twice."""
    offsets = forget(cli, "shop-counts-repartition")
    if not has_state:
        shutil.rmtree(cli.folder / "state")
    error = refused(cli, counted)
    lines = "".join(f"shop-counts-repartition,{partition},{offset}\n" for partition, offset in offsets.items())
    if has_state:
        assert re.search(r"with the line (\S+) in FILE", error)[1] in lines.splitlines()  # type: ignore[index]
    follow(cli, counted, error, lines)
    assert committed(cli, "shop-counts-repartition") == offsets
    assert goes_on(cli, counted) == ("a", 4)


def test_a_topic_that_was_made_again_is_read_as_the_error_says(cli: ClusterCommands, counted: str) -> None:
    """The stores keep what they had counted."""
    with cli.kafka.broker.lock:
        former = dict(cli.kafka.broker.groups.group("shop").offsets)
    cli.kafka.broker.delete_topic("in")
    cli.kafka.create_topics("in", partitions=2)
    with cli.kafka.broker.lock:
        cli.kafka.broker.groups.group("shop").offsets.update(former)  # the broker had not forgotten them yet
    follow(cli, counted, refused(cli, counted))
    assert goes_on(cli, counted) == ("a", 4)


def test_an_empty_changelog_is_taken_as_the_error_says(cli: ClusterCommands, counted: str) -> None:
    """The offsets stay, without the note that the changelog has had records; the count begins anew on purpose."""
    shutil.rmtree(cli.folder / "state")
    before = {topic: committed(cli, topic) for topic in ("in", "shop-counts-repartition")}
    changelog = "shop-counts-changelog"
    configs = cli.kafka.broker.topics[changelog].configs
    cli.kafka.broker.delete_topic(changelog)
    cli.kafka.broker.create_topic(changelog, 2, configs)
    follow(cli, counted, refused(cli, counted))
    assert {topic: committed(cli, topic) for topic in before} == before
    assert goes_on(cli, counted) == ("a", 1)


def test_only_offsets_are_set_if_that_is_asked_for(cli: ClusterCommands, counted: str) -> None:
    """Other topics, and the local state, stay as they are; a repartition topic has to be named."""
    topics, between = ends(cli), committed(cli, "shop-counts-repartition")
    found = cli.run("reset", counted, "--offsets-only", "--to-latest", "--yes")
    assert (found.status, found.err) == (0, "")
    assert "internal topics to delete" not in found.out
    assert "local state" not in found.out
    assert (ends(cli), committed(cli, "shop-counts-repartition")) == (topics, between)
    assert list((cli.folder / "state" / "shop").glob("*_*"))
    wrong = cli.run("reset", counted, "--offsets-only", "--internal-topics", "shop-counts-changelog", "--yes")
    assert (wrong.status, wrong.err) == (
        2,
        "error: --internal-topics deletes topics, so it does not work with --offsets-only\n",
    )
