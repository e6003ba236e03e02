"""A handover: what a backfill has computed, and a live application that goes on with it, on a broker in memory."""

from __future__ import annotations

import json
import logging
import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import clone_kit
from clone_kit import KilledClients
from dsl import BufferConfig, Consumed, Grouped, Materialized, Produced, StreamsBuilder, Suppressed, TimeWindows
from processor_api.errors import BootstrapIncompleteError, StreamsError
from processor_api.serde import Serdes
from processor_api.task_id import TopicPartition
from processor_api.topology.topology import Topology
from runtime_support.running_app import Cluster
from spark_support.finished_runs import Sent, processed, run_directory, send_all
from streams.kafka.offset_metadata import TopicPartitionMetadata
from streams.kafka.read_only import ReadOnlyClients, WriteRefused
from streams.spark.errors import (
    ApplicationRunningError,
    BackfillMismatchError,
    ChangelogNotEmptyError,
    CutError,
    HistoryBeyondCutError,
    HistoryShortOfCutError,
    InternalTopicMismatch,
)
from streams.spark.handover.bootstrap import bootstrap
from streams.spark.handover.cut import Cut

S = Serdes.STRING
CONFIG = {"application.id": "app", "bootstrap.servers": "in-memory:9092"}
GUARANTEES = ("at_least_once", "exactly_once_v2")
SOURCES, SINKS = {"in": 2, "table": 2}, {"out": 2, "windows": 2}


def strings() -> Consumed[str, str]:
    return Consumed(key_serde=S, value_serde=S)


def topology() -> Topology:
    """A table with versions that a stream is joined with, a count behind a repartition, and final counts of windows."""
    builder = StreamsBuilder()
    table: Any = builder.table("table", strings(), materialized=Materialized(name="table"))
    stream: Any = builder.stream("in", strings())
    joined = stream.left_join(table, lambda left, right: f"{left}/{right}")
    grouped = joined.group_by(lambda key, value: value[0], Grouped(key_serde=S, value_serde=S))
    grouped.count(materialized=Materialized(name="counts")).to_stream().map_values(str).to(
        "out", Produced(key_serde=S, value_serde=S)
    )
    windows = stream.group_by_key(Grouped(key_serde=S, value_serde=S)).windowed_by(
        TimeWindows.of_size_and_grace(100, 50)
    )
    final = windows.count(materialized=Materialized(name="windows")).suppress(
        Suppressed.until_window_closes(BufferConfig.unbounded())
    )
    final.to_stream().map(lambda key, value: (f"{key.key}@{key.window.start}", str(value))).to(
        "windows", Produced(key_serde=S, value_serde=S)
    )
    return builder.build()


def history(seed: int, count: int = 120) -> list[Sent]:
    """Records of two topics with late ones, deletions and equal times among them."""
    rng = random.Random(seed)
    found, now = [], 1_000
    for number in range(count):
        now += rng.choice((0, 1, 7, 30))
        topic = "table" if rng.random() < 0.3 else "in"
        late = rng.choice((0, 0, 0, 40, 400))
        value = None if topic == "table" and rng.random() < 0.2 else rng.choice("abcd").encode() + b"%d" % number
        key = rng.choice((b"k1", b"k2", b"k3", b"k4", b"k5"))
        found.append(Sent(topic, sum(key) % 2, key, value, max(1, now - late)))
    return found


@pytest.fixture(name="live")
def live_fixture(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path / "live", topics={**SOURCES, **SINKS}) as cluster:
        yield cluster


@pytest.fixture(name="backfill")
def backfill_fixture(tmp_path: Path) -> Callable[..., Path]:
    def backfill(records: list[Sent], **options: Any) -> Path:
        path = tmp_path / f"run-{len(list(tmp_path.glob('run-*')))}"
        return run_directory(path, topology, records, SOURCES, sinks=SINKS, **options)

    return backfill


