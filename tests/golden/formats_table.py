"""Byte formats of the recordings, and the functions here that write and read them.

An entry takes a vector's input and returns the vector's other fields as they come out here; a call that fails with one
of `REFUSALS` gives ``{"error": True}``. Groups that are not in the table are listed as not built.
"""

from __future__ import annotations

import base64
import math
import struct
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from dsl.change import ChangeSerde
from golden_support.buffer_vectors import buffer_context, buffer_value, buffer_value_read
from processor_api.errors import StateError
from processor_api.serde import Serde, Serdes
from processor_api.stores.windowed import Window, Windowed
from processor_api.task_id import TaskId, TopicPartition
from processor_api.topology.partitioner import murmur2, partition_for_key
from state.formats import foreign_keys, keys, offsets, outer_join, values
from state.formats.offsets import read_checkpoint, write_checkpoint
from state.formats.windowed_serdes import TimeWindowedSerde, WindowedSerdes, windowed_partitioner
from streams.kafka.offset_metadata import TopicPartitionMetadata
from streams.serdes import list_serde

Input = Mapping[str, Any]
Fields = dict[str, Any]

REFUSALS = (ValueError, TypeError, StateError)
"""What may be raised where Java's classes throw."""


def _unhex(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)


def _hex(data: bytes | None) -> Fields:
    return {"hex": None if data is None else data.hex()}


def _utf8(text: str | None) -> bytes | None:
    return None if text is None else Serdes.STRING.serialize(text)


def _headers(pairs: list[list[str | None]]) -> list[tuple[str, bytes | None]]:
    return [(str(name), _unhex(value)) for name, value in pairs]


def _same(first: Any, second: Any) -> bool:
    return first == second or (isinstance(first, float) and math.isnan(first) and math.isnan(second))


def _serde(serde: Serde[Any], from_json: Callable[[Any], Any] = lambda value: value, *, exact: bool = True) -> Any:
    """Both directions; what is written is read back too."""

    def check(given: Input) -> Fields:
        if "hex" in given:
            data = _unhex(given["hex"])
            return {"output": None if data is None else _to_json(serde.deserialize(data))}
        if given["value"] is None:
            return {"hex": None}
        value = from_json(given["value"])
        data = serde.serialize(value)
        assert not exact or _same(serde.deserialize(data), value), f"{value!r} comes back as another value"
        return _hex(data)

    return check


def _list(inner: Serde[Any], from_json: Callable[[Any], Any] = lambda value: value) -> Any:
    """As `_serde`, of lists whose items may be null."""
    serde = list_serde(inner)

    def check(given: Input) -> Fields:
        if "hex" in given:
            data = _unhex(given["hex"])
            return {"output": None if data is None else [_to_json(item) for item in serde.deserialize(data)]}
        items = given.get("items", given.get("items_hex"))
        if items is None:
            return {"hex": None}
        values = [None if item is None else from_json(item) for item in items]
        data = serde.serialize(values)
        assert serde.deserialize(data) == values, f"{values!r} comes back as other values"
        return _hex(data)

    return check


