"""Records that operators hold back to handle them together: when they are handled, and as which records they go on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsl import BatchProcessor, Consumed, KStream, KTable, Materialized, StreamsBuilder, TimeWindows
from processor_api.errors import ProcessingError, TopologyError
from processor_api.handlers import ErrorHandlerContext, Response
from processor_api.processor import Processor
from processor_api.punctuation import PunctuationType
from processor_api.record import Record
from processor_api.serde import Serdes
from processor_api.stores.factory import Stores
from processor_api.topology.topology import Topology
from runtime_support.running_app import Cluster
from runtime_support.task_kit import TaskKit
from streams import log_and_continue_processing
from streams.testing import TopologyTestDriver

Sizes = list[int]
SECOND = 1000


def noting(sizes: Sizes) -> Callable[[list[str]], list[str]]:
    """A function of batches that notes their sizes."""

    def upper(values: list[str]) -> list[str]:
        sizes.append(len(values))
        return [value.upper() for value in values]

    return upper


def mapped(sizes: Sizes, **options: Any) -> Topology:
    builder = StreamsBuilder()
    builder.stream("in").map_values_batch(noting(sizes), **options).to("out")
    return builder.build()


def add(kit: TaskKit, *values: str, topic: str = "in") -> None:
    for value in values:
        kit.add(topic, b"k", value.encode(), timestamp=len(kit.sent(topic)))


def out(kit: TaskKit, topic: str = "out") -> list[str]:
    kit.collector.flush()
    return [(value or b"").decode() for _, value, _ in kit.sent(topic)]


# ---------------------------------------------------------------------- when


def test_records_that_are_processed_in_one_round_are_a_batch(tmp_path: Path) -> None:
    sizes: Sizes = []
    with TaskKit(mapped(sizes), tmp_path) as kit:
        add(kit, "a", "b", "c")
        kit.task.process(2)
        assert (sizes, out(kit)) == ([2], ["A", "B"])
        kit.task.process(10)
        assert (sizes, out(kit)) == ([2, 1], ["A", "B", "C"])
        kit.task.process(10)
        assert sizes == [2, 1], "no call for no records"


def test_a_batch_has_no_more_records_than_it_may(tmp_path: Path) -> None:
    sizes: Sizes = []
    with TaskKit(mapped(sizes, max_records=2), tmp_path) as kit:
        add(kit, *"abcde")
        kit.task.process(10)
        assert (sizes, out(kit)) == ([2, 2, 1], list("ABCDE"))


def test_records_wait_for_more_until_their_time_is_over(tmp_path: Path) -> None:
    sizes: Sizes = []
    with TaskKit(mapped(sizes, max_wait=timedelta(seconds=1)), tmp_path) as kit:
        add(kit, "a")
        kit.task.process(10)
        kit.clock.advance(400)
        add(kit, "b")
        kit.task.process(10)
        assert (sizes, kit.task.next_wall_clock_ms, kit.task.wall_clock_due()) == ([], SECOND, False)
        kit.clock.advance(600)
        assert kit.task.wall_clock_due()
        kit.task.punctuate_wall_clock()
        assert (sizes, out(kit)) == ([2], ["A", "B"])
        assert not kit.task.wall_clock_due()


def test_a_commit_does_not_leave_records_behind(tmp_path: Path) -> None:
    sizes: Sizes = []
    with TaskKit(mapped(sizes, max_wait=SECOND), tmp_path) as kit:
        add(kit, "a", "b")
        kit.task.process(10)
        assert sizes == []
        kit.commit()
        assert (sizes, out(kit)) == ([2], ["A", "B"])
        assert not kit.task.wall_clock_due()


def test_a_task_that_goes_back_forgets_what_it_held(tmp_path: Path) -> None:
    sizes: Sizes = []
    with TaskKit(mapped(sizes, max_wait=SECOND), tmp_path) as kit:
        add(kit, "a", "b")
        kit.task.process(10)
        kit.task.roll_back()
        kit.task.start(kit.collector, {})
        add(kit, "c")
        kit.task.process(10)
        kit.commit()
        assert (sizes, out(kit)) == ([1], ["C"])


class Ticking(Processor[str, str, str, str]):
    """Passes records on, and says at each punctuation how many there were."""

    kind = PunctuationType.STREAM_TIME

    def init(self, context: Any) -> None:
        super().init(context)
        self.seen = 0
        context.schedule(10, self.kind, self.tick)

    def tick(self, now: int) -> None:
        self.context.forward(Record("k", f"{self.seen} at {now}", now))

    def process(self, record: Record[str, str]) -> None:
        self.seen += 1


class TickingByClock(Ticking):
    kind = PunctuationType.WALL_CLOCK_TIME


def test_a_punctuation_comes_after_the_records_before_it(tmp_path: Path) -> None:
    for ticking in (Ticking, TickingByClock):
        builder = StreamsBuilder()
        builder.stream("in").map_values_batch(list, max_wait=SECOND).process(ticking).to("out")
        with TaskKit(builder.build(), tmp_path / ticking.__name__) as kit:
            for timestamp in (0, 4, 9, 12, 14):
                kit.pipe("in", b"k", b"v", timestamp)
            kit.clock.advance(10)
            kit.task.punctuate_wall_clock()
            assert out(kit) == (["1 at 0", "4 at 12"] if ticking is Ticking else ["5 at 10"])


def test_what_a_punctuation_forwards_is_a_batch(tmp_path: Path) -> None:
    sizes: Sizes = []
    builder = StreamsBuilder()
    builder.stream("in").process(TickingByClock).map_values_batch(noting(sizes)).to("out")
    with TaskKit(builder.build(), tmp_path) as kit:
        kit.clock.advance(10)
        kit.task.punctuate_wall_clock()
        assert (sizes, out(kit)) == ([1], ["0 AT 10"])


def test_an_application_sends_a_batch_on_when_its_time_is_over(tmp_path: Path) -> None:
    """Long before the next commit."""
    sizes: Sizes = []
    with Cluster(tmp_path) as cluster:
        cluster.start(mapped(sizes, max_wait=50), commit_interval_ms=600_000)
        cluster.send("a")
        cluster.until_out("A")
        assert cluster.committed("in") in (None, 0)


def test_results_of_caches_are_held_too_and_go_out_with_the_commit(tmp_path: Path) -> None:
    """Under at-least-once the record that was last put gives a result its place, and each result has its own."""
    sizes: Sizes = []
    builder = StreamsBuilder()
    latest: KStream[str, str] = builder.table("in", materialized="table").to_stream()
    latest.map_values_batch(noting(sizes), max_wait=SECOND).process(Placed).to("out")
    with TaskKit(builder.build(), tmp_path, {"errors.dead.letter.queue.topic.name": "dead"}) as kit:
        for key, value in ((b"a", b"x"), (b"b", b"y"), (b"a", b"z")):
            kit.pipe("in", key, value)
        assert sizes == []
        kit.commit()
        assert (sizes, out(kit)) == ([2], ["Y@1", "Z@2"])


class Placed(Processor[str, str, str, str]):
    """Adds the offset of the source record to the value."""

    def process(self, record: Record[str, str]) -> None:
        found = self.context.record_metadata
        self.context.forward(record.with_value(f"{record.value}@{None if found is None else found.offset}"))


def test_each_result_is_that_of_its_own_record(tmp_path: Path) -> None:
    """Timestamp, headers, and the topic and offset that a processor below sees."""
    builder = StreamsBuilder()
    builder.stream(["in", "other"]).map_values_batch(lambda values: [v + "!" for v in values]).process(Placed).to("out")
    with TaskKit(builder.build(), tmp_path) as kit:
        kit.add("in", b"a", b"x", 5, [("h", b"1")])
        kit.add("in", b"b", b"y", 3, [("h", b"2")])
        kit.add("other", b"c", b"z", 4)
        kit.task.process(10)
        kit.collector.flush()
        found = [(r.value(), r.timestamp()[1], r.headers()) for r in kit.broker.records("out", read_committed=False)]
        assert found == [(b"z!@0", 4, None), (b"x!@0", 5, [("h", b"1")]), (b"y!@1", 3, [("h", b"2")])]


# ---------------------------------------------------------------------- errors


def numbers(values: Sequence[str]) -> list[int]:
    return [int(value) for value in values]


def number_or_error(values: Sequence[str]) -> list[int | Exception]:
    return [int(value) if value.isdigit() else ValueError(f"no number: {value}") for value in values]


def failing(function: Callable[[list[str]], Any], **options: Any) -> Topology:
    builder = StreamsBuilder()
    builder.stream("in").map_values_batch(function, **options).map_values(str).to("out")
    return builder.build()


@pytest.mark.parametrize("function", [numbers, number_or_error], ids=["the call raises", "errors are returned"])
def test_only_the_record_at_fault_becomes_a_dead_letter(
    tmp_path: Path, function: Callable[[Sequence[str]], Any]
) -> None:
    config = {
        "processing.exception.handler": log_and_continue_processing,
        "errors.dead.letter.queue.topic.name": "dead",
    }
    with TaskKit(failing(function), tmp_path, config) as kit:
        add(kit, "1", "two", "3", "", "5")
        kit.task.process(10)
        assert out(kit) == ["1", "3", "5"]
        assert out(kit, "dead") == ["two", ""]
        headers = [dict(letter.headers() or ()) for letter in kit.broker.records("dead", read_committed=False)]
        assert [found["__streams.errors.offset"] for found in headers] == [b"1", b"3"]
        assert kit.dropped == 2


def test_an_error_names_the_record_and_ends_the_task(tmp_path: Path) -> None:
    with TaskKit(failing(numbers), tmp_path) as kit:
        add(kit, "1", "two", "3")
        with pytest.raises(ProcessingError, match="invalid literal") as caught:
            kit.task.process(10)
        assert (caught.value.topic, caught.value.offset, caught.value.node) == (
            "in",
            1,
            "KSTREAM-MAPVALUESBATCH-0000000001",
        )


def test_a_wrong_number_of_results_is_an_error_of_every_record(tmp_path: Path) -> None:
    """The call is not made again: a function that leaves values out may return one for one."""
    sizes: Sizes = []

    def without_doubles(values: list[str]) -> list[str]:
        sizes.append(len(values))
        return sorted(set(values))

    config = {"processing.exception.handler": log_and_continue_processing}
    with TaskKit(failing(without_doubles), tmp_path, config) as kit:
        add(kit, "1", "1", "2")
        kit.task.process(10)
        assert (sizes, out(kit), kit.dropped) == ([3], [], 3)
    with TaskKit(failing(without_doubles), tmp_path / "failing") as kit:
        add(kit, "1", "1", "2")
        with pytest.raises(
            ProcessingError,
            match=r"without_doubles at .* must return one result for each of the 3 records of a batch, got 2",
        ):
            kit.task.process(10)


class Split(BatchProcessor[str, str, str, str]):
    """A record for each word; ``bad`` is an error, ``all`` one of the whole batch, and ``none`` no record."""

    def process_batch(self, records: list[Record[str, str]]) -> list[Any]:
        if any(record.value == "all" for record in records):
            raise OSError("no model")
        return [self.outcome(record) for record in records]

    def outcome(self, record: Record[str, str]) -> Any:
        if record.value == "bad":
            return ValueError("bad")
        if record.value == "strange":
            return ["a text"]
        return [record.with_value(word).with_timestamp(100) for word in record.value.split() if word != "none"]


def test_a_batch_processor_forwards_any_number_of_records(tmp_path: Path) -> None:
    failed: list[tuple[int, str, str]] = []

    def handler(context: ErrorHandlerContext, record: Any, error: Exception) -> Response:
        failed.append((context.offset, record.value, str(error)))
        return Response.resume()

    builder = StreamsBuilder()
    builder.stream("in").process_batch(Split).process(Placed).to("out")
    with TaskKit(builder.build(), tmp_path, {"processing.exception.handler": handler}) as kit:
        add(kit, "a b", "bad", "none", "strange", "c")
        kit.task.process(10)
        assert out(kit) == ["a@0", "b@0", "c@4"]
        assert [time for _, _, time in kit.sent("out")] == [100, 100, 100]
        assert failed[0] == (1, "bad", "bad")
        assert failed[1][:2] == (3, "strange")
        assert "a list of Records or an exception for each record, got ['a text']" in failed[1][2]
        failed.clear()
        add(kit, "d", "all")
        kit.task.process(10)
        assert failed == [(5, "d", "no model"), (6, "all", "no model")]


class Known(BatchProcessor[str, str, str, str]):
    """Marks values that were seen before, by a store; counts its closes."""

    closed = 0

    def init(self, context: Any) -> None:
        super().init(context)
        self.store = context.get_state_store("seen")

    def process_batch(self, records: list[Record[str, str]]) -> list[list[Record[str, str]]]:
        found = []
        for record in records:
            known = self.store.put_if_absent(record.value, "") is not None
            found.append([record.with_value(f"{record.value}{'+' if known else ''}")])
        return found

    def close(self) -> None:
        type(self).closed += 1


def test_a_batch_processor_has_stores_and_is_closed(tmp_path: Path) -> None:
    builder = StreamsBuilder()
    seen = Stores.key_value_store_builder(Stores.persistent_key_value_store("seen"), Serdes.STRING, Serdes.STRING)
    builder.add_state_store(seen)
    builder.stream("in").process_batch(Known, "seen").to("out")
    with TaskKit(builder.build(), tmp_path) as kit:
        add(kit, "a", "b", "a")
        kit.task.process(10)
        kit.commit()
        assert out(kit) == ["a", "b", "a+"]
    assert Known.closed == 1


class Forwarding(BatchProcessor[str, str, str, str]):
    def process_batch(self, records: list[Record[str, str]]) -> list[list[Record[str, str]]]:
        self.context.forward(records[0])  # type: ignore[attr-defined]
        return [[]]


def test_a_batch_processor_that_forwards_by_its_context_is_told(tmp_path: Path) -> None:
    builder = StreamsBuilder()
    builder.stream("in").process_batch(Forwarding).to("out")
    with TaskKit(builder.build(), tmp_path) as kit:
        add(kit, "a")
        with pytest.raises(ProcessingError, match="return the records from process_batch"):
            kit.task.process(1)


def test_a_supplier_of_something_else_is_named(tmp_path: Path) -> None:
    builder = StreamsBuilder()
    builder.stream("in").process_batch(object, name="scores")  # type: ignore[arg-type]
    with pytest.raises(ProcessingError, match=r"supplier of node 'scores' made <object.*which is not a BatchProcessor"):
        TaskKit(builder.build(), tmp_path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_records": 0}, "max_records of node 'b' must be at least 1, got 0"),
        ({"max_records": 1.5}, "max_records of node 'b' must be at least 1, got 1.5"),
        ({"max_records": True}, "max_records of node 'b' must be at least 1, got True"),
        ({"max_wait": 0}, "max_wait of node 'b' must be at least 1 ms, got 0"),
    ],
)
def test_limits_that_make_no_sense_are_refused(options: dict[str, Any], message: str) -> None:
    stream: KStream[str, str] = StreamsBuilder().stream("in")
    with pytest.raises(TopologyError, match=message):
        stream.map_values_batch(list, name="b", **options)
    with pytest.raises(TopologyError, match=message):
        stream.process_batch(Split, name="b", **options)


class Awaited(BatchProcessor[str, str, str, str]):
    async def process_batch(self, records: list[Record[str, str]]) -> Any:  # type: ignore[override]
        return [[] for _ in records]


def test_a_batch_processor_that_is_awaited_is_refused() -> None:
    stream: KStream[str, str] = StreamsBuilder().stream("in")
    with pytest.raises(TopologyError, match=r"'Awaited\.process_batch' is made by async def"):
        stream.process_batch(Awaited, name="b")


# ---------------------------------------------------------------------- with others


def test_a_join_below_meets_the_table_as_it_is_when_the_batch_is_handled(tmp_path: Path) -> None:
    """A join above meets it as it was when the record came."""
    builder = StreamsBuilder()
    stream: KStream[str, str] = builder.stream("in")
    table: KTable[str, str] = builder.table("rows")
    joined = stream.map_values_batch(list).left_join(table, lambda value, row: f"{value} {row}")
    joined.to("below")
    above = stream.left_join(table, lambda value, row: f"{value} {row}")
    above.map_values_batch(list).to("above")
    with TaskKit(builder.build(), tmp_path) as kit:
        for topic, value, timestamp in (("in", b"a", 0), ("rows", b"x", 1), ("in", b"b", 2), ("rows", b"y", 3)):
            kit.add(topic, b"k", value, timestamp)
        kit.task.process(10)
        assert (out(kit, "below"), out(kit, "above")) == (["a y", "b y"], ["a None", "b x"])


def test_windows_below_see_the_times_of_the_records(tmp_path: Path) -> None:
    """However late the batch is handled: no record of it is too late that came in time."""
    builder = StreamsBuilder()
    stream: KStream[str, str] = builder.stream("in")
    windows = TimeWindows.of_size_with_no_grace(10)
    counts = stream.map_values_batch(list).group_by_key().windowed_by(windows).count()
    counts.to_stream(lambda windowed, count: f"{windowed.window.start}").map_values(str).to("out")
    with TaskKit(builder.build(), tmp_path) as kit:
        for timestamp in (1, 5, 12, 25, 29, 40):
            kit.add("in", b"k", b"v", timestamp)
        kit.task.process(10)
        kit.commit()
        assert [(key, value) for key, value, _ in kit.sent("out")] == [
            (b"0", b"2"),
            (b"10", b"1"),
            (b"20", b"2"),
            (b"40", b"1"),
        ]
        assert kit.dropped == 0


def test_a_wrapper_of_processors_sees_the_results(tmp_path: Path) -> None:
    seen: list[str] = []

    class Seeing:
        """A context that notes what is forwarded."""

        def __init__(self, inner: Any) -> None:
            self._inner = inner

        def __getattr__(self, name: str) -> Any:
            return getattr(self._inner, name)

        def forward(self, record: Any, child: str | None = None) -> None:
            seen.append(record.value)
            self._inner.forward(record, child)

    def wrapped(name: str, supplier: Callable[[], Processor[Any, Any, Any, Any]]) -> Any:
        def make() -> Processor[Any, Any, Any, Any]:
            processor = supplier()
            inner_init = processor.init
            processor.init = lambda context: inner_init(Seeing(context))  # type: ignore[method-assign, assignment, arg-type, return-value]
            return processor

        return make

    builder = StreamsBuilder()
    builder.stream("in").map_values_batch(noting([])).to("out")
    config = {"processor.wrapper.class": wrapped}
    with TaskKit(builder.build(config), tmp_path) as kit:
        add(kit, "a", "b")
        kit.task.process(10)
        assert (seen, out(kit)) == (["A", "B"], ["A", "B"])


# ---------------------------------------------------------------------- against a model

steps = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.sampled_from("abc"), st.integers(0, 30)),
        st.tuples(st.just("process"), st.integers(1, 6), st.just(0)),
        st.tuples(st.just("commit"), st.just(0), st.just(0)),
        st.tuples(st.just("clock"), st.integers(1, 40), st.just(0)),
    ),
    max_size=40,
)


@settings(max_examples=60, deadline=None)
@given(
    steps=steps, first=st.integers(1, 4), second=st.integers(1, 4), waits=st.tuples(*[st.sampled_from([None, 25])] * 2)
)
def test_two_batches_and_a_count_give_what_single_records_give(
    tmp_path_factory: pytest.TempPathFactory,
    steps: list[tuple[str, Any, int]],
    first: int,
    second: int,
    waits: tuple[int | None, int | None],
) -> None:
    """In whatever way records come together: each is there once, in order, and nothing waits behind a commit."""
    directory = tmp_path_factory.mktemp("model")
    sizes: Sizes = []
    builder = StreamsBuilder()
    stream: KStream[str, str] = builder.stream("in", Consumed(key_serde=Serdes.STRING, value_serde=Serdes.STRING))
    one = stream.map_values_batch(noting(sizes), max_records=first, max_wait=waits[0])
    one.to("first")
    uncached: Materialized[str, int] = Materialized(name="counts", caching=False)
    counts = one.group_by_key().count(materialized=uncached).to_stream().map_values(str)
    counts.map_values_batch(noting(sizes), max_records=second, max_wait=waits[1]).to("out")
    count, added, want_first, want = dict.fromkeys("abc", 0), 0, [], []
    with TaskKit(builder.build({"default.dsl.store": "in_memory"}), directory) as kit:
        pending: list[tuple[str, str]] = []
        for step, what, extra in steps:
            if step == "add":
                added += 1
                kit.add("in", what.encode(), f"{what}{added}".encode(), timestamp=extra)
                pending.append((what, f"{what}{added}"))
            elif step == "process":
                kit.task.process(what)
                for key, value in pending[:what]:
                    count[key] += 1
                    want_first.append(value.upper())
                    want.append(f"{key}{count[key]}")
                del pending[:what]
            elif step == "clock":
                kit.clock.advance(what)
                kit.task.punctuate_wall_clock()
            else:
                kit.commit()
                assert out(kit, "first") == want_first
                assert [
                    f"{(key or b'').decode()}{(value or b'').decode()}" for key, value, _ in kit.sent("out")
                ] == want
            done = out(kit, "first")
            assert done == want_first[: len(done)]
            assert len(want_first) - len(done) < first
            if waits == (None, None):
                assert done == want_first
        assert max(sizes, default=0) <= max(first, second)


# ---------------------------------------------------------------------- followed records


def test_a_followed_record_is_followed_through_its_batch() -> None:
    builder = StreamsBuilder()
    builder.stream("in").map_values_batch(lambda values: values, name="batch").to("out")
    config = {"default.key.serde": Serdes.STRING, "default.value.serde": Serdes.STRING}
    with TopologyTestDriver(builder.build(), config) as driver:
        trace = driver.trace(keys=["a"])
        source = driver.create_input_topic("in")
        source.pipe_input("a", "x")
        source.pipe_input("b", "y")
        found = [(step.step, step.node) for step in trace]
        assert [name for name, _ in found] == ["read", "process", "hold", "send", "commit"]
        assert {step.key for step in trace if step.key is not None} == {"a"}
