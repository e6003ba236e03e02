"""The layout of a topology: what two versions of an application must have in common to run side by side.

A worker hands a task on to others by the committed offsets and the changelogs. So the two may run beside each other if
a task means the same to both: it reads the same topics, and has the same stores in the same form. What its operators
are called, which of them have no store, and where results go, may differ: each record is processed once, by one version
or the other.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any, NamedTuple

from processor_api.serde import Serde
from processor_api.stores.builder import StoreBuilder
from processor_api.topology.data import TopologyData
from processor_api.topology.nodes import ProcessorNode, SinkNode, SourceNode
from processor_api.topology.subtopology import Subtopology, subtopologies
from processor_api.user_code.durations import to_ms

FORMAT = 1
"""The version of the form of a layout."""

TopologyLayout = Mapping[str, Any]
"""A layout as plain data of JSON."""


def layout_of(topology: TopologyData) -> TopologyLayout:
    """Returns the layout of a topology."""
    parts = subtopologies(topology)
    return {
        "format": FORMAT,
        "subtopologies": {str(part.id): _subtopology(topology, part) for part in parts if not part.is_global},
        "global stores": {
            name: _store(store.builder, topology.source_changelogs.get(name))
            for name, store in sorted(topology.global_stores.items())
        },
    }


def is_layout(value: Any) -> bool:
    """Whether a value read from JSON is a layout of this form."""
    return (
        isinstance(value, dict) and value.get("format") == FORMAT and {"subtopologies", "global stores"} <= value.keys()
    )


def layout_digest(topology: TopologyData, besides: str = "") -> str:
    """Returns eight hexadecimal digits by which workers know that their topologies may run side by side.

    :param besides: what else both have to agree in.
    """
    tasks = {
        number: {what: found for what, found in part.items() if what in _OF_TASKS}
        for number, part in layout_of(topology)["subtopologies"].items()
    }
    return hashlib.sha256((json.dumps(tasks, sort_keys=True) + besides).encode()).hexdigest()[:8]


_OF_TASKS = ("reads", "patterns", "repartitions", "stores", "times")
"""The parts of a subtopology in which both versions must agree."""


def _subtopology(topology: TopologyData, part: Subtopology) -> TopologyLayout:
    nodes = [topology.nodes[name] for name in part.nodes]
    sources = [node for node in nodes if isinstance(node, SourceNode)]
    return {
        "reads": sorted(part.topics),
        "patterns": sorted(node.pattern.pattern for node in sources if node.pattern is not None),
        "repartitions": {
            topic: {"partitions": topology.repartition_topics[topic].partitions, **_serdes(node)}
            for node in sorted(sources, key=lambda one: one.topics)
            for topic in sorted(node.topics)
            if topic in topology.repartition_topics
        },
        "stores": {
            name: _store(topology.stores[name], topology.source_changelogs.get(name)) for name in sorted(part.stores)
        },
        "times": sorted(
            name
            for node in nodes
            if isinstance(node, ProcessorNode) and node.own_time is not None
            for name in (node.own_time.store, node.own_time.observed, node.own_time.sent)
            if name is not None
        ),
        "calls": sorted(topology.call_of(node.name) or node.name for node in nodes if isinstance(node, ProcessorNode)),
        "writes": sorted({topic for node in nodes if isinstance(node, SinkNode) for topic in _written(node)}),
    }


def _written(node: SinkNode) -> tuple[str, ...]:
    return (node.topic,) if node.topic is not None else (*node.declared_topics, f"(chosen by {node.name})")


def _store(builder: StoreBuilder[Any, Any], changelog: str | None) -> TopologyLayout:
    supplier, expires = builder.supplier, builder.time_to_live
    return {
        "kind": builder.kind,
        **_serdes(builder),
        **{name: _plain(value) for name, value in sorted(supplier.parameters.items())},
        "changelog": changelog or ("own" if builder.logging else "none"),
        **({} if expires is None else {"time to live": _plain(expires)}),
    }


def _serdes(of: SourceNode | StoreBuilder[Any, Any]) -> TopologyLayout:
    return {"key": _name(of.key_serde), "value": _name(of.value_serde)}


def _name(serde: Serde[Any] | None) -> str | None:
    return None if serde is None else serde.name


def _plain(value: Any) -> Any:
    """Returns a parameter as JSON has it; of one that is not a number, text or duration, what it is."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, timedelta):
        return to_ms(value, "a parameter of a store")
    fields = getattr(value, "__dataclass_fields__", None)
    if fields is not None:
        return {name: _plain(getattr(value, name)) for name in sorted(fields)}
    return getattr(value, "__qualname__", type(value).__qualname__)


class Difference(NamedTuple):
    """One thing in which two versions of a topology differ."""

    text: str
    side_by_side: bool
    """Whether workers of both versions may run at the same time all the same."""
    loses: bool = False
    """Whether state or records are left behind by the change."""


