"""Draws topologies at random, with what is piped through them: the same for the same seed and number."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

__all__ = ["drawn", "drawn_of_one_topic"]

EVENTS = 60
MOST_MULTIPLIED = 2
"""One less than the operations in a topology that may make several records of one: such a run has thousands."""
KEYS = "abcd"
LONG = 10_000
"""More ms than all events take."""
CONFIGURATIONS: Mapping[str, tuple[int, Mapping[str, Any], bool]] = {
    "caching": (40, {}, False),
    "no caching": (40, {"statestore.cache.max.bytes": 0}, False),
    "in memory": (12, {"default.dsl.store": "in_memory"}, True),
    "with headers": (8, {"dsl.store.format": "HEADERS"}, True),
}
"""Weight, settings, and whether the builder is given them."""
MORE_SETTINGS: tuple[tuple[float, Mapping[str, Any]], ...] = (
    (0.4, {"topology.optimization": "all"}),
    (0.3, {"processing.exception.handler": "org.apache.kafka.streams.errors.LogAndContinueProcessingExceptionHandler"}),
    (0.3, {"__emit.interval.ms.kstreams.outer.join.spurious.results.fix__": 0}),
    (0.1, {"processing.guarantee": "exactly_once_v2"}),
)
"""How likely it is that a topology has each."""
TESTS = ("small", "odd", "not_b")
SELECTORS = ("same", "letter", "letter", "letter_or_none")
VALUES = ("mark", "shorten", "drop")
ADDERS = ("append", "append", "append_or_none")
JOINERS = ("plus", "plus", "plus_or_none")
NONE: tuple[str, ...] = ()
STREAM_OPERATIONS: Sequence[tuple[str, tuple[str, ...]]] = (
    ("values", VALUES),
    ("process_values", VALUES),
    ("values_with_key", ("with_key",)),
    ("flat_values", ("twice",)),
    ("filter", TESTS),
    ("filter_not", TESTS),
    ("peek", TESTS),
    ("split", TESTS),
    ("key", SELECTORS),
    ("key", SELECTORS),
    ("map", SELECTORS),
    ("flat_map", SELECTORS),
    ("process", JOINERS),
    ("shift", NONE),
    ("merge", NONE),
    ("repartition", NONE),
    ("to_table", NONE),
    ("to_table", NONE),
)
"""Operations, as often as they are to come, and the functions that they may have."""
TABLE_OPERATIONS: Sequence[tuple[str, tuple[str, ...]]] = (
    ("filter", TESTS),
    ("filter_not", TESTS),
    ("values", VALUES),
    ("values", VALUES),
    ("values_with_key", ("with_key",)),
    ("transform", ("with_key",)),
    ("suppress", NONE),
    ("to_stream", NONE),
    ("to_stream_by", SELECTORS),
    ("group_by", SELECTORS),
    ("group_by", SELECTORS),
    ("group_by", SELECTORS),
)


def drawn(seed: int, number: int) -> dict[str, Any]:
    """Returns one topology as an object for JSON: settings, topics, statements and steps."""
    return _Drawing(random.Random(f"{seed}-{number}")).program(f"composed-{seed}-{number}")


def drawn_of_one_topic(seed: int) -> dict[str, Any]:
    """Returns one that reads one topic of one partition, and logs all of its stores."""
    return _OneTopic(random.Random(seed)).program(f"composed-{seed}")


class _Drawing:
    def __init__(self, source: random.Random) -> None:
        self._random = source
        self._nodes: list[dict[str, Any]] = []
        self._kinds: list[str] = []
        self._uses: list[int] = []
        self._sources_of: list[frozenset[str]] = []
        self._versioned: set[int] = set()
        self._failing = 0.0
        self._optimizes = self._caches = False
        self._inputs: list[str] = []
        self._outputs: list[str] = []
        self._partition_count: int | None = None

    def program(self, name: str) -> dict[str, Any]:
        """Draws all; the name tells what is known to differ from Java."""
        draw = self._random
        weights = [weight for weight, _, _ in CONFIGURATIONS.values()]
        _, settings, gives = draw.choices(list(CONFIGURATIONS.values()), weights)[0]
        config = dict(settings)
        for chance, more in MORE_SETTINGS:
            config |= more if draw.random() < chance else {}
        self._failing = 0.3 if "processing.exception.handler" in config else 0.0
        self._optimizes, self._caches = "topology.optimization" in config, "statestore.cache.max.bytes" not in config
        self._sources()
        for _ in range(draw.randint(3, 10)):
            self._statement()
        self._sinks()
        if self._has_versions():
            name += "-versioned"
        if gives:
            name += "-headers"
        return {
            "name": name,
            "config": config,
            "topology_config": gives,
            "inputs": self._inputs,
            "outputs": self._outputs,
            "nodes": self._nodes,
            "steps": self._steps(),
        }

    # ------------------------------------------------------------------ statements

    def _add(self, op: str, kind: str, *of: int, **fields: Any) -> int:
        node = {"op": op, **({"of": list(of)} if of else {}), **fields}
        self._nodes.append({name: value for name, value in node.items() if value is not None})
        self._kinds.append(kind)
        self._uses.append(0)
        topics = [
            *fields.get("topics", ()),
            *([fields["topic"]] if op.startswith("source.") and "topic" in fields else []),
        ]
        self._sources_of.append(frozenset(topics).union(*(self._sources_of[each] for each in of)))
        for each in of:
            self._uses[each] += 1
        return len(self._nodes) - 1

    def _pick(self, kind: str) -> int | None:
        """One of a kind, rather one that nothing reads yet."""
        found = [i for i, each in enumerate(self._kinds) if each == kind]
        weights = [6 if self._uses[i] == 0 else 1 for i in found]
        return self._random.choices(found, weights)[0] if found else None

    def _name(self, chance: float = 0.3) -> str | None:
        return f"n{len(self._nodes)}" if self._random.random() < chance else None

    def _partitions(self) -> int | None:
        """Of a topic that ``repartition()`` makes: the same for all, since such topics may be joined."""
        if self._random.random() >= 0.2:
            return None
        self._partition_count = self._partition_count or self._random.randint(1, 4)
        return self._partition_count

    def _fails(self) -> bool | None:
        """Whether the function of a statement fails for some values."""
        return True if self._random.random() < self._failing else None

    def _options(self) -> dict[str, Any]:
        draw, options = self._random, {}
        if draw.random() < 0.3:
            options["caching"] = draw.random() < 0.3
        if draw.random() < 0.1:
            options["logging"] = False
        return options

    def _mat(self, *kinds: str, chance: float = 0.45) -> dict[str, Any] | None:
        draw = self._random
        if draw.random() >= chance:
            return None
        name = f"s{len(self._nodes)}"
        kind = draw.choice(kinds) if kinds and draw.random() < 0.3 else "plain"
        if kind != "plain":
            return {"name": name, "kind": kind, **self._options()}
        return ({"name": name} if draw.random() < 0.7 else {}) | self._options()

    def _window_mat(self, window: Mapping[str, Any]) -> dict[str, Any]:
        """Always one: without, Java does not know the serde of windowed keys below."""
        mat = self._mat() or {}
        if window["type"] == "session":
            mat["caching"] = False
        if self._random.random() < 0.2 and window["type"] in ("tumbling", "hopping"):
            name = f"s{len(self._nodes)}"
            return {**mat, "name": name, "keeps": window["size"] + window["grace"]}
        if self._random.random() < 0.2 and window["type"] != "unlimited":
            mat["retention"] = 3 * window["size"] + window["grace"] + self._random.randint(0, 50)
        return mat

    def _named_mat(self, *kinds: str) -> dict[str, Any]:
        """For operations of Java that take a name together with how the result is stored only."""
        mat = self._mat(*kinds)
        return {"mat": mat, "named": None if mat is None else self._name()}

    def _sources(self) -> None:
        draw = self._random
        streams = [f"s{i}" for i in range(draw.randint(1, 3))]
        for topic in streams:
            self._add("source.stream", "stream", topics=[topic], named=self._name(0.15))
        if draw.random() < 0.2 and not self._optimizes:
            self._add("source.stream", "stream", topics=[draw.choice(streams)], named=self._name(0.15))
        tables = [f"t{i}" for i in range(draw.randint(0, 3))]
        for topic in tables:
            mat = self._mat("memory", "versioned", "versioned")
            number = self._add("source.table", "table", topic=topic, named=self._name(0.15), mat=mat)
            if mat is not None and mat.get("kind") == "versioned":
                self._versioned.add(number)
        tops = ["g0"] if draw.random() < 0.2 else []
        for topic in tops:
            mat = self._mat("memory")
            if mat is not None:
                mat["name"] = f"s{len(self._nodes)}"  # Java cannot build one that is given serdes alone
            self._add("source.global", "global", topic=topic, mat=mat)
        self._inputs = streams + tables + tops

    def _statement(self) -> None:
        makers: tuple[tuple[int, Callable[[], bool]], ...] = (
            (8, self._of_stream),
            (5, self._group),
            (8, self._aggregated),
            (3, self._cogrouped),
            (7, self._of_table),
            (4, self._regrouped),
            (6, self._of_windowed),
            (5, self._join_streams),
            (5, self._join_with_table),
            (2, self._join_with_global),
            (5, self._join_tables),
            (4, self._join_foreign),
        )
        while True:
            make = self._random.choices([make for _, make in makers], [weight for weight, _ in makers])[0]
            if make():
                return

    def _of_stream(self) -> bool:
        stream = self._pick("stream")
        draw = self._random
        if stream is None:
            return False
        op, fns = draw.choice(STREAM_OPERATIONS)
        if op.startswith("flat") and self._has("join.stream", "stream.flat") > MOST_MULTIPLIED:
            return False
        fn = draw.choice(fns) if fns else None
        if op == "merge":
            other = self._pick("stream")
            if other is None or other == stream:
                return False
            self._add("stream.merge", "stream", stream, other, named=self._name())
        elif op == "to_table":
            self._add("stream.to_table", "table", stream, named=self._name(), mat=self._mat("memory", "versioned"))
        elif op == "split":
            branch = "yes" if draw.random() < 0.4 else None
            split = self._add(
                "stream.split", "split", stream, fn=fn, named=self._name(), branch=branch, fails=self._fails()
            )
            self._add("stream.pick", "stream", split, which=0)
            self._add("stream.pick", "stream", split, which=1)
        elif op == "repartition":
            self._add("stream.repartition", "stream", stream, named=self._name(), partitions=self._partitions())
        elif op == "shift":
            self._add("stream.shift", "stream", stream, named=self._name(), by=draw.choice((-7, -2, 3, 11)))
        else:
            self._add(f"stream.{op}", "stream", stream, fn=fn, named=self._name(), fails=self._fails())
        return True

    def _group(self) -> bool:
        stream = self._pick("stream")
        if stream is None:
            return False
        if self._random.random() < 0.5:
            self._add("stream.group_by_key", "grouped", stream, named=self._name())
        else:
            fn = self._random.choice(SELECTORS)
            self._add("stream.group_by", "grouped", stream, named=self._name(), fn=fn, fails=self._fails())
        return True

    def _window(self) -> dict[str, Any] | None:
        draw = self._random
        kinds = ("none", "tumbling", "hopping", "sliding", "session", "unlimited")
        kind = draw.choices(kinds, (30, 15, 15, 15, 15, 4))[0]
        if kind == "none":
            return None
        if kind == "unlimited":
            return {"type": kind}
        window = {"type": kind, "size": draw.randint(5, 20), "grace": draw.choice((0, 5, 15))}
        if kind == "hopping":
            window["advance"] = draw.randint(3, window["size"])
        return window

    def _aggregated(self) -> bool:
        grouped = self._pick("grouped")
        if grouped is None:
            return False
        draw, op = self._random, self._random.choice(("count", "reduce", "aggregate"))
        window = self._window()
        fields: dict[str, Any] = {"fn": draw.choice(ADDERS)}
        if window is None or window["type"] != "session":
            fields["fails"] = self._fails()
        if window is not None:
            if window["type"] == "unlimited":
                fields["start"] = draw.choice((0, 20, 100))
            fields |= {"window": window, "named": self._name(), "mat": self._window_mat(window)}
            if window["type"] != "unlimited" and "keeps" not in fields["mat"] and draw.random() < 0.25:
                fields["final"] = True
                fields["fails"] = None  # Java sends on after the record was added, and so not if that fails
                fields["mat"]["retention"] = LONG  # of results that expire before they are sent on, Java loses some
        elif op == "count":
            fields |= {"named": self._name(), "mat": self._mat("memory", "versioned")}
        else:
            fields |= self._named_mat("memory", "versioned")
        self._add(f"group.{op}", "table" if window is None else "windowed", grouped, **fields)
        return True

    def _cogrouped(self) -> bool:
        groups = [i for i, kind in enumerate(self._kinds) if kind == "grouped" and not self._is_shared(i)]
        if not groups:
            return False
        of = self._random.sample(groups, self._random.randint(1, min(3, len(groups))))
        window = self._window()
        if window is not None and window["type"] == "unlimited":
            window = None
        mat = self._mat("memory") if window is None else self._window_mat(window)
        kind, fn = "table" if window is None else "windowed", self._random.choice(ADDERS)
        for each in of:
            if "named" in self._nodes[each]:
                self._kinds[each] = "cogrouped"
        self._add("group.cogroup", kind, *of, fn=fn, window=window, named=self._name(), mat=mat)
        return True

    def _is_shared(self, grouped: int) -> bool:
        """Java cannot build a cogroup of a named group that is aggregated besides."""
        return self._uses[grouped] > 0 and "named" in self._nodes[grouped]

    def _of_table(self) -> bool:
        table = self._pick("table")
        if table is None:
            return False
        draw = self._random
        op, fns = draw.choice(TABLE_OPERATIONS)
        fields: dict[str, Any] = {"named": self._name(), "fn": draw.choice(fns) if fns else None}
        kinds = {"to_stream": "stream", "to_stream_by": "stream", "group_by": "regrouped"}
        if op == "suppress":
            fields |= {"wait": draw.randint(0, 30), "records": draw.choice((None, None, 2, 3))}
        elif op not in kinds:
            fields["mat"] = mat = self._mat("memory", "versioned", chance=0.3)
            if mat is not None and self._has_versions():
                mat["name"] = f"s{len(self._nodes)}"  # without one Java takes a versioned table for a plain one
        self._add(f"table.{op}", kinds.get(op, "table"), table, **fields)
        return True

    def _regrouped(self) -> bool:
        groups = self._pick("regrouped")
        if groups is None:
            return False
        op, fn = self._random.choice(("count", "reduce", "aggregate")), self._random.choice(ADDERS)
        mat = self._mat("memory", "versioned")
        named = self._name() if op != "reduce" or mat is not None else None
        self._add(f"regrouped.{op}", "table", groups, fn=fn, named=named, mat=mat)
        return True

    def _of_windowed(self) -> bool:
        table = self._pick("windowed")
        if table is None:
            return False
        draw = self._random
        op = draw.choice(("filter", "values", "suppress", "close", "close", "to_stream", "to_stream", "group_by"))
        if op == "close" and any(node.get("window", {}).get("type") == "unlimited" for node in self._nodes):
            return False
        fields: dict[str, Any] = {"named": self._name()}
        if op in ("values", "group_by"):
            fields["fn"] = draw.choice(VALUES)
        elif op == "filter":
            fields["fn"] = draw.choice(TESTS)
        elif op == "suppress":
            fields |= {"wait": draw.randint(0, 30), "records": draw.choice((None, None, 2, 3))}
        kind = {"to_stream": "stream", "group_by": "regrouped"}.get(op, "windowed")
        self._add(f"windowed.{op}", kind, table, **fields)
        return True

    # ------------------------------------------------------------------ joins

    def _has(self, *parts: str) -> int:
        return sum(any(part in node["op"] for part in parts) for node in self._nodes)

    def _join_streams(self) -> bool:
        if self._has("join.stream", "stream.flat") > MOST_MULTIPLIED:
            return False
        left, right = self._pick("stream"), self._pick("stream")
        if left is None or right is None or (left == right and self._optimizes):
            return False
        draw = self._random
        size = draw.randint(0, 15)
        before = draw.choice((size, size, size, 0, 2 * size))
        after = draw.choice((size, size, size, 0, 3))
        store = f"j{len(self._nodes)}" if draw.random() < 0.3 else None
        grace = draw.choice((0, 5, 20)) if before + after else 5
        fields = {"size": size, "before": before, "after": after, "grace": grace, "store": store}
        op = draw.choice(("join.stream", "join.stream_left", "join.stream_outer"))
        fails = (
            self._fails() if op == "join.stream" else None
        )  # in the others Java drops all records behind one that fails
        self._add(op, "stream", left, right, fn=draw.choice(JOINERS), named=self._name(), fails=fails, **fields)
        return True

    def _join_with_table(self) -> bool:
        left, right = self._pick("stream"), self._pick("table")
        if left is None or right is None:
            return False
        draw = self._random
        chance = 0.6 if right in self._versioned else 0.02
        grace = draw.choice((5, 15, 29)) if draw.random() < chance else None
        op = draw.choice(("join.table", "join.table_left")) if grace is None else "join.table"
        fails = self._fails() if grace is None else None  # Java drops all records behind one that fails in a buffer
        self._add(op, "stream", left, right, fn=draw.choice(JOINERS), named=self._name(), grace=grace, fails=fails)
        return True

    def _join_with_global(self) -> bool:
        left, right = self._pick("stream"), self._pick("global")
        if left is None or right is None:
            return False
        draw = self._random
        op, key = draw.choice(("join.global", "join.global_left")), draw.choice(SELECTORS)
        self._add(op, "stream", left, right, fn=draw.choice(JOINERS), key=key, named=self._name(), fails=self._fails())
        return True

    def _join_tables(self) -> bool:
        left, right = self._pick("table"), self._pick("table")
        if left is None or right is None or (left == right and self._random.random() < 0.8):
            return False
        if self._caches and self._sources_of[left] & self._sources_of[right]:
            return False  # changes of both sides that wait in caches do not miss each other here (semantics 34)
        draw = self._random
        op, fn = draw.choice(("join.tables", "join.tables_left", "join.tables_outer")), draw.choice(JOINERS)
        self._add(op, "table", left, right, fn=fn, named=self._name(), mat=self._mat("memory", "versioned"))
        return True

    def _join_foreign(self) -> bool:
        left, right = self._pick("table"), self._pick("table")
        if left is None or right is None or (left == right and self._random.random() < 0.7):
            return False
        if not (self._is_stored(left) and self._is_stored(right)):
            return False  # Java computes rows of others more often than is needed
        draw = self._random
        op, key = draw.choice(("join.foreign", "join.foreign_left")), draw.choice(("letter", "letter_or_none"))
        if self._sources_of[left] & self._sources_of[right]:
            op = "join.foreign_left"  # an inner join that one record reaches on both ways differs (semantics 69)
        fields = {"fn": draw.choice(JOINERS), "key": key, "named": self._name(), "mat": self._mat("memory")}
        self._add(op, "table", left, right, **fields)
        return True

    def _has_versions(self) -> bool:
        return any((node.get("mat") or {}).get("kind") == "versioned" for node in self._nodes)

    def _is_stored(self, table: int) -> bool:
        node = self._nodes[table]
        return node["op"] in ("source.table", "stream.to_table", "group.reduce", "group.aggregate") or "name" in (
            node.get("mat") or {}
        )

    # ------------------------------------------------------------------ sinks and records

    def _sinks(self) -> None:
        for i, kind in enumerate(list(self._kinds)):
            unread = self._uses[i] == 0
            if self._random.random() >= (0.9 if unread else 0.1):
                continue
            if kind in ("table", "windowed"):
                i, kind = self._add(f"{kind}.to_stream", "stream", i), "stream"
            if kind == "stream":
                topic = f"o{len(self._outputs)}"
                self._outputs.append(topic)
                self._add("stream.to", "end", i, topic=topic)

    def _steps(self) -> list[dict[str, Any]]:
        draw, now = self._random, self._random.randint(0, 20)
        steps: list[dict[str, Any]] = []
        for i in range(EVENTS):
            if draw.random() < 0.05:
                steps.append({"wall": draw.randint(1, 1500)})
            now += draw.randint(0, 4) + (60 if draw.random() < 0.04 else 0)
            at = max(0, now - draw.randint(0, 13)) if draw.random() < 0.35 else now
            value = None if draw.random() < 0.1 else draw.choice("pqrst") + draw.choice(("", str(i)))
            key = None if draw.random() < 0.04 else draw.choice(KEYS)
            step: dict[str, Any] = {"topic": draw.choice(self._inputs), "key": key, "value": value, "at": at}
            if draw.random() < 0.15:
                step["header"] = f"e{i}"
            steps.append(step)
        return steps


class _OneTopic(_Drawing):
    def _sources(self) -> None:
        if self._random.random() < 0.7:
            self._add("source.stream", "stream", topics=["s0"])
            self._inputs = ["s0"]
        else:
            self._add("source.table", "table", topic="t0", mat=self._mat("memory"))
            self._inputs = ["t0"]

    def _options(self) -> dict[str, Any]:
        return {name: value for name, value in super()._options().items() if name != "logging"}

    def _partitions(self) -> int | None:
        return None
