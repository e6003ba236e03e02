"""Scenarios of stateful operators: their inputs, the run without faults that they must equal, and the checks.

What a task does with its partitions is determined by their records alone, where it reads each to its end before it
chooses the next record (semantics 4, 6): then what comes out is that of a run of each partition in the test driver,
record by record. Without that, the last value of each key is recomputed from the input.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any, Literal

from dsl.processors.windows.emission import PART_ROWS
from processor_api.serde import Serdes
from processor_api.topology.partitioner import partition_for_key
from streams import Consumed, Produced, StreamsBuilder
from streams.testing import TopologyTestDriver
from streams.testing.simulation.scenario import InputRecord, Outcome, Scenario

__all__ = [
    "FAR", "KEYS", "PARTITIONS", "READ", "WRITTEN", "Results", "add_to", "check_results", "drawn", "each_once", "ends",
    "in_parts", "merged", "of_partition", "rows", "scenario", "scenario_results", "text", "told", "union",
]  # fmt: skip

S = Serdes.STRING
READ: Consumed[str, str] = Consumed(key_serde=S, value_serde=S)
WRITTEN: Produced[str, str] = Produced(key_serde=S, value_serde=S)
PARTITIONS = 2
KEYS = 6
FAR = 10_000_000
"""A time behind all windows of the scenarios: a record of then brings out all that waits."""
EMITS: Mapping[str, Any] = {
    "__emit.interval.ms.kstreams.outer.join.spurious.results.fix__": 0,
    "__emit.interval.ms.kstreams.windowed.aggregation__": 0,
    "windowstore.changelog.additional.retention.ms": 10**13,  # the records' times are long ago
}
STRINGS: Mapping[str, Any] = {"default.key.serde": S, "default.value.serde": S}

Inputs = Mapping[str, Sequence[InputRecord]]
Results = Mapping[str, Sequence[tuple[str | None, int]]]
"""The values and timestamps of each key of an output, in order."""
Sure = Literal["each", "pairs", "some", "last"]
"""Which results are determined: each of them; those of two records, and that none of one is missing; some, of which the
last of each key is one; the last of each key."""


def text(data: bytes | None) -> str:
    return (data or b"").decode()


def told(left: str | None, right: str | None) -> str:
    return f"{left}|{right}"


def add_to(key: str, value: str | None, so_far: str) -> str:
    """An aggregator that gives the same for records in any order, also for those that come twice: a sorted set."""
    return union(key, so_far, "-" if value is None else value)


def union(key: str, one: str, other: str) -> str:
    return " ".join(sorted({*one.split(), *other.split()}))


# ---------------------------------------------------------------------------- inputs


def of_partition(key: str) -> int:
    return partition_for_key(key.encode(), PARTITIONS)


def drawn(
    chance: Random, mark: str, count: int = 80, *, number: int = 0, late_ms: int = 8000, deletes: float = 0.0
) -> list[InputRecord]:
    """Records whose times go up by a second each, but for some that are late; some come twice.

    :param mark: with what the values begin.
    :param number: of the topic: no two topics have records of the same time.
    :param late_ms: by how much at most.
    :param deletes: how many have no value.
    """
    found: list[InputRecord] = []
    for n in range(count):
        late = chance.randrange(late_ms) if chance.random() < 0.3 else 0
        key = f"k{chance.randrange(KEYS)}"
        value = None if chance.random() < deletes else f"{mark}{n}"
        time = max(0, 1000 * n - late) // 4 * 4 + number
        found += [InputRecord(key, value, time, of_partition(key))] * (2 if chance.random() < 0.1 else 1)
    return found


def ends(mark: str, *, number: int = 0, times: int = 2) -> list[InputRecord]:
    """Records far behind all others, in each partition: they close all windows."""
    names = (f"end{n}" for n in range(100))
    keys = [next(key for key in names if of_partition(key) == partition) for partition in range(PARTITIONS)]
    return [
        InputRecord(key, f"{mark}end", FAR * (1 + n) + number, of_partition(key)) for n in range(times) for key in keys
    ]


def merged(inputs: Inputs, partitions: Sequence[int]) -> Iterator[tuple[str, InputRecord]]:
    """The records of one partition of all topics, in the order in which a task that misses none processes them."""
    left = {topic: [one for one in records if one.partition in partitions] for topic, records in inputs.items()}
    while left := {topic: records for topic, records in left.items() if records}:
        topic = min(left, key=lambda name: left[name][0].timestamp)
        yield topic, left[topic].pop(0)


def rows(records: Sequence[InputRecord]) -> dict[str, str]:
    """A table after its updates."""
    last = {str(one.key): one.value for one in records}
    return {key: str(value) for key, value in last.items() if value is not None}


# ---------------------------------------------------------------------------- what is expected


def run_through(
    topology: Callable[[], Any], inputs: Inputs, settings: Mapping[str, Any], *, together: bool = False
) -> Results:
    """What comes out of a run of each partition without faults, by key.

    :param together: in one run of all of them, for operators that bring records of several partitions together.
    """
    found: dict[str, list[tuple[str | None, int]]] = defaultdict(list)
    for partitions in [range(PARTITIONS)] if together else [[n] for n in range(PARTITIONS)]:
        with TopologyTestDriver(topology(), {**STRINGS, **settings, "statestore.cache.max.bytes": 0}) as driver:
            topics = {topic: driver.create_input_topic(topic, S, S) for topic in inputs}
            for topic, record in merged(inputs, partitions):
                topics[topic].pipe_input(record.key, record.value, timestamp=record.timestamp)
            for out in driver.create_output_topic("out", S, S).read_records():
                found[out.key].append((out.value, out.timestamp))
    return found


def scenario_results(
    build: Callable[[StreamsBuilder], Any], inputs: Inputs, *, together: bool = False, **config: Any
) -> Results:
    """What comes out of operators, without faults and without a cache."""

    def topology() -> Any:
        builder = StreamsBuilder()
        build(builder)
        return builder.build({**STRINGS, **config})

    return run_through(topology, inputs, {**EMITS, **config}, together=together)


def results_of(outcome: Outcome) -> Results:
    found: dict[str, list[tuple[str | None, int]]] = defaultdict(list)
    for record in outcome.records("out"):
        found[text(record.key)].append((None if record.value is None else text(record.value), record.timestamp))
    return found


def check_results(outcome: Outcome, expected: Results, sure: Sure, *, others: Container[str] = ()) -> None:
    """Checks the output against that of a run without faults.

    :param sure: each result with its time and in order; or those of two records, while one without a partner may come
        sooner or later after a restart (semantics 57), or not at all if its partner comes first; or only some of them
        in order (a cache holds back those that others replace), the last of each key among them; or only the last of
        each key. Under at-least-once results may come again, older ones also behind newer ones: then those that are
        sure have to be there.
    :param others: keys of which the results are not checked, unless they are expected.
    """
    found = results_of(outcome)
    for key in sorted(expected.keys() | found.keys()):
        if key not in expected and key in others:
            continue
        want, have = expected.get(key, []), found.get(key, [])
        if not outcome.exactly_once:
            needed = {value for value, _ in (want if sure in ("each", "pairs") else want[-1:])}
            missing = needed - {value for value, _ in have} - {None}
            missing = only_alone(missing, have) if sure == "pairs" else missing
            assert not missing, f"{key}: {missing} is missing, there is {have}"
        elif sure == "each":
            assert have == want, f"{key}: {have}, not {want}"
        elif sure == "pairs":
            check_pairs(key, have, want)
        else:
            last = have[-1][0] if have else None
            assert last == (want[-1][0] if want else None), f"{key}: {have}, not {want}"
            left = iter(want)
            among = sure == "last" or all(any(value == one for one, _ in left) for value, _ in have)
            assert among, f"{key}: {have}, not {want}"


def words_of(results: Results) -> set[str]:
    return {word for values in results.values() for value, _ in values for word in (value or "").split()}


def check_pairs(key: str, have: Sequence[tuple[str | None, int]], want: Sequence[tuple[str | None, int]]) -> None:
    """Checks the results of a left or outer join of two streams: all pairs, and those alone that are in none."""
    found, wanted = ([one for one in results if "None" not in str(one[0])] for results in (have, want))
    assert found == wanted, f"{key}: {have}, not {want}"
    alone, needed = Counter(have) - Counter(found), Counter(want) - Counter(wanted)
    differs = {value for value, _ in (alone - needed) + (needed - alone)}
    assert not (sure := only_alone(differs, found)), f"{key}: {sure} is alone in all or none: {have}, not {want}"


def only_alone(values: Iterable[str | None], results: Iterable[tuple[str | None, int]]) -> set[str | None]:
    """Returns those of the values of records without a partner whose records are in no pair among the results."""
    in_pairs = {one for value, _ in results if "None" not in str(value) for one in str(value).split("|")} | {"None"}
    return {value for value in values if not in_pairs.issuperset(str(value).split("|"))}


def each_once(outcome: Outcome, found: Counter[Any], wanted: Counter[Any]) -> None:
    """Exactly once under that guarantee, else at least once."""
    assert (found == wanted) if outcome.exactly_once else not wanted - found, f"{wanted - found}, {found - wanted}"


# ---------------------------------------------------------------------------- scenarios


def scenario(
    chance: Random,
    build: Callable[[StreamsBuilder], Any],
    inputs: Inputs,
    *,
    sure: Sure = "each",
    cached: Sure = "each",
    again: Sure | None = None,
    check: Callable[[Outcome], None] | None = None,
    by_words: bool = False,
    **options: Any,
) -> Scenario:
    """A scenario that writes its results to ``out``.

    :param build: adds the operators to a builder.
    :param sure: what is determined of the output.
    :param cached: the same with a cache.
    :param again: the same under at-least-once, if records that are processed again change which results others replace.
    :param check: in place of that against a run without faults.
    :param by_words: whether under at-least-once only the words of all results are determined: sliding windows take new
        ones from those there are, some of which know later records already when a record is processed again.
    """
    cache = chance.choice((0, 2000, 10_000_000))
    settings = {
        **EMITS,
        "statestore.cache.max.bytes": cache,
        "default.dsl.store": chance.choice(("rocksDB", "rocksDB", "in_memory")),
        **options.pop("settings", {}),
    }

    def topology() -> Any:
        builder = StreamsBuilder()
        build(builder)
        return builder.build({**STRINGS, **settings})

    if check is None:
        expected = run_through(topology, inputs, settings)
        known = sure if cache == 0 else cached

        def check(outcome: Outcome) -> None:
            determined = known if outcome.exactly_once or again is None else again
            if by_words and not outcome.exactly_once:
                missing = words_of(expected) - words_of(results_of(outcome))
                assert not missing, f"{missing} are in no result"
            else:
                check_results(outcome, expected, determined)

    options.setdefault("feeding", "before" if len(inputs) > 1 else "bit by bit")
    return Scenario(
        topology=topology,
        inputs=inputs,
        checks=[check],
        topics={**dict.fromkeys(inputs, PARTITIONS), "out": PARTITIONS},
        settings=settings,
        **options,
    )


def in_parts(made: Callable[[Random], Scenario]) -> Callable[[Random], Scenario]:
    """The same application, whose results leave one or two at a time, with commits between them."""

    def parts(chance: Random) -> Scenario:
        same = made(chance)
        settings = {
            PART_ROWS: chance.choice((1, 1, 2, 3)),
            "statestore.uncommitted.max.bytes": chance.choice((1, 1, 1000)),
        }
        return replace(same, settings={**same.settings, **settings})

    return parts
