"""Odd values for each parameter of each public constructor and method: taken, or refused by an error that names it.

The calls are found in what the packages publish, so a new one has to be tried or named here with the reason why not.
"""

from __future__ import annotations

import os
import re
import traceback
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from google.protobuf.struct_pb2 import Struct

from processor_api.errors import StreamsError
from processor_api.texts import MOST_MESSAGE
from public_calls import Call, calls
from streams import (
    BatchProcessor,
    BufferConfig,
    CustomStateStore,
    EmitStrategy,
    FixedKeyProcessor,
    FixedKeyRecord,
    Headers,
    IsolationLevel,
    JoinWindows,
    KeyQuery,
    Position,
    PositionBound,
    Processor,
    PunctuationType,
    QueryableStoreTypes,
    Record,
    RepartitionTopic,
    ResultOrder,
    SchemaRegistry,
    Serde,
    Serdes,
    SessionWindows,
    SlidingWindows,
    StateQueryRequest,
    StoreQueryParameters,
    Stores,
    StreamsBuilder,
    Suppressed,
    TaskId,
    TimeWindows,
    Topology,
    TopologyTestDriver,
    UnlimitedWindows,
    ValueAndTimestamp,
    ValueTransformerWithKey,
    Window,
    Windowed,
)
from streams.testing import MockProcessorContext

S = Serdes.STRING


class Liar:
    """Fails whatever it is asked, but for its text."""

    def _fail(self, *_: Any) -> Any:
        raise RuntimeError("a lie")

    __index__ = __int__ = __float__ = __bool__ = __len__ = __fspath__ = __eq__ = __hash__ = _fail  # type: ignore[assignment]
    __str__ = __lt__ = __gt__ = __le__ = __ge__ = __iter__ = __getitem__ = __contains__ = __call__ = _fail

    def __repr__(self) -> str:
        return "Liar()"


class Silent(Liar):
    """Has no text either."""

    def __repr__(self) -> str:
        raise RuntimeError("a lie")

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("a lie")


class Endless:
    """Has a text without an end in sight."""

    def __repr__(self) -> str:
        return "x" * 5_000_000


class Text(str):
    """A text of a user's own type, which says that it is another."""

    def __str__(self) -> str:
        return "other"

    def __repr__(self) -> str:
        raise RuntimeError("a lie")

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        raise RuntimeError("a lie")


class Number(int):
    """A number of a user's own type that cannot be compared."""

    def _fail(self, *_: Any) -> Any:
        raise RuntimeError("a lie")

    __lt__ = __gt__ = __le__ = __ge__ = __eq__ = __hash__ = __repr__ = __str__ = _fail  # type: ignore[assignment]


def fails(*_: Any, **__: Any) -> Any:
    raise RuntimeError("a lie")


ODD: dict[str, Any] = {
    "none": None, "empty": "", "blank": " ", "slash": "a/b", "dots": "..", "long": "x" * 250, "surrogate": "a\ud800",
    "nul": "a\0", "lines": "a\nb", "bytes": b"a", "not utf-8": os.fsdecode(b"a\xff"), "path": Path("a"),
    "text": Text("a"), "numpy text": np.str_("a"), "number as text": "5",
    "zero": 0, "minus": -1, "truth": True, "float": 1.0, "fraction": 1.5, "nan": float("nan"), "infinite": float("inf"),
    "decimal": Decimal(5), "numpy": np.int64(5), "numpy float": np.float64(5), "number": Number(5),
    "largest": (1 << 63) - 1, "too large": 1 << 63, "far too large": 1 << 70, "huge": 10**400, "smallest": -(1 << 63),
    "span": timedelta(days=-1), "long span": timedelta.max, "short span": timedelta(microseconds=1),
    "naive": datetime(2024, 1, 1),  # noqa: DTZ001 - no zone is what is odd
    "list": ["a"], "numbers": [5], "nested": [[]], "tuple": (), "dict": {}, "odd dict": {5: Liar()}, "set": {"a"},
    "class": int, "function": len, "fails": fails, "object": object(), "liar": Liar(), "silent": Silent(),
    "silent class": Silent, "endless": Endless(), "list of liars": [Liar()],
}  # fmt: skip
OURS = (StreamsError, TypeError, ValueError)


