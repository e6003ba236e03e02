"""The real Kafka that the other tests here rely on."""

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tools.kafka.broker import HOST, Broker, BrokerError, is_live
from tools.kafka.folder_lock import FolderInUse, FolderLock
from tools.kafka.quick_broker import QuickBroker
from waiting import wait_until


def create_topic(address: str, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": address})
    admin.create_topics([NewTopic(name, 3)])[name].result(30)


def partition_count(address: str, topic: str) -> int:
    admin = AdminClient({"bootstrap.servers": address})
    return len(admin.list_topics(topic, timeout=30).topics[topic].partitions)


def test_kafka_answers(kafka: str, unique_name: Callable[[str], str]) -> None:
    topic = unique_name("input")
    create_topic(kafka, topic)
    assert partition_count(kafka, topic) == 3


def test_a_settled_broker_tells_the_offsets_of_a_group(kafka: str, unique_name: Callable[[str], str]) -> None:
    """On a broker that has not made its offsets topic, librdkafka crashes here."""
    group = unique_name("group")
    request = ConsumerGroupTopicPartitions(group, [TopicPartition(unique_name("input"), 0)])
    admin = AdminClient({"bootstrap.servers": kafka})
    answer = admin.list_consumer_group_offsets([request])[group].result(30)
    assert [each.offset for each in answer.topic_partitions] == [-1001]


def test_names_differ(unique_name: Callable[[str], str]) -> None:
    assert unique_name("a") != unique_name("a")
    assert unique_name("a").startswith("a-test-names-differ-")


@pytest.mark.slow
def test_a_broker_of_ones_own_survives_a_kill_with_its_data(
    start_broker: Callable[..., Broker], unique_name: Callable[[str], str]
) -> None:
    # A killed broker may come back once its former self has timed out.
    broker = start_broker({"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500"})
    topic = unique_name("input")
    create_topic(broker.bootstrap, topic)
    broker.kill()
    assert not broker.is_running
    assert not is_live(HOST, broker.port)
    broker.start()
    assert partition_count(broker.bootstrap, topic) == 3


def test_data_in_a_folder_of_ones_own_outlives_the_broker(tmp_path: Path, unique_name: Callable[[str], str]) -> None:
    topic = unique_name("input")
    with QuickBroker(folder=tmp_path) as first:
        create_topic(first.bootstrap, topic)
    with QuickBroker(folder=tmp_path) as second:
        assert second.bootstrap != first.bootstrap
        assert partition_count(second.bootstrap, topic) == 3


@pytest.mark.slow
def test_a_quick_node_has_ids_of_its_own_and_keeps_its_data(unique_name: Callable[[str], str]) -> None:
    """Its data folder is copied from one that all share."""
    topic = unique_name("input")
    ids = []
    with QuickBroker() as one, QuickBroker() as other:
        for broker in (one, other):
            text = (broker.folder / "data" / "meta.properties").read_text()
            ids += re.findall(r"(?:cluster|directory)\.id=(\S+)", text)
        create_topic(one.bootstrap, topic)
        one.stop()
        one.start()
        assert partition_count(one.bootstrap, topic) == 3
        assert is_live(HOST, other.port)
    assert len(set(ids)) == 4


def test_a_folder_has_one_broker_at_a_time(tmp_path: Path) -> None:
    """A second one on the same data damaged those of the first."""
    with QuickBroker(folder=tmp_path) as first:
        before = {path: path.stat().st_mtime_ns for path in (tmp_path / "server.properties", tmp_path / "data")}
        with pytest.raises(BrokerError, match=rf"is in use: process {os.getpid()}, by its broker, process \d+, has it"):
            QuickBroker(folder=tmp_path).start()
        assert {path: path.stat().st_mtime_ns for path in before} == before
        assert is_live(HOST, first.port)
        command = [sys.executable, "-m", "tools.kafka.broker", "--port", "0", "--dir", str(tmp_path)]
        second = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert second.returncode == 1
        assert second.stderr.startswith(f"{tmp_path} is in use: process {os.getpid()}, ")
        assert second.stderr.count("\n") == 1


def test_a_folder_stays_taken_while_a_broker_outlives_its_program(tmp_path: Path) -> None:
    """Which was killed. Once the broker ends too, the folder is free."""
    code = (
        "import subprocess, sys; from pathlib import Path; from tools.kafka.folder_lock import FolderLock\n"
        f"lock = FolderLock(Path({str(tmp_path)!r}))\n"
        "broker = subprocess.Popen([sys.executable, '-c', 'input()'], stdin=0, pass_fds=(lock.descriptor,))\n"
        "lock.note('the broker'); print(broker.pid, flush=True); broker.wait()\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        assert program.stdout is not None
        broker = int(program.stdout.readline())
        program.kill()
        program.wait()
        with pytest.raises(FolderInUse, match="is in use: the broker has it; end that first, or give another folder"):
            FolderLock(tmp_path)
        os.kill(broker, signal.SIGKILL)

        def free() -> bool:
            try:
                FolderLock(tmp_path).release()
            except FolderInUse:
                return False
            return True

        wait_until("the folder is free", free, deadline_s=30)


def test_a_broker_that_cannot_start_says_why_and_leaves_nothing() -> None:
    broker = QuickBroker(properties={"authorizer.class.name": "no.such.Authorizer"})
    with pytest.raises(BrokerError, match=r"ended with status 1 while starting(.|\n)*no\.such\.Authorizer"), broker:
        pass
    assert not broker.is_running
    assert not broker.folder.exists()


def test_a_port_that_is_taken_is_refused_before_anything_starts() -> None:
    """The broker that has it would answer in place of ours."""
    with socket.create_server((HOST, 0)) as other:
        broker = Broker(port=other.getsockname()[1])
        with pytest.raises(BrokerError, match="Address already in use"), broker:
            pass
    assert not broker.folder.exists()


@pytest.mark.slow
@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_the_program_gives_its_address_and_cleans_up_when_it_is_ended(root: Path, ending: signal.Signals) -> None:
    command = [sys.executable, "-m", "tools.kafka.broker", "--port", "0"]
    with subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        try:
            told = re.match(r"Apache Kafka \d+\.\d+\.\d+ on (\S+):(\d+), data in (\S+);", program.stdout.readline())
            assert told is not None
            host, port, folder = told[1], int(told[2]), Path(told[3])
            assert is_live(host, port)
        finally:
            program.send_signal(ending)
        assert program.wait(60) == 0
    assert not is_live(host, port)
    assert not folder.exists()
