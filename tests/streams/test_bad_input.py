"""What a user gets wrong gives one clear error that names the place, and an exit status that is not zero.

Topologies run through the test driver as a script of the user's does, several in one process; the command line runs in
a process of its own.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from processor_api.errors import StreamsError
from processor_api.task_id import TaskId
from state.directory import StateDirectory
from streams.cli.failures import CannotRun, report
from streams.cli.run import refuse_free_threading

REPOSITORY = Path(__file__).resolve().parents[2]

APP = """
import sys
from streams import *

def fails(*_):
    raise KeyError("user's own")

STRING = Serdes.STRING
BROKEN = Serde(fails, fails, name="broken")
SETTINGS = {"default.key.serde": STRING, "default.value.serde": STRING}

class Same(Processor):
    def process(self, record): pass

class Failing(Processor):
    def process(self, record): fails()

class FailingInit(Processor):
    def init(self, context): fails()
    def process(self, record): pass

class Punctual(Processor):
    def init(self, context): context.schedule(10, PunctuationType.STREAM_TIME, fails)
    def process(self, record): pass

def stream(make):
    builder = StreamsBuilder()
    make(builder)
    return builder.build()

def processor(supplier, *builders, **serdes):
    topology = Topology().add_source("in", "events", **serdes).add_processor("user", supplier, "in")
    for one in builders:
        topology.add_state_store(one, "user")
    return topology

def store(name, value_serde=STRING):
    return Stores.key_value_store_builder(Stores.in_memory_key_value_store(name), STRING, value_serde)

class Puts(Processor):
    def init(self, context): self.store = context.get_state_store("kept")
    def process(self, record): self.store.put(record.key, record.value)

def global_store(name, topic="global", logs=False):
    builder = store(name) if logs else store(name).with_logging_disabled()
    return lambda topology: topology.add_global_store(builder, f"{name}-s", topic, f"{name}-p", Same)

def globally(*adds, supplier=Same):
    topology = processor(supplier)
    for add in adds:
        add(topology)
    return topology

def read_only(topology):
    topology.add_read_only_state_store(store("kept"), "kept-s", "table", "kept-p", Same)
    topology.connect_processor_and_state_stores("user", "kept")

class Late(Puts):
    def init(self, context): self.context = context
    def process(self, record): self.context.get_state_store("kept").put(record.key, record.value)

def twice(builder):
    builder.stream("a").group_by_key().count(materialized="counts")
    builder.stream("b").group_by_key().count(materialized="counts")

same = Same()
CASES = {
    "read-value": lambda: stream(lambda b: b.stream("events", Consumed(value_serde=BROKEN)).to("out")),
    "read-key": lambda: stream(lambda b: b.stream("events", Consumed(key_serde=BROKEN)).to("out")),
    "write-value": lambda: stream(lambda b: b.stream("events").to("out", Produced(value_serde=BROKEN))),
    "write-key": lambda: stream(lambda b: b.stream("events").to("out", Produced(key_serde=BROKEN))),
    "write-type": lambda: stream(lambda b: b.stream("events").map_values(len).to("out")),
    "store-write": lambda: processor(Puts, store("kept", BROKEN)),
    "function": lambda: stream(lambda b: b.stream("events").map_values(fails).to("out")),
    "aggregator": lambda: stream(lambda b: b.stream("events").group_by_key().aggregate(str, lambda k, v, a: fails())),
    "process": lambda: processor(Failing),
    "init": lambda: processor(FailingInit),
    "punctuation": lambda: processor(Punctual),
    "same-processor": lambda: processor(lambda: same),
    "store-twice": lambda: processor(Same, store("kept"), store("kept", BROKEN)),
    "store-twice-dsl": lambda: stream(twice),
    "no-serde": lambda: processor(Same),
    "global-written": lambda: globally(global_store("kept"), supplier=Late),
    "global-logged": lambda: globally(global_store("kept", logs=True)),
    "global-topic-twice": lambda: globally(global_store("kept"), global_store("more")),
    "global-topic-read": lambda: globally(global_store("kept", "events")),
    "global-connected": lambda: globally(
        global_store("kept"), lambda t: t.connect_processor_and_state_stores("user", "kept")
    ),
    "global-parent": lambda: globally(global_store("kept"), lambda t: t.add_sink("sink", "out", "kept-p")),
    "global-tables-twice": lambda: stream(lambda b: (b.global_table("a"), b.global_table("a"))),
    "read-only-written": lambda: globally(read_only, supplier=Late),
}