class Ignore(Processor[Any, Any, Any, Any]):
    def process(self, record: Record[Any, Any]) -> None: ...


class IgnoreFixed(FixedKeyProcessor[Any, Any, Any]):
    def process(self, record: FixedKeyRecord[Any, Any]) -> None: ...


class IgnoreBatch(BatchProcessor[Any, Any, Any, Any]):
    def process_batch(self, records: Any) -> Any: ...


class Transform(ValueTransformerWithKey[Any, Any, Any]):
    def transform(self, key: Any, value: Any) -> Any: ...


class Custom(CustomStateStore):
    name = "n"
    persistent = buffers_writes = manages_offsets = False
    is_open = True
    approximate_num_uncommitted_bytes = 0

    def init(self, context: Any) -> None: ...

    def commit(self, offsets: Any) -> None: ...

    def committed_offset(self, partition: Any) -> int | None: ...

    def close(self) -> None: ...


LAST: list[Any] = []
"""The builder that was made last."""


def builder() -> Any:
    LAST[:] = [StreamsBuilder(key_serde="string", value_serde="string")]
    return LAST[0]


def stream() -> Any:
    return builder().stream("in")


def table() -> Any:
    return builder().table("rows")


def topology() -> Any:
    made = Topology().add_source("s", "in", key_serde=S, value_serde=S).add_processor("p", Ignore, "s")
    return made.add_state_store(store(), "p")


def store(name: str = "kept") -> Any:
    return Stores.key_value_store(name, "string", "string", in_memory=True)


TENS = TimeWindows.of_size_with_no_grace(10)
SESSIONS = SessionWindows.of_inactivity_gap_with_no_grace(10)


def two(key: Any = None, value: Any = None) -> Any:
    return value


def three(key: Any, value: Any, total: Any) -> Any:
    return value


MADE: dict[str, Callable[[], Any]] = {
    "SchemaRegistry": lambda: SchemaRegistry("mock://odd"),
    "StreamsBuilder": builder,
    "KStream": stream,
    "KTable": table,
    "KGroupedStream": lambda: stream().group_by_key(),
    "KGroupedTable": lambda: table().group_by(lambda key, value: (key, value)),
    "TimeWindowedKStream": lambda: stream().group_by_key().windowed_by(TENS),
    "SessionWindowedKStream": lambda: stream().group_by_key().windowed_by(SESSIONS),
    "CogroupedKStream": lambda: stream().group_by_key().cogroup(three),
    "TimeWindowedCogroupedKStream": lambda: stream().group_by_key().cogroup(three).windowed_by(TENS),
    "SessionWindowedCogroupedKStream": lambda: stream().group_by_key().cogroup(three).windowed_by(SESSIONS),
    "BranchedKStream": lambda: stream().split(),
    "Topology": topology,
    "TimeWindows": lambda: TENS,
    "SessionWindows": lambda: SESSIONS,
    "SlidingWindows": lambda: SlidingWindows.of_time_difference_with_no_grace(10),
    "JoinWindows": lambda: JoinWindows.of_time_difference_with_no_grace(10),
    "UnlimitedWindows": UnlimitedWindows,
    "Suppressed": lambda: Suppressed.until_time_limit(5, BufferConfig.unbounded()),
    "BufferConfig": BufferConfig.unbounded,
    "EagerBufferConfig": lambda: BufferConfig.max_records(5),
    "StrictBufferConfig": BufferConfig.unbounded,
    "StoreBuilder": lambda: Stores.key_value_store("kept", "string", "string"),
    "StoreSupplier": lambda: Stores.persistent_key_value_store("kept"),
    "Record": lambda: Record("k", "v", 0),
    "FixedKeyRecord": lambda: FixedKeyRecord("k", "v", 0),
    "Headers": lambda: Headers([("a", b"b")]),
    "Position": Position,
    "PositionBound": lambda: PositionBound(Position({"t": {0: 5}})),
    "Serde": lambda: Serde(S.serialize, S.deserialize),
    "StateQueryRequest": lambda: StateQueryRequest(store_name="kept", query=KeyQuery("k")),
    "StoreQueryParameters": lambda: StoreQueryParameters("kept", QueryableStoreTypes.key_value_store()),
    "MockProcessorContext": lambda: MockProcessorContext(stores=[store()]),
}
"""What the methods of a class are called on."""

