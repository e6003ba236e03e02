"""Each file of a state directory is damaged in each way: the next start goes on, and counts as if nothing had been.

What a start needs of a file comes back from Kafka, or is made again (docs/rocksdb.md).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from dsl import Consumed, Grouped, Materialized, Produced, StreamsBuilder
from processor_api.serde import Serdes
from processor_api.topology.topology import Topology
from runtime_support.files import files_of
from runtime_support.running_app import Cluster
from samples import sample_of
from streams.app.states import ClientState

S = Serdes.STRING
STRINGS: Consumed[str, str] = Consumed(key_serde=S, value_serde=S)
SECOND = b"another run of bytes, which is none of what belongs there. "

DAMAGE: dict[str, Callable[[Path, bytes], object]] = {
    "gone": lambda path, was: None,
    "empty": lambda path, was: path.write_bytes(b""),
    "half": lambda path, was: path.write_bytes(was[: len(was) // 2]),
    "zeros": lambda path, was: path.write_bytes(bytes(max(64, len(was)))),
    "garbage": lambda path, was: path.write_bytes(SECOND * (1 + len(was) // len(SECOND))),
    "a directory": lambda path, was: (path.mkdir(), (path / "content").touch()),
}
FILES = [
    "streams-metadata.json",
    "locks/directory.lock",
    "locks/TASK.lock",
    "slots/0.lock",
    *(
        f"{place}/rocksdb/{name}"
        for place in ("TASK", "global/0")
        for name in ("CURRENT", "IDENTITY", "LOCK", "LOG", "MANIFEST-*", "OPTIONS-*", "*.log", "*.sst")
    ),
    "TASK/rocksdb/rocksdict-config.json",
]


def topology() -> Topology:
    builder = StreamsBuilder()
    builder.global_table("names", STRINGS, materialized=Materialized(name="names"))
    counts = builder.stream("in", STRINGS).group_by_key(Grouped(key_serde=S, value_serde=S)).count()
    counts.map_values(str).to_stream().to("out", Produced(key_serde=S, value_serde=S))
    return builder.build()


def goes_on(kit: Cluster, expected: str) -> None:
    """Starts the application, which counts one more."""
    app = kit.app(topology(), processing_guarantee="exactly_once_v2")
    kit.send("c")
    kit.until(lambda: kit.values()[-1] == expected or app.state is ClientState.ERROR)
    assert app.failure is None, app.failure
    app.close()


CASES = [(file, how) for file in FILES for how in DAMAGE]


@pytest.mark.parametrize(("file", "how"), sample_of(CASES, 3, "each file", group=lambda case: case[0]))
def test_a_start_goes_on_whatever_file_is_damaged_and_however(file: str, how: str, tmp_path: Path) -> None:
    topics = {"in": 1, "out": 1, "names": 1}
    with Cluster(tmp_path, topics=topics, one_state=True) as kit:
        kit.send_pairs("names", [("x", "1")])
        app = kit.start(topology(), processing_guarantee="exactly_once_v2")
        kit.send("a", "b")
        kit.until(lambda: kit.committed() == 2)
        app.close()
        root = tmp_path / "app"
        (task,) = [path.parent.name for path in root.glob("*/rocksdb")]
        folder, _, name = file.replace("TASK", task).rpartition("/")
        found = files_of(root / folder, name)
        assert found, file
        was = found[0].read_bytes()
        found[0].unlink()
        DAMAGE[how](found[0], was)
        for expected in ("3", "4"):  # the second start finds nothing wrong
            goes_on(kit, expected)
