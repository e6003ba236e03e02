"""A topology has one hash in all processes: nothing in it follows the order of a set, which differs between them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]

PROGRAM = """
import json, sys
from pathlib import Path

from golden_support.topologies import load_topologies
from state_support.bytes_stores import BytesStore
from processor_api.processor import Processor
from processor_api.topology.layout import layout_digest, layout_of
from processor_api.topology.topology import Topology
from streams import StreamsBuilder

NAMES = [one + two for one in "abcdef" for two in "abcdef"] + ["Aa", "BB", "AaAa", "BBBB"]  # of equal hashes


class Own:
    def __init__(self, name):
        self.name = name

    def build(self):
        return BytesStore(self.name)


class Two(Processor):
    def process(self, record):
        pass

    @staticmethod
    def stores():
        return {Own(name) for name in NAMES}


def sets():
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    stream = builder.stream(set(NAMES))
    stream.group_by_key().count().to_stream().to("out")
    builder.stream(frozenset(("y", "x"))).merge(stream).process(Two)
    return builder.build()


def nodes():
    topology = Topology().add_source("source", *set(NAMES)).add_processor("two", Two, "source")
    topology.copartition({"source"})
    return topology


CONFIG = {"application.id": "app", "default.key.serde": "string", "default.value.serde": "string"}
made = {"sets": sets(), "nodes": nodes()}
for name, build in load_topologies(Path(sys.argv[1])).items():
    try:
        made[name] = build(CONFIG)
    except Exception:  # some cases are of topologies that do not build
        continue
hashes = {name: [layout_digest(topology), layout_of(topology)] for name, topology in made.items()}
stores = {name: list(topology.stores) for name, topology in made.items()}
print(json.dumps([hashes, stores]))
"""


def test_hashes_and_stores_are_the_same_in_each_process() -> None:
    """Was that workers of one application took each other for another topology, where a stream read a set of topics."""
    found = []
    path = os.pathsep.join([str(TESTS / "support"), str(TESTS.parent)])
    for seed in ("0", "1", "4242"):
        run = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(TESTS / "golden" / "topologies")],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=True,
        )
        found.append(json.loads(run.stdout))
    hashes, stores = found[0]
    assert len(hashes) > 200
    assert all(other == found[0] for other in found[1:])
    assert stores["sets"][-len(stores["nodes"]) :] == sorted(stores["nodes"])