def run(case):
    settings = {} if case == "no-serde" else SETTINGS
    with TopologyTestDriver(CASES[case](), settings) as driver:
        for number in range(3):
            driver.pipe_raw("events", b"key-%d" % number, b"value", 100 * number)

if __name__ == "__main__":
    import json
    told = {}
    for case in CASES:
        try:
            run(case)
        except StreamsError as error:
            told[case] = [type(error).__name__, str(error), type(error.__cause__).__name__]
        except BaseException as error:
            told[case] = ["BARE " + type(error).__name__, str(error), ""]
        else:
            told[case] = ["nothing", "", ""]
    print(json.dumps(told))
"""


@dataclass(frozen=True)
class Told:
    kind: str
    parts: tuple[str, ...]
    cause: str = "NoneType"


AT_ONE = ("topic='events'", "partition=0", "offset=0")
OF_USER = "KeyError"
REFUSED = "StoreError"
TABLE: dict[str, Told] = {
    "read-value": Told("DeserializationError", ("the value cannot be read", "KSTREAM-SOURCE-", *AT_ONE), OF_USER),
    "read-key": Told("DeserializationError", ("the key cannot be read", "KSTREAM-SOURCE-", *AT_ONE), OF_USER),
    "write-value": Told(
        "SerializationError", ("the value cannot be written to topic 'out'", "key='key-0'", *AT_ONE), OF_USER
    ),
    "write-key": Told(
        "SerializationError", ("the key cannot be written to topic 'out'", "key='key-0'", *AT_ONE), OF_USER
    ),
    "write-type": Told(
        "SerializationError", ("the value cannot be written to topic 'out'", "key='key-0'", *AT_ONE), "AttributeError"
    ),
    "store-write": Told(
        "ProcessingError",
        ("node 'user'", "store 'kept'", "the broken serde cannot write the value", "key='key-0'", *AT_ONE),
        "StoreError",
    ),
    "function": Told("ProcessingError", ("KeyError in node 'KSTREAM-MAPVALUES-", "key='key-0'", *AT_ONE), OF_USER),
    "aggregator": Told("ProcessingError", ("KeyError in node 'KSTREAM-AGGREGATE-", "key='key-0'", *AT_ONE), OF_USER),
    "process": Told("ProcessingError", ("KeyError in node 'user'", "key='key-0'", *AT_ONE), OF_USER),
    "init": Told("ProcessingError", ("processor 'user' could not be initialised: KeyError", "task='0_0'"), OF_USER),
    "punctuation": Told("ProcessingError", ("KeyError in a punctuation of node 'user'", "task='0_0'"), OF_USER),
    "same-processor": Told("TopologyError", ("user", "same")),
    "store-twice": Told("TopologyError", ("'kept'",)),
    "store-twice-dsl": Told("TopologyError", ("'counts'",)),
    "no-serde": Told("ConfigError", ("source 'in' has no key serde", "default.key.serde")),
    "global-written": Told(
        "ProcessingError", ("node 'user' writes to store 'kept'", "a global store is written only by", *AT_ONE), REFUSED
    ),
    "global-logged": Told("TopologyError", ("global store 'kept' must not log", "with_logging_disabled()")),
    "global-topic-twice": Told("TopologyError", ("topic 'global' is already read by source 'kept-s'",)),
    "global-topic-read": Told("TopologyError", ("topic 'events' is already read by source 'in'",)),
    "global-connected": Told("TopologyError", ("do not connect it to 'user'", "store='kept'")),
    "global-parent": Told("TopologyError", ("'kept-p' fills a global store", "the parent of 'sink'")),
    "global-tables-twice": Told("TopologyError", ("topic 'a' is already read by source 'KSTREAM-SOURCE-",)),
    "read-only-written": Told(
        "ProcessingError", ("node 'user' writes to store 'kept'", "only node 'kept-p' writes to it", *AT_ONE), REFUSED
    ),
}


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    app = tmp_path_factory.mktemp("bad") / "bad_app.py"
    app.write_text(APP)
    found = run_python([str(app)], app.parent)
    assert found.returncode == 0, found.stderr
    lines: dict[str, list[str]] = json.loads(found.stdout)
    return lines


def run_python(arguments: list[str], cwd: Path, python: str = sys.executable) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    return subprocess.run([python, *arguments], cwd=cwd, env=environment, capture_output=True, text=True, timeout=120)


def test_the_table_is_complete(told: dict[str, list[str]]) -> None:
    assert told.keys() == TABLE.keys()


@pytest.mark.parametrize("case", TABLE)
def test_a_topology_that_fails_says_where(case: str, told: dict[str, list[str]]) -> None:
    kind, text, cause = told[case]
    assert kind == TABLE[case].kind, text
    assert [part for part in TABLE[case].parts if part not in text] == [], text
    assert cause == TABLE[case].cause
    assert "\n" not in text


def test_an_uncaught_error_ends_a_script_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "bad_app.py").write_text(APP)
    found = run_python(["-c", "import bad_app; bad_app.run('function')"], tmp_path)
    assert found.returncode == 1
    last = found.stderr.strip().splitlines()[-1]
    assert last.startswith("processor_api.errors.ProcessingError: KeyError in node ")
    assert "topic='events', partition=0, offset=0" in last


# ---------------------------------------------------------------------- the command line

MODULES = {
    "unfinished.py": "def topology(:\n",
    "raising.py": "x = {}['missing']\n",
    "importing.py": "import no_such_library\n",
    "returning.py": "def topology(): return None\ndef text(): return 'topology'\ndef fails(): return 1 / 0\n",
    "fine.py": "from streams import *\ndef topology(): return Topology().add_source('in', 'events')\n",
}
COMMANDS = {
    "unfinished:topology": "module unfinished failed to import (unfinished.py, line 1)",
    "raising:topology": "module raising failed to import (raising.py, line 1)",
    "importing:topology": "module importing failed to import (importing.py, line 1)",
    "absent:topology": "there is no module 'absent' in",
    "returning:topology": "returning:topology returned None; it must return a topology",
    "returning:text": "returning:text returned 'topology'; it must return a topology",
    "returning:fails": "returning:fails failed (returning.py, line 3)",
    "fine:topologie": "module fine has no function 'topologie'",
    "fine": "'fine' does not name a topology: give it as module:function",
}
RUN_ALL = """
import contextlib, io, json, sys
from streams.cli.main import main
told = {}
for one in json.loads(sys.argv[1]):
    with contextlib.redirect_stderr(io.StringIO()) as text:
        status = main(["run", one, "--application-id", "app", "--bootstrap-servers", "localhost:1", *sys.argv[2:]])
    told[one] = [status, text.getvalue()]
