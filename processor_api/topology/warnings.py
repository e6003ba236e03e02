"""Warnings about a topology that can run, but hardly does what its author means."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from processor_api.texts import MOST_TEXT, shown
from processor_api.topology.cycles import Cycle, cycles_of
from processor_api.topology.data import TopologyData
from processor_api.user_code.lines import Line, at, text_of

log = logging.getLogger("streams.topology")

_DERIVED = "warnings"


@dataclass(frozen=True, kw_only=True)
class TopologyWarning:
    """Describes one likely mistake."""

    what: str
    """Its kind, such as ``returns-none`` or ``cycle``."""
    text: str
    node: str | None = None
    made_at: Line | None = None
    """The line of the user's script that made the node."""

    def __str__(self) -> str:
        return shown(f"{self.text}{'' if self.made_at is None else f', made{at(self.made_at)}'}", MOST_TEXT)


def warnings_of(topology: TopologyData, more: Iterable[TopologyWarning] = ()) -> tuple[TopologyWarning, ...]:
    """Returns the warnings about a topology, and logs those that were not found before.

    :param more: warnings that only the builder of the topology can find; they are kept with it.
    """
    found: tuple[TopologyWarning, ...] | None = topology.derived.get(_DERIVED)
    if found is None:
        found = (*_of_nothing(topology), *more, *(_of_cycle(cycle, topology) for cycle in cycles_of(topology)))
        topology.derived[_DERIVED] = found
        for one in found:
            log.warning(str(one), extra={"warning": one.what, "node": one.node, "made_at": text_of(one.made_at)})
    return found


def _of_nothing(topology: TopologyData) -> Iterator[TopologyWarning]:
    if not topology.nodes:
        yield TopologyWarning(
            what="empty",
            text="the topology is empty: no call has added a source; begin with stream(topic) of the builder that is"
            " built, or add_source(...) of the topology",
        )


def _of_cycle(cycle: Cycle, topology: TopologyData) -> TopologyWarning:
    return TopologyWarning(
        what="cycle",
        text=f"{cycle}: its records are processed again and again unless something on the way stops them; check the"
        f" names of the topics{at(topology.line_of(cycle.sink))}",
        node=cycle.sink,
    )
