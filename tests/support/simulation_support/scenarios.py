"""The applications that the simulation's own seeds run, and what has to come out of each."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

from golden_support.topologies import load_module
from processor_api.context import ProcessorContext
from processor_api.handlers import Response, log_and_continue
from processor_api.processor import Processor
from processor_api.punctuation import PunctuationType
from processor_api.record import Record
from processor_api.serde import Serde, Serdes
from processor_api.stores.builder import StoreBuilder
from processor_api.stores.factory import Stores
from processor_api.stores.windowed import Window, Windowed
from processor_api.topology.topology import Topology
from simulation_support.header_scenarios import header_serdes
from simulation_support.join_scenarios import JOIN_SCENARIOS
from simulation_support.table_graphs import GRAPH_SCENARIOS, SHARED_SCENARIOS
from simulation_support.table_scenarios import TABLE_SCENARIOS
from simulation_support.window_scenarios import WINDOW_SCENARIOS
from streams import AutoOffsetReset, Consumed, Grouped, Produced, StreamsBuilder
from streams.testing.simulation.scenario import InputRecord, Outcome, Scenario, SimulatedService

__all__ = ["KEPT_IN_MEMORY", "SCENARIOS", "scenario_of"]

S, LONG = Serdes.STRING, Serdes.LONG
EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
WORDS = ["to", "be", "or", "not", "that", "is", "the", "question"]
RECORDS = 150


def words(chance: Random, count: int = RECORDS) -> list[InputRecord]:
    return [InputRecord(f"k{chance.randrange(12)}", chance.choice(WORDS), 1000 * n) for n in range(count)]


def values(outcome: Outcome, topic: str) -> list[str]:
    return [(record.value or b"").decode() for record in outcome.records(topic)]


def long(value: bytes | None) -> int:
    return int.from_bytes(value or b"", "big", signed=True)


def each_once(outcome: Outcome, found: Sequence[Any], expected: Sequence[Any]) -> None:
    """Exactly once under that guarantee, else at least once."""
    have, want = Counter(found), Counter(expected)
    if outcome.exactly_once:
        assert have == want, f"missing {want - have}, too many {have - want}"
    else:
        assert not want - have, f"missing {want - have}"


# ---------------------------------------------------------------------- topologies


def stateless(chance: Random) -> Scenario:
    def topology() -> Any:
        builder = StreamsBuilder()
        builder.stream("in").map_values(lambda word: word.upper()).to("out")
        return builder

    inputs = [InputRecord(f"k{n}", f"{word}-{n}", n) for n, (_, word, *_) in enumerate(words(chance))]

    def check(outcome: Outcome) -> None:
        each_once(outcome, values(outcome, "out"), [str(one.value).upper() for one in inputs])

    return Scenario(
        topology=topology,
        inputs={"in": inputs},
        checks=[check],
        topics={"in": 4, "out": 2},
        growing=frozenset({"in"}),
        settings={"metadata.max.age.ms": 2000},
    )


def cut(chance: Random) -> Scenario:
    """Records are deleted before they are read; a source's own policy says where to go on."""

    def topology() -> Any:
        builder = StreamsBuilder()
        builder.stream("in", Consumed(offset_reset=AutoOffsetReset.earliest())).to("out")
        return builder

    inputs = [InputRecord(f"k{n}", f"{word}-{n}", n) for n, (_, word, *_) in enumerate(words(chance))]

    def check(outcome: Outcome) -> None:
        left = Counter(values(outcome, "in"))
        found = Counter(values(outcome, "out"))
        assert not left - found, f"missing {left - found}"
        if outcome.exactly_once:
            assert not [word for word, times in found.items() if times > 1], f"more than once: {found}"

    return Scenario(
        topology=topology,
        inputs={"in": inputs},
        checks=[check],
        topics={"in": 2, "out": 2},
        cut=frozenset({"in"}),
        settings={"consumer.auto.offset.reset": "latest"},
    )


