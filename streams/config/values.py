"""Reads the value of each kind of setting. A complaint continues after the setting's name ("must be ...")."""

from __future__ import annotations

import json
import math
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from processor_api.errors import ConfigError, TopologyError
from processor_api.handlers import (
    default_production,
    log_and_continue,
    log_and_continue_processing,
    log_and_fail,
    log_and_fail_processing,
)
from processor_api.serde import Serde, Serdes
from processor_api.stores.defaults import BuiltInDslStoreSuppliers, DslStoreSuppliers
from processor_api.stores.suppliers import engine_of_word
from processor_api.texts import error_text, kind_and_text, plain_str, repr_of
from processor_api.timestamps import (
    fail_on_invalid_timestamp,
    log_and_skip_on_invalid_timestamp,
    use_partition_time_on_invalid_timestamp,
    wallclock_timestamp_extractor,
)
from processor_api.user_code.checks import check_function, check_methods
from processor_api.user_code.durations import to_ms
from processor_api.user_code.function_code import named_function, why_not_plain
from processor_api.user_code.given_serdes import as_serde, class_of
from processor_api.user_code.given_values import is_of
from state.directory.no_home import NO_STATE_DIRECTORY
from state.engine.registry import engine_names
from streams.config.import_path import NoSuchObject, import_object
from streams.registry.schema_registry import DefaultWithRegistry, SchemaRegistry

_LEGAL_ID = re.compile(r"[a-zA-Z0-9._-]+")
_MAX_TOPIC_NAME = 249
_MAX_TAGS = 5
_BOOTSTRAP = re.compile(
    r"(?:(?:sasl_)?(?:plaintext|ssl)://)?(?:\[[0-9a-f:.%\w]+\]|[^:/\s\[\]]+)(?::(?P<port>[0-9]{1,5}))?/?", re.IGNORECASE
)
"""An address as librdkafka reads it: a protocol may be in front, which it ignores, and the port may be missing."""
_SERVER = re.compile(r"(?:[a-zA-Z0-9_.\-]+|\[[0-9a-fA-F:.%]+\]):(\d{1,5})")
_JAVA_DSL_SUPPLIERS = {
    "BuiltInDslStoreSuppliers$RocksDBDslStoreSuppliers": BuiltInDslStoreSuppliers.ROCKS_DB,
    "BuiltInDslStoreSuppliers$InMemoryDslStoreSuppliers": BuiltInDslStoreSuppliers.IN_MEMORY,
}
_JAVA_SERDES: dict[str, Serde[Any]] = {
    "ByteArray": Serdes.BYTES,
    "ByteBuffer": Serdes.BYTES,
    "Bytes": Serdes.BYTES,
    "Boolean": Serdes.BOOLEAN,
    "Double": Serdes.DOUBLE,
    "Float": Serdes.FLOAT,
    "Integer": Serdes.INTEGER,
    "Long": Serdes.LONG,
    "Short": Serdes.SHORT,
    "String": Serdes.STRING,
    "UUID": Serdes.UUID,
    "Void": Serdes.VOID,
}
_JAVA_SERDE = re.compile(r"org\.apache\.kafka\.common\.serialization\.Serdes\$(\w+)Serde")
_JAVA_SCHEMA_SERDES = {
    "io.confluent.kafka.streams.serdes.avro.GenericAvroSerde": "avro",
    "io.confluent.kafka.streams.serdes.avro.PrimitiveAvroSerde": "avro",
}
_JAVA_SERDES_OF_CLASSES = {
    "io.confluent.kafka.streams.serdes.avro.SpecificAvroSerde": "Avro(Order)",
    "io.confluent.kafka.streams.serdes.avro.ReflectionAvroSerde": "Avro(Order)",
    "io.confluent.kafka.streams.serdes.protobuf.KafkaProtobufSerde": "Protobuf(Order)",
    "io.confluent.kafka.streams.serdes.json.KafkaJsonSchemaSerde": "JsonSchema(Order)",
}
"""Serdes of Java that make objects of classes, which here are given: by the import path of such a serde."""
_JAVA_EXTRACTORS: dict[str, Callable[..., Any]] = {
    "FailOnInvalidTimestamp": fail_on_invalid_timestamp,
    "LogAndSkipOnInvalidTimestamp": log_and_skip_on_invalid_timestamp,
    "UsePartitionTimeOnInvalidTimestamp": use_partition_time_on_invalid_timestamp,
    "WallclockTimestampExtractor": wallclock_timestamp_extractor,
}
_JAVA_HANDLERS: dict[str, dict[str, Callable[..., Any]]] = {
    "deserialization": {
        "LogAndContinueExceptionHandler": log_and_continue,
        "LogAndFailExceptionHandler": log_and_fail,
    },
    "processing": {
        "LogAndContinueProcessingExceptionHandler": log_and_continue_processing,
        "LogAndFailProcessingExceptionHandler": log_and_fail_processing,
    },
    "production": {"DefaultProductionExceptionHandler": default_production},
}
_JAVA_HANDLERS_PACKAGE = "org.apache.kafka.streams.errors"
_OPTIMIZATIONS = ("reuse.ktable.source.topics", "merge.repartition.topics", "single.store.self.join")