WRITTEN = Windowed("k", Window(0, 5))
VALID: dict[str, Any] = {
    "name": "n", "store_name": "kept", "topic": "out", "topics": ["out2"], "processor": "p", "source_name": "gs",
    "processor_name": "gp", "store": "kept", "node": "p", "names": ["a"], "engine": "memory", "label": "l",
    "key_serde": "string", "value_serde": "string", "other_value_serde": "string", "prefix_serde": None,
    "plain": "x", "given": "x", "text": "x", "migrate": str,
    "inner": "string", "default": S, "is_key": True,
    "predicate": two, "mapper": two, "selector": two, "action": print, "function": None, "consumer": None,
    "joiner": two, "key_selector": None, "id_selector": two, "key_mapper": two, "initializer": str,
    "aggregator": three, "reducer": two, "adder": two, "subtractor": two, "session_merger": three,
    "extractor": lambda value: value, "timestamp_extractor": None, "partitioner": None, "other_partitioner": None,
    "serialize": S.serialize, "deserialize": S.deserialize, "exact": None, "write_exact": None,
    "supplier": Ignore, "key": "k", "value": "v", "timestamp": 5, "headers": None, "offset": 5, "partition": 0,
    "consumed": None, "produced": None, "grouped": None, "joined": None, "repartitioned": None, "printed": None,
    "materialized": None, "branched": None, "windows": TENS, "strategy": EmitStrategy.ON_WINDOW_UPDATE,
    "offset_reset": None, "suppressed": None, "retention": 100, "history_retention": 100, "segment_interval": None,
    "window_size": 10, "size": 10, "grace": 5, "gap": 10, "difference": 10, "advance": 5, "within": 10, "ttl": None,
    "duration": 10, "by": "record_time", "interval": 10, "time_to_wait": 5, "time_to_live": None, "max_wait": None,
    "max_records": 5, "records": 5, "max_entries": 5, "number_of_partitions": None, "partitions": None,
    "record_limit": None, "byte_limit": None, "logging": True, "caching": True, "topic_config": None,
    "store_type": QueryableStoreTypes.key_value_store(), "path": None, "with_timestamps": False,
    "with_headers": False, "in_memory": False,
    "retain_duplicates": False, "time_ordered": False, "logs_headers": False, "is_active": True,
    "config": None, "settings": None, "configs": {}, "builder": None, "store_builder": None,
    "query": KeyQuery("k"), "position": Position(), "bound": PositionBound(), "position_bound": PositionBound(),
    "level": IsolationLevel.READ_COMMITTED, "isolation_level": None, "execution_info_enabled": False,
    "is_require_active": False, "stale_stores_enabled": False, "skip_cache": False, "order": ResultOrder.ANY,
    "lower": None, "upper": None, "as_of": 5, "time_from": 0, "time_to": 9, "from_time": 0, "to_time": 9,
    "offsets": {"t": {0: 5}}, "positions": (), "data": Position().to_bytes(), "start_time": None, "start_ms": 0,
    "start": 5, "end": 10, "kind": PunctuationType.STREAM_TIME, "callback": print, "child": None, "children": None,
    "task_id": TaskId(0, 0), "stores": (), "time": 5, "iterable": (), "initial_wall_clock_time": 0,
    "default_factory": None, "sort_keys": False, "use_orjson": False, "model": None, "exclude_none": False,
    "exclude_unset": False, "buffer": BufferConfig.unbounded(), "emits_early": False, "tags": {}, "description": "",
    "group": "g", "before_ms": 5, "after_ms": 5, "gap_ms": 5, "difference_ms": 5, "size_ms": 5, "grace_ms": 0,
    "advance_ms": 5, "prefix": "k", "entries": [("k", "v")], "from_key": "a", "to_key": "z", "key_from": "a",
    "key_to": "z", "earliest_end": 0, "latest_end": 9, "latest_start": 9, "session_start": 0, "session_end": 5,
    "session_key": WRITTEN, "aggregate": "v", "window_start": 0, "record": Record("k", "v", 0), "sources": ["s"],
    "wait_ms": 5, "this_store_supplier": None, "other_store_supplier": None, "can_be_cached": True,
    "parameters": {}, "can_expire": True, "can_move": True, "reprocess_on_restore": False, "state_dir": None,
    "task": "0_0", "thread": "t", "lag": 5, "applied": 5, "rate": 0.5,
    "dead_letter_queue_records": (), "policy": "earliest", "duration_ms": None,
}  # fmt: skip
"""Values that each parameter of the name takes."""