def count(chance: Random) -> Scenario:
    def topology(*, more: bool = False) -> Any:
        builder = StreamsBuilder()
        lines = builder.stream("in")
        if more:  # of the same layout
            lines = lines.filter(lambda _, word: True).map_values(str)
        counts = lines.group_by(lambda _, word: word).count(materialized="counts")
        counts.to_stream().to("out", Produced(value_serde=LONG))
        return builder

    inputs = words(chance)

    def check(outcome: Outcome) -> None:
        want = Counter(str(one.value) for one in inputs)
        most: dict[str, int] = defaultdict(int)
        for record in outcome.records("out"):
            word = (record.key or b"").decode()
            assert outcome.exactly_once is False or long(record.value) > most[word], f"the count of {word!r} went back"
            most[word] = max(most[word], long(record.value))
        if outcome.exactly_once:
            assert most == want, f"counted {dict(most)}, not {dict(want)}"
        elif not outcome.overtaken:
            assert all(most[word] >= number for word, number in want.items()), f"{dict(most)} is less than {dict(want)}"

    return Scenario(
        topology=topology,
        inputs={"in": inputs},
        checks=[check],
        topics={"in": 3, "out": 2},
        deployed=lambda: topology(more=True),
        rolls=True,
    )


class Numbered(Processor[str, str, str, str]):
    """Numbers the records of each key, in a store, and forwards them with their numbers."""

    supplier: Callable[[str], Any] = Stores.persistent_key_value_store
    builder: Callable[..., StoreBuilder[Any, Any]] = Stores.key_value_store_builder

    @classmethod
    def stores(cls) -> list[StoreBuilder[Any, Any]]:
        return [cls.builder(cls.supplier("numbers"), S, LONG)]

    def init(self, context: ProcessorContext[str, str]) -> None:
        super().init(context)
        self.numbers: Any = context.get_state_store("numbers")

    def process(self, record: Record[str, str]) -> None:
        number = (self.numbers.get(record.key) or 0) + 1
        self.numbers.put(record.key, number)
        self.context.forward(record.with_value(f"{record.value}/{number}"))


class NumberedInMemory(Numbered):
    supplier = Stores.in_memory_key_value_store


def of_processor(processor: Any, *sources: str) -> Callable[[], Any]:
    def topology() -> Topology:
        made = Topology()
        for source in sources:
            made.add_source(source, source, key_serde=S, value_serde=S)
        made.add_processor("work", processor, *sources)
        made.add_sink("out", "out", "work", key_serde=S, value_serde=S)
        return made

    return topology


def check_numbers(outcome: Outcome, inputs: Sequence[InputRecord]) -> None:
    """Each record once, and the numbers of each key without a gap and in order."""
    found = [
        (record.key, value.rpartition("/"))
        for record, value in zip(outcome.records("out"), values(outcome, "out"), strict=True)
    ]
    each_once(outcome, [value for _, (value, _, _) in found], [str(one.value) for one in inputs])
    if outcome.exactly_once:
        numbers: dict[Any, list[int]] = defaultdict(list)
        for key, (_, _, number) in found:
            numbers[key].append(int(number))
        for key, seen in numbers.items():
            assert seen == list(range(1, len(seen) + 1)), f"the numbers of {key!r} are {seen}"


def numbered(chance: Random, processor: Any = Numbered) -> Scenario:
    inputs = [one._replace(value=f"{one.value}-{n}") for n, one in enumerate(words(chance))]
    return Scenario(
        topology=of_processor(processor, "in"),
        inputs={"in": inputs},
        checks=[lambda outcome: check_numbers(outcome, inputs)],
        topics={"in": 3, "out": 3},
        deployed=lambda: of_processor(processor, "in")().add_sink("copy", "copy", "work", key_serde=S, value_serde=S),
        rolls=True,
    )


