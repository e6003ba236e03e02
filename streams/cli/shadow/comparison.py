"""Two versions of an application: their topologies, and what their tables and results differ in."""

from __future__ import annotations

import argparse
import copy
import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from processor_api.task_id import TopicPartition
from processor_api.topology.layout import differences, layout_of
from processor_api.topology.topology import Topology
from streams.cli.cluster.connection import Target, target_of
from streams.cli.cluster.topic_formats import TopicFormat, format_of
from streams.cli.output.causes import CannotRun
from streams.cli.output.terminal import counted, say, table
from streams.cli.settings_options import given_settings
from streams.cli.topology_function import load_topology, named_app
from streams.serdes.values import as_text

if TYPE_CHECKING:
    from streams.kafka.ports import Admin, Consumer
    from streams.runtime.plan.task_plan import TaskPlan

LEFT_OUT = ("http.listen", "state.snapshot.dir", "state.snapshot.interval.ms", "group.protocol", "group.instance.id")
"""Settings of the application that a run for a comparison does not have."""

# ------------------------------------------------------------------ the versions


@dataclass(frozen=True)
class ComparedVersion:
    """One of two versions."""

    name: str
    """The name as it was given."""
    target: Target

    @property
    def topology(self) -> Topology:
        return self.target.known_topology()


def versions_of(
    arguments: argparse.Namespace, new: Mapping[str, Any] | None = None
) -> tuple[ComparedVersion, ComparedVersion]:
    """Returns the version in production, and the new one.

    :param new: settings of the new one instead of those that are given; without them it has the application's id.
    :raises CannotRun: if they cannot be loaded beside each other.
    """
    from streams.config import StreamsConfig

    old = target_of(arguments)
    if not old.has_id:
        raise CannotRun("the application does not have an id: give it by --application-id")
    apps = named_app(arguments.topology), named_app(arguments.new)
    if apps[0].module == apps[1].module and apps[0].folder != apps[1].folder:
        raise CannotRun(
            f"both versions are modules named {apps[0].module!r}, and a process imports a name only once: rename one of"
            " the files"
        )
    other = copy.copy(arguments)
    other.topology = arguments.new
    settings = {**given_settings(other, derives_id=True).settings, "application.id": old.config.application_id}
    settings |= new or {}
    config = StreamsConfig.of(settings)
    topology = load_topology(arguments.new, lambda: config)
    return ComparedVersion(arguments.topology, old), ComparedVersion(
        arguments.new, Target(config, topology, arguments.new, True)
    )


def plan_of(version: ComparedVersion, admin: Admin) -> tuple[TaskPlan, ...]:
    """Returns the tasks of a version on the topics that exist."""
    from streams.app.topics import TopicFitter
    from streams.runtime.plan.task_plan import plan_tasks

    config, topology = version.target.config, version.topology
    fitter = TopicFitter(topology, config, config.dotted(), admin)
    readable = fitter.readable(fitter.existing())
    fitter.internal_counts(readable)  # which says whether topics do not exist, or may not be seen
    return plan_tasks(topology, config.dotted(), readable)


# ------------------------------------------------------------------ tables and results

Rows = dict[str, Any]
"""Values as JSON has them, by the text of their key."""


@dataclass
class RunResults:
    """The tables and results of a version, once it has processed all records."""

    tables: dict[str, Rows] = field(default_factory=dict)
    topics: dict[str, Rows] = field(default_factory=dict)
    """The values of each key in their order, by output topic."""
    by_last: set[str] = field(default_factory=set)
    """The topics of which only the last value of each key is compared."""


def compared_stores(topology: Topology, plan: Iterable[TaskPlan]) -> dict[str, str]:
    """Returns the changelogs of those stores whose rows are compared by their keys."""
    from state.registry.kinds import kind_of
    from state.write_buffer.changelog_form import ChangelogForm

    compared = {ChangelogForm.KEYS, ChangelogForm.WINDOWS, ChangelogForm.SESSIONS, ChangelogForm.LISTS}
    logged = {store: topic for one in plan for store, topic in one.changelogs.items()}
    found = {}
    for store, topic in sorted(logged.items()):
        builder = topology.stores[store]
        if kind_of(builder).changelog_form in compared and not builder.supplier.parameters.get("retain_duplicates"):
            found[store] = topic
    return found