JOIN = JoinWindows.of_time_difference_with_no_grace(10)


OF_ONE: dict[str, Callable[[Any], Any]] = {
    r"Avro\.schema|JsonSchema\.schema": lambda me: {"type": "string"},
    r"Protobuf\.model": lambda me: Struct,
    r"SchemaRegistry\.url": lambda me: "mock://odd",
    r"SchemaRegistry\.as_default\.serde": lambda me: S,
    r"SchemaRegistry\.of\.settings": lambda me: {"url": "mock://odd"},
    r"K\w+\..*(join|merge).*\.other": lambda me: me,
    r"KStream.*mapped_key\.other": lambda me: LAST[0].global_table("g"),
    r"Position\.merge\.other": lambda me: Position(),
    r"KStream.*join.*\.windows": lambda me: JOIN,
    r"KTable\.\w+with_key.extractor": lambda me: two,
    r"KStream\.\w+_with_key\.joiner": lambda me: three,
    r"KStream.*mapped_key\.joiner": lambda me: lambda key, mapped, value, other: value,
    r"KStream.*mapped_key\.key_selector": lambda me: two,
    r".*batch\.function": lambda me: lambda values: values,
    r".*process_values\.supplier": lambda me: IgnoreFixed,
    r".*process_batch\.supplier": lambda me: IgnoreBatch,
    r".*transform_values\.supplier": lambda me: Transform,
    r"CogroupedKStream\.cogroup\.grouped": lambda me: LAST[0].stream("other").group_by_key(),
    r"KGroupedTable\.aggregate\.(adder|subtractor)": lambda me: three,
    r"KTable\.suppress\.suppressed": lambda me: Suppressed.until_time_limit(5, BufferConfig.unbounded()),
    r"Printed\.to_file\.path": lambda me: "/tmp/n",
    r"\w+\.with_headers\.headers": lambda me: [("a", b"b")],
    r"StateQueryRequest\.with_partitions\.partitions": lambda me: [0],
    r"Stores\.custom\.supplier": lambda me: Custom,
    r"Stores\.list_\w+\.supplier": lambda me: Stores.in_memory_list_store("l"),
    r"Stores\.\w*session_\w+builder\.supplier": lambda me: Stores.in_memory_session_store("s", 100),
    r"Stores\.\w*window_\w+builder\.supplier": lambda me: Stores.in_memory_window_store("w", 100, 10),
    r"(Stores\.\w*key_value_\w+builder|StoreBuilder)\.supplier": lambda me: Stores.in_memory_key_value_store("k"),
    r"\w+\.(add_global_store|add_read_only_state_store)\.(store_)?builder": lambda me: store(
        "g"
    ).with_logging_disabled(),
    r"\w+\.add_state_store\.(builder|store)": lambda me: store("other"),
    r"Topology\.\w+\.parents": lambda me: "s",
    r"Topology\.add_source\.topics": lambda me: "other",
    r"Topology\.connect\w+\.stores": lambda me: "kept",
    r"Topology\.add_repartition_topic\.topic": lambda me: RepartitionTopic(name="r"),
    r"Timestamped\w+\.put.*\.value": lambda me: ValueAndTimestamp("v", 5),
    r"Timestamped\w+\.put_all\.entries": lambda me: [("k", ValueAndTimestamp("v", 5))],
    r"Stores\.versioned_\w+\.supplier": lambda me: Stores.persistent_versioned_key_value_store("v", 10),
    r"MockProcessorContext\.get_state_store\.name": lambda me: "kept",
    r"SessionWindow\w+\..*\.windows": lambda me: SESSIONS,
}
"""Values of one call, where those of its name do not fit, made for the object on which it is called."""