def _to_json(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value.hex() if isinstance(value, bytes) else str(value) if isinstance(value, uuid.UUID) else value


# ---------------------------------------------------------------------- values


def _timestamped(given: Input) -> Fields:
    row = values.write_value_and_timestamp(_utf8(given["value"]), given["timestamp"])
    if row is not None:
        assert values.read_value_and_timestamp(row) == (_utf8(given["value"]), given["timestamp"])
    return _hex(row)


def _only_headers(given: Input) -> Fields:
    headers = _headers(given["headers"])
    written = values.write_headers(headers)
    assert values.read_headers(written) == headers
    return _hex(written)


def _value_with_headers(given: Input) -> Fields:
    value, timestamp, headers = _utf8(given["value"]), given["timestamp"], _headers(given["headers"])
    row = values.write_value_with_headers(value, timestamp, headers)
    if row is not None:
        assert values.read_value_with_headers(row) == (value, timestamp, headers)
    return _hex(row)


def _session_with_headers(given: Input) -> Fields:
    value, headers = _utf8(given["value"]), _headers(given["headers"])
    row = values.write_session_with_headers(value, headers)
    if row is not None:
        assert values.read_session_with_headers(row) == (value, headers)
    return _hex(row)


def _left_or_right(given: Input) -> Fields:
    left = given["side"] == "left"
    value = Serdes.STRING.serialize(given["value"]) if left else Serdes.LONG.serialize(given["value"])
    row = outer_join.outer_join_value(value, left)
    assert outer_join.read_outer_join_value(row) == (value, left)
    return _hex(row)


# ------------------------------------------------------------------------ keys


def _window_topic_key(given: Input) -> Fields:
    key = _utf8(given["key"])
    if key is None:
        return _hex(None)
    size = given["end"] - given["start"]
    windowed = Windowed(given["key"], Window(given["start"], given["end"]))
    serde = WindowedSerdes.time_windowed_serde_from(Serdes.STRING, size)
    row = serde.serialize(windowed)
    assert serde.deserialize(row) == windowed
    assert row == keys.window_topic_key(key, given["start"])
    return _hex(row)


def _window_store_key(given: Input) -> Fields:
    key, start, sequence = Serdes.STRING.serialize(given["key"]), given["start"], given["sequence"]
    row = keys.window_key(key, start, sequence)
    assert keys.read_window_key(row) == (key, start, sequence)
    return _hex(row)


def _windowed_key_read(given: Input) -> Fields:
    data = bytes.fromhex(given["hex"])
    windowed = TimeWindowedSerde(Serdes.STRING, given["window_size_ms"], changelog=given["changelog"]).deserialize(data)
    return {"output": [windowed.key, *windowed.window]}


def _session_key(given: Input) -> Fields:
    key = _utf8(given["key"])
    if key is None:
        return _hex(None)
    windowed = Windowed(given["key"], Window(given["start"], given["end"]))
    row = WindowedSerdes.session_windowed_serde_from(Serdes.STRING).serialize(windowed)
    assert row == keys.session_key(key, given["start"], given["end"])
    return _hex(row)


def _session_key_read(given: Input) -> Fields:
    if not given["hex"]:
        return {"output": None}
    windowed = WindowedSerdes.session_windowed_serde_from(Serdes.STRING).deserialize(bytes.fromhex(given["hex"]))
    return {"output": [windowed.key, *windowed.window]}


def _indexed(given: Input) -> Fields:
    key, start, by_time = Serdes.STRING.serialize(given["key"]), given["start"], given["first"] == "time"
    if given["kind"] == "window":
        sequence = given["sequence"]
        if not by_time:
            return _hex(keys.window_key_by_key(key, start, sequence))
        row = keys.window_key_by_time(key, start, sequence)
        assert keys.read_window_key_by_time(row) == (key, start, sequence)
        return _hex(row)
    end = given["end"]
    if not by_time:
        return _hex(keys.session_key_by_key(key, start, end))
    row = keys.session_key_by_time(key, start, end)
    assert keys.read_session_key_by_time(row) == (key, start, end)
    return _hex(row)


def _subscription_key(given: Input) -> Fields:
    return _hex(foreign_keys.subscription_key(_key_bytes(given["foreign"]), _key_bytes(given["primary"])))


def _subscription_prefix(given: Input) -> Fields:
    return _hex(foreign_keys.subscription_prefix(_key_bytes(given["foreign"])))


def _key_bytes(key: str | int) -> bytes:
    return (Serdes.STRING if isinstance(key, str) else Serdes.LONG).serialize(key)


def _hash(pair: list[int] | None) -> bytes | None:
    return None if pair is None else struct.pack(">qq", *pair)


def _subscription(given: Input) -> Fields:
    """Written as recorded, and read back; ``upgrade.from`` makes it version 0."""
    is_older = given["version"] == 0 or "upgrade_from" in given
    key, hash_ = _key_bytes(given["primary"]), _hash(given["hash"])
    partition = None if is_older else given["primary_partition"]
    data = foreign_keys.subscription(given["instruction_byte"], hash_, key, partition)
    assert foreign_keys.read_subscription(data) == (given["instruction_byte"], hash_, key, partition)
    return _hex(data)


def _subscription_response(given: Input) -> Fields:
    return _hex(foreign_keys.response(_hash(given["hash"]), _utf8(given["value"])))


def _subscription_response_read(given: Input) -> Fields:
    hash_, value = foreign_keys.read_response(bytes.fromhex(given["hex"]))
    pair = None if hash_ is None else list(struct.unpack(">qq", hash_))
    return {"output": {"version": 0, "hash": pair, "value": None if value is None else value.decode()}}


def _murmur3(given: Input) -> Fields:
    return {"output": list(struct.unpack(">qq", foreign_keys.murmur3_128(bytes.fromhex(given["hex"]))))}


def _outer_join_key(given: Input) -> Fields:
    key, timestamp, left = Serdes.STRING.serialize(given["key"]), given["timestamp"], given["side"] == "left"
    row = outer_join.outer_join_key(key, timestamp, left)
    assert outer_join.read_outer_join_key(row) == (key, timestamp, left)
    return _hex(row)


# ---------------------------------------------------------------------- tables

CHANGES = ChangeSerde(Serdes.STRING)


def _change(given: Input) -> Fields:
    change = (given["new"], given["old"])
    data = CHANGES.serialize(change)
    assert CHANGES.deserialize(data) == change
    return _hex(data)


def _change_read(given: Input) -> Fields:
    new, old, *latest = CHANGES.deserialize(bytes.fromhex(given["hex"]))
    return {"output": {"new": new, "old": old, "is_latest": not latest}}


# ---------------------------------------------------------------- partitioning


def _murmur2(given: Input) -> Fields:
    hashed = murmur2(bytes.fromhex(given["hex"]))
    return {"output": hashed - (1 << 32) if hashed >> 31 else hashed}


def _windowed_partition(given: Input) -> Fields:
    key = Windowed(_utf8(given["key"]), Window(given["start"], given["end"]))
    inner = Serdes.BYTES
    serde = (
        WindowedSerdes.session_windowed_serde_from(inner)
        if given["session"]
        else WindowedSerdes.time_windowed_serde_from(inner, 10)
    )
    partitioner = windowed_partitioner(serde)
    assert partitioner is not None
    (partition,) = partitioner("topic", key, None, None, given["partitions"]) or ()
    return {"output": partition}


PARTITION_COUNTS = (1, 2, 3, 4, 7, 10, 12, 16, 31, 64, 100, 1000)


def _partition(given: Input) -> Fields:
    key = _utf8(given["key"])
    return {"output": {str(n): None if key is None else partition_for_key(key, n) for n in PARTITION_COUNTS}}


# ----------------------------------------------- positions, offsets, identities


def _position(given: Input) -> Fields:
    if "hex" in given:
        return {"output": offsets.read_position(bytes.fromhex(given["hex"]))}
    position = {topic: {int(p): o for p, o in pairs.items()} for topic, pairs in given["position"].items()}
    written = offsets.write_position(position)
    assert offsets.read_position(written) == position
    return _hex(written)


def _sorted_position(vector: Fields) -> Fields:
    """The order of topics and partitions does not count: it is that of a hash map."""
    if "hex" not in vector:
        return vector
    return {**vector, **_hex(offsets.write_position(offsets.read_position(bytes.fromhex(vector["hex"]))))}


def _sorted_checkpoint(vector: Fields) -> Fields:
    """The order of a file's lines does not count."""
    text = vector.get("text")
    return {**vector, "text": "".join(sorted(text.splitlines(keepends=True)))} if text else vector


def _offset_metadata(given: Input) -> Fields:
    metadata = TopicPartitionMetadata(given["partition_time"], given["processors"])
    assert TopicPartitionMetadata.decode(metadata.encode()) == metadata
    text = metadata.encode()
    return {"text": text, "hex": base64.b64decode(text).hex()}


def _offset_metadata_read(given: Input) -> Fields:
    metadata = TopicPartitionMetadata.decode(given["text"])
    return {"output": {"partition_time": metadata.partition_time, "processor_s": metadata.processors.get("s")}}


def _checkpoint(given: Input) -> Fields:
    offsets = {}
    for name, offset in given["offsets"].items():
        topic, _, partition = name.rpartition("/")
        offsets[TopicPartition(topic, int(partition))] = offset
    text = write_checkpoint(offsets)
    assert text is None or read_checkpoint(text) == offsets
    return {"text": text}


def _checkpoint_read(given: Input) -> Fields:
    offsets = read_checkpoint(given["text"])
    return {"output": {f"{topic}/{partition}": offset for (topic, partition), offset in offsets.items()}}


def _task_id(given: Input) -> Fields:
    if "topology" in given:
        raise ValueError("named topologies are not supported")
    return {"text": str(TaskId(given["subtopology"], given["partition"]))}


def _task_id_read(given: Input) -> Fields:
    task = TaskId.parse(given["text"])
    return {"output": {"subtopology": task.subtopology, "partition": task.partition, "topology": None}}


def _task_ids_sorted(vector: Fields) -> Fields:
    return {"sorted": [str(task) for task in sorted(TaskId.parse(text) for text in reversed(vector["sorted"]))]}


FORMATS: Mapping[str, Callable[[Input], Fields]] = {
    "string": _serde(Serdes.STRING),
    "long": _serde(Serdes.LONG),
    "int": _serde(Serdes.INTEGER),
    "short": _serde(Serdes.SHORT),
    "double": _serde(Serdes.DOUBLE, float),
    "float": _serde(Serdes.FLOAT, float, exact=False),  # 32 bits of a Python float
    "bytes": _serde(Serdes.BYTES, bytes.fromhex),
    "uuid": _serde(Serdes.UUID, uuid.UUID),
    "boolean": _serde(Serdes.BOOLEAN),
    "void": _serde(Serdes.VOID),
    "list of string": _list(Serdes.STRING),
    "list of string read back": _list(Serdes.STRING),
    "list of long": _list(Serdes.LONG),
    "list of int": _list(Serdes.INTEGER),
    "list of short": _list(Serdes.SHORT),
    "list of double": _list(Serdes.DOUBLE, float),
    "list of uuid": _list(Serdes.UUID, uuid.UUID),
    "list of bytes (the value of a list store)": _list(Serdes.BYTES, bytes.fromhex),
    "timestamped value": _timestamped,
    "plain value read by a timestamped store": lambda given: _hex(values.timestamped_from_plain(_unhex(given["hex"]))),
    "timestamped value read by a headers store": lambda given: _hex(values.from_timestamped(_unhex(given["hex"]))),
    "plain value read by a headers store": lambda given: _hex(values.from_plain(_unhex(given["hex"]))),
    "headers": _only_headers,
    "value with timestamp and headers": _value_with_headers,
    "session aggregate with headers": _session_with_headers,
    "left or right value": _left_or_right,
    "windowed key on a topic": _window_topic_key,
    "window store key and its changelog key": _window_store_key,
    "windowed key read back": _windowed_key_read,
    "session key on a topic, in a store, on a changelog": _session_key,
    "session key read back": _session_key_read,
    "time-ordered and key-ordered rows of an indexed store": _indexed,
    "outer-join store key": _outer_join_key,
    "foreign-key subscription store key": _subscription_key,
    "prefix of all subscriptions of a foreign key": _subscription_prefix,
    "subscription": _subscription,
    "subscription response": _subscription_response,
    "subscription response read back": _subscription_response_read,
    "murmur3 128 of a value": _murmur3,
    "change on a repartition topic": _change,
    "change read back": _change_read,
    "murmur2": _murmur2,
    "partition of a string key": _partition,
    "partition of a windowed key": _windowed_partition,
    "position": _position,
    "metadata of a committed offset": _offset_metadata,
    "metadata of a committed offset read back": _offset_metadata_read,
    "checkpoint file": _checkpoint,
    "checkpoint file read back": _checkpoint_read,
    "record context": buffer_context,
    "value of a suppress changelog record, version 3": buffer_value,
    "suppress changelog record read back": buffer_value_read,
    "task id as text": _task_id,
    "task id parsed": _task_id_read,
    "task ids in order": _task_ids_sorted,
}

NORMALISED: Mapping[str, Callable[[Fields], Fields]] = {
    "position": _sorted_position,
    "checkpoint file": _sorted_checkpoint,
}
"""Applied to fields on both sides, where a recording shows what does not count."""