def unreadable(error: Exception) -> str:
    """Returns what is wrong with a value whose own methods failed while it was read, as the end of a sentence."""
    return f"has a value that cannot be read; it raised {kind_and_text(error)}"


_HANDLER_ARGUMENTS = {
    "deserialization": ("context", "record", "error"),
    "processing": ("context", "record", "error"),
    "production": ("context", "record", "error", "origin"),
}
_WRAPPER_METHODS = {
    "wrap_processor_supplier": ("name", "supplier"),
    "wrap_fixed_key_processor_supplier": ("name", "supplier"),
    "configure": ("configs",),
}


def whole(low: int, high: int = (1 << 63) - 1) -> Callable[[Any], int]:
    """Reads an integer, also as text."""

    def read(value: Any) -> int:
        number: int | None = None
        if not isinstance(value, (bool, float)):
            try:
                number = int(value)
            except (TypeError, ValueError):
                pass
        if number is None:
            raise ValueError(f"must be a whole number, got {repr_of(value)}")
        return _in_range(number, low, high, "")

    return read


def duration_ms(low: int = 0) -> Callable[[Any], int]:
    """Reads a duration in ms, as an integer, as text, or as a timedelta."""

    def read(value: Any) -> int:
        if isinstance(value, str):
            try:
                value = int(value)
            except ValueError:
                pass
        try:
            return _in_range(to_ms(value, ""), low, (1 << 63) - 1, " ms")
        except TypeError:
            raise ValueError(f"must be a timedelta or whole milliseconds, got {repr_of(value)}") from None

    return read


def _in_range(number: int, low: int, high: int, unit: str) -> int:
    if number < low:
        raise ValueError(f"must be at least {low}{unit}, got {number}")
    if number > high:
        raise ValueError(f"must be at most {high}{unit}, got {number}")
    return number


def flag(value: Any) -> bool:
    """Reads a bool, also as the text ``true`` or ``false``."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        return value.strip().lower() == "true"
    raise ValueError(f"must be true or false, got {repr_of(value)}")


def text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"must be a string, got {repr_of(value)}")
    return value


def one_of(*choices: str, hints: dict[str, str] | None = None) -> Callable[[Any], Any]:
    """Reads one of a few words, upper or lower case; ``hints`` says why a value that looks right is not taken."""

    def read(value: Any) -> str:
        given = str(value).strip().lower()
        for choice in choices:
            if given == choice.lower():
                return choice
        for refused, hint in (hints or {}).items():
            if given == refused.lower():
                raise ValueError(f"cannot be {refused}: {hint}")
        allowed = f"one of {', '.join(choices)};" if len(choices) > 1 else f"{choices[0]},"
        raise ValueError(f"must be {allowed} got {repr_of(value)}")

    return read


def optional(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Reads a value that may be ``None``; an empty text counts as ``None`` too."""
    return lambda value: None if value is None or value == "" else read(value)


def tags(value: Any) -> tuple[str, ...]:
    """Reads at most five names, as a list or separated by commas."""
    given = value.split(",") if isinstance(value, str) else value
    if not isinstance(given, (list, tuple)) or not all(isinstance(tag, str) for tag in given):
        raise ValueError(f"must be names separated by commas or a list of them, got {repr_of(value)}")
    found = tuple(tag.strip() for tag in given if tag.strip())
    if len(found) > _MAX_TAGS:
        raise ValueError(f"must be at most {_MAX_TAGS} names, got {len(found)}")
    return found


def names(value: Any) -> tuple[str, ...]:
    """Reads names separated by commas, or a list of them."""
    given = value.split(",") if isinstance(value, str) else value
    if not isinstance(given, (list, tuple, set, frozenset)) or not all(isinstance(name, str) for name in given):
        raise ValueError(f"must be names separated by commas or a list of them, got {repr_of(value)}")
    return tuple(name.strip() for name in given if name.strip())


