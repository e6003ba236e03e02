"""The status of an application, merged from that of its workers."""

from __future__ import annotations

from dataclasses import fields, replace

from hypothesis import given
from hypothesis import strategies as st

from streams.observing.answers import all_statuses, status_json, worker_status
from streams.observing.application import MissingWorker, Totals, address_of, application_status, totals_of
from streams.observing.diagnosis import why_application_is_silent, why_no_output
from streams.observing.status import DropStatus, PartitionStatus, StoreStatus, TaskStatus, WorkerStatus

COUNTS = st.integers(0, 1 << 40)


@st.composite
def drops(draw: st.DrawFn) -> DropStatus:
    return DropStatus(
        node=draw(st.sampled_from(["map", "join"])),
        call=None,
        made_at=None,
        reason=draw(st.sampled_from(["late", "failed", "no-partner"])),
        count=draw(COUNTS),
        late_by_ms=draw(st.none() | COUNTS),
    )


@st.composite
def tasks(draw: st.DrawFn) -> TaskStatus:
    partition = PartitionStatus(
        topic="in",
        partition=0,
        position=None,
        committed=None,
        end=None,
        lag=draw(st.none() | COUNTS),
        buffered=0,
        caught_up=False,
        stream_time_ms=None,
    )
    left = draw(COUNTS)
    store = StoreStatus(name="s", kind="key-value", engine="memory", restoring=left > 0, restore_remaining=left)
    return TaskStatus(
        id=f"0_{draw(st.integers(0, 99))}",
        thread="t",
        state=draw(st.sampled_from(["RUNNING", "RESTORING", "ASSIGNED"])),
        processed=draw(COUNTS),
        rate=draw(st.integers(0, 1 << 20)) / 4,
        stream_time_ms=None,
        dropped=draw(COUNTS),
        partitions=(partition,),
        stores=(store,),
        drops=tuple(draw(st.lists(drops(), max_size=2))),
        dead_letters=draw(COUNTS),
    )


@st.composite
def workers(draw: st.DrawFn, number: int = 0) -> WorkerStatus:
    return WorkerStatus(
        application_id="app",
        client_id=f"app-{number}",
        host="here",
        pid=number,
        version="1",
        at_ms=draw(st.integers(0, 1 << 40)),
        started_at_ms=None,
        state=draw(st.sampled_from(["RUNNING", "REBALANCING"])),
        ready=draw(st.booleans()),
        paused=draw(st.booleans()),
        failure=draw(st.none() | st.just("ValueError: broken")),
        endpoint=draw(st.sampled_from([None, f"http://h:1/workers/{number}"])),
        tasks=tuple(draw(st.lists(tasks(), max_size=2))),
        global_task=draw(st.none() | tasks()),
    )


SEVERAL = st.integers(0, 3).flatmap(lambda many: st.tuples(*(workers(number) for number in range(many))))


@given(SEVERAL, st.integers(0, 3))
def test_totals_add_up(several: tuple[WorkerStatus, ...], cut: int) -> None:
    whole = application_status("app", several)
    assert whole.totals == totals_of(several[:cut]).plus(totals_of(several[cut:]))
    assert whole.totals.workers == len(several)
    for field in fields(Totals):
        parts = [getattr(application_status("app", [one]).totals, field.name) for one in several]
        assert getattr(whole.totals, field.name) == sum(parts)


@given(SEVERAL)
def test_drops_add_up_by_node_and_reason(several: tuple[WorkerStatus, ...]) -> None:
    whole = application_status("app", several)
    found = {(one.node, one.reason): one.count for one in whole.drops}
    assert len(found) == len(whole.drops)
    all_drops = [drop for worker in several for task in worker.all_tasks for drop in task.drops]
    expected = {(one.node, one.reason): 0 for one in all_drops}
    for one in all_drops:
        expected[one.node, one.reason] += one.count
    assert found == expected


@given(SEVERAL.flatmap(lambda several: st.tuples(st.just(several), st.permutations(several))))
def test_the_order_of_workers_does_not_matter(given: tuple[tuple[WorkerStatus, ...], list[WorkerStatus]]) -> None:
    several, shuffled = given
    one, other = application_status("app", several), application_status("app", shuffled)
    assert (one.totals, one.workers, one.ready) == (other.totals, other.workers, other.ready)