def in_memory(chance: Random) -> Scenario:
    return numbered(chance, NumberedInMemory)


def merged(chance: Random) -> Scenario:
    """Two inputs are processed in the order of their times: what is there from the start without waiting, what comes in
    one moment if an empty input is waited for, longer than any outage lasts."""
    feeding: Any = chance.choice(("before", "at once"))
    some = [one._replace(value=f"{one.value}-{n}", timestamp=n * 100) for n, one in enumerate(words(chance))]
    inputs: dict[str, list[InputRecord]] = {"a": [], "b": []}
    for one in some:
        inputs[chance.choice("aaab")].append(one)

    def check(outcome: Outcome) -> None:
        check_numbers(outcome, some)
        times: dict[int, int] = {}
        for record in outcome.records("out") if outcome.exactly_once else ():
            before = times.get(record.partition, -1)
            assert record.timestamp >= before, f"{record} comes after time {before}"
            times[record.partition] = record.timestamp

    return Scenario(
        topology=of_processor(Numbered, "a", "b"),
        inputs=inputs,
        checks=[check],
        topics={"a": 3, "b": 3, "out": 3},
        feeding=feeding,
        settings={"max.task.idle.ms": 0 if feeding == "before" else 200_000},
    )


class Ticking(Processor[str, str, str, str]):
    """Counts its punctuations, of both kinds, in a store, and forwards each number."""

    @classmethod
    def stores(cls) -> list[StoreBuilder[Any, Any]]:
        return [Stores.key_value_store_builder(Stores.persistent_key_value_store("ticks"), S, LONG)]

    def init(self, context: ProcessorContext[str, str]) -> None:
        super().init(context)
        self.ticks: Any = context.get_state_store("ticks")
        context.schedule(700, PunctuationType.WALL_CLOCK_TIME, lambda now: self.tick("wall", now))
        context.schedule(5000, PunctuationType.STREAM_TIME, lambda now: self.tick("stream", now))

    def tick(self, kind: str, now: int) -> None:
        name = f"{kind} {self.context.task_id}"
        number = (self.ticks.get(name) or 0) + 1
        self.ticks.put(name, number)
        self.context.forward(Record(name, str(number), max(0, now)))

    def process(self, record: Record[str, str]) -> None:
        self.context.forward(record)


def punctuated(chance: Random) -> Scenario:
    inputs = words(chance, 80)

    def check(outcome: Outcome) -> None:
        numbers: dict[bytes | None, list[int]] = defaultdict(list)
        for record in outcome.records("out"):
            if record.key and record.key.startswith((b"wall", b"stream")):
                numbers[record.key].append(int(record.value or b""))
        for name, seen in numbers.items():
            if outcome.exactly_once:
                assert seen == list(range(1, len(seen) + 1)), f"the punctuations of {name!r} were {seen}"
            else:
                assert set(seen) >= set(range(1, max(seen) + 1)), f"the punctuations of {name!r} were {seen}"

    return Scenario(
        topology=of_processor(Ticking, "in"),
        inputs={"in": inputs},
        checks=[check],
        topics={"in": 2, "out": 1},
        restores=False,  # it goes on to tick
    )


class InitForwards(Numbered):
    """Forwards a record and writes a row when it starts."""

    def init(self, context: ProcessorContext[str, str]) -> None:
        super().init(context)
        self.numbers.put("started", (self.numbers.get("started") or 0) + 1)
        context.forward(Record("started", f"started/{self.numbers.get('started')}", 0))


def init_forwards(chance: Random) -> Scenario:
    made = numbered(chance, InitForwards)
    inputs = made.inputs["in"]

    def check(outcome: Outcome) -> None:
        records = [record for record in outcome.records("out") if record.key != b"started"]
        check_numbers(replace(outcome, topics={**outcome.topics, "out": records}), inputs)

    return replace(made, checks=[check], restores=False)  # each start writes