def pairs(reader: Consumer, topic: str, partitions: int, form: TopicFormat) -> Iterator[tuple[str, Any]]:
    """Yields the keys of a topic's committed records as text, with the values as JSON has them."""
    from streams.kafka.record_ranges import read_ranges

    places = [TopicPartition(topic, number) for number in range(partitions)]
    begins = reader.beginning_offsets(places)
    for message in read_ranges(
        reader, {place: (begins[place], end) for place, end in reader.end_offsets(places).items()}
    ):
        key, value = message.key(), message.value()
        yield (
            json.dumps(None if key is None else _readable(form.read_key, key), sort_keys=True, default=str),
            None if value is None else _readable(form.read_value, value),
        )


def rows(
    reader: Consumer, version: ComparedVersion, plan: Iterable[TaskPlan], counts: Mapping[str, int]
) -> dict[str, Rows]:
    """Returns the rows of the tables of a version, by store, as its changelogs have them.

    :param counts: the partitions of the topics that exist.
    """
    found = {}
    for store, topic in compared_stores(version.topology, plan).items():
        last = dict(pairs(reader, topic, counts.get(topic, 0), format_of(version.target, store)))
        found[store] = {key: value for key, value in last.items() if value is not None}
    return found


def _readable(read: Any, data: bytes) -> Any:
    try:
        return read(data)
    except Exception:  # its bytes are compared
        return {"bytes": data.hex()}


# ------------------------------------------------------------------ the comparison


class VersionDifferences:
    """Holds in what the tables and results of two versions differ."""

    def __init__(self, versions: tuple[ComparedVersion, ComparedVersion], found: Collection[RunResults]) -> None:
        self._names = [one.name for one in versions]
        self._layout = differences(*(layout_of(one.topology) for one in versions))
        old, new = found
        self._compared = [
            *_compared("table", "row", old.tables, new.tables),
            *_compared("topic", "key", old.topics, new.topics),
        ]
        self._by_last = old.by_last | new.by_last

    @property
    def differs(self) -> bool:
        """Whether there is any difference in rows or results."""
        return any(one.keys or one.only for one in self._compared)

    def show(self, limit: int) -> None:
        """Prints the differences.

        :param limit: how many of each table and topic.
        """
        for difference in self._layout:
            say(f"layout: {difference.text}")
        for one in self._compared:
            last = ", by the last result of each" if one.what == "topic" and one.name in self._by_last else ""
            say(f"{one.text(self._names)}{last}")
            if one.keys:
                rows = [(key, *(_cell(side.get(key)) for side in one.sides)) for key in one.keys[:limit]]
                table(("KEY", *self._names), rows)
            if len(one.keys) > limit:
                say(f"and {len(one.keys) - limit} more (--limit)")
        say("there are differences" if self.differs else "no differences")

    def as_json(self, **more: Any) -> dict[str, Any]:
        """Returns everything for a program."""
        return {
            "versions": self._names,
            **more,
            "layout": [one.text for one in self._layout],
            "differ": self.differs,
            "compared": [one.as_json(self._names) for one in self._compared],
        }


@dataclass(frozen=True)
class _Compared:
    """Compares one table or topic of both versions."""

    what: str
    name: str
    unit: str
    sides: tuple[Rows, Rows]
    only: int | None
    """The version that has it, if only one does."""
    keys: list[str]
    """The keys whose rows or results differ."""

    def text(self, names: list[str]) -> str:
        if self.only is not None:
            return f"{self.what} {self.name}: only in {names[self.only]}"
        both = len(self.sides[0].keys() | self.sides[1].keys())
        return f"{self.what} {self.name}: {len(self.keys)} of {counted(both, self.unit)} differ"

    def as_json(self, names: list[str]) -> dict[str, Any]:
        rows = [
            {"key": json.loads(key), "values": [side.get(key) for side in self.sides]}
            for key in ([] if self.only is not None else self.keys)
        ]
        only = None if self.only is None else names[self.only]
        return {"kind": self.what, "name": self.name, "only": only, "differences": rows}


def _compared(what: str, unit: str, old: Mapping[str, Rows], new: Mapping[str, Rows]) -> list[_Compared]:
    found = []
    for name in sorted(old.keys() | new.keys()):
        only = 1 if name not in old else 0 if name not in new else None
        sides = old.get(name, {}), new.get(name, {})
        keys = sorted(key for key in sides[0].keys() | sides[1].keys() if sides[0].get(key) != sides[1].get(key))
        found.append(_Compared(what, name, unit, sides, only, [] if only is not None else keys))
    return found


def _cell(value: Any) -> str:
    return "none" if value is None else as_text(value)
