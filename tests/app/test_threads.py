"""Threads that fail, come and go, and what the application tells of them (KIP-671, KIP-663, KIP-834)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from processor_api.errors import ProcessingError, RetryableError, StreamsError, UserCodeError
from processor_api.processor import Processor
from processor_api.task_id import TaskId, TopicPartition
from runtime_support.running_app import Cluster, Counting, counting, passing_on
from streams.app.kafka_streams import KafkaStreams
from streams.app.states import ClientState
from streams.app.uncaught import StreamThreadExceptionResponse as Answer
from streams.app.uncaught import verdict
from streams.kafka.membership.port import ShutdownRequested
from streams.kafka.ports import InstanceFenced
from waiting import wait_until

C = ClientState
EOS = {"processing.guarantee": "exactly_once_v2"}


class Failing:
    """Fails at a value as often as it is told to."""

    def __init__(self, times: int = 1, error: BaseException | None = None) -> None:
        self.left = times
        self.error = error or ValueError("bad")

    def __call__(self, value: str) -> None:
        if value == "bad" and self.left:
            self.left -= 1
            raise self.error


def handled(cluster: Cluster, answer: Any, topology: Any, config: Any = None) -> tuple[KafkaStreams, list[Exception]]:
    """An application whose handler gives this answer, and what it was asked about."""
    app = cluster.app(topology, config, start=False)
    asked: list[Exception] = []

    def handler(error: Exception) -> Any:
        asked.append(error)
        return answer

    app.set_uncaught_exception_handler(handler)
    app.start()
    return app, asked


# ------------------------------------------------------------------ replaced threads


def test_a_place_that_nobody_takes_is_given_up_at_once(cluster: Cluster) -> None:
    """The application closes while a thread is to be replaced: its tasks do not wait for the session timeout."""
    settings = {"session.timeout.ms": 600_000, "max.poll.interval.ms": 600_000}  # longer than a test waits
    app = cluster.app(passing_on(Failing()), settings, start=False)

    def closes(error: Exception) -> Answer:
        app.close(0)
        return Answer.REPLACE_THREAD

    app.set_uncaught_exception_handler(closes)
    app.start()
    cluster.send("bad")
    cluster.until_state(app, C.NOT_RUNNING)
    cluster.app(passing_on(Failing(0)))
    cluster.until_out("bad")


def test_threads_that_die_one_after_the_other_are_replaced_less_and_less_often(cluster: Cluster) -> None:
    """A record that fails each time killed 19 threads a second."""
    waits: list[float] = []
    settings = {"retry.backoff.ms": 10, "retry.backoff.max.ms": 80}
    app = cluster.app(passing_on(Failing(times=1_000_000)), settings, start=False)

    def handler(error: Exception) -> Answer:
        (thread,) = app._run.threads or ()
        waits.append(thread._kept.begin_after_s)
        return Answer.REPLACE_THREAD

    app.set_uncaught_exception_handler(handler)
    app.start()
    cluster.send("bad")
    wait_until("six have died", lambda: len(waits) >= 6)
    assert waits[:6] == [0.0, 0.01, 0.02, 0.04, 0.08, 0.08]


def test_a_stop_does_not_wait_for_the_thread_that_is_to_come(cluster: Cluster) -> None:
    settings = {"retry.backoff.ms": 60_000, "retry.backoff.max.ms": 60_000}
    app, asked = handled(cluster, Answer.REPLACE_THREAD, passing_on(Failing()), settings)
    cluster.send("bad")
    wait_until("one has died", lambda: len(asked) == 1)
    assert app.close(60)
    assert cluster.values() == []


@pytest.mark.parametrize("guarantee", [{}, EOS])
def test_a_replaced_thread_loses_nothing(guarantee: Any, make_cluster: Callable[..., Cluster]) -> None:
    """It has the tasks of the one that failed, and processes again what that had not committed."""
    cluster = make_cluster(partitions=2)
    failing = Failing(times=2)

    class Fails(Counting):
        def process(self, record: Any) -> None:
            super().process(record)
            failing(record.value)

    app, asked = handled(cluster, Answer.REPLACE_THREAD, counting(supplier=Fails), guarantee)
    cluster.send("a", "bad", "b")
    cluster.send("c", partition=1)
    wait_until("all is processed", lambda: {"b=1", "c=1"} <= set(cluster.values()))
    cluster.until_state(app, C.RUNNING)
    assert [type(error) for error in asked] == [ProcessingError, ProcessingError]
    assert "ValueError in node 'p'" in str(asked[0])
    assert app.failure is None
    assert list(app.tasks().values()) == [[TaskId(0, 0), TaskId(0, 1)]]
    if guarantee:
        assert sorted(cluster.values()) == ["a=1", "b=1", "bad=1", "c=1"]
    states = [new for _, new in cluster.states[app]]
    assert C.PENDING_ERROR not in states
    assert _value(app, "failed-stream-threads") == 2
    assert _value(app, "alive-stream-threads") == 1


def test_a_thread_that_is_replaced_keeps_its_place_in_the_group(make_cluster: Callable[..., Cluster]) -> None:
    """The other members are not disturbed."""
    cluster = make_cluster(partitions=2)
    failing = Failing()
    other = cluster.app(passing_on(failing))
    cluster.until_state(other, C.RUNNING)
    app, _ = handled(cluster, Answer.REPLACE_THREAD, passing_on(failing))
    wait_until("both have a task", lambda: _one_each(other, app))
    owned = next(iter(app.tasks().values()))[0].partition
    cluster.until_state(other, C.RUNNING)
    cluster.until_state(app, C.RUNNING)
    told = len(cluster.states[other])
    cluster.send("bad", "x", partition=owned)
    wait_until("all is processed", lambda: set(cluster.values()) == {"bad", "x"})
    cluster.until_state(app, C.RUNNING)
    assert len(cluster.states[other]) == told


def _one_each(*apps: KafkaStreams) -> bool:
    return all([len(tasks) for tasks in app.tasks().values()] == [1] for app in apps)


def test_a_failure_while_tasks_are_made_may_be_replaced_too(cluster: Cluster) -> None:
    failing = Failing()

    class FailsInInit(Counting):
        def init(self, context: Any) -> None:
            super().init(context)
            failing("bad")

    _, asked = handled(cluster, Answer.REPLACE_THREAD, counting(supplier=FailsInInit))
    cluster.send("a")
    cluster.until_out("a=1")
    assert len(asked) == 1


# ------------------------------------------------------------------ shutdowns


def test_without_a_handler_the_client_shuts_down(cluster: Cluster) -> None:
    app = cluster.app(passing_on(Failing()))
    cluster.send("bad")
    cluster.until_state(app, C.ERROR)
    assert isinstance(app.failure, ProcessingError)
    assert [new for _, new in cluster.states[app]][-2:] == [C.PENDING_ERROR, C.ERROR]
    assert app.close(0)


def test_a_handler_may_shut_the_client_down(make_cluster: Callable[..., Cluster]) -> None:
    """Of several threads, all end; another application goes on, with its tasks."""
    cluster = make_cluster(partitions=2)
    app, asked = handled(cluster, Answer.SHUTDOWN_CLIENT, passing_on(Failing()), {"num.stream.threads": 2})
    cluster.until_state(app, C.RUNNING)
    cluster.send("bad")
    cluster.until_state(app, C.ERROR)
    assert app.failure is asked[0]
    other = cluster.app(passing_on())
    cluster.send("good", partition=1)
    wait_until("the other has all", lambda: sorted(cluster.values()) == ["bad", "good"])
    assert other.state is C.RUNNING


@pytest.mark.parametrize("guarantee", [{}, EOS])
def test_a_handler_may_shut_the_application_down(guarantee: Any, make_cluster: Callable[..., Cluster]) -> None:
    """Every process of it, also one that has no tasks; one that is started later is not concerned."""
    cluster = make_cluster(partitions=2)
    failing = Failing()
    app, _ = handled(cluster, Answer.SHUTDOWN_APPLICATION, passing_on(failing), guarantee)
    others = [cluster.app(passing_on(failing), guarantee) for _ in range(2)]
    cluster.until_state(app, C.RUNNING)
    for other in others:
        cluster.until_state(other, C.RUNNING)
    wait_until("all listen", lambda: _listens(app, *others))
    wait_until("it has one task", lambda: _one_each(app) and app.state is C.RUNNING)
    (owned,) = next(iter(app.tasks().values()))
    cluster.send("bad", partition=owned.partition)
    for one in (app, *others):
        cluster.until_state(one, C.ERROR)
    assert isinstance(app.failure, ProcessingError)
    for other in others:
        assert isinstance(other.failure, ShutdownRequested)
        assert "a member of the application asked all of them to shut down: app-" in str(other.failure)
    later = cluster.app(passing_on(failing), guarantee)
    cluster.until_state(later, C.RUNNING)
    wait_until("it was processed", lambda: cluster.values() == ["bad"])
    assert later.state is C.RUNNING


def _listens(*apps: KafkaStreams) -> bool:
    """Whether each has had the time to read where requests go: the threads went round once more."""
    return all(thread._resources.membership._requests._partition for app in apps for thread in app._run.threads or ())  # type: ignore[union-attr]


@pytest.mark.parametrize("answer", [None, "REPLACE_THREAD", ValueError("its own")])
def test_a_handler_that_answers_nothing_or_fails_shuts_the_client_down(
    answer: Any, cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    app = cluster.app(passing_on(Failing()), start=False)

    def handler(error: Exception) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    app.set_uncaught_exception_handler(handler)
    with caplog.at_level(logging.ERROR, logger="streams.client"):
        app.start()
        cluster.send("bad")
        cluster.until_state(app, C.ERROR)
    assert isinstance(app.failure, ProcessingError)
    says = "raised ValueError" if isinstance(answer, Exception) else f"returned {answer!r}"
    (told,) = [one.getMessage() for one in caplog.records if one.name == "streams.client"]
    assert "the uncaught exception handler" in told
    assert says in told
    assert told.endswith("the application shuts down")


def test_what_no_new_thread_would_mend_is_not_replaced() -> None:
    """A thread whose place was taken would throw out the one that took it."""
    replace: Callable[[Exception], Answer] = lambda error: Answer.REPLACE_THREAD  # noqa: E731
    assert verdict(replace, InstanceFenced("taken")) is Answer.SHUTDOWN_CLIENT
    assert verdict(replace, RetryableError("later")) is Answer.REPLACE_THREAD
    assert verdict(None, RetryableError("later")) is Answer.SHUTDOWN_CLIENT


def test_a_processor_that_exits_does_not_end_its_thread_in_silence(cluster: Cluster) -> None:
    """Was a thread that Python ended without a word, and an application that ran on with nobody to run it."""
    app = cluster.app(passing_on(Failing(error=SystemExit(3))))
    cluster.send("bad")
    cluster.until_state(app, C.ERROR)
    assert isinstance(app.failure, UserCodeError)
    assert "SystemExit was raised in a stream thread: 3" in str(app.failure)


# ------------------------------------------------------------------ coming and going


def test_threads_are_added_and_removed(make_cluster: Callable[..., Cluster]) -> None:
    """Tasks go to the new one and come back; names are used again."""
    cluster = make_cluster(partitions=2)
    app = cluster.app(passing_on())
    cluster.until_state(app, C.RUNNING)
    name = app.add_stream_thread()
    assert name is not None
    assert name.endswith("-StreamThread-2")
    wait_until("each has a task", lambda: [len(tasks) for tasks in app.tasks().values()] == [1, 1])
    cluster.until_state(app, C.RUNNING)
    cluster.send("a")
    cluster.send("b", partition=1)
    cluster.until_out("a", "b")
    assert app.remove_stream_thread(10) == name
    wait_until("the other has both", lambda: [len(tasks) for tasks in app.tasks().values()] == [2])
    cluster.until_state(app, C.RUNNING)
    cluster.send("c", partition=1)
    cluster.until_out("a", "b", "c")
    assert app.failure is None
    assert app.add_stream_thread() == name


def test_the_cache_is_shared_out_anew(make_cluster: Callable[..., Cluster]) -> None:
    cluster = make_cluster(partitions=2)
    app = cluster.app(passing_on(), {"statestore.cache.max.bytes": 1000, "statestore.uncommitted.max.bytes": -1})
    cluster.until_state(app, C.RUNNING)
    memory = app._run.resources.process.state.memory  # type: ignore[union-attr]
    budgets = memory._budgets
    assert [one.cache_limit for one in budgets.values()] == [1000]
    app.add_stream_thread()
    wait_until("there are two", lambda: [one.cache_limit for one in budgets.values()] == [500, 500])
    app.remove_stream_thread()
    wait_until("there is one", lambda: [one.cache_limit for one in budgets.values()] == [1000])
    assert [one.uncommitted_limit for one in budgets.values()] == [-1]


def test_a_stream_thread_may_remove_itself(make_cluster: Callable[..., Cluster]) -> None:
    cluster = make_cluster(partitions=1)
    told: list[str | None] = []

    def look(value: str) -> None:
        if value == "go":
            told.append(cluster.apps[0].remove_stream_thread())

    app = cluster.app(passing_on(look), {"num.stream.threads": 2})
    cluster.until_state(app, C.RUNNING)
    (owner,) = [name for name, tasks in app.tasks().items() if tasks]
    cluster.send("go")
    wait_until("it is gone", lambda: len(app.tasks()) == 1)
    cluster.send("next")
    cluster.until_out("go", "next")
    assert told == [owner]
    assert app.state is not C.ERROR


def test_threads_are_neither_added_nor_removed_outside_of_a_run(cluster: Cluster) -> None:
    app = cluster.app(passing_on(), start=False)
    assert app.add_stream_thread() is None
    assert app.remove_stream_thread() is None
    app.start()
    app.close()
    assert app.add_stream_thread() is None
    assert app.remove_stream_thread() is None
    with pytest.raises(ValueError, match="timeout must not be negative, got -1"):
        app.remove_stream_thread(-1)


# ------------------------------------------------------------------ close


def test_a_close_that_takes_too_long_says_so_and_goes_on(cluster: Cluster) -> None:
    """It stops when the record in work is done."""
    begun: list[str] = []
    go: list[bool] = []

    def wait_to_go_on(value: str) -> None:
        begun.append(value)
        wait_until("it may go on", lambda: go)

    app = cluster.app(passing_on(wait_to_go_on))
    cluster.send("slow")
    wait_until("it is at work", lambda: begun)
    assert not app.close(0.05)
    assert app.state is C.PENDING_SHUTDOWN
    assert not app.close(0)
    go.append(True)
    assert app.close(60)
    assert app.state is C.NOT_RUNNING
    assert app.close(0)


def test_a_timeout_below_zero_is_refused(cluster: Cluster) -> None:
    app = cluster.app(passing_on(), start=False)
    with pytest.raises(ValueError, match="timeout must not be negative"):
        app.close(-5)


@pytest.mark.parametrize("leave", [True, False, None])
def test_a_close_leaves_the_group_or_stays(leave: bool | None, cluster: Cluster) -> None:
    """A member that leaves hands over at once; one that stays is back with its tasks (KIP-1153)."""
    app = cluster.app(passing_on())
    cluster.until_state(app, C.RUNNING)
    assert app.close(10, leave_group=leave)
    members = cluster.clients.admin({}).group_members("app")
    assert len(members) == (1 if leave is False else 0)


def test_clean_up_is_refused_while_it_runs_and_removes_tasks_only(cluster: Cluster, tmp_path: Any) -> None:
    """Of this application; others in the same ``state.dir`` keep theirs."""
    app = cluster.app(counting(), {"state.dir": str(tmp_path / "s")})
    stranger = tmp_path / "s" / "other-app" / "0_0"
    stranger.mkdir(parents=True)
    cluster.send("a")
    cluster.until_out("a=1")
    with pytest.raises(StreamsError, match="local state can be deleted only while the application does not run"):
        app.clean_up()
    app.close()
    assert (tmp_path / "s" / "app" / "0_0").is_dir()
    app.clean_up()
    assert not (tmp_path / "s" / "app" / "0_0").exists()
    assert (tmp_path / "s" / "app" / "streams-metadata.json").exists()
    assert stranger.is_dir()


# ------------------------------------------------------------------ pause


def test_a_paused_application_processes_nothing_and_stays_in_its_group(cluster: Cluster) -> None:
    """And goes on where it was (KIP-834); what waits is bounded."""
    app = cluster.app(passing_on(), {"buffered.records.per.partition": 5, "max.poll.records": 2})
    cluster.until_state(app, C.RUNNING)
    app.pause()
    assert app.is_paused()
    values = [f"v{number}" for number in range(50)]
    cluster.send(*values)
    (thread,) = app._run.threads  # type: ignore[misc]
    wait_until("its partition is paused", lambda: thread._loop.intake.paused == {TopicPartition("in", 0)})  # type: ignore[union-attr]
    (task,) = thread._resources.tasks.all_running()  # type: ignore[union-attr]
    assert 5 < len(task.inputs.queues[TopicPartition("in", 0)]) <= 8
    assert (cluster.values(), app.state) == ([], C.RUNNING)
    app.resume()
    wait_until("all is processed", lambda: cluster.values() == values)


def test_an_application_may_be_paused_before_its_start(cluster: Cluster) -> None:
    """Punctuations wait too."""
    fired: list[int] = []

    class Ticking(Processor[Any, Any, Any, Any]):
        def init(self, context: Any) -> None:
            super().init(context)
            from processor_api.punctuation import PunctuationType

            context.schedule(1, PunctuationType.WALL_CLOCK_TIME, fired.append)

        def process(self, record: Any) -> None:
            self.context.forward(record)

    app = cluster.app(passing_on().add_processor("ticks", Ticking, "source"), start=False)
    app.pause()
    app.start()
    cluster.until_state(app, C.RUNNING)
    cluster.send("a")
    (thread,) = app._run.threads  # type: ignore[misc]
    (task,) = thread._resources.tasks.all_running()  # type: ignore[union-attr]
    wait_until("it has the record", task.inputs.has_records)
    assert fired == []
    app.resume()
    cluster.until_out("a")
    wait_until("it ticks", lambda: fired)


# ------------------------------------------------------------------ what it tells


def _value(app: KafkaStreams, name: str, **tags: str) -> Any:
    (found,) = [
        metric.metric_value()
        for key, metric in app.metrics().items()
        if key.name == name and (dict(key.tags) == tags if tags else key.group == "stream-metrics")
    ]
    return found


def test_metadata_tells_of_threads_and_their_tasks(make_cluster: Callable[..., Cluster]) -> None:
    cluster = make_cluster(partitions=1)
    app = cluster.app(passing_on(), {"client.id": "me"}, start=False)
    assert app.metadata_for_local_threads() == frozenset()
    app.start()
    cluster.send("a", "b")
    cluster.until_out("a", "b")

    def committed() -> Any:
        (one,) = app.metadata_for_local_threads()
        return one if any(2 in task.committed_offsets.values() for task in one.active_tasks) else None

    thread = wait_until("the offsets are committed", committed)
    assert (thread.thread_name, thread.thread_state) == ("me-StreamThread-1", "RUNNING")
    assert thread.main_consumer_client_id.startswith("me-StreamThread-1-consumer-topology-")
    assert thread.restore_consumer_client_id == "me-StreamThread-1-restore-consumer"
    assert thread.producer_client_ids == {"me-StreamThread-1-producer"}
    assert thread.admin_client_id == "me-admin"
    assert thread.standby_tasks == frozenset()
    (task,) = thread.active_tasks
    partition = TopicPartition("in", 0)
    assert (task.task_id, task.topic_partitions) == (TaskId(0, 0), {partition})
    assert task.committed_offsets == {partition: 2}
    assert task.time_current_idling_started is None
    app.close()
    assert app.metadata_for_local_threads() == frozenset()


def test_metrics_have_kafkas_names_and_tags(cluster: Cluster) -> None:
    app = cluster.app(passing_on(), {"client.id": "me"})
    cluster.send("a", "b")
    cluster.until_out("a", "b")
    thread = "me-StreamThread-1"
    wait_until("it has counted", lambda: _value(app, "process-total", **{"thread-id": thread, "task-id": "0_0"}) == 2)
    wait_until("it has committed", lambda: _value_of_thread(app, "commit-total", thread) > 0)
    assert _value_of_thread(app, "process-total", thread) == 2
    assert _value_of_thread(app, "thread-state", thread) == "RUNNING"
    assert _value(app, "state") == "RUNNING"
    assert _value(app, "application-id") == "app"
    assert _value(app, "topology-description") == app.topology.describe()
    of_client = [name for name in app.metrics() if name.group == "stream-metrics"]
    assert {dict(name.tags)["client-id"] for name in of_client} == {"me"}
    (state,) = [dict(name.tags) for name in of_client if name.name == "client-state"]
    assert (state.keys(), state["application-id"]) == ({"client-id", "application-id", "process-id"}, "app")
    assert _value(app, "client-state") == list(ClientState).index(ClientState.RUNNING)


def _value_of_thread(app: KafkaStreams, name: str, thread: str) -> Any:
    (found,) = [
        metric.metric_value()
        for key, metric in app.metrics().items()
        if (key.group, key.name, dict(key.tags)) == ("stream-thread-metrics", name, {"thread-id": thread})
    ]
    return found
