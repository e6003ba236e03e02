"""Window and session stores of a running application come back from their changelogs, on a broker in memory."""

from __future__ import annotations

import pytest

from processor_api.context import ProcessorContext
from processor_api.processor import Processor
from processor_api.record import Record
from processor_api.serde import Serdes
from processor_api.stores.factory import Stores
from processor_api.stores.windowed import Window, Windowed
from processor_api.topology.topology import Topology
from runtime_support.running_app import Cluster

S = Serdes.STRING


class Keep(Processor[str, str, str, str]):
    """Keeps each value in a window and a session at the record's time; a value of ``?`` asks for all that is kept."""

    def init(self, context: ProcessorContext[str, str]) -> None:
        super().init(context)
        self.windows, self.sessions = context.get_state_store("windows"), context.get_state_store("sessions")

    def process(self, record: Record[str, str]) -> None:
        time = record.timestamp
        if record.value != "?":
            self.windows.put(record.key, record.value, time)
            self.sessions.put(Windowed(record.key, Window(time - 1, time)), record.value)
            return
        with self.windows.all() as rows:
            windows = [f"{key.window.start}={value}" for key, value in rows]
        with self.sessions.fetch_keys(None, None) as rows:
            sessions = [f"{key.window.start}-{key.window.end}={value}" for key, value in rows]
        self.context.forward(record.with_value(" ".join(windows + sessions)))


def topology(*, memory: bool, time_ordered: bool) -> Topology:
    windows = Stores.in_memory_window_store if memory else Stores.persistent_window_store
    sessions = Stores.in_memory_session_store if memory else Stores.persistent_session_store
    made = Topology().add_source("source", "in", key_serde=S, value_serde=S).add_processor("keep", Keep, "source")
    made.add_state_store(
        Stores.window_store_builder(windows("windows", 100, 10, True, time_ordered=time_ordered), S, S), "keep"
    )
    made.add_state_store(
        Stores.session_store_builder(sessions("sessions", 100, time_ordered=time_ordered), S, S), "keep"
    )
    return made.add_sink("sink", "out", "keep", key_serde=S, value_serde=S)


@pytest.mark.parametrize("time_ordered", [False, True])
@pytest.mark.parametrize("memory", [False, True])
def test_a_worker_without_state_restores_it(memory: bool, time_ordered: bool, cluster: Cluster) -> None:
    """With its time, what has expired, and the sequence numbers of duplicates."""

    def answer(directory: str, *records: tuple[str, int]) -> str:
        made = topology(memory=memory, time_ordered=time_ordered)
        return cluster.answer(made, directory, *(("k", value, time) for value, time in records))

    first = answer("one", ("a", 10), ("b", 150), ("c", 200), ("c2", 200), ("late", 50), ("?", 200))
    assert first == "150=b 200=c 200=c2 149-150=b 199-200=c2"
    assert answer("two", ("?", 200)) == first
    again = answer("three", ("d", 200), ("?", 200))
    assert again == "150=b 200=c 200=c2 200=d 149-150=b 199-200=d"
    assert answer("three", ("?", 200)) == again