@given(SEVERAL, st.lists(st.text(min_size=1, max_size=3), max_size=3))
def test_a_missing_worker_is_named_and_the_application_is_not_ready(
    several: tuple[WorkerStatus, ...], names: list[str]
) -> None:
    whole = application_status("app", several, [MissingWorker(worker=name, reason="silent") for name in names])
    assert [one.worker for one in whole.missing] == sorted(set(names))
    assert whole.totals == totals_of(several)
    assert whole.ready == (bool(several) and not names and all(one.ready for one in several))


@given(workers(0), st.integers(1, 9))
def test_a_worker_that_was_asked_twice_counts_once_by_its_latest_status(worker: WorkerStatus, later_ms: int) -> None:
    later = replace(worker, at_ms=worker.at_ms + later_ms, paused=not worker.paused)
    names = [name for name in (worker.client_id, address_of(worker)) if name is not None]
    missing = [MissingWorker(worker=name, reason="it did not respond to the other one") for name in names]
    whole = application_status("app", [later, worker], missing)
    assert (whole.workers, whole.missing) == ((later,), ())


@given(workers(0), st.none() | workers(0))
def test_an_application_of_one_worker_is_silent_for_the_reasons_of_that_worker(
    worker: WorkerStatus, earlier: WorkerStatus | None
) -> None:
    before = None if earlier is None else application_status("app", [earlier])
    assert why_application_is_silent(application_status("app", [worker]), before) == why_no_output(worker, earlier)


@given(SEVERAL, st.lists(st.builds(MissingWorker, worker=st.text(min_size=1), reason=st.text()), max_size=3))
def test_a_status_is_read_as_it_was_sent(several: tuple[WorkerStatus, ...], missing: list[MissingWorker]) -> None:
    whole = application_status("app", several, missing)
    sent = status_json(whole, reasons=why_application_is_silent(whole)).encode("utf-8", "backslashreplace")
    assert tuple(all_statuses(sent)) == (*whole.workers, *whole.missing)
    for worker in several:
        answer = status_json(worker, reasons=[]).encode()
        assert worker_status(answer) == worker
        assert list(all_statuses(answer)) == [worker]


def a_task(number: int, processed: int, *found: DropStatus, state: str = "RUNNING") -> TaskStatus:
    return TaskStatus(
        id=f"0_{number}",
        thread="t",
        state=state,
        processed=processed,
        rate=0.0,
        stream_time_ms=None,
        dropped=sum(one.count for one in found),
        drops=found,
    )


def a_worker(number: int, *found: TaskStatus, paused: bool = False) -> WorkerStatus:
    return WorkerStatus(
        application_id="app",
        client_id=f"app-{number}",
        host="here",
        pid=number,
        version="1",
        at_ms=1000,
        started_at_ms=0,
        state="RUNNING",
        ready=True,
        paused=paused,
        failure=None,
        tasks=found,
    )


def test_records_that_were_dropped_on_other_workers_explain_what_is_missing() -> None:
    late = DropStatus(node="map", call=None, made_at=None, reason="failed", count=18, text="it failed", remedy="mend")
    whole = application_status("app", [a_worker(1, a_task(0, 2)), a_worker(2, a_task(1, 18, late))])
    [reason, _] = why_application_is_silent(whole)
    assert reason.text == "18 of 20 records have no result at map: it failed"


def test_a_reason_of_some_workers_names_them_and_one_of_all_does_not() -> None:
    running, paused = a_worker(1, a_task(0, 5)), a_worker(2, a_task(1, 5), paused=True)
    texts = [one.text for one in why_application_is_silent(application_status("app", [running, paused]))]
    assert texts[0] == "the application is paused (worker here:2)"
    both = application_status("app", [replace(running, paused=True), paused])
    assert [one.text for one in why_application_is_silent(both)] == ["the application is paused"]


def test_a_worker_without_tasks_is_no_reason_while_others_have_them() -> None:
    idle, working = a_worker(1), a_worker(2, a_task(0, 5))
    causes = [one.cause for one in why_application_is_silent(application_status("app", [idle, working]))]
    assert "no-task" not in causes
    assert [one.cause for one in why_application_is_silent(application_status("app", [idle]))] == ["no-task"]
