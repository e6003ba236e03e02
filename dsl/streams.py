"""Streams, tables, and what lies between them when records are grouped.

These types name each other in a circle (a stream is grouped, counted into a table, and becomes a stream again), so they
share a module; each method only names its types and hands over to the module that knows what the call adds to the plan.
Wherever a method takes ``name``, it names the operator's node and, through it, internal topics; wherever it takes
``materialized``, the table's store.

``None`` stands for Kafka's null. Any key or value of a stream may be null and any function may return it, so types say
only what a key or value is when it is not null: ``KStream[str, int]`` may hold null values.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Generic, Self, TypeVar, overload

from dsl.batch_processor import BatchProcessor
from dsl.branch import BranchedKStream
from dsl.global_ktable import GlobalKTable
from dsl.joins import foreign_key, stream_global, stream_stream, stream_table, table_table
from dsl.joins.foreign_key import TableJoined
from dsl.joins.join_windows import JoinWindows
from dsl.joins.options import JoinArguments, Joined, JoinKind, StreamJoined
from dsl.options import Grouped, Materialized, NamedLike, Produced, Repartitioned, with_serdes
from dsl.plan import (
    batch_nodes,
    cogroup_nodes,
    deduplicate_nodes,
    group_nodes,
    stream_nodes,
    suppress_nodes,
    table_nodes,
)
from dsl.plan.builder import PlanPlace
from dsl.plan.cogroup_nodes import Cogrouping
from dsl.plan.group_nodes import Grouping
from dsl.plan.materialization import of_aggregates
from dsl.plan.table_nodes import TableGrouping
from dsl.printed import Printed
from dsl.processors.record_id_serde import RecordId
from dsl.shown import ShownChain
from dsl.suppressed import Suppressed
from dsl.value_transformer import ValueTransformerWithKey
from dsl.windows import aggregations
from dsl.windows import cogroup as windowed_cogroup
from dsl.windows.aggregations import Functions, WindowedGrouping
from dsl.windows.cogroup import WindowedCogrouping
from dsl.windows.definitions import EmitStrategy, SessionWindows, SlidingWindows, Windows
from processor_api.errors import TopologyError
from processor_api.processor import FixedKeyProcessor, Processor
from processor_api.stores.windowed import Windowed
from processor_api.texts import repr_of
from processor_api.topology.nodes import TopicNameExtractor
from processor_api.user_code.durations import Duration
from processor_api.user_code.given_serdes import SerdeLike

K = TypeVar("K")
V = TypeVar("V")
K2 = TypeVar("K2")
V2 = TypeVar("V2")
V3 = TypeVar("V3")
KO = TypeVar("KO")
VO = TypeVar("VO")

Joiner = Callable[[V, V2], V3 | None]
KeyJoiner = Callable[[K, V, V2], V3 | None]
Selector = Callable[[K, V], K2 | None]
StreamOptions = StreamJoined[K, V, V2] | str | None
TableOptions = Joined[K, V, V2] | str | None
StoreOptions = Materialized[K, V] | str | None


class KStream(ShownChain, Generic[K, V]):
    """A stream of records, each of which stands for itself.

    Operators keep timestamps and headers. After one that may change keys (``map``, ``flat_map``, ``select_key``,
    ``process``, ``group_by``), the next that needs equal keys in one place sends the records through an internal topic
    first (semantics 102); prefer the ``..._values`` variants where the key stays.

    Every method that takes functions or options raises :class:`~processor_api.errors.TopologyError` if one of them is
    of the wrong kind, or a name is illegal or taken.

    ::

        minutes = TimeWindows.of_size_with_no_grace(timedelta(minutes=1))
        clicks = builder.stream("clicks")
        pages = clicks.filter(lambda user, page: user is not None).group_by(lambda user, page: page)
        views = pages.windowed_by(minutes).count()
        # ("ann", "home") @ 0, ("bob", "home") @ 5_000 -> (("home", (0, 60_000)), 1), (("home", (0, 60_000)), 2)
    """

    __slots__ = ("_place",)

    def __init__(self, place: PlanPlace) -> None:
        self._place = place

    # ------------------------------------------------------------------ record by record

    def filter(self, predicate: Callable[[K, V], object], *, name: NamedLike = None) -> KStream[K, V]:
        """Keeps the records for which ``predicate(key, value)`` holds.

        ::

            hot = readings.filter(lambda sensor, degrees: degrees > 30)
            # ("roof", 40), ("cellar", 12) -> ("roof", 40)
        """
        return KStream(stream_nodes.filter_(self._place, predicate, False, name))

    def filter_not(self, predicate: Callable[[K, V], object], *, name: NamedLike = None) -> KStream[K, V]:
        """Drops the records for which ``predicate(key, value)`` holds.

        ::

            known = orders.filter_not(lambda customer, item: customer is None)
            # ("ann", "tea"), (None, "milk") -> ("ann", "tea")
        """
        return KStream(stream_nodes.filter_(self._place, predicate, True, name))

    def map(self, mapper: Callable[[K, V], tuple[K2 | None, V2 | None]], *, name: NamedLike = None) -> KStream[K2, V2]:
        """Replaces each record by the ``(key, value)`` that ``mapper(key, value)`` returns.

        ::

            by_item = orders.map(lambda customer, item: (item, customer.upper()))
            # ("ann", "tea") -> ("tea", "ANN")
        """
        return KStream(stream_nodes.map_(self._place, mapper, name))

    def map_values(self, mapper: Callable[[V], V2 | None], *, name: NamedLike = None) -> KStream[K, V2]:
        """Replaces each value by ``mapper(value)``. The mapper is called for null values too.

        ::

            loud = lines.map_values(str.upper)
            # ("ann", "hello") -> ("ann", "HELLO")
        """
        return KStream(stream_nodes.map_values(self._place, mapper, False, name))

    def map_values_with_key(self, mapper: Callable[[K, V], V2 | None], *, name: NamedLike = None) -> KStream[K, V2]:
        """Replaces each value by ``mapper(key, value)``.

        ::

            said = lines.map_values_with_key(lambda name, line: f"{name}: {line}")
            # ("ann", "hello") -> ("ann", "ann: hello")
        """
        return KStream(stream_nodes.map_values(self._place, mapper, True, name))

    def flat_map(
        self, mapper: Callable[[K, V], Iterable[tuple[K2 | None, V2 | None]]], *, name: NamedLike = None
    ) -> KStream[K2, V2]:
        """Replaces each record by any number of ``(key, value)``; the iterable is read to its end first.

        ::

            both = orders.flat_map(lambda customer, item: [(customer, item), (item, customer)])
            # ("ann", "tea") -> ("ann", "tea"), ("tea", "ann")
        """
        return KStream(stream_nodes.flat_map(self._place, mapper, name))

    def flat_map_values(self, mapper: Callable[[V], Iterable[V2 | None]], *, name: NamedLike = None) -> KStream[K, V2]:
        """Replaces each record by one of the same key for each value in ``mapper(value)``.

        ::

            words = lines.flat_map_values(str.split)
            # ("ann", "to be") -> ("ann", "to"), ("ann", "be")
        """
        return KStream(stream_nodes.flat_map_values(self._place, mapper, False, name))

    def flat_map_values_with_key(
        self, mapper: Callable[[K, V], Iterable[V2 | None]], *, name: NamedLike = None
    ) -> KStream[K, V2]:
        """Replaces each record by one of the same key for each value in ``mapper(key, value)``.

        ::

            words = lines.flat_map_values_with_key(lambda name, line: [word for word in line.split() if word != name])
            # ("ann", "ann is here") -> ("ann", "is"), ("ann", "here")
        """
        return KStream(stream_nodes.flat_map_values(self._place, mapper, True, name))

    def select_key(self, mapper: Callable[[K, V], K2 | None], *, name: NamedLike = None) -> KStream[K2, V]:
        """Replaces each key by ``mapper(key, value)``.

        ::

            by_item = orders.select_key(lambda customer, item: item)
            # ("ann", "tea") -> ("tea", "tea")
        """
        return KStream(stream_nodes.select_key(self._place, mapper, name))

    def peek(self, action: Callable[[K, V], object], *, name: NamedLike = None) -> KStream[K, V]:
        """Calls ``action(key, value)`` for each record and passes the record on as it is.

        ::

            seen = readings.peek(lambda sensor, degrees: print(f"{sensor} has {degrees}"))
            # ("roof", 40) -> print("roof has 40")
        """
        return KStream(stream_nodes.peek(self._place, action, name))

    def foreach(self, action: Callable[[K, V], object], *, name: NamedLike = None) -> None:
        """Calls ``action(key, value)`` for each record; the stream ends here.

        ::

            readings.foreach(lambda sensor, degrees: print(f"{sensor} has {degrees}"))
            # ("roof", 40) -> print("roof has 40")
        """
        stream_nodes.foreach(self._place, action, name)

    def print(self, printed: Printed[K, V] | None = None) -> None:
        """Prints a line ``[label]: key, value`` for each record; the stream ends here.

        ::

            orders.print(Printed(label="order"))
            # ("ann", "tea") -> print("[order]: ann, tea")

        :param printed: a label, a function for the text, and a file; left out, the standard output with the name of the
            stream's node as label. To continue with the stream, use :meth:`peek`.
        """
        stream_nodes.print_(self._place, printed)

    # ------------------------------------------------------------------ several streams, and topics

    def merge(self, other: KStream[K, V], *, name: NamedLike = None) -> KStream[K, V]:
        """Joins the records of both streams into one, in no particular order between them.

        ::

            moved = orders.merge(returns)
            # orders("ann", "tea"), returns("bob", "milk") -> ("ann", "tea"), ("bob", "milk")

        :raises TopologyError: if ``other`` is not a stream, or comes from another builder.
        """
        if not isinstance(other, KStream):
            raise TopologyError(
                f"a stream can be merged with another stream only, got {repr_of(other)}; see KTable.to_stream"
            )
        return KStream(stream_nodes.merge(self._place, other._place, name))

    def split(self, *, name: NamedLike = None) -> BranchedKStream[K, V, KStream[K, V]]:
        """Splits the stream by predicates.

        ``default_branch`` and ``no_default_branch`` return the branches by name: ``name`` and the name of each
        ``Branched`` together.

        ::

            split = payments.split(name="paid-").branch(lambda customer, cents: cents >= 10_000, Branched.as_("much"))
            parts = split.default_branch(Branched.as_("little"))
            parts["paid-much"].to("review")
            # ("ann", 25_000), ("bob", 300) -> review("ann", 25_000)
        """
        return BranchedKStream(self._place, KStream, name)

    def repartition(
        self,
        repartitioned: Repartitioned[K, V] | None = None,
        *,
        key_serde: SerdeLike[K] | None = None,
        value_serde: SerdeLike[V] | None = None,
    ) -> KStream[K, V]:
        """Sends the records through an internal topic, so that equal keys meet in one task.

        The topic is ``<application.id>-<name>-repartition``. Records without a key are dropped before it
        (semantics 28). What is grouped or joined after a key change is repartitioned anyway; this is for choosing the
        number of partitions or the partitioner.

        ::

            by_item = orders.select_key(lambda customer, item: item)
            spread = by_item.repartition(Repartitioned(name="by-item", number_of_partitions=12))
            # ("ann", "tea") -> ("tea", "tea")
        """
        how = with_serdes(repartitioned, Repartitioned, "repartition", key_serde, value_serde)
        return KStream(stream_nodes.repartition(self._place, how))

    def to(
        self,
        topic: str | TopicNameExtractor,
        produced: Produced[K, V] | None = None,
        *,
        topics: Collection[str] = (),
        key_serde: SerdeLike[K] | None = None,
        value_serde: SerdeLike[V] | None = None,
    ) -> None:
        """Writes the records to a topic, or to the topic that ``topic(key, value, record_context)`` names for each.

        Topics must exist; they are not created. Serdes can be given here or in ``produced``; those left out come from
        the operators before, if they are known there, else from the application's defaults.

        ::

            lines.map_values(str.upper).to("loud", value_serde="string")
            lines.to(lambda name, line, record_context: f"lines_of_{name}")  # a topic for each name
            # ("ann", "hello") -> loud("ann", "HELLO"), lines_of_ann("ann", "hello")

        :param topics: the topics that the function may name, where they are known: another is an error of the record.
            `streams topics` lists and creates these, and `streams doctor` looks for them.
        :raises TopologyError: if it is neither the name of a topic nor a function, or a serde is given twice.
        """
        how = with_serdes(produced, Produced, "to", key_serde, value_serde)
        stream_nodes.to(self._place, topic, how, topics)

    # ------------------------------------------------------------------ processors

    def process(
        self, supplier: Callable[[], Processor[K, V, K2, V2]], *stores: str, name: NamedLike = None
    ) -> KStream[K2, V2]:
        """Runs a processor that ``supplier()`` makes for each task, connected to the named stores.

        Keys may change in it; where they do not, use :meth:`process_values`. Add the stores to the builder first, or
        let the supplier bring them along in a method ``stores()``.

        ::

            class Twice(Processor):
                def process(self, record):
                    self.context.forward(record)
                    self.context.forward(record.with_key(f"copy for {record.key}"))

            twice = orders.process(Twice)
            # ("ann", "tea") -> ("ann", "tea"), ("copy for ann", "tea")
        """
        return KStream(stream_nodes.process(self._place, supplier, stores, False, name))

    def process_values(
        self, supplier: Callable[[], FixedKeyProcessor[K, V, V2]], *stores: str, name: NamedLike = None
    ) -> KStream[K, V2]:
        """Runs a processor that cannot change keys, so that no repartition follows; otherwise as :meth:`process`.

        ::

            class Numbered(FixedKeyProcessor):
                def process(self, record):
                    numbers = self.context.get_state_store("numbers")
                    numbers.put(record.key, (numbers.get(record.key) or 0) + 1)
                    self.context.forward(record.with_value(numbers.get(record.key)))

            builder.add_state_store(Stores.key_value_store("numbers", "string", "long"))
            numbered = orders.process_values(Numbered, "numbers")
            # ("ann", "tea"), ("ann", "milk") -> ("ann", 1), ("ann", 2)
        """
        return KStream(stream_nodes.process(self._place, supplier, stores, True, name))

    # ------------------------------------------------------------------ beyond Kafka Streams

    def deduplicate(
        self,
        *,
        within: Duration,
        grace: Duration | None = None,
        id_selector: Callable[[K, V], RecordId | None] | None = None,
        name: NamedLike = None,
        materialized: StoreOptions[K, Any] = None,
    ) -> KStream[K, V]:
        """Keeps the first record of each key, and drops those of less than ``within`` before or after it in time.

        With ``id_selector(key, value)`` records are equal if keys *and* ids are; to compare ids of all keys, make the
        id the key by ``select_key`` first. Records without a key or an id are dropped and counted, and so is one that
        comes more than ``grace`` behind stream time; ``grace`` is as long as ``within`` if left out (semantics 147).

        ::

            once = orders.deduplicate(within=timedelta(minutes=10))
            # ("ann", "tea") @ 0, ("ann", "tea") @ 5_000, ("ann", "tea") @ 700_000
            #   -> ("ann", "tea") @ 0, ("ann", "tea") @ 700_000
        """
        return KStream(deduplicate_nodes.deduplicate(self._place, within, grace, id_selector, materialized, name))

    def map_values_batch(
        self,
        function: Callable[[list[V]], Sequence[V2 | Exception | None]],
        *,
        max_records: int = 1000,
        max_wait: Duration | None = None,
        name: NamedLike = None,
    ) -> KStream[K, V2]:
        """Replaces the values of many records by one call: ``function(values)`` returns one for each, in order.

        An exception instead of a value is the error of that record. Batches end with the round in which their records
        came, or ``max_wait`` later, and before each commit (semantics 144, 145; ``docs/beyond-java.md``).

        ::

            lengths = lines.map_values_batch(lambda batch: [len(line) for line in batch], max_records=500)
            # ("ann", "hello"), ("bob", "hi") -> ("ann", 5), ("bob", 2)
        """
        return KStream(batch_nodes.map_values_batch(self._place, function, max_records, max_wait, name))

    def process_batch(
        self,
        supplier: Callable[[], BatchProcessor[K, V, K2, V2]],
        *stores: str,
        max_records: int = 1000,
        max_wait: Duration | None = None,
        name: NamedLike = None,
    ) -> KStream[K2, V2]:
        """Runs a processor of batches, as :meth:`map_values_batch` and :meth:`process` do (semantics 146).

        ::

            class Words(BatchProcessor):
                def process_batch(self, records):
                    return [[record.with_value(word) for word in record.value.split()] for record in records]

            words = lines.process_batch(Words, max_records=500)
            # ("ann", "tea and milk") -> ("ann", "tea"), ("ann", "and"), ("ann", "milk")
        """
        return KStream(batch_nodes.process_batch(self._place, supplier, stores, max_records, max_wait, name))

    # ------------------------------------------------------------------ joins

    @overload
    def join(
        self,
        other: KStream[K, V2],
        joiner: Joiner[V, V2, V3],
        *,
        windows: JoinWindows,
        joined: StreamOptions[K, V, V2] = None,
    ) -> KStream[K, V3]: ...
    @overload
    def join(
        self, other: KTable[K, V2], joiner: Joiner[V, V2, V3], *, joined: TableOptions[K, V, V2] = None
    ) -> KStream[K, V3]: ...
    @overload
    def join(
        self,
        other: GlobalKTable[K2, V2],
        joiner: Joiner[V, V2, V3],
        *,
        key_selector: Selector[K, V, K2],
        name: NamedLike = None,
    ) -> KStream[K, V3]: ...
    def join(
        self,
        other: Any,
        joiner: Callable[..., Any],
        *,
        windows: JoinWindows | None = None,
        joined: Any = None,
        key_selector: Callable[..., Any] | None = None,
        name: NamedLike = None,
    ) -> KStream[Any, Any]:
        """Joins each record with its partners of the other side: ``joiner(value, other)`` for each of them.

        * With a **stream**: the records of the same key that are at most so far away in time as ``windows`` say. The
          result has the larger of the two timestamps (semantics 54 to 61).
        * With a **table**: the row of the record's key, as it is now, or in a versioned table as it was at the record's
          time. Only the stream's records cause results, which have their timestamps (semantics 40, 64, 65).
        * With a **global table**: the row of the key that ``key_selector(key, value)`` returns.

        A record without a partner is dropped. Both sides need the same number of partitions, except for a global
        table; where keys have changed, records go through an internal topic first.

        ::

            within = JoinWindows.of_time_difference_with_no_grace(timedelta(minutes=5))
            paid = orders.join(payments, lambda item, cents: f"{item} for {cents}", windows=within)
            sent = orders.join(customers, lambda item, city: f"{item} to {city}")
            priced = orders.join(catalogue, lambda item, cents: cents, key_selector=lambda customer, item: item)
            # catalogue("tea", 320), customers("ann", "Oslo"), orders("ann", "tea") @ 0, payments("ann", 300) @ 700
            #   -> paid("ann", "tea for 300") @ 700, sent("ann", "tea to Oslo") @ 0, priced("ann", 320) @ 0

        :param windows: for a stream: how far apart two records may be.
        :param joined: names, serdes and stores; for a stream a ``StreamJoined``, for a table a ``Joined``. A plain
            string is the operator's name.
        :param key_selector: for a global table: where to look.
        :param name: for a global table: the operator's name.
        :raises TopologyError: if the other side comes from another builder, or an argument does not belong to it.
        """
        given = JoinArguments(joiner=joiner, windows=windows, joined=joined, key_selector=key_selector, name=name)
        return self._join(other, JoinKind(), given)

    @overload
    def join_with_key(
        self,
        other: KStream[K, V2],
        joiner: KeyJoiner[K, V, V2, V3],
        *,
        windows: JoinWindows,
        joined: StreamOptions[K, V, V2] = None,
    ) -> KStream[K, V3]: ...
    @overload
    def join_with_key(
        self, other: KTable[K, V2], joiner: KeyJoiner[K, V, V2, V3], *, joined: TableOptions[K, V, V2] = None
    ) -> KStream[K, V3]: ...
    @overload
    def join_with_key(
        self,
        other: GlobalKTable[K2, V2],
        joiner: KeyJoiner[K, V, V2, V3],
        *,
        key_selector: Selector[K, V, K2],
        name: NamedLike = None,
    ) -> KStream[K, V3]: ...
    def join_with_key(
        self,
        other: Any,
        joiner: Callable[..., Any],
        *,
        windows: JoinWindows | None = None,
        joined: Any = None,
        key_selector: Callable[..., Any] | None = None,
        name: NamedLike = None,
    ) -> KStream[Any, Any]:
        """Joins as :meth:`join` does, with ``joiner(key, value, other)``; the key is that of this stream.

        ::

            sent = orders.join_with_key(customers, lambda customer, item, city: f"{item} to {customer} in {city}")
            # customers("ann", "Oslo"), orders("ann", "tea") -> ("ann", "tea to ann in Oslo")
        """
        given = JoinArguments(joiner=joiner, windows=windows, joined=joined, key_selector=key_selector, name=name)
        return self._join(other, JoinKind(takes_key=True), given)

    @overload
    def left_join(
        self,
        other: KStream[K, V2],
        joiner: Joiner[V, V2 | None, V3],
        *,
        windows: JoinWindows,
        joined: StreamOptions[K, V, V2] = None,
    ) -> KStream[K, V3]: ...
    @overload
    def left_join(
        self, other: KTable[K, V2], joiner: Joiner[V, V2 | None, V3], *, joined: TableOptions[K, V, V2] = None
    ) -> KStream[K, V3]: ...
    @overload
    def left_join(
        self,
        other: GlobalKTable[K2, V2],
        joiner: Joiner[V, V2 | None, V3],
        *,
        key_selector: Selector[K, V, K2],
        name: NamedLike = None,
    ) -> KStream[K, V3]: ...
    def left_join(
        self,
        other: Any,
        joiner: Callable[..., Any],
        *,
        windows: JoinWindows | None = None,
        joined: Any = None,
        key_selector: Callable[..., Any] | None = None,
        name: NamedLike = None,
    ) -> KStream[Any, Any]:
        """Joins as :meth:`join` does, and keeps each record of this stream: ``joiner(value, None)`` without a partner.

        In a join with a stream such a result comes when the record's window has closed and the grace period is over,
        and a later record has shown that (semantics 56, 57). A record without a key has no partner.

        ::

            sent = orders.left_join(customers, lambda item, city: f"{item} to {city or 'the shop'}")
            # customers("ann", "Oslo"), orders("ann", "tea"), orders("bob", "milk")
            #   -> ("ann", "tea to Oslo"), ("bob", "milk to the shop")
        """
        given = JoinArguments(joiner=joiner, windows=windows, joined=joined, key_selector=key_selector, name=name)
        return self._join(other, JoinKind(keeps_left=True), given)

    @overload
    def left_join_with_key(
        self,
        other: KStream[K, V2],
        joiner: KeyJoiner[K, V, V2 | None, V3],
        *,
        windows: JoinWindows,
        joined: StreamOptions[K, V, V2] = None,
    ) -> KStream[K, V3]: ...
    @overload
    def left_join_with_key(
        self, other: KTable[K, V2], joiner: KeyJoiner[K, V, V2 | None, V3], *, joined: TableOptions[K, V, V2] = None
    ) -> KStream[K, V3]: ...
    @overload
    def left_join_with_key(
        self,
        other: GlobalKTable[K2, V2],
        joiner: KeyJoiner[K, V, V2 | None, V3],
        *,
        key_selector: Selector[K, V, K2],
        name: NamedLike = None,
    ) -> KStream[K, V3]: ...
    def left_join_with_key(
        self,
        other: Any,
        joiner: Callable[..., Any],
        *,
        windows: JoinWindows | None = None,
        joined: Any = None,
        key_selector: Callable[..., Any] | None = None,
        name: NamedLike = None,
    ) -> KStream[Any, Any]:
        """Joins as :meth:`left_join` does, with ``joiner(key, value, other)``; the key may be ``None``.

        ::

            sent = orders.left_join_with_key(customers, lambda customer, item, city: f"{item} to {city or customer}")
            # orders("bob", "milk") -> ("bob", "milk to bob")
        """
        given = JoinArguments(joiner=joiner, windows=windows, joined=joined, key_selector=key_selector, name=name)
        return self._join(other, JoinKind(keeps_left=True, takes_key=True), given)

    def outer_join(
        self,
        other: KStream[K, V2],
        joiner: Joiner[V | None, V2 | None, V3],
        *,
        windows: JoinWindows,
        joined: StreamOptions[K, V, V2] = None,
    ) -> KStream[K, V3]:
        """Joins with a stream as :meth:`join` does, and keeps each record of either side.

        Without a partner it is ``joiner(value, None)`` for a record of this stream and ``joiner(None, other)`` for one
        of the other, when the record's window has closed (semantics 56, 57).

        ::

            within = JoinWindows.of_time_difference_with_no_grace(timedelta(seconds=1))
            pairs = payments.outer_join(refunds, lambda paid, refunded: (paid or 0) - (refunded or 0), windows=within)
            # payments("ann", 300) @ 0, refunds("ann", 100) @ 500, refunds("bob", 50) @ 700, payments("eve", 1) @ 9_000
            #   -> ("ann", 200) @ 500, ("bob", -50) @ 700
        """
        given = JoinArguments(joiner=joiner, windows=windows, joined=joined)
        return self._join(other, JoinKind(keeps_left=True, keeps_right=True), given)

    def outer_join_with_key(
        self,
        other: KStream[K, V2],
        joiner: KeyJoiner[K, V | None, V2 | None, V3],
        *,
        windows: JoinWindows,
        joined: StreamOptions[K, V, V2] = None,
    ) -> KStream[K, V3]:
        """Joins as :meth:`outer_join` does, with ``joiner(key, value, other)``; the key may be ``None``.

        ::

            within = JoinWindows.of_time_difference_with_no_grace(timedelta(seconds=1))
            pairs = orders.outer_join_with_key(returns, lambda who, new, old: f"{who}: {new}, {old}", windows=within)
            # orders("ann", "tea") @ 0, returns("ann", "milk") @ 500 -> ("ann", "ann: tea, milk")
        """
        given = JoinArguments(joiner=joiner, windows=windows, joined=joined)
        return self._join(other, JoinKind(keeps_left=True, keeps_right=True, takes_key=True), given)

    def join_with_mapped_key(
        self,
        other: GlobalKTable[K2, V2],
        joiner: Callable[[K, K2, V, V2], V3 | None],
        *,
        key_selector: Selector[K, V, K2],
        name: NamedLike = None,
    ) -> KStream[K, V3]:
        """Joins with a global table as :meth:`join` does, with ``joiner(key, mapped_key, value, other)`` (KIP-1340).

        ::

            priced = orders.join_with_mapped_key(
                catalogue,
                lambda customer, item, order, cents: f"{customer} pays {cents} for {item}",
                key_selector=lambda customer, order: order,
            )
            # catalogue("tea", 320), orders("ann", "tea") -> ("ann", "ann pays 320 for tea")
        """
        given = JoinArguments(joiner=joiner, key_selector=key_selector, name=name)
        return self._join(other, JoinKind(takes_mapped_key=True), given)

    def left_join_with_mapped_key(
        self,
        other: GlobalKTable[K2, V2],
        joiner: Callable[[K, K2 | None, V, V2 | None], V3 | None],
        *,
        key_selector: Selector[K, V, K2],
        name: NamedLike = None,
    ) -> KStream[K, V3]:
        """Joins as :meth:`join_with_mapped_key`, and keeps each record of this stream, also if no key is selected.

        ::

            priced = orders.left_join_with_mapped_key(
                catalogue,
                lambda customer, item, order, cents: f"{item} for {cents or 'nothing'}",
                key_selector=lambda customer, order: order,
            )
            # orders("ann", "tea") -> ("ann", "tea for nothing")
        """
        given = JoinArguments(joiner=joiner, key_selector=key_selector, name=name)
        return self._join(other, JoinKind(keeps_left=True, takes_mapped_key=True), given)

    def _join(self, other: Any, kind: JoinKind, given: JoinArguments) -> KStream[Any, Any]:
        if kind.takes_mapped_key and not isinstance(other, GlobalKTable):
            raise TopologyError(
                f"a joiner receives a mapped key in joins with a global table only, got {repr_of(other)}"
            )
        match other:
            case KStream():
                return KStream(stream_stream.join(self._place, other._place, kind, given))
            case KTable() if not kind.keeps_right:
                return KStream(stream_table.join(self._place, other._place, kind, given))
            case GlobalKTable() if not kind.keeps_right:
                return KStream(stream_global.join(self._place, other.planned, kind, given))
            case _:
                wanted = "a stream" if kind.keeps_right else "a stream, a table or a global table"
                raise TopologyError(f"a stream can be joined with {wanted} only, got {repr_of(other)}")

    # ------------------------------------------------------------------ tables and groups

    def to_table(
        self, *, ttl: Duration | None = None, name: NamedLike = None, materialized: StoreOptions[K, V] = None
    ) -> KTable[K, V]:
        """Reads the records as updates of a table: the latest value of each key; a null value deletes.

        With ``ttl`` a row is there for so long after the time of its record (``docs/beyond-java.md#rows-that-expire``).

        ::

            latest = payments.to_table(materialized="latest")
            # ("ann", 300), ("ann", None) -> ("ann", 300), ("ann", None)
        """
        return KTable(stream_nodes.to_table(self._place, ttl, materialized, name))

    def group_by_key(
        self,
        grouped: Grouped[K, V] | str | None = None,
        *,
        key_serde: SerdeLike[K] | None = None,
        value_serde: SerdeLike[V] | None = None,
    ) -> KGroupedStream[K, V]:
        """Groups the records by their keys, to be aggregated.

        ::

            totals = payments.group_by_key().reduce(lambda total, cents: total + cents)
            # ("ann", 300), ("bob", 10), ("ann", 40) -> ("ann", 300), ("bob", 10), ("ann", 340)

        :param grouped: a name and serdes; a plain string is the name of the repartition topic, should one be needed.
        """
        how = group_nodes.as_grouped(grouped, "group_by_key", key_serde, value_serde)
        return KGroupedStream(group_nodes.group_by_key(self._place, how))

    def group_by(
        self,
        selector: Callable[[K, V], K2 | None],
        grouped: Grouped[K2, V] | str | None = None,
        *,
        key_serde: SerdeLike[K2] | None = None,
        value_serde: SerdeLike[V] | None = None,
    ) -> KGroupedStream[K2, V]:
        """Groups the records by ``selector(key, value)``; always through an internal topic.

        The topic is named after ``grouped``, if it (or a plain string instead) gives a name, otherwise after the store.

        ::

            sold = orders.group_by(lambda customer, item: item, "by-item").count()
            # ("ann", "tea"), ("bob", "tea") -> ("tea", 1), ("tea", 2)
        """
        how = group_nodes.as_grouped(grouped, "group_by", key_serde, value_serde)
        return KGroupedStream(group_nodes.group_by(self._place, selector, how))


class KTable(ShownChain, Generic[K, V]):
    """The latest value of each key, and the changes that lead there.

    Without a store a table is only its changes; it gets one if it is named by ``materialized`` or if an operator needs
    its values (semantics 109). Functions never see a null value: a deletion stays a deletion.

    ::

        from streams import StreamsBuilder, TopologyTestDriver

        builder = StreamsBuilder()
        users = builder.table("users", materialized="users")
        users.filter(lambda name, city: city == "Oslo").to_stream().to("in-oslo")

        settings = {"default.key.serde": "string", "default.value.serde": "string"}
        with TopologyTestDriver(builder.build(), settings) as driver:
            driver.create_input_topic("users").pipe_key_values([("ann", "Oslo"), ("ann", "Rome"), ("bob", "Oslo")])
            assert driver.get_key_value_store("users").get("ann") == "Rome"
            moved = driver.create_output_topic("in-oslo").read_key_values()
            assert moved == [("ann", "Oslo"), ("ann", None), ("bob", "Oslo")]
    """

    __slots__ = ("_place",)

    def __init__(self, place: PlanPlace) -> None:
        self._place = place

    @staticmethod
    def _place_of(other: object, call: str) -> PlanPlace:
        if not isinstance(other, KTable):
            raise TopologyError(f"{call} of a table needs another table, got {repr_of(other)}")
        return other._place

    @property
    def queryable_store_name(self) -> str | None:
        """The name under which the table can be queried; ``None`` if the user did not name its store."""
        return self._place.store

    def filter(
        self, predicate: Callable[[K, V], object], *, name: NamedLike = None, materialized: StoreOptions[K, V] = None
    ) -> KTable[K, V]:
        """Keeps the rows for which ``predicate(key, value)`` holds.

        A row that no longer passes is deleted downstream. Where old values are not known, a row that never passed
        is deleted too (semantics 32); materialize the table before the filter to avoid that.

        ::

            low = stock.filter(lambda item, count: count < 10)
            # ("tea", 3), ("tea", 50) -> ("tea", 3), ("tea", None)
        """
        return KTable(table_nodes.filter_(self._place, predicate, False, materialized, name))

    def filter_not(
        self, predicate: Callable[[K, V], object], *, name: NamedLike = None, materialized: StoreOptions[K, V] = None
    ) -> KTable[K, V]:
        """Keeps the rows for which ``predicate(key, value)`` does not hold; see :meth:`filter`.

        ::

            enough = stock.filter_not(lambda item, count: count < 10, materialized="enough")
            # ("tea", 50), ("tea", 3) -> ("tea", 50), ("tea", None)
        """
        return KTable(table_nodes.filter_(self._place, predicate, True, materialized, name))

    def map_values(
        self, mapper: Callable[[V], V2 | None], *, name: NamedLike = None, materialized: StoreOptions[K, V2] = None
    ) -> KTable[K, V2]:
        """Replaces each value by ``mapper(value)``; ``None`` deletes the row.

        ::

            words = stock.map_values(lambda count: "few" if count < 10 else "many")
            # ("tea", 3), ("tea", None) -> ("tea", "few"), ("tea", None)
        """
        return KTable(table_nodes.map_values(self._place, mapper, False, materialized, name))

    def map_values_with_key(
        self, mapper: Callable[[K, V], V2 | None], *, name: NamedLike = None, materialized: StoreOptions[K, V2] = None
    ) -> KTable[K, V2]:
        """Replaces each value by ``mapper(key, value)``; ``None`` deletes the row.

        ::

            texts = stock.map_values_with_key(lambda item, count: f"{count} of {item}")
            # ("tea", 3) -> ("tea", "3 of tea")
        """
        return KTable(table_nodes.map_values(self._place, mapper, True, materialized, name))

    def transform_values(
        self,
        supplier: Callable[[], ValueTransformerWithKey[K, V, V2]],
        *stores: str,
        name: NamedLike = None,
        materialized: StoreOptions[K, V2] = None,
    ) -> KTable[K, V2]:
        """Replaces each value by what a transformer returns, which ``supplier()`` makes for each task.

        It is connected to the named stores. Unlike the function of :meth:`map_values` it is called for deletions too
        (semantics 29). Where rows are looked up, as in a join, and the result has no store, each reader has a
        transformer of its own: name the result by ``materialized`` if its values depend on what it saw before.

        ::

            class Dated(ValueTransformerWithKey):
                def transform(self, item, count):
                    return None if count is None else f"{count} at {self.context.current_stream_time_ms()}"

            dated = stock.transform_values(Dated, materialized="dated")
            # ("tea", 3) @ 700 -> ("tea", "3 at 700")

        :raises TopologyError: if the supplier makes no transformers, or the same one twice.
        """
        return KTable(table_nodes.transform_values(self._place, supplier, stores, materialized, name))

    # ------------------------------------------------------------------ joins

    def join(
        self,
        other: KTable[K, VO],
        joiner: Callable[[V, VO], V2 | None],
        *,
        name: NamedLike = None,
        materialized: StoreOptions[K, V2] = None,
    ) -> KTable[K, V2]:
        """Joins the rows of both tables that have the same key: ``joiner(value, other_value)``; ``None`` deletes.

        A change of either table changes the result, whose timestamp is the larger of the two rows'. Both topics must
        have the same number of partitions. Both tables get a store, if they have none above.

        ::

            debts = customers.join(balances, lambda city, cents: f"{cents} in {city}")
            # customers("ann", "Oslo"), balances("ann", 300), customers("ann", None)
            #   -> ("ann", "300 in Oslo"), ("ann", None)

        :raises TopologyError: if ``other`` is not a table, or comes from another builder.
        """
        return KTable(table_table.join(self._place, self._place_of(other, "join"), joiner, materialized, name))

    def left_join(
        self,
        other: KTable[K, VO],
        joiner: Callable[[V, VO | None], V2 | None],
        *,
        name: NamedLike = None,
        materialized: StoreOptions[K, V2] = None,
    ) -> KTable[K, V2]:
        """Joins as :meth:`join`, and keeps the rows of this table without a partner: ``joiner(value, None)``.

        ::

            debts = customers.left_join(balances, lambda city, cents: f"{cents or 0} in {city}")
            # customers("ann", "Oslo"), balances("ann", 300) -> ("ann", "0 in Oslo"), ("ann", "300 in Oslo")
        """
        right = self._place_of(other, "left_join")
        return KTable(table_table.join(self._place, right, joiner, materialized, name, keeps_left=True))

    def outer_join(
        self,
        other: KTable[K, VO],
        joiner: Callable[[V | None, VO | None], V2 | None],
        *,
        name: NamedLike = None,
        materialized: StoreOptions[K, V2] = None,
    ) -> KTable[K, V2]:
        """Joins as :meth:`join`, and keeps the rows of both tables; the value that is missing is ``None``.

        ::

            debts = customers.outer_join(balances, lambda city, cents: f"{cents or 0} in {city or 'no city'}")
            # balances("ann", 300), customers("ann", "Oslo") -> ("ann", "300 in no city"), ("ann", "300 in Oslo")
        """
        right = self._place_of(other, "outer_join")
        return KTable(
            table_table.join(self._place, right, joiner, materialized, name, keeps_left=True, keeps_right=True)
        )

    def foreign_key_join(
        self,
        other: KTable[KO, VO],
        extractor: Callable[[V], KO | None],
        joiner: Callable[[V, VO], V2 | None],
        *,
        joined: TableJoined[K, KO] | str | None = None,
        materialized: StoreOptions[K, V2] = None,
    ) -> KTable[K, V2]:
        """Joins each row with the row of ``other`` whose key is ``extractor(value)``: ``joiner(value, other_value)``.

        Many rows may refer to one of ``other``; a change there changes them all. A row without a foreign key
        (``None``), or whose foreign key is not there, has no result. It goes through two internal topics, so that the
        numbers of partitions of the two tables may differ. Both tables get a store, and the subscriptions of this
        table's rows are kept in one of their own (semantics 66 to 69).

        ::

            sent = baskets.foreign_key_join(
                customers, lambda basket: basket["of"], lambda basket, city: f"{basket['item']} to {city}"
            )
            # baskets("7", {"of": "ann", "item": "tea"}), customers("ann", "Oslo"), customers("ann", "Rome")
            #   -> ("7", "tea to Oslo"), ("7", "tea to Rome")

        :param joined: the name of the join, and partitioners for tables that were not written with Kafka's
            default; a plain string is the name.
        :raises TopologyError: if ``other`` is not a table, or comes from another builder.
        """
        return self._foreign_key_join(other, extractor, joiner, joined, materialized, with_key=False, left=False)

    def foreign_key_join_with_key(
        self,
        other: KTable[KO, VO],
        extractor: Callable[[K, V], KO | None],
        joiner: Callable[[V, VO], V2 | None],
        *,
        joined: TableJoined[K, KO] | str | None = None,
        materialized: StoreOptions[K, V2] = None,
    ) -> KTable[K, V2]:
        """Joins as :meth:`foreign_key_join`; the foreign key is ``extractor(key, value)``.

        ::

            counted = stock.foreign_key_join_with_key(  # the keys are such as "tea/green"
                balances, lambda item, count: item.split("/")[0], lambda count, cents: count * cents
            )
            # stock("tea/green", 3), balances("tea", 320) -> ("tea/green", 960)
        """
        return self._foreign_key_join(other, extractor, joiner, joined, materialized, with_key=True, left=False)

    def foreign_key_left_join(
        self,
        other: KTable[KO, VO],
        extractor: Callable[[V], KO | None],
        joiner: Callable[[V, VO | None], V2 | None],
        *,
        joined: TableJoined[K, KO] | str | None = None,
        materialized: StoreOptions[K, V2] = None,
    ) -> KTable[K, V2]:
        """Joins as :meth:`foreign_key_join`, and keeps rows without a partner: ``joiner(value, None)``.

        ::

            sent = baskets.foreign_key_left_join(
                customers, lambda basket: basket["of"], lambda basket, city: f"{basket['item']} to {city or 'the shop'}"
            )
            # baskets("7", {"of": "ann", "item": "tea"}) -> ("7", "tea to the shop")
        """
        return self._foreign_key_join(other, extractor, joiner, joined, materialized, with_key=False, left=True)

    def foreign_key_left_join_with_key(
        self,
        other: KTable[KO, VO],
        extractor: Callable[[K, V], KO | None],
        joiner: Callable[[V, VO | None], V2 | None],
        *,
        joined: TableJoined[K, KO] | str | None = None,
        materialized: StoreOptions[K, V2] = None,
    ) -> KTable[K, V2]:
        """Joins as :meth:`foreign_key_left_join`; the foreign key is ``extractor(key, value)``.

        ::

            counted = stock.foreign_key_left_join_with_key(
                balances, lambda item, count: item.split("/")[0], lambda count, cents: count * (cents or 100)
            )
            # stock("tea/green", 3) -> ("tea/green", 300)
        """
        return self._foreign_key_join(other, extractor, joiner, joined, materialized, with_key=True, left=True)

    def _foreign_key_join(self, other: object, *given: Any, with_key: bool, left: bool) -> KTable[K, Any]:
        right = self._place_of(other, "a foreign-key join")
        return KTable(foreign_key.join(self._place, right, *given, with_key=with_key, left_join=left))

    # ------------------------------------------------------------------ time, streams, groups

    def suppress(self, suppressed: Suppressed) -> KTable[K, V]:
        """Holds changes back: until some time has passed, or until their windows close (KIP-328).

        What waits for a key is its last change, at the time of the first. Time is stream time, that of the records
        which reach this operator: while none come, nothing is sent on. The table gets a store, since the value before
        the changes must be known.

        ::

            minutes = TimeWindows.of_size_with_no_grace(timedelta(minutes=1))
            counts = clicks.group_by_key().windowed_by(minutes).count()
            final = counts.suppress(Suppressed.until_window_closes(BufferConfig.unbounded()))
            # ("ann", "home") @ 0, ("ann", "cart") @ 9_000, ("bob", "home") @ 60_000 -> (("ann", (0, 60_000)), 2)

        :param suppressed: :meth:`Suppressed.until_time_limit <dsl.suppressed.Suppressed.until_time_limit>` or
            :meth:`~dsl.suppressed.Suppressed.until_window_closes`.
        :raises TopologyError: if it waits for windows and there are none; when the topology is built, if the table is
            versioned.
        """
        return KTable(suppress_nodes.suppress(self._place, suppressed))

    @overload
    def to_stream(self, *, name: NamedLike = None) -> KStream[K, V]: ...
    @overload
    def to_stream(self, key_mapper: Callable[[K, V], K2 | None], *, name: NamedLike = None) -> KStream[K2, V]: ...
    def to_stream(self, key_mapper: Callable[[K, V], Any] | None = None, *, name: NamedLike = None) -> KStream[Any, V]:
        """Makes a stream of the table's changes; a deletion has a null value.

        ::

            stock.to_stream().to("changes")
            minutes = TimeWindows.of_size_with_no_grace(timedelta(minutes=1))
            counts = clicks.group_by_key().windowed_by(minutes).count()
            plain = counts.to_stream(lambda windowed, count: f"{windowed.key} from {windowed.window.start}")
            # clicks("ann", "home") @ 61_000 -> plain("ann from 60000", 1)

        :param key_mapper: gives each record the key ``key_mapper(key, value)``; it is called for null values too.
        """
        stream: KStream[K, V] = KStream(table_nodes.to_stream(self._place, name))
        return stream if key_mapper is None else stream.select_key(key_mapper)

    def group_by(
        self,
        selector: Callable[[K, V], tuple[K2 | None, V2 | None] | None],
        grouped: Grouped[K2, V2] | str | None = None,
        *,
        key_serde: SerdeLike[K2] | None = None,
        value_serde: SerdeLike[V2] | None = None,
    ) -> KGroupedTable[K2, V2]:
        """Groups the rows by new keys: ``selector(key, value)`` returns the group's key and the value to aggregate.

        Goes through an internal topic and gives the table a store, since a change of a row must be taken out of its old
        group. A row for which it returns ``None``, or whose new key or value is ``None``, is in no group.

        ::

            per_city = customers.group_by(lambda customer, city: (city, customer)).count()
            # ("ann", "Oslo"), ("bob", "Oslo"), ("ann", "Rome") -> ("Oslo", 1), ("Oslo", 2), ("Oslo", 1), ("Rome", 1)
        """
        how = group_nodes.as_grouped(grouped, "group_by", key_serde, value_serde)
        return KGroupedTable(table_nodes.group_by(self._place, selector, how))


class KGroupedStream(ShownChain, Generic[K, V]):
    """A stream grouped by key. Records with a null key or value are dropped (semantics 23).

    A result has the largest timestamp of its records. With a cache (the default) only the last result of a key is sent
    on per commit; see :class:`~dsl.options.Materialized`.

    ::

        grouped = payments.group_by_key()
        totals = grouped.reduce(lambda total, cents: total + cents)
        largest = grouped.aggregate(int, lambda customer, cents, so_far: max(cents, so_far))
        # ("ann", 300), ("ann", 40) -> totals("ann", 300), totals("ann", 340), largest("ann", 300), largest("ann", 300)
    """

    __slots__ = ("_grouping",)

    def __init__(self, grouping: Grouping) -> None:
        self._grouping = grouping

    @property
    def grouping(self) -> Grouping:
        """The group in the builder's plan, for aggregates that several streams share."""
        return self._grouping

    def count(self, *, name: NamedLike = None, materialized: StoreOptions[K, int] = None) -> KTable[K, int]:
        """Counts the records of each key; counts are written as 64-bit integers unless a serde says otherwise.

        ::

            counts = clicks.group_by_key().count(materialized="clicks-per-user")
            # ("ann", "home"), ("ann", "cart") -> ("ann", 1), ("ann", 2)
        """
        return KTable(group_nodes.count(self._grouping, materialized, name))

    def reduce(
        self, reducer: Callable[[V, V], V | None], *, name: NamedLike = None, materialized: StoreOptions[K, V] = None
    ) -> KTable[K, V]:
        """Combines the values of a key: the first as it is, then ``reducer(so_far, value)``; ``None`` deletes.

        ::

            totals = payments.group_by_key().reduce(lambda total, cents: total + cents)
            # ("ann", 300), ("ann", 40) -> ("ann", 300), ("ann", 340)
        """
        return KTable(group_nodes.reduce(self._grouping, reducer, materialized, name))

    def aggregate(
        self,
        initializer: Callable[[], V2],
        aggregator: Callable[[K, V, V2], V2 | None],
        *,
        name: NamedLike = None,
        materialized: StoreOptions[K, V2] = None,
        value_serde: SerdeLike[V2] | None = None,
    ) -> KTable[K, V2]:
        """Starts a key with ``initializer()``, continues with ``aggregator(key, value, so_far)``; ``None`` deletes.

        ::

            pages = clicks.group_by_key().aggregate(list, lambda user, page, pages: [*pages, page])
            # ("ann", "home"), ("ann", "cart") -> ("ann", ["home"]), ("ann", ["home", "cart"])
        """
        store = of_aggregates(materialized, value_serde)
        return KTable(group_nodes.aggregate(self._grouping, initializer, aggregator, store, name))

    @overload
    def windowed_by(self, windows: Windows | SlidingWindows) -> TimeWindowedKStream[K, V]: ...
    @overload
    def windowed_by(self, windows: SessionWindows) -> SessionWindowedKStream[K, V]: ...
    def windowed_by(
        self, windows: Windows | SlidingWindows | SessionWindows
    ) -> TimeWindowedKStream[K, V] | SessionWindowedKStream[K, V]:
        """Groups the records of each key by windows of time too.

        ::

            minutes = TimeWindows.of_size_with_no_grace(timedelta(minutes=1))
            counts = clicks.group_by_key().windowed_by(minutes).count()
            # ("ann", "home") @ 1_000, ("ann", "cart") @ 2_000, ("ann", "home") @ 61_000
            #   -> (("ann", (0, 60_000)), 1), (("ann", (0, 60_000)), 2), (("ann", (60_000, 120_000)), 1)

        :param windows: :class:`~dsl.windows.definitions.TimeWindows` (tumbling, hopping), ``SlidingWindows``,
            ``SessionWindows``, ``UnlimitedWindows``, or ``Windows`` of your own.
        :raises TopologyError: if they are none of these.
        """
        windowed = aggregations.window(self._grouping, windows)
        if isinstance(windows, SessionWindows):
            return SessionWindowedKStream(windowed)
        return TimeWindowedKStream(windowed)

    def cogroup(self, aggregator: Callable[[K, V, V2], V2 | None]) -> CogroupedKStream[K, V2]:
        """Begins an aggregate that several grouped streams share (KIP-150).

        ::

            paid = payments.group_by_key().cogroup(lambda customer, cents, total: total + cents)
            both = paid.cogroup(refunds.group_by_key(), lambda customer, cents, total: total - cents)
            balances = both.aggregate(int)
            # payments("ann", 300), refunds("ann", 100) -> ("ann", 300), ("ann", 200)

        :param aggregator: ``(key, value, so_far)`` to the new aggregate, for the records of this stream.
        """
        return CogroupedKStream(cogroup_nodes.cogroup(None, self._grouping, aggregator))


class CogroupedKStream(ShownChain, Generic[K, V]):
    """Grouped streams that are aggregated into one table. Their topics must have equal numbers of partitions.

    ::

        paid = payments.group_by_key().cogroup(lambda customer, cents, total: total + cents)
        balances = paid.cogroup(refunds.group_by_key(), lambda customer, cents, total: total - cents).aggregate(int)
        # payments("ann", 300), refunds("ann", 100) -> ("ann", 300), ("ann", 200)
    """

    __slots__ = ("_cogrouping",)

    def __init__(self, cogrouping: Cogrouping) -> None:
        self._cogrouping = cogrouping

    def cogroup(
        self, grouped: KGroupedStream[K, V2], aggregator: Callable[[K, V2, V], V | None]
    ) -> CogroupedKStream[K, V]:
        """Adds another grouped stream, whose records ``aggregator(key, value, so_far)`` adds to the same aggregate.

        ::

            paid = payments.group_by_key().cogroup(lambda customer, cents, total: total + cents)
            both = paid.cogroup(refunds.group_by_key(), lambda customer, cents, total: total - cents)
            balances = both.aggregate(int)
            # refunds("ann", 100), payments("ann", 300) -> ("ann", -100), ("ann", 200)

        :raises TopologyError: if it is none, or comes from another builder.
        """
        if not isinstance(grouped, KGroupedStream):
            raise TopologyError(
                f"a grouped stream can be cogrouped with another grouped stream only, got {repr_of(grouped)}; see"
                " group_by_key"
            )
        return CogroupedKStream(cogroup_nodes.cogroup(self._cogrouping, grouped.grouping, aggregator))

    def aggregate(
        self,
        initializer: Callable[[], V],
        *,
        name: NamedLike = None,
        materialized: StoreOptions[K, V] = None,
        value_serde: SerdeLike[V] | None = None,
    ) -> KTable[K, V]:
        """Aggregates the records of each key: it starts with ``initializer()``; an aggregate of ``None`` deletes.

        ::

            paid = payments.group_by_key().cogroup(lambda customer, cents, total: total + cents)
            balances = paid.aggregate(lambda: 0, materialized="balances")
            # ("ann", 300), ("ann", 40) -> ("ann", 300), ("ann", 340)
        """
        store = of_aggregates(materialized, value_serde)
        return KTable(cogroup_nodes.aggregate(self._cogrouping, initializer, store, name))

    @overload
    def windowed_by(self, windows: Windows | SlidingWindows) -> TimeWindowedCogroupedKStream[K, V]: ...
    @overload
    def windowed_by(self, windows: SessionWindows) -> SessionWindowedCogroupedKStream[K, V]: ...
    def windowed_by(
        self, windows: Windows | SlidingWindows | SessionWindows
    ) -> TimeWindowedCogroupedKStream[K, V] | SessionWindowedCogroupedKStream[K, V]:
        """Groups the records of each key by windows of time too; see :meth:`KGroupedStream.windowed_by`.

        ::

            paid = payments.group_by_key().cogroup(lambda customer, cents, total: total + cents)
            days = TimeWindows.of_size_with_no_grace(timedelta(days=1))
            balances = paid.windowed_by(days).aggregate(int)
            # ("ann", 300) @ 0, ("ann", 40) @ 90_000_000
            #   -> (("ann", (0, 86_400_000)), 300), (("ann", (86_400_000, 172_800_000)), 40)
        """
        windowed = windowed_cogroup.window_all(self._cogrouping, windows)
        if isinstance(windows, SessionWindows):
            return SessionWindowedCogroupedKStream(windowed)
        return TimeWindowedCogroupedKStream(windowed)


class TimeWindowedCogroupedKStream(ShownChain, Generic[K, V]):
    """Grouped streams that are aggregated into one table, in windows of time.

    ::

        paid = payments.group_by_key().cogroup(lambda customer, cents, total: total + cents)
        both = paid.cogroup(refunds.group_by_key(), lambda customer, cents, total: total - cents)
        days = TimeWindows.of_size_with_no_grace(timedelta(days=1))
        balances = both.windowed_by(days).aggregate(int)
        # payments("ann", 300) @ 0, refunds("ann", 100) @ 5_000
        #   -> (("ann", (0, 86_400_000)), 300), (("ann", (0, 86_400_000)), 200)
    """

    __slots__ = ("_windowed",)

    def __init__(self, windowed: WindowedCogrouping) -> None:
        self._windowed = windowed

    def aggregate(
        self,
        initializer: Callable[[], V],
        *,
        name: NamedLike = None,
        materialized: StoreOptions[K, V] = None,
        value_serde: SerdeLike[V] | None = None,
    ) -> KTable[Windowed[K], V]:
        """Aggregates the records of each key and window: it starts with ``initializer()``; ``None`` deletes.

        ::

            paid = payments.group_by_key().cogroup(lambda customer, cents, total: total + cents)
            minutes = TimeWindows.of_size_with_no_grace(timedelta(minutes=1))
            balances = paid.windowed_by(minutes).aggregate(lambda: 0, materialized="balances")
            # ("ann", 300) @ 0, ("ann", 40) @ 9_000 -> (("ann", (0, 60_000)), 300), (("ann", (0, 60_000)), 340)
        """
        functions = Functions(initializer=initializer)
        store = of_aggregates(materialized, value_serde)
        return KTable(windowed_cogroup.aggregate(self._windowed, functions, store, name))


class SessionWindowedCogroupedKStream(ShownChain, Generic[K, V]):
    """Grouped streams that are aggregated into one table, in sessions.

    ::

        paid = payments.group_by_key().cogroup(lambda customer, cents, total: total + cents)
        both = paid.cogroup(refunds.group_by_key(), lambda customer, cents, total: total - cents)
        sessions = SessionWindows.of_inactivity_gap_with_no_grace(timedelta(minutes=5))
        balances = both.windowed_by(sessions).aggregate(int, lambda customer, one, other: one + other)
        # payments("ann", 300) @ 0 -> (("ann", (0, 0)), 300)
    """

    __slots__ = ("_windowed",)

    def __init__(self, windowed: WindowedCogrouping) -> None:
        self._windowed = windowed

    def aggregate(
        self,
        initializer: Callable[[], V],
        session_merger: Callable[[K, V, V], V | None],
        *,
        name: NamedLike = None,
        materialized: StoreOptions[K, V] = None,
        value_serde: SerdeLike[V] | None = None,
    ) -> KTable[Windowed[K], V]:
        """Aggregates the records of each key and session: it starts with ``initializer()``; ``None`` deletes.

        ::

            paid = payments.group_by_key().cogroup(lambda customer, cents, total: total + cents)
            sessions = SessionWindows.of_inactivity_gap_with_no_grace(timedelta(minutes=5))
            balances = paid.windowed_by(sessions).aggregate(lambda: 0, lambda customer, one, other: one + other)
            # ("ann", 300) @ 0, ("ann", 40) @ 9_000
            #   -> (("ann", (0, 0)), 300), (("ann", (0, 0)), None), (("ann", (0, 9_000)), 340)

        :param session_merger: ``(key, aggregate, other)`` to the aggregate of two sessions that a record joins.
        """
        functions = Functions(initializer=initializer, merger=session_merger)
        store = of_aggregates(materialized, value_serde)
        return KTable(windowed_cogroup.aggregate(self._windowed, functions, store, name))


class WindowedKStream(ShownChain, Generic[K, V]):
    """A stream grouped by key and by windows of any kind: the part that windows of time and sessions share.

    The tables have keys that are :class:`~processor_api.stores.windowed.Windowed`: ``key`` and ``window.start``,
    ``window.end`` in ms.

    ::

        minutes = TimeWindows.of_size_with_no_grace(timedelta(minutes=1))
        per_minute = clicks.group_by_key().windowed_by(minutes)
        counts = per_minute.count()
        # ("ann", "home") @ 61_000 -> (("ann", (60_000, 120_000)), 1)
    """

    __slots__ = ("_windowed",)

    def __init__(self, windowed: WindowedGrouping) -> None:
        self._windowed = windowed

    def emit_strategy(self, strategy: EmitStrategy) -> Self:
        """Returns the same windows with another rule for when results are sent on (KIP-825).

        ::

            minutes = TimeWindows.of_size_with_no_grace(timedelta(minutes=1))
            windowed = clicks.group_by_key().windowed_by(minutes)
            final = windowed.emit_strategy(EmitStrategy.on_window_close()).count()
            # ("ann", "home") @ 0, ("ann", "cart") @ 9_000, ("bob", "home") @ 60_000 -> (("ann", (0, 60_000)), 2)

        :param strategy: :meth:`EmitStrategy.on_window_close() <dsl.windows.definitions.EmitStrategy.on_window_close>`
            sends each result once, when its window has closed; ``on_window_update()``, the default, each update.
        :raises TopologyError: if windows of the user's own or unlimited ones are to close.
        """
        return type(self)(aggregations.emit(self._windowed, strategy))

    def count(self, *, name: NamedLike = None, materialized: StoreOptions[K, int] = None) -> KTable[Windowed[K], int]:
        """Counts the records of each key and window, as 64-bit integers unless a serde says otherwise.

        ::

            sessions = SessionWindows.of_inactivity_gap_with_no_grace(timedelta(minutes=5))
            counts = clicks.group_by_key().windowed_by(sessions).count()
            # ("ann", "home") @ 0, ("ann", "cart") @ 9_000
            #   -> (("ann", (0, 0)), 1), (("ann", (0, 0)), None), (("ann", (0, 9_000)), 2)
        """
        return KTable(aggregations.count(self._windowed, materialized, name))

    def reduce(
        self, reducer: Callable[[V, V], V | None], *, name: NamedLike = None, materialized: StoreOptions[K, V] = None
    ) -> KTable[Windowed[K], V]:
        """Combines the values of a key and window: the first as it is, then ``reducer(so_far, value)``.

        The results of sessions that merge are combined by it too.

        ::

            minutes = TimeWindows.of_size_with_no_grace(timedelta(minutes=1))
            hottest = readings.group_by_key().windowed_by(minutes).reduce(max)
            # ("roof", 40) @ 0, ("roof", 12) @ 9_000 -> (("roof", (0, 60_000)), 40), (("roof", (0, 60_000)), 40)
        """
        return KTable(aggregations.reduce(self._windowed, reducer, materialized, name))


class TimeWindowedKStream(WindowedKStream[K, V]):
    """A stream grouped by key and by windows of time.

    A window takes records until stream time, seen by the operator, has passed its end by the grace period; records that
    come later count as dropped. A result has the largest timestamp of its records.

    ::

        minutes = TimeWindows.of_size_with_no_grace(timedelta(minutes=1))
        per_minute = readings.group_by_key().windowed_by(minutes)
        hottest = per_minute.reduce(max)
        # ("roof", 12) @ 0, ("roof", 40) @ 9_000 -> (("roof", (0, 60_000)), 12), (("roof", (0, 60_000)), 40)
    """

    __slots__ = ()

    def aggregate(
        self,
        initializer: Callable[[], V2],
        aggregator: Callable[[K, V, V2], V2 | None],
        *,
        name: NamedLike = None,
        materialized: StoreOptions[K, V2] = None,
        value_serde: SerdeLike[V2] | None = None,
    ) -> KTable[Windowed[K], V2]:
        """Starts each window with ``initializer()``, continues with ``aggregator(key, value, so_far)``.

        ``None`` deletes.

        ::

            minutes = TimeWindows.of_size_with_no_grace(timedelta(minutes=1))
            pages = clicks.group_by_key().windowed_by(minutes).aggregate(list, lambda user, page, pages: [*pages, page])
            # ("ann", "home") @ 0, ("ann", "cart") @ 9_000
            #   -> (("ann", (0, 60_000)), ["home"]), (("ann", (0, 60_000)), ["home", "cart"])
        """
        functions = Functions(initializer=initializer, aggregator=aggregator)
        store = of_aggregates(materialized, value_serde)
        return KTable(aggregations.aggregate(self._windowed, functions, store, name))


class SessionWindowedKStream(WindowedKStream[K, V]):
    """A stream grouped by key and by sessions: records with no longer pause between them than the inactivity gap.

    Both ends of a session are records of it. A session that grows is deleted and comes back with other bounds. A result
    has the end of its session as timestamp.

    ::

        sessions = SessionWindows.of_inactivity_gap_with_no_grace(timedelta(minutes=5))
        visits = clicks.group_by_key().windowed_by(sessions)
        lengths = visits.count().to_stream().filter(lambda windowed, count: count is not None)
        # ("ann", "home") @ 0, ("ann", "cart") @ 9_000 -> (("ann", (0, 0)), 1), (("ann", (0, 9_000)), 2)
    """

    __slots__ = ()

    def aggregate(
        self,
        initializer: Callable[[], V2],
        aggregator: Callable[[K, V, V2], V2 | None],
        session_merger: Callable[[K, V2, V2], V2 | None],
        *,
        name: NamedLike = None,
        materialized: StoreOptions[K, V2] = None,
        value_serde: SerdeLike[V2] | None = None,
    ) -> KTable[Windowed[K], V2]:
        """Aggregates the records of each key and session.

        ::

            sessions = SessionWindows.of_inactivity_gap_with_no_grace(timedelta(minutes=5))
            visits = clicks.group_by_key().windowed_by(sessions)
            pages = visits.aggregate(list, lambda user, page, seen: [*seen, page], lambda user, one, other: one + other)
            # ("ann", "home") @ 0, ("ann", "cart") @ 9_000
            #   -> (("ann", (0, 0)), ["home"]), (("ann", (0, 0)), None), (("ann", (0, 9_000)), ["home", "cart"])

        :param initializer: makes the value that a session begins with.
        :param aggregator: ``(key, value, so_far)`` to the new aggregate; ``None`` deletes the session.
        :param session_merger: ``(key, aggregate, other)`` to the aggregate of both: it is called with the initializer's
            value first, then with those of the sessions that a record joins, the oldest first.
        """
        functions = Functions(initializer=initializer, aggregator=aggregator, merger=session_merger)
        store = of_aggregates(materialized, value_serde)
        return KTable(aggregations.aggregate(self._windowed, functions, store, name))


class KGroupedTable(ShownChain, Generic[K, V]):
    """A table grouped by new keys. Every change takes the old value out of its group and puts the new one in.

    ::

        by_city = customers.group_by(lambda customer, city: (city, customer))
        counts = by_city.count()
        # ("ann", "Oslo"), ("bob", "Oslo"), ("ann", "Rome") -> ("Oslo", 1), ("Oslo", 2), ("Oslo", 1), ("Rome", 1)
    """

    __slots__ = ("_grouping",)

    def __init__(self, grouping: TableGrouping) -> None:
        self._grouping = grouping

    def count(self, *, name: NamedLike = None, materialized: StoreOptions[K, int] = None) -> KTable[K, int]:
        """Counts the rows of each group; counts are written as 64-bit integers unless a serde says otherwise.

        ::

            per_city = customers.group_by(lambda customer, city: (city, customer)).count()
            # ("ann", "Oslo"), ("ann", "Rome") -> ("Oslo", 1), ("Oslo", 0), ("Rome", 1)
        """
        return KTable(table_nodes.count(self._grouping, materialized, name))

    def reduce(
        self,
        adder: Callable[[V, V], V | None],
        subtractor: Callable[[V, V], V | None],
        *,
        name: NamedLike = None,
        materialized: StoreOptions[K, V] = None,
    ) -> KTable[K, V]:
        """Combines the values of a group: ``subtractor(so_far, old)`` first, then ``adder(so_far, new)``.

        ::

            by_letter = stock.group_by(lambda item, count: (item[0], count))
            totals = by_letter.reduce(lambda total, count: total + count, lambda total, count: total - count)
            # ("tea", 3), ("toast", 4), ("tea", 1) -> ("t", 3), ("t", 7), ("t", 5)
        """
        return KTable(table_nodes.reduce(self._grouping, adder, subtractor, materialized, name))

    def aggregate(
        self,
        initializer: Callable[[], V2],
        adder: Callable[[K, V, V2], V2 | None],
        subtractor: Callable[[K, V, V2], V2 | None],
        *,
        name: NamedLike = None,
        materialized: StoreOptions[K, V2] = None,
        value_serde: SerdeLike[V2] | None = None,
    ) -> KTable[K, V2]:
        """Starts a group with ``initializer()``; a change is ``subtractor(key, old, so_far)``, then ``adder`` likewise.

        An aggregate of ``None`` deletes the group.

        ::

            by_city = customers.group_by(lambda customer, city: (city, customer))
            names = by_city.aggregate(
                list,
                lambda city, name, names: [*names, name],
                lambda city, name, names: [one for one in names if one != name],
            )
            # ("ann", "Oslo"), ("ann", "Rome") -> ("Oslo", ["ann"]), ("Oslo", []), ("Rome", ["ann"])
        """
        store = of_aggregates(materialized, value_serde)
        return KTable(table_nodes.aggregate(self._grouping, initializer, adder, subtractor, store, name))