print(json.dumps(told))
"""


def run_commands(tmp_path: Path, topologies: list[str], *options: str) -> dict[str, list[Any]]:
    for name, text in MODULES.items():
        (tmp_path / name).write_text(text)
    found = run_python(["-c", RUN_ALL, json.dumps(topologies), *options], tmp_path)
    assert found.returncode == 0, found.stderr
    told: dict[str, list[Any]] = json.loads(found.stdout)
    return told


def test_a_topology_that_cannot_be_loaded_is_one_line_and_status_2(tmp_path: Path) -> None:
    told = run_commands(tmp_path, list(COMMANDS))
    for topology, wanted in COMMANDS.items():
        status, text = told[topology]
        assert status == 2, (topology, text)
        assert text.startswith(f"error: {wanted}"), (topology, text)
        assert text.count("\n") == 1, (topology, text)


def _other_application(path: Path) -> None:
    (path / "app").mkdir(parents=True)
    metadata = {"format_version": 1, "application_id": "other", "process_uuid": "0" * 32}
    (path / "app" / "streams-metadata.json").write_text(json.dumps(metadata))


def _java(path: Path) -> None:
    (path / "app" / "0_0" / "rocksdb").mkdir(parents=True)


def _damaged(path: Path) -> None:
    (path / "app").mkdir(parents=True)
    (path / "app" / "streams-metadata.json").write_text("{")


def _file(path: Path) -> None:
    path.write_text("in the way")


def _newer(path: Path) -> None:
    _other_application(path)
    file = path / "app" / "streams-metadata.json"
    file.write_text(file.read_text().replace('"format_version": 1', '"format_version": 2'))


DIRECTORIES: dict[str, tuple[Callable[[Path], None], str]] = {
    "another application": (_other_application, "belongs to the application 'other', not to 'app': set another"),
    "Java": (_java, "holds state of Kafka Streams in Java"),
    "damaged": (_damaged, "is damaged: move"),
    "a file": (_file, "is not a directory: move it out of the way"),
    "newer": (_newer, "was written by a newer version of this library"),
}


@pytest.mark.parametrize("case", DIRECTORIES)
def test_a_state_directory_that_cannot_be_used_is_told(case: str, tmp_path: Path) -> None:
    prepare, wanted = DIRECTORIES[case]
    prepare(tmp_path / "state")
    status, text = run_commands(tmp_path, ["fine:topology"], "-c", f"state.dir={tmp_path / 'state'}")["fine:topology"]
    errors = [line for line in text.splitlines() if line.startswith("error: ")]
    assert status != 0
    assert len(errors) == 1, text
    assert wanted in errors[0]
    assert str(tmp_path / "state") in errors[0]
    assert "Traceback" not in text


@pytest.mark.parametrize(
    ("mount", "prepare", "wanted"),
    [
        ("size=4m", 'mount -o remount,ro "$1" &&', "is on a read-only file system: set state.dir"),
        ("size=4k", 'dd if=/dev/zero of="$1/full" bs=4k 2>/dev/null;', "there is no space left for"),
    ],
)
def test_a_disk_that_takes_no_state_is_told(mount: str, prepare: str, wanted: str, tmp_path: Path) -> None:
    """On a file system of its own, in a mount namespace; not every machine allows that."""
    probe = ["unshare", "--user", "--map-root-user", "--mount"]
    if shutil.which("unshare") is None or subprocess.run([*probe, "true"], capture_output=True).returncode != 0:
        pytest.skip("needs user and mount namespaces")
    (tmp_path / "fine.py").write_text(MODULES["fine.py"])
    state = tmp_path / "state"
    state.mkdir()
    words = "run fine:topology --application-id app --bootstrap-servers localhost:1 -c"
    script = f'mount -t tmpfs -o {mount} none "$1" && {prepare} exec "$2" -m streams {words} state.dir="$1"'
    found = subprocess.run(
        [*probe, "sh", "-c", script, "sh", str(state), sys.executable],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert found.returncode == 1, found.stderr
    assert wanted in found.stderr.splitlines()[-1]
    assert "Traceback" not in found.stderr


def test_a_script_whose_state_directory_is_refused_gets_a_streams_error(tmp_path: Path) -> None:
    _java(tmp_path)
    code = (
        "from streams import *\n"
        "topology = Topology().add_source('in', 'events')\n"
        f"settings = {{'application.id': 'app', 'bootstrap.servers': 'localhost:1', 'state.dir': {str(tmp_path)!r}}}\n"
        "KafkaStreams(topology, settings).start()\n"
    )
    found = run_python(["-c", code], tmp_path)
    assert found.returncode == 1
    assert found.stderr.splitlines()[-1].startswith("processor_api.errors.StateDirectoryError: ")


def test_a_state_directory_in_use_cannot_be_cleaned_up(tmp_path: Path) -> None:
    """Several processes may share it, so that use is refused only for what would take state from another."""
    lock = StateDirectory.open(tmp_path, "app").try_lock_task(TaskId(0, 3))
    assert lock is not None
    code = (
        "from streams import *\n"
        f"settings = {{'application.id': 'app', 'bootstrap.servers': 'localhost:1', 'state.dir': {str(tmp_path)!r}}}\n"
        "KafkaStreams(Topology().add_source('in', 'events'), settings).clean_up()\n"
    )
    with lock:
        found = run_python(["-c", code], tmp_path)
    assert found.returncode == 1
    last = found.stderr.splitlines()[-1]
    assert last.startswith("processor_api.errors.StateDirectoryError: task 0_3 in ")
    assert "is open: stop every process of the application before cleaning up" in last


def test_python_without_the_gil_is_one_line_and_status_2(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(CannotRun) as caught:
        refuse_free_threading(lambda: False)
    assert not isinstance(caught.value, StreamsError)
    assert report(caught.value, trace=False) == 2
    told = capsys.readouterr().err
    assert told.startswith("error: this Python runs without the GIL")
    assert told.count("\n") == 1