def hand_over(live: Cluster, run: Path, **options: Any) -> Any:
    given = {"config": CONFIG, "topology": topology, "clients": live.clients, **options}
    return bootstrap(run, given.pop("config"), **given)


def tables(cluster: Cluster, application: str = "app") -> dict[str, dict[Any, Any]]:
    """The latest value of each key of each changelog."""
    found: dict[str, dict[Any, Any]] = {}
    for topic in cluster.broker.topics:
        if topic.endswith("-changelog") and topic.startswith(f"{application}-"):
            rows = found[topic.removeprefix(application)] = {}
            for record in cluster.broker.records(topic):
                rows.pop(record.key(), None)
                if record.value() is not None:
                    rows[record.key()] = record.value(), record.timestamp()
    return found


def run_live(cluster: Cluster, application: str = "app", **settings: Any) -> None:
    """Runs the application until it has processed everything."""
    app = cluster.start(topology(), application_id=application, statestore_cache_max_bytes=0, **settings)
    group = cluster.broker.groups.group(application)

    def done() -> bool:
        assert app.failure is None, app.failure
        places = [name for name in group.offsets if not name.topic.endswith("-tasks")]
        return len(places) == 6 and all(processed(cluster, group, one) for one in places)

    cluster.until(done)
    assert app.close(30)


def outputs(cluster: Cluster, topic: str) -> dict[Any, list[Any]]:
    """The values of each key, in order."""
    found: dict[Any, list[Any]] = {}
    for one in cluster.broker.records(topic):
        found.setdefault(one.key(), []).append(one.value())
    return found


# ------------------------------------------------------------------ the property


@pytest.mark.parametrize(("seed", "guarantee"), [(one, GUARANTEES[one % 2]) for one in range(4)])
def test_history_and_live_together_are_live_from_the_start(
    seed: int, guarantee: str, tmp_path: Path, live: Cluster, backfill: Callable[..., Path]
) -> None:
    """For any cut: tables are the same, and the outputs behind the cut are what follows in the outputs of live. The
    stores of half of the runs come from snapshots."""
    records = history(seed)
    cut = random.Random(seed).randrange(len(records) + 1)
    with Cluster(tmp_path / "whole", topics={**SOURCES, **SINKS}) as whole:
        send_all(whole.clients.producer({}), records[:cut])
        if cut:
            run_live(whole)
        send_all(whole.clients.producer({}), records[cut:])
        run_live(whole)
        expected, lines = tables(whole), {topic: outputs(whole, topic) for topic in SINKS}
    send_all(live.clients.producer({}), records[:cut])
    run = backfill(records[:cut])
    snapshots = tmp_path / "snapshots" if seed > 1 else None
    report = hand_over(live, run, snapshot_dir=snapshots)
    assert report.complete
    assert bool(sum(one.snapshots for one in report.stores)) is (snapshots is not None)
    send_all(live.clients.producer({}), records[cut:])
    run_live(live, processing_guarantee=guarantee, state_snapshot_dir=snapshots)
    assert without_expired(tables(live)) == without_expired(expected)
    for topic, values in lines.items():
        for key, found in outputs(live, topic).items():
            assert found == values[key][len(values[key]) - len(found) :]


def without_expired(found: dict[str, dict[Any, Any]]) -> dict[str, dict[Any, Any]]:
    """Leaves out the windows that a store does not show any more: a handover does not write them."""
    windows = found["-windows-changelog"]
    latest = max((int.from_bytes(key[-12:-4], "big") for key in windows), default=0)
    kept = {key: row for key, row in windows.items() if int.from_bytes(key[-12:-4], "big") > latest - 150}
    suppressed = {
        name: {key: row[0] for key, row in rows.items()} for name, rows in found.items() if "SUPPRESS" in name
    }
    return {**found, **suppressed, "-windows-changelog": kept}


# ------------------------------------------------------------------ killed, and called again


class Killed(BaseException):
    """Ends a bootstrap, as a kill of its process does."""