def share(value: Any) -> float:
    """Reads a number between 0 and 1, also as text."""
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not 0 <= number <= 1:  # also not a number
        raise ValueError(f"must be a number between 0 and 1, got {repr_of(value)}")
    return number


def trace_keys(value: Any) -> tuple[Any, ...]:
    """Reads keys given as a list, as a JSON array, or as texts separated by commas."""
    given = value
    if value is None:
        return ()
    if isinstance(value, str):
        text = value.strip()
        if text.startswith("["):
            try:
                given = json.loads(text)
            except ValueError as error:
                raise ValueError(
                    f"starts like a JSON array but cannot be read as one ({error}): {repr_of(value)}"
                ) from None
        else:
            given = [key.strip() for key in text.split(",")] if text else []
            if not all(given):
                raise ValueError(f"must not have an empty key between two commas, got {repr_of(value)}")
    if not isinstance(given, (list, tuple, set, frozenset)):
        raise ValueError(f"must be keys separated by commas, a JSON array or a list of keys, got {repr_of(value)}")
    return tuple(given)


def application_id(value: Any) -> str:
    """Reads an application id, which must be a legal topic name, since it becomes part of topic names."""
    name = text(value)
    if not _LEGAL_ID.fullmatch(name) or name in (".", "..") or len(name) > _MAX_TOPIC_NAME:
        raise ValueError(
            f"must be 1 to {_MAX_TOPIC_NAME} characters of a-z, A-Z, 0-9, '.', '_' and '-', got {name!r}, because"
            " internal topics are named after it"
        )
    return name


def servers(value: Any) -> str:
    """Reads ``host:port`` pairs, separated by commas, or a list of them; the port may be missing, as librdkafka
    allows."""
    given = value.split(",") if isinstance(value, str) else value
    if not isinstance(given, (list, tuple)) or not all(isinstance(server, str) for server in given):
        raise ValueError(f"must be host:port, separated by commas, or a list of them, got {repr_of(value)}")
    found = [server.strip() for server in given if server.strip()]
    if not found:
        raise ValueError("must name at least one broker as host:port")
    for server in found:
        match = _BOOTSTRAP.fullmatch(server)
        if match is None or not 0 < int(match["port"] or 9092) < 1 << 16:
            raise ValueError(f"has {server!r}, which is not host:port, such as localhost:9092")
    return ",".join(found)


def host_and_port(value: Any) -> str:
    """Reads ``host:port``, or nothing."""
    address = text(value)
    place, slash, process = address.partition("/")  # behind the port of a supervisor: the number of the process
    match = _SERVER.fullmatch(place)
    known = match is not None and 0 < int(match[1]) < 1 << 16 and process.isdecimal() == bool(slash)
    if address and not known:
        raise ValueError(f"must be host:port, got {address!r}")
    return address


def listen_address(value: Any) -> str:
    """Reads ``host:port`` to listen on; the port may be 0, for a free one."""
    address = text(value)
    match = _SERVER.fullmatch(address)
    if match is None or int(match[1]) >= 1 << 16:
        raise ValueError(f"must be host:port, such as 127.0.0.1:8080, got {address!r}")
    return address


def path(value: Any) -> Path:
    """Reads a path; ``~`` is the home directory, and one that is not absolute is in the working directory of now: that
    may be another one by the time when the path is used."""
    if not isinstance(value, (str, os.PathLike)) or not os.fspath(value):
        raise ValueError(f"must be a path, got {repr_of(value)}")
    try:
        return Path(value).expanduser().absolute()
    except RuntimeError:
        raise ValueError(
            f"is {repr_of(value)}, but the user of this process has no home directory: set an absolute path"
        ) from None
    except FileNotFoundError:
        raise ValueError(f"is not absolute ({repr_of(value)}), and the working directory no longer exists") from None


_STORE_URL = re.compile(r"(s3|gs|az)://[A-Za-z0-9][A-Za-z0-9._-]*(/[^\s?#]*)?")


def snapshot_place(value: Any) -> Path | str:
    """Reads a path or the URL of an object store."""
    if not isinstance(value, str) or "://" not in value:
        return path(value)
    if not _STORE_URL.fullmatch(value):
        raise ValueError(
            f"must be a directory, or s3://BUCKET/PATH, gs://BUCKET/PATH or az://CONTAINER/PATH, got {repr_of(value)}"
        )
    if find_spec("obstore") is None:
        raise ValueError(f"is {repr_of(value)}, which needs obstore: pip install 'streams-for-kafka[snapshots]'")
    return value.rstrip("/")