ALSO = {
    r"KStream\.(left_)?join(_with_key)?": ("windows",),
    r"Topology\.add_(processor|sink)": ("parents",),
    r"Topology\.add_source": ("topics",),
    r"Topology\.connect.*": ("stores",),
    r"\w*WindowRange\w*Query": ("time_from", "time_to"),
}
"""Parameters that a call needs though they have a default, or take any number of values."""


def of_one(call: str, parameter: str, me: Any) -> Any:
    name = f"{call}.{parameter}"
    made = next((make for pattern, make in reversed(OF_ONE.items()) if re.fullmatch(pattern, name)), None)
    return VALID[parameter] if made is None else made(me)


DRIVEN = {
    "KeyValueStore": ("kv", "get_key_value_store"),
    "TimestampedKeyValueStore": ("tkv", "get_timestamped_key_value_store"),
    "VersionedKeyValueStore": ("v", "get_versioned_key_value_store"),
    "WindowStore": ("w", "get_window_store"),
    "SessionStore": ("s", "get_session_store"),
    "ListStore": ("l", "get_state_store"),
}
"""The stores on which calls of a protocol are tried, and how the driver gives them."""


CHANGED = {"StreamsBuilder", "BranchedKStream", "Topology", "MockProcessorContext", "Headers"}
"""Classes of which a call changes what the next one may do, so that each has an object of its own."""
IMPLEMENTED = {
    "BatchProcessor",
    "CustomStateStore",
    "DslStoreSuppliers",
    "FixedKeyProcessor",
    "FixedKeyProcessorContext",
    "KeyValueBytesStore",
    "ProcessingContext",
    "Processor",
    "ProcessorContext",
    "ProcessorWrapper",
    "ReadOnlyKeyValueStore",
    "ReadOnlySessionStore",
    "ReadOnlyWindowStore",
    "Sensor",
    "SessionStoreWithHeaders",
    "Stat",
    "StandbyUpdateListener",
    "StateRestoreListener",
    "StateStoreContext",
    "StreamsMetrics",
    "TimestampedKeyValueStoreWithHeaders",
    "TimestampedSessionStore",
    "TimestampedWindowStore",
    "TimestampedWindowStoreWithHeaders",
    "ValueTransformerContext",
    "ValueTransformerWithKey",
    "VersionedBytesStore",
}  # fmt: skip
"""Protocols and classes that users implement, or that the library makes for them."""


def driver() -> Any:
    made = Topology().add_source("s", "in", key_serde=S, value_serde=S).add_processor("p", Ignore, "s")
    stores = [
        Stores.key_value_store("kv", "string", "string", in_memory=True),
        Stores.key_value_store("tkv", "string", "string", in_memory=True, with_timestamps=True),
        Stores.versioned_key_value_store_builder(
            Stores.in_memory_versioned_key_value_store("v", 100), "string", "string"
        ),
        Stores.window_store("w", 100, 10, "string", "string", in_memory=True),
        Stores.session_store("s", 100, "string", "string", in_memory=True),
        Stores.list_store_builder(Stores.in_memory_list_store("l"), "string", "string"),
    ]
    for one in stores:
        made.add_state_store(one, "p")
    return TopologyTestDriver(made)


DATA = {"key", "value", "headers", "entries", "prefix", "aggregate", "session_key", "from_key", "to_key", "key_from",
        "key_to", "record", "lower", "upper"}  # fmt: skip