class KillAfter(logging.Handler):
    """Kills a bootstrap behind one of its steps."""

    def __init__(self, step: int) -> None:
        super().__init__()
        self.left = step
        self.last = ""

    def emit(self, record: logging.LogRecord) -> None:
        self.last = record.getMessage()
        self.left -= 1
        if self.left == 0:
            raise Killed


def killed_after(step: int, call: Callable[[], Any]) -> str:
    """Runs a bootstrap until a step is done; returns the step, or nothing if it came to its end before."""
    handler, logger = KillAfter(step), logging.getLogger("streams.spark")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        call()
    except Killed:
        return handler.last
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
    return ""


class DyingClients:
    """Clients whose producer dies at the n-th record."""

    def __init__(self, clients: Any, records: int) -> None:
        self._clients = clients
        self._left = records

    def __getattr__(self, name: str) -> Any:
        return getattr(self._clients, name)

    def producer(self, config: Any) -> Any:
        made, real = self._clients.producer(config), None
        real = made.produce

        def produce(*record: Any) -> None:
            self._left -= 1
            if self._left < 0:
                raise Killed
            real(*record)

        made.produce = produce
        return made


RECORDS = history(7)


@pytest.fixture(name="run", scope="module")
def run_fixture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A backfill that many tests hand over."""
    return run_directory(tmp_path_factory.mktemp("run") / "run", topology, RECORDS, SOURCES, sinks=SINKS)


@pytest.fixture(name="sent")
def sent_fixture(live: Cluster) -> Cluster:
    send_all(live.clients.producer({}), RECORDS)
    return live


@pytest.fixture(name="expected", scope="module")
def expected_fixture(run: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a handover that nothing disturbs leaves: changelogs and offsets."""
    with Cluster(tmp_path_factory.mktemp("expected"), topics={**SOURCES, **SINKS}) as cluster:
        send_all(cluster.clients.producer({}), RECORDS)
        hand_over(cluster, run)
        return left_by(cluster)


def end_of(cluster: Cluster, place: TopicPartition) -> int:
    return cluster.broker.topics[place.topic].partitions[place.partition].end_offset


def left_by(cluster: Cluster) -> dict[str, Any]:
    offsets = cluster.broker.groups.group("app").offsets
    inputs = {name: one for name, one in offsets.items() if not name.topic.endswith("-tasks")}
    decoded = {name: (one.offset, TopicPartitionMetadata.decode(one.metadata)) for name, one in inputs.items()}
    without_ids = {
        name: ("end" if at == end_of(cluster, name) else at, replace(metadata, topic_id=None))
        for name, (at, metadata) in decoded.items()
    }
    assert all(metadata.topic_id for _, metadata in decoded.values())
    rows = {
        topic: sorted(((one.key(), one.value(), one.timestamp()) for one in cluster.broker.records(topic)), key=repr)
        for topic in cluster.broker.topics
        if topic.endswith("-changelog")
    }
    for name in [name for name in rows if "SUPPRESS" in name]:
        rows[name] = [row[:2] for row in rows[name]]
    return {"offsets": without_ids, "rows": rows}


def refuses(cluster: Cluster) -> None:
    app = cluster.app(topology())
    assert isinstance(cluster.failed(app), BootstrapIncompleteError)
    assert app.close(30)


@pytest.mark.parametrize(("step", "overwrite"), [(2, False), (2, True), (3, True), (4, False), (5, True), (7, False)])
def test_a_bootstrap_that_is_killed_between_two_steps_is_done_by_the_next_call(
    step: int, overwrite: bool, sent: Cluster, run: Path, expected: dict[str, Any]
) -> None:
    """No worker starts in between, and what is left is the same."""
    if overwrite:
        run_live(sent)
    done = killed_after(step, lambda: hand_over(sent, run, overwrite=overwrite))
    assert done
    refuses(sent)
    report = hand_over(sent, run)
    assert report.complete
    assert left_by(sent) == expected
    assert hand_over(sent, run).stores[0].written == 0


