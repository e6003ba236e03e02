"""The check that nothing in a topology lacks a serde, made before anything is started or created."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from processor_api.errors import ConfigError
from processor_api.processor import own_serdes
from processor_api.serde import Serde, with_default
from processor_api.stores.builder import StoreBuilder
from processor_api.topology.data import TopologyData
from processor_api.topology.nodes import ProcessorNode, SinkNode, SourceNode
from processor_api.user_code.given_serdes import serde_arguments
from processor_api.user_code.lines import at

_MOST_IN_LINE = 2
_VALUES = ("value_serde", "other_value_serde")
"""The arguments of `StreamJoined` for the values of the left stream, and of the right one."""
_OTHER_SIDE = re.compile(r"OTHER-\d|-other-join-")
"""Is in the name of a store of the right stream, unless its supplier names it."""


class _MissingSerde(NamedTuple):
    what: str
    parts: tuple[str, ...]
    place: dict[str, str]
    origin: dict[str, str | None]
    join: tuple[str, ...] = ()
    """The arguments of a join that give these serdes: with the class of its options first."""

    @property
    def arguments(self) -> str:
        """The arguments to give, in the call that made it."""
        call = self.origin["made_by"]
        if self.join:
            options, *names = self.join
            return f"{options}({', '.join(f'{name}=...' for name in names)})"
        if (call or "").startswith("foreign_key_join("):
            return f"{' and '.join(self.parts)}, given where the tables of the join are read"
        if "store" not in self.place:
            return serde_arguments(call, *self.parts)
        given, made_by = ", ".join(f"{part}_serde=..." for part in self.parts), (call or "").partition("(")[0]
        if made_by in ("table", "global_table"):
            return f"{made_by}(..., {given})"
        if made_by == "suppress":
            return f"{given} in the call that makes the table before it, such as Materialized({given})"
        if made_by == "aggregate" and self.parts == ("value",):
            return f"aggregate(..., {given})"
        return f"{given} to its builder" if made_by.startswith("add_") else f"Materialized({given})"


def check_serdes(topology: TopologyData, key: Serde[Any] | None, value: Serde[Any] | None) -> None:
    """Checks that each source, sink, store and operator has the serdes that it needs.

    :param key: the application's default serde of keys, if it has one; so ``value``.
    :raises ConfigError: naming all that have none, with the lines of the user's script that made them.
    """
    missing = list(_missing(topology, key, value))
    if not missing:
        return
    parts = [part for part in ("key", "value") if any(part in each.parts for each in missing)]
    if len(missing) == 1 and len(parts) == 1:
        (only,), (part,) = missing, parts
        raise ConfigError(
            f"{only.what} has no {part} serde and the application has no default: give {only.arguments}, or set"
            f' default.{part}.serde, for instance to "string"',
            **only.origin,
            **only.place,
        )
    each_missing = [f"{each.what}{at(each.origin['made_at'])}: {each.arguments}" for each in missing]
    lines = "".join(f"\n  {line}" for line in each_missing) if len(missing) > _MOST_IN_LINE else ""
    names = " and ".join(f"default.{part}.serde" for part in parts)
    arguments = ", ".join(f'{part}_serde="string"' for part in parts)
    raise ConfigError(
        f"serdes are missing, and the application has no default ones; set {names}, or give the builder"
        f" StreamsBuilder({arguments}), or each of these one of its own:{lines or ' ' + '; '.join(each_missing)}"
    )


def _missing(topology: TopologyData, key: Serde[Any] | None, value: Serde[Any] | None) -> Iterator[_MissingSerde]:
    defaults = {"key": key, "value": value}

    def lacking(given: Any) -> tuple[str, ...]:
        both = {"key": given.key_serde, "value": given.value_serde}
        return tuple(part for part in both if not _is_known(both[part], defaults[part]))

    for node in topology.nodes.values():
        place, origin = {"node": node.name}, topology.origin_of(node.name)
        if isinstance(node, ProcessorNode):
            own = {name.removesuffix("_serde"): serde for name, serde in own_serdes(node.supplier).items()}
            parts = tuple(dict.fromkeys(n for n in own if not _is_known(own[n], defaults[n.rpartition("_")[2] or n])))
            if parts:
                yield _MissingSerde(
                    f"processor {node.name!r}", tuple(p.replace("_", " ") for p in parts), place, origin
                )
            continue
        kind = "sink" if isinstance(node, SinkNode) else "source"
        topics = (node.topic,) if isinstance(node, SinkNode) else node.topics
        if kind == "source" and any(topic in topology.repartition_topics for topic in topics):
            continue  # its sink has the same
        if parts := lacking(node):
            topic = f" of topic {topics[0]!r}" if len(topics) == 1 and topics[0] is not None else ""
            join = _options_of_repartition(topology, topics[0], parts) if "join" in (origin["made_by"] or "") else ()
            yield _MissingSerde(f"{kind} {node.name!r}{topic}", parts, place, origin, join)
    connected = {store for name in topology.nodes for store in topology.stores_of(name)}
    builders = [builder for name, builder in topology.stores.items() if name in connected]
    for builder in (*builders, *(one.builder for one in topology.global_stores.values())):
        if parts := lacking(builder):
            origin = topology.origin_of_store(builder.name)
            join = _options_of_store(builder, parts)
            yield _MissingSerde(f"store {builder.name!r}", parts, {"store": builder.name}, origin, join)


def _options_of_store(builder: StoreBuilder[Any, Any], parts: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the options of a join that give the serdes of its store; nothing for other stores."""
    given = builder.supplier.parameters
    if "grace_ms" in given and not builder.supplier.can_be_cached:  # The records of a stream that wait for a table.
        return ("Joined", *(f"{part}_serde" for part in parts))
    sides = getattr(builder.value_serde, "left", None), getattr(builder.value_serde, "right", None)
    if hasattr(builder.value_serde, "left"):  # The records without a partner.
        values = [name for name, side in zip(_VALUES, sides, strict=True) if side is None or not side.is_complete]
    elif given.get("retain_duplicates"):
        values = [_VALUES[_OTHER_SIDE.search(builder.name) is not None]]
    else:
        return ()
    return ("StreamJoined", *(["key_serde"] if "key" in parts else []), *(values if "value" in parts else []))


def _options_of_repartition(topology: TopologyData, topic: str | None, parts: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the options of a join that give the serdes of a topic before it."""
    sources = [node.name for node in topology.nodes.values() if isinstance(node, SourceNode) and topic in node.topics]
    below = [child for source in sources for child in topology.children_of(source)]
    stores = [topology.stores[name] for child in below for name in topology.stores_of(child) if name in topology.stores]
    found = next(filter(None, (_options_of_store(store, parts) for store in stores)), ())
    return found or ("Joined", *(f"{part}_serde" for part in parts))


def _is_known(given: Serde[Any] | None, default: Serde[Any] | None) -> bool:
    found = with_default(given, default)
    return found is not None and found.is_complete
