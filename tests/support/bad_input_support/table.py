"""The table of bad inputs that need no Kafka."""

from __future__ import annotations

import json
from pathlib import Path

from bad_input_support.rows import Outcome, Row, command, run_python, script
from processor_api.task_id import TaskId
from state.directory.state_directory import StateDirectory

__all__ = ["TABLE"]

AT_BAD = ("topic='events'", "partition=0", "offset=1", "task='0_0'")
OF_USER = 'KeyError: "user\'s own"'

# ---------------------------------------------------------------------- the user's code

CODE = [
    script("read-value", "DeserializationError", "the value cannot be read", "KSTREAM-SOURCE-", *AT_BAD, cause=OF_USER),
    script("read-key", "DeserializationError", "the key cannot be read", "KSTREAM-SOURCE-", *AT_BAD, cause=OF_USER),
    script(
        "write-value",
        "SerializationError",
        "the value cannot be written to topic 'out'",
        "key='key-1'",
        "KSTREAM-SINK-",
        *AT_BAD,
        cause=OF_USER,
    ),
    script(
        "write-key",
        "SerializationError",
        "the key cannot be written to topic 'out'",
        "key='bad'",
        *AT_BAD,
        cause=OF_USER,
    ),
    script(
        "write-type",
        "SerializationError",
        "the value cannot be written to topic 'out'",
        "string: expected a str, got int; for such a value give",
        *AT_BAD,
    ),
    script(
        "store-write",
        "ProcessingError",
        "node 'user'",
        "store 'kept'",
        "the broken serde cannot write the value",
        "key='key-1'",
        *AT_BAD,
        cause=OF_USER,
    ),
    script("function", "ProcessingError", "KeyError in node 'KSTREAM-MAPVALUES-", *AT_BAD, cause=OF_USER),
    script("aggregator", "ProcessingError", "KeyError in node 'KSTREAM-AGGREGATE-", *AT_BAD, cause=OF_USER),
    script("process", "ProcessingError", "KeyError in node 'user'", "key='key-1'", *AT_BAD, cause=OF_USER),
    script("init", "ProcessingError", "processor 'user' could not be initialised", cause=OF_USER, after_first=False),
    script(
        "punctuation",
        "ProcessingError",
        "KeyError in a punctuation of node 'user'",
        "task='0_0'",
        cause=OF_USER,
        after_first=False,
    ),
    script(
        "punctuation-interval",
        "ProcessingError",
        "node 'user'",
        "a punctuation's interval must be at least 1 ms, got 0",
        after_first=False,
    ),
    script("child", "ProcessingError", "node 'user' does not have child 'nobody'; its children are: out", *AT_BAD),
    script(
        "store-not-connected",
        "TopologyError",
        "store 'not-connected' is not connected to node 'user'; connect it with add_state_store",
        after_first=False,
    ),
    script("same-processor", "TopologyError", "processor 'user' returned the same object twice", after_first=False),
    script("store-twice", "TopologyError", "a store named 'kept' is already", after_first=False, mended=False),
    script("store-twice-dsl", "TopologyError", "a store named 'counts' is already", after_first=False, mended=False),
    script(
        "no-serde",
        "ConfigError",
        "sink 'out' of topic 'out' at ",
        "source 'in' of topic 'events' at ",
        "default.key.serde",
        after_first=False,
        mended=False,
    ),
    script(
        "global-written",
        "ProcessingError",
        "node 'user' can only read store 'everywhere', not write to it",
        "key='key-1'",
        *AT_BAD,
    ),
    script(
        "global-logged",
        "TopologyError",
        "global store 'everywhere' must not log its changes",
        "with_logging_disabled()",
        after_first=False,
        mended=False,
    ),
    script(
        "global-topic-twice",
        "TopologyError",
        "topic 'table' is already read by source 'everywhere-in'",
        after_first=False,
        mended=False,
    ),
    script(
        "global-topic-read",
        "TopologyError",
        "topic 'events' is already read by source 'in'",
        after_first=False,
        mended=False,
    ),
    script(
        "global-missing",
        "MissingTopicError",
        "source topics do not exist: 'no-such-topic'",
        after_first=False,
        mended=False,
    ),
    script(
        "source-missing",
        "MissingTopicError",
        "source topics do not exist: 'no-such-topic'",
        after_first=False,
        mended=False,
    ),
    script(
        "extractor-raises", "ProcessingError", "the timestamp extractor of source 'in' failed", *AT_BAD, cause=OF_USER
    ),
    script("extractor-no-number", "ProcessingError", "source 'in' failed: TypeError: expected an int (ms)", *AT_BAD),
    script("partitioner-raises", "ProcessingError", "KeyError in node 'out'", "key='key-1'", *AT_BAD, cause=OF_USER),
    script(
        "partitioner-range",
        "ProcessingError",
        "partitioner of sink 'out' chose partition 1, but the topic has 1 partition",
        *AT_BAD,
    ),
    script(
        "partitioner-negative",
        "ProcessingError",
        "partitioner of sink 'out' chose partition -2, but the topic has 1 partition",
        *AT_BAD,
    ),
    script(
        "partitioner-no-number",
        "ProcessingError",
        "sink 'out' chose partition 'one', but the topic has 1 partition",
        *AT_BAD,
    ),
    script(
        "read-handler-raises",
        "DeserializationError",
        "the deserialization.exception.handler __main__.fails failed itself",
        *AT_BAD,
        cause=OF_USER,
    ),
    script(
        "read-handler-nothing",
        "DeserializationError",
        "returned None: it must return Response.resume() or Response.fail()",
        *AT_BAD,
    ),
    script(
        "process-handler-raises",
        "ProcessingError",
        "the processing.exception.handler __main__.fails failed itself",
        "node='user'",
        *AT_BAD,
    ),
    script("process-handler-nothing", "ProcessingError", "returned None: it must return", "node='user'", *AT_BAD),
    script("write-handler-nothing", "ProductionError", "the production.exception.handler", "it must return", *AT_BAD),
]