"""Parameters that take keys, values and records, which may be objects of any class: what their own methods raise is the
error of the record, which has its place."""
NOT_TRIED: dict[str, str] = {
    r"(KStream|KTable|GlobalKTable|KGrouped\w+|BranchedKStream|\w+edKStream)": "made by the DSL",
    r"(Thread|Task)Metadata|QueryResult|StateQueryResult|TraceStep|RecordTrace|Test(Input|Output)Topic|Captured\w+|"
    r"(Broker|Drop|Held|Node|Partition|Snapshot|Standby|Store|Task|Thread|Worker)Status|HostInfo(\.\w+)?|KeyQueryMetadata|"
    r"StreamsMetadata|NoOutputReason|why_no_output|"
    r"LagInfo|RawRecord|ErrorHandlerContext|Dsl\w+Params|ConsumedRecord|RecordContext|RecordMetadata|"
    r"QueryableStoreType|RecordTrace\.\w+|CapturedPunctuator\.\w+|QueryableStoreType\.\w+": "made by the library",
    r"AggregationWithHeaders|ValueAndTimestamp|ValueTimestampHeaders|VersionedRecord|ChangelogRecord|Windowed|TaskId|"
    r"TopicPartition|ProducerRecord|TestRecord|Response|Headers(\.\w+)?|Result|KeyValueIterator": "plain data",
    r"(log_and|default|fail_on|use_partition|wallclock|dead_letter)\w+": "called by the library with its own objects",
    r"TestOutputTopic\.shown": "shows a record of any value",
    r"run|KafkaStreams(\.\w+)?|EmbeddedKafka(\.\w+)?|TopologyTestDriver(\.\w+)?|TestInputTopic\.\w+|script_config":
        "runs a topology, whose settings and topology have tests of their own",
    r"SchemaReference": "plain data",
    r"ExpectedRecords(\.\w+)?": "made by the driver, and compares with any value",
    r"(Avro|JsonSchema|Protobuf)\.\w+": "called by the library with its own objects",
    r"StreamsConfig(\.\w+)?": "its settings are tried by test_edge_values.py; the rest is pydantic's",
    r"Topology\.(on_behalf_of|wrapped_by)": "called by the library with its own objects",
    r"\w*Windows\.(windows_for|end_of)": "called for each record, with a time that was checked when it was read",
    r"TimestampedBytesStore.*": "bytes of a store",
    r"TaskId\.parse": "a text of its own",
}  # fmt: skip
"""Calls that are not tried, and why."""


def is_tried(call: Call) -> bool:
    """Whether there is an object to call it on; what users implement is called by the library."""
    if any(re.fullmatch(pattern, call.name) for pattern in NOT_TRIED):
        return False
    return not call.owner or call.owner in MADE or call.owner in DRIVEN


TRIED = {call.name: call for call in calls() if is_tried(call)}
"""Of two packages that publish one class, once."""


class Attempts:
    """Calls a function with what it needs and one odd value."""

    def __init__(self, call: Call, made: Any) -> None:
        self._call = call
        self._made = made
        self._me: Any = None

    def __call__(self, **odd: Any) -> None:
        if self._call.owner in CHANGED or not odd:
            self._me = self._made()
        call, me = self._call, self._me
        positional, named = [], {}
        also = next((names for pattern, names in ALSO.items() if re.fullmatch(pattern, call.name)), ())
        any_number = any(one.kind is one.VAR_POSITIONAL for one in call.parameters.values())
        for name, parameter in call.parameters.items():
            needed = parameter.default is parameter.empty and parameter.kind is not parameter.VAR_POSITIONAL
            if parameter.kind is parameter.VAR_KEYWORD or not (name in odd or needed or name in also):
                continue
            value = odd[name] if name in odd else of_one(call.name, name, me)
            if parameter.kind is parameter.KEYWORD_ONLY or not any_number:
                named[name] = value
            else:
                positional.append(value)
        function = getattr(me, call.name.rpartition(".")[2]) if call.owner else call.function
        found = function(*positional, **named)
        if isinstance(found, Iterator):
            list(found)

    def surprises(self) -> Iterator[str]:
        for name, parameter in self._call.parameters.items():
            if name in DATA or parameter.kind is parameter.VAR_KEYWORD:
                continue
            for kind, value in ODD.items():
                try:
                    self(**{name: value})
                except OURS as error:
                    if not isinstance(error, StreamsError) and not is_raised(error):
                        yield f"{name}={kind}: {type(error).__name__}, which is Python's own: {error}"
                    if len(str(error)) > MOST_MESSAGE:
                        yield f"{name}={kind}: {len(str(error))} characters"
                except BaseException as error:
                    yield f"{name}={kind}: {type(error).__name__}"


