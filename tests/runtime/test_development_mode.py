"""In Python's development mode a test driver's store tells when another thread uses it; otherwise nothing is looked at,
since a driver may be used by one thread after the other."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import threading
from streams import Processor, Serdes, Stores, Topology, TopologyTestDriver

class Hand(Processor):
    def init(self, context):
        self.store = context.get_state_store("s")

    def process(self, record):
        self.store.put(record.key, "mine")
        thread = threading.Thread(target=self.put, args=(record.key,), name="stranger")
        thread.start()
        thread.join()

    def put(self, key):
        try:
            self.store.put(key, "theirs")
        except Exception as error:
            print(type(error).__name__, error)

S = Serdes.STRING
store = Stores.key_value_store_builder(Stores.in_memory_key_value_store("s"), S, S)
topology = Topology().add_source("source", "in", key_serde=S, value_serde=S)
topology.add_processor("hand", Hand, "source").add_state_store(store, "hand")
with TopologyTestDriver(topology) as driver:
    driver.create_input_topic("in", S, S).pipe_input("k", "v")
    print(driver.get_state_store("s").get("k"))
"""


@pytest.mark.parametrize(("flags", "says"), [((), "theirs"), (("-X", "dev"), "mine")])
def test_another_thread(flags: tuple[str, ...], says: str) -> None:
    done = subprocess.run(
        [sys.executable, *flags, "-W", "ignore", "-c", SCRIPT], capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout.splitlines()[-1] == says
    assert ("StoreError store 's' is used by thread 'stranger'" in done.stdout) is bool(flags)