@pytest.mark.parametrize("records", [0, 1, 9, 17, 40])
def test_a_bootstrap_that_is_killed_in_a_changelog_writes_it_again(
    records: int, sent: Cluster, run: Path, expected: dict[str, Any]
) -> None:
    with pytest.raises(Killed):
        hand_over(sent, run, clients=DyingClients(sent.clients, records))
    refuses(sent)
    hand_over(sent, run)
    assert left_by(sent) == expected


CALLS = 23
"""How many calls are between two that are tried in one test: a handover makes some hundred, one for each record."""


@pytest.mark.parametrize("part", [0, *(pytest.param(one, marks=pytest.mark.slow) for one in range(1, CALLS))])
def test_a_bootstrap_that_is_killed_at_any_call_is_done_by_the_next(
    part: int, run: Path, expected: dict[str, Any], tmp_path: Path
) -> None:
    """Each call of a client is the last one of a process; outputs are published once all the same."""
    outputs = ["out", "windows"]
    with Cluster(tmp_path / "counts", topics={**SOURCES, **SINKS}) as cluster:
        send_all(cluster.clients.producer({}), RECORDS)
        counts = hand_over(cluster, run, dry_run=True, publish_outputs=outputs).published
    for number in range(part, 2000, CALLS):
        with Cluster(tmp_path / str(number), topics={**SOURCES, **SINKS}) as cluster:
            send_all(cluster.clients.producer({}), RECORDS)
            clients = KilledClients(cluster.clients, number, None)
            try:
                hand_over(cluster, run, publish_outputs=outputs, clients=clients)
                break
            except clone_kit.Killed:
                clients.end()
            assert hand_over(cluster, run, publish_outputs=outputs).complete
            assert left_by(cluster) == expected, number
            assert {topic: len(cluster.broker.records(topic)) for topic in outputs} == counts, number
    assert number > 100


def test_a_dry_run_changes_nothing_with_clients_that_cannot_write(sent: Cluster, run: Path) -> None:
    before = set(sent.broker.topics)
    for clients in (sent.clients, ReadOnlyClients(sent.clients)):
        report = hand_over(sent, run, dry_run=True, publish_outputs=["out"], clients=clients)
        assert not report.complete
    assert set(sent.broker.topics) == before
    assert not sent.broker.groups.group("app").offsets
    with pytest.raises(WriteRefused, match="create_topics"):
        hand_over(sent, run, clients=ReadOnlyClients(sent.clients))


def test_an_open_transaction_of_a_former_version_is_ended(sent: Cluster, run: Path) -> None:
    """It published under another transactional id, by which the new one is not fenced."""
    former = sent.clients.producer({"transactional.id": "app-bootstrap"})
    former.init_transactions()
    former.begin_transaction()
    former.produce("out", b"v", b"k", 0, None, None, 1, None)
    former.flush()
    hand_over(sent, run, publish_outputs=["out"])
    assert "app-bootstrap" not in sent.clients.admin({}).open_transactions()
    with pytest.raises(StreamsError):
        former.commit_transaction()


def test_a_call_after_the_last_step_does_nothing(sent: Cluster, run: Path, expected: dict[str, Any]) -> None:
    hand_over(sent, run)
    ids = sent.clients.admin({}).topic_ids(list(sent.broker.topics))
    report = hand_over(sent, run)
    assert (report.complete, sum(one.written for one in report.stores)) == (True, 0)
    assert ids == sent.clients.admin({}).topic_ids(list(sent.broker.topics))
    assert left_by(sent) == expected


# ------------------------------------------------------------------ what is refused


def test_an_application_that_runs_is_refused(sent: Cluster, run: Path) -> None:
    app = sent.start(topology())
    with pytest.raises(ApplicationRunningError, match="Stop all workers"):
        hand_over(sent, run, overwrite=True)
    assert app.close(30)


