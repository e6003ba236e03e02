"""The DSL: streams and tables, a plan of what to do with them, and its compilation to a topology.

::

    from dsl import Consumed, StreamsBuilder
    from processor_api.serde import Serdes

    builder = StreamsBuilder()
    orders = builder.stream("orders", Consumed(key_serde=Serdes.STRING, value_serde=Serdes.LONG))
    orders.filter(lambda customer, cents: cents > 0).group_by_key().reduce(lambda a, b: a + b).to_stream().to("totals")
    topology = builder.build()

Calls only collect (:mod:`dsl.plan.nodes`); ``build`` runs the passes over the plan and compiles it
(:mod:`dsl.compiler.compile`). Operators are in :mod:`dsl.processors`.
"""

from __future__ import annotations

from dsl.batch_processor import BatchProcessor
from dsl.branch import BranchedKStream
from dsl.builder import StreamsBuilder
from dsl.global_ktable import GlobalKTable
from dsl.joins.foreign_key import TableJoined
from dsl.joins.join_windows import JoinWindows
from dsl.joins.options import Joined, StreamJoined
from dsl.mistakes.words import answer_other_words
from dsl.options import Branched, Consumed, Grouped, Materialized, Named, Produced, Repartitioned
from dsl.printed import Printed
from dsl.streams import (
    CogroupedKStream,
    KGroupedStream,
    KGroupedTable,
    KStream,
    KTable,
    SessionWindowedCogroupedKStream,
    SessionWindowedKStream,
    TimeWindowedCogroupedKStream,
    TimeWindowedKStream,
)
from dsl.suppressed import BufferConfig, EagerBufferConfig, StrictBufferConfig, Suppressed
from dsl.value_transformer import ValueTransformerContext, ValueTransformerWithKey
from dsl.windows.definitions import EmitStrategy, SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows, Windows

_CHAINS: tuple[type, ...] = (
    BranchedKStream, CogroupedKStream, GlobalKTable, KGroupedStream, KGroupedTable, KStream, KTable,
    SessionWindowedCogroupedKStream, SessionWindowedKStream, StreamsBuilder, TimeWindowedCogroupedKStream,
    TimeWindowedKStream,
)  # fmt: skip
answer_other_words(*_CHAINS)

__all__ = [
    "BatchProcessor",
    "Branched",
    "BranchedKStream",
    "BufferConfig",
    "CogroupedKStream",
    "Consumed",
    "EagerBufferConfig",
    "EmitStrategy",
    "GlobalKTable",
    "Grouped",
    "JoinWindows",
    "Joined",
    "KGroupedStream",
    "KGroupedTable",
    "KStream",
    "KTable",
    "Materialized",
    "Named",
    "Printed",
    "Produced",
    "Repartitioned",
    "SessionWindowedCogroupedKStream",
    "SessionWindowedKStream",
    "SessionWindows",
    "SlidingWindows",
    "StreamJoined",
    "StreamsBuilder",
    "StrictBufferConfig",
    "Suppressed",
    "TableJoined",
    "TimeWindowedCogroupedKStream",
    "TimeWindowedKStream",
    "TimeWindows",
    "UnlimitedWindows",
    "ValueTransformerContext",
    "ValueTransformerWithKey",
    "Windows",
]
