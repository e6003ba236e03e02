"""Every topology of this directory, by the name of its recording.

Each module here has ``CASES``, from a recording's name to a function of the configuration; modules are found by their
files and loaded by path, so a new one needs no registration.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from golden_support.topologies import TopologyFunction, collect_cases

TOPOLOGIES: Mapping[str, TopologyFunction] = collect_cases(Path(__file__).parent, but=Path(__file__).name)