def test_state_is_replaced_only_if_that_is_said(sent: Cluster, run: Path, expected: dict[str, Any]) -> None:
    run_live(sent)
    before = left_by(sent)
    with pytest.raises(ChangelogNotEmptyError, match="overwrite=True"):
        hand_over(sent, run)
    assert left_by(sent) == before
    hand_over(sent, run, overwrite=True)
    assert left_by(sent) == expected
    run_live(sent)


def test_the_handover_of_another_backfill_is_not_taken_for_this_one(
    sent: Cluster, run: Path, backfill: Callable[..., Path], expected: dict[str, Any]
) -> None:
    other = backfill(RECORDS[:50])
    killed_after(3, lambda: hand_over(sent, other))
    with pytest.raises(ChangelogNotEmptyError, match="another backfill was begun"):
        hand_over(sent, run)
    hand_over(sent, run, overwrite=True)
    assert left_by(sent) == expected


def test_a_dry_run_changes_nothing(sent: Cluster, run: Path) -> None:
    report = hand_over(sent, run, dry_run=True)
    assert (report.dry_run, report.complete) == (True, False)
    assert report.rows > 0
    assert "would be handed over" in str(report)
    assert not [topic for topic in sent.broker.topics if topic.startswith("app-")]
    assert not sent.broker.groups.group("app").offsets


def test_a_former_application_runs_on_beside_the_new_one(sent: Cluster, run: Path, expected: dict[str, Any]) -> None:
    """Under an application id of its own the same backfill is handed over."""
    app = sent.start(topology(), application_id="app-old")
    hand_over(sent, run, config={**CONFIG, "application.id": "app-v2"})
    run_live(sent, "app-v2")
    assert app.failure is None
    assert app.close(30)


def test_a_stale_state_directory_of_the_former_life_is_not_used(tmp_path: Path, run: Path) -> None:
    """Was that its rows were served, and those of the backfill were not read."""
    with Cluster(tmp_path / "one", topics={**SOURCES, **SINKS}, one_state=True) as cluster:
        wrong = [one._replace(key=b"wrong" + (one.key or b"")) for one in RECORDS]
        send_all(cluster.clients.producer({}), wrong)
        run_live(cluster)
        for topic in SOURCES:
            cluster.broker.delete_topic(topic)
            cluster.broker.create_topic(topic, 2)
        send_all(cluster.clients.producer({}), RECORDS)
        hand_over(cluster, run, overwrite=True)
        run_live(cluster)
        assert not [key for rows in tables(cluster).values() for key in rows if key.startswith(b"wrong")]
        send_all(cluster.clients.producer({}), [Sent("in", 0, b"k2", b"a", 9_000)])
        before = len(cluster.broker.records("out"))
        run_live(cluster)
        counted = [one for one in cluster.broker.records("out") if one.key() == b"a"][-1].value()
        letters = [one for one in RECORDS if one.topic == "in" and (one.value or b"").startswith(b"a")]
        assert counted == b"%d" % (len(letters) + 1)
        assert len(cluster.broker.records("out")) == before + 1


def test_offsets_that_expired_are_refused_until_they_are_set(sent: Cluster, run: Path) -> None:
    """A bootstrap does not guess: the state is that of the backfill or later."""
    hand_over(sent, run)
    sent.broker.groups.group("app").offsets.clear()
    refuses(sent)
    with pytest.raises(ChangelogNotEmptyError, match="has records"):
        hand_over(sent, run)
    hand_over(sent, run, overwrite=True)
    run_live(sent)


# ------------------------------------------------------------------ cuts


def test_records_between_the_history_and_the_cut_are_not_lost_in_silence(sent: Cluster, run: Path) -> None:
    send_all(sent.clients.producer({}), [Sent("in", 1, b"k1", b"late", 5)])
    cut = Cut.at_end(CONFIG, SOURCES, clients=sent.clients)
    with pytest.raises(HistoryShortOfCutError, match="no worker would process it"):
        hand_over(sent, run, cut=cut)