class Kept(Processor[str, str, str, str]):
    """Writes into a store of some kind and forwards what was read before."""

    def __init__(self) -> None:
        self.kept: Any = None

    @classmethod
    def stores(cls) -> list[StoreBuilder[Any, Any]]:
        raise NotImplementedError

    def init(self, context: ProcessorContext[str, str]) -> None:
        super().init(context)
        self.kept = context.get_state_store("kept")

    def keep(self, record: Record[str, str]) -> None:
        raise NotImplementedError

    def process(self, record: Record[str, str]) -> None:
        self.keep(record)
        self.context.forward(record)


class Versions(Kept):
    @classmethod
    def stores(cls) -> list[StoreBuilder[Any, Any]]:
        return [
            Stores.versioned_key_value_store_builder(Stores.persistent_versioned_key_value_store("kept", 60_000), S, S)
        ]

    def keep(self, record: Record[str, str]) -> None:
        late = record.timestamp - (hash_of(record.value) % 5) * 20_000
        self.kept.put(record.key, None if record.value.startswith("not") else record.value, max(0, late))


class VersionsInMemory(Versions):
    @classmethod
    def stores(cls) -> list[StoreBuilder[Any, Any]]:
        supplier = Stores.in_memory_versioned_key_value_store("kept", 60_000)
        return [Stores.versioned_key_value_store_builder(supplier, S, S)]


