"""The nodes that joins of two streams add to the plan, named as Kafka Streams names them (semantics 132)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dsl.joins.join_windows import JoinWindows
from dsl.joins.options import JoinArguments, JoinKind, StreamJoined
from dsl.joins.repartition import repartitioned
from dsl.joins.stores import JoinWindowStore, UnmatchedStore, check_supplier
from dsl.options import chosen
from dsl.plan.builder import PlanPlace
from dsl.plan.nodes import Process
from dsl.processors.joins.self_join import JoinResults, SelfJoin
from dsl.processors.joins.stream_stream import StreamJoinSide, StreamJoinStore
from dsl.processors.joins.unmatched import Unmatched
from processor_api.errors import TopologyError
from processor_api.stores.suppliers import StoreSupplier
from processor_api.texts import repr_of

WINDOWED = "KSTREAM-WINDOWED-"


@dataclass(frozen=True, kw_only=True)
class _Sides:
    """Holds both sides of a join: where they come from, what their nodes and stores are called, and what they need."""

    kind: JoinKind
    windows: JoinWindows
    how: StreamJoined[Any, Any, Any]
    left: PlanPlace
    right: PlanPlace
    this_name: str
    """The name that the left side would have without one of the user's; the right side's is ``other_name``."""
    other_name: str

    @property
    def this_suffix(self) -> str:
        return "-outer-this-join" if self.kind.keeps_right else "-this-join"

    @property
    def other_suffix(self) -> str:
        return "-outer-other-join" if self.kind.keeps_left else "-other-join"

    def this_store(self) -> JoinWindowStore:
        supplier = self.how.this_store_supplier
        return self._store(self.this_name, self.this_suffix, supplier, self.left)

    def other_store(self) -> JoinWindowStore:
        supplier = self.how.other_store_supplier
        return self._store(self.other_name, self.other_suffix, supplier, self.right)

    def _store(self, generated: str, suffix: str, supplier: StoreSupplier | None, side: PlanPlace) -> JoinWindowStore:
        how = self.how
        if supplier is not None:
            check_supplier(supplier, self.windows)
        base = generated if how.store_name is None else how.store_name + suffix
        return JoinWindowStore(
            name=f"{base}-store" if supplier is None else supplier.name,
            named=supplier is not None or how.store_name is not None,
            windows=self.windows,
            key_serde=self.left.key_serde,
            value_serde=side.value_serde,
            supplier=supplier,
            store_type=how.store_type,
            logging=how.logging,
            topic_config=how.topic_config,
        )

    def unmatched_store(self, this_store: JoinWindowStore) -> UnmatchedStore | None:
        if not self.kind.keeps_left or self.windows.emits_early:
            return None
        supplier = self.how.this_store_supplier
        given = self.how.store_name if supplier is None else supplier.name
        if given is None:
            # The number of the left side's join, as in Kafka Streams: the store has none of its own.
            name = f"KSTREAM-OUTERSHARED-{self.this_name.rpartition('-')[2]}"
        else:
            name = given + ("-outer-shared-join" if self.kind.keeps_right else "-left-shared-join")
        return UnmatchedStore(
            name=f"{name}-store",
            named=given is not None,
            left=this_store,
            key_serde=self.left.key_serde,
            right_value_serde=self.right.value_serde,
        )


def join(left: PlanPlace, right: PlanPlace, kind: JoinKind, given: JoinArguments) -> PlanPlace:
    """Adds a join of two streams, with repartition topics where keys have changed.

    :raises TopologyError: if the streams come from different builders, there are no windows, or a store that the user
        supplies does not fit them.
    """
    given.only("a stream", "windows", "joined")
    left.same_builder(right)
    if not isinstance(given.windows, JoinWindows):
        raise TopologyError(
            f"a join of {left.name!r} and {right.name!r} needs windows="
            f"JoinWindows.of_time_difference_with_no_grace(...), got {repr_of(given.windows)}"
        )
    how = _options(given.joined)
    names, name = left.plan_builder.names, how.name
    left_topic, right_topic = (None, None) if name is None else (f"{name}-left", f"{name}-right")
    left = repartitioned(left, left_topic, how.key_serde, how.value_serde)
    right = repartitioned(right, right_topic, how.key_serde, how.other_value_serde)
    # From here on each line takes a number of the builder: in Kafka Streams' order, and also where it is not used.
    windowed = names.suffixed(name, "-this-windowed", WINDOWED), names.suffixed(name, "-other-windowed", WINDOWED)
    sides = _Sides(
        kind=kind,
        windows=given.windows,
        how=how,
        left=left,
        right=right,
        this_name=names.processor("KSTREAM-OUTERTHIS-" if kind.keeps_right else "KSTREAM-JOINTHIS-"),
        other_name=names.processor("KSTREAM-OUTEROTHER-" if kind.keeps_left else "KSTREAM-JOINOTHER-"),
    )
    merge = names.suffixed(name, "-merge", "KSTREAM-MERGE-")
    return _add(sides, given, windowed, merge)


def _options(joined: Any) -> StreamJoined[Any, Any, Any]:
    return StreamJoined(name=joined) if isinstance(joined, str) else chosen(joined, StreamJoined)


def _add(sides: _Sides, given: JoinArguments, windowed: tuple[str, str], merge: str) -> PlanPlace:
    kind, windows, left = sides.kind, sides.windows, sides.left
    builder, name = left.plan_builder, sides.how.name
    this, other = sides.this_store(), sides.other_store()
    waiting = sides.unmatched_store(this)
    shared = () if waiting is None else (waiting,)
    this_kept, other_kept = (
        builder.add(
            Process(name=node, parents=(side.node,), supplier=StreamJoinStore(store=store.name), own_stores=(store,))
        )
        for node, side, store in zip(windowed, (left, sides.right), (this, other), strict=True)
    )
    this_join = Process(
        name=sides.this_name if name is None else name + sides.this_suffix,
        parents=(this_kept,),
        supplier=_side(sides, given, waiting, from_left=True, other_store=other.name),
        stores=(other.name,),
        own_stores=shared,
        takes_null_keys=kind.keeps_left,
    )
    other_join = Process(
        name=sides.other_name if name is None else name + sides.other_suffix,
        parents=(other_kept,),
        supplier=_side(sides, given, waiting, from_left=False, other_store=this.name),
        stores=(this.name, *(store.name for store in shared)),
        takes_null_keys=kind.keeps_left,
    )
    alone = SelfJoin(
        joiner=given.joiner,
        takes_key=kind.takes_key,
        store=this.name,
        before_ms=windows.before_ms,
        after_ms=windows.after_ms,
        keeps_left=kind.keeps_left,
        keeps_right=kind.keeps_right,
    )
    results = Process(
        name=merge,
        parents=(builder.add(this_join), builder.add(other_join)),
        supplier=JoinResults(alone=alone if _can_do_with_one_store(alone, windows) else None),
        copartitions=True,
    )
    follow = builder.models.value(given.joiner)
    return left.then(results, sources=left.sources | sides.right.sources, value_serde=follow)


def _can_do_with_one_store(join: SelfJoin, windows: JoinWindows) -> bool:
    """Whether no record has to wait for a partner, since it is its own."""
    return not join.keeps_left or (join.meets_itself and not windows.emits_early)


def _side(
    sides: _Sides, given: JoinArguments, waiting: UnmatchedStore | None, *, from_left: bool, other_store: str
) -> StreamJoinSide:
    kind, windows = sides.kind, sides.windows
    unmatched = None
    if waiting is not None:
        unmatched = Unmatched(
            store=waiting.name,
            left_wait_ms=windows.after_ms + windows.grace_ms,
            right_wait_ms=windows.before_ms + windows.grace_ms,
        )
    return StreamJoinSide(
        joiner=given.joiner,
        takes_key=kind.takes_key,
        from_left=from_left,
        keeps=kind.keeps_left if from_left else kind.keeps_right,
        # Seen from a right record, what is before and what is after change places.
        before_ms=windows.before_ms if from_left else windows.after_ms,
        after_ms=windows.after_ms if from_left else windows.before_ms,
        other_store=other_store,
        unmatched=unmatched,
    )