def is_raised(error: BaseException) -> bool:
    """Whether an error was raised by a statement, which has words for it, and not by what Python does."""
    line = traceback.extract_tb(error.__traceback__)[-1].line or ""
    return line.startswith("raise")


@pytest.fixture(scope="module")
def stores() -> Iterator[Any]:
    with driver() as made:
        yield made


@pytest.mark.parametrize("name", TRIED)
def test_odd_values_are_taken_or_refused(name: str, stores: Any) -> None:
    call = TRIED[name]
    how = DRIVEN.get(call.owner)
    attempts = Attempts(
        call, MADE.get(call.owner, type(None)) if how is None else lambda: getattr(stores, how[1])(how[0])
    )
    attempts()  # what is not odd is taken
    assert list(attempts.surprises()) == []


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MS = timedelta(milliseconds=1)
FORMS: dict[str, Callable[[int], tuple[list[Any], list[Any]]]] = {
    "Duration": lambda ms: ([ms, np.int64(ms), ms * MS], [float(ms), np.float64(ms), ms * MS + MS / 2, f"{ms}", EPOCH]),
    "Timestamp": lambda ms: ([ms, np.int64(ms), EPOCH + ms * MS, (EPOCH + ms * MS).astimezone(ZoneInfo("Asia/Tokyo"))],
                             [float(ms), np.float64(ms), ms * MS, f"{ms}", datetime(2024, 1, 1)]),  # noqa: DTZ001
}  # fmt: skip
"""By what an annotation says, a number of milliseconds in the forms that are taken, and in those that are refused."""


def times_of(call: Call) -> dict[str, str]:
    """The parameters of a call that take a time, with what they are annotated as."""
    found = {
        name: next((kind for kind in FORMS if re.search(rf"\b{kind}\b", str(one.annotation))), "")
        for name, one in call.parameters.items()
    }
    return {name: kind for name, kind in found.items() if kind}


def is_refused(attempts: Attempts, parameter: str, value: Any) -> bool:
    try:
        attempts(**{parameter: value})
    except OURS:
        return True
    return False


@pytest.mark.parametrize("name", [name for name, call in TRIED.items() if times_of(call)])
def test_times_are_taken_in_each_form_and_in_no_other(name: str, stores: Any) -> None:
    """Reads of stores took integers alone, and parts of a millisecond were cut off (semantics 192)."""
    call = TRIED[name]
    how = DRIVEN.get(call.owner)
    attempts = Attempts(
        call, MADE.get(call.owner, type(None)) if how is None else lambda: getattr(stores, how[1])(how[0])
    )
    attempts()
    for parameter, kind in times_of(call).items():
        taken, refused = FORMS[kind](VALID.get(parameter) or (0 if kind == "Timestamp" else 10))
        for value in taken:
            attempts(**{parameter: value})
        for value in refused:
            assert is_refused(attempts, parameter, value), f"{parameter}={value!r} is taken"


def test_times_are_everywhere() -> None:
    found = [kind for call in TRIED.values() for kind in times_of(call).values()]
    assert found.count("Duration") > 40
    assert found.count("Timestamp") > 40


def test_each_reason_is_needed() -> None:
    names = [call.name for call in calls()]
    assert [pattern for pattern in NOT_TRIED if not any(re.fullmatch(pattern, name) for name in names)] == []


def test_public_calls_are_tried_or_named() -> None:
    """Only what a user implements has nobody to call it on."""
    others = {call.owner for call in calls() if call.name not in TRIED and not is_named(call)}
    assert sorted(others) == sorted(IMPLEMENTED)


def is_named(call: Call) -> bool:
    return any(re.fullmatch(pattern, call.name) for pattern in NOT_TRIED)
