"""Topologies that are drawn at random: statements of the DSL in JSON, which the recorder carries out too."""

from golden_support.composed.building import topology_of
from golden_support.composed.drawing import drawn, drawn_of_one_topic

__all__ = ["drawn", "drawn_of_one_topic", "topology_of"]
