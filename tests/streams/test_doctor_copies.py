"""`streams doctor` shows the copies of tasks that workers keep, and which of them are in trouble."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from processor_api.clock import Clock, ManualClock
from processor_api.task_id import TaskId
from processor_api.topology.topology import Topology
from streams import StreamsBuilder
from streams.app.kafka_streams import KafkaStreams
from streams.cli.cluster.groups import MemberTasks, members_of
from streams.cli.cluster.workers import Seen
from streams.cli.doctor.copy_checks import WantedCopies, copy_findings
from streams.cli.output.findings import Finding, Verdict
from streams.config import StreamsConfig
from streams.kafka.ports import GroupMember
from streams.observing.status import StandbyStatus
from streams.testing import EmbeddedKafka
from waiting import wait_until

ACCEPTED = 5


def counts() -> Topology:
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    builder.stream("in").group_by_key().count(materialized="counts").to_stream().to("out")
    return builder.build()


class Meanwhile:
    """A clock that moves by its waits, during which something happens."""

    def __init__(self, happens: Callable[[], None]) -> None:
        self._happens = happens
        self._clock = ManualClock()
        self.time_ms, self.monotonic = self._clock.time_ms, self._clock.monotonic

    def wait(self, seconds: float) -> None:
        self._clock.wait(seconds)
        self._happens()


class Group:
    """Workers of one application on a broker in memory, each with a state directory of its own."""

    def __init__(self, folder: Path, kafka: EmbeddedKafka) -> None:
        self._folder, self._kafka = folder, kafka
        self._admin = kafka.clients.admin({})
        self.workers: list[KafkaStreams] = []

    def worker(self, **more: object) -> KafkaStreams:
        settings = {
            "application.id": "shop",
            "bootstrap.servers": "localhost:9092",
            "state.dir": str(self._folder / f"state-{len(self.workers)}"),
            "commit.interval.ms": 100,
            "acceptable.recovery.lag": ACCEPTED,
            **more,
        }
        made = KafkaStreams(counts(), StreamsConfig.of(settings), clients=self._kafka.clients)
        self.workers.append(made)
        return made

    def send(self, first: int, behind: int) -> None:
        producer = self._kafka.clients.producer({})
        for number in range(first, behind):
            producer.produce("in", b"v", b"%d" % number, number % 4, None, None, 1)
        producer.flush()

    def members(self) -> list[MemberTasks]:
        return members_of("shop", self._admin, self._admin.describe_group("shop"), self._admin.topics())

    def look(self) -> Seen:
        return Seen(tuple(worker.status() for worker in self.workers))

    def findings(self, replicas: int = 0, clock: Clock | None = None) -> list[str]:
        wanted = WantedCopies(replicas=replicas, logged=frozenset({0}), acceptable_lag=ACCEPTED)
        found = copy_findings(self.members, wanted, self.look, clock or ManualClock())
        return [str(one).replace(" thread 1", "") for one in found]


@pytest.fixture
def group(tmp_path: Path) -> Iterator[Group]:
    with EmbeddedKafka(tmp_path / "unused") as kafka:
        kafka.create_topics("in", "out", partitions=4)
        made = Group(tmp_path, kafka)
        yield made
        for worker in made.workers:
            worker.close()


@pytest.mark.parametrize("protocol", ["classic", "streams"])
def test_who_keeps_which_copy(group: Group, protocol: str) -> None:
    """Both memberships show it; copies in order are ok, and nothing is waited for."""
    if protocol == "streams":
        group._kafka.broker.groups.group("shop").standby_replicas = 1
    for _ in range(2):
        group.worker(**{"group.protocol": protocol, "num.standby.replicas": 1}).start()

    def shown() -> list[str]:
        lines = group.findings(replicas=1, clock=_no_wait())
        return sorted(task for line in lines for task in line.split("replicas of ")[-1].split(", "))

    wait_until("each task has a copy", lambda: shown() == ["0_0", "0_1", "0_2", "0_3"])
    assert all(line.startswith("ok    copies: shop-") for line in group.findings(replicas=1))


def _no_wait() -> Clock:
    def refuse() -> None:
        raise AssertionError("copies that are near are not waited for")

    return Meanwhile(refuse)


@pytest.mark.parametrize("protocol", ["classic", "streams"])
def test_a_group_without_copies_has_no_finding(group: Group, protocol: str) -> None:
    group.worker(**{"group.protocol": protocol}).start()
    wait_until("its tasks are there", lambda: sum(len(one.tasks) for one in group.members()) == 4)
    assert group.findings() == []


def test_one_state_directory_keeps_no_copies(group: Group) -> None:
    group.worker().start()
    wait_until("its tasks are there", lambda: sum(len(one.tasks) for one in group.members()) == 4)
    first, *more = group.findings(replicas=2)
    assert first == (
        "warn  copies: num.standby.replicas is 2, and the workers of the group have 1 state directory: a task can have"
        " at most 0, because a replica and its task need different directories. Start a worker on another machine, or"
        " with another state.dir"
    )
    assert more == []


def test_the_setting_of_workers_has_no_effect_where_brokers_place_tasks(group: Group) -> None:
    group.worker(**{"group.protocol": "streams"}).start()
    wait_until("its tasks are there", lambda: sum(len(one.tasks) for one in group.members()) == 4)
    (only,) = group.findings(replicas=1)
    assert only.endswith("and no standby replica exists: set streams.num.standby.replicas of the group")


def test_a_worker_that_is_paused_fills_no_copies(group: Group) -> None:
    """Its members are in the group, and say that they fill copies."""
    first = group.worker()
    first.start()
    group.send(0, 60)

    def committed() -> int:
        return sum(one.committed or 0 for task in first.status().tasks for one in task.partitions)

    wait_until("all is counted and committed", lambda: committed() == 60 and first.status().ready)
    second = group.worker()
    second.pause()
    second.start()
    wait_until("it is in the group", lambda: len(group.members()) == 2)
    fills, paused = group.findings()
    assert fills.endswith(" fills warm-up replicas before it takes tasks with state: none is open yet")
    assert re.fullmatch(r"warn  copies: shop-[0-9a-f-]+-0 is paused, so its replicas are not filled: resume it", paused)
    second.resume()
    wait_until("it has its part", lambda: second.status().ready and len(second.status().tasks) == 2)
    assert [line for line in group.findings() if line.startswith("warn")] == []


def member(number: int, *tasks: int, **more: object) -> MemberTasks:
    directory = f"00000000-0000-0000-0000-{number:012d}"
    info = GroupMember(f"shop-{directory}-0-StreamThread-1-consumer-topology-0f3c9a71", f"m{number}", None, frozenset())
    return replace(MemberTasks(info, tuple(TaskId(0, task) for task in tasks)), **more)  # type: ignore[arg-type]


def judged(*looks: list[MemberTasks], replicas: int = 1) -> list[Finding]:
    """The findings of a group whose workers are on other machines, as it is in each look."""
    seen = iter(looks)
    wanted = WantedCopies(replicas=replicas, logged=frozenset({0}), acceptable_lag=ACCEPTED)
    return list(copy_findings(lambda: next(seen), wanted, Seen, ManualClock()))


def test_tasks_without_a_copy_are_named() -> None:
    """A member that has one task, and no place to report copies, may have those that are lacking: then none is."""
    members = [member(1, 0, 1, copies={TaskId(0, 2): 0}), member(2, 2, 3, copies={TaskId(0, 0): 0})]
    *_, last = judged(members)
    assert (last.verdict, last.text.partition(". ")[0]) == (
        Verdict.WARN,
        "num.standby.replicas is 1 or more, and these tasks have fewer replicas: 0_1 (0), 0_3 (0)",
    )
    assert [one.verdict for one in judged([*members, member(3, 4)])] == [Verdict.OK, Verdict.OK]


def test_a_copy_on_another_machine_that_falls_behind_is_found() -> None:
    """Its member reports in steps; a report that stays may mean either."""

    def look(lag: int) -> list[MemberTasks]:
        return [
            member(1, 0, 1, copies={TaskId(0, 2): lag}),
            member(2, 2, 3, copies=dict.fromkeys(map(TaskId.parse, ["0_0", "0_1"]), 0)),
        ]

    assert [one.verdict for one in judged(look(64), look(32), replicas=0)] == [Verdict.OK, Verdict.OK]
    assert [one.verdict for one in judged(look(64), look(64), replicas=0)] == [Verdict.OK, Verdict.OK]
    *_, last = judged(look(64), look(128), replicas=0)
    assert last.verdict is Verdict.WARN
    assert "replica of task 0_2 in shop-00000000-0000-0000-0000-000000000001-0 lags up to 128 offsets" in last.text


def test_a_copy_of_this_machine_that_takes_nothing_is_found(group: Group) -> None:
    """Its status stands still between the looks; one that takes fewer than are written is found, too."""
    worker = group.worker()
    worker.start()
    wait_until("it runs", lambda: worker.status().ready)
    status = worker.status()

    def found(*copies: tuple[int, int]) -> str:
        looks = iter(
            Seen(
                (
                    replace(
                        status,
                        standbys=(
                            StandbyStatus(
                                task="0_1", thread="t", store="s", position=position, lag=lag, applied=0, rate=0.0
                            ),
                        ),
                    ),
                )
            )
            for position, lag in copies
        )
        wanted = WantedCopies(replicas=0, logged=None, acceptable_lag=ACCEPTED)
        (line,) = copy_findings(list, wanted, lambda: next(looks), ManualClock())
        return str(line)

    assert "and applied none in 5 s" in found((10, 100), (10, 100))
    assert ", 30 more than 5 s before: records are written faster than it applies" in found((10, 100), (20, 130))
    assert found((10, 105), (60, 55)).endswith(", 10 fewer each second: caught up in about 5 s")
