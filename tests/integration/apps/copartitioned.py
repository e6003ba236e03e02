"""Reads two topics that must be co-partitioned."""

import os

from streams import Serdes, Topology

TEXT = Serdes.STRING


def topology() -> Topology:
    """The environment names the topics."""
    topology = Topology()
    sources = []
    for number, topic in enumerate(os.environ["INPUTS"].split(",")):
        sources.append(f"source-{number}")
        topology.add_source(sources[-1], topic, key_serde=TEXT, value_serde=TEXT)
    topology.add_sink("sink", os.environ["OUTPUT"], *sources, key_serde=TEXT, value_serde=TEXT)
    return topology.copartition(sources)