_FILES_OF_CLIENTS = frozenset({
    "https.ca.location", "sasl.kerberos.keytab", "ssl.ca.location", "ssl.certificate.location", "ssl.crl.location",
    "ssl.key.location", "ssl.keystore.location",
})  # fmt: skip


def with_whole_paths(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns settings of a client with absolute paths, since a client is made again each time its thread joins."""
    found = dict(settings)
    for name in _FILES_OF_CLIENTS & found.keys():
        if isinstance(found[name], (str, os.PathLike)) and found[name] and found[name] != "probe":
            found[name] = str(path(found[name]))
    return found


def default_state_dir() -> Path:
    """Returns the user's directory for state that survives a reboot (XDG), which a temporary directory would not."""
    root = os.environ.get("XDG_STATE_HOME", "")
    if os.path.isabs(root):
        return Path(root) / "streams"
    try:
        return Path("~/.local/state").expanduser() / "streams"
    except RuntimeError:  # neither HOME nor an entry of the user: what keeps no state needs no directory
        return NO_STATE_DIRECTORY


def optimizations(value: Any) -> str:
    """Reads ``none``, ``all``, or names separated by commas, into a fixed order."""
    given = value.split(",") if isinstance(value, str) else list(value) if isinstance(value, (list, tuple)) else [value]
    names = [str(name).strip() for name in given]
    if names in (["none"], ["all"]):
        return names[0]
    unknown = [name for name in names if name not in _OPTIMIZATIONS]
    if unknown or not names:
        raise ValueError(f"must be none, all, or some of {', '.join(_OPTIMIZATIONS)}; got {repr_of(value)}")
    return ",".join(name for name in _OPTIMIZATIONS if name in names)


def _named(value: Any) -> Any:
    """Returns what an import path names, and any other value as it is."""
    return _imported(value) if isinstance(value, str) else value


def _made(found: Any, value: Any) -> Any:
    """Returns an object of a class, and any other value as it is.

    :param value: what the setting was given, for the error.
    """
    try:
        return found() if isinstance(found, type) else found
    except TypeError as error:
        raise ValueError(f"cannot be made from {repr_of(value)}: {error_text(error)}") from None


def _imported(path: str) -> Any:
    try:
        return import_object(path)
    except NoSuchObject:
        raise
    except Exception as error:
        raise ValueError(f"names {path!r}, which failed to import: {kind_and_text(error)}") from error


def serde(value: Any) -> Serde[Any]:
    """Reads a serde: an object, a name, a model, the import path of an object or model, or the class name of one of
    Java's own."""
    java = _JAVA_SERDE.fullmatch(value) if isinstance(value, str) else None
    if java is not None and java[1] in _JAVA_SERDES:
        return _JAVA_SERDES[java[1]]
    if isinstance(value, str) and value in _JAVA_SERDES_OF_CLASSES:
        example = _JAVA_SERDES_OF_CLASSES[value]
        raise ValueError(
            f"names {value}, which is a Java class: give the import path of a serde such as {example}, or avro for"
            " records as dicts"
        )
    if isinstance(value, str):
        value = _JAVA_SCHEMA_SERDES.get(value, value)
    is_path = isinstance(value, str) and not value.isidentifier()  # an import path has more than one word
    try:
        return as_serde(_imported(value) if is_path else value)
    except TypeError as error:
        taken, _, got = str(error).partition("; got ")
        raise ValueError(
            f"must be {taken}, or the import path of one; {f'{plain_str(value)} is' if is_path else 'got'} {got}"
        ) from None
    except ValueError as error:
        text = str(error)
        raise ValueError(text if text.startswith(("must ", "names ")) else f"must be a serde: {text}") from error


def schema_registry(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """Reads the settings of a schema registry, without their prefix."""
    if settings:
        try:
            registry_of(settings)
        except ConfigError as error:
            raise ValueError(f"is wrong: {error.message}") from None
    return settings


def registry_of(settings: Mapping[str, Any] | None) -> SchemaRegistry | None:
    """Returns the schema registry of an application; ``None`` if it has none.

    :raises ConfigError: if a setting is wrong.
    """
    return SchemaRegistry.of(settings) if settings else None


def serde_text(given: Serde[Any]) -> str:
    """Returns a text for a serde that :func:`serde` reads, wherever there is one: its name or an import path; none for
    a registry without a serde."""
    if isinstance(given, DefaultWithRegistry):
        return "" if given.inner is None else serde_text(given.inner)
    if any(given is known for known in vars(Serdes).values()):
        return given.name
    model = class_of(given)
    if model is not None and "<locals>" not in model.__qualname__:
        return f"{model.__module__}:{model.__qualname__}"
    for module in list(sys.modules.values()):
        for name, found in list(getattr(module, "__dict__", {}).items()):
            if found is given:
                return f"{module.__name__}:{name}"
    return given.name


def function(value: Any) -> Any:
    """Reads a function, or its import path."""
    found = _named(value)
    if not callable(found):
        raise ValueError(f"must be a function or the import path of one, got {repr_of(value)}")
    return plain(found)


def _called(found: Any, name: str, arguments: tuple[str, ...], result: str = "") -> Any:
    """Returns a function that can be called with some arguments.

    :param name: the kind of function, for the error.
    :param result: what it has to return, for the error; if empty, its result is not used.
    :raises ValueError: if it takes others, or returns nothing.
    """
    with _checked():
        check_function(found, name, "an application", arguments, returns=bool(result), result=result)
    return found


@contextmanager
def _checked() -> Iterator[None]:
    """Turns the error of a check that every user's function goes through into the end of a sentence about a setting."""
    try:
        yield
    except TopologyError as error:
        raise ValueError(f"does not fit: {error.message}") from None


def plain(found: Any) -> Any:
    """Returns a function that returns its result.

    :raises ValueError: if it is made by ``async def`` or has a ``yield``: nothing would run it.
    """
    if why := why_not_plain(found):
        raise ValueError(f"must be a plain function, but {named_function(found)} {why}")
    return found


def rocksdb_setter(value: Any) -> Any:
    """Reads a function of a store's name and its options, its import path, or a mapping of options."""
    if isinstance(value, Mapping):
        if not all(isinstance(name, str) for name in value):
            raise ValueError(f"must have names of options as keys, got {repr_of(value)}")
        return dict(value)
    return _called(function(value), "setter", ("store", "options"))


def wrapper(value: Any) -> Any:
    """Reads a processor wrapper, a class of them, a function of a node's name and its supplier, or the import path of
    one."""
    found = _made(_named(value), value)
    if not callable(found) and not hasattr(found, "wrap_processor_supplier"):
        raise ValueError(f"must be a ProcessorWrapper, a function, or the import path of one, got {repr_of(value)}")
    for name in _WRAPPER_METHODS:
        plain(getattr(found, name, None))
    with _checked():
        check_methods(found, _WRAPPER_METHODS, "an application")
    if hasattr(found, "wrap_processor_supplier"):
        return plain(found)
    return _called(plain(found), "wrapper", ("name", "supplier"), "a supplier of processors")


def dsl_store(value: Any) -> str:
    """Reads one of Java's names, or that of a storage engine."""
    if not isinstance(value, str) or engine_of_word(value) not in engine_names():
        raise ValueError(f"must be one of rocksDB, in_memory or {', '.join(engine_names())}; got {repr_of(value)}")
    return value


def dsl_suppliers(value: Any) -> Any:
    """Reads the object that chooses the stores of the DSL: it, its class, its import path, or the class name of one of
    Java's."""
    name = value.rpartition(".")[2] if isinstance(value, str) else ""
    if name in _JAVA_DSL_SUPPLIERS:
        return _JAVA_DSL_SUPPLIERS[name]
    found = _made(_named(value), value)
    if not is_of(found, DslStoreSuppliers):
        raise ValueError(f"must have key_value_store, window_store and session_store, got {repr_of(value)}")
    return found


def extractor(value: Any) -> Any:
    """Reads a timestamp extractor, its import path, or the class name of one of Java's own."""
    package, _, name = value.rpartition(".") if isinstance(value, str) else ("", "", "")
    java = package == "org.apache.kafka.streams.processor"
    found = function(_JAVA_EXTRACTORS.get(name) if java else value)
    return _called(found, "extractor", ("record", "partition_time"), "a timestamp in ms")


def handler(kind: str) -> Callable[[Any], Any]:
    """Reads an exception handler of a kind, its import path, or the class name of one of Java's own, with or without
    its package. Of a class whose objects are handlers, one is made."""
    java = _JAVA_HANDLERS[kind]

    def read(value: Any) -> Any:
        if isinstance(value, str):
            package, _, name = value.rpartition(".")
            if name in java and package in ("", _JAVA_HANDLERS_PACKAGE):
                return java[name]
            if package == _JAVA_HANDLERS_PACKAGE:
                raise ValueError(f"must be one of Java's handlers {', '.join(sorted(java))}, got {name}")
        return _called(function(_made(function(value), value)), "handler", _HANDLER_ARGUMENTS[kind], "a Response")

    return read