class Windows(Kept):
    @classmethod
    def stores(cls) -> list[StoreBuilder[Any, Any]]:
        supplier = Stores.persistent_window_store("kept", 60_000, 10_000)
        return [Stores.window_store_builder(supplier, S, S)]

    def keep(self, record: Record[str, str]) -> None:
        late = record.timestamp - (hash_of(record.value) % 4) * 10_000
        self.kept.put(
            record.key, None if record.value.startswith("not") else record.value, max(0, late // 10_000 * 10_000)
        )


class WindowsInMemory(Windows):
    @classmethod
    def stores(cls) -> list[StoreBuilder[Any, Any]]:
        return [Stores.window_store_builder(Stores.in_memory_window_store("kept", 60_000, 10_000), S, S)]


class Sessions(Kept):
    @classmethod
    def stores(cls) -> list[StoreBuilder[Any, Any]]:
        return [Stores.session_store_builder(Stores.persistent_session_store("kept", 60_000), S, S)]

    def keep(self, record: Record[str, str]) -> None:
        start = max(0, record.timestamp - (hash_of(record.value) % 4) * 10_000)
        session = Windowed(record.key, Window(start, start + 500))
        if record.value.startswith("not"):
            self.kept.remove(session)
        else:
            self.kept.put(session, record.value)


class SessionsInMemory(Sessions):
    @classmethod
    def stores(cls) -> list[StoreBuilder[Any, Any]]:
        return [Stores.session_store_builder(Stores.in_memory_session_store("kept", 60_000), S, S)]


class Sets(Processor[str, str, str, str]):
    """Numbers the values of each key by a store of its own making, with files of its own."""

    def init(self, context: ProcessorContext[str, str]) -> None:
        super().init(context)
        self.sets: Any = context.get_state_store("sets")

    def process(self, record: Record[str, str]) -> None:
        self.sets.add(record.key, record.value)
        self.context.forward(record.with_value(f"{record.value}/{len(self.sets.values(record.key))}"))


class Expiring(Numbered):
    @classmethod
    def stores(cls) -> list[StoreBuilder[Any, Any]]:
        made = Stores.timestamped_key_value_store_builder(
            Stores.persistent_timestamped_key_value_store("numbers"), S, LONG
        )
        return [made.with_time_to_live(40_000)]

    def process(self, record: Record[str, str]) -> None:
        from processor_api.stores.contracts import ValueAndTimestamp

        found = self.numbers.get(record.key)
        number = (0 if found is None else found.value) + 1
        self.numbers.put(record.key, ValueAndTimestamp(number, record.timestamp))
        self.context.forward(record.with_value(f"{record.value}/{number}"))


def hash_of(text: str) -> int:
    return sum(text.encode())


def kept(chance: Random, processor: Any) -> Scenario:
    inputs = [one._replace(value=f"{one.value}-{n}") for n, one in enumerate(words(chance))]

    def check(outcome: Outcome) -> None:
        found = [value.partition("/")[0] for value in values(outcome, "out")]
        each_once(outcome, found, [str(one.value) for one in inputs])

    return Scenario(
        topology=of_processor(processor, "in"),
        inputs={"in": inputs},
        checks=[check],
        topics={"in": 2, "out": 2},
        restores=False,  # rows that have expired are kept for a while, and not restored
    )


def versioned(chance: Random) -> Scenario:
    return kept(chance, Versions)


def windows(chance: Random) -> Scenario:
    return kept(chance, Windows)


def sessions(chance: Random) -> Scenario:
    return kept(chance, Sessions)


def custom(chance: Random) -> Scenario:
    store = load_module(str(EXAMPLES / "08_custom_stores" / "sets_store.py")).SetsStore

    def topology() -> Any:
        made = of_processor(Sets, "in")()
        return made.add_state_store(Stores.custom("sets", lambda: store("sets")), "work")

    return replace(numbered(chance), topology=topology, deployed=None)


def expiring(chance: Random) -> Scenario:
    return kept(chance, Expiring)


def dead_letters(chance: Random) -> Scenario:
    """Records that cannot be read go to another topic, each once."""

    def topology() -> Any:
        made = Topology()
        made.add_source("in", "in", key_serde=S, value_serde=LONG)
        made.add_processor("work", Passed, "in")
        made.add_sink("out", "out", "work", key_serde=S, value_serde=LONG)
        return made

    good = [n.to_bytes(8, "big") for n in range(RECORDS)]
    inputs = [InputRecord(f"k{n}", value if n % 7 else f"bad-{n}", n) for n, value in enumerate(good)]

    def check(outcome: Outcome) -> None:
        bad = [record.value for record in outcome.records("bad")]
        each_once(outcome, bad, [str(one.value).encode() for one in inputs if type(one.value) is str])
        each_once(
            outcome, [one.value for one in outcome.records("out")], [value for n, value in enumerate(good) if n % 7]
        )

    return Scenario(
        topology=topology,
        inputs={"in": inputs},
        checks=[check],
        topics={"in": 2, "out": 1, "bad": 1},
        settings={
            "deserialization.exception.handler": log_and_continue,
            "errors.dead.letter.queue.topic.name": "bad",
        },
    )


class Passed(Processor[Any, Any, Any, Any]):
    def process(self, record: Record[Any, Any]) -> None:
        self.context.forward(record)


def global_table(chance: Random) -> Scenario:
    """A global table is filled beside the tasks; what they read of it depends on when."""

    def topology() -> Any:
        builder = StreamsBuilder()
        builder.global_table("names", materialized="names")
        builder.stream("in").process(Looking).to("out")
        return builder

    inputs = [one._replace(value=f"{one.value}-{n}") for n, one in enumerate(words(chance, 80))]
    names = [InputRecord(word, word.upper(), n) for n, word in enumerate(WORDS)]

    def check(outcome: Outcome) -> None:
        each_once(outcome, values(outcome, "out"), [str(one.value) for one in inputs])

    return Scenario(
        topology=topology,
        inputs={"in": inputs, "names": names},
        checks=[check],
        topics={"in": 2, "names": 1, "out": 1},
        unread=frozenset({"names"}),
    )


class Looking(Processor[str, str, str, str]):
    def init(self, context: ProcessorContext[str, str]) -> None:
        super().init(context)
        self.names: Any = context.get_state_store("names")

    def process(self, record: Record[str, str]) -> None:
        self.names.get(record.value.partition("-")[0])
        self.context.forward(record)


def pattern(chance: Random) -> Scenario:
    """Topics that a pattern matches are made while the application runs."""
    import re

    def topology() -> Any:
        builder = StreamsBuilder()
        builder.stream(re.compile("in-.*")).map_values(lambda word: word.upper()).to("out")
        return builder

    some = [one._replace(value=f"{one.value}-{n}") for n, one in enumerate(words(chance, 80))]
    inputs: dict[str, list[InputRecord]] = {"in-a": [], "in-b": [], "in-c": []}
    for n, one in enumerate(some):
        inputs[sorted(inputs)[min(2, n % 5)]].append(one)

    def check(outcome: Outcome) -> None:
        each_once(outcome, values(outcome, "out"), [str(one.value).upper() for one in some])

    return Scenario(
        topology=topology,
        inputs=inputs,
        checks=[check],
        topics={"in-a": 2, "in-b": 2, "in-c": 3, "out": 1},
        late=frozenset({"in-b", "in-c"}),
        passing={"in-z": 2},
        settings={"metadata.max.age.ms": 2000},
    )


def with_copies(make: Callable[[Random], Scenario]) -> Callable[[Random], Scenario]:
    """Returns an application whose workers keep standby tasks, which take over where one is killed."""

    def made(chance: Random) -> Scenario:
        scenario = make(chance)
        return replace(scenario, settings={**scenario.settings, "num.standby.replicas": chance.choice((1, 1, 2))})

    return made


SCENARIOS: dict[str, Callable[[Random], Scenario]] = {
    "stateless": stateless,
    "count": count,
    "cut": cut,
    "numbered": numbered,
    "in-memory": in_memory,
    "merged": merged,
    "punctuated": punctuated,
    "init-forwards": init_forwards,
    "versioned": versioned,
    "windows": windows,
    "sessions": sessions,
    "custom": custom,
    "expiring": expiring,
    "dead-letters": dead_letters,
    "global-table": global_table,
    "pattern": pattern,
    "header-serdes": header_serdes,
    **JOIN_SCENARIOS,
    **WINDOW_SCENARIOS,
    **TABLE_SCENARIOS,
}

WITH_COPIES: dict[str, Callable[[Random], Scenario]] = {
    f"copies-of-{make.__name__.replace('_', '-')}": with_copies(make)
    for make in (count, numbered, in_memory, versioned, windows, sessions, custom)
}
"""Applications with standby tasks."""


KEPT_IN_MEMORY: dict[str, Callable[[Random], Scenario]] = {
    "in-memory": in_memory,
    "versions-in-memory": lambda chance: kept(chance, VersionsInMemory),
    "windows-in-memory": lambda chance: kept(chance, WindowsInMemory),
    "sessions-in-memory": lambda chance: kept(chance, SessionsInMemory),
}
"""Applications whose processors have stores in memory."""


def with_warm_ups(make: Callable[[Random], Scenario]) -> Callable[[Random], Scenario]:
    """Returns an application whose tasks move to workers that come when their copies there are near."""

    def made(chance: Random) -> Scenario:
        scenario = make(chance)
        settings = {
            "acceptable.recovery.lag": chance.choice((0, 1, 5, 20)),
            "max.warmup.replicas": chance.choice((1, 2, 2, 10)),
            "probing.rebalance.interval.ms": 60_000,
            "num.standby.replicas": chance.choice((0, 0, 1)),
        }
        return replace(scenario, settings={**scenario.settings, **settings})

    return made


WITH_WARM_UPS: dict[str, Callable[[Random], Scenario]] = {
    f"warm-ups-of-{make.__name__.replace('_', '-')}": with_warm_ups(make)
    for make in (count, numbered, in_memory, windows, merged)
}
"""Applications whose workers fill copies before they take tasks over."""


def streams_group(chance: Random) -> Scenario:
    """Any of several applications, in a group of the streams protocol, with standby copies or without."""
    made = chance.choice((stateless, count, numbered, in_memory, merged, punctuated, windows, init_forwards))(chance)
    copies = chance.choice((0, 0, 1))
    return replace(made, settings={**made.settings, "group.protocol": "streams", "num.standby.replicas": copies})


def pattern_in_streams_group(chance: Random) -> Scenario:
    """New topics of a pattern, in a group of the streams protocol, whose brokers know nothing of them."""
    made = pattern(chance)
    return replace(made, settings={**made.settings, "group.protocol": "streams"})


def registry_away(chance: Random) -> Scenario:
    """Records whose values are read and written by a registry that is away at times; handlers would drop what fails."""
    service, made = SimulatedService(), count(chance)

    def read(data: bytes) -> str:
        service.ask()
        return data.decode()

    def write(value: str) -> bytes:
        service.ask()
        return value.encode()

    asking: Serde[str] = Serde(write, read, name="asking")

    def topology() -> Any:
        builder = StreamsBuilder()
        lines = builder.stream("in", Consumed(value_serde=asking))
        counts = lines.group_by(lambda _, word: word, Grouped(value_serde=asking)).count(materialized="counts")
        counts.to_stream().to("out", Produced(value_serde=LONG))
        return builder

    continues = {
        "deserialization.exception.handler": log_and_continue,
        "production.exception.handler": lambda *_: Response.resume(),
    }
    return replace(made, topology=topology, deployed=None, service=service, settings={**made.settings, **continues})


def made_again(chance: Random) -> Scenario:
    """Changelogs of any of several applications are deleted and made again, with standby copies or without."""
    sliding, session = WINDOW_SCENARIOS["sliding"], WINDOW_SCENARIOS["session-windows"]
    make, store = chance.choice(((count, "counts"), (numbered, "numbers"), (sliding, "kept"), (session, "kept")))
    made = make(chance)
    copies = chance.choice((0, 0, 1))
    settings = {**made.settings, "num.standby.replicas": copies}
    return replace(made, settings=settings, remade=frozenset({store}), deployed=None)


def lost_tail(chance: Random) -> Scenario:
    """Changelogs of any of several applications lose their last records, with standby copies or without."""
    made = made_again(chance)
    return replace(made, remade=frozenset(), losing=made.remade)


BY_NAME: dict[str, Callable[[Random], Scenario]] = {
    **SCENARIOS,
    **WITH_COPIES,
    **WITH_WARM_UPS,
    **GRAPH_SCENARIOS,
    **SHARED_SCENARIOS,
    **KEPT_IN_MEMORY,
    "streams-group": streams_group,
    "made-again": made_again,
    "lost-tail": lost_tail,
    "registry-away": registry_away,
    "pattern-in-streams-group": pattern_in_streams_group,
}
"""Those that the seeds take in turn, and those that are run only by their names."""


def scenario_of(seed: int, name: str | None = None) -> tuple[str, Scenario]:
    """The application that a seed runs, with its settings: both guarantees, caches and limits of all sizes."""
    names = list(SCENARIOS)
    name = names[seed % len(names)] if name is None else name
    chance = Random(seed + 1)
    made = BY_NAME[name](chance)
    settings = {
        "default.key.serde": S,
        "default.value.serde": S,
        "processing.guarantee": chance.choice(("at_least_once", "exactly_once_v2", "exactly_once_v2")),
        "commit.interval.ms": chance.choice((100, 500, 3000)),
        "statestore.cache.max.bytes": chance.choice((0, 2000, 10_000_000)),
        "statestore.uncommitted.max.bytes": chance.choice((2000, 64_000_000)),
        "max.poll.records": chance.choice((1, 5, 1000)),
        "buffered.records.per.partition": chance.choice((2, 1000)),
        **made.settings,
    }
    return name, replace(made, settings=settings)