def goes_on(case: str, written: list[str], *words: str) -> Row:
    """A mistake that is no reason to stop: the log tells it, and the rest is processed and committed."""

    def check(outcome: Outcome) -> None:
        assert outcome.facts == {"committed": 3, "written": written}
        told = [line for line in outcome.err.splitlines() if all(word in line for word in words)]
        assert told, outcome.err
        assert "Traceback" not in outcome.err

    return Row(case, script(case, "", mended=False).run, status=0, told=(), checks=(check,))


def _all_committed(outcome: Outcome) -> None:
    assert outcome.facts == {"committed": 3, "written": ["good", "bad", "good"]}
    assert OF_USER in outcome.err


CODE += [
    Row(
        "close",
        script("close", "", mended=False).run,
        status=1,
        told=("ProcessingError: processor 'user' could not be closed: KeyError", "task='0_0'", "node='user'"),
        checks=(_all_committed,),
    ),
    goes_on(
        "extractor-negative",
        ["good", "good"],  # a negative time is how an extractor drops a record
        "WARNING record dropped: its timestamp extractor gave a negative time in events 0 1 -7",
    ),
    goes_on("state-listener-raises", ["good", "bad", "good"], "ERROR the state listener", "raised"),
]

# ---------------------------------------------------------------------- the module

MODULES = [
    command(f"module {module}", (module,), f"error: {told}")
    for module, told in {
        "unfinished:topology": "module unfinished failed to import (unfinished.py, line 1)",
        "raising:topology": "module raising failed to import (raising.py, line 1)",
        "importing:topology": "module importing failed to import (importing.py, line 1)",
        "absent:topology": "module 'absent' does not exist in",
        "returning:topology": "returning:topology must return a topology",
        "returning:text": "returning:text must return a topology",
        "returning:fails": "returning:fails failed (returning.py, line 4)",
        "returning:asks": "returning:asks takes the arguments one, two, but must take none, or one",
        "fine:topologie": "module fine does not have function 'topologie'",
        "not-fine": "'not-fine' is not an application: give its file or module",
        "broken_name.py": "file ",
    }.items()
]

# ---------------------------------------------------------------------- the configuration