def test_a_cut_before_the_end_of_the_history_is_refused(sent: Cluster, run: Path) -> None:
    cut = Cut(dict.fromkeys([TopicPartition(topic, one) for topic in SOURCES for one in range(2)], 1))
    with pytest.raises(HistoryBeyondCutError, match="a second time"):
        hand_over(sent, run, cut=cut)


def test_a_cut_behind_the_log_is_refused(live: Cluster, run: Path) -> None:
    with pytest.raises(CutError, match="the partition ends at 0"):
        hand_over(live, run)


def test_records_that_kafka_has_deleted_must_be_in_the_history(
    live: Cluster, backfill: Callable[..., Path], run: Path
) -> None:
    send_all(live.clients.producer({}), RECORDS)
    end = live.broker.topics["in"].partitions[1].end_offset
    live.clients.admin({}).delete_records({TopicPartition("in", 1): end})
    with pytest.raises(HistoryShortOfCutError, match="deleted from Kafka"):
        hand_over(live, backfill(RECORDS[:20]))
    hand_over(live, run)


def test_a_history_without_offsets_needs_a_cut_by_time(
    tmp_path: Path, live: Cluster, backfill: Callable[..., Path]
) -> None:
    """Records before the time that lie behind the first one after it are skipped, once; later ones are late."""
    moment = 2_000
    run = backfill([one for one in RECORDS if one.timestamp < moment], offsets=False)
    send_all(live.clients.producer({}), RECORDS)
    with pytest.raises(CutError, match=r"Cut\.at_time"):
        hand_over(live, run)
    cut = Cut.at_time(CONFIG, SOURCES, moment, clients=live.clients)
    assert Cut.from_json(cut.to_json()) == cut
    assert any(cut.skip_rule(place) for place in cut.offsets), "the records have to be mixed"
    hand_over(live, run, cut=cut)
    late = [Sent("in", 0, b"k2", b"d-late", moment - 500)]
    send_all(live.clients.producer({}), late)
    run_live(live)
    counts: dict[bytes, int] = {}
    for one in [*RECORDS, *late]:
        if one.topic == "in":
            letter = (one.value or b"")[:1]
            counts[letter] = counts.get(letter, 0) + 1
    found = tables(live)["-counts-changelog"]
    assert {key: int.from_bytes(value, "big") for key, (value, _) in found.items()} == counts
    for place in cut.offsets:
        metadata = TopicPartitionMetadata.decode(live.broker.groups.group("app").offsets[place].metadata)
        assert (
            metadata.skip is None or live.broker.groups.group("app").offsets[place].offset < metadata.skip.until_offset
        )


def test_a_topic_without_offsets_beside_one_with_them_needs_a_cut(sent: Cluster, backfill: Callable[..., Path]) -> None:
    """Was that it was read again from its beginning."""
    run = backfill(RECORDS)
    text = json.loads((run / "run.json").read_text())
    text["inputs"]["table"]["offset"] = None
    (run / "run.json").write_text(json.dumps(text))
    with pytest.raises(CutError, match="no offset for table-0"):
        hand_over(sent, run)


def test_positions_in_the_order_of_time_are_no_offsets(sent: Cluster, backfill: Callable[..., Path]) -> None:
    run = backfill(RECORDS)
    text = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**text, "options": {"order": "time"}}))
    with pytest.raises(CutError, match=r"Cut\.at_time"):
        hand_over(sent, run)


# ------------------------------------------------------------------ other bad input


def test_topics_of_another_width_are_refused(run: Path, tmp_path: Path) -> None:
    with Cluster(tmp_path / "wide", topics={"in": 3, "table": 3, **SINKS}) as cluster:
        with pytest.raises(BackfillMismatchError, match="2 partitions"):
            hand_over(cluster, run)
        cluster.broker.create_topic("app-counts-changelog", 7)
        with pytest.raises(InternalTopicMismatch, match="'app-counts-changelog' has 7"):
            hand_over(cluster, run)


