"""Counts visits on a storage engine of one's own, and visitors in a store of one's own."""

from sets_store import SetsStore
from sqlite_engine import SqliteEngine

from streams import (
    Processor,
    ProcessorContext,
    Record,
    Serdes,
    Stores,
    Topology,
)
from streams.engines import register_engine

TEXT, NUMBER = Serdes.STRING, Serdes.LONG

register_engine("sqlite", SqliteEngine)


class Count(Processor[str, str, str, str]):
    """Counts records, which are visitors of pages."""

    def init(self, context: ProcessorContext[str, str]) -> None:
        self.context = context
        self.visits = context.get_state_store("visits")
        self.visitors = context.get_state_store("visitors")

    def process(self, record: Record[str, str]) -> None:
        page, visitor = record.key, record.value
        visits = (self.visits.get(page) or 0) + 1
        self.visits.put(page, visits)
        self.visitors.add(page, visitor)
        summary = f"{visits} visits of {len(self.visitors.values(page))} visitors"
        self.context.forward(Record(page, summary, record.timestamp))


def topology() -> Topology:
    visits = Stores.persistent_key_value_store("visits").on_engine("sqlite")
    return (
        Topology()
        .add_source("pages", "visits", key_serde=TEXT, value_serde=TEXT)
        .add_processor("count", Count, "pages")
        .add_state_store(Stores.key_value_store_builder(visits, TEXT, NUMBER), "count")
        .add_state_store(Stores.custom("visitors", lambda: SetsStore("visitors")), "count")
        .add_sink("summaries", "visits-and-visitors", "count", key_serde=TEXT, value_serde=TEXT)
    )