CONFIG = [
    command(f"setting {' '.join(given)}", ("fine:topology", *(word for one in given for word in ("-c", one))), told)
    for given, told in {
        ("num.stream.thread=2",): "error: num.stream.thread is not a setting, did you mean num.stream.threads?",
        ("colour=blue",): "error: colour is not a setting",
        ("num.stream.threads=two",): "error: num.stream.threads must be a whole number, got 'two'",
        ("num.stream.threads=0",): "error: num.stream.threads must be at least 1, got 0",
        ("commit.interval.ms=-1",): "error: commit.interval.ms must be",
        ("poll.ms=1.5",): "error: poll.ms must be a timedelta or whole milliseconds",
        ("processing.guarantee=exactly_onse",): "error: processing.guarantee must be",
        ("processing.guarantee=exactly_once",): "error: processing.guarantee",
        ("producer.acks=1",): "error: producer.acks must be all",
        ("producer.enable.idempotence=false",): "error: producer.enable.idempotence must be true",
        (
            "processing.guarantee=exactly_once_v2",
            "commit.interval.ms=20000",
        ): "error: commit.interval.ms is 20000, more than producer.transaction.timeout.ms (10000)",
        (
            "processing.guarantee=exactly_once_v2",
            "consumer.isolation.level=read_uncommitted",
        ): "error: consumer.isolation.level must be read_committed under exactly_once_v2",
        ("deserialization.exception.handler=fine:nobody",): "error: deserialization.exception.handler",
        ("default.key.serde=Serdes.STRINGS",): "error: default.key.serde",
        ("sasl.jaas.config=x",): "error: sasl.jaas.config has no equivalent in librdkafka",
    }.items()
]
CONFIG += [
    command("setting without a value", ("fine:topology", "-c", "colour"), "error: -c takes key=value, got 'colour'"),
    command("file of settings missing", ("fine:topology", "--config", "none.toml"), "error: none.toml cannot be read"),
    command(
        "file of settings malformed",
        ("fine:topology", "--config", "bad.toml"),
        "error: bad.toml is not valid TOML",
        prepare=lambda folder: _write(folder / "bad.toml", "a = = 1"),
    ),
    command(
        "several settings",
        ("fine:topology", "-c", "num.stream.threads=none", "-c", "colour=blue"),
        "num.stream.threads must be a whole number, got 'none'",
        lines=3,
    ),
    command(
        "workers none", ("fine:topology", "--workers", "0"), "streams run: error: argument --workers: must be", lines=0
    ),
    command(
        "workers with wrong settings", ("fine:topology", "--workers", "2", "-c", "poll.ms=x"), "error: poll.ms must"
    ),
]


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


# ---------------------------------------------------------------------- the state directory


def _other_application(folder: Path, version: int = 1) -> None:
    metadata = {"format_version": version, "application_id": "other", "process_uuid": "0" * 32}
    _write(folder / "state" / "app" / "streams-metadata.json", json.dumps(metadata))


def _java(folder: Path) -> None:
    (folder / "state" / "app" / "0_0" / "rocksdb" / "counts").mkdir(parents=True)


DIRECTORIES = [
    command(
        f"state directory {name}",
        ("fine:topology", "-c", "state.dir={folder}/state"),
        told,
        "/state",
        status=status,
        prepare=prepare,
    )
    for name, told, status, prepare in (
        (
            "of another application",
            "belongs to the application 'other', not to 'app': set another",
            2,
            _other_application,
        ),
        ("of Java", "holds state of Kafka Streams in Java", 2, _java),
        (
            "of a newer version, cut",
            "was written by a newer version",
            2,
            lambda folder: _write(folder / "state/app/streams-metadata.json", '{"format_version": 7, "appl'),
        ),
        ("in the way", "is not a directory: move it elsewhere", 2, lambda folder: _write(folder / "state", "x")),
        ("of a newer version", "was written by a newer version", 2, lambda folder: _other_application(folder, 2)),
    )
]


def _plain_script(line: str, folder: Path) -> Outcome:
    settings = {"application.id": "app", "bootstrap.servers": "localhost:1", "state.dir": str(folder / "state")}
    source = "Topology().add_source('in', 'events', key_serde='bytes', value_serde='bytes')"
    code = "from streams import *\n" + line.format(f"{source}, {settings!r}")
    return run_python(["-c", code], folder)


def _of_java_in_a_script(folder: Path) -> Outcome:
    _java(folder)
    return _plain_script("KafkaStreams({}).start()", folder)


def _cleaned_up_in_use(folder: Path) -> Outcome:
    """Several processes may share it, so that use is refused only for what would take state from another."""
    lock = StateDirectory.open(folder / "state", "app").try_lock_task(TaskId(0, 3))
    assert lock is not None
    with lock:
        return _plain_script("KafkaStreams({}).clean_up()", folder)


DIRECTORIES += [
    Row(
        "state directory of Java in a script",
        _of_java_in_a_script,
        status=1,
        told=("processor_api.errors.StateDirectoryError: ", "holds state of Kafka Streams in Java"),
    ),
    Row(
        "state directory in use",
        _cleaned_up_in_use,
        status=1,
        told=(
            "processor_api.errors.StateDirectoryError: task 0_3 in ",
            "is open, by process ",
            ": stop every process of the application before cleaning up",
        ),
    ),
]

TABLE: list[Row] = [*CODE, *MODULES, *CONFIG, *DIRECTORIES]
