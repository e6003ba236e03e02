"""Keys of a running application expire, on a broker in memory, and another worker agrees."""

from __future__ import annotations

from pathlib import Path

import pytest

from processor_api.context import ProcessorContext
from processor_api.processor import Processor
from processor_api.record import Record
from processor_api.serde import Serdes
from processor_api.stores.factory import Stores
from processor_api.topology.topology import Topology
from runtime_support.running_app import Cluster
from waiting import wait_until

S = Serdes.STRING


class Keep(Processor[str, str, str, str]):
    """Puts each value; ``?`` reads its key, ``*`` lists all."""

    def init(self, context: ProcessorContext[str, str]) -> None:
        super().init(context)
        self.store = context.get_state_store("s")

    def process(self, record: Record[str, str]) -> None:
        if record.value == "*":
            with self.store.all() as rows:
                self.context.forward(record.with_value(" ".join(f"{key}={value}" for key, value in rows)))
        elif record.value == "?":
            self.context.forward(record.with_value(str(self.store.get(record.key))))
        else:
            self.store.put(record.key, record.value)


def topology(by: str, *, memory: bool) -> Topology:
    supplier = Stores.in_memory_key_value_store("s") if memory else Stores.persistent_key_value_store("s")
    builder = Stores.key_value_store_builder(supplier, S, S).with_time_to_live(100, by)
    made = Topology().add_source("source", "in", key_serde=S, value_serde=S).add_processor("keep", Keep, "source")
    return made.add_state_store(builder, "keep").add_sink("sink", "out", "keep", key_serde=S, value_serde=S)


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
@pytest.mark.parametrize("memory", [False, True])
@pytest.mark.parametrize("by", ["record_time", "access"])
def test_a_worker_without_state_shows_the_same_keys(by: str, memory: bool, guarantee: str, tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    broker = cluster.broker
    source = cluster.clients.producer({})

    def changelog() -> list[tuple[bytes | None, bytes | None]]:
        records = broker.records("app-s-changelog", read_committed=True)
        return [(record.key(), record.value()) for record in records]

    def ask(*records: tuple[str, str, int], state: str, tombstones: int = 0) -> str:
        """What a new worker answers to the last record, once the changelog has that many tombstones."""
        seen = len(broker.records("out", read_committed=True))
        answers = sum(value in "?*" for _, value, _ in records)
        config = {"processing.guarantee": guarantee, "state.dir": str(tmp_path / state)}
        app = cluster.app(topology(by, memory=memory), config)
        for key, value, time in records:
            source.produce("in", value.encode(), key.encode(), 0, None, None, time, None)
        source.flush()
        wait_until("answers", lambda: len(broker.records("out", read_committed=True)) >= seen + answers)
        wait_until("tombstones", lambda: [value for _, value in changelog()].count(None) >= tombstones, changelog)
        assert app.close(60)
        return (broker.records("out", read_committed=True)[-1].value() or b"").decode()

    everything = "k", "*"
    first = ask(("a", "1", 10), ("b", "2", 20), ("c", "3", 60), ("a", "?", 90), (*everything, 105), state="one")
    assert first == "a=1 b=2 c=3"
    assert ask((*everything, 125), state="two") == ("a=1 c=3" if by == "access" else "c=3")
    assert ask((*everything, 165), state="three") == ("a=1" if by == "access" else "")
    assert ask((*everything, 300), state="four") == ""
    assert ask((*everything, 360), state="five", tombstones=3) == ""  # one commit later
    cluster.close()
    assert dict(changelog()) == {b"a": None, b"b": None, b"c": None}