def test_a_backfill_of_another_topology_is_refused(sent: Cluster, run: Path) -> None:
    def other() -> Topology:
        builder = StreamsBuilder()
        stream: Any = builder.stream("in", strings())
        stream.group_by_key(Grouped(key_serde=S, value_serde=S)).count(materialized=Materialized(name="others"))
        return builder.build()

    with pytest.raises(BackfillMismatchError, match="store 'others'"):
        hand_over(sent, run, topology=other)


@pytest.mark.parametrize("what", ["nothing", "no end", "no json", "no file", "damaged file"])
def test_a_run_directory_that_cannot_be_used_is_refused(what: str, sent: Cluster, run: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    if what != "nothing":
        shutil.copytree(run, copy)
    if what == "no end":
        (copy / "stage=0" / "_DONE.json").unlink()
    if what == "no json":
        (copy / "run.json").write_text("{")
    if what == "no file":
        next(copy.glob("stage=0/kind=state/*")).unlink()
    if what == "damaged file":
        next(copy.glob("stage=0/kind=state/*")).write_bytes(b"PAR1 no parquet")
    with pytest.raises(BackfillMismatchError, match=r"kind=state/.*parquet" if "file" in what else None):
        hand_over(sent, copy)


# ------------------------------------------------------------------ outputs


@pytest.mark.parametrize("chunks", [1, 2, 3, 30])
def test_outputs_are_published_once_whenever_it_is_killed(chunks: int, sent: Cluster, run: Path) -> None:
    counts = hand_over(sent, run, dry_run=True, publish_outputs=["out", "windows"]).published
    rows = hand_over(sent, run, dry_run=True).rows
    assert all(counts.values())
    with pytest.raises(Killed):
        hand_over(
            sent,
            run,
            publish_outputs=["out", "windows"],
            clients=DyingClients(sent.clients, rows + chunks * sum(counts.values()) // 31),
        )
    refuses(sent)
    report = hand_over(sent, run, publish_outputs=["out", "windows"])
    assert report.published == counts
    assert {topic: len(sent.broker.records(topic)) for topic in counts} == counts


def test_outputs_of_other_topics_are_not_taken_for_those_that_are_published(sent: Cluster, run: Path) -> None:
    """What is published is known by number."""
    killed_before_the_offsets = 7
    assert killed_after(killed_before_the_offsets, lambda: hand_over(sent, run, publish_outputs=["windows"])).endswith(
        "outputs published"
    )
    before = len(sent.broker.records("windows"))
    with pytest.raises(BackfillMismatchError, match="the same publish_outputs"):
        hand_over(sent, run, publish_outputs=["out", "windows"])
    refuses(sent)
    hand_over(sent, run, publish_outputs=["windows"])
    assert (len(sent.broker.records("windows")), sent.broker.records("out")) == (before, [])


def test_tasks_that_ran_together_have_their_rows_in_the_same_files(
    sent: Cluster, backfill: Callable[..., Path], expected: dict[str, Any]
) -> None:
    """So a backfill runs subtopologies that feed each other."""
    run = backfill(RECORDS)
    done = run / "stage=0" / "_DONE.json"
    found = json.loads(done.read_text())
    first, *others = found["tasks"]
    for task in others:
        first["files"] += task["files"]
        task["files"] = []
    done.write_text(json.dumps(found))
    report = hand_over(sent, run, publish_outputs=["out"])
    left = left_by(sent)
    assert left["rows"] == expected["rows"]
    assert len(sent.broker.records("out")) == report.published["out"]


def test_an_output_that_is_none_is_refused(sent: Cluster, run: Path) -> None:
    with pytest.raises(BackfillMismatchError, match="does not write topic 'in'"):
        hand_over(sent, run, publish_outputs=["in"])