def differences(old: TopologyLayout, new: TopologyLayout) -> list[Difference]:
    """Returns in what a new version differs from the one that runs, what matters most first."""
    before, after = old["subtopologies"], new["subtopologies"]
    found = [*_numbers(before, after), *_repartitions(before, after), *_stores(before, after)]
    for number in sorted(before.keys() & after.keys(), key=int):
        found += _inside(number, before[number], after[number])
    found += _global(old["global stores"], new["global stores"])
    return sorted(found, key=lambda one: (not one.loses, one.side_by_side))


def _numbers(before: TopologyLayout, after: TopologyLayout) -> Iterator[Difference]:
    """Yields which subtopologies came, went, or read something else: a task's name is made of their numbers."""
    for number in sorted(before.keys() | after.keys(), key=int):
        if number not in after:
            yield Difference(f"subtopology {number} is gone: {_reading(before[number])}", side_by_side=False)
        elif number not in before:
            yield Difference(f"subtopology {number} is new: {_reading(after[number])}", side_by_side=False)
        elif (was := _reading(before[number])) != (now := _reading(after[number])):
            yield Difference(f"subtopology {number} {now}; it {was} before", side_by_side=False)


def _reading(part: TopologyLayout) -> str:
    return f"reads {', '.join([*part['reads'], *(f'/{one}/' for one in part['patterns'])]) or 'nothing'}"


def _repartitions(before: TopologyLayout, after: TopologyLayout) -> Iterator[Difference]:
    was, now = (_merged(layout, "repartitions") for layout in (before, after))
    for topic in sorted(was.keys() - now.keys()):
        yield Difference(
            f"repartition topic {topic} is gone: a worker does not start while records of it are unread. Give the"
            " repartition or its store the former name, or stop the old version when it has read them",
            side_by_side=False,
            loses=True,
        )
    for topic in sorted(now.keys() - was.keys()):
        yield Difference(f"repartition topic {topic} is new", side_by_side=False)
    for topic in sorted(was.keys() & now.keys()):
        yield from _changed(f"repartition topic {topic}", was[topic][1], now[topic][1], keeps=False)


def _stores(before: TopologyLayout, after: TopologyLayout) -> Iterator[Difference]:
    was, now = (_merged(layout, "stores") for layout in (before, after))
    for name in sorted(was.keys() - now.keys()):
        yield Difference(
            f"store {name} is gone: its changelog stays on the cluster until you delete it",
            side_by_side=False,
            loses=True,
        )
    for name in sorted(now.keys() - was.keys()):
        yield Difference(f"store {name} is new, and begins empty", side_by_side=False)
    for name in sorted(was.keys() & now.keys()):
        (old_number, old), (number, new) = was[name], now[name]
        if number != old_number:
            yield Difference(f"store {name} is in subtopology {number}, and was in {old_number}", side_by_side=False)
        yield from _changed(f"store {name}", old, new, keeps=False)


def _merged(layout: TopologyLayout, what: str) -> dict[str, tuple[str, TopologyLayout]]:
    return {name: (number, one) for number, part in layout.items() for name, one in part[what].items()}


def _changed(what: str, old: TopologyLayout, new: TopologyLayout, *, keeps: bool) -> Iterator[Difference]:
    for name in sorted(old.keys() | new.keys()):
        if old.get(name) != new.get(name):
            text = f"{what}: {name} is {_shown(new.get(name))}, and was {_shown(old.get(name))}"
            yield Difference(text, side_by_side=keeps)


def _shown(value: Any) -> str:
    if value is None:
        return "not given"
    return value if isinstance(value, str) else json.dumps(value)


def _inside(number: str, old: TopologyLayout, new: TopologyLayout) -> Iterator[Difference]:
    """Yields what may differ between versions that run side by side, and the times of operators."""
    for time in sorted(set(old["times"]) - set(new["times"])):
        yield Difference(
            f"subtopology {number}: the stream time of {time} is no longer kept", side_by_side=False, loses=True
        )
    for time in sorted(set(new["times"]) - set(old["times"])):
        yield Difference(f"subtopology {number}: a stream time of {time} is kept", side_by_side=False)
    for what, verb in (("calls", "runs"), ("writes", "writes to")):
        more, less = Counter[str](new[what]), Counter[str](old[what])
        for name in sorted((more - less).elements()):
            yield Difference(f"subtopology {number} {verb} {name}, which is new", side_by_side=True)
        for name in sorted((less - more).elements()):
            yield Difference(f"subtopology {number} no longer {verb} {name}", side_by_side=True)


def _global(old: TopologyLayout, new: TopologyLayout) -> Iterator[Difference]:
    """Yields differences of global stores, of which each process has its own."""
    for name in sorted(new.keys() - old.keys()):
        yield Difference(f"global store {name} is new", side_by_side=True)
    for name in sorted(old.keys() - new.keys()):
        yield Difference(f"global store {name} is gone", side_by_side=True)
    for name in sorted(old.keys() & new.keys()):
        yield from _changed(f"global store {name}", old[name], new[name], keeps=True)
